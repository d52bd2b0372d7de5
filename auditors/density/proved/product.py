"""Cells of several independent parts: losses add, masses multiply, and outcomes of nearly equal
loss are merged.

Merging keeps both bounds valid. The masses of a merged cell are the sums of the outcomes' masses,
and its span is the hull of their spans.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np
from flint import arb

from dpwitness.auditors.density.proved.cells import Cell, Cells, hockey_stick_contribution
from dpwitness.core.balls.ball import Ball, Span, endpoints, over
from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols.mechanism import FloatArray

_MAX_CELLS = 1 << 15  # largest number of cells of a product
# largest number of pairs of cells that are multiplied in balls; beyond, floats rounded outwards are
# used
_MAX_BALL_PRODUCTS = 8192
_CELLS_PER_PART = 1024  # cells of a part whose loss varies continuously
# losses of listed outcomes that differ by less are treated as equal up to rounding
_EQUAL_LOSS_WIDTH = 1e-12


@dataclass(slots=True, eq=False)
class Product(Cells):
    """Cells of a product of independent parts. Suprema and Renyi divergences are sums over the
    parts.
    """

    parts: tuple[Cells, ...] = ()
    sums: list[tuple[Ball, Ball]] | None = None
    starts: list[float] = field(default_factory=list)
    widest: float = 0.0

    def turned(self) -> Product:
        """Return the product for the other order of the pair."""
        leaves = [cell.turned() for cell in self.leaves]
        known = {id(part): part.turned() for part in self.parts}
        return Product(
            leaves,
            None,
            self.seconds,
            self.started,
            parts=tuple(known[id(part)] for part in self.parts),
        )

    def supremum(self, relative: float = 1e-9) -> Span:
        """Enclose the largest loss: the sum of the parts' largest losses."""
        return _sum([part.supremum(relative) for part in self.parts])

    def renyi(self, order: float, relative: float = 1e-7) -> Span:
        """Enclose the Renyi divergence: the sum of the parts' divergences."""
        return _sum([part.renyi(order, relative) for part in self.parts])

    def hockey_stick(self, epsilon: float, relative: float = 1e-7, absolute: float = 0.0) -> Span:
        """Enclose the hockey-stick divergence over the fixed cells, of which few have spans that
        contain `epsilon`.
        """
        if self.sums is None:
            self.leaves.sort(key=lambda cell: cell.loss[0])
            sums = [(arb(0), arb(0))]
            for cell in reversed(self.leaves):
                sums.append((sums[-1][0] + cell.p, sums[-1][1] + cell.q))
            self.starts = [cell.loss[0] for cell in self.leaves]
            self.widest = max(
                (b - a for a, b in (c.loss for c in self.leaves) if math.isfinite(b - a)),
                default=0.0,
            )
            self.sums = sums[::-1]
        first = bisect_left(self.starts, epsilon)
        start = bisect_left(self.starts, epsilon - 2 * self.widest)
        factor = arb(epsilon).exp()
        across = itertools.chain(
            self.leaves[start:first],
            itertools.takewhile(lambda c: c.loss[0] == -math.inf, self.leaves[:start]),
        )
        total = self.sums[first][0] - factor * self.sums[first][1]
        return endpoints(
            sum((hockey_stick_contribution(cell, epsilon, factor) for cell in across), total)
        )


def product_cells(parts: list[Cells]) -> Product:
    """Return cells that cover the joint outputs of all parts."""
    finite = [[x for cell in part.leaves for x in cell.loss if math.isfinite(x)] for part in parts]
    ranges = [(min(losses, default=0.0), max(losses, default=0.0)) for losses in finite]
    buckets = min(_MAX_CELLS, _CELLS_PER_PART * len(parts))
    low, width = sum(a for a, _ in ranges), sum(b - a for a, b in ranges) / buckets
    whole = [Cell(arb(1), arb(1), (0.0, 0.0))]
    table: FloatArray | None = None  # used once the cells are too many for balls
    known: dict[int, list[Cell]] = {}
    for part, (least, most) in zip(parts, ranges, strict=True):
        if id(part) not in known:
            known[id(part)] = _merge_close(
                _split_wide(part, (most - least) / _CELLS_PER_PART), _EQUAL_LOSS_WIDTH
            )
        outcomes = known[id(part)]
        if table is None and len(whole) * len(outcomes) <= _MAX_BALL_PRODUCTS:
            whole = _merge_close(
                [_product_cell(a, b) for a, b in itertools.product(whole, outcomes)],
                _EQUAL_LOSS_WIDTH,
            )
            continue
        # `low` is the lowest full sum: the remaining parts can still move partial sums by their own
        # range
        table = convolve_cells(
            _cell_table(whole) if table is None else table,
            _cell_table(outcomes),
            low,
            width,
            buckets,
        )
    if table is not None:
        whole = [
            Cell(over(max(r[0], 0.0), r[1]), over(max(r[2], 0.0), r[3]), (r[4], r[5]))
            for r in table.tolist()
        ]
    return Product(whole, None, parts[0].seconds, parts[0].started, parts=tuple(parts))


def _cell_table(cells: list[Cell]) -> FloatArray:
    """Return one row per cell: (p from, p to, q from, q to, loss from, loss to),
    rounded outwards.
    """
    return np.array([[*endpoints(c.p), *endpoints(c.q), *c.loss] for c in cells])


@jit
def convolve_cells(
    first: FloatArray, second: FloatArray, low: float, width: float, buckets: int
) -> FloatArray:
    """Return the rows of all sums of one row of each table, merged into buckets by the middle of
    their loss.

    Arithmetic is in floats rounded outwards. A product or a sum of floats >= 0 is off by at most
    2^-53 of itself, or by 2^-1074 where it underflows. The allowance is 2^-51 and 1e-300 for
    each. Losses without a finite span go into three separate buckets.
    """
    slack, tiny = 4.5e-16, 1e-300
    out = np.zeros((buckets + 3, 6))
    out[:, 4], out[:, 5] = np.inf, -np.inf
    for i in range(len(first)):
        for j in range(len(second)):
            start, stop = first[i, 4] + second[j, 4], first[i, 5] + second[j, 5]
            if np.isfinite(start) and np.isfinite(stop):
                k = (
                    min(max(int((0.5 * (start + stop) - low) / width), 0), buckets - 1)
                    if width > 0
                    else 0
                )
                start -= slack * abs(start)
                stop += slack * abs(stop)
            elif start == np.inf:
                k = buckets
            elif stop == -np.inf:
                k = buckets + 1
            else:
                k = buckets + 2
                start, stop = (
                    -np.inf if np.isnan(start) else start,
                    np.inf if np.isnan(stop) else stop,
                )
            for side in (0, 2):
                least = out[k, side] + first[i, side] * second[j, side] * (1 - slack)
                most = out[k, side + 1] + first[i, side + 1] * second[j, side + 1] * (1 + slack)
                out[k, side] = max(0.0, least * (1 - slack) - tiny)
                out[k, side + 1] = most * (1 + slack) + tiny
            out[k, 4], out[k, 5] = min(out[k, 4], start), max(out[k, 5], stop)
    return out[out[:, 4] <= out[:, 5]]


def _split_wide(part: Cells, width: float) -> list[Cell]:
    """Split leaves until bounded spans are at most `width` wide, except leaves with negligible
    mass.
    """
    pending, out = list(part.leaves), []
    budget = 16 * _CELLS_PER_PART
    while pending:
        cell = pending.pop()
        low, high = cell.loss
        negligible = cell.p.upper() < 1e-20 and cell.q.upper() < 1e-20
        parts = (
            part.split(cell)
            if part.split is not None and high - low > width and not negligible and budget > 0
            else []
        )
        budget -= bool(parts)
        if parts:
            pending += parts
        else:
            out.append(cell)
    return out


def _merge_close(cells: list[Cell], width: float) -> list[Cell]:
    """Merge cells whose spans have their middles in one bucket of this width, and cells of one
    infinite loss.
    """
    merged: dict[float, Cell] = {}
    for cell in cells:
        low, high = cell.loss
        finite = math.isfinite(low) and math.isfinite(high)
        middle = low if low == high else low / 2 + high / 2
        key = float(round(middle / width)) if finite else (math.nan if low != high else low)
        key = 1e300 if math.isnan(key) else key
        if key in merged:
            old = merged[key]
            merged[key] = Cell(
                old.p + cell.p,
                old.q + cell.q,
                (min(old.loss[0], low), max(old.loss[1], high)),
                (),
                old.rough or cell.rough,
            )
        else:
            merged[key] = cell
    return list(merged.values())


def _product_cell(a: Cell, b: Cell) -> Cell:
    """Return the product cell of two independent cells."""
    low = _add_rounded(a.loss[0], b.loss[0], -math.inf)
    high = _add_rounded(a.loss[1], b.loss[1], math.inf)
    return Cell(a.p * b.p, a.q * b.q, (low, high), (), a.rough or b.rough)


def _add_rounded(x: float, y: float, direction: float) -> float:
    """Return the sum rounded towards the infinity `direction`, which is the sum of opposite
    infinities.
    """
    total = x + y
    if math.isnan(total):
        return direction
    return total if x == 0 or y == 0 or math.isinf(total) else math.nextafter(total, direction)


def _sum(spans: list[Span]) -> Span:
    """Enclose a sum of numbers, given a span for each."""
    return endpoints(sum((arb(low) for low, _ in spans), arb(0)))[0], endpoints(
        sum((arb(high) for _, high in spans), arb(0))
    )[1]
