"""Sampling and exact law of noisy threshold tests.

Each member of the sparse-vector family is one set of noise parameters. A run draws a noisy
threshold Z = T + Laplace(b) and calls query i "above" if q_i + Laplace(s) >= Z. Given Z the calls
are independent, so that every probability is a one-dimensional integral over Z.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from dpwitness.core.numerics.jit import jit
from dpwitness.core.numerics.laplace_laws import (
    GAUSS,
    GAUSS_WEIGHTS,
    fair_coins,
    laplace_log_cdf,
    laplace_log_density,
    laplace_nodes,
    laplace_panels,
    standard_laplace,
)
from dpwitness.core.protocols import FloatArray

ABOVE, BELOW, NOT_ASKED = 1.0, 0.0, -1.0


class ThresholdNoise(NamedTuple):
    """Noise scales and stopping rule of a threshold test."""

    threshold: float  # b
    query: float  # s; 0 for no query noise
    cutoff: int  # halt after this many calls above
    reset: bool = False  # draw new threshold noise after each call above
    release: bool = False  # for a call above, release the noisy answer instead of ABOVE


@jit
def fill_calls(
    answers: FloatArray,
    center: float,
    b: float,
    s: float,
    cutoff: int,
    reset: bool,
    release: bool,
    out: FloatArray,
    rng: Generator,
) -> None:
    """Fill the rows of `out` with the calls of independent runs; calls after the halt are
    NOT_ASKED.
    """
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
            # a conditional expression avoids a branch on the call, which the processor cannot
            # predict
            out[i, j] = noisy if called and release else ABOVE if called else BELOW
            above += called
            if above == cutoff:
                break
            fresh = reset and called


def patterns(length: int, cutoff: int) -> FloatArray:
    """Return every row of calls that a run can produce, one per row."""
    rows: list[list[float]] = [[]]
    for _ in range(length):
        extended = []
        for row in rows:
            halted = row.count(ABOVE) == cutoff
            extended += [[*row, call] for call in ((NOT_ASKED,) if halted else (BELOW, ABOVE))]
        rows = extended
    return np.array(rows)


def _log_integral(
    below: FloatArray, above: FloatArray, answers: FloatArray, center: float, noise: ThresholdNoise
) -> FloatArray:
    """Return the log-probability of each row of calls under one shared noisy threshold.

    The queries marked in `below` are called below, those marked in `above` are called above. All
    queries are compared with the same noisy threshold. Shape (rows,).
    """
    from scipy.special import logsumexp

    if noise.query == 0:
        lower = np.max(np.where(below > 0, answers, -np.inf), axis=1) - center
        upper = np.min(np.where(above > 0, answers, np.inf), axis=1) - center
        flip = lower > 0  # differences of the smaller tails lose less precision
        lower, upper = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
        high, low = laplace_log_cdf(upper, noise.threshold), laplace_log_cdf(lower, noise.threshold)
        with np.errstate(divide="ignore"):
            return np.where(
                upper > lower, high + np.log(-np.expm1(np.minimum(low - high, 0.0))), -np.inf
            )
    z, log_weights = laplace_nodes(
        np.append(answers, center), noise.threshold, min(noise.threshold, noise.query)
    )
    gap = (z - answers[:, None]) / noise.query
    log_mass = below @ laplace_log_cdf(gap, 1.0) + above @ laplace_log_cdf(-gap, 1.0)
    return np.asarray(
        logsumexp(log_mass + laplace_log_density(z - center, noise.threshold) + log_weights, axis=1)
    )


def log_density(
    outputs: FloatArray, answers: FloatArray, center: float, noise: ThresholdNoise
) -> FloatArray:
    """Return the log-mass of each row of calls, or its log-density if numbers are released:
    (size,).
    """
    rows = np.ascontiguousarray(outputs, dtype=np.float64)
    if noise.release:
        return _released_log_density(rows, answers, center, noise)
    # There are few distinct rows, so each is integrated only once. Base-3 numbers sort faster than
    # rows.
    valid = np.all((rows == ABOVE) | (rows == BELOW) | (rows == NOT_ASKED), axis=1)
    codes = np.where(valid[:, None], rows + 1, 0) @ 3.0 ** np.arange(rows.shape[1])
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    distinct = rows[first]
    above = distinct == ABOVE
    before = np.cumsum(above, axis=1) - above  # number of earlier calls above
    possible = np.all((distinct == NOT_ASKED) == (before >= noise.cutoff), axis=1)
    below = distinct == BELOW
    threshold_queries = (
        [before == k for k in range(noise.cutoff)] if noise.reset else [np.ones_like(below)]
    )
    log_mass = sum(
        _log_integral((below & s).astype(float), (above & s).astype(float), answers, center, noise)
        for s in threshold_queries
    )
    return np.where(valid, np.where(possible, log_mass, -np.inf)[inverse.reshape(-1)], -np.inf)


def _released_log_density(
    rows: FloatArray, answers: FloatArray, center: float, noise: ThresholdNoise
) -> FloatArray:
    """Return the log-density of rows with released numbers: (size,).

    It is the density of the released numbers times P(Z <= the smallest of them and every query
    called below lies below Z).
    """
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
        total[chosen] += _log_integral_up_to(
            least[chosen], answers[below[chosen[0]]], center, noise
        )
    return np.where(possible, total, -np.inf)


def _log_integral_up_to(
    upper_limits: FloatArray, answers: FloatArray, center: float, noise: ThresholdNoise
) -> FloatArray:
    """Return log of the integral of f(z - T) prod_i F(z - q_i) over z <= a, for each a in
    `upper_limits`.

    To the left of T and of every answer the integrand is a single exponential, integrated in closed
    form. To the right the rule is composite Gauss-Legendre.
    """
    from scipy.special import logsumexp

    b, s = noise.threshold, noise.query

    def log_integrand(z: FloatArray) -> FloatArray:
        """Return the logarithm of the integrand at z."""
        return np.asarray(
            laplace_log_density(z - center, b)
            + laplace_log_cdf(z[..., None] - answers, s).sum(axis=-1)
        )

    edges = laplace_panels(np.append(answers, center), b, min(b, s))
    start, stop, rate = edges[0], edges[-1], 1 / b + answers.size / s

    def panel(left: FloatArray, right: FloatArray) -> FloatArray:
        """Return the log-integral over each panel [left, right]."""
        half = (right - left) / 2
        logs = log_integrand(left[:, None] + half[:, None] * (GAUSS + 1)) + np.log(GAUSS_WEIGHTS)
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(logs, axis=1) + np.log(half))

    cumulative = np.logaddexp.accumulate(
        np.append(log_integrand(np.array([start])) - np.log(rate), panel(edges[:-1], edges[1:]))
    )
    inside = np.clip(upper_limits, start, stop)
    index = np.minimum(np.searchsorted(edges, inside, side="right") - 1, edges.size - 2)
    value = np.empty(upper_limits.size)
    # limits the memory use
    for part in np.array_split(np.arange(upper_limits.size), 1 + upper_limits.size // 20_000):
        value[part] = np.logaddexp(cumulative[index[part]], panel(edges[index[part]], inside[part]))
    return np.where(upper_limits < start, cumulative[0] + rate * (upper_limits - start), value)


@lru_cache(maxsize=256)
def worst_pattern(
    length: int, center: float, noise: ThresholdNoise
) -> tuple[float, tuple[float, ...]]:
    """Return the largest log-ratio of a pattern's masses over pairs of answers in [0, 1]^length,
    and the pattern.

    Only for released calls with query noise. P(pattern) decreases in the answers called below and
    increases in the answers called above. In [0, 1] all answers may move by 1 at once. The supremum
    is therefore attained with the former at 1 and the latter at 0, all moving to the opposite end,
    and no search is needed. The ratio depends only on the number of calls of each kind; with a
    reset, on these numbers for each threshold.
    """

    @cache
    def gain(below: int, above: int) -> float:
        """Return the log-ratio for one threshold, with this many calls below and above."""
        if below + above == 0:
            return 0.0
        marks = (np.arange(below + above) < below).astype(float)
        sides = [
            _log_integral(marks[None], 1 - marks[None], answers, center, noise)[0]
            for answers in (1 - marks, marks)
        ]
        return float(sides[0] - sides[1])

    @cache
    def best(left: int, cutoff: int) -> tuple[float, tuple[float, ...]]:
        """Return the largest log-ratio, and its pattern, over the last `left` queries if `cutoff`
        answers ABOVE remain.
        """
        options = [(gain(left, 0), (BELOW,) * left)]
        for below in range(left):
            continuation = (
                best(left - below - 1, cutoff - 1)
                if cutoff > 1
                else (0.0, (NOT_ASKED,) * (left - below - 1))
            )
            options.append(
                (gain(below, 1) + continuation[0], (BELOW,) * below + (ABOVE,) + continuation[1])
            )
        return max(options)

    if noise.reset:
        return best(length, noise.cutoff)
    counts = [(length - above, above) for above in range(min(noise.cutoff, length + 1))]
    counts += [(below, noise.cutoff) for below in range(length - noise.cutoff + 1)]
    below, above = max(counts, key=lambda c: gain(*c))
    return gain(below, above), (BELOW,) * below + (ABOVE,) * above + (NOT_ASKED,) * (
        length - below - above
    )
