"""dpart 0.1.2: synthetic columns, each by itself (engine Independent). All noise is NumPy's global
generator.
"""

import warnings

import numpy as np
import pandas as pd
from diffprivlib.utils import PrivacyLeakWarning
from dpart.engines import Independent
from library_target import seed_numpy, target

LIBRARY = "dpart"

warnings.simplefilter("ignore")
# a warning that privacy is lost would make the claim void
warnings.simplefilter("error", PrivacyLeakWarning)

_LETTERS = list("abcd")


_SLOW = {"kind": "Records", "batch": 32, "trials": 3000}


def _synthetic(values, bounds, size, rng):
    seed_numpy(rng)
    found = []
    for _ in range(size):
        engine = Independent(epsilon=1.0, bounds={"x": dict(bounds)})
        engine.fit(pd.DataFrame({"x": values}))
        found.append(engine.sample(5)["x"].tolist())
    return found


@target(
    "pure:1",
    "The scaler and the edges of the bins are fitted to the data, whatever bounds are given: "
    "synthetic values lie between the smallest and "
    "the largest record.",
    **_SLOW,
    size=20,
    low=0,
    high=1,
)
def numbers(dataset, size, rng):
    """Five synthetic values of Independent for 20 numbers in [0, 1] (bounds given), epsilon 1; one
    replaced.
    """
    return np.array(
        _synthetic(np.asarray(dataset, dtype=float), {"min": 0.0, "max": 1.0}, size, rng)
    )


def _categories(doc, cause="", public=()):
    """Return the target of 8 records in four categories beside public ones."""

    def run(dataset, size, rng):
        values = [*public, *(_LETTERS[int(category)] for category in dataset)]
        rows = _synthetic(values, {"categories": _LETTERS}, size, rng)
        return np.array([[_LETTERS.index(letter) for letter in row] for row in rows])

    return target("pure:1", cause, doc, **_SLOW, size=8, low=0, high=3, categories=True)(run)


categories = _categories(
    "Five synthetic values of Independent for 8 records in four categories (given), epsilon 1; one "
    "replaced.",
    "A second encoder is fitted to the data: a category that is given but does not occur has "
    "no count, no noise and no synthetic value.",
)
categories_all = _categories(
    "The same with one public record of each category in the data: all occur.", public=_LETTERS
)
