"""Shared parts of the mechanisms of regularized risk minimization.

These are the validation of data, both kinds of perturbation, and known privacy losses. Output
perturbation releases w* + b; objective perturbation releases argmin F(w) + <b, w>. Both densities
are exact. The density of output perturbation is a shift of the noise density. The density of
objective perturbation is the change of variables b -> w, whose Jacobian is the Hessian of F.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from dpwitness.core import InvalidArgument, LabelledVectors, Loss
from dpwitness.core.balls.erm import ObjectivePerturbationEnclosures, OutputPerturbationEnclosures
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.solvers import minimise, minimize_perturbed_risk, noise_for_minimizers
from dpwitness.core.protocols.mechanism import FloatArray

LOGISTIC = Loss("logistic")


def logistic_shift() -> float:
    """Return the largest shift of the logistic minimizer in d = 1, in units of 2/(n lambda) (claim
    CM-04).

    It is the supremum over W of (sig(W) + max over v in [0, 1] of v sig(-W v))/2.
    """
    w = np.linspace(0.0, 40.0, 4001)[:, None]
    v = np.linspace(0.0, 1.0, 2001)[None, :]
    return float(0.5 * (1 / (1 + np.exp(-w[:, 0])) + (v / (1 + np.exp(w * v))).max(axis=1)).max())


def validated_dataset(
    dataset: object, owner: str, *, radius: float, clip: bool, binary: bool
) -> LabelledVectors:
    """Return the dataset after validation; if `clip` is true, records outside the ball are scaled
    onto it.

    Raises InvalidArgument, naming the first record that violates a rule.
    """
    if not isinstance(dataset, LabelledVectors):
        raise InvalidArgument(
            f"{owner}: dataset must be LabelledVectors, got {type(dataset).__name__}"
        )
    if binary:
        invalid = np.flatnonzero(np.abs(dataset.y) != 1.0)
        if len(invalid):
            raise InvalidArgument(
                f"{owner}: y must be -1 or +1, got {float(dataset.y[invalid[0]])!r} in row "
                f"{int(invalid[0])}"
            )
    lengths = np.sqrt((dataset.x**2).sum(axis=1))
    outside = np.flatnonzero(lengths > radius * (1 + 1e-12))
    if not len(outside):
        return dataset
    if not clip:
        description = f"norm {float(lengths[outside[0]])!r} in row {int(outside[0])}"
        raise InvalidArgument(
            f"{owner}: x must lie in the ball of radius {radius!r} (clip=True scales records "
            f"into it), got {description}"
        )
    return LabelledVectors(
        dataset.x / np.maximum(1.0, lengths / radius)[:, None], dataset.y, dataset.multiplicity
    )


class OutputPerturbation(SampledByDraws, OutputPerturbationEnclosures):
    """Base class of the mechanisms that release the minimizer w* plus noise b, rounded to multiples
    of `grid`.
    """

    __slots__ = ()
    grid: float

    def draws(self, dataset: LabelledVectors) -> Draws:
        problem, noise = self._risk(dataset)
        return noise.draws(minimise(problem).w, self.grid)

    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density at each row of `outputs`, (size,): that of the noise at w -
        w*.
        """
        problem, noise = self._risk(dataset)
        return noise.log_density(
            unrounded(outputs, problem.dimension, self.grid) - minimise(problem).w
        )


class ObjectivePerturbation(ObjectivePerturbationEnclosures):
    """Base class of the mechanisms that release argmin F(w) + <b, w>, rounded to multiples of
    `grid`.
    """

    __slots__ = ()
    grid: float

    def sample(self, dataset: LabelledVectors, size: int, rng: Generator) -> FloatArray:
        """Return `size` independent outputs, one per row.

        Raises ConvergenceError instead of returning an inexact row.
        """
        problem, noise = self._risk(dataset)
        # overwrites the noise
        return rounded(minimize_perturbed_risk(problem, noise.sample(size, rng)), self.grid)

    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density at each row of `outputs`: (size,).

        It is that of the noise at b(w) = -grad F(w), plus log det Hess F(w), the Jacobian of the
        change of variables b -> w, which the papers omit. For the Huber loss the value holds almost
        everywhere, because its Hessian jumps.
        """
        problem, noise = self._risk(dataset)
        b, determinant = noise_for_minimizers(
            problem, unrounded(outputs, problem.dimension, self.grid)
        )
        return noise.log_density(b) + determinant


def rounded(rows: FloatArray, grid: float) -> FloatArray:
    """Round `rows` in place to multiples of `grid` if `grid` is positive, and return `rows`.

    Rounding is post-processing, after which the low bits reveal no more than the rounded values.
    """
    if grid > 0:
        np.divide(rows, grid, out=rows)
        np.rint(rows, out=rows)
        np.multiply(rows, grid, out=rows)
    return rows


def unrounded(outputs: FloatArray, dimension: int, grid: float) -> FloatArray:
    """Return the outputs as a float array of shape (size, dimension).

    Raises InvalidArgument if the shape is wrong, or if the mechanism rounds (`grid` > 0) and so has
    no density.
    """
    if grid > 0:
        raise InvalidArgument(
            f"log_density: grid must be 0, since rounded outputs have no density, got {grid!r}"
        )
    rows = np.asarray(outputs, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != dimension:
        raise InvalidArgument(
            f"log_density: outputs must have shape (size, {dimension}), got {rows.shape}"
        )
    return rows


def largest_loss(
    loss: Loss, rate: float, radius: float, ridge: float, lipschitz: float
) -> tuple[float, float]:
    """Return the largest privacy loss of objective perturbation with Gamma-norm noise, and the r
    that attains it.

    The supremum is over r of rate R (|l'(r)| + L) + log(1 + R^2 l''(r) / ridge) (claims CM-06,
    JT-06). The noise terms of the two records add up if their gradients oppose each other, and the
    determinants differ by one rank-one term. Pairs whose second record is saturated approach the
    supremum.
    """
    grid_near_zero = np.concatenate([np.linspace(0.0, 3.0 * loss.width, 30_001), [loss.width]])
    r = np.concatenate(
        [
            grid_near_zero,
            -grid_near_zero,
            np.geomspace(1e-12, 60.0, 4001),
            -np.geomspace(1e-12, 60.0, 4001),
        ]
    )
    y = np.ones_like(r) if loss.binary or loss.name == "linear" else np.zeros_like(r)

    def loss_at(points: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the privacy loss at each r."""
        noise = rate * radius * (np.abs(loss.derivative(points, labels)) + lipschitz)
        return np.asarray(noise + np.log1p(radius**2 * loss.second(points, labels) / ridge))

    best = int(np.argmax(loss_at(r, y)))
    width = 1e-3 * max(1.0, abs(float(r[best])))
    # the grid brackets the maximum; three finer grids around it make the error far smaller than
    # rounding
    for _ in range(3):
        r = np.append(float(r[best]) + width * np.linspace(-1.0, 1.0, 2001), r[best])
        y = np.full_like(r, y[0])
        best, width = int(np.argmax(loss_at(r, y))), width / 500
    # In the limit, saturated records have the full slope and no curvature.
    value, limit = float(loss_at(r, y)[best]), 2.0 * rate * radius * lipschitz
    return (value, float(r[best])) if value >= limit else (limit, math.inf)
