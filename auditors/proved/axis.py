"""Perturbed minimisers in the plane and beyond whose records all lie on one axis e.

*Normal noise.* The coordinates of w across e are normal, independent of the one along it and of the data: the loss is that of the law
along e.

*Density exp(-rate |b|).* With t the length of the part of b across e, which is the same on both sides, the loss is
rate (sqrt(b'^2 + t^2) - sqrt(b^2 + t^2)) + log F''/F''', b and b' the parts along e, which depend on w along e only. The
difference of roots keeps its sign and falls to 0 in size as t grows, so that the supremum over t is the larger of its value at t = 0 and
of 0: one search along e.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from flint import arb

from dpwitness.auditors.proved.cells import Cells
from dpwitness.auditors.proved.space import check_balls, line
from dpwitness.mechanisms.balls.ball import Ball, Box, Span, ends
from dpwitness.mechanisms.balls.risk import RiskLaw


class _Laws:
    """Two laws on the line as a mechanism whose datasets they are."""

    def __init__(self, cuts: Any) -> None:
        self._cuts = cuts

    def breakpoints(self, law: RiskLaw) -> Any:
        return self._cuts

    def mass_ball(self, boxes: list[Box], law: RiskLaw) -> list[Ball]:
        return [law.mass(*box[0]) for box in boxes]

    def loss_ball(self, boxes: list[Box], first: RiskLaw, second: RiskLaw) -> list[Span]:
        return [first.loss(*box[0], second) for box in boxes]


class _Largest(_Laws):
    """The largest loss over all w with one coordinate along the axis."""

    def loss_ball(self, boxes: list[Box], first: RiskLaw, second: RiskLaw) -> list[Span]:
        found = []
        for box in boxes:
            low, high = first.loss(*box[0], second)  # at t = 0
            least, most = first.loss_parts(*box[0], second)[1]  # as t grows
            found.append((max(low, least), max(high, most)))
        return found


class Searched(Protocol):
    """What knows a supremum."""

    def supremum(self) -> Span: ...


@dataclass(frozen=True, slots=True)
class SupremumOnly:
    """A side of which the largest loss is enclosed and no more: it bounds the rest from above."""

    cells: Searched

    def supremum(self) -> Span:
        """Largest loss."""
        return self.cells.supremum()

    def epsilon(self, delta: float, relative: float = 0.0, edge: float | None = None) -> Span:
        """Pure privacy implies the approximate one."""
        low, high = self.supremum()
        return (max(0.0, low), max(0.0, high)) if delta <= 0 else (0.0, max(0.0, high))

    def hockey_stick(self, epsilon: float, relative: float = 0.0, absolute: float = 0.0) -> Span:
        """At most 1 - e^(epsilon - sup L)."""
        high = self.supremum()[1]
        return 0.0, ends(-(arb(epsilon) - high).expm1())[1] if high > epsilon else 0.0

    def renyi(self, order: float, relative: float = 0.0) -> Span:
        """At most sup L."""
        return 0.0, max(0.0, self.supremum()[1])

    def concentrated(self) -> Span:
        """At most (sup |L|)^2 / 2 (Bun and Steinke 2016, Proposition 3.3); both orders of the pair are looked at together."""
        return 0.0, float("inf")


def on_axis(mechanism: Any, d1: Any, d0: Any, axial: tuple[RiskLaw, RiskLaw, int, str], seconds: float) -> tuple[Cells | SupremumOnly, ...]:
    """Both orders of the pair."""
    first, second, axis, kind = axial
    seen = check_balls(mechanism, d1, d0)[:, axis]
    cuts = np.unique(np.concatenate([mechanism.breakpoints(d) for d in (d1, d0)]))
    if kind == "gaussian":
        cells = line(_Laws(cuts), first, second, seen, seconds)
        assert cells is not None
        return cells, cells.turned()
    sides = [line(_Largest(cuts), a, b, seen, seconds) for a, b in ((first, second), (second, first))]
    return tuple(SupremumOnly(cells) for cells in sides if cells is not None)
