"""Descriptions of the public functions and classes of imported modules, as JSON: names, signatures,
type hints and docstrings.

Uses the standard library only (Python 3.8 or later). `discovery` loads this file in the interpreter
of the package. Nothing is called here.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

_DOC = 6000  # characters of a docstring
_METHODS = 60  # methods of a class
_METHOD_DOC = 1500
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, functools.partial)
uses_of: Callable[[Any, list[str]], dict[str, dict[str, Any]]] = lambda value, names: {}  # noqa: E731 - `discovery` sets that of `parameter_uses`
add_signatures: Callable[[dict[str, Any]], None] = lambda about: None  # noqa: E731 - `discovery` sets that of `unimported`


def describe_all(
    modules: dict[str, Any], tops: list[str], emit: Callable[..., None], most: int
) -> set[str]:
    """Send a description of each public object once, under its shortest name, and notes on names
    that hide each other.

    Returns
    -------
    set of str
        Last parts of the names of the objects and their methods.
    """
    sent: set[str] = set()
    places: dict[int, tuple[Any, list[tuple[str, str]]]] = {}
    for name, module in modules.items():
        for attribute, value in _public(module):
            if _is_own(value, tops) and not isinstance(value, types.ModuleType):
                places.setdefault(id(value), (value, []))[1].append((name, attribute))
    ordered = sorted(places.values(), key=lambda each: _rank(each[1][0]))
    if len(ordered) > most:
        emit(
            "note",
            module="",
            text=f"has {len(ordered):,} public objects, of which the first {most:,} are read",
        )
    for value, unordered in ordered[:most]:
        home = getattr(value, "__module__", "")
        found = sorted(unordered, key=functools.partial(_rank_for, home))
        try:
            about = _described(value, found, tops)
        except Exception as error:  # an object may raise anything when it is inspected
            emit(
                "note",
                module=found[0][0],
                text=f"{found[0][1]} cannot be inspected: {type(error).__name__}",
            )
            continue
        if about is not None:
            emit("object", **about)
            sent |= {about["name"], *(method["name"] for method in about["methods"])}
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        hidden = getattr(modules.get(parent), last, None)
        if parent in modules and hidden is not module and hidden is not None:
            emit("note", module=name, text=f"the name {last} in {parent} hides this module")
    return sent


def _public(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public names of a module with their values."""
    listed = getattr(module, "__all__", None)
    own = isinstance(listed, (list, tuple)) and all(isinstance(name, str) for name in listed)
    names = (
        list(listed)  # type: ignore[arg-type]
        if own
        else [name for name in vars(module) if isinstance(name, str) and name[:1] != "_"]
    )
    for name in names:
        with contextlib.suppress(Exception):
            yield name, getattr(module, name)


def _is_own(value: Any, tops: list[str]) -> bool:
    """Return whether an object is a function, a class or a callable object that the package
    defines.
    """
    if isinstance(value, (type, *_FUNCTIONS)):
        target = value.func if isinstance(value, functools.partial) else value
        home = (
            getattr(inspect.unwrap(target) if callable(target) else target, "__module__", None)
            or ""
        )
    elif callable(value) and not isinstance(value, (types.ModuleType, types.MethodType)):
        home = (
            type(value).__module__ + "."
            if hasattr(value, "claim")
            else getattr(value, "__module__", None) or type(value).__module__
        )
        if hasattr(value, "claim"):
            return True
    else:
        return False
    top = str(home).partition(".")[0]
    return top in [each.partition(".")[0] for each in tops] or top.lstrip("_") in [
        each.partition(".")[0] for each in tops
    ]


def _rank(place: tuple[str, str]) -> tuple[int, str]:
    return place[0].count("."), place[0] + "." + place[1]


def _rank_for(home: str, place: tuple[str, str]) -> tuple[int, bool, tuple[int, str]]:
    """Return the sort key of a place: few dots first, then the module that defines the object."""
    return place[0].count("."), place[0] != home, _rank(place)


def _described(value: Any, found: list[tuple[str, str]], tops: list[str]) -> dict[str, Any] | None:
    """Return the description of one object; None for exceptions and other classes
    without use here.
    """
    module, attribute = found[0]
    about: dict[str, Any] = {
        "module": module,
        "name": attribute,
        "aliases": [m + "." + a for m, a in found[1:6]],
        "defined": "{}:{}".format(
            getattr(value, "__module__", module), getattr(value, "__qualname__", attribute)
        ),
        "doc": _doc(value, _DOC),
        "shadowed": _resolved(module, attribute) is not value,
    }
    if isinstance(value, type):
        if issubclass(value, BaseException):
            return None
        about.update(
            kind="class",
            bases=[c.__module__ + "." + c.__qualname__ for c in value.__mro__[1:-1]],
            abstract=inspect.isabstract(value),
            parameters=_parameters(value, tops),
            methods=_methods(value, tops),
            init_doc=_doc(value.__init__, _DOC),
            enum=issubclass(value, enum.Enum),
            names=sorted(
                {
                    name
                    for part in vars(value).values()
                    if isinstance(part, (types.FunctionType, staticmethod, classmethod, property))
                    for name in _names(part, 1)
                }
            )[:200],
            fields=[
                key
                for owner in value.__mro__[:-1]
                for key in vars(owner).get("__annotations__", {})
            ][:40],
        )
    else:
        about.update(
            {
                "kind": "function" if isinstance(value, _FUNCTIONS) else "instance",
                "parameters": _parameters(value, tops),
                "methods": [],
                "names": sorted(_names(value, 2))[:200],
                "async": inspect.iscoroutinefunction(value),
                "returns": _annotation(getattr(value, "__annotations__", {}).get("return", "")),
            }
        )
    about["declared"] = _declared(value)
    if about["parameters"] is None or any(
        method["parameters"] is None for method in about["methods"]
    ):
        about["compiled"] = True
        add_signatures(about)
    return about


def _resolved(module: str, attribute: str) -> Any:
    """Return the object to which the dotted name leads, by attributes; None if it leads nowhere."""
    parts = (module + "." + attribute).split(".")
    found = sys.modules.get(parts[0])
    for part in parts[1:]:
        found = getattr(found, part, None)
    return found


def _doc(value: Any, most: int) -> str:
    text = getattr(value, "__doc__", None)
    return inspect.cleandoc(text)[:most] if isinstance(text, str) else ""


def _parameters(value: Any, tops: list[str]) -> list[dict[str, Any]] | None:
    """Return the parameters of a function or a constructor; None without a signature."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    hints: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        import typing

        made = "__init__" if isinstance(value, type) else ""
        hints = typing.get_type_hints(getattr(value, made) if made else inspect.unwrap(value))
    uses = uses_of(value, list(found.parameters))
    return [
        _parameter(p, hints.get(p.name, p.annotation), tops, uses.get(p.name, {}))
        for p in found.parameters.values()
    ]


def _parameter(
    parameter: inspect.Parameter, hint: Any, tops: list[str], uses: dict[str, Any]
) -> dict[str, Any]:
    required = parameter.default is inspect.Parameter.empty
    about: dict[str, Any] = {
        "name": parameter.name,
        "kind": parameter.kind.name,
        "required": required and parameter.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD"),
        "annotation": _annotation(parameter.annotation),
        "default": None if required else _shown(parameter.default),
    }
    if uses.get("kind"):
        about["used"] = uses["kind"]
    if uses.get("keys"):
        about["keys"] = uses["keys"]
    if choices := _choices(hint) or uses.get("choices", []):
        about["choices"] = choices
    classes = [
        place
        for place in _classes_in(hint)
        if place.partition(".")[0] in [top.partition(".")[0] for top in tops]
    ]
    if classes:
        about["classes"] = classes
    return about


def _shown(value: Any) -> str:
    try:
        return " ".join(repr(value).split())[:120]
    except Exception:
        return "<" + type(value).__name__ + ">"


def _annotation(note: Any) -> str:
    if note is inspect.Parameter.empty or note == "":
        return ""
    if isinstance(note, str):
        return note[:200]
    name = getattr(note, "__qualname__", None) if isinstance(note, type) else None
    return str(name or note).replace("typing.", "")[:200]


def _choices(hint: Any) -> list[str]:
    """Return the expressions of the values that a type hint lists: of a Literal, or the members of
    an enumeration.
    """
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [
            hint.__module__ + "." + hint.__qualname__ + "." + member
            for member in list(hint.__members__)[:8]
        ]
    if "Literal" in str(getattr(hint, "__origin__", "")):
        return [repr(value) for value in hint.__args__[:8]]
    return next((found for part in _arguments(hint) if (found := _choices(part))), [])


def _arguments(hint: Any) -> tuple[Any, ...]:
    """Return the arguments of a generic type hint; the classes of generic hints themselves have a
    descriptor of this name.
    """
    found = getattr(hint, "__args__", ())
    return found if isinstance(found, tuple) else ()


def _classes_in(hint: Any) -> list[str]:
    """Return the dotted names of the classes in a type hint."""
    if isinstance(hint, type) and not issubclass(hint, enum.Enum):
        return [hint.__module__ + "." + hint.__qualname__] if "<" not in hint.__qualname__ else []
    return [place for part in _arguments(hint) for place in _classes_in(part)]


def _methods(cls: type, tops: list[str]) -> list[dict[str, Any]]:
    """Return the public methods of a class, its own first, and ``__call__``."""
    found: list[dict[str, Any]] = []
    seen = set()
    for owner in cls.__mro__[:-1]:
        for key, value in list(vars(owner).items()):
            if key in seen or (key[:1] == "_" and key != "__call__") or len(found) >= _METHODS:
                continue
            seen.add(key)
            bound = getattr(cls, key, None)
            if isinstance(value, property) or not callable(bound) or isinstance(bound, type):
                continue
            kind = (
                "static"
                if isinstance(value, staticmethod)
                else "class"
                if isinstance(value, classmethod)
                else "method"
            )
            parameters = _parameters(bound, tops)
            if kind == "method" and parameters:
                parameters = parameters[1:]
            found.append(
                {
                    "name": key,
                    "kind": kind,
                    "parameters": parameters,
                    "doc": _doc(bound, _METHOD_DOC),
                    "own": owner is cls,
                    "abstract": bool(getattr(bound, "__isabstractmethod__", False)),
                    "returns": _annotation(getattr(bound, "__annotations__", {}).get("return", "")),
                }
            )
    return found


def _names(value: Any, depth: int) -> Iterator[str]:
    """Yield the names that the code of a function uses, also in functions of its module that it
    calls.
    """
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    with contextlib.suppress(Exception):
        value = inspect.unwrap(value)
    code = getattr(value, "__code__", None)
    if not isinstance(code, types.CodeType):
        return
    scope = getattr(value, "__globals__", {})
    pending = [code]
    while pending:
        current = pending.pop()
        yield from current.co_names
        pending += [each for each in current.co_consts if isinstance(each, types.CodeType)]
        for name in current.co_names if depth else ():
            inner = scope.get(name)
            if (
                isinstance(inner, types.FunctionType)
                and inner is not value
                and inner.__module__ == getattr(value, "__module__", None)
            ):
                yield from _names(inner, depth - 1)


def _declared(value: Any) -> dict[str, Any]:
    """Return the claim and the domain that an object declares as attributes, as target files do."""
    found = {}
    for key in ("claim", "domain"):
        with contextlib.suppress(Exception):
            declared = inspect.getattr_static(value, key, None)
            if isinstance(declared, (str, dict)):
                found[key] = declared
            elif (
                declared is not None
                and not callable(declared)
                and not isinstance(declared, property)
            ):
                found[key] = _shown(declared)
    return found
