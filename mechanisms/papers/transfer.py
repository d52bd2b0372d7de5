"""Learning from private predictions at public test points that are known beforehand.

Jain and Thakurta (2013), Algorithm 2 (TDDL): b_t ~ Laplace(nu), what = argmin over C of (1/T) sum (<w - w*, phi(z_t)> - b_t)^2, with
nu = c L R^2 sqrt(T log(1/delta)) / (lambda n epsilon). Claims JK-10 to JK-13.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpwitness.mechanisms.numerics.jit import jit
from dpwitness.mechanisms.numerics.laws import laplace_draws, laplace_log_density
from dpwitness.mechanisms.papers.erm import rounded
from dpwitness.mechanisms.papers.learner import LearnerMechanism
from dpwitness.mechanisms.papers.ridge import constrained_solution
from dpwitness.mechanisms.terms.datasets import LabelledVectors
from dpwitness.mechanisms.terms.optional import offered_when
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.powers import one_law
from dpwitness.mechanisms.terms.protocol import FloatArray, Truth
from dpwitness.mechanisms.terms.validation import require, require_positive
from dpwitness.mechanisms.textbook.additive import Laplace
from dpwitness.mechanisms.textbook.categorical import output_rows

_CHUNK = 1024  # rows whose noisy answers are held at once when only weights are released


@one_law
@dataclass(frozen=True, slots=True, eq=False)
class TestDataDependentLearner(LearnerMechanism):
    """Noisy predictions of w* at T public points, and the weights fitted to them.

    Parameters
    ----------
    learner : KernelLearner
        l, lambda, n, the kernel and its R.
    epsilon, delta : float
        The paper's promise.
    test_points : (T, d) array
        z_1, ..., z_T, public.
    constant : float
        c. The paper prints nu up to a constant; 4 is safe for epsilon <= 5, 1 is not from T = 10 on (JK-10).
    norm_bound : float, optional
        Radius of the ball C. Without it C is the whole space, and what is the solution of least norm.
    release : {"answers", "weights"}
        The T noisy predictions, of which what is a function; or what: d numbers for the linear kernel, otherwise the coefficients
        a of what = sum_t a_t phi(z_t). The low bits of either leak, as those of all unrounded floating-point noise do.

    Examples
    --------
    >>> from dpwitness.mechanisms.papers.learner import KernelLearner
    >>> from dpwitness.mechanisms.numerics.losses import Loss
    >>> learner = KernelLearner(Loss("absolute"), 0.1, dimension=1, records=1000)
    >>> round(TestDataDependentLearner(learner, 1.0, 1e-3, [[1.0]], constant=1.0).noise_scale, 6)
    0.026283
    """

    test_points: FloatArray
    constant: float = 4.0
    norm_bound: float | None = None
    release: Literal["answers", "weights"] = "answers"
    grid: float = 0.0

    __test__: ClassVar[bool] = False  # not a test class, whatever its name begins with

    def __post_init__(self) -> None:
        LearnerMechanism.__post_init__(self)
        require(self).positive("constant").nonnegative("grid").one_of("release", ["answers", "weights"])
        points = self.learner.check_points(self.test_points, "TestDataDependentLearner", "test_points")
        object.__setattr__(self, "test_points", points)
        if self.norm_bound is not None:
            require_positive("norm_bound", self.norm_bound, "TestDataDependentLearner")

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.test_points)

    @property
    def noise_scale(self) -> float:
        """nu. With S = 2 L R^2/(lambda n) it is (c/2) S sqrt(T log(1/delta)) / epsilon."""
        return self.constant / 2 * self.learner.prediction_sensitivity * math.sqrt(self.rounds * math.log(1 / self.delta)) / self.epsilon

    @property
    def answer_loss(self) -> float:
        """S/nu: the most that one answer can lose."""
        return self.learner.prediction_sensitivity / self.noise_scale

    @property
    def truth(self) -> Truth | None:
        """For one answer, a loss that attains the sensitivity, and its linear kernel: epsilon = e + 2 log(1 - delta), e = |z| S/(R nu)."""
        it = self.learner
        if self.rounds > 1 or self.release != "answers" or it.kernel.name != "linear" or it.loss.name not in ("hinge", "absolute"):
            return None
        reach = float(np.linalg.norm(self.test_points[0])) / it.radius
        tight = "JK-03, attained where n lambda >= 1; exact profile of one Laplace answer"
        return Truth(max(0.0, reach * self.answer_loss + 2 * math.log1p(-self.delta)), tight, bits_safe=self.grid > 0)

    def worst_pair(self) -> Pair:
        """W6/W9: w* moves along e1. Test points all equal to e1 make every answer lose the most."""
        return self.learner.worst_pair()

    def sample(self, dataset: LabelledVectors, size: int, rng: np.random.Generator) -> FloatArray:
        """(size, T) answers, or (size, d) weights, or (size, T) coefficients for a kernel other than the linear one."""
        answers = laplace_draws(self.learner.fit(dataset)(self.test_points), self.noise_scale)
        if self.release == "answers":
            return rounded(answers.sample(size, rng), self.grid)
        left, singular, right = self._decomposition()
        out = np.empty((size, right.shape[1]))
        for start in range(0, size, _CHUNK):
            rows = out[start : start + _CHUNK]
            rows[:] = self._fit(rounded(answers.sample(len(rows), rng), self.grid), left, singular, right)
        return out

    def weights(self, answers: FloatArray) -> FloatArray:
        """What as a function of the noisy answers: what `release="weights"` would have released."""
        rows = output_rows(answers, self.rounds, "TestDataDependentLearner")
        return self._fit(rows, *self._decomposition())

    @offered_when(lambda self: self.grid == 0 and (self.release == "answers" or (self.norm_bound is None and self.independent)))
    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Exact: the product of the Laplace densities of the answers.

        For weights it is offered where they determine the answers, which is for linearly independent phi(z_t) and no constraint: a
        change of variables, with respect to volume in the span of the phi(z_t); minus infinity off that span.
        """
        truths = self.learner.fit(dataset)(self.test_points)
        if self.release == "answers":
            answers = output_rows(outputs, self.rounds, "TestDataDependentLearner")
            return np.asarray(laplace_log_density(answers - truths, self.noise_scale).sum(axis=1))
        left, singular, right = self._decomposition()
        rows = output_rows(outputs, right.shape[1], "TestDataDependentLearner")
        if self.learner.kernel.name == "linear":
            within = rows @ right.T
            off = np.abs(within @ right - rows).max(axis=1) > 1e-9 * (1 + np.abs(rows).max(axis=1))
            logs = laplace_log_density((within * singular) @ left.T - truths, self.noise_scale).sum(axis=1) + np.log(singular).sum()
            return np.where(off, -np.inf, logs)
        answers = ((rows @ left) * singular**2) @ left.T
        return np.asarray(laplace_log_density(answers - truths, self.noise_scale).sum(axis=1) + 2 * np.log(singular).sum())

    @offered_when(lambda self: self.release == "answers" and self.grid == 0)
    def factors(self, d0: LabelledVectors, d1: LabelledVectors) -> list[tuple[Laplace, FloatArray, FloatArray]]:
        """The T independent answers, each a Laplace mechanism around w*'s prediction."""
        noise = Laplace(epsilon=1 / self.noise_scale)
        first, second = (self.learner.fit(d)(self.test_points) for d in (d0, d1))
        return [(noise, a[None], b[None]) for a, b in zip(first, second, strict=True)]

    @property
    def independent(self) -> bool:
        """Whether the phi(z_t) are linearly independent."""
        return len(self._decomposition()[1]) == self.rounds

    def _decomposition(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """U, s and the map to outputs of the matrix Phi with rows phi(z_t) = U s V^T, rank many columns.

        Outputs are coordinates (in the basis V) times V^T for the linear kernel; otherwise times (U/s)^T, as V^T = s^-1 U^T Phi.
        """
        if self.learner.kernel.name == "linear":
            left, singular, right = np.linalg.svd(self.test_points, full_matrices=False)
            kept = singular > singular.max(initial=0.0) * 1e-12
            return np.ascontiguousarray(left[:, kept]), singular[kept], np.ascontiguousarray(right[kept])
        values, left = np.linalg.eigh(self.learner.kernel.gram(self.test_points))
        kept = values > values[-1] * 1e-13
        singular, left = np.sqrt(values[kept]), np.ascontiguousarray(left[:, kept])
        return left, singular, np.ascontiguousarray((left / singular).T)

    def _fit(self, answers: FloatArray, left: FloatArray, singular: FloatArray, right: FloatArray) -> FloatArray:
        limit = math.inf if self.norm_bound is None else self.norm_bound
        return np.asarray(_least_squares((answers @ left) * singular, singular**2, limit) @ right)


@jit
def _least_squares(targets: FloatArray, squares: FloatArray, limit: float) -> FloatArray:
    """Coordinates of the least-squares solutions within the ball of radius `limit`."""
    out = np.empty_like(targets)
    for i in range(len(targets)):
        constrained_solution(squares, targets[i], limit, out[i])
    return out
