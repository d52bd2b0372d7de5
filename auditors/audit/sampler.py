"""Sampler of an audit, which runs all rounds, with the records that all rounds share; the budget of
runs, which is fixed before the plan begins and may be planned again; and mechanisms whose outputs
include scores, with the test that scores are numbers and functions of each output alone.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.audit.options import (
    FEWEST,
    LEAST,
    MIN_RUNS_PER_PAIR,
    AuditOptions,
    RunCost,
    format_duration,
    of_clock,
    planned_seconds,
    price,
    require_enough_trials,
    slowdown,
)
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.outputs import (
    Key,
    Score,
    ScoredOutputs,
    guarded,
    numeric_column,
    same_scores,
    score_columns,
)
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.anytime import log_dependence, mean_evidence
from dpwitness.auditors.witnesses.audit_records import AuditLedger
from dpwitness.auditors.workers import engine
from dpwitness.auditors.workers.chunks import Segment, Tables
from dpwitness.auditors.workers.engine import Inline, Pace, collect, is_remote
from dpwitness.auditors.workers.fitness import RepeatDetector, Unfit, check_calls, digest
from dpwitness.auditors.workers.pair_exercise import OutputComparison
from dpwitness.auditors.workers.rounds import Phase, Run, Stage, audit_key, stream
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray, ForeignMechanism, MechanismFailed, Parts
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.single_runs import PerRun

T = TypeVar("T")

# factors on the number of remaining runs below and above which they are planned again
_FEWER, _MORE = 0.92, 1.5
FIRST_CHUNK = "first "  # prefix of the keys of digests of first chunks


class Sampler:
    """Runs the rounds of a validated request: counts them, reports the progress, stores them, and
    records failures and repeated outputs.
    """

    def __init__(self, options: AuditOptions) -> None:
        self.request, mechanism = options, options.mechanism
        wrapped = isinstance(mechanism, ForeignMechanism | PerRun)
        self.run = getattr(mechanism, "sample", mechanism)
        self.executor, self._own_executor = options.executor or Inline(), options.executor is None
        self.planned, self.seed = options.trials, options.seed
        self.notes: list[str] = list(mechanism.notes) if wrapped else []
        self.batch: int | None = getattr(mechanism, "batch", None) if wrapped else None
        self.ledger: AuditLedger | None = None  # store of the counts
        self.done = self.batches = 0
        self.single: set[int] = set()  # indices of pairs on which a batch has raised
        self.shared = False  # whether the mechanism has drawn from a global generator
        self.repeatable = False  # whether equal seeds gave bitwise equal outputs in all probes
        self.pace, self.repeats = Pace(), RepeatDetector()
        # counts of each event in each segment, by key of the stage
        self.calls: dict[tuple[int, int, int], list[Tables]] = {}
        # log-evidence that the runs of each stage depend on each other (`statistics/anytime`)
        self.dependence: list[float] = []
        self.seen = OutputComparison()
        # durations of earlier sessions up to the restored records
        self.seconds = self.cpu_seconds = 0.0
        self.searching = 0.0  # seconds of the budget's clock that the search for pairs took
        self.cost: RunCost | None = None  # of the runs that a time budget plans
        # pairs that a time budget can compare by a few runs, and those whose outputs it can rank
        self.most_looks = self.most_pairs = sys.maxsize
        # seconds of the budget's clock, runs and batches, by index of the pair
        self.took: dict[int, tuple[float, int, int]] = {}
        self.started, self.cpu_started = engine.read_clock("wall")(), engine.cpu_seconds()
        self.asked = 0.0  # when `is_past` last read the clock

    def close(self) -> None:
        """Shut the executor down, unless the user gave it."""
        if self._own_executor:
            self.executor.shutdown(wait=False)

    @property
    def elapsed(self) -> float:
        """Duration of the audit so far, in seconds of wall time."""
        return self.seconds + engine.read_clock("wall")() - self.started

    @property
    def elapsed_cpu(self) -> float:
        """CPU time of the audit so far, in seconds; 0 if it is unknown, because workers run on
        other machines.
        """
        return (
            0.0
            if is_remote(self.executor)
            else self.cpu_seconds + engine.cpu_seconds() - self.cpu_started
        )

    @property
    def spent(self) -> float:
        """Part of the time budget that is spent, in seconds of the budget's clock."""
        return self.elapsed_cpu if self.request.clock == "cpu" else self.elapsed

    def overdue(self, every: float = 0.01) -> bool:
        """Return whether a time budget is used up, although the planned runs are not over: halfway
        between the end of the plan and that of the budget; see `is_past`.
        """
        seconds = self.request.seconds or 0.0
        return self.is_past((planned_seconds(seconds) + seconds) / 2, every)

    def is_past(self, until: float, every: float = 0.01) -> bool:
        """Return whether more than this part of a time budget is spent; false without a plan.

        The clock, which takes milliseconds to read, is read again after `every` share of the
        budget; until then the answer is no.
        """
        seconds, now = self.request.seconds, engine.read_clock("wall")()
        if seconds is None or self.request.find is not None or now - self.asked < every * seconds:
            return False
        self.asked = now
        return self.spent > until

    def within(self, share: float, key: str, items: Iterable[T]) -> Iterator[T]:
        """Yield items until a share of the planned time is spent, at least one. Their number is
        stored under `key`, because a resumed audit must use as many.
        """
        if self.request.seconds is None:
            yield from items
            return
        known = None if self.ledger is None else self.ledger.value(key, None)
        count, until = 0, share * planned_seconds(self.request.seconds)
        for item in items:
            if count and (self.is_past(until) if known is None else count == known):
                break
            count += 1
            yield item
        self.settled(key, lambda: count)

    @property
    def remaining(self) -> int:
        """Number of remaining runs."""
        return self.planned - self.done

    def stage(self, pair: Pair, phase: int, index: int, rounds: int, chunk: int) -> Stage:
        """Return the stage of these rounds on pair number `index`."""
        chunk = min(chunk, self.batch or chunk)
        key = (audit_key(self.request.name), index, phase)
        return Stage(
            self.run,
            pair,
            self.seed,
            key,
            rounds,
            chunk,
            self.request.time_limit,
            index in self.single,
            self.shared,
        )

    def call(
        self,
        function: Callable[..., Any],
        stage: Stage,
        *arguments: Any,
        limit: float | None = None,
    ) -> Any:
        """Return ``function(stage, *arguments)``, run on the executor."""
        return collect(self.executor.submit(function, stage, *arguments), stage, limit)

    def outputs(self, stage: Stage, *, recorded: bool = True) -> Iterator[Segment]:
        """Yield the stage's segments with outputs, and record them unless they only rank pairs."""
        segments = engine.outputs(stage, self.executor, self.pace, ledger=self.ledger)
        return self._recorded(stage, segments) if recorded else segments

    def counts(self, stage: Stage, events: Sequence[Event], keep: int = 0) -> Iterator[Segment]:
        """Yield the stage's segments with the counts of events, and record them."""
        return self._recorded(
            stage,
            engine.counts(stage, events, self.executor, self.pace, keep=keep, ledger=self.ledger),
        )

    def _recorded(self, stage: Stage, segments: Iterator[Segment]) -> Iterator[Segment]:
        """Yield the segments of a stage after they are recorded."""
        for found in segments:
            self._record(stage, found)
            yield found

    def _record(self, stage: Stage, found: Segment) -> None:
        """Record a segment of a stage, with the digest of its first outputs. Raise Unfit if its
        outputs have occurred before.
        """
        _, index, phase = stage.key
        one, zero = found.sides[0] if found.sides else (None, None)
        if (
            self.ledger is not None
            and self.repeatable
            and found.single == stage.single
            and one is not None
            and zero is not None
        ):
            plan = {
                "rounds": stage.rounds,
                "chunk": stage.chunk,
                "single": stage.single,
                "shared": stage.shared,
            }
            self.ledger.fact(
                f"{FIRST_CHUNK}{phase} {index}", lambda: plan | {"outputs": digest((one, zero))}
            )
        if found.single or found.lost:
            self.single.add(index)
        if self.repeats.add(found.marks):
            raise Unfit(
                "mechanism ignores rng or keeps its noise: rounds repeat, the outputs of one "
                "chunk occur again in another chunk"
            )
        if found.tables:
            self.calls.setdefault(stage.key, []).append(found.tables)
        self.batches += math.ceil(found.rounds / stage.chunk)
        self.advance(found.rounds)

    def check_calls(self, stage: Stage) -> None:
        """Raise Unfit if the counts of a stage, together with those of earlier stages, vary between
        calls beyond chance.
        """
        tables = self.calls.get(stage.key, [])
        if len(tables) > 1:
            self.dependence.append(dependence_between(tables))
            check_calls(self.dependence)

    def advance(self, rounds: int) -> None:
        """Add completed rounds, and report the progress."""
        self.done += rounds
        if self.ledger is not None:
            self.ledger.progress(self.done, self.planned)
        if self.request.progress is not None:
            self.request.progress(self.done, self.planned)

    @contextmanager
    def timing(self, index: int) -> Iterator[None]:
        """Add the time, the runs and the batches of the block to those on pair number `index`."""
        before = self.spent, self.done, self.batches
        yield
        now = self.spent, self.done, self.batches
        took = self.took.get(index, (0.0, 0, 0))
        self.took[index] = (
            took[0] + now[0] - before[0],
            took[1] + now[1] - before[1],
            took[2] + now[2] - before[2],
        )

    def show_bound(self, symbol: str, bound: float) -> None:
        """Report a bound to the progress callback."""
        interim_bound = getattr(self.request.progress, "interim_bound", None)
        if interim_bound is not None:
            interim_bound(symbol, bound)

    def note(self, *notes: str) -> None:
        """Add notes that are not in the list yet."""
        self.notes.extend(note for note in notes if note not in self.notes)

    def settled(self, key: str, find: Callable[[], T]) -> T:
        """Return the value stored under `key` by an earlier run of this audit, or else the result
        of `find`, which is then stored.

        Later stages depend on this value, so a resumed audit must use the stored one.
        """
        return find() if self.ledger is None else self.ledger.fact(key, find)

    def fixed(self, phase: int, index: int, event: Event) -> Event:
        """Return the event to test in a phase: the stored event if its test has begun, else the
        given event.

        From the same outputs, this machine may have learned a different event than an earlier one.
        """
        content = event.to_json()
        stored = self.settled(f"{event.kind} {phase} {index}", lambda: content)
        return event if stored == content else read_event(stored)

    def to_json(self) -> Json:
        """Return the records of a finished audit, for its extensions."""
        return {
            "done": self.done,
            "planned": self.planned,
            "shared": self.shared,
            "seconds": self.elapsed,
            "cpu_seconds": self.elapsed_cpu,
            "notes": self.notes,
            "single": sorted(self.single),
            "marks": [f"{mark:x}" for mark in sorted(self.repeats.seen)],
            "seen": dataclasses.astuple(self.seen),
        }

    def restore(self, data: Json) -> None:
        """Restore the records that `to_json` returned."""
        for name in ("done", "planned", "shared", "seconds", "cpu_seconds"):
            setattr(self, name, data[name])
        self.notes, self.single = list(data["notes"]), set(data["single"])
        self.repeats.add(int(mark, 16) for mark in data["marks"])
        self.seen = OutputComparison(*data["seen"])


def dependence_between(segments: Sequence[Tables]) -> float:
    """Return the log-evidence that the counts of events vary between segments beyond chance."""
    by_event = [np.array(tables).transpose(1, 0, 2) for tables in zip(*segments, strict=True)]
    return mean_evidence([log_dependence(*sides) for sides in by_event])


def measure_cost(sampler: Sampler, options: AuditOptions, pair: Pair) -> RunCost:
    """Measure the cost of runs on this pair."""
    stage = partial(sampler.stage, pair, Phase.TIMING, 0)
    return price(
        lambda size: stage(size, size),
        options.claim,
        sampler.executor,
        options.seconds,
        options.clock,
    )


def fix_budget(sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair]) -> AuditOptions:
    """Fix the number of runs before the plan begins, and announce the expected cost. Raise
    InvalidArgument if the time is too short. A sequential audit plans the choice of a pair only.
    """
    if options.find is not None:
        sampler.planned = runs_to_choose(sampler, options, pairs)
        return options
    seconds, announce, trials = options.seconds, options.announce, options.trials
    if seconds is None and announce is None:
        return options
    cost, of = measure_cost(sampler, options, pairs[0]), of_clock(options.clock)
    if seconds is not None:
        now = engine.read_clock(options.clock)
        stage, started = partial(sampler.stage, pairs[0], Phase.TIMING, 0), now()
        ratio, most = slowdown(
            lambda size: stage(size, size), pairs, sampler.executor, seconds, options.clock
        )
        if most > 1:
            sampler.note(
                f"runs take up to {most:.3g} times as long on other pairs as on the first, "
                f"{ratio:.3g} times in the mean of some"
            )
        timing = cost.seconds + now() - started + sampler.searching
        cost = replace(cost, run=cost.run * ratio, seconds=timing)
    each = f"{format_duration(cost.run)}{of} each"
    if seconds is not None:
        sampler.most_pairs = sampler.settled("most pairs", lambda: cost.rankable(seconds))
        sampler.most_looks = sampler.settled("most looks", lambda: cost.comparable(seconds))
        ranked = min(len(pairs), sampler.most_pairs)
        trials = sampler.settled("trials", lambda: cost.trials(planned_seconds(seconds), ranked))
        require_enough_trials(cost, trials, ranked, seconds, options.clock, "audit", FEWEST)
        sampler.planned, sampler.cost, unless = (
            trials,
            cost,
            ", unless runs are planned again for the chosen pair",
        )
        sampler.note(
            f"time budget {seconds:g} s{of}: {trials:,} runs at {each}, as measured on "
            f"{cost.runs:,} other runs; "
            f"a time budget is not reproducible, but trials={trials} gives the same "
            f"counts{'' if len(pairs) == 1 else unless}"
            if trials >= LEAST
            else f"time budget {seconds:g} s{of}: {trials:,} runs at {each}: so few runs show "
            "gross violations only, and no low bits"
        )
    if announce is not None:
        remaining = trials if sampler.ledger is None else max(0, trials - sampler.ledger.entry.done)
        announce(
            f"{options.name}: {remaining:,} runs at {each}, about "
            f"{format_duration(cost.time(remaining, len(pairs)))} expected"
        )
    return replace(options, trials=trials)


def runs_to_choose(sampler: Sampler, options: AuditOptions, pairs: Sequence[Pair]) -> int:
    """Return the number of runs for which a sequential audit plans the choice of a pair: some for
    each pair, within its budget.
    """

    def find() -> int:
        runs = min(options.trials, MIN_RUNS_PER_PAIR * len(pairs))
        if options.seconds is None:
            return runs
        return max(
            FEWEST,
            min(
                runs,
                # at least one second for the choice of a pair
                int(max(options.seconds, 1.0) / measure_cost(sampler, options, pairs[0]).run),
            ),
        )

    return sampler.settled("runs to choose", find)


def replan(sampler: Sampler, options: AuditOptions, index: int, when: str) -> None:
    """Plan the rest of a time budget again, before the test, if runs on the chosen pair take longer
    than planned, or much shorter; `when` is the key of the stored plan.
    """
    if options.seconds is None or options.find is not None:
        return
    budget = options.seconds

    def find() -> tuple[int, float]:
        """Return the number of runs in all, and the cost of a run; it is unknown if a store has
        restored runs of the pilot.
        """
        resumed = sampler.ledger is not None and sampler.ledger.resumed
        if resumed or sampler.cost is None:
            return sampler.planned, 0.0
        cost = sampler.cost.on(*sampler.took.get(index, (0.0, 0, 0)))
        least = min(FEWEST, sampler.remaining)
        left = max(least, cost.trials(planned_seconds(budget) - sampler.spent, 1))
        changed = not _FEWER * sampler.remaining <= left <= _MORE * sampler.remaining
        return (sampler.done + left if changed else sampler.planned), cost.run

    planned, each = sampler.settled(f"planned again {when}", find)
    if planned != sampler.planned:
        sampler.note(
            "planned again for the chosen pair, on which a run takes "
            f"{format_duration(each)}: {planned:,} runs in all "
            f"({sampler.planned:,} before), so no number of trials gives the same counts"
        )
        sampler.planned = planned


_TEST_OUTPUTS = 64  # test outputs of each dataset


@dataclass(frozen=True, slots=True)
class ScoredMechanism:
    """Wrapper of a mechanism that adds scores to its outputs."""

    run: Run
    scores: tuple[Score, ...]

    def __call__(self, dataset: Any, size: int, rng: Generator) -> Any:
        """Return the outputs of `size` runs with their scores."""
        try:
            raw = self.run(dataset, size, rng)
        except (MechanismFailed, MemoryError):
            raise
        except Exception as error:
            if size > 1:
                raise
            raw = [error.with_traceback(None)]
        return ScoredOutputs(
            raw, np.column_stack([self._columns(score, raw, size) for score in self.scores])
        )

    def _columns(self, score: Score, raw: Any, size: int) -> FloatArray:
        """Return one score of all outputs; raise Unfit if the score of the first output depends on
        the others.
        """
        if isinstance(raw, Parts):
            parts = [part if isinstance(part, list) or np.ndim(part) else [part] for part in raw]
            return np.concatenate([score.columns(part, len(part)) for part in parts])
        found = score.columns(raw, size)
        if size > 1 and not same_scores(found[:1], score.columns(raw[:1], 1)):
            raise Unfit(
                f"score {score.name} is not a function of each output alone: its values "
                "change with the other outputs of a batch"
            )
        return found


def usable_scores_of(
    stage: Stage, scores: Sequence[Score]
) -> tuple[tuple[Score, ...], list[str], int]:
    """Return the usable scores with their usable columns, notes on the others, and the number of
    runs used.

    A column is usable if it holds numbers that are functions of each output alone.
    """
    batches = [
        batch
        for side, dataset in enumerate((stage.pair.d1, stage.pair.d0))
        for batch in _test_batches(stage, dataset, side)
    ]
    usable, notes = list[Score](), list[str]()
    for score in scores:
        problems = _first_problems(score, batches)
        notes += [
            f"score {score.label(key)} was left out: {problem}"
            for key, problem in problems.items()
            if problem
        ]
        if keys := tuple(key for key, problem in problems.items() if not problem):
            usable.append(replace(score, keys=keys))
    return tuple(usable), notes, 2 * _TEST_OUTPUTS


def _first_problems(score: Score, batches: Sequence[Any]) -> dict[Key, str]:
    """Return the first problem of each column of a score on batches of outputs, empty if there is
    none.
    """
    problems: dict[Key, str] = {} if batches else {None: "there was no output to try it on"}
    for raw in batches:
        for key, problem in _column_problems(score, raw).items():
            problems[key] = problems.get(key) or problem
    return problems


def _test_batches(stage: Stage, dataset: Any, side: int) -> Iterator[Any]:
    """Yield a batch of outputs; if the batch raises, yield the single runs that do not raise."""
    sizes = {(side,): _TEST_OUTPUTS} | {(2 + side, i): 1 for i in range(_TEST_OUTPUTS)}
    for key, size in sizes.items():
        try:
            raw = stage.run(dataset, size, stream(stage.seed, *stage.key, *key))
        except MechanismFailed:
            raise
        except Exception:
            continue
        yield raw[0] if isinstance(raw, Parts) else raw
        if size > 1:
            return


def _column_problems(score: Score, raw: Any) -> dict[Key, str]:
    """Return the problem of each column of a score on some outputs, empty if there is none."""

    def columns(outputs: Any) -> dict[Key, FloatArray]:
        return score_columns(score.function(guarded(outputs)), len(outputs))

    try:
        found, again = columns(raw), columns(raw)
        singles = [columns(raw[i : i + 1]) for i in range(min(len(raw), 4))]
    except MechanismFailed:
        raise
    except Exception as error:
        text = str(error)
        stated = isinstance(error, ValueError) and text.startswith("it gave")
        return {None: text if stated else f"it raises {type(error).__name__}: {text[:200]}"}
    return {key: _column_problem(key, len(raw), found, again, singles) for key in found}


def _column_problem(
    key: Key,
    size: int,
    found: dict[Key, FloatArray],
    again: dict[Key, FloatArray],
    singles: Sequence[dict[Key, FloatArray]],
) -> str:
    """Return why a column of a score is not usable, given two calls on the same outputs, and calls
    on single outputs; an empty text if it is usable.
    """
    try:
        values, repeated = (numeric_column(each[key], size) for each in (found, again))
        one_by_one = np.concatenate([numeric_column(each[key], 1) for each in singles])
    except KeyError:
        return "it gave different columns for fewer outputs"
    except ValueError as error:
        return str(error)
    missing = int(np.isnan(values).sum())
    checks = {
        f"it gave NaN for {missing} of {size} outputs": missing == 0,
        "it gave different values for the same outputs": same_scores(values, repeated),
        "it is not a function of each output alone: its values change with the other outputs of a "
        "batch": same_scores(values[: len(one_by_one)], one_by_one),
    }
    return next((problem for problem, holds in checks.items() if not holds), "")
