"""Cells over the outputs of a mechanism that encloses its own law: listed outcomes, or boxes in one to three dimensions.

What is asked of the mechanism stands in `mechanisms/terms/protocol.py`. Cuts are chosen from a few runs; nothing proved rests on them.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from flint import arb

from dpwitness.auditors.loss.oracle import BadOracle
from dpwitness.auditors.proved.cells import Cell, Cells
from dpwitness.mechanisms.balls.ball import Ball, Box, Span, ends, span
from dpwitness.mechanisms.terms.powers import HasDensityBall, HasLossBall, HasMassBall, HasSupport, HasTailBall, log_density_at, offers
from dpwitness.mechanisms.terms.protocol import FloatArray

_RUNS = 256  # that show where the mass lies, and hold balls against floats
_TOLERANCE = 1e-6  # relative: between a float log-density and the ball it should lie in


def cells_of(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cells | None:
    """Cells that cover the outputs; None where the mechanism offers too little."""
    if not offers(mechanism, HasDensityBall):
        return None
    if offers(mechanism, HasSupport) and not offers(mechanism, HasMassBall):
        cells: Cells | None = _listed(mechanism, d1, d0, seconds)
    else:
        cells = _boxes(mechanism, d1, d0, seconds)
    if cells is None:
        return None
    for side, total in zip(("D1", "D0"), cells.total(), strict=True):
        if not total.contains(1):
            raise BadOracle(f"the masses that the mechanism encloses under {side} add to {total.str(10)}, not to 1")
    return cells


def _listed(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cells:
    """One cell an outcome; what the support leaves out may have any loss."""
    rows = np.concatenate([np.asarray(mechanism.support(d), dtype=float).reshape(-1, _width(mechanism, d)) for d in (d1, d0)])
    rows = np.unique(rows, axis=0)
    boxes = [[(x, x) for x in row] for row in rows.tolist()]
    first, second = (mechanism.log_density_ball(boxes, d) for d in (d1, d0))
    leaves = [Cell(a.exp(), b.exp(), _difference(a, b), box) for a, b, box in zip(first, second, boxes, strict=True)]
    _hold(mechanism, rows[:_RUNS], first[:_RUNS], d1)
    _hold(mechanism, rows[:_RUNS], second[:_RUNS], d0)
    if offers(mechanism, HasTailBall):
        outside = [mechanism.tail_ball(None, d) for d in (d1, d0)]
    else:
        outside = [_remainder(sum((getattr(c, side) for c in leaves), arb(0))) for side in "pq"]
    if not all(mass.is_exact() and mass == 0 for mass in outside):
        leaves.append(Cell(outside[0], outside[1], (-math.inf, math.inf)))
    return Cells([cell for cell in leaves if not _empty(cell)], None, seconds)


def of_draw(p: list[Ball], q: list[Ball], seconds: float) -> Cells:
    """Cells of one draw, from its log-probabilities on both sides. Equal balls are equal numbers only where they are the same objects."""
    return Cells([Cell(a.exp(), b.exp(), (0.0, 0.0) if a is b else _difference(a, b)) for a, b in zip(p, q, strict=True)], None, seconds)


def _width(mechanism: Any, dataset: Any) -> int:
    rows = np.asarray(mechanism.support(dataset))
    return rows.shape[1] if rows.ndim > 1 else 1


def _remainder(total: Ball) -> Ball:
    """What is missing to 1, at least 0."""
    rest = 1 - total
    return arb(0).union(rest.upper()) if rest.upper() > 0 else arb(0)


def _boxes(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cells | None:
    seen = check_balls(mechanism, d1, d0)
    return line(mechanism, d1, d0, seen[:, 0], seconds) if seen.shape[1] == 1 else None


def check_balls(mechanism: Any, d1: Any, d0: Any, runs: int = _RUNS) -> FloatArray:
    """A few outputs of both sides, where floats and balls must agree."""
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0xBA11,)))
    seen = [np.asarray(mechanism.sample(d, runs, rng), dtype=float).reshape(runs, -1) for d in (d1, d0)]
    for d, rows in zip((d1, d0), seen, strict=True):
        _hold(mechanism, rows, mechanism.log_density_ball([[(x, x) for x in row] for row in rows.tolist()], d), d)
    return np.concatenate(seen)


def line(mechanism: Any, d1: Any, d0: Any, seen: FloatArray, seconds: float) -> Cells | None:
    """Intervals (low, high], and the points that have a mass of their own."""
    atoms = _named(mechanism, "atoms", d1, d0)
    cuts = np.unique(np.concatenate([atoms, _named(mechanism, "breakpoints", d1, d0), np.quantile(seen, [0.1, 0.5, 0.9])])).tolist()
    middle = float(np.median(seen))
    reach = float(np.quantile(seen, 0.9) - np.quantile(seen, 0.1)) or 1.0
    exact = offers(mechanism, HasMassBall)

    def make(spans: list[Span]) -> list[Cell]:
        boxes: list[Box] = [[s] for s in spans]
        p, q = (masses(boxes, d) for d in (d1, d0))
        losses = loss_over(mechanism, boxes, d1, d0)
        found = [Cell(a, b, loss, box, not exact) for a, b, loss, box in zip(p, q, losses, boxes, strict=True)]
        return [cell for cell in found if not _empty(cell)]

    def masses(boxes: list[Box], d: Any) -> list[Ball]:
        if exact:
            return list(mechanism.mass_ball(boxes, d))
        return masses_from_density(mechanism, boxes, d)

    def split(cell: Cell) -> list[Cell]:
        low, high = cell.box[0]
        if not low < high:
            return []
        if math.isinf(low) or math.isinf(high):
            near = high if math.isinf(low) else low
            away = max(reach, 2 * abs(near - middle)) if math.isfinite(near) else 0.0
            cut = middle if math.isinf(near) else near + (away if math.isinf(high) else -away)
        else:
            cut = low + (high - low) / 2
        return make([(low, cut), (cut, high)]) if low < cut < high and math.isfinite(cut) else []

    edges = [-math.inf, *cuts, math.inf]
    spans = [(a, b) for a, b in itertools.pairwise(edges)] + [(a, a) for a in atoms.tolist()]
    return Cells(make(spans), split, seconds)


def masses_from_density(mechanism: Any, boxes: list[Box], dataset: Any) -> list[Ball]:
    """Density times volume of bounded boxes; of the others what the mechanism says of its tails, else between 0 and 1."""
    finite = [i for i, box in enumerate(boxes) if all(math.isfinite(x) for s in box for x in s)]
    out = [arb(0).union(arb(1))] * len(boxes)
    for i, log in zip(finite, mechanism.log_density_ball([boxes[i] for i in finite], dataset), strict=True):
        volume = math.prod((arb(high) - arb(low) for low, high in boxes[i]), start=arb(1))
        mass = log.exp() * volume
        out[i] = mass if mass.is_finite() else out[i]
    if offers(mechanism, HasTailBall):
        for i in set(range(len(boxes))) - set(finite):
            out[i] = mechanism.tail_ball([_complement(s) for s in boxes[i]], dataset)
    return out


def _complement(s: Span) -> Span:
    """The half-line that an unbounded span leaves."""
    low, high = s
    return (high, math.inf) if math.isinf(low) else (-math.inf, low)


def loss_over(mechanism: Any, boxes: list[Box], d1: Any, d0: Any) -> list[Span]:
    """Span of the loss over each box: as the mechanism gives it, or as the difference of two log-densities."""
    if offers(mechanism, HasLossBall):
        return list(mechanism.loss_ball(boxes, d1, d0))
    finite = [i for i, box in enumerate(boxes) if all(math.isfinite(x) for s in box for x in s)]
    out: list[Span] = [(-math.inf, math.inf)] * len(boxes)
    some = [boxes[i] for i in finite]
    for i, a, b in zip(finite, mechanism.log_density_ball(some, d1), mechanism.log_density_ball(some, d0), strict=True):
        out[i] = _difference(a, b)
    return out


def _difference(first: Ball, second: Ball) -> Span:
    """Span of a difference of log-densities, of which either may be minus infinity."""
    if first.is_finite() and second.is_finite():
        return ends(first - second)
    if first.is_finite() and not second.is_nan() and second < 0:
        return math.inf, math.inf
    if second.is_finite() and not first.is_nan() and first < 0:
        return -math.inf, -math.inf
    return -math.inf, math.inf


def _empty(cell: Cell) -> bool:
    return all(mass.is_exact() and mass == 0 for mass in (cell.p, cell.q))


def _named(mechanism: Any, what: str, d1: Any, d0: Any) -> FloatArray:
    if not hasattr(mechanism, what):
        return np.empty(0)
    return np.unique(np.concatenate([np.ravel(getattr(mechanism, what)(d)) for d in (d1, d0)]).astype(float))


def _hold(mechanism: Any, rows: FloatArray, balls: list[Ball], dataset: Any) -> None:
    """Refuse balls that leave out the mechanism's own float log-density."""
    floats = log_density_at(mechanism, rows, dataset)
    for row, value, ball in zip(rows.tolist(), floats.tolist(), balls, strict=True):
        low, high = span(ball)
        slack = _TOLERANCE * (1 + abs(value)) if math.isfinite(value) else 0.0
        if not low - slack <= value <= high + slack:
            raise BadOracle(f"log_density gives {value!r} at {row}, outside of its own ball [{low!r}, {high!r}]")
