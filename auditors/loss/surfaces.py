"""Points beside outputs: whether a law has a density there, or lies on a surface."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.terms.powers import log_density_at
from dpwitness.mechanisms.terms.protocol import FloatArray

_MOVE = 1e-7  # of the spread of a column


def spread_of(rows: FloatArray) -> FloatArray:
    """Between the 10 and the 90 % quantile of each column; the size of the numbers where those agree."""
    with np.errstate(invalid="ignore"):
        spread = np.subtract(*np.percentile(rows, [90, 10], axis=0))
    return np.asarray(np.where(np.isfinite(spread) & (spread > 0), spread, np.abs(rows).max(axis=0, initial=0.0)))


def moved(rows: FloatArray, columns: NDArray[np.bool_], rng: np.random.Generator, spread: FloatArray) -> FloatArray:
    """Rows a little aside in `columns`, by no less than what their floats can tell apart."""
    step = (_MOVE * spread + 8 * np.spacing(np.abs(rows))) * columns
    return np.asarray(rows + step * rng.uniform(0.5, 1.0, rows.shape) * rng.choice([-1.0, 1.0], rows.shape))


def fills_space(mechanism: Any, dataset: Any, rows: FloatArray, columns: NDArray[np.bool_], rng: np.random.Generator) -> bool:
    """Whether small moves in `columns` leave outputs possible.

    They do not where the law lies on a surface: what `log_density` gives is relative to area there, and cannot be compared with the density
    at a point beside it.
    """
    aside = moved(rows[:256], columns, rng, spread_of(rows))
    try:
        return int(np.isneginf(log_density_at(mechanism, aside, dataset)).sum()) <= 2
    except Exception:
        return False
