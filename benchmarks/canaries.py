"""Benchmark of canary audits: the published case, isolated Gaussian canaries, false alarms, and a
million canaries.

Bounds are corrected for all choices.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from dpwitness.auditors.canaries.audit import audit_canaries
from dpwitness.auditors.canaries.design import canary_limit
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.table import Row, Table, root_seed, seed_note
from dpwitness.core.claims import GDP, ApproxDP, Claim, PureDP

SEEDS = 20
AUDITS = 2000
METHODS = {"best": "(epsilon, delta)", "curve": "Gaussian curve"}
# number of canaries -> epsilon -> required bounds by the two theorems in `METHODS`
IDEAL: Mapping[int, Mapping[float, tuple[float, float]]] = {
    1000: {1.0: (0.22, 0.32), 2.0: (0.64, 0.93), 4.0: (1.5, 2.2), 8.0: (2.8, 4.4)},
    5000: {1.0: (0.38, 0.51), 2.0: (0.90, 1.2), 4.0: (1.9, 2.5), 8.0: (3.4, 5.0)},
}
# jax-privacy's own test: 10,000 scores per side, unit shift, delta = 1e-6, 95 %: one-sided,
# Bonferroni over all thresholds
PUBLISHED = {"best": 1.133, "curve": 2.165}
REQUIRED_EPSILON = {"best": 2.5, "curve": 3.4}
Scores = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def measure(seed: int | None = None) -> Table:
    """Run the benchmark of canary audits and return its table of required and median certified
    epsilon.
    """
    rows, details, seed = [], [], root_seed(seed)
    for method, label in METHODS.items():
        certified = np.median(
            [
                _epsilon(normal_scores(seed, 20_000, 1.0), "approx:4,1e-6", method)
                for seed in range(seed, seed + SEEDS)
            ]
        )
        rows.append(
            Row(
                f"10,000 a side, unit shift: {label}",
                REQUIRED_EPSILON[method],
                float(certified),
                "epsilon",
            )
        )
        rows.append(
            Row(
                f"10,000 a side, unit shift: {label}, against published",
                PUBLISHED[method],
                float(certified),
                "epsilon",
            )
        )
    for size, cases in IDEAL.items():
        for epsilon, required_bounds in cases.items():
            mu, claim = GDP.with_epsilon(epsilon, 1e-5).mu, ApproxDP(epsilon, 1e-5)
            for (method, label), required in zip(METHODS.items(), required_bounds, strict=True):
                certified = np.median(
                    [
                        _epsilon(normal_scores(seed, size, mu), claim, method)
                        for seed in range(seed, seed + 200)
                    ]
                )
                rows.append(
                    Row(
                        f"{size:,} ideal canaries, epsilon = {epsilon:g}: {label}",
                        required,
                        float(certified),
                        "epsilon",
                    )
                )
                most = canary_limit(claim, size, method=method)
                details.append(
                    {
                        "canaries": size,
                        "epsilon": epsilon,
                        "theorem": label,
                        "found": float(certified),
                        "most": most.epsilon,
                        "guesses": most.guesses,
                    }
                )
    rows += [_false_alarm_rate(name, draw, claim, seed) for name, (draw, claim) in LAWS.items()]
    rows += [_time_of_a_million(claim) for claim in ("approx:4,1e-6", "gdp:0.5")]
    comparison_rows, comparison_notes = _compare_with_jax_privacy()
    notes = [
        f"{at['canaries']:,} canaries, epsilon = {at['epsilon']:g}, {at['theorem']}: ceiling "
        f"{at['most']:.3f}"
        for at in details
    ]
    return Table(
        "canaries",
        (*rows, *comparison_rows),
        (seed_note("canaries", seed), *comparison_notes, *notes),
        tuple(details),
    )


def normal_scores(seed: int, size: int, shift: float) -> Scores:
    """Return normal scores of included and of excluded canaries, where a fair coin includes a
    canary and shifts its score.
    """
    rng = np.random.default_rng(seed)
    coins = rng.random(size) < 0.5
    scores = rng.normal(size=size) + shift * coins
    return scores[coins], scores[~coins]


def _epsilon(sides: Scores, claim: Claim | str, method: str) -> float:
    """Return the certified epsilon of an audit."""
    return audit_canaries(*sides, claim, method=method).epsilon_lower


def _leaky_response(rng: np.random.Generator, coins: np.ndarray) -> np.ndarray:
    """Return randomized response at epsilon = 1 that reveals the coin with probability 1/100."""
    label = np.where(rng.random(coins.size) < expit(1.0), coins, ~coins)
    return np.where(
        rng.random(coins.size) < 0.01, np.where(coins, 3.0, -3.0), np.where(label, 1.0, -1.0)
    )


LAWS: dict[str, tuple[Draw, Claim]] = {
    "normal scores at GDP(1)": (lambda rng, coins: rng.normal(size=coins.size) + coins, GDP(1.0)),
    "response with a leak at (1, 0.01)": (_leaky_response, ApproxDP(1.0, 0.01)),
    "Laplace scores at epsilon = 1": (
        lambda rng, coins: rng.laplace(size=coins.size) + coins,
        PureDP(1.0),
    ),
}


def _false_alarm_rate(name: str, draw: Draw, claim: Claim, first: int) -> Row:
    """Return the rate of VIOLATED at 95 % for a claim that holds with equality: at most the nominal
    rate plus three standard errors.
    """
    alarms = 0
    for seed in range(first, first + AUDITS):
        rng = np.random.default_rng([seed, 7])
        coins = rng.random(200 + 200 * (seed % 5)) < 0.5
        scores = draw(rng, coins)
        alarms += (
            audit_canaries(scores[coins], scores[~coins], claim, seed=seed).verdict
            is Verdict.VIOLATED
        )
    most = 0.05 + 3 * (0.05 * 0.95 / AUDITS) ** 0.5
    return Row(
        f"false alarms, {name}",
        most,
        alarms / AUDITS,
        "rate",
        at_most=True,
        counts=(alarms, AUDITS),
    )


def _time_of_a_million(claim: str) -> Row:
    """Return the time of an audit of a million canaries."""
    sides = normal_scores(0, 10**6, 1.0)
    start_time = time.perf_counter()
    audit_canaries(*sides, claim)
    return Row(f"10^6 canaries, {claim}", 5.0, time.perf_counter() - start_time, "s", at_most=True)


def _compare_with_jax_privacy() -> tuple[list[Row], list[str]]:
    """Compare with jax-privacy's auditor on the same scores, in one run.

    The case is that of jax-privacy's own test, whose scores are quantiles of normal laws.
    """
    try:
        from jax_privacy import auditing
    except Exception as error:
        return [], [
            f"jax-privacy could not be imported here ({type(error).__name__}): the "
            "comparison uses the published figures of its tests"
        ]
    grid = (np.arange(10_000) + 0.5) / 10_000
    sides = norm.ppf(grid) + 1.0, norm.ppf(grid)
    rows = []
    for method, method_name in (("best", "epsilon_one_run"), ("curve", "epsilon_one_run_fdp")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            auditor: Any = auditing.CanaryScoreAuditor(*sides)
            bonferroni_epsilon = float(getattr(auditor, method_name)(0.05, 1e-6))
            split_epsilon = float(
                getattr(auditor, method_name)(0.05, 1e-6, threshold_strategy=auditing.Split(seed=0))
            )
        own_epsilon = float(
            np.median(
                [
                    audit_canaries(*sides, "approx:4,1e-6", method=method, seed=seed).epsilon_lower
                    for seed in range(SEEDS)
                ]
            )
        )
        rows.append(
            Row(
                f"quantiles, {METHODS[method]}, against jax-privacy (Bonferroni)",
                bonferroni_epsilon,
                own_epsilon,
                "epsilon",
            )
        )
        rows.append(
            Row(
                f"quantiles, {METHODS[method]}, against jax-privacy (split)",
                split_epsilon,
                own_epsilon,
                "epsilon",
            )
        )
    return rows, ["jax-privacy was run on the same scores, in this run"]
