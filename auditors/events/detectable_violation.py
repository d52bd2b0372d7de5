"""Detectable violation of a run: the smallest violation *of the learned event's kind* that is
refuted with a given power.

The kind is a parametric family of pairs of distributions. Training data give the distribution of
the score: cells with masses p on D1 and q on D0, and a smoothed loss L = ln p/q. The members of the
family are p_s ~ sqrt(pq) e^(sL/2) and q_s ~ sqrt(pq) e^(-sL/2). For s = 1 the member is the learned
distribution. For a shift of Gaussian noise the shift is s times as large. For randomized response
the odds are raised to the power s.

For each member, `_true_parameter` computes the smallest parameter for which the claim is true.
`_certified_parameter` computes what the best pair of thresholds certifies when the counts lie `z`
standard errors on the unfavorable side. Relearning the event costs further standard errors, which
were calibrated over the zoo (`dpwitness bench calibration`). A violation of another kind, for
example a raw value in one of 1e4 runs, does not show in a score that was trained without it. The
number does not cover such violations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri

from dpwitness.auditors.events.event import CELL_QUANTILES, ORDERS, expected_renyi_bound
from dpwitness.auditors.events.posterior import CertificateGoal, Table, draw_shares
from dpwitness.auditors.statistics.certificate import (
    SHARE_FOR_FREQUENCY,
    parameter_from_rates,
    wilson_lower,
)
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.auditors.statistics.regression import Fit, fit_logistic
from dpwitness.core.claims import Claim
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import require_probability

LEARNING = 0.8  # standard errors lost by relearning the event; measured, see above
CELL_RELEARNING_LOSS = 4.0  # standard errors lost by relearning cells, their losses and an order
_KNOWN_COUNT = 30.0  # training outputs in an event, from which its mass counts as known


@dataclass(frozen=True, slots=True, eq=False)
class ScoreLaw:
    """Distribution of a score in cells of ascending order: mass and privacy loss of each cell, and
    the number of training rounds.
    """

    mass: FloatArray
    loss: FloatArray
    size: float

    def member(self, strength: float) -> tuple[FloatArray, FloatArray]:
        """Return the masses (p, q) of the family member of this strength."""
        base = np.log(np.maximum(self.mass, 1e-300)) - np.logaddexp(self.loss / 2, -self.loss / 2)
        p, q = (base + sign * strength * self.loss / 2 for sign in (1.0, -1.0))
        return np.exp(p - logsumexp(p)), np.exp(q - logsumexp(q))

    def mirrored(self) -> ScoreLaw:
        """Return the distribution of the negated score with D1 and D0 exchanged."""
        return ScoreLaw(self.mass[::-1], -self.loss[::-1], self.size)


def score_law(table: Table, claim: Claim, rng: np.random.Generator) -> ScoreLaw | None:
    """Return the distribution of a score estimated from its training counts; None if one side has
    no outputs.
    """
    ones, zeros = float(table.ones.sum()), float(table.zeros.sum())
    if min(ones, zeros) == 0:
        return None
    share = np.clip(draw_shares(table, CertificateGoal(claim, 0.05, 1), rng), 1e-12, 1 - 1e-12)
    odds = np.log(share / (1 - share)).mean(axis=0)  # averaged over the draws
    law = ScoreLaw(table.total / table.size, odds - math.log(ones / zeros), table.size)
    if 0 < claim.delta_budget * table.size < _KNOWN_COUNT:
        law = _extrapolate_tail(law, table, claim.delta_budget)
        law = _extrapolate_tail(law.mirrored(), table.mirrored(), claim.delta_budget).mirrored()
    return law


def _extrapolate_tail(law: ScoreLaw, table: Table, delta: float) -> ScoreLaw:
    """Return the distribution with its topmost cell split, down to mass delta / 100.

    The extrapolation assumes that the score is normal in its tail, and that the loss is linear with
    the slope of the outer tenth.
    """
    total = table.total
    tail_mass = np.cumsum(total[::-1])[::-1] / table.size  # at or beyond each cell
    outer = tail_mass <= 0.1  # whose slope extrapolates the loss
    if outer.sum() < 8 or total[-1] > 8:  # the top cell is an atom, which has no tail
        return law
    line = np.polyfit(
        table.mean[outer],
        ndtri(np.maximum(tail_mass[outer], 1e-12)),
        1,
        w=np.sqrt(tail_mass[outer]),
    )
    # the slope of the loss in the score beyond the training data is that of the outer cells, shrunk
    # toward the overall slope where these hold few outputs
    scale = float(np.ptp(table.mean)) or 1.0
    all_cells, outer_cells = (
        _fit_cells(table, part, scale) for part in (np.full(outer.size, True), outer)
    )
    overall, estimate = float(all_cells.weights[1]), float(outer_cells.weights[1])
    prior_variance, variance = (0.25 * overall) ** 2, float(outer_cells.variances()[1])
    slope = (estimate * prior_variance + overall * variance) / (prior_variance + variance) / scale
    if line[0] >= 0 or slope <= 0:
        return law
    masses = np.append(
        np.geomspace(float(law.mass[-1]), min(delta / 100, float(law.mass[-1]) / 10), 40), 0.0
    )
    score = (ndtri(masses[:-1]) - line[1]) / line[0]
    loss = law.loss[-1] + slope * (score - score[0])
    return ScoreLaw(
        np.append(law.mass[:-1], -np.diff(masses)), np.append(law.loss[:-1], loss), law.size
    )


def _fit_cells(table: Table, part: NDArray[np.bool_], scale: float) -> Fit:
    """Fit a logistic regression of the dataset label on the score, over the selected cells."""
    features = np.column_stack(
        [np.ones(part.sum()), (table.mean[part] - table.mean[part][0]) / scale]
    )
    return fit_logistic(features, table.ones[part], table.zeros[part], np.array([1e-6, 1e-6]))


def detectable(
    claim: Claim, law: ScoreLaw | None, rounds: int, alpha: float, power: float = 0.9
) -> float:
    """Return the smallest claim parameter of a family member whose violation a test with `rounds`
    rounds refutes with this power.

    The event is relearned in that test. The result is infinite if no member up to strength 1000 is
    refuted.
    """
    require_probability("power", power)
    if law is None or not np.isfinite(law.loss).all():
        return math.inf
    # more standard errors are lost where the tail lies beyond the training data
    beyond = 2.8 if 0 < claim.delta_budget * law.size < _KNOWN_COUNT else 0.0
    z = float(ndtri(power)) + LEARNING + beyond
    low, high = 0.0, 1.0
    while _certified_parameter(claim, law, high, rounds, alpha, z)[0] <= claim.parameter:
        low, high = high, 2 * high
        if high > 1e3:
            return math.inf
    _, high = bracket(
        lambda s: _certified_parameter(claim, law, s, rounds, alpha, z)[0] <= claim.parameter,
        low,
        high,
        12,
    )
    event_parameter = _certified_parameter(claim, law, high, rounds, alpha, z)[1]
    return max(event_parameter, _true_parameter(claim, law, high), claim.parameter)


def _certified_parameter(
    claim: Claim, law: ScoreLaw, strength: float, rounds: int, alpha: float, z: float
) -> tuple[float, float]:
    """Return what the member's best event or cells certify, and the parameter that this event shows
    with exact probabilities.

    The counts lie `z` standard errors on the unfavorable side.
    """
    p, q = law.member(strength)
    # cumulative masses of p and q above candidate thresholds, and of q and p below
    (p1, q1), (p0, q0) = (
        (np.cumsum(p[order]), np.cumsum(q[order])) for order in (slice(None, None, -1), slice(None))
    )
    last = max(len(p) - 1, 0)
    ranks = np.concatenate([np.geomspace(1, max(last, 1), 40), np.linspace(1, max(last, 1), 40)])
    keep = np.unique(ranks.astype(np.intp))[:last] - 1
    # the empty event comes first
    right1, wrong1, right0, wrong0 = (np.append(0.0, side[keep]) for side in (p1, q1, q0, p0))
    right, wrong = (
        0.5 * (upper[:, None] + lower[None, :])
        for upper, lower in ((right1, right0), (wrong1, wrong0))
    )
    binned = claim.bounds_renyi
    share = alpha / 2 if binned else alpha
    # a share above 1 would guess both datasets on the same output
    both = right + wrong <= 1.0 + 1e-12
    guesses_made = [(np.arange(len(side)) > 0).astype(int) for side in (right1, right0)]
    directions = guesses_made[0][:, None] + guesses_made[1][None, :]
    best, event_parameter = 0.0, 0.0
    for k in (1, 2):
        allowed = both & (directions == k) & (right > wrong)
        if not allowed.any():
            continue
        r, w = right[allowed], wrong[allowed]
        theta = wilson_lower(r / (r + w), rounds * (r + w), z - float(ndtri(share)))
        frequency = wilson_lower(r + w, float(rounds), -float(ndtri(share * SHARE_FOR_FREQUENCY)))
        value = parameter_from_rates(claim, frequency, theta, k)
        i = int(np.argmax(value))
        if value[i] > best:
            best, event_parameter = (
                float(value[i]),
                float(parameter_from_rates(claim, r[i] + w[i], r[i] / (r[i] + w[i]), k)),
            )
    if claim.bounds_renyi:
        cuts = np.unique(np.searchsorted(np.cumsum(law.mass), CELL_QUANTILES))
        starts = np.append(0, cuts[(cuts > 0) & (cuts < len(law.mass))])
        p, q = (np.add.reduceat(side, starts) for side in (p, q))
        best = max(
            best,
            expected_renyi_bound(
                claim, p, q, rounds, share, (z + CELL_RELEARNING_LOSS - LEARNING) / math.sqrt(2)
            ),
        )
    return best, event_parameter


def _true_parameter(claim: Claim, law: ScoreLaw, strength: float) -> float:
    """Return the exact parameter of this family member, for claims with a delta and for Renyi
    claims; 0 for other claims.

    The exact parameter can exceed what any testable event shows.
    """
    p, q = law.member(strength)
    loss_law = LossLaw(np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300)), p, q)
    if claim.delta_budget > 0:
        return max(side.epsilon(claim.delta_budget) for side in (loss_law, loss_law.swapped()))
    sides = loss_law, loss_law.swapped()
    return max(
        (
            side.renyi(a) / claim.divergence_at(a)
            for side in sides
            for a in claim.orders_among(ORDERS)
        ),
        default=0.0,
    )
