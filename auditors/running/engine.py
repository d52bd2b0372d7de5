"""Running a stage on any executor: tasks in flight, answers in whatever order they come, segments in the order of the plan.

Test rounds travel as counts; only those that train events, and a few that are drawn, travel as outputs. With a `Ledger` what is answered is
written down, and what has been written down before is not run again.
"""

from __future__ import annotations

import queue
import time
from bisect import bisect_right
from collections.abc import Generator as Generated
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, replace
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol

from dpwitness.auditors.events.outputs import WrongShape
from dpwitness.auditors.events.rules import Event
from dpwitness.auditors.running.handed import reduced
from dpwitness.auditors.running.health import Unfit
from dpwitness.auditors.running.inline import Inline
from dpwitness.auditors.running.lost import explained
from dpwitness.auditors.running.pace import Pace, workers_of
from dpwitness.auditors.running.rounds import run_side
from dpwitness.auditors.running.spans import Segment, Span, require_sound, run_span
from dpwitness.auditors.running.stage import Phase, Sides, Stage
from dpwitness.auditors.running.streams import audit_key, stream
from dpwitness.auditors.running.turns import renew
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import MechanismFailed
from dpwitness.mechanisms.terms.validation import InvalidArgument

__all__ = [
    "Inline",
    "Ledger",
    "MechanismFailed",
    "Pace",
    "Phase",
    "Segment",
    "Sides",
    "Stage",
    "audit_key",
    "collect",
    "counts",
    "outputs",
    "run_side",
    "stream",
]

_Asked = tuple[Stage, Sequence[Event], int, bool]  # see `run_span`

_AHEAD = 16  # answers that wait for an earlier one, for each task in flight
_TICK = 0.25  # seconds after which late tasks are looked for

ForkingPickler.register(Pair, reduced)  # of every process pool, also one of the user's own


class Ledger(Protocol):
    """Where answers are written down: see `dpwitness.auditors.storing`."""

    def spans(self, stage: Stage) -> dict[int, int]:
        """First and last chunk of what is there of a stage."""

    def read(self, stage: Stage, first: int) -> Span:
        """The one that begins at this chunk."""

    def write(self, stage: Stage, span: Span) -> None:
        """Add one. Whatever is wrong with the file, this does not raise."""


def counts(
    stage: Stage, events: Sequence[Event], executor: Executor, pace: Pace | None = None, *, keep: int = 0, ledger: Ledger | None = None
) -> Iterator[Segment]:
    """Cell counts of each event in the stage's segments, in order. Once a chunk has lost rounds, the later ones are run singly.

    The outputs of the first `keep` rounds come too, for events that later rounds will test, and for pictures.
    """
    return _in_order(stage, events, keep, False, executor, pace or Pace(), ledger)


def outputs(stage: Stage, executor: Executor, pace: Pace | None = None, *, ledger: Ledger | None = None) -> Iterator[Segment]:
    """Encoded outputs of the stage's segments, in order, for training: all are kept. From a batch that raises on, rounds are run singly."""
    return _in_order(stage, [], stage.rounds, True, executor, pace or Pace(), ledger)


def _in_order(
    stage: Stage, events: Sequence[Event], keep: int, again: bool, executor: Executor, pace: Pace, ledger: Ledger | None
) -> Iterator[Segment]:
    """The stage's segments; `again`: a chunk that lost rounds is run singly too, which is for outputs that certify nothing."""
    done, segment = 0, Segment()
    while done < stage.chunks:
        spans = _Flight((stage, events, keep, again), executor, pace, ledger, done).spans()
        for span in spans:
            done = span.last
            for place, part in span.parts:
                segment.add(part)
                if place != span.parts[-1][0] or stage.end(place) == done:
                    yield segment
                    segment = Segment()
            if span.raised:
                break
        spans.close()
        stage = replace(stage, single=True)  # read only where the loop was left early


@dataclass(slots=True)
class _Task:
    first: int
    last: int
    copied: bool = False


class _Flight:
    """The tasks of a stage from chunk `at` on."""

    def __init__(self, asked: _Asked, executor: Executor, pace: Pace, ledger: Ledger | None, at: int) -> None:
        self.asked, self.stage, self.executor, self.pace, self.ledger = asked, asked[0], executor, pace, ledger
        self.held = {} if ledger is None else {first: last for first, last in ledger.spans(self.stage).items() if first >= at}
        self.borders = sorted(self.held)
        self.at = self.next = at  # the chunk that is due, and the first that is in no task yet
        self.flying: dict[Future[Span], _Task] = {}
        self.copies: dict[Future[Span], Span] = {}  # still run, though the answer is there
        self.answered: queue.SimpleQueue[Future[Span]] = queue.SimpleQueue()
        self.ready: dict[int, Span] = {}
        self.since = time.monotonic()  # when the task that is due became so

    @property
    def workers(self) -> int:
        """Tasks that run at once: a cluster may grow."""
        return workers_of(self.executor)

    @property
    def window(self) -> int:
        """Tasks in flight, at most."""
        return self.pace.window or 2 * self.workers + 1

    def spans(self) -> Generated[Span, None, None]:
        """In order, without gaps, until one has raised."""
        try:
            while self.at < self.stage.chunks:
                self._fill()
                while (span := self._due()) is None:
                    self._gather()
                    self._fill()
                yield span
        except GeneratorExit:  # none is cancelled, for a process pool may hang on that (CPython 3.11.2)
            if self.pace.stopped:
                wait(self.flying, timeout=self.stage.time_limit)
            self.pace.under_way = [future for future in (*self.flying, *self.copies) if not future.done()]
            raise
        except BaseException:
            self.pace.under_way = [future for future in (*self.flying, *self.copies) if not future.cancel()]
            raise
        finally:
            self.pace.copies.update(self.copies)

    def _due(self) -> Span | None:
        """The next span in order, where it is there."""
        span = self.ready.pop(self.at, None)
        if span is None and self.at in self.held and self.ledger is not None:
            span = self.ledger.read(self.stage, self.at)
        if span is not None:
            self.at, self.since = span.last, time.monotonic()
        return span

    def _fill(self) -> None:
        """Send tasks until enough are in flight, or enough answers wait for an earlier one."""
        while len(self.flying) < self.window and len(self.ready) < _AHEAD * self.window:
            while self.next in self.held:
                self.next = self.held[self.next]
            if self.next >= self.stage.chunks:
                return
            border = bisect_right(self.borders, self.next)
            end = self.borders[border] if border < len(self.borders) else self.stage.chunks
            last = min(end, self.next + self.pace.chunks(self.stage, self.stage.chunks - self.next, self.workers))
            self._send(_Task(self.next, last))
            self.next = last

    def _send(self, task: _Task) -> None:
        future = self.executor.submit(run_span, *self.asked, task.first, task.last)
        self.flying[future] = task
        future.add_done_callback(self.answered.put)

    def _gather(self) -> None:
        """Take the next answer, or see that one is late."""
        try:
            future = self.answered.get(timeout=_TICK)
        except queue.Empty:
            self._late(next(task for task in self.flying.values() if task.first == self.at))
            return
        if future in self.copies:
            require_agreement(future, self.copies.pop(future))
            return
        task = self.flying.pop(future)
        span = collect(future, self.stage)
        require_sound(self.stage, span)
        self.pace.took(span.seconds, self.stage.size(task.first, task.last))
        for other in [other for other, same in self.flying.items() if same.first == task.first]:
            del self.flying[other]
            self.copies[other] = span
        self.ready[task.first] = span
        if self.ledger is not None:
            self.ledger.write(self.stage, span)

    def _late(self, task: _Task) -> None:
        """Run what is due once more, where a worker is free and it takes long; give up where it takes far too long."""
        waited, rounds = time.monotonic() - self.since, self.stage.size(task.first, task.last)
        limit = self.pace.limit(self.stage, rounds)
        if waited > limit:
            renew()  # the one that hangs may hold them
            raise MechanismFailed(_too_long(self.stage, limit))
        free = len(self.flying) + len(self.copies) < self.workers
        if free and self.stage.repeatable and not task.copied and self.pace.straggles(rounds, waited):
            task.copied = True
            self._send(_Task(task.first, task.last, True))


def require_agreement(future: Future[Span], span: Span) -> None:
    """Raise Unfit if a span that was run twice gave two answers; the first counts."""
    if future.cancelled() or future.exception() is not None:
        return
    if not future.result().agrees(span):
        raise Unfit(
            f"chunks {span.first} to {span.last - 1} gave other counts when they were run twice: "
            "the mechanism is not a function of its seed"
        )


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
        renew()
        raise MechanismFailed(_too_long(stage, limit)) from None
    except WrongShape as error:
        raise MechanismFailed(str(error)) from None
    except (SystemExit, GeneratorExit, MemoryError) as error:
        raise MechanismFailed(f"the mechanism ended its run with {type(error).__name__}: {error}") from None
    except BaseException as error:
        if (told := explained(error)) is not None:
            raise MechanismFailed(told) from None
        if "pickle" in f"{type(error).__name__} {error}".lower():
            raise InvalidArgument(f"mechanism must be importable from a module to run in processes: {error}") from None
        raise


def _too_long(stage: Stage, limit: float) -> str:
    allowed = f"time_limit = {stage.time_limit:g} s" + (f" and than {limit:.3g} s" if limit > stage.time_limit else "")
    return f"a chunk of {stage.chunk} rounds took longer than {allowed}; raise time_limit or lower trials"
