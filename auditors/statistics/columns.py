"""Statistics of the columns of an output matrix, from which the features of a model take their
knots, values and directions; and the linear combination of columns in which two samples differ
most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.protocols.mechanism import FloatArray

# size, in interquartile ranges, at which a column is cut to estimate its correlation with others
_MAX_WHITENED = 10.0
HALF = float(np.finfo(float).max) / 2


def without_overflow(function: Callable[[FloatArray], Any], x: FloatArray) -> Any:
    """Return `function(x)` for a mean, a median or quantiles of finite numbers, rescaled if sums or
    differences overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        result = function(x)
        return result if np.isfinite(result).all() else 2.0**64 * np.asarray(function(x * 2.0**-64))


def medians(x: FloatArray) -> FloatArray:
    """Return the median of each column."""
    return np.asarray(np.median(x, axis=0))


def quartiles(x: FloatArray) -> FloatArray:
    """Return the first and third quartile of each column."""
    return np.asarray(np.quantile(x, [0.25, 0.75], axis=0))


def exact_values(column: FloatArray) -> tuple[FloatArray, bool]:
    """Return the sorted values of a column that count as categories, and whether they are all of
    its values.

    A column with few values has only categories. Otherwise categories are the values that repeat
    far more often than adjacent values.
    """
    keys, counts = np.unique(np.where(np.isnan(column), np.inf, column), return_counts=True)
    # a column with few values is a category
    if len(keys) <= min(32, max(2, len(column) // 8)):
        return keys, True
    if counts.max() <= 10:  # the condition below, with a median of at least 1
        return keys[:0], False
    from scipy.ndimage import median_filter

    # at an end, the counts of its neighbors count twice
    regular = median_filter(counts.astype(float), 21, mode="mirror")
    repeated = np.flatnonzero((counts >= 4) & (counts > 6 * regular + 4))
    # at most 64 values of a continuous column get their own level
    return keys[np.sort(repeated[np.argsort(-counts[repeated], kind="stable")[:64]])], False


def two_knots(x: FloatArray, label: NDArray[np.bool_]) -> FloatArray:
    """Return the medians of the two sides: the points where the log-ratio of a Laplace shift
    changes its slope.

    If the medians coincide, return two points close to them.
    """
    low, high = sorted(
        float(without_overflow(medians, x[side] if side.any() else x)) for side in (label, ~label)
    )
    first, third = map(float, without_overflow(quartiles, x))
    spread = min(third - first, HALF) or float(np.std(np.clip(x, -1e150, 1e150))) or 1.0
    # a thousandth of a denormal number may round to 0
    step = max(1e-3 * spread, np.spacing(max(-low, high, 0.0)))
    return (
        np.array([low, high]) if high - low > 1e-3 * spread else np.array([low - step, high + step])
    )


def gap_endpoints(x: FloatArray) -> FloatArray:
    """Return both endpoints of the largest gaps on a logarithmic scale, for outputs of several
    magnitudes.
    """
    knots: list[float] = []
    for sign in (-1.0, 1.0):
        side = np.sort(np.abs(x[sign * x > 0]))
        if len(side) > 20:
            steps = np.diff(np.log(side))
            inner = steps[len(steps) // 100 : len(steps) - len(steps) // 100]
            for position in np.argsort(-inner)[:2] + len(steps) // 100:
                if steps[position] > np.log(3.0):
                    knots.extend(sign * side[position : position + 2])
    return np.unique(knots)


def total_variation(column: FloatArray, label: NDArray[np.bool_]) -> float:
    """Return the total variation distance between the two sides in the values of a column."""
    keys, inverse = np.unique(np.where(np.isnan(column), np.inf, column), return_inverse=True)
    shares = [
        np.bincount(inverse[side], minlength=len(keys)) / max(1, int(np.count_nonzero(side)))
        for side in (label, ~label)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def rank_shift(x: FloatArray, label: NDArray[np.bool_]) -> FloatArray:
    """Return the larger of two standardized differences between the sides for each column: of mean
    ranks and of mean squared ranks.
    """
    ranks = np.argsort(np.argsort(x, axis=0), axis=0) / len(x) - 0.5
    result = [
        np.abs(r[label].mean(axis=0) - r[~label].mean(axis=0)) / (r.std(axis=0) + 1e-12)
        for r in (ranks, ranks**2)
    ]
    return np.asarray(np.maximum(*result), dtype=np.float64)


def median_shift(x: FloatArray, label: NDArray[np.bool_], *, clear: bool = False) -> FloatArray:
    """Return the difference of the medians of both sides for each column, 0 if it overflows.

    If `clear`, each difference is reduced by the largest that chance is expected to cause in any of
    the columns.
    """
    one, zero = (without_overflow(medians, x[side]) for side in (label, ~label))
    with np.errstate(over="ignore", invalid="ignore"):
        difference = one - zero
        if clear:
            spread = np.abs(x - np.where(label[:, None], one, zero)).mean(axis=0)
            error = spread * np.sqrt(1 / np.count_nonzero(label) + 1 / np.count_nonzero(~label))
            difference = np.sign(difference) * np.maximum(
                np.abs(difference) - np.sqrt(2 * np.log(x.shape[1])) * error, 0.0
            )
        return np.where(np.isfinite(difference), difference, 0.0)


def whitening_matrix(z: FloatArray) -> FloatArray | None:
    """Return a matrix that makes columns uncorrelated, of variance 1; None if no two are clearly
    correlated, or some depend on others.
    """
    covariance = np.cov(np.clip(np.nan_to_num(z), -_MAX_WHITENED, _MAX_WHITENED).T)
    deviation = np.sqrt(np.diag(covariance))
    if not (deviation > 1e-150).all():
        return None
    correlation = covariance / np.outer(deviation, deviation)
    if (
        # in standard errors
        np.max(np.abs(np.triu(correlation, 1))) < 5.0 / np.sqrt(len(z))
        or np.linalg.eigvalsh(correlation)[0] < 1e-8
    ):
        return None
    return np.asarray(np.linalg.inv(np.linalg.cholesky(correlation)).T / deviation[:, None])


def moments(features: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean of each feature and its standard deviation, which is at least a tiny
    positive number.
    """
    center = np.average(features, axis=0, weights=weights)
    return center, np.maximum(
        np.sqrt(np.average((features - center) ** 2, axis=0, weights=weights)), 1e-12
    )


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
    step = -(-len(x) // 2**13)
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
        # eight random directions for each column
        *map(_unit, rng.standard_normal((8 * width, width))),
    ]
    values = [_difference(*sides, each) for each in starts]
    best_column, value, direction = max(values[:width]), max(values), starts[int(np.argmax(values))]
    # moves of a direction of length 1
    for size in (0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002):
        for move in np.linalg.qr(rng.standard_normal((width, width)))[0]:
            for sign in (1.0, -1.0):
                moved = _unit(direction + sign * size * move)
                found = _difference(*sides, moved)
                if found > value:
                    value, direction = found, moved
    return direction if value > 1.1 * best_column + 10.0 else None


def _unit(direction: FloatArray) -> FloatArray:
    """Return the direction with length 1; the first axis for a direction of length 0."""
    length = float(np.linalg.norm(direction))
    return direction / length if length > 0 else np.eye(len(direction))[0]


def _difference(x: FloatArray, label: NDArray[np.bool_], direction: FloatArray) -> float:
    """Return the chi-squared statistic of two samples' counts in cells of equal mass of a
    projection.
    """
    ordered = label[np.argsort(x @ direction)]
    ends = np.linspace(0, len(ordered), 33).astype(int)
    ones = np.diff(np.append(0, np.cumsum(ordered))[ends])
    total, share = np.diff(ends), ordered.mean()
    return float(
        ((ones - share * total) ** 2 / np.maximum(share * (1 - share) * total, 1e-9)).sum()
    )
