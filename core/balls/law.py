"""One-dimensional output laws in ball arithmetic, and the enclosure methods that they give to
mechanisms.

The laws are Laplace, normal, two-sided geometric and rounded normal noise, each also clamped to an
interval.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb

from dpwitness.core.balls.ball import (
    Ball,
    Box,
    Span,
    endpoints,
    geometric_mass,
    laplace_log_density,
    laplace_mass,
    log_ratio_span,
    normal_mass,
    over,
    span,
)


class LineLaw(ABC):
    """Base class of the laws on the real line.

    Between two laws of one family the privacy loss is monotone, so that the losses at the two ends
    of an interval bound the loss inside.
    """

    __slots__ = ()

    @abstractmethod
    def log_density(self, low: float, high: float) -> Ball:
        """Return an enclosure of the log-density over [low, high], or at the point low = high."""

    @abstractmethod
    def mass(self, low: float, high: float) -> Ball:
        """Return the mass of (low, high]."""

    @abstractmethod
    def loss(self, low: float, high: float, other: Any) -> Span:
        """Return float bounds, over (low, high], on the log-ratio of this law's density to the
        density of `other`.
        """


@dataclass(frozen=True, slots=True)
class LaplaceLaw(LineLaw):
    """The law of center + Laplace(scale)."""

    center: Ball
    scale: Ball

    def log_density(self, low: float | Ball, high: float | Ball) -> Ball:
        return laplace_log_density(over(low, high) - self.center, self.scale)

    def mass(self, low: float | Ball, high: float | Ball) -> Ball:
        return laplace_mass(low, high, self.center, self.scale)

    def loss(self, low: float, high: float, other: LaplaceLaw) -> Span:
        """Bound (|y - c'| - |y - c|) / scale over (low, high].

        The loss is constant beyond both centers and linear between them. Both laws have the same
        scale.
        """

        def at(y: float) -> Ball:
            """Return the loss at `y`, which may be infinite."""
            if math.isinf(y):
                return (self.center - other.center) / self.scale * (1 if y > 0 else -1)
            return (abs(y - other.center) - abs(y - self.center)) / self.scale

        return span(at(low), at(high))


@dataclass(frozen=True, slots=True)
class NormalLaw(LineLaw):
    """The law N(center, sigma^2)."""

    center: Ball
    sigma: Ball

    def log_density(self, low: float | Ball, high: float | Ball) -> Ball:
        z = (over(low, high) - self.center) / self.sigma
        return -z * z / 2 - (self.sigma * (2 * arb.pi()).sqrt()).log()

    def mass(self, low: float | Ball, high: float | Ball) -> Ball:
        return normal_mass(low, high, self.center, self.sigma)

    def loss(self, low: float, high: float, other: NormalLaw) -> Span:
        """Bound the loss (c - c') (2 y - c - c') / (2 sigma^2) over (low, high]; the loss is linear
        in y, which may be infinite.
        """
        shift = self.center - other.center
        if shift.is_exact() and shift == 0:
            return 0.0, 0.0
        slope = shift / (self.sigma * self.sigma)
        middle = (self.center + other.center) / 2
        return span(*(slope * (arb(y) - middle) for y in (low, high)))


class _Lattice(LineLaw):
    """Base class of the laws on the multiples k of a step whose privacy loss is monotone in k."""

    __slots__ = ()

    step: float

    @abstractmethod
    def between(self, first: float, last: float) -> Ball:
        """Return P(first <= k <= last)."""

    def points(self, low: float, high: float) -> tuple[float, float] | None:
        """Return the first and last k with k step in (low, high], or equal to low = high; None if
        there is none.

        A step is 1 or a power of two, so that the quotients are exact.
        """
        low, high = low / self.step, high / self.step
        if low == high:
            return (low, high) if math.isfinite(low) and low == math.floor(low) else None
        first = math.floor(low) + 1.0 if math.isfinite(low) else low
        last = float(math.floor(high)) if math.isfinite(high) else high
        return (first, last) if first <= last else None

    def log_density(self, low: float, high: float) -> Ball:
        """Return the log-mass of the single multiple in [low, high].

        Minus infinity if the interval contains no multiple. Not a number (no bound) if the interval
        contains several.
        """
        lattice_ends = self.points(low, high)
        if lattice_ends is None:
            return arb("-inf")
        log = self._log_mass(*lattice_ends)
        return log if lattice_ends[0] == lattice_ends[1] or log == -math.inf else arb("nan")

    def _log_mass(self, first: float, last: float) -> Ball:
        """Return log P(first <= k <= last), minus infinity for a mass of exactly 0."""
        mass = self.between(first, last)
        return arb("-inf") if mass.is_exact() and mass == 0 else mass.log()

    def mass(self, low: float, high: float) -> Ball:
        lattice_ends = self.points(low, high)
        return arb(0) if lattice_ends is None else self.between(*lattice_ends)

    def loss(self, low: float, high: float, other: Any) -> Span:
        lattice_ends = self.points(low, high)
        if lattice_ends is None:
            return 0.0, 0.0
        first, last = (self.loss_at(k, other) for k in lattice_ends)
        return min(first[0], last[0]), max(first[1], last[1])

    def loss_at(self, k: float, other: Any) -> Span:
        """Return float bounds on the log-ratio of the two masses at k."""
        return log_ratio_span(self._log_mass(k, k), other._log_mass(k, k))


@dataclass(frozen=True, slots=True)
class GeometricLaw(_Lattice):
    """The law of clamp(center + G1 - G2, low, high), counted in steps.

    P(G >= k) = e^(-rate k); `center` is an integer.
    """

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
        """Return float bounds on the log-ratio of the two masses at k, which may be infinite.

        For untruncated laws the ratio is rate (|k - c'| - |k - c|), constant beyond both centers.
        For truncated laws the masses are compared.
        """
        if math.isinf(k):
            return endpoints(self.rate * (self.center - other.center) * (1 if k > 0 else -1))
        if math.isinf(self.low) and math.isinf(self.high):
            return endpoints(self.rate * (abs(k - other.center) - abs(k - self.center)))
        return _Lattice.loss_at(self, k, other)


@dataclass(frozen=True, slots=True)
class RoundedNormalLaw(_Lattice):
    """The law of center + N(0, sigma^2) rounded to a multiple of the step, counted in steps.

    P(k) = Phi((k + 1/2 - center) step / sigma) - Phi((k - 1/2 - center) step / sigma).
    """

    center: float
    sigma: Ball
    step: float

    def between(self, first: float, last: float) -> Ball:
        return normal_mass(
            (first - 0.5) * self.step,
            (last + 0.5) * self.step,
            arb(self.center) * self.step,
            self.sigma,
        )

    def loss_at(self, k: float, other: RoundedNormalLaw) -> Span:
        """Return float bounds on the log-ratio of the two masses at k.

        The ratio of the masses is an average of the density ratios of the unrounded laws. The ratio
        therefore lies between the density ratios at k - 1/2 and k + 1/2.
        """
        if self.center == other.center:
            return 0.0, 0.0
        if math.isinf(k):
            sign = math.copysign(1.0, k) * math.copysign(1.0, self.center - other.center)
            return (math.inf, math.inf) if sign > 0 else (-math.inf, -math.inf)
        unrounded = NormalLaw(arb(self.center) * self.step, self.sigma)
        unrounded_other = NormalLaw(arb(other.center) * self.step, other.sigma)
        density_bounds = unrounded.loss(
            (k - 0.5) * self.step, (k + 0.5) * self.step, unrounded_other
        )
        low, high = _Lattice.loss_at(self, k, other)
        return max(low, density_bounds[0]), min(high, density_bounds[1])


@dataclass(frozen=True, slots=True)
class ClampedLaw(LineLaw):
    """A continuous law clamped to [-radius, radius].

    The two ends are atoms, with the masses of the law beyond them.
    """

    law: LineLaw
    radius: float

    def log_density(self, low: float, high: float) -> Ball:
        if low == high and abs(low) >= self.radius:
            return self.mass(low, high).log() if abs(low) == self.radius else arb("-inf")
        return (
            self.law.log_density(low, high)
            if abs(low) <= self.radius and abs(high) <= self.radius
            else arb("nan")
        )

    def mass(self, low: float, high: float) -> Ball:
        """Return the mass of the atom if low = high, or the mass of (low, high] without the two
        atoms otherwise.
        """
        if low == high:
            if abs(low) != self.radius:
                return arb(0)
            return self.law.mass(low, math.inf) if low > 0 else self.law.mass(-math.inf, low)
        low, high = max(low, -self.radius), min(high, self.radius)
        return self.law.mass(low, high) if low < high else arb(0)

    def loss(self, low: float, high: float, other: ClampedLaw) -> Span:
        if low == high and abs(low) == self.radius:
            return endpoints(self.mass(low, high).log() - other.mass(low, high).log())
        low, high = max(low, -self.radius), min(high, self.radius)
        return self.law.loss(low, high, other.law) if low <= high else (0.0, 0.0)


class LineLawEnclosures(ABC):
    """Mixin with the enclosure methods of a mechanism whose output is one number with a
    `LineLaw`.
    """

    __slots__ = ()

    @abstractmethod
    def _line_law(self, dataset: Any) -> LineLaw:
        """Return the output law on `dataset`."""

    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Return enclosures of the log-density, or log-mass, over each box."""
        law = self._line_law(dataset)
        return [law.log_density(*box[0]) for box in boxes]

    def mass_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Return the mass of each interval (low, high]."""
        law = self._line_law(dataset)
        return [law.mass(*box[0]) for box in boxes]

    def loss_ball(self, boxes: Sequence[Box], d1: Any, d0: Any) -> list[Span]:
        """Return float bounds on the privacy loss over each interval (low, high]."""
        first, second = self._line_law(d1), self._line_law(d0)
        return [first.loss(*box[0], second) for box in boxes]
