"""Tests of isolation: a hostile mechanism can fail, but cannot change the audit or its output, and
leaves no process behind.
"""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpwitness import Pair, Target, audit
from dpwitness.executors.pools import pool
from dpwitness.mechanisms.wrappers.programs.supervisor import descendants

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
AT_LOAD = "import os, time\n{}\ndef f(dataset, size, rng):\n    return rng.random(size)\n"
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


ONE_THREAD_ENDED = """
import ctypes, os, platform, threading, time
child = os.fork()
if child:
    threading.Thread(target=time.sleep, args=(600,)).start()
    print(child, flush=True)
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
time.sleep(600)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="calls the kernel by number",
)
def test_children_of_a_process_whose_first_thread_has_ended_are_seen():
    """A process whose first thread has ended looks like a zombie; its children must
    still be found.
    """
    with subprocess.Popen(
        [sys.executable, "-c", ONE_THREAD_ENDED],
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            child = int(process.stdout.readline())
            for _ in range(200):
                if b") Z " in Path(f"/proc/{process.pid}/stat").read_bytes():
                    break
                time.sleep(0.02)
            else:
                pytest.fail("the first thread did not end")
            assert child in descendants(os.getpid()) and process.pid not in descendants(os.getpid())
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_target_that_failed_leaves_no_process_while_this_one_lives(
    hostile, monkeypatch, processes
):
    """Tasks that run when the other tasks are canceled must not start the target again."""
    mine = processes()
    monkeypatch.setenv("DPWITNESS_TEST", mine.token)
    with ThreadPoolExecutor(1) as executor:
        target = Target(str(hostile.folder / "hostile.py"), "forks")
        result = audit(
            target, claim="pure:1", pair=Pair([0.0], [1.0]), trials=1000, executor=executor
        )
        assert "leaves processes behind" in result.headline()
        assert mine.left() == []


@pytest.mark.slow
def test_a_child_that_runs_on_answers_nothing(hostile):
    found = hostile.dpwitness("audit", "hostile.py:returns_twice", *PAIR, "--json")
    assert found.returncode == 0 and json.loads(found.stdout)["verdict"] == "NOT_REFUTED"


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--in-process"], ["--in-process", "--workers", "2"]])
def test_prints_of_a_mechanism_are_not_among_the_results(hostile, options):
    found = hostile.dpwitness(
        "audit", "hostile.py:talks", *PAIR[:-2], "--trials", "2000", "--json", *options
    )
    assert json.loads(found.stdout)["verdict"] == "NOT_REFUTED"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["hostile.py:noisy", "hostile:noisy", "hostile.py:Mine"])
def test_counts_are_the_same_in_a_worker_and_in_this_process(hostile, target):
    kwargs = ["--kwargs", '{"scale": 0.5}'] if target.endswith("Mine") else []
    runs = [
        json.loads(hostile.dpwitness("audit", target, *kwargs, *PAIR, "--json", *options).stdout)
        for options in ([], ["--in-process"])
    ]
    assert runs[0]["tally"] == runs[1]["tally"] and runs[0]["event"] == runs[1]["event"]
    assert runs[0]["target"] == runs[1]["target"] and runs[0]["target"]["target"] == target


def test_datasets_of_this_project_arrive_as_they_are(hostile):
    data = (
        '{"$type": "object", "class": "dpwitness.mechanisms:LabelledVectors", "fields": {"x": '
        '[[%s]], "y": [1]}}'
    )
    arguments = [
        "audit",
        "hostile.py:labels",
        "--claim",
        "pure:1",
        "--d0",
        data % 0.5,
        "--d1",
        data % 0.25,
        "--trials",
        "2e4",
        "--json",
    ]
    inside, outside = (
        json.loads(hostile.dpwitness(*arguments, *options).stdout)
        for options in (["--in-process"], [])
    )
    assert inside["tally"] == outside["tally"]


def test_the_white_box_opens_in_this_process(hostile):
    arguments = [
        "audit",
        "hostile.py:Mine",
        "--kwargs",
        '{"scale": 0.8}',
        *PAIR[:-2],
        "--white-box",
    ]
    found = hostile.dpwitness(*arguments)
    assert found.returncode == 1 and "VIOLATED" in found.stdout, found.stdout + found.stderr


@pytest.mark.slow_cases("check-time.sleep(600)-took longer than")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("os._exit(0)", "ended with exit code 0"),
        ("time.sleep(600)", "took longer than"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("command", ["audit", "check"])
def test_what_a_file_does_while_it_is_loaded(hostile, line, told, command):
    (hostile.folder / "odd.py").write_text(AT_LOAD.format(line))
    arguments = ["check", "odd.py"] if command == "check" else ["audit", "odd.py:f", *PAIR]
    started = time.monotonic()
    found = hostile.dpwitness(*arguments, "--time-limit", "2")
    assert (found.returncode, found.stdout) == (2, "")
    assert told in found.stderr.splitlines()[-1] and time.monotonic() - started < 30


def test_memory_is_for_workers_only(hostile):
    found = hostile.dpwitness("audit", "hostile.py:noisy", *PAIR, "--in-process", "--memory", "4")
    assert found.returncode == 2 and "--memory limits worker processes" in found.stderr


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


def test_a_worker_that_is_killed_over_a_message_holds_nobody_up():
    """The pipe of results contains half a message, and the worker that would write the rest is
    dead.
    """
    with pool(1) as executor:
        assert executor.submit(os.getpid).result() != os.getpid()
        manager = executor._executor_manager_thread
        os.write(
            executor._result_queue._writer.fileno(), (1000).to_bytes(4, "big") + b"the beginning"
        )
        time.sleep(0.2)
    assert not manager.is_alive()


def test_a_second_interrupt_ends_at_once_without_a_traceback(hostile, processes):
    mine = processes()
    command = ["audit", "hostile.py:slow", *PAIR[:-2], "--trials", "1e8", "--report", "out"]
    process = hostile.start(*command, **mine.environment)
    mine.wait_for(3)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 3 and "Traceback" not in err
