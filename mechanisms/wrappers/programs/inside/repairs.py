"""Repairs of imports: lines of Python that discovery runs, and that target files repeat before
their own imports.

Uses the standard library only (Python 3.8 or later). `discovery` loads this file in the interpreter
of the package. A line may use the modules `importlib.util`, `os`, `sys` and `types`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

_FOLDER = "importlib.util.find_spec({!r}).submodule_search_locations[0]"

# A class whose attributes and calls are classes again, so that it can be a base class, a decorator
# and a part of `isinstance`.
_EMPTY = (
    "type('Missing', (type,), {{'__getattr__': lambda cls, name: type(cls)(name, (cls,), "
    "{{'__module__': 'missing'}})"
    " if cls.__module__ == 'missing' and name[:2] != '__' else getattr(object(), "
    "name)}})({!r}, (), {{'__module__': 'missing',"
    " '__new__': lambda cls, *_, **__: type(cls)('Missing', (cls,), {{'__module__': 'missing'}})"
    " if cls.__module__ == 'missing' else object.__new__(cls)}})"
)


def repairs(name: str, error: BaseException) -> Iterator[str]:
    """Yield the lines that may let the import of a module succeed, after an import that has failed
    with `error`.

    The module may import a neighbor as if a folder of the package, or the folder `src` of its
    sources, were the working folder. A package whose own code fails becomes a package without code,
    so that the modules in it can be imported. In other modules, a library that is not installed is
    replaced by empty classes: code that needs the library raises an exception when it runs.
    """
    top, missing = (
        name.partition(".")[0],
        getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None,
    )
    wanted = str(missing or "").partition(".")[0]
    if wanted == "src":
        yield (
            "sys.modules['src'] = types.ModuleType('src'); sys.modules['src'].__path__ = "
            f"[os.path.dirname({_FOLDER.format(top)})]"
        )
    parts = name.split(".")
    for package in (".".join(parts[:end]) for end in range(len(parts), 0, -1)):
        folder = _folder(package)
        if (
            wanted
            and wanted != top
            and folder
            and any(os.path.exists(os.path.join(folder, wanted + end)) for end in (".py", "/"))
        ):
            yield f"sys.path.append({_FOLDER.format(package)})"
    if _folder(name):
        parent, _, last = name.rpartition(".")
        attribute = f"importlib.import_module({parent!r}).{last} = " if parent else ""
        yield (
            f"sys.modules[{name!r}] = "
            f"{attribute}importlib.util.module_from_spec(importlib.util.find_spec({name!r}))"
        )
    elif wanted and wanted not in (top, "src"):
        yield f"sys.modules[{missing!r}] = {_EMPTY.format(missing)}"


def apply(line: str) -> None:
    """Run one repair."""
    exec(line, {"importlib": importlib, "os": os, "sys": sys, "types": types})


def _folder(package: str) -> str:
    """Return the folder of a package; empty for a module."""
    found: Any = None
    with contextlib.suppress(Exception):
        found = importlib.util.find_spec(package)
    return next(iter(getattr(found, "submodule_search_locations", None) or ()), "")
