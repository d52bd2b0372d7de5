"""Boolean expressions over name substrings with ``and``, ``or``, ``not`` and parentheses, as in
pytest's ``-k``.
"""

from __future__ import annotations

import ast
import re

from dpwitness.core.values.validation import InvalidArgument

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
