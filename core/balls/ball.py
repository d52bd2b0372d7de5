"""Ball arithmetic: building blocks of the methods by which mechanisms enclose their own output
laws.

`log_density_ball`, `mass_ball`, `loss_ball` and `tail_ball` of the mechanisms are built from the
functions here. Every operation on a ball rounds outward (Johansson 2017, Arb). A float parameter is
read as the exact rational number that the float represents. A statement about a law in real
arithmetic implies nothing about the low bits of a floating-point sampler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from flint import arb

Ball: TypeAlias = arb
# two float endpoints, rounded outward; unlike the endpoints of a ball, either may be infinite
Span: TypeAlias = tuple[float, float]
Box: TypeAlias = Sequence[Span]  # one span per column of the output

PRECISION = 192  # bits: differences of masses near 1 stay exact to 1e-57


def endpoints(ball: Ball) -> Span:
    """Return float endpoints of a ball, rounded outward.

    A ball that is not a number gives the entire real line. A ball at plus or minus infinity gives a
    single infinite point.
    """
    if ball.is_nan():
        return -math.inf, math.inf
    if not ball.is_finite():
        return (
            (math.inf, math.inf)
            if ball > 0
            else (-math.inf, -math.inf)
            if ball < 0
            else (-math.inf, math.inf)
        )
    low, high = down(ball.lower()), up(ball.upper())
    return max(low, 0.0) if ball >= 0 else low, min(high, 0.0) if ball <= 0 else high


def span(*values: Ball) -> Span:
    """Return float endpoints of the hull of several balls."""
    bounds = [endpoints(value) for value in values]
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def over(low: float | Ball, high: float | Ball) -> Ball:
    """Return a ball that contains the interval [low, high]; not a number if it is unbounded."""
    first, last = arb(low), arb(high)
    if not (first.is_finite() and last.is_finite()):
        return arb("nan")
    return first if first == last else first.union(last)


def log_ratio_span(first: Ball, second: Ball) -> Span:
    """Return the span of a difference of log-densities, either of which may be minus infinity."""
    if first.is_finite() and second.is_finite():
        return endpoints(first - second)
    if first.is_finite() and not second.is_nan() and second < 0:
        return math.inf, math.inf
    if second.is_finite() and not first.is_nan() and first < 0:
        return -math.inf, -math.inf
    return -math.inf, math.inf


def softmax(logits: Sequence[Ball]) -> list[Ball]:
    """Return log-probabilities: `logits` minus the logarithm of their normalizing sum.

    No maximum is subtracted first, since balls do not overflow.
    """
    total = sum((x.exp() for x in logits), arb(0)).log()
    return [x - total for x in logits]


def log_mass_of_index(logs: Sequence[Ball], boxes: Sequence[Box]) -> list[Ball]:
    """Return the log-mass of the index that each box names; minus infinity for a value that is not
    an index.

    `logs` holds the log-masses of the indices 0, 1, .... Each box has one column and contains a
    single point.
    """
    return [
        logs[int(y)] if y == math.floor(y) and 0 <= y < len(logs) else arb("-inf")
        for y in [box[0][0] for box in boxes]
    ]


class EnclosureUnavailable(ArithmeticError):
    """Error: a mechanism cannot enclose its law with these parameters or on this dataset."""


class FiniteSupport:
    """Mixin for a mechanism whose `support` method lists all possible outputs, so that no mass lies
    outside.
    """

    __slots__ = ()

    def tail_ball(self, box: Box | None, dataset: Any) -> Ball:
        """Return the mass outside the support, which is zero; `box` is ignored."""
        return arb(0)


def laplace_log_density(x: Ball, scale: Ball) -> Ball:
    """Return the log-density at `x` of Laplace noise with this scale, centered at 0."""
    return -abs(x) / scale - (2 * scale).log()


def laplace_cdf(x: Ball) -> Ball:
    """Return P(Laplace(1) <= x); the function is increasing, so the ends of the ball give the
    enclosure.
    """
    low, high = (
        end.exp() / 2 if end <= 0 else 1 - (-end).exp() / 2 for end in (x.lower(), x.upper())
    )
    return low if x.is_exact() else low.union(high)


def laplace_mass(low: float | Ball, high: float | Ball, center: Ball, scale: Ball) -> Ball:
    """Return P(low < center + Laplace(scale) <= high).

    The mass is computed from the smaller tails, so that little precision cancels.
    """
    return _between(arb(low), arb(high), center, lambda x: (-x / scale).exp() / 2)


def normal_mass(low: float | Ball, high: float | Ball, center: Ball, sigma: Ball) -> Ball:
    """Return P(low < center + N(0, sigma^2) <= high).

    The mass is computed from the smaller tails, so that little precision cancels.
    """
    root = sigma * arb(2).sqrt()
    return _between(arb(low), arb(high), center, lambda x: (x / root).erfc() / 2)


def _between(low: Ball, high: Ball, center: Ball, tail: Callable[[Ball], Ball]) -> Ball:
    """Return the mass of (low, high] under a law symmetric about `center`; P(noise > x) = tail(x)
    for x >= 0. Either end may be infinite.
    """
    if high <= low:
        return arb(0)
    # the masses beyond each end, if the center lies between the ends
    left = arb(0) if low == -math.inf else tail(center - low)
    right = arb(0) if high == math.inf else tail(high - center)
    if low >= center:
        return tail(low - center) - right
    if high <= center:
        return tail(center - high) - left
    # The center lies inside, or the ball is too wide to tell on which side of an endpoint it lies.
    # erfc is correct on both sides, but an exponential tail is correct on its own side only: take
    # the union of both formulas.
    if not low <= center:
        left = left.union(1 - tail(low - center))
    if not high >= center:
        right = right.union(1 - tail(center - high))
    return 1 - left - right


def geometric_mass(first: float, last: float, rate: Ball) -> Ball:
    """Return P(first <= G1 - G2 <= last) for two-sided geometric noise; `first` and `last` are
    integers or infinite.

    The tail is P(G1 - G2 >= k) = e^(-rate k) / (1 + e^-rate) for k > 0.
    """
    denominator = 1 + (-rate).exp()

    def tail(k: float) -> Ball:
        """Return P(G1 - G2 >= k) for k >= 1."""
        return arb(0) if k == math.inf else (-rate * k).exp() / denominator

    if first > last:
        return arb(0)
    if first >= 1:
        return tail(first) - tail(last + 1)
    if last <= -1:
        return tail(-last) - tail(1 - first)
    return 1 - tail(last + 1) - tail(1 - first)


def product(first: Sequence[Ball], second: Sequence[Ball]) -> list[Ball]:
    """Return the coefficients of the product of two polynomials, given by their coefficients."""
    out = [arb(0)] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            out[i + j] = out[i + j] + a * b
    return out


def exponential_integral(rate: Ball, low: Ball | None, high: Ball | None) -> Ball:
    """Return the integral of e^(rate z) over [low, high].

    None as an endpoint means the infinity at which the integrand vanishes. `rate` may be 0 if both
    endpoints are finite.
    """
    if low is None:
        return arb(0) if high is None else (rate * high).exp() / rate
    if high is None:
        return -(rate * low).exp() / rate
    return (rate * low).exp() * (high - low) * _expm1_over(rate * (high - low))


def _expm1_over(x: Ball) -> Ball:
    """Return (e^x - 1) / x; near 0 a truncated Taylor series is used.

    After n terms the truncation error is at most |x|^n e^|x| / (n + 1)!, which is added to the
    ball.
    """
    if abs(x) > 1e-6:
        return x.expm1() / x
    total, term, n = arb(0), arb(1), 1
    while n < 24:
        total, term, n = total + term, term * x / (n + 1), n + 1
    remainder = (abs(term).upper() * abs(x).upper().exp()).upper()
    return total + remainder.union(-remainder)


def down(x: Ball) -> float:
    """Return a float that is at most every number in the ball."""
    nearest = float(x)
    return nearest if arb(nearest) <= x else math.nextafter(nearest, -math.inf)


def up(x: Ball) -> float:
    """Return a float that is at least every number in the ball."""
    nearest = float(x)
    return nearest if arb(nearest) >= x else math.nextafter(nearest, math.inf)
