"""diffpriv-pure 0.1.0: sums, means and counts. All noise is Python's module `random`."""

import random

import numpy as np
from diffpriv_pure import private_count, private_mean, private_sum

LIBRARY = "diffpriv-pure"
TESTED = ">=0.1,<0.2"
INSTALL = "pip install diffpriv-pure==0.1.0"


def _target(claim, cause="", **domain):
    def declare(function):
        function.claim, function.domain, function.cause = claim, domain, cause
        return function

    return declare


def _runs(one, size, rng):
    random.seed(int(rng.integers(2**63)))
    return np.array([one() for _ in range(size)])


_LOW_BITS = (
    "Noise is added to the answer as a 64-bit float and not rounded to a grid (Mironov 2012)."
)
_UNIT = {"kind": "Records", "size": 5, "low": 0, "high": 1}


@_target("pure:1", _LOW_BITS, **_UNIT, outside=True)
def total(dataset, size, rng):
    """private_sum of 5 numbers clamped to [0, 1], epsilon 1; one replaced."""
    values = np.asarray(dataset, dtype=float).tolist()
    return _runs(lambda: private_sum(values, (0.0, 1.0), 1.0), size, rng)


@_target("approx:1,1e-5", _LOW_BITS, **_UNIT)
def total_gaussian(dataset, size, rng):
    """private_sum of 5 numbers in [0, 1], epsilon 1, delta 1e-5; one replaced."""
    values = np.asarray(dataset, dtype=float).tolist()
    return _runs(lambda: private_sum(values, (0.0, 1.0), 1.0, 1e-5), size, rng)


@_target("pure:1", _LOW_BITS, **_UNIT)
def mean(dataset, size, rng):
    """private_mean of 5 numbers in [0, 1], epsilon 1; one replaced."""
    values = np.asarray(dataset, dtype=float).tolist()
    return _runs(lambda: private_mean(values, (0.0, 1.0), 1.0), size, rng)


@_target(
    "pure:1",
    "geometric_noise is never negative: an output below the larger count is impossible there "
    "and likely under the smaller one.",
    kind="Counts",
    length=1,
    low=0,
    high=100,
)
def count(dataset, size, rng):
    """private_count of one count, epsilon 1 ("Shifted geometric for pure ε-DP integer counts")."""
    value = int(dataset[0])
    return _runs(lambda: private_count(value, 1.0), size, rng)
