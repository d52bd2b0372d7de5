"""Execution of a stage on any executor: tasks run concurrently and are answered in any order;
segments are returned in order.

Test rounds are returned as counts. Only training outputs, and a few outputs for pictures, are
returned as outputs. A `Ledger` stores the answers, and stored answers are not computed again.
The clocks of a time budget count wall time, or CPU time of this process and all of its descendants.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Generator as Generated
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.outputs import WrongShape
from dpwitness.auditors.workers.chunks import Segment, Span, require_complete_counts, run_span
from dpwitness.auditors.workers.rounds import Stage, reset_generator_lock
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.supervisor import listed_below


class Ledger(Protocol):
    """Protocol of a store of answers: see `dpwitness.auditors.witnesses.audit_records`."""

    def spans(self, stage: Stage) -> dict[int, int]:
        """Return the stored spans of a stage: first chunk -> end chunk."""

    def read(self, stage: Stage, first: int) -> Span:
        """Return the stored span that begins at this chunk."""

    def write(self, stage: Stage, span: Span) -> None:
        """Store a span. Errors of the file must not be raised."""


def counts(
    stage: Stage,
    events: Sequence[Event],
    executor: Executor,
    pace: Pace | None = None,
    *,
    keep: int = 0,
    ledger: Ledger | None = None,
) -> Iterator[Segment]:
    """Yield the cell counts of each event for the stage's segments, in order. After a lost batch,
    rounds run one at a time.

    The outputs of the first `keep` rounds are also returned, for events that later rounds will
    test, and for pictures.
    """
    return _segments_in_order(stage, events, keep, False, executor, pace or Pace(), ledger)


def outputs(
    stage: Stage, executor: Executor, pace: Pace | None = None, *, ledger: Ledger | None = None
) -> Iterator[Segment]:
    """Yield the encoded outputs of the stage's segments, in order, for training.

    No rounds are lost: from the first batch that raises, rounds run one at a time.
    """
    return _segments_in_order(stage, [], stage.rounds, True, executor, pace or Pace(), ledger)


def _segments_in_order(
    stage: Stage,
    events: Sequence[Event],
    keep: int,
    rerun_lost: bool,
    executor: Executor,
    pace: Pace,
    ledger: Ledger | None,
) -> Iterator[Segment]:
    """Yield the stage's segments in order.

    With `rerun_lost` a chunk that lost rounds is run again one round at a time, which is allowed
    only for outputs that do not certify.
    """
    done, segment = 0, Segment()
    while done < stage.chunks:
        spans = _Scheduler((stage, events, keep, rerun_lost), executor, pace, ledger, done).spans()
        for span in spans:
            done = span.last
            for segment_index, part in span.parts:
                segment.add(part)
                if segment_index != span.parts[-1][0] or stage.end(segment_index) == done:
                    yield segment
                    segment = Segment()
            if span.raised:
                break
        spans.close()
        if done < stage.chunks:  # a batch has raised
            stage = replace(stage, single=True)
            pace.forget()


class _Scheduler:
    """Scheduler of the tasks of a stage, from chunk `at` on."""

    def __init__(
        self,
        asked: tuple[Stage, Sequence[Event], int, bool],  # the first arguments of `run_span`
        executor: Executor,
        pace: Pace,
        ledger: Ledger | None,
        at: int,
    ) -> None:
        self.asked, self.stage, self.executor, self.pace, self.ledger = (
            asked,
            asked[0],
            executor,
            pace,
            ledger,
        )
        self.held = (
            {}
            if ledger is None
            else {first: last for first, last in ledger.spans(self.stage).items() if first >= at}
        )
        self.borders = sorted(self.held)
        self.at = self.next = at  # the next chunk to yield, and the first chunk that is in no task
        self.flying: dict[Future[Span], tuple[int, int]] = {}  # first chunk, chunk after the last
        self.answered: queue.SimpleQueue[Future[Span]] = queue.SimpleQueue()
        self.ready: dict[int, Span] = {}
        self.since = time.monotonic()  # when the next task to yield became due

    @property
    def workers(self) -> int:
        """Number of tasks that the executor runs at once; a cluster may grow."""
        # 8 if the executor does not report it
        return max(1, int(getattr(self.executor, "_max_workers", None) or 8))

    @property
    def window(self) -> int:
        """Maximum number of tasks in flight."""
        return self.pace.window or 2 * self.workers + 1

    def spans(self) -> Generated[Span, None, None]:
        """Yield spans in order, without gaps, until one has raised."""
        try:
            while self.at < self.stage.chunks:
                self._submit_tasks()
                while (span := self._next_span()) is None:
                    self._receive()
                    self._submit_tasks()
                yield span
        except (
            GeneratorExit
        ):  # no task is cancelled, because a process pool may hang (CPython 3.11.2)
            if self.pace.stopped:
                wait(self.flying, timeout=self.stage.time_limit)
            self.pace.under_way = [future for future in self.flying if not future.done()]
            raise
        except BaseException:
            self.pace.under_way = [future for future in self.flying if not future.cancel()]
            raise

    def _next_span(self) -> Span | None:
        """Return the next span in order if it is available."""
        span = self.ready.pop(self.at, None)
        if span is None and self.at in self.held and self.ledger is not None:
            span = self.ledger.read(self.stage, self.at)
        if span is not None:
            self.at, self.since = span.last, time.monotonic()
        return span

    def _submit_tasks(self) -> None:
        """Submit tasks until enough are in flight, or too many answers wait for an
        earlier answer.
        """
        # up to 16 answers per task in flight may wait for an earlier answer
        while len(self.flying) < self.window and len(self.ready) < 16 * self.window:
            while self.next in self.held:
                self.next = self.held[self.next]
            if self.next >= self.stage.chunks:
                return
            border = bisect_right(self.borders, self.next)
            end = self.borders[border] if border < len(self.borders) else self.stage.chunks
            last = min(
                end,
                self.next
                + self.pace.chunks(self.stage, self.stage.chunks - self.next, self.workers),
            )
            future = self.executor.submit(run_span, *self.asked, self.next, last)
            self.flying[future] = self.next, last
            future.add_done_callback(self.answered.put)
            self.next = last

    def _receive(self) -> None:
        """Wait for the next answer. Raise MechanismFailed if none arrives, and the next task in
        order is later than the time limit.
        """
        try:
            future = self.answered.get(timeout=0.25)  # until the next check for late tasks
        except queue.Empty:
            chunks = next(task for task in self.flying.values() if task[0] == self.at)
            limit = self.pace.limit(self.stage, self.stage.size(*chunks))
            if time.monotonic() - self.since > limit:
                # the chunk that hangs may hold the lock of the global generators
                reset_generator_lock()
                raise MechanismFailed(_timeout_message(self.stage, limit)) from None
            return
        first, last = self.flying.pop(future)
        span = collect(future, self.stage)
        require_complete_counts(self.stage, span)
        self.pace.took(span.seconds, self.stage.size(first, last))
        self.ready[first] = span
        if self.ledger is not None:
            self.ledger.write(self.stage, span)


def collect(future: Future[Any], stage: Stage, limit: float | None = None) -> Any:
    """Return the future's result.

    Raise MechanismFailed if the run takes too long, its worker dies, or the mechanism cannot
    continue; InvalidArgument if the mechanism cannot be pickled.
    """
    limit = stage.time_limit if limit is None else limit
    try:
        return future.result(timeout=limit)
    except MechanismFailed:
        raise
    except TimeoutError:
        # this error is not from the mechanism, whose TimeoutError would be an output
        if future.done():
            raise
        reset_generator_lock()
        raise MechanismFailed(_timeout_message(stage, limit)) from None
    except WrongShape as error:
        raise MechanismFailed(str(error)) from None
    except (SystemExit, GeneratorExit, MemoryError) as error:
        raise MechanismFailed(
            f"the mechanism ended its run with {type(error).__name__}: {error}"
        ) from None
    except BaseException as error:
        if (explanation := explained(error)) is not None:
            raise MechanismFailed(explanation) from None
        if "pickle" in f"{type(error).__name__} {error}".lower():
            raise InvalidArgument(
                f"mechanism must be importable from a module to run in processes: {error}"
            ) from None
        if isinstance(error, ModuleNotFoundError):  # in a worker of a cluster, before the first run
            raise InvalidArgument(
                f"the workers have no module {error.name!r}, which the mechanism needs: install it "
                "where they run"
            ) from None
        raise


def explained(error: BaseException) -> str | None:
    """Return a description of the failure of the workers, or None for an error of another kind.

    Examples
    --------
    >>> from concurrent.futures import BrokenExecutor
    >>> explained(BrokenExecutor("it is gone"))
    'a worker process died while it ran the mechanism (it is gone)'
    """
    if isinstance(error, BrokenExecutor):
        return f"a worker process died while it ran the mechanism ({' '.join(str(error).split())})"
    kind, module = type(error).__name__, type(error).__module__.partition(".")[0]
    if module == "distributed" and kind == "KilledWorker":
        deaths = getattr(error, "allowed_failures", 0) + 1
        return (
            f"{deaths} worker processes died, one after the other, while they ran the same "
            "rounds of the mechanism"
        )
    if isinstance(error, CancelledError | asyncio.CancelledError) or (
        module == "distributed"  # recognized by name: Dask need not be installed
        and kind
        in ("CommClosedError", "ClosedClientError", "FutureCancelledError", "FuturesCancelledError")
    ):
        return "the cluster is lost: its scheduler no longer answers, or has cancelled the tasks"
    return None


def _timeout_message(stage: Stage, limit: float) -> str:
    """Return the message for a chunk that exceeds its time limit."""
    allowed = f"time_limit = {stage.time_limit:g} s" + (
        f" and than {limit:.3g} s" if limit > stage.time_limit else ""
    )
    return (
        f"a chunk of {stage.chunk} rounds took longer than {allowed}; raise time_limit or lower "
        "trials"
    )


@dataclass(slots=True)
class Pace:
    """Duration of the rounds so far, weighted toward recent ones, and the tasks that are still
    running after their stage.
    """

    window: int | None = None  # maximum number of tasks in flight; None: 2 * workers + 1
    seconds: float = 0.0
    rounds: int = 0
    stopped: bool = False  # stopped early by an interim look: tasks in flight may finish
    # tasks that could not be cancelled when the stage ended
    under_way: list[Future[Any]] = field(default_factory=list)

    def took(self, seconds: float, rounds: int) -> None:
        """Add the duration of these rounds to the weighted totals."""
        self.seconds, self.rounds = 0.9 * self.seconds + seconds, int(0.9 * self.rounds) + rounds

    def forget(self) -> None:
        """Begin with small tasks again: single runs may take many times as long as those of a
        batch.
        """
        self.seconds, self.rounds = 0.0, 0

    def expected(self, rounds: int) -> float:
        """Return the expected number of seconds for `rounds` rounds on one worker."""
        return self.seconds / max(self.rounds, 1) * rounds

    def chunks(self, stage: Stage, left: int, workers: int) -> int:
        """Return the number of chunks for the next task."""
        chunk_seconds = self.expected(stage.chunk)
        wanted_chunks = (
            # one coordinator can serve 64 workers with tasks of 0.25 seconds
            int(0.25 * max(1.0, workers / 64) / chunk_seconds) if chunk_seconds > 0 else 1
        )
        return max(1, min(wanted_chunks, left // (2 * workers), 4096))

    def limit(self, stage: Stage, rounds: int) -> float:
        """Return the time limit of `rounds` rounds, in seconds."""
        return max(stage.time_limit, 10 * self.expected(rounds))


def is_remote(executor: Executor) -> bool:
    """Return whether an executor's workers are not processes that this process has started, so that
    it cannot read their CPU time.
    """
    return bool(getattr(executor, "remote", False))


class Inline(Executor):
    """Executor with one daemon thread: the default.

    The audit can abandon a mechanism that hangs, and Ctrl-C reaches the caller while a kernel runs.
    """

    _max_workers = 1

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._work, daemon=True, name="dpwitness").start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._tasks.put((future, lambda: fn(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._tasks.put(None)

    def _work(self) -> None:
        """Run the tasks of the queue until None arrives."""
        while (task := self._tasks.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)


CLOCKS = ("wall", "cpu")


def read_clock(clock: str) -> Callable[[], float]:
    """Return the function that reads a clock of `CLOCKS`, in seconds."""
    return cpu_seconds if clock == "cpu" else time.perf_counter


def has_cpu_clock() -> bool:
    """Return whether `cpu_seconds` can see other processes, which needs /proc."""
    return os.path.exists(f"/proc/{os.getpid()}/stat")


def cpu_seconds() -> float:
    """Return the CPU time so far of this process and its descendants, such as workers and
    interpreters of targets; 0 without /proc.

    Ended descendants count as soon as their parent has waited for them.
    """
    if not has_cpu_clock():
        return 0.0
    ended = sum(os.times()[2:4])  # user and system time of ended children
    for _ in range(3):  # the process tree is read again if a child ends meanwhile
        # utime, stime, cutime, cstime of proc(5)
        running = sum(sum(map(int, fields[11:15])) for fields in listed_below(os.getpid()).values())
        before, ended = ended, sum(os.times()[2:4])
        if ended == before:
            break
    return time.process_time() + ended + running / os.sysconf("SC_CLK_TCK")
