"""Stage 2 of an audit, the choice of a pair: a pilot ranks the pairs, once for low bits and once
for the values of outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpwitness.auditors.audit.options import (
    PILOT_SHARE,
    SHORT_PAIRS,
    TRAIN_VALUES,
    AuditOptions,
    bit_rounds,
    chunk_size,
)
from dpwitness.auditors.audit.probe import ProbedPair
from dpwitness.auditors.audit.runner import RoundRunner
from dpwitness.auditors.audit.train import BothSides, both_sides, training_outputs
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.learning import expected_certificate
from dpwitness.auditors.events.simple_events import learn_float_bits
from dpwitness.auditors.statistics.certificate import Tally, certified
from dpwitness.auditors.witnesses.audit_result import BitLevel, PairScore
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.engine import Phase

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
