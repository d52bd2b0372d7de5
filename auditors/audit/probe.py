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
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from dpwitness.auditors.audit.options import (
    EARLY_ALPHA,
    EARLY_LOOK_ROUNDS,
    FEWEST,
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
from dpwitness.auditors.audit.sampler import FIRST_CHUNK, Sampler, replan
from dpwitness.auditors.events.learning import Learned, has_bits, learn, learn_simple
from dpwitness.auditors.events.outputs import (
    ONE_RUN_ADVICE,
    Outputs,
    concatenate,
    encode,
    opaque_type_notes,
    row_keys,
    unrepeated_text_notes,
)
from dpwitness.auditors.events.scorers import counts_suffice
from dpwitness.auditors.statistics.certificate import Part
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.workers.chunks import Segment
from dpwitness.auditors.workers.fitness import (
    Unfit,
    check_imports,
    check_one_sided,
    check_structure,
    check_training,
    digest,
    is_environment_fault,
    same_outputs,
    what_to_try,
)
from dpwitness.auditors.workers.fresh_processes import returns_at_first
from dpwitness.auditors.workers.rounds import (
    Phase,
    Sides,
    Stage,
    current_lock,
    is_builtin_mechanism,
    run_side,
    stream,
    task_lock,
)
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import AlwaysRaises, ForeignMechanism, MechanismFailed
from dpwitness.core.values.object_tree import text_of
from dpwitness.mechanisms.wrappers.programs.inside.target_runs import (
    collect_warnings,
    random_words_drawn,
)
from dpwitness.mechanisms.wrappers.recording import global_generators

_CALL_RUNS = 8  # maximum number of runs per call
# text of an exception of all runs -> what to try
_ADVICE = {
    r"but 3 were given": ONE_RUN_ADVICE,
    r"os\.PathLike|Invalid file path": "a function of a file needs its path, which is a text in "
    "JSON: --d0 '\"FILE.csv\"' --d1 '\"OTHER.csv\"' --relation stated",
}

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


def probe_pairs(
    sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair], most: int | None = None
) -> list[ProbedPair]:
    """Return the pairs with some output other than exceptions, at most `most`. Raise AlwaysRaises
    if there is none, and InvalidArgument if stored stages do not give the same outputs again.
    """
    probed, failed = list[ProbedPair](), list[tuple[Pair, AlwaysRaises]]()
    for pair in pairs:
        if len(probed) == most:
            break
        try:
            probed.append(probe_pair(sampler, options, pair, len(probed)))
        except AlwaysRaises as error:
            sampler.advance(error.rounds)
            failed.append((pair, error))
    if not probed:
        _check_first_runs(sampler, *failed[0])
        raise failed[0][1]
    if failed:
        first, cause = failed[0]
        others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        sampler.note(
            "skipped, because every run on both datasets raised: pair "
            f"({first.why}){others}; {cause}"
        )
    sampler.repeatable = options.seeded and all(each.digest for each in probed)
    _require_stored_outputs(sampler, probed)
    return probed


def _check_first_runs(sampler: Sampler, pair: Pair, error: AlwaysRaises) -> None:
    """Raise MechanismFailed if the first runs of new processes return outputs on a pair on which
    all runs raise.
    """
    stage = sampler.stage(pair, Phase.FRESH, 0, 1, 1)
    if sampler.call(returns_at_first, stage, limit=4 * sampler.request.time_limit):
        raise MechanismFailed(
            f"{str(error).replace(' always', '', 1)}, but not in the first run of a process, so "
            "runs share a state, such as a budget: each run must make it again. For an object: "
            "dpwitness.wrap.fresh(Class, 'METHOD'). For a state of a module: a function that sets "
            "it, then runs"
        )


def _require_stored_outputs(sampler: Sampler, probed: Sequence[ProbedPair]) -> None:
    """Raise InvalidArgument if the first chunk of a stage in the store does not give the same
    outputs again.
    """
    ledger = sampler.ledger
    if ledger is None or not ledger.resumed:
        return
    for key, plan in ledger.values(FIRST_CHUNK).items():
        phase, index = map(int, key.removeprefix(FIRST_CHUNK).split())
        stage = sampler.stage(probed[index].pair, phase, index, plan["rounds"], plan["chunk"])
        one, zero = sampler.call(
            sample_first_chunk, replace(stage, single=plan["single"], shared=plan["shared"])
        )
        if one is None or zero is None or digest((one, zero)) != plan["outputs"]:
            raise ledger.changed_outputs(stage.size(0))


@task_lock()
def sample_first_chunk(stage: Stage) -> Sides:
    """Return the outputs of a stage's first chunk."""
    return stage.sample(0)


def probe_pair(sampler: Sampler, options: AuditOptions, pair: Pair, index: int) -> ProbedPair:
    """Probe a pair with a few rounds."""
    stage = sampler.stage(pair, Phase.PROBE, index, options.probe, options.probe)
    started = perf_counter()
    # a probe makes about a dozen calls
    found: ProbeResult = sampler.call(
        _run_probe_stage, stage, options.seeded, limit=4 * options.time_limit
    )
    sampler.pace.took(perf_counter() - started, found.rounds)
    sampler.advance(found.rounds)
    sampler.note(*found.notes)
    # the notes of a target already report it
    if not options.seeded and not isinstance(options.mechanism, ForeignMechanism):
        sampler.note(
            "not reproducible: the mechanism declares that it takes no seed, so a second "
            "audit gives other counts"
        )
    settings = sampler.settled(
        f"probe {index}",
        lambda: {  # for later stages
            "single": found.single,
            "shared": found.shared,
            "width": max(1, *(side.values.shape[1] for side in found.sides)),
            "floats": any(
                has_bits(side.values[:, options.score_columns :]) for side in found.sides
            ),
            "outputs": ""
            if any("last bits" in note for note in found.notes)
            else digest(found.sides),
        },
    )
    if (
        sampler.ledger is not None
        and options.seeded
        and settings["outputs"] not in ("", digest(found.sides))
    ):
        raise sampler.ledger.changed_outputs(stage.size(0))
    if settings["single"]:
        sampler.single.add(index)
    sampler.shared |= settings["shared"]
    return ProbedPair(
        pair, index, stage, found, settings["width"], settings["floats"], settings["outputs"]
    )


def repeat_probe(sampler: Sampler, probed: ProbedPair) -> None:
    """Run the pair's first chunk again after a test. Raise Unfit if the outputs differ from the
    first time.
    """
    if sampler.request.seeded:
        stage = replace(probed.stage, single=probed.probe.single)
        sampler.call(_replay_stage, stage, probed.probe, limit=4 * stage.time_limit)


@task_lock()
def _run_probe_stage(stage: Stage, seeded: bool) -> ProbeResult:
    """Probe the stage's only chunk in this process, and raise MechanismFailed if the mechanism
    cannot be audited.

    If `seeded`, equal streams must give equal outputs.
    """
    if is_builtin_mechanism(stage.run):
        return _run_probe(stage, seeded)
    with current_lock().seeding():  # it may draw from global generators, and may warn
        generator_states, owner = global_generators.snapshot(), getattr(stage.run, "__self__", None)
        warned: list[str] = []
        try:
            with collect_warnings(warned):
                result = _run_probe(stage, seeded)
        finally:
            global_generators.restore(generator_states)
    warning_texts = owner.warned if isinstance(owner, ForeignMechanism) else warned
    return replace(result, notes=(*result.notes, *list(dict.fromkeys(warning_texts))[:4]))


def _run_probe(stage: Stage, seeded: bool, runs_before: int = 0) -> ProbeResult:
    """Run the chunk and its replays, and check the outputs. If a batch raises, start again with
    single runs. Raise AlwaysRaises if every run on both datasets raises.
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
    # before the replays, which a slow exception makes expensive
    _check_some_output(stage, sides, rounds)
    runs = min(_CALL_RUNS, stage.rounds // 2)
    for calls in (1, 2):  # before each replay
        rounds += _check_buffer(stage, calls, runs)
        batches[0] += [
            run_side(stage.run, stage.pair.d1, runs, stream(stage.seed, *stage.key, 1, calls, call))
            for call in range(calls)
        ]
        replayed, replayed_words, _ = _run_chunk(stage)
        rounds += stage.rounds + runs * calls
        batches[0].append(replayed[0])
        batches[1].append(replayed[1])
        if not stage.single and any(
            side is None or _raises(side) for side in batches[0] + batches[1]
        ):
            return _run_probe(replace(stage, single=True), seeded, rounds)
        for batches_of_side, name in zip(batches, ("D1", "D0"), strict=True):
            check_structure([side for side in batches_of_side if side is not None], name)
        if _dataset_text(stage) != datasets_before:
            raise MechanismFailed(
                "mechanism changes its dataset in place; the dataset must stay unchanged"
            )
        if seeded:
            notes.update(dict.fromkeys(_compare_runs(sides, replayed, words, replayed_words)))
    one, zero = sides
    assert one is not None and zero is not None
    check_one_sided(getattr(stage.run, "run", stage.run), stage.pair.d1, stage.pair.d0, (one, zero))
    notes.update(dict.fromkeys([*opaque_type_notes(one), *opaque_type_notes(zero)]))
    return ProbeResult((one, zero), words, rounds, stage.single, shared, tuple(notes))


def _check_some_output(stage: Stage, sides: Sides, rounds: int) -> None:
    """Raise AlwaysRaises, after this number of rounds, if every run on both datasets raises."""
    if not all(side is not None and _raises(side, all) for side in sides):
        return
    parts, again = [""], getattr(stage.run, "run", stage.run)
    target = getattr(again, "__self__", None)
    try:  # one more run, for its exception
        again(stage.pair.d0, 1, stream(stage.seed, *stage.key, 3))
    except Exception as error:
        text = text_of(error, str)
        parts = [f": {text}" if text else ""]
        parts += [hint for pattern, hint in _ADVICE.items() if re.search(pattern, text)]
        parts += [what_to_try(text)] if is_environment_fault(error) else []
    printed = target.last_output() if isinstance(target, ForeignMechanism) else ""
    names = [name for side in sides if side is not None for name in side.structures()]
    raise AlwaysRaises(f"mechanism always {min(names)}{'; '.join(parts)}{printed}", rounds)


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
        return sides, tuple(map(random_words_drawn, rngs)), False
    with stage.globally_seeded(0):
        sides, rngs = stage.flip(0)
        return sides, tuple(map(random_words_drawn, rngs)), global_generators.has_drawn()


def _compare_runs(
    first: Sides, replayed: Sides, words: tuple[int, ...], replayed_words: tuple[int, ...]
) -> list[str]:
    """Raise Unfit if two runs with the same streams differ; return a note if only the last bits
    differ.
    """
    for a, b in zip(first, replayed, strict=True):
        if a is not None and b is not None:
            if same_outputs(a, b):
                continue
            if (
                a.values.shape == b.values.shape
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


def _raises(side: Outputs, quantifier: Callable[[Any], bool] = any) -> bool:
    """Return whether any run raises, or all runs if `quantifier` is `all`."""
    return len(side) > 0 and quantifier(name.startswith("raises ") for name in side.structures())


def _dataset_text(stage: Stage) -> str:
    """Return both datasets as text, to detect changes in place."""
    pair_json = stage.pair.to_json()
    return repr([pair_json["d0"], pair_json["d1"]])


BothSides = tuple[Outputs, Outputs]  # outputs on (D1, D0), without batches that raised

# share of the claim's parameter that an event must be expected to certify for its test to count
_LEAST_EXPECTED = 0.01
_TRAINED = 0.8  # share of a time budget at which training ends


@dataclass(frozen=True, slots=True)
class TrainedPair:
    """First event of a pair, the outputs that trained the event, and the number of remaining
    rounds.

    The first `first_test` of these rounds also train a better event; 0 if only one event is tested.
    `weight` is the weight of their test, and `looks` holds the share of alpha for the interim
    analysis at their end.
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
            shift=options.shift,
            earlier=self.learned,
        )


def train(
    sampler: Sampler, options: AuditOptions, probed: ProbedPair, known: Sequence[BothSides]
) -> TrainedPair:
    """Train the first event on a share of the remaining runs and the known outputs of the pair.

    With a small budget, and if the event is so rare that few training outputs chose it, the test
    rounds of the first event also train a better event. Renyi rules (RDP, zCDP) are tested once,
    because they have no p-value at a parameter that is cheap to combine.
    """
    # probes of many pairs may take all planned runs; 256 can still train and test an event
    budget = max(sampler.remaining, min(256, sampler.planned // 2))
    plain, single = not options.claim.bounds_renyi, training_rounds(budget, options.width)
    staged = plain and is_staged(budget, options.width)
    easy = staged and sampler.settled(f"easy {probed.index}", lambda: _is_easy(options, probed))
    wanted = training_rounds(budget, options.width, easy=easy)
    missing = wanted - sum(map(_size, known))
    rounds, planned = budget - max(missing, 0), sampler.planned
    if missing > PROBE or not known:
        shown = callable(getattr(sampler.request.progress, "interim_bound", None))
        early = shown and not staged
        with sampler.timing(probed.index):
            found = training_outputs(sampler, options, probed, Phase.TRAIN, missing, early)
        known = [*known, found]
        replan(sampler, options, probed.index, "after training")
        rounds = max(rounds + sampler.planned - planned, min(rounds, FEWEST))
    if sampler.planned < MIN_RUNS_PER_PAIR:  # an eighth of these runs or more is in the probe
        known = [probed.probe.sides, *known]
    error, sides = options.alpha * (1 - EARLY_ALPHA), both_sides(known)
    sampler.note(*opaque_type_notes(*sides), *unrepeated_text_notes(*sides))
    learned = learn(*sides, options.claim, alpha=error, rounds=rounds, shift=options.shift)
    # more outputs improve the order of a model whose score is chance to more than 0.3 %
    few = sum(learned.rates) * sum(map(len, sides)) < RARE_GUESSES or (
        learned.chance > 0.003 and learned.expected > _LEAST_EXPECTED * options.claim.parameter
    )
    more = (
        plain
        and few
        and budget > MAX_STAGED_BUDGET
        and MIN_FIRST_TEST_ROUNDS <= wanted <= TRAIN_ROUNDS // 2
    )
    part = min(2 * single - wanted, int(0.6 * rounds)) if staged or more else 0
    weight = first_weight(learned.expected, options.claim, part / rounds)
    first, weight = sampler.settled(f"plan {probed.index}", lambda: (part, weight))
    return TrainedPair(
        learned, tuple(known), rounds, first, weight, {1.0: LOOK_ALPHA_SHARE} if staged else {}
    )


def first_weight(expected: float, claim: Claim, share: float) -> float:
    """Return the weight of the first of two tests, by its share of the rounds. The weight is small
    if the event is noise: the test then only trains the second event.
    """
    return math.sqrt(share * (0.01 if expected < _LEAST_EXPECTED * claim.parameter else 1.0))


def _is_easy(options: AuditOptions, probed: ProbedPair) -> bool:
    """Return whether few outputs teach the order of all: outputs are one number, or the probe has
    few different outputs.
    """
    outputs = concatenate(probed.probe.sides).matrix()
    return options.width == 1 or counts_suffice(len(np.unique(row_keys(outputs))), len(outputs))


def _show_early_bound(sampler: Sampler, options: AuditOptions, chunks: Sequence[BothSides]) -> None:
    """Report a bound before the event of the audit is learned: the first training outputs train a
    simple event, the outputs after them test it.

    The look spends its own share of alpha. The result of the audit does not use the bound.
    """
    claim, (trained, tested) = options.claim, EARLY_LOOK_ROUNDS
    alpha = options.alpha * LOOK_ALPHA_SHARE * (0.5 if claim.bounds_renyi else 1.0)
    first = int(np.searchsorted(np.cumsum([_size(sides) for sides in chunks]), trained)) + 1
    event = learn_simple(*both_sides(chunks[:first]), claim, alpha=alpha, rounds=tested)
    if event is not None:  # None: outputs have no simple event
        table = np.array([event.tabulate(side) for side in both_sides(chunks[first:])])
        part = Part(Segment([table]).tally(event.directions))
        sampler.show_bound(claim.symbol, combined_bound(claim, [part], alpha))


def _size(sides: BothSides) -> int:
    """Return the number of outputs of both sides."""
    return len(sides[0]) + len(sides[1])


def training_outputs(
    sampler: Sampler,
    options: AuditOptions,
    probed: ProbedPair,
    phase: int,
    rounds: int,
    early: bool = False,
) -> BothSides:
    """Run a training stage on a pair, check its randomness, and return its outputs: of fewer runs
    if they take most of a time budget. With `early`, a bound is reported on the way.
    """
    chunk = min(chunk_size(rounds, options.width), max(rounds // 4, 16))
    stage = sampler.stage(probed.pair, phase, probed.index, rounds, chunk)
    chunks: list[BothSides] = []
    key = f"training {phase} {probed.index}"
    for found in sampler.within(_TRAINED, key, sampler.outputs(stage)):
        # no chunk is dropped, because `engine.outputs` loses no rounds
        chunks += complete_sides(found)
        # rounds that were run again, after a batch raised, do not certify
        early &= stage.single or not found.single
        if early and sum(map(_size, chunks)) >= sum(EARLY_LOOK_ROUNDS):
            _show_early_bound(sampler, options, chunks)
            early = False
    check_training(chunks)
    sides = both_sides(chunks)
    check_imports(sides)
    sampler.seen = sampler.seen.with_batch(*sides)
    return sides


def complete_sides(found: Segment) -> list[BothSides]:
    """Return the stored outputs of a segment's chunks, without chunks in which a batch raised."""
    return [(one, zero) for one, zero in found.sides if one is not None and zero is not None]


def both_sides(parts: Sequence[BothSides]) -> BothSides:
    """Return the outputs of several batches as one pair of batches."""
    return concatenate([part[0] for part in parts]), concatenate([part[1] for part in parts])
