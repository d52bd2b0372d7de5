"""Logistic regression with output perturbation and with objective perturbation, and objective
perturbation of other convex problems.

Chaudhuri and Monteleoni (2008), Algorithms 1 and 2 and Theorem 3, with the printed noise in its two
readings and with the noise that the proofs need.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpwitness.core import InvalidArgument, LabelledBall, LabelledVectors, Loss, Pair, Truth
from dpwitness.core.numerics.noise import SphericalNoise
from dpwitness.core.numerics.solvers import Problem
from dpwitness.core.protocols import one_law
from dpwitness.core.values.validation import require, require_integer, require_type
from dpwitness.mechanisms.papers.erm import (
    LOGISTIC,
    ObjectivePerturbation,
    OutputPerturbation,
    axis,
    checked_records,
    largest_loss,
    logistic_shift,
    opposed_records_pair,
    replaced,
    unit_vector,
)
from dpwitness.mechanisms.textbook.zoo import PaperSpecimen, PureMechanism, with_worst_pair

NOISES = ("gamma", "laplace_radius_scale", "laplace_radius_std")


def radial_noise(noise: str, rate: float, dimension: int) -> SphericalNoise:
    """Return the noise law of Chaudhuri and Monteleoni (2008) for the printed parameter 1/rate.

    The printed number is read as a scale or, as the paper says, as the standard deviation of a
    Laplace law.
    """
    if noise == "gamma":
        return SphericalNoise("gamma", rate, dimension)
    return SphericalNoise(
        "laplace_radius",
        rate * (math.sqrt(2.0) if noise == "laplace_radius_std" else 1.0),
        dimension,
    )


@dataclass(frozen=True, slots=True)
class _Logistic(PureMechanism):
    """Shared fields, claim and domain of both logistic regression mechanisms."""

    regularization: float
    noise: str = "gamma"
    clip: bool = False
    grid: float = 0.0
    dimension: int = 2
    records: int = 1

    def __post_init__(self) -> None:
        require(self).positive("epsilon", "regularization").one_of("noise", NOISES).nonnegative(
            "grid"
        ).integer("dimension", "records")

    @property
    def domain(self) -> LabelledBall:
        """Return the domain: vectors in the unit ball with labels -1 and +1, neighbors by
        replacement of one record.
        """
        return LabelledBall(self.dimension, self.records)

    @abstractmethod
    def _budget(self, n: int) -> tuple[float, float]:
        """Return the rate of the noise, and n times the weight of |w|^2/2."""

    def _risk(self, dataset: LabelledVectors) -> tuple[Problem, SphericalNoise]:
        """Return the optimization problem and the noise for this dataset."""
        data = checked_records(
            dataset, type(self).__name__, radius=1.0, clip=self.clip, binary=True
        )
        rate, ridge = self._budget(data.n)
        return Problem.of(data, LOGISTIC, ridge), radial_noise(self.noise, rate, data.dimension)


@one_law
@dataclass(frozen=True, slots=True)
class LogisticOutputPerturbation(_Logistic, OutputPerturbation):
    """Logistic regression with output perturbation (Algorithm 1, sensitivity method).

    Releases the minimizer of lambda/2 |w|^2 + mean_i log(1 + exp(-y_i w.x_i)), plus noise.

    Parameters
    ----------
    epsilon : float
        Epsilon that the paper claims (Theorem 1). Positive, finite.
    regularization : float
        lambda. Positive.
    noise : {"gamma", "laplace_radius_scale", "laplace_radius_std"}
        Law of the length of the noise. The paper prints a Laplace length of standard deviation 2/(n
        epsilon lambda), whose density is unbounded at the minimizer in d >= 2 (claim CM-05). The
        same holds if the printed number is read as a scale. ``gamma`` is the law with density
        proportional to exp(-n epsilon lambda |b|/2).
    clip : bool
        If true, the mechanism scales records of norm above 1 to norm 1; otherwise such records are
        refused.
    grid : float
        Outputs are rounded to multiples of this number; 0 for no rounding. Without rounding, the
        low bits of the output reveal the minimizer.
    dimension, records : int
        d and n for `domain`, `worst_pair` and `truth`. The mechanism itself runs on datasets of any
        size.
    """

    @property
    def truth(self) -> Truth:
        """Return the true privacy loss (claim CM-05).

        The loss is infinite for the printed noise in d >= 2; otherwise the loss is the rate times
        the largest shift of the minimizer over all n and lambda.
        """
        safe = self.grid > 0
        noise = radial_noise(self.noise, 1.0, self.dimension)
        if noise.singular:
            return Truth(
                math.inf, "CM-05: the density is unbounded at the minimiser, which moves", safe
            )
        if self.dimension > 1:
            return Truth(
                self.epsilon,
                "CM-04: the sensitivity 2/(n lambda) is approached as lambda -> 0 and n "
                "lambda -> infinity",
                safe,
            )
        return Truth(
            noise.rate * logistic_shift() * self.epsilon,
            "CM-04 in d = 1: supremum over n, lambda of the shift",
            safe,
        )

    def worst_pair(self) -> Pair:
        """Return the worst known neighboring pair: W2, or W1 if d = 1 or n is too small.

        In W2 common records fix the minimizer at (W, 0), where the replaced record has a slope of
        nearly 1 in both directions.
        """
        # K copies of (t, 0) with t = 1.278/W balance the ridge term n lambda W: K = 3.59 n lambda
        # W^2. W is as large as n - 1 records allow.
        n_lambda = self.records * self.regularization
        position = math.sqrt((self.records - 1) / (3.6 * n_lambda)) if self.records > 1 else 0.0
        if self.dimension == 1 or position < 2.0:
            return replaced(
                self.records,
                (axis(self.dimension), 1.0),
                (-axis(self.dimension), 1.0),
                "W1: e1 against -e1",
            )
        margins = np.linspace(0.0, position, 4001)
        k = float(
            margins[np.argmax(np.sqrt(1 - (margins / position) ** 2) / (1 + np.exp(-margins)))]
        )
        t = 1.278 / position
        copies = min(
            self.records - 1, max(1, round(n_lambda * position * (1 + math.exp(1.278)) / t))
        )
        first, second = (unit_vector(self.dimension, -k / position, side) for side in (1.0, -1.0))
        return replaced(
            self.records,
            (first, 1.0),
            (second, 1.0),
            "W2",
            [(axis(self.dimension, t), 1.0, copies)],
        )

    def _budget(self, n: int) -> tuple[float, float]:
        n_lambda = n * self.regularization
        return n_lambda * self.epsilon / 2, n_lambda


@one_law
@dataclass(frozen=True, slots=True)
class LogisticObjectivePerturbation(_Logistic, ObjectivePerturbation):
    """Logistic regression with objective perturbation (Algorithm 2, new method).

    Releases argmin_w lambda/2 |w|^2 + b.w/n + mean_i log(1 + exp(-y_i w.x_i)).

    Parameters
    ----------
    epsilon : float
        Epsilon that the paper claims (Theorem 2). Positive, finite.
    regularization : float
        lambda. Positive.
    noise : {"gamma", "laplace_radius_scale", "laplace_radius_std"}
        Law of |b|. The paper prints a Laplace length of standard deviation 2/epsilon, which is not
        private at any epsilon in d >= 2 (CM-06). ``gamma`` has density proportional to exp(-epsilon
        |b|/2); in d >= 2 the claim then holds if and only if n lambda >= 2/epsilon.
    corrected : bool
        If true, part of epsilon is spent on the Jacobian (Chaudhuri, Monteleoni and Sarwate 2011):
        epsilon' = epsilon - log(1 + 2c/(n lambda) + c^2/(n lambda)^2) with c = 1/4. If this is not
        positive, the ridge is c/(n (e^(epsilon/4) - 1)) and epsilon' = epsilon/2.
    clip, grid, dimension, records
        As for `LogisticOutputPerturbation`.
    """

    corrected: bool = False

    @property
    def truth(self) -> Truth | None:
        """Return the true privacy loss (claim CM-06), or None in d = 1, where it is unknown.

        The loss is infinite for the printed noise in d >= 2. For ``gamma`` it is the exact supremum
        over all n at this n lambda.
        """
        safe = self.grid > 0
        if radial_noise(self.noise, 1.0, self.dimension).singular:
            return Truth(
                math.inf,
                "CM-06: the density is unbounded where b(w) = 0, at the minimiser, which moves",
                safe,
            )
        if self.dimension == 1:
            return None
        rate, ridge = self._budget(self.records)
        value, _ = largest_loss(LOGISTIC, rate, 1.0, ridge, 1.0)
        return Truth(
            value,
            "CM-06: max over s of rate (1 + s) + log(1 + s (1 - s)/(n lambda)), over n at "
            "this n lambda",
            safe,
        )

    def worst_pair(self) -> Pair:
        """Return the worst known neighboring pair: W4, or W3 if `opposed_records_pair` has too few
        records for W4.
        """
        rate, ridge = self._budget(self.records)
        return opposed_records_pair(self.records, self.dimension, rate, ridge)

    def _budget(self, n: int) -> tuple[float, float]:
        n_lambda = n * self.regularization
        if not self.corrected:
            return self.epsilon / 2, n_lambda
        remaining = self.epsilon - 2 * math.log1p(0.25 / n_lambda)
        if remaining > 0:
            return remaining / 2, n_lambda
        return self.epsilon / 4, max(n_lambda, 0.25 / math.expm1(self.epsilon / 4))


@dataclass(frozen=True, slots=True)
class QuadraticPenalty:
    """The penalty G(w) = weight |w|^2 / 2."""

    weight: float

    def __post_init__(self) -> None:
        require(self).positive("weight")


@one_law
@dataclass(frozen=True, slots=True)
class ConvexObjectivePerturbation(ObjectivePerturbation, PureMechanism):
    """Objective perturbation of a convex problem (Theorem 3).

    The noise is b = B u with u uniform on the sphere and B Laplace of standard deviation 2
    kappa/epsilon. Releases argmin F(w) + <b, w>.

    Parameters
    ----------
    epsilon : float
        Epsilon that the paper claims. Positive, finite.
    kappa : float
        Bound on |grad_w l|. Positive. The bound is checked for the loss and for every record.
    loss : Loss
        l, a function of <w, x> and y. Must be smooth.
    penalty : QuadraticPenalty
        G, not divided by n.
    noise : {"gamma", "laplace_radius_scale", "laplace_radius_std"}
        Law of b. The theorem prints the last one, which is not private at any epsilon in d >= 2
        (claim CM-07). No law is private without a bound on l''.
    clip, grid, dimension, records
        As for `LogisticOutputPerturbation`.
    """

    kappa: float
    loss: Loss
    penalty: QuadraticPenalty
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
        require_type("loss", self.loss, Loss, "be a Loss", owner)
        require_type("penalty", self.penalty, QuadraticPenalty, "be a QuadraticPenalty", owner)
        if not self.loss.smooth:
            raise InvalidArgument(f"{owner}: loss must be differentiable, got {self.loss.name!r}")
        steepest = self.loss.lipschitz(math.inf, 0.0)
        if steepest > self.kappa * (1 + 1e-12):
            raise InvalidArgument(
                f"{owner}: kappa must bound the slope of the loss, {steepest!r} for "
                f"{self.loss.name}, got {self.kappa!r}"
            )

    @property
    def domain(self) -> LabelledBall:
        """Return the domain: vectors in the unit ball, neighbors by replacement of one record."""
        label_range = self.kappa / self.loss.scale if self.loss.name == "linear" else 1.0
        return LabelledBall(self.dimension, self.records, (-label_range, label_range))

    @property
    def truth(self) -> Truth | None:
        """Return the true privacy loss (claim CM-07), or None if it is unknown.

        The loss is infinite for the printed noise in d >= 2, and that of a shift of b for linear
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
        if self.loss.name == "linear":
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
        if self.loss.name == "linear":
            top = self.kappa / self.loss.scale
            return replaced(
                self.records,
                (unit_record, top),
                (unit_record, -top),
                "slope +kappa against -kappa",
                label=top,
            )
        label = 1.0 if self.loss.binary else 0.0
        return replaced(
            self.records, (unit_record, label), (zero, label), "W5: Jacobian at w = 0", label=label
        )

    def _risk(self, dataset: LabelledVectors) -> tuple[Problem, SphericalNoise]:
        """Return the optimization problem and the noise."""
        data = self._data(dataset)
        return Problem.of(data, self.loss, self.penalty.weight), self._noise(data.dimension)

    def _noise(self, dimension: int) -> SphericalNoise:
        """Return the noise law in this dimension."""
        return radial_noise(self.noise, self.epsilon / (2 * self.kappa), dimension)

    def _data(self, dataset: LabelledVectors) -> LabelledVectors:
        """Return the dataset after validation."""
        owner = type(self).__name__
        data = checked_records(dataset, owner, radius=1.0, clip=self.clip, binary=self.loss.binary)
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


def hypercube(n: int, dimension: int, gamma: float, rng: np.random.Generator) -> LabelledVectors:
    """Return n records of the distribution D_d(gamma) of CM08 section 3.1. Raise InvalidArgument
    unless gamma is in (0, 1).

    From a random corner of {-1, 1}^d, x_1 is multiplied by gamma and the other coordinates by
    sqrt((1 - gamma^2)/(d - 1)). The label is sign(x_1). Every record has norm 1 (claim CM-10).
    """
    count, d = require_integer("n", n), require_integer("dimension", dimension, least=2)
    if not 0 < gamma < 1:
        raise InvalidArgument(f"hypercube: gamma must lie in (0, 1), got {gamma!r}")
    corner = rng.choice([-1.0, 1.0], (count, d))
    scale = np.full(d, np.sqrt((1 - gamma * gamma) / (d - 1)))
    scale[0] = gamma
    return LabelledVectors(corner * scale, corner[:, 0])


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    short = {"laplace_radius_std": "laplace-std", "laplace_radius_scale": "laplace-scale"}
    unit = QuadraticPenalty(1.0)
    for noise in (*short, "gamma"):
        name = short.get(noise, noise)
        linear = ConvexObjectivePerturbation(1.0, 1.0, Loss("linear"), unit, noise=noise)
        yield f"convex-linear-{name}-d1", with_worst_pair(linear)
        for d in (1, 2):
            output = LogisticOutputPerturbation(1.0, 0.1, noise=noise, dimension=d, records=100)
            objective = LogisticObjectivePerturbation(1.0, 0.1, noise=noise, dimension=d)
            yield f"logistic-output-{name}-d{d}", with_worst_pair(output)
            yield (
                f"logistic-objective-{name}-d{d}",
                with_worst_pair(objective, settled=noise != "gamma"),
            )
    clipped = LogisticOutputPerturbation(1.0, 0.1, clip=True, records=2)
    inside, outside = (
        LabelledVectors([[0.5, 0.0], [coordinate, 0.0]], [1.0, -1.0]) for coordinate in (-1.0, 30.0)
    )
    yield (
        "logistic-output-clipped",
        PaperSpecimen(clipped, (Pair(inside, outside, "replace-one", "a record of norm 30"),)),
    )
    for name, mechanism in {
        "convex-linear-laplace-std-d2": ConvexObjectivePerturbation(
            1.0, 1.0, Loss("linear"), unit, dimension=2
        ),
        "convex-log-cosh-gamma-d2": ConvexObjectivePerturbation(
            1.0, 1.0, Loss("log-cosh", width=0.1), QuadraticPenalty(0.1), noise="gamma", dimension=2
        ),
        "logistic-objective-corrected": LogisticObjectivePerturbation(1.0, 0.1, corrected=True),
    }.items():
        yield name, with_worst_pair(mechanism)
