"""Code of a claim's check: the functions, methods and constants of the claims' modules that the
check uses.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import types
from dataclasses import dataclass
from functools import cache

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
