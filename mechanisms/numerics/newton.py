"""Newton's method for ridge-regularised sums of losses, many linear terms at once: the compiled half of `solvers`.

Minimises F_b(w) = ridge/2 |w|^2 + <b, w> + sum_i m_i l(<w, x_i>; y_i) for each row b, from a known minimiser and its
Hessian. Every row ends with a gradient norm that is proved to be at most the tolerance, either evaluated or bounded from the last Newton
step (Bach 2010, proposition 1).
"""

from __future__ import annotations

import numpy as np

from dpwitness.mechanisms.numerics.arithmetic import cholesky, cholesky_solve, dot, elementwise, log_determinant, norm, row_dot
from dpwitness.mechanisms.numerics.jit import jit
from dpwitness.mechanisms.numerics.losses import loss_terms
from dpwitness.mechanisms.terms.protocol import FloatArray

_MOST_STEPS = 500


@elementwise
def predictions(columns: FloatArray, w: FloatArray, u: FloatArray) -> None:
    """Write u_i = <w, x_i>; `columns` holds one coordinate of all records a row."""
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
    """Write the gradient of F_b at w into `out`, leave m l'' in `curvature`, return the gradient's norm."""
    predictions(columns, w, u)
    loss_terms(code, width, smoothing, u, y, m, slope, curvature)
    for j in range(w.size):
        out[j] = ridge * w[j] + b[j] + row_dot(columns, j, slope)
    return norm(out)


@elementwise
def _scale_row(columns: FloatArray, j: int, curvature: FloatArray, out: FloatArray) -> None:
    for i in range(out.size):
        out[i] = columns[j, i] * curvature[i]


@elementwise
def hessian_at(columns: FloatArray, ridge: float, curvature: FloatArray, scratch: FloatArray, out: FloatArray) -> None:
    """Write the lower triangle of ridge I + sum_i curvature_i x_i x_i^T."""
    for p in range(out.shape[0]):
        _scale_row(columns, p, curvature, scratch)
        for q in range(p + 1):
            out[p, q] = row_dot(columns, q, scratch)
        out[p, p] += ridge


@elementwise
def minimise_rows(
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
) -> tuple[int, int]:
    """Overwrite each row b by the minimiser of F_b. Returns the first row that did not converge (or -1) and the number of gradients taken.

    `start` minimises F_offset and `start_factor` is the Cholesky factor of the Hessian there. `radius` bounds |x_i|, `slope_total` bounds
    sum_i m_i |l'| |x_i| and `curvature_total` bounds sum_i m_i l'' |x_i|^2. A row is done when |gradient| <= tolerance |b - offset| + the
    rounding error of the sum.
    """
    d, n = columns.shape
    u, slope, curvature = np.empty(n), np.empty(n), np.empty(n)
    own = np.empty((d, d))
    b, base, trial, g, g_trial, delta = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    # What a factorisation costs in gradients (an exponential counted as eight multiplications). Where it is as cheap as one, as in low
    # dimension, refactor always; otherwise keep the old factor while it still contracts fast enough.
    refactor_cost = (d * (d + 1) / 2.0 * n + d * d * d / 6.0) / (n * (2.0 * d + 8.0))
    gradients = 0
    for k in range(rows.shape[0]):
        for j in range(d):
            b[j] = rows[k, j]
            base[j] = start[j]
            g[j] = b[j] - offset[j]
        size = norm(g)
        least = size
        if size == 0.0:
            for j in range(d):
                rows[k, j] = start[j]
            continue
        goal = tolerance * size + 4e-15 * slope_total
        fresh, shared, step = True, True, 1.0
        done = False
        cholesky_solve(start_factor, g, delta)
        for _ in range(_MOST_STEPS):
            if fresh and step == 1.0:
                z = concordance * radius * norm(delta)
                # |gradient after the step| <= radius M (e^z - 1 - z)/z^2 <delta, H delta>, and that factor is at most 0.72 for z <= 1.
                if z <= 1.0 and 0.72 * radius * concordance * abs(dot(g, delta)) <= goal:
                    for j in range(d):
                        rows[k, j] = base[j] - delta[j]
                    done = True
                    break
            for j in range(d):
                trial[j] = base[j] - step * delta[j]
            size_trial = gradient_at(columns, y, m, code, width, smoothing, ridge, b, trial, u, slope, curvature, g_trial)
            gradients += 1
            # Predictions are rounded too, which shows where w is large.
            if size_trial <= goal + 1e-15 * curvature_total * norm(trial):
                for j in range(d):
                    rows[k, j] = trial[j]
                done = True
                break
            # The Newton direction lowers |gradient| at first, which is all that a step must do: no objective is evaluated.
            if size_trial <= (1.0 - 1e-4 * step) * least:
                keep = False
                if step == 1.0 and refactor_cost > 1.0:
                    keep = np.log(goal / size_trial) > refactor_cost * np.log(size_trial / size)
                for j in range(d):
                    base[j] = trial[j]
                    g[j] = g_trial[j]
                size, least, step = size_trial, size_trial, 1.0
            elif fresh and step > 0.1:
                step *= 0.25
                continue
            else:
                # Either the old factor misleads, and the Hessian at the base will do, or Newton's model does, as where slopes saturate.
                # Then go along its direction while F falls, which the sign of the slope tells, until Newton beats the least gradient.
                if fresh:
                    low, high = 0.0, 1.0
                    falling = dot(g, delta)
                    for _ in range(60):
                        step = 0.5 * (low + high)
                        for j in range(d):
                            trial[j] = base[j] - step * delta[j]
                        gradient_at(columns, y, m, code, width, smoothing, ridge, b, trial, u, slope, curvature, g_trial)
                        gradients += 1
                        left = dot(g_trial, delta)
                        if left >= 0.0:
                            low = step
                            if left <= 0.1 * falling:
                                break
                        else:
                            high = step
                    for j in range(d):
                        base[j] -= low * delta[j]
                size = gradient_at(columns, y, m, code, width, smoothing, ridge, b, base, u, slope, curvature, g)
                gradients += 1
                keep, step = False, 1.0
            fresh = not keep
            if fresh:
                hessian_at(columns, ridge, curvature, u, own)
                if not cholesky(own):
                    break
                shared = False
            if shared:
                cholesky_solve(start_factor, g, delta)
            else:
                cholesky_solve(own, g, delta)
        if not done:
            return k, gradients
    return -1, gradients


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
    """One safeguarded Newton step for u = u0 - gain slope(u), elementwise; returns how many elements were not there yet."""
    unfinished = 0
    for i in range(u.size):
        residual = u[i] - u0[i] + gain * slope[i]
        # The rounding of u0, of the product, and of u - y inside the slope.
        rounding = 1e-15 * (abs(u0[i]) + gain * abs(slope[i]) + stiffness * (abs(u[i]) + shift))
        there = abs(residual) <= goal + rounding
        unfinished += 0 if there else 1
        low[i] = u[i] if residual < 0.0 else low[i]
        high[i] = u[i] if residual > 0.0 else high[i]
        change = residual / (1.0 + gain * curvature[i])
        step = u[i] - change
        # A step of more than half the bracket may swing back and forth inside it for good: bisect instead.
        inside = (step > low[i]) & (step < high[i]) & (2.0 * abs(change) <= high[i] - low[i])
        moved = step if inside else 0.5 * (low[i] + high[i])
        u[i] = u[i] if there else moved
    return unfinished


@jit
def minimise_rows_one_record(
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
    """`minimise_rows` for data with a single distinct record x, any dimension, vectorised over rows. Returns the first failed row, or -1.

    The minimiser is -(b + s x)/ridge, where s = m l'(u) and u = <w, x> solves one increasing equation, u = u0 - gain s. `bend` bounds l''.
    A residual r leaves a gradient of bend m |x| r if s is taken as the slope at u, of |x| r / gain if it is taken from the equation.
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
            # A last, shorter block is filled up with its first row.
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
        leak = norm(x) * min(bend * m, 1.0 / gain)
        goal = tolerance * np.sqrt(smallest) / leak if leak > 0.0 else np.inf
        done = False
        for _ in range(_MOST_STEPS):
            loss_terms(code, width, smoothing, u, labels, weights, slope, curvature)
            if _bracketed_step(u, u0, low, high, slope, curvature, gain, stiffness, abs(y), goal) == 0:
                done = True
                break
        if not done:
            return first
        for i in range(count):
            s = slope[i] if stiffness < 1.0 else (u0[i] - u[i]) / gain
            for j in range(d):
                rows[first + i, j] = -(rows[first + i, j] + s * x[j]) / ridge
            if stiffness >= 1.0:
                # The terms nearly cancel along x; put the prediction right, to which the slope is so sensitive.
                miss = u[i]
                for j in range(d):
                    miss -= rows[first + i, j] * x[j]
                for j in range(d):
                    rows[first + i, j] += miss / (gain * ridge) * x[j]
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
    """For each output w write the linear term b(w) whose minimiser it is, and the log-determinant of the Jacobian db/dw."""
    d, n = columns.shape
    u, slope, curvature = np.empty(n), np.empty(n), np.empty(n)
    hessian, w, zero, g = np.empty((d, d)), np.empty(d), np.zeros(d), np.empty(d)
    for k in range(outputs.shape[0]):
        for j in range(d):
            w[j] = outputs[k, j]
        gradient_at(columns, y, m, code, width, smoothing, ridge, zero, w, u, slope, curvature, g)
        hessian_at(columns, ridge, curvature, u, hessian)
        determinant[k] = log_determinant(hessian) if cholesky(hessian) else np.nan
        for j in range(d):
            b[k, j] = -g[j]
