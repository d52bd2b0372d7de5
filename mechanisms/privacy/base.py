"""Privacy notions. Each is one trade-off curve g(q): the largest true-positive rate of any attacker at false-positive rate q.

Dong, Roth and Su (2022) for curves and GDP; Kairouz, Oh and Viswanath (2015) for (epsilon, delta). Curves are those of a symmetric
neighbouring relation: both orders of a pair obey the notion.
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
    """A privacy promise: a family of curves with one free `parameter` (epsilon, rho or mu) and, for some, a fixed second number."""

    kind: ClassVar[str]
    symbol: ClassVar[str]  # the free parameter's name
    bounds_epsilon: ClassVar[bool] = False  # whether that is the epsilon of (epsilon, delta)-DP at `delta_budget`
    bounds_renyi: ClassVar[bool] = False  # whether it bounds Renyi divergences, at `orders_among` any orders

    @property
    def is_pure(self) -> bool:
        """Whether it bounds the likelihood ratio of every event, with no delta."""
        return self.bounds_epsilon and self.delta_budget == 0

    @property
    def at_delta(self) -> Claim:
        """The notion of this claim's delta whose parameter is an epsilon: the claim itself, or pure DP."""
        return self if self.bounds_epsilon else PureDP(1.0)

    @property
    def remark(self) -> str:
        """What a report says beside the claim, such as how its curve was made of what was given; mostly nothing."""
        return ""

    def on(self, pair: Any) -> Claim:
        """What is promised on this pair of datasets: the claim itself, but for those that depend on the pair (`budgets`)."""
        return self

    def group(self, size: int) -> Claim:
        """What the claim promises to groups of `size` records: for each notion the exact conversion, or the best that is known.

        Raises
        ------
        InvalidArgument
            If `size` is no whole number of at least 1, or nothing follows for such a group.

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
        raise InvalidArgument(f"group: {self} speaks of all distances already, there is no form of it for groups")

    def of(self, numbers: Sequence[float]) -> Claim:
        """The claim of this kind with these `numbers`, exactly."""
        return type(self)(*numbers)

    @property
    def spelled(self) -> str:
        """Its text with all digits."""
        return f"{self.kind}:{','.join(repr(number) for number in self.numbers)}"

    def orders_among(self, orders: Sequence[float]) -> Sequence[float]:
        """Of some orders those at which the notion bounds the Renyi divergence, or its own; none if it is no such notion."""
        return ()

    def divergence_at(self, order: float) -> float:
        """Renyi divergence of this order that a parameter of 1 allows."""
        return math.inf

    def coarse(self) -> Claim:
        """The same promise by a few orders, where it is one about many: close enough to choose among events, and much faster."""
        return self

    @property
    def parameter(self) -> float:
        """The free parameter: epsilon, rho or mu."""
        return float(getattr(self, self.symbol))

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers of the claim, exactly, as its text rounds them."""
        return tuple(float(getattr(self, f.name)) for f in fields(self))  # type: ignore[arg-type]

    # The fixed additive slack delta of the notion; zero for all but approximate DP.
    delta_budget: float = 0.0

    @abstractmethod
    def with_parameter(self, value: float) -> Claim:
        """The same notion with another free parameter."""

    @abstractmethod
    def tradeoff(self, fpr: ArrayLike) -> FloatArray:
        """g(q) at false-positive rates `fpr` in [0, 1]."""

    @abstractmethod
    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        """Smallest free parameter whose curve lets a test reach (fpr, tpr): the parameter that such a test proves. At least 0."""

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """delta(epsilon) = sup_q g(q) - e^epsilon q: the smallest delta for which the notion implies (epsilon, delta)-DP."""
        grid = np.concatenate([np.geomspace(1e-300, 1e-3, 4000), np.linspace(1e-3, 1.0, 4001)[1:]])
        eps = np.atleast_1d(np.asarray(epsilon, dtype=float))
        gain = self.tradeoff(grid)[None, :] - np.exp(np.minimum(eps[:, None], 700.0)) * grid[None, :]
        return np.asarray(np.clip(gain.max(axis=1), 0.0, 1.0).reshape(np.shape(epsilon)))

    def implies(self, other: Claim) -> bool:
        """Whether this promise is at least as strong as `other`: its curve lies nowhere above, on a grid down to q = 1e-300."""
        grid = np.concatenate([np.geomspace(1e-300, 1e-3, 2000), np.linspace(1e-3, 1.0, 2001)])
        return bool(np.all(self.tradeoff(grid) <= other.tradeoff(grid) * (1 + 1e-9) + 1e-15))

    def __le__(self, other: Claim) -> bool:
        """``a <= b``: a leaks at most what b allows."""
        return self.implies(other)

    def __lt__(self, other: Claim) -> bool:
        return self.implies(other) and not other.implies(self)

    def __str__(self) -> str:
        return f"{self.kind}:{self.parameter:g}"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Claim):
    """(epsilon, delta)-DP: P(S) <= e^epsilon Q(S) + delta for every event S.

    Parameters
    ----------
    epsilon : float
        Positive, finite.
    delta : float
        In [0, 1). Read it back as `delta_budget`; the method `delta` is the whole profile.

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
        """Exact: the budget from `epsilon` on, and the corner of the curve below it."""
        eps = np.asarray(epsilon, dtype=float)
        odds = (1.0 + np.exp(np.minimum(eps, 700.0))) / (1.0 + math.exp(min(self.epsilon, 700.0)))
        return np.where(eps >= self.epsilon, self.delta_budget, 1.0 - (1.0 - self.delta_budget) * odds)

    def _grouped(self, size: int) -> ApproxDP:
        """The curve composed with itself, e^eps q + delta again and again: delta (e^(k eps) - 1)/(e^eps - 1)."""
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
    """epsilon-DP: P(S) <= e^epsilon Q(S) for every event S.

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
    """mu-Gaussian DP: no test does better than telling N(0, 1) from N(mu, 1)."""

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

        with np.errstate(invalid="ignore"):  # infinity less infinity: nothing proved
            gap = ndtri(np.asarray(tpr, dtype=float)) - ndtri(np.asarray(fpr, dtype=float))
        return np.asarray(np.maximum(0.0, np.nan_to_num(gap, nan=0.0, posinf=np.inf)))

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Exact (Balle and Wang 2018): Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), in log space against overflow."""
        from scipy.special import log_ndtr, ndtr

        eps = np.asarray(epsilon, dtype=float)
        tail = np.exp(eps + log_ndtr(-self.mu / 2 - eps / self.mu))
        return np.asarray(np.maximum(0.0, ndtr(self.mu / 2 - eps / self.mu) - tail))
