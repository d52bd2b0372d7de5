"""Benchmark of the overhead of targets in worker processes, compared with the same function in
plain processes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from dpwitness.auditors.events.learning import learn
from dpwitness.auditors.events.rules import Intervals
from dpwitness.auditors.workers.engine import Stage, counts
from dpwitness.benchmarks.specimens import PAIR
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.claims import PureDP
from dpwitness.mechanisms.wrappers.programs.target import Target

PROCESSES = 2
CHUNK = 2**16  # rounds per chunk in a long audit
TARGET_FILE = '''
import math
import random
import sys
import time

import numpy as np


def noise(value, scale, source):
    """Laplace noise as a library written in Python adds it to one number: about 3 microseconds."""
    for bound in (value, scale):
        if not isinstance(bound, float) or math.isnan(bound) or math.isinf(bound):
            raise ValueError("value and scale must be finite")
    sign = -1.0 if source.random() < 0.5 else 1.0
    tail = -math.log(1.0 - source.random())
    for _ in range(280):
        sign = -sign
    return value + sign * scale * tail


def scalar(dataset, size, rng):
    """`size` calls, one after the other."""
    source, value = random.Random(int(rng.integers(2**63))), float(dataset[0])
    return np.array([noise(value, 1.0, source) for _ in range(size)])


scalar.claim = "pure:1"
scalar.domain = {"kind": "Records", "size": 1}

if __name__ == "__main__":
    size = int(sys.argv[1])
    scalar(np.zeros(1), size // 10, np.random.default_rng(0))
    started = time.perf_counter(), time.process_time()
    scalar(np.zeros(1), size, np.random.default_rng(0))
    print(time.perf_counter() - started[0], time.process_time() - started[1])
'''


def driven(rounds: int, folder: Path) -> dict[str, float]:
    """Run `rounds` test rounds of the scalar target on two workers, and the same number in two
    plain processes.

    ``microseconds`` is the time of a call in a plain process; ``plain`` and ``driven`` are elapsed
    seconds; ``processor`` is the function's share of the processor time of function and controller;
    ``overhead`` is the controller's processor time relative to the function's, for one batch of a
    second.
    """
    file = folder / "scalar_target.py"
    file.write_text(TARGET_FILE, encoding="utf-8")
    plain = [
        subprocess.Popen(
            [sys.executable, str(file), str(rounds // PROCESSES)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(PROCESSES)
    ]
    plain_times = np.array(
        [[float(v) for v in process.communicate()[0].split()] for process in plain]
    )

    target = Target(str(file), "scalar")
    stage = Stage(target.sample, PAIR, 1, (0, 0, 0), rounds, CHUNK, 300.0)
    first, second = stage.sample(0)
    assert first is not None and second is not None
    event = learn(first, second, PureDP(1.0), alpha=0.01, rounds=rounds).event
    assert isinstance(event, Intervals)
    with ThreadPoolExecutor(PROCESSES) as executor:
        list(
            executor.map(
                lambda i: target.sample(PAIR.d0, 100, np.random.default_rng(i)),
                range(2 * PROCESSES),
            )
        )  # starts the workers before the measurement
        before, function, started = _own_cpu_seconds(), target.cpu_seconds, time.perf_counter()
        for _ in counts(stage, [event], executor):
            pass
        elapsed, controller, function = (
            time.perf_counter() - started,
            _own_cpu_seconds() - before,
            target.cpu_seconds - function,
        )

        size = int(rounds / float(plain_times[:, 1].sum()))  # a batch that takes one second
        before, function_before = _own_cpu_seconds(), target.cpu_seconds
        target.sample(PAIR.d0, size, np.random.default_rng(0))
        overhead = (_own_cpu_seconds() - before) / (target.cpu_seconds - function_before)
    target.close()
    return {
        "microseconds": 1e6 * float(plain_times[:, 1].sum()) / rounds,
        "plain": float(plain_times[:, 0].mean()),
        "driven": elapsed,
        "processor": function / (function + controller),
        "overhead": overhead,
    }


def _own_cpu_seconds() -> float:
    """Return the processor time of this process so far; workers count their own time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure() -> Table:
    """Run the benchmark of targets in worker processes and return its table, best of three."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [driven(2**21, Path(folder)) for _ in range(3)]
    plain, clock = (min(run[key] for run in runs) for key in ("plain", "driven"))
    rows = [
        Row("scalar target on 2 workers / by itself, by the clock", 0.9, plain / clock, "ratio"),
        Row(
            "scalar target on 2 workers / by itself, processor time",
            0.9,
            max(run["processor"] for run in runs),
            "ratio",
        ),
        Row(
            "overhead of a batch of 1 s",
            0.1,
            min(run["overhead"] for run in runs),
            "ratio",
            at_most=True,
        ),
    ]
    return Table(
        "foreign",
        tuple(rows),
        (f"a call takes {runs[0]['microseconds']:.2f} microseconds by itself",),
    )
