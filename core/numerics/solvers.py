"""Regularized empirical risk minimization to a certified accuracy.

The solvers take one linear term or many random linear terms. The objective is F_b(w) = ridge/2
|w|^2 + <b, w> + sum_i m_i l(<w, x_i>; y_i), scaled as in objective perturbation. The lambda of
Chaudhuri and Monteleoni (2008) is ridge/n; the lambda of Jain and Thakurta (2014) is the ridge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpwitness.core.datasets.datasets import LabelledVectors
from dpwitness.core.numerics.arithmetic import cholesky
from dpwitness.core.numerics.box_qp import minimize_box_dual
from dpwitness.core.numerics.losses import Loss
from dpwitness.core.numerics.newton import (
    gradient_at,
    hessian_at,
    minimize_rows,
    minimize_rows_one_record,
    noise_and_determinant,
)
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require_positive

TOLERANCE = 1e-10


class ConvergenceError(ArithmeticError):
    """Error: a solver did not reach its required accuracy.

    The solvers raise this error instead of returning an inexact minimizer, because an inexact
    minimizer has a different output law.
    """


@dataclass(frozen=True, slots=True)
class Minimum:
    """A minimizer with its error bounds."""

    w: FloatArray  # the approximate minimizer
    residual: float  # norm of the gradient at w; for losses with kinks, the duality gap
    # bound on the distance from w to the exact minimizer: residual/ridge, or sqrt(2 residual/ridge)
    # from a duality gap
    radius: float


@dataclass(frozen=True, slots=True)
class KernelMinimum:
    """A minimizer in a feature space, w = sum_i `coefficients`_i phi(x_i), with its error bounds.

    `residual` and `radius` are defined as for `Minimum`, in the norm of the feature space.
    """

    coefficients: FloatArray
    residual: float
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
    nonzero = np.any(problem.columns != 0.0, axis=1)
    if not nonzero.all():
        inner = minimise(replace(problem, columns=problem.columns[nonzero]))
        w = np.zeros(problem.dimension)
        w[nonzero] = inner.w
        return Minimum(w, inner.residual, inner.radius)
    zero = np.zeros(problem.dimension)
    gradient_at_zero, factor = _expand(problem, zero)
    rows = zero[None, :].copy()
    failed, _ = minimize_rows(
        *_kernel_arguments(problem), zero, factor, -gradient_at_zero, 1e-14, rows
    )
    w = rows[0]
    residual = float(np.linalg.norm(_expand(problem, w)[0])) if failed < 0 else math.inf
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
    nonzero = np.any(problem.columns != 0.0, axis=1)
    if not nonzero.all():
        # For a coordinate that is zero in all records only the ridge matters, so that zero features
        # cost no Newton step.
        solved = minimize_perturbed_risk(
            replace(problem, columns=problem.columns[nonzero]),
            np.ascontiguousarray(rows[:, nonzero]),
        )
        np.multiply(rows, -1.0 / problem.ridge, out=rows)
        rows[:, nonzero] = solved
        return rows
    if len(problem.y) == 1:
        curvature_bound = problem.loss.smoothness / problem.loss.scale
        record = (
            np.ascontiguousarray(problem.columns[:, 0]),
            float(problem.y[0]),
            float(problem.m[0]),
        )
        failed = minimize_rows_one_record(
            *record, *problem.arguments[3:], curvature_bound, problem.ridge, TOLERANCE, rows
        )
    else:
        start = minimise(problem).w
        offset, factor = _expand(problem, start)
        failed, _ = minimize_rows(
            *_kernel_arguments(problem), start, factor, -offset, TOLERANCE, rows
        )
    if failed >= 0:
        raise ConvergenceError(
            f"minimise_perturbed: no convergence (loss {problem.loss.name}, ridge "
            f"{problem.ridge:g}), first in row {failed}"
        )
    return rows


def noise_for_minimizers(problem: Problem, outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the linear term b(w) = -grad F_0(w) whose minimizer is each output w, and log |det
    db/dw|.

    Shapes (size, d) and (size,).
    """
    nonzero = np.any(problem.columns != 0.0, axis=1)
    if not nonzero.all() and nonzero.any():
        inner, determinant = noise_for_minimizers(
            replace(problem, columns=problem.columns[nonzero]), outputs[:, nonzero]
        )
        b = -problem.ridge * outputs
        b[:, nonzero] = inner
        return b, determinant + int((~nonzero).sum()) * math.log(problem.ridge)
    values = np.ascontiguousarray(outputs, dtype=np.float64)
    b, determinant = np.empty_like(values), np.empty(len(values))
    noise_and_determinant(*problem.arguments, problem.ridge, values, b, determinant)
    return b, determinant


_Arguments = tuple[
    FloatArray, FloatArray, FloatArray, int, float, float, float, float, float, float, float
]


def _kernel_arguments(problem: Problem) -> _Arguments:
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
    alpha, gap, objective = minimize_box_dual(
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
) -> KernelMinimum:
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
    weights = multiplicity * loss.scale
    problem = Problem(
        np.ascontiguousarray(features.T),
        np.ascontiguousarray(y, dtype=np.float64),
        weights,
        loss,
        require_positive("ridge", ridge),
    )
    if features.shape[1] == 0:
        return KernelMinimum(np.zeros(len(y)), 0.0, 0.0)
    if not loss.smooth:
        alpha, gap = _solve_dual(features, problem)
        return KernelMinimum(alpha / ridge, gap, math.sqrt(2.0 * gap / ridge))
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
    return KernelMinimum(coefficients, residual, residual / ridge)
