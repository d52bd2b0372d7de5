"""The compiled part of `interactive`: kernels that sample and replay transcripts of threshold
answers.

Both kinds of kernel compute the public prediction p_t with the same function, so that a bottom is
recognized by equality of bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpwitness.core.numerics.jit import jit, jit_uncached
from dpwitness.core.numerics.kernels import kernel_value
from dpwitness.core.protocols.mechanism import FloatArray


@jit
def interval_log_probability(low: float, high: float) -> float:
    """Return log P(low <= Laplace(1) <= high), accurate in both tails."""
    if low > 0.0:
        return -low - math.log(2.0) + math.log1p(-math.exp(low - high))
    if high < 0.0:
        return high - math.log(2.0) + math.log1p(-math.exp(low - high))
    return math.log1p(-0.5 * (math.exp(low) + math.exp(-high)))


@jit
def _prediction(row: FloatArray, places: Any, alphas: FloatArray, count: int) -> float:
    """Return the public prediction at one test point, given its row of the Gram matrix and the
    updates so far.
    """
    total = 0.0
    for k in range(count):
        total += alphas[k] * row[places[k]]
    return total


@jit
def _noisy_answer(
    truth: float, predicted: float, scale: float, sigma: float, rng: np.random.Generator
) -> float:
    """Draw an answer: the noisy truth if it is farther than sigma from the public prediction,
    otherwise the prediction.
    """
    noisy = truth + scale * (rng.standard_exponential() - rng.standard_exponential())
    return noisy if abs(noisy - predicted) > sigma else predicted


@jit
def _answer_log_density(
    answer: float, truth: float, predicted: float, scale: float, sigma: float
) -> float:
    """Return the log-density of a noisy answer, or the log-mass of the public prediction."""
    gap = answer - predicted
    if abs(gap) > sigma:
        return -(abs(answer - truth) / scale + math.log(2.0 * scale))
    if gap == 0.0:
        return interval_log_probability(
            (predicted - sigma - truth) / scale, (predicted + sigma - truth) / scale
        )
    return -np.inf


@jit
def _halt(row: FloatArray, start: int, draw: bool) -> float:
    """Return the log-mass of the rounds after the halt, which have no answer (nan); if `draw`,
    write them.
    """
    log_mass = 0.0
    for t in range(start, row.size):
        if draw:
            row[t] = np.nan
        elif not math.isnan(row[t]):
            log_mass = -np.inf
    return log_mass


@jit
def transcripts(
    rows: FloatArray,
    draw: bool,
    truths: FloatArray,
    gram: FloatArray,
    updates: float,
    scale: float,
    sigma: float,
    eta: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Fill the rows with transcripts for fixed test points if `draw`; otherwise return the
    log-density of each row.

    `truths` holds <w*, phi(z_t)> and `gram` holds K(z_s, z_t).
    """
    size, rounds = rows.shape
    logs = np.zeros(size)
    places = np.empty(rounds, dtype=np.int64)
    alphas = np.empty(rounds)
    for i in range(size):
        count = 0
        for t in range(rounds):
            if count >= updates:
                logs[i] += _halt(rows[i], t, draw)
                break
            predicted = _prediction(gram[t], places, alphas, count)
            if draw:
                rows[i, t] = _noisy_answer(truths[t], predicted, scale, sigma, rng)
            else:
                logs[i] += _answer_log_density(rows[i, t], truths[t], predicted, scale, sigma)
            gap = rows[i, t] - predicted
            if abs(gap) > sigma:
                places[count] = t
                alphas[count] = math.copysign(eta, gap)
                count += 1
    return logs


# Not cached on disk: the code depends on the caller's rule and kernel, which have no stable
# identity across processes.
@jit_uncached
def adaptive_transcripts(
    rows: FloatArray,
    draw: bool,
    rule: Any,
    function: Any,
    named: tuple[int, int, float, float],
    radius: float,
    centers: FloatArray,
    coefficients: FloatArray,
    updates: float,
    scale: float,
    sigma: float,
    eta: float,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Draw transcripts at adaptive test points into `rows` (if `draw`), or replay the transcripts
    in `rows`.

    Returns the log-densities, and the round of the first test point that is too long, or -1.
    """
    size, rounds = rows.shape
    logs = np.zeros(size)
    points = np.zeros((rounds, centers.shape[1]))
    weights, answers = np.zeros(rounds), np.zeros(rounds)
    for i in range(size):
        count = 0
        weights[:] = 0.0
        for t in range(rounds):
            if count >= updates:
                logs[i] += _halt(rows[i], t, draw)
                break
            rule(t, points, answers, weights, points[t])
            if not _kernel_value(function, named, points[t], points[t]) <= radius * radius * (
                1.0 + 1e-9
            ):
                return logs, t
            truth, predicted = 0.0, 0.0
            for k in range(centers.shape[0]):
                truth += coefficients[k] * _kernel_value(function, named, points[t], centers[k])
            for k in range(t):
                if weights[k] != 0.0:
                    predicted += weights[k] * _kernel_value(function, named, points[t], points[k])
            if draw:
                rows[i, t] = _noisy_answer(truth, predicted, scale, sigma, rng)
            else:
                logs[i] += _answer_log_density(rows[i, t], truth, predicted, scale, sigma)
            if logs[i] == -np.inf:
                break
            answers[t] = rows[i, t]
            gap = answers[t] - predicted
            if abs(gap) > sigma:
                weights[t] = math.copysign(eta, gap)
                count += 1
    return logs, -1


@jit_uncached
def _kernel_value(
    function: Any, named: tuple[int, int, float, float], x: FloatArray, z: FloatArray
) -> float:
    """Return the kernel value at (x, z), from the user's function or the named kernel."""
    if function is None:
        return kernel_value(named[0], named[1], named[2], named[3], x, z)
    return function(x, z)  # type: ignore[no-any-return]
