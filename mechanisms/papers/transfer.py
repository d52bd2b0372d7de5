"""Learning from private predictions at public test points that are known in advance.

Jain and Thakurta (2013), Algorithm 2 (TDDL). b_t ~ Laplace(nu), w_hat = argmin over C of (1/T) sum
(<w - w*, phi(z_t)> - b_t)^2, with nu = c L R^2 sqrt(T log(1/delta)) / (lambda n epsilon). Claims
JK-10 to JK-13.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpwitness.core import LabelledVectors, Loss, Pair, Truth
from dpwitness.core.numerics.jit import jit
from dpwitness.core.numerics.laplace_laws import laplace_draws, laplace_log_density
from dpwitness.core.protocols import FloatArray, available_if, one_law
from dpwitness.core.values.validation import require, require_positive
from dpwitness.mechanisms.papers.erm import KernelLearner, LearnerMechanism, rounded
from dpwitness.mechanisms.papers.ridge import constrained_solution
from dpwitness.mechanisms.textbook.additive import Laplace
from dpwitness.mechanisms.textbook.categorical import output_rows
from dpwitness.mechanisms.textbook.zoo import PaperSpecimen, with_worst_pair

_CHUNK = 1024  # number of rows whose noisy answers are stored at once if only weights are released


@one_law
@dataclass(frozen=True, slots=True, eq=False)
class TestDataDependentLearner(LearnerMechanism):
    """Private learner with public test data (Algorithm 2).

    Releases noisy predictions of w* at T public points, or the weights fitted to these predictions.

    Parameters
    ----------
    learner : KernelLearner
        l, lambda, n, the kernel and its R.
    epsilon, delta : float
        Parameters of the claim in the paper.
    test_points : (T, d) array
        z_1, ..., z_T, public.
    constant : float
        c. The paper prints nu up to a constant; 4 is safe for epsilon <= 5, 1 is not from T = 10 on
        (JK-10).
    norm_bound : float, optional
        Radius of the ball C. By default C is the entire space, and w_hat is the least-squares
        solution of smallest norm.
    release : {"answers", "weights"}
        ``answers``: the T noisy predictions, of which w_hat is a function. ``weights``: w_hat, as d
        numbers for the linear kernel, otherwise as the coefficients a of w_hat = sum_t a_t
        phi(z_t). The low bits of either leak, as with all unrounded floating-point noise.
    grid : float
        The noisy predictions are rounded to multiples of this number; 0 for no rounding.

    Examples
    --------
    >>> from dpwitness.mechanisms.papers.erm import KernelLearner
    >>> from dpwitness.core.numerics.losses import Loss
    >>> learner = KernelLearner(Loss("absolute"), 0.1, dimension=1, records=1000)
    >>> round(TestDataDependentLearner(learner, 1.0, 1e-3, [[1.0]], constant=1.0).noise_scale, 6)
    0.026283
    """

    test_points: FloatArray
    constant: float = 4.0
    norm_bound: float | None = None
    release: Literal["answers", "weights"] = "answers"
    grid: float = 0.0

    __test__: ClassVar[bool] = False  # pytest must not collect this class, in spite of its name

    def __post_init__(self) -> None:
        LearnerMechanism.__post_init__(self)
        require(self).positive("constant").nonnegative("grid").one_of(
            "release", ["answers", "weights"]
        )
        object.__setattr__(
            self,
            "test_points",
            self.learner.check_points(self.test_points, "TestDataDependentLearner", "test_points"),
        )
        if self.norm_bound is not None:
            require_positive("norm_bound", self.norm_bound, "TestDataDependentLearner")

    @property
    def rounds(self) -> int:
        """Return the number of test points T."""
        return len(self.test_points)

    @property
    def noise_scale(self) -> float:
        """Return nu = (c/2) S sqrt(T log(1/delta)) / epsilon, with S = 2 L R^2/(lambda n)."""
        return (
            self.constant
            / 2
            * self.learner.prediction_sensitivity
            * math.sqrt(self.rounds * math.log(1 / self.delta))
            / self.epsilon
        )

    @property
    def answer_loss(self) -> float:
        """Return S/nu, the largest privacy loss of one answer."""
        return self.learner.prediction_sensitivity / self.noise_scale

    @property
    def truth(self) -> Truth | None:
        """Return the true epsilon where it is known, otherwise None.

        The true epsilon is known for one released answer, the linear kernel, and a loss that
        attains the sensitivity. Then epsilon = e + 2 log(1 - delta) with e = |z| S/(R nu).
        """
        kernel_learner = self.learner
        if (
            self.rounds > 1
            or self.release != "answers"
            or kernel_learner.kernel.name != "linear"
            or kernel_learner.loss.name not in ("hinge", "absolute")
        ):
            return None
        return Truth(
            max(
                0.0,
                (float(np.linalg.norm(self.test_points[0])) / kernel_learner.radius)
                * self.answer_loss
                + 2 * math.log1p(-self.delta),
            ),
            "JK-03, attained where n lambda >= 1; exact profile of one Laplace answer",
            bits_safe=self.grid > 0,
        )

    def worst_pair(self) -> Pair:
        """Return the worst known neighboring pair: W6/W9, on which w* moves along e1.

        If all test points equal e1, the privacy loss of every answer is largest.
        """
        return self.learner.worst_pair()

    def sample(self, dataset: LabelledVectors, size: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` independent outputs.

        Shape (size, T) for answers, (size, d) for weights of the linear kernel, or (size, T) for
        coefficients of another kernel.
        """
        answers = laplace_draws(self.learner.fit(dataset)(self.test_points), self.noise_scale)
        if self.release == "answers":
            return rounded(answers.sample(size, rng), self.grid)
        left, singular, right = self._decomposition()
        out = np.empty((size, right.shape[1]))
        for start in range(0, size, _CHUNK):
            rows = out[start : start + _CHUNK]
            rows[:] = self._fit(
                rounded(answers.sample(len(rows), rng), self.grid), left, singular, right
            )
        return out

    def weights(self, answers: FloatArray) -> FloatArray:
        """Return w_hat for each row of noisy answers: the output of `release="weights"`."""
        return self._fit(
            output_rows(answers, self.rounds, "TestDataDependentLearner"), *self._decomposition()
        )

    @available_if(
        lambda self: (
            self.grid == 0
            and (self.release == "answers" or (self.norm_bound is None and self.independent))
        )
    )
    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density of each row: for answers, the sum of their Laplace
        log-densities.

        For weights the method exists only if the weights determine the answers, which means
        linearly independent phi(z_t) and no constraint. The density follows by a change of
        variables, with respect to volume in the span of the phi(z_t); off that span it is zero.
        """
        truths = self.learner.fit(dataset)(self.test_points)
        if self.release == "answers":
            answers = output_rows(outputs, self.rounds, "TestDataDependentLearner")
            return np.asarray(laplace_log_density(answers - truths, self.noise_scale).sum(axis=1))
        left, singular, right = self._decomposition()
        rows = output_rows(outputs, right.shape[1], "TestDataDependentLearner")
        if self.learner.kernel.name == "linear":
            coordinates = rows @ right.T
            off_span = np.abs(coordinates @ right - rows).max(axis=1) > 1e-9 * (
                1 + np.abs(rows).max(axis=1)
            )
            logs = (
                laplace_log_density(
                    (coordinates * singular) @ left.T - truths, self.noise_scale
                ).sum(axis=1)
                + np.log(singular).sum()
            )
            return np.where(off_span, -np.inf, logs)
        answers = ((rows @ left) * singular**2) @ left.T
        return np.asarray(
            laplace_log_density(answers - truths, self.noise_scale).sum(axis=1)
            + 2 * np.log(singular).sum()
        )

    @available_if(lambda self: self.release == "answers" and self.grid == 0)
    def factors(
        self, d0: LabelledVectors, d1: LabelledVectors
    ) -> list[tuple[Laplace, FloatArray, FloatArray]]:
        """Return the T independent answers, each as a Laplace mechanism around the prediction of
        w*.
        """
        noise = Laplace(epsilon=1 / self.noise_scale)
        first, second = (self.learner.fit(d)(self.test_points) for d in (d0, d1))
        return [(noise, a[None], b[None]) for a, b in zip(first, second, strict=True)]

    @property
    def independent(self) -> bool:
        """Whether the phi(z_t) are linearly independent."""
        return len(self._decomposition()[1]) == self.rounds

    def _decomposition(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the truncated decomposition Phi = U s V^T with rows phi(z_t): U, s and the map to
        outputs.

        The truncation is at the numerical rank. Outputs are coordinates in the basis V, multiplied
        by V^T for the linear kernel. For other kernels they are multiplied by (U/s)^T, since V^T =
        s^-1 U^T Phi.
        """
        if self.learner.kernel.name == "linear":
            left, singular, right = np.linalg.svd(self.test_points, full_matrices=False)
            retained = singular > singular.max(initial=0.0) * 1e-12
            return (
                np.ascontiguousarray(left[:, retained]),
                singular[retained],
                np.ascontiguousarray(right[retained]),
            )
        values, left = np.linalg.eigh(self.learner.kernel.gram(self.test_points))
        retained = values > values[-1] * 1e-13
        singular, left = np.sqrt(values[retained]), np.ascontiguousarray(left[:, retained])
        return left, singular, np.ascontiguousarray((left / singular).T)

    def _fit(
        self, answers: FloatArray, left: FloatArray, singular: FloatArray, right: FloatArray
    ) -> FloatArray:
        """Return the outputs fitted to each row of answers."""
        return np.asarray(
            _least_squares(
                (answers @ left) * singular,
                singular**2,
                math.inf if self.norm_bound is None else self.norm_bound,
            )
            @ right
        )


@jit
def _least_squares(targets: FloatArray, squares: FloatArray, limit: float) -> FloatArray:
    """Return the coordinates of the least-squares solutions within the ball of radius `limit`."""
    out = np.empty_like(targets)
    for i in range(len(targets)):
        constrained_solution(squares, targets[i], limit, out[i])
    return out


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    kernel_learner = KernelLearner(Loss("absolute"), 4.0, 1, 10, label_bound=100.0)
    for constant in (1.0, 4.0):
        for rounds in (1, 10):
            yield (
                f"transfer-answers-c{constant:g}-T{rounds}",
                with_worst_pair(
                    TestDataDependentLearner(
                        kernel_learner, 1.0, 1e-3, np.ones((rounds, 1)), constant=constant
                    )
                ),
            )
    yield (
        "transfer-weights",
        with_worst_pair(
            TestDataDependentLearner(kernel_learner, 1.0, 1e-3, np.ones((10, 1)), release="weights")
        ),
    )
