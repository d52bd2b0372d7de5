"""Changes of one node of Python code, from which the benchmarks make their mutants."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeVar

_T = TypeVar("_T", bound=ast.AST)

SIGNS: Mapping[type[ast.AST], str] = {
    ast.Lt: "<",
    ast.Gt: ">",
    ast.LtE: "<=",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.And: "and",
    ast.Or: "or",
    ast.Not: "not",
    ast.USub: "-",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """Changes that a benchmark makes.

    Parameters
    ----------
    constants : callable
        Returns the other values of a constant.
    operators : mapping
        Other comparisons, binary operators, or connectives, by the type of the present one.
    names : mapping
        Other names of functions and attributes.
    unary : tuple of type
        Unary operators that are removed.
    condition : callable, optional
        Returns the other condition of an ``if``, a ``while`` or a conditional expression.
    """

    constants: Callable[[Any], list[Any]]
    operators: Mapping[type[ast.AST], tuple[type[ast.AST], ...]]
    names: Mapping[str, str] = field(default_factory=dict)
    unary: tuple[type[ast.unaryop], ...] = ()
    condition: Callable[[ast.expr], ast.expr] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Replacement of a node by another one; `text` is such as ``0.25 -> 0.5``."""

    node: ast.AST
    new: ast.AST
    text: str

    def applied(self, tree: _T) -> _T:
        """Return a copy of a tree that contains the node, with the change."""
        return deepcopy(tree, {id(self.node): self.new})


def multiples(value: Any) -> list[Any]:
    """Return a half and the double of a finite number other than zero; nothing for other values.

    Examples
    --------
    >>> multiples(3), multiples(0.5), multiples(True)
    ([1.5, 6], [0.25, 1.0], [])
    """
    if type(value) not in (int, float) or not value or not math.isfinite(value):
        return []
    half = value / 2
    return [int(half) if isinstance(value, int) and half == int(half) else half, 2 * value]


def changes(node: ast.AST, rules: Rules) -> Iterator[Change]:
    """Yield every change of a node, without those of the nodes inside."""

    def change(text: str, **fields: Any) -> Change:
        new = type(node)(**dict(ast.iter_fields(node)) | fields)
        return Change(node, ast.copy_location(new, node), text)

    match node:
        case ast.Constant(value=value):
            yield from (
                change(f"{value!s} -> {other}", value=other) for other in rules.constants(value)
            )
        case ast.Compare(ops=ops):
            for k, op in enumerate(ops):
                for other in rules.operators.get(type(op), ()):
                    text = f"{SIGNS[type(op)]} -> {SIGNS[other]}"
                    yield change(text, ops=[*ops[:k], other(), *ops[k + 1 :]])
        case ast.BinOp(op=op) | ast.BoolOp(op=op):
            for other in rules.operators.get(type(op), ()):
                yield change(f"{SIGNS[type(op)]} -> {SIGNS[other]}", op=other())
        case ast.Name(id=name, ctx=ast.Load()) if name in rules.names:
            yield change(f"{name} -> {rules.names[name]}", id=rules.names[name])
        case ast.Attribute(attr=name) if name in rules.names:
            yield change(f"{name} -> {rules.names[name]}", attr=rules.names[name])
        case ast.UnaryOp(op=op, operand=operand) if isinstance(op, rules.unary):
            yield Change(node, operand, f"{SIGNS[type(op)]} -> ")
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if rules.condition:
            new = rules.condition(test)
            yield Change(test, new, f"{ast.unparse(test)} -> {ast.unparse(new)}")


def not_run(tree: ast.AST) -> set[ast.AST]:
    """Return the nodes of a tree that no call runs: decorators and annotations."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(tree):
        roots += getattr(node, "decorator_list", [])
        roots += [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return {child for root in roots if root is not None for child in ast.walk(root)}
