"""Tests of isolation: a hostile mechanism can fail, but cannot change the audit or its output, and
leaves no process behind.
"""

import signal
import sys
import time

import pytest

HOSTILE = """
import ctypes
import os
import sys
import time

import numpy as np

def bye(dataset, size, rng):
    os._exit(0)

def segfault(dataset, size, rng):
    ctypes.string_at(0)

def holds_the_lock(dataset, size, rng):
    ctypes.PyDLL(None).sleep(600)

def endless(dataset, size, rng):
    while True:
        sys.stdout.write("x" * 10_000)

def forks(dataset, size, rng):
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    return noisy(dataset, size, rng)

def returns_twice(dataset, size, rng):
    os.fork()
    return noisy(dataset, size, rng)

def hungry(dataset, size, rng):
    return np.ones(3 * 10**8)[:size]

def deep(dataset, size, rng):
    value = []
    for _ in range(3000):
        value = [value]
    return [value] * size

def noisy(dataset, size, rng):
    return np.round(1024 * (np.sum(dataset) + rng.laplace(0.0, 1.0, size))) / 1024

def talks(dataset, size, rng):
    print("hello")
    os.write(1, b"bytes\\n")
    os.system("echo child")
    return noisy(dataset, size, rng)

def raises(dataset, size, rng):
    if rng.random() < 0.3:
        raise ValueError("low")
    return noisy(dataset, size, rng)

def labels(dataset, size, rng):
    return [["a", "b"][int(x)] for x in rng.random(size) < 0.5 + 0.1 * (type(dataset).__name__ == "LabelledVectors")]

def slow(dataset, size, rng):
    time.sleep(0.05)
    return noisy(dataset, size, rng)

class Mine:
    def __init__(self, scale):
        self.scale = scale

    def sample(self, dataset, size, rng):
        return np.sum(dataset) + rng.laplace(0.0, self.scale, size)

    def log_density(self, outputs, dataset):
        return -np.abs(outputs[:, 0] - np.sum(dataset)) / self.scale - np.log(2 * self.scale)
"""
PAIR = ["--claim", "pure:1", "--d0", "[0]", "--d1", "[1]", "--trials", "2e4"]


@pytest.fixture
def hostile(shell):
    (shell.folder / "hostile.py").write_text(HOSTILE)
    return shell


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("bye", [], "ended with exit code 0"),
        ("segfault", [], "SIGSEGV"),
        ("holds_the_lock", ["--time-limit", "1"], "took longer than time_limit = 1 s"),
        ("endless", ["--time-limit", "1"], "took longer than time_limit = 1 s"),
        ("forks", [], "leaves processes behind"),
        ("hungry", ["--memory", "1.5"], "ran out of memory"),
        ("deep", [], ""),
    ],
)
def test_what_a_mechanism_does_to_its_process_is_an_error(hostile, processes, name, options, told):
    mine, started = processes(), time.monotonic()
    command = [sys.executable, "-m", "dpwitness", "audit", f"hostile.py:{name}", *PAIR, *options]
    found = hostile.run(*command, **mine.environment)
    assert found.returncode == 3, found.stdout + found.stderr
    assert found.stdout.startswith("ERROR: ") and told in found.stdout.splitlines()[0]
    assert time.monotonic() - started < 60
    assert mine.left() == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_process_survives_its_parent(hostile, processes, end):
    """Audits in workers and in pools, with targets that fork, and checks of claims.

    All commands run at the same time, because each takes seconds to start.
    """
    commands = [
        ["audit", "hostile.py:slow", *PAIR[:-2], "--trials", "1e8", "--workers", "2"],
        [
            "audit",
            "hostile.py:slow",
            *PAIR[:-2],
            "--trials",
            "1e8",
            "--workers",
            "2",
            "--in-process",
        ],
        ["claims", "check", "all", "--quick", "--workers", "2"],
    ]
    running = []
    for command in commands:
        mine = processes()
        running.append((mine, hostile.start(*command, **mine.environment)))
    for mine, process in running:
        mine.wait_for(3)
        process.send_signal(end)
    for mine, process in running:
        _, err = process.communicate(timeout=60)
        assert process.returncode == (-9 if end == signal.SIGKILL else 3)
        assert "Traceback" not in err
        assert mine.left() == []
