"""A span: consecutive chunks run as one task, and counted where they are run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.events.rules import WORTH, Event
from dpwitness.auditors.running.fused import Counter, counter
from dpwitness.auditors.running.health import Unfit, same_outputs
from dpwitness.auditors.running.repeats import mark
from dpwitness.auditors.running.stage import Sides, Stage
from dpwitness.auditors.running.turns import one_task
from dpwitness.mechanisms.foreign.inside import global_generators
from dpwitness.mechanisms.terms.protocol import MechanismFailed

Tables = list[NDArray[np.int64]]
_Counters = tuple[Counter, Counter]


@dataclass(slots=True)
class Segment:
    """What consecutive chunks of one segment gave.

    Parameters
    ----------
    tables : list of (2, cells) int arrays
        Of each event, how many outputs fell into each of its cells, D1 in row 0.
    sides : list
        Outputs (D1, D0) of the chunks that are kept.
    rounds, lost : int
        Rounds in all, and those of batches that raised (`rounds`).
    marks : list of int
        They tell repeated outputs (`repeats`).
    seconds : float
        Of the runs alone.
    single : bool
        Whether some of them were run one at a time.
    """

    tables: Tables = field(default_factory=list)
    sides: list[Sides] = field(default_factory=list)
    rounds: int = 0
    lost: int = 0
    marks: list[int] = field(default_factory=list)
    seconds: float = 0.0
    single: bool = False

    def add(self, other: Segment) -> None:
        """Take in the chunks that follow."""
        self.tables = [a + b for a, b in zip(self.tables, other.tables, strict=True)] if self.tables else list(other.tables)
        self.sides += other.sides
        self.marks += other.marks
        self.rounds += other.rounds
        self.lost += other.lost
        self.seconds += other.seconds
        self.single |= other.single

    def agrees(self, other: Segment) -> bool:
        """Whether another run of the same chunks gave the same, whatever time it took."""
        told = [(each.rounds, each.lost, each.marks, each.single, len(each.tables), len(each.sides)) for each in (self, other)]
        return (
            told[0] == told[1]
            and all(np.array_equal(a, b) for a, b in zip(self.tables, other.tables, strict=True))
            and all(_same(a, b) for mine, its in zip(self.sides, other.sides, strict=True) for a, b in zip(mine, its, strict=True))
        )


def _same(a: Outputs | None, b: Outputs | None) -> bool:
    return a is b if a is None or b is None else same_outputs(a, b)


@dataclass(slots=True)
class Span:
    """Chunks first, ..., last - 1, by segment. One that `raised` ends with a chunk of which rounds were lost, or before it."""

    first: int
    last: int
    parts: list[tuple[int, Segment]]
    raised: bool = False
    seconds: float = 0.0

    def agrees(self, other: Span) -> bool:
        """Whether another run gave the same."""
        told = [(each.last, each.raised, [place for place, _ in each.parts]) for each in (self, other)]
        return told[0] == told[1] and all(a.agrees(b) for (_, a), (_, b) in zip(self.parts, other.parts, strict=True))


@one_task()
def run_span(stage: Stage, events: Sequence[Event], keep: int, again: bool, first: int, last: int) -> Span:
    """Run chunks first, ..., last - 1, up to the first that loses rounds, or with `again` up to the one before it.

    Outputs of chunks that begin before round `keep` are kept.
    """
    began = perf_counter()
    counters = _counters(stage, events)
    parts: dict[int, Segment] = {}
    for index in range(first, last):
        if counters is None or index * stage.chunk < keep:
            found = _sampled(stage, events, index, index * stage.chunk < keep)
            if counters is not None and index == 0:
                _require_equal(found, _drawn(stage, counters, index))
        else:
            found = _drawn(stage, counters, index)
        if found.lost and again:
            return Span(first, index, list(parts.items()), True, perf_counter() - began)
        parts.setdefault(stage.segment(index), Segment()).add(found)
        if found.lost:
            return Span(first, index + 1, list(parts.items()), True, perf_counter() - began)
    return Span(first, last, list(parts.items()), False, perf_counter() - began)


def _counters(stage: Stage, events: Sequence[Event]) -> _Counters | None:
    """What counts the one event of a long stage where outputs are drawn, on D1 and on D0; None where it is not worth it, or cannot be."""
    if stage.single or len(events) != 1 or stage.rounds < WORTH:
        return None
    one, zero = (counter(stage.run, dataset, events[0]) for dataset in (stage.pair.d1, stage.pair.d0))
    return None if one is None or zero is None else (one, zero)


def _drawn(stage: Stage, counters: _Counters, index: int) -> Segment:
    """A chunk of which no output is stored but the first."""

    def work() -> list[tuple[NDArray[np.int64], Outputs | None]]:
        sizes, order, rngs, _ = stage.sides(index)
        found: dict[int, tuple[NDArray[np.int64], Outputs | None]] = {}
        for side in order:
            global_generators.seed_batch(rngs[side])
            try:
                found[side] = counters[side].count(sizes[side], rngs[side])
            except (MechanismFailed, MemoryError):
                raise
            except Exception:  # a batch that raises is lost, as in `rounds`
                found[side] = np.zeros(3, dtype=np.int64), None
        return [found[0], found[1]]

    began = perf_counter()
    found = stage.apart(index, work)
    took = perf_counter() - began
    table = np.array([table for table, _ in found])
    marks = _marks(stage, [head for _, head in found if head is not None])
    return Segment([table], [], stage.size(index), stage.size(index) - int(table.sum()), marks, took, False)


def _sampled(stage: Stage, events: Sequence[Event], index: int, kept: bool) -> Segment:
    began = perf_counter()
    sides = stage.sample(index)
    took = perf_counter() - began
    seen = [side for side in sides if side is not None]
    tables = [np.array([_tabulate(event, side, stage.rounds) for side in sides], dtype=np.int64) for event in events]
    lost = stage.size(index) - sum(map(len, seen))
    return Segment(tables, [sides] if kept else [], stage.size(index), lost, _marks(stage, seen), took, stage.single)


def _marks(stage: Stage, seen: Sequence[Outputs]) -> list[int]:
    return [found for side in seen if (found := mark(side)) is not None and found % stage.marked == 0]


def _require_equal(sampled: Segment, drawn: Segment) -> None:
    """Raise Unfit if a mechanism's ``draws`` are not its ``sample``: what is counted must be what is audited."""
    if not sampled.lost and (sampled.marks != drawn.marks or not np.array_equal(sampled.tables[0], drawn.tables[0])):
        raise Unfit("mechanism draws something else than it samples: draws(dataset).sample and sample must give the same outputs")


def _tabulate(event: Event, side: Outputs | None, rounds: int) -> NDArray[np.int64]:
    return event.tabulate(Outputs(np.empty((0, 1)), np.empty(0)) if side is None else side, rounds)


def require_sound(stage: Stage, span: Span) -> None:
    """Raise MechanismFailed where a worker's counts do not add up to the rounds that it was asked for."""
    counted = sum(part.rounds for _, part in span.parts)
    asked = stage.size(span.first, span.last) if span.last > span.first else 0
    tables = all(int(table.sum()) + part.lost == part.rounds and (table >= 0).all() for _, part in span.parts for table in part.tables)
    if counted != asked or not tables:
        raise MechanismFailed(
            f"a worker returned counts that do not add up: chunks {span.first} to {span.last - 1} hold {asked} rounds, it told of {counted}"
        )
