"""Spans: consecutive chunks that one task runs and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.event import MIN_KERNEL_ROUNDS, Event
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.workers.fused_counts import Counter, counter
from dpwitness.auditors.workers.generator_locks import task_lock
from dpwitness.auditors.workers.stage import Sides, Stage
from dpwitness.auditors.workers.statefulness import Unfit, mark, same_outputs
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.mechanisms.wrappers.programs.inside import global_generators

Tables = list[NDArray[np.int64]]
_Counters = tuple[Counter, Counter]


@dataclass(slots=True)
class Segment:
    """Results of consecutive chunks of one segment."""

    # for each event, the number of outputs in each of its cells: (2, cells), D1 in row 0
    tables: Tables = field(default_factory=list)
    # outputs (D1, D0) of the chunks whose outputs are stored
    sides: list[Sides] = field(default_factory=list)
    rounds: int = 0
    lost: int = 0  # rounds in batches that raised (see `rounds`)
    # hashes that detect repeated outputs (see `statefulness`)
    marks: list[int] = field(default_factory=list)
    seconds: float = 0.0  # duration of the runs only
    single: bool = False  # whether some runs were executed one at a time

    def add(self, other: Segment) -> None:
        """Add the results of the chunks that follow."""
        self.tables = (
            [a + b for a, b in zip(self.tables, other.tables, strict=True)]
            if self.tables
            else list(other.tables)
        )
        self.sides += other.sides
        self.marks += other.marks
        self.rounds += other.rounds
        self.lost += other.lost
        self.seconds += other.seconds
        self.single |= other.single

    def tally(self, directions: int) -> Tally:
        """Return the numbers of right and wrong guesses from the first event's cells (abstain, D1,
        D0); lost rounds count as wrong.
        """
        table, lost = self.tables[0], self.lost
        return Tally(
            int(table[0, 1] + table[1, 2]),
            int(table[0, 2] + table[1, 1]) + lost,
            int(table.sum()) + lost,
            directions,
        )

    def agrees(self, other: Segment) -> bool:
        """Return whether another run of the same chunks gave the same results; the duration is not
        compared.
        """
        fields = [
            (each.rounds, each.lost, each.marks, each.single, len(each.tables), len(each.sides))
            for each in (self, other)
        ]
        return (
            fields[0] == fields[1]
            and all(np.array_equal(a, b) for a, b in zip(self.tables, other.tables, strict=True))
            and all(
                _same(a, b)
                for ours, theirs in zip(self.sides, other.sides, strict=True)
                for a, b in zip(ours, theirs, strict=True)
            )
        )


def _same(a: Outputs | None, b: Outputs | None) -> bool:
    """Return whether both outputs are missing or equal."""
    return a is b if a is None or b is None else same_outputs(a, b)


@dataclass(slots=True)
class Span:
    """Results of chunks first, ..., last - 1, by segment.

    If `raised`, the last chunk lost rounds, or the chunk after it did and was left out.
    """

    first: int
    last: int
    parts: list[tuple[int, Segment]]
    raised: bool = False
    seconds: float = 0.0


@task_lock()
def run_span(
    stage: Stage, events: Sequence[Event], keep: int, again: bool, first: int, last: int
) -> Span:
    """Run chunks first, ..., last - 1, up to and including the first chunk that loses rounds.

    With `again` the chunk that loses rounds is left out, because it will be run again. The outputs
    of chunks that begin before round `keep` are stored.
    """
    started = perf_counter()
    counters = _counting_kernels(stage, events)
    parts: dict[int, Segment] = {}
    for index in range(first, last):
        if counters is None or index * stage.chunk < keep:
            result = _run_with_sample(stage, events, index, index * stage.chunk < keep)
            if counters is not None and index == 0:
                _require_same_results(result, _run_with_kernels(stage, counters, index))
        else:
            result = _run_with_kernels(stage, counters, index)
        if result.lost and again:
            return Span(first, index, list(parts.items()), True, perf_counter() - started)
        parts.setdefault(stage.segment(index), Segment()).add(result)
        if result.lost:
            return Span(first, index + 1, list(parts.items()), True, perf_counter() - started)
    return Span(first, last, list(parts.items()), False, perf_counter() - started)


def _counting_kernels(stage: Stage, events: Sequence[Event]) -> _Counters | None:
    """Return kernels that count one event while outputs are drawn, for D1 and D0; None if the stage
    is short or a kernel is missing.
    """
    if stage.single or len(events) != 1 or stage.rounds < MIN_KERNEL_ROUNDS:
        return None
    one, zero = (
        counter(stage.run, dataset, events[0]) for dataset in (stage.pair.d1, stage.pair.d0)
    )
    return None if one is None or zero is None else (one, zero)


def _run_with_kernels(stage: Stage, counters: _Counters, index: int) -> Segment:
    """Run a chunk with the counting kernels; only its first outputs are stored."""

    def work() -> list[tuple[NDArray[np.int64], Outputs | None]]:
        """Count both sides of the chunk; a batch that raises is lost."""
        sizes, order, rngs, _ = stage.sides(index)
        result: dict[int, tuple[NDArray[np.int64], Outputs | None]] = {}
        for side in order:
            global_generators.seed_batch(rngs[side])
            try:
                result[side] = counters[side].count(sizes[side], rngs[side])
            except (MechanismFailed, MemoryError):
                raise
            except Exception:  # a batch that raises is lost, see `rounds`
                result[side] = np.zeros(3, dtype=np.int64), None
        return [result[0], result[1]]

    started = perf_counter()
    result = stage.run_seeded(index, work)
    duration = perf_counter() - started
    table = np.array([table for table, _ in result])
    marks = _marks(stage, [head for _, head in result if head is not None])
    return Segment(
        [table], [], stage.size(index), stage.size(index) - int(table.sum()), marks, duration, False
    )


def _run_with_sample(
    stage: Stage, events: Sequence[Event], index: int, store_outputs: bool
) -> Segment:
    """Run a chunk with `sample` and count its outputs."""
    started = perf_counter()
    sides = stage.sample(index)
    duration = perf_counter() - started
    batches = [side for side in sides if side is not None]
    tables = [
        np.array([_tabulate(event, side, stage.rounds) for side in sides], dtype=np.int64)
        for event in events
    ]
    lost = stage.size(index) - sum(map(len, batches))
    return Segment(
        tables,
        [sides] if store_outputs else [],
        stage.size(index),
        lost,
        _marks(stage, batches),
        duration,
        stage.single,
    )


def _marks(stage: Stage, batches: Sequence[Outputs]) -> list[int]:
    """Return the marks of the outputs that the stage records."""
    return [
        result
        for side in batches
        if (result := mark(side)) is not None and result % stage.marked == 0
    ]


def _require_same_results(sampled: Segment, from_kernels: Segment) -> None:
    """Raise Unfit if ``draws`` of a mechanism does not give the outputs of ``sample``: the counted
    outputs must be the audited outputs.
    """
    if not sampled.lost and (
        sampled.marks != from_kernels.marks
        or not np.array_equal(sampled.tables[0], from_kernels.tables[0])
    ):
        raise Unfit(
            "mechanism draws other outputs than it samples: draws(dataset).sample and sample "
            "must give the same outputs"
        )


def _tabulate(event: Event, side: Outputs | None, rounds: int) -> NDArray[np.int64]:
    """Return the event's cell counts; zeros for a batch that raised."""
    return event.tabulate(Outputs(np.empty((0, 1)), np.empty(0)) if side is None else side, rounds)


def require_complete_counts(stage: Stage, span: Span) -> None:
    """Raise MechanismFailed if a worker's counts do not add up to the requested number
    of rounds.
    """
    counted = sum(part.rounds for _, part in span.parts)
    requested = stage.size(span.first, span.last) if span.last > span.first else 0
    tables = all(
        int(table.sum()) + part.lost == part.rounds and (table >= 0).all()
        for _, part in span.parts
        for table in part.tables
    )
    if counted != requested or not tables:
        raise MechanismFailed(
            f"a worker returned counts that do not add up: chunks {span.first} to {span.last - 1} "
            f"have {requested} rounds, the worker counted {counted}"
        )
