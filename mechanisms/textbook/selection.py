"""Comparisons of noisy answers: selection of the best of several queries, and the sparse vector
technique.

*Selection.* Exponential mechanism, permute-and-flip, report noisy max, and the leak of its noisy
value: McSherry and Talwar (2007); McKenna and Sheldon (2020); Dwork and Roth (2014), section 3.3;
Ding et al. (2018) for the wrong variants. Every query moves by at most 1, in either direction
("linf"). The output distribution depends on differences of answers, so their bounds matter: `truth`
is the supremum over answers in [low, high].

*Sparse vector.* The six variants compared by Lyu, Su and Li (2017), "Understanding the Sparse
Vector Technique for Differential Privacy", Figures 1 and 2; AboveThreshold of Dwork and Roth
(2014), Algorithm 1; and a benchmark without a cut-off. Answers lie in [0, 1] and each moves by at
most 1, in either direction. An output row has one entry per query: 1 above, 0 below, -1 not asked
after the halt. Variant 3 has the released number in place of 1. `truth` is exact for this domain
and number of queries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from flint import arb

from dpwitness.core import Answers, InvalidArgument, Pair, Truth
from dpwitness.core.balls.ball import (
    Ball,
    Box,
    FiniteSupport,
    Span,
    log_mass_of_index,
    product,
    softmax,
)
from dpwitness.core.balls.maximum import max_interval_mass, max_log_density, max_loss
from dpwitness.core.balls.threshold import pattern_masses, threshold_mass
from dpwitness.core.numerics import threshold_law
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.jit import jit
from dpwitness.core.numerics.laplace_laws import (
    as_vector,
    column,
    fair_coins,
    laplace_log_cdf,
    laplace_log_density,
    laplace_nodes,
    standard_laplace,
)
from dpwitness.core.numerics.threshold_law import ABOVE, BELOW, ThresholdNoise
from dpwitness.core.protocols import FloatArray, available_if, one_law
from dpwitness.core.values.validation import require
from dpwitness.mechanisms.textbook.categorical import index_draws, sum_of_entries
from dpwitness.mechanisms.textbook.zoo import PureMechanism


@dataclass(frozen=True, slots=True)
class _Selection(PureMechanism, SampledByDraws, FiniteSupport, ABC):
    """Base of the selection mechanisms: their parameters, their domain, and the distribution of a
    released index.
    """

    queries: int = 5
    low: float = -5.0
    high: float = 5.0

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("queries", least=2).finite("low", "high")
        if not self.high - self.low >= 2:
            raise InvalidArgument(
                f"{type(self).__name__}: high - low must be at least 2, got "
                f"{self.high - self.low!r}"
            )

    @property
    def domain(self) -> Answers:
        return Answers(self.queries, self.low, self.high, "linf")

    def worst_pair(self) -> Pair:
        """Return the pair on which query 0 rises from the lower bound while the others fall from
        the upper bound.
        """
        return self._rising_pair(self.high, "query 0 at the lower end, the others at the upper end")

    def _rising_pair(self, high: float, why: str) -> Pair:
        """Return a pair in which query 0 starts at the lower bound and the others at `high`, then
        query 0 rises by 1 and each other falls by 1.
        """
        first = np.arange(self.queries) == 0
        return Pair(
            np.where(first, self.low, high), np.where(first, self.low + 1, high - 1), "linf", why
        )

    def _answers(self, dataset: Any) -> FloatArray:
        """Return the dataset as a vector of `queries` floats; raise InvalidArgument for anything
        else.
        """
        return as_vector(dataset, type(self).__name__, self.queries)

    @abstractmethod
    def _log_mass(self, answers: FloatArray) -> FloatArray:
        """Return the log-probabilities of the indices 0 .. queries - 1."""

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-probability of each index in `outputs`, of shape (size,)."""
        return sum_of_entries(
            self._log_mass(self._answers(dataset))[None], column(outputs)[:, None]
        )

    @abstractmethod
    def _log_mass_balls(self, answers: list[Ball]) -> list[Ball]:
        """Enclose the log-probabilities of the indices 0 .. queries - 1, given the answers as
        balls.
        """

    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Enclose the log-probability of the index in each box."""
        return log_mass_of_index(
            self._log_mass_balls([arb(q) for q in self._answers(dataset).tolist()]), boxes
        )

    def support(self, dataset: Any) -> FloatArray:
        """Return all indices, of shape (queries, 1)."""
        return np.arange(float(self.queries))[:, None]


@one_law
@dataclass(frozen=True, slots=True)
class ExponentialMechanism(_Selection):
    """The exponential mechanism: release index i with probability proportional to e^(epsilon q_i /
    2).

    McSherry and Talwar (2007), Theorem 6.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter. Positive, finite.
    queries : int
        Number of queries.
    low, high : float
        Bounds of the answers, at least 2 apart.
    """

    @property
    def truth(self) -> Truth:
        """Return the true epsilon.

        Index i gains epsilon/2 itself and ln(S / S') through the normalizer S = e^(epsilon q_i / 2)
        + R. As q_i rises by 1 and the rest fall by 1, S / S' = (r + 1) / (r e^(epsilon/2) +
        e^(-epsilon/2)), r = e^(epsilon q_i / 2) / R. The ratio decreases in r, so the supremum has
        q_i = low and the others high. The supremum tends to epsilon as high - low grows.
        """
        half = self.epsilon / 2
        r = math.exp(-half * (self.high - self.low)) / (self.queries - 1)
        return Truth(
            half + math.log((r + 1) / (r * math.exp(half) + math.exp(-half))),
            "McSherry and Talwar 2007, Theorem 6, with the exact normalisers at the ends of "
            "the range",
        )

    def draws(self, dataset: Any) -> Draws:
        """Return the sampler of the indices on `dataset`."""
        return index_draws(self._log_mass(self._answers(dataset))[None])

    def _log_mass(self, answers: FloatArray) -> FloatArray:
        weights = self.epsilon / 2 * (answers - answers.max())
        return np.asarray(weights - np.log(np.exp(weights).sum()))

    def _log_mass_balls(self, answers: list[Ball]) -> list[Ball]:
        return softmax([arb(self.epsilon) / 2 * q for q in answers])


@jit
def fill_permute_and_flip(heads: FloatArray, out: FloatArray, rng: np.random.Generator) -> None:
    """Fill `out` with indices: in random order, flip a coin with `heads[i]` for each index, and
    stop at the first head.
    """
    order = np.arange(heads.size)
    for i in range(len(out)):
        remaining = heads.size
        # reset in each row, so that rows do not depend on where a block begins
        for j in range(remaining):
            order[j] = j
        # an index of the largest answer has heads = 1, so this ends before `left` reaches 0
        while True:
            j = int(rng.random() * remaining)
            k = order[j]
            if rng.random() < heads[k]:
                out[i, 0] = k
                break
            remaining -= 1
            order[j], order[remaining] = order[remaining], k


@one_law
@dataclass(frozen=True, slots=True)
class PermuteAndFlip(_Selection):
    """Permute-and-flip: in random order, accept index i with probability e^(epsilon (q_i - max q) /
    2) and release the first accepted.

    McKenna and Sheldon (2020).

    Parameters
    ----------
    epsilon, queries, low, high
        As for `ExponentialMechanism`.
    """

    @property
    def truth(self) -> Truth:
        """Return the true epsilon.

        With q_0 two below the others, which are equal, P(0) = e^-epsilon / k. After q_0 rises by 1
        and the others fall by 1, P(0) = 1 / k.
        """
        return Truth(
            self.epsilon, "McKenna and Sheldon 2020, with equality at a gap of 2 that closes"
        )

    def worst_pair(self) -> Pair:
        """Return the pair on which query 0 goes from two below the others to their level."""
        return self._rising_pair(self.low + 2, "query 0 two below the others, then level with them")

    def draws(self, dataset: Any) -> Draws:
        """Return the sampler of the indices on `dataset`."""
        return Draws(fill_permute_and_flip, (self._heads(self._answers(dataset)),), 1)

    def _heads(self, answers: FloatArray) -> FloatArray:
        """Return the acceptance probability of each index."""
        return np.asarray(np.exp(self.epsilon / 2 * (answers - answers.max())))

    def _log_mass(self, answers: FloatArray) -> FloatArray:
        """Return the log-probabilities of the indices.

        P(i) = h_i times the integral over t in (0, 1) of prod_{j != i} (1 - h_j t), t the share of
        the order that comes before i. The integrand is a polynomial of degree k - 1: Gauss-Legendre
        with k nodes is exact.
        """
        heads = self._heads(answers)
        nodes, weights = np.polynomial.legendre.leggauss(heads.size)
        misses = 1 - np.outer(heads, (nodes + 1) / 2)
        others = np.array(
            [np.prod(np.delete(misses, i, axis=0), axis=0) for i in range(heads.size)]
        )
        return np.asarray(np.log(heads) + np.log(others @ (weights / 2)))

    def _log_mass_balls(self, answers: list[Ball]) -> list[Ball]:
        """Enclose the log-probabilities of the indices; the polynomial is integrated
        term by term.
        """
        top = max(answers, key=float)
        heads = [(arb(self.epsilon) / 2 * (q - top)).exp() for q in answers]
        logs = []
        for i, head in enumerate(heads):
            polynomial = [arb(1)]
            for j, other in enumerate(heads):
                polynomial = polynomial if j == i else product(polynomial, [arb(1), -other])
            logs.append((head * sum((c / (n + 1) for n, c in enumerate(polynomial)), arb(0))).log())
        return logs


@jit
def fill_noisy_max(
    answers: FloatArray,
    scale: float,
    names: bool,
    values: bool,
    out: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Fill `out` with the winner of answer + Laplace(scale) in each row.

    The first column is the index of the winner if `names` is true; the last column is its noisy
    value if `values` is true.
    """
    for i in range(len(out)):
        best, value, coins = 0, -np.inf, 1
        for j in range(answers.size):
            if coins == 1:
                coins = fair_coins(rng)
            noisy = answers[j] + scale * standard_laplace(coins & 1, rng)
            coins >>= 1
            if noisy > value:
                best, value = j, noisy
        if names:
            out[i, 0] = best
        if values:
            out[i, out.shape[1] - 1] = value


@lru_cache(maxsize=256)
def _noisy_max_log_mass(answers: tuple[float, ...], scale: float) -> FloatArray:
    """Return log P(index i wins) for each i.

    P is the integral of the density of the i-th noisy answer times the distribution functions of
    the others.
    """
    from scipy.special import logsumexp

    q = np.array(answers)
    nodes, log_weights = laplace_nodes(q, scale, scale)
    log_cdf = laplace_log_cdf(nodes - q[:, None], scale)
    log_win = laplace_log_density(nodes - q[:, None], scale) + log_cdf.sum(axis=0) - log_cdf
    return np.asarray(logsumexp(log_win + log_weights, axis=1))


@one_law
@dataclass(frozen=True, slots=True)
class NoisyMax(_Selection):
    """Report noisy max: add Laplace(2 / epsilon) to every answer and release the index of the
    largest, its value, or both.

    Dwork and Roth (2014), section 3.3, for the index, with 2 / epsilon in place of their 1 /
    epsilon since answers may move in opposite directions. Their argument does not cover the release
    of the winning noisy value (a wrong variant in Ding et al. 2018).

    Parameters
    ----------
    epsilon, queries, low, high
        As for `ExponentialMechanism`; k in the notes is the number of queries.
    release : {"index", "value", "both"}
        Released part of the winner; "both" gives rows (index, value).

    Notes
    -----
    *Index.* The log-ratio of P(index i) is largest as q_i rises by 1 and the others fall by 1,
    starting from q_i = low, others high. Reason: the conditional law of the winning value relative
    to q_j is stochastically larger after the shift (Laplace densities are log-concave), and -(f/F)
    is non-decreasing. So d/dq_j of the log-ratio is >= 0; by translation the log-ratio falls in
    q_i. The supremum at that pair is computed by quadrature. The supremum tends to epsilon as high
    - low grows.

    *Value.* The density is the sum over i of f(y - q_i) prod_{j != i} F(y - q_j), f and F the
    Laplace density and distribution function of scale b = 2 / epsilon. ln f and ln F both have
    slopes in [-1/b, 1/b], so each summand, a product of k such factors, changes by at most e^(k/b)
    between neighbors: epsilon_true <= k epsilon / 2. For y <= min(q, q') all factors are
    exponentials: the density is k / (2^k b) e^(sum_j (y - q_j) / b), and all answers moving by +1
    together change it by exactly e^(-k/b). So k epsilon / 2 is attained, with probability 2^-k for
    y <= q = (0, ..., 0): 2.5 for five queries at epsilon = 1. The same two arguments hold for each
    summand alone, so index and value together also leak exactly k epsilon / 2.
    """

    release: Literal["index", "value", "both"] = "index"

    def __post_init__(self) -> None:
        _Selection.__post_init__(self)
        require(self).one_of("release", ["index", "value", "both"])

    @property
    def scale(self) -> float:
        return 2.0 / self.epsilon

    @property
    def truth(self) -> Truth:
        """Return the true epsilon: by quadrature for the index, in closed form where the value is
        released.
        """
        if self.release != "index":
            return Truth(
                self.queries / self.scale,
                "k factors of slope epsilon / 2 in the density: see Notes",
                bits_safe=False,
            )
        pair = self.worst_pair()
        before, after = (self._log_mass(d)[0] for d in (pair.d0, pair.d1))
        return Truth(
            float(after - before),
            "Dwork and Roth 2014, Claim 3.9, by quadrature at the ends of the range: see Notes",
        )

    def worst_pair(self) -> Pair:
        """Return the pair on which the true epsilon is attained for the chosen `release`."""
        if self.release == "index":
            return _Selection.worst_pair(self)
        return Pair(
            np.full(self.queries, self.low),
            np.full(self.queries, self.low + 1),
            "linf",
            "all answers rise by 1",
        )

    def draws(self, dataset: Any) -> Draws:
        """Return the sampler of the released index, value or both."""
        names, values = self.release != "value", self.release != "index"
        return Draws(
            fill_noisy_max, (self._answers(dataset), self.scale, names, values), names + values
        )

    def _log_mass(self, answers: FloatArray) -> FloatArray:
        return _noisy_max_log_mass(tuple(answers.tolist()), self.scale)

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-probability of the index, or the log-density of the value or of index and
        value, of shape (size,).
        """
        answers = self._answers(dataset)
        if self.release == "index":
            return _Selection.log_density(self, outputs, dataset)
        rows = np.asarray(outputs, dtype=np.float64).reshape(len(outputs), -1)
        gaps = rows[:, -1:] - answers
        log_cdf = laplace_log_cdf(gaps, self.scale)
        summands = (
            laplace_log_density(gaps, self.scale) + log_cdf.sum(axis=1, keepdims=True) - log_cdf
        )
        if self.release == "value":
            return np.asarray(np.logaddexp.reduce(summands, axis=1))
        index = rows[:, 0]
        possible = (index == np.rint(index)) & (index >= 0) & (index < self.queries)
        chosen = np.take_along_axis(
            summands, np.where(possible, index, 0).astype(np.int64)[:, None], axis=1
        )[:, 0]
        return np.where(possible, chosen, -np.inf)

    def _log_mass_balls(self, answers: list[Ball]) -> list[Ball]:
        noise, found = ThresholdNoise(self.scale, self.scale, 1), []
        for i, answer in enumerate(answers):
            found.append(
                threshold_mass(
                    [float(q) for q in (*answers[:i], *answers[i + 1 :])], [], float(answer), noise
                ).log()
            )
        return found

    @available_if(lambda self: self.release != "both")
    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Enclose the log-probability of the index, or the log-density of the value, in
        each box.
        """
        if self.release == "index":
            return _Selection.log_density_ball(self, boxes, dataset)
        return max_log_density(
            [arb(q) for q in self._answers(dataset).tolist()], arb(self.scale), boxes
        )

    @available_if(lambda self: self.release == "value")
    def mass_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Enclose the probability that the value lies in each (low, high]: a difference of products
        of distribution functions.
        """
        answers = [arb(q) for q in self._answers(dataset).tolist()]
        return [max_interval_mass(answers, arb(self.scale), *box[0]) for box in boxes]

    @available_if(lambda self: self.release == "value")
    def loss_ball(self, boxes: Sequence[Box], d1: Any, d0: Any) -> list[Span]:
        """Enclose the privacy loss over each (low, high] of the value."""
        first, second = ([arb(q) for q in self._answers(d).tolist()] for d in (d1, d0))
        return [max_loss(first, second, arb(self.scale), *box[0]) for box in boxes]

    @available_if(lambda self: self.release == "index")
    def support(self, dataset: Any) -> FloatArray:
        """Return all indices, of shape (queries, 1)."""
        return np.arange(float(self.queries))[:, None]

    @available_if(lambda self: self.release == "value")
    def breakpoints(self, dataset: Any) -> FloatArray:
        """Return the points at which the density of the value is not smooth."""
        return np.unique(self._answers(dataset))


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
        "exponential": ExponentialMechanism(1.0),
        "permute-and-flip": PermuteAndFlip(1.0),
        "noisy-max": NoisyMax(1.0),
        "noisy-max-value": NoisyMax(1.0, release="value"),
        "noisy-max-both": NoisyMax(1.0, release="both"),
        "above-threshold": AboveThreshold(1.0),
        **{f"svt{variant}": SparseVector(1.0, variant=variant) for variant in range(1, 7)},
        "broken-svt": BrokenSparseVector(1.0),
    }
