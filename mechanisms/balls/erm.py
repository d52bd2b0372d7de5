"""What mechanisms of regularised risk minimisation say of their laws in balls: minimum plus noise, and minimum of a perturbed objective."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from dpwitness.mechanisms.balls.ball import Ball, Box, Span, over
from dpwitness.mechanisms.balls.law import LineLaw
from dpwitness.mechanisms.balls.plane import PlaneLoss
from dpwitness.mechanisms.balls.risk import RiskLaw, curvature_over, differing, minimum_ball, rows_of, shift_of, slope_over
from dpwitness.mechanisms.balls.shift import Shift
from dpwitness.mechanisms.numerics.noise import SphericalNoise
from dpwitness.mechanisms.numerics.solvers import Problem


def noise_log_density(noise: SphericalNoise, square: Ball) -> Ball:
    """Log-density of the noise from |b|^2, over a ball of it."""
    d, c = noise.dimension, arb(noise.rate)
    if noise.kind == "gaussian":
        return d * (c.log() - (2 * arb.pi()).log() / 2) - c * c * square / 2
    log_area = arb(2).log() + arb(d) / 2 * arb.pi().log() - (arb(d) / 2).lgamma()
    length = square.nonnegative_part().sqrt()
    if noise.kind == "gamma" or d == 1:
        return d * c.log() - c * length - arb(d).lgamma() - log_area
    return c.log() - c * length - (d - 1) * length.log() - log_area


class _RiskBalls:
    __slots__ = ()

    @abstractmethod
    def _risk(self, dataset: Any) -> tuple[Problem, SphericalNoise]:
        """The problem and the noise; what the mechanism runs on this dataset."""


class OutputBalls(_RiskBalls):
    """Minimum plus noise."""

    __slots__ = ()

    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Enclosures of the log-density over each box."""
        problem, noise = self._risk(dataset)
        center = minimum_ball(problem)
        if center is None:
            return [arb("nan") for _ in boxes]
        return [_shifted(noise, box, center) for box in boxes]

    def shift_ball(self, d1: Any, d0: Any) -> Shift | None:
        """The pair as a shift of the noise; None for losses whose minimum is not enclosed."""
        (first, noise), (second, _) = self._risk(d1), self._risk(d0)
        return shift_of(first, second, noise)


def _shifted(noise: SphericalNoise, box: Box, center: list[Ball]) -> Ball:
    if not all(np.isfinite(x) for s in box for x in s):
        return arb("nan")
    return noise_log_density(noise, sum((abs(over(*s) - c) * abs(over(*s) - c) for s, c in zip(box, center, strict=True)), arb(0)))


class ObjectiveBalls(_RiskBalls):
    """Minimum of a perturbed objective."""

    __slots__ = ()

    def _line_law(self, dataset: Any) -> LineLaw:
        """The law in one dimension."""
        return RiskLaw.of(*self._risk(dataset))

    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Enclosures of the log-density over each box: noise at b(w) = -grad F(w), and log det Hess F(w)."""
        problem, noise = self._risk(dataset)
        if noise.dimension == 1:
            law = self._line_law(dataset)
            return [law.log_density(*box[0]) for box in boxes]
        return [_perturbed(problem, noise, box) for box in boxes]

    def mass_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Mass of each (low, high] on the line."""
        law = self._line_law(dataset)
        return [law.mass(*box[0]) for box in boxes]

    def loss_ball(self, boxes: Sequence[Box], d1: Any, d0: Any) -> list[Span]:
        """Span of the privacy loss over each (low, high] on the line."""
        first, second = (self._line_law(d) for d in (d1, d0))
        return [first.loss(*box[0], second) for box in boxes]

    def shift_ball(self, d1: Any, d0: Any) -> Shift | None:
        """The pair as a shift of the noise where the records that differ are linear in w, so that b moves by as much everywhere."""
        (first, noise), (second, _) = self._risk(d1), self._risk(d0)
        if noise.singular:
            return shift_of(first, second, noise)  # b = 0 at the minimum, where the density is unbounded
        if first.loss.name != "linear":
            return None
        moved = [arb(0)] * noise.dimension
        for row, m in differing(rows_of(first), rows_of(second)):
            moved = [total + m * row.y * x for total, x in zip(moved, row.x, strict=True)]
        size = sum((x * x for x in moved), arb(0)).sqrt() * noise.rate
        if noise.kind == "gaussian":
            return Shift("normal", size, noise.dimension)
        return Shift("Laplace" if noise.dimension == 1 else "gamma", size, noise.dimension)

    def axis_ball(self, d1: Any, d0: Any) -> tuple[RiskLaw, RiskLaw, int, str] | None:
        """In d >= 2, where all records lie on one axis: two laws along it, the axis, and the kind of the noise."""
        (first, noise), (second, _) = self._risk(d1), self._risk(d0)
        used = {j for row in (*rows_of(first), *rows_of(second)) for j, x in enumerate(row.x) if x != 0}
        if noise.dimension == 1 or noise.singular or len(used) > 1:
            return None
        axis = next(iter(used), 0)
        return RiskLaw.of(first, noise, axis), RiskLaw.of(second, noise, axis), axis, noise.kind

    def plane_ball(self, d1: Any, d0: Any) -> tuple[PlaneLoss, float] | None:
        """In the plane, noise of Gamma length: the loss over boxes and arcs, and how far out b follows w."""
        (first, noise), (second, _) = self._risk(d1), self._risk(d0)
        if noise.dimension != 2 or noise.kind != "gamma" or first.loss.name == "squared":
            return None
        reach = 4 * (max(first.slope_total, second.slope_total) + 4 / noise.rate) / first.ridge
        return PlaneLoss.of(first, second, noise.rate), float(reach)

    def breakpoints(self, dataset: Any) -> NDArray[np.float64]:
        """Along one axis, where the Huber loss of a record turns, and where b(w) = 0 is looked for: the solver's minimum."""
        problem, _ = self._risk(dataset)
        loss, found = problem.loss, [0.0]
        if loss.name in ("huber", "smoothed-huber"):
            s = loss.smoothing if loss.name == "smoothed-huber" else 0.0
            for row in rows_of(problem):
                x = max(row.x, key=abs)
                found += [(row.y + turn) / x for turn in (-loss.width - s, -loss.width + s, loss.width - s, loss.width + s)]
        return np.unique(found)


def _perturbed(problem: Problem, noise: SphericalNoise, box: Box) -> Ball:
    if not all(np.isfinite(x) for s in box for x in s):
        return arb("nan")
    w = [over(*s) for s in box]
    pull = [arb(problem.ridge) * x for x in w]
    d = len(w)
    hessian = [[arb(problem.ridge) if i == j else arb(0) for j in range(d)] for i in range(d)]
    for row in rows_of(problem):
        u = sum((a * x for a, x in zip(w, row.x, strict=True)), arb(0))
        low, high = (u, u) if u.is_exact() else (u.lower(), u.upper())
        slope = arb(row.m) * slope_over(problem.loss, low, high, row.y)
        bend = arb(row.m) * curvature_over(problem.loss, low, high, row.y)
        for i, x in enumerate(row.x):
            pull[i] = pull[i] + slope * x
            for j, z in enumerate(row.x):
                hessian[i][j] = hessian[i][j] + bend * (arb(x) * z)
    return noise_log_density(noise, sum((x * x for x in pull), arb(0))) + arb_mat(hessian).det().log()
