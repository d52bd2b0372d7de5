"""Noisy histograms, correct and broken: the noise must fit the neighboring relation, and its scale
is proportional to 1 / epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpwitness.core import InvalidArgument, Pair, PureDP, Records, Truth
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.laplace_laws import (
    as_integer_vector,
    laplace_draws,
    laplace_log_density,
)
from dpwitness.core.protocols.capabilities import one_law
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import require
from dpwitness.mechanisms.textbook.vectors import LaplaceFactor, laplace_factors


@one_law
@dataclass(frozen=True, slots=True)
class NoisyHistogram(SampledByDraws):
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

    epsilon: float
    bins: int = 5
    relation: Literal["replace-one", "add-remove"] = "replace-one"
    noise: Literal["calibrated", "one count", "inverted"] = "calibrated"

    def __post_init__(self) -> None:
        require(self).positive("epsilon").integer("bins", least=2).one_of(
            "relation", ["replace-one", "add-remove"]
        )
        require(self).one_of("noise", ["calibrated", "one count", "inverted"])

    @property
    def claim(self) -> PureDP:
        return PureDP(self.epsilon)

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
        moved = np.where(records == 0, 1.0, records)
        return Pair(records, moved, self.relation, "one record moves from category 0 to category 1")

    def _counts(self, dataset: Any) -> FloatArray:
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

    def draws(self, dataset: Any) -> Draws:
        return laplace_draws(self._counts(dataset), self.scale)

    def log_density(self, outputs: FloatArray, dataset: Any) -> FloatArray:
        """Return the log-density at each row of `outputs`, of shape (size,)."""
        return np.asarray(
            laplace_log_density(outputs - self._counts(dataset), self.scale).sum(axis=1)
        )

    def factors(self, d0: Any, d1: Any) -> list[LaplaceFactor]:
        """Return the counts as independent mechanisms, each with its two centers."""
        return laplace_factors(self._counts(d0), self._counts(d1), self.scale)


def specimens() -> dict[str, Any]:
    """Return the mechanisms of the zoo."""
    return {
        "histogram": NoisyHistogram(1.0),
        "histogram-one-count": NoisyHistogram(1.0, noise="one count"),
        "histogram-wrong-scale": NoisyHistogram(0.5, noise="inverted"),
    }
