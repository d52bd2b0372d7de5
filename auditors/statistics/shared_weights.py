"""Weights that several features share: a change that moves many columns together, or the same
function of every column.

Each feature of a model has its own weight, whose error adds to the score. If many columns move by
similar amounts, one weight for their sum, with the sign of each column's own difference, has a far
smaller error. If the score is a sum of the same function of every column (a change of scale, or a
shift of heavy-tailed noise), the steps of this function are shared. The shared weights are added to
the features' own weights, whose prior then describes the deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.protocols.mechanism import FloatArray

# groups with one feature for each column or level
_SIGNED_KEYS = ("levels/0", "linear/0", "clipped/0", "products/0")
# names of the weights that curves of several columns share
SHARED_CURVES = ("shared curve", "shared shift", "shared size")
_MIN_FEATURES = 3  # minimum number of features that share a sign
# size of the outer knots, in medians of all knots, from which a logarithmic scale is used
_LONG_TAIL = 30.0
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
    for key in _SIGNED_KEYS:
        own = np.flatnonzero(keys == key)
        if len(own) >= _MIN_FEATURES:
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
    return np.asarray(np.diff(np.log1p(size) if size.max() > _LONG_TAIL else size))


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
