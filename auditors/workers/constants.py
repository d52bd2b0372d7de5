"""Constants in the code of a function, which a search tries as values, as numbers of rows, and as
parameters.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MOST = 60  # constants that a search uses
_DEPTH = 4  # nesting of functions whose constants are read
_MAX_BYTES = 2_000_000  # largest source file that is read
_COMMON = (0, 1, 2, -1, True, False, None, "")


def constants_of(transformation: Any) -> list[Any]:
    """Return numbers and texts in the code, defaults and closures of a function, or in the source
    file of a target, without running it.
    """
    target = getattr(transformation, "target", None)
    file = getattr(target, "file", "")
    found = (
        _constants_of_file(file)
        if isinstance(file, str) and file.endswith(".py")
        else _constants_of_object(transformation, _DEPTH)
    )
    kept: dict[tuple[type, Any], Any] = {}
    for value in found:
        if isinstance(value, int | float | str) and value not in _COMMON and len(kept) < _MOST:
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
        if path.stat().st_size > _MAX_BYTES:
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
