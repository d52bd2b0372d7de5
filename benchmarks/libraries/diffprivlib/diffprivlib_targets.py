"""diffprivlib: noise mechanisms and statistics. Each call makes one random state and draws all its
runs from it.
"""

import warnings

import numpy as np
from diffprivlib import mechanisms, tools
from diffprivlib.utils import PrivacyLeakWarning
from library_target import random_state, target

LIBRARY = "diffprivlib"

# a warning that privacy is lost would make the claim void
warnings.simplefilter("error", PrivacyLeakWarning)


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
        mechanism = getattr(mechanisms, name)(random_state=random_state(rng), **parameters)
        value = int(dataset[0]) if domain["kind"] == "Counts" else float(dataset[0])
        return _runs(mechanism, value, size)

    doc = f"mechanisms.{name}({', '.join(f'{k}={v}' for k, v in parameters.items())})."
    return target(claim, cause, doc, **domain)(function)


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


def _selection(name):
    """Return the target of a mechanism that selects one of four candidates."""

    def function(dataset, size, rng):
        mechanism = getattr(mechanisms, name)(
            epsilon=1.0, sensitivity=1, utility=dataset.tolist(), random_state=random_state(rng)
        )
        return _runs(mechanism, None, size)

    doc = f"mechanisms.{name} over four candidates with integer utilities of sensitivity 1."
    domain = {"kind": "Counts", "length": 4, "low": 0, "high": 10, "relation": "linf"}
    return target("pure:1", "", doc, **domain)(function)


exponential = _selection("Exponential")
permute_and_flip = _selection("PermuteAndFlip")


@target("pure:1", kind="Records", size=1, low=0, high=1, integer=True)
def binary(dataset, size, rng):
    """mechanisms.Binary: randomized response."""
    mechanism = mechanisms.Binary(
        epsilon=1.0, value0="0", value1="1", random_state=random_state(rng)
    )
    return np.array([int(mechanism.randomise(str(int(dataset[0])))) for _ in range(size)])


_UNIT = {"kind": "Records", "low": 0, "high": 1}


def _statistic(function, size, cause=_LOW_BITS, parameters=None, **declared):
    """Return the target of a statistic of numbers within bounds, or in [0, 1] without bounds."""
    given = {"bounds": (0, 1)} if parameters is None else parameters

    def run(dataset, size, rng):
        state = random_state(rng)
        return np.array(
            [function(dataset, epsilon=1.0, random_state=state, **given) for _ in range(size)]
        )

    low, high = given.get("bounds", (0, 1))
    doc = f"tools.{function.__name__} of {size} numbers in [{low:g}, {high:g}]."
    domain = {"kind": "Records", "low": low, "high": high, "size": size, **declared}
    return target("pure:1", cause, doc, **domain)(run)


mean = _statistic(tools.mean, 10)
mean_clipped = _statistic(tools.mean, 10, outside=True)
sum = _statistic(tools.sum, 10)
var = _statistic(tools.var, 10)
median = _statistic(
    tools.median,
    10,
    "The output is a uniform draw scaled to the interval between two records, as a 64-bit "
    "float: its low bits depend on the records.",
)
mean_missing = _statistic(
    tools.mean,
    10,
    "One NaN among the records makes the mean NaN in every run, so the output says for "
    "certain that a record is missing.",
    missing=True,
)
nanmean = _statistic(
    tools.nanmean,
    1000,
    "The sensitivity divides the range by the number of records with the missing ones "
    "counted, while the mean is taken over those that are "
    "present: with 999 NaN among 1,000 records one value decides the mean and the noise is "
    "1,000 times too small.",
    missing=True,
)
count_nonzero = _statistic(tools.count_nonzero, 10, "", {}, integer=True)
quantile_ties = _statistic(
    tools.median,
    2982,
    "Among about 3,000 equal records the weights of the exponential mechanism reach the "
    "smallest float: an interval that has some weight "
    "left for one dataset has none for its neighbour, so its values are impossible there, "
    "and where no weight is left the call raises.",
    {"bounds": (0, 1e6)},
    relation="add-remove",
)


def _histogram(doc, cause="", **declared):
    """Return the target of tools.histogram with 2 bins over [0, 1]; a second column has weights."""

    def run(dataset, size, rng):
        call = {"epsilon": 1.0, "bins": 2, "range": (0, 1), "random_state": random_state(rng)}
        values, *weights = np.atleast_2d(dataset.T)
        more = {"weights": weights[0]} if weights else {}
        return np.array([tools.histogram(values, **call, **more)[0] for _ in range(size)])

    return target("pure:1", cause, doc, **declared)(run)


histogram = _histogram(
    "tools.histogram, 2 bins over [0, 1], one record added or removed.",
    **_UNIT,
    size=10,
    relation="add-remove",
)
histogram_replaced = _histogram(
    "tools.histogram, 2 bins over [0, 1], one record replaced.",
    "Each bin gets noise for a change by 1. A replaced record changes two bins, so under "
    "that relation epsilon is 2; the documentation "
    "does not say which relation the parameter is meant for.",
    **_UNIT,
    size=10,
)
histogram_weights = _histogram(
    "tools.histogram with 2 bins; rows are (value, weight).",
    "With `weights` a record adds its weight to a bin, and the noise stays that of a change by 1.",
    kind="Rows",
    size=5,
    features=((0, 1), (0, 20)),
    relation="add-remove",
)
