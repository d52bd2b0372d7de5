"""Law of the largest of several numbers with Laplace noise, in ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from flint import arb

from dpwitness.core.balls.ball import (
    Ball,
    Box,
    Span,
    endpoints,
    laplace_cdf,
    laplace_log_density,
    over,
)


def max_log_density(answers: Sequence[Ball], scale: Ball, boxes: Sequence[Box]) -> list[Ball]:
    """Return enclosures, over each box, of the log-density of the largest noisy answer."""
    return [_log_density(answers, scale, *box[0]) for box in boxes]


def _log_density(answers: Sequence[Ball], scale: Ball, low: float, high: float) -> Ball:
    """Enclose the log-density of the largest noisy answer over [low, high]: a sum over the winning
    index.
    """
    y = over(low, high)
    cdfs = [laplace_cdf((y - q) / scale) for q in answers]
    return (
        sum(
            (
                laplace_log_density(y - q, scale).exp() / f
                for q, f in zip(answers, cdfs, strict=True)
            ),
            arb(0),
        ).log()
        + math.prod(cdfs, start=arb(1)).log()
    )


def max_interval_mass(answers: Sequence[Ball], scale: Ball, low: float, high: float) -> Ball:
    """Return P(low < largest noisy answer <= high)."""

    def below(y: float) -> Ball:
        """Return P(largest noisy answer <= y)."""
        if math.isinf(y):
            return arb(1) if y > 0 else arb(0)
        return math.prod((laplace_cdf((y - q) / scale) for q in answers), start=arb(1))

    return below(high) - below(low) if low < high else arb(0)


def max_loss(
    first: Sequence[Ball], second: Sequence[Ball], scale: Ball, low: float, high: float
) -> Span:
    """Bound the log-ratio of the densities of the largest noisy answer, for answers `first` and
    `second`.

    The density is sum_i f_i prod_{j != i} F_j = prod F_j sum_i f_i / F_i. Let u = e^(-y / scale).
    Above an answer the hazard f/F of Laplace noise is 1 / (scale (2 e^((y - q) / scale) - 1));
    below an answer the hazard is 1 / scale. The density is therefore a ratio of polynomials in u.
    Below all answers of both lists the loss is constant, sum (q' - q) / scale. Above all answers,
    e^(y / scale) times the density is sum_i e^(q_i / scale) prod_{j != i} (1 - u e^(q_j / scale) /
    2) / (2 scale), which is evaluated on a ball in u.
    """
    edge_low = min(endpoints(q)[0] for q in [*first, *second])
    edge_high = max(endpoints(q)[1] for q in [*first, *second])
    if high <= edge_low:
        return endpoints(sum((b - a for a, b in zip(first, second, strict=True)), arb(0)) / scale)
    if low >= edge_high:
        u_high = (-arb(low) / scale).exp()
        u = (arb(0) if math.isinf(high) else (-arb(high) / scale).exp()).union(u_high)
        return endpoints(
            _scaled_tail_density(first, scale, u).log()
            - _scaled_tail_density(second, scale, u).log()
        )
    if math.isinf(low) or math.isinf(high):
        cuts = sorted({low, high, *(edge for edge in (edge_low, edge_high) if low < edge < high)})
        parts = [max_loss(first, second, scale, *ends) for ends in pairwise(cuts)]
        return min(a for a, _ in parts), max(b for _, b in parts)
    return endpoints(_log_density(first, scale, low, high) - _log_density(second, scale, low, high))


def _scaled_tail_density(answers: Sequence[Ball], scale: Ball, u: Ball) -> Ball:
    """Return sum_i e^(q_i / scale) prod_{j != i} (1 - u e^(q_j / scale) / 2), the scaled density
    above all answers.
    """
    weights = [(q / scale).exp() for q in answers]
    cdfs_above = [1 - u * w / 2 for w in weights]
    return sum(
        (
            w * math.prod((m for j, m in enumerate(cdfs_above) if j != i), start=arb(1))
            for i, w in enumerate(weights)
        ),
        arb(0),
    )
