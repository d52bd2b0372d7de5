"""Spans: consecutive chunks that one task runs and counts.

Where a mechanism and an event both have kernels, outputs are drawn and counted in blocks that fit
in the processor's cache. The counts equal those of separate sampling and counting: the same outputs
from the same stream, and the same rule. Without a cache on disk, compiling a kernel takes a second,
so the kernels are used for tests of at least `event.MIN_KERNEL_ROUNDS` rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpwitness.auditors.events.event import MIN_KERNEL_ROUNDS, Event, Kernel, cached_kernel
from dpwitness.auditors.events.outputs import Outputs, encode
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.workers.fitness import Unfit, mark
from dpwitness.auditors.workers.rounds import (
    NOTHING,
    Run,
    Sides,
    Stage,
    is_builtin_mechanism,
    task_lock,
)
from dpwitness.core.numerics.draws import Draws, state_of
from dpwitness.core.protocols import MechanismFailed
from dpwitness.mechanisms.wrappers.recording import global_generators

_HEAD_ROWS = 256  # outputs of the first rounds, which show the structure of all
# bytes of a block: small enough for the processor's cache, and many rows for each call of a kernel
_BLOCK_BYTES = 2**17
_COMPARED_OUTPUTS = 64  # number of outputs compared with those of `sample`


@dataclass(frozen=True, slots=True)
class Counter:
    """Compiled counter of a mechanism's rounds on one dataset, in the cells of one event."""

    draws: Draws
    kernel: Kernel

    def count(self, size: int, rng: Generator) -> tuple[NDArray[np.int64], Outputs]:
        """Return the counts of `size` rounds (abstain, D1, D0), and the outputs of the first
        rounds, at most 256.
        """
        table = np.zeros(3, dtype=np.int64)
        if size == 0:
            return table, NOTHING
        count, rule = self.kernel
        fill: Callable[..., None] = self.draws.fill
        source: Any = rng
        if self.draws.inlined is not None and (state := state_of(rng)) is not None:
            fill, source = self.draws.inlined, state
        rows = max(_HEAD_ROWS, _BLOCK_BYTES // (8 * self.draws.width) // 32 * 32)  # see `Draws`
        block, head = np.empty((min(size, rows), self.draws.width)), NOTHING
        for start in range(0, size, rows):
            filled = block[: size - start]
            fill(*self.draws.arguments, filled, source)
            count(*rule, filled, table)
            if start == 0:
                first = filled[:_HEAD_ROWS].copy()
                head = encode(first, len(first))
        return table, head


def counter(run: Run, dataset: Any, event: Event) -> Counter | None:
    """Return the compiled counter of rounds of `run` on a dataset, or None.

    None unless `run` is the `sample` of a mechanism that offers ``draws``, both kernels are
    compiled, and both give the same outputs.
    """
    draws = _draws_of(run, dataset)
    if draws is None:
        return None
    kernel = cached_kernel(
        event, draws.width, float(encode(np.empty((1, draws.width)), 1).codes[0])
    )
    return None if kernel is None else Counter(draws, kernel)


def _draws_of(run: Run, dataset: Any) -> Draws | None:
    """Return the mechanism's `draws` for a dataset if they exist and match its `sample`; otherwise
    None.
    """
    owner = getattr(run, "__self__", None)
    # a subclass may override `sample`, and that method is audited
    defining = (kind for kind in type(owner).__mro__ if {"sample", "draws"} & vars(kind).keys())
    is_sample = getattr(run, "__func__", None) is getattr(type(owner), "sample", None)
    if "draws" not in vars(next(defining, object)) or not is_sample:
        return None
    try:
        draws = owner.draws(dataset)  # type: ignore[union-attr]
        if not isinstance(draws, Draws) or not hasattr(draws.fill, "py_func"):
            return None
        if is_builtin_mechanism(run):
            return draws
        # bitwise equal first outputs, and generators left in the same state
        one, two = np.random.default_rng(0), np.random.default_rng(0)
        rows = run(dataset, _COMPARED_OUTPUTS, one)
        blocks = np.concatenate([draws.sample(_COMPARED_OUTPUTS // 2, two) for _ in range(2)])
        found, wanted = (
            (type(rows), rows.dtype, rows.shape, rows.tobytes(), rng.bytes(8))
            for rows, rng in ((rows, one), (blocks, two))
        )
        return draws if found == wanted else None
    except Exception:  # the run itself will raise the error and is counted then
        return None


Tables = list[NDArray[np.int64]]


@dataclass(slots=True)
class Segment:
    """Results of consecutive chunks of rounds: counts of the events, stored outputs, and lost
    rounds.
    """

    # for each event, the number of outputs in each of its cells: (2, cells), D1 in row 0
    tables: Tables = field(default_factory=list)
    # outputs (D1, D0) of the chunks whose outputs are stored
    sides: list[Sides] = field(default_factory=list)
    rounds: int = 0
    lost: int = 0  # rounds in batches that raised (see `rounds`)
    # hashes that detect repeated outputs (see `fitness`)
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


@dataclass(frozen=True, slots=True)
class Span:
    """Results of a run of consecutive chunks first, ..., last - 1, by segment (a part of a stage).

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
    # kernels that count one event of a long stage while outputs are drawn, for D1 and D0
    fused = not stage.single and len(events) == 1 and stage.rounds >= MIN_KERNEL_ROUNDS
    datasets = (stage.pair.d1, stage.pair.d0) if fused else ()
    found = [counter(stage.run, dataset, events[0]) for dataset in datasets]
    counters = [each for each in found if each is not None]
    parts, end, raised = dict[int, Segment](), first, False
    while end < last and not raised:
        if len(counters) < 2 or end * stage.chunk < keep:
            result = _run_by_sampling(stage, events, keep, end)
            if len(counters) == 2 and end == 0:
                _require_same_draws(result, _run_with_kernels(stage, counters, end))
        else:
            result = _run_with_kernels(stage, counters, end)
        raised = result.lost > 0
        if raised and again:
            break
        parts.setdefault(stage.segment(end), Segment()).add(result)
        end += 1
    return Span(first, end, list(parts.items()), raised, perf_counter() - started)


def _require_same_draws(sampled: Segment, from_kernels: Segment) -> None:
    """Raise Unfit unless the counted outputs are the audited outputs."""
    same = sampled.marks == from_kernels.marks and np.array_equal(
        sampled.tables[0], from_kernels.tables[0]
    )
    if not sampled.lost and not same:
        raise Unfit(
            "mechanism draws other outputs than it samples: draws(dataset).sample and "
            "sample must give the same outputs"
        )


def _run_by_sampling(stage: Stage, events: Sequence[Event], keep: int, index: int) -> Segment:
    """Run a chunk and count its outputs, which are stored if the chunk begins before round
    `keep`.
    """
    started = perf_counter()
    sides = stage.sample(index)
    duration = perf_counter() - started
    batches = [side for side in sides if side is not None]
    tables = [
        np.array(
            [event.tabulate(NOTHING if side is None else side, stage.rounds) for side in sides],
            dtype=np.int64,
        )
        for event in events
    ]
    size = stage.size(index)
    return Segment(
        tables,
        [sides] if index * stage.chunk < keep else [],
        size,
        size - sum(map(len, batches)),
        _marks(stage, batches),
        duration,
        stage.single,
    )


def _run_with_kernels(stage: Stage, counters: Sequence[Counter], index: int) -> Segment:
    """Run a chunk with the counting kernels; only its first outputs are stored."""

    def work() -> dict[int, tuple[NDArray[np.int64], Outputs]]:
        """Count both sides of the chunk; a batch that raises is lost."""
        sizes, order, rngs, _ = stage.sides(index)
        result = {}
        for side in order:
            global_generators.seed_batch(rngs[side])
            try:
                result[side] = counters[side].count(sizes[side], rngs[side])
            except (MechanismFailed, MemoryError):
                raise
            except Exception:  # a batch that raises is lost, see `rounds`
                result[side] = np.zeros(3, dtype=np.int64), NOTHING
        return result

    started = perf_counter()
    result = stage.run_seeded(index, work)
    duration = perf_counter() - started
    table = np.array([result[side][0] for side in (0, 1)])
    marks = _marks(stage, [result[side][1] for side in (0, 1)])
    return Segment(
        [table], [], stage.size(index), stage.size(index) - int(table.sum()), marks, duration, False
    )


def _marks(stage: Stage, batches: Sequence[Outputs]) -> list[int]:
    """Return the marks of the outputs that the stage records."""
    marks = map(mark, batches)
    return [found for found in marks if found is not None and found % stage.marked == 0]


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
