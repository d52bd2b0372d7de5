"""diffprivlib: noise mechanisms and statistics. Each call makes one random state and draws all its
runs from it.
"""

import warnings

import numpy as np
from diffprivlib import mechanisms, tools
from diffprivlib.utils import PrivacyLeakWarning

LIBRARY = "diffprivlib"
TESTED = ">=0.6.6,<0.7"
INSTALL = "pip install diffprivlib==0.6.6 scikit-learn==1.7.2"

# a warning that privacy is lost would make the claim void
warnings.simplefilter("error", PrivacyLeakWarning)


def _target(claim, cause="", **domain):
    def declare(function):
        function.claim, function.domain, function.cause = claim, domain, cause
        return function

    return declare


def _state(rng):
    return np.random.RandomState(rng.integers(2**32, dtype=np.uint64))


_LOW_BITS = (
    "Noise is added to the answer as a 64-bit float and not rounded to a grid. Neighbouring "
    "answers then reach different sets of floats: "
    "outputs with fine low bits are possible under the answer nearer to 0 only (Mironov 2012)."
)
_REAL = {"kind": "Answers", "length": 1, "low": -10, "high": 10, "relation": "l1"}
_WHOLE = {"kind": "Counts", "length": 1, "low": 0, "high": 100}


def _runs(mechanism, value, size):
    return np.array([mechanism.randomise(value) for _ in range(size)])


def _noise(name, claim, cause, domain, **parameters):
    """A target for a mechanism that adds noise to one number."""

    def function(dataset, size, rng):
        mechanism = getattr(mechanisms, name)(random_state=_state(rng), **parameters)
        value = int(dataset[0]) if domain["kind"] == "Counts" else float(dataset[0])
        return _runs(mechanism, value, size)

    function.__doc__ = f"mechanisms.{name}({', '.join(f'{k}={v}' for k, v in parameters.items())})."
    return _target(claim, cause, **domain)(function)


_bounds = {"lower": -10.0, "upper": 10.0}
laplace = _noise("Laplace", "pure:1", _LOW_BITS, _REAL, epsilon=1.0, sensitivity=1.0)
laplace_truncated = _noise(
    "LaplaceTruncated", "pure:1", _LOW_BITS, _REAL, epsilon=1.0, sensitivity=1.0, **_bounds
)
laplace_folded = _noise(
    "LaplaceFolded", "pure:1", _LOW_BITS, _REAL, epsilon=1.0, sensitivity=1.0, **_bounds
)
laplace_bounded_domain = _noise(
    "LaplaceBoundedDomain", "pure:1", _LOW_BITS, _REAL, epsilon=1.0, sensitivity=1.0, **_bounds
)
laplace_bounded_noise = _noise(
    "LaplaceBoundedNoise",
    "approx:1,0.01",
    _LOW_BITS,
    _REAL,
    epsilon=1.0,
    delta=0.01,
    sensitivity=1.0,
)
staircase = _noise("Staircase", "pure:1", _LOW_BITS, _REAL, epsilon=1.0, sensitivity=1.0)
gaussian = _noise(
    "Gaussian", "approx:1,1e-5", _LOW_BITS, _REAL, epsilon=1.0, delta=1e-5, sensitivity=1.0
)
gaussian_analytic = _noise(
    "GaussianAnalytic", "approx:1,1e-5", _LOW_BITS, _REAL, epsilon=1.0, delta=1e-5, sensitivity=1.0
)
snapping = _noise("Snapping", "pure:1", "", _REAL, epsilon=1.0, sensitivity=1.0, **_bounds)
geometric = _noise("Geometric", "pure:1", "", _WHOLE, epsilon=1.0)
geometric_truncated = _noise(
    "GeometricTruncated", "pure:1", "", _WHOLE, epsilon=1.0, lower=0, upper=100
)
geometric_folded = _noise("GeometricFolded", "pure:1", "", _WHOLE, epsilon=1.0, lower=0, upper=100)
gaussian_discrete = _noise("GaussianDiscrete", "approx:1,1e-5", "", _WHOLE, epsilon=1.0, delta=1e-5)
geometric_large = _noise(
    "Geometric",
    "pure:1",
    "The noise is added to the integer as a 64-bit float, whose spacing is 256 from 2^60 on: "
    "noise of ordinary size is rounded away, and "
    "integers that round to different floats have different constant outputs.",
    {"kind": "Counts", "length": 1, "low": 0, "high": 2**61},
    epsilon=1.0,
)


@_target("pure:1", kind="Counts", length=4, low=0, high=10, relation="linf")
def exponential(dataset, size, rng):
    """mechanisms.Exponential over four candidates with integer utilities of sensitivity 1."""
    return _runs(
        mechanisms.Exponential(
            epsilon=1.0, sensitivity=1, utility=dataset.tolist(), random_state=_state(rng)
        ),
        None,
        size,
    )


@_target("pure:1", kind="Counts", length=4, low=0, high=10, relation="linf")
def permute_and_flip(dataset, size, rng):
    """mechanisms.PermuteAndFlip over four candidates with integer utilities of sensitivity 1."""
    return _runs(
        mechanisms.PermuteAndFlip(
            epsilon=1.0, sensitivity=1, utility=dataset.tolist(), random_state=_state(rng)
        ),
        None,
        size,
    )


@_target("pure:1", kind="Records", size=1, low=0, high=1, integer=True)
def binary(dataset, size, rng):
    """mechanisms.Binary: randomized response."""
    mechanism = mechanisms.Binary(epsilon=1.0, value0="0", value1="1", random_state=_state(rng))
    return np.array([int(mechanism.randomise(str(int(dataset[0])))) for _ in range(size)])


_UNIT = {"kind": "Records", "low": 0, "high": 1}


def _statistic(function, size, **parameters):
    def run(dataset, size, rng):
        state = _state(rng)
        return np.array(
            [function(dataset, epsilon=1.0, random_state=state, **parameters) for _ in range(size)]
        )

    span = parameters.get("bounds", (0, 1))
    run.__doc__ = f"tools.{function.__name__} of {size} numbers in [{span[0]:g}, {span[1]:g}]."
    return run


mean = _target("pure:1", _LOW_BITS, **_UNIT, size=10)(_statistic(tools.mean, 10, bounds=(0, 1)))
mean_clipped = _target("pure:1", _LOW_BITS, **_UNIT, size=10, outside=True)(
    _statistic(tools.mean, 10, bounds=(0, 1))
)
sum = _target("pure:1", _LOW_BITS, **_UNIT, size=10)(_statistic(tools.sum, 10, bounds=(0, 1)))
var = _target("pure:1", _LOW_BITS, **_UNIT, size=10)(_statistic(tools.var, 10, bounds=(0, 1)))
median = _target(
    "pure:1",
    "The output is a uniform draw scaled to the interval between two records, as a 64-bit "
    "float: its low bits depend on the records.",
    **_UNIT,
    size=10,
)(_statistic(tools.median, 10, bounds=(0, 1)))
mean_missing = _target(
    "pure:1",
    "One NaN among the records makes the mean NaN in every run, so the output says for "
    "certain that a record is missing.",
    **_UNIT,
    size=10,
    missing=True,
)(_statistic(tools.mean, 10, bounds=(0, 1)))
nanmean = _target(
    "pure:1",
    "The sensitivity divides the range by the number of records with the missing ones "
    "counted, while the mean is taken over those that are "
    "present: with 999 NaN among 1,000 records one value decides the mean and the noise is "
    "1,000 times too small.",
    **_UNIT,
    size=1000,
    missing=True,
)(_statistic(tools.nanmean, 1000, bounds=(0, 1)))
count_nonzero = _target("pure:1", "", **_UNIT, size=10, integer=True)(
    _statistic(tools.count_nonzero, 10)
)
quantile_ties = _target(
    "pure:1",
    "Among about 3,000 equal records the weights of the exponential mechanism reach the "
    "smallest float: an interval that has some weight "
    "left for one dataset has none for its neighbour, so its values are impossible there, "
    "and where no weight is left the call raises.",
    kind="Records",
    size=2982,
    low=0,
    high=1e6,
    relation="add-remove",
)(_statistic(tools.median, 2982, bounds=(0, 1e6)))


def _histogram(dataset, size, rng):
    """tools.histogram with 2 bins over [0, 1]."""
    state = _state(rng)
    return np.array(
        [
            tools.histogram(dataset, epsilon=1.0, bins=2, range=(0, 1), random_state=state)[0]
            for _ in range(size)
        ]
    )


@_target("pure:1", **_UNIT, size=10, relation="add-remove")
def histogram(dataset, size, rng):
    """tools.histogram, 2 bins over [0, 1], one record added or removed."""
    return _histogram(dataset, size, rng)


@_target(
    "pure:1",
    "Each bin gets noise for a change by 1. A replaced record changes two bins, so under "
    "that relation epsilon is 2; the documentation "
    "does not say which relation the parameter is meant for.",
    **_UNIT,
    size=10,
)
def histogram_replaced(dataset, size, rng):
    """tools.histogram, 2 bins over [0, 1], one record replaced."""
    return _histogram(dataset, size, rng)


@_target(
    "pure:1",
    "With `weights` a record adds its weight to a bin, and the noise stays that of a change by 1.",
    kind="Rows",
    size=5,
    features=((0, 1), (0, 20)),
    relation="add-remove",
)
def histogram_weights(dataset, size, rng):
    """tools.histogram with 2 bins; rows are (value, weight)."""
    state = _state(rng)
    values, weights = dataset[:, 0], dataset[:, 1]
    call = {"epsilon": 1.0, "bins": 2, "range": (0, 1), "weights": weights, "random_state": state}
    return np.array([tools.histogram(values, **call)[0] for _ in range(size)])
