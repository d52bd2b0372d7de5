"""What the program promises before and beside a verdict: the power of a plan, and the mismatch of density and sampler that it notices."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import Verdict, audit, certify, plan
from dpwitness import mechanisms as m
from dpwitness.bench.adversarial.attack import PAIR, Attack, response, seed_of
from dpwitness.mechanisms import ApproxDP, PureDP
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.pairs import Pair

_POWER = 0.9
_MOST_RUNS = 6_000  # of a plan that is tried
_RUNS = 10_000  # of a certificate, the fewest
_ANSWERS = Pair(np.zeros(5), np.ones(5), "linf")
_HALVES = Pair(np.repeat([0.0, 1.0], 5), np.repeat([1.0, 0.0], 5), "linf")


def planned_response(rng: Generator) -> str:
    """A violation by randomized response, with the number of runs that a plan from the claim alone names."""
    claim, true = PureDP(float(rng.choice([0.5, 0.7, 1.0, 1.4]))), float(rng.choice([1.2, 1.25, 1.3, 1.4]))
    true *= claim.epsilon
    needed = _planned(claim, true)
    found = audit(response(true), claim=claim, pair=PAIR, trials=needed, seed=seed_of(rng))
    return "" if found.verdict is Verdict.VIOLATED else f"missed epsilon {true:.3f} against {claim} in {needed} runs"


@functools.cache
def _planned(claim: PureDP, true: float) -> int:
    needed = plan(claim, find=true, power=_POWER).needed
    assert needed is not None
    return needed


def _bugs() -> tuple[tuple[Any, Pair], ...]:
    """Cheap mechanisms of a stated epsilon, whose claim is then lowered, and a pair on which each leaks."""
    return (
        (m.Laplace(1.0, arithmetic="grid"), PAIR),
        (m.Geometric(1.0), PAIR),
        (m.RandomizedResponse(1.0), PAIR),
        (m.NoisyMax(1.0, release="value"), _ANSWERS),
        (m.BrokenSparseVector(1.0), _HALVES),
    )


def planned_mechanism(rng: Generator) -> str:
    """A broken mechanism, with the number of runs that a plan for this mechanism names."""
    bugs = _bugs()
    mechanism, pair = bugs[int(rng.integers(len(bugs)))]
    claim = PureDP(float(rng.choice([0.6, 0.7, 0.8])))
    needed = _needed(mechanism, pair, claim.epsilon)
    if needed is None or needed > _MOST_RUNS:
        return ""
    found = audit(mechanism, claim=claim, pair=pair, trials=needed, seed=seed_of(rng), bits=False)
    return "" if found.verdict is Verdict.VIOLATED else f"missed {mechanism} against {claim} in {needed} runs"


_plans: dict[tuple[str, float], int | None] = {}


def _needed(mechanism: Any, pair: Pair, claim: float) -> int | None:
    """Runs that a plan names; planned once in each process."""
    key = (repr(mechanism), claim)
    if key not in _plans:
        law: dict[str, Any] = {} if hasattr(mechanism, "log_density") else {"find": 2 * claim}
        _plans[key] = plan(PureDP(claim), mechanism=mechanism, pair=pair, power=_POWER, **law).needed
    return _plans[key]


class Mismatched:
    """The density of one mechanism with the sampler of another one, as a user's class may have them."""

    def __init__(self, density: Any, sampler: Any) -> None:
        self._density, self._sampler = density, sampler

    def sample(self, dataset: Any, size: int, rng: Generator) -> Any:
        return self._sampler.sample(dataset, size, rng)

    def log_density(self, outputs: Any, dataset: Any) -> Any:
        return self._density.log_density(outputs, dataset)


_LAWS: dict[str, Any] = {"Laplace": m.Laplace(1.0), "Gaussian": m.Gaussian(1.0, 1e-3)}


def _off(name: str, factor: float) -> Mismatched:
    """A law whose sampler has `factor` times the noise of its density."""
    density = _LAWS[name]
    return Mismatched(density, replace(density, noise_multiplier=density.noise_multiplier * factor))


@functools.cache
def _noticed(name: str) -> float:
    """The error of the noise scale that the program says it notices with probability .9."""
    mismatch: Any = certify(_off(name, 1.0), PAIR, _LAWS[name].claim, trials=_RUNS).mismatch
    return float(getattr(mismatch, "scale", np.nan))


def unnoticed(rng: Generator) -> str:
    """A sampler that is off by the mismatch that the result says it notices."""
    name, up = str(rng.choice(list(_LAWS))), bool(rng.random() < 0.5)
    stated = _noticed(name)
    if not np.isfinite(stated):
        return f"{name}: the result states no mismatch that it notices"
    factor = 1 + stated if up else 1 / (1 + stated)
    found = certify(_off(name, factor), PAIR, _LAWS[name].claim, trials=_RUNS, seed=seed_of(rng))
    return "" if found.verdict is Verdict.ERROR else f"{found.verdict.value}: {name} with {factor:.4f} times the noise"


class Less(m.Laplace):
    """A user's variant of a mechanism of this package, which scales the noise and leaves the density as it is."""

    factor = 1.0

    def sample(self, dataset: Any, size: int, rng: Generator) -> Any:
        return replace(m.Laplace(self.epsilon), noise_multiplier=self.factor).sample(dataset, size, rng)


def certified_mismatch(rng: Generator) -> str:
    """A sampler with too little noise for its claim, beside a density that keeps the claim."""
    missing, kind = float(10 ** rng.uniform(-2.5, -1)), str(rng.choice(["Laplace", "Gaussian", "variant"], p=[0.4, 0.1, 0.5]))
    epsilon = 1 / (1 - missing * float(rng.uniform(0.0, 1.0)))  # of the density 1, of the sampler at least 1 / (1 - missing)
    claim: Claim = ApproxDP(epsilon, 1e-3) if kind == "Gaussian" else PureDP(epsilon)
    mechanism: Any = Less(1.0) if kind == "variant" else _off(kind, 1 - missing)
    settings: dict[str, Any] = {"route": "sampling"} if kind == "Gaussian" else {}
    try:
        Less.factor = 1 - missing
        found = certify(mechanism, PAIR, claim, trials=_RUNS, seed=seed_of(rng), **settings)
    finally:
        Less.factor = 1.0
    return "" if found.verdict is not Verdict.CERTIFIED else f"CERTIFIED {claim} of {kind} with {missing:.2%} of the noise missing"


ATTACKS = (
    Attack("violation missed by a plan at power .9: from the claim", planned_response, 1 - _POWER),
    Attack("violation missed by a plan at power .9: from the mechanism", planned_mechanism, 1 - _POWER),
    Attack("mismatch of the stated size not noticed", unnoticed, 0.1),
    Attack("sampler with too little noise CERTIFIED", certified_mismatch, 0.1),
)
