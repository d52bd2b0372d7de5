"""Privacy notions with one curve each: pure DP, (epsilon, delta)-DP, Gaussian DP, Renyi DP at
one order or several, and zCDP.

Kairouz, Oh and Viswanath (2015) for (epsilon, delta); Dong, Roth and Su (2022) for GDP; Mironov
(2017) and Bun and Steinke (2016) for the Renyi notions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.core.claims.claim import (
    Claim,
    Divergences,
    FloatArray,
    Span,
    parse_numbers,
    parse_points,
)
from dpwitness.core.values.validation import (
    InvalidArgument,
    require,
    require_positive,
    require_probability,
    require_type,
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


# Orders at which zCDP is tested. Fewer orders only raise g and lower a certified rho, so the grid
# is conservative.
ORDERS = 1.0 + np.geomspace(1e-3, 1e4, 240)


def binary_renyi(order: FloatArray, p: FloatArray, q: FloatArray) -> FloatArray:
    """Return the Renyi divergence of Bernoulli(p) and Bernoulli(q), the larger of both directions,
    computed in log space.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(v) for v in (p, q)] + [np.log1p(-v) for v in (p, q)]

        def one(lp: FloatArray, lq: FloatArray, lp1: FloatArray, lq1: FloatArray) -> FloatArray:
            in_event = np.where(np.isneginf(lp), -np.inf, order * lp + (1 - order) * lq)
            outside_event = np.where(np.isneginf(lp1), -np.inf, order * lp1 + (1 - order) * lq1)
            return np.logaddexp(in_event, outside_event) / (order - 1)

        forward = one(logs[0], logs[1], logs[2], logs[3])
        backward = one(logs[1], logs[0], logs[3], logs[2])
    return np.maximum(0.0, np.maximum(forward, backward))


class RenyiClaim(Claim):
    """Bounds on the Renyi divergences D_a of P from Q and of Q from P: D_a <= parameter *
    `divergence_at`(a) for each order a of the notion.
    """

    bounds_renyi: ClassVar[bool] = True

    def tradeoff(self, fpr: ArrayLike) -> FloatArray:
        """Return the largest true-positive rates g(q) at the false-positive rates `fpr`, by
        bisection on `parameter_at`, rounded up so that g is never too small.
        """
        q = np.asarray(fpr, dtype=float)
        low, high = q.copy(), np.ones_like(q)
        for _ in range(80):
            middle = 0.5 * (low + high)
            allowed = self.parameter_at(q, middle) <= self.parameter
            low, high = np.where(allowed, middle, low), np.where(allowed, high, middle)
        return np.where(self.parameter_at(q, np.ones_like(q)) <= self.parameter, 1.0, high)

    def enclosed(self, pair_order: Divergences) -> Span | None:
        spans = [
            (pair_order.renyi(order), self.divergence_at(order)) for order in self.orders_among([])
        ]
        ends = [
            (math.nextafter(low / unit, 0.0), math.nextafter(high / unit, math.inf))
            for (low, high), unit in spans
        ]
        return (max(low for low, _ in ends), max(high for _, high in ends)) if ends else None

    def gaussian_shift(self, parameter: float) -> float:
        """Return the shift over the standard deviation of Gaussian noise with this parameter, from
        D_a = a shift^2 / 2.
        """
        return math.sqrt(
            2
            * parameter
            * min(self.divergence_at(order) / order for order in self.orders_among([2.0]))
        )

    def gaussian_parameter(self, squares: float) -> float:
        return max(a * squares / 2 / self.divergence_at(a) for a in self.orders_among([2.0]))


def _renyi_of_group(alpha: float, epsilon: float, size: int, claim: Claim) -> tuple[float, float]:
    """Return (alpha / 2^c, 3^c epsilon) for groups of at most 2^c and alpha >= 2^(c + 1): Mironov
    2017, Proposition 2.
    """
    doublings = (size - 1).bit_length()
    if alpha < 2 ** (doublings + 1):
        raise InvalidArgument(
            f"group: {claim} promises nothing to groups of {size}: it needs an order of at "
            f"least {2 ** (doublings + 1)}"
        )
    return alpha / 2**doublings, 3**doublings * epsilon


@dataclass(frozen=True, slots=True)
class RDP(RenyiClaim):
    """(alpha, epsilon)-Renyi DP: D_alpha(P || Q) <= epsilon and D_alpha(Q || P) <= epsilon (Mironov
    2017).

    Parameters
    ----------
    alpha : float
        Order of the divergence, above 1. Fixed.
    epsilon : float
        Bound on the divergence, the free parameter. Positive, finite.

    Raises
    ------
    InvalidArgument
        If a number is out of range.
    """

    alpha: float
    epsilon: float

    form: ClassVar[str] = "rdp:ALPHA,EPSILON or rdp:ALPHA=EPSILON,..."
    notion: ClassVar[str] = "Rényi differential privacy"
    symbol: ClassVar[str] = "epsilon"

    def __post_init__(self) -> None:
        require(self).positive("epsilon").positive("alpha")
        if self.alpha <= 1:
            raise InvalidArgument(f"RDP: alpha must be greater than 1, got {self.alpha!r}")

    @classmethod
    def parse(cls, text: str) -> Claim:
        return RenyiCurve(*parse_points(text)) if "=" in text else RDP(*parse_numbers(text, 2))

    def _grouped(self, size: int) -> RDP:
        return RDP(*_renyi_of_group(self.alpha, self.epsilon, size, self))

    def orders_among(self, orders: Sequence[float]) -> Sequence[float]:
        return (self.alpha,)

    def divergence_at(self, order: float) -> float:
        return 1.0

    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        q, p = np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float)
        return np.where(p > q, binary_renyi(np.asarray(self.alpha), p, q), 0.0)

    def __str__(self) -> str:
        return f"rdp:{self.alpha:g},{self.epsilon:g}"


@dataclass(frozen=True, slots=True)
class RenyiCurve(RenyiClaim):
    """Renyi DP at several orders: D_a(P || Q) <= epsilon_a and D_a(Q || P) <= epsilon_a for each
    order a (Mironov 2017).

    The free parameter is a factor on all epsilons; the factor of the claim itself is 1.

    Parameters
    ----------
    orders : tuple of float
        Orders above 1, in increasing order.
    epsilons : tuple of float
        One bound per order. Positive.
    factor : float
        Factor on all epsilons. Positive.

    Raises
    ------
    InvalidArgument
        If the orders do not increase from above 1, a number is not positive, or the two lengths
        differ.

    Examples
    --------
    >>> print(RenyiCurve((2.0, 4.0, 8.0), (0.3, 0.7, 1.6)).group(2))
    rdp:2=2.1,4=4.8
    """

    orders: tuple[float, ...]
    epsilons: tuple[float, ...]
    factor: float = 1.0

    kind: ClassVar[str] = "rdp"
    symbol: ClassVar[str] = "factor"

    def __post_init__(self) -> None:
        for name in ("orders", "epsilons"):
            given = getattr(self, name)
            require_type(name, given, (tuple, list), "be a tuple of numbers", "RenyiCurve")
            found = tuple(require_positive(name, value, "RenyiCurve") for value in given)
            object.__setattr__(self, name, found)
        if len(self.orders) != len(self.epsilons) or not self.orders:
            raise InvalidArgument(
                "RenyiCurve: orders and epsilons must have the same length, got "
                f"{len(self.orders)} and {len(self.epsilons)}"
            )
        if self.orders[0] <= 1 or any(b <= a for a, b in pairwise(self.orders)):
            raise InvalidArgument(
                "RenyiCurve: orders must be greater than 1 and increase, got "
                f"{short_repr(self.orders)}"
            )
        require(self).positive("factor")

    @property
    def numbers(self) -> tuple[float, ...]:
        return tuple(
            number for each in zip(self.orders, self.epsilons, strict=True) for number in each
        )

    def of(self, numbers: Sequence[float]) -> RenyiCurve:
        return RenyiCurve(tuple(numbers[::2]), tuple(numbers[1::2]))

    def _grouped(self, size: int) -> RenyiCurve:
        least = 2 ** ((size - 1).bit_length() + 1)
        usable = [
            _renyi_of_group(a, e, size, self)
            for a, e in zip(self.orders, self.epsilons, strict=True)
            if a >= least
        ]
        # raises if no order is left
        orders, epsilons = zip(
            *(usable or [_renyi_of_group(self.orders[-1], 1.0, size, self)]), strict=True
        )
        return RenyiCurve(orders, epsilons)

    def orders_among(self, orders: Sequence[float]) -> Sequence[float]:
        return self.orders

    def divergence_at(self, order: float) -> float:
        return self.epsilons[self.orders.index(order)]

    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        q, p = np.broadcast_arrays(np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float))
        factors = binary_renyi(np.array(self.orders), p[..., None], q[..., None]) / np.array(
            self.epsilons
        )
        return np.where(p > q, factors.max(axis=-1), 0.0)

    @property
    def spelled(self) -> str:
        return "rdp:" + ",".join(
            f"{a!r}={e!r}" for a, e in zip(self.orders, self.epsilons, strict=True)
        )

    def __str__(self) -> str:
        return "rdp:" + ",".join(
            f"{a:g}={e:g}" for a, e in zip(self.orders, self.epsilons, strict=True)
        )


@dataclass(frozen=True, slots=True)
class ZCDP(RenyiClaim):
    """rho-zero-concentrated DP: D_a(P || Q) <= rho a for every order a > 1, both ways (Bun and
    Steinke 2016).

    Parameters
    ----------
    rho : float
        Positive, finite.

    Raises
    ------
    InvalidArgument
        If rho is not positive and finite.
    """

    rho: float

    form: ClassVar[str] = "zcdp:RHO"
    notion: ClassVar[str] = "zero-concentrated differential privacy"
    aliases: ClassVar[tuple[str, ...]] = ("rho",)
    symbol: ClassVar[str] = "rho"
    orders: ClassVar[FloatArray] = ORDERS

    def __post_init__(self) -> None:
        require(self).positive("rho")

    def _grouped(self, size: int) -> ZCDP:
        """Return the claim for groups: k^2 rho (Bun and Steinke 2016, Proposition 1.9)."""
        return ZCDP(size**2 * self.rho)

    def orders_among(self, orders: Sequence[float]) -> Sequence[float]:
        return orders

    def divergence_at(self, order: float) -> float:
        return order

    def enclosed(self, pair_order: Divergences) -> Span:
        return pair_order.concentrated()

    def coarse(self) -> Claim:
        return _CoarseZCDP(self.rho)

    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        q, p = np.broadcast_arrays(np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float))
        rho = (binary_renyi(self.orders, p[..., None], q[..., None]) / self.orders).max(axis=-1)
        return np.where(p > q, rho, 0.0)


class _CoarseZCDP(ZCDP):
    """zCDP tested at few orders, for speed."""

    __slots__ = ()
    orders = 1.0 + np.geomspace(1e-2, 1e3, 16)
