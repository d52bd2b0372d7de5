"""Statistics of the columns of an output matrix, from which the features of a model take their
knots, values and directions; the linear combination of columns in which two samples differ most;
and design matrices of logistic regression: curves of the log-odds in a score, and features that
share a weight.

Weights are shared by a change that moves many columns together, or by the same function of every
column. Each feature of a model has its own weight, whose error adds to the score. If many columns
move by similar amounts, one weight for their sum, with the sign of each column's own difference,
has a far smaller error. If the score is a sum of the same function of every column (a change of
scale, or a shift of heavy-tailed noise), the steps of this function are shared. The shared weights
are added to the features' own weights, whose prior then describes the deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.protocols import FloatArray

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


def varying_columns(matrix: FloatArray) -> list[int]:
    """Return the indices of the columns that are not constant; NaN equals NaN.

    Examples
    --------
    >>> varying_columns(np.array([[1.0, 0.0, np.nan], [1.0, 2.0, np.nan]]))
    [1]
    """
    constant = np.arange(matrix.shape[1])
    for rows in (matrix[:16], matrix):  # few rows tell most columns that vary
        part, first = rows[:, constant], rows[0, constant]
        equal = (part == first) | (np.isnan(part) & np.isnan(first))
        constant = constant[equal.all(axis=0)]
    same = set(constant.tolist())
    return [j for j in range(matrix.shape[1]) if j not in same]


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
    """Return the medians on the two datasets: the points where the log-ratio of a Laplace shift
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
    """Return the total variation distance between the two datasets in the values of a column."""
    keys, inverse = np.unique(np.where(np.isnan(column), np.inf, column), return_inverse=True)
    shares = [
        np.bincount(inverse[side], minlength=len(keys)) / max(1, int(np.count_nonzero(side)))
        for side in (label, ~label)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def rank_shift(x: FloatArray, label: NDArray[np.bool_]) -> FloatArray:
    """Return the larger of two standardized differences between the datasets for each column: of
    mean ranks and of mean squared ranks; 0 for outputs of one dataset.
    """
    if label.all() or not label.any():
        return np.zeros(x.shape[1])
    ranks = np.argsort(np.argsort(x, axis=0), axis=0) / len(x) - 0.5
    result = [
        np.abs(r[label].mean(axis=0) - r[~label].mean(axis=0)) / (r.std(axis=0) + 1e-12)
        for r in (ranks, ranks**2)
    ]
    return np.asarray(np.maximum(*result), dtype=np.float64)


def median_shift(x: FloatArray, label: NDArray[np.bool_], *, clear: bool = False) -> FloatArray:
    """Return the difference of the medians on both datasets for each column, 0 if it overflows.

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


def plain_curves(
    x: FloatArray, ones: FloatArray, total: FloatArray
) -> Iterator[tuple[FloatArray, float]]:
    """Yield the design matrices and log prior weights of curves with two weights.

    Lines that are flat outside of a central interval are the log-odds of a shift of normal and of
    Laplace noise, and of scores that are log-odds. A step at one end, if the counts there are
    unusual, is a rare leak. With few outputs, curves that bend freely are too uncertain to choose
    among these.
    """
    share = (np.cumsum(total) - total / 2) / total.sum()
    # a plain curve is flat outside of a central share of the outputs
    for central in (0.1, 0.3, 0.5, 1.0):
        low, high = (
            np.interp([(1 - central) / 2, (1 + central) / 2], share, x)
            if central < 1
            else (x[0], x[-1])
        )
        clipped = np.clip(x, low, high)
        clipped = clipped - np.average(clipped, weights=total)
        spread = np.sqrt(np.average(clipped**2, weights=total))
        if spread > 0:
            yield np.column_stack([np.ones(len(x)), clipped / spread]), 0.0
    rate, size = ones.sum() / total.sum(), float(total.sum())
    # at least 12 outputs beyond a step
    for beyond in np.exp2(-np.arange(4, max(5, np.log2(max(size / 12, 16))), 0.5)):
        for outside in (share < beyond, share > 1 - beyond):
            number = float(total[outside].sum())
            # in standard deviations of chance
            if abs(ones[outside].sum() - rate * number) > 3.0 * np.sqrt(rate * (1 - rate) * number):
                yield np.column_stack([np.ones(len(x)), outside]), -4.0


def bent_curves(x: FloatArray, total: FloatArray) -> list[tuple[FloatArray, int, int]]:
    """Return the design matrices of the curve, each with its number of bends in the bulk and in the
    tails.

    One design is straight and one is flat beyond the tails. Each has independent bends on both
    sides and, if possible, a symmetric variant with equal bends on both sides, as for additive
    noise.
    """
    rank, n = np.cumsum(total), float(total.sum())
    octaves = n / 2.0 ** np.arange(1, max(2, int(np.log2(max(n / 12, 4)))))
    octave_ranks = np.concatenate([octaves, n - octaves])
    at, which = np.unique(
        np.clip(np.searchsorted(rank, octave_ranks), 1, len(x) - 2), return_index=True
    )
    place = octave_ranks[which] / n
    above, tail = place >= 0.5, np.minimum(place, 1 - place) <= 0.12
    hinges = []
    for k, bend in enumerate(x[at]):
        if above[k]:
            end = x[at[k + 1]] if k + 1 < len(at) else x[-1]
            hinges.append(np.maximum(x - bend, 0) / max(end - bend, 1e-3))
        else:
            end = x[at[k - 1]] if k > 0 else x[0]
            hinges.append(np.maximum(bend - x, 0) / max(bend - end, 1e-3))
    bends = np.array(hinges).T
    low = x[at[tail & ~above].max(initial=0)] if np.any(tail & ~above) else x[0]
    high = x[at[tail & above].min(initial=len(x) - 1)] if np.any(tail & above) else x[-1]
    clipped = np.clip(x, low, high)
    bulk = (
        np.column_stack([np.interp(clipped, x, column) for column in bends[:, ~tail].T])
        if np.any(~tail)
        else np.empty((len(x), 0))
    )
    one, inner, outer = np.ones(len(x)), int(np.count_nonzero(~tail)), int(np.count_nonzero(tail))
    straight = np.column_stack([one, x, bends[:, ~tail], bends[:, tail]])
    flat = np.column_stack([one, clipped, bulk, np.clip(bends[:, tail], 0, 1)])
    free = [(straight, inner, outer), (flat, inner, outer)]
    if np.any(tail != tail[::-1]) or np.count_nonzero(tail & above) * 2 != outer:
        return free
    return free + [
        (_symmetric_design(design, inner, outer), inner // 2, outer // 2)
        for design, inner, outer in free
    ]


def _symmetric_design(design: FloatArray, inner: int, outer: int) -> FloatArray:
    """Return the design matrix with one weight for each bend and its mirror image; the middle bend
    is dropped.

    The bends must be in ascending order of the score.
    """
    line, *parts = np.split(design, [2, 2 + inner], axis=1)
    halves = [
        (part[:, : part.shape[1] // 2], part[:, -(part.shape[1] // 2) :])
        for part in parts
        if part.shape[1] > 1
    ]
    return np.column_stack([line, *(upper - lower[:, ::-1] for lower, upper in halves)])


# names of the weights that curves of several columns share
SHARED_CURVES = ("shared curve", "shared shift", "shared size")
# part of a large difference (this quantile of all) that a column must reach to share its sign
_SIMILAR, _LARGE = 0.25, 0.9
_FOLDS = 4


def share(
    keys: NDArray[np.str_],
    curves: Sequence[tuple[int, FloatArray]],
    features: FloatArray,
    ones: FloatArray,
    zeros: FloatArray,
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return the shared features of a model on the training rows, the weights of all features for
    each shared weight, (features, shared), and the names of the shared weights.

    `keys` names the group of each feature. `curves` holds, for each column with ramps from knot to
    knot, the index of the first ramp and the knots. `ones` and `zeros` count how often each row
    came from D1 and from D0. Signs that apply to a row are estimated on other rows, so that signs
    that are due to chance get no weight.
    """
    found, fold = list[tuple[str, FloatArray, FloatArray]](), np.arange(len(features)) % _FOLDS
    for name, columns, weights_of in _shared_groups(keys, curves, features):
        signs = (
            np.ones((_FOLDS + 1, len(columns)))
            if columns.ndim == 1
            else _fold_signs(columns, ones, zeros)
        )
        if signs[-1].any():
            matrices = [weights_of(row) for row in signs]
            values = np.empty((len(features), matrices[0].shape[1]))
            for k in range(_FOLDS):
                values[fold == k] = features[fold == k] @ matrices[k]
            found.append((name, values, matrices[-1]))
    names = tuple(name for name, values, _ in found for _ in range(values.shape[1]))
    none = np.empty((len(features), 0)), np.empty((features.shape[1], 0))
    values, matrix = (
        np.concatenate([first, *(each[k] for each in found)], axis=1)
        for k, first in enumerate(none, start=1)
    )
    return values, matrix, names


def _shared_groups(
    keys: NDArray[np.str_], curves: Sequence[tuple[int, FloatArray]], features: FloatArray
) -> Iterator[tuple[str, FloatArray, Callable[[FloatArray], FloatArray]]]:
    """Yield each group of shared features: its name, the columns whose differences have the signs,
    and the weights given the signs.

    A group with the same sign in all columns has a single row of columns.
    """
    size = len(keys)
    # groups with one feature for each column or level
    for key in ("levels/0", "linear/0", "clipped/0", "products/0"):
        own = np.flatnonzero(keys == key)
        if len(own) >= 3:
            yield f"shared {key}", features[:, own], partial(_placed, np.eye(size)[:, own])
    ramps = [
        (first, knots)
        for first, knots in curves
        if len(knots) == max(len(other) for _, other in curves)
    ]
    if len(ramps) >= 2:
        steps = [np.arange(first, first + len(knots) - 1) for first, knots in ramps]
        yield SHARED_CURVES[0], np.ones(len(ramps)), partial(_common_curve, steps, size)
        yield (
            SHARED_CURVES[1],
            np.column_stack([features[:, own].sum(axis=1) for own in steps]),
            partial(_common_curve, steps, size),
        )
        sizes = np.zeros((size, len(ramps)))
        for column, (own, (_, knots)) in enumerate(zip(steps, ramps, strict=True)):
            # steps of the distance from the middle knot, in medians of all knots; on a logarithmic
            # scale if the tails are long
            with np.errstate(over="ignore"):
                distance = np.abs(knots / 2 - knots[len(knots) // 2] / 2)
            distance = distance / max(float(np.median(distance)), 1e-300)
            sizes[own, column] = np.diff(np.log1p(distance) if distance.max() > 30.0 else distance)
        yield SHARED_CURVES[2], features @ sizes, partial(_placed, sizes)


def _placed(sums: FloatArray, signs: FloatArray) -> FloatArray:
    """Return the weight of each feature in the signed sum of these sums."""
    return (sums @ signs)[:, None]


def _common_curve(steps: Sequence[NDArray[np.intp]], size: int, signs: FloatArray) -> FloatArray:
    """Return the weight of each feature for each step of a common curve, which is mirrored for
    columns that move downward.
    """
    matrix = np.zeros((size, len(steps[0])))
    for own, sign in zip(steps, signs, strict=True):
        matrix[own if sign >= 0 else own[::-1], np.arange(len(own))] = sign
    return matrix


def _fold_signs(x: FloatArray, ones: FloatArray, zeros: FloatArray) -> FloatArray:
    """Return the signs of the columns' differences between the sides without each fold, and of all
    rows: (folds + 1, columns).

    A sign is smaller than 1 if the difference is below two standard errors, and 0 below one. Both
    numbers are larger if some columns differ so much that the others do not move by a similar
    amount.
    """
    total = ones + zeros
    variance = np.maximum(
        np.average(x**2, axis=0, weights=total) - np.average(x, axis=0, weights=total) ** 2, 1e-300
    )
    fold = np.arange(len(x)) % _FOLDS
    sums = np.array(
        [[x[fold == k].T @ side[fold == k] for k in range(_FOLDS)] for side in (ones, zeros)]
    )
    counts = np.array([[side[fold == k].sum() for k in range(_FOLDS)] for side in (ones, zeros)])
    sums = np.concatenate(
        [sums.sum(axis=1, keepdims=True) - sums, sums.sum(axis=1, keepdims=True)], axis=1
    )
    counts = np.maximum(
        np.concatenate(
            [counts.sum(axis=1, keepdims=True) - counts, counts.sum(axis=1, keepdims=True)], axis=1
        ),
        1.0,
    )
    difference = sums[0] / counts[0][:, None] - sums[1] / counts[1][:, None]
    statistic = difference / np.sqrt(variance * (1 / counts[0] + 1 / counts[1])[:, None])
    least = np.maximum(
        1.0, _SIMILAR * np.quantile(np.abs(statistic), _LARGE, axis=1, keepdims=True)
    )
    return np.asarray(np.sign(statistic) * np.clip(np.abs(statistic) - least, 0, 1))
