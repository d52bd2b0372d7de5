"""Signs of zeros: floating point has -0.0, which the arithmetic of real numbers lacks, and its sign
may tell a query (``0 * q``).

No returned number may be -0.0. Comparisons do not tell the two zeros apart, so that only returned
numbers matter.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import Flag, auto

from dpwitness.proofs_checks.alignments.expressions import type_of
from dpwitness.proofs_checks.alignments.program import SIZE, Append, Assign, Noise, Program, walk
from dpwitness.proofs_checks.alignments.source import shown


class Sign(Flag):
    """What holds of a number with probability 1."""

    UNKNOWN = 0
    PLUS = auto()  # the sign bit is not set: 0.0 or a positive number
    NONZERO = auto()
    NO_MINUS_ZERO = auto()  # follows from each of the others


_ANY = Sign.PLUS | Sign.NONZERO | Sign.NO_MINUS_ZERO
_NOISE = {"laplace": Sign.NONZERO | Sign.NO_MINUS_ZERO, "exponential": _ANY}


def zero_problem(program: Program) -> str:
    """Return which returned number may be -0.0, and what to do about it; or ""."""
    signs = _signs_of_variables(program)
    appended = (s.value for block in program.segments for s in walk(block) if isinstance(s, Append))
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


def _signs_of_variables(program: Program) -> dict[str, Sign]:
    """Return what holds of each real variable wherever it is read, whichever of its assignments
    came last.
    """
    statements = [statement for block in program.segments for statement in walk(block)]
    public = {name: _ANY if name in program.positive else Sign.UNKNOWN for name in program.defaults}
    signs = (
        dict.fromkeys(program.types, _ANY)
        | public
        | {program.query: Sign.UNKNOWN, program.index: Sign.PLUS, SIZE: Sign.PLUS}
    )
    for noise in (statement for statement in statements if isinstance(statement, Noise)):
        signs[noise.name] &= _NOISE[noise.law]
    found: dict[str, Sign] = {}
    while found != signs:  # each round takes properties away, so this ends
        found = dict(signs)
        for statement in statements:
            if isinstance(statement, Assign):
                signs[statement.name] &= _sign(statement.value, signs, program.types)
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
            return _of_number(number)
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


def _of_number(number: float) -> Sign:
    if number > 0:
        return _ANY
    return Sign.NONZERO if number < 0 else Sign.PLUS if str(number)[0] != "-" else Sign.UNKNOWN


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
