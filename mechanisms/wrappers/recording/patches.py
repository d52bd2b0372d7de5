"""Patches that replace names in all loaded modules while a trace runs, and restore them
afterward; and subclasses of NumPy's generators, whose compiled methods cannot be replaced.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import threading
from typing import Any, Callable, Iterator

import numpy as np

from .primitives import WrongPrimitive
from .recorder import calling_place, here

lock = threading.RLock()  # held by the session whose patches are in force
_MISSING = object()
GENERATOR, STATE = "numpy.random.Generator.", "numpy.random.RandomState."
_Generator = np.random.Generator
_RandomState = np.random.RandomState
KINDS = frozenset((id(_Generator), id(_RandomState)))
_default_rng, _global_state = np.random.default_rng, np.random.mtrand._rand
_SEEDS = ("seed", "get_state", "set_state")


def replaced(holder: Any, name: str, new: Any) -> Callable[[], None]:
    """Replace an attribute of a module, class, object or closure cell, and return the function that
    restores it. Replacements are restored in the reverse order.
    """
    # a class may inherit the replaced attribute; a closure cell has no dict
    is_cell = not hasattr(holder, "__dict__")
    own = getattr(holder, name) if is_cell else vars(holder).get(name, _MISSING)
    setattr(holder, name, new)
    if own is _MISSING:
        return functools.partial(delattr, holder, name)
    return functools.partial(setattr, holder, name, own)


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
    parts, missing = name.split("."), "it has no module"
    holder, rest = (home, parts) if hasattr(home, parts[0]) else (None, parts)
    for end in range(len(parts) - 1, 0, -1):
        if holder is not None:
            break
        place, rest = ".".join(parts[:end]), parts[end:]
        try:
            holder = importlib.import_module(place) if imports else sys.modules[place]
        except (ImportError, KeyError) as error:
            missing = str(error)
    if holder is None:
        raise WrongPrimitive(
            f"primitives must name an importable function, got {name!r}: {missing}"
        )
    found = holder
    for part in rest:
        holder, found = found, getattr(found, part, _MISSING)
        if found is _MISSING:
            raise WrongPrimitive(
                f"primitives must name an existing function, got {name!r}: "
                f"{getattr(holder, '__name__', type(holder).__name__)} has no {part!r}"
            )
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


def attributes(wanted: set[int]) -> Iterator[tuple[Any, str, Any]]:
    """Yield (module, name, value) for the attributes of loaded modules whose `id`, or that of their
    type, is in `wanted`; except modules of this folder.
    """
    for module_name, module in list(sys.modules.items()):
        if not inspect.ismodule(module) or module_name.startswith(__package__ or "recording"):
            continue
        members = vars(module).copy()
        values = members.values()
        # as in most modules: a loop over the attributes would take several times as long
        if wanted.isdisjoint(map(id, values)) and wanted.isdisjoint(map(id, map(type, values))):
            continue
        yield from (
            (module, name, value)
            for name, value in members.items()
            if id(value) in wanted or id(type(value)) in wanted
        )


class _GeneratorMeta(type):
    """Metaclass with which `isinstance(rng, numpy.random.Generator)` also holds for generators made
    earlier.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.base)  # type: ignore[attr-defined]


def _recording_method(prefix: str, base: Any, name: str) -> Callable[..., Any]:
    """Return a method that records a draw while a trace runs."""
    original = getattr(base, name)

    place = prefix + name

    @functools.wraps(original)
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = here.recorder
        if recorder is None:
            return original(self, *args, **kwargs)
        return recorder.call(recorder.owner.sources[place], (self, *args), kwargs)

    return draw


class _IndexDraws:
    """Mixin that records draws from a dataset as draws of indices, so that the record does not
    contain its entries.
    """

    base: Any

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        *more: Any,
        **named: Any,
    ) -> Any:
        if _not_recording():
            return self.base.choice(self, a, size, replace, p, *more, **named)
        axis = (*more, named.get("axis", 0))[0]
        return self._draw_entries("choice", a, axis, size, replace, p)

    def permutation(self, x: Any, *axis: int, **named: Any) -> Any:
        if _not_recording():
            return self.base.permutation(self, x, *axis, **named)
        return self._draw_entries("permutation", x, (*axis, named.get("axis", 0))[0])

    def shuffle(self, x: Any, *axis: int, **named: Any) -> None:
        if _not_recording():
            self.base.shuffle(self, x, *axis, **named)
        elif isinstance(x, np.ndarray):
            x[...] = self._draw_entries("permutation", x, (*axis, named.get("axis", 0))[0])
        else:
            x[:] = [x[i] for i in self._draw_indices("permutation", len(x))]

    def _draw_entries(self, name: str, entries: Any, axis: int, *args: Any) -> Any:
        """Return the entries at the drawn indices; the indices themselves for a number."""
        if np.ndim(entries) == 0:
            return self._draw_indices(name, int(entries), *args)
        places = self._draw_indices(name, np.shape(entries)[axis], *args)
        return np.take(np.asarray(entries), places, axis=axis)

    def _draw_indices(self, name: str, *args: Any) -> Any:
        """Return indices drawn by a recorded call."""
        prefix = STATE if self.base is _RandomState else GENERATOR
        recorder = here.recorder
        return recorder.call(recorder.owner.sources[prefix + name], (self, *args), {})


def _not_recording() -> bool:
    """Return whether no recorder is active, or a recorded call is drawing, which may call this
    method again.
    """
    return here.recorder is None or here.inside is not None


class TracedGenerator(_IndexDraws, np.random.Generator, metaclass=_GeneratorMeta):
    """A Generator whose draws are recorded while a trace runs."""

    base = _Generator


class TracedState(_IndexDraws, np.random.RandomState, metaclass=_GeneratorMeta):
    """A RandomState whose draws are recorded while a trace runs."""

    base = _RandomState

    def __init__(self, seed: Any = None) -> None:
        if seed is None:
            seed = _own_seed("numpy.random.RandomState()")
        with _recording_paused():
            super().__init__(seed)


def _own_seed(name: str) -> Any:
    """Return a seed derived from the run's seed for a generator without one, so that the trace can
    be repeated; None outside of a run.

    The recorder lists the generator as unseeded.
    """
    recorder = here.recorder
    if recorder is None:
        return None
    if here.inside is None:
        recorder.unseeded.append((name, calling_place()))
    recorder.made += 1
    return [*recorder.words, recorder.made]


@contextlib.contextmanager
def _recording_paused() -> Iterator[None]:
    """Pause the recording. A new generator takes a first seed from the system in any case, which is
    not a draw of the mechanism.
    """
    recorder, here.recorder = here.recorder, None
    try:
        yield
    finally:
        here.recorder = recorder


def default_rng(seed: Any = None) -> Any:
    """Return a recording generator, as `numpy.random.default_rng`."""
    if seed is None:
        seed = _own_seed("numpy.random.default_rng()")
    with _recording_paused():
        found = _default_rng(seed)
    return traced(found) or found


def traced(value: Any) -> Any:
    """Return a recording generator with the same bit generator as a given one; None for anything
    else.
    """
    if type(value) is _Generator:
        return TracedGenerator(value.bit_generator)
    if type(value) is _RandomState:
        return TracedState(value._bit_generator)
    return None


def recorded_methods(names: Any) -> dict[str, Any]:
    """Return the compiled method of each name in the tables, and add a recording method to the
    subclass of its class.
    """
    found = {}
    for name in names:
        prefix = STATE if name.startswith(STATE) else GENERATOR
        cls: Any = TracedState if prefix == STATE else TracedGenerator
        method = name[len(prefix) :] if name.startswith(prefix) else ""
        if hasattr(cls.base, method):
            found[name] = getattr(cls.base, method)
            if method not in vars(_IndexDraws) and method not in vars(cls):
                setattr(cls, method, _recording_method(prefix, cls.base, method))
    return found


def numpy_replacements() -> list[tuple[Any, Any]]:
    """Return NumPy's functions and its global generator, each with the object that replaces it
    while a trace runs.
    """
    shared = TracedState(_global_state._bit_generator)
    found: list[tuple[Any, Any]] = [(_default_rng, default_rng), (_global_state, shared)]
    for name in dir(np.random):
        function = getattr(np.random, name)
        if getattr(function, "__self__", None) is _global_state and (
            name in {**vars(TracedState), **vars(_IndexDraws)} or name in _SEEDS
        ):
            found.append((function, getattr(shared, name)))
    return found
