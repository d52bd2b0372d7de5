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
def transcripts(
    truths: FloatArray,
    gram: FloatArray,
    updates: float,
    scale: float,
    sigma: float,
    eta: float,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return answers at fixed test points, (size, T); `truths` holds the predictions of w*."""
    rounds = truths.size
    out = np.full((size, rounds), np.nan)
    places = np.empty(rounds, dtype=np.int64)
    alphas = np.empty(rounds)
    for i in range(size):
        count = 0
        for t in range(rounds):
            if count >= updates:
                break
            predicted = _prediction(gram[t], places, alphas, count)
            answer = truths[t] + scale * (rng.standard_exponential() - rng.standard_exponential())
            gap = answer - predicted
            if abs(gap) > sigma:
                out[i, t] = answer
                places[count] = t
                alphas[count] = math.copysign(eta, gap)
                count += 1
            else:
                out[i, t] = predicted
    return out


@jit
def transcript_log_densities(
    rows: FloatArray,
    truths: FloatArray,
    gram: FloatArray,
    updates: float,
    scale: float,
    sigma: float,
    eta: float,
) -> FloatArray:
    """Return the log-density of each row of answers at fixed test points."""
    size, rounds = rows.shape
    out = np.zeros(size)
    places = np.empty(rounds, dtype=np.int64)
    alphas = np.empty(rounds)
    for i in range(size):
        count = 0
        for t in range(rounds):
            answer = rows[i, t]
            if count >= updates or math.isnan(answer):
                out[i] = out[i] if count >= updates and math.isnan(answer) else -np.inf
                continue
            predicted = _prediction(gram[t], places, alphas, count)
            gap = answer - predicted
            if gap == 0.0:
                out[i] += interval_log_probability(
                    (predicted - sigma - truths[t]) / scale, (predicted + sigma - truths[t]) / scale
                )
            elif abs(gap) > sigma:
                out[i] -= abs(answer - truths[t]) / scale + math.log(2.0 * scale)
                places[count] = t
                alphas[count] = math.copysign(eta, gap)
                count += 1
            else:
                out[i] = -np.inf
                break
    return out


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
                for late in range(t, rounds):
                    if draw:
                        rows[i, late] = np.nan
                    elif not math.isnan(rows[i, late]):
                        logs[i] = -np.inf
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
                answer = truth + scale * (rng.standard_exponential() - rng.standard_exponential())
                rows[i, t] = answer if abs(answer - predicted) > sigma else predicted
            answer = rows[i, t]
            gap = answer - predicted
            answers[t] = answer
            if abs(gap) > sigma:
                logs[i] -= abs(answer - truth) / scale + math.log(2.0 * scale)
                weights[t] = math.copysign(eta, gap)
                count += 1
            elif gap == 0.0:
                logs[i] += interval_log_probability(
                    (predicted - sigma - truth) / scale, (predicted + sigma - truth) / scale
                )
            else:
                logs[i] = -np.inf
                break
    return logs, -1


@jit_uncached
def _kernel_value(
    function: Any, named: tuple[int, int, float, float], x: FloatArray, z: FloatArray
) -> float:
    """Return the kernel value at (x, z), from the user's function or the named kernel."""
    if function is None:
        return kernel_value(named[0], named[1], named[2], named[3], x, z)
    return function(x, z)  # type: ignore[no-any-return]
