"""Source file and line of a mechanism, for readers and for code-hosting sites that annotate source
lines.
"""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path
from typing import Any

from dpwitness.auditors.workers.loading import FOREIGN
from dpwitness.auditors.workers.source_search import line_of, module_files
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.environments import FOLDER, adapter_file
from dpwitness.mechanisms.wrappers.programs.target import Target

_INSTALLED = ("site-packages", "dist-packages")


def place_of(found: Any, target: Json | None, here: Path | None = None) -> Json | None:
    """Return ``{"file", "line"}`` of a mechanism or a function; None if unknown.

    Without an object, the place is found from `target`, which names the object. The file is
    relative to `here` (default: the current folder) if it lies inside, otherwise relative to the
    parent of its top package. The path is never absolute.
    """
    kwargs = (target or {}).get("kwargs") or {}
    file, line, module = None, None, ""
    if isinstance(found, Target):
        file, line, module = _place_of_target(found.file, found.name)
    elif found is None and target is not None and target.get("target") == FOREIGN:
        file, line, module = _place_of_target(str(kwargs.get("file")), str(kwargs.get("name")))
    elif found is not None:
        file, line, module = _place_of_object(found)
    if file is None and target is not None and target.get("target") != FOREIGN:
        file, line, module = _place_of_name(str(target.get("target")))
    if file is None:
        return None
    shown = _display_path(file, module, (here or Path.cwd()).resolve())
    return {"file": shown, "line": max(line or 1, 1)}


def _place_of_target(file: str, name: str) -> tuple[Path | None, int | None, str]:
    """Return file, line and module of a target's function."""
    path = Path(file) if file.endswith(".py") else adapter_file(file)
    if path is None or not path.is_file():
        return None, None, ""
    module = (
        f"dpwitness.benchmarks.libraries.{path.parent.name}.{path.stem}"
        if path.parent.parent == FOLDER
        else ""
    )
    return path, line_of(path, name), module


def _place_of_object(found: Any) -> tuple[Path | None, int | None, str]:
    """Return file, line and module of the innermost callable; for an instance, those of
    its class.
    """
    try:
        for _ in range(50):
            inner = next(
                (
                    getattr(found, name)
                    for name in ("func", "__func__", "py_func", "__wrapped__")
                    if _wraps(found, name)
                ),
                None,
            )
            if inner is None:
                break
            found = inner
        code = getattr(found, "__code__", None)
        owner = found if code is not None or isinstance(found, type) else type(found)
        file = Path(code.co_filename if code is not None else inspect.getfile(owner))
        line = int(code.co_firstlineno) if code is not None else inspect.getsourcelines(owner)[1]
    except (
        Exception
    ):  # a user's object may raise anything, and a missing place must not lose the verdict
        return None, None, ""
    return (file, line, str(owner.__module__ or "")) if file.is_file() else (None, None, "")


def _wraps(found: Any, name: str) -> bool:
    """Return whether an attribute is the wrapped callable.

    `func` counts only for a partial, since user-defined objects may have an attribute of this
    name.
    """
    return callable(getattr(found, name, None)) and (
        name != "func" or isinstance(found, functools.partial)
    )


def _place_of_name(text: str) -> tuple[Path | None, int | None, str]:
    """Return file, line and module of ``MODULE:NAME`` or ``FILE.py:NAME``, without importing
    anything.
    """
    place, _, name = text.rpartition(":")
    if place.endswith(".py"):
        path = Path(place)
        return (path, line_of(path, name), "") if path.is_file() else (None, None, "")
    inside: Any = sys.modules.get(place)
    for part in name.split(".") if inside is not None else ():
        inside = getattr(inside, part, None)
    if inside is not None:
        return _place_of_object(inside)
    try:
        path = module_files(place, Path.cwd())[-1]
    except (InvalidArgument, ValueError, ImportError):
        return None, None, ""
    return (path, line_of(path, name), place) if path.suffix == ".py" else (None, None, "")


def _display_path(file: Path, module: str, here: Path) -> str:
    path = file.resolve()
    installed = next((i for i, part in enumerate(path.parts) if part in _INSTALLED), None)
    if installed is not None:
        return "/".join(path.parts[installed + 1 :])
    if path.is_relative_to(here):
        return path.relative_to(here).as_posix()
    parts = module.split(".")
    if parts[-1] == path.stem:  # __main__ does not match its file's name
        return "/".join(parts) + ".py"
    if path.name == "__init__.py":
        return "/".join([*parts, path.name])
    return path.name
