"""Expressions of provable programs: their types, and their values as numbers or as terms of z3."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from dpwitness.proofs_checks.alignments.source import shown
from dpwitness.proofs_checks.engine.ledger import need

_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_COMPARISON: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt},
    **{ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne},
}


class Untyped(Exception):
    """An expression outside the subset; the text is the reason."""


def type_of(node: ast.expr, types: Mapping[str, str]) -> str:
    """Return ``int``, ``real`` or ``bool``. Raises Untyped for an expression outside the subset."""
    match node:
        case ast.Constant(value=bool()):
            return "bool"
        case ast.Constant(value=int()):
            return "int"
        case ast.Constant(value=float(number)) if abs(number) < float("inf"):
            return "real"
        case ast.Name(id=name) if types.get(name) in ("int", "real", "bool"):
            return types[name]
        case ast.UnaryOp(op=ast.Not(), operand=inner) if type_of(inner, types) == "bool":
            return "bool"
        case (
            ast.UnaryOp(op=ast.USub(), operand=inner)
            | ast.Call(func=ast.Name(id="abs"), args=[inner], keywords=[])
        ):
            return _numeric(inner, types)
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(op, left, right, types)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in _COMPARISON for op in ops
        ):
            kinds = {
                "bool" if type_of(part, types) == "bool" else "number" for part in (left, *others)
            }
            if len(kinds) == 1 and (
                "number" in kinds or all(isinstance(op, ast.Eq | ast.NotEq) for op in ops)
            ):
                return "bool"
        case ast.BoolOp(values=parts) if {type_of(part, types) for part in parts} == {"bool"}:
            return "bool"
        case ast.IfExp(test=test, body=body, orelse=other) if type_of(test, types) == "bool":
            if type_of(body, types) == type_of(other, types):
                return type_of(body, types)
    raise Untyped(f"`{shown(node)}` is outside the provable subset")


def _numeric(node: ast.expr, types: Mapping[str, str]) -> str:
    kind = type_of(node, types)
    if kind == "bool":
        raise Untyped(f"`{shown(node)}` is a truth value, not a number")
    return kind


def _arithmetic(op: ast.operator, left: ast.expr, right: ast.expr, types: Mapping[str, str]) -> str:
    kinds = {_numeric(left, types), _numeric(right, types)}
    if isinstance(op, ast.Div) and isinstance(right, ast.Constant) and right.value:
        return "real"
    if (
        isinstance(op, ast.Mod)
        and kinds == {"int"}
        and (isinstance(right, ast.Name) or (isinstance(right, ast.Constant) and right.value))
    ):
        return "int"  # the reader requires that the divisor is a positive parameter
    if type(op) not in _ARITHMETIC:
        raise Untyped(
            "an operator must be +, -, *, / by a number, or % of integers by a parameter or "
            "a number"
        )
    return "int" if kinds == {"int"} else "real"


class Numbers:
    """Values of expressions as Python numbers."""

    @staticmethod
    def number(value: float) -> Any:
        """Return a literal."""
        return value

    @staticmethod
    def constant(value: float, kind: str) -> Any:
        """Return a parameter, a query or noise."""
        return value

    @staticmethod
    def choose(test: Any, first: Any, second: Any) -> Any:
        """Return `first` if `test` holds, else `second`."""
        return first if test else second

    @staticmethod
    def both(*tests: Any) -> Any:
        """Return the conjunction."""
        return all(tests)

    @staticmethod
    def either(*tests: Any) -> Any:
        """Return the disjunction."""
        return any(tests)

    @staticmethod
    def negate(test: Any) -> Any:
        """Return the negation."""
        return not test

    @staticmethod
    def quotient(value: Any, divisor: float) -> Any:
        """Return the quotient by a number."""
        return value / divisor

    @staticmethod
    def remainder(value: Any, divisor: Any) -> Any:
        """Return the remainder."""
        return value % divisor

    @staticmethod
    def impossible(test: Any) -> bool:
        """Return whether a condition is known to be false, so that its block can be left out."""
        return not test


class Formulas:
    """Values of expressions as terms of z3. A remainder is an unknown function of its two operands,
    which includes the true remainder.
    """

    def __init__(self) -> None:
        self.z3 = need("z3", "z3-solver")
        integer = self.z3.IntSort()
        self.remainder = self.z3.Function("remainder", integer, integer, integer)
        self.choose, self.both, self.either, self.negate = (
            self.z3.If,
            self.z3.And,
            self.z3.Or,
            self.z3.Not,
        )

    def number(self, value: Any) -> Any:
        """Return a literal."""
        if isinstance(value, bool):
            return self.z3.BoolVal(value)
        if isinstance(value, int):
            return self.z3.IntVal(value)
        exact = value if isinstance(value, Fraction) else Fraction(repr(value))
        return self.z3.RealVal(f"{exact.numerator}/{exact.denominator}")

    def quotient(self, value: Any, divisor: float) -> Any:
        """Return the quotient by a number."""
        return value * self.number(1 / Fraction(repr(divisor)))

    def symbol(self, name: str, kind: str) -> Any:
        """Return an unknown constant of a type."""
        return {"int": self.z3.Int, "real": self.z3.Real, "bool": self.z3.Bool}[kind](name)

    def impossible(self, test: Any) -> bool:
        """Return False: every block of a formula is evaluated."""
        return test is False


def value(node: ast.expr, names: Mapping[str, Any], terms: Any) -> Any:
    """Return the value of an expression. ``left.x`` reads the name ``left.x``."""
    match node:
        case ast.Constant(value=literal):
            return terms.number(literal)
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
            return names[f"{owner}.{attribute}"]
        case ast.UnaryOp(op=op, operand=inner):
            found = value(inner, names, terms)
            return terms.negate(found) if isinstance(op, ast.Not) else -found
        case ast.Call(args=[inner]):
            found = value(inner, names, terms)
            return terms.choose(found >= 0, found, -found)
        case ast.BoolOp(op=op, values=parts):
            found = [value(part, names, terms) for part in parts]
            return terms.both(*found) if isinstance(op, ast.And) else terms.either(*found)
        case ast.IfExp(test=test, body=body, orelse=other):
            return terms.choose(
                value(test, names, terms), value(body, names, terms), value(other, names, terms)
            )
        case ast.Compare(left=left, ops=ops, comparators=others):
            parts = [value(part, names, terms) for part in (left, *others)]
            tests = [
                _COMPARISON[type(op)](a, b) for op, a, b in zip(ops, parts, parts[1:], strict=False)
            ]
            return functools.reduce(terms.both, tests)
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=divisor)):
            return terms.quotient(value(left, names, terms), divisor)
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            return terms.remainder(value(left, names, terms), value(right, names, terms))
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](value(left, names, terms), value(right, names, terms))
    raise Untyped(f"`{shown(node)}` has no value")
