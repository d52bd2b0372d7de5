"""Laplace noise on several numbers at once: a vector of answers, and prefix sums, whose sensitivity
is easily misjudged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.core.claims import PureDP
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.records import Records
from dpwitness.core.domains.vectors import Answers
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.laplace_laws import as_vector, laplace_draws, laplace_log_density
from dpwitness.core.protocols.capabilities import one_law
from dpwitness.core.protocols.mechanism import FloatArray, Truth
from dpwitness.core.values.validation import require
from dpwitness.mechanisms.textbook.additive import Laplace

LaplaceFactor = tuple[Laplace, FloatArray, FloatArray]


def laplace_factors(center0: FloatArray, center1: FloatArray, scale: float) -> list[LaplaceFactor]:
    """Return the independent coordinates of a vector with Laplace(scale) noise, each as a mechanism
    on one number.
    """
    coordinate = Laplace(1.0 / scale)
    return [
        (coordinate, np.array([a]), np.array([b])) for a, b in zip(center0, center1, strict=True)
    ]


@one_law
@dataclass(frozen=True, slots=True)
class LaplaceVector(SampledByDraws):
    """The Laplace mechanism on a vector of answers with L1 sensitivity 1.

    Dwork, McSherry, Nissim and Smith (2006), Proposition 1.

    Parameters
    ----------
    epsilon : float
        Claimed privacy parameter. Positive, finite.
    length : int
        Number of answers.
    """

    epsilon: float
    length: int = 20

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("length")

    @property
    def claim(self) -> PureDP:
        return PureDP(self.epsilon)

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

    def draws(self, dataset: Any) -> Draws:
        return laplace_draws(as_vector(dataset, "LaplaceVector", self.length), 1.0 / self.epsilon)

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-density at each row of `outputs`, of shape (size,)."""
        return np.asarray(
            laplace_log_density(
                outputs - as_vector(dataset, "LaplaceVector", self.length), 1.0 / self.epsilon
            ).sum(axis=1)
        )

    def factors(self, d0: Any, d1: Any) -> list[LaplaceFactor]:
        """Return the coordinates as independent mechanisms, each with its two centers."""
        first, second = (as_vector(d, "LaplaceVector", self.length) for d in (d0, d1))
        return laplace_factors(first, second, 1.0 / self.epsilon)


@one_law
@dataclass(frozen=True, slots=True)
class PrefixSums(SampledByDraws):
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

    epsilon: float
    length: int = 10
    calibrated: bool = True

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("length").one_of("calibrated", [True, False])

    @property
    def claim(self) -> PureDP:
        return PureDP(self.epsilon)

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

    def _sums(self, dataset: Any) -> FloatArray:
        """Return the exact prefix sums of the records."""
        return np.asarray(np.cumsum(as_vector(dataset, "PrefixSums", self.length)))

    def draws(self, dataset: Any) -> Draws:
        return laplace_draws(self._sums(dataset), self.scale)

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-density at each row of `outputs`, of shape (size,)."""
        return np.asarray(
            laplace_log_density(outputs - self._sums(dataset), self.scale).sum(axis=1)
        )

    def factors(self, d0: Any, d1: Any) -> list[LaplaceFactor]:
        """Return the sums as independent mechanisms, each with its two centers."""
        return laplace_factors(self._sums(d0), self._sums(d1), self.scale)


def specimens() -> dict[str, Any]:
    """Return the mechanisms of the zoo."""
    return {
        "laplace-vector": LaplaceVector(1.0),
        "prefix-sums": PrefixSums(1.0),
        "prefix-sums-uncalibrated": PrefixSums(1.0, calibrated=False),
    }
