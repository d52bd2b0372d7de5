"""Sampling and exact law of noisy threshold tests: every member of the sparse-vector family is one set of noise parameters.

A run draws a noisy threshold Z = T + Laplace(b) and calls query i above if q_i + Laplace(s) >= Z. Given Z the calls are independent,
so every probability is a one-dimensional integral over Z.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.numerics.jit import jit
from dpwitness.mechanisms.numerics.laws import fair_coins, laplace_log_cdf, laplace_log_density, laplace_nodes, standard_laplace
from dpwitness.mechanisms.terms.protocol import FloatArray

ABOVE, BELOW, NOT_ASKED = 1.0, 0.0, -1.0


class Noise(NamedTuple):
    """Scales of a threshold test, and when it halts."""

    threshold: float  # b
    query: float  # s; 0 for none
    cutoff: int  # halt after this many calls above
    reset: bool = False  # draw the threshold's noise again after each call above
    release: bool = False  # release the noisy answer that was above, in place of the word "above"


@jit
def fill_calls(
    answers: FloatArray, center: float, b: float, s: float, cutoff: int, reset: bool, release: bool, out: FloatArray, rng: Generator
) -> None:
    """Rows of calls, NOT_ASKED after the halt."""
    for i in range(len(out)):
        out[i] = NOT_ASKED
        threshold, above, coins, fresh = center, 0, 1, True
        for j in range(answers.size):
            if fresh:
                if coins == 1:
                    coins = fair_coins(rng)
                threshold = center + b * standard_laplace(coins & 1, rng)
                coins >>= 1
            noisy = answers[j]
            if s > 0:
                if coins == 1:
                    coins = fair_coins(rng)
                noisy += s * standard_laplace(coins & 1, rng)
                coins >>= 1
            called = noisy >= threshold
            out[i, j] = (
                noisy if called and release else ABOVE if called else BELOW
            )  # without a branch on the call, which nobody can predict
            above += called
            if above == cutoff:
                break
            fresh = reset and called


def patterns(length: int, cutoff: int) -> FloatArray:
    """Every row of calls that a run can end with, one a row."""
    rows: list[list[float]] = [[]]
    for _ in range(length):
        grown = []
        for row in rows:
            halted = row.count(ABOVE) == cutoff
            grown += [[*row, call] for call in ((NOT_ASKED,) if halted else (BELOW, ABOVE))]
        rows = grown
    return np.array(rows)


def _log_integral(below: FloatArray, above: FloatArray, answers: FloatArray, center: float, noise: Noise) -> FloatArray:
    """log P(every query marked in a row of `below` is called below, in `above` above), under one threshold: (rows,)."""
    from scipy.special import logsumexp

    if noise.query == 0:
        lower = np.max(np.where(below > 0, answers, -np.inf), axis=1) - center
        upper = np.min(np.where(above > 0, answers, np.inf), axis=1) - center
        flip = lower > 0  # difference the smaller tails
        lower, upper = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
        high, low = laplace_log_cdf(upper, noise.threshold), laplace_log_cdf(lower, noise.threshold)
        with np.errstate(divide="ignore"):
            return np.where(upper > lower, high + np.log(-np.expm1(np.minimum(low - high, 0.0))), -np.inf)
    z, log_weights = laplace_nodes(np.append(answers, center), noise.threshold, min(noise.threshold, noise.query))
    gap = (z - answers[:, None]) / noise.query
    log_mass = below @ laplace_log_cdf(gap, 1.0) + above @ laplace_log_cdf(-gap, 1.0)
    return np.asarray(logsumexp(log_mass + laplace_log_density(z - center, noise.threshold) + log_weights, axis=1))


def log_density(outputs: FloatArray, answers: FloatArray, center: float, noise: Noise) -> FloatArray:
    """Log-mass of rows of calls, or their log-density in the released numbers: (size,)."""
    rows = np.ascontiguousarray(outputs, dtype=np.float64)
    if noise.release:
        return _released_log_density(rows, answers, center, noise)
    # Few distinct rows among many: each is integrated once. Base 3 numbers sort faster than rows do.
    known = np.all((rows == ABOVE) | (rows == BELOW) | (rows == NOT_ASKED), axis=1)
    codes = np.where(known[:, None], rows + 1, 0) @ 3.0 ** np.arange(rows.shape[1])
    _, first, back = np.unique(codes, return_index=True, return_inverse=True)
    distinct = rows[first]
    above = distinct == ABOVE
    before = np.cumsum(above, axis=1) - above  # calls above so far
    possible = np.all((distinct == NOT_ASKED) == (before >= noise.cutoff), axis=1)
    below = distinct == BELOW
    stretches = [before == k for k in range(noise.cutoff)] if noise.reset else [np.ones_like(below)]
    log_mass = sum(_log_integral((below & s).astype(float), (above & s).astype(float), answers, center, noise) for s in stretches)
    return np.where(known, np.where(possible, log_mass, -np.inf)[back.reshape(-1)], -np.inf)


def _released_log_density(rows: FloatArray, answers: FloatArray, center: float, noise: Noise) -> FloatArray:
    """Density of the released numbers times P(Z <= the least of them, and the queries called below lie below Z)."""
    number = rows != BELOW
    asked = np.cumsum(number, axis=1) - number < noise.cutoff
    number &= asked
    possible = np.all(asked | (rows == NOT_ASKED), axis=1)
    least = np.min(np.where(number, rows, np.inf), axis=1)
    total = np.where(number, laplace_log_density(rows - answers, noise.query), 0.0).sum(axis=1)
    below = asked & ~number
    codes = below @ 2.0 ** np.arange(rows.shape[1])
    for code in np.unique(codes[possible]):
        chosen = np.flatnonzero(possible & (codes == code))
        total[chosen] += _log_integral_up_to(least[chosen], answers[below[chosen[0]]], center, noise)
    return np.where(possible, total, -np.inf)


def _log_integral_up_to(ends: FloatArray, answers: FloatArray, center: float, noise: Noise) -> FloatArray:
    """log of the integral of f(z - T) prod_i F(z - q_i) over z <= a, for each a in `ends`.

    Left of T and of every answer the integrand is one exponential, integrated in closed form; panels of Gauss-Legendre from there on.
    """
    from scipy.special import logsumexp

    b, s = noise.threshold, noise.query

    def log_integrand(z: FloatArray) -> FloatArray:
        return np.asarray(laplace_log_density(z - center, b) + laplace_log_cdf(z[..., None] - answers, s).sum(axis=-1))

    breaks = np.append(answers, center)
    start, stop, rate = breaks.min(), breaks.max() + 40 * b, 1 / b + answers.size / s
    knots = np.append(np.unique(breaks), stop)
    pieces = [np.linspace(u, v, int(np.ceil((v - u) / min(b, s))) + 1)[:-1] for u, v in pairwise(knots.tolist())]
    edges = np.append(np.concatenate(pieces), stop)
    nodes, weights = np.polynomial.legendre.leggauss(16)

    def panel(left: FloatArray, right: FloatArray) -> FloatArray:
        half = (right - left) / 2
        z = left[:, None] + half[:, None] * (nodes + 1)
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(log_integrand(z) + np.log(weights), axis=1) + np.log(half))

    cumulative = np.logaddexp.accumulate(np.append(log_integrand(np.array([start])) - np.log(rate), panel(edges[:-1], edges[1:])))
    inside = np.clip(ends, start, stop)
    index = np.minimum(np.searchsorted(edges, inside, side="right") - 1, edges.size - 2)
    value = np.empty(ends.size)
    for part in np.array_split(np.arange(ends.size), 1 + ends.size // 20_000):  # bounds the memory
        value[part] = np.logaddexp(cumulative[index[part]], panel(edges[index[part]], inside[part]))
    return np.where(ends < start, cumulative[0] + rate * (ends - start), value)


@lru_cache(maxsize=256)
def worst_pattern(length: int, center: float, noise: Noise) -> tuple[float, tuple[float, ...]]:
    """Largest log-ratio of a pattern's masses over pairs of answers in [0, 1]^length, and the pattern. Calls only, with query noise.

    P(pattern) falls in the answers called below and rises in those called above. In [0, 1] all of them may move by 1 at once, so
    the supremum has the former at 1 and the latter at 0, all moving to the other end: no search is needed. Only the number of each
    counts; with a reset, their numbers in each stretch of one threshold.
    """

    @cache
    def gain(below: int, above: int) -> float:
        if below + above == 0:
            return 0.0
        marks = (np.arange(below + above) < below).astype(float)
        sides = [_log_integral(marks[None], 1 - marks[None], answers, center, noise)[0] for answers in (1 - marks, marks)]
        return float(sides[0] - sides[1])

    @cache
    def best(left: int, cutoff: int) -> tuple[float, tuple[float, ...]]:
        """The best of the stretches still to come, for `left` queries and `cutoff` calls above."""
        options = [(gain(left, 0), (BELOW,) * left)]
        for below in range(left):
            rest = best(left - below - 1, cutoff - 1) if cutoff > 1 else (0.0, (NOT_ASKED,) * (left - below - 1))
            options.append((gain(below, 1) + rest[0], (BELOW,) * below + (ABOVE,) + rest[1]))
        return max(options)

    if noise.reset:
        return best(length, noise.cutoff)
    counts = [(length - above, above) for above in range(min(noise.cutoff, length + 1))]
    counts += [(below, noise.cutoff) for below in range(length - noise.cutoff + 1)]
    below, above = max(counts, key=lambda c: gain(*c))
    return gain(below, above), (BELOW,) * below + (ABOVE,) * above + (NOT_ASKED,) * (length - below - above)
