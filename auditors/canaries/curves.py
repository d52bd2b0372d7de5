"""Trade-off curves as lines, g(q) = min_j (e^epsilon_j q + delta_j), each family with one parameter that grows with the leak."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from dpwitness.mechanisms.terms.notions import GDP, Claim, exact_claim, parse_claim
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument, require, require_integer, require_positive
from dpwitness.mechanisms.textbook.gradient_steps import subsampled_gaussian_loss

Lines = tuple[FloatArray, FloatArray]  # epsilons, which fall, and deltas

_TANGENTS = 600
_FARTHEST = 8.0  # standard deviations of the loss that tangents reach to
_SPAN = 60.0  # largest epsilon of a DP-SGD curve


class Curve(Claim):
    """A curve that is no notion of its own: it is known by its lines."""

    def lines(self) -> Lines:
        """The curve, from above."""
        raise NotImplementedError

    def tradeoff(self, fpr: ArrayLike) -> FloatArray:
        q = np.asarray(fpr, dtype=float)
        epsilons, deltas = self.lines()
        return np.asarray(np.minimum(1.0, (np.exp(epsilons) * q[..., None] + deltas).min(axis=-1)))

    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        raise InvalidArgument(f"claim must be pure, approx, zcdp, rdp or gdp where single events are counted, got {self}")


@dataclass(frozen=True, slots=True)
class DPSGD(Curve):
    """The curve of DP-SGD with Poisson sampling, by dp-accounting's privacy loss distributions, from above; adding or removing an example.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm. Positive.
    sampling_probability : float
        Of an example in each step, in (0, 1].
    steps : int

    Examples
    --------
    >>> round(epsilon_at(DPSGD(1.0, 0.01, 1000), 1e-5), 2)
    1.83
    """

    noise_multiplier: float
    sampling_probability: float
    steps: int

    kind: ClassVar[str] = "dpsgd"
    symbol: ClassVar[str] = "signal"

    def __post_init__(self) -> None:
        require(self).positive("noise_multiplier", "sampling_probability")
        if self.sampling_probability > 1:
            raise InvalidArgument(f"DPSGD: sampling_probability must lie in (0, 1], got {self.sampling_probability!r}")
        require_integer("steps", self.steps, "DPSGD", most=10**7)

    @property
    def signal(self) -> float:
        """One over the noise multiplier, which grows with the leak."""
        return 1 / self.noise_multiplier

    def with_parameter(self, value: float) -> DPSGD:
        return DPSGD(1 / value, self.sampling_probability, self.steps)

    def lines(self) -> Lines:
        epsilons = np.linspace(0.0, _reach(self), _TANGENTS)
        deltas = np.asarray(self.delta(epsilons), dtype=float)
        # the curve is its own inverse, as either order of the neighbours obeys it: delta(-e) = 1 - exp(-e) (1 - delta(e))
        below = 1 - np.exp(-epsilons[1:]) * (1 - deltas[1:])
        return np.concatenate([epsilons[::-1], -epsilons[1:]]), np.concatenate([deltas[::-1], below])

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        return np.asarray(subsampled_gaussian_loss(*self.numbers).get_delta_for_epsilon(np.atleast_1d(np.asarray(epsilon, dtype=float))))

    def __str__(self) -> str:
        return f"dpsgd:{self.noise_multiplier:g},{self.sampling_probability:g},{self.steps}"


def _reach(claim: DPSGD) -> float:
    """An epsilon beyond which nothing is left to tell."""
    return float(min(_SPAN, max(1.0, subsampled_gaussian_loss(*claim.numbers).get_epsilon_for_delta(1e-12))))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TradeoffCurve(Curve):
    """A curve through points: the largest true-positive rate `tpr` of any test at each false-positive rate `fpr`.

    Its family multiplies its slopes by e^excess: the claim itself has excess 0.

    Examples
    --------
    >>> TradeoffCurve([0, 0.5, 1], [0, 0.4, 1])
    Traceback (most recent call last):
        ...
    dpwitness.mechanisms.terms.validation.InvalidArgument: TradeoffCurve: tpr must be at least fpr, got 0.4 at fpr 0.5
    """

    points: tuple[tuple[float, float], ...]
    excess: float

    kind: ClassVar[str] = "curve"
    symbol: ClassVar[str] = "excess"

    def __init__(self, fpr: ArrayLike, tpr: ArrayLike, excess: float = 0.0) -> None:
        q, p = np.asarray(fpr, dtype=float), np.asarray(tpr, dtype=float)
        owner = "TradeoffCurve"
        if q.ndim != 1 or q.shape != p.shape or q.size < 2 or not (np.isfinite(q).all() and np.isfinite(p).all()):
            raise InvalidArgument(f"{owner}: fpr and tpr must be two rows of as many finite numbers, got shapes {q.shape} and {p.shape}")
        if q[0] != 0 or q[-1] != 1 or p[-1] != 1 or p.min() < 0 or p.max() > 1:
            raise InvalidArgument(f"{owner}: fpr must go from 0 to 1 and tpr lie in [0, 1] and end at 1, got {q[0]:g} to {q[-1]:g}")
        if (rise := np.diff(q)).min() <= 0 or np.diff(p).min() < 0:
            raise InvalidArgument(f"{owner}: fpr must increase and tpr not decrease, got a step of {rise.min():g} and {np.diff(p).min():g}")
        if (p < q).any():
            at = int(np.argmax(q - p))
            raise InvalidArgument(f"{owner}: tpr must be at least fpr, got {p[at]:g} at fpr {q[at]:g}")
        bent = np.diff(np.diff(p) / rise)
        if (bent > 1e-9).any():
            at = int(np.argmax(bent)) + 1
            raise InvalidArgument(f"{owner}: tpr must be concave in fpr, got a slope that rises by {bent[at - 1]:g} at fpr {q[at]:g}")
        object.__setattr__(self, "points", tuple(zip(q.tolist(), p.tolist(), strict=True)))
        object.__setattr__(self, "excess", float(excess))

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.excess, *(number for point in self.points for number in point))

    def with_parameter(self, value: float) -> TradeoffCurve:
        q, p = zip(*self.points, strict=True)
        return TradeoffCurve(q, p, value)

    def lines(self) -> Lines:
        q, p = np.array(self.points).T
        slopes = np.maximum(np.diff(p) / np.diff(q), 1e-300)
        return np.log(slopes) + self.excess, p[:-1] - slopes * q[:-1]

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """At a corner: between lines j and j + 1 the largest gain over e^epsilon q."""
        epsilons, deltas = self.lines()
        eps = np.asarray(epsilon, dtype=float)
        corners = np.concatenate([[0.0], -np.diff(deltas) / np.minimum(np.diff(np.exp(epsilons)), -1e-300), [1.0]]).clip(0.0, 1.0)
        return np.asarray(np.clip((self.tradeoff(corners) - np.exp(np.minimum(eps[..., None], 700.0)) * corners).max(axis=-1), 0.0, 1.0))

    def __str__(self) -> str:
        return f"curve:{len(self.points)} points"

    def __repr__(self) -> str:
        return f"TradeoffCurve({len(self.points)} points, excess={self.excess!r})"


def lines_of(claim: Claim) -> Lines:
    """The curve of GDP by tangents, of a `Curve` by its own lines."""
    if isinstance(claim, Curve):
        return claim.lines()
    far = claim.parameter**2 / 2 + _FARTHEST * claim.parameter
    epsilons = np.linspace(far, -far, _TANGENTS)
    return epsilons, np.asarray(claim.delta(epsilons), dtype=float)


def read_claim(text: str, numbers: Sequence[float] | None = None) -> Claim:
    """A claim about canaries from its text: those of `parse_claim`, and ``dpsgd:NOISE,RATE,STEPS``; `numbers` are its exact ones.

    Examples
    --------
    >>> read_claim("dpsgd:1.1,0.01,1000")
    DPSGD(noise_multiplier=1.1, sampling_probability=0.01, steps=1000)
    """
    kind, _, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
    if kind == TradeoffCurve.kind and numbers is not None:
        return TradeoffCurve(numbers[1::2], numbers[2::2], numbers[0])
    if kind != DPSGD.kind:
        return parse_claim(text) if numbers is None else exact_claim(text, numbers)
    try:
        noise, rate, steps = (float(part) for part in rest.split(",")) if numbers is None else numbers
    except ValueError:
        raise InvalidArgument(f"claim must have the form dpsgd:NOISE,RATE,STEPS, got {text!r}") from None
    return DPSGD(noise, rate, require_integer("steps", steps, "DPSGD", most=10**7))


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
