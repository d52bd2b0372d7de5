"""Benchmark of scaling and of long audits.

Speed of two workers against one, and of Dask against processes, as the best rounds per second of
several runs. Processor time, memory and store of 1e10 rounds.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.auditors.events.rules import Intervals
from dpwitness.auditors.workers.chunks import run_span
from dpwitness.auditors.workers.rounds import Stage
from dpwitness.benchmarks.specimens import PAIR
from dpwitness.benchmarks.table import Row, Table
from dpwitness.executors.pools import executor
from dpwitness.mechanisms.textbook.additive import Laplace

SPECS = (
    "processes:1",
    "threads:1",
    "threads:2",
    "processes:2",
    "dask-local:2",
)  # Dask last: it starts threads, which must not exist when process pools fork
TASKS = (0.25, 1.0)  # seconds per task
REPEATS = 3
SECONDS = 4.0  # length of each run on one worker

Key = tuple[str, str, float]  # executor, mechanism, seconds of a task

_EVENT = Intervals(0, np.array([0.5]), np.array([0.0, 1.0]))


SHORT, LONG = 10**8, 10**10

_LONG_AUDIT_SCRIPT = """
import json, resource, sys, time
import dpwitness as dpw
from dpwitness.mechanisms import Laplace
mechanism, trials = Laplace(1.0), int(sys.argv[1])
dpw.audit(mechanism, pair=mechanism.worst_pair(), trials=10**6, stop="never")  # loads and compiles
started = time.process_time()
result = dpw.audit(mechanism, pair=mechanism.worst_pair(), trials=trials, stop="never", store=sys.argv[2])
print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.process_time() - started, result.trials]))
"""  # noqa: E501


def scalar(dataset: Any, size: int, rng: np.random.Generator) -> Any:
    """Return Laplace noise, drawn one number at a time."""
    return np.array([dataset[0] + rng.laplace(0.0, 1.0) for _ in range(size)])


@dataclass(frozen=True, slots=True)
class Work:
    """Mechanism and its stage; a task of `chunks` chunks takes `task` seconds."""

    name: str
    stage: Stage
    chunks: int
    task: float


def rounds(stage: Stage, first: int, last: int) -> tuple[int, int, float, float]:
    """Run chunks first, ..., last - 1 as an audit's test does; return the rounds, the process id,
    and its CPU time before and after.
    """
    before = time.process_time()
    span = run_span(stage, [_EVENT], 0, False, first, last)
    return sum(part.rounds for _, part in span.parts), os.getpid(), before, time.process_time()


def throughput(pool: Executor, work: Work) -> tuple[float, float]:
    """Return rounds per second with as many tasks in flight as in an audit: by elapsed time, and by
    CPU time of all processes.
    """
    count = max(4, round(SECONDS / work.task))
    under_way: deque[Future[Any]] = deque()
    finished = []
    started, cpu_seconds = time.perf_counter(), time.process_time()
    for first in range(0, count * work.chunks, work.chunks):
        under_way.append(pool.submit(rounds, work.stage, first, first + work.chunks))
        if len(under_way) > 2 * getattr(pool, "_max_workers", 1):
            finished.append(under_way.popleft().result())
    finished += [future.result() for future in under_way]
    clock, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_seconds
    for process in {found[1] for found in finished} - {os.getpid()}:
        cpu_seconds += max(found[3] for found in finished if found[1] == process) - min(
            found[2] for found in finished if found[1] == process
        )
    total_rounds = count * work.chunks * work.stage.chunk
    return total_rounds / clock, total_rounds / cpu_seconds


def works() -> list[Work]:
    """Return a Python and a jitted mechanism, in tasks of a quarter of a second and of a second."""
    found = []
    for name, run, chunk in (("Python", scalar, 2**12), ("jitted", Laplace(1.0).sample, 2**18)):
        stage = Stage(run, PAIR, 1, (0, 0, 0), 10**9, chunk, 300.0)
        rounds(stage, 0, 2)
        started = time.perf_counter()
        rounds(stage, 0, 20)
        each = (time.perf_counter() - started) / 20
        found += [Work(name, stage, max(1, round(task / each)), task) for task in TASKS]
    return found


def scale(specs: Sequence[str] = SPECS) -> dict[Key, tuple[float, float]]:
    """Return the best rounds per second, as in `throughput`; all executors stay open and take
    turns.
    """
    best: dict[Key, tuple[float, float]] = {}
    work_items = works()
    with ExitStack() as stack:
        pools = {}
        for spec in specs:
            pools[spec] = stack.enter_context(executor(spec))
            for future in [
                pools[spec].submit(rounds, work.stage, 0, 1)
                for work in work_items
                for _ in range(4)
            ]:
                future.result()
        for _ in range(REPEATS):
            for work in work_items:
                for spec, pool in pools.items():
                    # Python code holds the interpreter lock
                    if spec.startswith("threads") and work.name == "Python":
                        continue
                    key = (spec, work.name, work.task)
                    found, best_so_far = throughput(pool, work), best.get(key, (0.0, 0.0))
                    best[key] = max(found[0], best_so_far[0]), max(found[1], best_so_far[1])
    return best


def _long(folder: Path) -> list[Row]:
    """Measure audits of Laplace noise with 1e8 and with 1e10 rounds, each in a fresh process."""
    found = {}
    for trials in (SHORT, LONG):
        command = [
            sys.executable,
            "-c",
            _LONG_AUDIT_SCRIPT,
            str(trials),
            str(folder / f"{trials}.db"),
        ]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[trials] = json.loads(output.splitlines()[-1])
    size = os.path.getsize(folder / f"{LONG}.db") / 1e6
    return [
        Row(
            f"{LONG:.0e} rounds: share of the planned rounds that ran",
            1.0,
            found[LONG][2] / LONG,
            "share",
        ),
        Row(f"{LONG:.0e} rounds: processor time", math.inf, found[LONG][1], "s", at_most=True),
        Row(
            f"memory at {LONG:.0e} rounds beyond that at {SHORT:.0e}",
            10.0,
            found[LONG][0] - found[SHORT][0],
            "MiB",
            at_most=True,
        ),
        Row(f"store at {LONG:.0e} rounds", 50.0, size, "MB", at_most=True),
    ]


def measure() -> Table:
    """Run the benchmarks of scaling and of long audits and return their table."""
    best = scale()
    rows = []
    for label, faster_spec, base_spec, required, names, time_index in (
        (
            "Dask / processes, 2 workers, by the clock",
            "dask-local:2",
            "processes:2",
            0.9,
            ("Python", "jitted"),
            0,
        ),
        (
            "Dask / processes, 2 workers, processor time",
            "dask-local:2",
            "processes:2",
            0.9,
            ("Python", "jitted"),
            1,
        ),
        (
            "2 processes / 1, by the clock",
            "processes:2",
            "processes:1",
            1.9,
            ("Python", "jitted"),
            0,
        ),
        ("2 threads / 1, by the clock", "threads:2", "threads:1", 1.9, ("jitted",), 0),
    ):
        for name in names:
            for task in TASKS:
                ratio = (
                    best[faster_spec, name, task][time_index]
                    / best[base_spec, name, task][time_index]
                )
                rows.append(Row(f"{label}: {name}, tasks of {task:g} s", required, ratio, "ratio"))
    with tempfile.TemporaryDirectory() as folder:
        rows += _long(Path(folder))
    return Table(
        "scale",
        tuple(rows),
        (f"best of {REPEATS}; elapsed time is meaningful only on an idle machine",),
    )
