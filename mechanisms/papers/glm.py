"""Generalized linear models with output perturbation and with objective perturbation.

Their risk bounds do not depend on the dimension. Jain and Thakurta (2014), equations (3) and (4),
with the printed noise and with the noise and ridge under which the claim holds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.core import (
    ApproxDP,
    InvalidArgument,
    LabelledBall,
    LabelledVectors,
    Loss,
    Pair,
    PureDP,
    Truth,
)
from dpwitness.core.numerics.noise import SphericalNoise
from dpwitness.core.numerics.solvers import Problem
from dpwitness.core.protocols import one_law
from dpwitness.core.values.validation import require, require_positive, require_type, short_repr
from dpwitness.mechanisms.papers.erm import (
    ObjectivePerturbation,
    OutputPerturbation,
    axis,
    checked_records,
    far_response,
    largest_loss,
    logistic_shift,
    opposed_records_pair,
    replaced,
    zero_record_pair,
)
from dpwitness.mechanisms.textbook.additive import epsilon_of_shift
from dpwitness.mechanisms.textbook.zoo import PaperSpecimen, with_worst_pair


@dataclass(frozen=True, slots=True, kw_only=True)
class _GLM(ABC):
    """The setting of the paper: minimize (1/n) sum_i l(<theta, x_i>; y_i) + lambda |theta|^2 /
    (2n).

    Multiplied by n, the objective has ridge lambda.
    """

    loss: Loss  # l, convex and `lipschitz`-Lipschitz in its first argument
    epsilon: float  # positive, finite
    delta: float = 0.0  # in (0, 1) for ``gaussian`` noise; 0 for other noise
    lipschitz: float = 1.0  # L, bound on |l'|; positive
    radius: float = 1.0  # R, bound on |x|_2; positive
    regularization: float | None = None  # lambda. Positive.
    noise: str = "gamma"  # law of b
    # as for `LogisticOutputPerturbation`, with records of norm at most R. The paper calls the
    # dimension p.
    clip: bool = False
    grid: float = 0.0
    dimension: int = 2
    records: int = 1

    def _check(self, noises: tuple[str, ...]) -> None:
        """Validate the fields; `noises` lists the allowed noise laws."""
        require(self).positive("epsilon", "lipschitz", "radius").one_of(
            "noise", noises
        ).nonnegative("grid").integer("dimension", "records")
        owner = type(self).__name__
        if self.noise == "gaussian":
            require(self).probability("delta")
        elif not isinstance(self.delta, int | float) or self.delta != 0:
            raise InvalidArgument(
                f"{owner}: delta must be 0 for {self.noise} noise, got {short_repr(self.delta)}"
            )
        require_type("loss", self.loss, Loss, "be a Loss", owner)
        # Bounds that depend on the labels are checked record by record, in `_data`.
        steepest = self.loss.lipschitz(math.inf, 0.0)
        if steepest > self.lipschitz * (1 + 1e-12):
            raise InvalidArgument(
                f"{owner}: loss must be {self.lipschitz!r}-Lipschitz, got {self.loss.name} "
                f"with constant {steepest!r}"
            )

    @property
    def claim(self) -> ApproxDP:
        """Return the claim of Theorems 1 and 2: (epsilon, delta)-DP with Gaussian noise, epsilon-DP
        with Gamma noise.
        """
        return (
            ApproxDP(self.epsilon, self.delta) if self.noise == "gaussian" else PureDP(self.epsilon)
        )

    @property
    def domain(self) -> LabelledBall:
        """Return the domain: vectors in the ball of radius R, neighbors by replacement of one
        record.

        The labels include values at which the loss is steepest.
        """
        return LabelledBall(self.dimension, self.records, self._labels(), self.radius)

    def _labels(self) -> tuple[float, ...]:
        """Return the labels of the domain."""
        if self.loss.binary:
            return (-1.0, 1.0)
        if self.loss.name == "linear":
            return (-self.lipschitz / self.loss.scale, self.lipschitz / self.loss.scale)
        return (-10.0, -1.0, 0.0, 1.0, 10.0)

    def _data(self, dataset: LabelledVectors) -> LabelledVectors:
        """Return the dataset after validation."""
        owner = type(self).__name__
        data = checked_records(
            dataset, owner, radius=self.radius, clip=self.clip, binary=self.loss.binary
        )
        if self.loss.name == "linear":
            slopes = self.loss.scale * np.abs(data.y)
            if slopes.max() > self.lipschitz * (1 + 1e-12):
                i = int(slopes.argmax())
                raise InvalidArgument(
                    f"{owner}: |y| must be at most lipschitz / scale for the linear loss, "
                    f"got {float(data.y[i])!r} in row {i}"
                )
        return data

    @property
    @abstractmethod
    def _ridge(self) -> float:
        """Return lambda."""

    @abstractmethod
    def _noise(self, dimension: int) -> SphericalNoise:
        """Return the noise law in this dimension."""

    def _risk(self, dataset: LabelledVectors) -> tuple[Problem, SphericalNoise]:
        """Return the optimization problem and the noise for this dataset."""
        data = self._data(dataset)
        return Problem.of(data, self.loss, self._ridge), self._noise(data.dimension)

    def _pair(self, first: float, second: float, why: str, flip: bool = False) -> Pair:
        """Return the pair of R e1 with two responses (if `flip`, R e1 and -R e1), padded to n
        records with x = 0.
        """
        x = axis(self.dimension, self.radius)
        return replaced(
            self.records, (x, first), (-x if flip else x, second), why, label=self._labels()[-1]
        )


@one_law
@dataclass(frozen=True, slots=True, kw_only=True)
class GLMOutputPerturbation(_GLM, OutputPerturbation):
    """Generalized linear model with output perturbation, theta_hat + b (equation (3)).

    The fields are those of every model in this file. `noise` is ``gamma``, ``laplace_radius`` or
    ``gaussian``; `regularization` must be given. ``gamma`` has density proportional to exp(-epsilon
    lambda |b| / (4 L R)). ``laplace_radius`` is the same law for |b| with shape 1, a possible
    reading of the paper, which omits the shape; it is singular in p >= 2 (claim JT-02).
    ``gaussian`` is N(0, 16 (L R)^2 (log(1/delta) + epsilon) / (lambda epsilon)^2 I).
    """

    def __post_init__(self) -> None:
        self._check(("gamma", "laplace_radius", "gaussian"))
        require(self).positive("regularization")

    @property
    def truth(self) -> Truth:
        """Return the true privacy loss (claims JT-02, JT-03): the sensitivity 2LR/lambda times the
        rate of the noise.

        The sensitivity is attained by slopes of both signs.
        """
        safe = self.grid > 0
        steepest = self.lipschitz if self.loss.name == "linear" else self.loss.lipschitz()
        shift = 2 * steepest * self.radius / self._ridge
        if self.loss.name == "logistic" and self.dimension == 1:
            shift *= logistic_shift()
        noise = self._noise(self.dimension)
        if noise.singular:
            return Truth(
                math.inf, "JT-02: the density is unbounded at the minimiser, which moves", safe
            )
        if self.noise == "gaussian":
            return Truth(
                epsilon_of_shift(shift * noise.rate, self.delta, 0),
                "JT-03: the largest shift in Gaussian noise, at the claim's delta",
                safe,
            )
        return Truth(
            shift * noise.rate, "JT-02: rate x largest shift of the minimiser, over all n", safe
        )

    def worst_pair(self) -> Pair:
        """Return the worst known neighboring pair: W14 (linear loss) or W6 (other losses).

        Both consist of two records whose slopes oppose each other.
        """
        if self.loss.binary:
            return self._pair(1.0, 1.0, "W6: x against -x", flip=True)
        far_label = 10.0 * (1 + self.loss.width + self.lipschitz * self.radius**2 / self._ridge)
        top = self._labels()[-1] if self.loss.name == "linear" else far_label
        return self._pair(
            top,
            -top,
            "W14: slope +L against -L"
            if self.loss.name == "linear"
            else "W6: far responses of both signs",
        )

    @property
    def _ridge(self) -> float:
        """Return lambda; raise InvalidArgument if it is missing."""
        return require_positive("regularization", self.regularization, type(self).__name__)

    def _noise(self, dimension: int) -> SphericalNoise:
        rate = self.epsilon * self._ridge / (4 * self.lipschitz * self.radius)
        if self.noise == "gaussian":
            return SphericalNoise(
                "gaussian", rate / math.sqrt(math.log(1 / self.delta) + self.epsilon), dimension
            )
        return SphericalNoise(self.noise, rate, dimension)


@one_law
@dataclass(frozen=True, slots=True, kw_only=True)
class GLMObjectivePerturbation(_GLM, ObjectivePerturbation):
    """Generalized linear model with objective perturbation (equation (4)).

    Releases the argmin of the regularized risk plus <b, theta>/n. The other fields are those of
    every model in this file. `noise` is ``gamma``, density proportional to exp(-epsilon |b| / (2 L
    R)), or ``gaussian``, N(0, 4 (L R)^2 (log(1/delta) + epsilon) / epsilon^2 I). `regularization`
    defaults to the paper's 2 c_2 R^2 / epsilon with |l''| <= c_2. The value must be given for the
    linear loss, for which the default is 0.

    Parameters
    ----------
    repaired : bool
        If true, the mechanism satisfies its claim: half the rate for ``gamma`` (claim JT-06),
        variance (2LR)^2 (8 log(2/delta) + 4 epsilon)/epsilon^2 for ``gaussian`` (JT-07), and a
        ridge below 2 c_2 R^2 / epsilon is an error. As printed, neither claim holds.
    """

    repaired: bool = False

    def __post_init__(self) -> None:
        self._check(("gamma", "gaussian"))
        if not self.loss.smooth:
            raise InvalidArgument(
                f"{type(self).__name__}: loss must be differentiable, got {self.loss.name!r}"
            )
        require(self).one_of("repaired", [False, True])
        least = 2 * self.loss.smoothness * self.radius * self.radius / self.epsilon
        if not math.isfinite(least):
            raise InvalidArgument(
                f"{type(self).__name__}: radius must have a finite square, also over "
                f"epsilon, got {self.radius!r}"
            )
        if self.regularization is not None:
            require(self).positive("regularization")
            if self.repaired and self.regularization < least * (1 - 1e-12):
                raise InvalidArgument(
                    f"{type(self).__name__}: regularization must be at least 2 c_2 "
                    f"R^2/epsilon = {least!r} when repaired, got {self.regularization!r}"
                )
        elif least == 0:
            raise InvalidArgument(
                f"{type(self).__name__}: regularization must be given for the linear loss, got None"
            )

    @property
    def truth(self) -> Truth | None:
        """Return the true privacy loss, or None if it is unknown.

        Gamma noise: claim JT-06. Gaussian noise: the linear loss only, for which the output is a
        Gaussian shift (JT-07).
        """
        safe = self.grid > 0
        noise = self._noise(self.dimension)
        if self.noise == "gaussian":
            if self.loss.name != "linear":
                return None
            return Truth(
                epsilon_of_shift(2 * self.lipschitz * self.radius * noise.rate, self.delta, 0),
                "JT-07: linear loss, a Gaussian shift of 2LR, at the claim's delta",
                safe,
            )
        if self.loss.binary and self.dimension == 1:
            return None
        if self.loss.name == "linear":
            return Truth(
                2 * self.lipschitz * self.radius * noise.rate,
                "JT-06: linear loss, no Jacobian",
                safe,
            )
        value, _ = largest_loss(
            self.loss, noise.rate, self.radius, self._ridge, self._largest_slope
        )
        return Truth(
            value,
            "JT-06: sup over r of rate R (|l'(r)| + L) + log(1 + R^2 l''(r)/lambda), over "
            "all n and responses",
            safe,
        )

    def worst_pair(self) -> Pair:
        """Return the worst known pair for this loss and noise.

        W15 (Gamma noise): at theta = epsilon e1, a response where l' and l'' are both large, and a
        response that pulls in the opposite direction. W16 (Gaussian noise): the response that costs
        the most delta; for the linear loss, slopes of both signs. Logistic loss: W3, a record and x
        = 0; in Gamma noise with enough records (about 1e5) W4, two records that oppose each other.
        """
        rate = self._noise(self.dimension).rate
        if self.loss.binary:
            if self.noise == "gaussian":
                return zero_record_pair(self.records, self.dimension, self.radius)
            unit = self.loss.scale * self.radius
            return opposed_records_pair(
                self.records,
                self.dimension,
                rate * unit,
                self._ridge / (unit * self.radius),
                self.radius,
            )
        if self.loss.name == "linear":
            return self._pair(self._labels()[-1], self._labels()[0], "W16: slope +L against -L")
        if self.noise == "gaussian":
            y = far_response(self.loss, 1 / rate, self._ridge, self.epsilon, self.radius)[1]
            return self._pair(
                y,
                y - 100 * (self.loss.width + self.radius / (rate * self._ridge)),
                "W16: a far response against slope L",
            )
        r = abs(largest_loss(self.loss, rate, self.radius, self._ridge, self._largest_slope)[1])
        # just inside the curved part of the Huber loss
        r = min(r, 20.0 * self.loss.width) * (1 - 1e-9)
        u = self.epsilon * self.radius
        return self._pair(u + r, u - 20 * self.loss.width, f"W15: at theta = {self.epsilon:g} e1")

    @property
    def _largest_slope(self) -> float:
        """Return the largest slope of the loss."""
        return self.lipschitz if self.loss.name == "linear" else self.loss.lipschitz()

    @property
    def _ridge(self) -> float:
        """Return lambda, or its default 2 c_2 R^2 / epsilon."""
        if self.regularization is not None:
            return self.regularization
        return 2 * self.loss.smoothness * self.radius**2 / self.epsilon

    def _noise(self, dimension: int) -> SphericalNoise:
        rate = self.epsilon / (2 * self.lipschitz * self.radius)
        if self.noise == "gamma":
            return SphericalNoise("gamma", rate / 2 if self.repaired else rate, dimension)
        if self.repaired:
            return SphericalNoise(
                "gaussian",
                rate / math.sqrt(8 * math.log(2 / self.delta) + 4 * self.epsilon),
                dimension,
            )
        return SphericalNoise(
            "gaussian", rate / math.sqrt(math.log(1 / self.delta) + self.epsilon), dimension
        )


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    linear: dict[str, Any] = {"epsilon": 1.0, "regularization": 1.0, "loss": Loss("linear")}
    gaussian = linear | {"noise": "gaussian", "delta": 1e-3}
    for name, fields in {
        "gamma": linear,
        "laplace": linear | {"noise": "laplace_radius"},
        "gaussian": gaussian,
        "logistic": linear | {"loss": Loss("logistic")},
    }.items():
        yield f"glm-output-{name}", with_worst_pair(GLMOutputPerturbation(**fields))
    for repaired in (False, True):
        # Enough records for the many common records of W4; their number does not matter for the
        # Huber loss.
        for name, fields in {
            "logistic-gamma": {"epsilon": 1.0, "loss": Loss("logistic"), "records": 10**6},
            "huber-gamma": {"epsilon": 1.0, "loss": Loss("huber")},
            "linear-gamma": linear,
            "linear-gaussian": gaussian,
        }.items():
            yield (
                f"glm-objective-{name}-{'repaired' if repaired else 'printed'}",
                with_worst_pair(
                    GLMObjectivePerturbation(**fields, repaired=repaired),
                    settled=repaired or name.startswith("linear"),
                ),
            )
