"""Location of modules without importing them, and inspection of source files without
running them; and the constants in the code of a function, which a search tries as values, as
numbers of rows, and as parameters.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dpwitness.core.values.json_reader import read_bytes, short_json
from dpwitness.core.values.validation import InvalidArgument

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
    """Return the files that importing a module would run, packages first. Nothing is imported."""
    parts, files = module.split("."), []
    search: list[str] | None = None
    for i in range(len(parts)):
        name = ".".join(parts[: i + 1])
        loaded = sys.modules.get(name)
        spec = (
            getattr(loaded, "__spec__", None)
            if loaded is not None
            else _find_spec(name, search, folder)
        )
        origin = getattr(loaded, "__file__", None) or getattr(spec, "origin", None)
        inside = getattr(loaded, "__path__", None) or getattr(
            spec, "submodule_search_locations", None
        )
        if spec is None and loaded is None:
            raise InvalidArgument(
                f"target must be importable, got {short_json(module)}: no module named {name!r}"
            )
        if origin not in (None, "built-in", "frozen", "namespace"):
            files.append(Path(str(origin)))
        elif inside is None:
            raise InvalidArgument(
                f"target {short_json(module)} is built in, and a witness may not run "
                "built-in modules"
            )
        search = None if inside is None else list(inside)
        if search is None and i + 1 < len(parts):
            raise InvalidArgument(
                f"target must be importable, got {short_json(module)}: {name!r} is not a package"
            )
    if not files:
        raise InvalidArgument(
            f"target must be importable, got {short_json(module)}: it is a folder without code"
        )
    return files


def _find_spec(name: str, search: list[str] | None, folder: Path) -> Any:
    """Return the spec of a module as the import system would find it.

    Other finders on `sys.meta_path` are asked for top-level names only, which imports nothing.
    """
    # `imported` will insert it in the same way
    here = [] if str(folder) in sys.path or "" in sys.path else [str(folder)]
    path = [*here, *(entry or str(folder) for entry in sys.path)] if search is None else search
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is not None or search is not None:
        return spec
    for finder in sys.meta_path:
        if finder in (
            importlib.machinery.PathFinder,
            importlib.machinery.BuiltinImporter,
            importlib.machinery.FrozenImporter,
        ):
            continue
        try:
            spec = finder.find_spec(name, None)
        except Exception:  # a third-party import hook may raise anything
            continue
        if spec is not None:
            return spec
    return None


def imports_of(file: Path) -> set[str]:
    """Return the names that a source file binds by import statements, without running the file."""
    found = set()
    with contextlib.suppress(InvalidArgument, SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(ast.parse(read_bytes(file, most=_MAX_SOURCE_BYTES))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return found


def line_of(file: Path, name: str) -> int | None:
    """Return the line at which a function or class is defined in a source file, without running the
    file.
    """
    try:
        body = ast.parse(read_bytes(file, most=_MAX_SOURCE_BYTES)).body
    except (InvalidArgument, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    line = None
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
    found = (
        _constants_of_file(file)
        if isinstance(file, str) and file.endswith(".py")
        # of functions nested up to four times
        else _constants_of_object(getattr(owner, "wrapped", function), 4)
    )
    kept: dict[tuple[type, Any], Any] = {}
    for value in found:
        if isinstance(value, int | float | str) and value not in _COMMON and len(kept) < 60:
            kept[type(value), value] = value
    return list(kept.values())


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
    if not isinstance(found, types.FunctionType):
        found = type(found).__call__ if callable(found) else None
    if isinstance(found, types.FunctionType):
        yield from _constants_of_code(found.__code__)
        yield from (*(found.__defaults__ or ()), *(found.__kwdefaults__ or {}).values())
        reached = [
            found.__globals__[name] for name in found.__code__.co_names if name in found.__globals__
        ]
        for cell in found.__closure__ or ():
            try:
                reached.append(cell.cell_contents)
            except ValueError:  # an empty cell
                continue
        for value in reached:
            yield value
            if isinstance(value, types.FunctionType | functools.partial):
                yield from _constants_of_object(value, depth - 1)


def _constants_of_code(code: types.CodeType) -> Iterator[Any]:
    for value in (
        code.co_consts[1:]
        if code.co_consts and isinstance(code.co_consts[0], str)
        else code.co_consts
    ):
        if isinstance(value, types.CodeType):
            yield from _constants_of_code(value)
        elif isinstance(value, tuple | frozenset):
            yield from value
        else:
            yield value


def _constants_of_file(file: str) -> Iterator[Any]:
    """Yield the constants in a source file, without docstrings."""
    path = Path(file)
    try:
        if path.stat().st_size > 2_000_000:
            return
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield node.value
            if isinstance(node.value, int | float) and not isinstance(node.value, bool):
                yield -node.value
