"""What a mechanism is: something that can be run, and, if it offers more, more can be said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.terms.notions import Claim

__all__ = ["AlwaysRaises", "FloatArray", "Mechanism", "MechanismFailed", "MechanismFunction", "Parts", "Truth", "WhiteBox", "name_of"]

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


# Optional methods, each of which lets more be said. `support(dataset) -> (m, k)`: every output row that a discrete mechanism can
# give (all but 1e-15 of the mass), so that laws can be enumerated. `factors(d0, d1) -> list of (mechanism, d0_j, d1_j)`: the
# independent parts that the output consists of, so that laws can be composed. `breakpoints(dataset) -> (m,)`: where a
# one-dimensional density has kinks or jumps, for quadrature; `atoms(dataset) -> (m,)`: where a one-dimensional law with a density has
# masses beside it, which `log_density` gives there.
#
# Powers of proof: enclosures in balls (python-flint `arb`, see `mechanisms/balls`) of the law in real arithmetic, a float parameter being
# the exact rational that it is. `auditors/proved` covers the outputs by cells, bounds each cell's share from both sides, and splits cells
# until the two ends agree; it needs the first of these methods, and each of the others makes ends closer or notions more.
# `log_density_ball(boxes, dataset) -> list of balls`: the log-density, or log-mass, over each box, a span (low, high) for each column.
# `mass_ball(boxes, dataset) -> list of balls`: on the line, the mass of each (low, high], without which masses are density times width.
# `loss_ball(boxes, d1, d0) -> list of (low, high)`: floats around the privacy loss over each box, ends of which may be infinite; without
# it the loss is a difference of two balls, and unbounded on unbounded boxes. `tail_ball(box, dataset) -> ball`: the mass outside of a
# box, or, for box None, outside of `support`; without it what `support` leaves out is what is missing to 1, at any loss.
# `shift_ball(d1, d0) -> Shift or None`: that the pair is one noise at two places, for which all notions have closed forms.
# `draws_ball(d1, d0) -> list of (logs, logs, times)`: log-probabilities of independent draws on both sides, to be composed.
# `axis_ball(d1, d0)`: that the loss of a perturbed minimiser depends on one coordinate, or has its supremum there.

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
