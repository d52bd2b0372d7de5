"""Packages of dpwitness that a worker loads by path, because its interpreter may have no dpwitness.

`worker` loads this module too, so the module uses only the standard library (Python 3.8 or later).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

_WRAPPERS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _load(name: str, folder: str) -> Any:
    """Load a folder as the package `name`."""
    spec: Any = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recording() -> Any:
    """Return the package that records primitives."""
    name = "dpwitness_recording"
    found = sys.modules.get(name) or _load(name, os.path.join(_WRAPPERS, "recording"))
    for part in ("primitives", "recorder", "session"):
        importlib.import_module(f"{name}.{part}")
    return found


def recognition() -> Any:
    """Return the module that recognizes functions of one run, objects and estimators."""
    if "dpwitness_objects" not in sys.modules:
        _load("dpwitness_objects", _WRAPPERS)
    return importlib.import_module("dpwitness_objects.recognition")


def provide_dpwitness() -> None:
    """Make the folder `wrappers` importable as dpwitness and dpwitness.wrap in an interpreter
    without dpwitness, for target files.
    """
    if importlib.util.find_spec("dpwitness") is None:
        found = _load("dpwitness", _WRAPPERS)
        found.wrap = sys.modules["dpwitness.wrap"] = found
