"""Design matrices of logistic regression: curves of the log-odds in a score, and features that
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
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.protocols.mechanism import FloatArray


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

_Group = tuple[str, FloatArray, Callable[[FloatArray], FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """Shared features of the training rows, and the weights of all features for each shared weight:
    (features, shared).
    """

    values: FloatArray
    matrix: FloatArray
    names: tuple[str, ...]


def share(
    keys: NDArray[np.str_],
    curves: Sequence[tuple[int, FloatArray]],
    features: FloatArray,
    ones: FloatArray,
    zeros: FloatArray,
) -> Shared:
    """Return the shared features of a model.

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
    return Shared(values, matrix, names)


def _shared_groups(
    keys: NDArray[np.str_], curves: Sequence[tuple[int, FloatArray]], features: FloatArray
) -> Iterator[_Group]:
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
            sizes[own, column] = _steps_of_size(knots)
        yield SHARED_CURVES[2], features @ sizes, partial(_placed, sizes)


def _placed(sums: FloatArray, signs: FloatArray) -> FloatArray:
    """Return the weight of each feature in the signed sum of these sums."""
    return (sums @ signs)[:, None]


def _steps_of_size(knots: FloatArray) -> FloatArray:
    """Return the steps between the knots of the distance from the middle knot, on a logarithmic
    scale if the tails are long.
    """
    with np.errstate(over="ignore"):
        size = np.abs(knots / 2 - knots[len(knots) // 2] / 2)
    size = size / max(float(np.median(size)), 1e-300)
    # in medians of all knots
    return np.asarray(np.diff(np.log1p(size) if size.max() > 30.0 else size))


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
