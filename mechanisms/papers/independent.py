"""Private learning without test points.

The exponential mechanism finds points at which the public weights are wrong. Jain and Thakurta
(2013), Algorithm 3 (TDIL), and the sampler for linear kernels described after Theorem 8. Claims
JK-14 to JK-16.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpwitness.core import InvalidArgument, LabelledVectors, Loss, Pair, Truth
from dpwitness.core.numerics.labelled_pairs import replaced
from dpwitness.core.protocols.capabilities import one_law
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.protocols.optional_methods import available_if
from dpwitness.core.values.validation import require, require_positive, short_repr
from dpwitness.mechanisms.papers.independent_kernels import (
    _NODES,
    _WEIGHTS,
    ball_log_densities,
    ball_transcripts,
    net_log_densities,
    net_transcripts,
)
from dpwitness.mechanisms.papers.learner import KernelLearner, LearnerMechanism
from dpwitness.mechanisms.papers.paper_zoo import PaperSpecimen, with_worst_pair
from dpwitness.mechanisms.textbook.categorical import output_rows

_RELEASES = ["full", "outputs", "weights"]
_MAX_NET_POINTS = 2048  # size limit of a net, whose Gram matrix is stored


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
        l, lambda, n, the kernel and its R. Points are drawn from the ball of radius `bound` (r_phi
        in the box, 1 in Theorem 8).
    epsilon, delta : float
        Parameters of the claim in the paper.
    beta : float
        Failure probability of the accuracy theorem.
    units : {"printed", "repaired"}
        ``printed``: epsilon_0 has units of one over a prediction and is used as if it had none, so
        that each draw can lose epsilon_0/2 (JK-15). ``repaired``: u = epsilon/(10 sqrt(B)
        log(4/delta)), exponent u/(4S), noise scale S/(2u).
    sampler : {"exact", "mixture", "net"}
        ``exact`` and ``mixture`` draw from the ball itself, for the linear kernel only. The density
        is proportional to exp(kappa |<z, v>|), as printed, or to cosh(kappa <z, v>), as in the
        two-component mixture. ``net`` draws from a finite net, for any kernel.
    spacing : float, optional
        nu of the net. Default: the printed d R/(epsilon_0 n L_phi), for kernels with a known L_phi
        (linear, rbf).
    release : {"full", "outputs", "weights"}
        ``full``: for each round the point (d numbers, or its index in the net), the answer, and the
        sign of the correction (0 for none), from which everyone can compute w_t. ``outputs``: the B
        answers. ``weights``: w_hat (d numbers for the ball samplers; for a net the coefficient at
        each of its points).
    """

    beta: float
    units: Literal["printed", "repaired"] = "printed"
    sampler: Literal["exact", "mixture", "net"] = "exact"
    spacing: float | None = None
    release: Literal["full", "outputs", "weights"] = "full"

    __test__: ClassVar[bool] = False  # pytest must not collect this class, in spite of its name

    def __post_init__(self) -> None:
        LearnerMechanism.__post_init__(self)
        owner = type(self).__name__
        require(self).probability("beta").one_of("units", ["printed", "repaired"])
        require(self).one_of("sampler", ["exact", "mixture", "net"]).one_of("release", _RELEASES)
        if self.sampler != "net" and self.learner.kernel.name != "linear":
            raise InvalidArgument(
                f"{owner}: sampler must be 'net' for the {self.learner.kernel.name} kernel, "
                f"got {short_repr(self.sampler)}"
            )
        if self.spacing is not None:
            require_positive("spacing", self.spacing, owner)
        if self.rounds < 1:
            text = f"{owner}: B must be at least one round, got {self.updates:.6g}"
            if self.units == "repaired":
                raise InvalidArgument(text)
            warnings.warn(f"{text}; nothing is released", stacklevel=3)

    @property
    def updates(self) -> float:
        """Return B, a real number."""
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
    def unitless_epsilon(self) -> float:
        """Return u = epsilon/(10 sqrt(B) log(4/delta)), which the analysis composes over the
        rounds.
        """
        return self.epsilon / (10 * math.sqrt(self.updates) * math.log(4 / self.delta))

    @property
    def answer_epsilon(self) -> float:
        """Return epsilon_0, half the inverse noise scale.

        epsilon_0 = n epsilon lambda/(10 L R^2 sqrt(B) log(4/delta)), which is 2u/S as printed; u/S
        in repaired units.
        """
        return (
            (2 if self.units == "printed" else 1)
            * self.unitless_epsilon
            / self.learner.prediction_sensitivity
        )

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

    @property
    def net(self) -> FloatArray:
        """Return the points of the net, a cubic lattice of covering radius nu.

        The outer points are projected onto the ball. The projection does not increase the covering
        radius.
        """
        d, radius = self.learner.dimension, self.learner.bound
        nu = self._net_spacing()
        side = 2 * nu / math.sqrt(d)
        half_width = math.ceil((radius + nu) / side)
        if (2 * half_width + 1) ** d > 64 * _MAX_NET_POINTS:
            raise InvalidArgument(
                f"{type(self).__name__}: spacing must keep the net at {_MAX_NET_POINTS} "
                f"points, got nu = {nu:.6g} in {d} dimensions"
            )
        lattice = side * np.array(
            list(itertools.product(range(-half_width, half_width + 1), repeat=d)), dtype=np.float64
        )
        lengths = np.linalg.norm(lattice, axis=1)
        near = lattice[lengths <= radius + nu]
        points = np.unique(
            near * (radius / np.maximum(lengths[lengths <= radius + nu], radius))[:, None] + 0.0,
            axis=0,
        )
        if len(points) > _MAX_NET_POINTS:
            raise InvalidArgument(
                f"{type(self).__name__}: spacing must keep the net at {_MAX_NET_POINTS} "
                f"points, got {len(points)}"
            )
        return points

    def _net_spacing(self) -> float:
        """Return nu: `spacing`, or the printed default."""
        if self.spacing is not None:
            return self.spacing
        kernel = self.learner.kernel
        slopes = {"linear": 1.0, "rbf": math.sqrt(2 * kernel.gamma)}
        if kernel.name not in slopes:
            raise InvalidArgument(
                f"{type(self).__name__}: spacing must be given for the {kernel.name} kernel, "
                "got None"
            )
        kernel_learner = self.learner
        return (
            kernel_learner.dimension
            * kernel_learner.radius
            / (self.answer_epsilon * kernel_learner.records * slopes[kernel.name])
        )

    @property
    def truth(self) -> Truth | None:
        """Return None: no formula is known.

        Claim JK-15 has counterexamples for the printed units, and a composition bound for the
        repaired units.
        """
        return None

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
            copies = min(n - 1, round(0.9 * n))
            why, common = (
                "W11: w* long along e1, one record at e2 turned over",
                [(unit[0], label, copies)],
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
        noise = 1 / (2 * self.answer_epsilon), self.threshold, self.step
        release = _RELEASES.index(self.release)
        predictor = self.learner.fit(dataset)
        if self.sampler == "net":
            points = self.net
            return net_transcripts(
                predictor(points),
                self.learner.kernel(points, points),
                self.kappa,
                *noise,
                self.rounds,
                release,
                size,
                rng,
            )
        mixture = self.sampler == "mixture"
        return ball_transcripts(
            predictor.centers[0],
            self.kappa,
            self.learner.bound,
            mixture,
            *noise,
            self.rounds,
            release,
            size,
            rng,
        )

    @available_if(lambda self: self.release == "full")
    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density of full transcripts.

        It is the sum over rounds of the terms for the point, the side of the threshold, and the
        answer. Points have a density in the ball, or a mass in the net. The answers of bottoms are
        public and carry counting measure. For answers or weights alone there is no closed form, and
        the method does not exist.
        """
        noise = 1 / (2 * self.answer_epsilon), self.threshold, self.step
        predictor = self.learner.fit(dataset)
        block = 3 if self.sampler == "net" else self.learner.dimension + 2
        rows = output_rows(outputs, self.rounds * block, type(self).__name__)
        if self.sampler == "net":
            points = self.net
            return net_log_densities(
                rows, predictor(points), self.learner.kernel(points, points), self.kappa, *noise
            )
        mixture = self.sampler == "mixture"
        return ball_log_densities(
            rows,
            predictor.centers[0],
            self.kappa,
            self.learner.bound,
            mixture,
            *noise,
            _NODES,
            _WEIGHTS,
        )

    @available_if(lambda self: self.release == "full")
    def weights(self, outputs: FloatArray) -> FloatArray:
        """Return w_hat = w_B for each full transcript: the output of `release="weights"`."""
        block = 3 if self.sampler == "net" else self.learner.dimension + 2
        blocks = output_rows(outputs, self.rounds * block, type(self).__name__).reshape(
            len(outputs), self.rounds, block
        )[:, :-1]
        alphas = self.step * blocks[:, :, -1]
        if self.sampler != "net":
            return np.asarray(np.einsum("it,itd->id", alphas, blocks[:, :, :-2]))
        out = np.zeros((len(outputs), len(self.net)))
        np.add.at(out, (np.arange(len(outputs))[:, None], blocks[:, :, 0].astype(np.int64)), alphas)
        return out


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    small_learner = KernelLearner(Loss("absolute"), 1.0, 1, 5000, label_bound=10.0)  # three rounds
    for units in ("printed", "repaired"):
        full = TestDataIndependentLearner(small_learner, 1.0, 1e-6, 0.1, units=units)
        yield f"independent-full-{units}", with_worst_pair(full, trials=50_000)
        outputs = TestDataIndependentLearner(
            small_learner, 1.0, 1e-6, 0.1, units=units, sampler="mixture", release="outputs"
        )
        yield f"independent-outputs-{units}", with_worst_pair(outputs, trials=50_000)
    plane_learner = KernelLearner(Loss("absolute"), 1000.0, 2, 10**6, label_bound=10.0)
    yield (
        "independent-weights-printed",
        with_worst_pair(
            TestDataIndependentLearner(plane_learner, 1.0, 1e-6, 0.05, release="weights"),
            trials=20_000,
        ),
    )
