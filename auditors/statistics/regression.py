"""Logistic regression with Gaussian priors, its evidence, and draws from its posterior (MacKay 1992; Laplace's approximation)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.special import expit

from dpwitness.mechanisms.protocols.mechanism import FloatArray

_NEWTON_STEPS, _EVIDENCE_ROUNDS = 25, 40
_STOP_GAIN, _REUSE_GAIN = 1e-8, 1e-5  # relative gains of a step: below the first, stop; below the second, reuse the curvature
_MAX_STEP = 4.0  # maximum change of the logarithm of a precision in a round
_MIN_PRECISION, _MAX_PRECISION = 1e-2, 1e6  # range of the prior precision of a group of weights


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Posterior mode of the weights, with a Cholesky factor of the Hessian and the penalized negative log-likelihood."""

    weights: FloatArray
    factor: FloatArray  # lower triangular, L L^T = Hessian
    loss: float
    information: FloatArray  # the Hessian of the likelihood, without the priors

    def draw(self, number: int, rng: Generator) -> FloatArray:
        """Return draws from the Gaussian around the mode: (number, weights)."""
        noise = rng.standard_normal((len(self.weights), number))
        return np.asarray(self.weights + solve_triangular(self.factor, noise, lower=True, trans="T").T)

    def variances(self) -> FloatArray:
        """Return the posterior variance of each weight."""
        inverse = solve_triangular(self.factor, np.eye(len(self.weights)), lower=True)
        return np.asarray((inverse**2).sum(axis=0))


def fit_logistic(
    features: FloatArray,
    ones: FloatArray,
    zeros: FloatArray,
    precision: FloatArray,
    start: FloatArray | None = None,
    steps: int = _NEWTON_STEPS,
    information: FloatArray | None = None,
) -> Fit:
    """Fit logistic regression on weighted counts by Newton's method, halving steps that raise the loss.

    The curvature, which costs most, is reused once steps gain little. `information` is the curvature at `start`, if known.
    """
    total = ones + zeros
    weights = np.zeros(features.shape[1]) if start is None else start

    def loss_at(w: FloatArray, line: FloatArray) -> float:
        return float(np.sum(total * np.logaddexp(0.0, line) - ones * line) + 0.5 * np.sum(precision * w**2))

    def curvature(line: FloatArray) -> FloatArray:
        p = expit(line)
        scaled = features * np.sqrt(total * p * (1 - p))[:, None]
        return np.asarray(scaled.T @ scaled)  # BLAS halves the work for a matrix times its own transpose

    def with_priors(known: FloatArray) -> FloatArray:
        hessian = known.copy()
        hessian[np.diag_indices(len(hessian))] += precision * (1 + 1e-9)
        return hessian

    line = features @ weights
    loss, known = loss_at(weights, line), curvature(line) if information is None else information
    for _ in range(steps):
        gradient = features.T @ (total * expit(line) - ones) + precision * weights
        step, size = np.asarray(cho_solve((_cholesky(with_priors(known)), True), gradient)), 1.0
        while True:
            found = weights - size * step
            next_line = features @ found
            if (new := loss_at(found, next_line)) <= loss + 1e-9 * abs(loss) or size <= 1e-4:
                break
            size *= 0.5
        weights, line = found, next_line
        gain, loss = loss - new, new
        if gain > _REUSE_GAIN * (1 + abs(loss)):
            known = curvature(line)
        elif gain < _STOP_GAIN * (1 + abs(loss)):
            break
    return Fit(weights, np.tril(_cholesky(with_priors(known))), loss, known)


def _cholesky(hessian: FloatArray) -> FloatArray:
    """Return the Cholesky factor of a Hessian, with jitter added to the diagonal if needed."""
    jitter = 0.0
    while True:
        try:
            return np.asarray(cho_factor(hessian + jitter * np.diag(np.diag(hessian)), lower=True)[0])
        except LinAlgError:
            jitter = max(1e-12, 10 * jitter)


def evidence(fit: Fit, precision: FloatArray) -> float:
    """Return the log marginal likelihood under these prior precisions, by Laplace's approximation, up to a constant."""
    return float(-fit.loss + 0.5 * np.sum(np.log(precision)) - np.sum(np.log(np.diag(fit.factor))))


def fit_grouped(
    features: FloatArray, ones: FloatArray, zeros: FloatArray, group: NDArray[np.intp], precision: FloatArray, *, learn: bool = True
) -> tuple[Fit, FloatArray]:
    """Fit logistic regression on counts of two labels, with one prior for each group of weights; the constant has none.

    A precision is learned by MacKay's fixed point, overrelaxed: the number of weights that the data determine, over |w|^2.
    """
    found, last_step = precision.copy(), np.zeros(len(precision))
    start: FloatArray | None = None
    information: FloatArray | None = None
    for turn in range(_EVIDENCE_ROUNDS if learn else 1):
        fit = fit_logistic(features, ones, zeros, np.append(1e-4, found[group]), start, _NEWTON_STEPS if turn == 0 else 4, information)
        start, information = fit.weights, fit.information
        if not learn:
            break
        size, square, variance = (np.bincount(group, v, len(found)) for v in (np.ones(len(group)), start[1:] ** 2, fit.variances()[1:]))
        determined = np.maximum(size - found * variance, 0.0)
        step = np.log(np.clip((determined + 0.02) / (square + 2e-6), _MIN_PRECISION, _MAX_PRECISION) / found)
        factor = np.where(step * last_step >= 0, 1.7, 0.7)  # overrelaxed steps of changing signs could repeat forever
        step = np.clip(factor * step, -_MAX_STEP, _MAX_STEP)
        new = np.clip(found * np.exp(step), _MIN_PRECISION, _MAX_PRECISION)
        converged = np.max(np.abs(np.log(new / found))) < 0.05
        found, last_step = new, step
        if converged:
            break
    return fit, found
