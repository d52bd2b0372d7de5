"""Guess rules (events) as data: each guesses D1 (+1) or D0 (-1) or abstains (0) on every output,
and can be saved to JSON and replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.event import Event, Guesses, Kernel, count_directions
from dpwitness.auditors.events.features import Block, Trees
from dpwitness.auditors.events.outputs import Outputs, row_keys
from dpwitness.core.protocols import FloatArray

_MAX_LISTED = 6  # outputs listed by name in a picture, at most


def _column(outputs: Outputs, column: int) -> FloatArray:
    return outputs.matrix(column + 1, structure=False)[:, column]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals(Event):
    """Thresholds on one number: guesses[i] applies to edges[i-1] < x <= edges[i], and `missing`
    applies to NaN.
    """

    column: int
    edges: FloatArray
    guesses: FloatArray
    missing: int = 0

    kind: ClassVar[str] = "intervals"

    def guess(self, outputs: Outputs) -> Guesses:
        x = self.position(outputs)
        cells = np.searchsorted(self.edges, x, side="left")
        table = np.append(self.guesses, self.missing).astype(np.int8)
        return table[np.where(np.isnan(x), len(self.guesses), cells)]

    @property
    def axis(self) -> str:
        return f"output {self.column}"

    def position(self, outputs: Outputs) -> FloatArray:
        return _column(outputs, self.column)

    def cuts(self) -> FloatArray:
        return self.edges

    def guess_at(self, places: FloatArray) -> Guesses:
        return np.sign(self.guesses)[np.searchsorted(self.edges, places, side="left")].astype(
            np.int8
        )

    def kernel(self, width: int, code: float) -> Kernel | None:
        from dpwitness.auditors.events.kernels import count_intervals  # loads Numba

        signs = np.sign(self.guesses).astype(np.int8)
        arguments = self.column, self.edges.astype(np.float64), signs, int(self.missing)
        # NumPy's binary search is faster for many edges
        usable = self.column < width and len(self.edges) <= 8
        return (count_intervals, arguments) if usable else None

    @property
    def directions(self) -> int:
        return count_directions([*self.guesses, self.missing])

    def describe(self) -> str:
        bounds = ["-inf", *(f"{edge:.6g}" for edge in self.edges), "inf"]
        parts = [
            f"D{int(g > 0)} on ({bounds[i]}, {bounds[i + 1]}]"
            for i, g in enumerate(self.guesses)
            if g
        ]
        if self.missing:
            parts.append(f"D{int(self.missing > 0)} on NaN")
        shown = "; ".join(parts[:6]) + (
            f"; and {len(parts) - 6} more intervals" if len(parts) > 6 else ""
        )
        return f"output {self.column}: {shown}" if self.column else shown


@dataclass(frozen=True, slots=True, eq=False)
class WeightedScore:
    """A weighted sum of features of an output matrix with `width` numbers per row: blocks with
    their weights, and a constant.
    """

    width: int
    blocks: tuple[tuple[Block, FloatArray], ...]
    offset: float = 0.0
    # structures of outputs and the score of each, for printing
    structures: tuple[tuple[str, float], ...] = ()

    @property
    def unit(self) -> float:
        """Grid to which scores are rounded, 1e-9 of the largest weight, so that rounding noise
        cannot change a guess.
        """
        return 1e-9 * max([1e-3, *(float(np.abs(weights).max()) for _, weights in self.blocks)])

    def __call__(self, matrix: FloatArray) -> FloatArray:
        """Return the scores of the rows."""
        total = np.full(len(matrix), self.offset)
        for block, weights in self.blocks:
            total += block.columns(matrix) @ weights
        return np.rint(total / self.unit) * self.unit


@dataclass(frozen=True, slots=True, eq=False)
class Threshold(Event):
    """D1 where the score exceeds `high`, D0 where the score is below `low`; an infinite threshold
    is never crossed.
    """

    score: WeightedScore
    low: float
    high: float

    kind: ClassVar[str] = "threshold"

    def kernel(self, width: int, code: float) -> Kernel | None:
        from dpwitness.auditors.events.kernels import threshold_kernel  # loads Numba

        score = self.score
        return (
            threshold_kernel(score.blocks, score.offset, score.unit, self.low, self.high, code)
            if score.width <= width
            else None
        )

    axis: ClassVar[str] = "score of the output"

    def position(self, outputs: Outputs) -> FloatArray:
        return self.score(outputs.matrix(self.score.width))

    def cuts(self) -> FloatArray:
        return np.array([self.low, self.high])

    def guess_at(self, places: FloatArray) -> Guesses:
        return (places > self.high).astype(np.int8) - (places < self.low).astype(np.int8)

    @property
    def directions(self) -> int:
        return max(1, int(np.isfinite(self.low)) + int(np.isfinite(self.high)))

    def describe(self) -> str:
        score = self.score
        features = sum(
            len(weights) for block, weights in score.blocks if not isinstance(block, Trees)
        )
        trees = sum(len(block.roots) for block, _ in score.blocks if isinstance(block, Trees))
        sides = [("D1 above", self.high), ("D0 below", self.low)]
        rule = ", ".join(f"{side} {at:.6g}" for side, at in sides if np.isfinite(at))
        structure_scores = "".join(
            f"; an output that is {name!r} scores {value:.3g}"
            for name, value in score.structures[:4]
        )
        return (
            f"score over {features} features{f' and {trees} trees' if trees else ''}: "
            f"{rule or 'never guesses'}{structure_scores}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Atoms(Event):
    """A guess for each listed output (rows of the output matrix, structure code first); the rule
    abstains on all other outputs.

    `exact` holds pairs (column, value). If given, outputs are compared only by these values and
    their columns: see `mask_other_values`.
    """

    rows: FloatArray
    guesses: FloatArray
    names: tuple[str, ...] = ()
    exact: FloatArray | None = None

    kind: ClassVar[str] = "atoms"

    def guess(self, outputs: Outputs) -> Guesses:
        return _look_up(self, self._compared(outputs))

    def _compared(self, outputs: Outputs) -> FloatArray:
        """Return the rows of outputs that are compared with those of the rule."""
        matrix = outputs.matrix(self.rows.shape[1] - 1)
        return matrix if self.exact is None else mask_other_values(matrix, self.exact)

    def listed(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        shown = self._largest_guesses(_MAX_LISTED)
        guesses = [int(np.sign(self.guesses[i])) for i in shown]
        return (
            *(self._format_output(int(i)) for i in shown),
            "others: D1",
            "others: D0",
            "no guess",
        ), (*guesses, 1, -1, 0)

    def cell(self, outputs: Outputs) -> NDArray[np.intp]:
        matrix, shown = self._compared(outputs), self._largest_guesses(_MAX_LISTED)
        found = len(shown) + np.array([2, 0, 1])[_look_up(self, matrix)]
        keys = row_keys(matrix)
        for place, key in enumerate(row_keys(self.rows[shown])):
            found[keys == key] = place
        return found

    def _largest_guesses(self, most: int) -> NDArray[np.intp]:
        """Return the indices of the outputs whose guesses have the largest magnitude."""
        return np.argsort(-np.abs(self.guesses), kind="stable")[:most]

    def _format_output(self, i: int) -> str:
        """Return output number `i` as a text for display."""
        numbers = ", ".join(
            "any other" if self.exact is not None and np.isnan(v) else f"{v:g}"
            for v in self.rows[i, 1:]
        )
        name = self.names[i] if self.names else ""
        # a text is printed without numbers
        return name if name[-1:] in ("'", '"') else f"{name}({numbers})"

    @property
    def directions(self) -> int:
        return count_directions(self.guesses)

    def describe(self) -> str:
        parts = [
            f"D{int(self.guesses[i] > 0)} on {self._format_output(int(i))}"
            for i in self._largest_guesses(4)
        ]
        more = len(self.guesses) - len(parts)
        return "; ".join(parts) + (f"; and {more} more outputs" if more > 0 else "")


def mask_other_values(matrix: FloatArray, exact: FloatArray) -> FloatArray:
    """Return the matrix with each number replaced by NaN unless it is listed in `exact` (pairs of
    column and value) for its column.

    Structure codes are unchanged. NaN counts as infinity.
    """
    masked = np.full(matrix.shape, np.nan)
    masked[:, 0] = matrix[:, 0]
    for column in np.unique(exact[:, 0]).astype(np.intp):
        x = np.where(np.isnan(matrix[:, column]), np.inf, matrix[:, column])
        hit = np.isin(x, exact[exact[:, 0] == column, 1])
        masked[hit, column] = x[hit]
    return masked


def name_of_atom(row: FloatArray, names: Mapping[float, str]) -> str:
    """Return the structure name of an output, followed by its texts."""
    texts = [names[value] for value in row[1:].tolist() if value in names]
    return " ".join([names.get(row[0], ""), *texts]).strip()


@lru_cache(maxsize=16)
def _guesses_by_key(rule: Atoms | Lattice) -> tuple[NDArray[np.uint64], Guesses]:
    """Return the sorted keys of the rows of a rule, and the guesses in the same order."""
    keys = row_keys(rule.rows)
    order = np.argsort(keys)
    with np.errstate(invalid="ignore"):  # the witness may be unchecked and contain NaN
        return keys[order], np.asarray(rule.guesses)[order].astype(np.int8)


def _look_up(rule: Atoms | Lattice, matrix: FloatArray) -> Guesses:
    """Return the guess of a rule on each row of a matrix; 0 for rows that it does not list."""
    known_keys, guesses = _guesses_by_key(rule)
    keys = row_keys(matrix)
    place = np.minimum(np.searchsorted(known_keys, keys), len(known_keys) - 1)
    return np.where(known_keys[place] == keys, guesses[place], np.int8(0))


_SPECIAL = 2000.0  # marks zeros, infinities, NaN and denormals: no float has this exponent


def lattice(values: FloatArray) -> FloatArray:
    """Return the float-bit features of a column: the binary exponent and the exponent of the lowest
    set bit. Zero keeps its sign.
    """
    bits = np.ascontiguousarray(values).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & 0xFFFFFFFFFFFFF) | (1 << 52)
    # 1 to 53, counted from the end of the mantissa
    lowest = np.frexp((mantissa & -mantissa).astype(np.float64))[1]
    features = np.column_stack([exponent - 1023.0, exponent - 1023.0 + lowest - 53.0])
    special = (exponent == 0) | (exponent == 0x7FF)
    features[special] = np.column_stack(
        [
            np.where(np.signbit(values[special]), -_SPECIAL, _SPECIAL),
            np.nan_to_num(values[special], nan=2e308),
        ]
    )
    return features


def lowest_bit_exponents(features: FloatArray) -> FloatArray:
    """Return the exponent of the lowest set bit from `lattice` features; infinity for zeros,
    infinities, NaN and denormals.
    """
    return np.where(np.abs(features[:, 0]) < _SPECIAL, features[:, 1], np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Lattice(Event):
    """A guess for each listed class of float bits (exponent, lowest set bit) of one column,
    whatever the value.
    """

    column: int
    rows: FloatArray
    guesses: FloatArray

    kind: ClassVar[str] = "lattice"

    def guess(self, outputs: Outputs) -> Guesses:
        return _look_up(self, lattice(_column(outputs, self.column)))

    @property
    def directions(self) -> int:
        return count_directions(self.guesses)

    def describe(self) -> str:
        lows = [f"2^{low:g}" for (_, low), g in zip(self.rows, self.guesses, strict=True) if g > 0]
        return (
            f"output {self.column}: {len(self.guesses)} classes of (exponent, lowest set bit)"
            + (f"; D1 e.g. at {lows[0]}" if lows else "")
        )


@dataclass(frozen=True, slots=True, eq=False)
class LowBits(Event):
    """The guess `side` (+1 or -1) for finite outputs of one column whose lowest set bit is below
    2^`below`.
    """

    column: int
    below: float
    side: int

    kind: ClassVar[str] = "low bits"

    @property
    def axis(self) -> str:
        return f"lowest set bit of output {self.column}, as a power of 2"

    def position(self, outputs: Outputs) -> FloatArray:
        return lowest_bit_exponents(lattice(_column(outputs, self.column)))

    def cuts(self) -> FloatArray:
        return np.array([self.below - 0.5])

    def guess_at(self, places: FloatArray) -> Guesses:
        return np.int8(self.side) * (places < self.below).astype(np.int8)

    @property
    def directions(self) -> int:
        return 1

    def describe(self) -> str:
        return (
            f"output {self.column}: D{int(self.side > 0)} where the lowest set bit lies below "
            f"2^{self.below:g}"
        )
