"""Laplace noise on several numbers at once: a vector of answers; prefix sums, whose sensitivity is
easily misjudged; and histograms, whose noise must fit the neighboring relation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpwitness.core import Answers, InvalidArgument, Pair, Records, Truth
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.laplace_laws import (
    as_integer_vector,
    as_vector,
    laplace_draws,
    laplace_log_density,
)
from dpwitness.core.protocols.capabilities import one_law
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import require
from dpwitness.mechanisms.textbook.additive import Laplace
from dpwitness.mechanisms.textbook.zoo import PureMechanism

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
        "laplace-vector": LaplaceVector(1.0),
        "prefix-sums": PrefixSums(1.0),
        "prefix-sums-uncalibrated": PrefixSums(1.0, calibrated=False),
        "histogram": NoisyHistogram(1.0),
        "histogram-one-count": NoisyHistogram(1.0, noise="one count"),
        "histogram-wrong-scale": NoisyHistogram(0.5, noise="inverted"),
    }
