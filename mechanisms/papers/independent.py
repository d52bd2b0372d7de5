"""Learning private weights without test points: the exponential mechanism finds points where the public weights are wrong.

Jain and Thakurta (2013), Algorithm 3 (TDIL), and the sampler for linear kernels of the text after Theorem 8.
Claims JK-14 to JK-16.
"""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpwitness.mechanisms.numerics.labelled_pairs import replaced
from dpwitness.mechanisms.papers.independent_kernels import (
    _NODES,
    _WEIGHTS,
    ball_log_densities,
    ball_transcripts,
    net_log_densities,
    net_transcripts,
)
from dpwitness.mechanisms.papers.learner import LearnerMechanism
from dpwitness.mechanisms.terms.datasets import LabelledVectors
from dpwitness.mechanisms.terms.optional import offered_when
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.powers import one_law
from dpwitness.mechanisms.terms.protocol import FloatArray, Truth
from dpwitness.mechanisms.terms.validation import InvalidArgument, require, require_positive, shown
from dpwitness.mechanisms.textbook.categorical import output_rows

_RELEASES = ["full", "outputs", "weights"]
_MOST_POINTS = 2048  # of a net, whose Gram matrix is held


@one_law
@dataclass(frozen=True, slots=True)
class TestDataIndependentLearner(LearnerMechanism):
    """B rounds of: draw a point where w_t and w* disagree, test the disagreement with noise, correct w_t if it is large.

    Where the printed box is ambiguous: line 6 sums alpha_i phi(z_i) over earlier rounds; lines 8 and 10 speak of the point just
    drawn; w_1 = 0; a top's answer has fresh noise; what = w_B, which drops alpha_B. Low bits leak, as with all unrounded noise.

    Parameters
    ----------
    learner : KernelLearner
        l, lambda, n, the kernel and its R. Points are drawn from the ball of its `bound` (r_phi in the box, 1 in Theorem 8).
    epsilon, delta : float
        The paper's promise.
    beta : float
        Failure probability of the accuracy theorem.
    units : {"printed", "repaired"}
        ``printed``: epsilon_0 has units of one over a prediction and is used as if it had none, so that each draw can lose
        epsilon_0/2 (JK-15). ``repaired``: u = epsilon/(10 sqrt(B) log(4/delta)), exponent u/(4S), noise scale S/(2u).
    sampler : {"exact", "mixture", "net"}
        ``exact`` and ``mixture`` draw from the ball itself, linear kernel only, with density proportional to exp(kappa |<z, v>|) as
        printed or cosh(kappa <z, v>) as the two-component mixture has it. ``net`` draws from a finite net, any kernel.
    spacing : float, optional
        nu of the net. Default: the printed d R/(epsilon_0 n L_phi), for kernels whose L_phi is known (linear, rbf).
    release : {"full", "outputs", "weights"}
        ``full``: for each round the point (d numbers, or its number in the net), the answer, and the sign of the correction (0 for
        none), from which everyone can compute w_t. ``outputs``: the B answers. ``weights``: what (d numbers for the ball
        samplers; for a net the coefficient at each of its points).
    """

    beta: float
    units: Literal["printed", "repaired"] = "printed"
    sampler: Literal["exact", "mixture", "net"] = "exact"
    spacing: float | None = None
    release: Literal["full", "outputs", "weights"] = "full"

    __test__: ClassVar[bool] = False  # not a test class, whatever its name begins with

    def __post_init__(self) -> None:
        LearnerMechanism.__post_init__(self)
        owner = type(self).__name__
        require(self).probability("beta").one_of("units", ["printed", "repaired"])
        require(self).one_of("sampler", ["exact", "mixture", "net"]).one_of("release", _RELEASES)
        if self.sampler != "net" and self.learner.kernel.name != "linear":
            raise InvalidArgument(f"{owner}: sampler must be 'net' for the {self.learner.kernel.name} kernel, got {shown(self.sampler)}")
        if self.spacing is not None:
            require_positive("spacing", self.spacing, owner)
        if self.rounds < 1:
            text = f"{owner}: B must come to at least one round, got {self.updates:.6g}"
            if self.units == "repaired":
                raise InvalidArgument(text)
            warnings.warn(f"{text}; nothing is released", stacklevel=3)

    @property
    def updates(self) -> float:
        """B, a real number."""
        return self.learner.records * self.epsilon / (100 * self.learner.lipschitz * self.learner.radius * math.log(4 / self.delta))

    @property
    def rounds(self) -> int:
        """Rounds of the loop t = 1, ..., B."""
        return math.floor(self.updates)

    @property
    def unitless_epsilon(self) -> float:
        """u = epsilon/(10 sqrt(B) log(4/delta)), which the analysis composes over the rounds."""
        return self.epsilon / (10 * math.sqrt(self.updates) * math.log(4 / self.delta))

    @property
    def answer_epsilon(self) -> float:
        """epsilon_0, half the inverse noise scale: n epsilon lambda/(10 L R^2 sqrt(B) log(4/delta)) = 2u/S as printed, u/S repaired."""
        return (2 if self.units == "printed" else 1) * self.unitless_epsilon / self.learner.prediction_sensitivity

    @property
    def kappa(self) -> float:
        """Factor of |<phi(z), w_t - w*>| in the exponent: epsilon_0/(4S) as printed, epsilon_0/4 repaired."""
        return self.answer_epsilon / 4 / (self.learner.prediction_sensitivity if self.units == "printed" else 1.0)

    @property
    def threshold(self) -> float:
        """sigma."""
        return 4 / self.answer_epsilon * math.log(2 * self.updates / self.beta)

    @property
    def step(self) -> float:
        """eta."""
        return self.threshold / (4 * self.learner.radius**2)

    @property
    def net(self) -> FloatArray:
        """The net: a cubic lattice of covering radius nu, its outer points projected onto the ball, which keeps that radius."""
        d, radius = self.learner.dimension, self.learner.bound
        nu = self._net_spacing()
        side = 2 * nu / math.sqrt(d)
        reach = math.ceil((radius + nu) / side)
        if (2 * reach + 1) ** d > 64 * _MOST_POINTS:
            raise InvalidArgument(
                f"{type(self).__name__}: spacing must keep the net at {_MOST_POINTS} points, got nu = {nu:.6g} in {d} dimensions"
            )
        lattice = side * np.array(list(itertools.product(range(-reach, reach + 1), repeat=d)), dtype=np.float64)
        lengths = np.linalg.norm(lattice, axis=1)
        near = lattice[lengths <= radius + nu]
        points = np.unique(near * (radius / np.maximum(lengths[lengths <= radius + nu], radius))[:, None] + 0.0, axis=0)
        if len(points) > _MOST_POINTS:
            raise InvalidArgument(f"{type(self).__name__}: spacing must keep the net at {_MOST_POINTS} points, got {len(points)}")
        return points

    def _net_spacing(self) -> float:
        if self.spacing is not None:
            return self.spacing
        kernel = self.learner.kernel
        slopes = {"linear": 1.0, "rbf": math.sqrt(2 * kernel.gamma)}
        if kernel.name not in slopes:
            raise InvalidArgument(f"{type(self).__name__}: spacing must be given for the {kernel.name} kernel, got None")
        it = self.learner
        return it.dimension * it.radius / (self.answer_epsilon * it.records * slopes[kernel.name])

    @property
    def truth(self) -> Truth | None:
        """No formula; JK-15 has the counterexamples for the printed units, and a composition bound for the repaired ones."""
        return None

    def worst_pair(self) -> Pair:
        """W10: labels in balance (w* = 0) against one turned over. W11, for weights in d >= 2: w* long, a record across it turned."""
        it, n = self.learner, self.learner.records
        label = 1.0 if it.loss.binary else it.label_bound
        unit = it.bound * np.eye(max(2, it.dimension))[:2, : it.dimension]
        if self.release == "weights" and it.dimension > 1 and n > 1:
            many = min(n - 1, round(0.9 * n))
            why, common = "W11: w* long along e1, one record at e2 turned over", [(unit[0], label, many)]
            return replaced(n, (unit[1], -label), (unit[1], label), why, common, label)
        common = [(unit[0], -label, n // 2 - 1), (unit[0], label, n // 2)]
        return replaced(n, (unit[0], -label), (unit[0], label), "W10: balanced labels against one turned over", common, label)

    def sample(self, dataset: LabelledVectors, size: int, rng: np.random.Generator) -> FloatArray:
        """(size, k) rows as `release` says."""
        noise = 1 / (2 * self.answer_epsilon), self.threshold, self.step
        release = _RELEASES.index(self.release)
        predictor = self.learner.fit(dataset)
        if self.sampler == "net":
            points = self.net
            return net_transcripts(
                predictor(points), self.learner.kernel(points, points), self.kappa, *noise, self.rounds, release, size, rng
            )
        mixture = self.sampler == "mixture"
        return ball_transcripts(predictor.centers[0], self.kappa, self.learner.bound, mixture, *noise, self.rounds, release, size, rng)

    @offered_when(lambda self: self.release == "full")
    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Exact log-density of full transcripts: point, side of the threshold and answer, round by round.

        Points have their density in the ball, or their mass in the net; bottoms' answers are public and carry counting measure.
        Answers or weights alone have no closed form, and no `log_density`.
        """
        noise = 1 / (2 * self.answer_epsilon), self.threshold, self.step
        predictor = self.learner.fit(dataset)
        block = 3 if self.sampler == "net" else self.learner.dimension + 2
        rows = output_rows(outputs, self.rounds * block, type(self).__name__)
        if self.sampler == "net":
            points = self.net
            return net_log_densities(rows, predictor(points), self.learner.kernel(points, points), self.kappa, *noise)
        mixture = self.sampler == "mixture"
        return ball_log_densities(rows, predictor.centers[0], self.kappa, self.learner.bound, mixture, *noise, _NODES, _WEIGHTS)

    @offered_when(lambda self: self.release == "full")
    def weights(self, outputs: FloatArray) -> FloatArray:
        """What = w_B as a function of full transcripts: what `release="weights"` would have released."""
        block = 3 if self.sampler == "net" else self.learner.dimension + 2
        blocks = output_rows(outputs, self.rounds * block, type(self).__name__).reshape(len(outputs), self.rounds, block)[:, :-1]
        alphas = self.step * blocks[:, :, -1]
        if self.sampler != "net":
            return np.asarray(np.einsum("it,itd->id", alphas, blocks[:, :, :-2]))
        out = np.zeros((len(outputs), len(self.net)))
        np.add.at(out, (np.arange(len(outputs))[:, None], blocks[:, :, 0].astype(np.int64)), alphas)
        return out
