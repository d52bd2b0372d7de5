"""Compiled part of `solvers`: vectorized primitives, and Newton's method for ridge-regularized sums
of losses with many linear terms.

Numba's calls of libm keep LLVM from vectorizing a loop. The exponential here is branch-free
arithmetic (2e-16 relative error, 6 times faster with AVX-512). The sums are compiled with
reassociation allowed, so that they use vector registers.

The method minimizes F_b(w) = ridge/2 |w|^2 + <b, w> + sum_i m_i l(<w, x_i>; y_i) for each row b,
starting from a known minimizer and its Hessian. At the end of every row the norm of the gradient is
proved to be at most the tolerance. The norm is either evaluated or bounded from the last Newton
step (Bach 2010, proposition 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dpwitness.core.numerics.jit import jit, jit_with
from dpwitness.core.numerics.losses import LOG_COSH, LOGISTIC, loss_at
from dpwitness.core.protocols import FloatArray

_MAX_STEPS = 500
F = TypeVar("F", bound=Callable[..., Any])

_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # trailing zeros: an integer below 2^20 times this is exact
_LN2_LOW = 1.90821492927058770002e-10
_TAYLOR = tuple(1.0 / math.factorial(k) for k in range(10, -1, -1))
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding and then subtracting it rounds to an integer


def elementwise(function: F) -> F:
    """Compile a loop without data-dependent branches.

    Fused multiply-add is allowed, and division by zero is not tested.
    """
    return jit_with(forceinline=True, error_model="numpy", fastmath={"contract"})(function)


def _reduction(function: F) -> F:
    """Compile a sum, with reassociation of its terms allowed."""
    return jit_with(forceinline=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})(
        function
    )


@elementwise
def exponential(x: float) -> float:
    """Return e^x for |x| <= 700; larger arguments are clamped.

    Cody and Waite reduction, then a Taylor polynomial of degree 12 on |r| <= ln(2)/2.
    """
    x = min(max(x, -700.0), 700.0)
    rounded = (x * _LOG2E + _ROUND) - _ROUND
    r = (x - rounded * _LN2_HIGH) - rounded * _LN2_LOW
    p = r * (1.0 / 479001600.0) + 1.0 / 39916800.0
    for coefficient in _TAYLOR:
        p = p * r + coefficient
    bits = np.int64((np.int64(rounded) + 1023) << 52)  # 2^rounded, written into the exponent field
    return float(p * np.int64(bits).view(np.float64))


@_reduction
def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product of two vectors of equal length."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@_reduction
def row_dot(rows: FloatArray, j: int, b: FloatArray) -> float:
    """Return the inner product of row j of a matrix with a vector.

    No view of the row is made, which would cost more than the sum over a few records.
    """
    total = 0.0
    for i in range(b.size):
        total += rows[j, i] * b[i]
    return total


@_reduction
def norm(a: FloatArray) -> float:
    """Return the Euclidean norm of a vector."""
    return float(np.sqrt(dot(a, a)))


@elementwise
def cholesky(matrix: FloatArray) -> bool:
    """Overwrite the lower triangle of a matrix with its Cholesky factor.

    Returns False if the matrix is not positive definite.
    """
    for j in range(matrix.shape[0]):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= matrix[j, k] * matrix[j, k]
        if not pivot > 0.0:
            return False
        pivot = np.sqrt(pivot)
        matrix[j, j] = pivot
        inverse = 1.0 / pivot
        for i in range(j + 1, matrix.shape[0]):
            value = matrix[i, j]
            for k in range(j):
                value -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = value * inverse
    return True


@elementwise
def cholesky_solve(factor: FloatArray, right: FloatArray, out: FloatArray) -> None:
    """Write into `out` the solution of (factor factor^T) out = right."""
    size = factor.shape[0]
    for i in range(size):
        value = right[i]
        for k in range(i):
            value -= factor[i, k] * out[k]
        out[i] = value / factor[i, i]
    for i in range(size - 1, -1, -1):
        value = out[i]
        for k in range(i + 1, size):
            value -= factor[k, i] * out[k]
        out[i] = value / factor[i, i]


@jit
def log_determinant(factor: FloatArray) -> float:
    """Return the log-determinant of factor factor^T."""
    total = 0.0
    for i in range(factor.shape[0]):
        total += np.log(factor[i, i])
    return 2.0 * total


@elementwise
def _logistic_terms(
    u: FloatArray, y: FloatArray, m: FloatArray, slope: FloatArray, curvature: FloatArray
) -> None:
    """Write m_i l' and m_i l'' of the logistic loss into `slope` and `curvature`."""
    for i in range(u.size):
        e = exponential(y[i] * u[i])
        q = 1.0 / (1.0 + e)
        slope[i] = -m[i] * y[i] * q
        curvature[i] = m[i] * q * (q * e)


@elementwise
def _log_cosh_terms(
    u: FloatArray,
    y: FloatArray,
    m: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
    width: float,
) -> None:
    """Write m_i l' and m_i l'' of the log-cosh loss into `slope` and `curvature`."""
    rate = 2.0 / width
    for i in range(u.size):
        e = exponential(rate * (u[i] - y[i]))
        q = 1.0 / (1.0 + e)
        slope[i] = m[i] * (1.0 - 2.0 * q)
        curvature[i] = m[i] * 2.0 * rate * q * (q * e)


@elementwise
def loss_terms(
    code: int,
    width: float,
    smoothing: float,
    u: FloatArray,
    y: FloatArray,
    m: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
) -> None:
    """Write m_i l'(u_i; y_i) into `slope` and m_i l''(u_i; y_i) into `curvature`.

    The scale of the loss must be included in the weights m.
    """
    if code == LOGISTIC:
        _logistic_terms(u, y, m, slope, curvature)
    elif code == LOG_COSH:
        _log_cosh_terms(u, y, m, slope, curvature, width)
    else:
        for i in range(u.size):
            _, first, second = loss_at(code, u[i], y[i], width, smoothing)
            slope[i], curvature[i] = m[i] * first, m[i] * second


@elementwise
def predictions(columns: FloatArray, w: FloatArray, u: FloatArray) -> None:
    """Write the predictions u_i = <w, x_i> into `u`; each row of `columns` holds one coordinate of
    all records.
    """
    for i in range(u.size):
        u[i] = w[0] * columns[0, i]
    for j in range(1, columns.shape[0]):
        weight = w[j]
        for i in range(u.size):
            u[i] += weight * columns[j, i]


@elementwise
def gradient_at(
    columns: FloatArray,
    y: FloatArray,
    m: FloatArray,
    code: int,
    width: float,
    smoothing: float,
    ridge: float,
    b: FloatArray,
    w: FloatArray,
    u: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
    out: FloatArray,
) -> float:
    """Write the gradient of F_b at w into `out` and m l'' into `curvature`; return the norm of the
    gradient.
    """
    predictions(columns, w, u)
    loss_terms(code, width, smoothing, u, y, m, slope, curvature)
    for j in range(w.size):
        out[j] = ridge * w[j] + b[j] + row_dot(columns, j, slope)
    return norm(out)


@elementwise
def _scale_row(columns: FloatArray, j: int, curvature: FloatArray, out: FloatArray) -> None:
    """Write row j of `columns`, times `curvature`, into `out`."""
    for i in range(out.size):
        out[i] = columns[j, i] * curvature[i]


@elementwise
def hessian_at(
    columns: FloatArray, ridge: float, curvature: FloatArray, scratch: FloatArray, out: FloatArray
) -> None:
    """Write the lower triangle of ridge I + sum_i curvature_i x_i x_i^T into `out`."""
    for p in range(out.shape[0]):
        _scale_row(columns, p, curvature, scratch)
        for q in range(p + 1):
            out[p, q] = row_dot(columns, q, scratch)
        out[p, p] += ridge


@elementwise
def _step(start: FloatArray, length: float, direction: FloatArray, out: FloatArray) -> None:
    """Write start - length direction into `out`, which may be `start`."""
    for j in range(out.size):
        out[j] = start[j] - length * direction[j]


@elementwise
def _bisected_step(
    columns: FloatArray,
    y: FloatArray,
    m: FloatArray,
    code: int,
    width: float,
    smoothing: float,
    ridge: float,
    b: FloatArray,
    current: FloatArray,
    delta: FloatArray,
    initial_slope: float,
    u: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
    trial: FloatArray,
    g: FloatArray,
) -> float:
    """Return a step along the Newton direction `delta` at which F_b still falls, less steeply than
    a tenth of `initial_slope` if possible, by bisection on the sign of the slope.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        step = 0.5 * (low + high)
        _step(current, step, delta, trial)
        gradient_at(columns, y, m, code, width, smoothing, ridge, b, trial, u, slope, curvature, g)
        found = dot(g, delta)
        if not found >= 0.0:
            high = step
            continue
        low = step
        if found <= 0.1 * initial_slope:
            break
    return low


@elementwise
def minimize_rows(
    columns: FloatArray,
    y: FloatArray,
    m: FloatArray,
    code: int,
    width: float,
    smoothing: float,
    concordance: float,
    radius: float,
    slope_total: float,
    curvature_total: float,
    ridge: float,
    start: FloatArray,
    start_factor: FloatArray,
    offset: FloatArray,
    tolerance: float,
    rows: FloatArray,
) -> int:
    """Overwrite each row b with the minimizer of F_b.

    Returns the first row that did not converge, or -1. `start` minimizes F_offset, and
    `start_factor` is the Cholesky factor of the Hessian there. `radius` bounds |x_i|, `slope_total`
    bounds sum_i m_i |l'| |x_i|, and `curvature_total` bounds sum_i m_i l'' |x_i|^2. A row is
    finished when |gradient| <= tolerance |b - offset| + the rounding error of the sum.
    """
    d, n = columns.shape
    u, slope, curvature = np.empty(n), np.empty(n), np.empty(n)
    own_factor = np.empty((d, d))
    b, current, trial, g, g_trial, delta = (
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
    )
    # Cost of a factorization in units of a gradient (an exponential counts as eight
    # multiplications). If a factorization costs at most one gradient, as in low dimension, always
    # refactor; otherwise reuse the old factor while it contracts fast enough.
    refactor_cost = (d * (d + 1) / 2.0 * n + d * d * d / 6.0) / (n * (2.0 * d + 8.0))
    for k in range(rows.shape[0]):
        b[:] = rows[k]
        current[:] = start
        _step(b, 1.0, offset, g)
        size = norm(g)
        smallest_norm = size
        if size == 0.0:
            rows[k, :] = start
            continue
        goal = tolerance * size + 4e-15 * slope_total
        fresh, uses_start_factor, step = True, True, 1.0
        done = False
        cholesky_solve(start_factor, g, delta)
        for _ in range(_MAX_STEPS):
            if fresh and step == 1.0:
                z = concordance * radius * norm(delta)
                # |gradient after the step| <= radius M (e^z - 1 - z)/z^2 <delta, H delta>; (e^z - 1
                # - z)/z^2 <= 0.72 for z <= 1.
                if z <= 1.0 and 0.72 * radius * concordance * abs(dot(g, delta)) <= goal:
                    _step(current, 1.0, delta, rows[k])
                    done = True
                    break
            _step(current, step, delta, trial)
            size_trial = gradient_at(
                columns, y, m, code, width, smoothing, ridge, b, trial, u, slope, curvature, g_trial
            )
            # Predictions are rounded too, which matters if w is large.
            if size_trial <= goal + 1e-15 * curvature_total * norm(trial):
                rows[k, :] = trial
                done = True
                break
            # The Newton direction decreases |gradient| for small steps, so it suffices to test
            # |gradient|; no objective is evaluated.
            if size_trial <= (1.0 - 1e-4 * step) * smallest_norm:
                keep_factor = (
                    step == 1.0
                    and refactor_cost > 1.0
                    and np.log(goal / size_trial) > refactor_cost * np.log(size_trial / size)
                )
                current[:] = trial
                g[:] = g_trial
                size, smallest_norm, step = size_trial, size_trial, 1.0
            elif fresh and step > 0.1:
                step *= 0.25
                continue
            else:
                # If the old factor is too inaccurate, the Hessian at the current point replaces it.
                # If Newton's model is inaccurate, for example where slopes saturate, bisect along
                # the Newton direction on the sign of the slope of F.
                if fresh:
                    low = _bisected_step(
                        columns,
                        y,
                        m,
                        code,
                        width,
                        smoothing,
                        ridge,
                        b,
                        current,
                        delta,
                        dot(g, delta),
                        u,
                        slope,
                        curvature,
                        trial,
                        g_trial,
                    )
                    _step(current, low, delta, current)
                size = gradient_at(
                    columns, y, m, code, width, smoothing, ridge, b, current, u, slope, curvature, g
                )
                keep_factor, step = False, 1.0
            fresh = not keep_factor
            if fresh:
                hessian_at(columns, ridge, curvature, u, own_factor)
                if not cholesky(own_factor):
                    break
                uses_start_factor = False
            if uses_start_factor:
                cholesky_solve(start_factor, g, delta)
            else:
                cholesky_solve(own_factor, g, delta)
        if not done:
            return k
    return -1


@elementwise
def _bracketed_step(
    u: FloatArray,
    u0: FloatArray,
    low: FloatArray,
    high: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
    gain: float,
    stiffness: float,
    shift: float,
    goal: float,
) -> int:
    """Make one safeguarded Newton step for u = u0 - gain slope(u), elementwise.

    Returns the number of unfinished elements.
    """
    unfinished = 0
    for i in range(u.size):
        residual = u[i] - u0[i] + gain * slope[i]
        # The rounding errors of u0, of the product, and of u - y inside the slope.
        rounding = 1e-15 * (abs(u0[i]) + gain * abs(slope[i]) + stiffness * (abs(u[i]) + shift))
        converged = abs(residual) <= goal + rounding
        unfinished += 0 if converged else 1
        low[i] = u[i] if residual < 0.0 else low[i]
        high[i] = u[i] if residual > 0.0 else high[i]
        change = residual / (1.0 + gain * curvature[i])
        step = u[i] - change
        # A step of more than half the bracket may oscillate inside it forever: bisect instead.
        inside = (step > low[i]) & (step < high[i]) & (2.0 * abs(change) <= high[i] - low[i])
        candidate = step if inside else 0.5 * (low[i] + high[i])
        u[i] = u[i] if converged else candidate
    return unfinished


@jit
def minimize_rows_one_record(
    x: FloatArray,
    y: float,
    m: float,
    code: int,
    width: float,
    smoothing: float,
    bend: float,
    ridge: float,
    tolerance: float,
    rows: FloatArray,
) -> int:
    """Overwrite each row b with the minimizer of F_b, for data with a single distinct record x.

    Returns the first failed row, or -1. Works in any dimension and is vectorized over the rows. The
    minimizer is -(b + s x)/ridge. Here s = m l'(u), and the prediction u = <w, x> solves one
    increasing equation, u = u0 - gain s. `bend` bounds l''. A residual r in this equation leaves a
    gradient of norm bend m |x| r if s is computed as the slope at u, or |x| r / gain if s is
    computed from the equation.
    """
    block = 64
    d = x.size
    gain = dot(x, x) / ridge
    stiffness = gain * bend * m
    u, u0, low, high = np.empty(block), np.empty(block), np.empty(block), np.empty(block)
    slope, curvature = np.empty(block), np.empty(block)
    labels, weights = np.full(block, y), np.full(block, m)
    for first in range(0, rows.shape[0], block):
        count = min(block, rows.shape[0] - first)
        smallest = np.inf
        for i in range(block):
            inner, square = 0.0, 0.0
            # A shorter last block is padded with its first row.
            k = first + i if i < count else first
            for j in range(d):
                inner += x[j] * rows[k, j]
                square += rows[k, j] * rows[k, j]
            u0[i] = -inner / ridge
            u[i] = u0[i]
            smallest = min(smallest, square)
        loss_terms(code, width, smoothing, u, labels, weights, slope, curvature)
        for i in range(block):
            end = u0[i] - gain * slope[i]
            low[i], high[i] = min(u0[i], end), max(u0[i], end)
            u[i] = min(max(u0[i] - gain * slope[i] / (1.0 + gain * curvature[i]), low[i]), high[i])
        error_gain = norm(x) * min(bend * m, 1.0 / gain)
        goal = tolerance * np.sqrt(smallest) / error_gain if error_gain > 0.0 else np.inf
        done = False
        for _ in range(_MAX_STEPS):
            loss_terms(code, width, smoothing, u, labels, weights, slope, curvature)
            if (
                _bracketed_step(u, u0, low, high, slope, curvature, gain, stiffness, abs(y), goal)
                == 0
            ):
                done = True
                break
        if not done:
            return first
        for i in range(count):
            s = slope[i] if stiffness < 1.0 else (u0[i] - u[i]) / gain
            for j in range(d):
                rows[first + i, j] = -(rows[first + i, j] + s * x[j]) / ridge
            if stiffness >= 1.0:
                # The two terms nearly cancel along x. Correct the prediction, to which the slope is
                # very sensitive.
                prediction_error = u[i]
                for j in range(d):
                    prediction_error -= rows[first + i, j] * x[j]
                for j in range(d):
                    rows[first + i, j] += prediction_error / (gain * ridge) * x[j]
    return -1


@jit
def noise_and_determinant(
    columns: FloatArray,
    y: FloatArray,
    m: FloatArray,
    code: int,
    width: float,
    smoothing: float,
    ridge: float,
    outputs: FloatArray,
    b: FloatArray,
    determinant: FloatArray,
) -> None:
    """Write the linear term b(w) whose minimizer is each output w, and the log-determinant of
    db/dw.
    """
    d, n = columns.shape
    u, slope, curvature = np.empty(n), np.empty(n), np.empty(n)
    hessian, zero, g = np.empty((d, d)), np.zeros(d), np.empty(d)
    for k in range(outputs.shape[0]):
        gradient_at(
            columns, y, m, code, width, smoothing, ridge, zero, outputs[k], u, slope, curvature, g
        )
        hessian_at(columns, ridge, curvature, u, hessian)
        determinant[k] = log_determinant(hessian) if cholesky(hessian) else np.nan
        for j in range(d):
            b[k, j] = -g[j]
