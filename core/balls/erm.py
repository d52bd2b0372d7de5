"""Enclosure methods of the mechanisms of regularized risk minimization, in ball arithmetic.

There are two kinds of mechanism: output perturbation (minimizer plus noise) and objective
perturbation (minimizer of a perturbed objective).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from dpwitness.core.balls.ball import Ball, Box, over
from dpwitness.core.balls.law import LineLaw, LineLawEnclosures
from dpwitness.core.balls.plane import PlaneLoss
from dpwitness.core.balls.profiles import ShiftProfile
from dpwitness.core.balls.risk import (
    RiskLaw,
    curvature_over,
    differing,
    gradient_over,
    minimizer_ball,
    prediction_over,
    rows_of,
    shift_by,
    shift_of,
)
from dpwitness.core.numerics.noise import SphericalNoise
from dpwitness.core.numerics.solvers import Problem


def noise_log_density(noise: SphericalNoise, square: Ball) -> Ball:
    """Return the log-density of the noise at vectors b, from a ball `square` that
    contains |b|^2.
    """
    d, c = noise.dimension, arb(noise.rate)
    if noise.kind == "gaussian":
        return d * (c.log() - (2 * arb.pi()).log() / 2) - c * c * square / 2
    log_area = arb(2).log() + arb(d) / 2 * arb.pi().log() - (arb(d) / 2).lgamma()
    length = square.nonnegative_part().sqrt()
    if noise.kind == "gamma" or d == 1:
        return d * c.log() - c * length - arb(d).lgamma() - log_area
    return c.log() - c * length - (d - 1) * length.log() - log_area


class _RiskBalls:
    """Base class of the mixins for risk minimization."""

    __slots__ = ()

    @abstractmethod
    def _risk(self, dataset: Any) -> tuple[Problem, SphericalNoise]:
        """Return the optimization problem and the noise that the mechanism uses on this dataset."""


class OutputPerturbationEnclosures(_RiskBalls):
    """Mixin with the enclosure methods of output perturbation: the minimizer plus noise."""

    __slots__ = ()

    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Return enclosures of the log-density over each box."""
        problem, noise = self._risk(dataset)
        center = minimizer_ball(problem)
        if center is None:
            return [arb("nan") for _ in boxes]
        found = []
        for box in boxes:
            gaps = [abs(over(*s) - c) for s, c in zip(box, center, strict=True)]
            found.append(noise_log_density(noise, sum((gap * gap for gap in gaps), arb(0))))
        return found

    def shift_ball(self, d1: Any, d0: Any) -> ShiftProfile | None:
        """Return the pair as a shift of the noise, or None if the minimizers of this loss cannot be
        enclosed.
        """
        (first, noise), (second, _) = self._risk(d1), self._risk(d0)
        return shift_of(first, second, noise)


class ObjectivePerturbationEnclosures(_RiskBalls, LineLawEnclosures):
    """Mixin with the enclosure methods of objective perturbation: the minimizer of a perturbed
    objective.

    Masses and losses of intervals are enclosed in dimension 1 only.
    """

    __slots__ = ()

    def _line_law(self, dataset: Any) -> LineLaw:
        """Return the output law in dimension 1."""
        return RiskLaw.of(*self._risk(dataset))

    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Return enclosures of the log-density over each box.

        The log-density at w is that of the noise at b(w) = -grad F(w), plus log det Hess F(w).
        """
        problem, noise = self._risk(dataset)
        if noise.dimension == 1:
            return LineLawEnclosures.log_density_ball(self, boxes, dataset)
        return [_perturbed_log_density(problem, noise, box) for box in boxes]

    def shift_ball(self, d1: Any, d0: Any) -> ShiftProfile | None:
        """Return the pair as a shift of the noise, or None if the pair is not a shift.

        The pair is a shift if the records that differ have losses linear in w, since b(w) then
        moves by the same amount everywhere.
        """
        (first, noise), (second, _) = self._risk(d1), self._risk(d0)
        if noise.singular:
            # the density is unbounded where b = 0, which is at the minimizer
            return shift_of(first, second, noise)
        if first.loss.name != "linear":
            return None
        shift = [arb(0)] * noise.dimension
        for row, m in differing(rows_of(first), rows_of(second)):
            shift = [total + m * row.y * x for total, x in zip(shift, row.x, strict=True)]
        return shift_by(shift, noise)

    def axis_ball(self, d1: Any, d0: Any) -> tuple[RiskLaw, RiskLaw, int, str] | None:
        """Return (law on D1, law on D0, axis, kind of noise) if d >= 2 and all records lie on one
        axis; otherwise None.

        The two laws are those along the axis.
        """
        (first, noise), (second, _) = self._risk(d1), self._risk(d0)
        used = {
            j for row in (*rows_of(first), *rows_of(second)) for j, x in enumerate(row.x) if x != 0
        }
        if noise.dimension == 1 or noise.singular or len(used) > 1:
            return None
        axis = next(iter(used), 0)
        return RiskLaw.of(first, noise, axis), RiskLaw.of(second, noise, axis), axis, noise.kind

    def plane_ball(self, d1: Any, d0: Any) -> tuple[PlaneLoss, float] | None:
        """Return the privacy loss in the plane for Gamma-length noise, and a radius; None for other
        pairs.

        The loss can be bounded over boxes and over arcs beyond a circle. Beyond the radius, the
        noise b(w) that yields the output w points nearly along -w.
        """
        (first, noise), (second, _) = self._risk(d1), self._risk(d0)
        if noise.dimension != 2 or noise.kind != "gamma" or first.loss.name == "squared":
            return None
        radius = 4 * (max(first.slope_total, second.slope_total) + 4 / noise.rate) / first.ridge
        return PlaneLoss(first, second, noise.rate), float(radius)

    def breakpoints(self, dataset: Any) -> NDArray[np.float64]:
        """Return points along one axis at which the log-density may have a kink.

        The points are the turning points of the Huber losses of the records, and 0.
        """
        problem, _ = self._risk(dataset)
        loss, points = problem.loss, [0.0]
        if loss.name in ("huber", "smoothed-huber"):
            s = loss.smoothing if loss.name == "smoothed-huber" else 0.0
            for row in rows_of(problem):
                x = max(row.x, key=abs)
                points += [
                    (row.y + turn) / x
                    for turn in (-loss.width - s, -loss.width + s, loss.width - s, loss.width + s)
                ]
        return np.unique(points)


def _perturbed_log_density(problem: Problem, noise: SphericalNoise, box: Box) -> Ball:
    """Enclose the log-density of the perturbed minimizer over a box; not a number if the box is
    unbounded.
    """
    w = [over(*s) for s in box]
    d, ridge = len(w), arb(problem.ridge)
    hessian = arb_mat(d, d, [ridge if i == j else arb(0) for i in range(d) for j in range(d)])
    for row in rows_of(problem):
        curvature = curvature_over(problem.loss, *prediction_over(w, row), row.y)
        x = arb_mat(d, 1, row.x)
        hessian = hessian + x * x.transpose() * (arb(row.m) * curvature)
    square = sum((x * x for x in gradient_over(problem, w)), arb(0))
    return noise_log_density(noise, square) + hessian.det().log()
