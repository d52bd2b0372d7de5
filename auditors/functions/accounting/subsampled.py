"""Profiles of subsampled Gaussian mechanisms: a normal law against a mixture of its shifts.

Poisson sampling with rate q, for a record that is added or removed, gives the mixture (1 - q) N(0,
sigma^2) + q N(1, sigma^2) against N(0, sigma^2). Sampling without replacement gives the same pair
for a record that is replaced, if all other records are equal to one of its two values (Zhu, Dong
and Wang 2022, Theorem 11). Sampling with replacement gives binomial weights.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from flint import acb, arb, ctx, fmpz

from dpwitness.auditors.functions.accounting.profiles import Unavailable, normal_cdf, positive_part
from dpwitness.core.balls.ball import Ball

_SIGMAS = 7  # intervals on each side of a peak of the Rényi integrand
_WIDTH = 2  # standard deviations of one interval of integration
# logarithm of the largest value of the integrand over the largest one of an interval that is left
# out
_NEGLIGIBLE_LOG = 50
_LARGE = 500.0  # exponents from which the term 1 of 1 + q (e^x - 1) is negligible
_QUADRATURE_BITS = 128
_NEGLIGIBLE = arb(2) ** -140  # total weight of the multiples that are left out
_MAX_MULTIPLE = 80  # largest number of times that one record is drawn
_MAX_INTEGER = 20_000  # largest integer order with the binomial sum; integration is used above


@dataclass(frozen=True, slots=True)
class Mixture:
    """Normal law Q = N(0, sigma^2) against P, the mixture of N(k, sigma^2) with weight
    `weights[k]`.
    """

    weights: tuple[Ball, ...]
    sigma: Ball

    def ratio(self, x: acb) -> acb:
        """Return P(x) / Q(x) as an entire function of the output."""
        shift = ((2 * x - 1) / (2 * self.sigma**2)).exp()
        total, power = acb(0), acb(1)
        for k, weight in enumerate(self.weights):
            total += weight * power * (-(arb(k) * (k - 1)) / (2 * self.sigma**2)).exp()
            power *= shift
        return total

    def masses(self, low: Ball | None, high: Ball | None) -> tuple[Ball, Ball]:
        """Return the masses of the interval (low, high] under P and under Q. An endpoint None means
        infinity.
        """
        parts = [self._normal_mass(low, high, k) for k in range(len(self.weights))]
        return sum((w * m for w, m in zip(self.weights, parts, strict=True)), arb(0)), parts[0]

    def _normal_mass(self, low: Ball | None, high: Ball | None, center: int) -> Ball:
        a, b = (None if x is None else (x - center) / self.sigma for x in (low, high))
        if b is None:
            return arb(1) if a is None else normal_cdf(-a)
        if a is None:
            return normal_cdf(b)
        return normal_cdf(-a) - normal_cdf(-b) if a > 0 else normal_cdf(b) - normal_cdf(a)

    @property
    def lowest_loss(self) -> Ball:
        """Infimum of the loss, at the output minus infinity."""
        return self.weights[0].log()

    @property
    def edges(self) -> tuple[float, ...]:
        """Outputs beyond which the loss is constant: none."""
        return ()

    def output_with_loss(self, loss: float) -> float | None:
        """Return the output with this loss, to floating-point precision; None if the loss is not
        attained.
        """
        weights, sigma = [float(w) for w in self.weights], float(self.sigma)
        if loss <= (math.log(weights[0]) if weights[0] > 0 else -math.inf) + 1e-15:
            return None
        if len(weights) == 2:
            inner = (math.expm1(loss) + weights[1]) / weights[1] if loss < 700 else None
            if inner is not None and inner <= 0:
                return None
            log = math.log(inner) if inner is not None else loss - math.log(weights[1])
            return sigma**2 * log + 0.5
        logs = [math.log(w) - k * k / (2 * sigma**2) for k, w in enumerate(weights) if w > 0]
        low, high = -60 * sigma - 1, sigma**2 * (abs(loss) + 60) + 60 * sigma
        for _ in range(70):
            middle = (low + high) / 2
            powers = [log + k * middle / sigma**2 for k, log in enumerate(logs)]
            top = max(powers)
            low, high = (
                (middle, high)
                if top + math.log(sum(math.exp(x - top) for x in powers)) < loss
                else (low, middle)
            )
        return low


@dataclass(frozen=True, slots=True)
class Subsampled:
    """Profile of one step of a subsampled Gaussian mechanism; Rényi divergences are those of
    `steps` steps.
    """

    law: Mixture
    steps: int = 1

    def delta(self, epsilon: Ball) -> Ball:
        """Return the larger divergence of the two orders. A threshold that is only close to optimal
        still bounds from below.
        """
        if self.steps != 1:
            raise Unavailable("the profile of several steps is composed on a grid")
        found = arb(0)
        upper = self.law.output_with_loss(float(epsilon))
        if upper is not None:
            p, q = self.law.masses(arb(upper), None)
            found = found.max(positive_part(p - epsilon.exp() * q))
        lower = self.law.output_with_loss(-float(epsilon))
        if lower is not None:
            p, q = self.law.masses(None, arb(lower))
            found = found.max(positive_part(q - epsilon.exp() * p))
        return found

    def renyi(self, order: Ball) -> Ball:
        if len(self.law.weights) > 2:
            raise Unavailable("Rényi divergences of sampling with replacement are not enclosed")
        if len(self.law.weights) == 2 and order.is_integer() and order <= _MAX_INTEGER:
            moment = self._binomial_moment(int(float(order)))
        else:
            moment = self._integral(order)
        return self.steps * moment.log() / (order - 1)

    def _binomial_moment(self, order: int) -> Ball:
        """Return E_Q[(P / Q)^order] as a binomial sum (Mironov, Talwar and Zhang 2019, Section
        3.3).
        """
        (keep, take), total = self.law.weights, arb(0)
        for k in range(order + 1):
            factor = (arb(k) * (k - 1) / (2 * self.law.sigma**2)).exp()
            total += arb(fmpz.bin_uiui(order, k)) * keep ** (order - k) * take**k * factor
        return total

    def _integral(self, order: Ball) -> Ball:
        """Return E_Q[(P / Q)^order] by rigorous quadrature (Petras 2002; Johansson 2018), without
        intervals where it is negligible.
        """
        sigma = self.law.sigma

        def integrand(x: acb, analytic: bool) -> acb:
            return (order * self.law.ratio(x).log(analytic=analytic) - x * x / (2 * sigma**2)).exp()

        total = arb(0)
        with ctx.workprec(_QUADRATURE_BITS):
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

    def _intervals(self, order: float) -> list[tuple[float, float]]:
        """Return disjoint intervals around the peaks of the integrand, at 0 and at the order; the
        integrand is positive elsewhere too.
        """
        sigma, q = float(self.law.sigma), float(self.law.weights[1])
        steps = [_WIDTH * sigma * i for i in range(-_SIGMAS, _SIGMAS + 1)]
        cuts = sorted({*steps, *(order + step for step in steps if order + step > steps[-1])})

        def log(x: float) -> float:
            shift = (2 * x - 1) / (2 * sigma**2)
            ratio = math.log1p(q * math.expm1(shift)) if shift < _LARGE else shift + math.log(q)
            return order * ratio - x * x / (2 * sigma**2)

        pairs = [(a, b) for a, b in itertools.pairwise(cuts) if b - a < 1.5 * _WIDTH * sigma]
        heights = [max(log(a), log(b), log((a + b) / 2)) for a, b in pairs]
        top = max(heights)
        return [
            pair
            for pair, height in zip(pairs, heights, strict=True)
            if height > top - _NEGLIGIBLE_LOG
        ]


def poisson(q: float, sigma: float) -> Mixture:
    """Return the pair of Poisson sampling with rate `q`, and of sampling without replacement with
    fraction `q`.
    """
    rate = arb(q)
    return Mixture((1 - rate, rate), arb(sigma))


def with_replacement(draws: int, records: int, sigma: float) -> Mixture:
    """Return the pair of `draws` draws with replacement from `records` records, for a record that
    is replaced.

    The weights are binomial. Multiples with a total weight below 2^-140 are left out, and the last
    weight is widened by that total.
    """
    rate, left, weights = 1 / arb(records), arb(1), []
    for k in range(min(draws, _MAX_MULTIPLE) + 1):
        weights.append(arb(fmpz.bin_uiui(draws, k)) * rate**k * (1 - rate) ** (draws - k))
        left -= weights[-1]
        if left < _NEGLIGIBLE:
            weights[-1] += arb(0).union(left.upper())
            return Mixture(tuple(weights), arb(sigma))
    if draws <= _MAX_MULTIPLE:
        return Mixture(tuple(weights), arb(sigma))
    raise Unavailable("a record is drawn too often on average")
