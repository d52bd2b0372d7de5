"""Privacy notions. Each notion is a trade-off curve g(q): the largest true-positive rate of any attacker at false-positive rate q.

Dong, Roth and Su (2022) for curves and GDP; Kairouz, Oh and Viswanath (2015) for (epsilon, delta).
Curves are those of a symmetric neighboring relation: both orders of a pair satisfy the notion.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpwitness.mechanisms.core.validation import InvalidArgument, require, require_integer, require_positive, require_probability, shown

FloatArray = NDArray[np.float64]
Lines = tuple[FloatArray, FloatArray]  # epsilons in decreasing order, and deltas
Span = tuple[float, float]  # lower and upper bound

NOTIONS: dict[str, type[Claim]] = {}  # kind -> class that parses the claims of this kind

_TANGENTS = 600
_TANGENT_RANGE = 8.0  # range of the tangents, in standard deviations of the privacy loss
_CLAIM_TOLERANCE = 1e-9  # relative tolerance at the claim, since mechanisms calibrate their parameters in floats


class Divergences(Protocol):
    """Enclosures of the divergences of one order of a pair, by ball arithmetic (`auditors/proved`)."""

    @property
    def mu(self) -> Span | None: ...
    def epsilon(self, delta: float, *, edge: float | None = None) -> Span: ...
    def renyi(self, order: float) -> Span: ...
    def concentrated(self) -> Span: ...


class Claim(ABC):
    """Privacy claim: a family of trade-off curves with a free `parameter` (epsilon, rho or mu) and, for some, a fixed second number.

    A subclass with a `form` of its own is registered in `NOTIONS`.
    """

    kind: ClassVar[str]  # first word of `form`
    form: ClassVar[str]  # text of the claims, such as "approx:EPSILON,DELTA"
    notion: ClassVar[str]  # name of the notion in reports
    aliases: ClassVar[tuple[str, ...]] = ()  # words that people write instead of `kind`
    symbol: ClassVar[str]  # name of the free parameter
    bounds_epsilon: ClassVar[bool] = False  # whether the parameter is the epsilon of (epsilon, delta)-DP at `delta_budget`
    bounds_renyi: ClassVar[bool] = False  # whether the notion bounds Renyi divergences, at the orders of `orders_among`
    has_tangents: ClassVar[bool] = False  # whether canaries are tested against the curve, by its `tangents`
    largest_parameter: ClassVar[float] = 200.0  # largest parameter that canaries certify
    costly: ClassVar[bool] = False  # whether the curve at another parameter takes an accountant seconds
    guess_mu: float = 1.0  # mu of Gaussian noise that leaks about as much, which decides how many canaries are guessed

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "form" in vars(cls):
            cls.kind = cls.form.partition(":")[0]
            known = NOTIONS.setdefault(cls.kind, cls)
            if known.__qualname__ != cls.__qualname__:
                raise TypeError(f"{cls.__name__}: kind must be new, got {cls.kind!r}, the kind of {known.__name__}")
            if known.__module__ == cls.__module__:  # a module that is imported under two names registers once
                NOTIONS[cls.kind] = cls  # a dataclass with slots is created twice

    @classmethod
    def parse(cls, text: str) -> Claim:
        """Return the claim of the text after the kind. Raise ValueError for another form."""
        return cls(*parse_numbers(text, cls.form.count(",") + 1))

    @classmethod
    def recall(cls, text: str, numbers: Sequence[float]) -> Claim | None:
        """Return the claim of a text in a file, if `numbers` are needed beside the text after the kind."""
        return None

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

    def enclosed(self, pair_order: Divergences) -> Span | None:
        """Enclose the parameter of one order of a pair; None if no enclosure is known for the notion."""
        return None

    def gaussian_shift(self, parameter: float) -> float | None:
        """Return the shift over the standard deviation of Gaussian noise with this parameter; None without a formula."""
        return None

    def gaussian_parameter(self, squares: float) -> float | None:
        """Return the parameter of composed Gaussian noise, given its sum of squared shifts; None without a formula."""
        return None

    def for_canaries(self, owner: str) -> Claim:
        """Return the claim that canaries test. Raise InvalidArgument, with the name of the caller, if they cannot test the claim."""
        return self

    def trivial_parameter(self) -> float:
        """Return the largest parameter at which the curve allows less than random guessing."""
        return 0.0

    def tangents(self) -> Lines:
        """Return lines q -> e^epsilon q + delta whose minimum is the curve, or is above it; epsilon may be negative."""
        largest = self.parameter**2 / 2 + _TANGENT_RANGE * self.parameter
        epsilons = np.linspace(largest, -largest, _TANGENTS)
        return epsilons, np.asarray(self.delta(epsilons), dtype=float)

    def epsilon_at(self, delta: float) -> float:
        """Return the epsilon that the claim implies at delta."""
        from scipy.optimize import brentq

        def excess(epsilon: float) -> float:
            return float(np.max(self.delta(np.array([epsilon])))) - delta

        if excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > 1e4:
                return math.inf
        return float(brentq(excess, 0.0, high, xtol=1e-9))

    def as_gaussian(self, delta: float) -> GDP:
        """Return the Gaussian curve with the epsilon of this claim at delta."""
        return GDP.with_epsilon(self.epsilon_at(delta), delta)

    @property
    def identity(self) -> str:
        """Text by which stores identify the claim."""
        return str(self)

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


def parse_numbers(text: str, *counts: int) -> list[float]:
    """Return the numbers of a comma-separated text. Raise ValueError unless their count is one of `counts`."""
    found = [float(part) for part in text.split(",")]
    if counts and len(found) not in counts:
        raise ValueError
    return found


def parse_points(text: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the two columns of a text of points ``a=b,a=b,...``."""
    pairs = [tuple(map(float, part.split("="))) for part in text.split(",")]
    first, second = zip(*pairs, strict=True)
    return first, second


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Claim):
    """(epsilon, delta)-DP: P(S) <= e^epsilon Q(S) + delta for every event S.

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

    def enclosed(self, pair_order: Divergences) -> Span:
        return pair_order.epsilon(self.delta_budget, edge=self.epsilon * (1 + _CLAIM_TOLERANCE))

    def epsilon_at(self, delta: float) -> float:
        return self.epsilon

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
    """epsilon-DP: P(S) <= e^epsilon Q(S) for every event S.

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
    """mu-Gaussian DP: no test distinguishes the two datasets better than N(0, 1) from N(mu, 1).

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

    @property
    def guess_mu(self) -> float:  # type: ignore[override]
        return self.mu

    def enclosed(self, pair_order: Divergences) -> Span | None:
        return pair_order.mu

    def gaussian_shift(self, parameter: float) -> float:
        return parameter

    def gaussian_parameter(self, squares: float) -> float:
        return math.sqrt(squares)

    def as_gaussian(self, delta: float) -> GDP:
        return self

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
