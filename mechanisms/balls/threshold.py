"""Patterns of noisy threshold tests in balls: exact integrals over the noisy threshold, between answers a sum of exponentials.

With Z = T + Laplace(b) and query noise of scale s, between two neighbouring answers P(q + noise < z) is e^((z - q)/s) / 2 or one minus
e^(-(z - q)/s) / 2, so that a pattern's probability given z times the density of Z is a Laurent polynomial in e^(z/s) times e^(+-z/b).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from flint import arb, fmpq

from dpwitness.mechanisms.balls.ball import Ball, exponential_integral, laplace_mass, product
from dpwitness.mechanisms.numerics.threshold_law import ABOVE, BELOW, NOT_ASKED, Noise

Marks = tuple[tuple[float, ...], tuple[float, ...]]  # sorted answers of the queries called below, and above


def pattern_masses(rows: Sequence[Sequence[float]], answers: Sequence[float], center: float, noise: Noise) -> list[Ball]:
    """P(row) for each row of calls; 0 for rows that no run ends with."""
    known: dict[Marks, Ball] = {}

    def stretch(row: Sequence[float], chosen: Sequence[int]) -> Ball:
        marks: Marks = tuple(tuple(sorted(answers[i] for i in chosen if row[i] == call)) for call in (BELOW, ABOVE))  # type: ignore[assignment]
        if marks not in known:
            known[marks] = _integral(*marks, center, noise)
        return known[marks]

    out = []
    for row in rows:
        parts = _stretches(row, noise)
        total = arb(0) if parts is None else arb(1)
        for part in parts or ():
            total = total * stretch(row, part)
        out.append(total)
    return out


def _stretches(row: Sequence[float], noise: Noise) -> list[list[int]] | None:
    """Queries answered under one threshold, for each threshold; None for a row that cannot be."""
    parts: list[list[int]] = [[]]
    above = 0
    for i, call in enumerate(row):
        if (call == NOT_ASKED) != (above >= noise.cutoff) or call not in (ABOVE, BELOW, NOT_ASKED):
            return None
        if call == NOT_ASKED:
            continue
        parts[-1].append(i)
        if call == ABOVE:
            above += 1
            if noise.reset and above < noise.cutoff:
                parts.append([])
    return parts


def _integral(below: Sequence[float], above: Sequence[float], center: float, noise: Noise) -> Ball:
    """P(every query in `below` lies below the noisy threshold, every one in `above` not)."""
    b = arb(noise.threshold)
    if noise.query == 0:
        most, least_above = max(below, default=-math.inf), min(above, default=math.inf)
        return laplace_mass(most, least_above, arb(center), b) if most < least_above else arb(0)
    s = arb(noise.query)
    knots = sorted({*below, *above, center})
    origin = Fraction(knots[-1])
    at = {x: _exact(Fraction(x) - origin) for x in knots}
    edges: list[float | None] = [None, *knots, None]
    total = arb(0)
    for low, high in itertools.pairwise(edges):
        # t = e^(z / s): coefficients of t^(least + k)
        least, polynomial = 0, [arb(1)]
        for called, queries in ((BELOW, below), (ABOVE, above)):
            for q in queries:
                right = low is not None and q <= low  # z beyond the answer
                weight = ((at[q] if right else -at[q]) / s).exp() / 2  # of t^-1 right of it, of t left of it
                if right == (called == BELOW):  # one minus the tail
                    polynomial = product(polynomial, [-weight, arb(1)] if right else [arb(1), -weight])
                    least -= right
                else:
                    polynomial = [c * weight for c in polynomial]
                    least += -1 if right else 1
        beyond = low is not None and center <= low
        sign = -1 if beyond else 1
        front = (-sign * at[center] / b).exp() / (2 * b)
        start, stop = (None if x is None else at[x] for x in (low, high))
        for k, c in enumerate(polynomial):
            if not (c.is_exact() and c == 0):
                total = total + front * c * exponential_integral((least + k) / s + sign / b, start, stop)
    return total


def _exact(x: Fraction) -> Ball:
    return arb(fmpq(x.numerator, x.denominator))
