"""What a mechanism is: something that can be run, and, if it offers more, more can be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.privacy import Claim

FloatArray = NDArray[np.float64]


class MechanismFailed(RuntimeError):
    """The mechanism cannot be audited: it crashed, hung, changed its shape, ignored its generator or kept state."""


class AlwaysRaises(MechanismFailed):
    """On this pair every run of both sides raises: of what, and how many `rounds` were run to see it."""

    def __init__(self, message: str, rounds: int = 0) -> None:
        super().__init__(message, rounds)  # both are arguments, so that it travels between processes
        self.rounds = rounds

    def __str__(self) -> str:
        return str(self.args[0])


class Parts(list[Any]):
    """What a batch returned in pieces, one after the other: arrays, lists of outputs and lists of exceptions."""


@runtime_checkable
class Mechanism(Protocol):
    """Anything with ``sample(dataset, size, rng)``. One row of what it returns is one independent run."""

    def sample(self, dataset: Any, size: int, rng: np.random.Generator, /) -> Any:
        """Run `size` times on `dataset`: an array of shape (size,) or (size, k), or a list of `size` outputs of any kind."""


@runtime_checkable
class WhiteBox(Mechanism, Protocol):
    """A mechanism whose output density is known."""

    def log_density(self, outputs: FloatArray, dataset: Any, /) -> FloatArray:
        """Log-density (or log-mass, for discrete outputs) at each row of `outputs`: shape (size,)."""


MechanismFunction = Callable[[Any, int, np.random.Generator], Any]


def name_of(target: Any) -> str:
    """What an audited object is called where nobody named it: a function's own name, or its class."""
    return str(getattr(target, "__name__", type(target).__name__))


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of a mechanism's real privacy, and from where.

    Parameters
    ----------
    parameter : float
        Smallest parameter of the claim's notion (epsilon at the claim's delta, mu, rho) that the mechanism keeps over its
        domain; ``math.inf`` where none does.
    source : str
        Theorem or computation behind the number.
    bits_safe : bool or None
        Whether the low bits of the output are as private as its value; None if not known. Unrounded floating-point noise is not.
    """

    parameter: float
    source: str
    bits_safe: bool | None = True

    def breaks(self, claim: Claim) -> bool:
        """Whether the mechanism breaks `claim`, beyond rounding."""
        return self.parameter > claim.parameter * (1 + 1e-9)
