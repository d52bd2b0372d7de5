"""Exact privacy profiles and Rényi divergences of shifts of known noise, in ball arithmetic.

*Normal.* The loss is normal: delta(epsilon) = Q(epsilon/mu - mu/2) - e^epsilon Q(epsilon/mu +
mu/2), D_a = a mu^2 / 2 (Balle and Wang 2018; Mironov 2017), and the pair is mu-GDP by definition.

*Density proportional to exp(-|b|), d = 2, 3.* The loss at y is |y - c'| - |y - c|. Its level sets
are hyperbolas with foci c, c' at a distance s = 2 f. Use elliptic coordinates |y - c| + |y - c'| =
2 f cosh m and |y - c'| - |y - c| = s t, t in [-1, 1]. Their volume element is f^2 (cosh^2 m - t^2)
dm dt / sqrt(1 - t^2) in each of two half planes (d = 2). So the density of t is one integral in m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from flint import acb, arb

from dpwitness.core.balls.ball import Ball, laplace_mass, up


class Profile(Protocol):
    """Privacy of one pair of output laws."""

    def delta(self, epsilon: Ball) -> Ball:
        """Enclose, or bound from below, the hockey-stick divergence at `epsilon` >= 0, the larger
        one of (P, Q) and (Q, P).
        """

    def renyi(self, order: Ball) -> Ball:
        """Enclose, or bound from below, the Rényi divergence of order > 1."""


class ShiftProfile(Profile, Protocol):
    """Privacy of the laws of c + b and c' + b for one noise b, which is the same in both orders."""

    noise: ClassVar[str]  # name of the noise, for reports

    @property
    def supremum(self) -> Ball:
        """Enclose the largest privacy loss; not a number if nothing is known."""


def normal_cdf(x: Ball) -> Ball:
    """Return the distribution function of the standard normal law."""
    return (-x / arb(2).sqrt()).erfc() / 2


def _unbounded(shift: Ball) -> Ball:
    """Return the largest loss of noise whose loss is unbounded, unless the shift is zero."""
    return shift if shift.is_exact() and shift == 0 else arb("inf" if shift > 0 else "nan")


@dataclass(frozen=True, slots=True)
class GaussianProfile:
    """Profile of normal laws whose means differ by `mu` standard deviations (Balle and Wang 2018,
    Theorem 8; Mironov 2017).
    """

    noise: ClassVar[str] = "normal"

    mu: Ball

    @property
    def supremum(self) -> Ball:
        return _unbounded(self.mu)

    def delta(self, epsilon: Ball) -> Ball:
        if self.mu.is_exact() and self.mu == 0:
            return arb(0)
        half, ratio = self.mu / 2, epsilon / self.mu
        return (normal_cdf(half - ratio) - epsilon.exp() * normal_cdf(-half - ratio)).max(arb(0))

    def renyi(self, order: Ball) -> Ball:
        return order * self.mu**2 / 2


@dataclass(frozen=True, slots=True)
class LaplaceProfile:
    """Profile of Laplace laws whose centers differ by `shift` scales (Mironov 2017,
    Proposition 6).
    """

    noise: ClassVar[str] = "Laplace"

    shift: Ball

    @property
    def supremum(self) -> Ball:
        return self.shift

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


@dataclass(frozen=True, slots=True)
class Radial:
    """Profile of noise in R^d, d >= 2, with density proportional to exp(-|b|), whose centers differ
    by `shift`. Beyond d = 3 only the largest loss is used.
    """

    noise: ClassVar[str] = "gamma"

    shift: Ball
    dimension: int

    @property
    def supremum(self) -> Ball:
        return self.shift

    def delta(self, epsilon: Ball) -> Ball:
        if self.dimension > 3:
            return arb(0).union(-((epsilon - self.shift).min(arb(0))).expm1())
        if self.shift <= epsilon:
            return arb(0)
        return self._expectation(lambda loss: -(epsilon - loss).expm1(), epsilon / self.shift)

    def renyi(self, order: Ball) -> Ball:
        if self.dimension > 3:
            return arb(0).union(self.shift)
        moment = self._expectation(lambda loss: ((order - 1) * loss).exp(), arb(-1))
        return moment.log() / (order - 1)

    def _expectation(self, value: Callable[[Any], Any], start: Ball) -> Ball:
        """Return a ball around E_P value(L), restricted to losses L = s t with t >= `start`.

        With t = cos v, the density of v in (0, pi) is as follows.

        d = 2: f^2 / pi e^(f cos v) (A - cos^2 v K_0(f)). A is the integral over m > 0 of cosh^2 m
        e^(-f cosh m), which is (K_0 + K_2) / 2.

        d = 3: f^3 / 4 e^(f cos v) (A - cos^2 v B) sin v. A is the integral over m > 0 of sinh m
        cosh^2 m e^(-f cosh m), which is e^-f (1/f + 2/f^2 + 2/f^3). B is that of sinh m e^(-f cosh
        m), which is e^-f / f.
        """
        f, flat = self.shift / 2, self.dimension == 2
        if flat:
            a, b, factor = (f.bessel_k(0) + f.bessel_k(2)) / 2, f.bessel_k(0), f * f / arb.pi()
        else:
            decay = (-f).exp()
            a, b, factor = decay * (1 / f + 2 / f**2 + 2 / f**3), decay / f, f**3 / 4

        def density(v: Any, _: bool) -> Any:
            t = v.cos()
            weight = value(2 * f * t) * (f * t).exp() * (a - t * t * b)
            return weight if flat else weight * v.sin()

        return (acb.integral(density, acb(0), acb(start.min(arb(1)).acos())) * factor).real


@dataclass(frozen=True, slots=True)
class Singular:
    """Profile of noise in R^d, d >= 2, with density proportional to exp(-|b|) / |b|^(d-1): near the
    center of one law the other density is bounded, so that the loss is unbounded.
    """

    noise: ClassVar[str] = "singular"

    shift: Ball

    @property
    def supremum(self) -> Ball:
        return _unbounded(self.shift)

    def delta(self, epsilon: Ball) -> Ball:
        return arb(0).union(arb(1))

    def renyi(self, order: Ball) -> Ball:
        return arb("nan")
