"""Proved bounds for perturbed minimizers: records on one axis in any dimension, or any records in
the plane.

**Records on one axis e.** *Normal noise.* The coordinates of w orthogonal to e are normal, and
independent of the coordinate along e and of the data. The loss is that of the law along e.

*Density exp(-rate |b|).* Let t be the length of the part of b orthogonal to e, which is the same
on both sides. The loss is rate (sqrt(b'^2 + t^2) - sqrt(b^2 + t^2)) + log F''/F''', where b and
b' are the parts along e. Both depend on w along e only. The difference of roots keeps its sign,
and its size falls to 0 as t grows. So the supremum over t is the larger of the value at t = 0 and
the limit, in which the difference is 0: one search along e.

**The plane.** Branch and bound over all outputs encloses the largest privacy loss. A square around
the origin is bisected into boxes. The rest of the plane is bisected into arcs, whose second
coordinate is the inverse of the distance. This makes the rest compact, and the loss has bounds up
to infinity. Lower bounds come from the loss over a tiny box around the middle of a cell.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, ctx

from dpwitness.auditors.density.proved.cells import Side
from dpwitness.auditors.density.proved.space import line, sample_and_check_balls
from dpwitness.core.balls.ball import Ball, Box, Span, endpoints
from dpwitness.core.balls.plane import PlaneLoss
from dpwitness.core.balls.risk import RiskLaw
from dpwitness.core.protocols.capabilities import log_density_at


class _LinePair:
    """Two laws on the line in the form of a mechanism. The laws take the place of datasets."""

    def __init__(self, cuts: Any) -> None:
        self._cuts = cuts

    def breakpoints(self, law: RiskLaw) -> Any:
        """Return the points at which the line is cut."""
        return self._cuts

    def mass_ball(self, boxes: list[Box], law: RiskLaw) -> list[Ball]:
        """Enclose the mass of each interval."""
        return [law.mass(*box[0]) for box in boxes]

    def loss_ball(self, boxes: list[Box], first: RiskLaw, second: RiskLaw) -> list[Span]:
        """Enclose the privacy loss over each interval."""
        return [first.loss(*box[0], second) for box in boxes]


class _LinePairLargestLoss(_LinePair):
    """Two laws on the line, where the loss of a coordinate along the axis is the largest over all
    other coordinates.
    """

    def loss_ball(self, boxes: list[Box], first: RiskLaw, second: RiskLaw) -> list[Span]:
        """Enclose the largest loss over each interval of the coordinate along the axis."""
        found = []
        for box in boxes:
            low, high = first.loss(*box[0], second)  # value at t = 0
            least, most = first.loss_parts(*box[0], second)[1]  # limit as t grows
            found.append((max(low, least), max(high, most)))
        return found


@dataclass(frozen=True, slots=True)
class LargestLossBounds(Side):
    """One order of a pair of which only the largest loss L is enclosed. Other divergences are
    bounded from above by L.
    """

    cells: Any  # encloses a largest loss by `supremum`

    def supremum(self) -> Span:
        """Enclose the largest privacy loss."""
        found: Span = self.cells.supremum()
        return found

    def epsilon(self, delta: float, relative: float = 0.0, edge: float | None = None) -> Span:
        """Enclose epsilon at `delta`: pure DP implies approximate DP, so epsilon is at most the
        largest loss.
        """
        low, high = self.supremum()
        return (max(0.0, low), max(0.0, high)) if delta <= 0 else (0.0, max(0.0, high))

    def hockey_stick(self, epsilon: float, relative: float = 0.0, absolute: float = 0.0) -> Span:
        """Enclose the hockey-stick divergence at `epsilon`, at most 1 - e^(epsilon - sup L)."""
        high = self.supremum()[1]
        return 0.0, endpoints(-(arb(epsilon) - high).expm1())[1] if high > epsilon else 0.0

    def renyi(self, order: float, relative: float = 0.0) -> Span:
        """Enclose the Renyi divergence, at most sup L."""
        return 0.0, max(0.0, self.supremum()[1])

    def concentrated(self) -> Span:
        """Return (0, infinity): the bound by the largest loss, (sup |L|)^2 / 2, needs both orders
        of the pair together.
        """
        return 0.0, float("inf")


def cells_on_axis(
    mechanism: Any, d1: Any, d0: Any, axial: tuple[RiskLaw, RiskLaw, int, str], seconds: float
) -> tuple[Side, ...]:
    """Return cells for both orders of a pair whose records lie on one axis."""
    first, second, axis, kind = axial
    samples = sample_and_check_balls(mechanism, d1, d0)[:, axis]
    cuts = np.unique(np.concatenate([mechanism.breakpoints(d) for d in (d1, d0)]))
    if kind == "gaussian":
        cells = line(_LinePair(cuts), first, second, samples, seconds)
        return cells, cells.turned()
    orders = [
        line(_LinePairLargestLoss(cuts), a, b, samples, seconds)
        for a, b in ((first, second), (second, first))
    ]
    return tuple(LargestLossBounds(cells) for cells in orders)


_CELLS = 30_000
_PRECISION_BITS = 64  # precision; the width of the cells limits the accuracy
_POINT_HALF_WIDTH = 1e-12  # half the side of the box around a point, relative to the point's size


@dataclass(slots=True, eq=False)
class PlaneSearch:
    """Search for the largest loss of one order of a pair."""

    loss: PlaneLoss
    reach: float  # half the side of the square, and the radius beyond which arcs are used
    seconds: float
    hints: Sequence[Span]  # points with a large loss, which are tried first
    known: Span | None = None

    def supremum(self, relative: float = 5e-4) -> Span:
        """Enclose the largest loss, to this relative width if the limits on cells and
        time allow.
        """
        if self.known is None:
            with ctx.workprec(_PRECISION_BITS):
                self.known = self._search(relative)
        return self.known

    def _search(self, relative: float) -> Span:
        """Run branch and bound, best cell first. The points in `hints` are evaluated before all
        cells.
        """
        started, count = time.monotonic(), itertools.count()
        r = self.reach
        cells: list[tuple[bool, Span, Span]] = [(True, (-r, r), (-r, r))]
        cells += [
            (False, (k * math.pi / 4, (k + 1.0001) * math.pi / 4), (0.0, 1.0)) for k in range(8)
        ]
        heap = [(-self._loss_span(cell)[1], next(count), cell) for cell in cells]
        heapq.heapify(heap)
        best = max((self._point_lower_bound(x, y) for x, y in self.hints), default=-math.inf)
        while next(count) < 2 * _CELLS and time.monotonic() - started < self.seconds:
            if -heap[0][0] <= best + relative * abs(best):
                break
            _, _, (inner, first, second) = heapq.heappop(heap)
            best = max(best, self._middle_lower_bound(inner, first, second))
            split_first = first[1] - first[0] >= (second[1] - second[0]) * (1.0 if inner else 2.0)
            a, b = first if split_first else second
            cut = a / 2 + b / 2
            for half in ((a, cut), (cut, b)):
                cell = (inner, half, second) if split_first else (inner, first, half)
                upper = self._loss_span(cell)[1]
                if upper > best:
                    heapq.heappush(heap, (-upper, next(count), cell))
            if not heap:
                return best, best
        return best, max(best, -heap[0][0])

    def _loss_span(self, cell: tuple[bool, Span, Span]) -> Span:
        """Enclose the loss over a cell."""
        inner, first, second = cell
        return (
            self.loss.over((first, second))
            if inner
            else self.loss.beyond(self.reach, first, second)
        )

    def _middle_lower_bound(self, inner: bool, first: Span, second: Span) -> float:
        """Return a lower bound on the loss over a tiny box in the middle of a cell."""
        x, y = first[0] / 2 + first[1] / 2, second[0] / 2 + second[1] / 2
        if not inner:
            # stay where the arc is thin: a record's prediction stays bounded while w moves out
            # orthogonally to the record
            length = min(self.reach / max(y, 1e-6), max(self.reach, 0.05 / (first[1] - first[0])))
            x, y = length * math.cos(x), length * math.sin(x)
        return self._point_lower_bound(x, y)

    def _point_lower_bound(self, x: float, y: float) -> float:
        """Return a lower bound on the loss over a tiny box around (x, y)."""
        half = _POINT_HALF_WIDTH * max(abs(x), abs(y), 1e-3)
        return self.loss.over(((x - half, x + half), (y - half, y + half)))[0]


def search_plane(
    mechanism: Any, d1: Any, d0: Any, found: tuple[PlaneLoss, float], seconds: float
) -> tuple[LargestLossBounds, LargestLossBounds]:
    """Return a search for each order of the pair, with half of the time each. Sampled outputs,
    scaled in and out, are the hints.
    """
    loss, reach = found
    samples = sample_and_check_balls(mechanism, d1, d0)
    points = np.concatenate(
        [samples * scale for scale in (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 1e3, 1e6)]
    )
    values = log_density_at(mechanism, points, d1) - log_density_at(mechanism, points, d0)
    sides = []
    for side, signed_losses in ((loss, values), (loss.turned(), -values)):
        hints = points[np.argsort(signed_losses)[-3:]].tolist()
        sides.append(
            LargestLossBounds(PlaneSearch(side, reach, seconds / 2, [(x, y) for x, y in hints]))
        )
    return sides[0], sides[1]
