"""Trade-off curves as minima of lines, g(q) = min_j (e^epsilon_j q + delta_j), for tests of claims with canaries."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from dpwitness.auditors.statistics.betting import bracket
from dpwitness.mechanisms.core.validation import InvalidArgument, require_positive
from dpwitness.mechanisms.privacy import DPSGD, GDP, Claim, Curve, TradeoffCurve
from dpwitness.mechanisms.protocols.mechanism import FloatArray

Lines = tuple[FloatArray, FloatArray]  # decreasing epsilons, and deltas

_TANGENTS = 600
_TANGENT_RANGE = 8.0  # range of the tangents, in standard deviations of the privacy loss


class Training(DPSGD):
    """DP-SGD training within the family of trainings with other noise multipliers.

    Canaries certify an upper bound on the noise of the training.
    """

    symbol: ClassVar[str] = "signal"

    @property
    def signal(self) -> float:
        """Return 1 / noise multiplier, which grows with the leak."""
        return 1 / self.noise_multiplier

    def with_parameter(self, value: float) -> Training:
        return Training(self.sampling_probability, 1 / value, self.steps)


def held(claim: Claim, owner: str) -> Claim:
    """Return the claim in the form that canaries test: a claim about nearest neighbors.

    Raises InvalidArgument for a curve that is not concave.
    """
    claim = claim.on(None)
    if isinstance(claim, TradeoffCurve) and claim.above:
        reason = f"{claim.above} of its points lie above the concave hull of all; give the hull"
        raise InvalidArgument(f"{owner}: claim must be a concave curve, got {claim}: {reason}")
    return Training(claim.sampling_probability, claim.noise_multiplier, claim.steps) if type(claim) is DPSGD else claim


def trivial_parameter(claim: Claim) -> float:
    """Return the largest parameter at which the claim's curve allows less than random guessing; 0 except for curves through points."""
    if not isinstance(claim, Curve) or isinstance(claim, Training):
        return 0.0
    q = np.linspace(0.0, 1.0, 513)
    return bracket(lambda value: not (claim.with_parameter(value).tradeoff(q) >= q - 1e-12).all(), 0.0, claim.parameter, 40)[1]


def curve_lines(claim: Claim) -> Lines:
    """Return the lines of the claim's curve.

    A GDP curve is described by tangents. A `Curve` has its own lines, times its factor, and their mirror images.
    """
    if isinstance(claim, Curve):
        epsilons, deltas = claim.lines()
        log_slopes = epsilons + math.log(claim.factor)
        return np.concatenate([log_slopes, -log_slopes[::-1]]), np.concatenate([deltas, 1 - (1 - deltas[::-1]) * np.exp(-log_slopes[::-1])])
    largest = claim.parameter**2 / 2 + _TANGENT_RANGE * claim.parameter
    epsilons = np.linspace(largest, -largest, _TANGENTS)
    return epsilons, np.asarray(claim.delta(epsilons), dtype=float)


def epsilon_at(claim: Claim, delta: float) -> float:
    """Return the epsilon that the claim implies at delta."""
    if claim.bounds_epsilon:
        return claim.parameter
    if float(np.max(claim.delta(np.zeros(1)))) <= delta:
        return 0.0
    high = 1.0
    while float(np.max(claim.delta(np.array([high])))) > delta:
        high *= 2
        if high > 1e4:
            return math.inf
    return float(brentq(lambda e: float(np.max(claim.delta(np.array([e])))) - delta, 0.0, high, xtol=1e-9))


def certified_epsilon(claim: Claim, lower: float, delta: float) -> float:
    """Return the epsilon at delta of a certified parameter.

    Returns 0 if no parameter is certified, or if the curve has no finite epsilon at delta.
    """
    found = epsilon_at(claim.with_parameter(lower), delta) if lower > 0 else 0.0
    return found if math.isfinite(found) else 0.0


def gaussian_with(epsilon: float, delta: float) -> GDP:
    """Return the Gaussian curve with the given epsilon at delta."""
    require_positive("delta", delta, "gaussian_with")

    def surplus(mu: float) -> float:
        return float(GDP(mu).delta(epsilon)) - delta

    high = 1.0
    while surplus(high) < 0:
        high *= 2
    return GDP(float(brentq(surplus, 1e-6, high, xtol=1e-10)))
