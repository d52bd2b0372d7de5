"""The proved route of `certify`: ends of the privacy profile and of a notion's parameter that ball arithmetic encloses over all outputs.

A mechanism opens it by `log_density_ball` (see `mechanisms/terms/protocol.py`). A proof is of the law that the mechanism states; that its
sampler follows this law is held against runs, not proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from flint import ctx

from dpwitness.auditors.proved.axis import SupremumOnly, on_axis
from dpwitness.auditors.proved.cells import Cells
from dpwitness.auditors.proved.plane import in_plane
from dpwitness.auditors.proved.product import product_of
from dpwitness.auditors.proved.shift import Shifted
from dpwitness.auditors.proved.space import cells_of, check_balls, of_draw
from dpwitness.mechanisms.balls.ball import PRECISION, NotEnclosed, Span
from dpwitness.mechanisms.terms.jsonable import same_value
from dpwitness.mechanisms.terms.notions import GDP, RDP, ZCDP, Claim, RenyiCurve
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.powers import HasAxisBall, HasDensityBall, HasDrawsBall, HasFactors, HasPlaneBall, HasShiftBall, offers
from dpwitness.mechanisms.terms.protocol import FloatArray

Side: TypeAlias = Cells | Shifted | SupremumOnly  # both answer hockey_stick, epsilon, renyi, concentrated

_GRID = 25  # epsilons of the profile
_MOST_PARTS = 2048  # that are composed
_PROFILE = 1e-6  # relative width of the profile
_TIGHT = 1e-2  # relative distance of two ends
_AGREES = 1e-9  # relative: parameters of mechanisms are floats, calibrated by floats


@dataclass(frozen=True, slots=True, eq=False)
class ProvedEnds:
    """Proved numbers of one pair, both orders together. An end that could not be proved is 0 below and infinity above.

    Attributes
    ----------
    route : str
        For the headline: how it was proved.
    parameter_lower, parameter_upper : float
        The claim's own parameter: epsilon (at the claim's delta), mu or rho.
    epsilon_lower, epsilon_upper : float
        Epsilon at the claim's delta, at delta = 0 for the other notions.
    epsilons, delta_lower, delta_upper : array
        The privacy profile.
    notes : tuple of str
        What a person should know beside it.
    """

    route: str
    parameter_lower: float = 0.0
    parameter_upper: float = math.inf
    epsilon_lower: float = 0.0
    epsilon_upper: float = math.inf
    epsilons: FloatArray = field(default_factory=lambda: np.empty(0))
    delta_lower: FloatArray = field(default_factory=lambda: np.empty(0))
    delta_upper: FloatArray = field(default_factory=lambda: np.empty(0))
    notes: tuple[str, ...] = ()

    @property
    def tight(self) -> bool:
        """Whether the two ends agree so well that numbers of other routes say nothing more."""
        return self.parameter_upper <= self.parameter_lower * (1 + _TIGHT)


def proved_ends(mechanism: Any, pair: Pair, claim: Claim, seconds: float = 20.0) -> ProvedEnds | None:
    """Enclose what `claim` asks of a pair, in balls, over the whole output space.

    Returns
    -------
    ProvedEnds or None
        None where the mechanism offers no balls, or where no enclosure of this notion is known.

    Raises
    ------
    BadOracle
        If the balls contradict each other, or the mechanism's own float log-density.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace, PureDP
    >>> laplace = Laplace(0.5)
    >>> found = proved_ends(laplace, laplace.worst_pair(), PureDP(0.5))
    >>> found.epsilon_lower <= 0.5 <= found.epsilon_upper < 0.5000001
    True
    """
    with ctx.workprec(PRECISION):
        try:
            return _proved(mechanism, pair.d1, pair.d0, claim, seconds)
        except NotEnclosed:
            return None


def _proved(mechanism: Any, d1: Any, d0: Any, claim: Claim, seconds: float) -> ProvedEnds | None:
    found = _covered(mechanism, d1, d0, seconds)
    if found is None:
        return None
    sides, how = found
    parameter = _parameter(sides, claim)
    if parameter is None:
        return None
    epsilon = parameter if claim.bounds_epsilon else _larger([side.epsilon(0.0) for side in sides])
    top = max(1.5 * claim.parameter if claim.bounds_epsilon else 1.5, 1.2 * (epsilon[1] if math.isfinite(epsilon[1]) else 0.0))
    epsilons = np.linspace(0.0, min(top, 600.0), _GRID)
    profile = np.array([_larger([side.hockey_stick(e, _PROFILE, 1e-14) for side in sides]) for e in epsilons.tolist()])
    lower, upper = np.clip(profile[:, 0], 0.0, 1.0), np.clip(profile[:, 1], 0.0, 1.0)
    return ProvedEnds(how, *parameter, *epsilon, epsilons, lower, upper)


def _covered(mechanism: Any, d1: Any, d0: Any, seconds: float) -> tuple[Sequence[Side], str] | None:
    """Both orders of the pair, and in words how the outputs are covered."""
    if offers(mechanism, HasShiftBall):
        shift = mechanism.shift_ball(d1, d0)
        if shift is not None:
            check_balls(mechanism, d1, d0)
            if shift.law == "radius":
                return (Shifted(shift),), "a density unbounded at the minimum, which moves, in balls"
            return (Shifted(shift),), f"closed form of a shift in {shift.law} noise, in balls"
    if offers(mechanism, HasDrawsBall):
        check_balls(mechanism, d1, d0)
        drawn = [cells for p, q, times in mechanism.draws_ball(d1, d0) for cells in [of_draw(p, q, seconds)] * times]
        drawn = [cells for cells in drawn if cells.supremum() != (0.0, 0.0)] or drawn[:1]
        if len(drawn) <= _MOST_PARTS:
            whole = product_of(drawn)
            return (whole, whole.turned()), f"{len(drawn)} independent draws composed in balls"
    if offers(mechanism, HasFactors):
        parts = mechanism.factors(d0, d1)
        differing = [(part, b, a) for part, a, b in parts if not same_value(a, b)]
        if len(differing) == 1:
            part, b, a = differing[0]
            found = _covered(part, b, a, seconds)
            return None if found is None else (found[0], f"{found[1]}, of the one independent part that differs")
        if 1 < len(differing) <= _MOST_PARTS and all(offers(part, HasDensityBall) for part, _, _ in differing):
            each: list[Cells | None] = []
            for k, (part, b, a) in enumerate(differing):
                twins = (i for i, (other, y, x) in enumerate(differing[:k]) if other == part and same_value(y, b) and same_value(x, a))
                twin = next(twins, None)
                each.append(cells_of(part, b, a, seconds) if twin is None else each[twin])
            parts_of = [cells for cells in each if cells is not None]
            if len(parts_of) == len(differing):
                whole = product_of(parts_of)
                return (whole, whole.turned()), f"{len(parts_of)} independent parts composed in balls"
    if offers(mechanism, HasAxisBall):
        axial = mechanism.axis_ball(d1, d0)
        if axial is not None:
            return on_axis(mechanism, d1, d0, axial, seconds), "cells along the one axis on which all records lie, bisected in balls"
    if offers(mechanism, HasPlaneBall):
        planar = mechanism.plane_ball(d1, d0)
        if planar is not None:
            return in_plane(mechanism, d1, d0, planar, seconds / 2), "branch and bound over the plane of outputs, in balls"
    cells = cells_of(mechanism, d1, d0, seconds)
    if cells is None:
        return None
    points = sum(len(cell.box) == 1 and cell.box[0][0] == cell.box[0][1] for cell in cells.leaves)
    where = f"cells of the outputs{f' and {points} atoms' if points else ''}, bisected in balls"
    return (cells, cells.turned()), "enumeration in balls" if cells.split is None else where


def _parameter(sides: Sequence[Side], claim: Claim) -> Span | None:
    if claim.bounds_epsilon:
        return _larger([side.epsilon(claim.delta_budget, edge=claim.parameter * (1 + _AGREES)) for side in sides])
    if isinstance(claim, RDP | RenyiCurve):
        spans = [(side.renyi(order), claim.divergence_at(order)) for side in sides for order in claim.orders_among([])]
        return _larger([(math.nextafter(low / unit, 0.0), math.nextafter(high / unit, math.inf)) for (low, high), unit in spans])
    if isinstance(claim, ZCDP):
        return _larger([side.concentrated() for side in sides])
    if isinstance(claim, GDP):
        return (
            _larger([side.mu for side in sides if isinstance(side, Shifted)])
            if all(isinstance(s, Shifted) and s.normal for s in sides)
            else None
        )
    return None


def _larger(spans: list[Span]) -> Span:
    return max(low for low, _ in spans), max(high for _, high in spans)
