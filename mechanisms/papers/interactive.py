"""Private predictions for a stream of test points.

The public state changes only when it predicts an answer badly. Jain and Thakurta (2013), Algorithm
1 (PINP) and Theorem 9. Claims JK-06 to JK-09.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpwitness.core import InvalidArgument, LabelledVectors, Loss, Pair
from dpwitness.core.numerics.jit import jit, jit_uncached
from dpwitness.core.numerics.losses import kernel_value
from dpwitness.core.protocols import FloatArray, available_if, one_law
from dpwitness.core.values.validation import require, short_repr
from dpwitness.mechanisms.papers.erm import KernelLearner, LearnerMechanism
from dpwitness.mechanisms.textbook.categorical import output_rows
from dpwitness.mechanisms.textbook.zoo import PaperSpecimen, with_worst_pair

# rule(t, points, answers, weights, z) writes test point t (from 0) into z.
# The rule may use public values only: the earlier rows of points, answers and weights.
Rule = Callable[[int, Any, Any, Any, Any], None]


@one_law
@dataclass(frozen=True, slots=True, eq=False)
class PrivateInteractivePrediction(LearnerMechanism):
    """Private interactive prediction (Algorithm 1): answers to T test points with the predictions
    of w*.

    One output row is the T answers, NaN from the halt on. An answer is a bottom or a top. A bottom
    is the public prediction p_t, bit for bit. A top is a noisy prediction of w* that differs from
    p_t by more than sigma; the public state changes after a top. The row reveals the kind of each
    answer, since a noisy answer equals p_t with probability zero. The low bits of tops leak, as
    with all unrounded floating-point noise.

    Parameters
    ----------
    learner : KernelLearner
        l, lambda, n, the kernel and its R.
    epsilon, delta : float
        Parameters of the claim in the paper.
    beta : float
        Failure probability of the accuracy theorem.
    norm_bound : float
        C: public bound on |w*|, which determines the number of updates. A dataset with a larger
        |w*| loses accuracy, not privacy.
    test_points : (T, d) array, optional
        z_1, ..., z_T, public and fixed. Give either these or `rule` and `horizon`.
    rule : numba-compiled function, optional
        ``rule(t, points, answers, weights, z)`` chooses test point t adaptively. The rule writes
        the point into `z`, given the first t rows of `points`, `answers` and `weights` (alpha).
    horizon : int, optional
        T, if a rule is given.
    constants : {"printed", "theorem9", "repaired"}
        ``printed``: the constants of the box, with B a real number that bounds the update counter.
        ``theorem9``: epsilon_0 half as large, as the privacy theorem requires (JK-06).
        ``repaired``: B is the smallest number of updates that accuracy needs (JK-08), rounded up
        before epsilon_0 is computed from it; B below 1 is an error. For the other two, B below 1
        gives a warning, since the claim can then fail (JK-07).
    """

    beta: float
    norm_bound: float
    test_points: FloatArray | None = None
    rule: Rule | None = None
    horizon: int | None = None
    constants: Literal["printed", "theorem9", "repaired"] = "printed"

    def __post_init__(self) -> None:
        LearnerMechanism.__post_init__(self)
        require(self).positive("norm_bound").probability("beta").one_of(
            "constants", ["printed", "theorem9", "repaired"]
        )
        owner = type(self).__name__
        if (self.test_points is None) == (self.rule is None):
            raise InvalidArgument(f"{owner}: exactly one of test_points and rule must be given")
        if self.test_points is not None:
            points = self.learner.check_points(self.test_points, owner, "test_points")
            if self.horizon not in (None, len(points)):
                raise InvalidArgument(
                    f"{owner}: horizon must be the number of test_points, {len(points)}, got "
                    f"{self.horizon!r}"
                )
            object.__setattr__(self, "test_points", points)
            object.__setattr__(self, "horizon", len(points))
        require(self).integer("horizon")
        if self.rule is not None and not hasattr(self.rule, "py_func"):
            raise InvalidArgument(
                f"{owner}: rule must be compiled with numba.njit, got {short_repr(self.rule)}"
            )
        if self.norm_bound > 1e150:
            raise InvalidArgument(
                f"{owner}: norm_bound must have a finite square, got {self.norm_bound!r}"
            )
        if self._updates() < 1:
            if self.constants == "repaired":
                raise InvalidArgument(
                    f"{owner}: n, lambda, epsilon or C must be larger, to allow at least one "
                    f"update, got B = {self._updates():.6g} updates"
                )
            warnings.warn(
                f"{owner}: B = {self._updates():.6g} is below 1; one update is made anyway, and "
                "the claim can fail (JK-07)",
                stacklevel=3,
            )

    @property
    def rounds(self) -> int:
        """Return the number of test points T."""
        assert self.horizon is not None
        return int(self.horizon)

    def _updates(self) -> float:
        """Return B before rounding."""
        it = self.learner
        unit = it.records * it.regularization * self.epsilon / (it.lipschitz * it.radius)
        spread = math.log(2 * self.rounds / self.beta)
        if self.constants == "repaired":
            # B = 3.2 R^2 C^2 / sigma(B)^2, with sigma(B) = 800 R sqrt(B) log(4/delta) log(2T/beta)
            # / unit
            return (
                math.sqrt(3.2) * self.norm_bound * unit / (800 * spread * math.log(4 / self.delta))
            )
        return unit * self.norm_bound**2 / (200 * math.sqrt(2 * spread) * math.log(4 / self.delta))

    @property
    def updates(self) -> float:
        """Return B; the loop runs while the number of updates is below B."""
        return (
            float(math.ceil(self._updates())) if self.constants == "repaired" else self._updates()
        )

    @property
    def answer_epsilon(self) -> float:
        """Return epsilon_0, the inverse scale of the Laplace noise, in units of one over a
        prediction.
        """
        it = self.learner
        factor = 400 if self.constants == "theorem9" else 200
        slope = (
            factor
            * it.lipschitz
            * it.radius**2
            * math.sqrt(self.updates)
            * math.log(4 / self.delta)
        )
        return it.records * it.regularization * self.epsilon / slope

    @property
    def threshold(self) -> float:
        """Return the threshold sigma."""
        return 4 / self.answer_epsilon * math.log(2 * self.rounds / self.beta)

    @property
    def step(self) -> float:
        """Return the step size eta."""
        return self.threshold / (4 * self.learner.radius**2)

    @property
    def answer_loss(self) -> float:
        """Return e_0 = S epsilon_0, the largest privacy loss of one noisy answer."""
        return self.learner.prediction_sensitivity * self.answer_epsilon

    def worst_pair(self, surplus: int = 1) -> Pair:
        """Return the worst known neighboring pair: W7/W8, on which w* moves by its sensitivity
        along e1.

        For W8, `surplus` is so large that the prediction at e1 lies beyond the threshold.
        """
        return self.learner.worst_pair(surplus)

    def sample(self, dataset: LabelledVectors, size: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` independent transcripts: (size, T)."""
        out = np.zeros((size, self.rounds))
        self._replay(out, dataset, rng)
        return out

    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density of each transcript.

        A top contributes the Laplace density at the answer. A bottom contributes the probability
        that the noisy answer lies within sigma of p_t. The reference measure is Lebesgue measure
        for tops and counting measure at p_t for bottoms, the same for all datasets. The value is
        minus infinity for rows that no run can produce.
        """
        return self._replay(
            output_rows(outputs, self.rounds, type(self).__name__).copy(), dataset, None
        )

    @available_if(lambda self: self.rounds == 1)
    def atoms(self, dataset: LabelledVectors) -> FloatArray:
        """Return the only atom for T = 1: a bottom in the first round is the public
        prediction, 0.
        """
        return np.zeros(1)

    @property
    def _noise(self) -> tuple[float, float, float, float]:
        """Return (B, noise scale, sigma, eta), as the compiled kernels take them."""
        return self.updates, 1 / self.answer_epsilon, self.threshold, self.step

    def _replay(
        self, rows: FloatArray, dataset: LabelledVectors, rng: np.random.Generator | None
    ) -> FloatArray:
        """Return the log-densities of the rows; if `rng` is given, draw the rows instead."""
        kernel, predictor = self.learner.kernel, self.learner.fit(dataset)
        generator = np.random.default_rng(0) if rng is None else rng
        if self.test_points is not None:
            gram = kernel(self.test_points, self.test_points)
            return _transcripts(
                rows, rng is not None, predictor(self.test_points), gram, *self._noise, generator
            )
        logs, bad = _adaptive_transcripts(
            rows,
            rng is not None,
            self.rule,
            kernel.arguments,
            self.learner.radius,
            predictor.centers,
            predictor.coefficients,
            *self._noise,
            generator,
        )
        if bad >= 0:
            raise InvalidArgument(
                f"{type(self).__name__}: rule must choose points with |phi(z)| at most "
                f"{self.learner.radius!r}, got a larger norm in round {bad + 1}"
            )
        return np.asarray(logs)


def hold_gap(weights: tuple[float, float], gap: float) -> Rule:
    """Return the adaptive rule of witness W7, for the linear kernel in the plane.

    The rule asks for the unit vector z nearest e2 at which the prediction of `weights` exceeds the
    public prediction by `gap`. Let `weights` be the minimizer of one dataset and `gap` = sigma.
    Every answer is then a coin flip. For a neighboring dataset whose weights are moved along e2,
    every answer is higher by S. Bottoms leak this difference, and they cost no update (JK-07).

    Parameters
    ----------
    weights : (float, float)
        Minimizer of one dataset.
    gap : float
        Difference between the prediction of `weights` and the public prediction that the rule keeps
        up.

    Returns
    -------
    numba-compiled function
        A `rule` of `PrivateInteractivePrediction`.

    Raises
    ------
    TypeError, ValueError
        If `weights` or `gap` cannot be converted to floats.
    """
    first, second = float(weights[0]), float(weights[1])
    target = float(gap)

    @jit_uncached
    def rule(t: int, points: Any, answers: Any, alphas: Any, z: Any) -> None:
        """Write test point t into z."""
        x, y = first, second
        for i in range(t):
            x -= alphas[i] * points[i, 0]
            y -= alphas[i] * points[i, 1]
        length = math.sqrt(x * x + y * y)
        along = min(1.0, target / length)
        across = math.sqrt(1.0 - along * along)
        # of the two unit vectors at this angle, the one with the larger second coordinate
        if x < 0.0:
            across = -across
        z[0] = along * x / length - across * y / length
        z[1] = along * y / length + across * x / length

    return rule


@jit
def interval_log_probability(low: float, high: float) -> float:
    """Return log P(low <= Laplace(1) <= high), accurate in both tails."""
    if low > 0.0:
        return -low - math.log(2.0) + math.log1p(-math.exp(low - high))
    if high < 0.0:
        return high - math.log(2.0) + math.log1p(-math.exp(low - high))
    return math.log1p(-0.5 * (math.exp(low) + math.exp(-high)))


@jit
def _answer(
    row: FloatArray,
    t: int,
    draw: bool,
    truth: float,
    predicted: float,
    scale: float,
    sigma: float,
    rng: np.random.Generator,
) -> float:
    """Draw answer t into the row if `draw`; otherwise return the log-density of a noisy answer, or
    the log-mass of the public prediction.

    The answer is the noisy truth if it is farther than sigma from the public prediction, otherwise
    the prediction.
    """
    if draw:
        noisy = truth + scale * (rng.standard_exponential() - rng.standard_exponential())
        row[t] = noisy if abs(noisy - predicted) > sigma else predicted
        return 0.0
    gap = row[t] - predicted
    if abs(gap) > sigma:
        return -(abs(row[t] - truth) / scale + math.log(2.0 * scale))  # type: ignore[no-any-return]
    if gap == 0.0:
        return interval_log_probability(
            (predicted - sigma - truth) / scale, (predicted + sigma - truth) / scale
        )
    return -np.inf


@jit
def _halt(row: FloatArray, start: int, draw: bool) -> float:
    """Return the log-mass of the rounds after the halt, which have no answer (nan); if `draw`,
    write them.
    """
    log_mass = 0.0
    for t in range(start, row.size):
        if draw:
            row[t] = np.nan
        elif not math.isnan(row[t]):
            log_mass = -np.inf
    return log_mass


@jit
def _transcripts(
    rows: FloatArray,
    draw: bool,
    truths: FloatArray,
    gram: FloatArray,
    updates: float,
    scale: float,
    sigma: float,
    eta: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Fill the rows with transcripts for fixed test points if `draw`; otherwise return the
    log-density of each row.

    `truths` holds <w*, phi(z_t)> and `gram` holds K(z_s, z_t).
    """
    size, rounds = rows.shape
    logs = np.zeros(size)
    places = np.empty(rounds, dtype=np.int64)
    alphas = np.empty(rounds)
    for i in range(size):
        count = 0
        for t in range(rounds):
            if count >= updates:
                logs[i] += _halt(rows[i], t, draw)
                break
            predicted = 0.0
            for k in range(count):
                predicted += alphas[k] * gram[t, places[k]]
            logs[i] += _answer(rows[i], t, draw, truths[t], predicted, scale, sigma, rng)
            gap = rows[i, t] - predicted
            if abs(gap) > sigma:
                places[count] = t
                alphas[count] = math.copysign(eta, gap)
                count += 1
    return logs


# Not cached on disk: the code depends on the caller's rule, which has no stable identity across
# processes.
@jit_uncached
def _adaptive_transcripts(
    rows: FloatArray,
    draw: bool,
    rule: Any,
    named: tuple[int, int, float, float],
    radius: float,
    centers: FloatArray,
    coefficients: FloatArray,
    updates: float,
    scale: float,
    sigma: float,
    eta: float,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Draw transcripts at adaptive test points into `rows` (if `draw`), or replay the transcripts
    in `rows`.

    Returns the log-densities, and the round of the first test point that is too long, or -1.
    """
    size, rounds = rows.shape
    logs = np.zeros(size)
    points = np.zeros((rounds, centers.shape[1]))
    weights, answers = np.zeros(rounds), np.zeros(rounds)
    for i in range(size):
        count = 0
        weights[:] = 0.0
        for t in range(rounds):
            if count >= updates:
                logs[i] += _halt(rows[i], t, draw)
                break
            rule(t, points, answers, weights, points[t])
            if not kernel_value(*named, points[t], points[t]) <= radius * radius * (1.0 + 1e-9):
                return logs, t
            truth, predicted = 0.0, 0.0
            for k in range(centers.shape[0]):
                truth += coefficients[k] * kernel_value(*named, points[t], centers[k])
            for k in range(t):
                if weights[k] != 0.0:
                    predicted += weights[k] * kernel_value(*named, points[t], points[k])
            logs[i] += _answer(rows[i], t, draw, truth, predicted, scale, sigma, rng)
            if logs[i] == -np.inf:
                break
            answers[t] = rows[i, t]
            gap = answers[t] - predicted
            if abs(gap) > sigma:
                weights[t] = math.copysign(eta, gap)
                count += 1
    return logs, -1


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    kernel_learner = KernelLearner(Loss("absolute"), 1.0, 1, 10**6, label_bound=10.0)
    with warnings.catch_warnings():
        # the mechanisms warn that the claim can fail, which is the reason to include them
        warnings.simplefilter("ignore")
        for constants in ("printed", "theorem9"):
            mechanism = PrivateInteractivePrediction(
                kernel_learner,
                1.0,
                1e-6,
                0.1,
                2.73e-5,
                test_points=np.array([[1.0]]),
                constants=constants,
            )
            yield (
                f"interactive-{constants}",
                PaperSpecimen(
                    mechanism, (mechanism.worst_pair(26 if constants == "printed" else 52),)
                ),
            )
    yield (
        "interactive-repaired",
        with_worst_pair(
            PrivateInteractivePrediction(
                replace(kernel_learner, records=10**7),
                1.0,
                1e-6,
                0.05,
                0.02,
                test_points=np.linspace(-1.0, 1.0, 10)[:, None],
                constants="repaired",
            )
        ),
    )
    yield "interactive-held-at-threshold", _held_at_threshold()


def _held_at_threshold() -> PaperSpecimen:
    """Return the specimen of witness W7, on which the test points keep each answer at the
    threshold.

    Bottoms then leak, and no budget is spent on bottoms.
    """
    kernel_learner = KernelLearner(Loss("absolute"), 1.0, 2, 10**6, label_bound=10.0)
    delta, rounds = 1e-6, 60
    epsilon = 0.3 * 100 * 2 * math.log(4 / delta)
    # B = 4, and not larger by a rounding error
    bound = math.sqrt(
        4
        * 200
        * math.sqrt(2 * math.log(2 * rounds / 0.1))
        * math.log(4 / delta)
        / (10**6 * epsilon)
    ) * (1 - 1e-12)
    probe = PrivateInteractivePrediction(
        kernel_learner, epsilon, delta, 0.1, bound, test_points=np.zeros((rounds, 2))
    )
    x, copies = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [900_000, 1, 99_999]
    d0, d1 = (LabelledVectors(x, [10.0, y, 0.0], copies) for y in (-10.0, 10.0))
    return PaperSpecimen(
        PrivateInteractivePrediction(
            kernel_learner,
            epsilon,
            delta,
            0.1,
            bound,
            rule=hold_gap(tuple(kernel_learner.fit(d0).centers[0]), probe.threshold),
            horizon=rounds,
        ),
        (Pair(d0, d1, "replace-one", "W7: answers held at the threshold"),),
        trials=5_000,
    )
