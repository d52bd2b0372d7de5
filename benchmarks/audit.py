"""Benchmark of the black-box audit: certified parameters, speed and memory, as medians over 20
seeds at error 0.05.

Every value covers the complete pipeline: event learning, low-order bits, interim analyses and
training rounds. n is the number of runs per dataset, so an audit has 2n trials.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from dpwitness import ApproxDP, PureDP, Verdict, audit
from dpwitness import mechanisms as m
from dpwitness.benchmarks.specimens import PAIR, spread_pair
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair

SEEDS = 20


@dataclass(frozen=True, slots=True)
class AuditCase:
    """Audit whose median certified parameter is measured; `runs` per dataset."""

    name: str
    mechanism: Any
    claim: Claim
    pair: Pair
    runs: int
    required: float


def _cases() -> tuple[AuditCase, ...]:
    """Return the audits and their required parameters."""
    swapped_pair = Pair(np.repeat([0.0, 1.0], 5), np.repeat([1.0, 0.0], 5), "linf")
    ones_pair = Pair(np.zeros(5), np.ones(5), "linf")
    return (
        AuditCase(
            "Laplace .1, n=1e6", m.Laplace(0.1, arithmetic="grid"), PureDP(0.1), PAIR, 10**6, 0.0965
        ),
        AuditCase(
            "Laplace 1, n=1e5", m.Laplace(1.0, arithmetic="grid"), PureDP(1.0), PAIR, 10**5, 0.985
        ),
        AuditCase(
            "Laplace 1, n=1e7", m.Laplace(1.0, arithmetic="grid"), PureDP(1.0), PAIR, 10**7, 0.9985
        ),
        AuditCase(
            "Laplace 3, n=1e5", m.Laplace(3.0, arithmetic="grid"), PureDP(3.0), PAIR, 10**5, 2.96
        ),
        AuditCase(
            "Gaussian (1, 1e-5), n=1e6",
            m.Gaussian(1.0, 1e-5),
            ApproxDP(1.0, 1e-5),
            PAIR,
            10**6,
            0.83,
        ),
        AuditCase(
            "Gaussian (1, 1e-5), n=1e7",
            m.Gaussian(1.0, 1e-5),
            ApproxDP(1.0, 1e-5),
            PAIR,
            10**7,
            0.93,
        ),
        AuditCase(
            "broken SVT, n=1e4", m.BrokenSparseVector(1.0), PureDP(1.0), swapped_pair, 10**4, 2.3
        ),
        AuditCase(
            "broken SVT, n=1e6", m.BrokenSparseVector(1.0), PureDP(1.0), swapped_pair, 10**6, 3.75
        ),
        AuditCase(
            "noisy max with value, n=1e6",
            m.NoisyMax(1.0, release="value"),
            PureDP(1.0),
            ones_pair,
            10**6,
            2.44,
        ),
        AuditCase(
            "Laplace vector, n=1e6", m.LaplaceVector(1.0), PureDP(1.0), spread_pair(), 10**6, 0.60
        ),
    )


def _certified(case: AuditCase) -> float:
    """Return the median certified parameter of audits with different seeds."""
    settings: dict[str, Any] = {
        "claim": case.claim,
        "pair": case.pair,
        "trials": 2 * case.runs,
        "confidence": 0.95,
    }
    return float(
        np.median(
            [audit(case.mechanism, **settings, seed=seed).parameter_lower for seed in range(SEEDS)]
        )
    )


def measure() -> Table:
    """Run the benchmark of the black-box audit and return its table, in about six minutes."""
    rows = [
        Row(f"certified: {case.name}", case.required, _certified(case), "median")
        for case in _cases()
    ]
    small = m.Gaussian(1.0, 1e-5, noise_multiplier=0.8)
    violations = [
        audit(small, pair=PAIR, trials=2 * 10**6, confidence=0.95, seed=seed).verdict
        is Verdict.VIOLATED
        for seed in range(SEEDS)
    ]
    rows.append(
        Row("Gaussian with 0.8 sigma, n=1e6: found", 19, float(sum(violations)), "of 20 seeds")
    )
    bits = [
        audit(m.Laplace(1.0), pair=PAIR, trials=10**5, confidence=0.95, seed=seed).bit_level
        for seed in range(SEEDS)
    ]
    rows.append(
        Row(
            "bits of float Laplace, 1e5 rounds",
            4.0,
            float(np.median([b.epsilon_lower for b in bits if b])),
            "median",
        )
    )
    safe = [m.Laplace(1.0, arithmetic="grid"), m.Laplace(1.0, arithmetic="discrete")]
    alarms = [
        audit(s, pair=PAIR, trials=10**5, confidence=0.999, seed=seed).bit_level
        for s in safe
        for seed in range(SEEDS)
    ]
    alarmed = sum(level is not None and level.verdict is Verdict.VIOLATED for level in alarms)
    rows.append(
        Row(
            "bits of grid and discrete Laplace: alarms",
            0.0,
            float(alarmed),
            "of 40 audits",
            at_most=True,
        )
    )
    rows.append(
        Row("2e8 rounds against drawing 2e8 values", 1.0, _relative_time(), "ratio", at_most=True)
    )
    rows.append(
        Row("memory above the interpreter, 1e8 rounds", 400.0, _extra_memory(), "MiB", at_most=True)
    )
    rows.append(
        Row("import dpwitness", 0.2, _cpu_seconds("import dpwitness"), "CPU s", at_most=True)
    )
    help_seconds = _cpu_seconds(
        "import sys; sys.argv[1:] = ['--help']; from dpwitness.cli import main; main()"
    )
    rows.append(Row("dpwitness --help", 0.4, help_seconds, "CPU s", at_most=True))
    return Table("audit", tuple(rows), ("median: over 20 seeds at error 0.05, event learned",))


def _relative_time() -> float:
    """Return the CPU time of an audit of jitted Laplace noise with 2e8 rounds, divided by the CPU
    time of NumPy's draws alone.
    """
    audit(m.Laplace(1.0), pair=PAIR, trials=10**5)
    rng = Generator(SFC64(SeedSequence(1)))
    started = time.process_time()
    for _ in range(200):
        rng.laplace(0.0, 1.0, 10**6)
    draw_seconds = time.process_time() - started
    started = time.process_time()
    audit(m.Laplace(1.0), pair=PAIR, trials=2 * 10**8, stop="never")
    return (time.process_time() - started) / draw_seconds


def _extra_memory() -> float:
    """Return the peak memory of a process that audits 1e8 rounds minus that of a process that only
    imports, in MiB.
    """
    setup = (
        "import numpy as np, numba, re, dpwitness as dpw; from dpwitness.mechanisms import "
        "Laplace; dpw.audit\n"
    )
    work = (
        "dpw.audit(Laplace(1.0), pair=dpw.Pair(np.array([0.0]), np.array([1.0])), trials=10**8, "
        "stop='never')\n"
    )
    show = "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    peaks = [
        int(
            subprocess.run(
                [sys.executable, "-c", setup + part + show], check=True, capture_output=True
            ).stdout
        )
        for part in ("", work)
    ]
    return (peaks[1] - peaks[0]) / 1024


def _cpu_seconds(code: str) -> float:
    """Return the CPU seconds of a fresh interpreter that runs `code`, minus those of an interpreter
    that runs nothing.
    """

    def seconds(text: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", text], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(seconds(code) for _ in range(3)) - min(seconds("pass") for _ in range(3))
