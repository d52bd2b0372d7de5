"""Probes of a mechanism, and the check that a store's counts belong to the same mechanism.

A hash of the source does not cover imported modules or globals. So a store keeps digests of
outputs: of each pair's probe, and of the first chunk of each stage that stores outputs. The same
seed must reproduce these digests before any stored data are used. The counts of a mechanism that
cannot be seeded are compared with fresh runs instead, at error `_ALARM_PROBABILITY`.
"""

from __future__ import annotations

from concurrent.futures import wait
from dataclasses import replace
from time import perf_counter
from typing import Any

from dpwitness.auditors.black_box.probe import ProbeResult, replay_stage, run_probe_stage
from dpwitness.auditors.black_box.state import AuditState, PairTest
from dpwitness.auditors.events.bits import floating
from dpwitness.auditors.events.divergence import Binned
from dpwitness.auditors.running.engine import Phase, Segment, Sides, Stage, collect, require_equal_runs
from dpwitness.auditors.running.generator_locks import task_lock
from dpwitness.auditors.running.statefulness import digest
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.protocols.mechanism import AlwaysRaises

_ANSWER_WAIT = 2.0  # seconds to wait for second runs of tasks that are already answered
_FIRST_CHUNK_KEY = "first "  # prefix of the keys of digests of first chunks
_FRESH_ROUNDS = 1_000  # fresh rounds compared with the stored counts of a mechanism that cannot be seeded
_ALARM_PROBABILITY = 1e-9  # probability that this comparison rejects the unchanged mechanism


def fit(state: AuditState, pairs: list[Pair], most: int | None = None) -> tuple[list[Pair], list[tuple[int, bool]]]:
    """Return the pairs with some output other than exceptions, at most `most`, and their probes. Raise AlwaysRaises if there is none."""
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


def probe(state: AuditState, pair: Pair, index: int) -> tuple[int, bool]:
    """Probe a pair with a few rounds; return the width of the outputs, and whether they have low bits.

    Other properties of the mechanism are recorded in `state`.
    """
    stage = state.stage(pair, Phase.PROBE, index, state.probe, state.probe)
    started = perf_counter()
    seeded = bool(getattr(state.asked.mechanism, "seeded", True))  # the notes of a target already report it
    # a probe makes about a dozen calls
    found = collect(state.asked.executor.submit(run_probe_stage, stage, seeded), stage, 4 * state.asked.time_limit)
    state.pace.took(perf_counter() - started, found.rounds)
    state.advance(found.rounds)
    state.note(*found.notes)
    if not seeded and not isinstance(state.asked.mechanism, Target):
        state.note("not reproducible: the mechanism says that it takes no seed, so the same seed gives other counts")
    state.probed[index] = found
    plan = state.plans[index] = state.settled(f"probe {index}", lambda: _probe_settings(state, found))
    if seeded and plan["outputs"] not in ("", digest(found.sides)):
        raise _changed_mechanism_error(state, stage)
    if plan["single"]:
        state.single.add(index)
    state.shared |= plan["shared"]
    return plan["width"], plan["floats"]


def _probe_settings(state: AuditState, found: ProbeResult) -> dict[str, Any]:
    """Return the settings that a probe determines for later stages.

    `outputs` is the digest of the probe's outputs; it is empty if their last bits may differ from
    run to run.
    """
    return {
        "single": found.single,
        "shared": found.shared,
        "width": max(1, *(side.values.shape[1] for side in found.sides)),
        "floats": bool(floating(found.sides[0], found.sides[1], first=state.scored)),
        "outputs": "" if any("last bits" in note for note in found.notes) else digest(found.sides),
    }


def settle(state: AuditState, pair: Pair, index: int) -> None:
    """Repeat the probe's chunk after a test, and compare the results of tasks that were run twice. Raise Unfit if something differs."""
    wait(state.pace.copies, timeout=_ANSWER_WAIT)
    for future, span in state.pace.copies.items():
        if future.done():
            require_equal_runs(future, span)
    state.pace.copies.clear()
    if getattr(state.asked.mechanism, "seeded", True):
        stage = state.stage(pair, Phase.PROBE, index, state.probe, state.probe)
        stage = replace(stage, single=state.probed[index].single)
        collect(state.asked.executor.submit(replay_stage, stage, state.probed[index]), stage, 4 * state.asked.time_limit)


def store_first_digest(state: AuditState, stage: Stage, found: Segment) -> None:
    """Store the digest of the outputs of a stage's first chunk, unless it is stored already."""
    if state.ledger is None or not found.sides or found.single != stage.single or not _is_reproducible(state):
        return
    one, zero = found.sides[0]
    _, index, phase = stage.key
    if one is None or zero is None:
        return
    plan = {"rounds": stage.rounds, "chunk": stage.chunk, "single": stage.single, "shared": stage.shared}
    state.settled(f"{_FIRST_CHUNK_KEY}{phase} {index}", lambda: plan | {"outputs": digest((one, zero))})


def require_same_chunks(state: AuditState, pairs: list[Pair]) -> None:
    """Run the first chunk of each stored stage again. Raise InvalidArgument if the outputs differ."""
    if state.ledger is None or not state.ledger.resumed:
        return
    for key, plan in state.ledger.values(_FIRST_CHUNK_KEY).items():
        phase, index = map(int, key.removeprefix(_FIRST_CHUNK_KEY).split())
        stage = state.stage(pairs[index], phase, index, plan["rounds"], plan["chunk"])
        stage = replace(stage, single=plan["single"], shared=plan["shared"])
        one, zero = _run_first_chunk(state, stage)
        if one is None or zero is None or digest((one, zero)) != plan["outputs"]:
            raise _changed_mechanism_error(state, stage)


def require_same_mechanism(state: AuditState, pairs: list[Pair]) -> None:
    """Run the first rounds of a restored audit again. Raise InvalidArgument if they do not match the stored data."""
    assert state.ledger is not None
    before = state.done, list(state.notes), set(state.single), state.shared
    state.single.clear()
    state.shared = False
    there = sum(1 for _ in state.ledger.values("probe "))
    found, _ = fit(state, pairs, there)
    require_same_chunks(state, found)
    state.done, state.notes, state.single, state.shared = before
    if not _is_reproducible(state):
        for tested in state.tested:
            _compare_counts(state, tested)


def _is_reproducible(state: AuditState) -> bool:
    """Return whether equal seeds give bitwise equal outputs on all probed pairs."""
    return all(state.plans[index]["outputs"] for index in state.probed) and bool(getattr(state.asked.mechanism, "seeded", True))


def _compare_counts(state: AuditState, tested: PairTest) -> None:
    """Raise InvalidArgument if the right and wrong guesses of fresh runs do not fit the stored counts of the last stage.

    The test has error probability `_ALARM_PROBABILITY`.
    """
    event, stored = tested.event, tested.tally
    if isinstance(event, Binned):
        event = event.events[len(event.events) // 2]
    one, zero = _run_first_chunk(state, state.stage(tested.pair, Phase.TIMING, state.best, _FRESH_ROUNDS, _FRESH_ROUNDS))
    if one is None or zero is None or stored.rounds == 0:
        return
    (_, wrong0, right0), (_, right1, wrong1) = (
        (int((guess == 0).sum()), int((guess == 1).sum()), int((guess == -1).sum())) for guess in (event.guess(zero), event.guess(one))
    )
    from scipy.stats import hypergeom  # half a second, and few audits need it

    rounds = len(one) + len(zero)
    for mine, its in ((right0 + right1, stored.correct), (wrong0 + wrong1, stored.wrong)):
        law = hypergeom(rounds + stored.rounds, mine + its, rounds)
        if min(law.cdf(mine), law.sf(mine - 1)) < _ALARM_PROBABILITY / 4:
            raise InvalidArgument(
                f"store was made by another version of this mechanism: {mine:,} of {rounds:,} rounds run now are on one side of the event, "
                f"and {its:,} of {stored.rounds:,} stored ones: one mechanism gives this with probability below {_ALARM_PROBABILITY:g}; "
                f"{_advice(state)}"
            )
    state.note(
        f"the mechanism cannot repeat its outputs: {_FRESH_ROUNDS:,} rounds run now "
        f"fit the counts of the store (tested at error {_ALARM_PROBABILITY:g}), "
        "a small change of the mechanism is not seen"
    )


@task_lock()
def _sample_first_chunk(stage: Stage) -> Sides:
    """Return the outputs of a stage's first chunk."""
    return stage.sample(0)


def _run_first_chunk(state: AuditState, stage: Stage) -> Sides:
    """Return the outputs of a stage's first chunk, run on the executor."""
    found: Sides = collect(state.asked.executor.submit(_sample_first_chunk, stage), stage)
    return found


def _changed_mechanism_error(state: AuditState, stage: Stage) -> InvalidArgument:
    """Return the exception for outputs that differ from the stored digest."""
    return InvalidArgument(
        f"store was made by another version of this mechanism: the first {stage.size(0):,} rounds of a stored stage give "
        f"other outputs under the same seed now: the target, or something that it uses, has changed; {_advice(state)}"
    )


def _advice(state: AuditState) -> str:
    """Return the advice at the end of a message on a changed mechanism."""
    file = state.ledger.store.path if state.ledger is not None else "FILE"
    return f"use another store, or remove the audit with `dpwitness store gc {file} {state.asked.name}`"
