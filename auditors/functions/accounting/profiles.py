"""Exact privacy profiles and Rényi divergences of worst-case pairs, in ball arithmetic.

A profile belongs to one attainable pair of output laws (P, Q), and covers both orders of the pair.
The lower end of each ball is a rigorous lower bound on the figure of the mechanism, because the
pair is one of its pairs of neighboring datasets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Protocol

from flint import arb, fmpz

from dpwitness.core.balls.ball import Ball, laplace_mass, up

_MAX_TERMS = 20_000  # largest number of lattice points of a discrete law
_WIDTH = 18  # standard deviations beyond which the mass of a discrete law is left out: below 1e-70


class Profile(Protocol):
    """Privacy of one pair of output laws."""

    def delta(self, epsilon: Ball) -> Ball:
        """Enclose, or bound from below, the hockey-stick divergence at `epsilon` >= 0, the larger
        of both orders.
        """

    def renyi(self, order: Ball) -> Ball:
        """Enclose, or bound from below, the Rényi divergence of order > 1."""


class Unavailable(ArithmeticError):
    """Error: the exact figure is not known at these parameters."""


def positive_part(x: Ball) -> Ball:
    """Return max(x, 0)."""
    if x > 0:
        return x
    return arb(0).union(x.upper()) if x.upper() > 0 else arb(0)


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
        half, ratio = self.mu / 2, epsilon / self.mu
        return positive_part(normal_cdf(half - ratio) - epsilon.exp() * normal_cdf(-half - ratio))

    def renyi(self, order: Ball) -> Ball:
        return order * self.mu**2 / 2


@dataclass(frozen=True, slots=True)
class Laplace:
    """Profile of Laplace laws whose centers differ by `shift` scales (Mironov 2017,
    Proposition 6).
    """

    shift: Ball

    def delta(self, epsilon: Ball) -> Ball:
        return positive_part(1 - ((epsilon - self.shift) / 2).exp())

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

    def masses(self, low: Ball | None, high: Ball | None) -> tuple[Ball, Ball]:
        """Return the masses of (low, high] under the laws with center `shift` and 0."""
        a, b = -math.inf if low is None else float(low), math.inf if high is None else float(high)
        return laplace_mass(a, b, self.shift, arb(1)), laplace_mass(a, b, arb(0), arb(1))

    def output_with_loss(self, loss: float) -> float | None:
        """Return the output with this loss; None if the loss is not attained between
        the centers.
        """
        shift = float(self.shift)
        return (loss + shift) / 2 if -shift < loss < shift else None


@dataclass(frozen=True, slots=True)
class Composition:
    """Profile of the worst composition of (epsilon, delta)-private mechanisms.

    Each factor is randomized response that reveals its input with probability delta (Kairouz, Oh
    and Viswanath 2015, Theorem 3.3; Murtagh and Vadhan 2016).
    """

    factors: tuple[tuple[float, float], ...]

    def delta(self, epsilon: Ball) -> Ball:
        hidden = _product([1 - arb(delta) for _, delta in self.factors])
        ordinary = sum(
            (
                p * positive_part(-(epsilon - loss).expm1())
                for loss, p in _response_masses(
                    tuple(sorted(epsilon for epsilon, _ in self.factors))
                )
            ),
            arb(0),
        )
        return 1 - hidden * (1 - ordinary)

    def renyi(self, order: Ball) -> Ball:
        if any(delta > 0 for _, delta in self.factors):
            return arb("+inf")
        total = arb(0)
        for value, _ in self.factors:
            e = arb(value)
            total += (((order * e).exp() + ((1 - order) * e).exp()) / (1 + e.exp())).log()
        return total / (order - 1)


@lru_cache(8)
def _response_masses(epsilons: tuple[float, ...]) -> tuple[tuple[Ball, Ball], ...]:
    """Return the losses, and the masses under P, of composed randomized responses with these
    epsilons.
    """
    found: list[tuple[Ball, Ball]] = [(arb(0), arb(1))]
    for value, group in groupby(epsilons):
        count, e = len(list(group)), arb(value)
        if count * len(found) > _MAX_TERMS:
            raise Unavailable("too many different epsilons in one composition")
        log_total = count * (1 + e.exp()).log()
        part = [
            (
                (count - 2 * i) * e,
                arb(fmpz.bin_uiui(count, i)) * ((count - i) * e - log_total).exp(),
            )
            for i in range(count + 1)
        ]
        found = [(a + b, p * q) for a, p in found for b, q in part]
    return tuple(found)


def _product(values: Sequence[Ball]) -> Ball:
    return math.prod(values, start=arb(1))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Profile of discrete normal laws on the integers with centers 0 and 1 (Canonne, Kamath and
    Steinke 2020).
    """

    sigma: float

    def delta(self, epsilon: Ball) -> Ball:
        variance = arb(self.sigma) ** 2
        first = math.ceil(float((epsilon * variance).mid()) + 0.5 - 1e-6)
        terms = [
            positive_part(_weight(arb(x - 1), variance) - epsilon.exp() * _weight(arb(x), variance))
            for x in self._range(first)
        ]
        return sum(terms, arb(0)) / self._total(variance)

    def renyi(self, order: Ball) -> Ball:
        variance, middle = arb(self.sigma) ** 2, float(order.mid())
        first = math.floor(middle - _WIDTH * self.sigma)
        total = sum((_weight(x - order, variance) for x in self._range(first)), arb(0))
        return order / (2 * variance) + (total / self._total(variance)).log() / (order - 1)

    def _range(self, first: int) -> range:
        count = math.ceil(2 * _WIDTH * self.sigma) + 2
        if count > _MAX_TERMS:
            raise Unavailable("the discrete law has too many points")
        return range(first, first + count)

    def _total(self, variance: Ball) -> Ball:
        """Return the sum of all weights, an upper bound: the terms left out are at most those of
        two geometric series.
        """
        last = math.ceil(_WIDTH * self.sigma) + 1
        inner = 1 + 2 * sum((_weight(arb(x), variance) for x in range(1, last)), arb(0))
        ratio = (-(2 * arb(last) + 1) / (2 * variance)).exp()
        return inner + arb(0).union((2 * _weight(arb(last), variance) / (1 - ratio)).upper())


def _weight(x: Ball, variance: Ball) -> Ball:
    return (-(x**2) / (2 * variance)).exp()
