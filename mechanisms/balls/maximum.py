"""The largest of several numbers with Laplace noise, in balls: who it is, and how large.

Between two neighbouring answers every distribution function is a + b t with t = e^(y / scale) or its inverse, so that products of them are
Laurent polynomials in t, which are integrated term by term.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from flint import arb

from dpwitness.mechanisms.balls.ball import Ball, Box, Span, ends, exponential_integral, laplace_log_density, product, span


def laplace_cdf(x: Ball) -> Ball:
    """P(Laplace(1) <= x): increasing, so that the ends of a ball give its span."""
    low, high = _cdf_at(x.lower()), _cdf_at(x.upper())
    return low if x.is_exact() else low.union(high)


def _cdf_at(x: Ball) -> Ball:
    if x <= 0:
        return x.exp() / 2
    if x >= 0:
        return 1 - (-x).exp() / 2
    return (-abs(x)).exp() / 2 if x.is_zero() else arb(0.5).union(_cdf_at(abs(x).upper())).union(1 - _cdf_at(abs(x).upper()))


def max_mass(answers: Sequence[Ball], winner: int, scale: Ball) -> Ball:
    """P(answers[winner] + noise is the largest)."""
    knots = sorted({float(q): q for q in answers}.values(), key=float)
    top = knots[-1]
    total = arb(0)
    for low, high in pairwise([None, *knots, None]):
        # coefficients of t^k, t = e^((y - top) / scale), k from -(number of answers below) on
        falling, rising, factor = [arb(1)], 0, arb(1)
        for j, q in enumerate(answers):
            above = low is not None and float(q) <= float(low)
            shift = ((q - top) / scale).exp()
            if j == winner:
                # density t^-1 e^(q / scale) / 2 above the answer, t e^(-q / scale) / 2 below it, per scale
                falling = [arb(0), *falling] if above else falling
                rising, factor = rising + (not above), factor * (shift if above else 1 / shift) / (2 * scale)
            elif above:
                falling = product(falling, [arb(1), -shift / 2])
            else:
                rising, factor = rising + 1, factor / shift / 2
        for k, c in enumerate(falling):
            if c.is_exact() and c == 0:
                continue
            ends_of = [None if x is None else x - top for x in (low, high)]
            total = total + factor * c * exponential_integral((rising - k) / scale, *ends_of)
    return total


def max_log_density(answers: Sequence[Ball], scale: Ball, boxes: Sequence[Box]) -> list[Ball]:
    """Log-density of the largest over each box: a sum over who it is."""
    return [_log_density(answers, scale, *box[0]) for box in boxes]


def _log_density(answers: Sequence[Ball], scale: Ball, low: float, high: float) -> Ball:
    if math.isinf(low) or math.isinf(high):
        return arb("nan")
    y = arb(low) if low == high else arb(low).union(arb(high))
    cdfs = [laplace_cdf((y - q) / scale) for q in answers]
    whole = math.prod(cdfs, start=arb(1))
    return sum((laplace_log_density(y - q, scale).exp() / f for q, f in zip(answers, cdfs, strict=True)), arb(0)).log() + whole.log()


def max_between(answers: Sequence[Ball], scale: Ball, low: float, high: float) -> Ball:
    """P(low < largest <= high)."""

    def below(y: float) -> Ball:
        if math.isinf(y):
            return arb(1) if y > 0 else arb(0)
        return math.prod((laplace_cdf((y - q) / scale) for q in answers), start=arb(1))

    return below(high) - below(low) if low < high else arb(0)


def max_loss(first: Sequence[Ball], second: Sequence[Ball], scale: Ball, low: float, high: float) -> Span:
    """Span of the log-ratio of the densities of the largest, answers `first` against `second`.

    The density is sum_i f_i prod_{j != i} F_j = prod F_j sum_i f_i / F_i. Above both the hazard f/F of Laplace noise is
    1 / (scale (2 e^((y - q) / scale) - 1)), below it is 1 / scale, so that with u = e^(-y / scale) all of it is a ratio of polynomials.
    Below all answers the loss is constant, sum (q' - q) / scale; above all of them, e^(y / scale) times the density is
    sum_i e^(q_i / scale) prod_{j != i} (1 - u e^(q_j / scale) / 2) / 2 scale: a ball in u.
    """
    edge_low = min(ends(q)[0] for q in [*first, *second])
    edge_high = max(ends(q)[1] for q in [*first, *second])
    if high <= edge_low:
        return ends(sum((b - a for a, b in zip(first, second, strict=True)), arb(0)) / scale)
    if low >= edge_high:
        u_high = (-arb(low) / scale).exp()
        u_low = arb(0) if math.isinf(high) else (-arb(high) / scale).exp()
        u = u_low.union(u_high)
        return ends(_far(first, scale, u).log() - _far(second, scale, u).log())
    if math.isinf(low) or math.isinf(high):
        inner_low, inner_high = max(low, edge_low), min(high, edge_high)
        parts = [max_loss(first, second, scale, inner_low, inner_high)]
        if low < edge_low:
            parts.append(max_loss(first, second, scale, low, edge_low))
        if high > edge_high:
            parts.append(max_loss(first, second, scale, edge_high, high))
        return min(a for a, _ in parts), max(b for _, b in parts)
    plain = _log_density(first, scale, low, high) - _log_density(second, scale, low, high)
    if low == high or any(low < float(q) < high for q in (*first, *second)):
        return span(plain)
    # mean value form: the slope, which is smooth between answers, times the distance to the middle
    middle, y = low / 2 + high / 2, arb(low).union(arb(high))
    at = _log_density(first, scale, middle, middle) - _log_density(second, scale, middle, middle)
    centred = at + (_slope(first, scale, y, middle) - _slope(second, scale, y, middle)) * (y - middle)
    (a, b), (c, d) = span(plain), span(centred)
    return max(a, c), min(b, d)


def _slope(answers: Sequence[Ball], scale: Ball, y: Ball, middle: float) -> Ball:
    """d/dy of the log-density, over a ball on one side of each answer: S + S'/S with S the sum of hazards h = f/F, h' = -h (h + 1/scale).

    Above an answer h = 1 / (scale (2 e^z - 1)); below it h is constant.
    """
    total, turn = arb(0), arb(0)
    for q in answers:
        if float(q) <= middle:
            hazard = 1 / (scale * (2 * ((y - q) / scale).exp() - 1))
            turn = turn - hazard * (hazard + 1 / scale)
        else:
            hazard = 1 / scale
        total = total + hazard
    return total + turn / total


def _far(answers: Sequence[Ball], scale: Ball, u: Ball) -> Ball:
    """Sum over i of e^(q_i / scale) prod_{j != i} (1 - u e^(q_j / scale) / 2)."""
    weights = [(q / scale).exp() for q in answers]
    misses = [1 - u * w / 2 for w in weights]
    return sum((w * math.prod((m for j, m in enumerate(misses) if j != i), start=arb(1)) for i, w in enumerate(weights)), arb(0))
