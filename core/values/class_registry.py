"""Registry of the classes that a JSON file may name: the public names of `mechanisms`, and the
classes of `_INTERNAL`.

A file names a class by the package that exports it, as ``dpwitness.mechanisms:Laplace``; also a
class of `core`. A user-defined class is built only if a resolver that the user has requested
finds the class.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

# (name of a class, path of the field) -> the class, or InvalidArgument
Resolver = Callable[[str, str], type]

_NAME = re.compile(r"dpwitness\.(core|mechanisms|auditors)(?:\.\w+)*:([A-Z]\w*)")
# Public names that no dataset, event or parameter of a mechanism holds.
_EXCLUDED = {
    "Claim",
    "ConvergenceError",
    "Domain",
    "InvalidArgument",
    "Mechanism",
    "Pair",
    "Relation",
    "Truth",
}
_INTERNAL = {
    "mechanisms.papers.logistic": "QuadraticPenalty",
    "core.numerics.noise": "SphericalNoise",
    "core.claims.accounting": "AccountedDP",
    "auditors.events.event": "Binned Restricted",
    "auditors.events.rules": "Atoms Ball Intervals Lattice LowBits Threshold WeightedScore",
    "auditors.events.features": (
        "Affine Distances Levels Places Products ProjectedRamps Ramps SignedLog Sorted Trees "
        "WhitenedDistances"
    ),
    "auditors.functions.bounds.utility_claims": "FailureBound MeanBound Scaling",
}
_EXPORTED_BY = {"core": "mechanisms"}
_MODULE = {
    (_EXPORTED_BY.get(top := module.partition(".")[0], top), name): f"dpwitness.{module}"
    for module, names in _INTERNAL.items()
    for name in names.split()
}


def _location(name: str) -> tuple[str, str] | None:
    """Return the module from which a registered class is imported, and the class's name; None if
    the name is not registered.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    package, cls = _EXPORTED_BY.get(match[1], match[1]), match[2]
    public = (
        package == "mechanisms"
        and cls not in _EXCLUDED
        and cls in importlib.import_module("dpwitness.mechanisms").__all__
    )
    module = "dpwitness.mechanisms" if public else _MODULE.get((package, cls))
    return None if module is None else (module, cls)


def known_class(name: str) -> Any:
    """Return the registered class of this name; None if the name is not registered."""
    place = _location(name)
    return None if place is None else getattr(importlib.import_module(place[0]), place[1])


def is_registered(name: str) -> bool:
    """Return whether a class of this name is registered, without importing the class."""
    return _location(name) is not None


def public_name(cls: type) -> str:
    """Return the name of a class in files: its public name if registered, else
    ``module:qualname``.
    """
    name = f"{cls.__module__}:{cls.__qualname__}"
    package = cls.__module__.split(".")[1] if known_class(name) is cls else ""
    return f"dpwitness.{_EXPORTED_BY.get(package, package)}:{cls.__qualname__}" if package else name


def modules_of(package: str) -> list[ModuleType]:
    """Import all modules of a package and return them, ordered by name."""
    path = importlib.import_module(package).__path__
    return [
        importlib.import_module(name)
        for name in sorted(f"{package}.{found.name}" for found in pkgutil.iter_modules(path))
    ]
