"""How likely an audit of so many runs is to refute a claim, where the law of the privacy loss is known.

The shares of the budget are the audit's own (`black_box/stages.py`): probes, low bits, a pilot where there are several pairs, training.
The event is the best one that training sees, and its chance is that of its exact binomial test at the error left to the last look.
Earlier looks are not counted on, nor that pilots train too. That an event is learned costs standard errors, which were measured over audits
of the shapes: `LEARNING` where outputs form a continuum; where they are few, a number that falls with the root of what was trained on (few
outputs mislead about which of two directions pays). The cells of RDP and zCDP cost what `detection` says.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from dpwitness.auditors.black_box.stages import EARLY_ALPHA, PILOT_SHARE, RUNS_A_PAIR, bit_rounds, probe_chunk, training_rounds
from dpwitness.auditors.events.detection import LEARNING_CELLS
from dpwitness.auditors.events.divergence import LEVELS, expected_binned
from dpwitness.auditors.loss.limit import Best, best_event
from dpwitness.auditors.statistics.certificate import SHARE_FOR_FREQUENCY, cp_lower
from dpwitness.auditors.statistics.combination import allowed
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.mechanisms.terms.notions import Claim

LEARNING = 0.4  # standard errors
LEARNING_FEW = 12.0  # over the root of the training rounds
FEW = 16  # outputs that need no model
_SEEN = 3.0  # training outputs that an event holds at least, as `posterior.Table` has it
_LUCK = ndtri((np.arange(8) + 0.5) / 8)  # of how often an event guesses


def budget_of(trials: int, pairs: int, floats: bool) -> tuple[int, int]:
    """Rounds that train and rounds that test.

    Examples
    --------
    >>> budget_of(100_000, 1, True)
    (18502, 71268)
    """
    pairs = min(pairs, max(1, trials // RUNS_A_PAIR))
    budget = trials - 4 * probe_chunk(trials, pairs) * pairs
    budget -= bit_rounds(budget, pairs) if floats else 0
    budget -= int(PILOT_SHARE * budget) if pairs > 1 else 0
    train = training_rounds(budget, 1)
    return train, budget - train


def error_of(claim: Claim, alpha: float) -> float:
    """Of the last look at the event; RDP and zCDP keep half of it for the cells."""
    return alpha * (1 - EARLY_ALPHA) / (2 if claim.bounds_renyi else 1)


def chance(law: LossLaw, claim: Claim, trials: int, alpha: float, *, pairs: int = 1, floats: bool = True) -> float:
    """Probability that an audit with so many runs refutes the claim on a pair with this law.

    Parameters
    ----------
    law : LossLaw
    claim : Claim
    trials : int
        Runs in all.
    alpha : float
        1 - confidence.
    pairs : int
        Among which a pilot picks: it is taken to pick this one.
    floats : bool
        Whether outputs have low bits, which take a share of the runs.
    """
    train, rounds = budget_of(trials, pairs, floats)
    few = len(law.p) <= FEW
    error = error_of(claim, alpha)
    best = best_event(law if few else _seen(law, train), claim, rounds, error)
    cost = LEARNING_FEW / math.sqrt(max(train, 1)) if few else LEARNING
    found = float(ndtr(ndtri(of_event(best, claim, rounds, error)) - cost))
    return max(found, _of_cells(law, claim, rounds, alpha / 2)) if claim.bounds_renyi else found


def _seen(law: LossLaw, train: int) -> LossLaw:
    """With the atoms at either end merged that too few training outputs would show."""
    mass = train * (law.p + law.q) / 2
    low = int(np.searchsorted(np.cumsum(mass), _SEEN))
    high = len(mass) - 1 - int(np.searchsorted(np.cumsum(mass[::-1]), _SEEN))
    if low >= high:
        return law
    starts = np.concatenate([[0], np.arange(low + 1, high + 1)])
    p, q = (np.add.reduceat(side, starts) for side in (law.p, law.q))
    with np.errstate(divide="ignore"):
        loss = np.log(p) - np.log(q)
    return LossLaw(loss, p, q)


def of_event(best: Best, claim: Claim, rounds: int, error: float) -> float:
    """Chance of the exact test, in the mean over how many rounds the event guesses."""
    made = best.right + best.wrong
    if best.value <= 0:
        return 0.0
    gamma = 0.0 if claim.is_pure else error * SHARE_FOR_FREQUENCY
    total = 0.0
    for size in np.clip(np.rint(rounds * made + _LUCK * math.sqrt(max(rounds * made * (1 - made), 0.0))), 0, rounds):
        frequency = 1.0 if gamma == 0 else float(cp_lower(size, rounds, gamma))
        most = allowed(claim, claim.parameter, frequency, best.directions) if frequency > 0 else 1.0
        if most < 1:
            total += float(binom.sf(binom.isf(error - gamma, size, most), size, best.right / made))
    return total / len(_LUCK)


def _of_cells(law: LossLaw, claim: Claim, rounds: int, error: float) -> float:
    """Chance of the binned form, from the luck against which it still refutes."""
    share = np.cumsum(law.p + law.q) / np.sum(law.p + law.q)
    cuts = np.unique(np.searchsorted(share, LEVELS))
    starts = np.append(0, cuts[(cuts > 0) & (cuts < len(share))])
    p, q = (np.add.reduceat(side, starts) for side in (law.p, law.q))
    if expected_binned(claim, p, q, rounds, error) <= claim.parameter:
        return 0.0
    low, high = 0.0, 20.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if expected_binned(claim, p, q, rounds, error, middle) > claim.parameter else (low, middle)
    return float(ndtr(low * math.sqrt(2) - LEARNING_CELLS))
