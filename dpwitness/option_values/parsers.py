"""Parsers of numeric command-line options that check bounds and explain them in one line, and the
filter of names.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from dpwitness.core.values.validation import InvalidArgument, number_from_text


def integer(name: str, least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of integers in [least, most] that also accepts scientific notation such as
    1e6.

    Examples
    --------
    >>> integer("trials", 1000, 10**12)("2e5")
    200000
    """

    def parse(text: str) -> int:
        try:
            number_from_text(text)
            value = Decimal(text)
            fits = (
                value.is_finite() and value.adjusted() <= 18 and value == value.to_integral_value()
            )
        except (InvalidOperation, ValueError):
            fits = False
        if not fits:
            raise argparse.ArgumentTypeError(
                f"{name} must be a whole number such as 200000 or 2e5, got {text!r}"
            )
        high = 10**18 if most is None else most
        if not least <= value <= high:
            bounds = f"at least {least}" if most is None else f"between {least} and {most}"
            raise argparse.ArgumentTypeError(f"{name} must be a whole number, {bounds}, got {text}")
        return int(value)

    return parse


def real(name: str, low: float, high: float, *, ends: str = "(]") -> Callable[[str], float]:
    """Return a parser of floats in an interval; `ends` gives the brackets, "[" or "]" for an
    included endpoint.

    Examples
    --------
    >>> real("memory", 0.0, 1e6, ends="[]")("0")
    0.0
    """

    def parse(text: str) -> float:
        try:
            value = number_from_text(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{name} must be a number, got {text!r}") from None
        above = value >= low if ends[0] == "[" else value > low
        below = value <= high if ends[1] == "]" else value < high
        if not (above and below):
            raise argparse.ArgumentTypeError(
                f"{name} must lie in {ends[0]}{low:g}, {high:g}{ends[1]}, got {value!r}"
            )
        return value

    return parse


_NODES = (ast.Expression, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.Constant)


def matches(expression: str, name: str) -> bool:
    """Return whether `name` satisfies a boolean expression of substrings, as in pytest's ``-k``.

    Examples
    --------
    >>> [matches("laplace and not (grid or vector)", f"laplace-{name}") for name in ("0.9", "grid")]
    [True, False]
    """
    words = re.findall(r"[()]|[^\s()]+", expression)
    operators = ("and", "or", "not", "(", ")")
    code = " ".join(
        word if word in operators else str(word.lower() in name.lower()) for word in words
    )
    try:
        tree = ast.parse(code or "True", mode="eval")
        if all(isinstance(node, _NODES) for node in ast.walk(tree)):
            return bool(eval(compile(tree, "-k", "eval")))
    except (SyntaxError, RecursionError, MemoryError):
        pass
    raise InvalidArgument(f"-k must be words with and, or, not and parentheses, got {expression!r}")
