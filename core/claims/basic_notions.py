"""Plain privacy notions: pure DP, (epsilon, delta)-DP and Gaussian DP.

Kairouz, Oh and Viswanath (2015) for (epsilon, delta); Dong, Roth and Su (2022) for GDP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.core.claims.claim import Claim, Divergences, FloatArray, Span
from dpwitness.core.values.validation import (
    InvalidArgument,
    require,
    require_positive,
    require_probability,
    short_repr,
)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Claim):
    """(epsilon, delta)-DP: P(S) <= e^epsilon Q(S) + delta for every event S (Dwork et al. 2006,
    "Our data, ourselves").

    Parameters
    ----------
    epsilon : float
        Positive, finite.
    delta : float
        In [0, 1). Stored as `delta_budget`; the method `delta` is the privacy profile.

    Raises
    ------
    InvalidArgument
        If a number is out of range.

    Examples
    --------
    >>> float(ApproxDP(1.0, 1e-5).tradeoff(0.1).round(4))
    0.2718
    >>> str(ApproxDP(1.0, 1e-5))
    'approx:1,1e-05'
    """

    epsilon: float
    delta_budget: float

    form: ClassVar[str] = "approx:EPSILON,DELTA"
    notion: ClassVar[str] = "approximate differential privacy"
    aliases: ClassVar[tuple[str, ...]] = ("delta",)
    symbol: ClassVar[str] = "epsilon"
    bounds_epsilon: ClassVar[bool] = True

    def __init__(self, epsilon: float, delta: float) -> None:
        owner = type(self).__name__
        object.__setattr__(self, "epsilon", require_positive("epsilon", epsilon, owner))
        object.__setattr__(
            self, "delta_budget", require_probability("delta", delta, owner, zero=True)
        )

    def with_parameter(self, value: float) -> ApproxDP:
        return ApproxDP(value, self.delta_budget)

    def tradeoff(self, fpr: ArrayLike) -> FloatArray:
        q = np.asarray(fpr, dtype=float)
        up = math.exp(min(self.epsilon, 700.0)) * q + self.delta_budget
        down = 1.0 - math.exp(-self.epsilon) * (1.0 - self.delta_budget - q)
        return np.minimum(1.0, np.minimum(up, down))

    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        q, p = np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float)

        def log_ratio(high: FloatArray, low: FloatArray) -> FloatArray:
            gain = high - self.delta_budget
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(gain > 0, np.log(np.maximum(gain, 0.0)) - np.log(low), -np.inf)

        return np.maximum(0.0, np.maximum(log_ratio(p, q), log_ratio(1.0 - q, 1.0 - p)))

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the exact delta: the budget from the claim's epsilon on, and the gain at the
        corner of the curve below it.
        """
        eps = np.asarray(epsilon, dtype=float)
        odds = (1.0 + np.exp(np.minimum(eps, 700.0))) / (1.0 + math.exp(min(self.epsilon, 700.0)))
        return np.where(
            eps >= self.epsilon, self.delta_budget, 1.0 - (1.0 - self.delta_budget) * odds
        )

    def enclosed(self, pair_order: Divergences) -> Span:
        # with a tolerance, since mechanisms calibrate their parameters in floats
        return pair_order.epsilon(self.delta_budget, edge=self.epsilon * (1 + 1e-9))

    def epsilon_at(self, delta: float) -> float:
        return self.epsilon

    def _grouped(self, size: int) -> ApproxDP:
        """Return the group claim, by composing q -> e^eps q + delta with itself k times: delta
        (e^(k eps) - 1)/(e^eps - 1).
        """
        delta = (
            self.delta_budget
            * math.expm1(min(size * self.epsilon, 700.0))
            / math.expm1(min(self.epsilon, 700.0))
        )
        if delta >= 1:
            raise InvalidArgument(
                f"group: {self} promises nothing to groups of {size}: delta would be {delta:.3g}"
            )
        return ApproxDP(size * self.epsilon, delta)

    def __repr__(self) -> str:
        return f"ApproxDP(epsilon={self.epsilon!r}, delta={self.delta_budget!r})"

    def __str__(self) -> str:
        return f"approx:{self.epsilon:g},{self.delta_budget:g}"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(ApproxDP):
    """epsilon-DP: P(S) <= e^epsilon Q(S) for every event S (Dwork, McSherry, Nissim and Smith
    2006).

    Parameters
    ----------
    epsilon : float
        Positive, finite.

    Raises
    ------
    InvalidArgument
        If epsilon is not positive and finite.

    Examples
    --------
    >>> float(PureDP(1.0).delta(0.5).round(3))
    0.288
    >>> PureDP(1.0) <= ApproxDP(1.0, 1e-6)
    True
    """

    form: ClassVar[str] = "pure:EPSILON"
    notion: ClassVar[str] = "pure differential privacy"
    aliases: ClassVar[tuple[str, ...]] = ("eps", "epsilon", "dp")

    def __init__(self, epsilon: float) -> None:
        ApproxDP.__init__(self, epsilon, 0.0)

    def with_parameter(self, value: float) -> PureDP:
        return PureDP(value)

    def of(self, numbers: Sequence[float]) -> PureDP:
        epsilon, delta = numbers
        if delta != 0:
            raise InvalidArgument(f"delta must be 0 in pure DP, got {short_repr(delta)}")
        return PureDP(epsilon)

    @property
    def spelled(self) -> str:
        return f"pure:{self.epsilon!r}"

    def _grouped(self, size: int) -> PureDP:
        return PureDP(size * self.epsilon)

    def __repr__(self) -> str:
        return f"PureDP(epsilon={self.epsilon!r})"

    def __str__(self) -> str:
        return f"pure:{self.epsilon:g}"


@dataclass(frozen=True, slots=True)
class GDP(Claim):
    """mu-Gaussian DP: no test distinguishes the two datasets better than N(0, 1) from N(mu, 1)
    (Dong, Roth and Su 2022).

    Parameters
    ----------
    mu : float
        Positive, finite.

    Raises
    ------
    InvalidArgument
        If mu is not positive and finite.
    """

    mu: float

    form: ClassVar[str] = "gdp:MU"
    notion: ClassVar[str] = "Gaussian differential privacy"
    aliases: ClassVar[tuple[str, ...]] = ("mu", "gaussian")
    symbol: ClassVar[str] = "mu"
    has_tangents: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(self).positive("mu")

    @classmethod
    def with_epsilon(cls, epsilon: float, delta: float) -> GDP:
        """Return the Gaussian curve with the given epsilon at delta.

        Examples
        --------
        >>> round(GDP.with_epsilon(4.0, 1e-5).mu, 4)
        0.9249
        """
        from scipy.optimize import brentq

        require_positive("delta", delta, "GDP.with_epsilon")

        def excess(mu: float) -> float:
            return float(GDP(mu).delta(epsilon)) - delta

        high = 1.0
        while excess(high) < 0:
            high *= 2
        return GDP(float(brentq(excess, 1e-6, high, xtol=1e-10)))

    @classmethod
    def implied_by(cls, claim: Claim, delta: float) -> GDP:
        """Return the Gaussian curve with the claim's epsilon at delta; a Gaussian claim itself.
        Raise InvalidArgument if the claim implies no finite epsilon at delta.
        """
        if isinstance(claim, GDP):
            return claim
        epsilon = claim.epsilon_at(delta)
        if math.isinf(epsilon):
            raise InvalidArgument(
                f"{claim} implies no epsilon at delta = {delta:g}: use a larger delta"
            )
        return cls.with_epsilon(epsilon, delta)

    @property
    def guess_mu(self) -> float:  # type: ignore[override]
        return self.mu

    def enclosed(self, pair_order: Divergences) -> Span | None:
        return pair_order.mu

    def gaussian_shift(self, parameter: float) -> float:
        return parameter

    def gaussian_parameter(self, squares: float) -> float:
        return math.sqrt(squares)

    def _grouped(self, size: int) -> GDP:
        return GDP(size * self.mu)

    def tradeoff(self, fpr: ArrayLike) -> FloatArray:
        from scipy.special import ndtr, ndtri

        return np.asarray(ndtr(ndtri(np.asarray(fpr, dtype=float)) + self.mu))

    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        from scipy.special import ndtri

        with np.errstate(invalid="ignore"):  # infinity minus infinity: the point proves nothing
            gap = ndtri(np.asarray(tpr, dtype=float)) - ndtri(np.asarray(fpr, dtype=float))
        return np.asarray(np.maximum(0.0, np.nan_to_num(gap, nan=0.0, posinf=np.inf)))

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the exact delta (Balle and Wang 2018): Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 -
        eps/mu), in log space against overflow.
        """
        from scipy.special import log_ndtr, ndtr

        eps = np.asarray(epsilon, dtype=float)
        tail = np.exp(eps + log_ndtr(-self.mu / 2 - eps / self.mu))
        return np.asarray(np.maximum(0.0, ndtr(self.mu / 2 - eps / self.mu) - tail))
