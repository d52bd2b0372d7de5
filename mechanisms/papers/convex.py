"""Objective perturbation of any convex problem F(w) = G(w) + sum_i l(w; x_i, y_i).

Releases argmin F(w) + <b, w>. Chaudhuri and Monteleoni (2008), Theorem 3. The user supplies G and
l. The losses of `losses` with G = weight |w|^2 / 2 run in compiled kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from dpwitness.core.balls.ball import EnclosureUnavailable
from dpwitness.core.claims import PureDP
from dpwitness.core.datasets.datasets import LabelledVectors
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.labelled_ball import LabelledBall
from dpwitness.core.numerics.labelled_pairs import axis, replaced
from dpwitness.core.numerics.losses import Loss
from dpwitness.core.numerics.noise import SphericalNoise
from dpwitness.core.numerics.solvers import TOLERANCE, ConvergenceError, Problem
from dpwitness.core.protocols.capabilities import one_law
from dpwitness.core.protocols.mechanism import FloatArray, Truth
from dpwitness.core.values.validation import InvalidArgument, require, short_repr
from dpwitness.mechanisms.papers.erm import (
    ObjectivePerturbation,
    rounded,
    unrounded,
    validated_dataset,
)
from dpwitness.mechanisms.papers.logistic import NOISES, radial_noise
from dpwitness.mechanisms.papers.paper_zoo import PaperSpecimen, with_worst_pair


@runtime_checkable
class StronglyConvex(Protocol):
    """Protocol of the strongly convex penalty G of the paper, evaluated at many points at once."""

    strong_convexity: float

    def gradient(self, w: FloatArray, /) -> FloatArray:
        """Return the gradients at the rows of w: (size, d)."""

    def hessian(self, w: FloatArray, /) -> FloatArray:
        """Return the Hessians at the rows of w: (size, d, d)."""


@runtime_checkable
class RecordLoss(Protocol):
    """Protocol of the loss l of one record (x, y), evaluated at many points at once.

    The loss must be convex and twice differentiable in w, with gradient norm at most kappa.
    """

    def gradient(self, w: FloatArray, x: FloatArray, y: float, /) -> FloatArray:
        """Return the gradients at the rows of w: (size, d)."""

    def hessian(self, w: FloatArray, x: FloatArray, y: float, /) -> FloatArray:
        """Return the Hessians at the rows of w: (size, d, d)."""


@dataclass(frozen=True, slots=True)
class QuadraticPenalty:
    """The penalty G(w) = weight |w|^2 / 2."""

    weight: float

    def __post_init__(self) -> None:
        require(self).positive("weight")

    @property
    def strong_convexity(self) -> float:
        """Return the modulus of strong convexity, which is the weight."""
        return self.weight

    def gradient(self, w: FloatArray, /) -> FloatArray:
        return self.weight * w

    def hessian(self, w: FloatArray, /) -> FloatArray:
        return np.broadcast_to(self.weight * np.eye(w.shape[1]), (*w.shape, w.shape[1]))


@one_law
@dataclass(frozen=True, slots=True)
class ConvexObjectivePerturbation(ObjectivePerturbation):
    """Objective perturbation of a convex problem (Theorem 3).

    The noise is b = B u with u uniform on the sphere and B Laplace of standard deviation 2
    kappa/epsilon. Releases argmin F(w) + <b, w>.

    Parameters
    ----------
    epsilon : float
        Epsilon that the paper claims. Positive, finite.
    kappa : float
        Bound on |grad_w l|. Positive. For a `Loss` it is checked for the loss and for every record;
        for other losses it is trusted.
    loss : Loss or RecordLoss
        l. A `Loss`, a function of <w, x> and y, must be smooth.
    penalty : QuadraticPenalty or StronglyConvex
        G, not divided by n.
    noise : {"gamma", "laplace_radius_scale", "laplace_radius_std"}
        Law of b. The theorem prints the last one, which is not private at any epsilon in d >= 2
        (claim CM-07). No law is private without a bound on l''.
    clip, grid, dimension, records
        As for `LogisticOutputPerturbation`.
    """

    epsilon: float
    kappa: float
    loss: Loss | RecordLoss
    penalty: QuadraticPenalty | StronglyConvex
    noise: str = "laplace_radius_std"
    clip: bool = False
    grid: float = 0.0
    dimension: int = 1
    records: int = 1

    def __post_init__(self) -> None:
        require(self).positive("epsilon", "kappa").one_of("noise", NOISES).nonnegative(
            "grid"
        ).integer("dimension", "records")
        owner = type(self).__name__
        if not isinstance(self.loss, Loss | RecordLoss):
            raise InvalidArgument(
                f"{owner}: loss must be a Loss or have gradient and hessian, got "
                f"{type(self.loss).__name__}"
            )
        if not isinstance(self.penalty, StronglyConvex) or not self.penalty.strong_convexity > 0:
            raise InvalidArgument(
                f"{owner}: penalty must be strongly convex, with gradient and hessian, got "
                f"{short_repr(self.penalty)}"
            )
        if isinstance(self.loss, Loss):
            if not self.loss.smooth:
                raise InvalidArgument(
                    f"{owner}: loss must be differentiable, got {self.loss.name!r}"
                )
            steepest = self.loss.lipschitz(math.inf, 0.0)
            if steepest > self.kappa * (1 + 1e-12):
                raise InvalidArgument(
                    f"{owner}: kappa must bound the slope of the loss, {steepest!r} for "
                    f"{self.loss.name}, got {self.kappa!r}"
                )

    @property
    def claim(self) -> PureDP:
        """Return the claim of Theorem 3: epsilon-DP."""
        return PureDP(self.epsilon)

    @property
    def domain(self) -> LabelledBall:
        """Return the domain: vectors in the unit ball, neighbors by replacement of one record."""
        linear = isinstance(self.loss, Loss) and self.loss.name == "linear"
        label_range = (
            self.kappa / self.loss.scale if isinstance(self.loss, Loss) and linear else 1.0
        )
        return LabelledBall(self.dimension, self.records, (-label_range, label_range))

    @property
    def truth(self) -> Truth | None:
        """Return the true privacy loss (claim CM-07), or None if it is unknown.

        It is infinite for the printed noise in d >= 2, and the loss of a shift of b for linear
        losses.
        """
        safe = self.grid > 0
        noise = self._noise(self.dimension)
        if noise.singular:
            return Truth(
                math.inf,
                "CM-07: the density is unbounded where b(w) = 0, at the minimiser, which moves",
                safe,
            )
        if isinstance(self.loss, Loss) and self.loss.name == "linear":
            return Truth(
                2 * self.kappa * noise.rate,
                "CM-07: linear losses +-kappa w shift b by 2 kappa, no Jacobian",
                safe,
            )
        return None

    def worst_pair(self) -> Pair:
        """Return the worst known neighboring pair: W5; for linear losses, the pair of slopes +kappa
        and -kappa.

        In W5 a record with the greatest curvature at w = 0 is replaced by a record at x = 0.
        """
        unit_record, zero = axis(self.dimension), axis(self.dimension, 0.0)
        if isinstance(self.loss, Loss) and self.loss.name == "linear":
            top = self.kappa / self.loss.scale
            return replaced(
                self.records,
                (unit_record, top),
                (unit_record, -top),
                "slope +kappa against -kappa",
                label=top,
            )
        label = 1.0 if isinstance(self.loss, Loss) and self.loss.binary else 0.0
        return replaced(
            self.records, (unit_record, label), (zero, label), "W5: Jacobian at w = 0", label=label
        )

    def sample(self, dataset: LabelledVectors, size: int, rng: Generator) -> FloatArray:
        """Return `size` independent outputs: (size, d).

        Raises ConvergenceError instead of returning an inexact row.
        """
        if isinstance(self.loss, Loss) and isinstance(self.penalty, QuadraticPenalty):
            return ObjectivePerturbation.sample(self, dataset, size, rng)
        data = self._data(dataset)
        return _newton(self, data, self._noise(data.dimension).sample(size, rng))

    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density at each row of `outputs`, (size,), wherever F is twice
        differentiable.

        It includes the Jacobian that the theorem omits.
        """
        if isinstance(self.loss, Loss) and isinstance(self.penalty, QuadraticPenalty):
            return ObjectivePerturbation.log_density(self, outputs, dataset)
        data = self._data(dataset)
        noise = self._noise(data.dimension)
        gradient, hessian = _expand(self, data, unrounded(outputs, data.dimension, self.grid))
        return np.asarray(noise.log_density(-gradient) + np.linalg.slogdet(hessian)[1])

    def _risk(self, dataset: LabelledVectors) -> tuple[Problem, SphericalNoise]:
        """Return the optimization problem and the noise, or raise NotEnclosed for user-defined
        functions.
        """
        data = self._data(dataset)
        if not isinstance(self.loss, Loss) or not isinstance(self.penalty, QuadraticPenalty):
            raise EnclosureUnavailable(
                f"{type(self).__name__}: balls are available for named losses with quadratic "
                "penalties only"
            )
        return Problem.of(data, self.loss, self.penalty.weight), self._noise(data.dimension)

    def _noise(self, dimension: int) -> SphericalNoise:
        """Return the noise law in this dimension."""
        return radial_noise(self.noise, self.epsilon / (2 * self.kappa), dimension)

    def _data(self, dataset: LabelledVectors) -> LabelledVectors:
        """Return the dataset after validation."""
        owner = type(self).__name__
        data = validated_dataset(
            dataset,
            owner,
            radius=1.0,
            clip=self.clip,
            binary=isinstance(self.loss, Loss) and self.loss.binary,
        )
        if isinstance(self.loss, Loss):
            lengths = np.sqrt((data.x**2).sum(axis=1))
            slopes = (
                np.array([self.loss.lipschitz(math.inf, abs(float(y))) for y in data.y])
                * np.where(lengths > 0, 1.0, 0.0)
                * np.minimum(lengths, 1.0)
            )
            if slopes.max() > self.kappa * (1 + 1e-12):
                i = int(slopes.argmax())
                raise InvalidArgument(
                    f"{owner}: kappa must bound the gradient of every record, "
                    f"{float(slopes[i])!r} in row {i}, got {self.kappa!r}"
                )
        return data


class _PredictionLossAdapter:
    """Adapter that makes a `Loss` a `RecordLoss`, for penalties that are not quadratic."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss

    def gradient(self, w: FloatArray, x: FloatArray, y: float, /) -> FloatArray:
        return self._loss.derivative(w @ x, y)[:, None] * x

    def hessian(self, w: FloatArray, x: FloatArray, y: float, /) -> FloatArray:
        return self._loss.second(w @ x, y)[:, None, None] * np.outer(x, x)


def _expand(
    mechanism: ConvexObjectivePerturbation, data: LabelledVectors, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the gradients and Hessians of F at the rows of w."""
    gradient = np.array(mechanism.penalty.gradient(w), dtype=np.float64)
    hessian = np.array(mechanism.penalty.hessian(w), dtype=np.float64)
    loss = (
        _PredictionLossAdapter(mechanism.loss)
        if isinstance(mechanism.loss, Loss)
        else mechanism.loss
    )
    for x, y, count in data.records():
        gradient += count * loss.gradient(w, x, y)
        hessian += count * loss.hessian(w, x, y)
    return gradient, hessian


def _newton(
    mechanism: ConvexObjectivePerturbation, data: LabelledVectors, b: FloatArray
) -> FloatArray:
    """Return argmin F(w) + <b, w> for each row of b.

    Each Newton step is halved until it decreases the norm of the gradient. Raises ConvergenceError
    if some row does not converge.
    """
    w = np.zeros_like(b)
    gradient, hessian = _expand(mechanism, data, w)
    goal = TOLERANCE * np.linalg.norm(b, axis=1) + 1e-14 * np.linalg.norm(gradient, axis=1)
    gradient += b
    size = np.linalg.norm(gradient, axis=1)
    for _ in range(500):
        active = np.flatnonzero(~(size <= goal))
        if not len(active):
            return rounded(w, mechanism.grid)
        direction = np.linalg.solve(hessian[active], gradient[active][:, :, None])[:, :, 0]
        step = np.ones(len(active))
        for _ in range(40):
            trial = w[active] - step[:, None] * direction
            new_gradient, new_hessian = _expand(mechanism, data, trial)
            new_gradient += b[active]
            new_size = np.linalg.norm(new_gradient, axis=1)
            accepted = new_size <= np.maximum((1 - 1e-4 * step) * size[active], goal[active])
            done = active[accepted]
            w[done], gradient[done], hessian[done], size[done] = (
                trial[accepted],
                new_gradient[accepted],
                new_hessian[accepted],
                new_size[accepted],
            )
            active, direction, step = active[~accepted], direction[~accepted], step[~accepted] / 2
            if not len(active):
                break
        else:
            break
    first = int(np.flatnonzero(~(size <= goal))[0])
    raise ConvergenceError(
        f"ConvexObjectivePerturbation: no convergence, first in row {first}, gradient norm "
        f"{size[first]:.3g}"
    )


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    linear, smooth = Loss("linear"), Loss("log-cosh", width=0.1)
    for noise in ("laplace_radius_std", "laplace_radius_scale", "gamma"):
        short = noise.replace("laplace_radius", "laplace").replace("_", "-")
        one = ConvexObjectivePerturbation(1.0, 1.0, linear, QuadraticPenalty(1.0), noise=noise)
        yield f"convex-linear-{short}-d1", with_worst_pair(one)
    printed = ConvexObjectivePerturbation(1.0, 1.0, linear, QuadraticPenalty(1.0), dimension=2)
    yield "convex-linear-laplace-std-d2", with_worst_pair(printed)
    curved = ConvexObjectivePerturbation(
        1.0, 1.0, smooth, QuadraticPenalty(0.1), noise="gamma", dimension=2
    )
    yield "convex-log-cosh-gamma-d2", with_worst_pair(curved)
