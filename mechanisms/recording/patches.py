"""Names that are replaced while a trace runs, wherever they are kept, and put back whatever happens: also by sessions that overlap."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import threading
from typing import Any, Iterator

from .primitives import WrongPrimitive
from .recorder import Made, passed

lock = threading.RLock()  # held while a session patches
_MISSING = object()
_layers: dict[tuple[int, str], list[Patch]] = {}  # of each place that is patched, oldest first


class Patch:
    """One attribute of one module or class, replaced until `undo`."""

    def __init__(self, holder: Any, name: str, new: Any, made: Made | None = None) -> None:
        self.holder, self.name, self.new, self.made = holder, name, new, made
        with lock:
            # a class may inherit what is replaced; a cell of a function has no dict
            self.own = vars(holder).get(name, _MISSING) if hasattr(holder, "__dict__") else getattr(holder, name)
            setattr(holder, name, new)
            _layers.setdefault((id(holder), name), []).append(self)

    def undo(self) -> None:
        """Put back what was there; a session that patched the same place later goes on."""
        with lock:
            layers = _layers[id(self.holder), self.name]
            place = layers.index(self)
            layers.remove(self)
            if place < len(layers):
                above = layers[place]
                above.own = self.own
                if above.made is not None and self.made is not None:
                    above.made.original = self.made.original
            elif self.own is _MISSING:
                delattr(self.holder, self.name)
            else:
                setattr(self.holder, self.name, self.own)
            if not layers:
                del _layers[id(self.holder), self.name]


def resolve(name: str, home: Any = None, imports: bool = True) -> tuple[Any, str, Any]:
    """(holder, attribute, what is there) of a dotted name, which is looked for in the module `home` first.

    Without `imports` only modules that are loaded count: what a table or a witness names is never imported for it.

    Raises
    ------
    WrongPrimitive
        If there is no such thing, or it cannot be called.
    """
    parts = name.split(".")
    holder: Any = None
    if home is not None and hasattr(home, parts[0]):
        holder, rest = home, parts
    else:
        holder, rest = _module(name, parts, imports)
    for part in rest[:-1]:
        if not hasattr(holder, part):
            raise WrongPrimitive(f"primitives must name something that is there, got {name!r}: {_named(holder)} has no {part!r}")
        holder = getattr(holder, part)
    last = rest[-1]
    if not hasattr(holder, last):
        raise WrongPrimitive(f"primitives must name something that is there, got {name!r}: {_named(holder)} has no {last!r}")
    found = getattr(holder, last)
    if not callable(found):
        raise WrongPrimitive(f"primitives must be callable, {name!r} is of type {type(found).__name__}")
    if inspect.isclass(found):
        raise WrongPrimitive(f"primitives must be functions or methods, {name!r} is a class: name the method that draws")
    return holder, last, found


def _module(name: str, parts: Any, imports: bool) -> tuple[Any, Any]:
    missing = ""
    for end in range(len(parts) - 1, 0, -1):
        place = ".".join(parts[:end])
        try:
            return importlib.import_module(place) if imports else sys.modules[place], parts[end:]
        except (ImportError, KeyError) as error:
            missing = missing or str(error)
    raise WrongPrimitive(f"primitives must name something that can be imported, got {name!r}: {missing or 'it has no module'}")


def _named(holder: Any) -> str:
    return f"{'module' if inspect.ismodule(holder) else 'class'} {getattr(holder, '__name__', type(holder).__name__)}"


def modules() -> Iterator[Any]:
    """Modules that are loaded, but for those of this folder."""
    for name, module in list(sys.modules.items()):
        if module is not None and inspect.ismodule(module) and not name.startswith(__package__ or "recording"):
            yield module


def places(found: Any) -> list[tuple[Any, str]]:
    """Every module attribute that is this very object."""
    return [(module, name) for module in modules() for name, value in list(vars(module).items()) if value is found]


def patch(made: Made, holder: Any, name: str) -> list[Patch]:
    """Put a recording call wherever the primitive is kept.

    Raises
    ------
    WrongPrimitive
        If it belongs to a compiled class.
    """

    @functools.wraps(made.original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return passed(made, args, kwargs)

    new: Any = call
    if inspect.isclass(holder):
        raw = inspect.getattr_static(holder, name)
        new = staticmethod(call) if isinstance(raw, staticmethod) else classmethod(call) if isinstance(raw, classmethod) else call
        kept = [(holder, name)]
    else:
        kept = places(getattr(holder, name)) if inspect.ismodule(holder) else [(holder, name)]
    done: list[Patch] = []
    try:
        for place, attribute in kept or [(holder, name)]:
            done.append(Patch(place, attribute, new, made))
    except (TypeError, AttributeError):
        for each in done:
            each.undo()
        raise WrongPrimitive(
            f"primitives: {made.primitive.name!r} belongs to a compiled class and cannot be replaced; "
            "name the Python function or method that calls it, or one that you write around it"
        ) from None
    return done


def replace(name: str, new: Any) -> list[Patch]:
    """Put `new` wherever the object of this name is kept."""
    holder_name, _, attribute = name.rpartition(".")
    holder = sys.modules.get(holder_name)
    if holder is None or not hasattr(holder, attribute):
        return []
    old = getattr(holder, attribute)
    kept = [(holder, attribute)] if old is None or inspect.isclass(old) else places(old)
    return [Patch(place, here, new) for place, here in kept]


def unbound(function: Any) -> Any:
    """The function in a static or class method."""
    return function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
