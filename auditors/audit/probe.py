"""Stage 1 of an audit, the probe: a few rounds on each pair before all others, to check that the
mechanism can be audited.

The probe checks whether runs raise, whether outputs repeat under one seed, and whether the
mechanism keeps state between runs.

One chunk is run three times with the same streams, all in one process, with one and then two calls
in between. The replays begin three and four calls after the run before, so that no period of calls
can hide. A mechanism that takes its randomness from `rng` gives the same outputs each time, and
draws the same amount. A mechanism that keeps noise, grows its noise, counts its calls or draws from
another source does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.audit.options import SHORT_PAIRS, AuditOptions, probe_chunk, tried_pairs
from dpwitness.auditors.audit.runner import RoundRunner
from dpwitness.auditors.audit.screening import screen
from dpwitness.auditors.events.learning import floating
from dpwitness.auditors.events.outputs import ONE_RUN_ADVICE, Outputs, encode, opaque_type_notes
from dpwitness.auditors.workers.engine import Phase, Sides, Stage, run_side, stream
from dpwitness.auditors.workers.environment_errors import (
    check_one_sided,
    is_environment_fault,
    what_to_try,
)
from dpwitness.auditors.workers.rounds import current_lock, is_builtin_mechanism, task_lock
from dpwitness.auditors.workers.statefulness import Unfit, check_structure, digest, same_outputs
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.mechanism import AlwaysRaises, MechanismFailed
from dpwitness.core.values.object_tree import text_of
from dpwitness.mechanisms.wrappers.programs.inside import global_generators
from dpwitness.mechanisms.wrappers.programs.inside.target_runs import collect_warnings
from dpwitness.mechanisms.wrappers.programs.target import Target

_CALL_RUNS = 8  # maximum number of runs per call

_STATE_FAULT = (
    "keeps state between rounds or ignores rng "
    "(if it draws from a source that takes no seed, such as a compiled library, add a line "
    "to its file: NAME.seeded = False)"
)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Results of the probe, with the settings `single` and `shared` of later stages
    (see `Stage`).
    """

    sides: tuple[Outputs, Outputs]  # outputs of the chunk on D1 and on D0
    words: tuple[int, ...]  # numbers of random words that were drawn from each generator
    rounds: int
    single: bool
    shared: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProbedPair:
    """Pair number `index` of the usable pairs, and the findings of its probe."""

    pair: Pair
    index: int
    stage: Stage
    probe: ProbeResult
    width: int  # number of columns of the outputs
    floats: bool  # whether outputs have low bits
    digest: str  # digest of the outputs; empty if their last bits may differ from run to run


def run_probes(
    runner: RoundRunner, options: AuditOptions, pairs: Sequence[Pair]
) -> tuple[AuditOptions, list[ProbedPair]]:
    """Probe the pairs for which there are enough runs; return the options that the probes
    determine, and the usable pairs.
    """
    most = tried_pairs(runner.planned)
    # with so few runs, the best pair of the looks that does not always raise is tested: all but one
    # pair at most are left
    pairs = screen(runner, options, pairs, most or max(1, min(SHORT_PAIRS, len(pairs) - 1)))
    options = replace(options, probe=probe_chunk(runner.planned, len(pairs)))
    probed = probe_pairs(runner, options, pairs, None if most else 1)
    bits = options.bits and most > 0 and any(each.floats for each in probed)
    return replace(options, bits=bits, width=max(each.width for each in probed)), probed


def probe_pairs(
    runner: RoundRunner, options: AuditOptions, pairs: Sequence[Pair], most: int | None = None
) -> list[ProbedPair]:
    """Return the pairs with some output other than exceptions, at most `most`. Raise AlwaysRaises
    if there is none.
    """
    probed, failed = list[ProbedPair](), list[tuple[Pair, AlwaysRaises]]()
    for pair in pairs:
        if len(probed) == most:
            break
        try:
            probed.append(probe_pair(runner, options, pair, len(probed)))
        except AlwaysRaises as error:
            runner.advance(error.rounds)
            failed.append((pair, error))
    if not probed:
        raise failed[0][1]
    if failed:
        (first, cause), others = (
            failed[0],
            f" and {len(failed) - 1} more" if len(failed) > 1 else "",
        )
        runner.note(
            "skipped, because every run on both datasets raised: pair "
            f"({first.why}){others}; {cause}"
        )
    runner.repeatable = options.seeded and all(each.digest for each in probed)
    return probed


def probe_pair(runner: RoundRunner, options: AuditOptions, pair: Pair, index: int) -> ProbedPair:
    """Probe a pair with a few rounds."""
    stage = runner.stage(pair, Phase.PROBE, index, options.probe, options.probe)
    started = perf_counter()
    # a probe makes about a dozen calls
    found: ProbeResult = runner.call(
        _run_probe_stage, stage, options.seeded, limit=4 * options.time_limit
    )
    runner.pace.took(perf_counter() - started, found.rounds)
    runner.advance(found.rounds)
    runner.note(*found.notes)
    # the notes of a target already report it
    if not options.seeded and not isinstance(options.mechanism, Target):
        runner.note(
            "not reproducible: the mechanism declares that it takes no seed, so a second "
            "audit gives other counts"
        )
    settings = runner.settled(
        f"probe {index}",
        lambda: {  # for later stages
            "single": found.single,
            "shared": found.shared,
            "width": max(1, *(side.values.shape[1] for side in found.sides)),
            "floats": bool(floating(*found.sides, first=options.score_columns)),
            "outputs": ""
            if any("last bits" in note for note in found.notes)
            else digest(found.sides),
        },
    )
    if (
        runner.ledger is not None
        and options.seeded
        and settings["outputs"] not in ("", digest(found.sides))
    ):
        raise runner.ledger.changed_outputs(stage.size(0))
    if settings["single"]:
        runner.single.add(index)
    runner.shared |= settings["shared"]
    return ProbedPair(
        pair, index, stage, found, settings["width"], settings["floats"], settings["outputs"]
    )


def repeat_probe(runner: RoundRunner, probed: ProbedPair) -> None:
    """Repeat the probe's chunk after a test. Raise Unfit if its outputs differ."""
    if runner.seeded:
        stage = replace(probed.stage, single=probed.probe.single)
        runner.call(_replay_stage, stage, probed.probe, limit=4 * stage.time_limit)


@task_lock()
def _run_probe_stage(stage: Stage, seeded: bool) -> ProbeResult:
    """Probe the stage's only chunk in this process, and raise MechanismFailed if the mechanism
    cannot be audited.

    If `seeded`, equal streams must give equal outputs.
    """
    if is_builtin_mechanism(stage.run):
        return _run_probe(stage, seeded)
    with current_lock().seeding():
        return _run_foreign_probe(stage, seeded)


def _run_foreign_probe(stage: Stage, seeded: bool) -> ProbeResult:
    """Probe a mechanism that may draw from global generators and may warn. Their states are
    restored afterwards.
    """
    generator_states, owner = global_generators.snapshot(), getattr(stage.run, "__self__", None)
    warned: list[str] = []
    try:
        with collect_warnings(warned):
            result = _run_probe(stage, seeded)
    finally:
        global_generators.restore(generator_states)
    warning_texts = owner.warned if isinstance(owner, Target) else warned
    return replace(result, notes=(*result.notes, *list(dict.fromkeys(warning_texts))[:4]))


def _run_probe(stage: Stage, seeded: bool, runs_before: int = 0) -> ProbeResult:
    """Run the chunk and its replays, and check the outputs. If a batch raises, start again with
    single runs.
    """
    datasets_before = _dataset_text(stage)
    sides, words, shared = _run_chunk(stage)
    # both batches raised: replays would raise too
    if not stage.single and all(side is None for side in sides):
        return _run_probe(replace(stage, single=True), seeded, runs_before + stage.rounds)
    batches, rounds, notes = (
        [[side] for side in sides],
        runs_before + stage.rounds,
        dict[str, None](),
    )
    if sides[0] is not None and sides[1] is not None:
        # before the replays, which a slow exception makes expensive
        _check_output(stage, rounds, sides[0], sides[1])
    runs = min(_CALL_RUNS, stage.rounds // 2)
    for calls in (1, 2):  # before each replay
        rounds += _check_buffer(stage, calls, runs)
        for call in range(calls):
            batches[0].append(
                run_side(
                    stage.run, stage.pair.d1, runs, stream(stage.seed, *stage.key, 1, calls, call)
                )
            )
        replayed, replayed_words, _ = _run_chunk(stage)
        rounds += stage.rounds + runs * calls
        for batches_of_side, side in zip(batches, replayed, strict=True):
            batches_of_side.append(side)
        if not stage.single and any(
            side is None or _raises(side) for batches_of_side in batches for side in batches_of_side
        ):
            return _run_probe(replace(stage, single=True), seeded, rounds)
        complete = [
            [side for side in batches_of_side if side is not None] for batches_of_side in batches
        ]
        check_structure(complete[0], "D1")
        check_structure(complete[1], "D0")
        if _dataset_text(stage) != datasets_before:
            raise MechanismFailed(
                "mechanism changes its dataset in place; the dataset must stay unchanged"
            )
        if seeded:
            notes.update(dict.fromkeys(_compare_runs(sides, replayed, words, replayed_words)))
    assert sides[0] is not None and sides[1] is not None
    check_one_sided(
        getattr(stage.run, "run", stage.run), stage.pair.d1, stage.pair.d0, (sides[0], sides[1])
    )
    for side in (sides[0], sides[1]):
        notes.update(dict.fromkeys(opaque_type_notes(side)))
    return ProbeResult((sides[0], sides[1]), words, rounds, stage.single, shared, tuple(notes))


def _replay_stage(stage: Stage, probed: ProbeResult) -> None:
    """Run the probe's chunk again after the test. Raise Unfit if its outputs have changed."""
    sides, words, _ = _run_chunk(stage)
    _compare_runs(probed.sides, sides, probed.words, words)


def _run_chunk(stage: Stage) -> tuple[Sides, tuple[int, ...], bool]:
    """Return the chunk's outputs, the numbers of words drawn from its streams, and whether a global
    generator was used.
    """
    if is_builtin_mechanism(stage.run):
        sides, rngs = stage.flip(0)
        return sides, _words_drawn(rngs), False
    with stage.globally_seeded(0):
        sides, rngs = stage.flip(0)
        return sides, _words_drawn(rngs), global_generators.has_drawn()


def _words_drawn(rngs: list[Generator]) -> tuple[int, ...]:
    """Return the number of 64-bit words drawn from each SFC64 generator, which its state counts."""
    return tuple(int(rng.bit_generator.state["state"]["state"][3]) for rng in rngs)


def _compare_runs(
    first: Sides, replayed: Sides, words: tuple[int, ...], replayed_words: tuple[int, ...]
) -> list[str]:
    """Raise Unfit if two runs with the same streams differ; return a note if only the last bits
    differ.
    """
    for a, b in zip(first, replayed, strict=True):
        if a is None or b is None or not same_outputs(a, b):
            if (
                a is not None
                and b is not None
                and a.values.shape == b.values.shape
                and np.array_equal(a.codes, b.codes)
                and np.allclose(a.values, b.values, rtol=1e-9, atol=0.0, equal_nan=True)
            ):
                return [
                    "outputs under one seed differ in their last bits: counts may not be reproduced"
                ]
            raise Unfit(f"outputs under one seed differ: mechanism {_STATE_FAULT}")
    if words != replayed_words:
        raise Unfit(
            "two calls with equal generators draw different amounts of randomness: "
            f"mechanism {_STATE_FAULT}"
        )
    return []


def _check_buffer(stage: Stage, call: int, runs: int) -> int:
    """Raise Unfit if an output changes when the mechanism is called again; return the number of
    runs.
    """
    if is_builtin_mechanism(stage.run):
        return 0
    rngs = [stream(stage.seed, *stage.key, 2, call, part) for part in (0, 1)]
    try:
        raw = stage.run(stage.pair.d1, runs, rngs[0])
    except MechanismFailed:
        raise
    except Exception:
        return runs
    copy = encode(raw, runs).copied()
    with contextlib.suppress(Exception):
        stage.run(stage.pair.d0, runs, rngs[1])
    if not same_outputs(copy, encode(raw, runs)):
        raise Unfit(
            "mechanism returns the same buffer in every call: an output changes with the "
            "next call; return a new array each time"
        )
    return 2 * runs


def _check_output(stage: Stage, rounds: int, *sides: Outputs) -> None:
    """Raise AlwaysRaises if every run on both datasets raises; the message contains the exception
    of one more run.
    """
    if not all(_raises(side, all) for side in sides):
        return
    name, message = sorted(name for side in sides for name in side.structures())[0], ""
    try:
        getattr(stage.run, "run", stage.run)(stage.pair.d0, 1, stream(stage.seed, *stage.key, 3))
    except Exception as error:
        message = f": {text_of(error, str)}" + (
            f"; {ONE_RUN_ADVICE}" if "but 3 were given" in str(error) else ""
        )
        message += f"; {what_to_try(message)}" if is_environment_fault(error) else ""
    raise AlwaysRaises(f"mechanism always {name}{message}", rounds)


def _raises(side: Outputs, quantifier: Callable[[Any], bool] = any) -> bool:
    """Return whether any run raises, or all runs if `quantifier` is `all`."""
    return len(side) > 0 and quantifier(name.startswith("raises ") for name in side.structures())


def _dataset_text(stage: Stage) -> str:
    """Return both datasets as text, to detect changes in place."""
    pair_json = stage.pair.to_json()
    return repr([pair_json["d0"], pair_json["d1"]])
