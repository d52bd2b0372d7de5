"""Profiles of pairs of laws with finitely many outputs, and the worst pairs of two outputs for a
bound on a Rényi divergence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from flint import arb

from dpwitness.auditors.functions.accounting.profiles import Gaussian, positive_part
from dpwitness.core.balls.ball import Ball

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

    It is bounded from below by mechanisms that satisfy the bound: pairs of two outputs, which are
    the worst ones up to the direction (Asoodeh, Liao, Calmon, Kosut and Sankar 2021), and normal
    noise.
    """

    order: float
    bound: float

    def delta(self, epsilon: Ball) -> Ball:
        found = Gaussian((2 * arb(self.bound) / arb(self.order)).sqrt()).delta(epsilon)
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
    found = [_pair(p, order, bound) for p in masses]
    return tuple(pair for pair in found if pair is not None)


def _pair(p: float, order: float, bound: float) -> Finite | None:
    """Return the pair with mass `p` under P and the smallest mass under Q that the bound allows;
    None if rounding breaks the bound.
    """
    low, high = -745.0, math.log(p)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _exceeds(p, middle, order, bound) else (low, middle)
    mass = arb(high + 1e-12 * abs(high)).exp()
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
