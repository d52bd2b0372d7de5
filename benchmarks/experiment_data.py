"""Datasets of the papers' experiments: two real datasets, and a generator of points on a sphere.

Chaudhuri and Monteleoni (2008), sections 3.1 and 6; Jain and Thakurta (2014), section 6.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.datasets import LabelledVectors
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import import_problem

PIMA = Path(__file__).parent / "data" / "pima.csv"


class MissingOptionalDependency(ImportError):
    """Error: an optional dependency is not installed; the message says how to install it."""


def pima() -> LabelledVectors:
    """Return the Pima diabetes data: 532 records x 7, label +1 = diabetic.

    The columns are standardized, then all records are scaled so that the longest has norm 1. This
    scaling depends on the data and is not private, as in the experiments of the paper, which
    concern only the learner.
    """
    with PIMA.open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    columns = [name for name in rows[0] if name != "type"]
    x = np.array([[float(row[name]) for name in columns] for row in rows])
    return LabelledVectors(
        _standardize_and_scale(x), [1.0 if row["type"] == "Yes" else -1.0 for row in rows]
    )


def breast_cancer() -> LabelledVectors:
    """Return the Breast Cancer Wisconsin (diagnostic) data: 569 records x 30, label +1 = malignant.

    The records are scaled as in `pima`. The data come with scikit-learn.

    Raises
    ------
    MissingOptionalDependency
        If scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        reason = import_problem("sklearn", error, "pip install scikit-learn")
        raise MissingOptionalDependency(
            f"breast_cancer: the data come with scikit-learn: {reason}"
        ) from None
    x, y = load_breast_cancer(return_X_y=True)
    return LabelledVectors(_standardize_and_scale(x), np.where(y == 0, 1.0, -1.0))


def sphere_with_margin(n: int, dimension: int, margin: float, rng: Generator) -> LabelledVectors:
    """Return n points uniform on the unit sphere outside |x_1| < margin, labeled by the sign of
    x_1.

    CM08, section 6. x_1 is drawn from its conditional law given |x_1| >= margin, so that no draw is
    rejected. On the sphere x_1^2 is Beta(1/2, (d-1)/2).
    """
    from scipy.stats import beta

    law = beta(0.5, 0.5 * (dimension - 1))
    first = np.sqrt(law.isf(rng.uniform(0.0, law.sf(margin**2), n))) * rng.choice([-1.0, 1.0], n)
    rest = rng.standard_normal((n, dimension - 1))
    rest *= (np.sqrt(np.maximum(0.0, 1 - first**2)) / np.linalg.norm(rest, axis=1))[:, None]
    return LabelledVectors(np.column_stack([first, rest]), np.sign(first))


def padded(dataset: LabelledVectors, extra: int) -> LabelledVectors:
    """Return the records with `extra` zero features appended.

    Zero features change no non-private minimizer. JT14 use them to test whether a mechanism depends
    on the dimension.
    """
    zeros = np.zeros((len(dataset), extra))
    return LabelledVectors(np.column_stack([dataset.x, zeros]), dataset.y, dataset.multiplicity)


def _standardize_and_scale(x: FloatArray) -> FloatArray:
    """Standardize the columns, then scale all records so that the longest has norm 1."""
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.asarray(standard / np.sqrt((standard**2).sum(axis=1).max()))
