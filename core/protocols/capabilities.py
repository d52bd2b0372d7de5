"""Optional methods of a mechanism in addition to `sample`, which allow stronger statements.

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
from pathlib import Path
from typing import Any, TypeVar

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
