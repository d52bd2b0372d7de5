"""OpenDP: every claim is the value of the measurement's privacy map. The library takes no seed."""

import functools

import numpy as np
import opendp.prelude as dp
from library_target import target

LIBRARY = "opendp"

dp.enable_features("contrib")


def _vector(T):
    kind = dp.atom_domain(T=float, nan=False) if T is float else dp.atom_domain(T="i64")
    return dp.vector_domain(kind)


def _target(doc, build, call, distance, notion="pure", **domain):
    """Return the target of a measurement, whose claim is the value of its map at a distance;
    `call(measurement, dataset, size)` draws outputs.
    """
    measurement = functools.cache(build)

    def run(dataset, size, rng):
        return np.array(call(measurement(), dataset, size))

    return target(
        lambda: f"{notion}:{measurement().map(distance)!r}", "", doc, seeded=False, **domain
    )(run)


def _repeated(kind):
    """Return the call of a measurement of vectors on many copies of one number."""
    return lambda measurement, dataset, size: measurement([kind(dataset[0])] * size)


def _each(read):
    """Return one call of a measurement for each output."""
    return lambda measurement, dataset, size: [measurement(read(dataset)) for _ in range(size)]


def _first(kind):
    return _each(lambda dataset: kind(dataset[0]))


def _laplace_int():
    return dp.m.make_laplace(_vector(int), dp.l1_distance(T="i64"), scale=1.0)


def _histogram():
    whole = _vector(int), dp.symmetric_distance()
    counts = dp.t.then_count_by_categories(categories=[0, 1, 2], null_category=False)
    return whole >> counts >> dp.m.then_laplace(scale=1.0)


_FLOATS = _vector(float), dp.symmetric_distance()
_SIZED = (dp.vector_domain(dp.atom_domain((0.0, 1.0), nan=False), size=10), dp.symmetric_distance())
_REAL = {"kind": "Answers", "length": 1, "low": -10, "high": 10, "relation": "l1"}
_WHOLE = {"kind": "Counts", "length": 1, "low": 0, "high": 100}
_RECORDS = {"kind": "Records", "size": 10, "low": 0, "high": 1}
_CATEGORIES = _RECORDS | {"high": 2, "categories": True}
_LIST = _each(lambda dataset: dataset.tolist())
_INTEGERS = _each(lambda dataset: [int(value) for value in dataset])

laplace = _target(
    "make_laplace on a vector of floats, scale 1.",
    lambda: dp.m.make_laplace(_vector(float), dp.l1_distance(T=float), scale=1.0),
    _repeated(float),
    1.0,
    **_REAL,
)
laplace_int = _target(
    "make_laplace on a vector of integers (discrete Laplace), scale 1.",
    _laplace_int,
    _repeated(int),
    1,
    **_WHOLE,
)
gaussian = _target(
    "make_gaussian on a vector of floats, scale 1.",
    lambda: dp.m.make_gaussian(_vector(float), dp.l2_distance(T=float), scale=1.0),
    _repeated(float),
    1.0,
    "zcdp",
    **(_REAL | {"relation": "l2"}),
)
gaussian_int = _target(
    "make_gaussian on a vector of integers (discrete Gaussian), scale 1.",
    lambda: dp.m.make_gaussian(_vector(int), dp.l2_distance(T="i64"), scale=1.0),
    _repeated(int),
    1,
    "zcdp",
    **(_WHOLE | {"relation": "l2"}),
)
laplace_int_large = _target(
    "make_laplace on integers beyond 2^60.",
    _laplace_int,
    _repeated(int),
    1,
    **(_WHOLE | {"high": 2**61}),
)
canonical_noise = _target(
    "make_canonical_noise for (1, 1e-5).",
    lambda: dp.m.make_canonical_noise(
        dp.atom_domain(T=float, nan=False),
        dp.absolute_distance(T=float),
        d_in=1.0,
        d_out=(1.0, 1e-5),
    ),
    _first(float),
    1.0,
    **_REAL,
)
canonical_noise.claim = "approx:1,1e-5"
noisy_max = _target(
    "make_noisy_max over four integer scores, scale 2.",
    lambda: dp.m.make_noisy_max(
        _vector(int), dp.linf_distance(T="i64"), dp.max_divergence(), scale=2.0
    ),
    _LIST,
    1,
    kind="Counts",
    length=4,
    low=0,
    high=10,
    relation="linf",
)
randomized_response_bool = _target(
    "make_randomized_response_bool with probability 0.75.",
    lambda: dp.m.make_randomized_response_bool(prob=0.75),
    _first(bool),
    1,
    kind="Records",
    size=1,
    low=0,
    high=1,
    integer=True,
)
randomized_response = _target(
    "make_randomized_response over four categories.",
    lambda: dp.m.make_randomized_response(categories=[0, 1, 2, 3], prob=float(np.e / (np.e + 3))),
    _first(int),
    1,
    kind="Records",
    size=1,
    low=0,
    high=3,
    categories=True,
)
bounded_sum = _target(
    "Clamp, resize to 10, sum, Laplace.",
    lambda: (
        _FLOATS
        >> dp.t.then_clamp((0.0, 1.0))
        >> dp.t.then_resize(10, constant=0.0)
        >> dp.t.then_sum()
        >> dp.m.then_laplace(scale=1.0)
    ),
    _LIST,
    1,
    **_RECORDS,
    relation="add-remove",
    outside=True,
)
bounded_mean = _target(
    "Mean of 10 records in [0, 1] with Laplace noise.",
    lambda: _SIZED >> dp.t.then_mean() >> dp.m.then_laplace(scale=0.1),
    _LIST,
    2,
    **_RECORDS,
)
bounded_variance = _target(
    "Variance of 10 records in [0, 1] with Laplace noise.",
    lambda: _SIZED >> dp.t.then_variance() >> dp.m.then_laplace(scale=0.1),
    _LIST,
    2,
    **_RECORDS,
)
private_quantile = _target(
    "Median of records in [0, 1] among five candidates.",
    lambda: (
        _FLOATS
        >> dp.m.then_private_quantile(
            dp.max_divergence(), candidates=[0.0, 0.25, 0.5, 0.75, 1.0], alpha=0.5, scale=1.0
        )
    ),
    _LIST,
    1,
    **_RECORDS,
    relation="add-remove",
)
histogram = _target(
    "Counts of three categories with Laplace noise.",
    _histogram,
    _INTEGERS,
    1,
    **_CATEGORIES,
    relation="add-remove",
)
histogram_replaced = _target(
    "The same under replacement: the map is asked for a symmetric distance of 2.",
    _histogram,
    _INTEGERS,
    2,
    **_CATEGORIES,
)
