"""Attacks on other statements of the program: the power of a plan, and the detectable mismatch of
density and sampler.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import Verdict, audit, certify, plan
from dpwitness import mechanisms as m
from dpwitness.benchmarks.adversarial.attack import PAIR, Attack, response, seed_of
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.mechanisms import ApproxDP, PureDP

_POWER = 0.9
_RUNS = 10_000  # smallest number of runs of `certify`
_QUERY_ANSWERS = Pair(np.zeros(5), np.ones(5), "linf")
_HALVES = Pair(np.repeat([0.0, 1.0], 5), np.repeat([1.0, 0.0], 5), "linf")


def planned_response(rng: Generator) -> str:
    """Run an attack on plans: audit randomized response that violates its claim, with the number of
    runs from `plan`.
    """
    claim, true = (
        PureDP(float(rng.choice([0.5, 0.7, 1.0, 1.4]))),
        float(rng.choice([1.2, 1.25, 1.3, 1.4])),
    )
    true *= claim.epsilon
    needed = _runs_from_claim(claim, true)
    result = audit(response(true), claim=claim, pair=PAIR, trials=needed, seed=seed_of(rng))
    return (
        ""
        if result.verdict is Verdict.VIOLATED
        else f"missed epsilon {true:.3f} against {claim} in {needed} runs"
    )


@functools.cache
def _runs_from_claim(claim: PureDP, true: float) -> int:
    """Return the number of runs in a plan from the claim alone."""
    needed = plan(claim, find=true, power=_POWER).needed
    assert needed is not None
    return needed


# Fast mechanisms, each with a pair on which its epsilon is attained; the attack lowers their claim.
_BROKEN: tuple[tuple[Any, Pair], ...] = (
    (m.Laplace(1.0, arithmetic="grid"), PAIR),
    (m.Geometric(1.0), PAIR),
    (m.RandomizedResponse(1.0), PAIR),
    (m.NoisyMax(1.0, release="value"), _QUERY_ANSWERS),
    (m.BrokenSparseVector(1.0), _HALVES),
)


def planned_mechanism(rng: Generator) -> str:
    """Run an attack with a broken mechanism, audited with the number of runs in a plan for this
    mechanism.
    """
    number, claim = int(rng.integers(len(_BROKEN))), PureDP(float(rng.choice([0.6, 0.7, 0.8])))
    mechanism, pair = _BROKEN[number]
    needed = _runs_for_mechanism(number, claim)
    # plans with more runs are skipped
    if needed is None or needed > 6_000:
        return ""
    result = audit(mechanism, claim=claim, pair=pair, trials=needed, seed=seed_of(rng), bits=False)
    return (
        ""
        if result.verdict is Verdict.VIOLATED
        else f"missed {mechanism} against {claim} in {needed} runs"
    )


@functools.cache
def _runs_for_mechanism(number: int, claim: PureDP) -> int | None:
    """Return the number of runs in a plan for a mechanism of `_BROKEN`."""
    mechanism, pair = _BROKEN[number]
    law: dict[str, Any] = {} if hasattr(mechanism, "log_density") else {"find": 2 * claim.epsilon}
    return plan(claim, mechanism=mechanism, pair=pair, power=_POWER, **law).needed


class Mismatched:
    """Mechanism with the density of one mechanism and the sampler of another, as in a faulty user
    class.
    """

    def __init__(self, density: Any, sampler: Any) -> None:
        self._density, self._sampler = density, sampler

    def sample(self, dataset: Any, size: int, rng: Generator) -> Any:
        return self._sampler.sample(dataset, size, rng)

    def log_density(self, outputs: Any, dataset: Any) -> Any:
        return self._density.log_density(outputs, dataset)


_MECHANISMS: dict[str, Any] = {"Laplace": m.Laplace(1.0), "Gaussian": m.Gaussian(1.0, 1e-3)}


def _scaled_sampler(name: str, factor: float) -> Mismatched:
    """Return a mechanism whose sampler has `factor` times the noise of its density."""
    density = _MECHANISMS[name]
    return Mismatched(density, replace(density, noise_multiplier=density.noise_multiplier * factor))


@functools.cache
def _detectable_error(name: str) -> float:
    """Return the stated error of the noise scale that the program detects with probability 0.9."""
    mismatch: Any = certify(
        _scaled_sampler(name, 1.0), PAIR, _MECHANISMS[name].claim, trials=_RUNS
    ).mismatch
    return float(getattr(mismatch, "scale", np.nan))


def unnoticed(rng: Generator) -> str:
    """Run an attack with a sampler whose mismatch equals the stated detectable mismatch."""
    name, larger = str(rng.choice(list(_MECHANISMS))), bool(rng.random() < 0.5)
    stated = _detectable_error(name)
    if not np.isfinite(stated):
        return f"{name}: the result does not state the mismatch that it detects"
    factor = 1 + stated if larger else 1 / (1 + stated)
    result = certify(
        _scaled_sampler(name, factor),
        PAIR,
        _MECHANISMS[name].claim,
        trials=_RUNS,
        seed=seed_of(rng),
    )
    return (
        ""
        if result.verdict is Verdict.ERROR
        else f"{result.verdict.value}: {name} with {factor:.4f} times the noise"
    )


class ReducedNoiseLaplace(m.Laplace):
    """User-defined subclass of a mechanism of dpwitness that scales the noise without changing the
    density.
    """

    factor = 1.0

    def sample(self, dataset: Any, size: int, rng: Generator) -> Any:
        return replace(m.Laplace(self.epsilon), noise_multiplier=self.factor).sample(
            dataset, size, rng
        )


def certified_mismatch(rng: Generator) -> str:
    """Run an attack with a sampler that has too little noise for its claim, next to a density that
    satisfies the claim.
    """
    noise_deficit, kind = (
        float(10 ** rng.uniform(-2.5, -1)),
        str(rng.choice(["Laplace", "Gaussian", "variant"], p=[0.4, 0.1, 0.5])),
    )
    # the density has epsilon 1, the sampler at least 1 / (1 - missing)
    epsilon = 1 / (1 - noise_deficit * float(rng.uniform(0.0, 1.0)))
    claim: Claim = ApproxDP(epsilon, 1e-3) if kind == "Gaussian" else PureDP(epsilon)
    mechanism: Any = (
        ReducedNoiseLaplace(1.0) if kind == "variant" else _scaled_sampler(kind, 1 - noise_deficit)
    )
    settings: dict[str, Any] = {"route": "sampling"} if kind == "Gaussian" else {}
    try:
        ReducedNoiseLaplace.factor = 1 - noise_deficit
        result = certify(mechanism, PAIR, claim, trials=_RUNS, seed=seed_of(rng), **settings)
    finally:
        ReducedNoiseLaplace.factor = 1.0
    return (
        ""
        if result.verdict is not Verdict.CERTIFIED
        else f"CERTIFIED {claim} of {kind} with {noise_deficit:.2%} of the noise missing"
    )


ATTACKS = (
    Attack("violation missed by a plan at power .9: from the claim", planned_response, 1 - _POWER),
    Attack(
        "violation missed by a plan at power .9: from the mechanism",
        planned_mechanism,
        1 - _POWER,
        200,
    ),
    Attack("mismatch of the stated size not noticed", unnoticed, 0.1, 200),
    Attack("sampler with too little noise CERTIFIED", certified_mismatch, 0.1, 200),
)
