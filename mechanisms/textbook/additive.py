"""Additive noise: Laplace, geometric and Gaussian noise on one number, in floating point and on a
grid; and Laplace noise on several numbers at once.

Several numbers are a vector of answers; prefix sums, whose sensitivity is easily misjudged; and
histograms, whose noise must fit the neighboring relation.

Dwork, McSherry, Nissim and Smith (2006), Laplace; Ghosh, Roughgarden and Sundararajan (2009), the
geometric mechanism and its truncation; Balle and Wang (2018), the calibration of Gaussian noise;
Mironov (2012), why floating-point noise is treated separately.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from flint import arb

from dpwitness.core import GDP, Answers, ApproxDP, InvalidArgument, Pair, Records, Truth
from dpwitness.core.balls import profiles
from dpwitness.core.balls.law import (
    GeometricLaw,
    LaplaceLaw,
    LineLaw,
    LineLawEnclosures,
    NormalLaw,
    RoundedNormalLaw,
)
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.jit import jit
from dpwitness.core.numerics.laplace_laws import (
    as_integer_vector,
    as_vector,
    column,
    geometric_draws,
    geometric_log_cdf,
    geometric_log_mass,
    geometric_radius,
    laplace_draws,
    laplace_log_density,
)
from dpwitness.core.numerics.noise import GAUSSIAN_FROM_STATE
from dpwitness.core.protocols import FloatArray, available_if, one_law
from dpwitness.core.values.validation import require, require_integer
from dpwitness.mechanisms.textbook.zoo import PureMechanism

GRID = 2.0**-10  # a power of two: rounding to it, and adding multiples of it, is exact in binary


def _grid_steps(records: FloatArray) -> float:
    """Return the sum of the records in grid steps, each record rounded to the grid first.

    The sum is exact, since it adds whole numbers. Halves round upward: this commutes with whole
    shifts, as half-to-even does not, and so adds no sensitivity. A sum of floats would
    (Casacuberta, Shoemate, Vadhan and Wagaman 2022).
    """
    steps = records / GRID
    floors = np.floor(steps)
    return float((floors + (steps - floors >= 0.5)).sum())


class _NoisySum(SampledByDraws, LineLawEnclosures):
    """The sum of records in [0, sensitivity] with noise, in floating point or on a grid."""

    __slots__ = ()
    sensitivity: float
    arithmetic: str

    def _require_grid_multiple(self) -> None:
        if self.arithmetic == "grid" and not (self.sensitivity / GRID).is_integer():
            raise InvalidArgument(
                f"{type(self).__name__}: sensitivity must be a multiple of 2^-10 in grid "
                f"arithmetic, got {self.sensitivity!r}"
            )

    @property
    def domain(self) -> Records:
        return Records(1, 0.0, self.sensitivity, integer=self.arithmetic == "discrete")

    def worst_pair(self) -> Pair:
        """Return the pair whose record changes from one end of its range to the other."""
        return Pair(
            np.array([0.0]), np.array([self.sensitivity]), "replace-one", "the ends of the range"
        )

    def _center(self, dataset: Any) -> float:
        """Return the sum of the records; in grid and discrete arithmetic as a number of steps."""
        name = type(self).__name__
        if self.arithmetic == "discrete":
            return float(as_integer_vector(dataset, name).sum())
        records = as_vector(dataset, name)
        return float(records.sum()) if self.arithmetic == "float" else _grid_steps(records)

    @available_if(lambda self: self.arithmetic == "float")
    def breakpoints(self, dataset: Any) -> FloatArray:
        """Return the center, at which the density of Laplace noise is not smooth."""
        return np.array([self._center(dataset)])


@one_law
@dataclass(frozen=True, slots=True)
class Laplace(PureMechanism, _NoisySum):
    """The Laplace mechanism on the sum of the records.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter. Positive, finite.
    sensitivity : float
        Largest change of the sum by one record: records lie in [0, sensitivity].
    arithmetic : {"float", "grid", "discrete"}
        "float": float64 noise, whose low bits leak. "grid": records and noise on the grid of step
        2^-10, of which `sensitivity` is a multiple. "discrete": whole-number records, noise and
        `sensitivity`. The last two are discrete Laplace laws, exactly private.
    noise_multiplier : float
        Ratio of the noise scale to the correct one. Below 1 the claim is broken: the true epsilon
        is epsilon / noise_multiplier.
    """

    sensitivity: float = 1.0
    arithmetic: Literal["float", "grid", "discrete"] = "float"
    noise_multiplier: float = 1.0

    def __post_init__(self) -> None:
        require(self).positive("epsilon", "sensitivity", "noise_multiplier").one_of(
            "arithmetic", ["float", "grid", "discrete"]
        )
        self._require_grid_multiple()
        if self.arithmetic == "discrete":
            require_integer("sensitivity", self.sensitivity, "Laplace")

    @property
    def truth(self) -> Truth:
        """Return the true epsilon.

        The loss is |y - x| - |y - x'| over the scale: it equals sensitivity / scale at every y
        beyond both centers.
        """
        return Truth(
            self.epsilon / self.noise_multiplier,
            "Dwork et al. 2006, Proposition 1, with equality",
            self.arithmetic != "float",
        )

    @property
    def scale(self) -> float:
        return self.noise_multiplier * self.sensitivity / self.epsilon

    @property
    def _step(self) -> float:
        return GRID if self.arithmetic == "grid" else 1.0

    def draws(self, dataset: Any) -> Draws:
        center = self._center(dataset)
        if self.arithmetic == "float":
            return laplace_draws(np.array([center]), self.scale)
        return geometric_draws(center, self._step / self.scale, step=self._step)

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-density at each output, or in grid and discrete arithmetic the
        log-probability, of shape (size,).
        """
        center = self._center(dataset)
        if self.arithmetic == "float":
            return laplace_log_density(column(outputs) - center, self.scale)
        return geometric_log_mass(column(outputs) / self._step - center, self._step / self.scale)

    def _line_law(self, dataset: Any) -> LineLaw:
        """Return the output distribution on the real line, in ball arithmetic."""
        center, scale = self._center(dataset), arb(self.scale)
        return (
            LaplaceLaw(arb(center), scale)
            if self.arithmetic == "float"
            else GeometricLaw(center, self._step / scale, self._step)
        )

    def shift_ball(self, d1: Any, d0: Any) -> profiles.ShiftProfile | None:
        """Return the pair as a shift of continuous noise; None in discrete arithmetic."""
        shift = abs(arb(self._center(d1)) - self._center(d0)) / self.scale
        return profiles.LaplaceProfile(shift) if self.arithmetic == "float" else None

    @available_if(lambda self: self.arithmetic != "float")
    def support(self, dataset: Any) -> FloatArray:
        """Return the outputs whose probability is not negligible, of shape (n, 1)."""
        reach = geometric_radius(self._step / self.scale)
        return ((self._center(dataset) + np.arange(-reach, reach + 1.0)) * self._step)[:, None]


@one_law
@dataclass(frozen=True, slots=True)
class Geometric(PureMechanism, SampledByDraws, LineLawEnclosures):
    """The two-sided geometric mechanism on the number of ones among the records.

    Ghosh, Roughgarden and Sundararajan (2009), with alpha = e^-epsilon: P(noise = k) = (1 - alpha)
    / (1 + alpha) alpha^|k|.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter. Positive, finite.
    records : int
        Number of records, each 0 or 1.
    """

    records: int = 5

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("records")

    @property
    def truth(self) -> Truth:
        return Truth(
            self.epsilon,
            "Ghosh et al. 2009: neighbouring masses differ by the factor alpha exactly",
        )

    @property
    def domain(self) -> Records:
        return Records(self.records, 0.0, 1.0, integer=True)

    def worst_pair(self) -> Pair:
        """Return a pair of datasets with 0 ones and 1 one."""
        return _adjacent_counts_pair(self.records, 0)

    def _count(self, dataset: Any) -> float:
        """Return the number of ones."""
        return float(as_integer_vector(dataset, type(self).__name__).sum())

    def draws(self, dataset: Any) -> Draws:
        return geometric_draws(self._count(dataset), self.epsilon)

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-probability of each output, of shape (size,)."""
        return geometric_log_mass(column(outputs) - self._count(dataset), self.epsilon)

    def _line_law(self, dataset: Any) -> LineLaw:
        """Return the output distribution on the real line, in ball arithmetic."""
        return GeometricLaw(self._count(dataset), arb(self.epsilon))

    def support(self, dataset: Any) -> FloatArray:
        """Return the outputs whose probability is not negligible, of shape (n, 1)."""
        reach = geometric_radius(self.epsilon)
        return np.asarray((self._count(dataset) + np.arange(-reach, reach + 1.0))[:, None])


@one_law
@dataclass(frozen=True, slots=True)
class TruncatedGeometric(Geometric):
    """The truncated geometric mechanism: `Geometric` with its output clamped to [low, high].

    Ghosh, Roughgarden and Sundararajan (2009), with a range that may be narrower than that of the
    count.

    Parameters
    ----------
    epsilon, records
        As for `Geometric`.
    low, high : int
        Smallest and largest output, 0 <= low < high <= records.
    """

    low: int = 0
    high: int = 5

    def __post_init__(self) -> None:
        Geometric.__post_init__(self)
        require(self).integer("high", most=self.records).integer("low", least=0, most=self.high - 1)

    @property
    def truth(self) -> Truth:
        """Return the true epsilon.

        Clamping is post-processing. P(output = low) falls by the factor e^-epsilon exactly as the
        count goes from low to low + 1.
        """
        return Truth(
            self.epsilon,
            "Ghosh et al. 2009: the lower end's mass is alpha^(count - low) / (1 + alpha)",
        )

    def worst_pair(self) -> Pair:
        """Return a pair of datasets with `low` ones and one more."""
        return _adjacent_counts_pair(self.records, self.low)

    def draws(self, dataset: Any) -> Draws:
        return geometric_draws(self._count(dataset), self.epsilon, self.low, self.high)

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-probability of each output, of shape (size,)."""
        y, count = column(outputs), self._count(dataset)
        inside = np.where(
            (y > self.low) & (y < self.high), geometric_log_mass(y - count, self.epsilon), -np.inf
        )
        at_low = geometric_log_cdf(self.low - count, self.epsilon)
        at_high = geometric_log_cdf(count - self.high, self.epsilon)  # the law is symmetric
        return np.where(y == self.low, at_low, np.where(y == self.high, at_high, inside))

    def _line_law(self, dataset: Any) -> LineLaw:
        """Return the output distribution on the real line, in ball arithmetic."""
        return GeometricLaw(self._count(dataset), arb(self.epsilon), 1.0, self.low, self.high)

    def support(self, dataset: Any) -> FloatArray:
        """Return all outputs, of shape (high - low + 1, 1)."""
        return np.arange(self.low, self.high + 1.0)[:, None]


def _adjacent_counts_pair(records: int, ones: int) -> Pair:
    """Return the pair of datasets with `ones` ones and with `ones` + 1 ones."""
    d0 = (np.arange(records) < ones).astype(float)
    return Pair(
        d0,
        (np.arange(records) < ones + 1).astype(float),
        "replace-one",
        f"{ones} ones against {ones + 1}",
    )


def smallest_epsilon(excess: Callable[[float], float]) -> float:
    """Return the root of a decreasing function of epsilon, or 0 if the function is not positive
    at 0.
    """
    from scipy.optimize import brentq

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2.0
    return float(brentq(excess, 0.0, high, xtol=1e-13, rtol=1e-13))


@lru_cache(maxsize=256)
def shift_over_sigma(epsilon: float, delta: float) -> float:
    """Return mu = sensitivity / sigma at which Gaussian noise is exactly (epsilon, delta)-DP.

    Balle and Wang 2018, Theorem 8, Algorithm 1.
    """
    from scipy.optimize import brentq

    def excess(log_mu: float) -> float:
        return float(GDP(math.exp(log_mu)).delta(epsilon)) - delta

    high = 0.0
    while excess(high) < 0:
        high += 1.0
    low = min(high, 0.0) - 1.0
    while excess(low) > 0:
        low -= 1.0
    return math.exp(brentq(excess, low, high, xtol=1e-15, rtol=1e-15))


@lru_cache(maxsize=256)
def epsilon_of_shift(mu: float, delta: float, steps: int) -> float:
    """Return the smallest epsilon at `delta` of N(0, 1) shifted by `mu`, rounded to multiples of mu
    / steps (steps = 0: not rounded).

    Rounded normals are a monotone likelihood-ratio family, so the best events are the upper tails
    {k >= t}. The ratio at k lies between the unrounded ratios at k - 1/2 and k + 1/2, so the best t
    lies within 2 steps of the unrounded threshold.
    """
    from scipy.special import log_ndtr, ndtr

    def excess(epsilon: float) -> float:
        if steps == 0:
            return float(GDP(mu).delta(epsilon)) - delta
        best = np.rint((epsilon / mu + mu / 2) * steps / mu)
        tails = (best + np.arange(-3.0, 4.0) - 0.5) * mu / steps
        return float(np.max(ndtr(mu - tails) - np.exp(epsilon + log_ndtr(-tails)))) - delta

    return smallest_epsilon(excess)


@jit
def fill_gaussian(
    center: float, sigma: float, step: float, out: FloatArray, rng: np.random.Generator
) -> None:
    """Fill `out` with center + N(0, sigma^2) in each row.

    For a positive `step` the noise is rounded to a multiple of `step`, and `center` is a number of
    steps.
    """
    for i in range(len(out)):
        noise = sigma * rng.standard_normal()
        out[i, 0] = (center + np.floor(noise / step + 0.5)) * step if step > 0 else center + noise


@one_law
@dataclass(frozen=True, slots=True)
class Gaussian(_NoisySum):
    """The Gaussian mechanism on the sum of the records, with the smallest sigma that satisfies the
    claim.

    Balle and Wang (2018), Theorem 8: (epsilon, delta)-DP iff Phi(s / 2 sigma - epsilon sigma / s) -
    e^epsilon Phi(-s / 2 sigma - epsilon sigma / s) <= delta, s the sensitivity.

    Parameters
    ----------
    epsilon, delta : float
        Claimed privacy parameters.
    sensitivity : float
        Largest change of the sum by one record: records lie in [0, sensitivity].
    noise_multiplier : float
        Ratio of the noise's standard deviation to the correct one. Below 1 the claim is broken.
    arithmetic : {"float", "grid"}
        "float": float64 noise, whose low bits leak. "grid": records and noise rounded to the grid
        of step 2^-10, of which `sensitivity` is a multiple.
    """

    epsilon: float
    delta: float
    sensitivity: float = 1.0
    noise_multiplier: float = 1.0
    arithmetic: Literal["float", "grid"] = "float"

    def __post_init__(self) -> None:
        require(self).positive("epsilon", "sensitivity", "noise_multiplier").probability(
            "delta"
        ).one_of("arithmetic", ["float", "grid"])
        self._require_grid_multiple()

    @property
    def claim(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta)

    @property
    def truth(self) -> Truth:
        """Return the true epsilon at the claimed delta.

        On the grid it is slightly below the value for floats, since rounding a shifted normal is
        post-processing.
        """
        steps = round(self.sensitivity / GRID) if self.arithmetic == "grid" else 0
        return Truth(
            epsilon_of_shift(self.sensitivity / self.sigma, self.delta, steps),
            "Balle and Wang 2018, Theorem 8, solved for epsilon; over all tails on the grid",
            self.arithmetic != "float",
        )

    @property
    def sigma(self) -> float:
        return self.noise_multiplier * self.sensitivity / shift_over_sigma(self.epsilon, self.delta)

    def draws(self, dataset: Any) -> Draws:
        return Draws(
            fill_gaussian,
            (self._center(dataset), self.sigma, GRID * (self.arithmetic == "grid")),
            1,
            GAUSSIAN_FROM_STATE,
        )

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-density at each output, or on the grid the log-probability, of shape
        (size,).
        """
        from scipy.special import log_ndtr

        y, center = column(outputs), self._center(dataset)
        if self.arithmetic == "float":
            return np.asarray(
                -0.5 * ((y - center) / self.sigma) ** 2
                - math.log(self.sigma * math.sqrt(2 * math.pi))
            )
        k = y / GRID - center
        upper, lower = (log_ndtr((shift - np.abs(k)) * GRID / self.sigma) for shift in (0.5, -0.5))
        return np.where(k == np.rint(k), upper + np.log(-np.expm1(lower - upper)), -np.inf)

    def _line_law(self, dataset: Any) -> LineLaw:
        """Return the output distribution on the real line, in ball arithmetic."""
        center, sigma = self._center(dataset), arb(self.sigma)
        return (
            NormalLaw(arb(center), sigma)
            if self.arithmetic == "float"
            else RoundedNormalLaw(center, sigma, GRID)
        )

    def shift_ball(self, d1: Any, d0: Any) -> profiles.ShiftProfile | None:
        """Return the pair as a shift of continuous noise; None in discrete arithmetic."""
        shift = abs(arb(self._center(d1)) - self._center(d0)) / self.sigma
        return profiles.GaussianProfile(shift) if self.arithmetic == "float" else None

    @available_if(lambda self: self.arithmetic == "grid")
    def support(self, dataset: Any) -> FloatArray:
        """Return the outputs whose probability is not negligible, of shape (n, 1)."""
        reach = math.ceil(8.5 * self.sigma / GRID)  # 2 Phi(-8.5) = 2e-17
        return ((self._center(dataset) + np.arange(-reach, reach + 1.0)) * GRID)[:, None]


LaplaceFactor = tuple[Laplace, FloatArray, FloatArray]


class _NoisyVector(PureMechanism, SampledByDraws, ABC):
    """Independent Laplace noise of one scale on each entry of a function of the dataset."""

    __slots__ = ()

    @property
    @abstractmethod
    def scale(self) -> float:
        """Return the scale of the noise."""

    @abstractmethod
    def _center(self, dataset: Any) -> FloatArray:
        """Return the exact entries."""

    def draws(self, dataset: Any) -> Draws:
        return laplace_draws(self._center(dataset), self.scale)

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-density at each row of `outputs`, of shape (size,)."""
        return np.asarray(
            laplace_log_density(outputs - self._center(dataset), self.scale).sum(axis=1)
        )

    def factors(self, d0: Any, d1: Any) -> list[LaplaceFactor]:
        """Return the entries as independent mechanisms on one number, each with its two centers."""
        entry, first, second = Laplace(1.0 / self.scale), self._center(d0), self._center(d1)
        return [(entry, np.array([a]), np.array([b])) for a, b in zip(first, second, strict=True)]


@one_law
@dataclass(frozen=True, slots=True)
class LaplaceVector(_NoisyVector):
    """The Laplace mechanism on a vector of answers with L1 sensitivity 1.

    Dwork, McSherry, Nissim and Smith (2006), Proposition 1.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter. Positive, finite.
    length : int
        Number of answers.
    """

    length: int = 20

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("length")

    @property
    def truth(self) -> Truth:
        """Return the true epsilon.

        The loss is epsilon (|y - x|_1 - |y - x'|_1) <= epsilon |x - x'|_1. Equality holds at every
        y beyond both centers in all coordinates.
        """
        return Truth(
            self.epsilon, "Dwork et al. 2006, Proposition 1, with equality", bits_safe=False
        )

    @property
    def domain(self) -> Answers:
        return Answers(self.length, relation="l1")

    @property
    def scale(self) -> float:
        return 1.0 / self.epsilon

    def worst_pair(self) -> Pair:
        """Return the pair that shifts one coordinate by 1.

        The largest loss is also the most likely one on this pair: it has half of the probability
        mass.
        """
        return Pair(
            np.zeros(self.length),
            (np.arange(self.length) == 0).astype(float),
            "l1",
            "one answer moves by 1",
        )

    def spread_pair(self) -> Pair:
        """Return the pair that spreads the same shift evenly over all coordinates.

        Its epsilon is the same, attained only where all coordinates lie beyond both centers.
        """
        return Pair(
            np.zeros(self.length),
            np.full(self.length, 1.0 / self.length),
            "l1",
            "every answer moves by 1 / length",
        )

    def _center(self, dataset: Any) -> FloatArray:
        return as_vector(dataset, "LaplaceVector", self.length)


@one_law
@dataclass(frozen=True, slots=True)
class PrefixSums(_NoisyVector):
    """All prefix sums of the records, each with independent Laplace noise.

    Replacing the first record changes all sums: the L1 sensitivity is `length`. Noise for
    sensitivity 1, as though every sum were the only release, breaks the claim by that factor
    (PrefixSum in Bichsel et al. 2021's benchmark).

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter. Positive, finite.
    length : int
        Number of records, each in [0, 1], and of sums.
    calibrated : bool
        True for the correct noise scale length / epsilon, False for 1 / epsilon.
    """

    length: int = 10
    calibrated: bool = True

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("length").one_of("calibrated", [True, False])

    @property
    def truth(self) -> Truth:
        """Return the true epsilon.

        Every sum moves by 1 when the first record goes from 0 to 1: the loss is length / scale
        where all noisy sums exceed the true sums.
        """
        return Truth(
            self.length / self.scale,
            "L1 sensitivity over the scale of the noise, reached",
            bits_safe=False,
        )

    @property
    def domain(self) -> Records:
        return Records(self.length, 0.0, 1.0)

    @property
    def scale(self) -> float:
        return (self.length if self.calibrated else 1) / self.epsilon

    def worst_pair(self) -> Pair:
        """Return the pair whose first record changes from 0 to 1, which moves every sum."""
        return Pair(
            np.zeros(self.length),
            (np.arange(self.length) == 0).astype(float),
            "replace-one",
            "the first record moves every sum",
        )

    def _center(self, dataset: Any) -> FloatArray:
        """Return the exact prefix sums of the records."""
        return np.asarray(np.cumsum(as_vector(dataset, "PrefixSums", self.length)))


@one_law
@dataclass(frozen=True, slots=True)
class NoisyHistogram(_NoisyVector):
    """Counts of the records per category, each with Laplace noise.

    An example of Dwork, McSherry, Nissim and Smith (2006). Replacing one record moves two counts by
    1, L1 sensitivity 2. Adding or removing one record moves one count by 1, L1 sensitivity 1.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter. Positive, finite.
    bins : int
        Number of categories; records are 0 .. bins - 1.
    relation : {"replace-one", "add-remove"}
        Neighboring relation of the claim.
    noise : {"calibrated", "one count", "inverted"}
        Scale of the noise. "calibrated": sensitivity / epsilon. "one count": 1 / epsilon, which
        ignores the second count under replace-one. "inverted": epsilon in place of 1 / epsilon (the
        wrong histogram of Ding et al. 2018), which breaks the claim if epsilon^2 < sensitivity.
    """

    bins: int = 5
    relation: Literal["replace-one", "add-remove"] = "replace-one"
    noise: Literal["calibrated", "one count", "inverted"] = "calibrated"

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("bins", least=2).one_of(
            "relation", ["replace-one", "add-remove"]
        ).one_of("noise", ["calibrated", "one count", "inverted"])

    @property
    def truth(self) -> Truth:
        """Return the true epsilon: the losses of the moved counts add up, and all attain 1 / scale
        together.
        """
        return Truth(
            self._sensitivity / self.scale,
            "L1 sensitivity over the scale of the noise, reached",
            bits_safe=False,
        )

    @property
    def domain(self) -> Records:
        return Records(self.bins, 0.0, self.bins - 1.0, integer=True, relation=self.relation)

    @property
    def _sensitivity(self) -> float:
        return 2.0 if self.relation == "replace-one" else 1.0

    @property
    def scale(self) -> float:
        return {
            "calibrated": self._sensitivity / self.epsilon,
            "one count": 1.0 / self.epsilon,
            "inverted": self.epsilon,
        }[self.noise]

    def worst_pair(self) -> Pair:
        """Return the pair in which one record leaves category 0."""
        records = np.arange(self.bins, dtype=float)
        if self.relation == "add-remove":
            return Pair(records, records[1:], self.relation, "one record of category 0 removed")
        return Pair(
            records,
            np.where(records == 0, 1.0, records),
            self.relation,
            "one record moves from category 0 to category 1",
        )

    def _center(self, dataset: Any) -> FloatArray:
        """Return the exact count of each category; raise InvalidArgument for a record outside of 0
        .. bins - 1.
        """
        records = as_integer_vector(dataset, "NoisyHistogram")
        if records.size and not (records.min() >= 0 and records.max() < self.bins):
            raise InvalidArgument(
                f"NoisyHistogram: records must lie between 0 and {self.bins - 1}, got "
                f"{records.tolist()!r}"
            )
        return np.bincount(records.astype(np.int64), minlength=self.bins).astype(np.float64)


def specimens() -> dict[str, Any]:
    """Return the mechanisms of the zoo."""
    return {
        "laplace": Laplace(1.0),
        "laplace-grid": Laplace(1.0, arithmetic="grid"),
        "laplace-discrete": Laplace(1.0, arithmetic="discrete"),
        "laplace-0.9": Laplace(1.0, arithmetic="grid", noise_multiplier=0.9),
        "geometric": Geometric(1.0),
        "truncated-geometric": TruncatedGeometric(1.0),
        "gaussian": Gaussian(1.0, 1e-5),
        "gaussian-grid": Gaussian(1.0, 1e-5, arithmetic="grid"),
        "gaussian-0.8": Gaussian(1.0, 1e-5, noise_multiplier=0.8, arithmetic="grid"),
        "laplace-vector": LaplaceVector(1.0),
        "prefix-sums": PrefixSums(1.0),
        "prefix-sums-uncalibrated": PrefixSums(1.0, calibrated=False),
        "histogram": NoisyHistogram(1.0),
        "histogram-one-count": NoisyHistogram(1.0, noise="one count"),
        "histogram-wrong-scale": NoisyHistogram(0.5, noise="inverted"),
    }
