"""Whether a mechanism is fit to be audited, and whether it is still the one that the counts of a store are of.

A hash of the source sees neither an imported module nor a global. So a store keeps digests of outputs: of each pair's probe, and of the
first chunk of each stage that keeps outputs. The same seed must give them again before anything stored is believed. The counts of a
mechanism that takes no seed are compared with fresh runs instead, at error `_ALARM`.
"""

from __future__ import annotations

from concurrent.futures import wait
from dataclasses import replace
from time import perf_counter
from typing import Any

from dpwitness.auditors.black_box.course import Course, UnderTest
from dpwitness.auditors.black_box.probe import Probed, probe_stage, replay_stage
from dpwitness.auditors.events.bits import floating
from dpwitness.auditors.events.divergence import Binned
from dpwitness.auditors.running.engine import Phase, Segment, Sides, Stage, collect, require_agreement
from dpwitness.auditors.running.health import digest
from dpwitness.auditors.running.turns import one_task
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import AlwaysRaises
from dpwitness.mechanisms.terms.validation import InvalidArgument

_LATE = 2.0  # seconds that are waited for tasks whose answer came from another worker
_FIRST = "first "  # keys of the digests of first chunks
_FRESH = 1_000  # rounds that are run to compare with the counts of a mechanism that takes no seed
_ALARM = 1e-9  # probability that this comparison refuses the mechanism that was counted


def fit(state: Course, pairs: list[Pair], most: int | None = None) -> tuple[list[Pair], list[tuple[int, bool]]]:
    """Return the pairs on which there is an output to see, at most `most`, with their probes. Raise AlwaysRaises if there is none."""
    fitting, probes, failed = list[Pair](), list[tuple[int, bool]](), list[tuple[Pair, AlwaysRaises]]()
    for pair in pairs:
        if len(fitting) == most:
            break
        try:
            probes.append(probe(state, pair, len(fitting)))
            fitting.append(pair)
        except AlwaysRaises as error:
            state.advance(error.rounds)
            failed.append((pair, error))
    if not fitting:
        raise failed[0][1]
    if failed:
        (first, cause), others = failed[0], f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        state.note(f"skipped, for every run on both datasets raised: pair ({first.why}){others}; {cause}")
    return fitting, probes


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
    plan = state.plans[index] = state.settled(f"probe {index}", lambda: _plan_of(state, found))
    if seeded and plan["outputs"] not in ("", digest(found.sides)):
        raise _changed(state, stage)
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


def remember_first(state: Course, stage: Stage, found: Segment) -> None:
    """Write the digest of the outputs of a stage's first chunk to the store, unless it is there."""
    if state.ledger is None or not found.sides or found.single != stage.single or not _reproducible(state):
        return
    one, zero = found.sides[0]
    _, index, phase = stage.key
    if one is None or zero is None:
        return
    plan = {"rounds": stage.rounds, "chunk": stage.chunk, "single": stage.single, "shared": stage.shared}
    state.settled(f"{_FIRST}{phase} {index}", lambda: plan | {"outputs": digest((one, zero))})


def require_same_chunks(state: Course, pairs: list[Pair]) -> None:
    """Run the first chunk of each stored stage again. Raises InvalidArgument if the outputs are other ones."""
    if state.ledger is None or not state.ledger.resumed:
        return
    for key, plan in state.ledger.values(_FIRST).items():
        phase, index = map(int, key.removeprefix(_FIRST).split())
        stage = state.stage(pairs[index], phase, index, plan["rounds"], plan["chunk"])
        stage = replace(stage, single=plan["single"], shared=plan["shared"])
        one, zero = _first_chunk_of(state, stage)
        if one is None or zero is None or digest((one, zero)) != plan["outputs"]:
            raise _changed(state, stage)


def require_same_mechanism(state: Course, pairs: list[Pair]) -> None:
    """Run the first rounds of an audit that was restored from a store again. Raises InvalidArgument if it is of another mechanism."""
    assert state.ledger is not None
    before = state.done, list(state.notes), set(state.single), state.shared
    state.single.clear()
    state.shared = False
    there = sum(1 for _ in state.ledger.values("probe "))
    found, _ = fit(state, pairs, there)
    require_same_chunks(state, found)
    state.done, state.notes, state.single, state.shared = before
    if not _reproducible(state):
        for tested in state.tested:
            _compare_counts(state, tested)


def _reproducible(state: Course) -> bool:
    return all(state.plans[index]["outputs"] for index in state.probed) and bool(getattr(state.asked.mechanism, "seeded", True))


def _compare_counts(state: Course, tested: UnderTest) -> None:
    """Test, at error `_ALARM`, whether fresh runs are right and wrong as often as the stored ones of the last stage."""
    event, stored = tested.event, tested.tally
    if isinstance(event, Binned):
        event = event.events[len(event.events) // 2]
    one, zero = _first_chunk_of(state, state.stage(tested.pair, Phase.TIMING, state.best, _FRESH, _FRESH))
    if one is None or zero is None or stored.rounds == 0:
        return
    (_, wrong0, right0), (_, right1, wrong1) = (
        (int((guess == 0).sum()), int((guess == 1).sum()), int((guess == -1).sum())) for guess in (event.guess(zero), event.guess(one))
    )
    from scipy.stats import hypergeom  # half a second, and few audits need it

    rounds = len(one) + len(zero)
    for mine, its in ((right0 + right1, stored.correct), (wrong0 + wrong1, stored.wrong)):
        law = hypergeom(rounds + stored.rounds, mine + its, rounds)
        if min(law.cdf(mine), law.sf(mine - 1)) < _ALARM / 4:
            raise InvalidArgument(
                f"store was made by another version of this mechanism: {mine:,} of {rounds:,} rounds run now are on one side of the event, "
                f"and {its:,} of {stored.rounds:,} stored ones: one mechanism gives this with probability below {_ALARM:g}; "
                f"{_advice(state)}"
            )
    state.note(
        f"the mechanism cannot repeat its outputs: {_FRESH:,} rounds run now fit the counts of the store (tested at error {_ALARM:g}), "
        "a small change of the mechanism is not seen"
    )


@one_task()
def _first_chunk(stage: Stage) -> Sides:
    return stage.sample(0)


def _first_chunk_of(state: Course, stage: Stage) -> Sides:
    found: Sides = collect(state.asked.executor.submit(_first_chunk, stage), stage)
    return found


def _changed(state: Course, stage: Stage) -> InvalidArgument:
    return InvalidArgument(
        f"store was made by another version of this mechanism: the first {stage.size(0):,} rounds of a stored stage give "
        f"other outputs under the same seed now: the target, or something that it uses, has changed; {_advice(state)}"
    )


def _advice(state: Course) -> str:
    file = state.ledger.store.path if state.ledger is not None else "FILE"
    return f"use another store, or remove the audit with `dpwitness store gc {file} {state.asked.name}`"
