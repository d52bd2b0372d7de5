"""Ball arithmetic for mechanisms that enclose their own laws: what `log_density_ball` and the methods beside it are made of.

Every operation on a ball rounds outwards (Johansson 2017, Arb). A parameter that is a float is the exact rational number that it is. What
holds for a law in real arithmetic says nothing of the low bits of a sampler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from flint import arb

Ball: TypeAlias = arb
Span: TypeAlias = tuple[float, float]  # two floats, rounded outwards; either may be infinite, as the end of no ball can be
Box: TypeAlias = Sequence[Span]  # one span a column of the output

PRECISION = 192  # bits: differences of masses near 1 stay exact to 1e-57


def ends(ball: Ball) -> Span:
    """Float endpoints of a ball, rounded outwards; a ball that is no number is the whole line, an infinite one a point."""
    if ball.is_nan():
        return -math.inf, math.inf
    if not ball.is_finite():
        return (math.inf, math.inf) if ball > 0 else (-math.inf, -math.inf) if ball < 0 else (-math.inf, math.inf)
    low, high = down(ball.lower()), up(ball.upper())
    return max(low, 0.0) if ball >= 0 else low, min(high, 0.0) if ball <= 0 else high


def span(*values: Ball) -> Span:
    """Hull of several balls."""
    found = [ends(value) for value in values]
    return min(low for low, _ in found), max(high for _, high in found)


def over(low: float, high: float) -> Ball:
    """A ball around [low, high], both finite."""
    return arb(low) if low == high else arb(low).union(arb(high))


def log_sum(logs: Sequence[Ball]) -> Ball:
    """log of the sum of exp: balls do not overflow."""
    return sum((x.exp() for x in logs), arb(0)).log()


def softmax(logits: Sequence[Ball]) -> list[Ball]:
    """Log-probabilities proportional to exp(logits)."""
    total = log_sum(logits)
    return [x - total for x in logits]


def pick(logs: Sequence[Ball], boxes: Sequence[Box]) -> list[Ball]:
    """Log-masses of the indices 0, 1, ... looked up at boxes of one point and one column; minus infinity elsewhere."""
    rows = [box[0][0] for box in boxes]
    return [logs[int(y)] if y == math.floor(y) and 0 <= y < len(logs) else arb("-inf") for y in rows]


class NotEnclosed(ArithmeticError):
    """A mechanism offers no balls with these parameters or on this dataset."""


class Listed:
    """A mechanism whose `support` lists every outcome: nothing lies outside."""

    __slots__ = ()

    def tail_ball(self, box: Box | None, dataset: Any) -> Ball:
        """Mass outside of the support (no box is asked about)."""
        return arb(0)


def laplace_log_density(x: Ball, scale: Ball) -> Ball:
    """Of Laplace noise around 0."""
    return -abs(x) / scale - (2 * scale).log()


def laplace_mass(low: float, high: float, center: Ball, scale: Ball) -> Ball:
    """P(low < center + Laplace(scale) <= high), from the smaller tails."""
    return _between(low, high, center, lambda x: (-x / scale).exp() / 2)


def normal_mass(low: float, high: float, center: Ball, sigma: Ball) -> Ball:
    """P(low < center + N(0, sigma^2) <= high), from the smaller tails."""
    root = sigma * arb(2).sqrt()
    return _between(low, high, center, lambda x: (x / root).erfc() / 2)


def _between(low: float, high: float, center: Ball, tail) -> Ball:  # type: ignore[no-untyped-def]
    """Mass of (low, high] under a symmetric law with P(noise > x) = tail(x) for x >= 0."""
    if not low < high:
        return arb(0)

    def above(x: float) -> Ball:
        return arb(0) if x == math.inf else tail(arb(x) - center)

    def below(x: float) -> Ball:
        return arb(0) if x == -math.inf else tail(center - arb(x))

    if low > -math.inf and arb(low) >= center:
        return above(low) - above(high)
    if high < math.inf and arb(high) <= center:
        return below(high) - below(low)
    # the center lies between, or a ball hides on which side: erfc knows both; an exponential tail serves its own side alone
    left, right = below(low), above(high)
    if low > -math.inf and not arb(low) <= center:
        left = left.union(1 - tail(arb(low) - center))
    if high < math.inf and not arb(high) >= center:
        right = right.union(1 - tail(center - arb(high)))
    return 1 - left - right


def whole_numbers(low: float, high: float) -> tuple[float, float] | None:
    """First and last whole number in (low, high], None where there is none."""
    first, last = math.floor(low) + 1.0 if math.isfinite(low) else low, math.floor(high) * 1.0 if math.isfinite(high) else high
    return (first, last) if first <= last else None


def geometric_mass(first: float, last: float, rate: Ball) -> Ball:
    """P(first <= G1 - G2 <= last) for whole numbers or infinities; P(G1 - G2 >= k) = e^(-rate k) / (1 + e^-rate) for k > 0."""
    top = 1 + (-rate).exp()

    def tail(k: float) -> Ball:  # P(G1 - G2 >= k), k >= 1
        return arb(0) if k == math.inf else (-rate * k).exp() / top

    if first > last:
        return arb(0)
    if first >= 1:
        return tail(first) - tail(last + 1)
    if last <= -1:
        return tail(-last) - tail(1 - first)
    return 1 - tail(last + 1) - tail(1 - first)


def product(first: Sequence[Ball], second: Sequence[Ball]) -> list[Ball]:
    """Coefficients of the product of two polynomials."""
    out = [arb(0)] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            out[i + j] = out[i + j] + a * b
    return out


def exponential_integral(rate: Ball, low: Ball | None, high: Ball | None) -> Ball:
    """Integral of e^(rate z) over [low, high]; None stands for the infinity at which it vanishes. `rate` may be 0 where both are finite."""
    if low is None:
        return arb(0) if high is None else (rate * high).exp() / rate
    if high is None:
        return -(rate * low).exp() / rate
    x = rate * (high - low)
    return (rate * low).exp() * (high - low) * _expm1_over(x)


def _expm1_over(x: Ball) -> Ball:
    """(e^x - 1) / x; where x is small, or may be 0, by its series: what is left out of it is at most |x|^n e^|x| / (n + 1)!."""
    if abs(x) > 1e-6:
        return x.expm1() / x
    total, term, n = arb(0), arb(1), 1
    while n < 24:
        total, term, n = total + term, term * x / (n + 1), n + 1
    rest = (abs(term).upper() * abs(x).upper().exp()).upper()
    return total + rest.union(-rest)


def down(x: Ball) -> float:
    """A float no larger than any number in the ball."""
    near = float(x)
    return near if arb(near) <= x else math.nextafter(near, -math.inf)


def up(x: Ball) -> float:
    """A float no smaller than any number in the ball."""
    near = float(x)
    return near if arb(near) >= x else math.nextafter(near, math.inf)
