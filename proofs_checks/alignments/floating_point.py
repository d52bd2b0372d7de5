"""Where floating point differs from real numbers, so that a program is refused: integers whose
conversion would be an exception, scales that round to other values, and signs of zeros.

Floating point has -0.0, which the arithmetic of real numbers lacks, and its sign may tell a query
(``0 * q``). No returned number may be -0.0. Comparisons do not tell the two zeros apart, so that
only returned numbers matter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from enum import Flag, auto
from fractions import Fraction
from typing import Any

from dpwitness.proofs_checks.alignments.program import (
    SIZE,
    Append,
    Assign,
    LoopProgram,
    Monomial,
    Numbers,
    Untyped,
    type_of,
    value,
)
from dpwitness.proofs_checks.alignments.source import shown

MOST = 2**1000  # integers up to this bound become floating-point numbers without an exception
PUBLIC = 2**63  # bound of parameters and of the number of queries
_ROUNDING = 1e-9


def number_problem(program: LoopProgram) -> str:
    """Return a description of the first problem with the numbers of a program: a divisor that is
    not positive, or an integer that may be too large; "" without one.
    """
    for name in sorted(program.positive & {*program.defaults}):
        if not program.defaults[name] > 0:
            return f"the default of {name} must be positive, as {name} divides or scales noise"
    public = dict.fromkeys((*program.parameters, program.index), PUBLIC)
    sizes: dict[str, int] = {}
    for statement in program.statements:
        if isinstance(statement, Assign) and program.types[statement.name] == "int":
            # the variable may add a step in each iteration
            size = 2 * PUBLIC * _magnitude(_step(statement), public)
            sizes[statement.name] = max(sizes.get(statement.name, 0), size)
    for each in (*program.expressions, program.budget, program.where):
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
    """Return whether a literal is a positive number in the range of floating-point numbers."""
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
        return abs(Fraction(value(node, names, Numbers)) - exact) <= _ROUNDING * exact
    except (ArithmeticError, ValueError):
        return False


class Sign(Flag):
    """Property of a number that holds with probability 1."""

    UNKNOWN = 0
    PLUS = auto()  # the sign bit is not set: 0.0 or a positive number
    NONZERO = auto()
    NO_MINUS_ZERO = auto()  # follows from each of the others


_ANY = Sign.PLUS | Sign.NONZERO | Sign.NO_MINUS_ZERO
_NOISE = {"laplace": Sign.NONZERO | Sign.NO_MINUS_ZERO, "exponential": _ANY}


def zero_problem(program: LoopProgram) -> str:
    """Return a message if a returned number may be -0.0: the number, and a remedy; "" otherwise."""
    signs = _signs_of_variables(program)
    appended = (s.value for s in program.statements if isinstance(s, Append))
    for each in (*program.returns, *appended):
        if (
            type_of(each, program.types) == "real"
            and not _sign(each, signs, program.types) & Sign.NO_MINUS_ZERO
        ):
            return (
                f"the returned number `{shown(each)}` may be -0.0, and the sign of a zero may "
                "tell a query; add 0.0 to it"
            )
    return ""


def _signs_of_variables(program: LoopProgram) -> dict[str, Sign]:
    """Return what holds of each real variable wherever it is read, whichever of its assignments
    came last.
    """
    signs = {name: Sign.UNKNOWN if name in program.defaults else _ANY for name in program.types}
    signs |= dict.fromkeys(program.positive, _ANY)
    signs |= {program.query: Sign.UNKNOWN, program.index: Sign.PLUS, SIZE: Sign.PLUS}
    for _, noise in program.noises:
        signs[noise.name] &= _NOISE[noise.law]
    assigns = [s for s in program.statements if isinstance(s, Assign)]
    found: dict[str, Sign] = {}
    while found != signs:  # each round takes properties away, so this ends
        found = dict(signs)
        for assign in assigns:
            signs[assign.name] &= _sign(assign.value, signs, program.types)
    return signs


def _sign(node: ast.expr, signs: Mapping[str, Sign], types: Mapping[str, str]) -> Sign:
    """Return what holds of a number that an expression has; an integer as the floating-point number
    that it becomes.
    """
    sign = _known(node, signs, types)
    if sign & (Sign.PLUS | Sign.NONZERO) or type_of(node, types) == "int":
        sign |= Sign.NO_MINUS_ZERO
    return sign


def _known(node: ast.expr, signs: Mapping[str, Sign], types: Mapping[str, str]) -> Sign:
    match node:
        case ast.Constant(value=int() | float() as number):
            if number:
                return _ANY if number > 0 else Sign.NONZERO
            return Sign.UNKNOWN if str(number)[0] == "-" else Sign.PLUS
        case ast.Name(id=name):
            return signs[name]
        case ast.Call(args=[inner]):  # abs
            return Sign.PLUS | _sign(inner, signs, types) & Sign.NONZERO
        case ast.UnaryOp(operand=inner):
            return _sign(inner, signs, types) & Sign.NONZERO
        case ast.IfExp(body=body, orelse=other):
            return _sign(body, signs, types) & _sign(other, signs, types)
        case ast.BinOp(left=left, op=op, right=right):
            return _of_operation(op, _sign(left, signs, types), _sign(right, signs, types))
    return Sign.UNKNOWN


def _of_operation(op: ast.operator, left: Sign, right: Sign) -> Sign:
    """Return what holds of a sum, difference, product or quotient, by the rules of IEEE 754 with
    rounding to the nearest number.
    """
    both = left & right
    if isinstance(op, ast.Mult | ast.Div):
        return both & (Sign.PLUS | Sign.NONZERO)
    if isinstance(op, ast.Add):  # -0.0 only as the sum of two
        return both & Sign.PLUS | (left | right) & Sign.NO_MINUS_ZERO
    if isinstance(op, ast.Sub):  # -0.0 only as -0.0 minus 0.0
        return left & Sign.NO_MINUS_ZERO | (
            Sign.NO_MINUS_ZERO if right & Sign.NONZERO else Sign.UNKNOWN
        )
    return Sign.UNKNOWN
