"""One-dimensional laws in balls: Laplace, normal, and their rounded and truncated kin, and the methods that they give to mechanisms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb

from dpwitness.mechanisms.balls.ball import (
    Ball,
    Box,
    Span,
    ends,
    geometric_mass,
    laplace_log_density,
    laplace_mass,
    normal_mass,
    over,
    span,
)


class LineLaw(ABC):
    """A law on the line. Between two of one family the loss is monotone, so that the ends of a span give its span."""

    __slots__ = ()

    @abstractmethod
    def log_density(self, low: float, high: float) -> Ball:
        """Over [low, high]; where a value is listed twice, at it."""

    @abstractmethod
    def mass(self, low: float, high: float) -> Ball:
        """Of (low, high]."""

    @abstractmethod
    def loss(self, low: float, high: float, other: Any) -> Span:
        """Span over (low, high] of the log-ratio of this law's density to the other's."""


@dataclass(frozen=True, slots=True)
class LaplaceLaw(LineLaw):
    """center + Laplace(scale)."""

    center: Ball
    scale: Ball

    def log_density(self, low: float, high: float) -> Ball:
        return laplace_log_density(over(low, high) - self.center, self.scale) if math.isfinite(low) and math.isfinite(high) else arb("nan")

    def mass(self, low: float, high: float) -> Ball:
        return laplace_mass(low, high, self.center, self.scale)

    def loss(self, low: float, high: float, other: LaplaceLaw) -> Span:
        """(|y - c'| - |y - c|) / scale: constant beyond both centers, linear between. One scale, as both data sets have."""

        def at(y: float) -> Ball:
            if math.isinf(y):
                return (self.center - other.center) / self.scale * (1 if y > 0 else -1)
            return (abs(y - other.center) - abs(y - self.center)) / self.scale

        return span(at(low), at(high))


@dataclass(frozen=True, slots=True)
class NormalLaw(LineLaw):
    """N(center, sigma^2)."""

    center: Ball
    sigma: Ball

    def log_density(self, low: float, high: float) -> Ball:
        if math.isinf(low) or math.isinf(high):
            return arb("nan")
        z = (over(low, high) - self.center) / self.sigma
        return -z * z / 2 - (self.sigma * (2 * arb.pi()).sqrt()).log()

    def mass(self, low: float, high: float) -> Ball:
        return normal_mass(low, high, self.center, self.sigma)

    def loss(self, low: float, high: float, other: NormalLaw) -> Span:
        """Linear in y: (c - c') (2 y - c - c') / (2 sigma^2)."""
        shift = self.center - other.center
        if shift.is_exact() and shift == 0:
            return 0.0, 0.0

        def at(y: float) -> Span:
            if math.isinf(y):
                rising = shift > 0 if y > 0 else shift < 0
                falling = shift < 0 if y > 0 else shift > 0
                return (math.inf, math.inf) if rising else (-math.inf, -math.inf) if falling else (-math.inf, math.inf)
            return ends(shift * (2 * arb(y) - self.center - other.center) / (2 * self.sigma * self.sigma))

        return _hull(at(low), at(high))


class _Lattice(LineLaw):
    """A law on the multiples k of a step, with loss monotone in k."""

    __slots__ = ()

    step: float

    @abstractmethod
    def between(self, first: float, last: float) -> Ball:
        """P(first <= k <= last)."""

    def points(self, low: float, high: float) -> tuple[float, float] | None:
        """First and last k in (low, high], or in the point low = high. A step is a power of two or 1, so that the quotients are exact."""
        low, high = low / self.step, high / self.step
        if low == high:
            return (low, high) if math.isfinite(low) and low == math.floor(low) else None
        first = math.floor(low) + 1.0 if math.isfinite(low) else low
        last = float(math.floor(high)) if math.isfinite(high) else high
        return (first, last) if first <= last else None

    def log_density(self, low: float, high: float) -> Ball:
        """Log-mass of the one multiple in the box; of none, minus infinity; over several, their hull is left open."""
        found = self.points(low, high)
        if found is None:
            return arb("-inf")
        mass = self.between(*found)
        if mass.is_exact() and mass == 0:
            return arb("-inf")
        return mass.log() if found[0] == found[1] else arb("nan")

    def mass(self, low: float, high: float) -> Ball:
        found = self.points(low, high)
        return arb(0) if found is None else self.between(*found)

    def loss(self, low: float, high: float, other: Any) -> Span:
        found = self.points(low, high)
        if found is None:
            return 0.0, 0.0
        return _hull(*(self.loss_at(k, other) for k in found))

    def loss_at(self, k: float, other: Any) -> Span:
        """At one multiple."""
        here, there = self.between(k, k), other.between(k, k)
        if here > 0 and there > 0:
            return ends(here.log() - there.log())
        if there.is_exact() and there == 0:
            return (math.inf, math.inf) if here > 0 else (-math.inf, math.inf)
        return (-math.inf, -math.inf) if here.is_exact() and here == 0 and there > 0 else (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class GeometricLaw(_Lattice):
    """clamp(center + G1 - G2, low, high) steps, P(G >= k) = e^(-rate k); `center` a whole number."""

    center: float
    rate: Ball
    step: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    def between(self, first: float, last: float) -> Ball:
        first, last = max(first, self.low), min(last, self.high)
        if first > last:
            return arb(0)
        first = -math.inf if first == self.low else first - self.center
        last = math.inf if last == self.high else last - self.center
        return geometric_mass(first, last, self.rate)

    def loss_at(self, k: float, other: GeometricLaw) -> Span:
        """Beyond both centers of untruncated laws rate (|k - c'| - |k - c|) is constant; the masses say the rest."""
        if math.isinf(k):
            return ends(self.rate * (self.center - other.center) * (1 if k > 0 else -1))
        if math.isinf(self.low) and math.isinf(self.high):
            return ends(self.rate * (abs(k - other.center) - abs(k - self.center)))
        return _Lattice.loss_at(self, k, other)


@dataclass(frozen=True, slots=True)
class RoundedNormalLaw(_Lattice):
    """center + N(0, sigma^2) rounded to the step, in steps: P(k) = Phi(k + 1/2 - center) - Phi(k - 1/2 - center), over sigma/step."""

    center: float
    sigma: Ball
    step: float

    def between(self, first: float, last: float) -> Ball:
        return normal_mass((first - 0.5) * self.step, (last + 0.5) * self.step, arb(self.center) * self.step, self.sigma)

    def loss_at(self, k: float, other: RoundedNormalLaw) -> Span:
        """Between the ratios of the unrounded densities at k -+ 1/2, as the ratio of masses is an average of theirs."""
        if self.center == other.center:
            return 0.0, 0.0
        if math.isinf(k):
            sign = math.copysign(1.0, k) * math.copysign(1.0, self.center - other.center)
            return (math.inf, math.inf) if sign > 0 else (-math.inf, -math.inf)
        wide = NormalLaw(arb(self.center) * self.step, self.sigma)
        far = NormalLaw(arb(other.center) * self.step, other.sigma)
        outer = wide.loss((k - 0.5) * self.step, (k + 0.5) * self.step, far)
        here, there = self.between(k, k), other.between(k, k)
        if not (here > 0 and there > 0):
            return outer
        low, high = ends(here.log() - there.log())
        return max(low, outer[0]), min(high, outer[1])


@dataclass(frozen=True, slots=True)
class Clamped(LineLaw):
    """A law with a density, pushed into [-radius, radius]: its ends have the masses beyond, as points of their own."""

    law: LineLaw
    radius: float

    def log_density(self, low: float, high: float) -> Ball:
        if low == high and abs(low) >= self.radius:
            return self.mass(low, high).log() if abs(low) == self.radius else arb("-inf")
        return self.law.log_density(low, high) if abs(low) <= self.radius and abs(high) <= self.radius else arb("nan")

    def mass(self, low: float, high: float) -> Ball:
        """Of a point, low = high, what it has by itself; of an interval, what lies in it without the two points."""
        if low == high:
            if abs(low) != self.radius:
                return arb(0)
            return self.law.mass(low, math.inf) if low > 0 else self.law.mass(-math.inf, low)
        low, high = max(low, -self.radius), min(high, self.radius)
        return self.law.mass(low, high) if low < high else arb(0)

    def loss(self, low: float, high: float, other: Clamped) -> Span:
        if low == high and abs(low) == self.radius:
            return ends(self.mass(low, high).log() - other.mass(low, high).log())
        low, high = max(low, -self.radius), min(high, self.radius)
        return self.law.loss(low, high, other.law) if low <= high else (0.0, 0.0)


class BallsOnLine(ABC):
    """The optional powers of a mechanism whose output is one number of a `LineLaw`."""

    __slots__ = ()

    @abstractmethod
    def _line_law(self, dataset: Any) -> LineLaw:
        """The law on `dataset`."""

    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Enclosures of the log-density, or log-mass, over each box."""
        law = self._line_law(dataset)
        return [law.log_density(*box[0]) for box in boxes]

    def mass_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Mass of each (low, high]."""
        law = self._line_law(dataset)
        return [law.mass(*box[0]) for box in boxes]

    def loss_ball(self, boxes: Sequence[Box], d1: Any, d0: Any) -> list[Span]:
        """Span of the privacy loss over each (low, high]."""
        first, second = self._line_law(d1), self._line_law(d0)
        return [first.loss(*box[0], second) for box in boxes]


def _hull(*spans: Span) -> Span:
    return min(low for low, _ in spans), max(high for _, high in spans)
