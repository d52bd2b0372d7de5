"""Oracle with the training data of an audit: what the best learner could certify if it knew the
losses, but not their outputs.

The audit's stages are simulated with the known law of the loss: training, and a first test whose
outputs train the second event. If there are few atoms, the oracle knows which losses occur, but not
which output has which: the prior of each output's loss is uniform over them. Otherwise it knows the
order of all outputs by their loss, and chooses thresholds from the training counts. Neither is
available to an audit. Where an audit certifies as much as this oracle, only more runs help.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit

from dpwitness.auditors.audit.options import EARLY_ALPHA, RARE_GUESSES, is_staged, training_rounds
from dpwitness.auditors.events.posterior import (
    CertificateGoal,
    PosteriorDraws,
    ScoreTable,
    direct_choice,
    draw_shares,
    validated_choice,
)
from dpwitness.auditors.events.scorers import MAX_PLAIN_ATOMS
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.claims import Claim
from dpwitness.core.protocols.mechanism import FloatArray

FEW_ATOMS = 64  # largest number of atoms whose order is not known
_Guess = NDArray[np.float64]  # guess of the event at each atom: 1, 0 or -1


def learning_oracle(
    law: LossLaw, claim: Claim, trials: int, alpha: float, rng: Generator, width: int = 1
) -> float:
    """Return the bound that one simulated audit of this oracle certifies; outputs have `width`
    numbers.
    """
    masses = np.array([law.p / law.p.sum(), law.q / law.q.sum()])
    staged, error = is_staged(trials, width), alpha * (1 - EARLY_ALPHA)
    wanted = training_rounds(
        trials, width, easy=staged and (width == 1 or len(law.loss) <= MAX_PLAIN_ATOMS)
    )
    first = 2 * training_rounds(trials, width) - wanted
    counts, rounds = _drawn(masses, wanted, rng), trials - wanted
    goal = CertificateGoal(claim, error, rounds)
    guess, parts = _learned_guess(law, counts, goal, rng), list[Part]()
    if staged or counts[:, guess != 0].sum() < RARE_GUESSES:
        tested = _drawn(masses, first, rng)
        parts.append(Part(_tally(guess, tested), math.sqrt(first / rounds)))
        guess, rounds = _learned_guess(law, counts + tested, goal, rng), rounds - first
    parts.append(Part(_tally(guess, _drawn(masses, rounds, rng))))
    return combined_bound(claim, parts, error)


def _drawn(masses: FloatArray, rounds: int, rng: Generator) -> NDArray[np.int64]:
    """Return the counts of the atoms on D1 and on D0 in coin-flip rounds."""
    ones = int(rng.binomial(rounds, 0.5))
    return np.array(
        [rng.multinomial(n, mass) for n, mass in zip((ones, rounds - ones), masses, strict=True)]
    )


def _tally(guess: _Guess, counts: NDArray[np.int64]) -> Tally:
    """Return the counts of the event."""
    right = counts[0, guess > 0].sum() + counts[1, guess < 0].sum()
    made = counts[:, guess != 0].sum()
    return Tally(
        int(right), int(made - right), int(counts.sum()), max(1, len(np.unique(guess[guess != 0])))
    )


def _learned_guess(
    law: LossLaw, counts: NDArray[np.int64], goal: CertificateGoal, rng: Generator
) -> _Guess:
    """Return the guess at each atom that the training counts choose."""
    guess, seen = np.zeros(len(law.loss)), np.flatnonzero(counts.sum(axis=0))
    if len(law.loss) <= FEW_ATOMS:
        order, draws = _drawn_atoms(law, counts[:, seen], goal, rng)
        choice, _ = direct_choice(lambda _: (order, draws), goal)
        ones, zeros = order[choice.upper :], order[: choice.lower]
        guess[seen[ones]], guess[seen[zeros]] = 1.0, -1.0
        return guess
    label = np.repeat([True, False], counts.sum(axis=1))
    place = np.concatenate([np.repeat(np.arange(len(guess)), side) for side in counts])
    mixed = rng.permutation(len(place))
    label, place = label[mixed], place[mixed]
    finite = law.loss[np.isfinite(law.loss)]
    score = np.clip(law.loss, finite.min(initial=0.0) - 1, finite.max(initial=0.0) + 1)
    table = ScoreTable.build(score[place], label)
    cells = np.arange(len(table.total))

    def draw(which: int | None) -> tuple[NDArray[np.intp], PosteriorDraws]:
        part = table.half(label, which)
        return cells, PosteriorDraws.of(part.total, draw_shares(part, goal, rng), rng)

    choice, _ = validated_choice(draw, goal)
    guess[score > table.threshold(choice.upper)] = 1.0
    guess[score <= table.threshold(choice.lower)] = -1.0
    return guess


def _drawn_atoms(
    law: LossLaw, counts: NDArray[np.int64], goal: CertificateGoal, rng: Generator
) -> tuple[NDArray[np.intp], PosteriorDraws]:
    """Return the order of the atoms by their expected share of D1, and draws of their masses, if
    each atom has one of the law's losses.
    """
    share = np.clip(expit(law.loss), 1e-12, 1 - 1e-12)
    log_weight = counts[0][:, None] * np.log(share) + counts[1][:, None] * np.log1p(-share)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    order = np.argsort(weight @ share, kind="stable")
    cumulative = np.cumsum(weight[order], axis=1)
    uniform = rng.random((8 * goal.thresholds[0], len(order), 1))
    drawn = np.minimum((uniform > cumulative).sum(axis=2), len(share) - 1)
    return order, PosteriorDraws.of(counts.sum(axis=0)[order].astype(float), share[drawn], rng)
