"""Launcher of the programs that run in the interpreter of a library: ``python launch.py worker``
runs `main` of the module `worker` of this folder, ``python launch.py function_calls`` the other
program.

A program needs modules of dpwitness, but the interpreter may have another dpwitness, or none. So
the modules are imported from the folder of this file, without the code of their packages, which
needs other libraries. Standard library only (Python 3.8 or later).
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and sys.path[0] == __file__.rpartition("/")[0]:
    del sys.path[0]  # the folder of this script, whose modules must not shadow the library's

import contextlib
import importlib
import os
import pathlib
import types
from collections.abc import Iterator
from typing import Any

FOLDER = str(pathlib.Path(__file__).resolve().parents[4])
_INSIDE = "dpwitness.mechanisms.wrappers.programs.inside"


def _package(name: str) -> Any:
    """Return an empty package from which the modules of a folder can be imported."""
    package: Any = types.ModuleType(name)
    package.__path__ = [os.path.join(FOLDER, *name.split(".")[1:])]
    return package


_OWN_MODULES = {
    name: _package(name)
    for name in (
        *("dpwitness", "dpwitness.core", "dpwitness.core.values", "dpwitness.mechanisms"),
        *("dpwitness.mechanisms.wrappers", "dpwitness.mechanisms.wrappers.recording"),
        *("dpwitness.mechanisms.wrappers.programs", _INSIDE),
    )
}


@contextlib.contextmanager
def own_modules() -> Iterator[None]:
    """Import modules of dpwitness from the folder of this file in the block."""

    def exchange(modules: dict[str, Any]) -> dict[str, Any]:
        names = [name for name in sys.modules if name.partition(".")[0] == "dpwitness"]
        taken = {name: sys.modules.pop(name) for name in names}
        sys.modules.update(modules)
        return taken

    theirs = exchange(_OWN_MODULES)
    try:
        yield
    finally:
        _OWN_MODULES.update(exchange(theirs))


if __name__ == "__main__":
    _OWN_MODULES[f"{_INSIDE}.launch"] = sys.modules["__main__"]
    with own_modules():
        _program = importlib.import_module(f"{_INSIDE}.{sys.argv.pop(1)}")
    _program.main()
