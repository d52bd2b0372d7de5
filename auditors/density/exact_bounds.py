"""Numerical bounds, privacy profile and best attack of a pair, from the law of its privacy loss in
floating point.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpwitness.auditors.density.search import WorstOutput, worst_output
from dpwitness.auditors.statistics.loss_law import EnclosedLaw, LossLaw
from dpwitness.auditors.witnesses.enclosure_bounds import End, Found
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.capabilities import HasFactors, has_capability
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_codec import same_value
from dpwitness.core.values.validation import InvalidArgument

ORDERS = 1.0 + np.geomspace(1e-3, 1e4, 240)  # Renyi orders evaluated for zCDP
_FPR = np.concatenate([[0.0], np.geomspace(1e-9, 1e-2, 36), np.linspace(0.02, 1.0, 50)])
_PROFILE_SIZE = 41  # number of epsilon values of the privacy profile
_NO_LARGER_LOSS = (
    "no output has a larger loss than the nodes of the quadrature and a search over outputs show"
)


def bounds_from_law(law: EnclosedLaw, claim: Claim) -> Found:
    """Return the bounds, the privacy profile and the best attack that follow from the law of the
    loss.
    """
    delta = claim.delta_budget
    if delta > 0:
        near = law.lower.epsilon(delta), -law.lower.swapped().epsilon(delta)
        law = law.refined([loss for loss in near if math.isfinite(loss)])
    lower, upper = ([side, side.swapped()] for side in (law.lower, law.upper))
    ends = [max(side.epsilon(delta) for side in sides) for sides in (lower, upper)]
    notes: tuple[str, ...] = ()
    label = "numerical"
    parameters = list(ends)
    if claim.bounds_renyi:
        *parameters, notes = _renyi_parameters(claim, lower, upper)
    elif not claim.bounds_epsilon:
        parameters = [_curve_parameter(claim, laws) for laws in (lower, upper)]
        label = f"assumed: events of probability below 1e-9 do not require a larger {claim.symbol}"
    if delta == 0:
        # the loss of mass that no output accounts for is unknown
        if law.missing > 0:
            ends[1] = parameters[1] = math.inf
            notes += (
                f"the evaluated outputs do not account for a mass of {law.missing:.2g}, "
                "whose loss is unknown",
            )
        elif law.dimension > 0 and (claim.bounds_epsilon or claim.bounds_renyi):
            label = f"assumed: {_NO_LARGER_LOSS}"
    # the two bounds are rounded separately and may cross
    ends[1], parameters[1] = max(ends), max(parameters)
    epsilons = profile_grid(claim, ends[1], _PROFILE_SIZE)
    profiles = [
        np.max([side.hockey_stick(epsilons) for side in sides], axis=0) for sides in (lower, upper)
    ]
    curves = [np.max([_best_attack(side) for side in sides], axis=0) for sides in (lower, upper)]
    return Found(
        law.route,
        (End(parameters[0], "numerical", ends[0]),),
        (End(parameters[1], label, ends[1]),),
        epsilons,
        profiles[0],
        np.maximum(profiles[0], profiles[1]),
        _FPR,
        curves[0],
        np.maximum(curves[0], curves[1]),
        notes=notes,
    )


def find_worst_output(mechanism: Any, pair: Pair, seed: int) -> WorstOutput | None:
    """Return the output with the largest loss that a search finds; None for outputs that are not
    rows of numbers.

    If the mechanism has independent parts and one part differs, the output is one of this part.
    """
    if has_capability(mechanism, HasFactors):
        parts = [
            (part, d0, d1)
            for part, d0, d1 in mechanism.factors(pair.d0, pair.d1)
            if not same_value(d0, d1)
        ]
        if len(parts) == 1 and hasattr(parts[0][0], "sample"):
            (mechanism, d0, d1), *_ = parts
            pair = Pair(d0, d1, pair.relation, pair.why)
    try:
        return worst_output(mechanism, pair, seed=seed)
    except InvalidArgument:  # outputs are not rows of numbers
        return None


def with_worst_output(found: Found, worst: WorstOutput | None, law: EnclosedLaw | None) -> Found:
    """Return the bounds, raised to the largest loss that a search over outputs has found."""
    found = replace(found, worst=worst)
    if worst is None or (law is not None and law.label == "exact"):
        return found
    uppers = tuple(end if end.sound else _raised(end, worst.loss) for end in found.uppers)
    return replace(found, uppers=uppers).with_lower(worst.loss, "numerical", worst.loss)


def _raised(end: End, loss: float) -> End:
    """Return an upper bound without proof, raised to an observed loss."""
    why = f"assumed: {_NO_LARGER_LOSS}" if math.isfinite(end.value) else end.why
    return End(max(end.value, loss), why, max(end.epsilon, loss))


def profile_grid(claim: Claim, upper: float, size: int) -> FloatArray:
    """Return the epsilon values at which the privacy profile is evaluated."""
    scale = claim.at_delta.parameter
    top = max(1.5 * scale, 1.2 * upper if math.isfinite(upper) else 4 * scale)
    return np.linspace(0.0, min(top, 600.0), size)


def _renyi_parameters(
    claim: Claim, lower: list[LossLaw], upper: list[LossLaw]
) -> tuple[float, float, tuple[str, ...]]:
    """Return bounds on the smallest rho (zCDP) or epsilon (RDP) that the laws allow, over both
    orders of the pair, and notes.

    D_a <= sup L, so the orders from some a on need no more than sup L / a.
    """
    orders = claim.orders_among(ORDERS.tolist())
    ends = np.array(
        [
            [max(law.renyi(a) for law in laws) / claim.divergence_at(a) for a in orders]
            for laws in (lower, upper)
        ]
    )
    low = float(ends[0].max())
    if len(orders) < len(ORDERS):  # the claim names its own orders
        return low, float(ends[1].max()), ()
    with np.errstate(invalid="ignore"):
        resolved = (ends[1] - ends[0] <= 1e-2 * ends[1] + 1e-9) | (ends[0] == ends[1])
    last = len(ORDERS) if resolved.all() else int(np.argmin(resolved))
    if last == 0:
        return low, math.inf, ()
    rest = max(law.supremum for law in upper) / float(ORDERS[last - 1])
    note = f"Renyi orders from 1 + {ORDERS[0] - 1:.3g} to {ORDERS[last - 1]:.4g} were evaluated"
    if math.isinf(rest):
        note += "; the upper end assumes that larger orders do not require a larger rho"
        rest = 0.0
    return low, max(float(ends[1][:last].max()), min(rest, float(ends[1].max()))), (note,)


def _curve_parameter(claim: Claim, laws: list[LossLaw]) -> float:
    """Return the smallest parameter of a curve that both orders of the pair allow.

    A curve, such as that of GDP, is concave, and so is the attacker's curve: the vertices of the
    latter decide.
    """
    value = 0.0
    for law in laws:
        threshold, fpr, tpr = law.roc()
        # beyond the middle, the other order of the pair gives the same rates without cancellation
        use = (fpr + tpr <= 1) & (tpr > 1e-9) & ((fpr > 0) | np.isposinf(threshold))
        with np.errstate(invalid="ignore"):
            value = max(value, float(np.max(claim.parameter_at(fpr[use], tpr[use]), initial=0.0)))
    return value


def _best_attack(law: LossLaw) -> FloatArray:
    """Return the best attacker's true-positive rate at each false-positive rate in `_FPR`."""
    _, fpr, tpr = law.roc()
    return np.asarray(
        np.minimum(1.0, np.interp(_FPR, np.append(0.0, fpr), np.append(0.0, tpr)) + law.unseen_p)
    )
