"""Confidence limits compared with known truths: counts of limits on the wrong side, as (stated
error, lower, upper).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.stats import norm

from dpwitness import audit, audit_sensitivity, audit_utility, certify
from dpwitness import mechanisms as m
from dpwitness.auditors import FailureBound, MeanBound, Scaling
from dpwitness.auditors.statistics.certificate import certified
from dpwitness.benchmarks.specimens import PAIR, gaussian, gaussian_shift, laplace
from dpwitness.core.claims import GDP, ApproxDP, Claim, PureDP
from dpwitness.results import limit

Ends = tuple[float, int, int | None]

GRID = (1.0, 4.0, 16.0, 64.0)


class _GaussianShift:
    """Gaussian noise on a shift of 1, with its density."""

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def sample(self, data: Any, size: int, rng: Generator) -> Any:
        return gaussian(self.mu)(data, size, rng)

    def log_density(self, outputs: Any, data: Any) -> Any:
        y = np.asarray(outputs, dtype=float).reshape(len(outputs), -1)[:, 0]
        return norm.logpdf(y, data[0], 1 / self.mu)


def _certify_bounds(epsilon: float, delta: float, seeds: range) -> Ends:
    """Count wrong bounds of `certify` by sampling."""
    shift, low, high = _GaussianShift(gaussian_shift(epsilon, delta)), 0, 0
    for seed in seeds:
        result = certify(
            shift,
            PAIR,
            ApproxDP(epsilon, delta),
            trials=10_000,
            confidence=0.8,
            seed=seed,
            route="sampling",
        )
        low, high = low + (result.epsilon_lower > epsilon), high + (result.epsilon_upper < epsilon)
    return 0.1, low, high


def _audit_bounds(claim: Claim, run: Any, truth: float, seeds: range) -> Ends:
    """Count wrong lower bounds of `audit`."""
    bounds = (
        audit(
            run, claim=claim, pair=PAIR, trials=4_000, confidence=0.8, seed=s, bits=False
        ).parameter_lower
        for s in seeds
    )
    return 0.2, sum(bound > truth for bound in bounds), None


def _utility_bounds(
    draw: Callable[[int, Generator], Any], claim: Any, truth: float, seeds: range
) -> Ends:
    """Count wrong bounds of `audit_utility`."""
    result = [audit_utility(draw, claim, runs=500, confidence=0.9, seed=seed) for seed in seeds]
    upper = (
        None if all(math.isinf(f.upper) for f in result) else sum(f.upper < truth for f in result)
    )
    return 0.1, sum(f.lower > truth for f in result), upper


def _slope_bounds(
    draw: Callable[[int, Generator], Any], claim: Scaling, truth: float, seeds: range
) -> Ends:
    """Count wrong bounds of the slopes of `audit_utility`."""
    result = [
        audit_utility(lambda v, n, rng: v**truth * draw(n, rng), claim, confidence=0.9, seed=seed)
        for seed in seeds
    ]
    return 0.1, sum(f.lower > truth for f in result), sum(f.upper < truth for f in result)


def _sensitivity_bounds(seeds: range) -> Ends:
    """Count wrong bounds for the mean of n records in [0, 1], whose sensitivity is exactly 1/n.

    Half of the claimed bounds are too small. Only n and the claimed bound are random.
    """
    rng, wrong = np.random.default_rng(seeds.start), 0
    for seed in seeds[::10]:
        size, scale = int(rng.integers(1, 9)), float(rng.uniform(0.5, 2.0))
        result = audit_sensitivity(
            np.mean, scale / size, m.Records(size), evaluations=60, seed=seed
        )
        wrong += result.ratio_lower > (1 / scale) * (1 + 1e-9)
    return 0.0, wrong, None


def _best_event_bounds(
    claim: Claim, mechanism: Any, right: float, wrong: float, seeds: range
) -> Ends:
    """Audit with the best event and count bounds above and below the limit. Half are expected on
    each side.
    """
    rounds = 50_000
    bound = limit(mechanism, mechanism.worst_pair(), claim, rounds, 0.95)
    assert bound is not None
    rng = np.random.default_rng(seeds.start)
    guesses = rng.binomial(rounds, right + wrong, len(seeds))
    correct = rng.binomial(guesses, right / (right + wrong))
    bounds_reached = certified(claim, correct, guesses - correct, rounds, 0.05)
    return 0.5, int(np.sum(bounds_reached > bound)), int(np.sum(bounds_reached < bound))


_E = math.exp(-1.0)

ENDS: dict[str, Callable[[range], Ends]] = {
    "certify by sampling, epsilon 1, delta 1e-2": partial(_certify_bounds, 1.0, 1e-2),
    "certify by sampling, epsilon .3, delta 1e-4": partial(_certify_bounds, 0.3, 1e-4),
    "audit, Laplace": partial(_audit_bounds, PureDP(1.0), laplace(0.7), 0.7),
    "audit, Gaussian, mu": partial(_audit_bounds, GDP(1.0), gaussian(1.3), 1.3),
    "audit, Gaussian, epsilon at delta .01": partial(
        _audit_bounds, ApproxDP(1.0, 0.01), gaussian(gaussian_shift(1.4, 0.01)), 1.4
    ),
    "sensitivity of a mean": _sensitivity_bounds,
    "failure frequency .03": partial(
        _utility_bounds,
        lambda n, rng: (rng.random(n) < 0.03).astype(float),
        FailureBound(0.5, 0.1),
        0.03,
    ),
    "mean, exponential, errors at least 0": partial(
        _utility_bounds, lambda n, rng: rng.exponential(size=n), MeanBound(2.0), 1.0
    ),
    "mean, one but rarely 0": partial(
        _utility_bounds,
        lambda n, rng: 1.0 * (rng.random(n) > 1e-3),
        MeanBound(2.0, high=1.0),
        0.999,
    ),
    "mean, 0 but rarely 1": partial(
        _utility_bounds,
        lambda n, rng: 1.0 * (rng.random(n) < 2e-3),
        MeanBound(2.0, high=1.0),
        0.002,
    ),
    "mean, Pareto up to 1000": partial(
        _utility_bounds,
        lambda n, rng: np.minimum(rng.pareto(1.5, n), 1e3),
        MeanBound(9.0, high=1e3),
        float(2 * (1 - 1001**-0.5)),
    ),
    "mean, deviation stated": partial(
        _utility_bounds, lambda n, rng: rng.standard_normal(n), MeanBound(1.0, deviation=1.0), 0.0
    ),
    "slope of medians, lognormal": partial(
        _slope_bounds, lambda n, rng: np.exp(2 * rng.standard_normal(n)), Scaling(1.0, GRID), 0.5
    ),
    "slope of means, spread stated": partial(
        _slope_bounds,
        lambda n, rng: rng.exponential(size=n),
        Scaling(1.0, GRID, statistic="mean", spread=1.0),
        -0.5,
    ),
    "limit, best event of Laplace": partial(
        _best_event_bounds, PureDP(1.0), m.Laplace(1.0), 0.5, 0.5 * _E
    ),
    "limit, best event of randomized response": partial(
        _best_event_bounds, PureDP(1.0), m.RandomizedResponse(1.0), 1 / (1 + _E), _E / (1 + _E)
    ),
}
