"""Power of an audit with a given number of runs, if the law of the privacy loss is known.

The shares of the budget are the audit's (`options.py`): probes, low bits, a pilot if there
are several pairs, and training. The event is the best event that training can find. Its power is
the power of its exact binomial test at the error that remains for the last look. Earlier looks are
not counted, and neither is the training value of pilots. Learning an event costs standard errors,
which were measured over audits of the shapes: `LEARNING` if outputs form a continuum. If outputs
are few, the cost falls with the root of the training rounds (few outputs mislead about the better
of two directions). The cells of RDP and zCDP cost the value in `detection`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from dpwitness.auditors.audit.options import (
    EARLY_ALPHA,
    PILOT_SHARE,
    SCREEN_SHARE,
    bit_rounds,
    is_staged,
    probe_chunk,
    training_rounds,
    tried_pairs,
)
from dpwitness.auditors.density.limit import BestEvent, best_event
from dpwitness.auditors.events.detectable_violation import CELL_RELEARNING_LOSS
from dpwitness.auditors.events.divergence import CELL_QUANTILES, expected_renyi_bound
from dpwitness.auditors.statistics.certificate import (
    allowed,
    clopper_pearson_lower,
    frequency_error,
)
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.claims import Claim

LEARNING = 0.4  # cost of learning an event, in standard errors
LEARNING_FEW = 12.0  # cost with few distinct outputs, times the root of the training rounds
FEW = 16  # number of distinct outputs that need no model
_MIN_OUTPUTS = 3.0  # smallest number of training outputs in an event, as in `posterior.Table`
_GUESS_QUANTILES = ndtri((np.arange(8) + 0.5) / 8)  # quantiles of the number of guesses


def split_budget(trials: int, pairs: int, floats: bool, *, easy: bool = False) -> tuple[int, int]:
    """Return the numbers of training rounds and of test rounds.

    With `easy`, the first of two events trains on fewer rounds. `chance` ignores this: the costs of
    learning were measured without it.

    Examples
    --------
    >>> split_budget(100_000, 1, True)
    (18502, 71268)
    """
    tried = min(pairs, max(1, tried_pairs(trials)))
    budget = (
        trials
        - 4 * probe_chunk(trials, tried) * tried
        - (int(SCREEN_SHARE * trials) if tried < pairs else 0)
    )
    budget -= bit_rounds(budget, tried) if floats else 0
    budget -= int(PILOT_SHARE * budget) if pairs > 1 else 0
    train = training_rounds(budget, 1, easy=easy and is_staged(budget, 1))
    return train, budget - train


def error_of(claim: Claim, alpha: float) -> float:
    """Return the error of the last look at the event; RDP and zCDP keep half of it for
    the cells.
    """
    return alpha * (1 - EARLY_ALPHA) / (2 if claim.bounds_renyi else 1)


def chance(
    law: LossLaw, claim: Claim, trials: int, alpha: float, *, pairs: int = 1, floats: bool = True
) -> float:
    """Return the probability that an audit with `trials` runs refutes the claim on a pair with this
    law.

    The pilot over `pairs` is assumed to pick this pair. With `floats`, outputs have low bits, which
    take a share of the runs.
    """
    train, rounds = split_budget(trials, pairs, floats)
    few = len(law.p) <= FEW
    error = error_of(claim, alpha)
    best = best_event(law if few else _merge_rare_atoms(law, train), claim, rounds, error)
    cost = LEARNING_FEW / math.sqrt(max(train, 1)) if few else LEARNING
    found = float(ndtr(ndtri(event_power(best, claim, rounds, error)) - cost))
    return (
        max(found, _chance_of_cells(law, claim, rounds, alpha / 2)) if claim.bounds_renyi else found
    )


def _merge_rare_atoms(law: LossLaw, train: int) -> LossLaw:
    """Return the law with its rarest atoms merged at both ends, where training would see too few
    outputs.
    """
    mass = train * (law.p + law.q) / 2
    low = int(np.searchsorted(np.cumsum(mass), _MIN_OUTPUTS))
    high = len(mass) - 1 - int(np.searchsorted(np.cumsum(mass[::-1]), _MIN_OUTPUTS))
    if low >= high:
        return law
    starts = np.concatenate([[0], np.arange(low + 1, high + 1)])
    p, q = (np.add.reduceat(side, starts) for side in (law.p, law.q))
    with np.errstate(divide="ignore"):
        loss = np.log(p) - np.log(q)
    return LossLaw(loss, p, q)


def event_power(best: BestEvent, claim: Claim, rounds: int, error: float) -> float:
    """Return the power of the exact test of an event, averaged over the number of rounds in which
    the event guesses.
    """
    made = best.right + best.wrong
    if best.value <= 0:
        return 0.0
    gamma = float(frequency_error(claim, error))
    total = 0.0
    for size in np.clip(
        np.rint(rounds * made + _GUESS_QUANTILES * math.sqrt(max(rounds * made * (1 - made), 0.0))),
        0,
        rounds,
    ):
        frequency = 1.0 if gamma == 0 else float(clopper_pearson_lower(size, rounds, gamma))
        most = allowed(claim, claim.parameter, frequency, best.directions) if frequency > 0 else 1.0
        if most < 1:
            total += float(binom.sf(binom.isf(error - gamma, size, most), size, best.right / made))
    return total / len(_GUESS_QUANTILES)


def _chance_of_cells(law: LossLaw, claim: Claim, rounds: int, error: float) -> float:
    """Return the power of the binned form: the probability of the deviations at which it still
    refutes the claim.
    """
    share = np.cumsum(law.p + law.q) / np.sum(law.p + law.q)
    cuts = np.unique(np.searchsorted(share, CELL_QUANTILES))
    starts = np.append(0, cuts[(cuts > 0) & (cuts < len(share))])
    p, q = (np.add.reduceat(side, starts) for side in (law.p, law.q))
    if expected_renyi_bound(claim, p, q, rounds, error) <= claim.parameter:
        return 0.0
    low, high = 0.0, 20.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high)
            if expected_renyi_bound(claim, p, q, rounds, error, middle) > claim.parameter
            else (low, middle)
        )
    return float(ndtr(low * math.sqrt(2) - CELL_RELEARNING_LOSS))
