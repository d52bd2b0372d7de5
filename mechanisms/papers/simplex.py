"""Sampling from an entropy-regularized minimizer over the probability simplex.

Jain and Thakurta (2014), equations (8) and (9): theta = argmin (1/n) sum l(<x_i, theta>; y_i) +
(lambda/n) sum theta_j log theta_j. The frequencies of m indices drawn from theta are released.
Claims JT-10 to JT-13.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from flint import arb
from scipy.special import gammaln

from dpwitness.core import (
    ApproxDP,
    ConvergenceError,
    InvalidArgument,
    LabelledBall,
    LabelledVectors,
    Loss,
    Pair,
    PureDP,
    Truth,
)
from dpwitness.core.balls.ball import Ball, Box, softmax
from dpwitness.core.balls.risk import slope_over
from dpwitness.core.protocols import FloatArray, available_if, one_law
from dpwitness.core.values.validation import (
    require,
    require_integer,
    require_one_of,
    require_probability,
    short_repr,
)
from dpwitness.mechanisms.papers.erm import checked_records, replaced
from dpwitness.mechanisms.textbook.categorical import (
    SoftmaxDraw,
    frequency_draws,
    log_softmax,
    output_rows,
)
from dpwitness.mechanisms.textbook.zoo import PaperSpecimen, with_worst_pair

_MAX_ROWS = 1_000_000


class SimplexMinimiser(NamedTuple):
    """A minimizer over the simplex and its error bound.

    `error` bounds |theta - theta*|_1. The bound is the spread of the gradient divided by lambda,
    since the objective is lambda-strongly convex in the 1-norm.
    """

    log_theta: FloatArray
    error: float


@one_law
@dataclass(frozen=True, slots=True)
class SimplexSampling:
    """Sampling from a minimizer over the simplex; releases the frequencies of m sampled indices.

    Parameters
    ----------
    epsilon : float
        Epsilon that the paper claims.
    regularization : float
        lambda, positive.
    loss : Loss
        A loss with finite second derivative; ``Loss("linear")`` has costs y <x, theta>.
    dimension, records : int
        p (at least 2) and n, public.
    bound : float
        R: |x|_inf <= R.
    label_bound : float
        Largest |y|. Together with R it determines the Lipschitz constant L of a loss that depends
        on y.
    delta : float, optional
        Required by the approximate forms. If it is given, the claim is (epsilon, delta)-DP, except
        for the pure form. Otherwise the claim is epsilon-DP.
    draws : {"pure", "approximate", "approximate_repaired"} or int
        m, rounded down, with x = n R^2 l''_max / lambda. ``pure``: (epsilon lambda/(L R)) / (4 +
        2x). ``approximate``, as printed without L R: (epsilon lambda/log(1/delta))^2 / (32 +
        16x)^2. ``approximate_repaired``: with epsilon lambda divided by L R. If m is 0, the printed
        forms warn and draw once, and the repaired form raises an error.

    Examples
    --------
    >>> SimplexSampling(1.0, 40.0, Loss("linear"), dimension=2, records=1).count
    10
    """

    epsilon: float
    regularization: float
    loss: Loss
    dimension: int
    records: int
    bound: float = 1.0
    label_bound: float = 1.0
    delta: float | None = None
    draws: Literal["pure", "approximate", "approximate_repaired"] | int = "pure"

    def __post_init__(self) -> None:
        require(self).positive("epsilon", "regularization", "bound", "label_bound").integer(
            "dimension", least=2
        ).integer("records")
        if not isinstance(self.loss, Loss) or not math.isfinite(self.loss.smoothness):
            raise InvalidArgument(
                "SimplexSampling: loss must be a Loss with a bounded second derivative, got "
                f"{short_repr(self.loss)}"
            )
        if self.delta is not None:
            require_probability("delta", self.delta, "SimplexSampling")
        if not isinstance(self.draws, str):
            require_integer("draws", self.draws, "SimplexSampling")
            return
        require_one_of(
            "draws", self.draws, ["pure", "approximate", "approximate_repaired"], "SimplexSampling"
        )
        if self.draws != "pure" and self.delta is None:
            raise InvalidArgument(
                f"SimplexSampling: delta must be given for draws={self.draws!r}, got None"
            )
        try:
            exact = self._formula()
        except ArithmeticError:
            raise InvalidArgument(
                "SimplexSampling: bound must be small enough that the squared loss is a "
                f"finite float, got {self.bound!r}"
            ) from None
        text = f"draws={self.draws!r} must give at least one draw, got m = {exact:.6g}"
        if not exact >= 1 and self.draws == "approximate_repaired":
            raise InvalidArgument(f"SimplexSampling: {text}")
        if not exact >= 1:
            warnings.warn(
                f"SimplexSampling: {text}; drawing once instead, which the paper does not cover",
                stacklevel=3,
            )

    @property
    def lipschitz(self) -> float:
        """Return the Lipschitz constant L over the domain, where |<x, theta>| <= R."""
        return self.loss.lipschitz(self.bound, self.label_bound)

    @property
    def smoothness_ratio(self) -> float:
        """Return x = n R^2 l''_max / lambda, the measure of curvature in the theorems."""
        return self.records * self.bound**2 * self.loss.smoothness / self.regularization

    @property
    def count(self) -> int:
        """Return m, the number of draws."""
        return (
            max(1, math.floor(self._formula())) if isinstance(self.draws, str) else int(self.draws)
        )

    def _formula(self) -> float:
        """Return m before rounding."""
        x, slope = self.smoothness_ratio, self.lipschitz * self.bound
        if self.draws == "pure":
            return self.epsilon * self.regularization / slope / (4 + 2 * x)
        assert self.delta is not None
        unit = slope if self.draws == "approximate_repaired" else 1.0
        return (
            self.epsilon * self.regularization / (unit * math.log(1 / self.delta)) / (32 + 16 * x)
        ) ** 2

    @property
    def claim(self) -> PureDP | ApproxDP:
        return (
            PureDP(self.epsilon)
            if self.delta is None or self.draws == "pure"
            else ApproxDP(self.epsilon, self.delta)
        )

    @property
    def truth(self) -> Truth | None:
        """Return the exact privacy loss for linear costs and a pure claim, otherwise None.

        The worst pair makes one coordinate as rare as n - 1 records can, and flips the sign of its
        cost relative to the rest. Per draw the loss is log(theta_1/theta_1') at odds e^(h +- a)/(p
        - 1), with a = 2 L R/lambda and h = -(n - 1) a. The loss tends to 4 L R/lambda (JT-10).
        """
        if self.loss.name != "linear" or not self.claim.is_pure:
            return None
        step = 2 * self.lipschitz * self.bound / self.regularization
        rare = -(self.records - 1) * step - math.log(self.dimension - 1)
        per_draw = float(np.logaddexp(0.0, step - rare) - np.logaddexp(0.0, -step - rare))
        return Truth(
            self.count * per_draw,
            "JT-10: bounded range of a softmax, attained by linear costs of full size",
        )

    @property
    def domain(self) -> LabelledBall:
        labels = (-1.0, 1.0) if self.loss.binary else (-self.label_bound, self.label_bound)
        return LabelledBall(self.dimension, self.records, labels, self.bound, norm="linf")

    def worst_pair(self, rare: float = 0.5) -> Pair:
        """Return the worst known neighboring pair, W17: x = (R, -R, ..., -R) with label +Y or -Y.

        The other records keep coordinate 1 at the weight `rare`, as far as they can. The weight is
        exact for linear costs. With ``rare=0.5`` and p = 2 the pair is W19.
        """
        require_probability("rare", rare, "SimplexSampling.worst_pair")
        x = np.full(self.dimension, -self.bound)
        x[0] = self.bound
        label, others = 1.0 if self.loss.binary else self.label_bound, self.records - 1
        odds = math.log(rare / (1 - rare)) + math.log(self.dimension - 1)
        unit = 2 * self.bound * label * self.loss.scale * max(1, others)
        return replaced(
            self.records,
            (x, -label),
            (x, label),
            "W17: a rare coordinate against all others",
            [(float(np.clip(-odds * self.regularization / unit, -1.0, 1.0)) * x, label, others)],
            label,
        )

    def minimiser(self, dataset: LabelledVectors) -> SimplexMinimiser:
        """Return the exact minimizer (8).

        Raises ConvergenceError instead of returning an uncertified minimizer.
        """
        checked_records(
            dataset,
            "SimplexSampling",
            radius=self.bound,
            norm=math.inf,
            binary=self.loss.binary,
            label_bound=self.label_bound,
            records=self.records,
            dimension=self.dimension,
        )
        return minimise_over_simplex(dataset, self.loss, self.regularization)

    def sample(self, dataset: LabelledVectors, size: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` independent vectors of frequencies k/m: (size, p)."""
        return frequency_draws(np.exp(self.minimiser(dataset).log_theta), self.count).sample(
            size, rng
        )

    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact multinomial log-mass; minus infinity if m times a row is not a vector of
        counts.
        """
        scaled = output_rows(outputs, self.dimension, "SimplexSampling") * self.count
        counts, log_theta = np.rint(scaled), self.minimiser(dataset).log_theta
        valid = np.all((np.abs(scaled - counts) <= 1e-6) & (counts >= 0), axis=1) & (
            counts.sum(axis=1) == self.count
        )
        total = np.where(valid, math.lgamma(self.count + 1.0), -np.inf)
        for column, log_share in zip(counts.T, log_theta, strict=True):
            # a share that underflows to zero costs nothing where it is not drawn
            total += np.where(column > 0, column * log_share - gammaln(column + 1.0), 0.0)
        return total

    @available_if(
        lambda self: math.comb(self.count + self.dimension - 1, self.dimension - 1) <= _MAX_ROWS
    )
    def support(self, dataset: LabelledVectors) -> FloatArray:
        """Return every vector of counts, divided by m; the method exists only for small m and p."""
        draws = itertools.combinations_with_replacement(range(self.dimension), self.count)
        return (
            np.array([np.bincount(drawn, minlength=self.dimension) for drawn in draws][::-1])
            / self.count
        )

    def draws_ball(
        self, d1: LabelledVectors, d0: LabelledVectors
    ) -> list[tuple[list[Ball], list[Ball], int]]:
        """Return the log-probabilities of one draw under D1 and D0, and the number of draws.

        The counts are sufficient statistics of the draws.
        """
        return [(self._log_theta_ball(d1), self._log_theta_ball(d0), self.count)]

    def log_density_ball(self, boxes: Sequence[Box], dataset: LabelledVectors) -> list[Ball]:
        """Return an enclosure of the log-mass of the frequencies in each box."""
        log_theta, m = self._log_theta_ball(dataset), self.count
        log_masses = []
        for box in boxes:
            counts = [round(low * m) for low, _ in box]
            total = (arb(m) + 1).lgamma() - sum(((arb(k) + 1).lgamma() for k in counts), arb(0))
            log_masses.append(
                total + sum((k * x for k, x in zip(counts, log_theta, strict=True)), arb(0))
            )
        return log_masses

    def _log_theta_ball(self, dataset: LabelledVectors) -> list[Ball]:
        """Return an enclosure of log theta at the minimizer.

        Let theta_0 be the normalized answer of the solver. |theta - theta_0|_1 is at most the
        spread of the gradient at theta_0 over lambda, since the objective is lambda-strongly convex
        in the 1-norm. Predictions therefore move by at most R times as much, and log theta = const
        - sum x l' / lambda at the minimizer itself.
        """
        lam = arb(self.regularization)
        logs = softmax([arb(x) for x in self.minimiser(dataset).log_theta.tolist()])
        rows = [(x.tolist(), float(y), int(n)) for x, y, n in dataset.records()]
        predictions = [
            sum((x * log.exp() for x, log in zip(row, logs, strict=True)), arb(0))
            for row, _, _ in rows
        ]

        def weighted_slopes(error: Ball) -> list[Ball]:
            """Return an enclosure of sum x l' for predictions within this 1-norm error
            of theta_0.
            """
            total = [arb(0)] * self.dimension
            for (row, y, n), u in zip(rows, predictions, strict=True):
                deviation = (error * max(abs(x) for x in row)).upper()
                slope = (
                    n
                    * self.loss.scale
                    * slope_over(self.loss, (u - deviation).lower(), (u + deviation).upper(), y)
                )
                total = [a + slope * x for a, x in zip(total, row, strict=True)]
            return total

        gradient = [g + lam * log for g, log in zip(weighted_slopes(arb(0)), logs, strict=True)]
        highest, lowest = max(g.upper() for g in gradient), min(g.lower() for g in gradient)
        return softmax([-g / lam for g in weighted_slopes(((highest - lowest) / lam).upper())])

    def factors(
        self, d0: LabelledVectors, d1: LabelledVectors
    ) -> list[tuple[SoftmaxDraw, FloatArray, FloatArray]]:
        """Return the m independent draws.

        Their counts are sufficient, so that the composed draws reveal as much as the frequencies.
        """
        logs = self.minimiser(d0).log_theta, self.minimiser(d1).log_theta
        return [(SoftmaxDraw(self.dimension), *logs)] * self.count


def minimise_over_simplex(
    dataset: LabelledVectors, loss: Loss, lam: float, most_steps: int = 200
) -> SimplexMinimiser:
    """Return the minimizer over the simplex and its certificate.

    Newton's method runs in multiplicative form, theta exp(step/theta). The method is exact after
    one step for linear costs and converges quadratically otherwise. Raises ConvergenceError if no
    certificate is reached.
    """
    x, y, weights = dataset.x, dataset.y, dataset.weights
    p = dataset.dimension

    def objective(logs: FloatArray) -> float:
        """Return the regularized objective at exp(logs)."""
        theta = np.exp(logs)
        return float(weights @ loss.value(x @ theta, y) + lam * theta @ logs)

    logs = np.full(p, -math.log(p))
    value = objective(logs)
    for _ in range(most_steps):
        theta = np.exp(logs)
        u = x @ theta
        gradient = x.T @ (weights * loss.derivative(u, y)) + lam * logs
        centered_gradient = gradient - theta @ gradient
        # spread of the gradient over lambda; the allowance covers a few units in the last place of
        # its largest term
        error = float(np.abs(centered_gradient).max()) / lam
        if error <= 1e-14 * max(1.0, float(np.abs(gradient).max()) / lam) * 64:
            return SimplexMinimiser(logs, error)
        step = _newton_step(x, weights * loss.second(u, y), theta, centered_gradient, lam)
        decrease = float(theta * step @ centered_gradient)
        size = 1.0
        for _ in range(60):
            candidate = log_softmax(logs + size * step)
            candidate_value = objective(candidate)
            if candidate_value <= value + 1e-4 * size * decrease + 1e-14 * abs(value):
                break
            size /= 2
        logs, value = candidate, candidate_value
    if error <= 1e-10:
        return SimplexMinimiser(logs, error)
    raise ConvergenceError(
        f"SimplexSampling: the minimiser over the simplex has an error of up to {error:.3g} "
        f"after {most_steps} steps, and at most 1e-10 is allowed"
    )


def _newton_step(
    x: FloatArray,
    curvature: FloatArray,
    theta: FloatArray,
    centered_gradient: FloatArray,
    lam: float,
) -> FloatArray:
    """Return step/theta for the Newton step that preserves the sum.

    The step solves (X^T D X + lambda/theta) step = -(gradient - nu) with the sum of `step` equal to
    0.
    """
    curved = curvature > 0
    root = np.sqrt(theta)
    scaled = np.sqrt(curvature[curved])[:, None] * x[curved] * root  # D^1/2 X Theta^1/2

    def solve(right: FloatArray) -> FloatArray:
        """Return (X^T D X + lambda Theta^-1)^-1 right, divided by the square root of theta.

        The smaller of the two Gram matrices is used.
        """
        inner = root * right
        if len(scaled) == 0:
            return inner / lam
        if len(scaled) < len(theta):
            return np.asarray(
                (
                    inner
                    - scaled.T
                    @ np.linalg.solve(lam * np.eye(len(scaled)) + scaled @ scaled.T, scaled @ inner)
                )
                / lam
            )
        return np.asarray(np.linalg.solve(lam * np.eye(len(theta)) + scaled.T @ scaled, inner))

    descent, constant = solve(-centered_gradient), solve(np.ones_like(theta))
    shift = (root @ descent) / (root @ constant)
    step = root * (descent - shift * constant)
    # Compute step/theta from the equation itself, so that the logarithm of a weight that
    # underflowed to zero still changes.
    return np.asarray((-centered_gradient - shift - x.T @ (curvature * (x @ step))) / lam)


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    linear = Loss("linear")
    yield "simplex-pure", with_worst_pair(SimplexSampling(1.0, 40.0, linear, 2, 1))
    lam = 20 * 32 * math.log(1e5) * (1 + 1e-12)  # m = 400 as printed
    yield (
        "simplex-approximate",
        with_worst_pair(
            SimplexSampling(
                1.0, lam, linear, 2, 1, label_bound=100.0, delta=1e-5, draws="approximate"
            )
        ),
    )
    yield (
        "simplex-approximate-repaired",
        with_worst_pair(
            SimplexSampling(
                1.0,
                lam * 100,
                linear,
                2,
                1,
                label_bound=100.0,
                delta=1e-5,
                draws="approximate_repaired",
            )
        ),
    )
    yield "simplex-huber", with_worst_pair(SimplexSampling(10.0, 100.0, Loss("huber"), 3, 20))
