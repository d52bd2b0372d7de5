"""How likely the audits of one mechanism are to refute its claim: measured by rehearsals.

A rehearsal makes an audit's probes, low bits, pilot and training, with a seed of its own, and ends with the event that the audit would
test. How often this event guesses right is computed from the mechanism's density on separate outputs: given an output with loss L, the
output comes from D1 with probability 1 / (1 + e^-L). The rates therefore have no winner's curse and little noise. Without a
density they are counted, and lowered by a part of their standard error. Each rehearsal gives the
chance of the exact test at these rates. The mean of the chances also counts rehearsals whose pilot picks another pair or whose event is
poor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from scipy.special import expit, ndtr, ndtri

from dpwitness.auditors.black_box.audit import rehearsal
from dpwitness.auditors.events.outputs import Outputs, concatenate, encode
from dpwitness.auditors.events.rules import Event
from dpwitness.auditors.loss.limit import Best
from dpwitness.auditors.planning.power import error_of, of_event
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.powers import log_density_at, offers
from dpwitness.mechanisms.terms.protocol import FloatArray, WhiteBox

REPEATS = 8
MOST = 400_000  # runs of an audit that is rehearsed: learning from the outputs of more takes too long
_HELD_OUT, _COUNTED = 4096, 2**14  # outputs a side, with a density and without
_CAUTION = 0.5  # standard errors by which counted rates are lowered
_SEED = 7_000_003
_SURE = 1e-12


class Rehearsals:
    """Rehearsals of the audits of a mechanism, for any number of runs."""

    def __init__(self, mechanism: Any, claim: Claim, pairs: Sequence[Pair], confidence: float, executor: Executor | None) -> None:
        self.mechanism, self.claim, self.pairs = mechanism, claim, pairs
        self.confidence, self.executor = confidence, executor
        self.error = error_of(claim, 1 - confidence)
        self._chances: dict[int, float] = {}
        self._held: dict[int, tuple[Outputs, FloatArray]] = {}

    def chance(self, trials: int) -> float:
        """Return the probability that an audit with so many runs refutes the claim, in the mean over rehearsals."""
        if trials not in self._chances:
            self._chances[trials] = sum(self._once(trials, _SEED + number) for number in range(REPEATS)) / REPEATS
        return self._chances[trials]

    def needed(self, trials: int, power: float) -> int | None:
        """Return a number of runs with this chance, at least `trials`; None if it is more than can be rehearsed."""
        while trials <= MOST:
            found = self.chance(trials)
            if found >= power:
                return trials
            short = (float(ndtri(power)) + 3) / max(float(ndtri(max(found, _SURE))) + 3, 1.0)
            trials = math.ceil(trials * min(max(short**2, 1.15), 2.0))
            unit = int(10 ** max(0, len(str(trials)) - 3))
            trials = -(-trials // unit) * unit
        return None

    def _once(self, trials: int, seed: int) -> float:
        stages = rehearsal(
            self.mechanism, claim=self.claim, pairs=self.pairs, trials=trials, confidence=self.confidence, seed=seed, executor=self.executor
        )
        total, critical, drift = sum(rounds for _, _, rounds in stages), -float(ndtri(self.error)), 0.0
        for pair, event, rounds in stages:  # of a combined test: each stage speaks with its weight
            found = of_event(self._rates(pair, event), self.claim, int(rounds), self.error)
            drift += math.sqrt(rounds / total) * (float(ndtri(min(max(found, _SURE), 1 - _SURE))) + critical)
        return float(ndtr(drift - critical))

    def _rates(self, pair: Pair, event: Event) -> Best:
        outputs, one = self._outputs(pair)
        guess = event.guess(outputs)
        right = float(np.mean(np.where(guess > 0, one, 0.0) + np.where(guess < 0, 1 - one, 0.0)))
        made = float(np.mean(guess != 0))
        if not offers(self.mechanism, WhiteBox) and made > 0:
            right -= _CAUTION * math.sqrt(right * (made - right) / made / len(outputs))
        return Best(right, made - right, event.directions, 1.0 if right > made - right else 0.0)

    def _outputs(self, pair: Pair) -> tuple[Outputs, FloatArray]:
        """Outputs of both sides that train nothing, and the probability that each comes from D1: from the density, or 1 and 0."""
        if id(pair) not in self._held:
            dense = offers(self.mechanism, WhiteBox)
            size, rng = _HELD_OUT if dense else _COUNTED, np.random.default_rng(_SEED)
            run = getattr(self.mechanism, "sample", self.mechanism)
            raw = [run(dataset, size, rng) for dataset in (pair.d1, pair.d0)]
            side = np.repeat([1.0, 0.0], size)
            if dense:
                loss = [log_density_at(self.mechanism, each, pair.d1) - log_density_at(self.mechanism, each, pair.d0) for each in raw]
                side = expit(np.nan_to_num(np.concatenate(loss), nan=0.0))
            self._held[id(pair)] = concatenate([encode(each, size) for each in raw]), side
        return self._held[id(pair)]
