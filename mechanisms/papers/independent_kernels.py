"""The compiled part of `independent`: sampling of points and log-densities of transcripts.

The sampled points are points at which two predictors disagree. For the linear kernel on the unit
ball the law of a point depends on t = <z, v>/|v| only. The density is proportional to exp(k |t|)
(exact form) or cosh(k t) (mixture form), times the volume (1 - t^2)^((d-1)/2) of the slice at t.
"""

from __future__ import annotations

import math

import numpy as np

from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.mechanisms.papers.interactive_kernels import interval_log_probability
from dpwitness.mechanisms.textbook.categorical import draw_index

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)


@jit
def _log_partition(
    k: float, d: int, mixture: bool, nodes: FloatArray, weights: FloatArray
) -> float:
    """Return the log of the integral of exp(k |t|), or cosh(k t), over the unit ball of dimension
    d.

    With u = 1 - t = U x^2 the integrand is smooth at the pole for every d. Beyond U the integrand
    is negligible in double precision.
    """
    upper_u = min(1.0, (60.0 + 4.0 * (d + 1)) / max(k, 1e-300))
    total = 0.0
    for i in range(nodes.size):
        x = 0.5 * (nodes[i] + 1.0)
        u = upper_u * x * x
        value = math.exp(-k * u)
        if mixture:
            value = 0.5 * (value + math.exp(-k * (2.0 - u)))
        total += weights[i] * value * (u * (2.0 - u)) ** (0.5 * (d - 1)) * upper_u * x
    # factors for both halves of the ball and for the volume of the (d-1)-dimensional unit ball
    return (
        k + math.log(2.0 * total) + 0.5 * (d - 1) * math.log(math.pi) - math.lgamma(0.5 * (d + 1))
    )


@jit
def _draw_height(k: float, d: int, mixture: bool, rng: np.random.Generator) -> float:
    """Return a draw of |t| with density proportional to exp(k t) (1 - t^2)^((d-1)/2) on [0, 1].

    For the mixture, return a draw of t itself with this density on [-1, 1].
    """
    shape = 0.5 * (d + 1)
    largest = 2.0 if mixture else 1.0
    while True:
        if k < 2.0:  # rejection sampling: propose t of a uniform point of the ball
            first = rng.standard_normal()
            square = first * first
            for _ in range(d - 1):
                other = rng.standard_normal()
                square += other * other
            t = first / math.sqrt(square) * math.pow(rng.random(), 1.0 / d)
            t = t if mixture else abs(t)
            if rng.random() < math.exp(k * (t - 1.0)):
                return t
        else:  # rejection sampling: propose 1 - t from a Gamma law, accept by the other factor of the slice  # noqa: E501
            u = rng.standard_gamma(shape) / k
            if u <= largest and rng.random() < (0.5 * (2.0 - u)) ** (0.5 * (d - 1)):
                return 1.0 - u


@jit
def _draw_point(
    v: FloatArray,
    length: float,
    kappa: float,
    radius: float,
    mixture: bool,
    z: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Write a random point of the ball into z, given the difference v of the weights; overwrite v
    by its direction.
    """
    d = v.size
    if length > 0.0:
        v /= length
    else:
        v[0] = 1.0  # the law is isotropic, so that any direction will do
    t = _draw_height(kappa * length * radius, d, mixture, rng)
    if rng.random() < 0.5:
        t = -t
    along, square = 0.0, 0.0
    for j in range(d):
        z[j] = rng.standard_normal()
        along += z[j] * v[j]
    for j in range(d):
        z[j] -= along * v[j]
        square += z[j] * z[j]
    across = 0.0
    if d > 1:
        across = math.sqrt(max(0.0, 1.0 - t * t) / square) * rng.random() ** (1.0 / (d - 1))
    for j in range(d):
        z[j] = radius * (t * v[j] + across * z[j])


@jit
def _noisy_answer(
    truth: float, predicted: float, scale: float, sigma: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Return an answer and the sign of its correction.

    If the noisy gap is within sigma, these are the public prediction and 0. Otherwise they are a
    fresh noisy answer and the sign of the gap.
    """
    gap = truth - predicted + scale * (rng.standard_exponential() - rng.standard_exponential())
    if not abs(gap) > sigma:
        return predicted, 0.0
    return truth + scale * (rng.standard_exponential() - rng.standard_exponential()), math.copysign(
        1.0, gap
    )


@jit
def ball_transcripts(
    best: FloatArray,
    kappa: float,
    radius: float,
    mixture: bool,
    scale: float,
    sigma: float,
    eta: float,
    rounds: int,
    release: int,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return `size` runs with the linear kernel, one per row.

    A row holds blocks (z, answer, sign) for `release` 0, the answers for 1, or the final weights
    for 2.
    """
    d = best.size
    width = rounds * (d + 2) if release == 0 else (rounds if release == 1 else d)
    out = np.empty((size, width))
    weights, v, z = np.empty(d), np.empty(d), np.empty(d)
    for i in range(size):
        weights[:] = 0.0
        if release == 2:
            out[i] = 0.0
        for t in range(rounds):
            square = 0.0
            for j in range(d):
                v[j] = weights[j] - best[j]
                square += v[j] * v[j]
            length = math.sqrt(square)
            _draw_point(v, length, kappa, radius, mixture, z, rng)
            truth, predicted = 0.0, 0.0
            for j in range(d):
                truth += best[j] * z[j]
                predicted += weights[j] * z[j]
            predicted, sign = _noisy_answer(truth, predicted, scale, sigma, rng)
            if release == 0:
                out[i, t * (d + 2) : t * (d + 2) + d] = z
                out[i, t * (d + 2) + d] = predicted
                out[i, t * (d + 2) + d + 1] = sign
            elif release == 1:
                out[i, t] = predicted
            elif t == rounds - 1:
                out[i] = weights  # w_B does not include alpha_B
            for j in range(d):
                weights[j] += eta * sign * z[j]
    return out


@jit
def _answer_log_density(
    answer: float, sign: float, truth: float, predicted: float, scale: float, sigma: float
) -> float:
    """Return the log-density of one answer and its sign.

    Bottom (sign 0): the noisy gap is within sigma and the answer is public. Top: the gap lies
    beyond sigma on one side, and a fresh noisy answer follows.
    """
    center = truth - predicted
    if sign == 0.0:
        if not abs(answer - predicted) <= 1e-12 * (1.0 + abs(predicted)):
            return -np.inf
        return interval_log_probability((-sigma - center) / scale, (sigma - center) / scale)
    if abs(sign) != 1.0:
        return -np.inf
    beyond = (sigma - sign * center) / scale
    log_tail = -beyond - math.log(2.0) if beyond > 0.0 else math.log1p(-0.5 * math.exp(beyond))
    return log_tail - abs(answer - truth) / scale - math.log(2.0 * scale)


@jit
def ball_log_densities(
    rows: FloatArray,
    best: FloatArray,
    kappa: float,
    radius: float,
    mixture: bool,
    scale: float,
    sigma: float,
    eta: float,
    nodes: FloatArray,
    quadrature: FloatArray,
) -> FloatArray:
    """Return the log-density of each full transcript, for the linear kernel."""
    d = best.size
    out = np.zeros(len(rows))
    weights = np.empty(d)
    for i in range(len(rows)):
        weights[:] = 0.0
        for start in range(0, rows.shape[1], d + 2):
            z = rows[i, start : start + d]
            length, along, truth, predicted, norm = 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(d):
                gap = weights[j] - best[j]
                length += gap * gap
                along += gap * z[j]
                truth += best[j] * z[j]
                predicted += weights[j] * z[j]
                norm += z[j] * z[j]
            if not norm <= radius * radius * (1.0 + 1e-9):
                out[i] = -np.inf
                break
            exponent = kappa * abs(along)
            if mixture:
                exponent += math.log1p(math.exp(-2.0 * exponent)) - math.log(2.0)
            out[i] += (
                exponent
                - _log_partition(kappa * radius * math.sqrt(length), d, mixture, nodes, quadrature)
                - d * math.log(radius)
            )
            sign = rows[i, start + d + 1]
            out[i] += _answer_log_density(rows[i, start + d], sign, truth, predicted, scale, sigma)
            for j in range(d):
                weights[j] += eta * sign * z[j]
    return out


@jit
def _cumulative_weights(
    truths: FloatArray, predictions: FloatArray, kappa: float, sums: FloatArray
) -> float:
    """Write the cumulative sums of exp(kappa (gap - largest gap)) over the net into `sums`.

    Returns the largest gap.
    """
    largest = 0.0
    for s in range(truths.size):
        largest = max(largest, abs(predictions[s] - truths[s]))
    mass = 0.0
    for s in range(truths.size):
        mass += math.exp(kappa * (abs(predictions[s] - truths[s]) - largest))
        sums[s] = mass
    return largest


@jit
def net_transcripts(
    truths: FloatArray,
    gram: FloatArray,
    kappa: float,
    scale: float,
    sigma: float,
    eta: float,
    rounds: int,
    release: int,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return `size` runs over a net, one per row.

    A row holds blocks (index of the point, answer, sign) for `release` 0, the answers for 1, or the
    final coefficients at the points for 2.
    """
    points = truths.size
    out = np.zeros((size, 3 * rounds if release == 0 else (rounds if release == 1 else points)))
    predictions, sums = np.empty(points), np.empty(points)
    for i in range(size):
        predictions[:] = 0.0
        for t in range(rounds):
            _cumulative_weights(truths, predictions, kappa, sums)
            chosen = draw_index(sums, rng.random() * sums[-1])
            answer, sign = _noisy_answer(truths[chosen], predictions[chosen], scale, sigma, rng)
            if sign != 0.0:
                for s in range(points):
                    predictions[s] += eta * sign * gram[chosen, s]
            if release == 0:
                out[i, 3 * t], out[i, 3 * t + 1], out[i, 3 * t + 2] = chosen, answer, sign
            elif release == 1:
                out[i, t] = answer
            elif t < rounds - 1:
                out[i, chosen] += eta * sign
    return out


@jit
def net_log_densities(
    rows: FloatArray,
    truths: FloatArray,
    gram: FloatArray,
    kappa: float,
    scale: float,
    sigma: float,
    eta: float,
) -> FloatArray:
    """Return the log-density of each full transcript whose points are drawn from a finite net."""
    points = truths.size
    out = np.zeros(len(rows))
    predictions, sums = np.empty(points), np.empty(points)
    for i in range(len(rows)):
        predictions[:] = 0.0
        for start in range(0, rows.shape[1], 3):
            point_index = rows[i, start]
            if not (point_index >= 0.0 and point_index < points) or point_index != math.floor(
                point_index
            ):
                out[i] = -np.inf
                break
            chosen = int(point_index)
            largest = _cumulative_weights(truths, predictions, kappa, sums)
            out[i] += kappa * (abs(predictions[chosen] - truths[chosen]) - largest) - math.log(
                sums[-1]
            )
            sign = rows[i, start + 2]
            out[i] += _answer_log_density(
                rows[i, start + 1], sign, truths[chosen], predictions[chosen], scale, sigma
            )
            if not math.isfinite(out[i]):
                break
            for s in range(points):
                predictions[s] += eta * sign * gram[chosen, s]
    return out
