"""What a mechanism may offer beside `sample`: each power lets more be said of it.

Powers of proof are enclosures in balls (python-flint `arb`, see `mechanisms/balls`) of the law in real arithmetic, a float parameter being
the exact rational that it is. `auditors/proved` covers the outputs by cells, bounds each cell's share from both sides, and splits cells
until the two ends agree; it needs `log_density_ball`, and each other power makes ends closer or notions more.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from dpwitness.mechanisms.protocols.mechanism import FloatArray

T = TypeVar("T", bound=type)

_HOME = Path(__file__).parents[1]
_ONE_LAW: set[type] = set()


def one_law(mechanism: T) -> T:
    """Mark a class whose ``sample`` and ``log_density`` follow from one declared law: that of the parameters in its docstring.

    The project's tests compare both methods, and `certify` takes the density of a marked class for the sampler's. The mark has an effect on
    classes of this package only: not on a user's class, and not on a subclass of a marked one. No attribute replaces it.
    """
    if _written_here(mechanism):
        _ONE_LAW.add(mechanism)
    return mechanism


def log_density_at(mechanism: Any, rows: Any, dataset: Any) -> FloatArray:
    """Return a mechanism's log-density at each row, of shape (n,): a column (n, 1) is the same values."""
    value = np.asarray(mechanism.log_density(rows, dataset), dtype=float)
    return value[:, 0] if value.shape == (len(rows), 1) else value


def states_one_law(mechanism: Any) -> bool:
    """Whether sampler and density come from one declared law of this package: see `one_law`."""
    cls = type(mechanism)
    return cls in _ONE_LAW and _written_here(cls) and not {"sample", "log_density"} & set(getattr(mechanism, "__dict__", ()))


def _written_here(cls: type) -> bool:
    """Whether both methods are functions whose source lies in this package."""
    codes = [getattr(getattr(cls, name, None), "__code__", None) for name in ("sample", "log_density")]
    return all(inspect.iscode(code) and Path(code.co_filename).is_relative_to(_HOME) for code in codes)


def offers(mechanism: Any, power: Any) -> bool:
    """Whether this instance has the power: some have it for some of their parameters only (`offered_when`), which `isinstance` overlooks.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> offers(Laplace(1.0, arithmetic="grid"), HasSupport), offers(Laplace(1.0), HasSupport)
    (True, False)
    """
    return all(hasattr(mechanism, name) for name in vars(power) if not name.startswith("_"))


class HasDraws(Protocol):
    """How its outputs on a dataset are drawn, as a compiled kernel: a `dpwitness.Draws`. Audits then count them where they are drawn."""

    def draws(self, dataset: Any, /) -> Any: ...


class HasDomain(Protocol):
    """The domain on which the claim is made, whose pairs are tried where none is given."""

    @property
    def domain(self) -> Any: ...


class HasTruth(Protocol):
    """What is known of its real privacy: a `Truth`, or None."""

    @property
    def truth(self) -> Any: ...


class HasWorstPair(Protocol):
    """The pair on which it leaks most."""

    def worst_pair(self) -> Any: ...


class HasSupport(Protocol):
    """Every output row that a discrete mechanism can give, (m, k), but for 1e-15 of the mass: laws can be enumerated."""

    def support(self, dataset: Any, /) -> FloatArray: ...


class HasFactors(Protocol):
    """The independent parts that the output consists of, as (mechanism, d0_j, d1_j): laws can be composed."""

    def factors(self, d0: Any, d1: Any, /) -> list[tuple[Any, Any, Any]]: ...


class HasBreakpoints(Protocol):
    """Where a one-dimensional density has kinks or jumps, (m,): for quadrature."""

    def breakpoints(self, dataset: Any, /) -> FloatArray: ...


class HasAtoms(Protocol):
    """Where a one-dimensional law with a density has masses beside it, (m,), which `log_density` gives there."""

    def atoms(self, dataset: Any, /) -> FloatArray: ...


class HasDensityBall(Protocol):
    """Log-density, or log-mass, over each box, a span (low, high) for each column."""

    def log_density_ball(self, boxes: Any, dataset: Any, /) -> Any: ...


class HasMassBall(Protocol):
    """On the line, the mass of each (low, high]; without it masses are density times width."""

    def mass_ball(self, boxes: Any, dataset: Any, /) -> Any: ...


class HasLossBall(Protocol):
    """Floats around the privacy loss over each box, whose ends may be infinite; else a difference of two balls."""

    def loss_ball(self, boxes: Any, d1: Any, d0: Any, /) -> Any: ...


class HasTailBall(Protocol):
    """The mass outside of a box, or of `support` for None; else what `support` leaves out is missing, at any loss."""

    def tail_ball(self, box: Any, dataset: Any, /) -> Any: ...


class HasShiftBall(Protocol):
    """That the pair is one noise at two places, for which all notions have closed forms; or None."""

    def shift_ball(self, d1: Any, d0: Any, /) -> Any: ...


class HasDrawsBall(Protocol):
    """Independent draws on both sides, to be composed, as (logs, logs, times)."""

    def draws_ball(self, d1: Any, d0: Any, /) -> Any: ...


class HasAxisBall(Protocol):
    """That the loss of a perturbed minimiser depends on one coordinate, or has its supremum there; or None."""

    def axis_ball(self, d1: Any, d0: Any, /) -> Any: ...


class HasPlaneBall(Protocol):
    """That it depends on two coordinates; or None."""

    def plane_ball(self, d1: Any, d0: Any, /) -> Any: ...
