"""Columns computed from an output matrix, in groups: what a score is a weighted sum of. Data, not code, so that an event can be replayed.

The groups are the log-ratios of the laws that mechanisms have: a shift of Laplace noise is linear between two points (`Ramps`), one of
Gaussian noise linear (`Affine`), one of its covariance quadratic (`Products`), noise of a radial density a function of distances to two
centers (`Distances`); sequences of answers differ by where the first or last of a kind stands (`Places`), sums of noisy parts in the
differences of neighbours, unordered outputs in their order statistics (`Sorted`). What no such sum says, trees may (`Trees`). Nothing is
clipped before it is added in `Affine`: a linear combination may be exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.terms.protocol import FloatArray

Columns = NDArray[np.int64]

REPEATED = "repeated values"  # the group of exact values among continuous ones
_FEW = 32  # a column with at most this many values is a category
_MOST_REPEATED = 64  # exact values among continuous ones that get a level of their own, at most
_SAMPLE = 50_000  # rows from which blocks are shaped
_LEVELS = [0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 0.997]
_HEAVY = 60.0  # interquartile ranges from the middle, beyond which a column is taken on a logarithmic scale
_CURVED, _SQUARED, _SORTED, _NEIGHBOURS, _PLACED = 8, 10, 16, 64, 64  # columns, at most, of a block of each kind
_HALF = float(np.finfo(float).max) / 2
_SEVERAL = 40  # columns beyond which only those that differ most are looked at one by one


class Block(ABC):
    """A group of columns whose weights have one prior."""

    @abstractmethod
    def columns(self, matrix: FloatArray) -> FloatArray:
        """Values at each row of an output matrix (structure code first): (rows, k)."""


@dataclass(frozen=True, slots=True, eq=False)
class Levels(Block):
    """Whether a column has one of some exact values; infinity stands for NaN too."""

    column: int
    keys: FloatArray

    def columns(self, matrix: FloatArray) -> FloatArray:
        x = matrix[:, self.column]
        return np.asarray(np.where(np.isnan(x), np.inf, x)[:, None] == self.keys, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Ramps(Block):
    """How far a column (less another one, where `less` is not negative) has come from each knot to the next."""

    column: int
    less: int
    knots: FloatArray

    def columns(self, matrix: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            x = matrix[:, self.column] if self.less < 0 else matrix[:, self.column] - matrix[:, self.less]
        x = np.where(np.isnan(x), self.knots[0], x)[:, None]
        left, right = self.knots[:-1], self.knots[1:]
        far = 0.5 if self.knots[-1] / 2 - self.knots[0] / 2 > _HALF else 1.0  # their difference is no float
        return (far * np.clip(x, left, right) - far * left) / (far * right - far * left)


@dataclass(frozen=True, slots=True, eq=False)
class Numbers(Block):
    """Columns that hold numbers, with a middle and a spread of each."""

    at: Columns
    center: FloatArray
    scale: FloatArray

    def standardised(self, matrix: FloatArray, most: float = 1e100) -> FloatArray:
        """Those columns in units of their spread, up to `most`, whose square is still a float; 0 for NaN."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.clip(np.nan_to_num((matrix[:, self.at] - self.center) / self.scale), -most, most))


class Affine(Numbers):
    """Columns in units of their spread, unclipped."""

    __slots__ = ()

    def columns(self, matrix: FloatArray) -> FloatArray:
        return self.standardised(matrix)


class SignedLog(Numbers):
    """The same on a logarithmic scale on either side of the center."""

    __slots__ = ()

    def columns(self, matrix: FloatArray) -> FloatArray:
        z = self.standardised(matrix)
        return np.asarray(np.sign(z) * np.log1p(np.abs(z)))


class Products(Numbers):
    """Squares and products of two columns."""

    __slots__ = ()

    def columns(self, matrix: FloatArray) -> FloatArray:
        z = self.standardised(matrix, 1e70)
        first, second = np.triu_indices(len(self.at))
        return np.asarray(z[:, first] * z[:, second])


class Sorted(Numbers):
    """The columns of a row in ascending order."""

    __slots__ = ()

    def columns(self, matrix: FloatArray) -> FloatArray:
        return np.sort(self.standardised(matrix), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Distances(Numbers):
    """How much farther an output lies from the middle of D1's than of D0's, plainly and in the logarithm, and how far from both."""

    one: FloatArray
    zero: FloatArray

    def columns(self, matrix: FloatArray) -> FloatArray:
        z = self.standardised(matrix)
        from_one, from_zero = np.linalg.norm(z - self.one, axis=1), np.linalg.norm(z - self.zero, axis=1)
        ratio = np.log(from_one + 1e-3) - np.log(from_zero + 1e-3)
        return np.column_stack([from_one - from_zero, ratio, np.log1p(from_one + from_zero)])


@dataclass(frozen=True, slots=True, eq=False)
class Places(Block):
    """Of a sequence of answers: where `value` stands first and last, how often it does, and where twice in a row. Infinity is NaN too."""

    at: Columns
    value: float

    def columns(self, matrix: FloatArray) -> FloatArray:
        x = matrix[:, self.at]
        hit = np.where(np.isnan(x), np.inf, x) == self.value
        length = len(self.at)
        some = hit.any(axis=1)
        first = np.where(some, hit.argmax(axis=1), length)
        last = np.where(some, length - 1 - hit[:, ::-1].argmax(axis=1), length)
        places = np.arange(length + 1)
        parts = [first[:, None] == places, last[:, None] == places, hit.sum(axis=1)[:, None], hit[:, :-1] & hit[:, 1:]]
        return np.concatenate(parts, axis=1, dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class Trees(Block):
    """A sum of decision trees, in one table of nodes: to the left where a number is at most the threshold (NaN never is), else right.

    Children stand below their parents, so that every way down ends; a leaf has none (-1) and a value. `roots` is where each tree begins.
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


def within_floats(function: Callable[[FloatArray], Any], x: FloatArray) -> Any:
    """A mean, a median or quantiles of finite numbers, which may add or subtract two on the way that are near the largest float."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = function(x)
        return found if np.isfinite(found).all() else 2.0**64 * np.asarray(function(x * 2.0**-64))


Values = dict[int, tuple[FloatArray, bool]]  # of each column that varies: its exact values, and whether they are all that it has


def values_of(matrix: FloatArray) -> Values:
    """Exact values of the columns. Of all outputs: what a few in ten thousand repeat, a sample would miss."""
    varying = [j for j, column in enumerate(matrix.T) if not np.array_equal(column, np.full(len(column), column[0]), equal_nan=True)]
    return {j: exact_values(matrix[:, j]) for j in varying}


def propose(matrix: FloatArray, label: NDArray[np.bool_], values: Values) -> dict[str, list[Block]]:
    """Blocks that fit these outputs, in groups: those of one group have one prior."""
    step = -(-len(matrix) // _SAMPLE)
    return {name: blocks for name, blocks in _groups(matrix[::step], label[::step], values) if blocks}


def _groups(matrix: FloatArray, label: NDArray[np.bool_], values: Values) -> Iterator[tuple[str, list[Block]]]:
    categories = [j for j, (_, every) in values.items() if every]
    if len(categories) > _SEVERAL:
        apart = {j: _share_apart(matrix[:, j], label) for j in categories}
        categories = sorted(sorted(categories, key=lambda j: -apart[j])[:_SEVERAL])
    continuous = [j for j, (_, every) in values.items() if not every]
    yield "levels", [Levels(j, values[j][0][1:]) for j in categories if len(values[j][0]) > 1]  # the first is the baseline
    yield REPEATED, [Levels(j, values[j][0]) for j in continuous if len(values[j][0])]
    answers = [j for j in categories if j > 0 and len(values[j][0]) <= 4]
    if 3 <= len(answers) <= _PLACED:
        for value in np.unique(np.concatenate([values[j][0] for j in answers]))[:4].tolist():
            yield f"places of {value:g}", [Places(np.array(answers), value)]
    ordered = [j for j in categories if j > 0 and np.count_nonzero(np.isfinite(values[j][0])) >= 3]
    plain = matrix[:, continuous + ordered]
    usual = np.isfinite(plain)
    for place, j in enumerate(continuous):
        usual[:, place] &= ~np.isin(plain[:, place], values[j][0])
    good = usual.all(axis=1)
    if good.sum() < 20:  # hardly an output has a number in every column
        plain, good = _without_gaps(plain, usual), np.ones(len(plain), dtype=np.bool_)
    if plain.shape[1] and good.sum() >= 20:
        yield from _of_numbers(plain[good], label[good], np.array(continuous + ordered), len(continuous))


def _without_gaps(x: FloatArray, usual: NDArray[np.bool_]) -> FloatArray:
    """The columns with their medians in the place of what is missing, infinite or a repeated value."""
    filled = x.copy()
    for column, here in zip(filled.T, usual.T, strict=True):
        column[~here] = within_floats(np.median, column[here]) if here.any() else 0.0
    return filled


def _of_numbers(x: FloatArray, label: NDArray[np.bool_], at: Columns, continuous: int) -> Iterator[tuple[str, list[Block]]]:
    """Groups over columns of numbers, of which the first `continuous` are no categories."""
    one, zero = (within_floats(_middles, x[side] if side.any() else x) for side in (label, ~label))
    low, high = within_floats(_quartiles, x)
    with np.errstate(over="ignore"):
        spread = np.minimum(high - low, _HALF)
        spread = np.where(spread > 0, spread, np.std(np.clip(x, -1e150, 1e150), axis=0))
    scale = np.where(spread > 0, spread, 1.0)
    center = 0.5 * one + 0.5 * zero
    with np.errstate(over="ignore"):
        heavy = bool((np.abs((x - center) / scale) > _HEAVY).any())
    if len(at) > _SEVERAL:
        keep = np.sort(np.argsort(-np.abs(_rank_shift(x, label)), kind="stable")[:_SEVERAL])
        continuous = int(np.count_nonzero(keep < continuous))
        x, at, center, scale, one, zero = x[:, keep], at[keep], center[keep], scale[keep], one[keep], zero[keep]
    whole = (at, center, scale)
    yield "linear", [SignedLog(*whole) if heavy else Affine(*whole)]
    numbers = [(int(j), x[:, k]) for k, j in enumerate(at[:continuous])]
    yield "clipped", [Ramps(j, -1, _ends(column, label)) for j, column in numbers]
    if len(numbers) <= _CURVED:
        curves = [(j, np.unique(within_floats(lambda x: np.quantile(x, _LEVELS), column))) for j, column in numbers]
        yield "curved", [Ramps(j, -1, knots) for j, knots in curves if len(knots) > 2]
    if heavy:
        yield "gaps", [Ramps(j, -1, knots) for j, column in numbers if len(knots := _gaps(column)) > 1]
    if len(at) < 2:
        return
    yield "distances", [Distances(*whole, (one - center) / scale, (zero - center) / scale)]
    if len(at) <= _SQUARED and not heavy:
        yield "products", [Products(*whole)]
    if 2 <= len(numbers) <= _NEIGHBOURS:
        with np.errstate(over="ignore"):
            steps = [(i, j, np.clip(y - z, -_HALF, _HALF)) for (i, z), (j, y) in pairwise(numbers)]
        yield "differences", [Ramps(j, i, _ends(step, label)) for i, j, step in steps]
        if len(numbers) <= _SORTED and not heavy:
            yield "sorted", [Sorted(at[:continuous], center[:continuous], scale[:continuous])]


def _middles(x: FloatArray) -> FloatArray:
    return np.asarray(np.median(x, axis=0))


def _quartiles(x: FloatArray) -> FloatArray:
    return np.asarray(np.quantile(x, [0.25, 0.75], axis=0))


def exact_values(column: FloatArray) -> tuple[FloatArray, bool]:
    """The values of a column that are categories, sorted: all if they are few, else those that repeat far more than their neighbours."""
    keys, counts = np.unique(np.where(np.isnan(column), np.inf, column), return_counts=True)
    if len(keys) <= min(_FEW, max(2, len(column) // 8)):
        return keys, True
    from scipy.ndimage import median_filter

    usual = median_filter(counts.astype(float), 21, mode="nearest")
    repeated = np.flatnonzero((counts >= 4) & (counts > 6 * usual + 4))
    return keys[np.sort(repeated[np.argsort(-counts[repeated], kind="stable")[:_MOST_REPEATED]])], False


def _ends(x: FloatArray, label: NDArray[np.bool_]) -> FloatArray:
    """The medians of the two sides, or a little around the middle where they coincide: where the log-ratio of a Laplace shift bends."""
    low, high = sorted(float(within_floats(_middles, x[side] if side.any() else x)) for side in (label, ~label))
    first, third = map(float, within_floats(_quartiles, x))
    spread = min(third - first, _HALF) or float(np.std(np.clip(x, -1e150, 1e150))) or 1.0
    step = max(1e-3 * spread, np.spacing(max(-low, high, 0.0)))  # of denormals a thousandth may be nothing
    return np.array([low, high]) if high - low > 1e-3 * spread else np.array([low - step, high + step])


def _gaps(x: FloatArray) -> FloatArray:
    """Both ends of gaps on a logarithmic scale: outputs of several magnitudes."""
    knots: list[float] = []
    for sign in (-1.0, 1.0):
        side = np.sort(np.abs(x[sign * x > 0]))
        if len(side) > 20:
            steps = np.diff(np.log(side))
            inner = steps[len(steps) // 100 : len(steps) - len(steps) // 100]
            for place in np.argsort(-inner)[:2] + len(steps) // 100:
                if steps[place] > np.log(3.0):
                    knots.extend(sign * side[place : place + 2])
    return np.unique(knots)


def _share_apart(column: FloatArray, label: NDArray[np.bool_]) -> float:
    """Total variation between the sides of the values of a column."""
    keys, inverse = np.unique(np.where(np.isnan(column), np.inf, column), return_inverse=True)
    shares = [np.bincount(inverse[side], minlength=len(keys)) / max(1, int(np.count_nonzero(side))) for side in (label, ~label)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _rank_shift(x: FloatArray, label: NDArray[np.bool_]) -> FloatArray:
    """Standardised difference of the sides' mean ranks, and of the mean squares of centered ranks: the larger, for each column."""
    ranks = np.argsort(np.argsort(x, axis=0), axis=0) / len(x) - 0.5
    found = [np.abs(r[label].mean(axis=0) - r[~label].mean(axis=0)) / (r.std(axis=0) + 1e-12) for r in (ranks, ranks**2)]
    return np.asarray(np.maximum(*found), dtype=np.float64)
