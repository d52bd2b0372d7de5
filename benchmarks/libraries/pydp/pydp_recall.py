"""PyDP: Python bindings of Google's differential privacy library. It takes no seed."""

import numpy as np
from library_target import target
from pydp.algorithms.laplacian import BoundedMean

LIBRARY = "python-dp"


@target(
    "pure:1",
    seeded=False,
    batch=2048,
    kind="Records",
    size=10,
    low=0,
    high=3,
    categories=True,
    relation="add-remove",
)
def integer_mean(dataset, size, rng):
    """BoundedMean(epsilon=1, dtype="int") of up to 10 whole numbers from 0 to 3 (bounds given)."""
    values = [int(value) for value in dataset]
    return np.array(
        [
            BoundedMean(epsilon=1.0, lower_bound=0, upper_bound=3, dtype="int").quick_result(values)
            for _ in range(size)
        ]
    )
