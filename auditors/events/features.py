"""Features of an output matrix in groups (blocks), as data that can be replayed; a score is a weighted sum of features.

The groups are the log-likelihood ratios of the usual noise distributions. A shift of Laplace noise
is linear between two points (`Ramps`), a shift of Gaussian noise is linear (`Affine`), and a change
of the Gaussian covariance is quadratic (`Products`). Noise with a radial density gives a function
of the distances to two centers (`Distances`). Sequences of answers differ in the first or last
position of an answer (`Places`). Sums of noisy parts differ in the differences of neighboring
columns. Unordered outputs differ in their order statistics (`Sorted`). Decision trees cover what no
such sum expresses (`Trees`). `Affine` does not clip its columns, because a linear combination of
them may be exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.protocols.mechanism import FloatArray

Columns = NDArray[np.int64]

REPEATED_VALUES_GROUP = "repeated values"  # name of the group of exact values in continuous columns
CURVED_GROUP = "curved"  # name of the group of ramps between quantiles
_MAX_CATEGORIES = 32  # a column with at most this many values is a category
_MAX_REPEATED = 64  # exact values of a continuous column that get their own level, at most
_SAMPLE_ROWS = 50_000  # rows from which the parameters of blocks are estimated
_QUANTILE_LEVELS = [0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 0.997]
_FEW_QUANTILE_LEVELS = [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]  # for many columns
_HEAVY_TAIL = 60.0  # distance from the center, in interquartile ranges, beyond which a logarithmic scale is used
MAX_CURVED, _MAX_SQUARED, _MAX_SORTED, _MAX_NEIGHBORS, _MAX_PLACED = 8, 10, 16, 64, 64  # maximum number of columns for each kind of block
_MAX_SHARED_CURVES = 24  # maximum number of columns that share a curve
_HALF = float(np.finfo(float).max) / 2
_MAX_DETAILED = 40  # number of columns above which only the columns that differ most get their own blocks
_MAX_LEVELS = 160  # number of levels up to which all columns with few values get their own blocks, however many they are


class Block(ABC):
    """A group of features whose weights have a common prior."""

    @abstractmethod
    def columns(self, matrix: FloatArray) -> FloatArray:
        """Return the features at each row of an output matrix (structure code first): (rows, k)."""

    def kinds(self, count: int) -> Columns:
        """Return the kind of each of the block's `count` features; the weights of a kind have their own prior."""
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
    """Progress of a column (minus column `less`, if that is not negative) from each knot to the next, clipped to [0, 1]."""

    column: int
    less: int
    knots: FloatArray

    def columns(self, matrix: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            x = matrix[:, self.column] if self.less < 0 else matrix[:, self.column] - matrix[:, self.less]
        x = np.where(np.isnan(x), self.knots[0], x)[:, None]
        left, right = self.knots[:-1], self.knots[1:]
        factor = 0.5 if self.knots[-1] / 2 - self.knots[0] / 2 > _HALF else 1.0  # the difference of the outer knots would overflow
        return (factor * np.clip(x, left, right) - factor * left) / (factor * right - factor * left)


@dataclass(frozen=True, slots=True, eq=False)
class NumericBlock(Block):
    """Base class of blocks on numeric columns, each with a center and a scale."""

    at: Columns
    center: FloatArray
    scale: FloatArray

    def standardised(self, matrix: FloatArray, most: float = 1e100) -> FloatArray:
        """Return the columns in units of their scale, clipped at `most`, whose square is still a float; 0 for NaN."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.clip(np.nan_to_num((matrix[:, self.at] - self.center) / self.scale), -most, most))


class Affine(NumericBlock):
    """Columns in units of their scale, not clipped."""

    __slots__ = ()

    def columns(self, matrix: FloatArray) -> FloatArray:
        return self.standardised(matrix)


class SignedLog(NumericBlock):
    """Columns on a logarithmic scale on either side of the center."""

    __slots__ = ()

    def columns(self, matrix: FloatArray) -> FloatArray:
        z = self.standardised(matrix)
        return np.asarray(np.sign(z) * np.log1p(np.abs(z)))


class Products(NumericBlock):
    """Squares, and products of two columns."""

    __slots__ = ()

    def columns(self, matrix: FloatArray) -> FloatArray:
        z = self.standardised(matrix, 1e70)
        first, second = np.triu_indices(len(self.at))
        return np.asarray(z[:, first] * z[:, second])

    def kinds(self, count: int) -> Columns:
        first, second = np.triu_indices(len(self.at))
        return np.asarray(first != second, dtype=np.int64)


class Sorted(NumericBlock):
    """Columns of a row in ascending order."""

    __slots__ = ()

    def columns(self, matrix: FloatArray) -> FloatArray:
        return np.sort(self.standardised(matrix), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Distances(NumericBlock):
    """Distances to the center of D1 and to the center of D0: their difference, their log-ratio, and the logarithm of their sum."""

    one: FloatArray
    zero: FloatArray

    def columns(self, matrix: FloatArray) -> FloatArray:
        z = self.standardised(matrix)
        from_one, from_zero = np.linalg.norm(z - self.one, axis=1), np.linalg.norm(z - self.zero, axis=1)
        ratio = np.log(from_one + 1e-3) - np.log(from_zero + 1e-3)
        return np.column_stack([from_one - from_zero, ratio, np.log1p(from_one + from_zero)])


@dataclass(frozen=True, slots=True, eq=False)
class Places(Block):
    """Positions of `value` in a sequence of answers: first, last, number of occurrences, and pairs in a row. NaN counts as infinity."""

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
        parts = [first[:, None] == places, last[:, None] == places, equal.sum(axis=1)[:, None], equal[:, :-1] & equal[:, 1:]]
        return np.concatenate(parts, axis=1, dtype=float)

    def kinds(self, count: int) -> Columns:
        length = len(self.at)
        return np.repeat([0, 1, 2], [2 * length + 2, 1, length - 1])


@dataclass(frozen=True, slots=True, eq=False)
class Trees(Block):
    """A sum of decision trees in one table of nodes: a row goes left where a number is at most the threshold, else right (also for NaN).

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
        from dpwitness.auditors.events.kernels import sum_of_trees  # loads Numba

        return sum_of_trees(np.ascontiguousarray(matrix), self.feature, self.threshold, self.left, self.right, self.value, self.roots)[
            :, None
        ]


def without_overflow(function: Callable[[FloatArray], Any], x: FloatArray) -> Any:
    """Return `function(x)` for a mean, a median or quantiles of finite numbers, rescaled if sums or differences overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        result = function(x)
        return result if np.isfinite(result).all() else 2.0**64 * np.asarray(function(x * 2.0**-64))


Values = dict[int, tuple[FloatArray, bool]]  # column -> (exact values, whether the column has no other values), for each column that varies


def values_of(matrix: FloatArray) -> Values:
    """Return the exact values of each column that varies.

    Uses all outputs: a sample would miss values that repeat a few times in ten thousand outputs.
    """
    varying = [j for j, column in enumerate(matrix.T) if not np.array_equal(column, np.full(len(column), column[0]), equal_nan=True)]
    return {j: exact_values(matrix[:, j]) for j in varying}


def propose_blocks(matrix: FloatArray, label: NDArray[np.bool_], values: Values) -> dict[str, list[Block]]:
    """Return blocks that fit these outputs, by name of their group. The blocks of a group have a common prior."""
    step = -(-len(matrix) // _SAMPLE_ROWS)
    return {name: blocks for name, blocks in _groups(matrix[::step], label[::step], values) if blocks}


def _groups(matrix: FloatArray, label: NDArray[np.bool_], values: Values) -> Iterator[tuple[str, list[Block]]]:
    """Yield the name and the blocks of each group for these outputs; a group may be empty."""
    categories = [j for j, (_, is_complete) in values.items() if is_complete]
    if len(categories) > _MAX_DETAILED:
        distance_of = {j: _total_variation(matrix[:, j], label) for j in categories}
        ranked = sorted(categories, key=lambda j: -distance_of[j])
        levels = np.cumsum([len(values[j][0]) - 1 for j in ranked])
        categories = sorted(ranked[: max(_MAX_DETAILED, int(np.count_nonzero(levels <= _MAX_LEVELS)))])
    continuous = [j for j, (_, is_complete) in values.items() if not is_complete]
    yield "levels", [Levels(j, values[j][0][1:]) for j in categories if len(values[j][0]) > 1]  # the first value is the baseline
    yield REPEATED_VALUES_GROUP, [Levels(j, values[j][0]) for j in continuous if len(values[j][0])]
    answers = [j for j in categories if j > 0 and len(values[j][0]) <= 4]
    if 3 <= len(answers) <= _MAX_PLACED:
        for value in np.unique(np.concatenate([values[j][0] for j in answers]))[:4].tolist():
            yield f"places of {value:g}", [Places(np.array(answers), value)]
    ordered = [j for j in categories if j > 0 and np.count_nonzero(np.isfinite(values[j][0])) >= 3]
    numeric = matrix[:, continuous + ordered]
    regular = np.isfinite(numeric)
    for position, j in enumerate(continuous):
        regular[:, position] &= ~np.isin(numeric[:, position], values[j][0])
    complete = regular.all(axis=1)
    if complete.sum() < 20:  # almost every output misses a number in some column
        numeric, complete = _fill_missing(numeric, regular), np.ones(len(numeric), dtype=np.bool_)
    if numeric.shape[1] and complete.sum() >= 20:
        yield from _numeric_groups(numeric[complete], label[complete], np.array(continuous + ordered), len(continuous))


def _fill_missing(x: FloatArray, regular: NDArray[np.bool_]) -> FloatArray:
    """Return the columns with each missing, infinite or repeated value replaced by the median of the others."""
    filled = x.copy()
    for column, present in zip(filled.T, regular.T, strict=True):
        column[~present] = without_overflow(np.median, column[present]) if present.any() else 0.0
    return filled


def _numeric_groups(x: FloatArray, label: NDArray[np.bool_], at: Columns, continuous: int) -> Iterator[tuple[str, list[Block]]]:
    """Yield the groups on numeric columns, of which the first `continuous` are continuous and the others are ordered categories."""
    one, zero = (without_overflow(_medians, x[side] if side.any() else x) for side in (label, ~label))
    low, high = without_overflow(_quartiles, x)
    with np.errstate(over="ignore"):
        spread = np.minimum(high - low, _HALF)
        spread = np.where(spread > 0, spread, np.std(np.clip(x, -1e150, 1e150), axis=0))
    scale = np.where(spread > 0, spread, 1.0)
    center = 0.5 * one + 0.5 * zero
    with np.errstate(over="ignore"):
        heavy = bool((np.abs((x - center) / scale) > _HEAVY_TAIL).any())
    if len(at) > _MAX_DETAILED:
        keep = np.sort(np.argsort(-np.abs(_rank_shift(x, label)), kind="stable")[:_MAX_DETAILED])
        continuous = int(np.count_nonzero(keep < continuous))
        x, at, center, scale, one, zero = x[:, keep], at[keep], center[keep], scale[keep], one[keep], zero[keep]
    columns_center_scale = (at, center, scale)
    yield "linear", [SignedLog(*columns_center_scale) if heavy else Affine(*columns_center_scale)]
    least, most = np.quantile(x[:, :continuous], [0.003, 0.997], axis=0)
    positive = np.flatnonzero((x[:, :continuous] > 0).all(axis=0) & (most / 4 > least))
    if len(positive):  # log-odds that are linear in the logarithm, as for a cell of a point on a simplex
        yield "logs", [SignedLog(at[positive], np.zeros(len(positive)), np.maximum(least[positive], 1e-300))]
    numbers = [(int(j), x[:, k]) for k, j in enumerate(at[:continuous])]
    yield "clipped", [Ramps(j, -1, _two_knots(column, label)) for j, column in numbers]
    if len(numbers) <= _MAX_SHARED_CURVES:
        levels = _QUANTILE_LEVELS if len(numbers) <= MAX_CURVED else _FEW_QUANTILE_LEVELS
        curves = [(j, np.unique(without_overflow(lambda x: np.quantile(x, levels), column))) for j, column in numbers]
        yield CURVED_GROUP, [Ramps(j, -1, knots) for j, knots in curves if len(knots) > 2]
    if heavy:
        yield "gaps", [Ramps(j, -1, knots) for j, column in numbers if len(knots := _gap_endpoints(column)) > 1]
    if len(at) < 2:
        return
    yield "distances", [Distances(*columns_center_scale, (one - center) / scale, (zero - center) / scale)]
    if len(at) <= _MAX_SQUARED and not heavy:
        yield "products", [Products(*columns_center_scale)]
    if 2 <= len(numbers) <= _MAX_NEIGHBORS:
        with np.errstate(over="ignore"):
            steps = [(i, j, np.clip(y - z, -_HALF, _HALF)) for (i, z), (j, y) in pairwise(numbers)]
        yield "differences", [Ramps(j, i, _two_knots(step, label)) for i, j, step in steps]
        if len(numbers) <= _MAX_SORTED and not heavy:
            yield "sorted", [Sorted(at[:continuous], center[:continuous], scale[:continuous])]


def _medians(x: FloatArray) -> FloatArray:
    """Return the median of each column."""
    return np.asarray(np.median(x, axis=0))


def _quartiles(x: FloatArray) -> FloatArray:
    """Return the first and third quartile of each column."""
    return np.asarray(np.quantile(x, [0.25, 0.75], axis=0))


def exact_values(column: FloatArray) -> tuple[FloatArray, bool]:
    """Return the sorted values of a column that count as categories, and whether they are all of its values.

    A column with few values has only categories. Otherwise categories are the values that repeat
    far more often than adjacent values.
    """
    keys, counts = np.unique(np.where(np.isnan(column), np.inf, column), return_counts=True)
    if len(keys) <= min(_MAX_CATEGORIES, max(2, len(column) // 8)):
        return keys, True
    if counts.max() <= 10:  # the condition below, with a median of at least 1
        return keys[:0], False
    from scipy.ndimage import median_filter

    regular = median_filter(counts.astype(float), 21, mode="mirror")  # at an end, the counts of its neighbors count twice
    repeated = np.flatnonzero((counts >= 4) & (counts > 6 * regular + 4))
    return keys[np.sort(repeated[np.argsort(-counts[repeated], kind="stable")[:_MAX_REPEATED]])], False


def _two_knots(x: FloatArray, label: NDArray[np.bool_]) -> FloatArray:
    """Return the medians of the two sides: the points where the log-ratio of a Laplace shift changes its slope.

    If the medians coincide, return two points close to them.
    """
    low, high = sorted(float(without_overflow(_medians, x[side] if side.any() else x)) for side in (label, ~label))
    first, third = map(float, without_overflow(_quartiles, x))
    spread = min(third - first, _HALF) or float(np.std(np.clip(x, -1e150, 1e150))) or 1.0
    step = max(1e-3 * spread, np.spacing(max(-low, high, 0.0)))  # a thousandth of a denormal number may round to 0
    return np.array([low, high]) if high - low > 1e-3 * spread else np.array([low - step, high + step])


def _gap_endpoints(x: FloatArray) -> FloatArray:
    """Return both endpoints of the largest gaps on a logarithmic scale, for outputs of several magnitudes."""
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


def _total_variation(column: FloatArray, label: NDArray[np.bool_]) -> float:
    """Return the total variation distance between the two sides in the values of a column."""
    keys, inverse = np.unique(np.where(np.isnan(column), np.inf, column), return_inverse=True)
    shares = [np.bincount(inverse[side], minlength=len(keys)) / max(1, int(np.count_nonzero(side))) for side in (label, ~label)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _rank_shift(x: FloatArray, label: NDArray[np.bool_]) -> FloatArray:
    """Return the larger of two standardized differences between the sides for each column: of mean ranks and of mean squared ranks."""
    ranks = np.argsort(np.argsort(x, axis=0), axis=0) / len(x) - 0.5
    result = [np.abs(r[label].mean(axis=0) - r[~label].mean(axis=0)) / (r.std(axis=0) + 1e-12) for r in (ranks, ranks**2)]
    return np.asarray(np.maximum(*result), dtype=np.float64)
