"""Benchmark of long audits: recovery after random kills, memory and store over 1e10 rounds, and
bookkeeping time.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dpwitness.benchmarks.table import Row

KILLS = 100
RUNS_BETWEEN = 4  # kills of each audit before it may finish
SHORT, LONG = 10**8, 10**10

_TARGET_FILE = """
import numpy as np


def noisy(dataset, size, rng):
    return np.round(dataset[0] + rng.laplace(0.0, 1.0, size), 2)
"""

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


def rows() -> list[Row]:
    """Run the benchmark of long audits and return its rows."""
    with tempfile.TemporaryDirectory() as folder:
        return [*killed(Path(folder), KILLS), *long(Path(folder))]


def killed(folder: Path, kills: int) -> list[Row]:
    """Kill an audit of a Python target on two processes at random moments, resume it, and compare
    with an undisturbed audit.
    """
    (folder / "mine.py").write_text(_TARGET_FILE, encoding="utf-8")
    start_time = time.monotonic()
    undisturbed = _audit(folder, "whole.db", None)
    duration, rng, equal_count = time.monotonic() - start_time, random.Random(1), 0
    families = -(-kills // RUNS_BETWEEN)
    for number in range(families):
        for _ in range(RUNS_BETWEEN):
            _audit(folder, f"{number}.db", rng.uniform(0.0, duration))
        equal_count += _audit(folder, f"{number}.db", None) == undisturbed
        (folder / f"{number}.db").unlink()
    output = (
        f"killed {families * RUNS_BETWEEN} times: resumed audits with the counts of an "
        "undisturbed one"
    )
    return [Row(output, 1.0, equal_count / families, "share", counts=(equal_count, families))]


def _audit(folder: Path, store: str, seconds: float | None) -> str:
    """Return the command's JSON output without the time; empty if the process was killed."""
    command = [
        sys.executable,
        "-m",
        "dpwitness",
        "audit",
        "mine.py:noisy",
        "--claim",
        "pure:1",
        "--d0",
        "[0]",
        "--d1",
        "[1]",
    ]
    command += ["--in-process", "--workers", "2", "--trials", "2000000", "--store", store, "--json"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    if seconds is not None:
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    out, _ = process.communicate()
    if not out:
        return ""
    output = json.loads(out)
    return json.dumps({key: value for key, value in output.items() if key != "seconds"})


def long(folder: Path) -> list[Row]:
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
        Row("chunk bookkeeping, of processor time", 0.02, bookkeeping(), "share", at_most=True),
    ]


def bookkeeping() -> float:
    """Return the fraction of processor time that a stage of Laplace rounds spends outside its tasks
    of a quarter of a second each.
    """
    import numpy as np

    from dpwitness.auditors.audit.budget import MAX_CHUNK_ROUNDS
    from dpwitness.auditors.events.rules import Intervals
    from dpwitness.auditors.workers.engine import Inline, Pace, Phase, Stage, counts
    from dpwitness.mechanisms import Laplace

    mechanism = Laplace(1.0)
    event = Intervals(0, np.array([1.2]), np.array([0.0, 1.0]))
    stage = Stage(
        mechanism.sample,
        mechanism.worst_pair(),
        1,
        (0, 0, Phase.TEST),
        2 * 10**9,
        MAX_CHUNK_ROUNDS,
        60.0,
    )
    executor, pace = Inline(), Pace()
    list(counts(stage, [event], executor, Pace()))  # compiles and warms up
    before, task_seconds = resource.getrusage(resource.RUSAGE_SELF), 0.0
    for segment in counts(stage, [event], executor, pace):
        task_seconds += segment.seconds
    after = resource.getrusage(resource.RUSAGE_SELF)
    executor.shutdown()
    total_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return max(0.0, 1 - task_seconds / total_seconds)
