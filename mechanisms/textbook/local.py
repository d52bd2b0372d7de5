"""Local mechanisms: each record is randomized before it leaves its owner.

Warner (1965) and Kairouz, Oh and Viswanath (2016) for randomized response; Erlingsson, Pihur and
Korolova (2014) for RAPPOR.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb

from dpwitness.core import InvalidArgument, Pair, Records, Truth
from dpwitness.core.balls.ball import Ball, Box, FiniteSupport, log_mass_of_index
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.jit import jit
from dpwitness.core.numerics.laplace_laws import as_integer_vector, column
from dpwitness.core.protocols import FloatArray, one_law
from dpwitness.core.values.validation import require, short_repr
from dpwitness.mechanisms.textbook.zoo import PureMechanism


def _record_value(dataset: Any, values: int, owner: str) -> int:
    """Return the single record of the dataset as an int; raise InvalidArgument unless it lies in 0
    .. values - 1.
    """
    value = as_integer_vector(dataset, owner, 1)[0]
    if not 0 <= value < values:
        raise InvalidArgument(
            f"{owner}: the record must lie between 0 and {values - 1}, got {short_repr(value)}"
        )
    return int(value)


@jit
def fill_response(
    value: int, categories: int, lie: float, out: FloatArray, rng: np.random.Generator
) -> None:
    """Fill `out` with `value` with probability 1 - lie, otherwise with another category drawn
    uniformly.
    """
    for i in range(len(out)):
        u = rng.random()
        # the product may round up
        other = min(np.floor(u / lie * (categories - 1)), categories - 2.0) if u < lie else -1.0
        out[i, 0] = value if u >= lie else (other if other < value else other + 1.0)


@one_law
@dataclass(frozen=True, slots=True)
class RandomizedResponse(PureMechanism, SampledByDraws, FiniteSupport):
    """Randomized response: the true category with probability e^epsilon / (e^epsilon + categories -
    1), otherwise another one, uniformly.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter. Positive, finite.
    categories : int
        Number of possible records 0 .. categories - 1; 2 is Warner's coin.
    """

    categories: int = 2

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("categories", least=2)

    @property
    def truth(self) -> Truth:
        return Truth(
            self.epsilon,
            "Kairouz, Oh and Viswanath 2016: the odds of truth and any one lie are e^epsilon",
        )

    @property
    def domain(self) -> Records:
        return Records(1, 0.0, self.categories - 1.0, integer=True)

    def worst_pair(self) -> Pair:
        """Return a pair of different categories; all such pairs have the same loss."""
        return Pair(np.array([0.0]), np.array([1.0]), "replace-one", "two categories")

    @property
    def _lie_rate(self) -> float:
        return (self.categories - 1) / (math.exp(self.epsilon) + self.categories - 1)

    def draws(self, dataset: Any) -> Draws:
        return Draws(
            fill_response,
            (
                _record_value(dataset, self.categories, "RandomizedResponse"),
                int(self.categories),
                self._lie_rate,
            ),
            1,
        )

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-probability of each output, of shape (size,)."""
        y, value = column(outputs), _record_value(dataset, self.categories, "RandomizedResponse")
        possible = (y == np.rint(y)) & (y >= 0) & (y < self.categories)
        log_lie = math.log(self._lie_rate / (self.categories - 1))
        return np.where(possible, np.where(y == value, self.epsilon + log_lie, log_lie), -np.inf)

    def _log_masses(self, dataset: Any) -> list[Ball]:
        """Enclose the log-probability of each category."""
        value, others = (
            _record_value(dataset, self.categories, "RandomizedResponse"),
            self.categories - 1,
        )
        log_lie = -(arb(self.epsilon).exp() + others).log()
        return [self.epsilon + log_lie if i == value else log_lie for i in range(self.categories)]

    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Enclose the log-probability of the category in each box."""
        return log_mass_of_index(self._log_masses(dataset), boxes)

    def support(self, dataset: Any) -> FloatArray:
        """Return all categories, of shape (categories, 1)."""
        return np.arange(float(self.categories))[:, None]


@lru_cache(maxsize=64)
def _bloom_filters(values: int, hashes: int, bits: int) -> FloatArray:
    """Return the (values, bits) Bloom filters of 0 .. values - 1; each sets `hashes` positions,
    which may coincide.

    Positions come from the splitmix64 finalizer (Steele, Lea and Flood 2014) of value and hash
    number, the same on every machine.
    """
    filters = np.zeros((values, bits))
    for value in range(values):
        for number in range(hashes):
            word = ((value * hashes + number + 1) * 0x9E3779B97F4A7C15) % 2**64
            word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
            word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
            filters[value, (word ^ (word >> 31)) % bits] = 1.0
    filters.setflags(write=False)
    return filters


@lru_cache(maxsize=64)
def _most_distant_values(values: int, hashes: int, bits: int) -> tuple[int, int, int]:
    """Return two values whose Bloom filters differ in the most bits, and the number of differing
    bits.
    """
    filters = _bloom_filters(values, hashes, bits)
    distances = np.abs(filters[:, None, :] - filters[None, :, :]).sum(axis=2)
    first, second = np.unravel_index(int(np.argmax(distances)), distances.shape)
    return int(first), int(second), int(distances[first, second])


@jit
def fill_permanent(bloom: FloatArray, f: float, out: FloatArray, rng: np.random.Generator) -> None:
    """Fill `out` with the permanent response: each bit becomes 1 with probability f/2, 0 with
    probability f/2, and stays otherwise.
    """
    for i in range(len(out)):
        for j in range(bloom.size):
            u = rng.random()
            out[i, j] = 1.0 if u < 0.5 * f else (0.0 if u < f else bloom[j])


@jit
def fill_instantaneous(
    bloom: FloatArray, f: float, p: float, q: float, out: FloatArray, rng: np.random.Generator
) -> None:
    """Fill `out` with the permanent response, followed by the instantaneous response.

    The instantaneous response reports each bit as 1 with probability q if the bit is 1, and with
    probability p if it is 0.
    """
    for i in range(len(out)):
        fill_permanent(bloom, f, out[i : i + 1], rng)
        for j in range(bloom.size):
            out[i, j] = 1.0 if rng.random() < (q if out[i, j] == 1.0 else p) else 0.0


RapporFactor = tuple[RandomizedResponse, FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class _BloomReport(PureMechanism, SampledByDraws, ABC):
    """Base of both forms of RAPPOR: a Bloom filter whose bits are flipped independently, each with
    odds e^(epsilon / 2h).
    """

    hashes: int = 4
    bits: int = 20
    values: int = 64

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("hashes").integer("bits", "values", least=2)

    @property
    def truth(self) -> Truth:
        """Return the true epsilon: each bit in which two filters differ adds epsilon / 2h, and the
        worst output reveals all of them.
        """
        differing = _most_distant_values(self.values, self.hashes, self.bits)[2]
        return Truth(
            self.epsilon * differing / (2 * self.hashes),
            f"epsilon / 2h for each of the {differing} bits that differ at most",
        )

    @property
    def domain(self) -> Records:
        return Records(1, 0.0, self.values - 1.0, integer=True)

    def worst_pair(self) -> Pair:
        """Return two values whose Bloom filters differ in the most bits."""
        first, second, differing = _most_distant_values(self.values, self.hashes, self.bits)
        return Pair(
            np.array([float(first)]),
            np.array([float(second)]),
            "replace-one",
            f"Bloom filters {differing} bits apart",
        )

    def _bloom(self, dataset: Any) -> FloatArray:
        """Return the Bloom filter of the record."""
        return np.asarray(
            _bloom_filters(self.values, self.hashes, self.bits)[
                _record_value(dataset, self.values, type(self).__name__)
            ]
        )

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-probability of each row of `outputs`, of shape (size,)."""
        rows = np.asarray(outputs, dtype=np.float64)
        flips = (rows != self._bloom(dataset)).sum(axis=1)
        rate = self.epsilon / (2 * self.hashes)
        return np.where(
            np.all((rows == 0) | (rows == 1), axis=1),
            -self.bits * math.log1p(math.exp(-rate)) - rate * flips,
            -np.inf,
        )

    def log_density_ball(self, boxes: Sequence[Box], dataset: Any) -> list[Ball]:
        """Enclose the log-probability of the bit vector in each box."""
        bit = RandomizedResponse(self.epsilon / (2 * self.hashes))
        logs = [bit._log_masses(np.array([b])) for b in self._bloom(dataset)]
        return [
            sum(
                (log_mass_of_index(log, [[s]])[0] for log, s in zip(logs, box, strict=True)), arb(0)
            )
            for box in boxes
        ]

    def factors(self, d0: Any, d1: Any) -> list[RapporFactor]:
        """Return the bits as independent randomized responses, each with its two true bits."""
        bit = RandomizedResponse(self.epsilon / (2 * self.hashes))
        return [
            (bit, np.array([a]), np.array([b]))
            for a, b in zip(self._bloom(d0), self._bloom(d1), strict=True)
        ]


@one_law
@dataclass(frozen=True, slots=True)
class OneTimeRappor(_BloomReport):
    """One-time RAPPOR: the permanent randomized response of a Bloom filter, sent once.

    Erlingsson, Pihur and Korolova (2014), section 2 steps 1 and 2; Theorem 1: epsilon = 2h ln((1 -
    f/2) / (f/2)), solved for f here.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter.
    hashes, bits : int
        h hash functions into a filter of k bits.
    values : int
        Number of possible records 0 .. values - 1.
    """

    @property
    def f(self) -> float:
        return 2.0 / (1.0 + math.exp(self.epsilon / (2 * self.hashes)))

    def draws(self, dataset: Any) -> Draws:
        """Return the sampler of the reports on `dataset`."""
        return Draws(fill_permanent, (self._bloom(dataset), self.f), self.bits)


@one_law
@dataclass(frozen=True, slots=True)
class Rappor(_BloomReport):
    """RAPPOR: a fresh permanent randomized response of a Bloom filter, followed by the
    instantaneous response. One report.

    Erlingsson, Pihur and Korolova (2014), section 2 steps 1 to 3. With p = 1 - q a bit is reported
    unchanged with probability q* = f/2 + (1 - f) q. Theorem 2's epsilon = h ln(q* (1 - p*) / (p* (1
    - q*))) is 2h ln(q* / (1 - q*)), solved for q here.

    Parameters
    ----------
    epsilon, hashes, bits, values
        As for `OneTimeRappor`.
    f : float
        Probability that the permanent response replaces a bit by a fair coin. If f is too large, no
        q <= 1 gives the claimed epsilon.
    """

    f: float = 0.5

    def __post_init__(self) -> None:
        _BloomReport.__post_init__(self)
        require(self).probability("f", zero=True)
        if self.q > 1:
            raise InvalidArgument(
                f"Rappor: f must be at most 2 / (1 + e^(epsilon / (2 hashes))), got {self.f!r}"
            )

    @property
    def q(self) -> float:
        return (1.0 / (1.0 + math.exp(-self.epsilon / (2 * self.hashes))) - self.f / 2) / (
            1 - self.f
        )

    def draws(self, dataset: Any) -> Draws:
        """Return the sampler of the reports on `dataset`."""
        return Draws(
            fill_instantaneous, (self._bloom(dataset), float(self.f), 1 - self.q, self.q), self.bits
        )


def specimens() -> dict[str, Any]:
    """Return the mechanisms of the zoo."""
    return {
        "randomized-response": RandomizedResponse(1.0),
        "randomized-response-5": RandomizedResponse(1.0, categories=5),
        "rappor-one-time": OneTimeRappor(1.0),
        "rappor": Rappor(1.0),
    }
