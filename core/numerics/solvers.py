"""Regularized empirical risk minimization to a certified accuracy.

The solvers take one linear term or many random linear terms. The objective is F_b(w) = ridge/2
|w|^2 + <b, w> + sum_i m_i l(<w, x_i>; y_i), scaled as in objective perturbation. The lambda of
Chaudhuri and Monteleoni (2008) is ridge/n; the lambda of Jain and Thakurta (2014) is the ridge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from dpwitness.core.datasets.datasets import LabelledVectors
from dpwitness.core.numerics.losses import Loss
from dpwitness.core.numerics.newton import (
    cholesky,
    gradient_at,
    hessian_at,
    minimize_rows,
    minimize_rows_one_record,
    noise_and_determinant,
)
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require_positive

TOLERANCE = 1e-10


class ConvergenceError(ArithmeticError):
    """Error: a solver did not reach its required accuracy.

    The solvers raise this error instead of returning an inexact minimizer, because an inexact
    minimizer has a different output law.
    """


@dataclass(frozen=True, slots=True)
class Minimum:
    """A minimizer with its error bounds; for a kernel they are in the norm of the feature space."""

    # the approximate minimizer w; for a kernel the coefficients c of w = sum_i c_i phi(x_i)
    w: FloatArray
    residual: float  # norm of the gradient at w; for losses with kinks, the duality gap
    # bound on the distance from w to the exact minimizer: residual/ridge, or sqrt(2 residual/ridge)
    # from a duality gap
    radius: float


@dataclass(frozen=True, slots=True)
class Problem:
    """A risk minimization problem in the form that the compiled kernels take.

    `columns` holds one coordinate of all records per row, `y` the labels, and `m` the
    multiplicities times the scale of the loss. Records with x = 0 are left out. Equal records are
    merged and all are sorted, so that a multiset of records gives the same bits in any storage
    order.
    """

    columns: FloatArray
    y: FloatArray
    m: FloatArray
    loss: Loss
    ridge: float

    @classmethod
    def of(cls, dataset: LabelledVectors, loss: Loss, ridge: float) -> Problem:
        """Return the problem of a dataset."""
        merged = dataset.merged()
        # a record with x = 0 only adds a constant to the objective
        rows = np.any(merged.x != 0.0, axis=1)
        columns = np.ascontiguousarray(merged.x[rows].T)
        return cls(
            columns,
            merged.y[rows].copy(),
            merged.weights[rows] * loss.scale,
            loss,
            require_positive("ridge", ridge),
        )

    @property
    def dimension(self) -> int:
        """Return the dimension d."""
        return int(self.columns.shape[0])

    @property
    def arguments(self) -> tuple[FloatArray, FloatArray, FloatArray, int, float, float]:
        """Return the leading arguments of every compiled kernel."""
        return self.columns, self.y, self.m, self.loss.code, self.loss.width, self.loss.smoothing

    @property
    def lengths(self) -> FloatArray:
        """Return the Euclidean norm of each record."""
        return np.asarray(np.sqrt((self.columns**2).sum(axis=0)))

    @property
    def slope_total(self) -> float:
        """Return a bound on sum_i m_i |l'| |x_i| at the minimizer; for b = 0 it also bounds ridge
        |w|.
        """
        steepest = self.loss.lipschitz(0.0, 0.0) / self.loss.scale
        if self.loss.name in ("squared", "linear"):
            steepest = (
                0.0
                if len(self.y) == 0
                else float(np.abs(self.y).max()) * (2.0 if self.loss.name == "squared" else 1.0)
            )
        return steepest * float(self.m @ self.lengths)

    @property
    def curvature_total(self) -> float:
        """Return a bound on the largest eigenvalue of the Hessian of the total loss."""
        return self.loss.smoothness / self.loss.scale * float(self.m @ self.lengths**2)


def minimise(problem: Problem) -> Minimum:
    """Return the minimizer for b = 0, up to rounding error.

    Raises
    ------
    ConvergenceError
        If the norm of the gradient stays above 1e-10 of its value at w = 0 (smooth losses), or the
        duality gap stays above 1e-10 of the objective (losses with kinks).
    """
    if len(problem.y) == 0:
        return Minimum(np.zeros(problem.dimension), 0.0, 0.0)
    if not problem.loss.smooth:
        alpha, gap = _solve_dual(problem.columns.T, problem)
        return Minimum(
            problem.columns @ alpha / problem.ridge, gap, math.sqrt(2.0 * gap / problem.ridge)
        )
    used, problem = _without_zero_features(problem)
    zero = np.zeros(problem.dimension)
    gradient_at_zero, factor = _expand(problem, zero)
    rows = zero[None, :].copy()
    failed = minimize_rows(
        *_kernel_arguments(problem), zero, factor, -gradient_at_zero, 1e-14, rows
    )
    w = np.zeros(len(used))
    w[used] = rows[0]
    residual = float(np.linalg.norm(_expand(problem, rows[0])[0])) if failed < 0 else math.inf
    goal = (
        TOLERANCE * float(np.linalg.norm(gradient_at_zero))
        + 1e-14 * problem.slope_total
        + 2e-15 * problem.curvature_total * float(np.linalg.norm(w))
    )
    if not residual <= goal:
        raise ConvergenceError(
            f"minimise: gradient norm {residual:.3g} is above {goal:.3g} (loss "
            f"{problem.loss.name}, ridge {problem.ridge:g})"
        )
    return Minimum(w, residual, residual / problem.ridge)


def minimize_perturbed_risk(problem: Problem, rows: FloatArray) -> FloatArray:
    """Overwrite each row b with the minimizer of F_b, and return `rows`.

    At each minimizer the norm of the gradient is at most 1e-10 |b|, or at most the rounding error
    of the sum.

    Raises
    ------
    InvalidArgument
        If the loss is not differentiable.
    ConvergenceError
        If the solver does not reach this accuracy for some row.
    """
    if not problem.loss.smooth:
        raise InvalidArgument(
            f"minimise_perturbed: loss must be differentiable, got {problem.loss.name!r}"
        )
    if len(problem.y) == 0:
        np.multiply(rows, -1.0 / problem.ridge, out=rows)
        return rows
    used, problem = _without_zero_features(problem)
    solved = np.ascontiguousarray(rows[:, used])
    if len(problem.y) == 1:
        curvature_bound = problem.loss.smoothness / problem.loss.scale
        record = (
            np.ascontiguousarray(problem.columns[:, 0]),
            float(problem.y[0]),
            float(problem.m[0]),
        )
        failed = minimize_rows_one_record(
            *record, *problem.arguments[3:], curvature_bound, problem.ridge, TOLERANCE, solved
        )
    else:
        start = minimise(problem).w
        offset, factor = _expand(problem, start)
        failed = minimize_rows(
            *_kernel_arguments(problem), start, factor, -offset, TOLERANCE, solved
        )
    if failed >= 0:
        raise ConvergenceError(
            f"minimise_perturbed: no convergence (loss {problem.loss.name}, ridge "
            f"{problem.ridge:g}), first in row {failed}"
        )
    np.multiply(rows, -1.0 / problem.ridge, out=rows)
    rows[:, used] = solved
    return rows


def noise_for_minimizers(problem: Problem, outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the linear term b(w) = -grad F_0(w) whose minimizer is each output w, and log |det
    db/dw|.

    Shapes (size, d) and (size,).
    """
    used, problem = _without_zero_features(problem)
    values = np.ascontiguousarray(outputs[:, used], dtype=np.float64)
    inner, determinant = np.empty_like(values), np.empty(len(values))
    noise_and_determinant(*problem.arguments, problem.ridge, values, inner, determinant)
    b = -problem.ridge * outputs
    b[:, used] = inner
    return b, determinant + int((~used).sum()) * math.log(problem.ridge)


def _without_zero_features(problem: Problem) -> tuple[NDArray[np.bool_], Problem]:
    """Return which coordinates are not zero in all records, and the problem in these coordinates.

    For the other coordinates only the ridge matters, so that they cost no Newton step.
    """
    used = np.any(problem.columns != 0.0, axis=1)
    return used, replace(problem, columns=problem.columns[used])


def _kernel_arguments(
    problem: Problem,
) -> tuple[
    FloatArray, FloatArray, FloatArray, int, float, float, float, float, float, float, float
]:
    """Return the leading arguments of `minimize_rows`."""
    bounds = (
        problem.loss.concordance,
        float(problem.lengths.max()),
        problem.slope_total,
        problem.curvature_total,
    )
    return *problem.arguments, *bounds, problem.ridge


def _expand(problem: Problem, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gradient of F_0 at w and the Cholesky factor of its Hessian."""
    d, n = problem.columns.shape
    u, slope, curvature, scratch = (np.empty(n) for _ in range(4))
    gradient, factor = np.empty(d), np.empty((d, d))
    gradient_at(*problem.arguments, problem.ridge, np.zeros(d), w, u, slope, curvature, gradient)
    hessian_at(problem.columns, problem.ridge, curvature, scratch, factor)
    if not cholesky(factor):
        raise ConvergenceError(
            f"minimise: the Hessian is numerically singular (ridge {problem.ridge:g})"
        )
    return gradient, factor


def _solve_dual(rows: FloatArray, problem: Problem) -> tuple[FloatArray, float]:
    """Return the coefficients alpha of the minimizer sum_i alpha_i x_i / ridge for the hinge or
    absolute loss, from the box-constrained dual, and the duality gap.

    Raises ConvergenceError if the gap is too large.
    """
    hinge = problem.loss.name == "hinge"
    direction, target = (
        (problem.y[:, None] * rows, np.ones(len(rows))) if hinge else (rows, problem.y)
    )
    alpha, gap, objective = _minimize_box_dual(
        direction, target, np.zeros(len(rows)) if hinge else -problem.m, problem.m, problem.ridge
    )
    # The dual variables of opposing records cancel in w, but their rounding error stays in every
    # prediction.
    rounding = 4e-16 * float(
        problem.m
        @ (
            np.abs(target)
            + np.abs(direction) @ (np.abs(direction).T @ np.abs(alpha)) / problem.ridge
        )
    )
    if not gap <= TOLERANCE * objective + rounding:
        raise ConvergenceError(
            f"minimise: duality gap {gap:.3g} is above 1e-10 of the objective "
            f"{objective:.3g} (loss {problem.loss.name})"
        )
    return problem.y * alpha if hinge else alpha, gap


def minimize_kernel_risk(
    gram: FloatArray, y: FloatArray, multiplicity: FloatArray, loss: Loss, ridge: float
) -> Minimum:
    """Return the minimizer of kernel empirical risk, w = sum_i c_i phi(x_i), given the Gram matrix
    K(x_i, x_j).

    The problem is solved with the rows of a factor of the Gram matrix as features. At the minimizer
    c_i = -m_i l'(u_i; y_i)/ridge. The certificate is computed in the feature space itself: the
    gradient is sum_i a_i phi(x_i) with a = ridge c + m l'(K c).

    Raises
    ------
    ConvergenceError
        If the norm of the gradient, or the duality gap, is too large.
    """
    values, vectors = np.linalg.eigh(gram)
    positive = values > values[-1] * 1e-15
    features = vectors[:, positive] * np.sqrt(values[positive])
    problem = Problem(
        np.ascontiguousarray(features.T),
        np.ascontiguousarray(y, dtype=np.float64),
        multiplicity * loss.scale,
        loss,
        require_positive("ridge", ridge),
    )
    if features.shape[1] == 0:
        return Minimum(np.zeros(len(y)), 0.0, 0.0)
    if not loss.smooth:
        alpha, gap = _solve_dual(features, problem)
        return Minimum(alpha / ridge, gap, math.sqrt(2.0 * gap / ridge))
    w = minimise(problem).w
    u = features @ w
    # Compute the coefficients in two ways and keep the more accurate: the error of the slopes grows
    # with 1/ridge, the error of w with 1/eigenvalue.
    candidates = []
    for coefficients in (
        -multiplicity * loss.derivative(u, y) / ridge,
        vectors[:, positive] @ (w / np.sqrt(values[positive])),
    ):
        gradient_coefficients = ridge * coefficients + multiplicity * loss.derivative(
            features @ (features.T @ coefficients), y
        )
        candidates.append((float(np.linalg.norm(features.T @ gradient_coefficients)), coefficients))
    residual, coefficients = min(candidates, key=lambda pair: pair[0])
    goal = TOLERANCE * problem.slope_total + 1e-13 * problem.curvature_total * float(
        np.linalg.norm(w)
    )
    if not residual <= goal:
        raise ConvergenceError(
            f"minimise_kernel: gradient norm {residual:.3g} is above {goal:.3g} (loss "
            f"{loss.name}, ridge {ridge:g})"
        )
    return Minimum(coefficients, residual, residual / ridge)


# -- box-constrained quadratic programs: the duals for hinge and absolute loss
# --------------------------------------------------------------------------------------------------


def _minimize_box_dual(
    z: FloatArray, target: FloatArray, low: FloatArray, high: FloatArray, ridge: float
) -> tuple[FloatArray, float, float]:
    """Minimize |z^T a|^2 / (2 ridge) - <target, a> over low <= a <= high; return (a, duality gap,
    primal objective).

    The primal is ridge/2 |w|^2 + sum_i max over a in [low_i, high_i] of a (target_i - <w, z_i>),
    with w = z^T a / ridge. At this w the gap is a sum of nonnegative products (distance to a bound)
    x (violation), so that it is computed without cancellation.

    The method is the predictor-corrector interior-point method of Mehrotra (1992). Its linear
    systems are reduced to the dimension of the vectors if that is smaller. The coordinates that the
    method finds strictly between their bounds are then solved for exactly.
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
            w = z.T @ candidate / ridge
            violation = target - z @ w
            bound = np.where(violation > 0, high, low)
            gap = float(((bound - candidate) * violation).sum())
            value = float(0.5 * ridge * (w @ w) + (bound * violation).sum())
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
