"""What the mechanisms of regularised risk minimisation share: admissible data, the two ways of adding noise, and what is true of them.

Output perturbation releases w* + b; objective perturbation releases argmin F(w) + <b, w>. Both densities are exact: the first is a shift of
the noise's, the second its change of variables b -> w with the Jacobian, which is the Hessian of F.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq

from dpwitness.mechanisms.numerics.drawing import Draws
from dpwitness.mechanisms.numerics.losses import Loss
from dpwitness.mechanisms.numerics.noise import SphericalNoise
from dpwitness.mechanisms.numerics.solvers import Problem, minimise, minimise_perturbed, noise_that_yields
from dpwitness.mechanisms.terms.datasets import LabelledVectors
from dpwitness.mechanisms.terms.notions import GDP
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument

LOGISTIC = Loss("logistic")


def logistic_shift() -> float:
    """CM-04 in d = 1: sup over W of (sig(W) + max over v in [0, 1] of v sig(-W v))/2, the largest shift in units of 2/(n lambda)."""
    w = np.linspace(0.0, 40.0, 4001)[:, None]
    v = np.linspace(0.0, 1.0, 2001)[None, :]
    return float(0.5 * (1 / (1 + np.exp(-w[:, 0])) + (v / (1 + np.exp(w * v))).max(axis=1)).max())


def admissible(dataset: object, owner: str, *, radius: float, clip: bool, binary: bool) -> LabelledVectors:
    """The dataset, its records scaled into the ball where `clip` asks for it. InvalidArgument names the first record that breaks a rule."""
    if not isinstance(dataset, LabelledVectors):
        raise InvalidArgument(f"{owner}: dataset must be LabelledVectors, got {type(dataset).__name__}")
    if binary:
        wrong = np.flatnonzero(np.abs(dataset.y) != 1.0)
        if len(wrong):
            raise InvalidArgument(f"{owner}: y must be -1 or +1, got {float(dataset.y[wrong[0]])!r} in row {int(wrong[0])}")
    lengths = np.sqrt((dataset.x**2).sum(axis=1))
    outside = np.flatnonzero(lengths > radius * (1 + 1e-12))
    if not len(outside):
        return dataset
    if not clip:
        found = f"norm {float(lengths[outside[0]])!r} in row {int(outside[0])}"
        raise InvalidArgument(f"{owner}: x must lie in the ball of radius {radius!r} (clip=True scales records into it), got {found}")
    return LabelledVectors(dataset.x / np.maximum(1.0, lengths / radius)[:, None], dataset.y, dataset.multiplicity)


def output_draws(problem: Problem, noise: SphericalNoise, grid: float) -> Draws:
    """Rows w* + b."""
    return noise.draws(minimise(problem).w, grid)


def output_log_density(problem: Problem, noise: SphericalNoise, outputs: FloatArray, grid: float) -> FloatArray:
    """Log-density of w* + b: that of the noise at w - w*."""
    return noise.log_density(unrounded(outputs, problem.dimension, grid) - minimise(problem).w)


def sample_objective(problem: Problem, noise: SphericalNoise, size: int, rng: Generator, grid: float) -> FloatArray:
    """Rows argmin F(w) + <b, w>, solved in the array that the noise was drawn into."""
    return rounded(minimise_perturbed(problem, noise.sample(size, rng)), grid)


def objective_log_density(problem: Problem, noise: SphericalNoise, outputs: FloatArray, grid: float) -> FloatArray:
    """Log-density of argmin F(w) + <b, w>: that of the noise at b(w) = -grad F(w), plus log det Hess F(w)."""
    b, determinant = noise_that_yields(problem, unrounded(outputs, problem.dimension, grid))
    return noise.log_density(b) + determinant


def rounded(rows: FloatArray, grid: float) -> FloatArray:
    """Multiples of `grid`, in place: post-processing, after which the low bits tell no more than the value."""
    if grid > 0:
        np.divide(rows, grid, out=rows)
        np.rint(rows, out=rows)
        np.multiply(rows, grid, out=rows)
    return rows


def unrounded(outputs: FloatArray, dimension: int, grid: float) -> FloatArray:
    """The outputs as rows of floats; an InvalidArgument where they are not, or where the mechanism rounds and so has no density."""
    if grid > 0:
        raise InvalidArgument(f"log_density: grid must be 0, since rounded outputs have no density, got {grid!r}")
    rows = np.asarray(outputs, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != dimension:
        raise InvalidArgument(f"log_density: outputs must have shape (size, {dimension}), got {rows.shape}")
    return rows


def largest_loss(loss: Loss, rate: float, radius: float, ridge: float, lipschitz: float) -> tuple[float, float]:
    """Supremum of the privacy loss of objective perturbation with Gamma-norm noise (claims CM-06, JT-06), and the r that attains it.

    sup over r of rate R (|l'(r)| + L) + log(1 + R^2 l''(r) / ridge): the noise terms of the two records add when their gradients oppose,
    and the determinants differ by one rank-one term. Approached by pairs whose second record is saturated.
    """
    near = np.concatenate([np.linspace(0.0, 3.0 * loss.width, 30_001), [loss.width]])
    r = np.concatenate([near, -near, np.geomspace(1e-12, 60.0, 4001), -np.geomspace(1e-12, 60.0, 4001)])
    y = np.ones_like(r) if loss.binary or loss.name == "linear" else np.zeros_like(r)

    def gain(points: FloatArray, labels: FloatArray) -> FloatArray:
        noise = rate * radius * (np.abs(loss.derivative(points, labels)) + lipschitz)
        return np.asarray(noise + np.log1p(radius**2 * loss.second(points, labels) / ridge))

    best = int(np.argmax(gain(r, y)))
    width = 1e-3 * max(1.0, abs(float(r[best])))
    for _ in range(3):  # the grid brackets the maximum; three finer ones around it leave an error far below rounding
        r = np.append(float(r[best]) + width * np.linspace(-1.0, 1.0, 2001), r[best])
        y = np.full_like(r, y[0])
        best, width = int(np.argmax(gain(r, y))), width / 500
    # Saturated records bring no curvature but the whole slope, in the limit.
    value, limit = float(gain(r, y)[best]), 2.0 * rate * radius * lipschitz
    return (value, float(r[best])) if value >= limit else (limit, math.inf)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon at which a Gaussian shift of mu standard deviations is (epsilon, delta)-DP (Balle and Wang 2018)."""
    curve = GDP(mu)

    def excess(epsilon: float) -> float:
        return math.log(max(float(curve.delta(epsilon)), 1e-320)) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    top = 1.0
    while excess(top) > 0:
        top *= 2.0
    return float(brentq(excess, 0.0, top, xtol=1e-14, rtol=1e-13))
