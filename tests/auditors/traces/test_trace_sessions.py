"""Sessions of the gray box: patches are removed whatever happens, also by several threads."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

import dpwitness as dpw
from dpwitness.core.numerics.jit import jit_uncached
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.recording.session import RecordingSession, Stopped, _watched

sys.path.insert(0, str(Path(__file__).parent))
import traced
from traced import PAIR, kinds


def places():
    kept = [
        np.random.default_rng,
        np.random.Generator,
        np.random.RandomState,
        np.random.mtrand._rand,
    ]
    kept += [
        np.random.laplace,
        np.random.shuffle,
        random.Random.random,
        random.SystemRandom.getrandbits,
    ]
    return [*kept, traced.laplace_mechanism, traced.Ledger.__dict__["charge"]]


def raising(data, size, rng):
    raise KeyError("always")


def endless(data, size, rng):
    while True:
        pass


def endless_draws(data, size, rng):
    while True:
        rng.random()


@pytest.mark.slow
@pytest.mark.parametrize(
    "run", [traced.right, raising, endless, endless_draws], ids=lambda v: v.__name__
)
def test_everything_is_put_back_whatever_happens(run):
    before, state = places(), random.getstate()
    result = dpw.trace(run, PAIR, "pure:1", traced.PRIMITIVES, time_limit=0.3, confirm=False)
    assert all(a is b for a, b in zip(before, places(), strict=True)) and random.getstate() == state
    if run in (endless, endless_draws):
        assert result.verdict is dpw.Verdict.ERROR and "time_limit = 0.3" in result.headline()


def test_everything_is_put_back_after_a_wrong_name():
    before = places()
    with pytest.raises(InvalidArgument, match="nothing_such"):
        dpw.trace(traced.right, PAIR, "pure:1", {**traced.PRIMITIVES, "traced.nothing_such": {}})
    assert all(a is b for a, b in zip(before, places(), strict=True))


@pytest.mark.slow
def test_traces_in_two_threads_wait_for_each_other():
    found = {}

    def work(k):
        for run, primitives in (
            (traced.weak_noise, traced.PRIMITIVES),
            (traced.right, {traced.laplace_mechanism: traced.MECHANISM}),
        ):
            found[k, run.__name__] = dpw.trace(run, PAIR, "pure:1", primitives, confirm=False)

    before = places()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(
        kinds(found[k, "weak_noise"]) == {"NOISE", "LOSS"} and kinds(found[k, "right"]) == set()
        for k in range(3)
    )
    assert all(a is b for a, b in zip(before, places(), strict=True))


def test_a_session_forgets_what_it_recorded():
    entries = []
    session = RecordingSession(traced.right, entries, seed=lambda words: None, snapshot=dict)
    with session:
        session.record(PAIR.d1, 1)
        assert session.recorders
    assert not session.recorders and not session.patches


@pytest.mark.parametrize("fired", [False, True])
def test_the_interpreter_is_left_as_it_was(fired):
    """A debugger or a coverage tool that starts after a trace: a function that is traced begins,
    whether or not the time limit struck.
    """
    code = f"""
import sys, time
import dpwitness as dpw
from dpwitness.mechanisms.wrappers.recording.session import Stopped, _watched
try:
    with _watched({0.05 if fired else 30}):
        for _ in range({10 if fired else 1}):
            time.sleep(0.02)
    stopped = False
except Stopped:
    stopped = True
def traced(): return "begun"
sys.settrace(lambda frame, event, _: None)
print(traced(), stopped)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout == f"begun {fired}\n", found.stderr


def test_a_watch_that_fires_while_it_starts_does_not_go_on_firing(monkeypatch):
    """On a busy machine the time limit may strike before the start of the watch returns."""
    start = threading.Thread.start

    def slow_start(thread):
        start(thread)
        for _ in range(200):
            time.sleep(0.01)

    monkeypatch.setattr(threading.Thread, "start", slow_start)
    before = set(threading.enumerate())
    with pytest.raises(Stopped), _watched(0.01):
        pass
    assert set(threading.enumerate()) <= before


@jit_uncached
def _half(x):
    return 0.5 * x


@jit_uncached
def _shifted_half(x, shift):
    return _half(x) + shift


KERNELS = [_shifted_half]


def test_kernels_compile_after_a_trace():
    """A kernel that is called through another reference fails to compile while its callee is
    replaced, and only then.
    """
    with RecordingSession(lambda *_: 0.0, [], seed=lambda _: None, snapshot=dict) as session:
        assert session.uncompile() and not hasattr(_half, "py_func")
        with pytest.raises(TypingError):
            KERNELS[0](0.0, 1.0)
    assert KERNELS[0](2.0, 1.0) == 2.0
