"""Rehearsals: a measurement of the probability that audits of a mechanism refute its claim.

A rehearsal makes an audit's probes, low bits, pilot and training, with a separate seed, and ends
with the event that the audit would test. The rate of right guesses of this event is computed from
the mechanism's density on separate outputs: an output with loss L comes from D1 with probability 1
/ (1 + e^-L). The rates therefore have no winner's curse and little noise. Without a density, right
guesses are counted, and the rates are lowered by a part of their standard error. Each rehearsal
gives the power of the exact test at these rates. The mean over rehearsals also counts rehearsals
whose pilot picks another pair or whose event is poor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, ndtr, ndtri

from dpwitness.auditors.audit.conclude import Findings
from dpwitness.auditors.audit.options import validated_options
from dpwitness.auditors.audit.pilot import audit_low_bits, select_pair
from dpwitness.auditors.audit.power import error_of, event_power
from dpwitness.auditors.audit.probe import run_probes
from dpwitness.auditors.audit.runner import RoundRunner
from dpwitness.auditors.audit.train import train, training_outputs
from dpwitness.auditors.density.limit import BestEvent
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.outputs import Outputs, concatenate, encode
from dpwitness.auditors.workers.engine import Phase
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.capabilities import has_capability, log_density_at
from dpwitness.core.protocols.mechanism import FloatArray, WhiteBox

REPEATS = 8
# largest number of runs of a rehearsed audit: learning from more outputs takes too long
MOST = 400_000
_SEED = 7_000_003
_EXTREME = 1e-12


class Rehearsals:
    """Rehearsals of the audits of a mechanism, for any number of runs."""

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
        while trials <= MOST:
            found = self.chance(trials)
            if found >= power:
                return trials
            short = (float(ndtri(power)) + 3) / max(float(ndtri(max(found, _EXTREME))) + 3, 1.0)
            trials = math.ceil(trials * min(max(short**2, 1.15), 2.0))
            unit = int(10 ** max(0, len(str(trials)) - 3))
            trials = -(-trials // unit) * unit
        return None

    def _chance_of_rehearsal(self, trials: int, seed: int) -> float:
        """Return the probability of refuting the claim from one rehearsal."""
        stages = rehearsal(
            self.mechanism,
            claim=self.claim,
            pairs=self.pairs,
            trials=trials,
            confidence=self.confidence,
            seed=seed,
            executor=self.executor,
        )
        total, critical, drift = (
            sum(rounds for _, _, rounds in stages),
            -float(ndtri(self.error)),
            0.0,
        )
        for pair, event, rounds in stages:  # a combined test weights each stage by its rounds
            found = event_power(self._rates(pair, event), self.claim, int(rounds), self.error)
            drift += math.sqrt(rounds / total) * (
                float(ndtri(min(max(found, _EXTREME), 1 - _EXTREME))) + critical
            )
        return float(ndtr(drift - critical))

    def _rates(self, pair: Pair, event: Event) -> BestEvent:
        """Return the event's rates of right and wrong guesses on separate outputs."""
        outputs, probability_of_d1 = self._outputs(pair)
        guess = event.guess(outputs)
        right = float(
            np.mean(
                np.where(guess > 0, probability_of_d1, 0.0)
                + np.where(guess < 0, 1 - probability_of_d1, 0.0)
            )
        )
        made = float(np.mean(guess != 0))
        if not has_capability(self.mechanism, WhiteBox) and made > 0:
            # counted rates are lowered by half a standard error
            right -= 0.5 * math.sqrt(right * (made - right) / made / len(outputs))
        return BestEvent(
            right, made - right, event.directions, 1.0 if right > made - right else 0.0
        )

    def _outputs(self, pair: Pair) -> tuple[Outputs, FloatArray]:
        """Return separate outputs of both datasets, and for each output the probability that D1
        produced it.

        The probability follows from the density. Without a density it is 1 or 0, by the dataset.
        """
        if id(pair) not in self._output_cache:
            has_density = has_capability(self.mechanism, WhiteBox)
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


def rehearsal(
    mechanism: Any,
    *,
    claim: Claim,
    pairs: Sequence[Pair],
    trials: int,
    confidence: float,
    seed: int,
    executor: Executor | None = None,
) -> list[tuple[Pair, Event, float]]:
    """Return the planned test stages of an audit: pair, event and number of rounds of each. No test
    rounds are run.
    """
    options = replace(
        validated_options(mechanism, claim, trials, confidence, seed, executor, None), bits=True
    )
    with closing(RoundRunner(options)) as runner:
        options, probed = run_probes(runner, options, pairs)
        if options.bits:
            audit_low_bits(runner, options, probed)
        selected, outputs, _ = select_pair(runner, options, probed)
        pair = selected.pair
        options = Findings(options).on(pair, runner).options
        training = train(runner, options, selected, outputs)
        first, event, rounds = training.first_test, training.learned.event, training.rounds
        if not first:
            return [(pair, event, rounds)]
        better = training.better_event(
            options, [training_outputs(runner, options, selected, Phase.FIRST_TEST, first)]
        )
        return [(pair, event, first), (pair, better.event, rounds - first)]
