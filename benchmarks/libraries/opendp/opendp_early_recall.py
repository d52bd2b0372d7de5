"""OpenDP before release 0.6, whose relations are asked whether they hold; the claim is the smallest
epsilon that they accept.
"""

import functools
import math

import numpy as np
from library_target import target
from opendp import meas, mod, trans

LIBRARY = "opendp"

mod.enable_features("contrib", "floating-point")


def _smallest(holds):
    """Smallest number that a relation accepts, to 1e-6 and never below it; some relations accept no
    number above 1.
    """
    low, high = next(
        (2.0 ** (power - 1), 2.0**power) for power in range(-6, 7) if holds(2.0**power)
    )
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@functools.lru_cache(None)
def _response():
    return meas.make_randomized_response_bool(0.75)


@target(f"pure:{math.log(3)!r}", kind="Records", size=1, low=0, high=1, integer=True, seeded=False)
def response_bool(dataset, size, rng):
    """make_randomized_response_bool, which keeps the answer with probability 0.75."""
    return np.array([int(_response()(bool(dataset[0]))) for _ in range(size)])


@functools.lru_cache(None)
def _laplace():
    return meas.make_base_laplace(1.0)


@target("pure:1", kind="Answers", length=1, low=-10, high=10, relation="l1", seeded=False)
def laplace(dataset, size, rng):
    """make_base_laplace with scale 1 on one float."""
    return np.array([_laplace()(float(dataset[0])) for _ in range(size)])


@functools.lru_cache(None)
def _stable_counts():
    """Counts of keys that are not public, by the constructor that the release has."""
    if hasattr(meas, "make_base_stability"):
        return trans.make_count_by(5, "L1Distance<f64>", "i32") >> meas.make_base_stability(
            5, 1.0, 6.0, "L1Distance<f64>", "i32"
        )
    return trans.make_count_by("L1Distance<f64>", "i32", "f64") >> meas.make_base_ptr(
        1.0, 6.0, "i32"
    )


def _stable_claim():
    epsilon = _smallest(lambda value: _stable_counts().check(2, (value, 0.001)))
    return f"approx:{epsilon!r},0.001"


@target(_stable_claim, kind="Records", size=5, low=0, high=2, categories=True, seeded=False)
def stable_counts(dataset, size, rng):
    """Noisy counts of the keys of five rows whose noisy count is at least 6; delta 0.001."""
    rows = [int(value) for value in dataset]
    found = [_stable_counts()(rows) for _ in range(size)]
    return [[release.get(key) for key in range(3)] for release in found]
