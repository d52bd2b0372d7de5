"""Attacks on audits of accountants: right and wrong epsilons below 0, and other figures with the
wrong sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.random import Generator
from scipy.optimize import brentq
from scipy.stats import norm

from dpwitness import Verdict
from dpwitness.accounting import audit_accountant
from dpwitness.benchmarks.adversarial.attack import Attack, failure_unless_verdict, seed_of

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
    Attack("right epsilon below 0 accused or not explained", right_epsilon, runs=60),
    Attack("wrong epsilon below 0 not found", wrong_epsilon, runs=60),
    Attack("figure with the wrong sign not found", wrong_sign, runs=60),
)
