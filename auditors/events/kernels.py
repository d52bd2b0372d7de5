"""Compiled events: kernels ``count(*arguments, rows, table)`` that count how many rows of outputs
fall in each cell (abstain, D1, D0).

All rows have one structure, and the structure code is left out: float64 (rows, width),
C-contiguous. A kernel guesses for each row what the event's `guess` method guesses. Sums of floats
may be rounded in another order if the event tolerates such differences. Events on float bits and
balls have no kernel: their tests are short.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import row_keys
from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols.mechanism import FloatArray

Kernel = tuple[Callable[..., None], tuple[Any, ...]]  # the compiled function and its arguments
Whole = NDArray[np.int64]
Keys = NDArray[np.uint64]
Cells = NDArray[np.int8]
Slots = tuple[Keys, Cells, np.uint64, np.uint64, int]

_GRID_CELLS = 4096
_CUT = 2  # marker of a grid cell in or near which an edge lies

_MIX, _SPREAD = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x9E3779B97F4A7C15)
_NAN_BITS = np.uint64(0x7FF8000000000000)
_BY_29 = np.uint64(29)


def intervals_kernel(column: int, edges: FloatArray, guesses: FloatArray, missing: int) -> Kernel:
    """Return the kernel of `Intervals`.

    Many edges are searched with a grid. Its table holds the guess of every grid cell without an
    edge, and the first edge to compare with in the other cells.
    """
    signs = np.sign(guesses).astype(np.int8)
    first, table, low, scale = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int8), 0.0, 0.0
    with np.errstate(over="ignore"):
        # a linear scan is faster for few edges
        gridded = len(edges) > 8 and 1e-290 < np.ptp(edges) < np.inf
    if gridded:
        low, scale = float(edges[0]), _GRID_CELLS / float(edges[-1] - edges[0])
        # cell c + 1 begins at low + c / scale; rounding may put a number in an adjacent cell, so
        # these are included
        borders = low + np.arange(-1, _GRID_CELLS + 3) / scale
        first = np.concatenate([[0], np.searchsorted(edges, borders[:-3], side="left")])
        last = np.concatenate([np.searchsorted(edges, borders[2:], side="left")[:-1], [len(edges)]])
        table = np.where(first == last, signs[first], np.int8(_CUT)).astype(np.int8)
    return count_intervals, (
        column,
        np.asarray(edges, dtype=np.float64),
        signs,
        missing,
        first,
        table,
        low,
        scale,
    )


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
    """Count the guesses of `Intervals`: interval i holds edges[i-1] < x <= edges[i]."""
    plus, minus = 0, 0
    if len(grid) == 0:
        before = 0
        for k in range(len(guesses)):
            up_to = 0  # no comparison with NaN is true
            if k < len(edges):
                for i in range(len(rows)):
                    up_to += rows[i, column] <= edges[k]
            else:
                for i in range(len(rows)):
                    up_to += rows[i, column] == rows[i, column]
            plus += (up_to - before) * (guesses[k] > 0)
            minus += (up_to - before) * (guesses[k] < 0)
            before = up_to
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
    _add_counts(table, len(rows), plus, minus)


@jit
def _add_counts(table: Whole, rows: int, plus: int, minus: int) -> None:
    """Add the counts of `rows` outputs, of which `plus` are guessed D1 and `minus` D0, to the
    table.
    """
    table[0] += rows - plus - minus
    table[1] += plus
    table[2] += minus


def _hash_table(keys: Keys, guesses: Cells) -> Slots:
    """Return a hash table of the sorted keys that have a guess; the first of equal keys counts.

    The table is (keys, guesses, multiplier, shift, search length): a key lies at most `search
    length` slots after its hash. Of 16 multipliers the one with the shortest search is used. The
    search has a fixed length, because its end could not be predicted.
    """
    _, first = np.unique(keys, return_index=True)
    first = first[guesses[first] != 0]
    count = len(first)
    size = max(6, int(4 * count).bit_length())
    best: Slots | None = None
    for attempt in range(16):
        spread = np.uint64((int(_SPREAD) * (2 * attempt + 1)) % 2**64)
        home_slots = ((keys[first] * spread) >> np.uint64(64 - size)).astype(np.int64)
        order = np.argsort(home_slots, kind="stable")
        # the next free slot
        free_slots = np.maximum.accumulate(home_slots[order] - np.arange(count)) + np.arange(count)
        reach = int(np.max(free_slots - home_slots[order], initial=0)) + 1
        if best is None or reach < best[4]:
            slot_keys, slot_guesses = (
                np.zeros(2**size + count, dtype=np.uint64),
                np.zeros(2**size + count, dtype=np.int8),
            )
            slot_keys[free_slots], slot_guesses[free_slots] = (
                keys[first][order],
                np.sign(guesses[first][order]),
            )
            best = slot_keys, slot_guesses, spread, np.uint64(64 - size), reach
    assert best is not None
    return best


@jit
def _look_up(
    key: np.uint64, keys: Keys, guesses: Cells, spread: np.uint64, shift: np.uint64, reach: int
) -> int:
    """Return the guess on a key in a table made by `_hash_table`; 0 if the key is not
    in the table.
    """
    slot, guess = (key * spread) >> shift, 0
    for k in range(np.uint64(reach)):
        # no branch, because the processor could not predict the branch
        guess |= int(guesses[slot + k]) & -int(keys[slot + k] == key)
    return guess


@jit
def _extend_key(key: np.uint64, x: float) -> np.uint64:
    """Return the row key extended by one more number, as `row_keys` computes it."""
    bits = _NAN_BITS if x != x else np.float64(x + 0.0).view(np.uint64)
    mixed = np.uint64((key ^ bits) * _MIX)
    return np.uint64(mixed ^ (mixed >> _BY_29))


def atoms_kernel(
    keys: Keys, guesses: Cells, columns: int, exact: FloatArray | None, code: float
) -> Kernel:
    """Return the kernel of `Atoms`.

    `keys` and `guesses` belong to the listed rows, sorted by key. `exact` is as in
    `mask_other_values`, and `code` is the structure code.
    """
    table = (row_keys(np.array([[code]]))[0], *_hash_table(keys, guesses), columns)
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
    """Count the guesses of `Atoms`; `start` is the key of the structure code."""
    plus, minus = 0, 0
    for i in range(len(rows)):
        key = start
        for j in range(columns):
            key = _extend_key(key, rows[i, j])
        guess = _look_up(key, keys, guesses, spread, shift, reach)
        plus += guess > 0
        minus += guess < 0
    _add_counts(table, len(rows), plus, minus)


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
    """Count the guesses of `Atoms` on exact values.

    The exact values of column j are values[first[j]:first[j + 1]]; all other numbers are replaced
    by NaN.
    """
    masked = np.empty((len(rows), columns))
    for i in range(len(rows)):
        for j in range(columns):
            x = rows[i, j] if rows[i, j] == rows[i, j] else np.inf
            masked[i, j] = np.nan
            for k in range(first[j], first[j + 1]):
                if values[k] == x:
                    masked[i, j] = x
    count_atoms(start, keys, guesses, spread, shift, reach, columns, masked, table)


@jit
def sum_of_trees(
    matrix: FloatArray,
    feature: Whole,
    threshold: FloatArray,
    left: Whole,
    right: Whole,
    value: FloatArray,
    roots: Whole,
) -> FloatArray:
    """Return the sum of the tree values for each row.

    A row goes left where its number is at most the threshold, else right (also for NaN), until it
    reaches a leaf.
    """
    total = np.zeros(len(matrix))
    for i in range(len(matrix)):
        for root in roots:
            node = root
            while left[node] >= 0:
                node = left[node] if matrix[i, feature[node]] <= threshold[node] else right[node]
            total[i] += value[node]
    return total
