"""Attacks on other statements of the program: the power of a plan, the detectable mismatch of
density and sampler, steps of DP-SGD that clip wrongly, and audits of accountants with epsilons
below 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq
from scipy.stats import norm

from dpwitness import Verdict, audit, certify, plan
from dpwitness import mechanisms as m
from dpwitness.accounting import audit_accountant
from dpwitness.benchmarks.adversarial.attack import (
    PAIR,
    Attack,
    failure_unless_verdict,
    response,
    seed_of,
)
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray
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


Divergence = Callable[[float], float]  # hockey-stick divergence at any epsilon


def _normal(mu: float) -> Divergence:
    return lambda x: float(norm.cdf(mu / 2 - x / mu) - math.exp(x) * norm.cdf(-mu / 2 - x / mu))


def _laplace(shift: float) -> Divergence:
    return lambda x: 1 - math.exp(x) if x <= -shift else max(-math.expm1((x - shift) / 2), 0.0)


def _response(epsilon: float) -> Divergence:
    p = 1 / (1 + math.exp(-epsilon))
    return lambda x: (
        p * max(-math.expm1(x - epsilon), 0.0) + (1 - p) * max(-math.expm1(x + epsilon), 0.0)
    )


# mechanism and its parameter with a range, and the divergence for a value of this parameter
_LAWS: tuple[tuple[str, str, tuple[float, float], Callable[[float], Divergence]], ...] = (
    ("gaussian", "sigma", (0.3, 30), lambda sigma: _normal(1 / sigma)),
    ("gdp", "mu", (0.05, 5), _normal),
    ("zcdp", "rho", (1e-3, 10), lambda rho: _normal(math.sqrt(2 * rho))),
    ("laplace", "scale", (0.3, 30), lambda scale: _laplace(1 / scale)),
    ("geometric", "scale", (0.3, 30), lambda scale: _response(1 / scale)),
    ("composition", "epsilon0", (0.05, 5), _response),
)


def _exact(divergence: Divergence, delta: float) -> float:
    """Return the smallest epsilon at delta, which is negative where delta exceeds the divergence at
    0.
    """
    return float(
        brentq(
            lambda x: divergence(x) - delta, math.log1p(-delta) - 1e-9, 60.0, xtol=1e-14, rtol=1e-14
        )
    )


def _question(
    rng: Generator,
) -> tuple[str, dict[str, str], dict[str, tuple[float, float]], Callable[..., float]]:
    """Return a random mechanism, its parameters, their ranges, and its exact epsilon."""
    mechanism, name, (low, high), law = _LAWS[int(rng.integers(len(_LAWS)))]
    ranges = {
        name: (low * float(rng.uniform(1, 2)), high / float(rng.uniform(1, 2))),
        "delta": (float(rng.uniform(0.01, 0.1)), 0.9),
    }
    return (
        mechanism,
        {name: name, "delta": "delta"},
        ranges,
        lambda **at: _exact(law(at[name]), at["delta"]),
    )


def _audited(
    rng: Generator, accountant: Callable[..., float], mechanism: str, names: Any, ranges: Any
) -> Any:
    return audit_accountant(
        accountant,
        mechanism,
        "epsilon",
        names,
        ranges=ranges,
        evaluations=60,
        seconds=60,
        seed=seed_of(rng),
    )


def right_epsilon(rng: Generator) -> str:
    """Run an attack with a right accountant: the true epsilon, 0 instead of a negative one, or more
    than the true epsilon.
    """
    mechanism, names, ranges, exact = _question(rng)
    excess = float(10 ** rng.uniform(-6, 0))
    kind, accountant = (
        ("true", exact),
        ("clipped", lambda **at: max(exact(**at), 0.0)),
        ("larger", lambda **at: exact(**at) + excess),
        ("infinite where negative", lambda **at: exact(**at) if exact(**at) > 0 else math.inf),
    )[int(rng.integers(4))]
    found = _audited(rng, accountant, mechanism, names, ranges)
    explained = any(
        note.startswith("negative figures that are not too low") for note in found.notes
    )
    if kind == "true" and found.verdict is Verdict.NOT_REFUTED and not explained:
        return f"{mechanism}: negative epsilons are not explained: {found.notes}"
    return failure_unless_verdict(
        found, {Verdict.NOT_REFUTED}, f"{kind} epsilon of {mechanism}: {found.headline()}"
    )


def wrong_epsilon(rng: Generator) -> str:
    """Run an attack with an accountant whose epsilon is too low by a constant, by its sign, or only
    where it is negative.
    """
    mechanism, names, ranges, exact = _question(rng)
    deficit, constant, factor = (
        float(10 ** rng.uniform(-7, 0)),
        -float(rng.uniform(0.01, 5)),
        float(rng.uniform(1.01, 3)),
    )
    kind, accountant = (
        ("too low by a constant", lambda **at: exact(**at) - deficit),
        ("constant and negative", lambda **_: constant),
        ("of the wrong sign", lambda **at: -abs(exact(**at))),
        ("too low where it is negative", lambda **at: min(exact(**at), factor * exact(**at))),
        ("of the best mechanism", lambda **at: math.log1p(-at["delta"])),
    )[int(rng.integers(5))]
    found = _audited(rng, accountant, mechanism, names, ranges)
    missed = failure_unless_verdict(
        found, {Verdict.VIOLATED}, f"epsilon of {mechanism} {kind}: {found.headline()}"
    )
    truth = exact(**found.at) if not missed else 0.0
    stated = found.exact if truth > 0 or found.figure < 0 else truth
    return missed or (
        ""
        if abs(stated - truth) < 1e-6
        else f"{mechanism}: states {found.exact:.9g} for {truth:.9g}, {found.headline()}"
    )


def wrong_sign(rng: Generator) -> str:
    """Run an attack with a figure other than epsilon that is negative beyond rounding, also where
    the exact figure is tiny.
    """
    returns, names = (
        ("delta", {"sigma": "sigma", "epsilon": "epsilon"}),
        ("rdp", {"sigma": "sigma", "order": "order"}),
        ("zcdp", {"sigma": "sigma"}),
        ("mu", {"sigma": "sigma"}),
        ("noise", {"epsilon": "epsilon", "delta": "delta"}),
    )[int(rng.integers(5))]
    figure, epsilon = -float(10 ** rng.uniform(-10, 3)), float(rng.uniform(1, 30))
    ranges = {"epsilon": (epsilon, epsilon)} if "epsilon" in names else {}
    found = audit_accountant(
        lambda **_: figure,
        "gaussian",
        returns,
        names,
        ranges=ranges,
        evaluations=20,
        seconds=60,
        seed=seed_of(rng),
    )
    return failure_unless_verdict(
        found, {Verdict.VIOLATED}, f"{returns} = {figure:.3g}: {found.headline()}"
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
    Attack("step with wrong clipping supported on the named pairs", wrong_clipping, runs=24),
    Attack(
        "step with the right clipping accused on the named pairs",
        right_clipping,
        # certify's probability of an ERROR for a right sampler, at its default confidence
        2 * 1e-3,
        runs=5,
    ),
    Attack("right epsilon below 0 accused or not explained", right_epsilon, runs=60),
    Attack("wrong epsilon below 0 not found", wrong_epsilon, runs=60),
    Attack("figure with the wrong sign not found", wrong_sign, runs=60),
)
