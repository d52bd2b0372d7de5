"""Protocols of mechanisms, the errors of mechanisms that cannot be audited, and the record of a
mechanism's true privacy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.claims import Claim
from dpwitness.core.values.validation import MechanismFailed

__all__ = [
    "AlwaysRaises",
    "FloatArray",
    "ForeignMechanism",
    "Mechanism",
    "MechanismFailed",
    "Parts",
    "TookTooLong",
    "Truth",
    "WhiteBox",
    "name_of",
]

FloatArray = NDArray[np.float64]


class TookTooLong(MechanismFailed):
    """Error of a batch of runs that exceeds its time limit."""


class AlwaysRaises(MechanismFailed):
    """Error of a pair on which every run on both datasets raises an exception; `rounds` is the
    number of runs made.
    """

    def __init__(self, message: str, rounds: int = 0) -> None:
        super().__init__(message, rounds)  # both go to `args`, so that the exception can be pickled
        self.rounds = rounds

    def __str__(self) -> str:
        return str(self.args[0])


class Parts(list[Any]):
    """Results of a batch that was made in several pieces, in order: arrays, lists of outputs and
    lists of exceptions.
    """


@runtime_checkable
class Mechanism(Protocol):
    """Protocol of a mechanism: ``sample(dataset, size, rng)`` returns one row per
    independent run.
    """

    def sample(self, dataset: Any, size: int, rng: np.random.Generator, /) -> Any:
        """Return `size` runs on `dataset`: an array of shape (size,) or (size, k), or a list of
        `size` outputs of any type.
        """


@runtime_checkable
class WhiteBox(Mechanism, Protocol):
    """Protocol of a mechanism whose output density is known."""

    def log_density(self, outputs: FloatArray, dataset: Any, /) -> FloatArray:
        """Return the log-density (log-mass for discrete outputs) at each row of `outputs`: shape
        (size,).
        """


class ForeignMechanism(ABC):
    """Base class of mechanisms that run in separate processes, in another interpreter or as a
    program (`dpwitness.Target`).

    Audits need to know where a mechanism runs. Audits do not need the code that starts its
    processes.
    """

    file: str  # with the function `name`; empty for a program
    name: str
    command: Sequence[str]  # of a program; empty for a function
    cwd: str | None  # working directory of a program
    batch: int | None  # largest number of runs in one call

    @property
    @abstractmethod
    def source_file(self) -> Path | None:
        """The file with the mechanism; None if unknown."""

    @property
    @abstractmethod
    def warned(self) -> tuple[str, ...]:
        """Distinct warnings of the runs so far."""

    @abstractmethod
    def sample_each(self, dataset: Any, size: int, rng: np.random.Generator) -> Any:
        """Return the outputs or exceptions of `size` single runs, in order."""

    @abstractmethod
    def close(self) -> None:
        """End the processes. The next call starts new ones."""


def name_of(target: Any) -> str:
    """Return the default name of an audited object: the name of a function, or the class name of
    any other object.
    """
    return str(getattr(target, "__name__", type(target).__name__))


@dataclass(frozen=True, slots=True)
class Truth:
    """True privacy parameter of a mechanism, and the source of this number.

    Parameters
    ----------
    parameter : float
        Smallest parameter of the claim's notion (epsilon at the claim's delta, mu, rho) that the
        mechanism satisfies over its domain; ``math.inf`` if there is no such parameter.
    source : str
        Theorem or computation behind the number.
    bits_safe : bool or None
        Whether the low bits of the output are as private as its value; None if unknown. False for
        unrounded floating-point noise.
    """

    parameter: float
    source: str
    bits_safe: bool | None = True

    def breaks(self, claim: Claim) -> bool:
        """Return whether the mechanism violates `claim` by more than rounding errors."""
        return self.parameter > claim.parameter * (1 + 1e-9)
