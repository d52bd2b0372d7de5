"""Elementary laws of the privacy loss: finitely many outputs, and shifted Laplace, normal and
two-sided geometric noise.

Continuous laws are cut into cells, which is post-processing: no divergence is overstated.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.protocols.mechanism import FloatArray


def finite(p: ArrayLike, q: ArrayLike) -> LossLaw:
    """Return the loss law of a mechanism with finitely many outputs (or cells), from their masses
    under D1 and D0.
    """
    ones, zeros = np.ravel(np.asarray(p, dtype=float)), np.ravel(np.asarray(q, dtype=float))
    use = ones + zeros > 1e-300
    with np.errstate(divide="ignore"):
        loss = np.log(ones[use]) - np.log(zeros[use])
    order = np.argsort(loss, kind="stable")
    return LossLaw(loss[order], ones[use][order], zeros[use][order])


def cells(cdf1: FloatArray, cdf0: FloatArray) -> LossLaw:
    """Return the loss law of a continuous output that is cut into cells, from its distribution
    functions on a grid.
    """
    return finite(
        *(np.clip(np.diff(np.concatenate([[0.0], cdf, [1.0]])), 0.0, None) for cdf in (cdf1, cdf0))
    )


def laplace_cdf(x: FloatArray) -> FloatArray:
    """Return the distribution function of Laplace noise of scale 1."""
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0.0)), 1 - 0.5 * np.exp(-np.maximum(x, 0.0)))


def laplace(shift: float) -> LossLaw:
    """Return the loss law of Laplace noise of scale 1 around 0 and around `shift`.

    Clipping to an interval that contains both centers does not change the law.
    """
    grid = np.linspace(0.0, abs(shift), 2001)
    return cells(laplace_cdf(grid - abs(shift)), laplace_cdf(grid))


def gaussian(shift: float) -> LossLaw:
    """Return the loss law of normal noise of variance 1 around 0 and around `shift`."""
    size = abs(shift)
    grid = np.linspace(-9.0, 9.0 + size, 8001)
    law = finite(_normal_masses(grid - size), _normal_masses(grid))
    return replace(law, extremes=(-math.inf, math.inf) if shift else (0.0, 0.0))


def _normal_masses(grid: FloatArray) -> FloatArray:
    """Return the normal masses of the cells between grid points and beyond, without cancellation in
    the upper tail.
    """
    below = np.diff(np.concatenate([[0.0], ndtr(grid), [1.0]]))
    above = -np.diff(np.concatenate([[1.0], ndtr(-grid), [0.0]]))
    return np.where(np.append(-np.inf, grid) > 0, above, below)


def discrete_laplace(*shifts: int, epsilon: float = 1.0) -> LossLaw:
    """Return the loss law of independent two-sided geometric noise in each coordinate, around 0 and
    around `shifts`.
    """
    support = np.arange(-60, 61)
    center, ones, zeros = np.exp(-epsilon * np.abs(support)), np.ones(1), np.ones(1)
    for shift in shifts:
        moved = np.exp(-epsilon * np.abs(support - shift))
        ones, zeros = (
            np.multiply.outer(ones, moved / moved.sum()),
            np.multiply.outer(zeros, center / center.sum()),
        )
    return finite(ones, zeros)
