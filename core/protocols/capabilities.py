"""Optional capabilities of a mechanism in addition to `sample`, each of which allows stronger
statements.

Capabilities for proofs are enclosures by balls (python-flint `arb`, see `core/balls`) of the law in
real arithmetic, where a float parameter is the exact rational number that it represents.
`auditors/density/proved` covers the outputs by cells, bounds each cell's share from both sides, and
splits cells until the two bounds agree. This needs `log_density_ball`; each other capability
tightens the bounds or adds notions.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from dpwitness.core.protocols.mechanism import FloatArray

T = TypeVar("T", bound=type)

_FOLDERS = [Path(__file__).parents[2] / name for name in ("mechanisms", "core")]  # of this package
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


def has_capability(mechanism: Any, power: Any) -> bool:
    """Return whether this instance has a capability.

    Some classes have a capability for some parameters only (`available_if`), which `isinstance`
    does not see.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> [has_capability(Laplace(1.0, arithmetic=name), HasSupport) for name in ("grid", "float")]
    [True, False]
    """
    return all(hasattr(mechanism, name) for name in vars(power) if not name.startswith("_"))


class HasSupport(Protocol):
    """Discrete mechanism whose output rows can be listed, (m, k), up to 1e-15 of the mass, so that
    laws can be enumerated.
    """

    def support(self, dataset: Any, /) -> FloatArray: ...


class HasFactors(Protocol):
    """Mechanism whose output consists of independent parts (mechanism, d0_j, d1_j), so that laws
    can be composed.
    """

    def factors(self, d0: Any, d1: Any, /) -> list[tuple[Any, Any, Any]]: ...


class HasBreakpoints(Protocol):
    """Mechanism whose one-dimensional density has known kinks or jumps, (m,), for quadrature."""

    def breakpoints(self, dataset: Any, /) -> FloatArray: ...


class HasAtoms(Protocol):
    """Mechanism whose one-dimensional law has a density and atoms, (m,); `log_density` is the
    log-mass at the atoms.
    """

    def atoms(self, dataset: Any, /) -> FloatArray: ...


class HasDensityBall(Protocol):
    """Mechanism with an enclosure of its log-density, or log-mass, over each box: one interval
    (low, high) per column.
    """

    def log_density_ball(self, boxes: Any, dataset: Any, /) -> Any: ...


class HasMassBall(Protocol):
    """Mechanism on the line with an enclosure of the mass of each (low, high], which cells on the
    line need.
    """

    def mass_ball(self, boxes: Any, dataset: Any, /) -> Any: ...


class HasLossBall(Protocol):
    """Mechanism with float bounds on the privacy loss over each box, possibly unbounded; otherwise
    two balls are subtracted.
    """

    def loss_ball(self, boxes: Any, d1: Any, d0: Any, /) -> Any: ...


class HasTailBall(Protocol):
    """Mechanism with an enclosure of the mass outside a box, or outside `support` for None.

    Without this method, mass that `support` omits is counted at any loss.
    """

    def tail_ball(self, box: Any, dataset: Any, /) -> Any: ...


class HasShiftBall(Protocol):
    """Mechanism that states whether a pair gives one noise law at two locations, for which all
    notions have closed forms; else None.
    """

    def shift_ball(self, d1: Any, d0: Any, /) -> Any: ...


class HasDrawsBall(Protocol):
    """Mechanism with independent draws on both sides, to be composed, as (logs, logs, times)."""

    def draws_ball(self, d1: Any, d0: Any, /) -> Any: ...


class HasAxisBall(Protocol):
    """Mechanism that states whether the loss of its perturbed minimizer depends on one coordinate
    only, or is largest on that axis.
    """

    def axis_ball(self, d1: Any, d0: Any, /) -> Any: ...


class HasPlaneBall(Protocol):
    """Mechanism that states whether the loss of its perturbed minimizer depends on two coordinates
    only.
    """

    def plane_ball(self, d1: Any, d0: Any, /) -> Any: ...
