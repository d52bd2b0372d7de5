"""Compiled events: kernels ``count(*arguments, rows, table)`` that count how many rows of outputs
fall in each cell (abstain, D1, D0).

All rows have one structure, and the structure code is left out: float64 (rows, width),
C-contiguous. A kernel guesses for each row what the event's `guess` method guesses. Sums of floats
may be rounded in another order if the event tolerates such differences. Only intervals and
thresholds have kernels: NumPy counts other events about as fast, or their tests are short.

**Thresholds.** A score becomes flat tables, and is evaluated column by column over a block of rows
that fits in the processor's cache. Each input number of the score is stored once per row, unchanged
or standardized. Each block of features then loops over these columns, in loops that the compiler
can vectorize.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, singledispatch

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


_KINDS = (
    Levels,
    Ramps,
    Affine,
    SignedLog,
    Products,
    Sorted,
    Distances,
    WhitenedDistances,
    ProjectedRamps,
)
(_LEVELS, _RAMPS, _AFFINE, _SIGNED_LOG, _PRODUCTS, _SORTED, _DISTANCES, _WHITENED, _PROJECTED) = (
    range(len(_KINDS))
)
_BLOCK_ROWS = 256


@dataclass(frozen=True, slots=True, eq=False)
class _FlatBlock:
    """Block of features as a kernel reads it.

    `inputs` are the columns to load, each with its center and scale; a scale of 0 means that the
    column is not standardized. `integers` follow their indices, and `numbers` precede the weights.
    """

    length: int
    inputs: list[tuple[int, float, float]]
    numbers: Sequence[FloatArray] = ()
    integers: Sequence[int] = ()


@singledispatch
def _flat(block: Block) -> _FlatBlock | None:
    """Return the block as a kernel reads it; None if some slope is not a finite float, or if blocks
    of this class have no kernel: trees, and positions of answers.
    """
    return None


@_flat.register
def _(block: Levels) -> _FlatBlock:
    return _FlatBlock(len(block.keys), [(block.column, 0.0, 0.0)], [block.keys])


@_flat.register
def _(block: Ramps) -> _FlatBlock | None:
    if not _has_finite_slopes(block.knots):
        return None
    columns = [each for each in (block.column, block.less) if each >= 0]
    inputs = [(each, 0.0, 0.0) for each in columns]
    absent = [-1] if block.less < 0 else []
    return _FlatBlock(len(block.knots) - 1, inputs, [block.knots], absent)


@_flat.register
def _(block: NumericBlock) -> _FlatBlock:
    return _FlatBlock(len(block.at), _flat_inputs(block))


@_flat.register
def _(block: ProjectedRamps) -> _FlatBlock | None:
    if not _has_finite_slopes(block.knots):
        return None
    numbers, size = [block.direction, block.knots], [len(block.knots)]
    return _FlatBlock(len(block.at), _flat_inputs(block), numbers, size)


@_flat.register
def _(block: Distances) -> _FlatBlock:
    return _FlatBlock(len(block.at), _flat_inputs(block), [block.one, block.zero])


@_flat.register
def _(block: WhitenedDistances) -> _FlatBlock:
    numbers = [block.whitening.T.ravel(), block.one, block.zero]
    return _FlatBlock(len(block.at), _flat_inputs(block), numbers)


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

    The tables are the columns to load, and for each block its kind, its length, and the offsets of
    its integers and floats.
    """
    inputs: dict[tuple[int, float, float], int] = {}  # index of each column, center and scale
    table, integers, real = list[tuple[int, int, int, int]](), list[int](), list[float]()
    for block, weights in blocks:
        flat = _flat(block)
        if flat is None:
            return None
        table.append((_KINDS.index(type(block)), flat.length, len(integers), len(real)))
        integers += [inputs.setdefault(each, len(inputs)) for each in flat.inputs]
        integers += flat.integers
        real += np.concatenate([*flat.numbers, weights]).tolist()
    loads = np.array(list(inputs) or [(0, 0.0, 0.0)])
    arguments = (
        loads[:, 0].astype(np.int64),
        np.ascontiguousarray(loads[:, 1]),
        np.ascontiguousarray(loads[:, 2]),
        np.array(table, dtype=np.int64).reshape(-1, 4),
        np.array(integers, dtype=np.int64),
        np.array(real, dtype=np.float64),
    )
    count = _compiled_counter(frozenset(kind for kind, _, _, _ in table))
    return count, (code, *arguments, float(offset), unit, float(low), float(high))


@cache
def _compiled_counter(kinds: frozenset[int]) -> Callable[..., None]:
    """Return the kernel for scores with blocks of these kinds only; compiling all kinds would take
    seconds.
    """
    levels, ramps, affine, signed_log, products, in_order, distances, whitened, projected = (
        kind in kinds for kind in range(len(_KINDS))
    )

    @jit
    def add_block(
        kind: int,
        n: int,
        at: Columns,
        reals: FloatArray,
        x: FloatArray,
        size: int,
        total: FloatArray,
    ) -> None:
        # the flags are compile-time constants, so unused branches are removed
        if levels and kind == _LEVELS:
            _levels(reals[:n], reals[n:], x[at[0]], size, total)
        elif ramps and kind == _RAMPS:
            _ramps(
                reals[: n + 1], reals[n + 1 :], x[at[0]], x[max(at[1], 0)], at[1] >= 0, size, total
            )
        elif affine and kind == _AFFINE:
            _affine(at[:n], reals, x, size, total)
        elif signed_log and kind == _SIGNED_LOG:
            _signed_log(at[:n], reals, x, size, total)
        elif products and kind == _PRODUCTS:
            _products(at[:n], reals, x, size, total)
        elif in_order and kind == _SORTED:
            _sorted(at[:n], reals, x, size, total)
        elif distances and kind == _DISTANCES:
            _distances(at[:n], reals, x, size, total)
        elif whitened and kind == _WHITENED:
            _distances(np.arange(n), reals[n * n :], _mixed(at[:n], reals, n, x, size), size, total)
        elif projected and kind == _PROJECTED:
            knots, column = reals[n : n + at[n]], _mixed(at[:n], reals, 1, x, size)[0]
            _ramps(knots, reals[n + at[n] :], column, column, False, size, total)

    @jit
    def count_scores(
        code: float,
        columns: Columns,
        centers: FloatArray,
        scales: FloatArray,
        blocks: Columns,
        integers: Columns,
        real: FloatArray,
        offset: float,
        unit: float,
        low: float,
        high: float,
        rows: FloatArray,
        table: NDArray[np.int64],
    ) -> None:
        """Count scores above `high` as D1 and scores below `low` as D0."""
        x = np.empty((len(columns), _BLOCK_ROWS))
        total = np.empty(_BLOCK_ROWS)
        plus, minus = 0, 0
        for start in range(0, len(rows), _BLOCK_ROWS):
            size = min(_BLOCK_ROWS, len(rows) - start)
            for k in range(len(columns)):
                _load_column(
                    code, columns[k], centers[k], scales[k], rows[start : start + size], x[k]
                )
            for i in range(size):
                total[i] = offset
            for b in range(len(blocks)):
                kind, n, at, reals = (
                    blocks[b, 0],
                    blocks[b, 1],
                    integers[blocks[b, 2] :],
                    real[blocks[b, 3] :],
                )
                add_block(kind, n, at, reals, x, size, total)
            for i in range(size):
                score = np.rint(total[i] / unit) * unit
                plus += (score > high) and not (score < low)
                minus += (score < low) and not (score > high)
        _add_counts(table, len(rows), plus, minus)

    return count_scores


@jit
def _load_column(
    code: float, column: int, center: float, scale: float, rows: FloatArray, out: FloatArray
) -> None:
    """Load one column of the output matrix into `out`, standardized unless `scale` is 0; column 0
    is the structure code.
    """
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
    keys: FloatArray, weights: FloatArray, column: FloatArray, size: int, total: FloatArray
) -> None:
    """Add the weights of `Levels` features to the scores in `total`."""
    for k in range(len(keys)):
        key, weight = keys[k], weights[k]
        for i in range(size):
            value = column[i] if column[i] == column[i] else np.inf
            total[i] += weight if value == key else 0.0


@jit
def _ramps(
    knots: FloatArray,
    weights: FloatArray,
    column: FloatArray,
    less: FloatArray,
    subtract: bool,
    size: int,
    total: FloatArray,
) -> None:
    """Add the weighted `Ramps` features to the scores in `total`."""
    for k in range(len(knots) - 1):
        left, right = knots[k], knots[k + 1]
        slope = weights[k] / (right - left)
        for i in range(size):
            value = column[i] - less[i] if subtract else column[i]
            value = value if value > left else left  # also replaces NaN
            value = value if value < right else right
            total[i] += (value - left) * slope


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
def _distances(at: Columns, real: FloatArray, x: FloatArray, size: int, total: FloatArray) -> None:
    """Add the weighted `Distances` features to the scores in `total`."""
    count = len(at)
    one, zero = np.zeros(size), np.zeros(size)
    for k in range(count):
        column, center1, center0 = x[at[k]], real[k], real[count + k]
        for i in range(size):
            one[i] += (column[i] - center1) * (column[i] - center1)
            zero[i] += (column[i] - center0) * (column[i] - center0)
    weights = real[2 * count :]
    for i in range(size):
        first, second = np.sqrt(one[i]), np.sqrt(zero[i])
        total[i] += (first - second) * weights[0]
        total[i] += (np.log(first + 1e-3) - np.log(second + 1e-3)) * weights[1]
        total[i] += np.log1p(first + second) * weights[2]


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
