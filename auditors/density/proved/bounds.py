"""Proved bounds of `certify`: ball arithmetic encloses the privacy profile and the claim's
parameter over all outputs.

A mechanism supports proofs by its method `log_density_ball` (see `core/protocols/mechanism.py`).
A proof is about the law that the mechanism states. Whether its sampler follows this law is tested
by runs, not proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import ctx

from dpwitness.auditors.density.proved.cells import Cells, Side
from dpwitness.auditors.density.proved.minimizers import cells_on_axis, search_plane
from dpwitness.auditors.density.proved.product import product_cells
from dpwitness.auditors.density.proved.shift import ShiftDivergences
from dpwitness.auditors.density.proved.space import cells_of, cells_of_draw, sample_and_check_balls
from dpwitness.core.balls.ball import PRECISION, EnclosureUnavailable, Span
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
)
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_codec import same_value

_PROFILE_SIZE = 25  # number of epsilon values of the privacy profile
_MOST_PARTS = 2048  # largest number of independent parts that are composed
_PROFILE_WIDTH = 1e-6  # relative width of the profile
_TIGHT_WIDTH = 1e-2  # relative distance of two bounds that agree


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
        return self.parameter_upper <= self.parameter_lower * (1 + _TIGHT_WIDTH)


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
    epsilons = np.linspace(0.0, min(top, 600.0), _PROFILE_SIZE)
    profile = np.array(
        [
            _maximum([side.hockey_stick(e, _PROFILE_WIDTH, 1e-14) for side in sides])
            for e in epsilons.tolist()
        ]
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
