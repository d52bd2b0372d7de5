"""Boolean expressions over name substrings with ``and``, ``or``, ``not`` and parentheses, as in pytest's ``-k``."""

from __future__ import annotations

import re

from dpwitness.mechanisms.core.validation import InvalidArgument

_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")


def matches(expression: str, name: str) -> bool:
    """Return whether `name` satisfies a boolean expression of substrings, as in pytest's ``-k``.

    Examples
    --------
    >>> matches("laplace and not (grid or vector)", "laplace-0.9"), matches("laplace and not (grid or vector)", "laplace-grid")
    (True, False)
    """
    tokens = [match.group(1) for match in _TOKEN.finditer(expression)]
    if not tokens:
        return True

    def fail() -> InvalidArgument:
        return InvalidArgument(f"-k must be words with and, or, not and parentheses, got {expression!r}")

    def disjunction() -> bool:
        value = conjunction()
        while tokens and tokens[0] == "or":
            tokens.pop(0)
            value = conjunction() or value
        return value

    def conjunction() -> bool:
        value = negation()
        while tokens and tokens[0] == "and":
            tokens.pop(0)
            value = negation() and value
        return value

    def negation() -> bool:
        if not tokens:
            raise fail()
        token = tokens.pop(0)
        if token == "not":
            return not negation()
        if token == "(":
            value = disjunction()
            if not tokens or tokens.pop(0) != ")":
                raise fail()
            return value
        if token in ("and", "or", ")"):
            raise fail()
        return token.lower() in name.lower()

    value = disjunction()
    if tokens:
        raise fail()
    return value
