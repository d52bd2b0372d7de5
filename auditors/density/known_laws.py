"""Elementary laws of the privacy loss: finitely many outputs, and shifted Laplace, normal and
two-sided geometric noise.

Continuous laws are cut into cells, which is post-processing: no divergence is overstated.

`law_with_parameter` returns the law with a given parameter in any privacy notion, as a model of a
violation. The coin is randomized response. No law with a given epsilon, with or without delta, is
easier to detect: the number of right guesses is at most c = e^epsilon w + delta k/2
(`statistics/certificate.py`), and the coin attains equality in every round. In the other notions,
the coin is a law for which one event shows the entire parameter; other laws may need fewer runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr

from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.claims import GDP, Claim
from dpwitness.core.claims.notions import ORDERS
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import InvalidArgument, short_repr


def finite(p: ArrayLike, q: ArrayLike) -> LossLaw:
    """Return the loss law of a mechanism with finitely many outputs (or cells), from their masses
    under D1 and D0.
    """
    ones, zeros = np.ravel(np.asarray(p, dtype=float)), np.ravel(np.asarray(q, dtype=float))
    use = ones + zeros > 1e-300
    with np.errstate(divide="ignore"):
        loss = np.log(ones[use]) - np.log(zeros[use])
    return LossLaw.of(loss, ones[use], zeros[use])


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


SHAPES = ("coin", "laplace", "gaussian")

_LEAST_RATE = 1e-9  # least probability of an event that shows a parameter of a curve


def law_with_parameter(shape: str, claim: Claim, find: float) -> LossLaw:
    """Return the law of this shape with parameter `find` in the claim's notion.

    Raises InvalidArgument if there is no such law: Gaussian noise has no epsilon without delta, and
    a very large parameter needs no plan.
    """
    if shape == "gaussian":
        if claim.is_pure:
            raise InvalidArgument(
                f"plan: shape must not be 'gaussian' for {claim}: Gaussian noise satisfies "
                "no epsilon without delta"
            )
        return gaussian(_gaussian_shift(claim, find))
    if shape == "coin":
        odds = _root(lambda x: float(claim.parameter_at(expit(-x), expit(x))) - find, find)
        return finite(expit([-odds, odds]), expit([odds, -odds]))
    return laplace(
        find if claim.is_pure else _root(lambda x: parameter_of(claim, laplace(x)) - find, find)
    )


def parameter_of(claim: Claim, law: LossLaw) -> float:
    """Return the parameter of a law in the claim's notion, at the claim's delta or order: the
    larger of the pair's two orders.

    A curve, such as that of GDP, is concave, and so is the attacker's curve: the vertices of the
    latter decide.
    """
    sides = law, law.swapped()
    if claim.bounds_epsilon:
        return max(side.epsilon(claim.delta_budget) for side in sides)
    if claim.bounds_renyi:
        orders = claim.orders_among(ORDERS.tolist())
        return max(side.renyi(a) / claim.divergence_at(a) for side in sides for a in orders)
    found = 0.0
    for side in sides:
        threshold, fpr, tpr = side.roc()
        # Beyond the middle, the other order of the pair gives the same rates without cancellation.
        # Events of smaller probability have rates with too few digits.
        use = (fpr + tpr <= 1) & (tpr > _LEAST_RATE) & ((fpr > 0) | np.isposinf(threshold))
        with np.errstate(invalid="ignore"):
            found = max(found, float(np.max(claim.parameter_at(fpr[use], tpr[use]), initial=0.0)))
    return found


def _gaussian_shift(claim: Claim, find: float) -> float:
    """Return the shift over the standard deviation of Gaussian noise with parameter `find`."""
    known = claim.gaussian_shift(find)
    if known is not None:
        return known
    if claim.bounds_epsilon:
        return _root(lambda mu: float(GDP(mu).delta(find)) - claim.delta_budget, find)
    # largest shift at which the rates of all events are resolved
    return _root(lambda mu: parameter_of(claim, gaussian(mu)) - find, find, 8.0)


def _root(excess: Callable[[float], float], find: float, largest: float = 30.0) -> float:
    """Return the zero of an increasing function of a shift or log-odds. Raise InvalidArgument if
    the zero exceeds `largest`: larger ones show in every run.
    """
    from scipy.optimize import brentq  # takes a tenth of a second to load

    if not excess(largest) > 0:
        raise InvalidArgument(
            "plan: find is too large to need a plan: such a violation shows in every run; "
            f"use a smaller find, got {short_repr(find)}"
        )
    return float(brentq(lambda x: min(excess(x), 1e9), 1e-9, largest, xtol=1e-13))
