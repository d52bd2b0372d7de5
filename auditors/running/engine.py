"""Running a mechanism: chunks of rounds with streams of their own, on any executor, counted where they are run.

What happens in a chunk is a function of (seed, audit, pair, phase, chunk) and of nothing else, so the counts of a run do not depend on how
many workers made them, in which order, or how fast. Test rounds travel as counts; only those that train events travel as outputs, a
bounded number.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Generator as Generated
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import Outputs, WrongShape
from dpwitness.auditors.events.rules import Event
from dpwitness.auditors.running.inline import Inline
from dpwitness.auditors.running.repeats import mark
from dpwitness.auditors.running.rounds import batch, of_this_project, run_side, singles
from dpwitness.mechanisms.foreign import global_generators
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import MechanismFailed
from dpwitness.mechanisms.terms.validation import InvalidArgument

__all__ = ["Chunk", "Inline", "MechanismFailed", "Pace", "Phase", "Stage", "collect", "counts", "outputs", "run_side", "stream"]

Sides = tuple[Outputs | None, Outputs | None]

_TASK = 0.25  # seconds of work that are worth a task of their own
_SLACK = 10  # times what the rounds before took: longer than that is taken for hung


class _Turns:
    """Who may use the process' global generators: one chunk that draws from them, or any number of chunks that have not been seen to.

    The two must not overlap: a chunk that turns out to draw from them would take numbers from another one's seeded stream, and what that
    one puts back would hide it.
    """

    def __init__(self) -> None:
        self.free = threading.Condition()
        self.watched = self.wanted = 0
        self.held = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """For a chunk that has not been seen to draw from them. Chunks that wait to seed them go first."""
        with self.free:
            self.free.wait_for(lambda: not (self.held or self.wanted))
            self.watched += 1
        try:
            yield
        finally:
            with self.free:
                self.watched -= 1
                self.free.notify_all()

    @contextmanager
    def seeding(self) -> Iterator[None]:
        """For one that draws from them, alone."""
        with self.free:
            self.wanted += 1
            self.free.wait_for(lambda: not (self.held or self.watched))
            self.wanted -= 1
            self.held = True
        try:
            yield
        finally:
            with self.free:
                self.held = False
                self.free.notify_all()


_GLOBALS = [_Turns()]


def _new_turns() -> None:
    _GLOBALS[0] = _Turns()


os.register_at_fork(after_in_child=_new_turns)


class Phase:
    """Numbers of the phases in the streams' keys."""

    PROBE, PILOT, SECOND_PILOT, TRAIN, TEST, BIT_TRAIN, BIT_TEST, TIMING, SCORES, SECOND_BIT_TRAIN, FIRST_TEST = range(11)


def audit_key(name: str) -> int:
    """A 64-bit number for an audit's name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(errors="backslashreplace"), digest_size=8).digest())


def stream(seed: int, *key: int) -> Generator:
    """The generator of one part of one chunk."""
    return Generator(SFC64(SeedSequence(entropy=seed, spawn_key=key)))


@dataclass(frozen=True, slots=True)
class Stage:
    """Rounds of one phase on one pair.

    Parameters
    ----------
    run : callable
        ``run(dataset, size, rng)``; picklable if the executor uses processes.
    pair : Pair
    seed, key : int, tuple of int
        Root seed, and (audit, pair, phase).
    rounds, chunk : int
        Rounds in all and in one chunk; the last chunk may be shorter.
    time_limit : float
        Seconds that one chunk may take, or ten times what the chunks before it took if that is more.
    single : bool
        Whether rounds are run one at a time, because earlier stages have seen a batch raise (`rounds`).
    shared : bool
        Whether earlier stages have seen the mechanism draw from a global generator: it then runs in one thread at a time. Chunks of others
        that turn out to draw from one are run once more in that way, with the same streams: what they do until then cannot depend on it.
    """

    run: Callable[[Any, int, Generator], Any]
    pair: Pair
    seed: int
    key: tuple[int, int, int]
    rounds: int
    chunk: int
    time_limit: float
    single: bool = False
    shared: bool = False

    @property
    def chunks(self) -> int:
        return -(-self.rounds // self.chunk)

    def size(self, index: int) -> int:
        return min(self.chunk, self.rounds - index * self.chunk)

    def sample(self, index: int) -> Sides:
        """Run chunk `index`: outputs on D1 and on D0, after a fair coin has been flipped for every round. None for a batch that raised."""
        if of_this_project(self.run):
            return self.flip(index)[0]
        if not self.shared:
            with _GLOBALS[0].watching():
                before = global_generators.fingerprint()
                sides, _ = self.flip(index)
                untouched = global_generators.fingerprint() == before
            if untouched:
                return sides
        with self.seeded(index):
            return self.flip(index)[0]

    @contextmanager
    def seeded(self, index: int) -> Iterator[None]:
        """The global generators seeded for this chunk and held by this thread."""
        words = [int(word) for word in stream(self.seed, *self.key, index, 3).integers(2**32, size=4)]
        with _GLOBALS[0].seeding(), global_generators.seeded(words):
            yield

    def flip(self, index: int) -> tuple[Sides, list[Generator]]:
        """The chunk's outputs, and the generators that they were drawn from as they were left.

        The datasets' turns come in random order, so that what a mechanism keeps from call to call does not tell them apart.
        """
        size = self.size(index)
        coins = stream(self.seed, *self.key, index, 0)
        ones = int(coins.binomial(size, 0.5))
        sizes, datasets = (ones, size - ones), (self.pair.d1, self.pair.d0)
        rngs = [stream(self.seed, *self.key, index, part) for part in (1, 2)]
        if self.single:
            first, second = singles(self.run, datasets, coins.permutation(np.repeat([0, 1], sizes)), rngs)
            return (first, second), rngs
        found: list[Outputs | None] = [None, None]
        for side in (0, 1) if coins.random() < 0.5 else (1, 0):
            found[side] = batch(self.run, datasets[side], sizes[side], rngs[side])
        return (found[0], found[1]), rngs


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one chunk gave: `tables` of each event's cells (2, cells), D1 in row 0, where there are events; the outputs of both `sides`.

    `lost` rounds belong to batches that raised (`rounds`); `marks` tell repeated outputs (`repeats`); `single` is the stage's; `seconds`
    are those of the runs alone.
    """

    tables: list[NDArray[np.int64]]
    sides: Sides | None
    lost: int
    marks: tuple[int, ...]
    single: bool
    seconds: float = 0.0


@dataclass(slots=True)
class Pace:
    """How fast the rounds of an audit run. It decides how many chunks go into one task and how long one may take: never what is counted."""

    seconds: float = 0.0
    rounds: int = 0
    under_way: list[Future[Any]] = field(default_factory=list)  # tasks that no longer could be cancelled when an error stopped the others

    def took(self, seconds: float, rounds: int) -> None:
        self.seconds, self.rounds = 0.9 * self.seconds + seconds, int(0.9 * self.rounds) + rounds

    def chunks(self, stage: Stage, left: int, workers: int) -> int:
        """How many chunks the next task takes."""
        each = self.seconds / max(self.rounds, 1) * stage.chunk
        wanted = int(_TASK / each) if each > 0 else 1
        return max(1, min(wanted, left // (2 * workers), 4096))

    def limit(self, stage: Stage, rounds: int) -> float:
        """Seconds that so many rounds may take."""
        return max(stage.time_limit, _SLACK * self.seconds / max(self.rounds, 1) * rounds)


def _run_chunks(stage: Stage, events: Sequence[Event], keep: int, first: int, last: int) -> tuple[list[Chunk], float]:
    """Chunks first, ..., last - 1, up to the first that loses rounds, and the seconds they took. Events are counted here."""
    done: list[Chunk] = []
    started = perf_counter()
    for index in range(first, last):
        began = perf_counter()
        sides = stage.sample(index)
        took = perf_counter() - began
        lost = stage.size(index) - sum(len(side) for side in sides if side is not None)
        marks = tuple(found for side in sides if side is not None and (found := mark(side)) is not None)
        tables = [np.array([_tabulate(event, side) for side in sides], dtype=np.int64) for event in events]
        done.append(Chunk(tables, sides if index * stage.chunk < keep else None, lost, marks, stage.single, took))
        if lost:
            break
    return done, perf_counter() - started


def _tabulate(event: Event, side: Outputs | None) -> NDArray[np.int64]:
    return event.tabulate(Outputs(np.empty((0, 1)), np.empty(0)) if side is None else side)


def counts(stage: Stage, events: Sequence[Event], executor: Executor, pace: Pace | None = None, *, keep: int = 0) -> Iterator[Chunk]:
    """Cell counts of each event in the stage's chunks, in order. Once a chunk has lost rounds, the later ones are run singly.

    The outputs of the first `keep` rounds come too, for events that later rounds will test, and for pictures.
    """
    return _in_order(stage, events, executor, pace or Pace(), keep=keep, again=False)


def outputs(stage: Stage, executor: Executor, pace: Pace | None = None) -> Iterator[Chunk]:
    """Encoded outputs of the stage's chunks, in order, for training: they are kept. From a batch that raises on, rounds are run singly."""
    return _in_order(stage, [], executor, pace or Pace(), keep=stage.rounds, again=True)


def _in_order(stage: Stage, events: Sequence[Event], executor: Executor, pace: Pace, *, keep: int, again: bool) -> Iterator[Chunk]:
    """The stage's chunks; `again`: one that lost rounds is run singly too, which is for outputs that certify nothing."""
    done = 0
    while done < stage.chunks:
        under_way = _tasks(stage, events, keep, executor, pace, done)
        for found in under_way:
            if found.lost and again:
                break
            done += 1
            yield found
            if found.lost:
                break
        under_way.close()
        stage = replace(stage, single=True)  # read only where the loop was left early


def _tasks(stage: Stage, events: Sequence[Event], keep: int, executor: Executor, pace: Pace, first: int) -> Generated[Chunk, None, None]:
    workers = getattr(executor, "_max_workers", 8)
    waiting: deque[tuple[Future[Any], int]] = deque()
    try:
        while first < stage.chunks or waiting:
            while first < stage.chunks and len(waiting) < 2 * workers + 1:
                last = first + pace.chunks(stage, stage.chunks - first, workers)
                rounds = min(last * stage.chunk, stage.rounds) - first * stage.chunk
                waiting.append((executor.submit(_run_chunks, stage, events, keep, first, last), rounds))
                first = last
            future, rounds = waiting.popleft()
            chunks, seconds = collect(future, stage, pace.limit(stage, rounds))
            pace.took(seconds, rounds)
            yield from chunks
    except GeneratorExit:  # stopped early: let the few tasks under way end, for a process pool may hang on cancelled ones (CPython 3.11.2)
        wait([future for future, _ in waiting], timeout=stage.time_limit)
        raise
    except BaseException:
        pace.under_way = [future for future, _ in waiting if not future.cancel()]
        raise


def collect(future: Future[Any], stage: Stage, limit: float | None = None) -> Any:
    """The future's result; what stops the mechanism for good becomes MechanismFailed."""
    limit = stage.time_limit if limit is None else limit
    try:
        return future.result(timeout=limit)
    except MechanismFailed:
        raise
    except TimeoutError:
        if future.done():  # the mechanism's own TimeoutError cannot get here, it is an output
            raise
        _new_turns()  # the one that hangs may hold them
        allowed = f"time_limit = {stage.time_limit:g} s" + (f" and than {limit:.3g} s" if limit > stage.time_limit else "")
        raise MechanismFailed(f"a chunk of {stage.chunk} rounds took longer than {allowed}; raise time_limit or lower trials") from None
    except WrongShape as error:
        raise MechanismFailed(str(error)) from None
    except BrokenExecutor as error:
        raise MechanismFailed(f"a worker process died while it ran the mechanism ({error})") from None
    except (SystemExit, GeneratorExit, MemoryError) as error:
        raise MechanismFailed(f"the mechanism ended its run with {type(error).__name__}: {error}") from None
    except Exception as error:
        if "pickle" in f"{type(error).__name__} {error}".lower():
            raise InvalidArgument(f"mechanism must be importable from a module to run in processes: {error}") from None
        raise
