"""Shifts of known noise in closed form, in balls.

The noise is Laplace, normal, or has density exp(-|b|) in the plane and in space.

*Normal.* The loss is normal: delta(epsilon) = Q(epsilon/mu - mu/2) - e^epsilon Q(epsilon/mu +
mu/2), D_a = a mu^2 / 2 (Balle and Wang 2018; Mironov 2017), and the pair is mu-GDP by definition.

*Density proportional to exp(-|b|), d = 1, 2, 3.* The loss at y is |y - c'| - |y - c|. Its level
sets are hyperbolas with foci c, c' at a distance s = 2 f. Use elliptic coordinates |y - c| + |y -
c'| = 2 f cosh m and |y - c'| - |y - c| = s t, t in [-1, 1]. Their volume element is f^2 (cosh^2 m
- t^2) dm dt / sqrt(1 - t^2) in each of two half planes (d = 2). So the density of t is one
integral in m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flint import acb, arb

from dpwitness.auditors.density.proved.cells import Side
from dpwitness.core.balls.ball import Ball, Span, endpoints
from dpwitness.core.balls.law import Shift


@dataclass(frozen=True, slots=True)
class ShiftDivergences(Side):
    """Divergences of a shift in known noise, in closed form. Both orders of the pair
    are equivalent.
    """

    shift: Shift

    @property
    def normal(self) -> bool:
        """Return whether the noise is normal."""
        return self.shift.law == "normal"

    @property
    def mu(self) -> Span | None:
        """Enclose the GDP parameter of a normal shift; None for other noise."""
        return endpoints(self.shift.size) if self.normal else None

    def hockey_stick(self, epsilon: float, relative: float = 1e-7, absolute: float = 0.0) -> Span:
        """Enclose the hockey-stick divergence delta(epsilon)."""
        return endpoints(self._delta(arb(epsilon)))

    def supremum(self) -> Span:
        """Enclose the largest loss."""
        if self.shift.size.is_exact() and self.shift.size == 0:
            return 0.0, 0.0
        # if the noise density is unbounded at 0, so is the loss: near the center of one law the
        # other density is bounded
        positive_shift = self.shift.size > 0
        return (
            (math.inf if positive_shift else 0.0, math.inf)
            if self.shift.law in ("normal", "radius")
            else endpoints(self.shift.size)
        )

    def epsilon(self, delta: float, relative: float = 1e-9, edge: float | None = None) -> Span:
        """Enclose the smallest epsilon with delta(epsilon) <= delta. The closed form is cheap."""
        return Side.epsilon(self, delta, relative, edge)

    def renyi(self, order: float, relative: float = 1e-7) -> Span:
        """Enclose the Renyi divergence of this order."""
        size, a = self.shift.size, arb(order)
        if self.normal:
            return endpoints(a * size * size / 2)
        if self.shift.law == "Laplace":
            first, second = (
                a / (2 * a - 1) * ((a - 1) * size).exp(),
                (a - 1) / (2 * a - 1) * (-a * size).exp(),
            )
            return endpoints((first + second).log() / (a - 1))
        if self.shift.law == "radius" or self.shift.dimension > 3:
            return 0.0, self.supremum()[1]
        return endpoints(self._expectation(lambda loss: ((a - 1) * loss).exp()).log() / (a - 1))

    def concentrated(self) -> Span:
        """Enclose the supremum of D_a / a over a > 1."""
        if self.normal:
            return endpoints(self.shift.size * self.shift.size / 2)
        return Side.concentrated(self)

    def _delta(self, epsilon: Ball) -> Ball:
        """Return a ball around delta(epsilon)."""
        size = self.shift.size
        if self.shift.law == "radius" or (self.shift.dimension > 3 and not self.normal):
            return arb(0).union(
                arb(1) if self.shift.law == "radius" else -((epsilon - size).min(arb(0))).expm1()
            )
        if self.normal:
            if size.is_exact() and size == 0:
                return arb(0)
            near, far = epsilon / size - size / 2, epsilon / size + size / 2
            return _normal_tail(near) - epsilon.exp() * _normal_tail(far)
        if self.shift.law == "Laplace":
            # 1 - e^((epsilon - s) / 2) up to epsilon = s and 0 beyond, monotone in s
            return -(((epsilon - size) / 2).min(arb(0))).expm1()
        if size <= epsilon:
            return arb(0)
        return self._expectation(lambda loss: -(epsilon - loss).expm1(), epsilon / size)

    def _expectation(self, value: Callable[[Any], Any], start: Ball | None = None) -> Ball:
        """Return a ball around E_P value(L), restricted to losses L = s t with t >= `start`.

        d = 2, t = cos v: the density of v in (0, pi) is f^2 / pi e^(f cos v) (A - cos^2 v
        K_0(f)). A is the integral over m > 0 of cosh^2 m e^(-f cosh m), which is (K_0 + K_2) / 2.

        d = 3: the density of t in (-1, 1) is f^3 / 4 e^(f t) (A - t^2 B). A is the integral over
        m > 0 of sinh m cosh^2 m e^(-f cosh m), which is e^-f (1/f + 2/f^2 + 2/f^3). B is that of
        sinh m e^(-f cosh m), which is e^-f / f.
        """
        f = self.shift.size / 2
        if self.shift.dimension == 2:
            k0, k2 = f.bessel_k(0), f.bessel_k(2)
            a, b, factor = (k0 + k2) / 2, k0, f * f / arb.pi()
            top = arb.pi() if start is None else start.acos()

            def planar(v: Any, _: bool) -> Any:
                t = v.cos()
                return value(2 * f * t) * (f * t).exp() * (a - t * t * b)

            return (acb.integral(planar, acb(0), acb(top)) * factor).real
        decay = (-f).exp()
        a, b, factor = decay * (1 / f + 2 / f**2 + 2 / f**3), decay / f, f**3 / 4

        def solid(t: Any, _: bool) -> Any:
            return value(2 * f * t) * (f * t).exp() * (a - t * t * b)

        return (acb.integral(solid, acb(-1 if start is None else start), acb(1)) * factor).real


def _normal_tail(x: Ball) -> Ball:
    """Return the upper tail Q(x) of the standard normal law."""
    return (x / arb(2).sqrt()).erfc() / 2
