"""Search of the linear combination of columns in which two samples differ most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.protocols.mechanism import FloatArray

_ROWS = 2**13  # maximum number of rows compared
_CELLS = 32
_RANDOM = 8  # random directions for each column
# sizes of the moves of a direction of length 1
_STEPS = (0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
_CLEAR_GAIN = 1.1, 10.0  # factor and difference by which a direction must beat the best column


def find_direction(x: FloatArray, label: NDArray[np.bool_]) -> FloatArray | None:
    """Return the direction whose projections differ most between the rows with and without the
    label, or None if one column is as good.

    The difference is a chi-squared statistic over cells of equal mass. The search starts at the
    best of the columns, the shift of the mean and random directions (from a fixed seed), and moves
    it as long as the difference grows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, label = rng.normal(size=(4000, 2)), np.arange(4000) < 2000
    >>> gap = np.array([0.6, 0.8])  # along one direction
    >>> x[:2000] += np.outer(np.sign(x[:2000] @ gap), gap)
    >>> np.abs(find_direction(x, label)).round(1)
    array([0.6, 0.8])
    """
    step = -(-len(x) // _ROWS)
    sides = np.clip(x[::step], -1e6, 1e6), label[::step]
    width = x.shape[1]
    rng = np.random.default_rng(width)
    shift = (
        sides[0][sides[1]].mean(axis=0) - sides[0][~sides[1]].mean(axis=0)
        if 0 < sides[1].sum() < len(sides[1])
        else np.ones(width)
    )
    starts = [
        *np.eye(width),
        _unit(shift),
        *map(_unit, rng.standard_normal((_RANDOM * width, width))),
    ]
    values = [_difference(*sides, each) for each in starts]
    best_column, value, direction = max(values[:width]), max(values), starts[int(np.argmax(values))]
    for size in _STEPS:
        for move in np.linalg.qr(rng.standard_normal((width, width)))[0]:
            for sign in (1.0, -1.0):
                moved = _unit(direction + sign * size * move)
                found = _difference(*sides, moved)
                if found > value:
                    value, direction = found, moved
    factor, least = _CLEAR_GAIN
    return direction if value > factor * best_column + least else None


def _unit(direction: FloatArray) -> FloatArray:
    """Return the direction with length 1; the first axis for a direction of length 0."""
    length = float(np.linalg.norm(direction))
    return direction / length if length > 0 else np.eye(len(direction))[0]


def _difference(x: FloatArray, label: NDArray[np.bool_], direction: FloatArray) -> float:
    """Return the chi-squared statistic of two samples' counts in cells of equal mass of a
    projection.
    """
    ordered = label[np.argsort(x @ direction)]
    ends = np.linspace(0, len(ordered), _CELLS + 1).astype(int)
    ones = np.diff(np.append(0, np.cumsum(ordered))[ends])
    total, share = np.diff(ends), ordered.mean()
    return float(
        ((ones - share * total) ** 2 / np.maximum(share * (1 - share) * total, 1e-9)).sum()
    )
