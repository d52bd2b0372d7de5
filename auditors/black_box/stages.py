"""The stages of a black-box audit: probe, low bits, pilot over pairs, training of an event, tests of it that may train a better one."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.black_box.course import PROBE, Course, UnderTest
from dpwitness.auditors.black_box.environment import check_imports
from dpwitness.auditors.black_box.fitness import fit, remember_first, require_same_chunks, settle
from dpwitness.auditors.events.bits import learn_lattice
from dpwitness.auditors.events.divergence import Binned, binned_bound
from dpwitness.auditors.events.learning import Learned, expected_certificate, learn
from dpwitness.auditors.events.outputs import Outputs, concatenate, opaque_types, unrepeated
from dpwitness.auditors.events.picture import picture
from dpwitness.auditors.events.reading import columns_of
from dpwitness.auditors.events.rules import Event
from dpwitness.auditors.results.audit_result import BitLevel, PairScore
from dpwitness.auditors.results.recomputed import Basis
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.running.engine import Phase, Segment, Stage, counts, outputs
from dpwitness.auditors.running.health import check_drift, check_training
from dpwitness.auditors.statistics.certificate import Tally, certified
from dpwitness.auditors.statistics.combination import Part, extension_share, reweight_for_extension
from dpwitness.mechanisms.terms.pairs import Pair

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
_BINNED = ", binned law"  # of a method
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
    best, pair, seen, width = _chosen(state, pairs)
    state.hold_to(pair)
    _test(state, pair, best, seen, state.left, width)


def rehearse(state: Course, pairs: list[Pair]) -> list[tuple[Pair, Event, float]]:
    """Return what an audit of this plan would test: for each stage of its test the pair, the event, and its rounds. Nothing is counted."""
    best, pair, seen, width = _chosen(state, pairs)
    state.hold_to(pair)
    budget = state.left
    wanted, seen, learned, rounds = _first_event(state, pair, best, seen, budget, width)
    if not _staged(state, budget, wanted):
        return [(pair, learned.event, rounds)]
    seen = [*seen, _train(state, pair, best, Phase.FIRST_TEST, wanted, width)]
    error = state.asked.alpha * (1 - EARLY_ALPHA)
    later = learn(*_joined(seen), state.asked.claim, alpha=error, rounds=rounds - wanted, near=state.near, earlier=learned)
    return [(pair, learned.event, wanted), (pair, later.event, rounds - wanted)]


def _chosen(state: Course, pairs: list[Pair]) -> tuple[int, Pair, list[BothSides], int]:
    """The number of the pair to test, that pair, outputs of it that the pilot has seen, and how wide outputs are."""
    most = max(1, state.planned // RUNS_A_PAIR)
    if len(pairs) > most:
        state.notes.append(f"only the first {most} of {len(pairs)} pairs were tried: more need more trials")
        pairs = pairs[:most]
    state.probe = probe_chunk(state.planned, len(pairs))
    pairs, probes = fit(state, pairs)
    require_same_chunks(state, pairs)
    width = max(width for width, _ in probes)
    if state.asked.bits and any(floats for _, floats in probes):
        _test_bits(state, pairs, bit_rounds(state.left, len(pairs)), width)
    best, seen = 0, list[BothSides]()
    if len(pairs) > 1:
        best, seen = _pilot(state, pairs, int(PILOT_SHARE * state.left), width)
    return best, pairs[best], seen, width


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
        remember_first(state, stage, found)
        state.take(index, stage, found)
    check_training(chunks)
    sides = _joined(chunks)
    check_imports(sides)
    state.seen.add(*sides)
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
    wanted, seen, learned, rounds = _first_event(state, pair, index, seen, budget, width)
    claim, alpha = state.asked.claim, state.asked.alpha
    tested = UnderTest(pair, alpha, rounds, learned.event, learned.method)
    state.tested.append(tested)
    if _staged(state, budget, wanted):
        stage = state.stage(pair, Phase.FIRST_TEST, index, wanted, _chunk(wanted, width))
        kept = _count(state, tested, stage, learned, index, {1.0: LOOK}, math.sqrt(wanted / rounds))
        if kept:
            left, error = rounds - wanted, alpha * (1 - EARLY_ALPHA)
            learned = learn(*_joined([*seen, *kept]), claim, alpha=error, rounds=left, near=state.near, earlier=learned)
            _last(state, tested, learned, index, left, width)
    else:
        _last(state, tested, learned, index, rounds, width)
    settle(state, pair, index)


def _first_event(
    state: Course, pair: Pair, index: int, seen: list[BothSides], budget: int, width: int
) -> tuple[int, list[BothSides], Learned, int]:
    """Rounds that should train the event, all that did, the event, and the rounds that are left to test."""
    known = sum(len(side) for sides in seen for side in sides)
    wanted = training_rounds(budget, width)
    train = wanted - known
    if train > PROBE or not seen:
        seen = [*seen, _train(state, pair, index, Phase.TRAIN, train, width)]
    rounds, error = budget - max(train, 0), state.asked.alpha * (1 - EARLY_ALPHA)
    sides = _joined(seen)
    state.note(*opaque_types(*sides), *unrepeated(*sides))
    learned = learn(*sides, state.asked.claim, alpha=error, rounds=rounds, near=state.near)
    return wanted, seen, learned, rounds


def _staged(state: Course, budget: int, wanted: int) -> bool:
    """Whether the rounds that test the first event train a better one."""
    return budget <= STAGED and wanted >= LEAST_STAGE and not state.asked.claim.bounds_renyi


def certify_event(state: Course, pair: Pair, index: int, learned: Learned, rounds: int, alpha: float, width: int) -> None:
    """Test a fixed event on fresh rounds, with looks on the way."""
    tested = UnderTest(pair, alpha, rounds, learned.event, learned.method)
    state.tested.append(tested)
    _last(state, tested, learned, index, rounds, width)
    settle(state, pair, index)


def extend(state: Course, number: int, total: int) -> None:
    """Run extension `number`, up to `total` runs: a stage of fresh rounds that the earlier stages' event is tested on.

    Whoever asks for an extension has seen the result before it. The stage's weight and its share of alpha are fixed by rule
    (`combination`), so that neither the reason nor the length matters.
    """
    tested = state.tested[-1]
    event, rule = tested.event, tested.event if isinstance(tested.event, Binned) else None
    if rule is not None:
        event = rule.events[len(rule.events) // 2]
    state.planned, tested.planned, tested.alpha = total, total, state.asked.alpha * extension_share(number)
    index, rounds = state.best, total - state.done
    learned = Learned(event, 0.0, tested.method.removesuffix(_BINNED), rule, tested.law)
    stage = state.stage(tested.pair, Phase.EXTENSION + number - 1, index, rounds, _chunk(rounds, columns_of(event)))
    state.extensions = number
    tested.parts, before = reweight_for_extension(tested.parts), (tested.event, tested.method, tested.basis)
    _count(state, tested, stage, learned, index, _SPENT)
    if tested.basis is before[2]:  # nothing more was certified: the bound is still that of the binned law, if there is one
        tested.event, tested.method = before[:2]
    settle(state, tested.pair, index)


def _last(state: Course, tested: UnderTest, learned: Learned, index: int, rounds: int, width: int) -> None:
    """Test an event to the end of the budget."""
    state.best = index
    stage = state.stage(tested.pair, Phase.TEST, index, rounds, _chunk(rounds, width))
    _count(state, tested, stage, learned, index, _SPENT)


def _count(
    state: Course, tested: UnderTest, stage: Stage, learned: Learned, index: int, spent: dict[float, float], weight: float = 1.0
) -> list[BothSides]:
    """Count an event in a stage's rounds, with looks at shares of them at these shares of alpha.

    `weight` is the stage's. Of `Phase.FIRST_TEST`, which other stages follow, the outputs are kept; none if a look said to stop. A binned
    rule (RDP, zCDP) is tested at the end, on half of alpha.
    """
    phase = stage.key[2]
    event = state.fixed(phase, index, learned.event)
    binned = state.fixed(phase, index, learned.binned) if learned.binned else None
    assert binned is None or isinstance(binned, Binned)
    tested.event, tested.method, tested.law = event, learned.method, learned.law
    tested.parts.append(Part(Tally(0, 0, 0, event.directions), weight))
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
        remember_first(state, stage, found)
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
        assert tested.basis is not None
        tested.lower, tested.event, tested.method = lower, rule, tested.method + _BINNED
        tested.basis = replace(tested.basis, cells=tuple(tuple(side) for side in cells.tolist()), cells_alpha=alpha)


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
    state.bit_level = BitLevel(verdict, float(certified(claim, *numbers)), pairs[index], event, tally, state.asked.alpha, lost)


def _look(state: Course, tested: UnderTest, alpha: float) -> bool:
    """Certify what there is, at this look's share of alpha; whether to stop."""
    claim, basis = state.asked.claim, Basis(alpha, tuple(tested.parts))
    lower, epsilon = basis.bounds(claim, tested.event)
    if tested.basis is None or (lower, epsilon) >= (tested.lower, tested.epsilon):
        tested.lower, tested.epsilon, tested.basis = lower, epsilon, basis
        tested.p_value = basis.p_value(claim, state.asked.alpha)
    tested.looks.append((state.done, tested.lower))
    state.looked(claim.symbol, tested.lower)
    refuted = tested.lower > claim.parameter
    return refuted and (state.asked.stop == "violation" or (state.asked.stop == "gross" and tested.lower > 3 * claim.parameter + 2))


def _tally(found: Segment, directions: int) -> Tally:
    """From cells (abstain, D1, D0) of both sides to right and wrong guesses; lost rounds are wrong ones."""
    table, lost = found.tables[0], found.lost
    return Tally(int(table[0, 1] + table[1, 2]), int(table[0, 2] + table[1, 1]) + lost, int(table.sum()) + lost, directions)
