"""Cells over the outputs of a mechanism that encloses its own law: listed outcomes, or boxes in one
dimension.

The methods that a mechanism must have are defined in `core/protocols.py`. Cuts are
chosen from a few runs; the proofs do not depend on these runs.

Cells of several independent parts: losses add, masses multiply, and outcomes of nearly equal
loss are merged.

Merging keeps both bounds valid. The masses of a merged cell are the sums of the outcomes' masses,
and its span is the hull of their spans.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from dpwitness.auditors.density.composition import declared_points
from dpwitness.auditors.density.proved.cells import (
    Cell,
    Cells,
    EnclosedOrder,
    hockey_stick_contribution,
)
from dpwitness.auditors.density.routes import BadOracle
from dpwitness.core.balls.ball import Ball, Span, endpoints, log_ratio_span, over, span
from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols import FloatArray, log_density_at

# runs per side that locate the mass, and at which balls are compared with floats
_SAMPLE_RUNS = 256


def cells_of(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cells | None:
    """Return cells that cover the outputs, or None where a method is missing. Raise BadOracle if
    masses cannot add to 1.
    """
    if not hasattr(mechanism, "log_density_ball"):
        return None
    if hasattr(mechanism, "support") and not hasattr(mechanism, "mass_ball"):
        cells = _cells_of_support(mechanism, d1, d0, seconds)
    else:
        seen = sample_and_check_balls(mechanism, d1, d0)
        if seen.shape[1] > 1 or not hasattr(mechanism, "mass_ball"):
            return None

        def masses(dataset: Any, spans: list[Span]) -> list[Ball]:
            return list(mechanism.mass_ball([[span] for span in spans], dataset))

        cells = line(
            [partial(masses, d) for d in (d1, d0)],
            partial(_losses, mechanism, d1, d0),
            declared_points(mechanism, "atoms", d0, d1),
            declared_points(mechanism, "breakpoints", d0, d1),
            seen[:, 0],
            seconds,
        )
    for side, total in zip(("D1", "D0"), cells.total(), strict=True):
        if not total.contains(1):
            raise BadOracle(
                f"the mechanism's mass balls under {side} add to {total.str(10)}, not to 1"
            )
    return cells


def _cells_of_support(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cells:
    """Return one cell per listed outcome, and one for the mass outside the support, where any loss
    is possible.
    """
    listed = [np.asarray(mechanism.support(d), dtype=float) for d in (d1, d0)]
    rows = np.unique(
        np.concatenate([side if side.ndim > 1 else side[:, None] for side in listed]), axis=0
    )
    boxes = [[(x, x) for x in row] for row in rows.tolist()]
    first, second = (mechanism.log_density_ball(boxes, d) for d in (d1, d0))
    leaves = [
        Cell(a.exp(), b.exp(), log_ratio_span(a, b), box)
        for a, b, box in zip(first, second, boxes, strict=True)
    ]
    _require_floats_in_balls(mechanism, rows[:_SAMPLE_RUNS], first[:_SAMPLE_RUNS], d1)
    _require_floats_in_balls(mechanism, rows[:_SAMPLE_RUNS], second[:_SAMPLE_RUNS], d0)
    if hasattr(mechanism, "tail_ball"):
        outside = [mechanism.tail_ball(None, d) for d in (d1, d0)]
    else:
        # the mass missing to 1, at least 0
        rests = [1 - sum((getattr(c, side) for c in leaves), arb(0)) for side in "pq"]
        outside = [arb(0).union(rest.upper()) if rest.upper() > 0 else arb(0) for rest in rests]
    leaves.append(Cell(outside[0], outside[1], (-math.inf, math.inf)))
    return Cells([cell for cell in leaves if not _has_no_mass(cell)], None, seconds)


def cells_of_draw(p: list[Ball], q: list[Ball], seconds: float) -> Cells:
    """Return the cells of one draw, from its log-probabilities; balls are equal numbers only if
    they are the same object.
    """
    spans = [(0.0, 0.0) if a is b else log_ratio_span(a, b) for a, b in zip(p, q, strict=True)]
    return Cells(
        [Cell(a.exp(), b.exp(), loss) for a, b, loss in zip(p, q, spans, strict=True)],
        None,
        seconds,
    )


def sample_and_check_balls(mechanism: Any, d1: Any, d0: Any) -> FloatArray:
    """Return sampled outputs on both datasets. Raise BadOracle if a float log-density there lies
    outside its ball.
    """
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0xBA11,)))
    seen = [
        np.asarray(mechanism.sample(d, _SAMPLE_RUNS, rng), dtype=float).reshape(_SAMPLE_RUNS, -1)
        for d in (d1, d0)
    ]
    for d, rows in zip((d1, d0), seen, strict=True):
        _require_floats_in_balls(
            mechanism,
            rows,
            mechanism.log_density_ball([[(x, x) for x in row] for row in rows.tolist()], d),
            d,
        )
    return np.concatenate(seen)


def line(
    masses: Sequence[Callable[[list[Span]], list[Ball]]],
    losses: Callable[[list[Span]], list[Span]],
    atoms: FloatArray,
    breaks: FloatArray,
    seen: FloatArray,
    seconds: float,
) -> Cells:
    """Return cells on the line: intervals (low, high], and points that have positive mass.

    `masses` on D1 and on D0 and `losses` enclose those of each interval. `seen` are sampled
    outputs, which choose the cuts.
    """
    low, middle, high = np.quantile(seen, [0.1, 0.5, 0.9]).tolist()
    spread = high - low or 1.0

    def make(spans: list[Span]) -> list[Cell]:
        parts = (*(mass(spans) for mass in masses), losses(spans), spans)
        found = [Cell(p, q, loss, [each]) for p, q, loss, each in zip(*parts, strict=True)]
        return [cell for cell in found if not _has_no_mass(cell)]

    def split(cell: Cell) -> list[Cell]:
        low, high = cell.box[0]
        if math.isinf(low) and math.isinf(high):
            cut = middle
        elif math.isinf(high):
            cut = low + max(spread, 2 * abs(low - middle))
        elif math.isinf(low):
            cut = high - max(spread, 2 * abs(high - middle))
        else:
            cut = low + (high - low) / 2
        return make([(low, cut), (cut, high)]) if low < cut < high and math.isfinite(cut) else []

    cuts = np.unique(np.concatenate([atoms, breaks, [low, middle, high]])).tolist()
    spans = [*itertools.pairwise([-math.inf, *cuts, math.inf]), *((a, a) for a in atoms.tolist())]
    return Cells(make(spans), split, seconds)


def _losses(mechanism: Any, d1: Any, d0: Any, spans: list[Span]) -> list[Span]:
    """Enclose the loss over each interval: by the mechanism's own method, or as a difference of
    log-densities.
    """
    if hasattr(mechanism, "loss_ball"):
        return list(mechanism.loss_ball([[span] for span in spans], d1, d0))
    bounded = [[span] for span in spans if math.isfinite(span[1] - span[0])]
    logs = (mechanism.log_density_ball(bounded, d) for d in (d1, d0))
    found = iter([log_ratio_span(a, b) for a, b in zip(*logs, strict=True)])
    unknown = (-math.inf, math.inf)
    return [next(found) if math.isfinite(high - low) else unknown for low, high in spans]


def _has_no_mass(cell: Cell) -> bool:
    """Return whether both masses of a cell are exactly 0."""
    return all(mass.is_exact() and mass == 0 for mass in (cell.p, cell.q))


def _require_floats_in_balls(
    mechanism: Any, rows: FloatArray, balls: list[Ball], dataset: Any
) -> None:
    """Raise BadOracle if a ball excludes the mechanism's own float log-density."""
    for row, value, ball in zip(
        rows.tolist(), log_density_at(mechanism, rows, dataset).tolist(), balls, strict=True
    ):
        low, high = span(ball)
        slack = 1e-6 * (1 + abs(value)) if math.isfinite(value) else 0.0
        if not low - slack <= value <= high + slack:
            raise BadOracle(
                f"log_density gives {value!r} at {row}, outside of its own ball [{low!r}, {high!r}]"
            )


_CELLS_PER_PART = 1024  # cells of a part whose loss varies continuously
# losses of listed outcomes that differ by less are treated as equal up to rounding
_EQUAL_LOSS_WIDTH = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Product(EnclosedOrder):
    """Cells of a product of independent parts. Suprema and Renyi divergences are sums over the
    parts.
    """

    parts: tuple[Cells, ...]
    leaves: list[Cell]  # cells of the joint outputs, by the lower end of their span
    sums: list[tuple[Ball, Ball]]  # masses of all cells from each cell on
    widest: float  # largest width of a bounded span

    @classmethod
    def of(cls, parts: tuple[Cells, ...], leaves: list[Cell]) -> Product:
        """Return the product with these cells of the joint outputs."""
        leaves = sorted(leaves, key=_lower_end)
        sums = [(arb(0), arb(0))]
        for cell in reversed(leaves):
            sums.append((sums[-1][0] + cell.p, sums[-1][1] + cell.q))
        widths = [cell.loss[1] - cell.loss[0] for cell in leaves]
        return cls(parts, leaves, sums[::-1], max(filter(math.isfinite, widths), default=0.0))

    def turned(self) -> Product:
        """Return the product with D1 and D0 exchanged."""
        known = {id(part): part.turned() for part in self.parts}
        leaves = [cell.turned() for cell in self.leaves]
        return Product.of(tuple(known[id(part)] for part in self.parts), leaves)

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
        first = bisect_left(self.leaves, epsilon, key=_lower_end)
        start = bisect_left(self.leaves, epsilon - 2 * self.widest, key=_lower_end)
        factor = arb(epsilon).exp()
        across = itertools.chain(
            self.leaves[start:first],
            itertools.takewhile(lambda c: c.loss[0] == -math.inf, self.leaves[:start]),
        )
        total = self.sums[first][0] - factor * self.sums[first][1]
        return endpoints(
            sum((hockey_stick_contribution(cell, epsilon, factor) for cell in across), total)
        )


def _lower_end(cell: Cell) -> float:
    """Return the lower end of the span of a cell."""
    return cell.loss[0]


def product_cells(parts: list[Cells]) -> Product:
    """Return cells that cover the joint outputs of all parts."""
    finite = [[x for cell in part.leaves for x in cell.loss if math.isfinite(x)] for part in parts]
    ranges = [(min(losses, default=0.0), max(losses, default=0.0)) for losses in finite]
    buckets = min(1 << 15, _CELLS_PER_PART * len(parts))
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
        # more pairs of cells are multiplied in floats rounded outwards
        if table is None and len(whole) * len(outcomes) <= 8192:
            products = [
                Cell(
                    a.p * b.p,
                    a.q * b.q,
                    (
                        _add_rounded(a.loss[0], b.loss[0], -math.inf),
                        _add_rounded(a.loss[1], b.loss[1], math.inf),
                    ),
                )
                for a, b in itertools.product(whole, outcomes)
            ]
            whole = _merge_close(products, _EQUAL_LOSS_WIDTH)
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
    return Product.of(tuple(parts), whole)


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
                old.p + cell.p, old.q + cell.q, (min(old.loss[0], low), max(old.loss[1], high))
            )
        else:
            merged[key] = cell
    return list(merged.values())


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
