"""Cells over the outputs of a mechanism that encloses its own law: listed outcomes, or boxes in one
dimension.

The methods that a mechanism must have are defined in `core/protocols/mechanism.py`. Cuts are
chosen from a few runs; the proofs do not depend on these runs.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from flint import arb

from dpwitness.auditors.density.density_check import BadOracle
from dpwitness.auditors.density.proved.cells import Cell, Cells
from dpwitness.core.balls.ball import Ball, Box, Span, endpoints, span
from dpwitness.core.protocols.capabilities import (
    HasDensityBall,
    HasLossBall,
    HasMassBall,
    HasSupport,
    HasTailBall,
    has_capability,
    log_density_at,
)
from dpwitness.core.protocols.mechanism import FloatArray

# runs per side that locate the mass, and at which balls are compared with floats
_SAMPLE_RUNS = 256
_TOLERANCE = 1e-6  # relative distance allowed between a float log-density and the ball around it


def cells_of(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cells | None:
    """Return cells that cover the outputs, or None where a method is missing. Raise BadOracle if
    masses cannot add to 1.
    """
    if not has_capability(mechanism, HasDensityBall):
        return None
    if has_capability(mechanism, HasSupport) and not has_capability(mechanism, HasMassBall):
        cells = _cells_of_support(mechanism, d1, d0, seconds)
    else:
        seen = sample_and_check_balls(mechanism, d1, d0)
        if seen.shape[1] > 1:
            return None
        cells = line(mechanism, d1, d0, seen[:, 0], seconds)
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
        Cell(a.exp(), b.exp(), _log_ratio_span(a, b), box)
        for a, b, box in zip(first, second, boxes, strict=True)
    ]
    _require_floats_in_balls(mechanism, rows[:_SAMPLE_RUNS], first[:_SAMPLE_RUNS], d1)
    _require_floats_in_balls(mechanism, rows[:_SAMPLE_RUNS], second[:_SAMPLE_RUNS], d0)
    if has_capability(mechanism, HasTailBall):
        outside = [mechanism.tail_ball(None, d) for d in (d1, d0)]
    else:
        outside = [_missing_mass(sum((getattr(c, side) for c in leaves), arb(0))) for side in "pq"]
    if not all(mass.is_exact() and mass == 0 for mass in outside):
        leaves.append(Cell(outside[0], outside[1], (-math.inf, math.inf)))
    return Cells([cell for cell in leaves if not _has_no_mass(cell)], None, seconds)


def cells_of_draw(p: list[Ball], q: list[Ball], seconds: float) -> Cells:
    """Return the cells of one draw, from its log-probabilities; balls are equal numbers only if
    they are the same object.
    """
    spans = [(0.0, 0.0) if a is b else _log_ratio_span(a, b) for a, b in zip(p, q, strict=True)]
    return Cells(
        [Cell(a.exp(), b.exp(), loss) for a, b, loss in zip(p, q, spans, strict=True)],
        None,
        seconds,
    )


def _missing_mass(total: Ball) -> Ball:
    """Enclose the mass missing to 1, at least 0."""
    rest = 1 - total
    return arb(0).union(rest.upper()) if rest.upper() > 0 else arb(0)


def sample_and_check_balls(
    mechanism: Any, d1: Any, d0: Any, runs: int = _SAMPLE_RUNS
) -> FloatArray:
    """Return sampled outputs of both sides. Raise BadOracle if a float log-density there lies
    outside its ball.
    """
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0xBA11,)))
    seen = [
        np.asarray(mechanism.sample(d, runs, rng), dtype=float).reshape(runs, -1) for d in (d1, d0)
    ]
    for d, rows in zip((d1, d0), seen, strict=True):
        _require_floats_in_balls(
            mechanism,
            rows,
            mechanism.log_density_ball([[(x, x) for x in row] for row in rows.tolist()], d),
            d,
        )
    return np.concatenate(seen)


def line(mechanism: Any, d1: Any, d0: Any, seen: FloatArray, seconds: float) -> Cells:
    """Return cells on the line: intervals (low, high], and points that have positive mass."""
    atoms = _method_values(mechanism, "atoms", d1, d0)
    cuts = np.unique(
        np.concatenate(
            [
                atoms,
                _method_values(mechanism, "breakpoints", d1, d0),
                np.quantile(seen, [0.1, 0.5, 0.9]),
            ]
        )
    ).tolist()
    middle = float(np.median(seen))
    spread = float(np.quantile(seen, 0.9) - np.quantile(seen, 0.1)) or 1.0
    exact = has_capability(mechanism, HasMassBall)

    def make(spans: list[Span]) -> list[Cell]:
        boxes: list[Box] = [[s] for s in spans]
        p, q = (
            mechanism.mass_ball(boxes, d) if exact else masses_from_density(mechanism, boxes, d)
            for d in (d1, d0)
        )
        losses = loss_spans(mechanism, boxes, d1, d0)
        found = [
            Cell(a, b, loss, box, not exact)
            for a, b, loss, box in zip(p, q, losses, boxes, strict=True)
        ]
        return [cell for cell in found if not _has_no_mass(cell)]

    def split(cell: Cell) -> list[Cell]:
        low, high = cell.box[0]
        if not low < high:
            return []
        if math.isinf(low) or math.isinf(high):
            near = high if math.isinf(low) else low
            step = max(spread, 2 * abs(near - middle)) if math.isfinite(near) else 0.0
            cut = middle if math.isinf(near) else near + (step if math.isinf(high) else -step)
        else:
            cut = low + (high - low) / 2
        return make([(low, cut), (cut, high)]) if low < cut < high and math.isfinite(cut) else []

    edges = [-math.inf, *cuts, math.inf]
    spans = [(a, b) for a, b in itertools.pairwise(edges)] + [(a, a) for a in atoms.tolist()]
    return Cells(make(spans), split, seconds)


def masses_from_density(mechanism: Any, boxes: list[Box], dataset: Any) -> list[Ball]:
    """Enclose each box's mass as density times volume, or by the tail mass outside of it if the box
    is unbounded.
    """
    finite = [i for i, box in enumerate(boxes) if all(math.isfinite(x) for s in box for x in s)]
    out = [arb(0).union(arb(1))] * len(boxes)
    for i, log in zip(
        finite, mechanism.log_density_ball([boxes[i] for i in finite], dataset), strict=True
    ):
        volume = math.prod((arb(high) - arb(low) for low, high in boxes[i]), start=arb(1))
        mass = log.exp() * volume
        out[i] = mass if mass.is_finite() else out[i]
    if has_capability(mechanism, HasTailBall):
        for i in set(range(len(boxes))) - set(finite):
            outside = [
                (high, math.inf) if math.isinf(low) else (-math.inf, low) for low, high in boxes[i]
            ]
            out[i] = mechanism.tail_ball(outside, dataset)
    return out


def loss_spans(mechanism: Any, boxes: list[Box], d1: Any, d0: Any) -> list[Span]:
    """Enclose the loss over each box: by the mechanism's own method, or as a difference of
    log-densities.
    """
    if has_capability(mechanism, HasLossBall):
        return list(mechanism.loss_ball(boxes, d1, d0))
    finite = [i for i, box in enumerate(boxes) if all(math.isfinite(x) for s in box for x in s)]
    out: list[Span] = [(-math.inf, math.inf)] * len(boxes)
    some = [boxes[i] for i in finite]
    for i, a, b in zip(
        finite,
        mechanism.log_density_ball(some, d1),
        mechanism.log_density_ball(some, d0),
        strict=True,
    ):
        out[i] = _log_ratio_span(a, b)
    return out


def _log_ratio_span(first: Ball, second: Ball) -> Span:
    """Return the span of a difference of log-densities, either of which may be minus infinity."""
    if first.is_finite() and second.is_finite():
        return endpoints(first - second)
    if first.is_finite() and not second.is_nan() and second < 0:
        return math.inf, math.inf
    if second.is_finite() and not first.is_nan() and first < 0:
        return -math.inf, -math.inf
    return -math.inf, math.inf


def _has_no_mass(cell: Cell) -> bool:
    """Return whether both masses of a cell are exactly 0."""
    return all(mass.is_exact() and mass == 0 for mass in (cell.p, cell.q))


def _method_values(mechanism: Any, method: str, d1: Any, d0: Any) -> FloatArray:
    """Return the sorted values that the mechanism's `method` returns for both datasets; empty
    without this method.
    """
    if not hasattr(mechanism, method):
        return np.empty(0)
    return np.unique(
        np.concatenate([np.ravel(getattr(mechanism, method)(d)) for d in (d1, d0)]).astype(float)
    )


def _require_floats_in_balls(
    mechanism: Any, rows: FloatArray, balls: list[Ball], dataset: Any
) -> None:
    """Raise BadOracle if a ball excludes the mechanism's own float log-density."""
    floats = log_density_at(mechanism, rows, dataset)
    for row, value, ball in zip(rows.tolist(), floats.tolist(), balls, strict=True):
        low, high = span(ball)
        slack = _TOLERANCE * (1 + abs(value)) if math.isfinite(value) else 0.0
        if not low - slack <= value <= high + slack:
            raise BadOracle(
                f"log_density gives {value!r} at {row}, outside of its own ball [{low!r}, {high!r}]"
            )
