"""Proved bounds of `certify`: ball arithmetic encloses the privacy profile and the claim's
parameter over all outputs.

A mechanism supports proofs by its method `log_density_ball` (see `core/protocols/mechanism.py`).
A proof is about the law that the mechanism states. Whether its sampler follows this law is tested
by runs, not proved.

**Shifts of known noise** in closed form, in balls. The noise is Laplace, normal, or has density
exp(-|b|) in the plane and in space.

*Normal.* The loss is normal: delta(epsilon) = Q(epsilon/mu - mu/2) - e^epsilon Q(epsilon/mu +
mu/2), D_a = a mu^2 / 2 (Balle and Wang 2018; Mironov 2017), and the pair is mu-GDP by definition.

*Density proportional to exp(-|b|), d = 1, 2, 3.* The loss at y is |y - c'| - |y - c|. Its level
sets are hyperbolas with foci c, c' at a distance s = 2 f. Use elliptic coordinates |y - c| + |y -
c'| = 2 f cosh m and |y - c'| - |y - c| = s t, t in [-1, 1]. Their volume element is f^2 (cosh^2 m
- t^2) dm dt / sqrt(1 - t^2) in each of two half planes (d = 2). So the density of t is one
integral in m.

**Perturbed minimizers**, with records on one axis in any dimension, or any records in the plane.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from flint import acb, arb, ctx

from dpwitness.auditors.density.proved.cells import Cells, Side
from dpwitness.auditors.density.proved.space import (
    cells_of,
    cells_of_draw,
    line,
    product_cells,
    sample_and_check_balls,
)
from dpwitness.core.balls.ball import PRECISION, Ball, Box, EnclosureUnavailable, Span, endpoints
from dpwitness.core.balls.law import Shift
from dpwitness.core.balls.plane import PlaneLoss
from dpwitness.core.balls.profiles import Gaussian, Laplace
from dpwitness.core.balls.risk import RiskLaw
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.capabilities import (
    HasAxisBall,
    HasDensityBall,
    HasDrawsBall,
    HasFactors,
    HasPlaneBall,
    HasShiftBall,
    has_capability,
    log_density_at,
)
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_codec import same_value


@dataclass(frozen=True, slots=True)
class ShiftDivergences(Side):
    """Divergences of a shift in known noise, in closed form. Both orders of the pair
    are equivalent.
    """

    shift: Shift

    @property
    def profile(self) -> Gaussian | Laplace | None:
        """Return the profile of normal or Laplace noise; None for other noise."""
        if self.shift.law == "normal":
            return Gaussian(self.shift.size)
        return Laplace(self.shift.size) if self.shift.law == "Laplace" else None

    @property
    def mu(self) -> Span | None:
        """Enclose the GDP parameter of a normal shift; None for other noise."""
        return endpoints(self.shift.size) if self.shift.law == "normal" else None

    def hockey_stick(self, epsilon: float, relative: float = 1e-7, absolute: float = 0.0) -> Span:
        """Enclose the hockey-stick divergence delta(epsilon)."""
        return endpoints(self._delta(arb(epsilon)))

    def supremum(self) -> Span:
        """Enclose the largest loss."""
        if self.shift.size.is_exact() and self.shift.size == 0:
            return 0.0, 0.0
        # if the noise density is unbounded at 0, so is the loss: near the center of one law the
        # other density is bounded
        positive_shift = self.shift.size > 0
        return (
            (math.inf if positive_shift else 0.0, math.inf)
            if self.shift.law in ("normal", "radius")
            else endpoints(self.shift.size)
        )

    def epsilon(self, delta: float, relative: float = 1e-9, edge: float | None = None) -> Span:
        """Enclose the smallest epsilon with delta(epsilon) <= delta. The closed form is cheap."""
        return Side.epsilon(self, delta, relative, edge)

    def renyi(self, order: float, relative: float = 1e-7) -> Span:
        """Enclose the Renyi divergence of this order."""
        a = arb(order)
        if self.profile is not None:
            return endpoints(self.profile.renyi(a))
        if self.shift.law == "radius" or self.shift.dimension > 3:
            return 0.0, self.supremum()[1]
        return endpoints(self._expectation(lambda loss: ((a - 1) * loss).exp()).log() / (a - 1))

    def concentrated(self) -> Span:
        """Enclose the supremum of D_a / a over a > 1."""
        if self.shift.law == "normal":
            return endpoints(self.shift.size**2 / 2)
        return Side.concentrated(self)

    def _delta(self, epsilon: Ball) -> Ball:
        """Return a ball around delta(epsilon)."""
        size = self.shift.size
        if self.profile is not None:
            return self.profile.delta(epsilon)
        if self.shift.law == "radius":
            return arb(0).union(arb(1))
        if self.shift.dimension > 3:
            return arb(0).union(-((epsilon - size).min(arb(0))).expm1())
        if size <= epsilon:
            return arb(0)
        return self._expectation(lambda loss: -(epsilon - loss).expm1(), epsilon / size)

    def _expectation(self, value: Callable[[Any], Any], start: Ball | None = None) -> Ball:
        """Return a ball around E_P value(L), restricted to losses L = s t with t >= `start`.

        d = 2, t = cos v: the density of v in (0, pi) is f^2 / pi e^(f cos v) (A - cos^2 v
        K_0(f)). A is the integral over m > 0 of cosh^2 m e^(-f cosh m), which is (K_0 + K_2) / 2.

        d = 3: the density of t in (-1, 1) is f^3 / 4 e^(f t) (A - t^2 B). A is the integral over
        m > 0 of sinh m cosh^2 m e^(-f cosh m), which is e^-f (1/f + 2/f^2 + 2/f^3). B is that of
        sinh m e^(-f cosh m), which is e^-f / f.
        """
        f = self.shift.size / 2
        if self.shift.dimension == 2:
            k0, k2 = f.bessel_k(0), f.bessel_k(2)
            a, b, factor = (k0 + k2) / 2, k0, f * f / arb.pi()
            top = arb.pi() if start is None else start.acos()

            def planar(v: Any, _: bool) -> Any:
                t = v.cos()
                return value(2 * f * t) * (f * t).exp() * (a - t * t * b)

            return (acb.integral(planar, acb(0), acb(top)) * factor).real
        decay = (-f).exp()
        a, b, factor = decay * (1 / f + 2 / f**2 + 2 / f**3), decay / f, f**3 / 4

        def solid(t: Any, _: bool) -> Any:
            return value(2 * f * t) * (f * t).exp() * (a - t * t * b)

        return (acb.integral(solid, acb(-1 if start is None else start), acb(1)) * factor).real


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
        return cast(Span, self.cells.supremum())

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
            with ctx.workprec(64):  # the width of the cells limits the accuracy
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
        half = 1e-12 * max(abs(x), abs(y), 1e-3)
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


_MOST_PARTS = 2048  # largest number of independent parts that are composed


@dataclass(frozen=True, slots=True, eq=False)
class ProvedBounds:
    """Proved bounds for one pair, the larger of its two orders: 0 or infinity where nothing could
    be proved.
    """

    route: str  # how the bounds were proved, for the headline
    parameter_lower: float
    parameter_upper: float
    epsilon_lower: float  # at the claim's delta, or at delta = 0 for notions without one
    epsilon_upper: float
    epsilons: FloatArray
    delta_lower: FloatArray
    delta_upper: FloatArray

    @property
    def tight(self) -> bool:
        """Return whether the two bounds agree so well that other routes add no information."""
        return self.parameter_upper <= self.parameter_lower * (1 + 1e-2)


def proved_bounds(
    mechanism: Any, pair: Pair, claim: Claim, seconds: float = 20.0
) -> ProvedBounds | None:
    """Enclose the claim's parameter and the privacy profile of a pair, in balls, over all outputs.

    Returns None if the mechanism or the claim offers no enclosure. Raises BadOracle if the balls
    contradict each other, or the mechanism's own float log-density.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace, PureDP
    >>> laplace = Laplace(0.5)
    >>> found = proved_bounds(laplace, laplace.worst_pair(), PureDP(0.5))
    >>> found.epsilon_lower <= 0.5 <= found.epsilon_upper < 0.5000001
    True
    """
    with ctx.workprec(PRECISION):
        try:
            found = _cover_outputs(mechanism, pair.d1, pair.d0, seconds)
            return None if found is None else _bounds_of(*found, claim)
        except EnclosureUnavailable:
            return None


def _bounds_of(sides: Sequence[Side], method: str, claim: Claim) -> ProvedBounds | None:
    """Return the bounds over both orders of the pair, or None if the claim has no enclosure."""
    spans = [claim.enclosed(side) for side in sides]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    parameter = _maximum(known)
    epsilon = parameter if claim.bounds_epsilon else _maximum([side.epsilon(0.0) for side in sides])
    top = max(
        1.5 * claim.at_delta.parameter, 1.2 * (epsilon[1] if math.isfinite(epsilon[1]) else 0.0)
    )
    epsilons = np.linspace(0.0, min(top, 600.0), 25)
    profile = np.array(
        [_maximum([side.hockey_stick(e, 1e-6, 1e-14) for side in sides]) for e in epsilons.tolist()]
    )
    lower, upper = np.clip(profile[:, 0], 0.0, 1.0), np.clip(profile[:, 1], 0.0, 1.0)
    return ProvedBounds(method, *parameter, *epsilon, epsilons, lower, upper)


def _cover_outputs(
    mechanism: Any, d1: Any, d0: Any, seconds: float
) -> tuple[Sequence[Side], str] | None:
    """Return both orders of the pair, and a description of how the outputs are covered; None if
    nothing applies.
    """
    if has_capability(mechanism, HasShiftBall):
        shift = mechanism.shift_ball(d1, d0)
        if shift is not None:
            sample_and_check_balls(mechanism, d1, d0)
            if shift.law == "radius":
                return (
                    ShiftDivergences(shift),
                ), "a density unbounded at the minimum, which moves, in balls"
            return (
                ShiftDivergences(shift),
            ), f"closed form of a shift in {shift.law} noise, in balls"
    if has_capability(mechanism, HasDrawsBall):
        sample_and_check_balls(mechanism, d1, d0)
        drawn = [
            cells
            for p, q, times in mechanism.draws_ball(d1, d0)
            for cells in [cells_of_draw(p, q, seconds)] * times
        ]
        drawn = [cells for cells in drawn if cells.supremum() != (0.0, 0.0)] or drawn[:1]
        if len(drawn) <= _MOST_PARTS:
            whole = product_cells(drawn)
            return (whole, whole.turned()), f"{len(drawn)} independent draws composed in balls"
    if has_capability(mechanism, HasFactors):
        parts = mechanism.factors(d0, d1)
        differing = [(part, b, a) for part, a, b in parts if not same_value(a, b)]
        if len(differing) == 1:
            part, b, a = differing[0]
            found = _cover_outputs(part, b, a, seconds)
            return (
                None
                if found is None
                else (
                    found[0],
                    f"{found[1]}; only one independent part differs between the datasets",
                )
            )
        if 1 < len(differing) <= _MOST_PARTS and all(
            has_capability(part, HasDensityBall) for part, _, _ in differing
        ):
            each: list[Cells | None] = []
            for k, (part, b, a) in enumerate(differing):
                twins = (
                    i
                    for i, (other, y, x) in enumerate(differing[:k])
                    if other == part and same_value(y, b) and same_value(x, a)
                )
                twin = next(twins, None)
                each.append(cells_of(part, b, a, seconds) if twin is None else each[twin])
            parts_of = [cells for cells in each if cells is not None]
            if len(parts_of) == len(differing):
                whole = product_cells(parts_of)
                return (
                    whole,
                    whole.turned(),
                ), f"{len(parts_of)} independent parts composed in balls"
    if has_capability(mechanism, HasAxisBall):
        axial = mechanism.axis_ball(d1, d0)
        if axial is not None:
            return cells_on_axis(
                mechanism, d1, d0, axial, seconds
            ), "cells along the one axis on which all records lie, bisected in balls"
    if has_capability(mechanism, HasPlaneBall):
        planar = mechanism.plane_ball(d1, d0)
        if planar is not None:
            return search_plane(
                mechanism, d1, d0, planar, seconds / 2
            ), "branch and bound over the plane of outputs, in balls"
    cells = cells_of(mechanism, d1, d0, seconds)
    if cells is None:
        return None
    points = sum(len(cell.box) == 1 and cell.box[0][0] == cell.box[0][1] for cell in cells.leaves)
    where = f"cells of the outputs{f' and {points} atoms' if points else ''}, bisected in balls"
    return (cells, cells.turned()), "enumeration in balls" if cells.split is None else where


def _maximum(spans: list[Span]) -> Span:
    """Enclose the maximum of several numbers, given a span for each."""
    return max(low for low, _ in spans), max(high for _, high in spans)
