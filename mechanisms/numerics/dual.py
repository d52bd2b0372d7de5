"""Box-constrained quadratic programs: the duals of empirical risk minimisation with hinge and absolute loss.

Mehrotra's predictor-corrector interior-point method (1992), its systems reduced to the dimension of the vectors where that is smaller, and
an exact solve on the coordinates that it finds off their bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from dpwitness.mechanisms.terms.protocol import FloatArray


def minimise_box_dual(
    z: FloatArray, target: FloatArray, low: FloatArray, high: FloatArray, ridge: float
) -> tuple[FloatArray, float, float]:
    """Minimise |z^T a|^2 / (2 ridge) - <target, a> over low <= a <= high: (a, duality gap, primal objective).

    The primal is ridge/2 |w|^2 + sum_i max over a in [low_i, high_i] of a (target_i - <w, z_i>), with w = z^T a / ridge.
    At that w the gap is a sum of products (distance to a bound) x (violation), none negative, so it is computed without cancellation.
    """
    scale = high - low
    below, above = 0.5 * scale, 0.5 * scale  # kept apart from a: near a bound they carry digits that a has not
    slack = np.abs(target - z @ (z.T @ (low + below)) / ridge) + 1e-3
    left, right = slack.copy(), slack.copy()  # multipliers of the lower and of the upper bound
    best, best_gap, objective, idle = low + below, np.inf, 0.0, 0
    for _ in range(300):
        a = np.where(below < above, low + below, high - above)
        short = target - z @ (z.T @ a) / ridge
        for candidate in (a, _polished(z, target, low, high, ridge, a, short, left / below + right / above)):
            gap, value = _gap(z, target, low, high, ridge, candidate)
            if gap < 0.9 * best_gap:
                idle = -1
            if gap < best_gap:
                best, best_gap, objective = candidate, gap, value
        idle += 1
        if best_gap <= 1e-15 * objective or idle > 25:
            break
        try:
            solve = _solver(z, left / below + right / above, ridge)
        except LinAlgError:
            break
        da = solve(short)
        dl, dr = -left - left / below * da, -right + right / above * da
        mu = float(left @ below + right @ above) / (2 * len(a))
        reach = _reach(below, da, above, -da, left, dl, right, dr)
        ahead = float((left + reach * dl) @ (below + reach * da) + (right + reach * dr) @ (above - reach * da)) / (2 * len(a))
        center = mu * (ahead / mu) ** 3
        left_goal, right_goal = center - dl * da, center + dr * da
        da = solve(short + left_goal / below - right_goal / above)
        dl, dr = (left_goal - left * da) / below - left, (right_goal + right * da) / above - right
        reach = 0.995 * _reach(below, da, above, -da, left, dl, right, dr)
        below, above = np.maximum(below + reach * da, 1e-30 * scale), np.maximum(above - reach * da, 1e-30 * scale)
        left, right = np.maximum(left + reach * dl, 1e-300), np.maximum(right + reach * dr, 1e-300)
    return best, float(best_gap), float(objective)


def _polished(
    z: FloatArray,
    target: FloatArray,
    low: FloatArray,
    high: FloatArray,
    ridge: float,
    a: FloatArray,
    short: FloatArray,
    stiffness: FloatArray,
) -> FloatArray:
    """The coordinates that the barrier holds weakly solve their equations exactly; the others go onto the bound that their sign asks for.

    Of the two ways to tell weakly held ones, by order of stiffness, at most as many are free as there are dimensions.
    """
    free = (np.minimum(a - low, high - a) > 1e-6 * (high - low)) & (np.argsort(np.argsort(stiffness)) < 4 * z.shape[1] + 4)
    candidate = np.where(free, a, np.where(short > 0, high, low))
    if free.any():
        for _ in range(2):  # the second pass removes the rounding error of the first
            rest = target[free] - z[free] @ (z.T @ candidate) / ridge
            candidate[free] += lstsq(z[free] @ z[free].T / ridge, rest, cond=1e-13)[0]
        candidate = np.clip(candidate, low, high)
    return candidate


def _gap(z: FloatArray, target: FloatArray, low: FloatArray, high: FloatArray, ridge: float, a: FloatArray) -> tuple[float, float]:
    w = z.T @ a / ridge
    short = target - z @ w
    gap = np.where(short > 0, (high - a) * short, (low - a) * short).sum()
    return float(gap), float(0.5 * ridge * (w @ w) + np.where(short > 0, high * short, low * short).sum())


def _reach(*pairs: FloatArray) -> float:
    """Longest step in [0, 1] that keeps every first array positive along the second."""
    reach = 1.0
    for value, step in zip(pairs[::2], pairs[1::2], strict=True):
        falling = step < 0
        if falling.any():
            reach = min(reach, float((-value[falling] / step[falling]).min()))
    return reach


def _solver(z: FloatArray, diagonal: FloatArray, ridge: float) -> Callable[[FloatArray], FloatArray]:
    """x -> (z z^T / ridge + diag)^-1 x, by the smaller of the two systems."""
    n, d = z.shape
    if n <= d:
        whole = cho_factor(z @ z.T / ridge + np.diag(diagonal))
        return lambda x: np.asarray(cho_solve(whole, x))
    inner = cho_factor(ridge * np.eye(d) + (z.T / diagonal) @ z)
    return lambda x: x / diagonal - (z @ cho_solve(inner, z.T @ (x / diagonal))) / diagonal
