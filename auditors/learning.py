"""Choosing the event: on training data that certifies nothing, by what the event is expected to certify on the test data.

A scorer orders outputs by how much they speak for D1; two thresholds turn the order into a guess rule. The winner's curse is met by
penalties (methods: `SELECTORS`), and scorer and penalty together are chosen by 2-fold cross-validation of the certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpwitness.auditors.certificate import SHARE_FOR_FREQUENCY, parameter_shown, wilson_lower
from dpwitness.auditors.detection import ScoreLaw, score_law
from dpwitness.auditors.divergence import LEVELS, Binned, train_binned
from dpwitness.auditors.events import Event
from dpwitness.auditors.operating import Curve, Table, binormal, calibrated, counted
from dpwitness.auditors.outputs import Outputs, concatenate
from dpwitness.auditors.scorers import SCORERS, Scorer, Training, fit_distance
from dpwitness.mechanisms.notions import RDP, ZCDP, Claim

__all__ = ["Learned", "learn"]

FloatArray = NDArray[np.float64]

_WORTH = 0.01  # how much more a later, less simple way must promise


@dataclass(frozen=True, slots=True)
class Learned:
    """An event, and the parameter that it is expected to certify (a cautious figure, for ranking only)."""

    event: Event
    expected: float
    method: str
    binned: Binned | None = None  # for RDP and zCDP
    law: ScoreLaw | None = None  # of the score on the training data


@dataclass(frozen=True, slots=True)
class Goal:
    """What the event is for: the claim, the error and the number of test rounds of the certificate to come."""

    claim: Claim
    alpha: float
    rounds: int

    def value(self, right: FloatArray, wrong: FloatArray, size: float, directions: FloatArray | int, kappa: float) -> FloatArray:
        """Expected certified parameter if these shares of `size` training rounds were `kappa` standard errors too good."""
        made = np.maximum(right + wrong, 1e-12)
        theta = wilson_lower(right / made, size * made, kappa) if kappa > 0 else right / made
        made, theta, number = np.broadcast_arrays(made, theta, directions)
        value = np.full(made.shape, -1.0)  # of a rule that never guesses
        for k in (1, 2):
            at = number == k
            frequency = wilson_lower(made[at], self.rounds, self.z_frequency)
            value[at] = parameter_shown(self.claim, frequency, wilson_lower(theta[at], self.rounds * made[at], self.z), k)
        return value

    @property
    def z(self) -> float:
        return float(-ndtri(self.alpha))

    @property
    def z_frequency(self) -> float:
        return float(-ndtri(self.alpha * SHARE_FOR_FREQUENCY))


@dataclass(frozen=True, slots=True)
class Selector:
    """How thresholds are chosen: from which operating curve, and how many standard errors of a count are held against it."""

    curve: Callable[[Table, float], Curve | None]
    kappa: float  # when choosing
    caution: float  # when judged on held-out data

    def curves(self, table: Table) -> tuple[Curve, Curve] | None:
        upper, lower = self.curve(table, +1.0), self.curve(table, -1.0)
        return None if upper is None or lower is None else (upper, lower)

    def select(self, table: Table, goal: Goal) -> tuple[float, float] | None:
        """The thresholds (low, high) with the largest expected certificate."""
        curves = self.curves(table)
        if curves is None:
            return None
        upper, lower = curves
        right = 0.5 * (upper.right[:, None] + lower.right[None, :])
        wrong = 0.5 * (upper.wrong[:, None] + lower.wrong[None, :])
        directions = np.isfinite(upper.thresholds).astype(int)[:, None] + np.isfinite(lower.thresholds).astype(int)[None, :]
        value = goal.value(right, wrong, table.size, directions, self.kappa)
        value[lower.thresholds[None, :] > upper.thresholds[:, None]] = -1.0  # an output may be named once only
        i, j = np.unravel_index(int(np.argmax(value)), value.shape)
        return float(lower.thresholds[j]), float(upper.thresholds[i])


SELECTORS = {
    "calibrated": Selector(calibrated, 0.0, 0.0),
    "kappa 3": Selector(counted, 3.0, 2.0),
    "binormal": Selector(binormal, 0.0, 0.0),
    "kappa 1": Selector(counted, 1.0, 2.0),
}


def learn(
    outputs1: Outputs,
    outputs0: Outputs,
    claim: Claim,
    *,
    alpha: float,
    rounds: int,
    quick: bool = False,
    near: FloatArray | None = None,
) -> Learned:
    """Learn a guess rule from outputs on D1 and on D0.

    Parameters
    ----------
    outputs1, outputs0 : Outputs
        Training outputs, in the order of their runs.
    claim : Claim
        What the rule is to refute.
    alpha, rounds : float, int
        Error and number of rounds of the test to come.
    quick : bool
        Try the cheap scorers only: enough to rank pairs.
    near : (k,) array, optional
        An output around which balls are tried too.
    """
    goal = Goal(claim, alpha, rounds)
    data = Training.build(concatenate([outputs1, outputs0]), len(outputs1))
    halves = data.halves()
    best: Learned | None = None
    chosen: Scorer | None = None
    chosen_on: Table | None = None
    known = SCORERS if near is None else SCORERS | {"distance": (fit_distance(near), True, True)}
    for scorer_name, (fit, frugal, cheap) in known.items():
        if quick and not cheap:
            continue
        scorers = [scorer for scorer in map(fit, halves) if scorer is not None]
        if len(scorers) < 2:
            if best is not None or (both := fit(data)) is None:
                continue
            scorers = [both, both]  # halves of different kinds, such as one exception in all: better than no event
        own, other = (
            [Table.build(*half.scores(scorer)) for scorer, half in zip(scorers, order, strict=True)] for order in (halves, halves[::-1])
        )
        # A scorer with many parameters gets its thresholds from data that did not shape it; one with few may use everything twice.
        final = fit(data) if frugal else scorers[0]
        table = Table.build(*data.scores(final)) if frugal and final else other[0]
        for selector_name, selector in SELECTORS.items():
            value = _cross_validated(own if frugal else other, other if frugal else other[::-1], selector, goal)
            thresholds = selector.select(table, goal)
            if value is None or thresholds is None or final is None:
                continue
            if best is None or value > best.expected + _WORTH * abs(best.expected):
                best = Learned(final.event(*thresholds), value, f"{scorer_name}, {selector_name}")
                chosen, chosen_on = scorers[0], table
    assert best is not None and chosen is not None and chosen_on is not None, "some scorer fits any data"
    if not quick:
        best = replace(best, law=score_law(chosen_on, claim))
    if isinstance(claim, RDP | ZCDP):
        return replace(best, binned=_binned(chosen, halves[1], goal))
    return best


def _binned(scorer: Scorer, data: Training, goal: Goal) -> Binned | None:
    """Cells between quantiles of the score, with losses from data that did not shape the score."""
    table = Table.build(*data.scores(scorer))
    share = np.cumsum(table.ones + table.zeros)[:-1] / table.size
    cuts = np.unique(np.minimum(np.searchsorted(share, LEVELS), len(share) - 1)) if len(share) else np.empty(0, dtype=int)
    if len(cuts) == 0:
        return None
    counts = [np.add.reduceat(side, np.append(0, cuts + 1)) for side in (table.ones, table.zeros)]
    events = tuple(scorer.event(-np.inf, float(bound)) for bound in table.bounds[cuts])
    return train_binned(goal.claim, events, np.array(counts), goal.rounds, goal.alpha / 2)


def _cross_validated(chosen_on: Sequence[Table], judged_on: Sequence[Table], selector: Selector, goal: Goal) -> float | None:
    """Certificate expected at the test's size of thresholds chosen on one half and judged on the other."""
    right = wrong = size = 0.0
    directions = 1
    for own, held_out in zip(chosen_on, judged_on, strict=True):
        thresholds, curves = selector.select(own, goal), selector.curves(held_out)
        if thresholds is None or curves is None:
            return None
        low, high = thresholds
        (right1, wrong1), (right0, wrong0) = curves[0].rates(high), curves[1].rates(low)
        right, wrong = right + 0.25 * (right1 + right0), wrong + 0.25 * (wrong1 + wrong0)
        directions = max(directions, int(np.isfinite(low)) + int(np.isfinite(high)))
        size += held_out.size
    return float(goal.value(np.asarray(right), np.asarray(wrong), size, directions, selector.caution))
