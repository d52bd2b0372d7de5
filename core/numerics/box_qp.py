"""Box-constrained quadratic programs: the duals of empirical risk minimization with hinge and
absolute loss.

The method is the predictor-corrector interior-point method of Mehrotra (1992). Its linear systems
are reduced to the dimension of the vectors if that is smaller. The coordinates that the method
finds strictly between their bounds are then solved for exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from dpwitness.core.protocols.mechanism import FloatArray


def minimize_box_dual(
    z: FloatArray, target: FloatArray, low: FloatArray, high: FloatArray, ridge: float
) -> tuple[FloatArray, float, float]:
    """Minimize |z^T a|^2 / (2 ridge) - <target, a> over low <= a <= high; return (a, duality gap,
    primal objective).

    The primal is ridge/2 |w|^2 + sum_i max over a in [low_i, high_i] of a (target_i - <w, z_i>),
    with w = z^T a / ridge. At this w the gap is a sum of nonnegative products (distance to a bound)
    x (violation), so that it is computed without cancellation.
    """
    scale = high - low
    # stored separately: near a bound they have digits that are lost in a
    below, above = 0.5 * scale, 0.5 * scale
    slack = np.abs(target - z @ (z.T @ (low + below)) / ridge) + 1e-3
    left, right = slack.copy(), slack.copy()  # multipliers of the lower and of the upper bound
    best, best_gap, objective, stalled = low + below, np.inf, 0.0, 0
    for _ in range(300):
        a = np.where(below < above, low + below, high - above)
        residual = target - z @ (z.T @ a) / ridge
        for candidate in (
            a,
            _polish(z, target, low, high, ridge, a, residual, left / below + right / above),
        ):
            gap, value = _gap(z, target, low, high, ridge, candidate)
            if gap < 0.9 * best_gap:
                stalled = -1
            if gap < best_gap:
                best, best_gap, objective = candidate, gap, value
        stalled += 1
        if best_gap <= 1e-15 * objective or stalled > 25:
            break
        try:
            solve = _solver(z, left / below + right / above, ridge)
        except LinAlgError:
            break
        da = solve(residual)
        dl, dr = -left - left / below * da, -right + right / above * da
        mu = float(left @ below + right @ above) / (2 * len(a))
        step_length = _longest_step(below, da, above, -da, left, dl, right, dr)
        predicted_mu = float(
            (left + step_length * dl) @ (below + step_length * da)
            + (right + step_length * dr) @ (above - step_length * da)
        ) / (2 * len(a))
        center = mu * (predicted_mu / mu) ** 3
        left_goal, right_goal = center - dl * da, center + dr * da
        da = solve(residual + left_goal / below - right_goal / above)
        dl, dr = (left_goal - left * da) / below - left, (right_goal + right * da) / above - right
        step_length = 0.995 * _longest_step(below, da, above, -da, left, dl, right, dr)
        below, above = (
            np.maximum(below + step_length * da, 1e-30 * scale),
            np.maximum(above - step_length * da, 1e-30 * scale),
        )
        left, right = (
            np.maximum(left + step_length * dl, 1e-300),
            np.maximum(right + step_length * dr, 1e-300),
        )
    return best, float(best_gap), float(objective)


def _polish(
    z: FloatArray,
    target: FloatArray,
    low: FloatArray,
    high: FloatArray,
    ridge: float,
    a: FloatArray,
    residual: FloatArray,
    stiffness: FloatArray,
) -> FloatArray:
    """Return `a` with its free coordinates solved for exactly and the others moved to a bound.

    The sign of `residual` determines the bound. A coordinate is free if it lies off its bounds and
    is among the least stiff ones. Their number is limited in proportion to the dimension of the
    vectors.
    """
    free = (np.minimum(a - low, high - a) > 1e-6 * (high - low)) & (
        np.argsort(np.argsort(stiffness)) < 4 * z.shape[1] + 4
    )
    candidate = np.where(free, a, np.where(residual > 0, high, low))
    if free.any():
        for _ in range(2):  # the second pass removes the rounding error of the first
            remainder = target[free] - z[free] @ (z.T @ candidate) / ridge
            candidate[free] += lstsq(z[free] @ z[free].T / ridge, remainder, cond=1e-13)[0]
        candidate = np.clip(candidate, low, high)
    return candidate


def _gap(
    z: FloatArray,
    target: FloatArray,
    low: FloatArray,
    high: FloatArray,
    ridge: float,
    a: FloatArray,
) -> tuple[float, float]:
    """Return the duality gap and the primal objective at `a`."""
    w = z.T @ a / ridge
    residual = target - z @ w
    gap = np.where(residual > 0, (high - a) * residual, (low - a) * residual).sum()
    return float(gap), float(
        0.5 * ridge * (w @ w) + np.where(residual > 0, high * residual, low * residual).sum()
    )


def _longest_step(*pairs: FloatArray) -> float:
    """Return the longest step in [0, 1] that keeps every first array of `pairs` nonnegative along
    the second.
    """
    step_length = 1.0
    for value, step in zip(pairs[::2], pairs[1::2], strict=True):
        falling = step < 0
        if falling.any():
            step_length = min(step_length, float((-value[falling] / step[falling]).min()))
    return step_length


def _solver(
    z: FloatArray, diagonal: FloatArray, ridge: float
) -> Callable[[FloatArray], FloatArray]:
    """Return a function that solves (z z^T / ridge + diag) x = b, through the smaller of the two
    equivalent systems.
    """
    n, d = z.shape
    if n <= d:
        outer = cho_factor(z @ z.T / ridge + np.diag(diagonal))
        return lambda x: np.asarray(cho_solve(outer, x))
    inner = cho_factor(ridge * np.eye(d) + (z.T / diagonal) @ z)
    return lambda x: x / diagonal - (z @ cho_solve(inner, z.T @ (x / diagonal))) / diagonal
