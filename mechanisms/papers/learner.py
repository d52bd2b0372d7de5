"""The regularized learner whose predictions the interactive mechanisms release, with its
sensitivities.

Jain and Thakurta (2013), equations (2) and (3): w* = argmin (1/n) sum l(<w, phi(x_i)>; y_i) +
(lambda/2) |w|^2. |w* - w*'| <= 2 L R/(lambda n) for datasets that differ in one record. Claims
JK-01 to JK-04.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpwitness.core import (
    ApproxDP,
    InvalidArgument,
    Kernel,
    LabelledBall,
    LabelledVectors,
    Loss,
    Pair,
)
from dpwitness.core.numerics.labelled_pairs import axis, replaced
from dpwitness.core.numerics.solvers import Problem, minimise, minimize_kernel_risk
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import require, require_type, short_repr
from dpwitness.mechanisms.papers.ridge import check_records

_LINEAR = Kernel()


@dataclass(frozen=True, slots=True)
class Predictor:
    """The fitted predictor w* = sum_i coefficients_i phi(centers_i).

    For the linear kernel there is a single center, w* itself.
    """

    kernel: Kernel
    centers: FloatArray
    coefficients: FloatArray

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the prediction <w*, phi(z)> for each row z."""
        return self.kernel(points, self.centers) @ self.coefficients


@dataclass(frozen=True, slots=True)
class KernelLearner:
    """Regularized empirical risk minimization with a kernel, on `records` labeled vectors.

    Parameters
    ----------
    loss : Loss
        A loss that is Lipschitz in the prediction: any except ``squared``.
    regularization : float
        lambda. Positive.
    dimension, records : int
        d and n, public.
    kernel : Kernel
        K(x, z) = <phi(x), phi(z)>.
    bound : float
        Bound on |x|_2 and |z|_2, which determines R = sup |phi(x)|.
    label_bound : float
        Largest |y|. Labels of the logistic and hinge losses are -1 and 1.
    equation : {2, 1}
        Equation of the paper that is minimized. Equation (1) prints (lambda/2) r(w) with r(w) =
        |w|^2/2, half the strong convexity that (3) needs, so that its sensitivity is twice the
        stated one (JK-02).

    Examples
    --------
    >>> KernelLearner(Loss("hinge"), 0.1, dimension=1, records=100).prediction_sensitivity
    0.2
    """

    loss: Loss
    regularization: float
    dimension: int
    records: int
    kernel: Kernel = _LINEAR
    bound: float = 1.0
    label_bound: float = 1.0
    equation: Literal[2, 1] = 2

    def __post_init__(self) -> None:
        require(self).positive("regularization", "bound", "label_bound").integer(
            "dimension", "records"
        ).one_of("equation", [2, 1])
        if not isinstance(self.loss, Loss) or not math.isfinite(
            self.loss.lipschitz(math.inf, self.label_bound)
        ):
            raise InvalidArgument(
                "KernelLearner: loss must be a Loss that is Lipschitz for every prediction, "
                f"got {short_repr(self.loss)}"
            )
        require_type("kernel", self.kernel, Kernel, "be a Kernel", "KernelLearner")

    @property
    def lipschitz(self) -> float:
        """Return the Lipschitz constant L of the loss."""
        return self.loss.lipschitz(math.inf, self.label_bound)

    @property
    def radius(self) -> float:
        """Return R, the largest |phi(x)| (R_phi in the paper)."""
        return self.kernel.radius(self.bound)

    @property
    def weight_sensitivity(self) -> float:
        """Return 2 L R/(lambda n), the bound (3) on |w* - w*'|; it holds for the
        minimizer of (2).
        """
        return 2 * self.lipschitz * self.radius / (self.regularization * self.records)

    @property
    def prediction_sensitivity(self) -> float:
        """Return S = 2 L R^2/(lambda n), the largest change of one prediction."""
        return self.weight_sensitivity * self.radius

    @property
    def domain(self) -> LabelledBall:
        labels = (-1.0, 1.0) if self.loss.binary else (-self.label_bound, 0.0, self.label_bound)
        return LabelledBall(self.dimension, self.records, labels, self.bound)

    def fit(self, dataset: LabelledVectors) -> Predictor:
        """Return the exact minimizer as a predictor.

        Raises ConvergenceError instead of returning an uncertified minimizer.
        """
        check_records(
            dataset, "KernelLearner", self.records, self.dimension, self.bound, self.label_bound
        )
        if self.loss.binary and not np.all(np.abs(dataset.y) == 1):
            raise InvalidArgument(
                f"KernelLearner: dataset must have labels -1 and 1 for {self.loss.name} loss"
            )
        ridge = self.records * self.regularization / (1 if self.equation == 2 else 2)
        if self.kernel.name == "linear":
            return Predictor(
                self.kernel, minimise(Problem.of(dataset, self.loss, ridge)).w[None, :], np.ones(1)
            )
        merged = dataset.merged()
        minimum = minimize_kernel_risk(
            self.kernel.gram(merged.x), merged.y, merged.weights, self.loss, ridge
        )
        return Predictor(self.kernel, merged.x, minimum.w)

    def check_points(self, points: object, owner: str, name: str) -> FloatArray:
        """Return `points` as a (T, d) array of test points in the ball; raise InvalidArgument if
        they are not.
        """
        try:
            rows = np.ascontiguousarray(points, dtype=np.float64)
        except Exception:  # `points` may be any object, whose conversion may raise anything
            raise InvalidArgument(
                f"{owner}: {name} must be a (T, d) array of numbers, got {short_repr(points)}"
            ) from None
        if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] != self.dimension:
            raise InvalidArgument(
                f"{owner}: {name} must have at least one row of length {self.dimension}, got "
                f"shape {rows.shape}"
            )
        longest = float(np.linalg.norm(rows, axis=1).max())
        if not longest <= self.bound * (1 + 1e-12):
            raise InvalidArgument(
                f"{owner}: {name} must have finite rows of norm at most {self.bound!r}, got "
                f"{longest!r}"
            )
        return rows

    def worst_pair(self, surplus: int = 1) -> Pair:
        """Return the worst known neighboring pair: W6, whose datasets differ in the sign of one
        label.

        `surplus` records are (R e1, largest label), and the rest lie at the origin. With the
        absolute loss and the linear kernel, w* = surplus L R e1/(lambda n) moves by exactly 2 L
        R/(lambda n) (JK-01), as long as predictions stay below the label. With the hinge loss the
        same holds as long as margins stay below one.
        """
        n = self.records
        if not (1 <= surplus <= n):
            raise InvalidArgument(
                f"KernelLearner.worst_pair: surplus must lie between 1 and {n}, got {surplus!r}"
            )
        label = 1.0 if self.loss.binary else self.label_bound
        position = axis(self.dimension, self.bound)
        why = "W6: one label turned over, |w* - w*'| as large as it gets"
        return replaced(
            n, (position, label), (position, -label), why, [(position, label, surplus - 1)], label
        )


@dataclass(frozen=True, slots=True, eq=False)
class LearnerMechanism:
    """Base class of the mechanisms that release predictions of a `KernelLearner` or weights fitted
    to them.
    """

    learner: KernelLearner
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        require(self).positive("epsilon").probability("delta")
        require_type(
            "learner", self.learner, KernelLearner, "be a KernelLearner", type(self).__name__
        )

    @property
    def claim(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta)

    @property
    def domain(self) -> LabelledBall:
        return self.learner.domain
