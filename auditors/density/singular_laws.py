"""Points next to outputs, which show whether a law has a density there or lies on a surface."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.protocols.capabilities import log_density_at
from dpwitness.core.protocols.mechanism import FloatArray

_MOVE = 1e-7  # size of a move, relative to the spread of a column


def column_spread(rows: FloatArray) -> FloatArray:
    """Return the distance between the 10 and the 90 % quantile of each column; the size of the
    numbers if the quantiles agree.
    """
    with np.errstate(invalid="ignore"):
        spread = np.subtract(*np.percentile(rows, [90, 10], axis=0))
    return np.asarray(
        np.where(np.isfinite(spread) & (spread > 0), spread, np.abs(rows).max(axis=0, initial=0.0))
    )


def moved(
    rows: FloatArray, columns: NDArray[np.bool_], rng: np.random.Generator, spread: FloatArray
) -> FloatArray:
    """Return rows that are slightly moved in `columns`, by at least a few units in the
    last place.
    """
    step = (_MOVE * spread + 8 * np.spacing(np.abs(rows))) * columns
    return np.asarray(
        rows + step * rng.uniform(0.5, 1.0, rows.shape) * rng.choice([-1.0, 1.0], rows.shape)
    )


def fills_space(
    mechanism: Any,
    dataset: Any,
    rows: FloatArray,
    columns: NDArray[np.bool_],
    rng: np.random.Generator,
) -> bool:
    """Return whether outputs stay possible after small moves in `columns`.

    Outputs become impossible if the law lies on a surface. Then `log_density` is relative to the
    area of the surface, and cannot be compared with the density at a point next to the surface.
    """
    aside = moved(rows[:256], columns, rng, column_spread(rows))
    try:
        return int(np.isneginf(log_density_at(mechanism, aside, dataset)).sum()) <= 2
    except Exception:
        return False
