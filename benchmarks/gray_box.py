"""Benchmark of the overhead of recording: relative to a target's own time, and in a trace of
100,000 calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dpwitness.auditors.traces.sessions import known_primitives
from dpwitness.auditors.traces.trace import trace
from dpwitness.benchmarks.table import Row, Table, best_time
from dpwitness.core.datasets.pairs import Pair
from dpwitness.mechanisms.wrappers.programs.inside import global_generators
from dpwitness.mechanisms.wrappers.recording.session import Session

CALLS = 100_000


def measure() -> Table:
    """Run the benchmark of recording and return its table.

    The rows are ratios of processor time with and without recording, seconds of a long trace, and
    microseconds per call.
    """
    rows = [
        Row(f"recorded / plain: {name}", 1.2, _overhead_ratio(run), "ratio", at_most=True)
        for name, run in TARGETS.items()
    ]
    start_time = time.perf_counter()
    result = trace(_many_calls, Pair(np.zeros(1), np.ones(1)), "pure:100000", confirm=False)
    rows.append(
        Row(
            f"a whole trace of {CALLS:,} calls",
            10.0,
            time.perf_counter() - start_time,
            "s",
            at_most=True,
        )
    )
    assert result.calls[0].times == CALLS
    plain, recorded = _plain_and_recorded_time(_many_calls)
    rows.append(
        Row("recording one call", 20.0, 1e6 * (recorded - plain) / CALLS, "us", at_most=True)
    )
    return Table(
        "gray-box",
        tuple(rows),
        ("A target whose calls take less than some 25 us each costs more than a fifth to record.",),
    )


def _plain_and_recorded_time(run: Callable[..., Any]) -> tuple[float, float]:
    """Return the processor seconds of one run, without and with recording; patches are installed
    beforehand.
    """
    data = np.linspace(0.0, 1.0, 2000)
    plain = best_time(lambda: run(data, 1, np.random.default_rng(0)))
    with Session(
        run, known_primitives(), seed=global_generators.seed, snapshot=global_generators.snapshot
    ) as session:

        def once() -> None:
            session.record(data, 0)
            session.recorders.clear()

        return plain, best_time(once)


def _overhead_ratio(run: Callable[..., Any]) -> float:
    """Return the time with recording divided by the time without."""
    plain, recorded = _plain_and_recorded_time(run)
    return recorded / plain


def _many_calls(data: Any, size: int, rng: Any) -> Any:
    """Draw noise in 100,000 calls."""
    return [[rng.laplace(data[0], 2.0) for _ in range(CALLS)]]


def _histograms(data: Any, size: int, rng: Any) -> Any:
    """Return a noisy histogram of each of 400 columns."""
    return [[np.histogram(data + i, bins=10)[0] + rng.laplace(0.0, 1.0, 10) for i in range(400)]]


def _means(data: Any, size: int, rng: Any) -> Any:
    """Return 1,000 noisy clipped means of 2,000 records."""
    return [
        [
            float(np.clip(np.sort(data), 0.0, 1.0).mean()) + rng.laplace(0.0, 1e-3)
            for _ in range(1000)
        ]
    ]


def _descent(data: Any, size: int, rng: Any) -> Any:
    """Run 200 noisy steps of logistic regression with clipped gradients."""
    rows = np.stack([data, data**2, np.ones_like(data)], axis=1)
    w = np.zeros(3)
    for _ in range(200):
        gradients = rows * (1 / (1 + np.exp(-rows @ w)) - (data > 0.5))[:, None]
        gradients /= np.maximum(1.0, np.linalg.norm(gradients, axis=1))[:, None]
        w -= 0.1 * (gradients.sum(axis=0) + rng.normal(0.0, 4.0, 3)) / len(data)
    return [w]


TARGETS = {
    "400 noisy histograms": _histograms,
    "1,000 noisy means": _means,
    "200 noisy gradient steps": _descent,
}
