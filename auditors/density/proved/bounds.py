"""Proved bounds of `certify`: ball arithmetic encloses the privacy profile and the claim's
parameter over all outputs.

A mechanism supports proofs by its method `log_density_ball` (see `core/protocols.py`).
A proof is about the law that the mechanism states. Whether its sampler follows this law is tested
by runs, not proved.

**Shifts of known noise** have closed forms (`core/balls/profiles.py`).

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

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, ctx

from dpwitness.auditors.density.composition import content_key, declared_points, differing_factors
from dpwitness.auditors.density.proved.cells import Cell, Cells, EnclosedOrder
from dpwitness.auditors.density.proved.space import (
    cells_of,
    cells_of_draw,
    line,
    product_cells,
    sample_and_check_balls,
)
from dpwitness.auditors.density.result import End, RouteBounds
from dpwitness.core.balls.ball import PRECISION, EnclosureUnavailable, Span, endpoints
from dpwitness.core.balls.plane import PlaneLoss
from dpwitness.core.balls.profiles import GaussianProfile, ShiftProfile, Singular
from dpwitness.core.balls.risk import RiskLaw
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import log_density_at

# orders of a pair, one if both are equivalent, and how its outputs are covered
Cover = tuple[Sequence[EnclosedOrder], str]


@dataclass(frozen=True, slots=True)
class ClosedForm(EnclosedOrder):
    """Divergences of a shift of known noise. Both orders of the pair are equivalent."""

    profile: ShiftProfile

    @property
    def mu(self) -> Span | None:
        """Enclose the GDP parameter of a normal shift; None for other noise."""
        return endpoints(self.profile.mu) if isinstance(self.profile, GaussianProfile) else None

    def hockey_stick(self, epsilon: float, relative: float = 1e-7, absolute: float = 0.0) -> Span:
        """Enclose the hockey-stick divergence delta(epsilon)."""
        return endpoints(self.profile.delta(arb(epsilon)))

    def supremum(self) -> Span:
        """Enclose the largest loss."""
        low, high = endpoints(self.profile.supremum)
        return max(0.0, low), high

    def renyi(self, order: float, relative: float = 1e-7) -> Span:
        """Enclose the Renyi divergence of this order."""
        low, high = endpoints(self.profile.renyi(arb(order)))
        return max(0.0, low), high

    def concentrated(self) -> Span:
        """Enclose the supremum of D_a / a over a > 1."""
        if isinstance(self.profile, GaussianProfile):
            return endpoints(self.profile.mu**2 / 2)
        return EnclosedOrder.concentrated(self)


@dataclass(frozen=True, slots=True)
class LargestLossBounds(EnclosedOrder):
    """One ordered pair (P, Q) of output laws, of which only the largest loss L is enclosed. Other
    divergences are bounded from above by L.
    """

    cells: Cells
    relative: float = 3e-9  # width of the enclosure of the largest loss

    def supremum(self) -> Span:
        """Enclose the largest privacy loss."""
        return self.cells.supremum(self.relative)

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


def _cells_on_axis(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cover | None:
    """Cover the outputs of a pair whose records lie on one axis.

    For normal noise the loss is that of the coordinate along the axis. For other noise, the largest
    loss over all other coordinates is either its value at t = 0 or its limit as t grows.
    """
    axial = mechanism.axis_ball(d1, d0) if hasattr(mechanism, "axis_ball") else None
    if axial is None:
        return None
    first, second, axis, kind = axial
    seen = sample_and_check_balls(mechanism, d1, d0)[:, axis]
    cuts = declared_points(mechanism, "breakpoints", d0, d1)

    def cells(law: RiskLaw, other: RiskLaw) -> Cells:
        """Return the cells of one order of the pair."""

        def losses(spans: list[Span]) -> list[Span]:
            found = [law.loss(*span, other) for span in spans]
            if kind == "gaussian":
                return found
            limits = [law.loss_parts(*span, other)[1] for span in spans]
            return [_maximum(list(pair)) for pair in zip(found, limits, strict=True)]

        masses = [lambda spans, side=side: [side.mass(*s) for s in spans] for side in (law, other)]
        return line(masses, losses, np.empty(0), cuts, seen, seconds)

    method = "cells along the one axis on which all records lie, bisected in balls"
    along = cells(first, second)
    if kind == "gaussian":
        return (along, along.turned()), method
    return (LargestLossBounds(along), LargestLossBounds(cells(second, first))), method


_CELLS = 30_000  # cells of the plane that are split at most, for each order of the pair
_WIDTH = 5e-4  # relative width of the largest loss at which the plane needs no further split
_BEYOND = (0.0, math.inf)  # marks the box of an arc


def _search_plane(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cover | None:
    """Bound the largest loss over the plane for each order of the pair, with a quarter of the time
    each. Sampled outputs, scaled in and out, are tried first.
    """
    planar = mechanism.plane_ball(d1, d0) if hasattr(mechanism, "plane_ball") else None
    if planar is None:
        return None
    loss, reach = planar
    samples = sample_and_check_balls(mechanism, d1, d0)
    points = np.concatenate(
        [samples * scale for scale in (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 1e3, 1e6)]
    )
    values = log_density_at(mechanism, points, d1) - log_density_at(mechanism, points, d0)
    sides = []
    # the time of both orders starts now
    for side, signed_losses, time in (
        (loss, values, seconds / 4),
        (loss.turned(), -values, seconds / 2),
    ):
        hints = points[np.argsort(signed_losses)[-3:]].tolist()
        sides.append(LargestLossBounds(_plane_cells(side, reach, hints, time), _WIDTH))
    return sides, "branch and bound over the plane of outputs, in balls"


def _plane_cells(loss: PlaneLoss, reach: float, hints: list[list[float]], seconds: float) -> Cells:
    """Return cells that cover the plane: a square around the origin, and arcs beyond the radius
    `reach`. The span of a cell reaches from a loss inside it to a bound on all losses inside.

    An arc has the angle as first coordinate and `reach` over the distance as second one.
    """
    count = itertools.count()

    def make(arc: bool, first: Span, second: Span, least: float = -math.inf) -> Cell:
        """Return a cell in which a loss of at least `least` is attained."""
        with ctx.workprec(64):  # the width of the cells limits the accuracy
            low, high = loss.beyond(reach, first, second) if arc else loss.over((first, second))
        box = (first, second, _BEYOND) if arc else (first, second)
        return Cell(arb(1), arb(1), (max(low, least), high), box)

    def point(x: float, y: float) -> Cell:
        """Return a tiny box around (x, y)."""
        half = 1e-12 * max(abs(x), abs(y), 1e-3)
        return make(False, (x - half, x + half), (y - half, y + half))

    def split(cell: Cell) -> list[Cell]:
        """Return the halves of a cell, across its longer side."""
        first, second, *beyond = cell.box
        arc = bool(beyond)
        if next(count) >= _CELLS:
            return []
        x, y = first[0] / 2 + first[1] / 2, second[0] / 2 + second[1] / 2
        along = first[1] - first[0] >= (second[1] - second[0]) * (2.0 if arc else 1.0)
        halves = [((first[0], x), second), ((x, first[1]), second)]
        if not along:
            halves = [(first, (second[0], y)), (first, (y, second[1]))]
        if arc:
            # stay where the arc is thin: a record's prediction stays bounded while w moves out
            # orthogonally to the record
            length = min(reach / max(y, 1e-6), max(reach, 0.05 / (first[1] - first[0])))
            x, y = length * math.cos(x), length * math.sin(x)
        middle = point(x, y).loss[0]
        return [make(arc, *half, middle) for half in halves]

    leaves = [
        make(False, (-reach, reach), (-reach, reach)),
        *(point(x, y) for x, y in hints),
        *(make(True, (k * math.pi / 4, (k + 1.0001) * math.pi / 4), (0.0, 1.0)) for k in range(8)),
    ]
    return Cells(leaves, split, seconds, infinite_splits=_CELLS)


_MOST_PARTS = 2048  # largest number of independent parts that are composed


def proved_bounds(
    mechanism: Any, pair: Pair, claim: Claim, seconds: float = 20.0
) -> RouteBounds | None:
    """Enclose the claim's parameter and the privacy profile of a pair, in balls, over all outputs.

    Returns None if the mechanism or the claim offers no enclosure. Raises BadOracle if the balls
    contradict each other, or the mechanism's own float log-density.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace, PureDP
    >>> laplace = Laplace(0.5)
    >>> found = proved_bounds(laplace, laplace.worst_pair(), PureDP(0.5))
    >>> found.lowers[0].epsilon <= 0.5 <= found.uppers[0].epsilon < 0.5000001
    True
    """
    with ctx.workprec(PRECISION):
        try:
            found = _cover_outputs(mechanism, pair.d1, pair.d0, seconds)
            return None if found is None else _bounds_of(*found, claim)
        except EnclosureUnavailable:
            return None


def _bounds_of(sides: Sequence[EnclosedOrder], method: str, claim: Claim) -> RouteBounds | None:
    """Return the bounds over both orders of the pair, or None if the claim has no enclosure."""
    known = [span for span in map(claim.enclosed, sides) if span is not None]
    if len(known) < len(sides):
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
    low, high = (End(p, "proved", e) for p, e in zip(parameter, epsilon, strict=True))
    return RouteBounds(method, (low,), (high,), epsilons, lower, upper)


def _cover_outputs(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cover | None:
    """Cover the outputs by the first method that applies; None if there is none."""
    for cover in (
        _closed_form,
        _compose_draws,
        _compose_parts,
        _cells_on_axis,
        _search_plane,
        _bisect_outputs,
    ):
        found = cover(mechanism, d1, d0, seconds)
        if found is not None:
            return found
    return None


def _closed_form(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cover | None:
    """Cover the outputs by the closed form of a shift of known noise."""
    shift = mechanism.shift_ball(d1, d0) if hasattr(mechanism, "shift_ball") else None
    if shift is None:
        return None
    sample_and_check_balls(mechanism, d1, d0)
    method = f"closed form of a shift in {shift.noise} noise, in balls"
    if isinstance(shift, Singular):
        method = "a density unbounded at the minimum, which moves, in balls"
    return (ClosedForm(shift),), method


def _compose_draws(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cover | None:
    """Compose all independent draws of the mechanism; None if too many differ."""
    if not hasattr(mechanism, "draws_ball"):
        return None
    sample_and_check_balls(mechanism, d1, d0)
    drawn = [
        cells
        for p, q, times in mechanism.draws_ball(d1, d0)
        for cells in [cells_of_draw(p, q, seconds)] * times
    ]
    drawn = [cells for cells in drawn if cells.supremum() != (0.0, 0.0)] or drawn[:1]
    return _composed(drawn, "draws")


def _compose_parts(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cover | None:
    """Compose the independent parts that differ between the datasets, each with its inputs; None if
    there are too many, or a part has no cells.
    """
    differing = [(part, b, a) for part, a, b in differing_factors(mechanism, d0, d1)]
    if len(differing) == 1:
        found = _cover_outputs(*differing[0], seconds)
        one = "; only one independent part differs between the datasets"
        return None if found is None else (found[0], found[1] + one)
    if not 1 < len(differing) <= _MOST_PARTS:
        return None
    keys = [content_key(*twin) or k for k, twin in enumerate(differing)]
    distinct = dict(zip(keys, differing, strict=True))
    known = {key: cells_of(*twin, seconds) for key, twin in distinct.items()}
    cells = [part for part in map(known.get, keys) if part is not None]
    return _composed(cells, "parts") if len(cells) == len(keys) else None


def _composed(cells: list[Cells], what: str) -> Cover | None:
    """Return both orders of the composition of independent outputs; None if they are too many."""
    if len(cells) > _MOST_PARTS:
        return None
    whole = product_cells(cells)
    return (whole, whole.turned()), f"{len(cells)} independent {what} composed in balls"


def _bisect_outputs(mechanism: Any, d1: Any, d0: Any, seconds: float) -> Cover | None:
    """Cover the outputs by their list, or by cells of the line."""
    cells = cells_of(mechanism, d1, d0, seconds)
    if cells is None:
        return None
    points = sum(len(cell.box) == 1 and cell.box[0][0] == cell.box[0][1] for cell in cells.leaves)
    method = f"cells of the outputs{f' and {points} atoms' if points else ''}, bisected in balls"
    if cells.split is None:
        method = "enumeration in balls"
    return (cells, cells.turned()), method


def _maximum(spans: list[Span]) -> Span:
    """Enclose the maximum of several numbers, given a span for each."""
    return max(low for low, _ in spans), max(high for _, high in spans)
