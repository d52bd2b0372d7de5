"""Attacks on checks: sound mechanisms whose number of draws depends on the data, which is not an
output.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import check_mechanism
from dpwitness.benchmarks.adversarial.attack import Attack, seed_of
from dpwitness.mechanisms import ApproxDP, PureDP, Records

_DRAWS = "check_draws_do_not_tell"


class Sampled:
    """Noisy sum of the records that coins choose, with other draws in between: all of it is sound
    under add-remove.
    """

    def __init__(self, rng: Generator) -> None:
        self.size, self.style = int(rng.integers(1, 5)), int(rng.integers(4))
        self.rate, self.epsilon, self.normal = (
            float(rng.uniform(0.2, 0.9)),
            float(rng.uniform(0.5, 3)),
            bool(rng.integers(2)),
        )
        self.domain = Records(self.size, relation="add-remove")
        self.claim = ApproxDP(self.epsilon, 1e-3) if self.normal else PureDP(self.epsilon)

    def sample(self, dataset: Any, size: int, rng: Generator) -> Any:
        values = np.clip(np.nan_to_num(np.asarray(dataset, dtype=float)), 0, 1)
        sums = np.array([self._chosen(values, rng) for _ in range(size)])
        # at most the classic noise
        scale = (math.sqrt(2 * math.log(1250)) if self.normal else 1.0) / min(self.epsilon, 1.0)
        noise = (
            rng.normal(0, scale, size) if self.normal else rng.laplace(0, 1 / self.epsilon, size)
        )
        return np.rint(1024 * (sums + noise)) / 1024

    def _chosen(self, values: Any, rng: Generator) -> float:
        if self.style == 0:  # a coin for each record
            return float(values[rng.random(len(values)) < self.rate].sum())
        if self.style == 1:  # one coin at a time, and a draw for each record that is chosen
            return float(
                sum(value for value in values if rng.random() < self.rate and rng.normal() < 9)
            )
        if self.style == 2:  # randomized rounding of each record
            return float(sum(rng.random() < value for value in values))
        # rejection whose number of tries depends on the data
        while rng.random() > 1 / (1 + values.sum()):
            pass
        return float(values.sum())

    def __repr__(self) -> str:
        return f"style {self.style}, {self.size} records, rate {self.rate:.3f}, {self.claim}"


def sound_check(rng: Generator) -> str:
    """Run an attack on `check_mechanism`: no check of a sound mechanism fails, whatever the number
    of its draws.
    """
    mechanism, trials = Sampled(rng), int(rng.choice([3_000, 20_000, 45_500]))
    report = check_mechanism(mechanism, trials=trials, seed=seed_of(rng))
    # far more noise than claimed
    failed = [
        finding
        for finding in report.failed
        if "may not exercise the mechanism" not in finding.reason
    ]
    return f"{mechanism}, {trials:,} runs: {report.headline()}" if failed else ""


def asked_check(rng: Generator) -> str:
    """Run an attack on the check of draws: a gross difference is a note, and a failure for a caller
    who names the check.
    """
    mechanism, seed = Sampled(rng), seed_of(rng)
    mechanism.style = 0
    note, failure = (
        check_mechanism(mechanism, trials=45_500, seed=seed, checks=[_DRAWS], side_channels=asked)
        .findings[0]
        .status
        for asked in (False, None)
    )
    return (
        ""
        if (note, failure) in (("note", "failed"), ("passed", "passed"))
        else f"{mechanism}: {note} and {failure}"
    )


ATTACKS = (
    Attack("check of a sound mechanism fails by its draws", sound_check, runs=12),
    Attack("number of draws is not a note, or not found", asked_check, runs=20),
)
