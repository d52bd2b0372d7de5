"""Quantiles of diffprivlib."""

import warnings

import numpy as np
from diffprivlib import tools
from library_target import random_state, target

LIBRARY = "diffprivlib"

warnings.simplefilter("ignore")


@target(
    "pure:1",
    batch=64,
    kind="Records",
    size=5000,
    low=0,
    high=500_000,
    integer=True,
    relation="add-remove",
)
def median(dataset, size, rng):
    """tools.quantile(0.5) of up to 5,000 whole numbers in [0, 500,000] and a public one, epsilon
    1.
    """
    values, state = np.array([250_000, *dataset], dtype=float), random_state(rng)
    return np.array(
        [
            tools.quantile(values, 0.5, epsilon=1.0, bounds=(0, 500_000), random_state=state)
            for _ in range(size)
        ]
    )
