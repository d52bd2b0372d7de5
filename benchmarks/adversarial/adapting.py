"""Attacks by mechanisms whose behavior depends on state, batch size or other rows, or that leak in
one phase of the audit only.

A mechanism that satisfies its claim may end in ERROR, and is reported as VIOLATED no more often
than stated. A leaking mechanism must not end in NOT REFUTED.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import Verdict, audit
from dpwitness.benchmarks.adversarial.attack import (
    PAIR,
    RATE_RUNS,
    Attack,
    failure_unless_verdict,
    false_alarm,
    response,
    seed_of,
)
from dpwitness.mechanisms import PureDP

Mechanism = Callable[[Any, int, Generator], Any]


class Counting:
    """Mechanism that switches to another mechanism after a number of calls, or of outputs."""

    def __init__(self, before: Mechanism, after: Mechanism, limit: float, *, outputs: bool) -> None:
        self.before, self.after, self.limit, self.outputs, self.seen = (
            before,
            after,
            limit,
            outputs,
            0,
        )

    def __call__(self, dataset: Any, size: int, rng: Generator) -> Any:
        chosen = self.before if self.seen < self.limit else self.after
        self.seen += size if self.outputs else 1
        return chosen(dataset, size, rng)


def _settings(rng: Generator, alpha: float) -> dict[str, Any]:
    """Draw the settings of an audit."""
    return {
        "pair": PAIR,
        "trials": int(rng.integers(1500, 4001)),
        "confidence": 1 - alpha,
        "seed": seed_of(rng),
        "bits": False,
    }


def _count_uses(mechanism: Mechanism, outputs: bool, settings: dict[str, Any]) -> int:
    """Return the number of calls or outputs in a complete audit."""
    counting = Counting(mechanism, mechanism, math.inf, outputs=outputs)
    audit(counting, claim=PureDP(1.0), **settings)
    return counting.seen


def sound_but_stateful(alpha: float, rng: Generator) -> str:
    """Run an attack with randomized response at its claim, with swapped outputs after some calls,
    after some outputs, or by batch size.
    """
    epsilon, kind = (
        float(rng.uniform(0.5, 2.0)),
        str(rng.choice(["calls", "outputs", "batch", "parity"])),
    )
    sound = response(epsilon)

    def swapped(dataset: Any, size: int, draws: Generator) -> Any:
        return 1 - sound(dataset, size, draws)

    limit = int(10 ** rng.uniform(0, 3))

    def by_batch(dataset: Any, size: int, draws: Generator) -> Any:
        other = size < limit if kind == "batch" else size % 2
        return (swapped if other else sound)(dataset, size, draws)

    mechanism = (
        by_batch
        if kind in ("batch", "parity")
        else Counting(sound, swapped, limit, outputs=kind == "outputs")
    )
    result = audit(mechanism, claim=PureDP(epsilon), name="attack", **_settings(rng, alpha))
    return false_alarm(result, f"response {epsilon:.3f} swapped by {kind}, limit {limit}")


def dependent_rows(alpha: float, rng: Generator) -> str:
    """Run an attack with randomized response at its claim, with dependent rows in one call: copies,
    chains, or one draw for the batch.
    """
    epsilon, kind = (
        float(rng.uniform(0.5, 2.0)),
        str(rng.choice(["copies", "chain", "mirror", "one draw"])),
    )
    sound, width, stay = response(epsilon), int(rng.integers(2, 9)), float(rng.uniform(0.2, 0.9))

    def dependent(dataset: Any, size: int, draws: Generator) -> Any:
        rows = sound(dataset, size, draws)
        if kind == "copies":
            return np.repeat(rows, width)[:size]
        if kind == "one draw":
            return np.full(size, rows[0])
        if kind == "mirror":
            return np.where(np.arange(size) < size // 2, rows, rows[::-1])
        fresh = draws.random(size) >= stay
        fresh[0] = True
        return rows[np.maximum.accumulate(np.where(fresh, np.arange(size), 0))]

    result = audit(dependent, claim=PureDP(epsilon), **_settings(rng, alpha))
    return false_alarm(
        result, f"response {epsilon:.3f}, rows by {kind}, width {width}, stay {stay:.2f}"
    )


def leak_that_hides(rng: Generator) -> str:
    """Run an attack with a mechanism that leaks only before or only after some calls, as if it
    distinguished training from testing.

    At least 15 % of the calls leak if the last ones do: a leak in fewer is beyond the power of so
    few runs. The number of calls depends on the speed of the machine, so that an audit may end
    before the leak.
    """
    claim, outputs, settings = (
        float(rng.uniform(0.5, 1.0)),
        bool(rng.random() < 0.5),
        _settings(rng, 0.01),
    )
    sound, leaks = response(claim), response(claim + 3.0)
    total = _count_uses(sound, outputs, settings)
    limit = max(1, int(total * rng.uniform(0.02, 0.85)))
    first_leaks = bool(rng.random() < 0.5)
    mechanism = Counting(
        *((leaks, sound) if first_leaks else (sound, leaks)), limit, outputs=outputs
    )
    result = audit(mechanism, claim=PureDP(claim), name="attack", **settings)
    if not first_leaks and limit > 0.85 * mechanism.seen:
        return ""
    allowed = (Verdict.VIOLATED, Verdict.ERROR, Verdict.INCONCLUSIVE)
    description = (
        f"{'leaks first' if first_leaks else 'leaks later'}, changes after {limit} of "
        f"{mechanism.seen} {'outputs' if outputs else 'calls'}"
    )
    return failure_unless_verdict(result, allowed, description)


def leak_by_batch(rng: Generator) -> str:
    """Run an attack with a mechanism that leaks only in batches of several runs, as vectorized code
    may. An audit makes no single runs.
    """
    claim, smallest_batch = float(rng.uniform(0.5, 1.0)), int(rng.integers(2, 17))
    sound, leaks = response(claim), response(claim + 3.0)

    def run(dataset: Any, size: int, draws: Generator) -> Any:
        return (leaks if size >= smallest_batch else sound)(dataset, size, draws)

    result = audit(run, claim=PureDP(claim), **_settings(rng, 0.01))
    return failure_unless_verdict(
        result,
        (Verdict.VIOLATED, Verdict.ERROR, Verdict.INCONCLUSIVE),
        f"leaks in batches of {smallest_batch} or more",
    )


ATTACKS = (
    Attack(
        "correct mechanism with state or batch-dependent outputs reported as VIOLATED, alpha .05",
        partial(sound_but_stateful, 0.05),
        0.05,
        RATE_RUNS,
    ),
    Attack(
        "correct mechanism with dependent rows reported as VIOLATED, alpha .05",
        partial(dependent_rows, 0.05),
        0.05,
        RATE_RUNS,
    ),
    Attack("leak before or after a number of calls passes", leak_that_hides),
    Attack("leak in batches only passes", leak_by_batch),
)
