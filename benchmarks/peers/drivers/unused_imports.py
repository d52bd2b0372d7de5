"""Placeholders for libraries that a tool imports when it starts, for parts that a comparison on
given datasets does not use.
"""

from __future__ import annotations

import sys
from types import ModuleType


class _Anything:
    """Base class of all names in a placeholder; a call accepts any arguments."""

    def __init__(self, *arguments: object, **options: object) -> None: ...


class _Placeholder(ModuleType):
    """Module that has an empty class for every name."""

    __path__: list[str] = []  # noqa: RUF012
    __all__: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Anything,), {})


def leave_out(*modules: str) -> None:
    """Make imports of these modules and of their parents succeed without the library."""
    for module in modules:
        parent, name = None, ""
        for part in module.split("."):
            name = f"{name}.{part}".lstrip(".")
            found = sys.modules.setdefault(name, _Placeholder(name))
            if parent is not None:
                setattr(parent, part, found)
            parent = found
