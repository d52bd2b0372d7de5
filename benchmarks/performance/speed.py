"""Benchmark of the inner loop of a black-box audit: rounds drawn and counted in one compiled loop,
on one core.

Each row compares two measurements of one run. The baselines are the same rounds drawn, stored,
encoded and counted by NumPy, and NumPy's noise generation alone. Each event is learned as in an
audit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator
from threadpoolctl import threadpool_limits

from dpwitness import mechanisms as m
from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.events.learning import learn
from dpwitness.auditors.workers.fused_counts import counter
from dpwitness.auditors.workers.rounds import batch
from dpwitness.benchmarks.performance import noise
from dpwitness.benchmarks.table import Row, Table, best_time

ROUNDS = 2**17
AUDITED = 2 * 10**8
TRAINING = 2**15  # training outputs per dataset


@dataclass(frozen=True, slots=True)
class SpeedCase:
    """Mechanism, NumPy's generation of the same noise, and the required ratios.

    `faster` is the required speed relative to stored rounds, and `over_noise` the allowed time
    relative to NumPy's noise.
    """

    name: str
    mechanism: Any
    noise: Callable[[int, Generator], Any]
    faster: float
    over_noise: float


CASES = (
    SpeedCase("Laplace", m.Laplace(1.0), lambda n, rng: rng.laplace(0.0, 1.0, n), 1.0, 0.6),
    SpeedCase("Gaussian", m.Gaussian(1.0, 1e-5), lambda n, rng: rng.normal(0.0, 1.0, n), 1.0, 1.5),
    SpeedCase(
        "geometric",
        m.Geometric(1.0),
        lambda n, rng: rng.geometric(0.63, n) - rng.geometric(0.63, n),
        1.0,
        1.0,
    ),
    SpeedCase(
        "noisy max of 5",
        m.NoisyMax(1.0),
        lambda n, rng: rng.laplace(0.0, 2.0, (n, 5)).argmax(axis=1),
        1.5,
        0.5,
    ),
    SpeedCase(
        "sparse vector, 10 queries",
        m.SparseVector(1.0),
        lambda n, rng: rng.laplace(0.0, 8.0, (n, 11)),
        2.0,
        0.5,
    ),
    SpeedCase(
        "randomized response", m.RandomizedResponse(1.0), lambda n, rng: rng.random(n), 2.0, 8.0
    ),
    SpeedCase(
        "vector of 5",
        m.LaplaceVector(1.0, 5),
        lambda n, rng: rng.laplace(0.0, 1.0, (n, 5)),
        5.0,
        2.0,
    ),
    SpeedCase(
        "vector of 20",
        m.LaplaceVector(1.0),
        lambda n, rng: rng.laplace(0.0, 1.0, (n, 20)),
        4.0,
        1.0,
    ),
)


def measure() -> Table:
    """Run the benchmark of the inner loop and return its table.

    The benchmark takes a minute and a half, of which one minute tests the noise. The first run
    takes longer because of compilation.
    """
    with threadpool_limits(1):
        all_rows = [
            *(row for case in CASES for row in _case_rows(case)),
            _complete_audit_row(),
            *noise.rows(),
        ]
    return Table(
        "speed",
        tuple(all_rows),
        (
            f"least processor time of {ROUNDS:,} rounds on D0 of the worst pair; noise by "
            "Generator(SFC64)",
        ),
    )


def _complete_audit_row() -> Row:
    """Compare a complete audit of Laplace noise with NumPy's generation of the same number of
    values.
    """
    mechanism, rng = m.Laplace(1.0), Generator(SFC64(1))

    def audit_seconds(trials: int) -> float:
        start_time = time.process_time()
        audit(mechanism, pair=mechanism.worst_pair(), trials=trials, seed=1, stop="never")
        return time.process_time() - start_time

    audit_seconds(10**6)  # imports and compiles
    noise_seconds = best_time(lambda: rng.laplace(0.0, 1.0, 10**6), 20) / 10**6
    label = f"audit of Laplace, {AUDITED:.0e} rounds: processor time over NumPy's drawing"
    return Row(label, 0.6, audit_seconds(AUDITED) / AUDITED / noise_seconds, "ratio", at_most=True)


def _case_rows(case: SpeedCase) -> list[Row]:
    """Return the rows of one case."""
    mechanism, pair, rng = case.mechanism, case.mechanism.worst_pair(), Generator(SFC64(1))
    sides = [batch(mechanism.sample, dataset, TRAINING, rng) for dataset in (pair.d1, pair.d0)]
    assert sides[0] is not None and sides[1] is not None
    event = learn(sides[0], sides[1], mechanism.claim, alpha=0.05, rounds=10**6).event
    fused = counter(mechanism.sample, pair.d0, event)
    assert fused is not None

    def stored() -> Any:
        outputs = batch(mechanism.sample, pair.d0, ROUNDS, rng)
        return event.tabulate(outputs) if outputs is not None else None

    fused_seconds = best_time(lambda: fused.count(ROUNDS, rng), 9)
    noise_seconds = best_time(lambda: case.noise(ROUNDS, rng), 9)
    return [
        Row(
            f"{case.name} ({event.kind}): time of a round",
            np.inf,
            fused_seconds / ROUNDS * 1e9,
            "ns",
            at_most=True,
        ),
        Row(
            f"{case.name}: rounds against stored ones",
            case.faster,
            best_time(stored) / fused_seconds,
            "ratio",
        ),
        Row(
            f"{case.name}: time over NumPy's noise",
            case.over_noise,
            fused_seconds / noise_seconds,
            "ratio",
            at_most=True,
        ),
    ]
