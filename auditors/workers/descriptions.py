"""Description of a mechanism by an importable name and arguments, and its source file and line, for
readers and for sites that annotate source lines.

Modules are located without importing them, and source files are inspected without running them;
also for the constants in the code of a function, which a search tries as values, as numbers of
rows, and as parameters. `loading` builds a mechanism from its description.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.machinery
import inspect
import os
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dpwitness.core.claims import Claim
from dpwitness.core.protocols import ForeignMechanism
from dpwitness.core.values.json_codec import public_name, to_jsonable
from dpwitness.core.values.json_reader import Json, read_bytes, short_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.environments import FOLDER, adapter_file

_MAX_SOURCE_BYTES = 16 * 2**20


def standard(module: str) -> bool:
    """Return whether a module is built in or part of the standard library."""
    top = module.partition(".")[0]
    return (
        top in sys.stdlib_module_names
        or top in sys.builtin_module_names
        or top in ("builtins", "__main__")
    )


def innermost(found: Any, names: Sequence[str] = ("func", "__func__", "py_func")) -> Any:
    """Return the callable inside of partials, methods and functions compiled by Numba; `names` are
    the attributes that hold it.
    """
    for _ in range(50):
        inner = next(
            (
                getattr(found, name)
                for name in names
                if callable(getattr(found, name, None))
                # the objects of users may have an attribute `func`
                and (name != "func" or isinstance(found, functools.partial))
            ),
            None,
        )
        if inner is None:
            break
        found = inner
    return found


def defining_module(found: Any) -> str:
    """Return the name of the module that defines an object, or the type of an object."""
    found = innermost(found)
    itself = isinstance(found, type | types.FunctionType) or (
        hasattr(found, "__qualname__") and hasattr(found, "__module__")
    )
    owner = found if itself else type(found)
    return str(getattr(owner, "__module__", None) or "builtins")


def sha256_of(path: Path) -> str | None:
    """Return the SHA-256 of a source file; None if the file cannot be read."""
    try:
        return hashlib.sha256(read_bytes(path, most=_MAX_SOURCE_BYTES)).hexdigest()
    except InvalidArgument:
        return None


def module_files(module: str, folder: Path) -> list[Path]:
    """Return the files that importing a module would run, packages first. Nothing is imported.
    Raise InvalidArgument if the module does not exist or is built in.
    """
    files, search, parent, name = list[Path](), None, "", ""
    for part in module.split("."):
        parent, name = name, f"{name}.{part}".strip(".")
        if parent and search is None:
            raise InvalidArgument(
                f"target must be importable, got {short_json(module)}: {parent!r} is not a package"
            )
        found = sys.modules.get(name) or _find_spec(name, search, folder)
        if found is None:
            raise InvalidArgument(
                f"target must be importable, got {short_json(module)}: no module named {name!r}"
            )
        # of a module, or of the spec of one that is not loaded
        origin = getattr(found, "__file__", None) or getattr(found, "origin", None)
        search = getattr(found, "__path__", None) or getattr(
            found, "submodule_search_locations", None
        )
        if origin not in (None, "built-in", "frozen", "namespace"):
            files.append(Path(str(origin)))
        elif search is None:
            raise InvalidArgument(
                f"target {short_json(module)} is built in, and a witness may not run "
                "built-in modules"
            )
    if not files:
        raise InvalidArgument(
            f"target must be importable, got {short_json(module)}: it is a folder without code"
        )
    return files


def _find_spec(name: str, search: Any, folder: Path) -> Any:
    """Return the spec of a module as the import system would find it; None if there is none.

    Other finders on `sys.meta_path` are asked for top-level names only, which imports nothing.
    """
    standard_finders = (
        importlib.machinery.PathFinder,
        importlib.machinery.BuiltinImporter,
        importlib.machinery.FrozenImporter,
    )
    # `imported` will insert the folder in the same way
    here = [] if str(folder) in sys.path or "" in sys.path else [str(folder)]
    path = [*here, *(entry or str(folder) for entry in sys.path)] if search is None else search
    spec = importlib.machinery.PathFinder.find_spec(name, list(path))
    for finder in sys.meta_path if search is None else ():
        with suppress(Exception):  # a third-party import hook may raise anything
            if spec is None and finder not in standard_finders:
                spec = finder.find_spec(name, None)
    return spec


def parsed_file(file: Path, most: int = _MAX_SOURCE_BYTES) -> ast.Module:
    """Return the syntax tree of a source file, which is not run; an empty one if the file cannot be
    read.
    """
    with suppress(InvalidArgument, SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.parse(read_bytes(file, most=most))
    return ast.Module([], [])


def imports_of(tree: ast.AST) -> set[str]:
    """Return the names that the import statements of a syntax tree bind."""
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def line_of(file: Path, name: str) -> int | None:
    """Return the line at which a function or class is defined in a source file, without running the
    file.
    """
    body, line = parsed_file(file).body, None
    for part in name.split("."):
        kinds = ast.FunctionDef | ast.ClassDef
        found = next((node for node in body if isinstance(node, kinds) and node.name == part), None)
        if found is None:
            return line
        line, body = found.lineno, found.body
    return line


_COMMON = (0, 1, 2, -1, True, False, None, "")


def constants_of(function: Any) -> list[Any]:
    """Return numbers and texts in the code, defaults and closures of a function, of the methods of
    a class, or in the source file of a target, without running it.
    """
    owner = getattr(function, "__self__", function)  # of the method `sample`
    file = getattr(getattr(owner, "target", owner), "file", "")
    if f"{type(owner).__module__}:{type(owner).__name__}" == QUERY:  # without importing its module
        found: Iterable[Any] = owner.constants
    elif isinstance(file, str) and file.endswith(".py"):
        found = _constants_of_file(Path(file))
    else:  # of functions nested up to four times
        called = getattr(owner, "wrapped", None) or getattr(owner, "update", None)
        found = _constants_of_object(called or function, 4)
    kept = {
        (type(value), value): value
        for value in found
        if isinstance(value, int | float | str) and value not in _COMMON
    }
    return list(kept.values())[:60]


def _constants_of_object(found: Any, depth: int) -> Iterator[Any]:
    """Yield the constants of a function and of the functions that it refers to."""
    if depth == 0:
        return
    if isinstance(found, functools.partial):
        yield from (*found.args, *found.keywords.values())
        found = found.func
    found = getattr(found, "__func__", found)
    if isinstance(found, type):
        for method in vars(found).values():
            if isinstance(method, types.FunctionType):
                yield from _constants_of_object(method, depth - 1)
        return
    if callable(found) and not isinstance(found, types.FunctionType):
        found = type(found).__call__
    if isinstance(found, types.FunctionType):
        yield from _constants_of_code(found.__code__)
        yield from (*(found.__defaults__ or ()), *(found.__kwdefaults__ or {}).values())
        for value in globals_and_cells(found):
            yield from _entries(value)
            if isinstance(value, types.FunctionType | functools.partial):
                yield from _constants_of_object(value, depth - 1)


def globals_and_cells(
    function: types.FunctionType, names: Iterable[str] | None = None
) -> list[Any]:
    """Return the global objects that a function uses, or those of `names`, and the contents of its
    closure.
    """
    used = function.__code__.co_names if names is None else names
    found = [function.__globals__[name] for name in used if name in function.__globals__]
    empty = types.CellType()
    return found + [cell.cell_contents for cell in function.__closure__ or () if cell != empty]


def _constants_of_code(code: types.CodeType) -> Iterator[Any]:
    is_documented = code.co_consts and isinstance(code.co_consts[0], str)
    for value in code.co_consts[1:] if is_documented else code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _constants_of_code(value)
        else:
            yield from _entries(value)


def _entries(value: Any) -> Iterable[Any]:
    """Return the entries of a container, with the keys of a dict; other values as they are."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, tuple | list | set | frozenset) else [value]


def _constants_of_file(file: Path) -> Iterator[Any]:
    """Yield the constants in a source file, without docstrings."""
    tree = parsed_file(file, 2_000_000)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield node.value
            if isinstance(node.value, int | float) and not isinstance(node.value, bool):
                yield -node.value


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

    A class may have a method `rebuilt_from`, which returns another mechanism, and the keywords to
    which the other one is bound (`Interactive`).
    """
    # only of the class: an object of the user may answer to any name
    origin = getattr(type(mechanism), "rebuilt_from", lambda _: None)(mechanism)
    if origin is not None:
        base, kwargs = describe_target(origin[0]), origin[1]
        return None if base is None else base | {"kwargs": kwargs}
    is_named = hasattr(mechanism, "__qualname__")
    owner = mechanism if is_named else type(mechanism)
    module, name = getattr(owner, "__module__", None), getattr(owner, "__qualname__", "")
    rebuilt = is_named or dataclasses.is_dataclass(mechanism)
    if not rebuilt or module in (None, "__main__") or "<" in name:
        return None
    target: Json = {"target": public_name(owner) if isinstance(owner, type) else f"{module}:{name}"}
    if is_named:
        return target
    values = {f.name: getattr(mechanism, f.name) for f in dataclasses.fields(mechanism) if f.init}
    try:
        # the constructor accepts a claim by its spelling
        fields = {
            name: to_jsonable(str(value) if isinstance(value, Claim) else value)
            for name, value in values.items()
        }
    except InvalidArgument:
        return None
    if isinstance(mechanism, ForeignMechanism):
        return {"target": FOREIGN, "kwargs": _portable_fields(mechanism, fields)}
    return target | {"kwargs": fields}


def _portable_fields(target: ForeignMechanism, fields: Json) -> Json:
    """Return the fields by which a target is built again: those of a program, or those of a
    function in a file. File and folder are relative to the current folder.
    """
    if target.command:
        kept = {key: fields[key] for key in ("time_limit", "memory_limit", "text")}
        return {"command": list(target.command), "cwd": relative(target.cwd or "."), **kept}
    kept = {key: value for key, value in fields.items() if key not in ("command", "cwd", "text")}
    for key in ("file", "python"):
        path = kept[key]
        # other interpreters exist on this machine only
        outside = key == "python" and path and relative(path).startswith("..")
        if path and os.path.isabs(path) and not outside:
            kept[key] = relative(path)
    return kept


def source_of(mechanism: Any, target: Json | None) -> Json | None:
    """Return file, line and hash of the source of a target; None for this project's own and for
    unknown sources.
    """
    if target is None:
        return None
    if isinstance(mechanism, ForeignMechanism):
        place = None if mechanism.source_file is None else Place(mechanism.source_file)
    else:
        place = _place_of_object(mechanism)
    if place is None or place.module.partition(".")[0] == "dpwitness":
        return None
    digest, shown = sha256_of(place.file), relative(place.file)
    found: Json = {"file": place.file.name if shown.startswith("..") else shown, "sha256": digest}
    if place.line is not None:
        found["line"] = place.line
    return found if digest else None


def place_of(found: Any, target: Json | None, here: Path | None = None) -> Json | None:
    """Return ``{"file", "line"}`` of a mechanism or a function; None if unknown.

    Without an object, the place is found from `target`, which names the object. The file is
    relative to `here` (default: the current folder) if it lies inside, otherwise relative to the
    parent of its top package. The path is never absolute.
    """
    kwargs, name = (target or {}).get("kwargs") or {}, (target or {}).get("target")
    place: Place | None = None
    if isinstance(found, ForeignMechanism):
        place = _place_of_target(found.file, found.name)
    elif found is not None:
        place = _place_of_object(found)
    elif name == FOREIGN:
        place = _place_of_target(str(kwargs.get("file")), str(kwargs.get("name")))
    if place is None and name not in (None, FOREIGN):
        place = _place_of_name(str(name))
    if place is None:
        return None
    shown = _display_path(place.file, place.module, (here or Path.cwd()).resolve())
    return {"file": shown, "line": max(place.line or 1, 1)}


class Place(NamedTuple):
    """Place of a definition; the line and the module are None and empty if they are unknown."""

    file: Path
    line: int | None = None
    module: str = ""


def _place_of_target(file: str, name: str) -> Place | None:
    """Return the place of a target's function."""
    path = Path(file) if file.endswith(".py") else adapter_file(file)
    if path is None or not path.is_file():
        return None
    inside = path.parent.parent == FOLDER
    module = f"dpwitness.benchmarks.libraries.{path.parent.name}.{path.stem}" if inside else ""
    return Place(path, line_of(path, name), module)


def _place_of_object(found: Any) -> Place | None:
    """Return the place of the innermost callable; for an instance, that of its class."""
    try:
        found = innermost(found, ("func", "__func__", "py_func", "__wrapped__"))
        code = getattr(found, "__code__", None)
        owner = found if code is not None or isinstance(found, type) else type(found)
        file = Path(code.co_filename if code is not None else inspect.getfile(owner))
        line = int(code.co_firstlineno) if code is not None else inspect.getsourcelines(owner)[1]
    # a user's object may raise anything, and a missing place must not lose the verdict
    except Exception:
        return None
    return Place(file, line, str(owner.__module__ or "")) if file.is_file() else None


def _place_of_name(text: str) -> Place | None:
    """Return the place of ``MODULE:NAME`` or ``FILE.py:NAME``, without importing anything."""
    place, _, name = text.rpartition(":")
    if not place.endswith(".py"):
        inside: Any = sys.modules.get(place)
        for part in name.split(".") if inside is not None else ():
            inside = getattr(inside, part, None)
        if inside is not None:
            return _place_of_object(inside)
    module = "" if place.endswith(".py") else place
    try:
        path = module_files(place, Path.cwd())[-1] if module else Path(place)
    except (InvalidArgument, ValueError, ImportError):
        return None
    return (
        Place(path, line_of(path, name), module)
        if path.suffix == ".py" and path.is_file()
        else None
    )


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
