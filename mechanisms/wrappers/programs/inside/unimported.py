"""Descriptions of the public functions and classes of modules that cannot be imported, and
signatures of compiled ones, from their source.

Uses the standard library only (Python 3.8 or later). `discovery` loads this file in the interpreter
of the package. Nothing is run.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

_FILE_BYTES = 2_000_000
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def describe_sources(
    failed: dict[str, str],
    skipped: Callable[[str], bool],
    emit: Callable[..., None],
    known: set[str],
) -> None:
    """Send a description of each public name in the source of modules that cannot be imported, and
    of the modules below them.

    Parameters
    ----------
    failed : dict of str to str
        Modules with the reasons.
    skipped : callable
        Whether a module of this last name is left out.
    emit : callable
        Receives the descriptions.
    known : set of str
        Names that imported modules have: not sent again.
    """
    sent = set(known)
    for top, why in failed.items():
        for module, path in _files(top, skipped):
            with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
                tree = ast.parse(open(path, encoding="utf-8").read(_FILE_BYTES))  # noqa: SIM115
                for node in tree.body:
                    if (
                        isinstance(node, (*_FUNCTIONS, ast.ClassDef))
                        and node.name[:1] != "_"
                        and node.name not in sent
                    ):
                        sent.add(node.name)
                        emit("object", **_described(node, module, why))


def add_signatures(about: dict[str, Any]) -> None:
    """Add the signatures that a compiled function or class lacks, from the functions of the same
    names in a type stub or a Python source.

    A Python source has the function if the module replaces it by the compiled one, whose arguments
    may have no names.
    """
    home, _, own = about["defined"].partition(":")
    for module, name in ((about["module"], about["name"]), (home, own)):
        for node in _definitions(module).get(name, ()):
            found = _described(node, module, "")
            spelled = {method["name"]: method["parameters"] for method in found["methods"]}
            if (
                found["kind"] == about["kind"] == "function"
                and about["parameters"] is None
                and node.args.vararg is None
            ):
                # the source of a compiled function names parameters that no caller can name
                about["parameters"] = [
                    each if node.stub else dict(each, kind="POSITIONAL_ONLY")
                    for each in found["parameters"]
                ]
            elif found["kind"] == about["kind"] == "class" and node.stub:
                about["parameters"] = about["parameters"] or found["parameters"]
                for method in about["methods"]:
                    if method["parameters"] is None:
                        method["parameters"] = spelled.get(method["name"])


@functools.lru_cache(maxsize=None)  # noqa: UP033 - Python 3.8
def _definitions(module: str) -> dict[str, list[Any]]:
    """Return the functions and classes that the source or the type stub of an imported module
    defines, by name.
    """
    found: dict[str, list[Any]] = {}
    place = getattr(sys.modules.get(module), "__file__", None) or ""
    stub = (
        place[: len(place) - len(os.path.basename(place))]
        + os.path.basename(place).partition(".")[0]
        + ".pyi"
    )
    for path in (stub, place) if place.endswith(".py") else (stub,):
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
            tree = ast.parse(open(path, encoding="utf-8").read(_FILE_BYTES))  # noqa: SIM115
            for node in tree.body:
                if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                    node.stub = path == stub  # type: ignore[union-attr]
                    found.setdefault(node.name, []).append(node)
    return found


def _files(module: str, skipped: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yield (name, path) of a module and of all modules below it, found without an import."""
    parts = module.split(".")
    with contextlib.suppress(Exception):
        spec = importlib.util.find_spec(parts[0])
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        if spec is not None and not folders and spec.origin and len(parts) == 1:
            yield module, spec.origin
        for root in folders:
            place = os.path.join(root, *parts[1:])
            if os.path.isfile(place + ".py"):
                yield module, place + ".py"
            for folder, inner, names in os.walk(place):
                inner[:] = sorted(
                    name for name in inner if name.isidentifier() and not skipped(name)
                )
                below = (
                    ".".join([module, *os.path.relpath(folder, place).split(os.sep)])
                    .replace("..", ".")
                    .rstrip(".")
                )
                for name in sorted(names):
                    stem, ending = os.path.splitext(name)
                    if ending == ".py" and (stem == "__init__" or not skipped(stem)):
                        yield (
                            below if stem == "__init__" else below + "." + stem,
                            os.path.join(folder, name),
                        )


def _described(node: Any, module: str, why: str) -> dict[str, Any]:
    """Return the description of a function or class, as `descriptions` gives it for an imported
    one.
    """
    is_class = isinstance(node, ast.ClassDef)
    methods = [each for each in node.body if isinstance(each, _FUNCTIONS)] if is_class else []
    made = next((each for each in methods if each.name in ("__init__", "__new__")), None)
    public = [each for each in methods if each.name[:1] != "_" or each.name == "__call__"]
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return {
        "module": module,
        "name": node.name,
        "aliases": [],
        "defined": module + ":" + node.name,
        "doc": _doc(node),
        "init_doc": _doc(made) if made is not None else "",
        "kind": "class" if is_class else "function",
        "parameters": (_parameters(made, True) if made is not None else _fields(node))
        if is_class
        else _parameters(node, False),
        "methods": [_method(each) for each in public] if is_class else [],
        "names": sorted(names)[:200],
        "bases": [ast.unparse(base) for base in node.bases] if is_class else [],
        "enum": is_class and any("Enum" in ast.unparse(base) for base in node.bases),
        "async": isinstance(node, ast.AsyncFunctionDef),
        "broken": why,
    }


def _doc(node: Any) -> str:
    return (ast.get_docstring(node) or "")[:6000]


def _method(node: Any) -> dict[str, Any]:
    marks = [ast.unparse(each) for each in node.decorator_list]
    kind = "static" if "staticmethod" in marks else "class" if "classmethod" in marks else "method"
    return {
        "name": node.name,
        "kind": kind,
        "parameters": _parameters(node, kind != "static"),
        "doc": _doc(node)[:1500],
        "own": True,
    }


def _fields(node: Any) -> list[dict[str, Any]]:
    """Return the annotated fields of a class as the parameters of its constructor, as in a
    dataclass.
    """
    found = [
        each
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
    return [
        _parameter(each.target.id, each.annotation, each.value, "POSITIONAL_OR_KEYWORD")  # type: ignore[union-attr]
        for each in found
    ]


def _parameters(node: Any, bound: bool) -> list[dict[str, Any]]:
    given = [*getattr(node.args, "posonlyargs", []), *node.args.args]
    defaults = [None] * (len(given) - len(node.args.defaults)) + list(node.args.defaults)
    found = [
        _parameter(each.arg, each.annotation, value, "POSITIONAL_OR_KEYWORD")
        for each, value in zip(given, defaults)
    ]
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults)
    return found[int(bound) :] + [
        _parameter(each.arg, each.annotation, value, "KEYWORD_ONLY") for each, value in pairs
    ]


def _parameter(name: str, annotation: Any, default: Any, kind: str) -> dict[str, Any]:
    note = "" if annotation is None else ast.unparse(annotation)
    shown = None if default is None else ast.unparse(default)[:120]
    return {
        "name": name,
        "kind": kind,
        "required": default is None,
        "annotation": note,
        "default": shown,
    }
