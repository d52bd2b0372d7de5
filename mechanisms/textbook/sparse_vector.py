"""The sparse vector technique: the six variants compared by Lyu, Su and Li, AboveThreshold, and a
benchmark without a cut-off.

Lyu, Su and Li (2017), "Understanding the Sparse Vector Technique for Differential Privacy", Figures
1 and 2. Dwork and Roth (2014), Algorithm 1 (AboveThreshold).

Answers lie in [0, 1] and each moves by at most 1, in either direction. An output row has one entry
per query: 1 above, 0 below, -1 not asked after the halt. Variant 3 has the released number in place
of 1. `truth` is exact for this domain and number of queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from dpwitness.core import Answers, InvalidArgument, Pair, Truth
from dpwitness.core.balls.ball import Ball, Box, FiniteSupport
from dpwitness.core.balls.threshold import pattern_masses
from dpwitness.core.numerics import threshold_law
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.laplace_laws import as_vector
from dpwitness.core.numerics.threshold_law import ABOVE, BELOW, ThresholdNoise
from dpwitness.core.protocols.capabilities import one_law
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.protocols.optional_methods import available_if
from dpwitness.core.values.validation import require
from dpwitness.mechanisms.textbook.zoo import PureMechanism

_MAX_PATTERNS = 1 << 16


@dataclass(frozen=True, slots=True)
class _ThresholdTest(PureMechanism, SampledByDraws, FiniteSupport):
    """Base of the sparse vector mechanisms: common fields and methods. Each subclass
    sets `noise`.
    """

    length: int = 10
    threshold: float = 0.0

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("length", least=2).finite("threshold")

    @property
    def noise(self) -> ThresholdNoise:
        """Return the noise scales, the cut-off and the flags of the variant."""
        raise NotImplementedError

    @property
    def domain(self) -> Answers:
        return Answers(self.length, 0.0, 1.0, "linf")

    @property
    def truth(self) -> Truth:
        return self._truth_by_quadrature()

    def _truth_by_quadrature(self) -> Truth:
        """Return the true epsilon, computed by quadrature for the worst pattern of calls."""
        epsilon, _ = threshold_law.worst_pattern(self.length, self.threshold, self.noise)
        return Truth(
            epsilon, "quadrature over the noisy threshold at the extreme pair, best of all patterns"
        )

    def worst_pair(self) -> Pair:
        """Return the pair that opposes the worst pattern of calls.

        Queries called below in that pattern fall from 1 to 0; queries called above rise from 0 to
        1.
        """
        _, pattern = threshold_law.worst_pattern(self.length, self.threshold, self.noise)
        calls = np.array(pattern)
        return Pair(
            (calls == BELOW).astype(float),
            (calls == ABOVE).astype(float),
            "linf",
            "every answer at the end that its call opposes",
        )

    def _answers(self, dataset: Any) -> FloatArray:
        """Return the dataset as a vector of `length` floats; raise InvalidArgument for anything
        else.
        """
        return as_vector(dataset, type(self).__name__, self.length)

    def draws(self, dataset: Any) -> Draws:
        """Return the sampler of the answer rows on `dataset`."""
        return Draws(
            threshold_law.fill_calls,
            (self._answers(dataset), float(self.threshold), *self.noise),
            self.length,
        )

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-probability of each row, of shape (size,); for variant 3 the log-density
        in its released numbers.
        """
        return threshold_law.log_density(
            outputs, self._answers(dataset), self.threshold, self.noise
        )

    @available_if(
        lambda self: not self.noise.release and _enumerable(self.length, self.noise.cutoff)
    )
    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Enclose the log-probability of the answer row in each box."""
        masses = pattern_masses(
            [[low for low, _ in box] for box in boxes],
            self._answers(dataset).tolist(),
            self.threshold,
            self.noise,
        )
        return [arb("-inf") if mass.is_exact() and mass == 0 else mass.log() for mass in masses]

    @available_if(
        lambda self: not self.noise.release and _enumerable(self.length, self.noise.cutoff)
    )
    def support(self, dataset: Any) -> FloatArray:
        """Return all possible output rows."""
        return threshold_law.patterns(self.length, self.noise.cutoff)


def _enumerable(length: int, cutoff: int) -> bool:
    """Return whether the number of patterns of calls is small enough to list all of them."""
    return (
        sum(math.comb(length, above) for above in range(min(cutoff, length) + 1)) <= _MAX_PATTERNS
    )


@one_law
@dataclass(frozen=True, slots=True)
class SparseVector(_ThresholdTest):
    """One of the six sparse vector variants of Lyu, Su and Li (2017), Figure 1. All claim
    epsilon-DP; only variants 1 and 2 satisfy it.

    ======= =================== ========= ======= ===== ======= ===================================
    variant source              threshold query   reset cut-off true epsilon, any number of queries
    ======= =================== ========= ======= ===== ======= ===================================
    1       Lyu et al. 2017     1 / e1    2c / e2 no    yes     epsilon
    2       Dwork and Roth 2014 c / e1    2c / e2 yes   yes     epsilon
    3       Roth 2011           1 / e1    c / e2  no    yes     infinite: releases the noisy answer
    4       Lee and Clifton '14 1 / e1    1 / e2  no    yes     (1 + 6c) / 4 epsilon
    5       Stoddard et al. '14 1 / e1    none    no    no      infinite, from two queries on
    6       Chen et al. 2015    1 / e1    1 / e2  no    no      grows with the number of queries
    ======= =================== ========= ======= ===== ======= ===================================

    The columns threshold and query are the scales of the Laplace noise of both. e1 = epsilon / 2
    (variant 4: epsilon / 4), e2 = epsilon - e1, c the cut-off; sensitivity 1, general
    (non-monotonic) queries.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter of the whole output. Positive, finite.
    length : int
        Number of queries, at least 2.
    threshold : float
        T, the same for all queries.
    variant : int
        1 to 6.
    cutoff : int
        c: halt after `cutoff` calls above. Variants 5 and 6 have no cut-off and ignore the value.

    Notes
    -----
    *Variant 3.* A run that calls some queries below and releases a number a for another has density
    prod g(a - q) times the integral over z <= a of f(z - T) prod F(z - q_i). Each of the `length`
    factors moves by at most e^(1/s) between neighbors, s = c / e2, so the true epsilon is at most
    length / s. All answers falling from 1 to 0 attain this bound for a <= 0: there every factor is
    a pure exponential. The true epsilon is finite for a fixed number of queries, and proportional
    to that number.

    *Variant 5.* With answers (0, 1, ...) "above, below" needs 0 >= Z > 1; with (1, 0, ...) it has
    positive probability.
    """

    variant: int = 1
    cutoff: int = 2

    def __post_init__(self) -> None:
        _ThresholdTest.__post_init__(self)
        require(self).one_of("variant", [1, 2, 3, 4, 5, 6]).integer("cutoff")
        if self.cutoff > self.length:
            raise InvalidArgument(
                f"SparseVector: cutoff must be at most length, {self.length}, got {self.cutoff!r}"
            )

    @property
    def noise(self) -> ThresholdNoise:
        first = self.epsilon / (4 if self.variant == 4 else 2)
        second, c, no_cutoff = self.epsilon - first, self.cutoff, self.length + 1
        return {
            1: ThresholdNoise(1 / first, 2 * c / second, c),
            2: ThresholdNoise(c / first, 2 * c / second, c, reset=True),
            3: ThresholdNoise(1 / first, c / second, c, release=True),
            4: ThresholdNoise(1 / first, 1 / second, c),
            5: ThresholdNoise(1 / first, 0.0, no_cutoff),
            6: ThresholdNoise(1 / first, 1 / second, no_cutoff),
        }[self.variant]

    @property
    def truth(self) -> Truth:
        """Return the true epsilon: in closed form for variants 3 and 5, by quadrature for the
        others.
        """
        if self.variant == 3:
            return Truth(
                self.length / self.noise.query,
                "length / s, reached (see Notes); grows with the number of queries",
                bits_safe=False,
            )
        if self.variant == 5:
            return Truth(math.inf, "Lyu, Su and Li 2017: an output possible for one neighbour only")
        return self._truth_by_quadrature()

    def worst_pair(self) -> Pair:
        """Return the pair on which the true epsilon of the variant is attained."""
        if self.variant == 3:
            return Pair(
                np.ones(self.length), np.zeros(self.length), "linf", "all answers fall by 1"
            )
        if self.variant == 5:
            return Pair(
                (np.arange(self.length) == 1).astype(float),
                (np.arange(self.length) == 0).astype(float),
                "linf",
                "'above, below' is possible for one only",
            )
        return _ThresholdTest.worst_pair(self)


@one_law
@dataclass(frozen=True, slots=True)
class AboveThreshold(_ThresholdTest):
    """The AboveThreshold mechanism: threshold noise 2 / epsilon, query noise 4 / epsilon, halt at
    the first call above.

    Dwork and Roth (2014), Algorithm 1 and Theorem 3.23.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter. Positive, finite.
    length : int
        Number of queries, at least 2.
    threshold : float
        T.
    """

    @property
    def noise(self) -> ThresholdNoise:
        return ThresholdNoise(2 / self.epsilon, 4 / self.epsilon, 1)


@one_law
@dataclass(frozen=True, slots=True)
class BrokenSparseVector(_ThresholdTest):
    """A broken sparse vector mechanism without a cut-off: threshold noise 2 / epsilon, query noise
    2 / epsilon, one bit per query.

    This is variant 6 as a benchmark of auditors. For ten queries and threshold 0 the worst pattern
    is five calls below and five above, on (1 x 5, 0 x 5) against (0 x 5, 1 x 5).

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter, which is broken. Positive, finite.
    length : int
        Number of queries, at least 2.
    threshold : float
        T.
    """

    @property
    def noise(self) -> ThresholdNoise:
        return ThresholdNoise(2 / self.epsilon, 2 / self.epsilon, self.length + 1)


def specimens() -> dict[str, Any]:
    """Return the mechanisms of the zoo."""
    return {
        "above-threshold": AboveThreshold(1.0),
        **{f"svt{variant}": SparseVector(1.0, variant=variant) for variant in range(1, 7)},
        "broken-svt": BrokenSparseVector(1.0),
    }
