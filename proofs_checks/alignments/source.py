"""Source text of a provable function: whether it is the text of the code that runs, and whether the
proof models all of its syntax.

`MODELLED` lists every node of the syntax tree with the fields that the reader reads. A node that is
not listed is refused, and so is a value in another field. New syntax is refused until somebody
models it. `check_names` then compares what the reader understood with the compiled code: the code
may capture, declare or read no other name.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import textwrap
import types
from collections.abc import Collection, Iterator
from typing import Any

from dpwitness.core.values.validation import InvalidArgument

BUILTINS = ("abs", "len", "enumerate")
METHODS = ("append", "laplace", "exponential")

# Fields that run, and fields that Python evaluates when the function is defined, or not at all.
MODELLED: dict[type[ast.AST], tuple[str, str]] = {
    ast.FunctionDef: ("args body", "name decorator_list returns"),
    ast.arguments: ("args kwonlyargs", "defaults kw_defaults"),
    ast.arg: ("arg", "annotation"),
    ast.Assign: ("targets value", ""),
    ast.AnnAssign: ("target annotation value simple", ""),
    ast.AugAssign: ("target op value", ""),
    ast.For: ("target iter body", ""),
    ast.If: ("test body orelse", ""),
    ast.Expr: ("value", ""),
    ast.Return: ("value", ""),
    ast.Name: ("id ctx", ""),
    ast.Constant: ("value", ""),
    ast.Tuple: ("elts ctx", ""),
    ast.List: ("ctx", ""),  # the empty list only
    ast.Attribute: ("value attr ctx", ""),
    ast.Subscript: ("value slice ctx", ""),  # in annotations
    ast.Call: ("func args keywords", ""),
    ast.keyword: ("arg value", ""),
    ast.BinOp: ("left op right", ""),
    ast.UnaryOp: ("op operand", ""),
    ast.BoolOp: ("op values", ""),
    ast.Compare: ("left ops comparators", ""),
    ast.IfExp: ("test body orelse", ""),
    **dict.fromkeys((ast.Break, ast.Pass, ast.Load, ast.Store), ("", "")),
    **dict.fromkeys(
        (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod, ast.USub, ast.Not, ast.And, ast.Or), ("", "")
    ),
    **dict.fromkeys((ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq), ("", "")),
}
_FUTURE = sum(
    getattr(__future__, name).compiler_flag
    for name in __future__.all_feature_names
    if name != "nested_scopes"
)
_PLAIN = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
# the last: the code has a docstring (Python 3.13)
_WITHOUT_EFFECT = _FUTURE | inspect.CO_NESTED | 0x4000000
_LONGEST = 80  # characters of text in a message
_HEAP_TYPE = 1 << 9  # flag of a class that is not built in


def tree_of(function: Any) -> ast.FunctionDef:
    """Return the syntax tree of a plain function with the decorator `provable`. Raise
    InvalidArgument for another object, and if the text in the file is not that of the code that
    runs.
    """
    name = getattr(function, "__name__", function)
    if (
        not hasattr(function, "promise")
        or not inspect.isfunction(function)
        or hasattr(function, "__wrapped__")
    ):
        raise InvalidArgument(f"prove: {name!r} is not a function with the decorator provable")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function.__code__))).body[0]
    except (OSError, SyntaxError, ValueError, IndexError) as error:
        raise InvalidArgument(f"prove: the text of {name} cannot be read: {error}") from None
    if not isinstance(tree, ast.FunctionDef) or len(tree.decorator_list) != 1:
        raise InvalidArgument(
            f"prove: {name} must be a plain function whose only decorator is provable"
        )
    code = function.__code__
    module = compile(
        ast.Module([tree], []), "text", "exec", flags=code.co_flags & _FUTURE, dont_inherit=True
    )
    found = [
        _content(each) for each in module.co_consts if getattr(each, "co_name", "") == tree.name
    ]
    # all that decides how the code runs is equal
    if found != [_content(code)]:
        raise InvalidArgument(
            f"prove: the text of {name} has changed since the function was imported; import the "
            "function again"
        )
    _check_defaults(function, tree)
    return tree


def _check_defaults(function: Any, tree: ast.FunctionDef) -> None:
    """Raise InvalidArgument unless each literal default value in the text is that of the
    function.
    """
    given = tree.args
    arguments = (*given.args[len(given.args) - len(given.defaults) :], *given.kwonlyargs)
    written = {
        a.arg: text
        for a, text in zip(arguments, (*given.defaults, *given.kw_defaults), strict=True)
        if text
    }
    for name, default in defaults_of(function).items():
        try:
            stated = ast.literal_eval(written[name]) if name in written else None
        except ValueError:  # not a literal: the value at the time of the definition counts
            continue
        if repr(stated) != repr(default):
            raise InvalidArgument(
                f"prove: the default of {name} in {tree.name} is {default!r}, its text has "
                f"{stated!r}"
            )


def _content(code: types.CodeType) -> tuple[Any, ...]:
    arguments = (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags & ~_WITHOUT_EFFECT,
    )
    names = code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars
    # a docstring, whose indentation may differ
    constants = [
        _content(each) if inspect.iscode(each) else repr(each)
        for each in ["" if isinstance(each, str) else each for each in code.co_consts]
    ]
    return code.co_code, getattr(code, "co_exceptiontable", b""), arguments, names, constants


def defaults_of(function: Any) -> dict[str, Any]:
    """Return the default values with which a call would run."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    values = function.__defaults__ or ()
    return {
        **dict(zip(names[len(names) - len(values) :], values, strict=True)),
        **(function.__kwdefaults__ or {}),
    }


def unmodelled(node: ast.AST, place: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield (node, message) for each syntax that is not modelled. `place` is the closest
    surrounding node that has a line number.
    """
    place = node if hasattr(node, "lineno") else place
    outside = f"`{shown(place)}` is outside the provable subset"
    if type(node) not in MODELLED:
        yield place, f"the syntax {type(node).__name__} in {outside}"
        return
    runs, ignored = (fields.split() for fields in MODELLED[type(node)])
    for field, found in ast.iter_fields(node):
        parts = [part for part in (found if isinstance(found, list) else [found]) if part]
        if field in runs:
            for part in parts:
                yield from unmodelled(part, place) if isinstance(part, ast.AST) else ()
        elif parts and field not in ignored:
            yield place, f"the field {field} of {outside}"


def shown(node: ast.AST) -> str:
    """Return the first line of the text of a node, shortened."""
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def check_names(function: Any, parameters: Collection[str], assigned: Collection[str]) -> None:
    """Raise InvalidArgument unless the code uses names as the reader does.

    Local names are the parameters and the assigned variables. Other names are those of built-in
    functions and of methods. No name is captured.
    """
    code = function.__code__
    problems = dict.fromkeys(
        {*code.co_varnames} ^ {*parameters, *assigned}, "is a name that the proof does not know"
    )
    problems |= dict.fromkeys(
        (*code.co_cellvars, *code.co_freevars), "is captured by another function"
    )
    problems |= dict.fromkeys(
        {*code.co_names} - {*BUILTINS, *METHODS}, "is a name that the proof does not know"
    )
    problems |= {
        name: "is not the built-in function"
        for name in BUILTINS
        if name in code.co_names and not _is_builtin(function, name)
    }
    if code.co_flags & ~_WITHOUT_EFFECT != _PLAIN:
        problems[code.co_name] = "is not a plain function"
    for name, reason in problems.items():
        raise InvalidArgument(f"prove: {function.__name__}: {name} {reason}")


def _is_builtin(function: Any, name: str) -> bool:
    """Return whether a global name means the built-in function when the function runs."""
    outer, inner = function.__globals__, function.__builtins__
    if type(outer) is not dict or type(inner) is not dict or name in outer:
        return False
    found = inner.get(name)
    built_in = isinstance(found, types.BuiltinFunctionType) and found.__self__ is builtins
    return getattr(found, "__name__", "") == name and (
        built_in or (type(found) is type and not found.__flags__ & _HEAP_TYPE)
    )
