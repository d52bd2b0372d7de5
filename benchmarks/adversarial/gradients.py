"""Attacks on `certify` with steps of DP-SGD that clip parts of the gradients, clip in another norm,
or clip sums of records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import Verdict, certify
from dpwitness import mechanisms as m
from dpwitness.benchmarks.adversarial.attack import Attack, seed_of
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.mechanisms import ApproxDP

# function of a gradient and its blocks
Clipping = Callable[[FloatArray, list[FloatArray]], FloatArray]


def _scaled(vector: FloatArray, length: float) -> FloatArray:
    return vector / max(1.0, length)


def _norm(vector: FloatArray, order: float = 2) -> float:
    return float(np.linalg.norm(vector, order))


_RIGHT: Clipping = lambda whole, _: _scaled(whole, _norm(whole))  # noqa: E731
_WRONG: dict[str, Clipping] = {
    "each block": lambda _, blocks: np.concatenate([_scaled(each, _norm(each)) for each in blocks]),
    "all but the last block": lambda _, blocks: np.append(
        _RIGHT(np.concatenate(blocks[:-1]), []), blocks[-1]
    ),
    "all but the first block": lambda _, blocks: np.append(
        blocks[0], _RIGHT(np.concatenate(blocks[1:]), [])
    ),
    "length of the first block": lambda whole, blocks: _scaled(whole, _norm(blocks[0])),
    "length of the last block": lambda whole, blocks: _scaled(whole, _norm(blocks[-1])),
    "longest block": lambda whole, blocks: _scaled(whole, max(map(_norm, blocks))),
    "each coordinate": lambda whole, _: np.clip(whole, -1.0, 1.0),
    "upper limit": lambda whole, _: np.minimum(whole, 1.0),
    "largest entry": lambda whole, _: _scaled(whole, _norm(whole, np.inf)),
    "l1 norm": lambda whole, _: _scaled(whole, _norm(whole, 1)),
    "sum of the entries": lambda whole, _: _scaled(whole, abs(float(whole.sum()))),
    "root mean square": lambda whole, _: _scaled(whole, _norm(whole) / len(whole) ** 0.5),
}


def _step(rng: Generator, clip: Clipping, batch: int) -> tuple[m.GradientSteps, str]:
    """Return a step without sampling that clips sums of `batch` gradients in turn, and its
    parameters as text.
    """
    blocks = rng.integers(1, 5, int(rng.choice([2, 3, 5]))).tolist()
    noise, bound, places = (
        float(rng.uniform(0.7, 1.5)),
        float(10 ** rng.uniform(-1, 1)),
        np.cumsum(blocks)[:-1],
    )

    def update(gradients: FloatArray, rng: Generator) -> Any:
        sums = [
            gradients[k : k + batch].sum(axis=0) / bound for k in range(0, len(gradients), batch)
        ]
        clipped = [clip(each, np.split(each, places)) for each in sums]
        return bound * (np.sum(clipped, axis=0) + noise * rng.normal(size=sum(blocks)))

    numbers: dict[str, Any] = {
        "noise_multiplier": noise,
        "clipping_norm": bound,
        "dimension": sum(blocks),
        "records": 3,
        "delta": 1e-3,
    }
    return m.GradientSteps(
        **numbers, update=update
    ), f"blocks {blocks}, noise {noise:.2f}, norm {bound:.2f}"


def _verdicts(rng: Generator, step: m.GradientSteps) -> list[Verdict]:
    """Return the verdicts of `certify` on the worst and the crowded pair, for a claim that leaves
    room for its numerics.
    """
    claim = ApproxDP(1.2 * step.claim.epsilon, step.delta)
    return [
        certify(step, pair, claim, trials=10_000, density_runs=0, seed=seed_of(rng)).verdict
        for pair in (step.worst_pair(), step.crowded_pair())
    ]


def wrong_clipping(rng: Generator) -> str:
    """Attack with clipping of a wrong kind: the named pairs must not both support the claim."""
    name = str(
        rng.choice([*_WRONG, "sums of records"], p=[0.9 / len(_WRONG)] * len(_WRONG) + [0.1])
    )
    step, text = _step(
        rng, _WRONG.get(name, _RIGHT), 1 if name in _WRONG else int(rng.integers(2, 4))
    )
    found = _verdicts(rng, step)
    return (
        ""
        if {Verdict.ERROR, Verdict.VIOLATED} & set(found)
        else f"{[each.value for each in found]}: {name}, {text}"
    )


def right_clipping(rng: Generator) -> str:
    """Attack with the right clipping: neither VIOLATED nor an ERROR of its density."""
    step, text = _step(rng, _RIGHT, 1)
    found = _verdicts(rng, step)
    return (
        f"{[each.value for each in found]}: {text}"
        if {Verdict.ERROR, Verdict.VIOLATED} & set(found)
        else ""
    )


ATTACKS = (
    Attack("step with wrong clipping supported on the named pairs", wrong_clipping, runs=24),
    Attack(
        "step with the right clipping accused on the named pairs",
        right_clipping,
        # certify's probability of an ERROR for a right sampler, at its default confidence
        2 * 1e-3,
        runs=5,
    ),
)
