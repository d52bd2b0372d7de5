"""Uses of the parameters of a function or class in its source: kinds of values, keys of a dict, and
texts that a value is compared with.

Uses the standard library only (Python 3.8 or later). `descriptions` loads this file in the
interpreter of the package. Nothing is called.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

_ATTRIBUTES = {  # attributes of a parameter, and the kind of values that have them
    "dict": ("items", "keys", "get", "setdefault"),
    "LazyFrame": ("with_columns", "collect"),
    "DataFrame": (
        "columns",
        "iloc",
        "loc",
        "groupby",
        "iterrows",
        "to_numpy",
        "select_dtypes",
        "value_counts",
    ),
    "Generator": (
        "laplace",
        "normal",
        "integers",
        "standard_normal",
        "gumbel",
        "multivariate_normal",
    ),
    "ndarray": ("shape", "ndim", "astype", "reshape", "ravel", "flatten"),
    "str": ("lower", "upper", "encode", "split", "strip"),
}
_CALLS = {  # functions that are called with a parameter, and the kind of values that they take
    "path": ("open", "read_csv", "loadtxt", "genfromtxt", "Path", "read_parquet", "read_json"),
    "length": ("zeros", "ones", "empty", "full"),
    "int": ("range", "arange", "eye"),
    "float": ("exp", "log", "sqrt", "float"),
}
_KINDS = (  # the first counts
    *(
        "Callable",
        "path",
        "LazyFrame",
        "DataFrame",
        "dict",
        "Generator",
        "ndarray",
        "exponent",
        "length",
        "int",
        "list",
        "str",
        "float",
    ),
)
_MOST_CHOICES = 8


def uses_of(value: Any, names: list[str]) -> dict[str, dict[str, Any]]:
    """Return by parameter its uses in the source of a function or class.

    These are `kind`, the kind of its values; `choices`, the texts that it is compared with, as
    expressions; and `keys`, the texts that it is indexed with.
    """
    tree = None
    with contextlib.suppress(Exception):
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    if tree is None or not tree.body or sys.version_info < (3, 9):  # without `ast.unparse`
        return {}
    uses: dict[str, dict[str, Any]] = {
        name: {"kinds": set(), "choices": [], "keys": []} for name in names
    }
    for scope, known in _scopes(tree.body[0], names):
        for node in ast.walk(scope):
            for place, kind, texts in _evidence(node):
                if place in known:
                    uses[known[place]]["kinds"].add(kind)
                    uses[known[place]]["keys" if kind == "keys" else "choices"] += texts
    return {name: _summary(found) for name, found in uses.items() if found["kinds"]}


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    kinds = found["kinds"]
    arity = max((int(kind[8:]) for kind in kinds if kind[:8] == "Callable"), default=-1)
    if arity >= 0:
        return {
            "kind": "Callable[[" + ", ".join(["Any"] * arity) + "], Any]",
            "choices": [],
            "keys": [],
        }
    kind = next((each for each in _KINDS if each in kinds), "")
    texts = {key: list(dict.fromkeys(found[key]))[:_MOST_CHOICES] for key in ("choices", "keys")}
    return dict(texts, kind=kind)


def _scopes(node: Any, names: list[str]) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yield pieces of syntax with the texts that are parameters there: their names, and attributes
    of an object that keep them.
    """
    if not isinstance(node, ast.ClassDef):
        yield node, {**_kept(node, names), **{name: name for name in names}}
        return
    made = next(
        (
            each
            for each in node.body
            if isinstance(each, ast.FunctionDef) and each.name == "__init__"
        ),
        None,
    )
    kept = {"self." + name: name for name in names} if made is None else {}
    for method in (each for each in node.body if isinstance(each, ast.FunctionDef)):
        kept.update(_kept(method, [each.arg for each in method.args.args if each.arg in names]))
    if made is not None:
        yield made, {name: name for name in names}
    yield node, {place: name for place, name in kept.items() if place.startswith("self.")}


def _kept(node: Any, names: list[str]) -> dict[str, str]:
    """Return the places that parameters are assigned to, also after a conversion such as ``str(x)``
    or ``x.lower()``.
    """
    found = {}
    for each in ast.walk(node):
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None:
            target = each.targets[0] if isinstance(each, ast.Assign) else each.target
            pairs = [(target, each.value)]
            if isinstance(target, ast.Tuple) and isinstance(each.value, ast.Tuple):
                pairs = list(zip(target.elts, each.value.elts))
            found.update(
                {
                    ast.unparse(place): _plain(value)
                    for place, value in pairs
                    if _plain(value) in names
                }
            )
    return found


def _plain(node: Any) -> str:
    """Return the text of an expression without conversions around it."""
    if isinstance(node, ast.IfExp):  # as in ``size if size is not None else self.size``
        return _plain(node.body)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return _plain(node.func.value)
    if (
        isinstance(node, ast.Call)
        and len(node.args) == 1
        and ast.unparse(node.func) in ("str", "int", "float", "list", "dict", "tuple")
    ):
        return _plain(node.args[0])
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _evidence(node: Any) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (text of an expression, kind of its values, choices or keys) for the expressions whose
    kind a piece of syntax shows.
    """
    index = getattr(
        node, "slice", node.args[0] if isinstance(node, ast.Call) and node.args else None
    )
    if isinstance(index, ast.Constant) and isinstance(index.value, str):
        if isinstance(node, ast.Subscript):
            yield ast.unparse(node.value), "keys", [index.value]
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            yield ast.unparse(node.func.value), "keys", [index.value]
    if isinstance(node, ast.Attribute):
        for kind, attributes in _ATTRIBUTES.items():
            if node.attr in attributes:
                yield ast.unparse(node.value), kind, []
    elif isinstance(node, ast.Call):
        yield ast.unparse(node.func), f"Callable{len(node.args)}", []
        word = ast.unparse(node.func).rpartition(".")[2]
        for kind, functions in _CALLS.items():
            if word in functions and node.args:
                yield _plain(node.args[0]), kind, []
        # of a product
        yield from (
            (_plain(each.value), "exponent", []) for each in node.keywords if each.arg == "repeat"
        )
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield _plain(node.iter), "list", []
    elif isinstance(node, ast.BinOp) and isinstance(
        node.op, (ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.LShift)
    ):
        yield from ((_plain(side), "float", []) for side in (node.left, node.right))
        if isinstance(node.op, (ast.Pow, ast.LShift)) and isinstance(node.left, ast.Constant):
            yield _plain(node.right), "exponent", []
        elif isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List):
            yield _plain(node.right), "length", []
    elif (
        isinstance(node, ast.Compare)
        and len(node.ops) == 1
        and isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn))
    ):
        other = node.comparators[0]
        texts = [
            each.value for each in getattr(other, "elts", [other]) if isinstance(each, ast.Constant)
        ]
        choices = [repr(text) for text in texts if isinstance(text, str) and text]
        if choices:
            yield _plain(node.left), "str", choices
