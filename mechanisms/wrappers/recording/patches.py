"""Patches that replace names in all loaded modules while a trace runs, and restore them
afterward.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import threading
from typing import Any, Iterable, Iterator

from .calls import BoundPrimitive
from .primitives import WrongPrimitive
from .recorder import passed

lock = threading.RLock()  # held by the session whose patches are in force
_MISSING = object()


class Patch:
    """A replacement of one attribute of a module or class, until `undo`."""

    def __init__(self, holder: Any, name: str, new: Any) -> None:
        self.holder, self.name, self.new = holder, name, new
        # a class may inherit the replaced attribute; a closure cell has no dict
        self.own = (
            vars(holder).get(name, _MISSING)
            if hasattr(holder, "__dict__")
            else getattr(holder, name)
        )
        setattr(holder, name, new)

    def undo(self) -> None:
        """Restore the original. Patches are undone in the reverse order."""
        if self.own is _MISSING:
            delattr(self.holder, self.name)
        else:
            setattr(self.holder, self.name, self.own)


def resolve(name: str, home: Any = None, imports: bool = True) -> tuple[Any, str, Any]:
    """Return (holder, attribute name, object) for a dotted name; the module `home` is searched
    first.

    Without `imports`, only loaded modules are searched: a name from a table or a witness never
    causes an import.

    Raises
    ------
    WrongPrimitive
        If the object does not exist, cannot be called, or is a class.
    """
    parts = name.split(".")
    holder: Any = None
    if home is not None and hasattr(home, parts[0]):
        holder, rest = home, parts
    else:
        holder, rest = _import_module(name, parts, imports)
    found = holder
    for part in rest:
        holder = found
        if not hasattr(holder, part):
            kind = "module" if inspect.ismodule(holder) else "class"
            raise WrongPrimitive(
                f"primitives must name an existing function, got {name!r}: "
                f"{kind} {getattr(holder, '__name__', type(holder).__name__)} has no {part!r}"
            )
        found = getattr(holder, part)
    if not callable(found):
        raise WrongPrimitive(
            f"primitives must be callable, {name!r} is of type {type(found).__name__}"
        )
    if inspect.isclass(found):
        raise WrongPrimitive(
            f"primitives must be functions or methods, but {name!r} is a class: name the "
            "method that draws"
        )
    return holder, rest[-1], found


def _import_module(name: str, parts: Any, imports: bool) -> tuple[Any, Any]:
    """Return the module of a dotted name and the remaining parts; raise WrongPrimitive if it cannot
    be imported.
    """
    missing = ""
    for end in range(len(parts) - 1, 0, -1):
        place = ".".join(parts[:end])
        try:
            return importlib.import_module(place) if imports else sys.modules[place], parts[end:]
        except (ImportError, KeyError) as error:
            missing = missing or str(error)
    raise WrongPrimitive(
        f"primitives must name an importable function, got {name!r}: "
        f"{missing or 'it has no module'}"
    )


def modules() -> Iterator[Any]:
    """Yield all loaded modules except those of this folder."""
    for name, module in list(sys.modules.items()):
        if (
            module is not None
            and inspect.ismodule(module)
            and not name.startswith(__package__ or "recording")
        ):
            yield module


def attributes(wanted: set[int], by_type: bool = False) -> Iterator[tuple[Any, str, Any]]:
    """Yield (module, name, value) for the attributes of modules whose `id`, or that of their type,
    is in `wanted`.
    """
    for module in modules():
        members = vars(module).copy()
        objects = list(map(type, members.values()) if by_type else members.values())
        # as in most modules: a loop over the attributes would take several times as long
        if wanted.isdisjoint(map(id, objects)):
            continue
        yield from (
            (module, name, value)
            for (name, value), each in zip(members.items(), objects)
            if id(each) in wanted
        )


def locations_of(objects: Iterable[Any]) -> dict[int, list[tuple[Any, str]]]:
    """Return, by the `id` of each object, the modules and attribute names that refer to it."""
    found: dict[int, list[tuple[Any, str]]] = {id(each): [] for each in objects}
    if not found:
        return found
    for module, name, value in attributes(set(found)):
        found[id(value)].append((module, name))
    return found


def patch(
    made: BoundPrimitive, holder: Any, name: str, known: dict[int, list[tuple[Any, str]]]
) -> list[Patch]:
    """Replace the primitive by a recording call wherever modules refer to it; `known` has locations
    found before.

    Raises
    ------
    WrongPrimitive
        If the primitive belongs to a compiled class.
    """

    @functools.wraps(made.original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return passed(made, args, kwargs)

    new: Any = call
    if inspect.isclass(holder):
        raw = inspect.getattr_static(holder, name)
        new = (
            staticmethod(call)
            if isinstance(raw, staticmethod)
            else classmethod(call)
            if isinstance(raw, classmethod)
            else call
        )
    locations = [(holder, name)]
    if inspect.ismodule(holder):
        found = getattr(holder, name)
        locations = (known if id(found) in known else locations_of([found]))[id(found)]
    done: list[Patch] = []
    try:
        for place, attribute in locations or [(holder, name)]:
            done.append(Patch(place, attribute, new))
    except (TypeError, AttributeError):
        for each in done:
            each.undo()
        raise WrongPrimitive(
            f"primitives: {made.primitive.name!r} belongs to a compiled class and cannot be "
            "replaced; name the Python function or method that calls it, or one that you write "
            "around it"
        ) from None
    return done


def replace(replacements: dict[str, Any]) -> list[Patch]:
    """Replace the object of each name by a new object wherever modules refer to it, in one pass
    over all modules.
    """
    found: dict[int, tuple[Any, Any]] = {}  # id of an old object -> (old, new)
    locations: list[tuple[Any, str, Any]] = []
    for name, new in replacements.items():
        holder_name, _, attribute = name.rpartition(".")
        holder = sys.modules.get(holder_name)
        if holder is None or not hasattr(holder, attribute):
            continue
        old = getattr(holder, attribute)
        if old is None or inspect.isclass(old):
            locations.append((holder, attribute, new))
        else:
            found[id(old)] = old, new
    locations += [
        (module, name, found[id(value)][1]) for module, name, value in attributes(set(found))
    ]
    return [Patch(*location) for location in locations]


def unbound(function: Any) -> Any:
    """Return the function of a static or class method."""
    return function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
