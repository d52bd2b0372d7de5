"""Events compiled: kernels ``count(*arguments, rows, table)`` that add up the cells (abstain, D1, D0) into which rows of outputs fall.

All rows have one structure, and their numbers without its code: float64 (rows, width), C-contiguous. A kernel says of each row what the
event's `guess` does; sums of floats may round in another order where the event itself takes up such differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import row_keys
from dpwitness.mechanisms.numerics.jit import jit
from dpwitness.mechanisms.terms.protocol import FloatArray

Kernel = tuple[Callable[..., None], tuple[Any, ...]]  # the compiled function and its arguments
Whole = NDArray[np.int64]
Keys = NDArray[np.uint64]
Cells = NDArray[np.int8]
Slots = tuple[Keys, Cells, np.uint64, np.uint64, int]

_FEW = 8  # edges that are compared with one by one
_GRID = 4096
_CUT = 2  # no guess: an edge lies in or near the cell
_SUMMED = 128  # numbers that NumPy sums in one go

_MIX, _SPREAD = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x9E3779B97F4A7C15)
_NAN_BITS = np.uint64(0x7FF8000000000000)
_BY_29 = np.uint64(29)


def of_intervals(column: int, edges: FloatArray, guesses: FloatArray, missing: int) -> Kernel:
    """Many edges are sought in a grid: it knows the guess of every cell that no edge cuts, and where the search begins in the others."""
    signs = np.sign(guesses).astype(np.int8)
    first, table, low, scale = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int8), 0.0, 0.0
    with np.errstate(over="ignore"):
        gridded = len(edges) > _FEW and 1e-290 < np.ptp(edges) < np.inf
    if gridded:
        low, scale = float(edges[0]), _GRID / float(edges[-1] - edges[0])
        # cell c + 1 holds low + c / scale and above; the cells beside it are looked at as well, for rounding may put a number there
        borders = low + np.arange(-1, _GRID + 3) / scale
        first = np.concatenate([[0], np.searchsorted(edges, borders[:-3], side="left")])
        last = np.concatenate([np.searchsorted(edges, borders[2:], side="left")[:-1], [len(edges)]])
        table = np.where(first == last, signs[first], np.int8(_CUT)).astype(np.int8)
    return count_intervals, (column, np.asarray(edges, dtype=np.float64), signs, missing, first, table, low, scale)


@jit
def count_intervals(
    column: int,
    edges: FloatArray,
    guesses: Cells,
    missing: int,
    first: Whole,
    grid: Cells,
    low: float,
    scale: float,
    rows: FloatArray,
    table: Whole,
) -> None:
    """Interval i holds edges[i-1] < x <= edges[i]."""
    plus, minus = 0, 0
    if len(grid) == 0:
        before = 0
        for k in range(len(guesses)):
            upto = 0  # NaN is in none
            if k < len(edges):
                for i in range(len(rows)):
                    upto += rows[i, column] <= edges[k]
            else:
                for i in range(len(rows)):
                    upto += rows[i, column] == rows[i, column]
            plus += (upto - before) * (guesses[k] > 0)
            minus += (upto - before) * (guesses[k] < 0)
            before = upto
        plus += (len(rows) - before) * (missing > 0)
        minus += (len(rows) - before) * (missing < 0)
    else:
        cells = float(len(grid) - 2)
        for i in range(len(rows)):
            value = rows[i, column]
            at = (value - low) * scale + 1.0
            if at != at:
                guess = missing
            else:
                cell = int(min(max(at, 0.0), cells + 1.0))
                guess = grid[cell]
                if guess == _CUT:
                    k = first[cell]
                    while k < len(edges) and value > edges[k]:
                        k += 1
                    guess = guesses[k]
            plus += guess > 0
            minus += guess < 0
    _add(table, len(rows), plus, minus)


@jit
def _add(table: Whole, rows: int, plus: int, minus: int) -> None:
    table[0] += rows - plus - minus
    table[1] += plus
    table[2] += minus


def _slots(keys: Keys, guesses: Cells) -> Slots:
    """A table of the sorted keys that have a guess, each within so many slots of where it is sought; the first of equal ones counts.

    Of some ways to spread them the one with the shortest search is taken: it has a fixed length, for nobody could predict when it ends.
    """
    _, first = np.unique(keys, return_index=True)
    first = first[guesses[first] != 0]
    count = len(first)
    size = max(6, int(4 * count).bit_length())
    best: Slots | None = None
    for turn in range(16):
        spread = np.uint64((int(_SPREAD) * (2 * turn + 1)) % 2**64)
        wanted = ((keys[first] * spread) >> np.uint64(64 - size)).astype(np.int64)
        order = np.argsort(wanted, kind="stable")
        found = np.maximum.accumulate(wanted[order] - np.arange(count)) + np.arange(count)  # the next free slot
        reach = int(np.max(found - wanted[order], initial=0)) + 1
        if best is None or reach < best[4]:
            known, said = np.zeros(2**size + count, dtype=np.uint64), np.zeros(2**size + count, dtype=np.int8)
            known[found], said[found] = keys[first][order], np.sign(guesses[first][order])
            best = known, said, spread, np.uint64(64 - size), reach
    assert best is not None
    return best


@jit
def _look_up(key: np.uint64, keys: Keys, guesses: Cells, spread: np.uint64, shift: np.uint64, reach: int) -> int:
    slot, guess = (key * spread) >> shift, 0
    for k in range(np.uint64(reach)):
        guess |= int(guesses[slot + k]) & -int(keys[slot + k] == key)  # a branch here would go either way, unforeseen
    return guess


@jit
def _mixed(key: np.uint64, x: float) -> np.uint64:
    """`row_keys` of one number more."""
    bits = _NAN_BITS if x != x else np.float64(x + 0.0).view(np.uint64)
    mixed = np.uint64((key ^ bits) * _MIX)
    return np.uint64(mixed ^ (mixed >> _BY_29))


def of_atoms(keys: Keys, guesses: Cells, columns: int, exact: FloatArray | None, code: float) -> Kernel:
    """`keys` and `guesses` of the rows that are listed, by key; `exact` as `only_exact` takes it."""
    table = (row_keys(np.array([[code]]))[0], *_slots(keys, guesses), columns)
    if exact is None:
        return count_atoms, table
    order = np.argsort(exact[:, 0], kind="stable")
    first = np.searchsorted(exact[order, 0], np.arange(1, columns + 2)).astype(np.int64)
    return count_exact_atoms, (first, np.ascontiguousarray(exact[order, 1]), *table)


@jit
def count_atoms(
    start: np.uint64,
    keys: Keys,
    guesses: Cells,
    spread: np.uint64,
    shift: np.uint64,
    reach: int,
    columns: int,
    rows: FloatArray,
    table: Whole,
) -> None:
    """`start` is the key of the structure's code."""
    plus, minus = 0, 0
    for i in range(len(rows)):
        key = start
        for j in range(columns):
            key = _mixed(key, rows[i, j])
        guess = _look_up(key, keys, guesses, spread, shift, reach)
        plus += guess > 0
        minus += guess < 0
    _add(table, len(rows), plus, minus)


@jit
def count_exact_atoms(
    first: Whole,
    values: FloatArray,
    start: np.uint64,
    keys: Keys,
    guesses: Cells,
    spread: np.uint64,
    shift: np.uint64,
    reach: int,
    columns: int,
    rows: FloatArray,
    table: Whole,
) -> None:
    """The exact values of column j are those from first[j] to first[j + 1]; other numbers are all one, NaN."""
    kept = np.empty((len(rows), columns))
    for i in range(len(rows)):
        for j in range(columns):
            x = rows[i, j] if rows[i, j] == rows[i, j] else np.inf
            kept[i, j] = np.nan
            for k in range(first[j], first[j + 1]):
                if values[k] == x:
                    kept[i, j] = x
    count_atoms(start, keys, guesses, spread, shift, reach, columns, kept, table)


@jit
def _bits(x: float) -> tuple[float, float]:
    """`rules.lattice` of one number."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    if exponent == 0 or exponent == 0x7FF:
        second = np.inf if x != x else min(max(x, -1.7976931348623157e308), 1.7976931348623157e308)
        return (-2000.0 if bits < 0 else 2000.0), second
    mantissa = (bits & 0xFFFFFFFFFFFFF) | (1 << 52)
    lowest = (np.float64(mantissa & -mantissa).view(np.int64) >> 52) - 1022
    return exponent - 1023.0, exponent - 1023.0 + lowest - 53.0


def of_lattice(column: int, keys: Keys, guesses: Cells) -> Kernel:
    """`keys` and `guesses` of the classes that are listed, by key."""
    return count_lattice, (column, row_keys(np.empty((1, 0)))[0], *_slots(keys, guesses))


@jit
def count_lattice(
    column: int,
    start: np.uint64,
    keys: Keys,
    guesses: Cells,
    spread: np.uint64,
    shift: np.uint64,
    reach: int,
    rows: FloatArray,
    table: Whole,
) -> None:
    """Classes of the float bits of one column."""
    plus, minus = 0, 0
    for i in range(len(rows)):
        first, second = _bits(rows[i, column])
        guess = _look_up(_mixed(_mixed(start, first), second), keys, guesses, spread, shift, reach)
        plus += guess > 0
        minus += guess < 0
    _add(table, len(rows), plus, minus)


@jit
def count_low_bits(column: int, below: float, side: int, rows: FloatArray, table: Whole) -> None:
    """Lowest set bits below 2^below."""
    hit = 0
    for i in range(len(rows)):
        first, second = _bits(rows[i, column])
        hit += abs(first) < 2000.0 and second < below
    _add(table, len(rows), hit * (side > 0), hit * (side < 0))


def of_ball(center: FloatArray, inner: float, outer: float, inside: int) -> Kernel | None:
    """Distances are added up in NumPy's order, for up to so many numbers as it adds up in one go."""
    return (count_ball, (np.asarray(center), float(inner), float(outer), inside)) if len(center) <= _SUMMED else None


@jit
def count_ball(center: FloatArray, inner: float, outer: float, inside: int, rows: FloatArray, table: Whole) -> None:
    """Within `inner` of the center the guess is `inside`, beyond `outer` the other one."""
    plus, minus = 0, 0
    part = np.empty(8)
    for i in range(len(rows)):
        square, done = 0.0, 0
        if len(center) >= 8:
            part[:] = 0.0
            for j in range(0, len(center) - len(center) % 8, 8):
                for k in range(8):
                    step = rows[i, j + k] - center[j + k]
                    part[k] += step * step
            square = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))
            done = len(center) - len(center) % 8
        for j in range(done, len(center)):
            step = rows[i, j] - center[j]
            square += step * step
        distance = np.sqrt(square)
        guess = int(distance < inner) - int(distance > outer)
        plus += guess * inside > 0
        minus += guess * inside < 0
    _add(table, len(rows), plus, minus)


@jit
def sum_of_trees(
    matrix: FloatArray, feature: Whole, threshold: FloatArray, left: Whole, right: Whole, value: FloatArray, roots: Whole
) -> FloatArray:
    """Of each row: from each root to the left where a number is at most the threshold, else (NaN too) to the right, down to a leaf."""
    total = np.zeros(len(matrix))
    for i in range(len(matrix)):
        for root in roots:
            node = root
            while left[node] >= 0:
                node = left[node] if matrix[i, feature[node]] <= threshold[node] else right[node]
            total[i] += value[node]
    return total
