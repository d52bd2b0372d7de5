"""Description of a mechanism by an importable name and arguments, import of a mechanism from this
description, and its source file and line, for readers and for sites that annotate source lines.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpwitness.auditors.workers.source_search import (
    defining_module,
    innermost,
    line_of,
    module_files,
    sha256_of,
)
from dpwitness.core.claims import Claim
from dpwitness.core.values.json_codec import from_jsonable, known_class, public_name, to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.environments import FOLDER, adapter_file
from dpwitness.mechanisms.wrappers.programs.program import command_script
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.recognition import formed, split_form
from dpwitness.mechanisms.wrappers.sessions import Adversary, Interactive

# as files name a target of another interpreter, wherever its class lies
FOREIGN = "dpwitness.mechanisms.foreign:Target"
QUERY = "dpwitness.mechanisms.wrappers.programs.sql:Query"


def relative(path: str | Path) -> str:
    """Return a path relative to the current folder, with forward slashes, for files that move
    between machines.
    """
    try:
        return Path(os.path.relpath(path)).as_posix()
    except ValueError:  # the path lies on another drive
        return str(path)


def describe_target(mechanism: Any) -> Json | None:
    """Return how to build the mechanism again: module, name and, for a dataclass, its fields. None
    if it cannot be imported.
    """
    if isinstance(mechanism, Interactive) and mechanism.base is not None:
        base, adversary = describe_target(mechanism.base), mechanism.adversary
        is_adversary = base is not None and isinstance(adversary, Adversary)
        return base | {"kwargs": {"adversary": adversary.to_dict()}} if is_adversary else None  # type: ignore[operator]
    owner = mechanism if hasattr(mechanism, "__qualname__") else type(mechanism)
    module, name = getattr(owner, "__module__", None), getattr(owner, "__qualname__", "")
    if module in (None, "__main__") or "<" in name:
        return None
    target = {
        "target": FOREIGN
        if isinstance(mechanism, Target)
        else public_name(owner)
        if isinstance(owner, type)
        else f"{module}:{name}"
    }
    if owner is mechanism:
        return target
    if not dataclasses.is_dataclass(mechanism):
        return None
    try:
        values = {
            f.name: getattr(mechanism, f.name) for f in dataclasses.fields(mechanism) if f.init
        }
        # the constructor accepts a claim by its spelling
        fields = {
            name: to_jsonable(str(value) if isinstance(value, Claim) else value)
            for name, value in values.items()
        }
    except InvalidArgument:
        return None
    if isinstance(mechanism, Target) and mechanism.command:
        kept_fields = {"time_limit", "memory_limit", "text"}
        fields = {
            "command": list(mechanism.command),
            "cwd": relative(mechanism.cwd or "."),
            **{key: fields[key] for key in kept_fields},
        }
    elif isinstance(mechanism, Target):
        fields = {
            key: value for key, value in fields.items() if key not in ("command", "cwd", "text")
        }
        if os.path.isabs(fields["file"]):
            fields["file"] = relative(fields["file"])
        # other interpreters exist on this machine only
        if fields["python"] and not relative(fields["python"]).startswith(".."):
            fields["python"] = (
                relative(fields["python"]) if os.path.isabs(fields["python"]) else fields["python"]
            )
    return target | {"kwargs": fields}


def source_of(mechanism: Any, target: Json | None) -> Json | None:
    """Return file, line and hash of the source of a target; None for this project's own and for
    unknown sources.
    """
    if target is None:
        return None
    line = None
    if isinstance(mechanism, Target):
        file = mechanism.file if mechanism.file.endswith(".py") else None
        script = (
            command_script(mechanism.command, mechanism.cwd or "") if mechanism.command else None
        )
        if script is not None and (digest := sha256_of(script)) is not None:
            return {
                "file": relative(script) if not relative(script).startswith("..") else script.name,
                "sha256": digest,
            }
    else:
        home = defining_module(mechanism)
        file = getattr(sys.modules.get(home), "__file__", None)
        if home.partition(".")[0] == "dpwitness":
            return None
        found = mechanism.func if isinstance(mechanism, functools.partial) else mechanism
        found = inspect.unwrap(found) if callable(found) else found
        if hasattr(found, "__code__"):
            line = int(found.__code__.co_firstlineno)
        else:
            with suppress(OSError, TypeError):
                line = inspect.getsourcelines(found if isinstance(found, type) else type(found))[1]
    if file is None or not file.endswith(".py") or (digest := sha256_of(Path(file))) is None:
        return None
    inside = not relative(file).startswith("..")
    return {"file": relative(file) if inside else Path(file).name, "sha256": digest} | (
        {} if line is None else {"line": line}
    )


def find_target(target: str) -> Any:
    """Import ``MODULE:NAME`` or ``FILE.py:NAME`` and return the named object. A class is not
    instantiated.

    Raises
    ------
    InvalidArgument
        If module, file or name do not exist.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InvalidArgument(
            f"target must have the form MODULE:NAME or FILE.py:NAME, got {target!r}"
        )
    name, _ = split_form(name)
    registered = known_class(f"{place}:{name}")  # also by the module of an earlier layout
    return named(imported(place, target), name, place) if registered is None else registered


def load_target(target: str, kwargs: Json | None = None) -> Any:
    """Import ``MODULE:NAME`` or ``FILE.py:NAME``, build a class with `kwargs`, or bind a function
    to them.

    This function is for targets that the user names. Targets named in a file go through
    `dpwitness.auditors.workers.trust`.

    Raises
    ------
    InvalidArgument
        If module, file or name do not exist, or the keywords do not fit.
    """
    found = find_target(target)
    name = target.rpartition(":")[2]
    return built(
        found,
        name,
        {key: from_jsonable(value, f"kwargs.{key}") for key, value in (kwargs or {}).items()},
    )


def imported(place: str, target: str) -> Any:
    """Import a module, or a file as a module, so that worker processes can import it too."""
    if place.endswith(".py"):
        path = Path(place).resolve()
        if not path.is_file():
            raise InvalidArgument(f"target must name an existing file, got {place!r}")
        if str(path.parent) not in sys.path:
            # so that worker processes find the module by its name
            sys.path.insert(0, str(path.parent))
        found = importlib.import_module(path.stem)
        where = getattr(found, "__file__", None)
        if where is None or Path(where).resolve() != path:
            raise InvalidArgument(
                f"target must have a unique file name, got {place!r}: a module {path.stem!r} is "
                f"already loaded from {where or 'Python itself'}"
            )
        return found
    if not all(part.isidentifier() for part in place.split(".")):
        raise InvalidArgument(
            "target must name a module such as package.module, or a file that ends in .py, "
            f"got {target!r}"
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        # moved there
        return importlib.import_module(
            re.sub(r"(?<=^dpwitness\.proofs_checks\.)(?=\w+_claims$)", "claims.", place)
        )
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise InvalidArgument(
                f"target must be importable, got {target!r}: no module named {error.name!r}"
            ) from None
        raise


def named(module: Any, name: str, place: str) -> Any:
    """Return the object with a dotted name in a module."""
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidArgument(
                f"target must name something in {place}, got {name!r}, which is not there"
            )
        found = getattr(found, part)
    return found


def built(found: Any, name: str, kwargs: Json) -> Any:
    """Return an object of a class, a function bound to its keywords, or the mechanism of the form
    that the name holds.
    """
    _, form = split_form(name)
    if form:
        return formed(found, kwargs, form)
    if isinstance(found, type):
        try:
            return found(**kwargs)
        except TypeError as error:
            raise InvalidArgument(f"kwargs must fit {name}: {error}") from None
    if isinstance(found, Interactive) and set(kwargs) == {"adversary"}:
        return found.against(kwargs["adversary"])
    return functools.partial(found, **kwargs) if kwargs else found


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
        found = innermost(found, ("func", "__func__", "py_func", "__wrapped__"))
        code = getattr(found, "__code__", None)
        owner = found if code is not None or isinstance(found, type) else type(found)
        file = Path(code.co_filename if code is not None else inspect.getfile(owner))
        line = int(code.co_firstlineno) if code is not None else inspect.getsourcelines(owner)[1]
    except (
        Exception
    ):  # a user's object may raise anything, and a missing place must not lose the verdict
        return None, None, ""
    return (file, line, str(owner.__module__ or "")) if file.is_file() else (None, None, "")


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
    folders = ("site-packages", "dist-packages")
    installed = next((i for i, part in enumerate(path.parts) if part in folders), None)
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
