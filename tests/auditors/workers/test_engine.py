"""Stages on executors: segments are those of a serial run, whatever order answers come in;
what hangs, and what does not add up.
"""

import random
import threading
import time
from concurrent.futures import Executor, Future

import numpy as np
import pytest

from dpwitness import Pair
from dpwitness.auditors.events.rules import Intervals
from dpwitness.auditors.workers.chunks import run_span
from dpwitness.auditors.workers.engine import Inline, Pace, counts
from dpwitness.auditors.workers.rounds import Phase, Stage, current_lock, reset_generator_lock
from dpwitness.core.protocols import MechanismFailed

PAIR = Pair(np.array([0.0]), np.array([1.0]))
EVENT = Intervals(0, np.array([0.5]), np.array([-1.0, 1.0]))


def noisy(dataset, size, rng):
    return dataset[0] + rng.laplace(0.0, 1.0, size)


def stage_of(run=noisy, rounds=20_000, chunk=100, **more):
    return Stage(run, PAIR, 5, (1, 0, Phase.TEST), rounds, chunk, 60.0, **more)


def tables(found):
    return [segment.tables[0].tolist() for segment in found]


SERIAL = tables(counts(stage_of(), [EVENT], Inline()))


class Shuffled(Executor):
    """Answers tasks in random order, many at once, and does not say how many workers it has."""

    def __init__(self, seed):
        self.rng, self.waiting, self.most = random.Random(seed), [], 0
        self.lock = threading.Condition()
        threading.Thread(target=self._work, daemon=True).start()

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        with self.lock:
            self.waiting.append((future, lambda: fn(*args, **kwargs)))
            self.most = max(self.most, len(self.waiting))
            self.lock.notify()
        return future

    def _work(self):
        while True:
            with self.lock:
                self.lock.wait_for(lambda: self.waiting)
            time.sleep(0.001)
            with self.lock:
                future, call = self.waiting.pop(self.rng.randrange(len(self.waiting)))
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)


@pytest.mark.slow_cases("100-3")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("window", [None, 1, 3, 100])
def test_segments_are_those_of_a_serial_run_whatever_order_answers_come_in(seed, window):
    executor = Shuffled(seed)
    assert tables(counts(stage_of(), [EVENT], executor, Pace(window=window))) == SERIAL
    assert executor.most <= (window or 17)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: setattr(s.parts[0][1], "rounds", 90),
        lambda s: s.parts[0][1].tables[0].__setitem__((0, 0), s.parts[0][1].tables[0][0, 0] + 1),
        lambda s: s.parts.pop(),
        lambda s: s.parts[0][1].tables[0].__setitem__(slice(None), -s.parts[0][1].tables[0]),
    ],
)
def test_counts_that_do_not_add_up_stop_the_audit(change):
    class Wrong(Inline):
        def submit(self, fn, /, *args, **kwargs):
            def call():
                span = fn(*args, **kwargs)
                change(span)
                return span

            return super().submit(call)

    with pytest.raises(
        MechanismFailed, match="a worker returned counts that do not add up: chunks 0 to"
    ):
        list(counts(stage_of(), [EVENT], Wrong()))


def test_a_task_that_was_left_behind_holds_up_nobody():
    """A chunk that hangs is given up; when it wakes, the later chunks of its task keep to the turns
    that it began with.
    """
    calls, wake, end = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def hangs(dataset, size, rng):
        calls.release()
        if not end.is_set():
            wake.acquire()
        return noisy(dataset, size, rng)

    executor = Inline()
    future = executor.submit(run_span, stage_of(hangs), [EVENT], 0, False, 0, 3)
    calls.acquire()
    left = current_lock()
    reset_generator_lock()  # what `collect` and `counts` do once a task took too long
    wake.release(2)
    for _ in range(2):  # the other side, and the first side of the next chunk
        calls.acquire()
    with current_lock().free:
        assert (current_lock().watched, left.watched) == (0, 1)
    end.set()
    wake.release(8)
    assert future.result().last == 3 and left.watched == 0
    executor.shutdown()
