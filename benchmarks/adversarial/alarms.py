"""Attacks by mechanisms exactly at their claim: VIOLATED must be as rare as the audit states."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.stats import norm

from dpwitness import Pair, audit, audit_canaries
from dpwitness import mechanisms as m
from dpwitness.benchmarks.adversarial.attack import (
    PAIR,
    RATE_RUNS,
    Attack,
    Outcome,
    false_alarm,
    response,
    seed_of,
)
from dpwitness.core.claims import Claim, TradeoffCurve
from dpwitness.mechanisms import GDP, RDP, ZCDP, ApproxDP, PureDP

_ORDERS = 1 + np.geomspace(1e-6, 200, 4000)


def _renyi_divergence(share: float, order: Any) -> Any:
    """Return the Renyi divergence of randomized response that is correct with
    probability `share`.
    """
    wrong = 1 - share
    return np.log(share**order * wrong ** (1 - order) + wrong**order * share ** (1 - order)) / (
        order - 1
    )


def exact_claim(notion: str, rng: Generator) -> tuple[float, float, Claim]:
    """Return epsilon and the leak probability of a randomized response, and its tight claim in the
    given notion.
    """
    epsilon = float(rng.uniform(0.3, 2.0))
    share = 1 / (1 + math.exp(-epsilon))
    if notion == "approx":
        leak = float(10 ** rng.uniform(-3, -1))
        return epsilon, leak, ApproxDP(epsilon, leak)
    if notion == "rdp":
        order = float(rng.uniform(1.2, 8.0))
        return epsilon, 0.0, RDP(order, float(_renyi_divergence(share, order)))
    claims: dict[str, Claim] = {
        "pure": PureDP(epsilon),
        "gdp": GDP(2 * float(norm.ppf(share))),
        "zcdp": ZCDP(float(np.max(_renyi_divergence(share, _ORDERS) / _ORDERS))),
        "curve": TradeoffCurve([0.0, 1 - share, 1.0], [1.0, 1 - share, 0.0]),
    }
    return epsilon, 0.0, claims[notion]


def _leaky_response(epsilon: float, leak: float) -> Any:
    """Return randomized response that outputs the true bit, with a distinct mark, with probability
    `leak`.
    """

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        noisy_bit = response(epsilon)(dataset, size, rng)
        return np.where(rng.random(size) < leak, 2 + int(dataset[0]), noisy_bit)

    return run


NOTIONS = ("pure", "approx", "zcdp", "rdp", "gdp", "curve")


def at_claim(notion: str, alpha: float, rng: Generator) -> str:
    """Run an attack with a small audit of randomized response exactly at its claim."""
    epsilon, leak, claim = exact_claim(notion or str(rng.choice(NOTIONS)), rng)
    trials, stop = int(rng.integers(1000, 4001)), str(rng.choice(["gross", "violation", "never"]))
    result = audit(
        _leaky_response(epsilon, leak),
        claim=claim,
        pair=PAIR,
        trials=trials,
        confidence=1 - alpha,
        seed=seed_of(rng),
        stop=stop,
    )
    return false_alarm(
        result,
        f"{claim} of response {epsilon:.3f} with leak {leak:.3g}, {trials} runs, stop {stop}",
    )


def noise_at_claim(alpha: float, rng: Generator) -> str:
    """Run an attack with Laplace or Gaussian noise on a grid, exactly at the claim."""
    parameter, trials = float(rng.uniform(0.3, 2.0)), int(rng.integers(1000, 2001))
    laplace = bool(rng.random() < 0.5)
    mechanism: Any = (
        m.Laplace(parameter, arithmetic="grid") if laplace else m.Gaussian(parameter, 0.01)
    )
    result = audit(
        mechanism, pair=PAIR, trials=trials, confidence=1 - alpha, seed=seed_of(rng), bits=False
    )
    return false_alarm(result, f"{mechanism}, {trials} runs")


def many_pairs(alpha: float, rng: Generator) -> str:
    """Run an attack with many pairs, all exactly at the claim, and all interim analyses."""
    epsilon, count = float(rng.uniform(0.5, 2.0)), int(rng.integers(20, 41))
    records = rng.integers(0, 1000, (count, 2)) * 2 + (0, 1)
    pairs = [Pair(np.array([float(zero)]), np.array([float(one)])) for zero, one in records]
    trials = int(rng.integers(2000, 4001))
    settings: dict[str, Any] = {
        "trials": trials,
        "confidence": 1 - alpha,
        "seed": seed_of(rng),
        "stop": "violation",
        "bits": False,
    }
    result = audit(response(epsilon), claim=PureDP(epsilon), pair=pairs, **settings)
    return false_alarm(result, f"response {epsilon:.3f} on {count} pairs, {trials} runs")


def searched_pairs(alpha: float, rng: Generator) -> str:
    """Run an attack with the pairs of a domain, exactly at the claim where the pairs differ in the
    first record.
    """
    epsilon, high = float(rng.uniform(0.5, 2.0)), int(rng.integers(1, 12))
    domain = m.Records(
        int(rng.integers(1, 6)),
        low=0,
        high=high,
        integer=True,
        relation=str(rng.choice(["replace-one", "add-remove"])),
    )

    def first(dataset: Any, size: int, draws: Generator) -> Any:
        return response(epsilon)(dataset if len(dataset) else np.zeros(1), size, draws)

    settings: dict[str, Any] = {
        "trials": int(rng.integers(2000, 4001)),
        "confidence": 1 - alpha,
        "seed": seed_of(rng),
    }
    result = audit(first, claim=PureDP(epsilon), domain=domain, stop="violation", **settings)
    return false_alarm(result, f"response {epsilon:.3f} on {domain}")


def honest_canaries(rng: Generator) -> Outcome:
    """Run an attack with canary scores of independent runs of randomized response or Gaussian
    noise, exactly at the claim.
    """
    alpha, gaussian, runs = (
        float(rng.choice([0.05, 0.2])),
        bool(rng.random() < 0.5),
        int(rng.integers(1, 6)),
    )
    parameter, canaries = float(rng.uniform(0.5, 2.0)), int(rng.integers(100, 400))
    inside, outside = [], []
    for _ in range(runs):
        coins = rng.random(canaries) < 0.5
        if gaussian:
            scores = rng.normal(size=canaries) + parameter * coins
        else:
            right = rng.random(canaries) < 1 / (1 + math.exp(-parameter))
            scores = np.where(right == coins, 1.0, -1.0) + rng.normal(0.0, 1e-3, canaries)
        inside.append(scores[coins])
        outside.append(scores[~coins])
    claim: Claim = GDP(parameter) if gaussian else PureDP(parameter)
    result = audit_canaries(inside, outside, claim, confidence=1 - alpha, seed=seed_of(rng))
    return Outcome(false_alarm(result, f"{claim}, {runs} runs of {canaries} canaries"), alpha)


def copied_canaries(rng: Generator) -> Outcome:
    """Run an attack with copies of one training run exactly at the claim, submitted as several
    runs.

    The copies must be refused, or reported as VIOLATED no more often than stated.
    """
    from dpwitness import InvalidArgument

    alpha, parameter, canaries = 0.05, float(rng.uniform(0.5, 2.0)), int(rng.integers(100, 400))
    coins = rng.random(canaries) < 0.5
    scores = rng.normal(size=canaries) + parameter * coins
    inside, outside = [], []
    disguise = str(rng.choice(["none", "order", "scale", "jitter", "float32"]))
    for _ in range(int(rng.integers(2, 21))):
        copy = scores.copy()
        if disguise == "scale":
            copy = copy * rng.uniform(0.5, 2.0) + rng.normal()
        elif disguise == "jitter":
            copy = copy + rng.normal(0.0, 1e-9, canaries)
        elif disguise == "float32":
            copy = copy.astype(np.float32).astype(float)
        order = rng.permutation(canaries) if disguise == "order" else np.arange(canaries)
        inside.append(copy[order][coins[order]])
        outside.append(copy[order][~coins[order]])
    try:
        result = audit_canaries(
            inside, outside, GDP(parameter), confidence=1 - alpha, seed=seed_of(rng)
        )
    except InvalidArgument:
        return Outcome("", alpha)
    return Outcome(
        false_alarm(result, f"{len(inside)} copies of one run, disguised by {disguise}"), alpha
    )


ATTACKS = (
    *(
        Attack(
            f"false alarms at the claim: {notion}", partial(at_claim, notion, 0.2), 0.2, RATE_RUNS
        )
        for notion in NOTIONS
    ),
    Attack(
        "false alarms at the claim: any notion, alpha .05",
        partial(at_claim, "", 0.05),
        0.05,
        RATE_RUNS,
    ),
    Attack(
        "false alarms at the claim: Laplace and Gaussian noise",
        partial(noise_at_claim, 0.2),
        0.2,
        RATE_RUNS,
    ),
    Attack(
        "false alarms over many pairs with early looks, alpha .2",
        partial(many_pairs, 0.2),
        0.2,
        RATE_RUNS,
    ),
    Attack(
        "false alarms over many pairs with early looks, alpha .05",
        partial(many_pairs, 0.05),
        0.05,
        RATE_RUNS,
    ),
    Attack(
        "false alarms over the pairs of a domain, alpha .2",
        partial(searched_pairs, 0.2),
        0.2,
        RATE_RUNS,
    ),
    Attack("false alarms of canaries: independent runs", honest_canaries, 0.2, RATE_RUNS),
    Attack("canaries: copies of one run pooled", copied_canaries),
)
