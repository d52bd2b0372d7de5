"""eeprivacy 0.0.5: means, histograms and quantiles of "Energy Differential Privacy". All noise is
NumPy's global generator.
"""

from eeprivacy.mechanisms import LaplaceMechanism
from eeprivacy.operations import (
    PrivateClampedMean,
    PrivateClampedSum,
    PrivateHistogram,
    PrivateQuantile,
    PrivateVectorClampedMeanGaussian,
    PrivateVectorClampedMeanLaplace,
)
from library_target import runs, seed_numpy, target

LIBRARY = "eeprivacy"


_LOW_BITS = (
    "Noise is added to the answer as a 64-bit float and not rounded to a grid (Mironov 2012)."
)
_UNIT = {"kind": "Records", "low": 0, "high": 1}
_PAIRS = {"kind": "Rows", "size": 5, "features": ((0, 1), (0, 1))}
_MEAN = PrivateClampedMean(lower_bound=0.0, upper_bound=1.0)


def _operation(operation, doc, claim, cause="", values="values", call=None, **declared):
    """Return the target of an operation with the parameters in `call`."""
    given = call or {"epsilon": 1.0}
    run = runs(seed_numpy, lambda dataset: operation.execute(**{values: dataset}, **given))
    return target(claim, cause, doc, **declared)(run)


laplace = target(
    "pure:1",
    _LOW_BITS,
    "LaplaceMechanism.execute, epsilon 1, sensitivity 1.",
    kind="Answers",
    length=1,
    low=-10,
    high=10,
    relation="l1",
)(
    runs(
        seed_numpy,
        lambda dataset: LaplaceMechanism.execute(
            value=float(dataset[0]), epsilon=1.0, sensitivity=1.0
        ),
    )
)
clamped_sum = _operation(
    PrivateClampedSum(lower_bound=0.0, upper_bound=1.0),
    "PrivateClampedSum of 5 numbers, clamped to [0, 1]; one replaced.",
    "pure:1",
    _LOW_BITS,
    **_UNIT,
    size=5,
    outside=True,
)
clamped_mean = _operation(
    _MEAN,
    "PrivateClampedMean of up to 5 numbers in [0, 1], epsilon 0.1, one added or removed (after Li "
    "et al. 2016, algorithm 2.3).",
    "pure:0.1",
    "The noise is divided by the exact number of records, which add-remove makes private: "
    "its scale depends on the data. From one record "
    "to two the density at the new mean doubles, whatever epsilon.",
    call={"epsilon": 0.1},
    **_UNIT,
    size=5,
    relation="add-remove",
)
clamped_mean_replaced = _operation(
    _MEAN,
    "PrivateClampedMean of 5 numbers in [0, 1], one replaced.",
    "pure:1",
    _LOW_BITS,
    **_UNIT,
    size=5,
)
clamped_mean_outside = _operation(
    _MEAN,
    'PrivateClampedMean of 5 numbers that may lie outside [0, 1] ("bounding sensitivity with '
    'clamping"), one replaced.',
    "pure:1",
    "Only the noisy mean is clamped to the bounds, never the values: one value far outside "
    "decides the output.",
    **_UNIT,
    size=5,
    outside=True,
)
vector_mean_laplace = _operation(
    PrivateVectorClampedMeanLaplace(lower_bound=0.0, upper_bound=1.0, k=2, N=5),
    "PrivateVectorClampedMeanLaplace of 5 vectors of 2 numbers, one replaced.",
    "pure:1",
    "One draw of noise is added to all coordinates of the mean: their difference has no noise.",
    "vectors",
    call={"epsilon": 1.0, "delta": 0.0},
    **_PAIRS,
)
vector_mean_gaussian = _operation(
    PrivateVectorClampedMeanGaussian(lower_bound=0.0, upper_bound=1.0, k=2, N=5),
    "PrivateVectorClampedMeanGaussian of 5 vectors of 2 numbers, one replaced.",
    "approx:1,1e-5",
    _LOW_BITS,
    "vectors",
    call={"epsilon": 1.0, "delta": 1e-5},
    **_PAIRS,
)
histogram = _operation(
    PrivateHistogram(bins=[0.0, 0.5, 1.0]),
    "PrivateHistogram of 2 bins over [0, 1], one record added or removed.",
    "pure:1",
    _LOW_BITS,
    **_UNIT,
    size=10,
    relation="add-remove",
)
median = _operation(
    PrivateQuantile(options=[0.25, 0.75]),
    "PrivateQuantile 0.5 of up to 30 numbers among two options, one record added or removed.",
    "pure:1",
    call={"epsilon": 1.0, "quantile": 0.5},
    **_UNIT,
    size=30,
    relation="add-remove",
)
quantile = _operation(
    PrivateQuantile(options=[0.25, 0.75]),
    "PrivateQuantile 0.9 of up to 30 numbers among two options, one record added or removed.",
    "pure:1",
    "The largest of scores with Laplace noise of scale 1/epsilon is private with epsilon "
    "only where one record moves all scores the same "
    "way. Here |count - N q| moves up for one option and down for another, so the gap "
    "between two options changes by up to 1.8.",
    call={"epsilon": 1.0, "quantile": 0.9},
    **_UNIT,
    size=30,
    relation="add-remove",
)
