"""The largest privacy loss of a perturbed minimiser in the plane, by branch and bound over all of it.

A square around the origin is bisected in boxes, the rest of the plane in arcs with the inverse of the distance as second coordinate: it is
compact, and the loss has bounds up to infinity. From below, the loss over a tiny box around the middle of a cell.
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
from flint import ctx

from dpwitness.auditors.proved.axis import SupremumOnly
from dpwitness.auditors.proved.space import check_balls
from dpwitness.mechanisms.balls.ball import Span
from dpwitness.mechanisms.balls.plane import PlaneLoss
from dpwitness.mechanisms.terms.powers import log_density_at

_CELLS = 30_000
_BITS = 64  # of precision: widths of cells are what counts
_TINY = 1e-12  # relative: half the side of a box that stands for its middle


@dataclass(slots=True, eq=False)
class PlaneSearch:
    """One order of a pair.

    Parameters
    ----------
    loss : PlaneLoss
        Spans of the loss.
    reach : float
        Half the side of the square, and the radius from which arcs take over.
    seconds : float
        Time limit of the search.
    """

    loss: PlaneLoss
    reach: float
    seconds: float = 10.0
    hints: Sequence[Span] = ()
    known: Span | None = None

    def supremum(self, relative: float = 5e-4) -> Span:
        """Largest loss, to this relative width if cells and time allow."""
        if self.known is None:
            with ctx.workprec(_BITS):
                self.known = self._search(relative)
        return self.known

    def _search(self, relative: float) -> Span:
        """Best first; points that are known for a large loss come before all cells."""
        started, count = time.monotonic(), itertools.count()
        r = self.reach
        cells: list[tuple[bool, Span, Span]] = [(True, (-r, r), (-r, r))]
        cells += [(False, (k * math.pi / 4, (k + 1.0001) * math.pi / 4), (0.0, 1.0)) for k in range(8)]
        heap = [(-self._over(cell)[1], next(count), cell) for cell in cells]
        heapq.heapify(heap)
        best = max((self._near(x, y) for x, y in self.hints), default=-math.inf)
        while next(count) < 2 * _CELLS and time.monotonic() - started < self.seconds:
            if -heap[0][0] <= best + relative * abs(best):
                break
            _, _, (inner, first, second) = heapq.heappop(heap)
            best = max(best, self._at(inner, first, second))
            long = first[1] - first[0] >= (second[1] - second[0]) * (1.0 if inner else 2.0)
            a, b = first if long else second
            cut = a / 2 + b / 2
            for half in ((a, cut), (cut, b)):
                cell = (inner, half, second) if long else (inner, first, half)
                upper = self._over(cell)[1]
                if upper > best:
                    heapq.heappush(heap, (-upper, next(count), cell))
            if not heap:
                return best, best
        return best, max(best, -heap[0][0])

    def _over(self, cell: tuple[bool, Span, Span]) -> Span:
        inner, first, second = cell
        return self.loss.over((first, second)) if inner else self.loss.beyond(self.reach, first, second)

    def _at(self, inner: bool, first: Span, second: Span) -> float:
        """Least loss over a tiny box in the middle."""
        x, y = first[0] / 2 + first[1] / 2, second[0] / 2 + second[1] / 2
        if not inner:
            # as far out as the arc is thin: where a record's prediction stays bounded while w leaves in a direction across it
            length = min(self.reach / max(y, 1e-6), max(self.reach, 0.05 / (first[1] - first[0])))
            x, y = length * math.cos(x), length * math.sin(x)
        return self._near(x, y)

    def _near(self, x: float, y: float) -> float:
        half = _TINY * max(abs(x), abs(y), 1e-3)
        return self.loss.over(((x - half, x + half), (y - half, y + half)))[0]


def in_plane(mechanism: Any, d1: Any, d0: Any, found: tuple[PlaneLoss, float], seconds: float) -> tuple[SupremumOnly, SupremumOnly]:
    """Both orders of the pair, half of the time for each. Outputs of some runs, moved in and out, hint at where the loss is large."""
    loss, reach = found
    seen = check_balls(mechanism, d1, d0)
    points = np.concatenate([seen * scale for scale in (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 1e3, 1e6)])
    values = log_density_at(mechanism, points, d1) - log_density_at(mechanism, points, d0)
    sides = []
    for side, gain in ((loss, values), (loss.turned(), -values)):
        hints = points[np.argsort(gain)[-3:]].tolist()
        sides.append(SupremumOnly(PlaneSearch(side, reach, seconds / 2, [(x, y) for x, y in hints])))
    return sides[0], sides[1]
