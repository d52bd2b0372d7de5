"""Compiled events: kernels ``count(*arguments, rows, table)`` that count how many rows of outputs
fall in each cell (abstain, D1, D0).

All rows have one structure, and the structure code is left out: float64 (rows, width),
C-contiguous. A kernel guesses for each row what the event's `guess` method guesses. Sums of floats
may be rounded in another order if the event tolerates such differences. Only intervals and
thresholds have kernels: NumPy counts other events about as fast, or their tests are short.

**Thresholds.** A score is evaluated column by column over a block of rows that fits in the
processor's cache. Each input number of the score is stored once per row, unchanged or standardized.
The kernel of each block of features then loops over these columns, in loops that the compiler can
vectorize. Each class of features is compiled once, whatever the score combines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.event import Kernel
from dpwitness.auditors.events.features import (
    Affine,
    Block,
    Columns,
    Distances,
    Levels,
    NumericBlock,
    Products,
    ProjectedRamps,
    Ramps,
    SignedLog,
    Sorted,
    WhitenedDistances,
)
from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols import FloatArray

Cells = NDArray[np.int8]


@jit
def count_intervals(
    column: int, edges: FloatArray, guesses: Cells, missing: int, rows: FloatArray, table: Columns
) -> None:
    """Count the guesses of `Intervals`: interval i holds edges[i-1] < x <= edges[i]."""
    plus, minus, before = 0, 0, 0
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
    _add_counts(table, len(rows), plus, minus)


@jit
def _add_counts(table: Columns, rows: int, plus: int, minus: int) -> None:
    """Add the counts of `rows` outputs, of which `plus` are guessed D1 and `minus` D0, to the
    table.
    """
    table[0] += rows - plus - minus
    table[1] += plus
    table[2] += minus


# rows of a block: few enough for the processor's cache, and many for each call of a kernel
_BLOCK_ROWS = 2048
# kernel of a block of features, ``kernel(*arguments, x, size, total)``, and its arguments
_Step = tuple[Callable[..., None], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class _FlatBlock:
    """Block of features as a kernel reads it: ``kernel(at, *numbers, weights, x, size, total)``.

    `inputs` are the columns to load, each with its center and scale; a scale of 0 means that the
    column is not standardized. `at` holds their indices, and `absent` after them.
    """

    kernel: Callable[..., None]
    inputs: list[tuple[int, float, float]]
    numbers: Sequence[FloatArray] = ()
    absent: Sequence[int] = ()


@singledispatch
def _flat(block: Block) -> _FlatBlock | None:
    """Return the block as a kernel reads it; None if some slope is not a finite float, or if blocks
    of this class have no kernel: trees, and positions of answers.
    """
    return None


@_flat.register
def _(block: Levels) -> _FlatBlock:
    return _FlatBlock(_levels, [(block.column, 0.0, 0.0)], [block.keys])


@_flat.register
def _(block: Ramps) -> _FlatBlock | None:
    if not _has_finite_slopes(block.knots):
        return None
    inputs = [(each, 0.0, 0.0) for each in (block.column, block.less) if each >= 0]
    return _FlatBlock(_ramps, inputs, [block.knots], [-1] if block.less < 0 else [])


@_flat.register
def _(block: NumericBlock) -> _FlatBlock:
    kernels = {Affine: _affine, SignedLog: _signed_log, Products: _products, Sorted: _sorted}
    return _FlatBlock(kernels[type(block)], _flat_inputs(block))


@_flat.register
def _(block: ProjectedRamps) -> _FlatBlock | None:
    if not _has_finite_slopes(block.knots):
        return None
    return _FlatBlock(_projected_ramps, _flat_inputs(block), [block.direction, block.knots])


@_flat.register
def _(block: Distances) -> _FlatBlock:
    return _FlatBlock(_distances, _flat_inputs(block), [block.one, block.zero])


@_flat.register
def _(block: WhitenedDistances) -> _FlatBlock:
    numbers = [block.whitening.T.ravel(), block.one, block.zero]
    return _FlatBlock(_whitened_distances, _flat_inputs(block), numbers)


def _flat_inputs(block: NumericBlock) -> list[tuple[int, float, float]]:
    """Return the columns of a block, each with its center and scale."""
    return list(zip(block.at.tolist(), block.center.tolist(), block.scale.tolist(), strict=True))


def _has_finite_slopes(knots: FloatArray) -> bool:
    """Return whether the slopes of ramps between these knots are finite floats."""
    with np.errstate(over="ignore"):
        return bool(np.diff(knots).min() > 1e-200 and knots[-1] - knots[0] < np.inf)


def threshold_kernel(
    blocks: Sequence[tuple[Block, FloatArray]],
    offset: float,
    unit: float,
    low: float,
    high: float,
    code: float,
) -> Kernel | None:
    """Return the kernel of a score with two thresholds, on outputs of structure `code`; None if
    some block has no kernel.
    """
    inputs: dict[tuple[int, float, float], int] = {}  # index of each column, center and scale
    steps: list[_Step] = []
    for block, weights in blocks:
        flat = _flat(block)
        if flat is None:
            return None
        at = [inputs.setdefault(each, len(inputs)) for each in flat.inputs]
        # copies: kernels are compiled for contiguous, writable arrays only
        numbers = [np.array(each, dtype=np.float64, order="C") for each in (*flat.numbers, weights)]
        steps.append((flat.kernel, (np.array([*at, *flat.absent], dtype=np.int64), *numbers)))
    loads = np.array(list(inputs) or [(0, 0.0, 0.0)])
    columns = (
        loads[:, 0].astype(np.int64),
        np.ascontiguousarray(loads[:, 1]),
        np.ascontiguousarray(loads[:, 2]),
    )
    return _count_scores, (steps, columns, code, float(offset), unit, float(low), float(high))


def _count_scores(
    steps: Sequence[_Step],
    columns: tuple[Columns, FloatArray, FloatArray],
    code: float,
    offset: float,
    unit: float,
    low: float,
    high: float,
    rows: FloatArray,
    table: NDArray[np.int64],
) -> None:
    """Count scores above `high` as D1 and scores below `low` as D0."""
    x = np.empty((len(columns[0]), _BLOCK_ROWS))
    total = np.empty(_BLOCK_ROWS)
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        _load_columns(code, *columns, block, x)
        total[:] = offset
        for kernel, arguments in steps:
            kernel(*arguments, x, len(block), total)
        _count_beyond(unit, low, high, len(block), total, table)


@jit
def _count_beyond(
    unit: float, low: float, high: float, size: int, total: FloatArray, table: Columns
) -> None:
    """Round scores to multiples of `unit`, and count those beyond the thresholds."""
    plus, minus = 0, 0
    for i in range(size):
        score = np.rint(total[i] / unit) * unit
        plus += (score > high) and not (score < low)
        minus += (score < low) and not (score > high)
    _add_counts(table, size, plus, minus)


@jit
def _load_columns(
    code: float,
    columns: Columns,
    centers: FloatArray,
    scales: FloatArray,
    rows: FloatArray,
    x: FloatArray,
) -> None:
    """Load columns of the output matrix into the rows of `x`, standardized unless the scale is 0;
    column 0 is the structure code.
    """
    for k in range(len(columns)):
        out, column, center, scale = x[k], columns[k], centers[k], scales[k]
        for i in range(len(rows)):
            out[i] = rows[i, column - 1] if column > 0 else code
        if scale > 0.0:
            for i in range(len(rows)):
                z = (out[i] - center) / scale
                z = z if z == z else 0.0
                z = z if z < 1e100 else 1e100
                out[i] = z if z > -1e100 else -1e100


@jit
def _levels(
    at: Columns, keys: FloatArray, weights: FloatArray, x: FloatArray, size: int, total: FloatArray
) -> None:
    """Add the weights of `Levels` features to the scores in `total`."""
    column = x[at[0]]
    for k in range(len(keys)):
        key, weight = keys[k], weights[k]
        for i in range(size):
            value = column[i] if column[i] == column[i] else np.inf
            total[i] += weight if value == key else 0.0


@jit
def _ramps(
    at: Columns, knots: FloatArray, weights: FloatArray, x: FloatArray, size: int, total: FloatArray
) -> None:
    """Add the weighted `Ramps` features to the scores in `total`: of the first column, less the
    second unless its index is -1.
    """
    column, less, subtract = x[at[0]], x[max(at[1], 0)], at[1] >= 0
    for k in range(len(knots) - 1):
        left, right = knots[k], knots[k + 1]
        slope = weights[k] / (right - left)
        for i in range(size):
            value = column[i] - less[i] if subtract else column[i]
            value = value if value > left else left  # also replaces NaN
            value = value if value < right else right
            total[i] += (value - left) * slope


@jit
def _projected_ramps(
    at: Columns,
    direction: FloatArray,
    knots: FloatArray,
    weights: FloatArray,
    x: FloatArray,
    size: int,
    total: FloatArray,
) -> None:
    """Add the weighted `ProjectedRamps` features to the scores in `total`."""
    _ramps(np.array([0, -1]), knots, weights, _mixed(at, direction, 1, x, size), size, total)


@jit
def _affine(at: Columns, weights: FloatArray, x: FloatArray, size: int, total: FloatArray) -> None:
    """Add the weighted `Affine` features to the scores in `total`."""
    for k in range(len(at)):
        column, weight = x[at[k]], weights[k]
        for i in range(size):
            total[i] += column[i] * weight


@jit
def _signed_log(
    at: Columns, weights: FloatArray, x: FloatArray, size: int, total: FloatArray
) -> None:
    """Add the weighted `SignedLog` features to the scores in `total`."""
    for k in range(len(at)):
        column, weight = x[at[k]], weights[k]
        for i in range(size):
            total[i] += np.copysign(np.log1p(abs(column[i])), column[i]) * weight


@jit
def _products(
    at: Columns, weights: FloatArray, x: FloatArray, size: int, total: FloatArray
) -> None:
    """Add the weighted `Products` features to the scores in `total`."""
    place = 0
    for first in range(len(at)):
        for second in range(first, len(at)):
            a, b, weight = x[at[first]], x[at[second]], weights[place]
            place += 1
            for i in range(size):
                total[i] += min(max(a[i], -1e70), 1e70) * min(max(b[i], -1e70), 1e70) * weight


@jit
def _sorted(at: Columns, weights: FloatArray, x: FloatArray, size: int, total: FloatArray) -> None:
    """Add the weighted `Sorted` features to the scores in `total`.

    The columns are sorted by odd-even transposition: as many passes as columns are enough.
    """
    count = len(at)
    z = np.empty((count, size))
    for k in range(count):
        for i in range(size):
            z[k, i] = x[at[k], i]
    for sweep in range(count):
        for k in range(sweep % 2, count - 1, 2):
            for i in range(size):
                a, b = z[k, i], z[k + 1, i]
                z[k, i], z[k + 1, i] = (a if a < b else b), (b if a < b else a)
    for k in range(count):
        for i in range(size):
            total[i] += z[k, i] * weights[k]


@jit
def _distances(
    at: Columns,
    center1: FloatArray,
    center0: FloatArray,
    weights: FloatArray,
    x: FloatArray,
    size: int,
    total: FloatArray,
) -> None:
    """Add the weighted `Distances` features to the scores in `total`."""
    one, zero = np.zeros(size), np.zeros(size)
    for k in range(len(at)):
        column = x[at[k]]
        for i in range(size):
            one[i] += (column[i] - center1[k]) * (column[i] - center1[k])
            zero[i] += (column[i] - center0[k]) * (column[i] - center0[k])
    for i in range(size):
        first, second = np.sqrt(one[i]), np.sqrt(zero[i])
        total[i] += (first - second) * weights[0]
        total[i] += (np.log(first + 1e-3) - np.log(second + 1e-3)) * weights[1]
        total[i] += np.log1p(first + second) * weights[2]


@jit
def _whitened_distances(
    at: Columns,
    mix: FloatArray,
    center1: FloatArray,
    center0: FloatArray,
    weights: FloatArray,
    x: FloatArray,
    size: int,
    total: FloatArray,
) -> None:
    """Add the weighted `WhitenedDistances` features to the scores in `total`."""
    mixed = _mixed(at, mix, len(at), x, size)
    _distances(np.arange(len(at)), center1, center0, weights, mixed, size, total)


@jit
def _mixed(at: Columns, mix: FloatArray, count: int, x: FloatArray, size: int) -> FloatArray:
    """Return linear combinations of columns: (count, size); `mix` holds the coefficients of one
    combination after the other.
    """
    mixed = np.zeros((count, size))
    for k in range(count):
        for j in range(len(at)):
            factor = mix[k * len(at) + j]
            for i in range(size):
                mixed[k, i] += x[at[j], i] * factor
    return mixed
