"""eeprivacy 0.0.5: means, histograms and quantiles of "Energy Differential Privacy". All noise is
NumPy's global generator.
"""

import numpy as np
from eeprivacy.mechanisms import LaplaceMechanism
from eeprivacy.operations import (
    PrivateClampedMean,
    PrivateClampedSum,
    PrivateHistogram,
    PrivateQuantile,
    PrivateVectorClampedMeanGaussian,
    PrivateVectorClampedMeanLaplace,
)

LIBRARY = "eeprivacy"
TESTED = ">=0.0.5,<0.0.6"
INSTALL = "pip install eeprivacy==0.0.5"


def _target(claim, cause="", **domain):
    def declare(function):
        function.claim, function.domain, function.cause = claim, domain, cause
        return function

    return declare


def _runs(one, size, rng):
    np.random.seed(rng.integers(2**32, dtype=np.uint64))
    return np.array([one() for _ in range(size)])


_LOW_BITS = (
    "Noise is added to the answer as a 64-bit float and not rounded to a grid (Mironov 2012)."
)
_UNIT = {"kind": "Records", "low": 0, "high": 1}


@_target("pure:1", _LOW_BITS, kind="Answers", length=1, low=-10, high=10, relation="l1")
def laplace(dataset, size, rng):
    """LaplaceMechanism.execute, epsilon 1, sensitivity 1."""
    return _runs(
        lambda: LaplaceMechanism.execute(value=float(dataset[0]), epsilon=1.0, sensitivity=1.0),
        size,
        rng,
    )


@_target("pure:1", _LOW_BITS, **_UNIT, size=5, outside=True)
def clamped_sum(dataset, size, rng):
    """PrivateClampedSum of 5 numbers, clamped to [0, 1]; one replaced."""
    operation = PrivateClampedSum(lower_bound=0.0, upper_bound=1.0)
    return _runs(lambda: operation.execute(values=dataset, epsilon=1.0), size, rng)


@_target(
    "pure:0.1",
    "The noise is divided by the exact number of records, which add-remove makes private: "
    "its scale depends on the data. From one record "
    "to two the density at the new mean doubles, whatever epsilon.",
    **_UNIT,
    size=5,
    relation="add-remove",
)
def clamped_mean(dataset, size, rng):
    """PrivateClampedMean of up to 5 numbers in [0, 1], epsilon 0.1, one added or removed (after Li
    et al. 2016, algorithm 2.3).
    """
    operation = PrivateClampedMean(lower_bound=0.0, upper_bound=1.0)
    return _runs(lambda: operation.execute(values=dataset, epsilon=0.1), size, rng)


@_target("pure:1", _LOW_BITS, **_UNIT, size=5)
def clamped_mean_replaced(dataset, size, rng):
    """PrivateClampedMean of 5 numbers in [0, 1], one replaced."""
    operation = PrivateClampedMean(lower_bound=0.0, upper_bound=1.0)
    return _runs(lambda: operation.execute(values=dataset, epsilon=1.0), size, rng)


@_target(
    "pure:1",
    "Only the noisy mean is clamped to the bounds, never the values: one value far outside "
    "decides the output.",
    **_UNIT,
    size=5,
    outside=True,
)
def clamped_mean_outside(dataset, size, rng):
    """PrivateClampedMean of 5 numbers that may lie outside [0, 1] ("bounding sensitivity with
    clamping"), one replaced.
    """
    operation = PrivateClampedMean(lower_bound=0.0, upper_bound=1.0)
    return _runs(lambda: operation.execute(values=dataset, epsilon=1.0), size, rng)


_PAIRS = {"kind": "Rows", "size": 5, "features": ((0, 1), (0, 1))}


@_target(
    "pure:1",
    "One draw of noise is added to all coordinates of the mean: their difference has no noise.",
    **_PAIRS,
)
def vector_mean_laplace(dataset, size, rng):
    """PrivateVectorClampedMeanLaplace of 5 vectors of 2 numbers, one replaced."""
    operation = PrivateVectorClampedMeanLaplace(lower_bound=0.0, upper_bound=1.0, k=2, N=5)
    return _runs(lambda: operation.execute(vectors=dataset, epsilon=1.0, delta=0.0), size, rng)


@_target("approx:1,1e-5", _LOW_BITS, **_PAIRS)
def vector_mean_gaussian(dataset, size, rng):
    """PrivateVectorClampedMeanGaussian of 5 vectors of 2 numbers, one replaced."""
    operation = PrivateVectorClampedMeanGaussian(lower_bound=0.0, upper_bound=1.0, k=2, N=5)
    return _runs(lambda: operation.execute(vectors=dataset, epsilon=1.0, delta=1e-5), size, rng)


@_target("pure:1", _LOW_BITS, **_UNIT, size=10, relation="add-remove")
def histogram(dataset, size, rng):
    """PrivateHistogram of 2 bins over [0, 1], one record added or removed."""
    operation = PrivateHistogram(bins=[0.0, 0.5, 1.0])
    return _runs(lambda: operation.execute(values=dataset, epsilon=1.0), size, rng)


def _quantile(dataset, size, rng, quantile):
    operation = PrivateQuantile(options=[0.25, 0.75])
    return _runs(
        lambda: operation.execute(values=dataset, epsilon=1.0, quantile=quantile), size, rng
    )


@_target("pure:1", "", **_UNIT, size=30, relation="add-remove")
def median(dataset, size, rng):
    """PrivateQuantile 0.5 of up to 30 numbers among two options, one record added or removed."""
    return _quantile(dataset, size, rng, 0.5)


@_target(
    "pure:1",
    "The largest of scores with Laplace noise of scale 1/epsilon is private with epsilon "
    "only where one record moves all scores the same "
    "way. Here |count - N q| moves up for one option and down for another, so the gap "
    "between two options changes by up to 1.8.",
    **_UNIT,
    size=30,
    relation="add-remove",
)
def quantile(dataset, size, rng):
    """PrivateQuantile 0.9 of up to 30 numbers among two options, one record added or removed."""
    return _quantile(dataset, size, rng, 0.9)
