"""Noise primitives: a callable by its dotted name, the law of its output, and expressions over its
arguments.

A primitive is data. A target file, a table of ``recording/tables`` or a call of `trace` names it in one line::

    "mine.add_noise": {"law": "laplace", "input": "value", "scale": "sensitivity / epsilon", "sensitivity": "sensitivity"}

The values are expressions over the arguments of the call, including ``self``: names, attributes,
items, numbers, arithmetic, and `abs`, `exp`, `len`, `log`, `max`, `min`, `sqrt`, `sum`. An
expression is compiled only if its syntax tree has no other nodes, and runs without builtins.
"""  # noqa: E501

from __future__ import annotations

import ast
import functools
import inspect
import math
import os
from typing import Any, Callable

from dpwitness.core.values.validation import did_you_mean

LAWS = {
    "laplace": "input plus two-sided exponential noise of `scale`",
    "gaussian": "input plus normal noise of standard deviation `scale`",
    "geometric": "whole input plus two-sided geometric noise, P(k) ~ exp(-|k| / scale)",
    "discrete_gaussian": "whole input plus discrete normal noise of parameter `scale`",
    "gumbel": "input plus Gumbel noise of `scale`",
    "exponential": "exponential noise of `scale`, at least 0",
    "one_sided_geometric": "geometric noise with success probability `scale`, at least 1",
    "uniform": (
        "a draw that does not depend on data: uniform numbers, bits, whole numbers of a range"
    ),
    "noise": "any other draw that does not depend on data",
    "choice": (
        "one of several, or several, with the probabilities `input`; uniform without an input"
    ),
    "binomial": "a binomial draw of `size` trials with probability `input`",
    "permutation": "a random order",
    "poisson_sample": "a subset that contains each record independently",
    "exponential_mechanism": "an index with P(i) ~ measure_i exp(input_i / scale)",
    "permute_and_flip": "an index by permute-and-flip, coins exp((input_i - max) / scale)",
    "randomised_response": "the item `input`, or another; `epsilon` is the log-ratio",
    "opaque": "depends on `input`; only `epsilon` for a change of `sensitivity` is known",
    "spend": "an entry in an accountant: `epsilon` and `delta`, or `noise`, `rate` and `steps`",
}
LOCATION_LAWS = (
    "laplace",
    "gaussian",
    "geometric",
    "discrete_gaussian",
    "gumbel",
    "exponential",
    "one_sided_geometric",
)
READ = (
    "input",
    "scale",
    "sensitivity",
    "epsilon",
    "delta",
    "size",
    "noise",
    "rate",
    "steps",
    "measure",
)
_TEXTS = ("law", "norm", "arguments", "note", "sampling")
NORMS = ("l1", "l2", "linf")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "exp": math.exp,
    "len": len,
    "log": math.log,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
    "sum": sum,
}

_SYNTAX = frozenset(
    [
        *("Expression", "Load", "Constant", "Name", "Attribute", "Subscript", "Index", "List"),
        *("Tuple", "UnaryOp", "USub", "UAdd", "BinOp", "Add", "Sub", "Mult", "Div", "Pow", "Call"),
    ]
)
_MAX_POWER = 8  # a tower of powers could take forever


class WrongPrimitive(ValueError):
    """Error of an invalid primitive, with a message of one sentence."""


class Primitive:
    """A primitive with its compiled expressions.

    Parameters
    ----------
    name : str
        Dotted name: module, class and method, or module and function.
    entry : dict
        ``law``, one of `LAWS`. Expressions for ``input``, ``scale``, ``sensitivity``, ``epsilon``,
        ``delta``, ``size``, ``measure``, and for accountants ``noise``, ``rate``, ``steps``. Texts:
        ``norm`` of the sensitivity, ``arguments`` for a callable without a signature, the
        ``sampling`` that an accountant assumes, ``note``.
    source : bool
        Whether the primitive is a generator's method. Mechanisms are built from such draws; a draw
        alone is not a mechanism.

    Examples
    --------
    >>> noise = Primitive("mine.add_noise",
    ...     {"law": "laplace", "input": "value", "scale": "s / epsilon"})
    >>> noise.reads(("value", "s", "epsilon"), {}, (3.0, 1.0), {"epsilon": 0.5})[:2]
    (3.0, 2.0)
    """

    def __init__(self, name: str, entry: dict[str, Any], source: bool = False) -> None:
        self.name, self.entry, self.source = name, dict(entry), source
        self.law = entry.get("law", "opaque")
        rules = (
            *(("keys", key, (*_TEXTS, *READ)) for key in entry),
            ("law", self.law, tuple(LAWS)),
            ("norm", entry.get("norm", "l1"), NORMS),
        )
        for what, value, known in rules:
            if value not in known:
                raise WrongPrimitive(
                    f"{name}: {what} must be one of {', '.join(known)}, got {value!r}"
                    f"{did_you_mean(value, known)}"
                )
        texts = {place: str(entry[key]) for place, key in enumerate(READ) if key in entry}
        self.readers = [
            (place, _compile_expression(name, READ[place], text)) for place, text in texts.items()
        ]
        self.used = frozenset().union(*map(_names, texts.values()))

    def check(self, parameters: tuple[str, ...]) -> None:
        """Raise WrongPrimitive if an expression uses a name that is not a parameter of the
        callable.
        """
        unknown_names = sorted(self.used - set(parameters) - set(_FUNCTIONS))
        if parameters and unknown_names:
            names = ", ".join(parameters)
            raise WrongPrimitive(
                f"{self.name}: expressions may use only its arguments ({names}), got "
                f"{unknown_names[0]!r}"
            )

    def reads(
        self, names: tuple[str, ...], defaults: dict[str, Any], args: Any, kwargs: Any
    ) -> tuple[Any, ...]:
        """Return the values of the expressions in the order of `READ`, None for missing ones and
        those that cannot be evaluated.
        """
        bound = {**defaults, **dict(zip(names, args)), **kwargs}
        found = [None] * len(READ)
        for place, read in self.readers:
            try:
                found[place] = read(bound)
            except Exception:  # attributes of a library may raise; the value stays unknown
                continue
        return tuple(found)


@functools.lru_cache(maxsize=None)
def _names(expression: str) -> frozenset[str]:
    """Return the names that an expression uses."""
    return frozenset(
        node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)
    )


@functools.lru_cache(maxsize=None)  # every session compiles the expressions of the known primitives
def _compile_expression(name: str, key: str, text: str) -> Callable[[dict[str, Any]], Any]:
    """Return an expression as a function of the arguments; raise WrongPrimitive for any syntax that
    is not allowed.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise WrongPrimitive(
            f"{name}: {key} must be an expression over the arguments, got {text!r}"
        ) from None
    if not all(map(_is_allowed, ast.walk(tree))):
        allowed = f"arguments, attributes, numbers and {', '.join(_FUNCTIONS)}"
        raise WrongPrimitive(f"{name}: {key} may use {allowed}, got {text!r}")
    code, scope = compile(tree, "<primitive>", "eval"), {"__builtins__": {}, **_FUNCTIONS}
    return lambda bound: eval(code, scope, bound)


def _is_allowed(node: Any) -> bool:
    """Return whether an expression may have this syntax node."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float, str))
    if isinstance(node, (ast.Name, ast.Attribute)):
        return not getattr(node, "id", getattr(node, "attr", "")).startswith("__")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = getattr(node.right, "value", None)
        return isinstance(power, (int, float)) and power <= _MAX_POWER
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") in _FUNCTIONS and not node.keywords
    return type(node).__name__ in _SYNTAX


def parameters_of(
    function: Callable[..., Any], signature: str = ""
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names and the defaults of a callable's parameters; both are empty if it has no
    signature.

    `signature` lists the parameters of a callable without a signature.

    Examples
    --------
    >>> parameters_of(len, "self, loc=0.0, size=None")
    (('self', 'loc', 'size'), {'loc': 0.0, 'size': None})
    """
    if signature:
        arguments = ast.parse(f"lambda {signature}: None", mode="eval").body.args  # type: ignore[attr-defined]
        names = tuple(each.arg for each in arguments.args)
        return names, dict(
            zip(
                names[len(names) - len(arguments.defaults) :],
                map(ast.literal_eval, arguments.defaults),
            )
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (), {}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    known = [p for p in parameters if p.kind not in kinds]
    return tuple(p.name for p in known), {
        p.name: p.default for p in known if p.default is not p.empty
    }


def entries_of(primitives: Any) -> list[tuple[str, dict[str, Any], bool, bool]]:
    """Return the primitives that a user names as entries of a session.

    Accepted are a dict from names to entries, or a list of names; a function may replace its name.

    Raises
    ------
    WrongPrimitive
        If an entry breaks the rules of `Primitive`.

    Examples
    --------
    >>> entries_of({"mine.noise": "laplace"})
    [('mine.noise', {'law': 'laplace'}, False, True)]
    """
    if isinstance(primitives, str) or callable(primitives):
        primitives = [primitives]
    if not isinstance(primitives, (dict, list, tuple, set, frozenset, type(None))):
        raise WrongPrimitive(
            "they must be a dict from dotted names to entries, or a list of names, got a "
            f"{type(primitives).__name__}"
        )
    pairs = primitives if isinstance(primitives, dict) else dict.fromkeys(primitives or ())
    found = []
    for key, entry in pairs.items():
        name = key if isinstance(key, str) else _dotted_name(key)
        options = {"law": entry} if isinstance(entry, str) else entry or {}
        if not isinstance(options, dict):
            raise WrongPrimitive(
                f"{name}: its entry must be a dict such as {{'law': 'laplace'}}, got a "
                f"{type(options).__name__}"
            )
        Primitive(name, options)
        found.append((name, dict(options), False, True))
    return found


@functools.lru_cache(maxsize=None)
def known_primitives() -> tuple[tuple[str, dict[str, Any], bool, bool], ...]:
    """Return the entries of all tables: sources of randomness, and mechanisms of libraries."""
    import tomllib  # of Python 3.11; interpreters of targets are given the entries

    folder, entries = os.path.join(os.path.dirname(__file__), "tables"), []
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file), "rb") as table:
            for kind, known in tomllib.load(table).items():
                entries += [
                    (name, entry, kind == "sources", False) for name, entry in known.items()
                ]
    return tuple(entries)


def _dotted_name(function: Any) -> str:
    """Return the dotted name of a function; raise WrongPrimitive if it cannot be found by name."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not callable(function) or not module or not name:
        raise WrongPrimitive(
            f"they must be dotted names or functions, got a {type(function).__name__}"
        )
    if "<" in name:  # <locals>, <lambda>
        raise WrongPrimitive(
            f"{name} is defined within a function and cannot be found by name: give it one "
            "in its module"
        )
    return f"{module}.{name}"
