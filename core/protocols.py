"""Protocols of mechanisms, their optional methods, the errors of mechanisms that cannot be audited,
and the record of a mechanism's true privacy.

Optional methods allow stronger statements than `sample`.

An audit looks for each method by ``hasattr`` on the instance: a method may exist for some
parameters of a class only (`available_if`). Datasets are `dataset`, or `d0` and `d1` of a pair.

log_density(outputs, dataset)
    Log-density, or log-mass, of each output, (n,), so that privacy losses can be computed.
support(dataset)
    All output rows of a discrete law, (m, k), up to 1e-15 of the mass, so that laws can be
    enumerated.
factors(d0, d1)
    Independent parts of the output, a list of (mechanism, d0_j, d1_j), so that laws can be
    composed.
breakpoints(dataset)
    Kinks or jumps of a one-dimensional density, (m,), for quadrature.
atoms(dataset)
    Atoms of a one-dimensional law that also has a density, (m,); `log_density` is the log-mass at
    the atoms.

Methods for proofs return enclosures by balls (python-flint `arb`, see `core/balls`) of the law in
real arithmetic, where a float parameter is the exact rational number that it represents.
`auditors/density/proved` covers the outputs by cells, bounds each cell's share from both sides, and
splits cells until the two bounds agree. This needs `log_density_ball`; each other method tightens
the bounds or adds notions.

log_density_ball(boxes, dataset)
    Log-density, or log-mass, over each box: one interval (low, high) per column.
mass_ball(boxes, dataset)
    Mass of each interval (low, high] of a mechanism on the line, which cells on the line need.
loss_ball(boxes, d1, d0)
    Bounds on the privacy loss over each box, as floats, possibly infinite; without this method two
    log-density balls are subtracted.
tail_ball(box, dataset)
    Mass outside a box, or outside `support` for None. Without this method, mass that `support`
    omits is counted at any loss.
shift_ball(d1, d0)
    One noise law at two locations, for which all notions have closed forms; None for other pairs.
draws_ball(d1, d0)
    Independent draws on both sides, to be composed, as (logs, logs, times).
axis_ball(d1, d0)
    Laws of a perturbed minimizer whose loss depends on one coordinate only, or is largest on that
    axis; None for other pairs.
plane_ball(d1, d0)
    Loss of a perturbed minimizer that depends on two coordinates only; None for other pairs.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

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
    "available_if",
    "log_density_at",
    "name_of",
    "one_law",
    "states_one_law",
]

FloatArray = NDArray[np.float64]
T = TypeVar("T", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


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
    def last_output(self) -> str:
        """Return the last lines that a program has printed to standard error, as a suffix for a
        message; empty for a function.
        """

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


_FOLDERS = [Path(__file__).parents[1] / name for name in ("mechanisms", "core")]  # of this package
_ONE_LAW_CLASSES: set[type] = set()


def one_law(mechanism: T) -> T:
    """Register a class whose ``sample`` and ``log_density`` implement one law, given by the
    parameters in its docstring.

    The project's tests compare both methods, and `certify` trusts the density of a registered class
    to be that of its sampler. The decorator has an effect only on classes of this package: not on a
    user's class, nor on a subclass of a registered class. No attribute has the same effect.
    """
    if _is_defined_here(mechanism):
        _ONE_LAW_CLASSES.add(mechanism)
    return mechanism


def log_density_at(mechanism: Any, rows: Any, dataset: Any) -> FloatArray:
    """Return a mechanism's log-density at each row, as an array of shape (n,). A result of shape
    (n, 1) is flattened.
    """
    value = np.asarray(mechanism.log_density(rows, dataset), dtype=float)
    return value[:, 0] if value.shape == (len(rows), 1) else value


def states_one_law(mechanism: Any) -> bool:
    """Return whether sampler and density of a mechanism implement one declared law of this package:
    see `one_law`.
    """
    cls = type(mechanism)
    return (
        cls in _ONE_LAW_CLASSES
        and _is_defined_here(cls)
        and not {"sample", "log_density"} & set(getattr(mechanism, "__dict__", ()))
    )


def _is_defined_here(cls: type) -> bool:
    """Return whether both methods are functions whose source is in this package."""
    codes = [
        getattr(getattr(cls, name, None), "__code__", None) for name in ("sample", "log_density")
    ]
    return all(
        inspect.iscode(code)
        and any(Path(code.co_filename).is_relative_to(folder) for folder in _FOLDERS)
        for code in codes
    )


class available_if:
    """Decorator of a method that exists only where `condition(self)` holds; elsewhere its lookup
    raises AttributeError.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> hasattr(Laplace(1.0, arithmetic="grid"), "support"), hasattr(Laplace(1.0), "support")
    (True, False)
    """

    def __init__(self, condition: Callable[[Any], bool]) -> None:
        self._condition = condition
        self._method: Any = None

    def __call__(self, method: F) -> F:
        self._method, self.__doc__ = method, method.__doc__
        return cast(F, self)

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        if not self._condition(instance):
            name = self._method.__name__
            raise AttributeError(f"{owner.__name__} has no method {name} with these parameters")
        return MethodType(self._method, instance)
