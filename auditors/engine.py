"""Running a mechanism: chunks of rounds with streams of their own, on any executor, counted where they are run.

What happens in a chunk is a function of (seed, audit, pair, phase, chunk) and of nothing else, so the counts of a run do not depend on how
many workers made them or in which order. Test rounds travel as counts; only the bounded training outputs travel as outputs.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from numpy.typing import NDArray

from dpwitness.auditors.events import Event
from dpwitness.auditors.outputs import Outputs, WrongShape, concatenate, encode
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.protocol import MechanismFailed
from dpwitness.mechanisms.validation import InvalidArgument

__all__ = ["MechanismFailed", "Phase", "Stage", "counts", "outputs", "stream"]


class Phase:
    """Numbers of the phases in the streams' keys."""

    PROBE, PILOT, SECOND_PILOT, TRAIN, TEST, BIT_TRAIN, BIT_TEST = range(7)


def audit_key(name: str) -> int:
    """A 64-bit number for an audit's name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


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
        Seconds that one chunk may take.
    """

    run: Callable[[Any, int, Generator], Any]
    pair: Pair
    seed: int
    key: tuple[int, int, int]
    rounds: int
    chunk: int
    time_limit: float

    @property
    def chunks(self) -> int:
        return -(-self.rounds // self.chunk)

    def size(self, index: int) -> int:
        return min(self.chunk, self.rounds - index * self.chunk)

    def sample(self, index: int) -> tuple[Outputs, Outputs]:
        """Run chunk `index`: outputs on D1 and on D0, after a fair coin has been flipped for every round."""
        size = self.size(index)
        ones = int(stream(self.seed, *self.key, index, 0).binomial(size, 0.5))
        return (
            run_side(self.run, self.pair.d1, ones, stream(self.seed, *self.key, index, 1)),
            run_side(self.run, self.pair.d0, size - ones, stream(self.seed, *self.key, index, 2)),
        )


def run_side(run: Callable[[Any, int, Generator], Any], dataset: Any, size: int, rng: Generator) -> Outputs:
    """Encoded outputs of `size` runs on one dataset. An exception is an output: a batch that raises is run again one by one."""
    if size == 0:
        return Outputs(np.empty((0, 1)), np.empty(0))
    try:
        raw = run(dataset, size, rng)
    except MechanismFailed:
        raise
    except Exception:
        return _one_by_one(run, dataset, size, rng)
    return encode(raw, size)


def _one_by_one(run: Callable[[Any, int, Generator], Any], dataset: Any, size: int, rng: Generator) -> Outputs:
    parts: list[Outputs] = []
    raised: list[Exception] = []

    def flush() -> None:
        if raised:
            parts.append(encode(list(raised), len(raised)))
            raised.clear()

    for _ in range(size):
        try:
            raw = run(dataset, 1, rng)
        except MechanismFailed:
            raise
        except Exception as error:
            raised.append(error)
        else:
            flush()
            parts.append(encode(raw, 1))
    flush()
    return concatenate(parts)


def _count_chunk(stage: Stage, events: Sequence[Event], index: int) -> list[NDArray[np.int64]]:
    """Counts of each event's cells: shape (2, cells), D1 in row 0."""
    sides = stage.sample(index)
    return [np.array([event.tabulate(side) for side in sides], dtype=np.int64) for event in events]


def _sample_chunk(stage: Stage, index: int) -> tuple[Outputs, Outputs]:
    return stage.sample(index)


def counts(stage: Stage, events: Sequence[Event], executor: Executor) -> Iterator[list[NDArray[np.int64]]]:
    """Cell counts (2, cells) of each event in the stage's chunks, in order."""
    yield from _in_order(stage, lambda index: executor.submit(_count_chunk, stage, events, index), executor)


def outputs(stage: Stage, executor: Executor) -> Iterator[tuple[Outputs, Outputs]]:
    """Encoded outputs of the stage's chunks, in order: training only, for they are kept."""
    yield from _in_order(stage, lambda index: executor.submit(_sample_chunk, stage, index), executor)


def _in_order(stage: Stage, submit: Callable[[int], Future[Any]], executor: Executor) -> Iterator[Any]:
    window = 2 * getattr(executor, "_max_workers", 8) + 1
    waiting: deque[Future[Any]] = deque()
    submitted = 0
    try:
        for _ in range(stage.chunks):
            while submitted < stage.chunks and len(waiting) < window:
                waiting.append(submit(submitted))
                submitted += 1
            yield collect(waiting.popleft(), stage)
    except GeneratorExit:  # stopped early: let the few chunks under way end, for a process pool may hang on cancelled ones (CPython 3.11.2)
        wait(waiting, timeout=stage.time_limit)
        raise
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def collect(future: Future[Any], stage: Stage) -> Any:
    """The future's result; what stops the mechanism for good becomes MechanismFailed."""
    try:
        return future.result(timeout=stage.time_limit)
    except MechanismFailed:
        raise
    except TimeoutError:
        if future.done():  # the mechanism's own TimeoutError cannot get here, it is an output
            raise
        raise MechanismFailed(
            f"a chunk of {stage.chunk} rounds took longer than time_limit = {stage.time_limit:g} s; raise time_limit or lower trials"
        ) from None
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


class Inline(Executor):
    """One daemon thread: the default. A hung mechanism can be left behind, and Ctrl-C reaches the caller while a kernel runs."""

    _max_workers = 1

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="dpwitness").start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._tasks.put((future, lambda: fn(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
