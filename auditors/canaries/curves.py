"""Trade-off curves as lines, g(q) = min_j (e^epsilon_j q + delta_j): what canaries are held against."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from dpwitness.mechanisms.terms.notions import DPSGD, GDP, Claim, Curve, TradeoffCurve
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_positive

Lines = tuple[FloatArray, FloatArray]  # epsilons, which fall, and deltas

_TANGENTS = 600
_FARTHEST = 8.0  # standard deviations of the loss that tangents reach to


class Training(DPSGD):
    """DP-SGD among trainings of other noise: what canaries certify is how much noise there can have been at most."""

    symbol: ClassVar[str] = "signal"

    @property
    def signal(self) -> float:
        """One over the noise multiplier, which grows with the leak."""
        return 1 / self.noise_multiplier

    def with_parameter(self, value: float) -> Training:
        return Training(self.sampling_probability, 1 / value, self.steps)


def held(claim: Claim, owner: str) -> Claim:
    """The claim as canaries are held against it: between nearest neighbours. Raises InvalidArgument for a curve that is not concave."""
    claim = claim.on(None)
    if isinstance(claim, TradeoffCurve) and claim.above:
        told = f"{claim.above} of its points lie above the concave hull of all; give the hull"
        raise InvalidArgument(f"{owner}: claim must be a concave curve, got {claim}: {told}")
    return Training(claim.sampling_probability, claim.noise_multiplier, claim.steps) if type(claim) is DPSGD else claim


def harmless(claim: Claim) -> float:
    """The largest parameter below which the claim's curve allows less than guessing: 0 but for curves through points."""
    if not isinstance(claim, Curve) or isinstance(claim, Training):
        return 0.0
    q = np.linspace(0.0, 1.0, 513)
    low, high = 0.0, claim.parameter
    for _ in range(40):
        middle = 0.5 * (low + high)
        allows = (claim.with_parameter(middle).tradeoff(q) >= q - 1e-12).all()
        low, high = (low, middle) if allows else (middle, high)
    return high


def lines_of(claim: Claim) -> Lines:
    """The curve of GDP by tangents; of a `Curve` its own lines, times its factor, and their mirror images."""
    if isinstance(claim, Curve):
        epsilons, deltas = claim.lines()
        up = epsilons + math.log(claim.factor)
        return np.concatenate([up, -up[::-1]]), np.concatenate([deltas, 1 - (1 - deltas[::-1]) * np.exp(-up[::-1])])
    far = claim.parameter**2 / 2 + _FARTHEST * claim.parameter
    epsilons = np.linspace(far, -far, _TANGENTS)
    return epsilons, np.asarray(claim.delta(epsilons), dtype=float)


def epsilon_at(claim: Claim, delta: float) -> float:
    """The epsilon that the claim implies at delta."""
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


def epsilon_told(claim: Claim, lower: float, delta: float) -> float:
    """The same of a certified parameter; 0 where nothing is certified, or the curve has no epsilon at delta whatever its parameter."""
    found = epsilon_at(claim.with_parameter(lower), delta) if lower > 0 else 0.0
    return found if math.isfinite(found) else 0.0


def gaussian_with(epsilon: float, delta: float) -> GDP:
    """The Gaussian curve of that epsilon at delta.

    Examples
    --------
    >>> round(gaussian_with(4.0, 1e-5).mu, 4)
    0.9249
    """
    require_positive("delta", delta, "gaussian_with")

    def surplus(mu: float) -> float:
        return float(GDP(mu).delta(epsilon)) - delta

    high = 1.0
    while surplus(high) < 0:
        high *= 2
    return GDP(float(brentq(surplus, 1e-6, high, xtol=1e-10)))
