"""The stages of a black-box audit: probe, low bits, pilot over pairs, training of an event, tests of it that may train a better one."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.black_box.course import PROBE, Course, UnderTest
from dpwitness.auditors.black_box.probe import Probed, probe_stage, replay_stage, told_of
from dpwitness.auditors.events.bits import floating, learn_lattice
from dpwitness.auditors.events.divergence import Binned, binned_bound
from dpwitness.auditors.events.learning import Learned, expected_certificate, learn
from dpwitness.auditors.events.outputs import Outputs, concatenate
from dpwitness.auditors.events.picture import picture
from dpwitness.auditors.events.reading import columns_of
from dpwitness.auditors.events.rules import Event
from dpwitness.auditors.results.audit_result import BitLevel, PairScore
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.running.engine import Phase, Segment, Stage, collect, counts, outputs, require_agreement
from dpwitness.auditors.running.health import check_drift, check_training, digest
from dpwitness.auditors.statistics.certificate import Tally, certified
from dpwitness.auditors.statistics.combination import Part, combined, combined_p_value
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import AlwaysRaises
from dpwitness.mechanisms.terms.validation import InvalidArgument

BothSides = tuple[Outputs, Outputs]  # of D1 and of D0; of `engine.Sides`, those on which no batch raised

LEAST_PROBE = 16  # where pairs are many and runs are few
PROBE_SHARE = 0.05  # of the runs, that probes may take before their chunks shrink
CHUNKS = 512  # in a stage, at least, where chunks need not be larger
LARGEST_CHUNK = 2**19  # rounds, where outputs are narrow
PILOT_SHARE = 0.2
TRAIN_SHARE = 0.3  # of few rounds; of more, a share that falls with the fourth root: events get better more slowly than tests
TRAIN_WHOLE = 20_000  # rounds of which that share is trained on
TRAIN_VALUES = 2**23  # numbers kept for training, at most
TRAIN_ROUNDS = 2**18
RUNS_A_PAIR = 1000  # at least: up to 700 go to its probe, bits and pilots
FIRST_LOOKS = (2**13, 2**16)  # rounds, at most, on every pair, and on each of the best
LEAST_LOOK = 200
FINALISTS = 5  # pairs of which a second look is taken
STAGED = 100_000  # rounds up to which an event is tested on rounds that train a better one; of more, learning twice would cost too much
_LATE = 2.0  # seconds that are waited for tasks whose answer came from another worker
LEAST_STAGE = 500  # rounds of such a test
BIT_SHARE = 0.1
BIT_ROUNDS = 2**16  # a leak of bits is gross by nature: more rounds would only slow the audit
PICTURED = 2**14  # rounds of a test whose outputs are drawn
LOOKS = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
EARLY_ALPHA = 0.05  # of alpha, for all looks but the last together: early looks are for gross violations
LOOK = EARLY_ALPHA / len(LOOKS)  # of alpha, for each: those before the last, and the one at the end of an earlier event's test
_SPENT = {look: LOOK if look < 1 else 1 - EARLY_ALPHA for look in LOOKS}


def probe_chunk(planned: int, pairs: int) -> int:
    """Rounds in a probe's chunk, of which four are run on each pair."""
    return max(LEAST_PROBE, min(PROBE, int(PROBE_SHARE / 4 * planned / pairs)))


def bit_rounds(budget: int, pairs: int) -> int:
    """Rounds that the low bits may take, where there are any."""
    return min(int(BIT_SHARE * budget), BIT_ROUNDS * min(pairs, 4))


def training_rounds(budget: int, width: int) -> int:
    """Rounds that train an event, of those that are left to train and test it."""
    share = TRAIN_SHARE * min(1.0, TRAIN_WHOLE / max(budget, 1)) ** 0.25
    return int(min(share * budget, TRAIN_ROUNDS, TRAIN_VALUES // width))


def search_and_test(state: Course, pairs: list[Pair]) -> None:
    """All stages: probes, low bits, the pilot where there are several pairs, and the test of those that it picks."""
    most = max(1, state.planned // RUNS_A_PAIR)
    if len(pairs) > most:
        state.notes.append(f"only the first {most} of {len(pairs)} pairs were tried: more need more trials")
        pairs = pairs[:most]
    state.probe = probe_chunk(state.planned, len(pairs))
    pairs, probes = _fit(state, pairs)
    width = max(width for width, _ in probes)
    budget = state.left
    if state.asked.bits and any(floats for _, floats in probes):
        spend = bit_rounds(budget, len(pairs))
        _test_bits(state, pairs, spend, width)
        budget = state.left
    best, seen = 0, list[BothSides]()
    if len(pairs) > 1:
        spend = int(PILOT_SHARE * budget)
        best, seen = _pilot(state, pairs, spend, width)
        budget = state.left
    state.hold_to(pairs[best])
    _test(state, pairs[best], best, seen, budget, width)


def _fit(state: Course, pairs: list[Pair]) -> tuple[list[Pair], list[tuple[int, bool]]]:
    """The pairs on which there is an output to see, with their probes. Raises AlwaysRaises if there is none."""
    fit, probes, failed = list[Pair](), list[tuple[int, bool]](), list[tuple[Pair, AlwaysRaises]]()
    for pair in pairs:
        try:
            probes.append(probe(state, pair, len(fit)))
            fit.append(pair)
        except AlwaysRaises as error:
            state.advance(error.rounds)
            failed.append((pair, error))
    if not fit:
        raise failed[0][1]
    if failed:
        (first, cause), others = failed[0], f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        state.note(f"skipped, for every run on both datasets raised: pair ({first.why}){others}; {cause}")
    return fit, probes


def probe(state: Course, pair: Pair, index: int) -> tuple[int, bool]:
    """A few rounds: how wide the outputs are, and whether they have low bits. What they tell of the mechanism goes to `state`."""
    stage = state.stage(pair, Phase.PROBE, index, state.probe, state.probe)
    started = perf_counter()
    seeded = bool(getattr(state.asked.mechanism, "seeded", True))  # a target that says it is not has said so in its notes
    found = collect(state.asked.executor.submit(probe_stage, stage, seeded), stage, 4 * state.asked.time_limit)  # it makes a dozen calls
    state.pace.took(perf_counter() - started, found.rounds)
    state.advance(found.rounds)
    state.note(*found.notes)
    if not seeded and not isinstance(state.asked.mechanism, Target):
        state.note("not reproducible: the mechanism says that it takes no seed, so the same seed gives other counts")
    state.probed[index] = found
    plan = state.settled(f"probe {index}", lambda: _plan_of(state, found))
    if seeded and plan["outputs"] not in ("", digest(found.sides)):
        raise InvalidArgument(
            "store must hold this audit, got one whose runs gave other outputs under the same seed: "
            "the target, or a library below it, has changed"
        )
    if plan["single"]:
        state.single.add(index)
    state.shared |= plan["shared"]
    return plan["width"], plan["floats"]


def _plan_of(state: Course, found: Probed) -> dict[str, Any]:
    """What a probe settles for the stages to come; `outputs` is empty where the last bits may differ from run to run."""
    return {
        "single": found.single,
        "shared": found.shared,
        "width": max(1, *(side.values.shape[1] for side in found.sides)),
        "floats": bool(floating(found.sides[0], found.sides[1], first=state.scored)),
        "outputs": "" if any("last bits" in note for note in found.notes) else digest(found.sides),
    }


def settle(state: Course, pair: Pair, index: int) -> None:
    """After a test: the probe's chunk once more, and what was run twice. Raises Unfit if what was run since has changed something."""
    wait(state.pace.copies, timeout=_LATE)
    for future, span in state.pace.copies.items():
        if future.done():
            require_agreement(future, span)
    state.pace.copies.clear()
    if getattr(state.asked.mechanism, "seeded", True):
        stage = state.stage(pair, Phase.PROBE, index, state.probe, state.probe)
        stage = replace(stage, single=state.probed[index].single)
        collect(state.asked.executor.submit(replay_stage, stage, state.probed[index]), stage, 4 * state.asked.time_limit)


def _chunk(rounds: int, width: int) -> int:
    """Rounds in a chunk: a power of two, so small that a slow mechanism ends some soon, and that a chunk's outputs take few megabytes.

    It depends on nothing but what was asked: how fast the mechanism is decides only how many chunks a task takes (`Pace`).
    """
    wanted = 2 ** int(math.log2(max(rounds / CHUNKS, 128)))
    return int(min(wanted, LARGEST_CHUNK, max(256, 2 ** int(math.log2(2**21 / max(width, 1))))))


def _train(state: Course, pair: Pair, index: int, phase: int, rounds: int, width: int) -> BothSides:
    stage = state.stage(pair, phase, index, rounds, min(_chunk(rounds, width), max(rounds // 4, 16)))
    chunks: list[BothSides] = []
    for found in outputs(stage, state.asked.executor, state.pace, ledger=state.ledger):
        chunks += [(one, zero) for one, zero in found.sides if one is not None and zero is not None]  # all: `engine.outputs`
        state.take(index, stage, found)
    check_training(chunks)
    sides = _joined(chunks)
    for side in sides:
        state.note(*told_of(side))
    return sides


def _joined(parts: list[BothSides]) -> BothSides:
    return concatenate([part[0] for part in parts]), concatenate([part[1] for part in parts])


def _race(
    state: Course,
    pairs: list[Pair],
    phases: tuple[int, int],
    budget: int,
    width: int,
    judge: Callable[[BothSides, Pair], tuple[float, Any]],
) -> tuple[dict[int, float], Any]:
    """What each pair promises, the best first, and what was found on it: all are looked at, then the best of them on more rounds."""
    scores: dict[int, float] = {}
    left, found = list(range(len(pairs))), None
    looks = list(zip(phases, FIRST_LOOKS, strict=True))[len(pairs) <= FINALISTS :]
    for phase, most in looks:
        rounds = int(max(min(budget / len(looks) / len(left), most, TRAIN_VALUES // width), LEAST_LOOK))
        best = -math.inf
        for index in left:
            scores[index], here = judge(_train(state, pairs[index], index, phase, rounds, width), pairs[index])
            if scores[index] > best:
                best, found = scores[index], here
        left = sorted(left, key=lambda i: -scores[i])[:FINALISTS]
    order = left + sorted(set(scores) - set(left), key=lambda i: -scores[i])
    return {i: scores[i] for i in order}, found


def _pilot(state: Course, pairs: list[Pair], budget: int, width: int) -> tuple[int, list[BothSides]]:
    """The pair on which a learned event is expected to certify the most, and outputs of it, which may train the event to be tested.

    One pair goes on: where others come close, a share of the rounds each would cost more than the choice among them.
    """
    goal = int((1 - PILOT_SHARE) * state.planned)

    def judge(sides: BothSides, pair: Pair) -> tuple[float, BothSides]:
        claim = state.asked.claim.on(pair)
        expected = expected_certificate(*sides, claim, alpha=state.asked.alpha, rounds=goal)
        return expected * (state.asked.claim.parameter / claim.parameter), sides  # over what is promised there, which may differ

    scores, seen = _race(state, pairs, (Phase.PILOT, Phase.SECOND_PILOT), budget, width, judge)
    best = next(iter(scores))
    state.pairs = [PairScore(pairs[i], score, i == best) for i, score in scores.items()]
    return best, [seen]


def _test(state: Course, pair: Pair, index: int, seen: list[BothSides], budget: int, width: int) -> None:
    """Train an event on a share of the budget, and what was seen of the pair before, and certify it on the rest.

    Where rounds are few, those that test this event train a better one, which the rounds left test: one certificate from both
    (`combination`). Binned laws (RDP, zCDP) are tested once, for they have no p-value at a parameter that could be combined cheaply.
    """
    known = sum(len(side) for sides in seen for side in sides)
    wanted = training_rounds(budget, width)
    train = wanted - known
    if train > PROBE or not seen:
        seen = [*seen, _train(state, pair, index, Phase.TRAIN, train, width)]
    rounds, claim, alpha = budget - max(train, 0), state.asked.claim, state.asked.alpha
    learned = learn(*_joined(seen), claim, alpha=alpha * (1 - EARLY_ALPHA), rounds=rounds, near=state.near)
    tested = UnderTest(pair, alpha, rounds, learned.event, learned.method)
    state.tested.append(tested)
    if budget <= STAGED and wanted >= LEAST_STAGE and not claim.bounds_renyi:
        stage = state.stage(pair, Phase.FIRST_TEST, index, wanted, _chunk(wanted, width))
        first = Part(Tally(0, 0, 0, learned.event.directions), math.sqrt(wanted / rounds))
        kept = _count(state, tested, stage, learned, index, {1.0: LOOK}, first)
        if kept:
            left, error = rounds - wanted, alpha * (1 - EARLY_ALPHA)
            learned = learn(*_joined([*seen, *kept]), claim, alpha=error, rounds=left, near=state.near, earlier=learned)
            _last(state, tested, learned, index, left, width)
    else:
        _last(state, tested, learned, index, rounds, width)
    settle(state, pair, index)


def certify_event(state: Course, pair: Pair, index: int, learned: Learned, rounds: int, alpha: float, width: int) -> None:
    """Test a fixed event on fresh rounds, with looks on the way."""
    tested = UnderTest(pair, alpha, rounds, learned.event, learned.method)
    state.tested.append(tested)
    _last(state, tested, learned, index, rounds, width)
    settle(state, pair, index)


def extended_share(number: int) -> float:
    """Error of the first plan and of as many extensions together, over that of the first: the k-th spends 2^-k of it."""
    return 2.0 - 2.0**-number


def extend(state: Course, number: int, total: int) -> None:
    """Extension `number`: the event that was tested meets more rounds, up to `total` runs, and is looked at with all that it has met.

    An extension is asked for by somebody who has seen the result before it. Whatever made them ask, it errs with probability 2^-number
    alpha at most, for its event was fixed before any of the rounds; the error of all statements together is the sum (`extended_share`).
    """
    tested, done = state.tested[-1], state.done
    if state.best not in state.probed:
        probe(state, tested.pair, state.best)
        state.done = done  # of the plan's runs; the probe's own are told of nowhere
    state.planned, tested.planned, tested.alpha = total, total, state.asked.alpha * 2.0**-number
    index, rounds = state.best, total - state.done
    learned = Learned(tested.event, 0.0, tested.method, None, tested.law)
    stage = state.stage(tested.pair, Phase.EXTENSION + number - 1, index, rounds, _chunk(rounds, columns_of(tested.event)))
    state.extensions = number
    _count(state, tested, stage, learned, index, _SPENT, tested.parts.pop())
    settle(state, tested.pair, index)


def _last(state: Course, tested: UnderTest, learned: Learned, index: int, rounds: int, width: int) -> None:
    """Test an event to the end of the budget."""
    state.best = index
    stage = state.stage(tested.pair, Phase.TEST, index, rounds, _chunk(rounds, width))
    _count(state, tested, stage, learned, index, _SPENT)


def _count(
    state: Course, tested: UnderTest, stage: Stage, learned: Learned, index: int, spent: dict[float, float], begun: Part | None = None
) -> list[BothSides]:
    """Count an event in a stage's rounds, with looks at shares of them at these shares of alpha.

    `begun` is what the event has counted before. Of `Phase.FIRST_TEST`, which other stages follow, the outputs are kept; none if a look
    said to stop. A binned rule (RDP, zCDP) is tested at the end, on half of alpha.
    """
    phase = stage.key[2]
    event = state.fixed(phase, index, learned.event)
    binned = state.fixed(phase, index, learned.binned) if learned.binned else None
    assert binned is None or isinstance(binned, Binned)
    tested.event, tested.method, tested.law = event, learned.method, learned.law
    tested.parts.append(begun or Part(Tally(0, 0, 0, event.directions), 1.0))
    tables: list[NDArray[np.int64]] = []
    kept: list[BothSides] = []
    cells = np.zeros((2, len(binned.loss) if binned else 0), dtype=np.int64)
    share = tested.alpha * (0.5 if binned else 1.0)
    looks = {max(1, round(look * stage.segments)): share * part for look, part in spent.items()}
    events = [event, binned] if binned else [event]
    stop = False
    pictured = PICTURED if phase != Phase.FIRST_TEST else stage.rounds
    segments = counts(stage, events, state.asked.executor, state.pace, keep=pictured, ledger=state.ledger)
    for number, found in enumerate(segments, start=1):
        tables.append(found.tables[0])
        tested.parts[-1] = tested.parts[-1].plus(_tally(found, event.directions), found.lost)
        if binned:
            cells += found.tables[1]
        kept += [(one, zero) for one, zero in found.sides if one is not None and zero is not None]
        state.take(index, stage, found)
        if number in looks and _look(state, tested, looks[number]):
            stop = tested.stopped = state.pace.stopped = True
            break
    lost = tested.parts[-1].lost
    if binned and not stop and not lost:  # its cells have no place for rounds that nobody saw
        _look_at_cells(state, tested, binned, cells, tested.alpha / 2)
    if lost:
        state.note(f"a batch raised for the first time in the test: its {lost} rounds count as wrong guesses, later rounds were run singly")
    check_drift(np.array(tables, dtype=float))
    if kept:
        tested.picture = picture(tested.event, _joined(kept[: max(1, PICTURED // stage.chunk)]))
    return [] if stop else kept


def _look_at_cells(state: Course, tested: UnderTest, rule: Binned, cells: NDArray[np.int64], alpha: float) -> None:
    """Certify the divergence of the binned law; it replaces the event where it says more."""
    claim = state.asked.claim
    lower = binned_bound(claim, rule, cells, alpha)
    levels = np.geomspace(1e-30, 1.0, 200)
    least = bisect_left(
        levels, True, key=lambda level: binned_bound(claim, rule, cells, level) > claim.parameter
    )  # it rises with the level
    tested.p_value = min(tested.p_value, (levels[least] if least < len(levels) else 1.0) * state.asked.alpha / alpha)
    tested.looks.append((state.done, max(lower, tested.lower)))
    if lower > tested.lower:
        tested.lower, tested.event, tested.method = lower, rule, tested.method + ", binned law"


def _test_bits(state: Course, pairs: list[Pair], budget: int, width: int) -> None:
    """The bit-level verdict, on the pair whose lattice event promises most: half of the budget to train, half to test."""
    claim = state.asked.claim.at_delta
    state.bit_level = BitLevel(Verdict.NOT_REFUTED, 0.0)

    def judge(sides: BothSides, _: Pair) -> tuple[float, Event | None]:
        return learn_lattice(*sides, claim, alpha=state.asked.alpha, rounds=budget // 2, first=state.scored) or (-math.inf, None)

    scores, event = _race(state, pairs, (Phase.BIT_TRAIN, Phase.SECOND_BIT_TRAIN), budget // 2, width, judge)
    if event is None:
        return
    index = next(iter(scores))
    event = state.fixed(Phase.BIT_TEST, index, event)
    rounds = budget // 2
    stage = state.stage(pairs[index], Phase.BIT_TEST, index, rounds, _chunk(rounds, width))
    tally, lost = Tally(0, 0, 0, event.directions), 0
    for found in counts(stage, [event], state.asked.executor, state.pace, ledger=state.ledger):
        tally += _tally(found, event.directions)
        lost += found.lost
        state.take(index, stage, found)
    numbers = (tally.correct, tally.wrong, tally.rounds, state.asked.alpha, tally.directions, lost)
    promise = state.asked.claim.on(pairs[index])
    refuted = float(certified(promise, *numbers)) > promise.parameter
    verdict = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    state.bit_level = BitLevel(verdict, float(certified(claim, *numbers)), pairs[index], event, tally)


def _look(state: Course, tested: UnderTest, alpha: float) -> bool:
    """Certify what there is, at this look's share of alpha; whether to stop."""
    claim, wanted = state.asked.claim, state.asked.claim.at_delta
    lower = combined(claim, tested.parts, alpha)
    tested.lower = max(tested.lower, lower)
    tested.epsilon = max(tested.epsilon, lower if wanted is claim or claim.is_pure else combined(wanted, tested.parts, alpha))
    tested.p_value = min(tested.p_value, combined_p_value(claim, tested.parts) * state.asked.alpha / alpha)
    tested.looks.append((state.done, tested.lower))
    state.looked(claim.symbol, tested.lower)
    refuted = tested.lower > claim.parameter
    return refuted and (state.asked.stop == "violation" or (state.asked.stop == "gross" and tested.lower > 3 * claim.parameter + 2))


def _tally(found: Segment, directions: int) -> Tally:
    """From cells (abstain, D1, D0) of both sides to right and wrong guesses; lost rounds are wrong ones."""
    table, lost = found.tables[0], found.lost
    return Tally(int(table[0, 1] + table[1, 2]), int(table[0, 2] + table[1, 1]) + lost, int(table.sum()) + lost, directions)
