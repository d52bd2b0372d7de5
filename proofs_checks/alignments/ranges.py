"""Numbers that floating point cannot hold: integers whose conversion would be an exception, and
scales that round to other values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from dpwitness.proofs_checks.alignments.expressions import Untyped, type_of
from dpwitness.proofs_checks.alignments.program import (
    SIZE,
    Append,
    Assign,
    Branch,
    Monomial,
    Program,
    walk,
)
from dpwitness.proofs_checks.alignments.source import shown

MOST = 2**1000  # integers up to this bound become floating-point numbers without an exception
PUBLIC = 2**63  # bound of parameters and of the number of queries
_ROUNDING = 1e-9


def number_problem(program: Program) -> str:
    """Return what is wrong with the numbers of a program: a divisor that is not positive, or an
    integer that may be too large; or "".
    """
    for name in sorted(program.positive & {*program.defaults}):
        if not program.defaults[name] > 0:
            return f"the default of {name} must be positive, as {name} divides or scales noise"
    statements = [statement for block in program.segments for statement in walk(block)]
    public = dict.fromkeys((*program.parameters, program.index), PUBLIC)
    sizes: dict[str, int] = {}
    for statement in statements:
        if isinstance(statement, Assign) and program.types[statement.name] == "int":
            # the variable may add a step in each iteration
            size = 2 * PUBLIC * _magnitude(_step(statement), public)
            sizes[statement.name] = max(sizes.get(statement.name, 0), size)
    read = [
        s.test if isinstance(s, Branch) else s.value
        for s in statements
        if isinstance(s, Assign | Append | Branch)
    ]
    for each in (*read, *program.returns, program.budget, program.where):
        for integer in _converted(each, program.types):
            if _magnitude(integer, {**sizes, **public}) > MOST:
                return (
                    f"the integer `{shown(integer)}` may be too large for a floating-point "
                    "number, which would be an exception"
                )
    return ""


def _converted(node: ast.expr, types: Mapping[str, str]) -> Iterator[ast.expr]:
    """Yield the integer operands that Python converts to floating point."""
    for part in ast.walk(node):
        if isinstance(part, ast.BinOp):
            kinds = {side: type_of(side, types) for side in (part.left, part.right)}
            if isinstance(part.op, ast.Div) or len({*kinds.values()}) > 1:
                yield from (side for side, kind in kinds.items() if kind == "int")


def _step(statement: Assign) -> ast.expr:
    """Return what an assignment adds to its variable: the summand of ``x = x + summand``, or all of
    another value.
    """
    match statement.value:
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add() | ast.Sub(), right=step) if (
            name == statement.name
        ):
            return step
        case ast.BinOp(left=step, op=ast.Add(), right=ast.Name(id=name)) if name == statement.name:
            return step
    return statement.value


def _magnitude(node: ast.expr, sizes: Mapping[str, int]) -> int:
    """Return a bound of the absolute value of an integer expression; above `MOST` for a name that
    `sizes` lacks.
    """
    match node:
        case ast.Constant(value=int(number)):
            return max(1, abs(number))
        case ast.Name(id=name):
            return sizes.get(name, 2 * MOST)
        case ast.UnaryOp(operand=inner) | ast.Call(args=[inner]):
            return _magnitude(inner, sizes)
        case ast.IfExp(body=body, orelse=other):
            return max(_magnitude(body, sizes), _magnitude(other, sizes))
        case ast.BinOp(op=ast.Mod(), right=right):
            return _magnitude(right, sizes)
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _magnitude(left, sizes), _magnitude(right, sizes)
            return first * second if isinstance(op, ast.Mult) else first + second
    return 2 * MOST


def is_positive(literal: Any) -> bool:
    """Return whether a literal is a positive number that floating point holds."""
    return type(literal) in (int, float) and 0 < literal < MOST


def scale_of(node: ast.expr, defaults: Mapping[str, Any]) -> Monomial:
    """Read a scale. Raises Untyped unless it is a product or quotient of parameters and numbers,
    which Python computes up to rounding.
    """
    scale = _monomial(node, defaults)
    if not all(_is_exact(node, scale, names) for names in (defaults, dict.fromkeys(defaults, 1))):
        raise Untyped(f"the scale `{shown(node)}` is not exact in floating point")
    return scale


def _monomial(node: ast.expr, parameters: Mapping[str, Any]) -> Monomial:
    match node:
        case ast.Constant(value=number) if is_positive(number):
            return Monomial(Fraction(repr(number)))
        case ast.Name(id=name) if name in parameters:
            return Monomial(Fraction(1), ((name, 1),))
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id="queries")], keywords=[]):
            return Monomial(Fraction(1), ((SIZE, 1),))
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=right):
            return _monomial(left, parameters).times(
                _monomial(right, parameters), 1 if isinstance(op, ast.Mult) else -1
            )
    raise Untyped(
        f"the scale `{shown(node)}` must be a product or quotient of parameters and positive "
        "numbers"
    )


def _is_exact(node: ast.expr, scale: Monomial, names: Mapping[str, Any]) -> bool:
    """Return whether Python's value of a scale differs from the exact value by rounding only."""
    if any(names[name] <= 0 for name, _ in scale.powers):
        return True  # no promise: the checker requires that the parameters of a scale are positive
    exact = scale.at(names)
    try:
        return abs(Fraction(_rounded(node, names)) - exact) <= _ROUNDING * exact
    except (ArithmeticError, ValueError):
        return False


def _rounded(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a scale as Python computes it."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _rounded(left, names) * _rounded(right, names)
        case ast.BinOp(left=left, right=right):
            return _rounded(left, names) / _rounded(right, names)
        case ast.Constant(value=number):
            return number
        case ast.Name(id=name):
            return names[name]
    return names[SIZE]
