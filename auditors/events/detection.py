"""What a run like this would have found: the smallest violation *of the learned event's kind* that is refuted with a given power.

The kind is a family of laws. Training gives the law of the score: cells with masses p on D1 and q on D0 and a loss L = ln p/q, smoothed.
Its members are p_s ~ sqrt(pq) e^(sL/2), q_s ~ sqrt(pq) e^(-sL/2): for s = 1 the law itself, for a shift of Gaussian noise the shift s times
as large, for randomised response the odds to the power s. `parameter_of` says what each member's claim would have to be, `value` what the
best pair of thresholds certifies if luck is `z` standard errors against it; that the event must be learned anew costs more of them, which
were calibrated over the zoo (`dpwitness bench calibration`). A violation of another kind, such as a raw value in one of 1e4 runs, shows in
no score that was trained without it: of those the number says nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri

from dpwitness.auditors.events.divergence import LEVELS, ORDERS, expected_binned
from dpwitness.auditors.events.posterior import Table, fitted_odds
from dpwitness.auditors.statistics.certificate import SHARE_FOR_FREQUENCY, parameter_shown, wilson_lower
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.auditors.statistics.regression import Fit, fit_logistic
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import require_probability

LEARNING = 0.8  # standard errors that learning the event anew costs; measured, see above
LEARNING_TAIL = 2.8  # that a tail beyond the training data costs on top
LEARNING_CELLS = 4.0  # that learning cells, their losses and an order anew costs
_SEEN = 30.0  # training outputs that an event must hold for its share to count as known
_OUTER = 0.1  # share of the outputs, either side, whose slope says how the loss goes on beyond them
_BEND = 0.25  # standard deviation, prior to the data, of the outer slope over the slope of all


@dataclass(frozen=True, slots=True, eq=False)
class ScoreLaw:
    """Cells of a score in ascending order: how likely a round falls in each, the loss there, and on how many rounds this rests."""

    mass: FloatArray
    loss: FloatArray
    size: float

    def member(self, strength: float) -> tuple[FloatArray, FloatArray]:
        """(p, q) of the family at this strength."""
        base = np.log(np.maximum(self.mass, 1e-300)) - np.logaddexp(self.loss / 2, -self.loss / 2)
        p, q = (base + sign * strength * self.loss / 2 for sign in (1.0, -1.0))
        return np.exp(p - logsumexp(p)), np.exp(q - logsumexp(q))

    def mirrored(self) -> ScoreLaw:
        return ScoreLaw(self.mass[::-1], -self.loss[::-1], self.size)


def score_law(table: Table, claim: Claim, rng: np.random.Generator) -> ScoreLaw | None:
    """The law of a score from its training counts; None if one side gave nothing."""
    ones, zeros = float(table.ones.sum()), float(table.zeros.sum())
    if min(ones, zeros) == 0:
        return None
    odds = fitted_odds(table, claim, rng)
    law = ScoreLaw(table.total / table.size, odds - math.log(ones / zeros), table.size)
    if 0 < claim.delta_budget * table.size < _SEEN:
        law = _continued(law, table, claim.delta_budget)
        law = _continued(law.mirrored(), table.mirrored(), claim.delta_budget).mirrored()
    return law


def _continued(law: ScoreLaw, table: Table, delta: float) -> ScoreLaw:
    """Topmost cell split, down to delta / 100: scores normal in their tail, the loss linear at the slope of the outer tenth."""
    total = table.total
    beyond = np.cumsum(total[::-1])[::-1] / table.size  # at or beyond each cell
    outer = beyond <= _OUTER
    if outer.sum() < 8 or total[-1] > 8:  # an atom has no tail
        return law
    line = np.polyfit(table.mean[outer], ndtri(np.maximum(beyond[outer], 1e-12)), 1, w=np.sqrt(beyond[outer]))
    slope = _slope_beyond(table, outer)
    if line[0] >= 0 or slope <= 0:
        return law
    masses = np.append(np.geomspace(float(law.mass[-1]), min(delta / 100, float(law.mass[-1]) / 10), 40), 0.0)
    score = (ndtri(masses[:-1]) - line[1]) / line[0]
    loss = law.loss[-1] + slope * (score - score[0])
    return ScoreLaw(np.append(law.mass[:-1], -np.diff(masses)), np.append(law.loss[:-1], loss), law.size)


def _slope_beyond(table: Table, outer: NDArray[np.bool_]) -> float:
    """Slope of the loss in the score beyond what was seen: that of the outer cells, drawn to the slope of all as far as few show it."""
    scale = float(np.ptp(table.mean)) or 1.0
    whole, beyond = (_line(table, part, scale) for part in (np.full(outer.size, True), outer))
    slope, far = float(whole.weights[1]), float(beyond.weights[1])
    trust, variance = (_BEND * slope) ** 2, float(beyond.variances()[1])
    return (far * trust + slope * variance) / (trust + variance) / scale


def _line(table: Table, part: NDArray[np.bool_], scale: float) -> Fit:
    """Logistic regression of the side on the score, over part of the cells."""
    features = np.column_stack([np.ones(part.sum()), (table.mean[part] - table.mean[part][0]) / scale])
    return fit_logistic(features, table.ones[part], table.zeros[part], np.array([1e-6, 1e-6]))


def detectable(claim: Claim, law: ScoreLaw | None, rounds: int, alpha: float, power: float = 0.9) -> float:
    """Smallest parameter in the law's family for which a run with so many test rounds, its event learned anew, refutes the claim."""
    require_probability("power", power)
    if law is None or not np.isfinite(law.loss).all():
        return math.inf
    z = float(ndtri(power)) + LEARNING + (LEARNING_TAIL if 0 < claim.delta_budget * law.size < _SEEN else 0.0)
    low, high = 0.0, 1.0
    while _certified(claim, law, high, rounds, alpha, z)[0] <= claim.parameter:
        low, high = high, 2 * high
        if high > 1e3:
            return math.inf
    for _ in range(12):
        middle = 0.5 * (low + high)
        refuted = _certified(claim, law, middle, rounds, alpha, z)[0] > claim.parameter
        low, high = (low, middle) if refuted else (middle, high)
    shown = _certified(claim, law, high, rounds, alpha, z)[1]
    return max(shown, _parameter(claim, law, high), claim.parameter)


def _tails(law: ScoreLaw, strength: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Shares of p and q above each of few thresholds, and of q and p below; an event that names nothing first."""
    p, q = law.member(strength)
    (p1, q1), (p0, q0) = ((np.cumsum(p[order]), np.cumsum(q[order])) for order in (slice(None, None, -1), slice(None)))
    last = max(len(p) - 1, 0)
    ranks = np.concatenate([np.geomspace(1, max(last, 1), 40), np.linspace(1, max(last, 1), 40)])
    keep = np.unique(ranks.astype(np.intp))[:last] - 1
    return tuple(np.append(0.0, side[keep]) for side in (p1, q1, q0, p0))  # type: ignore[return-value]


def _certified(claim: Claim, law: ScoreLaw, strength: float, rounds: int, alpha: float, z: float) -> tuple[float, float]:
    """What a member's best event, or its cells, certify with luck `z` standard errors against them, and that event's own parameter."""
    right1, wrong1, right0, wrong0 = _tails(law, strength)
    right, wrong = (0.5 * (upper[:, None] + lower[None, :]) for upper, lower in ((right1, right0), (wrong1, wrong0)))
    binned = claim.bounds_renyi
    share = alpha / 2 if binned else alpha
    both = right + wrong <= 1.0 + 1e-12  # no output may be named twice
    used = [(np.arange(len(side)) > 0).astype(int) for side in (right1, right0)]
    directions = used[0][:, None] + used[1][None, :]
    best, shown = 0.0, 0.0
    for k in (1, 2):
        at = both & (directions == k) & (right > wrong)
        if not at.any():
            continue
        r, w = right[at], wrong[at]
        theta = wilson_lower(r / (r + w), rounds * (r + w), z - float(ndtri(share)))
        frequency = wilson_lower(r + w, float(rounds), -float(ndtri(share * SHARE_FOR_FREQUENCY)))
        value = parameter_shown(claim, frequency, theta, k)
        i = int(np.argmax(value))
        if value[i] > best:
            best, shown = float(value[i]), float(parameter_shown(claim, r[i] + w[i], r[i] / (r[i] + w[i]), k))
    if claim.bounds_renyi:
        cuts = np.unique(np.searchsorted(np.cumsum(law.mass), LEVELS))
        starts = np.append(0, cuts[(cuts > 0) & (cuts < len(law.mass))])
        p, q = (np.add.reduceat(side, starts) for side in law.member(strength))
        best = max(best, expected_binned(claim, p, q, rounds, share, (z + LEARNING_CELLS - LEARNING) / math.sqrt(2)))
    return best, shown


def _parameter(claim: Claim, law: ScoreLaw, strength: float) -> float:
    """The parameter that all events of a member show together, where that is more than any one that can be tested shows: delta, Renyi."""
    p, q = law.member(strength)
    found = LossLaw(np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300)), p, q)
    if claim.delta_budget > 0:
        return max(side.epsilon(claim.delta_budget) for side in (found, found.swapped()))
    sides = found, found.swapped()
    return max((side.renyi(a) / claim.divergence_at(a) for side in sides for a in claim.orders_among(ORDERS)), default=0.0)
