"""Private learning without test points.

The exponential mechanism finds points at which the public weights are wrong. Jain and Thakurta
(2013), Algorithm 3 (TDIL), and the sampler for linear kernels described after Theorem 8. Claims
JK-14 to JK-16.

The sampled points are points at which two predictors disagree. For the linear kernel on the unit
ball the law of a point depends on t = <z, v>/|v| only. The density is proportional to exp(k |t|)
(exact form) or cosh(k t) (mixture form), times the volume (1 - t^2)^((d-1)/2) of the slice at t.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpwitness.core import InvalidArgument, LabelledVectors, Loss, Pair
from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols import FloatArray, available_if, one_law
from dpwitness.core.values.validation import require
from dpwitness.mechanisms.papers.erm import KernelLearner, LearnerMechanism, Predictor, replaced
from dpwitness.mechanisms.papers.interactive import interval_log_probability
from dpwitness.mechanisms.textbook.categorical import output_rows
from dpwitness.mechanisms.textbook.zoo import PaperSpecimen, with_worst_pair

_CHUNK = 2**20  # numbers of full transcripts that are stored at once
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)


@one_law
@dataclass(frozen=True, slots=True)
class TestDataIndependentLearner(LearnerMechanism):
    """Private learner without test data (Algorithm 3).

    Each of B rounds draws a point where w_t and w* disagree, tests the disagreement with noise, and
    corrects w_t if the disagreement is large. The printed box is ambiguous; this implementation
    reads it as follows. Line 6 sums alpha_i phi(z_i) over earlier rounds. Lines 8 and 10 refer to
    the point just drawn. w_1 = 0. The answer of a top has fresh noise. w_hat = w_B, which drops
    alpha_B. Low bits leak, as with all unrounded floating-point noise.

    Parameters
    ----------
    learner : KernelLearner
        l, lambda, n and R, with the linear kernel. Points are drawn from the ball of radius `bound`
        (r_phi in the box, 1 in Theorem 8), where the box has a net of this ball.
    epsilon, delta : float
        Parameters of the claim in the paper.
    beta : float
        Failure probability of the accuracy theorem.
    units : {"printed", "repaired"}
        ``printed``: epsilon_0 has units of one over a prediction and is used as if it had none, so
        that each draw can lose epsilon_0/2 (JK-15). ``repaired``: u = epsilon/(10 sqrt(B)
        log(4/delta)), exponent u/(4S), noise scale S/(2u).
    sampler : {"exact", "mixture"}
        Density of the points in the ball: proportional to exp(kappa |<z, v>|), as printed, or to
        cosh(kappa <z, v>), as in the two-component mixture.
    release : {"full", "outputs", "weights"}
        ``full``: for each round the point (d numbers), the answer, and the sign of the correction
        (0 for none), from which everyone can compute w_t. ``outputs``: the B answers. ``weights``:
        w_hat.
    """

    beta: float
    units: Literal["printed", "repaired"] = "printed"
    sampler: Literal["exact", "mixture"] = "exact"
    release: Literal["full", "outputs", "weights"] = "full"

    __test__: ClassVar[bool] = False  # pytest must not collect this class, in spite of its name

    def __post_init__(self) -> None:
        LearnerMechanism.__post_init__(self)
        owner = type(self).__name__
        require(self).probability("beta").one_of("units", ["printed", "repaired"]).one_of(
            "sampler", ["exact", "mixture"]
        ).one_of("release", ["full", "outputs", "weights"])
        if self.learner.kernel.name != "linear":
            raise InvalidArgument(
                f"{owner}: learner must have the linear kernel, got {self.learner.kernel.name}"
            )
        if self.rounds < 1:
            text = f"{owner}: B must be at least one round, got {self.updates:.6g}"
            if self.units == "repaired":
                raise InvalidArgument(text)
            warnings.warn(f"{text}; nothing is released", stacklevel=3)

    @property
    def updates(self) -> float:
        """Return B of the paper, the number of allowed updates before rounding."""
        return (
            self.learner.records
            * self.epsilon
            / (100 * self.learner.lipschitz * self.learner.radius * math.log(4 / self.delta))
        )

    @property
    def rounds(self) -> int:
        """Return the number of rounds of the loop t = 1, ..., B."""
        return math.floor(self.updates)

    @property
    def answer_epsilon(self) -> float:
        """Return epsilon_0, half the inverse noise scale.

        epsilon_0 = n epsilon lambda/(10 L R^2 sqrt(B) log(4/delta)), which is 2u/S as printed; u/S
        in repaired units. The analysis composes u = epsilon/(10 sqrt(B) log(4/delta)) over the
        rounds.
        """
        u = self.epsilon / (10 * math.sqrt(self.updates) * math.log(4 / self.delta))
        return (2 if self.units == "printed" else 1) * u / self.learner.prediction_sensitivity

    @property
    def kappa(self) -> float:
        """Return the factor of |<phi(z), w_t - w*>| in the exponent of the exponential mechanism.

        epsilon_0/(4S) as printed, epsilon_0/4 in repaired units.
        """
        return (
            self.answer_epsilon
            / 4
            / (self.learner.prediction_sensitivity if self.units == "printed" else 1.0)
        )

    @property
    def threshold(self) -> float:
        """Return the threshold sigma."""
        return 4 / self.answer_epsilon * math.log(2 * self.updates / self.beta)

    @property
    def step(self) -> float:
        """Return the step size eta."""
        return self.threshold / (4 * self.learner.radius**2)

    def worst_pair(self) -> Pair:
        """Return the worst known neighboring pair: W10, or W11 for released weights in d >= 2.

        W10: balanced labels (w* = 0), and the same with one label flipped. W11: w* is long, and the
        label of one record orthogonal to w* is flipped.
        """
        kernel_learner, n = self.learner, self.learner.records
        label = 1.0 if kernel_learner.loss.binary else kernel_learner.label_bound
        unit = (
            kernel_learner.bound
            * np.eye(max(2, kernel_learner.dimension))[:2, : kernel_learner.dimension]
        )
        if self.release == "weights" and kernel_learner.dimension > 1 and n > 1:
            why, common = (
                "W11: w* long along e1, one record at e2 turned over",
                [(unit[0], label, min(n - 1, round(0.9 * n)))],
            )
            return replaced(n, (unit[1], -label), (unit[1], label), why, common, label)
        common = [(unit[0], -label, n // 2 - 1), (unit[0], label, n // 2)]
        return replaced(
            n,
            (unit[0], -label),
            (unit[0], label),
            "W10: balanced labels against one turned over",
            common,
            label,
        )

    def sample(self, dataset: LabelledVectors, size: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` independent outputs: (size, k), with the columns that `release`
        determines.
        """
        predictor, released = self.learner.fit(dataset), []
        width = self.rounds * self._block
        step = max(1, _CHUNK // max(1, width))
        for start in range(0, max(1, size), step):
            rows = np.empty((min(step, size - start), width))
            self._replay(rows, predictor, rng)
            if self.release == "weights":
                rows = self._last_weights(rows)
            elif self.release == "outputs":
                rows = rows.reshape(len(rows), self.rounds, self._block)[:, :, -2]
            released.append(rows)
        return np.concatenate(released)

    @available_if(lambda self: self.release == "full")
    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density of full transcripts.

        It is the sum over rounds of the terms for the point, the side of the threshold, and the
        answer. The answers of bottoms are public and carry counting measure. For answers or weights
        alone there is no closed form, and the method does not exist.
        """
        return self._replay(
            output_rows(outputs, self.rounds * self._block, type(self).__name__),
            self.learner.fit(dataset),
            None,
        )

    @available_if(lambda self: self.release == "full")
    def weights(self, outputs: FloatArray) -> FloatArray:
        """Return w_hat = w_B for each full transcript: the output of `release="weights"`."""
        return self._last_weights(
            output_rows(outputs, self.rounds * self._block, type(self).__name__)
        )

    @property
    def _block(self) -> int:
        """Return the number of columns of one round in a full transcript."""
        return self.learner.dimension + 2

    def _last_weights(self, rows: FloatArray) -> FloatArray:
        """Return w_B, which does not include alpha_B, for each full transcript."""
        blocks = rows.reshape(len(rows), self.rounds, self._block)[:, :-1]
        alphas = self.step * blocks[:, :, -1]
        return np.asarray(np.einsum("it,itd->id", alphas, blocks[:, :, :-2]))

    def _replay(
        self, rows: FloatArray, predictor: Predictor, rng: np.random.Generator | None
    ) -> FloatArray:
        """Return the log-densities of full transcripts; if `rng` is given, draw the rows
        instead.
        """
        generator = np.random.default_rng(0) if rng is None else rng
        noise = 1 / (2 * self.answer_epsilon), self.threshold, self.step
        ball = self.kappa, self.learner.bound, self.sampler == "mixture"
        quadrature = _NODES, _WEIGHTS
        return _ball_transcripts(
            rows, rng is not None, predictor.centers[0], *ball, *noise, *quadrature, generator
        )


@jit
def _log_partition(
    k: float, d: int, mixture: bool, nodes: FloatArray, weights: FloatArray
) -> float:
    """Return the log of the integral of exp(k |t|), or cosh(k t), over the unit ball of dimension
    d.

    With u = 1 - t = U x^2 the integrand is smooth at the pole for every d. Beyond U the integrand
    is negligible in double precision.
    """
    upper_u = min(1.0, (60.0 + 4.0 * (d + 1)) / max(k, 1e-300))
    total = 0.0
    for i in range(nodes.size):
        x = 0.5 * (nodes[i] + 1.0)
        u = upper_u * x * x
        value = math.exp(-k * u)
        if mixture:
            value = 0.5 * (value + math.exp(-k * (2.0 - u)))
        total += weights[i] * value * (u * (2.0 - u)) ** (0.5 * (d - 1)) * upper_u * x
    # factors for both halves of the ball and for the volume of the (d-1)-dimensional unit ball
    return (
        k + math.log(2.0 * total) + 0.5 * (d - 1) * math.log(math.pi) - math.lgamma(0.5 * (d + 1))
    )


@jit
def _draw_height(k: float, d: int, mixture: bool, rng: np.random.Generator) -> float:
    """Return a draw of |t| with density proportional to exp(k t) (1 - t^2)^((d-1)/2) on [0, 1].

    For the mixture, return a draw of t itself with this density on [-1, 1].
    """
    shape = 0.5 * (d + 1)
    largest = 2.0 if mixture else 1.0
    while True:
        if k < 2.0:  # rejection sampling: propose t of a uniform point of the ball
            first = rng.standard_normal()
            square = first * first
            for _ in range(d - 1):
                other = rng.standard_normal()
                square += other * other
            t = first / math.sqrt(square) * math.pow(rng.random(), 1.0 / d)
            t = t if mixture else abs(t)
            if rng.random() < math.exp(k * (t - 1.0)):
                return t
        else:  # rejection sampling: propose 1 - t from a Gamma law, accept by the other factor of the slice  # noqa: E501
            u = rng.standard_gamma(shape) / k
            if u <= largest and rng.random() < (0.5 * (2.0 - u)) ** (0.5 * (d - 1)):
                return 1.0 - u


@jit
def _draw_point(
    v: FloatArray,
    length: float,
    kappa: float,
    radius: float,
    mixture: bool,
    z: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Write a random point of the ball into z, given the difference v of the weights; overwrite v
    by its direction.
    """
    d = v.size
    if length > 0.0:
        v /= length
    else:
        v[0] = 1.0  # the law is isotropic, so that any direction will do
    t = _draw_height(kappa * length * radius, d, mixture, rng)
    if rng.random() < 0.5:
        t = -t
    along, square = 0.0, 0.0
    for j in range(d):
        z[j] = rng.standard_normal()
        along += z[j] * v[j]
    for j in range(d):
        z[j] -= along * v[j]
        square += z[j] * z[j]
    across = 0.0
    if d > 1:
        across = math.sqrt(max(0.0, 1.0 - t * t) / square) * rng.random() ** (1.0 / (d - 1))
    for j in range(d):
        z[j] = radius * (t * v[j] + across * z[j])


@jit
def _noisy_answer(
    truth: float, predicted: float, scale: float, sigma: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Return an answer and the sign of its correction.

    If the noisy gap is within sigma, these are the public prediction and 0. Otherwise they are a
    fresh noisy answer and the sign of the gap.
    """
    gap = truth - predicted + scale * (rng.standard_exponential() - rng.standard_exponential())
    if not abs(gap) > sigma:
        return predicted, 0.0
    return truth + scale * (rng.standard_exponential() - rng.standard_exponential()), math.copysign(
        1.0, gap
    )


@jit
def _answer_log_density(
    answer: float, sign: float, truth: float, predicted: float, scale: float, sigma: float
) -> float:
    """Return the log-density of one answer and its sign.

    Bottom (sign 0): the noisy gap is within sigma and the answer is public. Top: the gap lies
    beyond sigma on one side, and a fresh noisy answer follows.
    """
    center = truth - predicted
    if sign == 0.0:
        if not abs(answer - predicted) <= 1e-12 * (1.0 + abs(predicted)):
            return -np.inf
        return interval_log_probability((-sigma - center) / scale, (sigma - center) / scale)
    if abs(sign) != 1.0:
        return -np.inf
    beyond = (sigma - sign * center) / scale
    log_tail = -beyond - math.log(2.0) if beyond > 0.0 else math.log1p(-0.5 * math.exp(beyond))
    return log_tail - abs(answer - truth) / scale - math.log(2.0 * scale)


@jit
def _ball_transcripts(
    rows: FloatArray,
    draw: bool,
    best: FloatArray,
    kappa: float,
    radius: float,
    mixture: bool,
    scale: float,
    sigma: float,
    eta: float,
    nodes: FloatArray,
    quadrature: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Fill the rows with runs for the linear kernel if `draw`; otherwise return the log-density of
    each row.

    A row holds one block (z, answer, sign) for each round.
    """
    d = best.size
    logs = np.zeros(len(rows))
    weights, gaps = np.empty(d), np.empty(d)
    for i in range(len(rows)):
        weights[:] = 0.0
        for start in range(0, rows.shape[1], d + 2):
            z, square = rows[i, start : start + d], 0.0
            for j in range(d):
                gaps[j] = weights[j] - best[j]
                square += gaps[j] * gaps[j]
            length = math.sqrt(square)
            if draw:
                _draw_point(gaps, length, kappa, radius, mixture, z, rng)
            along, truth, predicted, norm = 0.0, 0.0, 0.0, 0.0
            for j in range(d):
                along += gaps[j] * z[j]
                truth += best[j] * z[j]
                predicted += weights[j] * z[j]
                norm += z[j] * z[j]
            if draw:
                answer, sign = _noisy_answer(truth, predicted, scale, sigma, rng)
                rows[i, start + d], rows[i, start + d + 1] = answer, sign
            else:
                if not norm <= radius * radius * (1.0 + 1e-9):
                    logs[i] = -np.inf
                    break
                answer, sign = rows[i, start + d], rows[i, start + d + 1]
                exponent = kappa * abs(along)
                if mixture:
                    exponent += math.log1p(math.exp(-2.0 * exponent)) - math.log(2.0)
                logs[i] += (
                    exponent
                    - _log_partition(kappa * radius * length, d, mixture, nodes, quadrature)
                    - d * math.log(radius)
                )
                logs[i] += _answer_log_density(answer, sign, truth, predicted, scale, sigma)
            for j in range(d):
                weights[j] += eta * sign * z[j]
    return logs


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    small_learner = KernelLearner(Loss("absolute"), 1.0, 1, 5000, label_bound=10.0)  # three rounds
    for units in ("printed", "repaired"):
        yield (
            f"independent-full-{units}",
            with_worst_pair(
                TestDataIndependentLearner(small_learner, 1.0, 1e-6, 0.1, units=units),
                trials=50_000,
            ),
        )
        yield (
            f"independent-outputs-{units}",
            with_worst_pair(
                TestDataIndependentLearner(
                    small_learner, 1.0, 1e-6, 0.1, units=units, sampler="mixture", release="outputs"
                ),
                trials=50_000,
            ),
        )
    yield (
        "independent-weights-printed",
        with_worst_pair(
            TestDataIndependentLearner(
                KernelLearner(Loss("absolute"), 1000.0, 2, 10**6, label_bound=10.0),
                1.0,
                1e-6,
                0.05,
                release="weights",
            ),
            trials=20_000,
        ),
    )
