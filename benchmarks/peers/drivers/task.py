"""Task of a driver and its answer. A driver is a module with the function ``attack(task)``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Outputs = NDArray[np.float64]


class NotExpressible(Exception):
    """The tool has no form for this claim or for this kind of output."""


@dataclass(frozen=True, slots=True)
class Task:
    """Mechanism with a claim and a pair of datasets, for one run of a tool.

    Parameters
    ----------
    mechanism : object
        Object with ``sample(dataset, size, rng)``, which returns an array of shape (size, k).
    datasets : tuple
        Neighboring datasets.
    epsilon, delta : float
        The claim.
    confidence : float
        Confidence of the tool's statements with the best settings; the default settings have their
        own.
    best : bool
        Whether to use the best settings that we found, instead of the tool's default settings.
    size : int
        Number of runs of the mechanism on each dataset that the best settings may use, in the
        tool's own unit. The default settings fix it.
    seed : int
        Seed of the mechanism and of the tool.
    cpu_seconds : float
        Time budget of the attack, for a tool that takes one.
    bits : bool
        Whether the fault to be found is in the low bits of the outputs.
    """

    mechanism: Any
    datasets: tuple[Any, Any]
    epsilon: float
    delta: float
    confidence: float
    best: bool
    size: int
    seed: int
    cpu_seconds: float = math.inf
    bits: bool = False

    def generator(self) -> np.random.Generator:
        """Return the generator of the mechanism's randomness."""
        return np.random.default_rng([self.seed, self.size, self.best])

    def draw(self, side: int, size: int, rng: np.random.Generator) -> Outputs:
        """Return outputs of the mechanism on one of the two datasets, of shape (size, k)."""
        outputs = np.asarray(
            self.mechanism.sample(self.datasets[side], size, rng), dtype=np.float64
        )
        return outputs.reshape(size, -1)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool states: a lower bound on epsilon at the claimed delta, if it has one, and whether
    it states a violation of the claim.
    """

    violated: bool
    bound: float | None = None
    note: str = ""
