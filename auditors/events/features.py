"""Features of an output matrix in groups (blocks), as data that can be replayed; a score is a
weighted sum of features.

The groups are the log-likelihood ratios of the usual noise distributions. A shift of Laplace noise
is linear between two points (`Ramps`), a shift of Gaussian noise is linear (`Affine`), and a change
of the Gaussian covariance is quadratic (`Products`). Noise with a radial density gives a function
of the distances to two centers (`Distances`, or `WhitenedDistances` if columns are correlated).
Outputs of an optimization differ along the direction of a record (`ProjectedRamps`). Sequences of
answers differ in the first or last position of an answer (`Places`), or in answers that go together
(crosses of two columns). Sums of noisy parts differ in the differences of neighboring columns.
Unordered outputs differ in their order statistics (`Sorted`). Decision trees cover what no such sum
expresses (`Trees`). `Affine` does not clip its columns, because a linear combination of them may be
exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.statistics.columns import (
    HALF,
    exact_values,
    find_direction,
    gap_endpoints,
    medians,
    quartiles,
    rank_shift,
    total_variation,
    two_knots,
    varying_columns,
    whitening_matrix,
    without_overflow,
)
from dpwitness.core.protocols import FloatArray

Columns = NDArray[np.int64]

CURVED_GROUP = "curved"  # name of the group of ramps between quantiles
_QUANTILE_LEVELS = [
    0.003,
    0.01,
    0.03,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.97,
    0.99,
    0.997,
]
# maximum number of columns for each kind of block
MAX_CURVED, _MAX_SQUARED, _MAX_SORTED, _MAX_NEIGHBORS, _MAX_PLACED = 8, 10, 16, 64, 64
# number of columns above which only the columns that differ most get their own blocks
_MAX_DETAILED = 40


class Block(ABC):
    """A group of features whose weights have a common prior."""

    @abstractmethod
    def columns(self, matrix: FloatArray) -> FloatArray:
        """Return the features at each row of an output matrix (structure code first): (rows, k)."""

    def kinds(self, count: int) -> Columns:
        """Return the kind of each of the block's `count` features; the weights of a kind have their
        own prior.
        """
        return np.zeros(count, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Levels(Block):
    """Indicators of whether a column equals each of some exact values. NaN counts as infinity."""

    column: int
    keys: FloatArray

    def columns(self, matrix: FloatArray) -> FloatArray:
        x = matrix[:, self.column]
        return np.asarray(np.where(np.isnan(x), np.inf, x)[:, None] == self.keys, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Ramps(Block):
    """Progress of a column (minus column `less`, if that is not negative) from each knot to the
    next, clipped to [0, 1].
    """

    column: int
    less: int
    knots: FloatArray

    def columns(self, matrix: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            x = (
                matrix[:, self.column]
                if self.less < 0
                else matrix[:, self.column] - matrix[:, self.less]
            )
        x = np.where(np.isnan(x), self.knots[0], x)[:, None]
        left, right = self.knots[:-1], self.knots[1:]
        # the difference of the outer knots would overflow
        factor = 0.5 if self.knots[-1] / 2 - self.knots[0] / 2 > HALF else 1.0
        return (factor * np.clip(x, left, right) - factor * left) / (factor * right - factor * left)


@dataclass(frozen=True, slots=True, eq=False)
class NumericBlock(Block):
    """Base class of blocks on numeric columns, each with a center and a scale."""

    at: Columns
    center: FloatArray
    scale: FloatArray

    def standardised(self, matrix: FloatArray, most: float = 1e100) -> FloatArray:
        """Return the columns in units of their scale, clipped at `most`, whose square is still a
        float; 0 for NaN.
        """
        return _in_units(matrix[:, self.at], self.center, self.scale, most)


class Affine(NumericBlock):
    """Columns in units of their scale, not clipped."""

    def columns(self, matrix: FloatArray) -> FloatArray:
        return self.standardised(matrix)


class SignedLog(NumericBlock):
    """Columns on a logarithmic scale on either side of the center."""

    def columns(self, matrix: FloatArray) -> FloatArray:
        z = self.standardised(matrix)
        return np.asarray(np.sign(z) * np.log1p(np.abs(z)))


class Products(NumericBlock):
    """Squares, and products of two columns."""

    def columns(self, matrix: FloatArray) -> FloatArray:
        z = self.standardised(matrix, 1e70)
        first, second = np.triu_indices(len(self.at))
        return np.asarray(z[:, first] * z[:, second])

    def kinds(self, count: int) -> Columns:
        first, second = np.triu_indices(len(self.at))
        return np.asarray(first != second, dtype=np.int64)


class Sorted(NumericBlock):
    """Columns of a row in ascending order."""

    def columns(self, matrix: FloatArray) -> FloatArray:
        return np.sort(self.standardised(matrix), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Distances(NumericBlock):
    """Distances to the center of D1 and to the center of D0: their difference, their log-ratio, and
    the logarithm of their sum.
    """

    one: FloatArray
    zero: FloatArray

    def columns(self, matrix: FloatArray) -> FloatArray:
        z = self.standardised(matrix)
        from_one, from_zero = (
            np.linalg.norm(z - self.one, axis=1),
            np.linalg.norm(z - self.zero, axis=1),
        )
        ratio = np.log(from_one + 1e-3) - np.log(from_zero + 1e-3)
        return np.column_stack([from_one - from_zero, ratio, np.log1p(from_one + from_zero)])


@dataclass(frozen=True, slots=True, eq=False)
class WhitenedDistances(Distances):
    """The same distances in coordinates without correlation: standardized columns times
    `whitening`, as are the centers.
    """

    whitening: FloatArray

    def standardised(self, matrix: FloatArray, most: float = 1e100) -> FloatArray:
        return np.asarray(Distances.standardised(self, matrix, most) @ self.whitening)


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedRamps(NumericBlock):
    """Ramps on a linear combination of the columns in units of their scale."""

    direction: FloatArray
    knots: FloatArray

    def columns(self, matrix: FloatArray) -> FloatArray:
        return Ramps(0, -1, self.knots).columns(
            (self.standardised(matrix) @ self.direction)[:, None]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Places(Block):
    """Positions of `value` in a sequence of answers: first, last, number of occurrences, and pairs
    in a row. NaN counts as infinity.
    """

    at: Columns
    value: float

    def columns(self, matrix: FloatArray) -> FloatArray:
        x = matrix[:, self.at]
        equal = np.where(np.isnan(x), np.inf, x) == self.value
        length = len(self.at)
        occurs = equal.any(axis=1)
        first = np.where(occurs, equal.argmax(axis=1), length)
        last = np.where(occurs, length - 1 - equal[:, ::-1].argmax(axis=1), length)
        places = np.arange(length + 1)
        parts = [
            first[:, None] == places,
            last[:, None] == places,
            equal.sum(axis=1)[:, None],
            equal[:, :-1] & equal[:, 1:],
        ]
        return np.concatenate(parts, axis=1, dtype=float)

    def kinds(self, count: int) -> Columns:
        length = len(self.at)
        return np.repeat([0, 1, 2], [2 * length + 2, 1, length - 1])


@dataclass(frozen=True, slots=True, eq=False)
class Trees(Block):
    """A sum of decision trees in one table of nodes: a row goes left where a number is at most the
    threshold, else right (also for NaN).

    Each child has a larger index than its parent, so every path ends. A leaf has a value and no
    children (-1). `roots` holds the index of the first node of each tree.
    """

    feature: Columns
    threshold: FloatArray
    left: Columns
    right: Columns
    value: FloatArray
    roots: Columns

    def columns(self, matrix: FloatArray) -> FloatArray:
        from dpwitness.auditors.statistics.regression import sum_of_trees  # loads Numba

        return sum_of_trees(
            np.ascontiguousarray(matrix),
            self.feature,
            self.threshold,
            self.left,
            self.right,
            self.value,
            self.roots,
        )[:, None]


def merge_trees(blocks: Sequence[tuple[Block, FloatArray]]) -> tuple[tuple[Block, FloatArray], ...]:
    """Return blocks with the same weighted sum, of which at most one is `Trees`: one table of nodes
    is faster than many.
    """
    parts = [(block, float(weight[0])) for block, weight in blocks if isinstance(block, Trees)]
    others = [(block, weight) for block, weight in blocks if not isinstance(block, Trees)]
    if not parts:
        return tuple(others)
    starts = np.cumsum([0, *(len(trees.feature) for trees, _ in parts)]).tolist()
    children = [
        [np.where(each < 0, each, each + start) for each in (trees.left, trees.right, trees.roots)]
        for (trees, _), start in zip(parts, starts, strict=False)
    ]
    left, right, roots = (np.concatenate(each) for each in zip(*children, strict=True))
    feature, threshold = (
        np.concatenate([getattr(trees, name) for trees, _ in parts])
        for name in ("feature", "threshold")
    )
    value = np.concatenate([weight * trees.value for trees, weight in parts])
    return (*others, (Trees(feature, threshold, left, right, value, roots), np.ones(1)))


# column -> (exact values, whether the column has no other values), for each column that varies
Values = dict[int, tuple[FloatArray, bool]]


def values_of(matrix: FloatArray) -> Values:
    """Return the exact values of each column that varies.

    Uses all outputs: a sample would miss values that repeat a few times in ten thousand outputs.
    """
    return {j: exact_values(matrix[:, j]) for j in varying_columns(matrix)}


def propose_blocks(
    matrix: FloatArray, label: NDArray[np.bool_], values: Values
) -> Iterator[tuple[str, list[Block]]]:
    """Yield the name and the blocks of each group for these outputs; a group may be empty. The
    blocks of a group have a common prior.
    """
    # the parameters of blocks are estimated from at most 50,000 rows
    step = -(-len(matrix) // 50_000)
    matrix, label = matrix[::step], label[::step]
    categories = [j for j, (_, is_complete) in values.items() if is_complete]
    if len(categories) > _MAX_DETAILED:
        categories = _most_different(categories, matrix, label, values)
    continuous = [j for j, (_, is_complete) in values.items() if not is_complete]
    # the first value is the baseline
    yield "levels", [Levels(j, values[j][0][1:]) for j in categories if len(values[j][0]) > 1]
    yield "repeated values", [Levels(j, values[j][0]) for j in continuous if len(values[j][0])]
    yield from _place_groups(categories, values)
    yield (
        "crosses",
        _crosses(
            matrix, [j for j in categories if 2 <= len(values[j][0]) <= 4], continuous, values
        ),
    )
    ordered = [j for j in categories if j > 0 and np.count_nonzero(np.isfinite(values[j][0])) >= 3]
    numeric, complete = _complete_rows(matrix[:, continuous + ordered], continuous, values)
    if numeric.shape[1] and complete.sum() >= 8:
        yield from _numeric_groups(
            numeric[complete], label[complete], np.array(continuous + ordered), len(continuous)
        )


def _place_groups(categories: list[int], values: Values) -> Iterator[tuple[str, list[Block]]]:
    """Yield the groups of the positions of an answer, for up to four answers."""
    answers = [j for j in categories if j > 0 and len(values[j][0]) <= 4]
    if 3 <= len(answers) <= _MAX_PLACED:
        for value in np.unique(np.concatenate([values[j][0] for j in answers]))[:4].tolist():
            yield f"places of {value:g}", [Places(np.array(answers), value)]


def _most_different(
    categories: list[int], matrix: FloatArray, label: NDArray[np.bool_], values: Values
) -> list[int]:
    """Return the columns with few values that differ most and get their own blocks: all of them if
    they have at most 160 levels.
    """
    ranked = sorted(categories, key=lambda j: -total_variation(matrix[:, j], label))
    levels = np.cumsum([len(values[j][0]) - 1 for j in ranked])
    return sorted(ranked[: max(_MAX_DETAILED, int(np.count_nonzero(levels <= 160)))])


def _complete_rows(
    numeric: FloatArray, continuous: list[int], values: Values
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the numeric columns, of which the first are `continuous`, and the rows with a number
    in each of them; a repeated value is not a number of a continuous column.
    """
    regular = np.isfinite(numeric)
    for position, j in enumerate(continuous):
        regular[:, position] &= ~np.isin(numeric[:, position], values[j][0])
    complete = np.asarray(regular.all(axis=1))
    if complete.sum() >= 20:
        return numeric, complete
    # almost every output misses a number in some column: the median of the others stands for it
    for column, present in zip(numeric.T, regular.T, strict=True):
        column[~present] = without_overflow(np.median, column[present]) if present.any() else 0
    return numeric, np.ones(len(numeric), dtype=np.bool_)


def _in_units(
    x: FloatArray, center: FloatArray, scale: FloatArray, most: float = 1e100
) -> FloatArray:
    """Return columns in units of their scale, cut where they are so large that a sum of their
    squares would overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.clip(np.nan_to_num((x - center) / scale), -most, most))


def _crosses(
    matrix: FloatArray, categories: list[int], continuous: list[int], values: Values
) -> list[Block]:
    """Return, for two columns of which one has few values, whether both are on the same side of
    their thresholds, 1 or -1.

    A category has a threshold between each two values, a number at its median. Without these
    features, a leak that only two columns together show (such as a sign that agrees with another)
    has no weight that learns it.
    """
    columns = categories + continuous
    if not categories or len(columns) > MAX_CURVED:
        return []
    cuts = {j: 0.5 * values[j][0][:-1] + 0.5 * values[j][0][1:] for j in categories}
    cuts |= {
        j: np.array([without_overflow(np.median, finite)])
        for j in continuous
        if len(finite := matrix[np.isfinite(matrix[:, j]), j])
    }
    for j in categories:  # a threshold must be finite; NaN and infinity are on its right
        finite = np.where(np.isfinite(cuts[j]), cuts[j], values[j][0][:-1])
        cuts[j] = finite[np.isfinite(finite)]
    pairs = [
        (i, j) for i, j in combinations(columns, 2) if i in categories and i in cuts and j in cuts
    ]
    crosses: list[Block] = [
        _cross(i, j, a, b) for i, j in pairs for a in cuts[i].tolist() for b in cuts[j].tolist()
    ]
    return crosses[:40]


def _cross(i: int, j: int, a: float, b: float) -> Trees:
    """Return the tree of two levels that is 1 if both columns are at most their thresholds or both
    above, and else -1.
    """
    children = np.array([1, 3, 5, -1, -1, -1, -1]), np.array([2, 4, 6, -1, -1, -1, -1])
    cuts, value = (
        np.array([a, b, b, 0.0, 0.0, 0.0, 0.0]),
        np.array([0.0, 0.0, 0.0, 1.0, -1.0, -1.0, 1.0]),
    )
    return Trees(np.array([i, j, j, 0, 0, 0, 0]), cuts, *children, value, np.array([0]))


def _centers_and_scale(
    x: FloatArray, label: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the medians of each column on D1 and on D0, their mean, and the scale: the
    interquartile range, or else the standard deviation, or else 1.
    """
    one, zero = (
        without_overflow(medians, x[side] if side.any() else x) for side in (label, ~label)
    )
    low, high = without_overflow(quartiles, x)
    with np.errstate(over="ignore"):
        spread = np.minimum(high - low, HALF)
        spread = np.where(spread > 0, spread, np.std(np.clip(x, -1e150, 1e150), axis=0))
    return one, zero, 0.5 * one + 0.5 * zero, np.where(spread > 0, spread, 1.0)


def _numeric_groups(
    x: FloatArray, label: NDArray[np.bool_], at: Columns, continuous: int
) -> Iterator[tuple[str, list[Block]]]:
    """Yield the groups on numeric columns, of which the first `continuous` are continuous and the
    others are ordered categories.
    """
    one, zero, center, scale = units = _centers_and_scale(x, label)
    with np.errstate(over="ignore"):  # in interquartile ranges
        heavy = bool((np.abs((x - center) / scale) > 60.0).any())
    if len(at) > _MAX_DETAILED:
        keep = np.sort(np.argsort(-np.abs(rank_shift(x, label)), kind="stable")[:_MAX_DETAILED])
        continuous = int(np.count_nonzero(keep < continuous))
        x, at = x[:, keep], at[keep]
        one, zero, center, scale = (each[keep] for each in units)
    columns_center_scale = (at, center, scale)
    yield "linear", [SignedLog(*columns_center_scale) if heavy else Affine(*columns_center_scale)]
    least, most = np.quantile(x[:, :continuous], [0.003, 0.997], axis=0)
    positive = np.flatnonzero((x[:, :continuous] > 0).all(axis=0) & (most / 4 > least))
    # log-odds that are linear in the logarithm, as for a cell of a point on a simplex
    if len(positive):
        yield (
            "logs",
            [SignedLog(at[positive], np.zeros(len(positive)), np.maximum(least[positive], 1e-300))],
        )
    numbers = list(zip(at[:continuous].tolist(), x.T, strict=False))
    yield from _column_groups(numbers, label, heavy)
    if len(at) < 2:
        return
    yield (
        "distances",
        [Distances(*columns_center_scale, (one - center) / scale, (zero - center) / scale)],
    )
    z, at_one, at_zero = (_in_units(each, center, scale) for each in (x, one, zero))
    # groups in other coordinates; a linear combination of many columns takes long to find
    if len(at) <= 6 and (direction := find_direction(z, label)) is not None:
        knots = np.unique(np.quantile(z @ direction, _QUANTILE_LEVELS))
        if len(knots) > 2:
            yield "projected", [ProjectedRamps(*columns_center_scale, direction, knots)]
    within = z - np.where(label[:, None], at_one, at_zero)
    if len(at) <= _MAX_SQUARED and (whitening := whitening_matrix(within)) is not None:
        yield (
            "whitened distances",
            [
                WhitenedDistances(
                    *columns_center_scale, at_one @ whitening, at_zero @ whitening, whitening
                )
            ],
        )
    if len(at) <= _MAX_SQUARED and not heavy:
        yield "products", [Products(*columns_center_scale)]
    if 2 <= len(numbers) <= _MAX_NEIGHBORS:
        with np.errstate(over="ignore"):
            steps = [(i, j, np.clip(y - z, -HALF, HALF)) for (i, z), (j, y) in pairwise(numbers)]
        yield "differences", [Ramps(j, i, two_knots(step, label)) for i, j, step in steps]
        if len(numbers) <= _MAX_SORTED and not heavy:
            yield "sorted", [Sorted(at[:continuous], center[:continuous], scale[:continuous])]


def _column_groups(
    numbers: list[tuple[int, FloatArray]], label: NDArray[np.bool_], heavy: bool
) -> Iterator[tuple[str, list[Block]]]:
    """Yield the groups with one block for each continuous column: ramps between two knots, between
    quantiles, and, if the columns have `heavy` tails, between the ends of gaps.
    """
    yield "clipped", [Ramps(j, -1, two_knots(column, label)) for j, column in numbers]
    if len(numbers) <= 24:
        levels = (
            _QUANTILE_LEVELS
            if len(numbers) <= MAX_CURVED
            else [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]
        )
        curves = [
            (j, np.unique(without_overflow(lambda x: np.quantile(x, levels), column)))
            for j, column in numbers
        ]
        yield CURVED_GROUP, [Ramps(j, -1, knots) for j, knots in curves if len(knots) > 2]
    if heavy:
        yield (
            "gaps",
            [
                Ramps(j, -1, knots)
                for j, column in numbers
                if len(knots := gap_endpoints(column)) > 1
            ],
        )
