"""OpenDP: every claim is the value of the measurement's privacy map. The library takes no seed."""

import functools

import numpy as np
import opendp.prelude as dp

LIBRARY = "opendp"
TESTED = ">=0.16,<0.17"
INSTALL = "pip install opendp==0.16.0"

dp.enable_features("contrib")


def _target(claim, cause="", **domain):
    def declare(function):
        function.claim, function.domain, function.cause, function.seeded = (
            claim,
            domain,
            cause,
            False,
        )
        return function

    return declare


def _mapped(build, distance, notion="pure"):
    """The claim of a measurement at a distance between inputs."""

    def claim():
        return f"{notion}:{build().map(distance)!r}"

    return claim


def _vector(T):
    kind = dp.atom_domain(T=float, nan=False) if T is float else dp.atom_domain(T="i64")
    return dp.vector_domain(kind)


@functools.cache
def _laplace_float():
    return dp.m.make_laplace(_vector(float), dp.l1_distance(T=float), scale=1.0)


@functools.cache
def _laplace_int():
    return dp.m.make_laplace(_vector(int), dp.l1_distance(T="i64"), scale=1.0)


@functools.cache
def _gaussian_float():
    return dp.m.make_gaussian(_vector(float), dp.l2_distance(T=float), scale=1.0)


@functools.cache
def _gaussian_int():
    return dp.m.make_gaussian(_vector(int), dp.l2_distance(T="i64"), scale=1.0)


@functools.cache
def _canonical():
    return dp.m.make_canonical_noise(
        dp.atom_domain(T=float, nan=False),
        dp.absolute_distance(T=float),
        d_in=1.0,
        d_out=(1.0, 1e-5),
    )


@functools.cache
def _noisy_max():
    return dp.m.make_noisy_max(
        _vector(int), dp.linf_distance(T="i64"), dp.max_divergence(), scale=2.0
    )


@functools.cache
def _response_bool():
    return dp.m.make_randomized_response_bool(prob=0.75)


@functools.cache
def _response():
    return dp.m.make_randomized_response(categories=[0, 1, 2, 3], prob=float(np.e / (np.e + 3)))


_FLOATS = (_vector(float), dp.symmetric_distance())
_SIZED = (dp.vector_domain(dp.atom_domain((0.0, 1.0), nan=False), size=10), dp.symmetric_distance())


@functools.cache
def _sum():
    return (
        _FLOATS
        >> dp.t.then_clamp((0.0, 1.0))
        >> dp.t.then_resize(10, constant=0.0)
        >> dp.t.then_sum()
        >> dp.m.then_laplace(scale=1.0)
    )


@functools.cache
def _mean():
    return _SIZED >> dp.t.then_mean() >> dp.m.then_laplace(scale=0.1)


@functools.cache
def _variance():
    return _SIZED >> dp.t.then_variance() >> dp.m.then_laplace(scale=0.1)


@functools.cache
def _quantile():
    return _FLOATS >> dp.m.then_private_quantile(
        dp.max_divergence(), candidates=[0.0, 0.25, 0.5, 0.75, 1.0], alpha=0.5, scale=1.0
    )


@functools.cache
def _histogram():
    whole = (_vector(int), dp.symmetric_distance())
    return (
        whole
        >> dp.t.then_count_by_categories(categories=[0, 1, 2], null_category=False)
        >> dp.m.then_laplace(scale=1.0)
    )


_REAL = {"kind": "Answers", "length": 1, "low": -10, "high": 10, "relation": "l1"}
_WHOLE = {"kind": "Counts", "length": 1, "low": 0, "high": 100}
_RECORDS = {"kind": "Records", "size": 10, "low": 0, "high": 1}


def _repeated(measurement, value, size):
    """One coordinate a run: the noise of coordinates is independent."""
    return np.array(measurement([value] * size))


def _each(measurement, value, size):
    return np.array([measurement(value) for _ in range(size)])


@_target(_mapped(_laplace_float, 1.0), **_REAL)
def laplace(dataset, size, rng):
    """make_laplace on a vector of floats, scale 1."""
    return _repeated(_laplace_float(), float(dataset[0]), size)


@_target(_mapped(_laplace_int, 1), **_WHOLE)
def laplace_int(dataset, size, rng):
    """make_laplace on a vector of integers (discrete Laplace), scale 1."""
    return _repeated(_laplace_int(), int(dataset[0]), size)


@_target(_mapped(_gaussian_float, 1.0, "zcdp"), **(_REAL | {"relation": "l2"}))
def gaussian(dataset, size, rng):
    """make_gaussian on a vector of floats, scale 1."""
    return _repeated(_gaussian_float(), float(dataset[0]), size)


@_target(_mapped(_gaussian_int, 1, "zcdp"), **(_WHOLE | {"relation": "l2"}))
def gaussian_int(dataset, size, rng):
    """make_gaussian on a vector of integers (discrete Gaussian), scale 1."""
    return _repeated(_gaussian_int(), int(dataset[0]), size)


@_target(_mapped(_laplace_int, 1), **(_WHOLE | {"high": 2**61}))
def laplace_int_large(dataset, size, rng):
    """make_laplace on integers beyond 2^60."""
    return _repeated(_laplace_int(), int(dataset[0]), size)


@_target("approx:1,1e-5", **_REAL)
def canonical_noise(dataset, size, rng):
    """make_canonical_noise for (1, 1e-5)."""
    return _each(_canonical(), float(dataset[0]), size)


@_target(_mapped(_noisy_max, 1), kind="Counts", length=4, low=0, high=10, relation="linf")
def noisy_max(dataset, size, rng):
    """make_noisy_max over four integer scores, scale 2."""
    return _each(_noisy_max(), dataset.tolist(), size)


@_target(_mapped(_response_bool, 1), kind="Records", size=1, low=0, high=1, integer=True)
def randomized_response_bool(dataset, size, rng):
    """make_randomized_response_bool with probability 0.75."""
    return _each(_response_bool(), bool(dataset[0]), size)


@_target(_mapped(_response, 1), kind="Records", size=1, low=0, high=3, categories=True)
def randomized_response(dataset, size, rng):
    """make_randomized_response over four categories."""
    return _each(_response(), int(dataset[0]), size)


@_target(_mapped(_sum, 1), **_RECORDS, relation="add-remove", outside=True)
def bounded_sum(dataset, size, rng):
    """Clamp, resize to 10, sum, Laplace."""
    return _each(_sum(), dataset.tolist(), size)


@_target(_mapped(_mean, 2), **_RECORDS)
def bounded_mean(dataset, size, rng):
    """Mean of 10 records in [0, 1] with Laplace noise."""
    return _each(_mean(), dataset.tolist(), size)


@_target(_mapped(_variance, 2), **_RECORDS)
def bounded_variance(dataset, size, rng):
    """Variance of 10 records in [0, 1] with Laplace noise."""
    return _each(_variance(), dataset.tolist(), size)


@_target(_mapped(_quantile, 1), **_RECORDS, relation="add-remove")
def private_quantile(dataset, size, rng):
    """Median of records in [0, 1] among five candidates."""
    return _each(_quantile(), dataset.tolist(), size)


@_target(_mapped(_histogram, 1), **(_RECORDS | {"high": 2}), categories=True, relation="add-remove")
def histogram(dataset, size, rng):
    """Counts of three categories with Laplace noise."""
    return np.array(_each(_histogram(), [int(v) for v in dataset], size))


@_target(_mapped(_histogram, 2), **(_RECORDS | {"high": 2}), categories=True)
def histogram_replaced(dataset, size, rng):
    """The same under replacement: the map is asked for a symmetric distance of 2."""
    return np.array(_each(_histogram(), [int(v) for v in dataset], size))
