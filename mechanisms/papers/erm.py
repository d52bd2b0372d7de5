"""Shared parts of the mechanisms of regularized risk minimization.

These are the validation of data, neighboring datasets, both kinds of perturbation with known
privacy losses, and the learner whose predictions the interactive mechanisms release.

Output perturbation releases w* + b; objective perturbation releases argmin F(w) + <b, w>. Both
densities are exact. The density of output perturbation is a shift of the noise density. The density
of objective perturbation is the change of variables b -> w, whose Jacobian is the Hessian of F.

The learner is that of Jain and Thakurta (2013), equations (2) and (3): w* = argmin (1/n) sum l(<w,
phi(x_i)>; y_i) + (lambda/2) |w|^2. |w* - w*'| <= 2 L R/(lambda n) for datasets that differ in one
record. Claims JK-01 to JK-04.

Pairs of datasets differ in one record. The common records either do not change the output or fix
its position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    Truth,
)
from dpwitness.core.balls.erm import ObjectivePerturbationEnclosures, OutputPerturbationEnclosures
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.solvers import (
    Problem,
    minimise,
    minimize_kernel_risk,
    minimize_perturbed_risk,
    noise_for_minimizers,
)
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import require, require_type, short_repr
from dpwitness.mechanisms.textbook.categorical import output_rows

LOGISTIC = Loss("logistic")
Record = tuple[FloatArray, float]
_LINEAR = Kernel()


def checked_records(
    dataset: object,
    owner: str,
    *,
    radius: float,
    norm: float = 2,
    clip: bool | None = None,
    binary: bool = False,
    label_bound: float = math.inf,
    records: int | None = None,
    dimension: int | None = None,
) -> LabelledVectors:
    """Return the dataset after validation; if `clip` is true, records outside the ball are scaled
    onto it.

    Parameters
    ----------
    dataset : object
        The dataset of a mechanism.
    owner : str
        Name of the mechanism, for messages.
    radius, norm : float
        Largest norm of a vector, and the order of the norm.
    clip : bool, optional
        Whether longer vectors are scaled; None if the mechanism has no parameter `clip`.
    binary : bool
        Whether labels are -1 or +1.
    label_bound : float
        Largest |y|.
    records, dimension : int, optional
        Number of records, and length of the vectors.

    Raises
    ------
    InvalidArgument
        Names the first record that violates a rule.
    """
    if not isinstance(dataset, LabelledVectors):
        raise InvalidArgument(
            f"{owner}: dataset must be LabelledVectors, got {type(dataset).__name__}"
        )
    if dimension not in (None, dataset.dimension):
        raise InvalidArgument(
            f"{owner}: dataset must have vectors of length {dimension}, got {dataset.dimension}"
        )
    if records not in (None, dataset.n):
        raise InvalidArgument(f"{owner}: dataset must hold {records} records, got {dataset.n}")
    sizes = np.abs(dataset.y)
    if binary and (sizes != 1).any():
        row = int(np.argmax(sizes != 1))
        raise InvalidArgument(
            f"{owner}: y must be -1 or +1, got {float(dataset.y[row])!r} in row {row}"
        )
    if sizes.max() > label_bound:
        raise InvalidArgument(
            f"{owner}: dataset must have labels in [-{label_bound!r}, {label_bound!r}], got "
            f"{float(sizes.max())!r}"
        )
    lengths = np.linalg.norm(dataset.x, norm, axis=1)
    outside = np.flatnonzero(lengths > radius * (1 + 1e-12))
    if not len(outside):
        return dataset
    if not clip:
        remedy = "" if clip is None else " (clip=True scales records into it)"
        raise InvalidArgument(
            f"{owner}: x must lie in the ball of radius {radius!r}{remedy}, got norm "
            f"{float(lengths[outside[0]])!r} in row {int(outside[0])}"
        )
    return LabelledVectors(
        dataset.x / np.maximum(1.0, lengths / radius)[:, None], dataset.y, dataset.multiplicity
    )


# -- neighboring datasets
# --------------------------------------------------------------------------------------------------


def axis(dimension: int, length: float = 1.0) -> FloatArray:
    """Return the vector length e1 in R^dimension."""
    out = np.zeros(dimension)
    out[0] = length
    return out


def unit_vector(dimension: int, along: float, side: float) -> FloatArray:
    """Return the unit vector with first coordinate `along` whose second one has the sign of
    `side`.
    """
    out = axis(dimension, along)
    out[1] = side * math.sqrt(1 - along**2)
    return out


def replaced(
    records: int,
    first: Record,
    second: Record,
    why: str,
    common: Sequence[tuple[FloatArray, float, int]] = (),
    label: float = 1.0,
) -> Pair:
    """Return a pair of datasets with n = `records` that differ in one record, `first` or `second`.

    `common` lists further records with their multiplicities; entries with multiplicity 0 or less
    are dropped. Missing records are filled with x = 0 and label `label`, which change nothing if
    predictions are linear. `why` is the description of the pair.
    """
    entries = [entry for entry in common if entry[2] > 0]
    missing = records - 1 - sum(count for _, _, count in entries)
    if missing > 0:
        entries.append((np.zeros_like(first[0]), label, missing))

    def build(x: FloatArray, y: float) -> LabelledVectors:
        """Return the dataset in which (x, y) is the record that differs."""
        rows = [(x, y, 1), *entries]
        return LabelledVectors(
            [x for x, _, _ in rows], [y for _, y, _ in rows], [count for _, _, count in rows]
        )

    return Pair(build(*first), build(*second), "replace-one", why)


def zero_record_pair(records: int, dimension: int, radius: float = 1.0) -> Pair:
    """Return the pair W3 of the logistic loss: the record radius e1 is replaced by x = 0.

    The determinants of the two Hessians differ most at outputs near 0.
    """
    return replaced(
        records,
        (axis(dimension, radius), 1.0),
        (axis(dimension, 0.0), 1.0),
        "W3: a record against x = 0",
    )


def opposed_records_pair(
    records: int, dimension: int, rate: float, ridge: float, radius: float = 1.0
) -> Pair:
    """Return the pair W4 of the logistic loss for Gamma-norm noise, or W3 if d = 1 or n is too
    small.

    `rate` is the rate of the noise and `ridge` is n times the weight of |w|^2/2. Both refer to
    records of norm 1, which means to the parameter w radius.
    """
    opposing, k = 2000, 18.0
    # K copies of (t, 0) fix the minimizer at (W, 0), against the ridge and against the opposing
    # records.
    position = math.sqrt(max(0.0, (records - 1 - opposing - 3.6 * opposing * k) / (3.6 * ridge)))
    if dimension == 1 or position <= 2 * k:
        return zero_record_pair(records, dimension, radius)
    t = 1.278 / position
    copies = round(
        (ridge * position + opposing * (k / position) / (1 + math.exp(-k)))
        * (1 + math.exp(1.278))
        / t
    )
    grid = np.linspace(0.5, 0.999, 5000)
    s = float(grid[np.argmax(rate * grid + np.log1p(grid * (1 - grid) / ridge))])
    first = unit_vector(dimension, -math.log(s / (1 - s)) / position, -1.0)
    second = unit_vector(dimension, -k / position, 1.0)
    return replaced(
        records,
        (radius * first, 1.0),
        (radius * second, 1.0),
        f"W4: loss approached at w = {position / radius:.6g} e1",
        [(axis(dimension, radius * t), 1.0, copies), (radius * second, 1.0, opposing)],
    )


def far_response(
    loss: Loss, deviation: float, ridge: float, epsilon: float, radius: float = 1.0
) -> tuple[float, float, float, float]:
    """Return the worst response under Gaussian objective perturbation: (delta, response y, ends of
    the event).

    The pair is R e1 with response y, and R e1 with a response so far away that its slope is +L. Let
    r = R w - y. The noise along e1 is -ridge w - R l'(r) on one dataset and -ridge w - R L on the
    other; the densities carry the factors ridge + R^2 l''(r) and ridge. Losses above epsilon lie
    between two values of w. The search covers the curved part of the Huber loss, |r| <= h, and
    responses y up to eight standard deviations of the minimizer. If no loss exceeds epsilon, the
    returned delta is -1 and y is 0.
    """
    from scipy.special import ndtr

    r = loss.width * np.linspace(-1.0, 1.0, 401)
    slope, steepest = radius * loss.derivative(r, 0.0), radius * loss.lipschitz()
    jacobian = np.log1p(radius**2 * loss.second(r, 0.0) / ridge)
    best = (-1.0, 0.0, 0.0, 0.0)
    for y in np.linspace(0.0, 8 * deviation * radius / ridge, 400):
        w = (y + r) / radius
        near, far = ridge * w + slope, ridge * w + steepest
        above = np.flatnonzero((far**2 - near**2) / (2 * deviation**2) + jacobian > epsilon)
        if len(above) > 0:
            event = above[[0, -1]]
            mass = [-np.diff(ndtr(-side[event] / deviation))[0] for side in (near, far)]
            delta = float(mass[0] - math.exp(epsilon) * mass[1])
            best = max(best, (delta, float(y), float(w[event[0]]), float(w[event[1]])))
    return best


# -- perturbations
# --------------------------------------------------------------------------------------------------


def logistic_shift() -> float:
    """Return the largest shift of the logistic minimizer in d = 1, in units of 2/(n lambda) (claim
    CM-04).

    The shift is the supremum over W of (sig(W) + max over v in [0, 1] of v sig(-W v))/2.
    """
    w = np.linspace(0.0, 40.0, 4001)[:, None]
    v = np.linspace(0.0, 1.0, 2001)[None, :]
    return float(0.5 * (1 / (1 + np.exp(-w[:, 0])) + (v / (1 + np.exp(w * v))).max(axis=1)).max())


class OutputPerturbation(SampledByDraws, OutputPerturbationEnclosures):
    """Base class of the mechanisms that release the minimizer w* plus noise b, rounded to multiples
    of `grid`.
    """

    __slots__ = ()
    grid: float

    def draws(self, dataset: LabelledVectors) -> Draws:
        problem, noise = self._risk(dataset)
        return noise.draws(minimise(problem).w, self.grid)

    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density at each row of `outputs`, (size,): that of the noise at w -
        w*.
        """
        problem, noise = self._risk(dataset)
        return noise.log_density(
            unrounded(outputs, problem.dimension, self.grid) - minimise(problem).w
        )


class ObjectivePerturbation(ObjectivePerturbationEnclosures):
    """Base class of the mechanisms that release argmin F(w) + <b, w>, rounded to multiples of
    `grid`.
    """

    __slots__ = ()
    grid: float

    def sample(self, dataset: LabelledVectors, size: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` independent outputs, one per row.

        Raises ConvergenceError instead of returning an inexact row.
        """
        problem, noise = self._risk(dataset)
        # overwrites the noise
        return rounded(minimize_perturbed_risk(problem, noise.sample(size, rng)), self.grid)

    def log_density(self, outputs: FloatArray, dataset: LabelledVectors) -> FloatArray:
        """Return the exact log-density at each row of `outputs`: (size,).

        The log-density is that of the noise at b(w) = -grad F(w), plus log det Hess F(w), the
        Jacobian of the change of variables b -> w, which the papers omit. For the Huber loss the
        value holds almost everywhere, because its Hessian jumps.
        """
        problem, noise = self._risk(dataset)
        b, determinant = noise_for_minimizers(
            problem, unrounded(outputs, problem.dimension, self.grid)
        )
        return noise.log_density(b) + determinant


def rounded(rows: FloatArray, grid: float) -> FloatArray:
    """Return `rows`, rounded to multiples of `grid` if `grid` is positive.

    Rounding is post-processing, after which the low bits reveal no more than the rounded values.
    """
    return np.rint(rows / grid) * grid if grid > 0 else rows


def unrounded(outputs: FloatArray, dimension: int, grid: float) -> FloatArray:
    """Return the outputs as a float array of shape (size, dimension).

    Raises InvalidArgument if the shape is wrong, or if the mechanism rounds (`grid` > 0) and so has
    no density.
    """
    if grid > 0:
        raise InvalidArgument(
            f"log_density: grid must be 0, since rounded outputs have no density, got {grid!r}"
        )
    return output_rows(outputs, dimension, "log_density")


def largest_loss(
    loss: Loss, rate: float, radius: float, ridge: float, lipschitz: float
) -> tuple[float, float]:
    """Return the largest privacy loss of objective perturbation with Gamma-norm noise, and the r
    that attains it.

    The supremum is over r of rate R (|l'(r)| + L) + log(1 + R^2 l''(r) / ridge) (claims CM-06,
    JT-06). The noise terms of the two records add up if their gradients oppose each other, and the
    determinants differ by one rank-one term. Pairs whose second record is saturated approach the
    supremum.
    """
    near_zero = np.append(np.linspace(0.0, 3.0 * loss.width, 30_001), loss.width)
    wide = np.geomspace(1e-12, 60.0, 4001)
    r = np.concatenate([near_zero, -near_zero, wide, -wide])
    y = np.ones_like(r) if loss.binary or loss.name == "linear" else np.zeros_like(r)

    def loss_at(points: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the privacy loss at each r."""
        noise = rate * radius * (np.abs(loss.derivative(points, labels)) + lipschitz)
        return np.asarray(noise + np.log1p(radius**2 * loss.second(points, labels) / ridge))

    best = int(np.argmax(loss_at(r, y)))
    width = 1e-3 * max(1.0, abs(float(r[best])))
    # the grid brackets the maximum; three finer grids around it make the error far smaller than
    # rounding
    for _ in range(3):
        r = np.append(float(r[best]) + width * np.linspace(-1.0, 1.0, 2001), r[best])
        y = np.full_like(r, y[0])
        best, width = int(np.argmax(loss_at(r, y))), width / 500
    # In the limit, saturated records have the full slope and no curvature.
    value, limit = float(loss_at(r, y)[best]), 2.0 * rate * radius * lipschitz
    return (value, float(r[best])) if value >= limit else (limit, math.inf)


# -- the learner of predictions
# --------------------------------------------------------------------------------------------------


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
        checked_records(
            dataset,
            "KernelLearner",
            radius=self.bound,
            binary=self.loss.binary,
            label_bound=self.label_bound,
            records=self.records,
            dimension=self.dimension,
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
        label. Raise InvalidArgument unless 1 <= surplus <= n.

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
        return replaced(
            n,
            (position, label),
            (position, -label),
            "W6: one label turned over, |w* - w*'| as large as it gets",
            [(position, label, surplus - 1)],
            label,
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
    def truth(self) -> Truth | None:
        """Return None: no formula is known.

        The worst adaptive adversary of Algorithm 1 is known by dynamic programming only (JK-07).
        Algorithm 3 has counterexamples for the printed units, and a composition bound for the
        repaired units (JK-15).
        """
        return None

    @property
    def domain(self) -> LabelledBall:
        return self.learner.domain
