"""Tools and mechanisms of diffprivlib; the mean of early releases takes the width of the range,
later ones take bounds.
"""

import inspect
import warnings

import numpy as np
from diffprivlib import mechanisms, tools
from library_target import target

LIBRARY = "diffprivlib"

warnings.simplefilter("ignore")
_RANGE = (
    {"range": 1.0}
    if "range" in inspect.signature(tools.mean).parameters
    else {"bounds": (0.0, 1.0)}
)


@target("pure:1", seeded=False, batch=1024, kind="Rows", size=10, features=((0, 1),), outside=True)
def mean(dataset, size, rng):
    """tools.mean of 10 numbers that should be in [0, 1], epsilon 1; any may be outside."""
    values = np.asarray(dataset, dtype=float).ravel()
    return np.array([tools.mean(values, epsilon=1.0, **_RANGE) for _ in range(size)])


@target("pure:1", seeded=False, kind="Answers", length=1, low=-10, high=10, relation="l1")
def laplace(dataset, size, rng):
    """mechanisms.Laplace with epsilon 1 and sensitivity 1 of one number."""
    mechanism = mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)
    return np.array([mechanism.randomise(float(dataset[0])) for _ in range(size)])
