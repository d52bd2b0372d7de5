"""Tumult Core: Gaussian noise of one answer, with the claim of its privacy function."""

import functools

import numpy as np
from library_target import target

LIBRARY = "tmlt.core"


@functools.lru_cache(maxsize=None)
def _gaussian():
    from sympy import Rational
    from tmlt.core.domains.numpy_domains import NumpyFloatDomain
    from tmlt.core.measurements.noise_mechanisms import AddGaussianNoise

    return AddGaussianNoise(input_domain=NumpyFloatDomain(), sigma_squared=Rational(1, 2))


@target(
    lambda: f"zcdp:{_gaussian().privacy_function(1).to_float(round_up=True)!r}",
    seeded=False,
    batch=1024,
    kind="Answers",
    length=1,
    low=-10,
    high=10,
    relation="l1",
)
def gaussian_noise(dataset, size, rng):
    """AddGaussianNoise with sigma_squared 1/2 of an answer."""
    return np.array([_gaussian()(np.float64(dataset[0])) for _ in range(size)])
