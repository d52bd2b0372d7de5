"""Proved bounds for perturbed minimizers whose records all lie on one axis e, in the plane and
beyond.

*Normal noise.* The coordinates of w orthogonal to e are normal, and independent of the coordinate
along e and of the data. The loss is that of the law along e.

*Density exp(-rate |b|).* Let t be the length of the part of b orthogonal to e, which is the same
on both sides. The loss is rate (sqrt(b'^2 + t^2) - sqrt(b^2 + t^2)) + log F''/F''', where b and
b' are the parts along e. Both depend on w along e only. The difference of roots keeps its sign,
and its size falls to 0 as t grows. So the supremum over t is the larger of the value at t = 0 and
the limit, in which the difference is 0: one search along e.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from flint import arb

from dpwitness.auditors.density.proved.cells import Cells
from dpwitness.auditors.density.proved.space import line, sample_and_check_balls
from dpwitness.core.balls.ball import Ball, Box, Span, endpoints
from dpwitness.core.balls.risk import RiskLaw


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


class HasSupremum(Protocol):
    """Object that encloses a largest privacy loss."""

    def supremum(self) -> Span: ...


@dataclass(frozen=True, slots=True)
class LargestLossBounds:
    """One order of a pair of which only the largest loss L is enclosed. Other divergences are
    bounded from above by L.
    """

    cells: HasSupremum

    mu: ClassVar[Span | None] = None  # the GDP parameter has no enclosure

    def supremum(self) -> Span:
        """Enclose the largest privacy loss."""
        return self.cells.supremum()

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
) -> tuple[Cells | LargestLossBounds, ...]:
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
