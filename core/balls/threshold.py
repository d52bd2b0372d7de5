"""Exact probabilities of the answer patterns of noisy threshold tests, in ball arithmetic.

Let Z = T + Laplace(b) be the noisy threshold and s the scale of the query noise. Between two
adjacent answers P(q + noise < z) is e^((z - q)/s) / 2 or 1 - e^(-(z - q)/s) / 2. The probability of
a pattern given z, times the density of Z, is therefore a Laurent polynomial in e^(z/s) times
e^(+-z/b). The integral over z is computed term by term.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from flint import arb, fmpq

from dpwitness.core.balls.ball import Ball, exponential_integral, laplace_mass, product
from dpwitness.core.numerics.threshold_law import ABOVE, BELOW, NOT_ASKED, ThresholdNoise

# sorted answers of the queries called below, then of those called above
Marks = tuple[tuple[float, ...], tuple[float, ...]]


def pattern_masses(
    rows: Sequence[Sequence[float]], answers: Sequence[float], center: float, noise: ThresholdNoise
) -> list[Ball]:
    """Return the probability of each row of calls; 0 for a row that no run can produce."""
    masses: dict[Marks, Ball] = {}
    out = []
    for row in rows:
        parts = _stretches(row, noise)
        total = arb(0) if parts is None else arb(1)
        for part in parts or ():
            # the queries of a part share one threshold
            marks: Marks = tuple(
                tuple(sorted(answers[i] for i in part if row[i] == call)) for call in (BELOW, ABOVE)
            )  # type: ignore[assignment]
            if marks not in masses:
                masses[marks] = threshold_mass(*marks, center, noise)
            total = total * masses[marks]
        out.append(total)
    return out


def _stretches(row: Sequence[float], noise: ThresholdNoise) -> list[list[int]] | None:
    """Return, for each drawn threshold, the queries that it answers; None if no run can produce the
    row.
    """
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


def threshold_mass(
    below: Sequence[float], above: Sequence[float], center: float, noise: ThresholdNoise
) -> Ball:
    """Return P(every query in `below` lies below the noisy threshold and every query in `above`
    does not).

    If all noise has one scale, and `below` holds all answers but the threshold, this is the
    probability that the threshold is the largest noisy number.
    """
    b = arb(noise.threshold)
    if noise.query == 0:
        most, least_above = max(below, default=-math.inf), min(above, default=math.inf)
        return laplace_mass(most, least_above, arb(center), b) if most < least_above else arb(0)
    s = arb(noise.query)
    knots = sorted({*below, *above, center})
    origin = Fraction(knots[-1])
    at = {x: arb(fmpq(*(Fraction(x) - origin).as_integer_ratio())) for x in knots}
    edges: list[float | None] = [None, *knots, None]
    total = arb(0)
    for low, high in itertools.pairwise(edges):
        # with t = e^(z / s), polynomial[k] is the coefficient of t^(least + k)
        least, polynomial = 0, [arb(1)]
        for called, q in [*((BELOW, q) for q in below), *((ABOVE, q) for q in above)]:
            right = low is not None and q <= low  # z lies to the right of the answer
            # coefficient of t^-1 to the right of the answer, of t to the left
            weight = ((at[q] if right else -at[q]) / s).exp() / 2
            # P(called | z) is the tail, or one minus the tail
            shift, factor = {
                (BELOW, True): (-1, [-weight, arb(1)]),
                (BELOW, False): (1, [weight]),
                (ABOVE, True): (-1, [weight]),
                (ABOVE, False): (0, [arb(1), -weight]),
            }[called, right]
            polynomial, least = product(polynomial, factor), least + shift
        beyond = low is not None and center <= low
        sign = -1 if beyond else 1
        prefactor = (-sign * at[center] / b).exp() / (2 * b)
        start, stop = (None if x is None else at[x] for x in (low, high))
        for k, c in enumerate(polynomial):
            if not (c.is_exact() and c == 0):
                total = total + prefactor * c * exponential_integral(
                    (least + k) / s + sign / b, start, stop
                )
    return total
