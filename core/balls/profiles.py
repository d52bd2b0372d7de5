"""Exact privacy profiles and Rényi divergences of a shift in normal and in Laplace noise, in ball
arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from flint import arb

from dpwitness.core.balls.ball import Ball, laplace_mass, up


class Profile(Protocol):
    """Privacy of one pair of output laws."""

    def delta(self, epsilon: Ball) -> Ball:
        """Enclose, or bound from below, the hockey-stick divergence at `epsilon` >= 0, the larger
        of both orders.
        """

    def renyi(self, order: Ball) -> Ball:
        """Enclose, or bound from below, the Rényi divergence of order > 1."""


def normal_cdf(x: Ball) -> Ball:
    """Return the distribution function of the standard normal law."""
    return (-x / arb(2).sqrt()).erfc() / 2


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Profile of normal laws whose means differ by `mu` standard deviations (Balle and Wang 2018,
    Theorem 8; Mironov 2017).
    """

    mu: Ball

    def delta(self, epsilon: Ball) -> Ball:
        if self.mu.is_exact() and self.mu == 0:
            return arb(0)
        half, ratio = self.mu / 2, epsilon / self.mu
        difference = normal_cdf(half - ratio) - epsilon.exp() * normal_cdf(-half - ratio)
        return difference.max(arb(0))

    def renyi(self, order: Ball) -> Ball:
        return order * self.mu**2 / 2


@dataclass(frozen=True, slots=True)
class Laplace:
    """Profile of Laplace laws whose centers differ by `shift` scales (Mironov 2017,
    Proposition 6).
    """

    shift: Ball

    def delta(self, epsilon: Ball) -> Ball:
        # 0 from epsilon = shift on; increasing in the shift
        return -((epsilon - self.shift) / 2).min(arb(0)).expm1()

    def renyi(self, order: Ball) -> Ball:
        a, s = order, self.shift
        return ((a * ((a - 1) * s).exp() + (a - 1) * (-a * s).exp()) / (2 * a - 1)).log() / (a - 1)

    @property
    def lowest_loss(self) -> Ball:
        """Infimum of the privacy loss."""
        return -self.shift

    @property
    def edges(self) -> tuple[float, ...]:
        """Outputs beyond which the privacy loss is constant: the two centers."""
        return 0.0, up(self.shift)

    def masses(self, low: float, high: float) -> tuple[Ball, Ball]:
        """Return the masses of (low, high] under the laws with center `shift` and 0."""
        one = arb(1)
        return laplace_mass(low, high, self.shift, one), laplace_mass(low, high, arb(0), one)

    def output_with_loss(self, loss: float) -> float | None:
        """Return the output with this loss; None if the loss is not attained between
        the centers.
        """
        shift = float(self.shift)
        return (loss + shift) / 2 if -shift < loss < shift else None
