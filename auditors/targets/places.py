"""Where the source of a mechanism stands: file and line for a reader, or for a forge that shows them beside the code."""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path
from typing import Any

from dpwitness.auditors.targets.locating import line_of, locate
from dpwitness.auditors.targets.naming import FOREIGN
from dpwitness.mechanisms.foreign.environments import FOLDER, adapter_file
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument

_INSTALLED = ("site-packages", "dist-packages")


def place_of(found: Any, target: Json | None, here: Path | None = None) -> Json | None:
    """``{"file", "line"}`` of a mechanism or a function; of the target that names it, where there is no such object. None if not known.

    The file is relative to `here` (the current folder) if it lies inside, and from its top package on otherwise: never absolute.
    """
    kwargs = (target or {}).get("kwargs") or {}
    file, line, module = None, None, ""
    if isinstance(found, Target):
        file, line, module = _of_target_file(found.file, found.name)
    elif found is None and target is not None and target.get("target") == FOREIGN:
        file, line, module = _of_target_file(str(kwargs.get("file")), str(kwargs.get("name")))
    elif found is not None:
        file, line, module = _of_object(found)
    if file is None and target is not None and target.get("target") != FOREIGN:
        file, line, module = _of_name(str(target.get("target")))
    if file is None:
        return None
    shown = _shown(file, module, (here or Path.cwd()).resolve())
    return {"file": shown, "line": max(line or 1, 1)}


def _of_target_file(file: str, name: str) -> tuple[Path | None, int | None, str]:
    path = Path(file) if file.endswith(".py") else adapter_file(file)
    if path is None or not path.is_file():
        return None, None, ""
    return path, line_of(path, name), f"dpwitness.mechanisms.foreign.adapters.{path.stem}" if path.parent == FOLDER else ""


def _of_object(found: Any) -> tuple[Path | None, int | None, str]:
    """Of what is called in the end; a class stands for its objects."""
    try:
        for _ in range(50):
            inner = next((getattr(found, name) for name in ("func", "__func__", "py_func", "__wrapped__") if _wraps(found, name)), None)
            if inner is None:
                break
            found = inner
        code = getattr(found, "__code__", None)
        owner = found if code is not None or isinstance(found, type) else type(found)
        file = Path(code.co_filename if code is not None else inspect.getfile(owner))
        line = int(code.co_firstlineno) if code is not None else inspect.getsourcelines(owner)[1]
    except Exception:  # somebody's object may answer anything: a verdict is not lost with its place
        return None, None, ""
    return (file, line, str(owner.__module__ or "")) if file.is_file() else (None, None, "")


def _wraps(found: Any, name: str) -> bool:
    """Whether an attribute is the callable within: `func` only of a partial, as objects of somebody's own may have one by that name."""
    return callable(getattr(found, name, None)) and (name != "func" or isinstance(found, functools.partial))


def _of_name(text: str) -> tuple[Path | None, int | None, str]:
    """Of ``MODULE:NAME`` or ``FILE.py:NAME``. What is not loaded already is not imported."""
    place, _, name = text.rpartition(":")
    if place.endswith(".py"):
        path = Path(place)
        return (path, line_of(path, name), "") if path.is_file() else (None, None, "")
    inside: Any = sys.modules.get(place)
    for part in name.split(".") if inside is not None else ():
        inside = getattr(inside, part, None)
    if inside is not None:
        return _of_object(inside)
    try:
        path = locate(place, Path.cwd())[-1]
    except (InvalidArgument, ValueError, ImportError):
        return None, None, ""
    return (path, line_of(path, name), place) if path.suffix == ".py" else (None, None, "")


def _shown(file: Path, module: str, here: Path) -> str:
    path = file.resolve()
    installed = next((i for i, part in enumerate(path.parts) if part in _INSTALLED), None)
    if installed is not None:
        return "/".join(path.parts[installed + 1 :])
    if path.is_relative_to(here):
        return path.relative_to(here).as_posix()
    parts = module.split(".")
    if parts[-1] == path.stem:  # __main__ is a file of its own
        return "/".join(parts) + ".py"
    if path.name == "__init__.py":
        return "/".join([*parts, path.name])
    return path.name
