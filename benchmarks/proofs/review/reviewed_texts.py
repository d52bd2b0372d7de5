"""Reviewed texts of the claims: the printed texts of each entry, and a digest of its check at the
last review by a person.

A reviewer accepts a text and its check together. If the text or the check changes, `differences`
names the claim and shows both texts. The digest covers the check, the functions, methods and
constants of the claims' modules that the check uses, and the domain. The digest does not cover
comments, docstrings, layout, the engine or the mechanisms.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dpwitness.core.values import json_reader
from dpwitness.core.values.atomic_files import write_json
from dpwitness.core.values.json_reader import Json
from dpwitness.proofs_checks.engine.finding import Declaration

# the engine, which runs the checks, is not part of a check: other tests cover it
CLAIMS = "dpwitness.proofs_checks.claims."


@dataclass(frozen=True, slots=True)
class Definition:
    """Function or module constant of the claims' modules, with its syntax tree."""

    module: str
    name: str
    tree: ast.AST
    function: types.FunctionType | None  # None for a constant
    checked: bool  # whether the function is the claim's check

    @property
    def where(self) -> str:
        return f"{self.module.rpartition('.')[2]}.{self.name}"


@cache
def _syntax_tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def is_claims_module(module: str | None) -> bool:
    """Return whether a module holds claims."""
    return module is not None and module.startswith(CLAIMS)


def _function_definition(function: types.FunctionType, checked: bool) -> Definition:
    for node in ast.walk(_syntax_tree(function.__module__)):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= function.__code__.co_firstlineno <= node.lineno:
                return Definition(
                    function.__module__, function.__qualname__, node, function, checked
                )
    raise LookupError(function.__qualname__)


def _constant_definition(module: str, name: str) -> Definition | None:
    for node in _syntax_tree(module).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            return Definition(module, name, node, None, False)
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and any((a.asname or a.name) == name for a in node.names)
        ):
            return (
                _constant_definition(node.module, name) if is_claims_module(node.module) else None
            )
    return None


def places(declared: Declaration) -> list[Definition]:
    """Return the check's definition, and those of all functions, methods and constants of the
    claims' modules that the check uses.
    """
    found: dict[tuple[str, str], Definition] = {}
    queue = [_function_definition(declared.function, True)]  # type: ignore[arg-type]
    while queue:
        place = queue.pop()
        if (place.module, place.name) in found:
            continue
        found[place.module, place.name] = place
        namespace = vars(sys.modules[place.module])
        body = place.tree.body if isinstance(place.tree, ast.FunctionDef) else [place.tree]
        parameter_names = {node.arg for node in ast.walk(place.tree) if isinstance(node, ast.arg)}
        for name in {
            node.id for part in body for node in ast.walk(part) if isinstance(node, ast.Name)
        } - parameter_names:
            value = namespace.get(name)
            if isinstance(value, types.FunctionType) and is_claims_module(value.__module__):
                queue.append(_function_definition(value, False))
            elif isinstance(value, type) and is_claims_module(value.__module__):
                members = [getattr(m, "fget", m) for m in vars(value).values()]
                queue += [
                    _function_definition(m, False)
                    for m in members
                    if isinstance(m, types.FunctionType) and m.__name__[:2] != "__"
                ]
            elif (
                name in namespace
                and (constant := _constant_definition(place.module, name)) is not None
            ):
                queue.append(constant)
    return list(found.values())


TEXTS = ("source", "statement", "formula")
_IGNORED = {"ctx", "kind", "type_comment", "type_params", "type_ignores", "decorator_list"}

Reviewed = Mapping[str, Mapping[str, str]]


def _without_docstring(node: Any) -> Any:
    """Return a syntax tree as nested lists without docstrings, decorators and empty fields, equal
    for every version of Python.
    """
    if isinstance(node, list):
        return [_without_docstring(item) for item in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {
        name: value
        for name, value in ast.iter_fields(node)
        if name not in _IGNORED and value not in (None, [])
    }
    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
        fields["body"] = node.body[1:]
    return [
        type(node).__name__,
        *([name, _without_docstring(value)] for name, value in fields.items()),
    ]


def digest(declared: Declaration) -> str:
    """Return a digest of a claim's check: its code, the code that it uses from the claims' modules,
    domain, kind and stated ratio.
    """
    code = sorted((place.where, str(_without_docstring(place.tree))) for place in places(declared))
    rest = [declared.kind, declared.boxed, declared.reach, sorted(declared.domain.items())]
    return hashlib.blake2b(repr([code, rest]).encode(), digest_size=8).hexdigest()


def entry(declared: Declaration) -> dict[str, str]:
    """Return the entry that a review accepts: the printed texts of a claim and the digest of its
    check.
    """
    return {**{name: getattr(declared, name) for name in TEXTS}, "check": digest(declared)}


def differences(declared: Declaration, reviewed: Reviewed) -> list[str]:
    """Return one message for each printed text, or check, that differs from the reviewed entry; an
    empty list if nothing differs.

    Each message shows both texts and the command that accepts the change.
    """
    old, new = reviewed.get(declared.id), entry(declared)
    instruction = (
        "Compare the text with its check, then run: python -m "
        f"dpwitness.benchmarks.proofs.review {declared.id}"
    )
    if old is None:
        return [f"{declared.id}: no text was reviewed. Now: {declared.statement!r}. {instruction}"]
    changed = [name for name in new if old[name] != new[name]]
    unchanged_check = "" if "check" in changed else " Its check did not change."
    found = [
        f"{declared.id}: the {name} was {old[name]!r} and is {new[name]!r}.{unchanged_check} "
        f"{instruction}"
        for name in changed
        if name != "check"
    ]
    if changed == ["check"]:
        found = [
            f"{declared.id}: the check changed and its statement {declared.statement!r} did "
            f"not. {instruction}"
        ]
    return found


def read_reviewed(file: Path) -> dict[str, dict[str, str]]:
    """Return the reviewed entries by id. Raises InvalidArgument if the file cannot be read."""
    row = json_reader.record(**dict.fromkeys((*TEXTS, "check"), json_reader.text(1000)))
    return dict(json_reader.items(row)(json_reader.read_json(file), file.name))


def accept(file: Path, *changed: Declaration) -> Json:
    """Write the present texts and digests of the claims `changed` into the file of reviewed texts,
    and return its content.
    """
    reviewed = read_reviewed(file) if file.exists() else {}
    reviewed |= {declared.id: entry(declared) for declared in changed}
    write_json(file, dict(sorted(reviewed.items())))
    return reviewed
