"""Textbook noise from NumPy alone, as in a mechanism of three lines."""

import numpy as np
from library_target import target

LIBRARY = "numpy"


_LOW_BITS = (
    "The noise is added to the answer as a 64-bit float. Under an answer of 1 every output "
    "of magnitude below 1 is a multiple of 2^-53; "
    "under an answer of 0 small outputs have finer low bits, so some outputs are possible "
    "under one dataset only (Mironov 2012)."
)


@target("pure:1", _LOW_BITS, kind="Answers", length=1, low=-10, high=10, relation="l1")
def laplace(dataset, size, rng):
    """Answer plus rng.laplace of scale 1."""
    return dataset[0] + rng.laplace(0.0, 1.0, size)


@target("approx:1,1e-5", _LOW_BITS, kind="Answers", length=1, low=-10, high=10, relation="l1")
def gaussian(dataset, size, rng):
    """Answer plus rng.normal, its deviation calibrated exactly (Balle and Wang 2018)."""
    return dataset[0] + rng.normal(0.0, 3.73063, size)


@target("pure:1", kind="Counts", length=1, low=0, high=100)
def geometric(dataset, size, rng):
    """Count plus the difference of two draws of rng.geometric."""
    success = -np.expm1(-1.0)
    return int(dataset[0]) + rng.geometric(success, size) - rng.geometric(success, size)


@target("pure:1", kind="Records", size=1, low=0, high=3, categories=True)
def randomized_response(dataset, size, rng):
    """Four categories, the true one kept with probability e / (e + 3)."""
    true = int(dataset[0])
    other = (true + rng.integers(1, 4, size)) % 4
    return np.where(rng.random(size) < np.e / (np.e + 3), true, other)
