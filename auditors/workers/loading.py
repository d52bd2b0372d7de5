"""Description of a mechanism by an importable name and arguments, and import of a mechanism from
this description.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

from dpwitness.core.claims import Claim
from dpwitness.core.values.class_registry import known_class, public_name
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.adversaries import Adversary
from dpwitness.mechanisms.wrappers.programs.program import command_script
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.recognition import formed, split_form
from dpwitness.mechanisms.wrappers.sessions import Interactive

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
        fields = {
            f.name: to_jsonable(_constructor_value(getattr(mechanism, f.name)))
            for f in dataclasses.fields(mechanism)
            if f.init
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


def _constructor_value(value: Any) -> Any:
    """Return a field's value in a form that the constructor accepts: a claim becomes
    its spelling.
    """
    return str(value) if isinstance(value, Claim) else value


def source_of(mechanism: Any, target: Json | None) -> Json | None:
    """Return file, line and hash of the source of a target; None for this project's own and for
    unknown sources.
    """
    from dpwitness.auditors.workers.source_search import defining_module, sha256_of

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
        line = _definition_line(mechanism)
    if file is None or not file.endswith(".py") or (digest := sha256_of(Path(file))) is None:
        return None
    inside = not relative(file).startswith("..")
    return {"file": relative(file) if inside else Path(file).name, "sha256": digest} | (
        {} if line is None else {"line": line}
    )


def _definition_line(mechanism: Any) -> int | None:
    """Return the line at which a mechanism is defined; None if unknown."""
    found = mechanism.func if isinstance(mechanism, functools.partial) else mechanism
    found = inspect.unwrap(found) if callable(found) else found
    if hasattr(found, "__code__"):
        return int(found.__code__.co_firstlineno)
    try:
        return inspect.getsourcelines(found if isinstance(found, type) else type(found))[1]
    except (OSError, TypeError):
        return None


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
        return _import_file(Path(place).resolve(), place)
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


def _import_file(path: Path, place: str) -> Any:
    """Import a file as a module."""
    if not path.is_file():
        raise InvalidArgument(f"target must name an existing file, got {place!r}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # so that worker processes find the module by its name
    found = importlib.import_module(path.stem)
    where = getattr(found, "__file__", None)
    if where is None or Path(where).resolve() != path:
        raise InvalidArgument(
            f"target must have a unique file name, got {place!r}: a module {path.stem!r} is "
            f"already loaded from {where or 'Python itself'}"
        )
    return found


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
