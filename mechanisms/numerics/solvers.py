"""Regularised empirical risk minimisation to a certified accuracy, and the same with many random linear terms.

In the scaling of the perturbation: F(w) = ridge/2 |w|^2 + <b, w> + sum_i m_i l(<w, x_i>; y_i). CM08's lambda is ridge/n, JT14's is ridge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpwitness.mechanisms.numerics.arithmetic import cholesky
from dpwitness.mechanisms.numerics.dual import minimise_box_dual
from dpwitness.mechanisms.numerics.losses import Loss
from dpwitness.mechanisms.numerics.newton import gradient_at, hessian_at, minimise_rows, minimise_rows_one_record, noise_and_determinant
from dpwitness.mechanisms.terms.datasets import LabelledVectors
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_positive

TOLERANCE = 1e-10


class ConvergenceError(ArithmeticError):
    """A solver did not reach its accuracy. Raised rather than return an inexact minimiser, whose law would be another one."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """A minimiser and what is proved of it.

    Parameters
    ----------
    w : (d,) array
        The approximate minimiser.
    residual : float
        Norm of the gradient at w; for the losses with kinks, the duality gap.
    radius : float
        The exact minimiser lies within this distance of w: residual/ridge, or sqrt(2 residual/ridge) from a gap.
    """

    w: FloatArray
    residual: float
    radius: float


@dataclass(frozen=True, slots=True)
class KernelMinimum:
    """A minimiser in a feature space: w = sum_i `coefficients`_i phi(x_i). `residual` and `radius` as for `Minimum`, in feature norm."""

    coefficients: FloatArray
    residual: float
    radius: float


@dataclass(frozen=True, slots=True)
class Problem:
    """Data, loss and ridge in the form that the kernels take: distinct records other than x = 0, one coordinate a row, weights scaled.

    Records are merged and sorted, so that the same multiset gives the same bits in whatever order it was stored.
    """

    columns: FloatArray
    y: FloatArray
    m: FloatArray
    loss: Loss
    ridge: float

    @classmethod
    def of(cls, dataset: LabelledVectors, loss: Loss, ridge: float) -> Problem:
        """The problem of a dataset."""
        merged = dataset.merged()
        rows = np.any(merged.x != 0.0, axis=1)  # a zero record adds a constant
        columns = np.ascontiguousarray(merged.x[rows].T)
        return cls(columns, merged.y[rows].copy(), merged.weights[rows] * loss.scale, loss, require_positive("ridge", ridge))

    @property
    def dimension(self) -> int:
        """d."""
        return int(self.columns.shape[0])

    @property
    def arguments(self) -> tuple[FloatArray, FloatArray, FloatArray, int, float, float]:
        """The leading arguments of every kernel."""
        return self.columns, self.y, self.m, self.loss.code, self.loss.width, self.loss.smoothing

    @property
    def lengths(self) -> FloatArray:
        """|x_i|."""
        return np.asarray(np.sqrt((self.columns**2).sum(axis=0)))

    @property
    def slope_total(self) -> float:
        """Bound on sum_i m_i |l'| |x_i| at the minimiser, which is also a bound on ridge |w| for b = 0."""
        steepest = self.loss.lipschitz(0.0, 0.0) / self.loss.scale
        if self.loss.name in ("squared", "linear"):
            steepest = 0.0 if len(self.y) == 0 else float(np.abs(self.y).max()) * (2.0 if self.loss.name == "squared" else 1.0)
        return steepest * float(self.m @ self.lengths)

    @property
    def curvature_total(self) -> float:
        """Bound on the largest eigenvalue of the loss's Hessian."""
        return self.loss.smoothness / self.loss.scale * float(self.m @ self.lengths**2)


def minimise(problem: Problem) -> Minimum:
    """The minimiser for b = 0, to rounding error.

    Raises
    ------
    ConvergenceError
        If the gradient's norm stays above 1e-10 of its value at w = 0 (smooth losses), or the duality gap above 1e-10 of the objective.
    """
    if len(problem.y) == 0:
        return Minimum(np.zeros(problem.dimension), 0.0, 0.0)
    if not problem.loss.smooth:
        return _minimise_with_kinks(problem.columns.T, problem)
    live = np.any(problem.columns != 0.0, axis=1)
    if not live.all():
        inner = minimise(replace(problem, columns=problem.columns[live]))
        w = np.zeros(problem.dimension)
        w[live] = inner.w
        return Minimum(w, inner.residual, inner.radius)
    zero = np.zeros(problem.dimension)
    first, factor, _ = _expand(problem, zero)
    rows = zero[None, :].copy()
    failed, _ = minimise_rows(*_kernel_arguments(problem), zero, factor, -first, 1e-14, rows)
    w = rows[0]
    residual = float(np.linalg.norm(_expand(problem, w)[0])) if failed < 0 else math.inf
    goal = (
        TOLERANCE * float(np.linalg.norm(first)) + 1e-14 * problem.slope_total + 2e-15 * problem.curvature_total * float(np.linalg.norm(w))
    )
    if not residual <= goal:
        raise ConvergenceError(
            f"minimise: gradient norm {residual:.3g} is above {goal:.3g} (loss {problem.loss.name}, ridge {problem.ridge:g})"
        )
    return Minimum(w, residual, residual / problem.ridge)


def minimise_perturbed(problem: Problem, rows: FloatArray) -> FloatArray:
    """Overwrite each row b by argmin F_b, to a gradient norm of 1e-10 |b| or the rounding error of the sum, and return `rows`.

    Raises
    ------
    ConvergenceError
        If any row does not get there.
    """
    if not problem.loss.smooth:
        raise InvalidArgument(f"minimise_perturbed: loss must be differentiable, got {problem.loss.name!r}")
    if len(problem.y) == 0:
        np.multiply(rows, -1.0 / problem.ridge, out=rows)
        return rows
    live = np.any(problem.columns != 0.0, axis=1)
    if not live.all():
        # A coordinate that is zero in all records feels the ridge alone: padding a problem with features costs no Newton step.
        solved = minimise_perturbed(replace(problem, columns=problem.columns[live]), np.ascontiguousarray(rows[:, live]))
        np.multiply(rows, -1.0 / problem.ridge, out=rows)
        rows[:, live] = solved
        return rows
    if len(problem.y) == 1:
        bend = problem.loss.smoothness / problem.loss.scale
        one = (np.ascontiguousarray(problem.columns[:, 0]), float(problem.y[0]), float(problem.m[0]))
        failed = minimise_rows_one_record(*one, *problem.arguments[3:], bend, problem.ridge, TOLERANCE, rows)
    else:
        start = minimise(problem).w
        offset, factor, _ = _expand(problem, start)
        failed, _ = minimise_rows(*_kernel_arguments(problem), start, factor, -offset, TOLERANCE, rows)
    if failed >= 0:
        raise ConvergenceError(
            f"minimise_perturbed: no convergence (loss {problem.loss.name}, ridge {problem.ridge:g}), first in row {failed}"
        )
    return rows


def noise_that_yields(problem: Problem, outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The linear term b(w) = -grad F_0(w) that leads to each output, (size, d), and log |det db/dw|, (size,)."""
    live = np.any(problem.columns != 0.0, axis=1)
    if not live.all() and live.any():
        inner, determinant = noise_that_yields(replace(problem, columns=problem.columns[live]), outputs[:, live])
        b = -problem.ridge * outputs
        b[:, live] = inner
        return b, determinant + int((~live).sum()) * math.log(problem.ridge)
    values = np.ascontiguousarray(outputs, dtype=np.float64)
    b, determinant = np.empty_like(values), np.empty(len(values))
    noise_and_determinant(*problem.arguments, problem.ridge, values, b, determinant)
    return b, determinant


_Arguments = tuple[FloatArray, FloatArray, FloatArray, int, float, float, float, float, float, float, float]


def _kernel_arguments(problem: Problem) -> _Arguments:
    bounds = (problem.loss.concordance, float(problem.lengths.max()), problem.slope_total, problem.curvature_total)
    return *problem.arguments, *bounds, problem.ridge


def _expand(problem: Problem, w: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gradient of F_0 at w, Cholesky factor of its Hessian, and the predictions."""
    d, n = problem.columns.shape
    u, slope, curvature, scratch = (np.empty(n) for _ in range(4))
    gradient, factor = np.empty(d), np.empty((d, d))
    gradient_at(*problem.arguments, problem.ridge, np.zeros(d), w, u, slope, curvature, gradient)
    hessian_at(problem.columns, problem.ridge, curvature, scratch, factor)
    if not cholesky(factor):
        raise ConvergenceError(f"minimise: the Hessian is numerically singular (ridge {problem.ridge:g})")
    return gradient, factor, u


def _minimise_with_kinks(rows: FloatArray, problem: Problem) -> Minimum:
    """Hinge and absolute loss through the box-constrained dual."""
    alpha, gap = _dual(rows, problem)
    direction = problem.y[:, None] * rows if problem.loss.name == "hinge" else rows
    return Minimum(direction.T @ alpha / problem.ridge, gap, math.sqrt(2.0 * gap / problem.ridge))


def _dual(rows: FloatArray, problem: Problem) -> tuple[FloatArray, float]:
    hinge = problem.loss.name == "hinge"
    direction, target = (problem.y[:, None] * rows, np.ones(len(rows))) if hinge else (rows, problem.y)
    alpha, gap, objective = minimise_box_dual(direction, target, np.zeros(len(rows)) if hinge else -problem.m, problem.m, problem.ridge)
    # The dual variables of opposing records cancel in w, which leaves their rounding error in every prediction.
    rounding = 4e-16 * float(problem.m @ (np.abs(target) + np.abs(direction) @ (np.abs(direction).T @ np.abs(alpha)) / problem.ridge))
    if not gap <= TOLERANCE * objective + rounding:
        raise ConvergenceError(
            f"minimise: duality gap {gap:.3g} is above 1e-10 of the objective {objective:.3g} (loss {problem.loss.name})"
        )
    return alpha, gap


def minimise_kernel(gram: FloatArray, y: FloatArray, multiplicity: FloatArray, loss: Loss, ridge: float) -> KernelMinimum:
    """Kernel ERM through its dual: w = sum_i c_i phi(x_i), of which only the Gram matrix K(x_i, x_j) is seen.

    Solved on the rows of a factor of the Gram matrix as features; at the minimiser c_i = -m_i l'(u_i; y_i)/ridge. The certificate is
    computed in the feature space itself: the gradient is sum_i a_i phi(x_i) with a = ridge c + m l'(K c).
    """
    values, vectors = np.linalg.eigh(gram)
    kept = values > values[-1] * 1e-15
    features = vectors[:, kept] * np.sqrt(values[kept])
    weights = multiplicity * loss.scale
    problem = Problem(
        np.ascontiguousarray(features.T), np.ascontiguousarray(y, dtype=np.float64), weights, loss, require_positive("ridge", ridge)
    )
    if features.shape[1] == 0:
        return KernelMinimum(np.zeros(len(y)), 0.0, 0.0)
    if not loss.smooth:
        alpha, gap = _dual(features, problem)
        return KernelMinimum((y * alpha if loss.name == "hinge" else alpha) / ridge, gap, math.sqrt(2.0 * gap / ridge))
    w = minimise(problem).w
    u = features @ w
    # The same coefficients from the slopes, whose error grows with 1/ridge, and from w, whose error grows with 1/eigenvalue.
    found = []
    for coefficients in (-multiplicity * loss.derivative(u, y) / ridge, vectors[:, kept] @ (w / np.sqrt(values[kept]))):
        excess = ridge * coefficients + multiplicity * loss.derivative(features @ (features.T @ coefficients), y)
        found.append((float(np.linalg.norm(features.T @ excess)), coefficients))
    residual, coefficients = min(found, key=lambda pair: pair[0])
    goal = TOLERANCE * problem.slope_total + 1e-13 * problem.curvature_total * float(np.linalg.norm(w))
    if not residual <= goal:
        raise ConvergenceError(f"minimise_kernel: gradient norm {residual:.3g} is above {goal:.3g} (loss {loss.name}, ridge {ridge:g})")
    return KernelMinimum(coefficients, residual, residual / ridge)
