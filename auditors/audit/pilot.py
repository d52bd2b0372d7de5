"""Stages 2 and 3 of an audit. The choice of a pair: a pilot ranks the pairs, once for low bits and
once for the values of outputs. Training: outputs of a pair, from which an event is learned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpwitness.auditors.audit.options import (
    EARLY_ALPHA,
    EARLY_LOOK_ROUNDS,
    LOOK_ALPHA_SHARE,
    MAX_STAGED_BUDGET,
    MIN_FIRST_TEST_ROUNDS,
    MIN_RUNS_PER_PAIR,
    PILOT_SHARE,
    PROBE,
    RARE_GUESSES,
    SHORT_PAIRS,
    TRAIN_ROUNDS,
    TRAIN_VALUES,
    AuditOptions,
    bit_rounds,
    chunk_size,
    is_staged,
    training_rounds,
)
from dpwitness.auditors.audit.probe import ProbedPair
from dpwitness.auditors.audit.result import BitLevel, PairScore
from dpwitness.auditors.audit.runner import RoundRunner
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.learning import (
    Learned,
    expected_certificate,
    learn,
    learn_float_bits,
    learn_simple,
)
from dpwitness.auditors.events.outputs import (
    Outputs,
    concatenate,
    opaque_type_notes,
    row_keys,
    unrepeated_text_notes,
)
from dpwitness.auditors.events.scorers import counts_suffice
from dpwitness.auditors.statistics.certificate import Part, Tally, certified
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.verdicts import Verdict
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


_MIN_LOOK_ROUNDS = 200
_FINALISTS = 5  # number of pairs in the second look, unless the first look has few rounds
# rounds per pair in the first look below which the better half has a second look, and of many pairs
# a third
_FEW_ROUNDS = 1000

Known = Mapping[int, Sequence[BothSides]]  # outputs of each pair
_Judge = Callable[[BothSides, ProbedPair], tuple[float, Any]]  # returns a score and a by-product


def select_pair(
    runner: RoundRunner,
    options: AuditOptions,
    pairs: Sequence[ProbedPair],
    head: Sequence[int] = (),
    known: Known | None = None,
) -> tuple[ProbedPair, list[BothSides], tuple[PairScore, ...]]:
    """Return the pair on which a learned event is expected to certify the most, its pilot outputs,
    and the scores of all pairs.

    Only one pair is tested: if other pairs come close, dividing the rounds among them would cost
    more than choosing one. Pairs number `head`, which a trace points to, are in every look. Outputs
    that are `known` from the low-bit audit are compared too.
    """
    if len(pairs) == 1:
        return pairs[0], [], ()
    goal = int((1 - PILOT_SHARE) * runner.planned)

    def score_pair(sides: BothSides, probed: ProbedPair) -> tuple[float, BothSides]:
        """Return the expected certificate on a pair, relative to the claim there, and the pair's
        outputs.
        """
        claim = options.claim.on(probed.pair)
        expected = expected_certificate(
            *sides, claim, alpha=options.alpha, rounds=goal, suspect=probed.index in head
        )
        # relative to the claim's parameter on this pair, which may differ between pairs
        return expected * (options.claim.parameter / claim.parameter), sides

    budget = int(PILOT_SHARE * runner.remaining)
    phases = Phase.PILOT, Phase.SECOND_PILOT, Phase.THIRD_PILOT
    scores, outputs, _ = _rank(runner, options, pairs, phases, budget, score_pair, head, known)
    best = next(iter(scores))
    return (
        pairs[best],
        [outputs],
        tuple(PairScore(pairs[i].pair, score, i == best) for i, score in scores.items()),
    )


def audit_low_bits(
    runner: RoundRunner, options: AuditOptions, pairs: Sequence[ProbedPair]
) -> tuple[BitLevel, Known]:
    """Return the bit-level verdict on the pair with the best float-bit event: half of the budget
    trains, half tests.

    The second value holds the outputs that trained events, for pairs with few of them.
    """
    claim, rounds = options.claim.at_delta, bit_rounds(runner.remaining, len(pairs)) // 2

    def score_pair(sides: BothSides, _: ProbedPair) -> tuple[float, Event | None]:
        """Return the expected certificate of the best float-bit event on a pair, and the event."""
        return learn_float_bits(
            *sides, claim, alpha=options.alpha, rounds=rounds, first=options.score_columns
        ) or (-math.inf, None)

    phases = Phase.BIT_TRAIN, Phase.SECOND_BIT_TRAIN, Phase.THIRD_BIT_TRAIN
    scores, event, known = _rank(runner, options, pairs, phases, rounds, score_pair)
    if event is None:
        return BitLevel(Verdict.NOT_REFUTED, 0.0), known
    index = next(iter(scores))
    pair = pairs[index].pair
    event = runner.fixed(Phase.BIT_TEST, index, event)
    stage = runner.stage(pair, Phase.BIT_TEST, index, rounds, chunk_size(rounds, options.width))
    tally, lost = Tally(0, 0, 0, event.directions), 0
    for found in runner.counts(stage, [event]):
        tally += found.tally(event.directions)
        lost += found.lost
        runner.record(stage, found)
    runner.check_calls(stage)
    counts = (tally.correct, tally.wrong, tally.rounds, options.alpha, tally.directions, lost)
    promise = options.claim.on(pair)
    refuted = float(certified(promise, *counts)) > promise.parameter
    verdict = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    return BitLevel(
        verdict, float(certified(claim, *counts)), pair, event, tally, options.alpha, lost
    ), known


def _rank(
    runner: RoundRunner,
    options: AuditOptions,
    pairs: Sequence[ProbedPair],
    phases: tuple[int, int, int],
    budget: int,
    score_pair: _Judge,
    head: Sequence[int] = (),
    before: Known | None = None,
) -> tuple[dict[int, float], Any, Known]:
    """Compare pairs in up to three looks; return the score of each pair, best first, and the second
    value of `score_pair` on the best pair.

    The first look includes all pairs for which the budget is enough, first pairs first. The others
    take more rounds on the best pairs, whose outputs of all looks are compared, with those of an
    audit `before`. There is a third look only if there are many pairs and few rounds. The last
    value holds the outputs of all pairs if the first look had few rounds, otherwise none.
    """
    scores: dict[int, float] = {}
    known, every = dict(before or {}), dict[int, Sequence[BothSides]]()
    # 1.75 looks of a pair in the mean: half of the pairs have a second look, and a quarter a third
    room = max(SHORT_PAIRS, int(budget / (1.75 * _MIN_LOOK_ROUNDS)))
    left, found = [k for k in range(len(pairs)) if k < room or k in head], None
    few = budget / len(phases) / len(left) < _FEW_ROUNDS
    first, end = int(len(left) <= _FINALISTS), 3 if few and len(left) > 2 * _FINALISTS else 2
    # most rounds in the first look at every pair, and in later looks at the best pairs
    looks = list(zip(phases, (2**13, 2**16, 2**16), strict=True))[first:end]
    for phase, most in looks:
        rounds = int(
            max(
                min(budget / len(looks) / len(left), most, TRAIN_VALUES // options.width),
                _MIN_LOOK_ROUNDS,
            )
        )
        finalists = max(_FINALISTS, -(-len(left) // 2)) if rounds < _FEW_ROUNDS else _FINALISTS
        best = -math.inf
        for index in left:
            with runner.timing(index):
                sides = training_outputs(runner, options, pairs[index], phase, rounds)
            known[index] = [*known.get(index, ()), sides]
            if rounds < _FEW_ROUNDS:
                every[index] = known[index]
            scores[index], here = score_pair(both_sides(known[index]), pairs[index])
            kept = sorted(scores, key=lambda i: -scores[i])[:finalists]
            known = {
                i: sides for i, sides in known.items() if i in kept or i in head or i not in scores
            }
            if scores[index] > best:
                best, found = scores[index], here
        ranked = sorted(left, key=lambda i: -scores[i])
        left = ranked[:finalists] + [i for i in ranked[finalists:] if i in head]
    order = left + sorted(set(scores) - set(left), key=lambda i: -scores[i])
    return {i: scores[i] for i in order}, found, every
