"""Exact privacy profiles and Rényi divergences of worst-case pairs, in ball arithmetic.

A profile belongs to one attainable pair of output laws (P, Q), and covers both orders of the pair.
The lower end of each ball is a rigorous lower bound on the figure of the mechanism, because the
pair is one of its pairs of neighboring datasets.

A subsampled Gaussian mechanism has a normal law against a mixture of its shifts. Poisson sampling
with rate q, for a record that is added or removed, gives the mixture (1 - q) N(0, sigma^2) + q N(1,
sigma^2) against N(0, sigma^2). Sampling without replacement gives the same pair for a record that
is replaced, if all other records are equal to one of its two values (Zhu, Dong and Wang 2022,
Theorem 11).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from flint import acb, arb, ctx, fmpz

from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.core.balls.ball import Ball, normal_mass
from dpwitness.core.balls.profiles import GaussianProfile

_MAX_TERMS = 20_000  # largest number of lattice points of a discrete law
_WIDTH = 18  # standard deviations beyond which the mass of a discrete law is left out: below 1e-70


class Unavailable(ArithmeticError):
    """Error: the exact figure is not known at these parameters."""


def positive_part(x: Ball) -> Ball:
    """Return max(x, 0), and 0 if x is not a number: a lower bound."""
    if x > 0:
        return x
    return arb(0).union(x.upper()) if x.upper() > 0 else arb(0)


@dataclass(frozen=True, slots=True)
class Composition:
    """Profile of the worst composition of `steps` (epsilon, delta)-private mechanisms.

    Each step is randomized response that reveals its input with probability delta (Kairouz, Oh and
    Viswanath 2015, Theorem 3.3).
    """

    epsilon: float
    failure: float
    steps: int

    def delta(self, epsilon: Ball) -> Ball:
        masses = _response_masses(self.epsilon, self.steps)
        ordinary = sum((p * positive_part(-(epsilon - loss).expm1()) for loss, p in masses), arb(0))
        return 1 - (1 - arb(self.failure)) ** self.steps * (1 - ordinary)

    def renyi(self, order: Ball) -> Ball:
        if self.failure > 0:
            return arb("+inf")
        e = arb(self.epsilon)
        one = (((order * e).exp() + ((1 - order) * e).exp()) / (1 + e.exp())).log()
        return self.steps * one / (order - 1)


@lru_cache(8)
def _response_masses(epsilon: float, steps: int) -> tuple[tuple[Ball, Ball], ...]:
    """Return the losses, and the masses under P, of composed randomized responses."""
    e = arb(epsilon)
    log_total = steps * (1 + e.exp()).log()
    return tuple(
        ((steps - 2 * i) * e, arb(fmpz.bin_uiui(steps, i)) * ((steps - i) * e - log_total).exp())
        for i in range(steps + 1)
    )


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
        return inner + arb(0).union(
            (
                2
                * _weight(arb(last), variance)
                / (1 - (-(2 * arb(last) + 1) / (2 * variance)).exp())
            ).upper()
        )


def _weight(x: Ball, variance: Ball) -> Ball:
    return (-(x**2) / (2 * variance)).exp()


_GRID = 96  # number of pairs of two outputs that are tried


@dataclass(frozen=True, slots=True)
class Finite:
    """Profile of one draw of a pair of laws with finitely many outputs."""

    p: tuple[Ball, ...]
    q: tuple[Ball, ...]

    def delta(self, epsilon: Ball) -> Ball:
        factor = epsilon.exp()
        sides = (self.p, self.q), (self.q, self.p)
        totals = [
            sum((positive_part(a - factor * b) for a, b in zip(p, q, strict=True)), arb(0))
            for p, q in sides
        ]
        return totals[0].max(totals[1])

    def renyi(self, order: Ball) -> Ball:
        return self._divergence(self.p, self.q, order).max(self._divergence(self.q, self.p, order))

    @staticmethod
    def _divergence(p: tuple[Ball, ...], q: tuple[Ball, ...], order: Ball) -> Ball:
        total = sum((a**order * b ** (1 - order) for a, b in zip(p, q, strict=True)), arb(0))
        return total.log() / (order - 1)


def subsampled_response(epsilon: float, rate: float) -> Finite:
    """Return the pair of randomized response on one record that is sampled with this rate (Balle,
    Barthe and Gaboardi 2018, Theorem 8).
    """
    e, q = arb(epsilon).exp(), arb(rate)
    kept, other = e / (1 + e), 1 / (1 + e)
    return Finite(((1 - q) * other + q * kept, (1 - q) * kept + q * other), (other, kept))


@dataclass(frozen=True, slots=True)
class RenyiBound:
    """Profile of all mechanisms whose Rényi divergence of one order, in both directions, is at most
    `bound`.

    The profile is bounded from below by mechanisms that satisfy the bound: pairs of two outputs,
    which are the worst ones up to the direction (Asoodeh, Liao, Calmon, Kosut and Sankar 2021), and
    normal noise.
    """

    order: float
    bound: float

    def delta(self, epsilon: Ball) -> Ball:
        found = GaussianProfile((2 * arb(self.bound) / arb(self.order)).sqrt()).delta(epsilon)
        for pair in _pairs(self.order, self.bound):
            found = found.max(pair.delta(epsilon))
        return found

    def renyi(self, order: Ball) -> Ball:
        return order * arb(self.bound) / arb(self.order)  # normal noise


@lru_cache(8)
def _pairs(order: float, bound: float) -> tuple[Finite, ...]:
    """Return pairs of two outputs that satisfy the bound: for each mass of the first output under
    P, the smallest mass under Q.
    """
    masses = [10 ** (-12 * (1 - i / (_GRID - 1))) * (1 - 1e-9) for i in range(_GRID)]
    return tuple(pair for pair in [_pair(p, order, bound) for p in masses] if pair is not None)


def _pair(p: float, order: float, bound: float) -> Finite | None:
    """Return the pair with mass `p` under P and the smallest mass under Q that the bound allows;
    None if rounding breaks the bound.
    """
    log_mass = bracket(lambda x: _exceeds(p, x, order, bound), -745.0, math.log(p), 60)[1]
    mass = arb(log_mass + 1e-12 * abs(log_mass)).exp()
    pair = Finite((arb(p), 1 - arb(p)), (mass, 1 - mass))
    return pair if pair.renyi(arb(order)) <= arb(bound) else None


def _exceeds(p: float, log_q: float, order: float, bound: float) -> bool:
    """Return whether a pair exceeds the bound, in floating point."""
    a, q = order, math.exp(log_q)
    terms = [
        [a * math.log(p) + (1 - a) * log_q, a * math.log1p(-p) + (1 - a) * math.log1p(-q)],
        [a * log_q + (1 - a) * math.log(p), a * math.log1p(-q) + (1 - a) * math.log1p(-p)],
    ]
    return any(max(t) + math.log1p(math.exp(min(t) - max(t))) > (a - 1) * bound for t in terms)


_SIGMAS = 7  # intervals on each side of a peak of the Rényi integrand
_INTERVAL = 2  # standard deviations of one interval of integration


@dataclass(frozen=True, slots=True)
class Mixture:
    """Normal law Q = N(0, sigma^2) against P = (1 - rate) N(0, sigma^2) + rate N(1, sigma^2): the
    pair of Poisson sampling, and of sampling without replacement with the fraction `rate`.
    """

    rate: float
    sigma: float

    def ratio(self, x: acb) -> acb:
        """Return P(x) / Q(x) as an entire function of the output."""
        rate = arb(self.rate)
        return 1 - rate + rate * ((2 * x - 1) / (2 * arb(self.sigma) ** 2)).exp()

    def masses(self, low: float, high: float) -> tuple[Ball, Ball]:
        """Return the masses of the interval (low, high] under P and under Q."""
        rate, sigma = arb(self.rate), arb(self.sigma)
        kept, moved = (normal_mass(low, high, arb(center), sigma) for center in (0, 1))
        return (1 - rate) * kept + rate * moved, kept

    @property
    def lowest_loss(self) -> Ball:
        """Infimum of the loss, at the output minus infinity."""
        return (1 - arb(self.rate)).log()

    @property
    def edges(self) -> tuple[float, ...]:
        """Outputs beyond which the loss is constant: none."""
        return ()

    def output_with_loss(self, loss: float) -> float | None:
        """Return the output with this loss, to floating-point precision; None if the loss is not
        attained.
        """
        if loss <= math.log(float(1 - arb(self.rate))) + 1e-15:
            return None
        inner = (math.expm1(loss) + self.rate) / self.rate if loss < 700 else math.inf
        if inner <= 0:
            return None
        log = math.log(inner) if inner < math.inf else loss - math.log(self.rate)
        return self.sigma**2 * log + 0.5


@dataclass(frozen=True, slots=True)
class Subsampled:
    """Profile of one step of a subsampled Gaussian mechanism."""

    law: Mixture

    def delta(self, epsilon: Ball) -> Ball:
        """Return the larger divergence of the two orders. A threshold that is only close to optimal
        still bounds from below.
        """
        found = arb(0)
        upper = self.law.output_with_loss(float(epsilon))
        if upper is not None:
            p, q = self.law.masses(upper, math.inf)
            found = found.max(positive_part(p - epsilon.exp() * q))
        lower = self.law.output_with_loss(-float(epsilon))
        if lower is not None:
            p, q = self.law.masses(-math.inf, lower)
            found = found.max(positive_part(q - epsilon.exp() * p))
        return found

    def renyi(self, order: Ball) -> Ball:
        # largest integer order with the binomial sum; integration is used above
        if order.is_integer() and order <= 20_000:
            moment = self._binomial_moment(int(float(order)))
        else:
            moment = self._integral(order)
        return moment.log() / (order - 1)

    def _binomial_moment(self, order: int) -> Ball:
        """Return E_Q[(P / Q)^order] as a binomial sum (Mironov, Talwar and Zhang 2019, Section
        3.3).
        """
        take, sigma = arb(self.law.rate), arb(self.law.sigma)
        keep, total = 1 - take, arb(0)
        for k in range(order + 1):
            factor = (arb(k) * (k - 1) / (2 * sigma**2)).exp()
            total += arb(fmpz.bin_uiui(order, k)) * keep ** (order - k) * take**k * factor
        return total

    def _integral(self, order: Ball) -> Ball:
        """Return E_Q[(P / Q)^order] by rigorous quadrature (Petras 2002; Johansson 2018)."""
        sigma = arb(self.law.sigma)

        def integrand(x: acb, analytic: bool) -> acb:
            return (order * self.law.ratio(x).log(analytic=analytic) - x * x / (2 * sigma**2)).exp()

        total = arb(0)
        with ctx.workprec(128):
            for a, b in self._intervals(float(order)):
                part = acb.integral(
                    integrand,
                    acb(a),
                    acb(b),
                    rel_tol=arb(2) ** -60,
                    abs_tol=arb(2) ** -80,
                    eval_limit=4000,
                ).real
                total += positive_part(part) if part.is_finite() else arb(0)
            return total / (2 * arb.pi() * sigma**2).sqrt()

    def _intervals(self, order: float) -> Iterator[tuple[float, float]]:
        """Yield disjoint intervals around the peaks of the integrand, at 0 and at the order; the
        integrand is positive elsewhere too.
        """
        width = _INTERVAL * self.law.sigma
        steps = [width * i for i in range(-_SIGMAS, _SIGMAS + 1)]
        cuts = sorted({*steps, *(order + step for step in steps if order + step > steps[-1])})
        return ((a, b) for a, b in itertools.pairwise(cuts) if b - a < 1.5 * width)
