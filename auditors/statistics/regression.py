"""Logistic regression with Gaussian priors, its evidence, and draws from its posterior (MacKay 1992; Laplace's approximation)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.special import expit

from dpwitness.mechanisms.terms.protocol import FloatArray

_STEPS, _ROUNDS = 25, 40
_CLOSE, _NEAR = 1e-8, 1e-5  # gains of a step, relative to the loss: below the first it was the last, below the second curvature is kept
_LEAST, _MOST = 1e-2, 1e6  # precisions of a group of weights


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Weights at the posterior's mode, a Cholesky factor of the Hessian there, and the penalised negative log-likelihood."""

    weights: FloatArray
    factor: FloatArray  # lower triangular, L L^T = Hessian
    loss: float
    information: FloatArray  # the Hessian without the priors'

    def draw(self, number: int, rng: Generator) -> FloatArray:
        """Draws from the Gaussian around the mode: (number, weights)."""
        noise = rng.standard_normal((len(self.weights), number))
        return np.asarray(self.weights + solve_triangular(self.factor, noise, lower=True, trans="T").T)

    def variances(self) -> FloatArray:
        """Posterior variance of each weight."""
        inverse = solve_triangular(self.factor, np.eye(len(self.weights)), lower=True)
        return np.asarray((inverse**2).sum(axis=0))


def fit_logistic(
    features: FloatArray,
    ones: FloatArray,
    zeros: FloatArray,
    precision: FloatArray,
    start: FloatArray | None = None,
    steps: int = _STEPS,
    information: FloatArray | None = None,
) -> Fit:
    """Newton's method on weighted counts, with a halved step where a whole one goes up.

    Curvature is what costs: it is kept once steps gain little, and `information` is that of the likelihood at `start`, where it is known.
    """
    total = ones + zeros
    weights = np.zeros(features.shape[1]) if start is None else start

    def loss_at(w: FloatArray, line: FloatArray) -> float:
        return float(np.sum(total * np.logaddexp(0.0, line) - ones * line) + 0.5 * np.sum(precision * w**2))

    def curvature(line: FloatArray) -> FloatArray:
        p = expit(line)
        scaled = features * np.sqrt(total * p * (1 - p))[:, None]
        return np.asarray(scaled.T @ scaled)  # of a matrix with itself: half the work

    def with_priors(known: FloatArray) -> FloatArray:
        hessian = known.copy()
        hessian[np.diag_indices(len(hessian))] += precision * (1 + 1e-9)
        return hessian

    line = features @ weights
    loss, known = loss_at(weights, line), curvature(line) if information is None else information
    for _ in range(steps):
        gradient = features.T @ (total * expit(line) - ones) + precision * weights
        step, size = _solve(with_priors(known), gradient), 1.0
        while True:
            found = weights - size * step
            ahead = features @ found
            if (new := loss_at(found, ahead)) <= loss + 1e-9 * abs(loss) or size <= 1e-4:
                break
            size *= 0.5
        weights, line = found, ahead
        gained, loss = loss - new, new
        if gained > _NEAR * (1 + abs(loss)):
            known = curvature(line)
        elif gained < _CLOSE * (1 + abs(loss)):
            break
    return Fit(weights, np.tril(_factor(with_priors(known))), loss, known)


def _factor(hessian: FloatArray) -> FloatArray:
    jitter = 0.0
    while True:
        try:
            return np.asarray(cho_factor(hessian + jitter * np.diag(np.diag(hessian)), lower=True)[0])
        except LinAlgError:
            jitter = max(1e-12, 10 * jitter)


def _solve(hessian: FloatArray, gradient: FloatArray) -> FloatArray:
    return np.asarray(cho_solve((_factor(hessian), True), gradient))


def evidence(fit: Fit, precision: FloatArray) -> float:
    """Log marginal likelihood of a prior with these precisions, by Laplace's approximation, up to a constant."""
    return float(-fit.loss + 0.5 * np.sum(np.log(precision)) - np.sum(np.log(np.diag(fit.factor))))


def fit_grouped(
    features: FloatArray, ones: FloatArray, zeros: FloatArray, group: NDArray[np.intp], precision: FloatArray, *, learn: bool = True
) -> tuple[Fit, FloatArray]:
    """Logistic regression on counts of two labels; each group of weights has one prior, whose precision is learned by evidence.

    The constant comes first and has no group. MacKay's fixed point, gamma / |w|^2 with gamma the number of weights of the group that the
    data determine, overrelaxed.
    """
    found = precision.copy()
    start: FloatArray | None = None
    information: FloatArray | None = None
    for turn in range(_ROUNDS if learn else 1):
        fit = fit_logistic(features, ones, zeros, np.append(1e-4, found[group]), start, _STEPS if turn == 0 else 4, information)
        start, information = fit.weights, fit.information
        if not learn:
            break
        size, square, variance = (np.bincount(group, v, len(found)) for v in (np.ones(len(group)), start[1:] ** 2, fit.variances()[1:]))
        determined = np.maximum(size - found * variance, 1e-2)
        new = np.clip(found * ((determined + 0.02) / (square + 2e-4) / found) ** 1.7, _LEAST, _MOST)
        settled = np.max(np.abs(np.log(new / found))) < 0.05
        found = new
        if settled:
            break
    return fit, found
