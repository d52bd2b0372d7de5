"""Bounds of `certify` for a pair: numerical bounds, privacy profile and best attack from the law of
the privacy loss in floating point; statistical bounds from sampled outputs; and confirmation by
sampling of a computed excess over a claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import betaincinv

from dpwitness.auditors.density.bounded_mean import (
    PairOrder,
    WeightedOutputs,
    continuous_columns,
    limits_from_samples,
)
from dpwitness.auditors.density.composition import differing_factors
from dpwitness.auditors.density.density_check import log_densities, rows_of
from dpwitness.auditors.density.known_laws import parameter_of
from dpwitness.auditors.density.result import End, RouteBounds
from dpwitness.auditors.density.search import PairLoss, WorstOutput, support_rows, worst_output
from dpwitness.auditors.statistics.certificate import clopper_pearson_lower
from dpwitness.auditors.statistics.loss_law import EnclosedLaw, LossLaw
from dpwitness.auditors.statistics.mean_limits import Stakes, lower_mean
from dpwitness.core.claims import Claim
from dpwitness.core.claims.notions import ORDERS
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import InvalidArgument

_FPR = np.concatenate([[0.0], np.geomspace(1e-9, 1e-2, 36), np.linspace(0.02, 1.0, 50)])
_NO_LARGER_LOSS = (
    "no output has a larger loss than the nodes of the quadrature and a search over outputs show"
)


def bounds_from_law(law: EnclosedLaw, claim: Claim) -> RouteBounds:
    """Return the bounds, the privacy profile and the best attack that follow from the law of the
    loss.
    """
    delta = claim.delta_budget
    if delta > 0:
        near = law.lower.epsilon(delta), -law.lower.swapped().epsilon(delta)
        law = law.refined([loss for loss in near if math.isfinite(loss)])
    ends = _both_orders(law, lambda side: side.epsilon(delta))
    parameters, label, notes = _parameters(claim, law)
    if delta == 0 and law.missing > 0:
        # the loss of mass that no output accounts for is unknown
        ends[1] = parameters[1] = math.inf
        notes += (
            f"the evaluated outputs do not account for a mass of {law.missing:.2g}, "
            "whose loss is unknown",
        )
    elif delta == 0 and law.dimension > 0 and label == "numerical":
        label = f"assumed: {_NO_LARGER_LOSS}"
    # the two bounds are rounded separately and may cross
    ends[1], parameters[1] = max(ends), max(parameters)
    epsilons = profile_grid(claim, ends[1], 41)
    profiles = _both_orders(law, lambda side: side.hockey_stick(epsilons))
    curves = _both_orders(law, _best_attack)
    return RouteBounds(
        law.route,
        (End(float(parameters[0]), "numerical", float(ends[0])),),
        (End(float(parameters[1]), label, float(ends[1])),),
        epsilons,
        profiles[0],
        np.maximum(profiles[0], profiles[1]),
        _FPR,
        curves[0],
        np.maximum(curves[0], curves[1]),
        notes=notes,
    )


def with_worst_output(
    found: RouteBounds, mechanism: Any, pair: Pair, seed: int, law: EnclosedLaw | None
) -> RouteBounds:
    """Return the bounds with the output that has the largest loss that a search finds, and raised
    to this loss unless the law is exact. Outputs that are not rows of numbers are not searched.

    If the mechanism has independent parts and one part differs, the output is one of this part.
    """
    parts = differing_factors(mechanism, pair.d0, pair.d1)
    if len(parts) == 1 and hasattr(parts[0][0], "sample"):
        mechanism, d0, d1 = parts[0]
        pair = Pair(d0, d1, pair.relation, pair.why)
    try:
        worst = worst_output(mechanism, pair, seed=seed)
    except InvalidArgument:  # outputs are not rows of numbers
        return found
    found = replace(found, worst=worst)
    if law is not None and law.label == "exact":
        return found
    assumed = f"assumed: {_NO_LARGER_LOSS}"
    # an upper bound without proof is at least the observed loss
    uppers = tuple(
        end
        if end.sound
        else End(
            max(end.value, worst.loss),
            assumed if math.isfinite(end.value) else end.why,
            max(end.epsilon, worst.loss),
        )
        for end in found.uppers
    )
    return replace(found, uppers=uppers).with_lower(worst.loss, "numerical", worst.loss)


def profile_grid(claim: Claim, upper: float, size: int) -> FloatArray:
    """Return the epsilon values at which the privacy profile is evaluated."""
    scale = claim.at_delta.parameter
    top = max(1.5 * scale, 1.2 * upper if math.isfinite(upper) else 4 * scale)
    return np.linspace(0.0, min(top, 600.0), size)


def _both_orders(law: EnclosedLaw, value: Callable[[LossLaw], Any]) -> list[Any]:
    """Return the larger value over both orders of the pair, of the lower and of the upper law."""
    return [np.max([value(side), value(side.swapped())], axis=0) for side in (law.lower, law.upper)]


def _parameters(claim: Claim, law: EnclosedLaw) -> tuple[list[float], str, tuple[str, ...]]:
    """Return bounds on the smallest parameter that the laws allow, over both orders of the pair,
    the evidence for the upper bound, and notes.

    D_a <= sup L, so the orders from some a on need no more than sup L / a.
    """
    if claim.bounds_epsilon:
        found = _both_orders(law, lambda side: side.epsilon(claim.delta_budget))
        return found, "numerical", ()
    if not claim.bounds_renyi:
        label = f"assumed: events of probability below 1e-9 do not require a larger {claim.symbol}"
        return [parameter_of(claim, side) for side in (law.lower, law.upper)], label, ()
    orders = claim.orders_among(ORDERS.tolist())
    units = np.array([claim.divergence_at(a) for a in orders])
    ends = np.array(
        _both_orders(law, lambda side: np.array([side.renyi(a) for a in orders]) / units)
    )
    low = float(ends[0].max())
    if len(orders) < len(ORDERS):  # the claim names its own orders
        return [low, float(ends[1].max())], "numerical", ()
    with np.errstate(invalid="ignore"):
        resolved = (ends[1] - ends[0] <= 1e-2 * ends[1] + 1e-9) | (ends[0] == ends[1])
    last = len(ORDERS) if resolved.all() else int(np.argmin(resolved))
    if last == 0:
        return [low, math.inf], "numerical", ()
    rest = _both_orders(law, lambda side: side.supremum)[1] / float(ORDERS[last - 1])
    note = f"Renyi orders from 1 + {ORDERS[0] - 1:.3g} to {ORDERS[last - 1]:.4g} were evaluated"
    if math.isinf(rest):
        note += "; the upper end assumes that larger orders do not require a larger rho"
        rest = 0.0
    high = max(float(ends[1][:last].max()), min(rest, float(ends[1].max())))
    return [low, high], "numerical", (note,)


def _best_attack(law: LossLaw) -> FloatArray:
    """Return the best attacker's true-positive rate at each false-positive rate in `_FPR`."""
    _, fpr, tpr = law.roc()
    return np.asarray(
        np.minimum(1.0, np.interp(_FPR, np.append(0.0, fpr), np.append(0.0, tpr)) + law.unseen_p)
    )


_GRID_ASSUMPTION = (
    "assumed: between the points of a grid, no output has a larger privacy loss than the outputs "
    "on the grid"
)
# radii of the balls around the worst output, in units of the spread
_RADII = 10.0 ** -np.arange(0.0, 12.0)
_POINTS_PER_BALL = 64  # number of outputs drawn from each ball


def bounds_from_samples(
    mechanism: Any,
    pair: Pair,
    claim: Claim,
    trials: int,
    alpha: float,
    streams: list[np.random.Generator],
) -> RouteBounds:
    """Return bounds from bounded means for both orders of the pair.

    The lower bound may err for either order, the upper bound for the order with the larger value
    only. `alpha` is shared accordingly.
    """
    delta = claim.delta_budget
    epsilons = profile_grid(claim, claim.parameter if claim.bounds_epsilon else math.inf, 13)
    alphas = (0.2 * alpha, 0.4 * alpha, 0.1 * alpha, 0.05 * alpha)
    sides = [
        limits_from_samples(mechanism, order, delta, epsilons, trials // 2, alphas, stream)
        for order, stream in zip((pair, pair.swapped()), streams, strict=True)
    ]
    low, sound, assumed = np.max([side.epsilon for side in sides], axis=0).tolist()
    profile = np.max([side.delta for side in sides], axis=0)
    statistical = f"statistical({alpha:.3g})"
    notes: tuple[str, ...] = ()
    uppers = [End(sound if claim.bounds_epsilon else math.inf, statistical, sound)]
    if not claim.bounds_epsilon:
        with np.errstate(invalid="ignore"):
            parameters = [
                float(claim.parameter_at(*point)) for side in sides for point in side.operating
            ]
        lower = End(max(parameters, default=0.0), statistical, low)
    else:
        lower = End(low, "statistical(0)" if delta == 0 else statistical, low)
        if assumed < sound:
            uppers.append(End(assumed, _GRID_ASSUMPTION, assumed))
    if delta == 0:
        notes = (
            "the lower end is the largest loss at an output that was sampled: it has positive mass "
            "there",
        )
    is_sound = uppers[0].value <= claim.parameter or len(uppers) == 1
    return RouteBounds(
        f"bounded mean, {sides[0].method}",
        (lower,),
        tuple(uppers),
        epsilons,
        profile[0],
        profile[1 if is_sound else 2],
        notes=notes,
    )


def largest_loss_near_worst(
    mechanism: Any, pair: Pair, worst: WorstOutput, rng: np.random.Generator
) -> float:
    """Return the largest loss, less its rounding, at random outputs near the worst one or along its
    ray.

    The random outputs come from laws with a density. If one of them has a loss above t and a
    positive density, then with probability one the outputs with such a loss have positive mass.
    Atoms are not moved: they count only where the mechanism's support lists them.
    """
    loss = PairLoss(mechanism, pair)
    rows = np.vstack([rows_of(mechanism, dataset, 2048, rng) for dataset in (pair.d0, pair.d1)])
    if worst.output.shape != rows.shape[1:]:
        return 0.0
    if hasattr(mechanism, "support"):
        in_support = np.any(np.all(support_rows(mechanism, pair) == worst.output, axis=1))
        return float(loss(worst.output[None])[0]) if in_support else 0.0
    continuous = continuous_columns(rows)
    fixed = rows[:, ~continuous]
    if not continuous.any() or (
        fixed.size and not np.any(np.all(fixed == worst.output[~continuous], axis=1))
    ):
        return 0.0
    unit = np.where(continuous, np.subtract(*np.percentile(rows, [90, 10], axis=0)), 0.0)
    candidates = worst.output + (
        _RADII[:, None, None]
        * rng.standard_normal((len(_RADII), _POINTS_PER_BALL, rows.shape[1]))
        * unit
    ).reshape(-1, len(unit))
    if worst.ray is not None:
        far = (
            2.0 ** rng.uniform(0.0, 12.0, (4 * _POINTS_PER_BALL, 1))
            * np.linalg.norm(unit)
            * (worst.ray * continuous)
        )
        candidates = np.vstack(
            [candidates, worst.output + far + 0.01 * rng.standard_normal(far.shape) * unit]
        )
    values = loss(candidates)
    # skip infinite losses: near the worst output, a density of zero may be an underflow
    return float(np.max(values[np.isfinite(values)], initial=0.0))


def confirmed(
    mechanism: Any,
    pair: Pair,
    claim: Claim,
    laws: list[LossLaw],
    trials: int,
    alpha: float,
    rng: np.random.Generator,
) -> float:
    """Return a statistical lower bound on the claim's parameter that confirms a computed excess
    over the claim; minus infinity if samples show no excess.

    The excess is at delta > 0, or for a notion other than pure DP. `laws` are lower laws of the
    loss for (D1, D0) and (D0, D1). These laws suggest which of the two to test, the event or the
    Renyi order, and the outputs to draw. The bound rests on the samples alone. Both orders of the
    pair share the error.
    """
    confirm = _confirm_event
    if claim.bounds_renyi:
        confirm = _confirm_renyi
    elif claim.bounds_epsilon:
        confirm = _confirm_epsilon
    return max(
        confirm(mechanism, order, law, claim, trials // 2, alpha / 2, rng)
        for order, law in zip((pair, pair.swapped()), laws, strict=True)
    )


def _confirm_epsilon(
    mechanism: Any,
    pair: Pair,
    law: LossLaw,
    claim: Claim,
    trials: int,
    alpha: float,
    rng: np.random.Generator,
) -> float:
    """Return a lower bound on epsilon at the claim's delta by betting."""
    delta = claim.delta_budget
    if law.epsilon(delta) <= claim.parameter:
        return -math.inf
    shares = (0.94 * alpha, 0.02 * alpha, 0.02 * alpha, 0.02 * alpha)
    epsilons = np.array([claim.parameter])
    return limits_from_samples(mechanism, pair, delta, epsilons, trials, shares, rng).epsilon[0]


def _confirm_renyi(
    mechanism: Any,
    pair: Pair,
    law: LossLaw,
    claim: Claim,
    trials: int,
    alpha: float,
    rng: np.random.Generator,
) -> float:
    """Return a lower bound on E_P e^((a-1) L) by betting, as a bound on the claim's parameter.

    Draws are moved to where the expectation concentrates. The order a is the one whose excess is
    easiest to detect.
    """
    some = (law.p > 0) & np.isfinite(law.loss)
    p, loss = law.p[some], law.loss[some]

    def moments(a: float) -> tuple[bool, float, float]:
        """Return whether draws can be moved reliably for this order, the excess of D_a over the
        claim, and the median loss under e^((a-1) L) p.

        The excess is in units of its standard error at one run.
        """
        exponent = np.log(p) + (a - 1) * loss
        top = float(exponent.max())
        weights = np.exp(exponent - top)
        total = float(weights.sum())
        promised = claim.parameter * claim.divergence_at(a) * (a - 1)
        tilted = np.cumsum(weights) / total
        middle = float(loss[min(int(np.searchsorted(tilted, 0.5)), len(loss) - 1)])
        # with draws from the tilted law, the variance is about the squared mean
        excess = float(np.expm1(min(top + math.log(total) - promised, 50.0)))
        # least mass to which draws can be moved reliably
        return float(law.hockey_stick(middle)) > 1e-6, excess, middle

    found = {a: moments(a) for a in claim.orders_among(ORDERS[ORDERS < 64].tolist())}
    a = max(found, key=lambda order: found[order][:2])
    _, excess, middle = found[a]
    if excess <= 0:
        return -math.inf
    order = PairOrder.unmoved(mechanism, pair, rng)
    pilot = max(200, trials // 60)
    goal = float(law.hockey_stick(middle))
    if goal < 0.1:
        order, _ = order.aimed(max(goal, 1e-300), pilot)
    first, main = order.draw(pilot), order.draw(max(1000, trials - 6 * pilot))
    scale = (a - 1) * middle

    def values(draws: WeightedOutputs) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(
                draws.weight * np.exp(np.clip((a - 1) * draws.loss - scale, -700.0, 300.0))
            )

    x = values(first)
    low = lower_mean(
        values(main), Stakes.plan(x, float(x.max()) + 1e-300, len(main.loss), alpha), alpha
    )
    if low <= 0:
        return -math.inf
    return ((math.log(low) + scale) / (a - 1)) / claim.divergence_at(a)


def _confirm_event(
    mechanism: Any,
    pair: Pair,
    law: LossLaw,
    claim: Claim,
    trials: int,
    alpha: float,
    rng: np.random.Generator,
) -> float:
    """Return a lower bound from one event {L >= t}, counted on fresh runs of both datasets.

    The event is the one whose exact binomial limits are best under the law.
    """
    n = trials // 2
    threshold, fpr, tpr = law.roc()
    value = np.nan_to_num(
        _parameter_of_counts(claim, np.rint(tpr * n), np.rint(fpr * n), n, alpha), nan=0.0
    )
    t = float(threshold[int(np.argmax(value))])
    t -= 1e-9 * max(1.0, abs(t)) if math.isfinite(t) else 0.0
    counts = []
    for dataset in (pair.d1, pair.d0):
        log_p, log_q = log_densities(mechanism, rows_of(mechanism, dataset, n, rng), pair)
        with np.errstate(invalid="ignore"):
            counts.append(np.count_nonzero(log_p - log_q >= t))
    hits, false = np.array(counts)[:, None]
    return float(_parameter_of_counts(claim, hits, false, n, alpha)[0])


def _parameter_of_counts(
    claim: Claim, hits: FloatArray, false: FloatArray, n: int, alpha: float
) -> FloatArray:
    """Return the parameter at the Clopper-Pearson lower limit of P and upper limit of Q, at alpha/2
    each, from counts of n runs each.
    """
    low = clopper_pearson_lower(hits, n, alpha / 2)
    high = np.where(
        false < n, betaincinv(false + 1, np.maximum(n - false, 1e-9), 1 - alpha / 2), 1.0
    )
    with np.errstate(invalid="ignore"):
        return claim.parameter_at(high, low)
