"""Attacks by slow mechanisms with continuous outputs, of which 100 to 500 runs fit in the time
budget.

The outputs have a random form and 1 to 200 numbers. A faulty mechanism has noise that is 10 to 150
times too small, so that each number that moves does so by at least eight times the scale of its
noise, or no noise on one number. Its sound twin has the noise of the claim. Only mechanisms advance
the clock, so that the number of runs does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.random import Generator

from dpwitness import Verdict, audit
from dpwitness.auditors.audit import options as audit_options
from dpwitness.auditors.workers import chunks
from dpwitness.benchmarks.adversarial.attack import (
    PAIR,
    Attack,
    failure_unless_verdict,
    false_alarm,
    seed_of,
)
from dpwitness.core.protocols.mechanism import FloatArray

_COST = 0.3  # seconds of a run


class _Clock:
    """Clock that mechanisms advance."""

    now = 0.0


def _frame(values: FloatArray) -> Any:
    import pandas as pd

    return (
        pd.DataFrame(values[: len(values) // 2 * 2].reshape(-1, 2), columns=["a", "b"])
        if len(values) > 1
        else pd.Series(values)
    )


_FORMS: dict[str, Callable[[FloatArray, Generator], Any]] = {
    "vector": lambda x, rng: x,
    "matrix": lambda x, rng: np.outer(x, [1.0, -0.5]),
    "tuple of an integer and numbers": lambda x, rng: (int(rng.integers(5)), *x.tolist()),
    "dict of arrays": lambda x, rng: {"weights": x, "bias": rng.normal(size=2)},
    "rows": lambda x, rng: [{"place": k, "value": value} for k, value in enumerate(x.tolist())],
    "list of random length": lambda x, rng: x.tolist() + rng.normal(size=rng.integers(3)).tolist(),
    "frame": lambda x, rng: _frame(x),
}


def _mechanism(rng: Generator, *, faulty: bool) -> tuple[Any, str]:
    """Draw a mechanism with a pure claim of 1 on the pair of the datasets [0] and [1], and describe
    it.
    """
    form, size = str(rng.choice(list(_FORMS))), int(np.exp(rng.uniform(0, np.log(200))))
    factor = float(np.exp(rng.uniform(np.log(10), np.log(150))))
    size += size % 2 if form == "frame" and size > 1 else 0
    # scales of its noise by which each number moves at least
    moving = rng.permutation(size)[: rng.integers(1, max(2, min(size, int(factor / 8 + 1))))]
    # the numbers that move have a sensitivity of 1 each
    move, scale = np.zeros(size), np.full(size, 1.0 * len(moving))
    move[moving] = rng.choice([-1.0, 1.0], len(moving))
    exact = faulty and rng.random() < 0.25
    if exact:
        scale[moving[0]] = 0.0
    elif faulty:
        scale[moving] /= factor
    center, unit, build = rng.normal(0, 10, size), 10 ** rng.uniform(-3, 3, size), _FORMS[form]

    def sample(dataset: Any, runs: int, draws: Generator) -> list[Any]:
        _Clock.now += _COST * runs
        noise = scale * draws.laplace(size=(runs, size))
        return [build(row, draws) for row in unit * (center + float(dataset[0]) * move + noise)]

    fault = (
        "sound"
        if not faulty
        else "one number without noise"
        if exact
        else f"noise {factor:.0f} times too small"
    )
    return sample, f"{form} of {size} numbers, {len(moving)} of which move, {fault}"


def slow(rng: Generator, *, faulty: bool, confidence: float) -> str:
    """Audit a slow mechanism with a budget for few runs."""
    mechanism, description = _mechanism(rng, faulty=faulty)
    runs = int(np.exp(rng.uniform(np.log(120), np.log(500))))
    options: dict[str, Any] = {
        "pair": PAIR,
        "confidence": confidence,
        "seed": seed_of(rng),
        "causes": False,
    }
    with (
        patch.object(audit_options, "read_clock", lambda name: lambda: _Clock.now),
        patch.object(chunks, "perf_counter", lambda: _Clock.now),
    ):
        found = audit(
            mechanism,
            claim="pure:1",
            seconds=_COST * runs,
            trace=bool(rng.random() < 0.5),
            **options,
        )
    text = f"{description}, {found.trials} runs"
    return (
        failure_unless_verdict(found, (Verdict.VIOLATED,), text)
        if faulty
        else false_alarm(found, text)
    )


ATTACKS = (
    Attack(
        "gross violation of a slow mechanism missed in few runs",
        partial(slow, faulty=True, confidence=0.99),
        0.05,
        60,
    ),
    Attack(
        "sound slow mechanism reported as VIOLATED from few runs, alpha .05",
        partial(slow, faulty=False, confidence=0.95),
        0.05,
        60,
    ),
)
