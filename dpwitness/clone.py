"""Parts that only a clone of the repository has: benchmarks, third-party libraries and published
pages.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def is_clone() -> bool:
    """Return whether dpwitness runs from a clone, which has the benchmarks."""
    return find_spec("dpwitness.benchmarks") is not None


def from_clone(name: str, what: str) -> ModuleType:
    """Return the module `name` of the benchmarks. Raise InvalidArgument, whose message names
    `what`, if there is no clone.
    """
    from dpwitness.core.values.validation import InvalidArgument

    if not is_clone():
        raise InvalidArgument(
            f"{what} needs a clone: run `pip install -e .` in a clone of the repository"
        )
    return import_module(f"dpwitness.benchmarks.{name}" if name else "dpwitness.benchmarks")
