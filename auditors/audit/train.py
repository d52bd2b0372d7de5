"""Stage 3 of an audit, training: outputs of a pair, from which an event is learned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpwitness.auditors.audit.options import (
    EARLY_ALPHA,
    EARLY_LOOK_ROUNDS,
    LOOK_ALPHA_SHARE,
    MAX_STAGED_BUDGET,
    MIN_FIRST_TEST_ROUNDS,
    MIN_RUNS_PER_PAIR,
    PROBE,
    RARE_GUESSES,
    TRAIN_ROUNDS,
    AuditOptions,
    chunk_size,
    is_staged,
    training_rounds,
)
from dpwitness.auditors.audit.probe import ProbedPair
from dpwitness.auditors.audit.runner import RoundRunner
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.learning import Learned, learn, learn_simple
from dpwitness.auditors.events.outputs import (
    Outputs,
    concatenate,
    opaque_type_notes,
    row_keys,
    unrepeated_text_notes,
)
from dpwitness.auditors.events.scorers import counts_suffice
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.workers.engine import Phase, Segment
from dpwitness.auditors.workers.environment_errors import check_imports
from dpwitness.auditors.workers.statefulness import check_training
from dpwitness.core.claims import Claim

BothSides = tuple[Outputs, Outputs]  # outputs on (D1, D0), without batches that raised

# share of the claim's parameter that an event must be expected to certify for its test to count
_LEAST_EXPECTED = 0.01


@dataclass(frozen=True, slots=True)
class Training:
    """First event of a pair, the outputs that trained the event, and the number of remaining
    rounds.

    The first `first_test` of these rounds also train a better event; 0 if only one event is tested.
    `weight` is the weight of their test, and `looks` holds the share of alpha for the look at their
    end.
    """

    learned: Learned
    outputs: tuple[BothSides, ...]
    rounds: int
    first_test: int
    weight: float = 1.0
    looks: dict[float, float] = field(default_factory=dict)

    def better_event(self, options: AuditOptions, more: Sequence[BothSides]) -> Learned:
        """Return the event learned from all outputs so far and those of the first test.

        The certificate combines both tests, so the event is chosen for the rounds of both: it may
        be as rare as in a single test of them.
        """
        error, sides = options.alpha * (1 - EARLY_ALPHA), both_sides([*self.outputs, *more])
        return learn(
            *sides,
            options.claim,
            alpha=error,
            rounds=self.rounds,
            near=options.near,
            shift=options.shift,
            earlier=self.learned,
        )


def train(
    runner: RoundRunner, options: AuditOptions, probed: ProbedPair, known: Sequence[BothSides]
) -> Training:
    """Train the first event on a share of the remaining runs and the known outputs of the pair.

    With a small budget, and if the event is so rare that few training outputs chose it, the test
    rounds of the first event also train a better event. Renyi rules (RDP, zCDP) are tested once,
    because they have no p-value at a parameter that is cheap to combine.
    """
    # probes of many pairs may take all planned runs; 256 can still train and test an event
    budget = max(runner.remaining, min(256, runner.planned // 2))
    plain, single = not options.claim.bounds_renyi, training_rounds(budget, options.width)
    staged = plain and is_staged(budget, options.width)
    easy = staged and runner.settled(f"easy {probed.index}", lambda: _is_easy(options, probed))
    wanted = training_rounds(budget, options.width, easy=easy)
    missing = wanted - sum(len(side) for sides in known for side in sides)
    if missing > PROBE or not known:
        early = EarlyLook(runner, options) if runner.shows_bounds and not staged else None
        known = [*known, training_outputs(runner, options, probed, Phase.TRAIN, missing, early)]
    if runner.planned < MIN_RUNS_PER_PAIR:  # an eighth of these runs or more is in the probe
        known = [probed.probe.sides, *known]
    rounds, error = budget - max(missing, 0), options.alpha * (1 - EARLY_ALPHA)
    sides = both_sides(known)
    runner.note(*opaque_type_notes(*sides), *unrepeated_text_notes(*sides))
    learned = learn(
        *sides, options.claim, alpha=error, rounds=rounds, near=options.near, shift=options.shift
    )
    few = sum(learned.rates) * sum(map(len, sides)) < RARE_GUESSES
    # more outputs improve the order of a model whose score is chance to more than 0.3 %
    few = few or (
        learned.chance > 0.003 and learned.expected > _LEAST_EXPECTED * options.claim.parameter
    )
    more = (
        plain
        and few
        and budget > MAX_STAGED_BUDGET
        and MIN_FIRST_TEST_ROUNDS <= wanted <= TRAIN_ROUNDS // 2
    )
    planned = 2 * single - wanted if staged or more else 0
    weight = first_weight(learned.expected, options.claim, planned / rounds)
    first, weight = runner.settled(f"plan {probed.index}", lambda: (planned, weight))
    return Training(
        learned, tuple(known), rounds, first, weight, {1.0: LOOK_ALPHA_SHARE} if staged else {}
    )


def first_weight(expected: float, claim: Claim, share: float) -> float:
    """Return the weight of the first of two tests, by its share of the rounds. It is small if the
    event is noise: the test only trains.
    """
    return math.sqrt(share * (0.01 if expected < _LEAST_EXPECTED * claim.parameter else 1.0))


def _is_easy(options: AuditOptions, probed: ProbedPair) -> bool:
    """Return whether few outputs teach the order of all: outputs are one number, or the probe has
    few different outputs.
    """
    outputs = concatenate(probed.probe.sides).matrix()
    return options.width == 1 or counts_suffice(len(np.unique(row_keys(outputs))), len(outputs))


class EarlyLook:
    """Look at the training rounds, which shows a bound before the event of the audit is learned.

    The first rounds train a simple event, the rounds after them test it. The look spends its own
    share of alpha. The result of the audit does not use the bound.
    """

    def __init__(self, runner: RoundRunner, options: AuditOptions) -> None:
        self._runner, self._claim = runner, options.claim
        self._alpha = (
            options.alpha * LOOK_ALPHA_SHARE * (0.5 if options.claim.bounds_renyi else 1.0)
        )
        self._parts: list[BothSides] = []
        self._event: Event | None = None
        self._tally = Tally(0, 0, 0)
        self._done = False

    def add(self, found: Segment, single: bool) -> None:
        """Add the next segment of a stage whose rounds are run one at a time if `single`."""
        if self._done:
            return
        # rounds were run again, after a batch raised: their outputs do not certify
        if found.single and not single:
            self._done = True
        elif self._event is None:
            self._parts += complete_sides(found)
            self._train()
        else:
            for sides in complete_sides(found):
                tables = [self._event.tabulate(side) for side in sides]
                self._tally += Segment([np.array(tables)]).tally(self._event.directions)
            if self._tally.rounds >= EARLY_LOOK_ROUNDS[1]:
                self._done = True
                self._runner.show_bound(
                    self._claim.symbol,
                    combined_bound(self._claim, [Part(self._tally)], self._alpha),
                )

    def _train(self) -> None:
        """Learn the event if there are enough outputs; there is no look if outputs have no simple
        event.
        """
        if sum(len(side) for sides in self._parts for side in sides) >= EARLY_LOOK_ROUNDS[0]:
            sides = both_sides(self._parts)
            self._event = learn_simple(
                *sides, self._claim, alpha=self._alpha, rounds=EARLY_LOOK_ROUNDS[1]
            )
            self._done = self._event is None
            if self._event is not None:
                self._tally = Tally(0, 0, 0, self._event.directions)


def training_outputs(
    runner: RoundRunner,
    options: AuditOptions,
    probed: ProbedPair,
    phase: int,
    rounds: int,
    early: EarlyLook | None = None,
) -> BothSides:
    """Run a training stage on a pair, check its randomness, and return its outputs."""
    chunk = min(chunk_size(rounds, options.width), max(rounds // 4, 16))
    stage = runner.stage(probed.pair, phase, probed.index, rounds, chunk)
    chunks: list[BothSides] = []
    for found in runner.outputs(stage):
        # no chunk is dropped, because `engine.outputs` loses no rounds
        chunks += complete_sides(found)
        if early is not None:
            early.add(found, stage.single)
        runner.record(stage, found)
    check_training(chunks)
    sides = both_sides(chunks)
    check_imports(sides)
    runner.seen.add(*sides)
    return sides


def complete_sides(found: Segment) -> list[BothSides]:
    """Return the stored outputs of a segment's chunks, without chunks in which a batch raised."""
    return [(one, zero) for one, zero in found.sides if one is not None and zero is not None]


def both_sides(parts: Sequence[BothSides]) -> BothSides:
    """Return the outputs of several batches as one pair of batches."""
    return concatenate([part[0] for part in parts]), concatenate([part[1] for part in parts])
