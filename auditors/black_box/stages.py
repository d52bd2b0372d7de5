"""Stages of a black-box audit: probe, low bits, pilot over pairs, training of an event, and its test, which may train a better event."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.black_box.environment_errors import check_imports
from dpwitness.auditors.black_box.preflight import fit, require_same_chunks, settle, store_first_digest
from dpwitness.auditors.black_box.state import PROBE, AuditState, PairTest
from dpwitness.auditors.events.bits import learn_float_bits
from dpwitness.auditors.events.divergence import Binned, renyi_lower_bound
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.histogram import picture
from dpwitness.auditors.events.learning import Learned, expected_certificate, learn
from dpwitness.auditors.events.outputs import Outputs, concatenate, opaque_type_notes, unrepeated_text_notes
from dpwitness.auditors.events.rule_reader import columns_of
from dpwitness.auditors.results.audit_result import BitLevel, PairScore
from dpwitness.auditors.results.recompute import Basis
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.running.engine import Phase, Segment, Stage, counts, outputs
from dpwitness.auditors.running.statefulness import check_drift, check_training
from dpwitness.auditors.statistics.certificate import Tally, certified
from dpwitness.auditors.statistics.combination import Part, extension_share, reweight_for_extension
from dpwitness.mechanisms.data.pairs import Pair

BothSides = tuple[Outputs, Outputs]  # outputs on (D1, D0), without batches that raised

MIN_PROBE_ROUNDS = 16  # minimum number of rounds in a probe's chunk
PROBE_SHARE = 0.05  # maximum share of the runs for probes; above it their chunks are smaller
TARGET_CHUNKS = 512  # target number of chunks in a stage
MAX_CHUNK_ROUNDS = 2**19  # maximum number of rounds in a chunk
PILOT_SHARE = 0.2
TRAIN_SHARE = 0.3  # share of a small budget; it falls with the fourth root, because more data improve tests more than events
FULL_SHARE_BUDGET = 20_000  # budget up to which TRAIN_SHARE applies unchanged
TRAIN_VALUES = 2**23  # maximum number of values stored for training
TRAIN_ROUNDS = 2**18
MIN_RUNS_PER_PAIR = 1000  # minimum number of runs per pair: up to 700 are used for its probe, bits and pilots
PILOT_LOOK_ROUNDS = (2**13, 2**16)  # maximum number of rounds in the first look at every pair, and in the second look at the best pairs
MIN_LOOK_ROUNDS = 200
FINALISTS = 5  # number of pairs in the second look
MAX_STAGED_BUDGET = 100_000  # budget up to which the first test also trains a better event; above it, learning twice costs too much
_BINNED_SUFFIX = ", binned law"  # suffix of a method's name
MIN_FIRST_TEST_ROUNDS = 500  # minimum number of rounds in such a first test
BIT_SHARE = 0.1
BIT_ROUNDS = 2**16  # leaks in the low bits are large: more rounds would only slow the audit
PICTURE_ROUNDS = 2**14  # rounds of a test whose outputs are shown in its picture
LOOKS = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
EARLY_ALPHA = 0.05  # share of alpha for all looks but the last together: early looks detect gross violations only
LOOK_ALPHA_SHARE = EARLY_ALPHA / len(
    LOOKS
)  # share of alpha for each look before the last, and for the look at the end of the first event's test
_LOOK_SHARES = {look: LOOK_ALPHA_SHARE if look < 1 else 1 - EARLY_ALPHA for look in LOOKS}


def probe_chunk(planned: int, pairs: int) -> int:
    """Return the number of rounds in a probe's chunk; about four such chunks are run on each pair."""
    return max(MIN_PROBE_ROUNDS, min(PROBE, int(PROBE_SHARE / 4 * planned / pairs)))


def bit_rounds(budget: int, pairs: int) -> int:
    """Return the number of rounds for the low-bit audit, if outputs have low bits."""
    return min(int(BIT_SHARE * budget), BIT_ROUNDS * min(pairs, 4))


def training_rounds(budget: int, width: int) -> int:
    """Return the number of rounds that train an event, out of the budget for training and testing."""
    share = TRAIN_SHARE * min(1.0, FULL_SHARE_BUDGET / max(budget, 1)) ** 0.25
    return int(min(share * budget, TRAIN_ROUNDS, TRAIN_VALUES // width))


def search_and_test(state: AuditState, pairs: list[Pair]) -> None:
    """Run all stages: probes, low bits, the pilot if there are several pairs, and the test on the selected pair."""
    best, pair, seen, width = _select_pair(state, pairs)
    state.use_claim_on(pair)
    _test(state, pair, best, seen, state.left, width)


def planned_stages(state: AuditState, pairs: list[Pair]) -> list[tuple[Pair, Event, float]]:
    """Return the pair, event and number of rounds of each test stage of an audit with this plan. No rounds are counted."""
    best, pair, seen, width = _select_pair(state, pairs)
    state.use_claim_on(pair)
    budget = state.left
    wanted, seen, learned, rounds = _first_event(state, pair, best, seen, budget, width)
    if not _has_first_test(state, budget, wanted):
        return [(pair, learned.event, rounds)]
    seen = [*seen, _train(state, pair, best, Phase.FIRST_TEST, wanted, width)]
    error = state.asked.alpha * (1 - EARLY_ALPHA)
    later = learn(*_concatenate_sides(seen), state.asked.claim, alpha=error, rounds=rounds - wanted, near=state.near, earlier=learned)
    return [(pair, learned.event, wanted), (pair, later.event, rounds - wanted)]


def _select_pair(state: AuditState, pairs: list[Pair]) -> tuple[int, Pair, list[BothSides], int]:
    """Run probes, low bits and pilot; return the index of the selected pair, the pair, its pilot outputs, and the width of outputs."""
    most = max(1, state.planned // MIN_RUNS_PER_PAIR)
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


def _chunk_size(rounds: int, width: int) -> int:
    """Return the number of rounds in a chunk, a power of two.

    Chunks are small enough that a slow mechanism soon finishes some, and that the outputs of a
    chunk take a few megabytes. The number does not depend on the speed of the mechanism, which
    determines only the number of chunks per task (`Pace`).
    """
    wanted = 2 ** int(math.log2(max(rounds / TARGET_CHUNKS, 128)))
    return int(min(wanted, MAX_CHUNK_ROUNDS, max(256, 2 ** int(math.log2(2**21 / max(width, 1))))))


def _train(state: AuditState, pair: Pair, index: int, phase: int, rounds: int, width: int) -> BothSides:
    """Run a training stage on pair number `index`, check its randomness, and return its outputs."""
    stage = state.stage(pair, phase, index, rounds, min(_chunk_size(rounds, width), max(rounds // 4, 16)))
    chunks: list[BothSides] = []
    for found in outputs(stage, state.asked.executor, state.pace, ledger=state.ledger):
        # no chunk is dropped, because `engine.outputs` loses no rounds
        chunks += [(one, zero) for one, zero in found.sides if one is not None and zero is not None]
        store_first_digest(state, stage, found)
        state.take(index, stage, found)
    check_training(chunks)
    sides = _concatenate_sides(chunks)
    check_imports(sides)
    state.seen.add(*sides)
    return sides


def _concatenate_sides(parts: list[BothSides]) -> BothSides:
    """Return the outputs of several batches as one pair of batches."""
    return concatenate([part[0] for part in parts]), concatenate([part[1] for part in parts])


def _compare_pairs(
    state: AuditState,
    pairs: list[Pair],
    phases: tuple[int, int],
    budget: int,
    width: int,
    judge: Callable[[BothSides, Pair], tuple[float, Any]],
) -> tuple[dict[int, float], Any]:
    """Compare pairs in up to two looks; return the score of each pair, best first, and the by-product of `judge` on the best pair.

    The first look includes all pairs; the second takes more rounds on the best pairs. `judge`
    returns a score and a by-product.
    """
    scores: dict[int, float] = {}
    left, found = list(range(len(pairs))), None
    looks = list(zip(phases, PILOT_LOOK_ROUNDS, strict=True))[len(pairs) <= FINALISTS :]
    for phase, most in looks:
        rounds = int(max(min(budget / len(looks) / len(left), most, TRAIN_VALUES // width), MIN_LOOK_ROUNDS))
        best = -math.inf
        for index in left:
            scores[index], here = judge(_train(state, pairs[index], index, phase, rounds, width), pairs[index])
            if scores[index] > best:
                best, found = scores[index], here
        left = sorted(left, key=lambda i: -scores[i])[:FINALISTS]
    order = left + sorted(set(scores) - set(left), key=lambda i: -scores[i])
    return {i: scores[i] for i in order}, found


def _pilot(state: AuditState, pairs: list[Pair], budget: int, width: int) -> tuple[int, list[BothSides]]:
    """Return the index of the pair on which a learned event is expected to certify the most, and its outputs for training.

    Only one pair is tested: if other pairs come close, dividing the rounds among them would cost
    more than choosing one.
    """
    goal = int((1 - PILOT_SHARE) * state.planned)

    def judge(sides: BothSides, pair: Pair) -> tuple[float, BothSides]:
        """Return the expected certificate on a pair, relative to the claim there, and the pair's outputs."""
        claim = state.asked.claim.on(pair)
        expected = expected_certificate(*sides, claim, alpha=state.asked.alpha, rounds=goal)
        # relative to the claim's parameter on this pair, which may differ between pairs
        return expected * (state.asked.claim.parameter / claim.parameter), sides

    scores, seen = _compare_pairs(state, pairs, (Phase.PILOT, Phase.SECOND_PILOT), budget, width, judge)
    best = next(iter(scores))
    state.pairs = [PairScore(pairs[i], score, i == best) for i, score in scores.items()]
    return best, [seen]


def _test(state: AuditState, pair: Pair, index: int, seen: list[BothSides], budget: int, width: int) -> None:
    """Train an event on a share of the budget and the earlier outputs of the pair, and certify the event on the rest.

    With a small budget, the test rounds of the first event also train a better event, which is
    tested on the remaining rounds. One certificate combines both tests (`combination`). Renyi rules
    (RDP, zCDP) are tested once, because they have no p-value at a parameter that is cheap to
    combine.
    """
    wanted, seen, learned, rounds = _first_event(state, pair, index, seen, budget, width)
    claim, alpha = state.asked.claim, state.asked.alpha
    tested = PairTest(pair, alpha, rounds, learned.event, learned.method)
    state.tested.append(tested)
    if _has_first_test(state, budget, wanted):
        stage = state.stage(pair, Phase.FIRST_TEST, index, wanted, _chunk_size(wanted, width))
        kept = _count_stage(state, tested, stage, learned, index, {1.0: LOOK_ALPHA_SHARE}, math.sqrt(wanted / rounds))
        if kept:
            left, error = rounds - wanted, alpha * (1 - EARLY_ALPHA)
            learned = learn(*_concatenate_sides([*seen, *kept]), claim, alpha=error, rounds=left, near=state.near, earlier=learned)
            _test_to_end(state, tested, learned, index, left, width)
    else:
        _test_to_end(state, tested, learned, index, rounds, width)
    settle(state, pair, index)


def _first_event(
    state: AuditState, pair: Pair, index: int, seen: list[BothSides], budget: int, width: int
) -> tuple[int, list[BothSides], Learned, int]:
    """Train the first event; return its intended training rounds, its training outputs, the event, and the remaining test rounds."""
    known = sum(len(side) for sides in seen for side in sides)
    wanted = training_rounds(budget, width)
    train = wanted - known
    if train > PROBE or not seen:
        seen = [*seen, _train(state, pair, index, Phase.TRAIN, train, width)]
    rounds, error = budget - max(train, 0), state.asked.alpha * (1 - EARLY_ALPHA)
    sides = _concatenate_sides(seen)
    state.note(*opaque_type_notes(*sides), *unrepeated_text_notes(*sides))
    learned = learn(*sides, state.asked.claim, alpha=error, rounds=rounds, near=state.near)
    return wanted, seen, learned, rounds


def _has_first_test(state: AuditState, budget: int, wanted: int) -> bool:
    """Return whether the test rounds of the first event also train a better event."""
    return budget <= MAX_STAGED_BUDGET and wanted >= MIN_FIRST_TEST_ROUNDS and not state.asked.claim.bounds_renyi


def certify_event(state: AuditState, pair: Pair, index: int, learned: Learned, rounds: int, alpha: float, width: int) -> None:
    """Test a fixed event on fresh rounds, with interim looks."""
    tested = PairTest(pair, alpha, rounds, learned.event, learned.method)
    state.tested.append(tested)
    _test_to_end(state, tested, learned, index, rounds, width)
    settle(state, pair, index)


def extend(state: AuditState, number: int, total: int) -> None:
    """Run extension `number`, up to `total` runs: test the event of the earlier stages on a stage of fresh rounds.

    The user who requests an extension has seen the earlier result. The weight of the stage and its
    share of alpha are fixed by rule (`combination`), so neither the reason nor the length of the
    extension matters.
    """
    tested = state.tested[-1]
    event, rule = tested.event, tested.event if isinstance(tested.event, Binned) else None
    if rule is not None:
        event = rule.events[len(rule.events) // 2]
    state.planned, tested.planned, tested.alpha = total, total, state.asked.alpha * extension_share(number)
    index, rounds = state.best, total - state.done
    learned = Learned(event, 0.0, tested.method.removesuffix(_BINNED_SUFFIX), rule, tested.law)
    stage = state.stage(tested.pair, Phase.EXTENSION + number - 1, index, rounds, _chunk_size(rounds, columns_of(event)))
    state.extensions = number
    tested.parts, before = reweight_for_extension(tested.parts), (tested.event, tested.method, tested.basis)
    _count_stage(state, tested, stage, learned, index, _LOOK_SHARES)
    if tested.basis is before[2]:  # the bound has not improved, so it still belongs to the previous event
        tested.event, tested.method = before[:2]
    settle(state, tested.pair, index)


def _test_to_end(state: AuditState, tested: PairTest, learned: Learned, index: int, rounds: int, width: int) -> None:
    """Test an event on all remaining rounds of the budget."""
    state.best = index
    stage = state.stage(tested.pair, Phase.TEST, index, rounds, _chunk_size(rounds, width))
    _count_stage(state, tested, stage, learned, index, _LOOK_SHARES)


def _count_stage(
    state: AuditState, tested: PairTest, stage: Stage, learned: Learned, index: int, spent: dict[float, float], weight: float = 1.0
) -> list[BothSides]:
    """Count an event in the rounds of a stage, with interim looks; `spent` maps shares of the stage to shares of alpha.

    `weight` is the weight of the stage in the combined certificate. In `Phase.FIRST_TEST` the
    outputs are returned to train the next event; the list is empty if a look stopped the test. A
    Renyi rule (RDP, zCDP) is tested at the end with half of alpha.
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
    pictured = PICTURE_ROUNDS if phase != Phase.FIRST_TEST else stage.rounds
    segments = counts(stage, events, state.asked.executor, state.pace, keep=pictured, ledger=state.ledger)
    for number, found in enumerate(segments, start=1):
        tables.append(found.tables[0])
        tested.parts[-1] = tested.parts[-1].plus(_tally(found, event.directions), found.lost)
        if binned:
            cells += found.tables[1]
        kept += [(one, zero) for one, zero in found.sides if one is not None and zero is not None]
        store_first_digest(state, stage, found)
        state.take(index, stage, found)
        if number in looks and _interim_look(state, tested, looks[number]):
            stop = tested.stopped = state.pace.stopped = True
            break
    lost = tested.parts[-1].lost
    if binned and not stop and not lost:  # cell counts cannot account for lost rounds
        _certify_renyi(state, tested, binned, cells, tested.alpha / 2)
    if lost:
        state.note(f"a batch raised for the first time in the test: its {lost} rounds count as wrong guesses, later rounds were run singly")
    check_drift(np.array(tables, dtype=float))
    if kept:
        tested.picture = picture(tested.event, _concatenate_sides(kept[: max(1, PICTURE_ROUNDS // stage.chunk)]))
    return [] if stop else kept


def _certify_renyi(state: AuditState, tested: PairTest, rule: Binned, cells: NDArray[np.int64], alpha: float) -> None:
    """Certify the Renyi divergence from cell counts; the Renyi rule replaces the event if its bound is larger."""
    claim = state.asked.claim
    lower = renyi_lower_bound(claim, rule, cells, alpha)
    levels = np.geomspace(1e-30, 1.0, 200)
    # the bound increases with the level
    least = bisect_left(levels, True, key=lambda level: renyi_lower_bound(claim, rule, cells, level) > claim.parameter)
    tested.p_value = min(tested.p_value, (levels[least] if least < len(levels) else 1.0) * state.asked.alpha / alpha)
    tested.looks.append((state.done, max(lower, tested.lower)))
    if lower > tested.lower:
        assert tested.basis is not None
        tested.lower, tested.event, tested.method = lower, rule, tested.method + _BINNED_SUFFIX
        tested.basis = replace(tested.basis, cells=tuple(tuple(side) for side in cells.tolist()), cells_alpha=alpha)


def _test_bits(state: AuditState, pairs: list[Pair], budget: int, width: int) -> None:
    """Compute the bit-level verdict on the pair with the best float-bit event: half of the budget trains, half tests."""
    claim = state.asked.claim.at_delta
    state.bit_level = BitLevel(Verdict.NOT_REFUTED, 0.0)

    def judge(sides: BothSides, _: Pair) -> tuple[float, Event | None]:
        """Return the expected certificate of the best float-bit event on a pair, and the event."""
        return learn_float_bits(*sides, claim, alpha=state.asked.alpha, rounds=budget // 2, first=state.scored) or (-math.inf, None)

    scores, event = _compare_pairs(state, pairs, (Phase.BIT_TRAIN, Phase.SECOND_BIT_TRAIN), budget // 2, width, judge)
    if event is None:
        return
    index = next(iter(scores))
    event = state.fixed(Phase.BIT_TEST, index, event)
    rounds = budget // 2
    stage = state.stage(pairs[index], Phase.BIT_TEST, index, rounds, _chunk_size(rounds, width))
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


def _interim_look(state: AuditState, tested: PairTest, alpha: float) -> bool:
    """Update the bound at an interim look with its share of alpha; return whether to stop the test."""
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
    """Return the numbers of right and wrong guesses from cell counts (abstain, D1, D0) of both sides; lost rounds count as wrong."""
    table, lost = found.tables[0], found.lost
    return Tally(int(table[0, 1] + table[1, 2]), int(table[0, 2] + table[1, 1]) + lost, int(table.sum()) + lost, directions)
