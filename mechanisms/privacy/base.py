"""Privacy notions. Each notion is a trade-off curve g(q): the largest true-positive rate of any attacker at false-positive rate q.

Dong, Roth and Su (2022) for curves and GDP; Kairouz, Oh and Viswanath (2015) for (epsilon, delta).
Curves are those of a symmetric neighboring relation: both orders of a pair satisfy the notion.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpwitness.mechanisms.core.validation import InvalidArgument, require, require_integer, require_positive, require_probability, shown

FloatArray = NDArray[np.float64]


class Claim(ABC):
    """Privacy claim: a family of trade-off curves with a free `parameter` (epsilon, rho or mu) and, for some, a fixed second number."""

    kind: ClassVar[str]
    symbol: ClassVar[str]  # name of the free parameter
    bounds_epsilon: ClassVar[bool] = False  # whether the parameter is the epsilon of (epsilon, delta)-DP at `delta_budget`
    bounds_renyi: ClassVar[bool] = False  # whether the notion bounds Renyi divergences, at the orders of `orders_among`

    @property
    def is_pure(self) -> bool:
        """Whether the notion bounds the likelihood ratio of every event, without a delta."""
        return self.bounds_epsilon and self.delta_budget == 0

    @property
    def at_delta(self) -> Claim:
        """Notion at this claim's delta whose parameter is an epsilon: the claim itself, or pure DP."""
        return self if self.bounds_epsilon else PureDP(1.0)

    @property
    def remark(self) -> str:
        """Remark for reports, such as how the curve was built from the given points; empty for most claims."""
        return ""

    def on(self, pair: Any) -> Claim:
        """Return the claim on this pair of datasets: the claim itself, except for notions that depend on the pair (`budgets`)."""
        return self

    def group(self, size: int) -> Claim:
        """Return the claim for groups of `size` records, by the exact conversion of the notion or the best known bound.

        Raises
        ------
        InvalidArgument
            If `size` is not a whole number of at least 1, or the claim implies nothing for groups
            of this size.

        Examples
        --------
        >>> print(PureDP(0.5).group(3), GDP(0.5).group(3))
        pure:1.5 gdp:1.5
        >>> print(ApproxDP(1.0, 1e-6).group(2))  # delta (1 + e)
        approx:2,3.71828e-06
        """
        size = require_integer("size", size, "group", most=10**6)
        return self if size == 1 else self._grouped(size)

    def _grouped(self, size: int) -> Claim:
        """Return the claim for groups of `size` >= 2 records."""
        raise InvalidArgument(f"group: {self} covers all distances already, there is no group version of it")

    def of(self, numbers: Sequence[float]) -> Claim:
        """Return the claim of this kind with exactly these `numbers`."""
        return type(self)(*numbers)

    @property
    def spelled(self) -> str:
        """Text of the claim with all digits."""
        return f"{self.kind}:{','.join(repr(number) for number in self.numbers)}"

    def orders_among(self, orders: Sequence[float]) -> Sequence[float]:
        """Return the orders among `orders` at which the notion bounds the Renyi divergence, or its own orders; none for other notions."""
        return ()

    def divergence_at(self, order: float) -> float:
        """Return the Renyi divergence of this order that is allowed at parameter 1."""
        return math.inf

    def coarse(self) -> Claim:
        """Return an approximation of the claim with few Renyi orders or lines: sufficient to choose among events, and much faster."""
        return self

    @property
    def parameter(self) -> float:
        """Free parameter: epsilon, rho or mu."""
        return float(getattr(self, self.symbol))

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers of the claim, exactly; its text rounds them."""
        return tuple(float(getattr(self, f.name)) for f in fields(self))  # type: ignore[arg-type]

    # fixed additive delta of the notion; zero except for approximate DP
    delta_budget: float = 0.0

    @abstractmethod
    def with_parameter(self, value: float) -> Claim:
        """Return the same notion with another free parameter."""

    @abstractmethod
    def tradeoff(self, fpr: ArrayLike) -> FloatArray:
        """Return the largest true-positive rates g(q) at the false-positive rates `fpr` in [0, 1]."""

    @abstractmethod
    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        """Return the smallest parameter, at least 0, whose curve reaches (fpr, tpr): the parameter that such a test proves."""

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta(epsilon) = sup_q g(q) - e^epsilon q, the smallest delta for which the notion implies (epsilon, delta)-DP."""
        grid = np.concatenate([np.geomspace(1e-300, 1e-3, 4000), np.linspace(1e-3, 1.0, 4001)[1:]])
        eps = np.atleast_1d(np.asarray(epsilon, dtype=float))
        gain = self.tradeoff(grid)[None, :] - np.exp(np.minimum(eps[:, None], 700.0)) * grid[None, :]
        return np.asarray(np.clip(gain.max(axis=1), 0.0, 1.0).reshape(np.shape(epsilon)))

    def implies(self, other: Claim) -> bool:
        """Return whether this claim is at least as strong as `other`: its curve is nowhere above, on a grid down to q = 1e-300."""
        grid = np.concatenate([np.geomspace(1e-300, 1e-3, 2000), np.linspace(1e-3, 1.0, 2001)])
        return bool(np.all(self.tradeoff(grid) <= other.tradeoff(grid) * (1 + 1e-9) + 1e-15))

    def __le__(self, other: Claim) -> bool:
        """Return whether ``a <= b``: a allows at most the leakage that b allows."""
        return self.implies(other)

    def __lt__(self, other: Claim) -> bool:
        return self.implies(other) and not other.implies(self)

    def __str__(self) -> str:
        return f"{self.kind}:{self.parameter:g}"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Claim):
    """(epsilon, delta)-DP: P(S) <= e^epsilon Q(S) + delta for every event S (Dwork et al. 2006, "Our data, ourselves").

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

    kind: ClassVar[str] = "approx"
    symbol: ClassVar[str] = "epsilon"
    bounds_epsilon: ClassVar[bool] = True

    def __init__(self, epsilon: float, delta: float) -> None:
        owner = type(self).__name__
        object.__setattr__(self, "epsilon", require_positive("epsilon", epsilon, owner))
        object.__setattr__(self, "delta_budget", require_probability("delta", delta, owner, zero=True))

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
        """Return the exact delta: the budget from the claim's epsilon on, and the gain at the corner of the curve below it."""
        eps = np.asarray(epsilon, dtype=float)
        odds = (1.0 + np.exp(np.minimum(eps, 700.0))) / (1.0 + math.exp(min(self.epsilon, 700.0)))
        return np.where(eps >= self.epsilon, self.delta_budget, 1.0 - (1.0 - self.delta_budget) * odds)

    def _grouped(self, size: int) -> ApproxDP:
        """Return the group claim, by composing q -> e^eps q + delta with itself k times: delta (e^(k eps) - 1)/(e^eps - 1)."""
        delta = self.delta_budget * math.expm1(min(size * self.epsilon, 700.0)) / math.expm1(min(self.epsilon, 700.0))
        if delta >= 1:
            raise InvalidArgument(f"group: {self} promises nothing to groups of {size}: delta would be {delta:.3g}")
        return ApproxDP(size * self.epsilon, delta)

    def __repr__(self) -> str:
        return f"ApproxDP(epsilon={self.epsilon!r}, delta={self.delta_budget!r})"

    def __str__(self) -> str:
        return f"approx:{self.epsilon:g},{self.delta_budget:g}"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(ApproxDP):
    """epsilon-DP: P(S) <= e^epsilon Q(S) for every event S (Dwork, McSherry, Nissim and Smith 2006).

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

    kind: ClassVar[str] = "pure"

    def __init__(self, epsilon: float) -> None:
        ApproxDP.__init__(self, epsilon, 0.0)

    def with_parameter(self, value: float) -> PureDP:
        return PureDP(value)

    def of(self, numbers: Sequence[float]) -> PureDP:
        epsilon, delta = numbers
        if delta != 0:
            raise InvalidArgument(f"delta must be 0 in pure DP, got {shown(delta)}")
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
    """mu-Gaussian DP: no test distinguishes the two datasets better than N(0, 1) from N(mu, 1) (Dong, Roth and Su 2022).

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

    kind: ClassVar[str] = "gdp"
    symbol: ClassVar[str] = "mu"

    def __post_init__(self) -> None:
        require(self).positive("mu")

    def with_parameter(self, value: float) -> GDP:
        return GDP(value)

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
        """Return the exact delta (Balle and Wang 2018): Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), in log space against overflow."""
        from scipy.special import log_ndtr, ndtr

        eps = np.asarray(epsilon, dtype=float)
        tail = np.exp(eps + log_ndtr(-self.mu / 2 - eps / self.mu))
        return np.asarray(np.maximum(0.0, ndtr(self.mu / 2 - eps / self.mu) - tail))
