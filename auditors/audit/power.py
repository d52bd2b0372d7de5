"""Power of an audit with a given number of runs: computed if the law of the privacy loss is known,
and measured by rehearsals.

The shares of the budget are the audit's (`options.py`): probes, low bits, a pilot if there
are several pairs, and training. The event is the best event that training can find. Its power is
the power of its exact binomial test at the error that remains for the last look. Earlier looks are
not counted, and neither is the training value of pilots. Learning an event costs standard errors,
which were measured over audits of the shapes: `LEARNING` if outputs form a continuum. If outputs
are few, the cost falls with the root of the training rounds (few outputs mislead about the better
of two directions). The cells of RDP and zCDP cost the value in `detection`.

A **rehearsal** makes an audit's probes, low bits, pilot and training, with a separate seed, and
ends with the event that the audit would test. The rate of right guesses of this event is computed
from the mechanism's density on separate outputs: an output with loss L comes from D1 with
probability 1 / (1 + e^-L). The rates therefore have no winner's curse and little noise. Without a
density, right guesses are counted, and the rates are lowered by a part of their standard error.
Each rehearsal gives the power of the exact test at these rates. The mean over rehearsals also
counts rehearsals whose pilot picks another pair or whose event is poor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import closing
from typing import Any

import numpy as np
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom

from dpwitness.auditors.audit.conclude import Findings
from dpwitness.auditors.audit.options import (
    EARLY_ALPHA,
    PILOT_SHARE,
    SCREEN_SHARE,
    bit_rounds,
    is_staged,
    probe_chunk,
    training_rounds,
    tried_pairs,
    validated_options,
)
from dpwitness.auditors.audit.pair_choice import audit_low_bits, run_probes, select_pair
from dpwitness.auditors.audit.probe import train, training_outputs
from dpwitness.auditors.audit.sampler import Sampler
from dpwitness.auditors.density.limit import BestEvent, best_event
from dpwitness.auditors.events.event import cell_starts, expected_renyi_bound
from dpwitness.auditors.events.outputs import Outputs, concatenate, encode
from dpwitness.auditors.events.posterior import CELL_RELEARNING_LOSS
from dpwitness.auditors.statistics.certificate import (
    allowed,
    clopper_pearson_lower,
    frequency_error,
)
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.auditors.workers.rounds import Phase
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray, log_density_at

LEARNING = 0.4  # cost of learning an event, in standard errors
FEW = 16  # number of distinct outputs that need no model
_MIN_OUTPUTS = 3.0  # smallest number of training outputs in an event, as in `posterior.Table`
_GUESS_QUANTILES = ndtri((np.arange(8) + 0.5) / 8)  # quantiles of the number of guesses


def split_budget(trials: int, pairs: int, floats: bool, *, easy: bool = False) -> tuple[int, int]:
    """Return the numbers of training rounds and of test rounds.

    With `easy`, the first of the two events of a long audit trains on fewer rounds: its outputs are
    so simple that an event is learned quickly.

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
    """Return the error probability that an audit at error `alpha` leaves to its final analysis of
    the event. Claims of RDP and zCDP use half of this error for cells (ranges of the score).
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
    cost = 12.0 / math.sqrt(max(train, 1)) if few else LEARNING
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
    starts = cell_starts(share)
    p, q = (np.add.reduceat(side, starts) for side in (law.p, law.q))
    if expected_renyi_bound(claim, p, q, rounds, error) <= claim.parameter:
        return 0.0
    most, _ = bracket(
        lambda z: expected_renyi_bound(claim, p, q, rounds, error, z) > claim.parameter,
        0.0,
        20.0,
        12,
    )
    return float(ndtr(most * math.sqrt(2) - CELL_RELEARNING_LOSS))


REPEATS = 8
# largest number of runs of a rehearsed audit: learning from more outputs takes too long
MOST_REHEARSED = 400_000
_SEED = 7_000_003


def as_deviations(chance: float) -> float:
    """Return a probability as a number of standard deviations, clipped away from 0 and 1."""
    return float(ndtri(min(max(chance, 1e-12), 1 - 1e-12)))


class Rehearsals:
    """Estimated power of audits of a mechanism, for any number of runs: in a rehearsal, sampled
    outputs are used to train and test an event as an audit would.
    """

    def __init__(
        self,
        mechanism: Any,
        claim: Claim,
        pairs: Sequence[Pair],
        confidence: float,
        executor: Executor | None,
    ) -> None:
        self.mechanism, self.claim, self.pairs = mechanism, claim, pairs
        self.confidence, self.executor = confidence, executor
        self.error = error_of(claim, 1 - confidence)
        self.tried = max(1, len(pairs))  # number of pairs from which a pilot picks
        self._chances: dict[int, float] = {}
        self._output_cache: dict[int, tuple[Outputs, FloatArray]] = {}

    def chance(self, trials: int) -> float:
        """Return the probability that an audit with this number of runs refutes the claim, averaged
        over rehearsals.
        """
        if trials not in self._chances:
            self._chances[trials] = (
                sum(self._chance_of_rehearsal(trials, _SEED + number) for number in range(REPEATS))
                / REPEATS
            )
        return self._chances[trials]

    def needed(self, trials: int, power: float) -> int | None:
        """Return a number of runs, at least `trials`, that refutes with probability `power`; None
        if too large to rehearse.
        """
        while trials <= MOST_REHEARSED:
            found = self.chance(trials)
            if found >= power:
                return trials
            short = (float(ndtri(power)) + 3) / max(as_deviations(found) + 3, 1.0)
            trials = math.ceil(trials * min(max(short**2, 1.15), 2.0))
            unit = int(10 ** max(0, len(str(trials)) - 3))
            trials = -(-trials // unit) * unit
        return None

    def _chance_of_rehearsal(self, trials: int, seed: int) -> float:
        """Return the probability of refuting the claim from one rehearsal, which ends with the
        events and the numbers of rounds of an audit's test stages. No test rounds are run.
        """
        options = validated_options(
            self.mechanism,
            self.claim,
            trials,
            self.confidence,
            seed,
            self.executor,
            None,
            bits=True,
        )
        with closing(Sampler(options)) as sampler:
            options, probed = run_probes(sampler, options, self.pairs)
            if options.bits:
                audit_low_bits(sampler, options, probed)
            selected, outputs, _ = select_pair(sampler, options, probed)
            options = Findings(options).on(selected.pair, sampler).options
            training = train(sampler, options, selected, outputs)
            first, rounds = training.first_test, training.rounds
            stages = [(training.learned.event, first or rounds)]
            if first:
                more = training_outputs(sampler, options, selected, Phase.FIRST_TEST, first)
                better = training.better_event(options, [more])
                stages.append((better.event, rounds - first))
        critical, drift = -float(ndtri(self.error)), 0.0
        for event, size in stages:  # a combined test weights each stage by its rounds
            # the event's rates of right and wrong guesses on separate outputs
            separate, probability_of_d1 = self._outputs(selected.pair)
            guess = event.guess(separate)
            right = float(
                np.mean(
                    np.where(guess > 0, probability_of_d1, 0.0)
                    + np.where(guess < 0, 1 - probability_of_d1, 0.0)
                )
            )
            made = float(np.mean(guess != 0))
            if not hasattr(self.mechanism, "log_density") and made > 0:
                # counted rates are lowered by half a standard error
                right -= 0.5 * math.sqrt(right * (made - right) / made / len(separate))
            value = 1.0 if right > made - right else 0.0
            rates = BestEvent(right, made - right, event.directions, value)
            found = event_power(rates, self.claim, size, self.error)
            drift += math.sqrt(size / rounds) * (as_deviations(found) + critical)
        return float(ndtr(drift - critical))

    def _outputs(self, pair: Pair) -> tuple[Outputs, FloatArray]:
        """Return separate outputs of both datasets, and for each output the probability that D1
        produced it.

        The probability follows from the density. Without a density it is 1 or 0, by the dataset.
        """
        if id(pair) not in self._output_cache:
            has_density = hasattr(self.mechanism, "log_density")
            size, rng = 4096 if has_density else 2**14, np.random.default_rng(_SEED)
            run = getattr(self.mechanism, "sample", self.mechanism)
            raw = [run(dataset, size, rng) for dataset in (pair.d1, pair.d0)]
            side = np.repeat([1.0, 0.0], size)
            if has_density:
                loss = [
                    log_density_at(self.mechanism, each, pair.d1)
                    - log_density_at(self.mechanism, each, pair.d0)
                    for each in raw
                ]
                side = expit(np.nan_to_num(np.concatenate(loss), nan=0.0))
            self._output_cache[id(pair)] = concatenate([encode(each, size) for each in raw]), side
        return self._output_cache[id(pair)]
