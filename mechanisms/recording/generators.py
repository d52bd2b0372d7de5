"""NumPy's generators as subclasses whose draws can be recorded: their own methods are compiled and cannot be replaced."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator

import numpy as np

from .recorder import here

GENERATOR, STATE = "numpy.random.Generator.", "numpy.random.RandomState."
_Generator = np.random.Generator
_RandomState = np.random.RandomState
_default_rng, _shared = np.random.default_rng, np.random.mtrand._rand
_SEEDS = ("seed", "get_state", "set_state")


class _Kind(type):
    """So that `isinstance(rng, numpy.random.Generator)` holds for generators made before as well."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.base)  # type: ignore[attr-defined]


def _drawing(prefix: str, base: Any, name: str) -> Callable[..., Any]:
    original = getattr(base, name)

    place = prefix + name

    @functools.wraps(original)
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = here.recorder
        if recorder is None:
            return original(self, *args, **kwargs)
        return recorder.call(recorder.owner.sources[place], (self, *args), kwargs)

    return draw


class _Indexing:
    """What takes a dataset draws places in it: the record must not hold its entries."""

    base: Any

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, *more: Any, **named: Any) -> Any:
        axis = more[0] if more else named.get("axis", 0)
        if _unwatched():
            return self.base.choice(self, a, size, replace, p, *more, **named)
        if np.ndim(a) == 0:
            return self._places("choice", int(a), size, replace, p)
        return np.take(np.asarray(a), self._places("choice", np.shape(a)[axis], size, replace, p), axis=axis)

    def permutation(self, x: Any, *axis: int, **named: Any) -> Any:
        if _unwatched():
            return self.base.permutation(self, x, *axis, **named)
        if np.ndim(x) == 0:
            return self._places("permutation", int(x))
        along = axis[0] if axis else named.get("axis", 0)
        return np.take(np.asarray(x), self._places("permutation", np.shape(x)[along]), axis=along)

    def shuffle(self, x: Any, *axis: int, **named: Any) -> None:
        if _unwatched():
            self.base.shuffle(self, x, *axis, **named)
            return
        along = axis[0] if axis else named.get("axis", 0)
        places = self._places("permutation", np.shape(x)[along] if isinstance(x, np.ndarray) else len(x))
        if isinstance(x, np.ndarray):
            x[...] = np.take(x, places, axis=along)
        else:
            x[:] = [x[i] for i in places]

    def _places(self, name: str, *args: Any) -> Any:
        prefix = STATE if self.base is _RandomState else GENERATOR
        recorder = here.recorder
        return recorder.call(recorder.owner.sources[prefix + name], (self, *args), {})


def _unwatched() -> bool:
    """Whether nobody records, or a recorded call is drawing, which may come back here."""
    return here.recorder is None or here.inside is not None


_INDEXING = ("choice", "permutation", "shuffle")


class TracedGenerator(_Indexing, np.random.Generator, metaclass=_Kind):
    """A Generator whose draws are recorded while a trace runs."""

    base = _Generator


class TracedState(_Indexing, np.random.RandomState, metaclass=_Kind):
    """A RandomState whose draws are recorded while a trace runs."""

    base = _RandomState

    def __init__(self, seed: Any = None) -> None:
        if seed is None:
            seed = _own_seed("numpy.random.RandomState()")
        with _unrecorded():
            super().__init__(seed)


def _own_seed(name: str) -> Any:
    """A generator without a seed is noted, and gets one of the run's own: a trace can be made again."""
    recorder = here.recorder
    if recorder is None:
        return None
    if here.inside is None:
        recorder.unseeded.append((name, recorder.caller()))
    recorder.made += 1
    return [*recorder.words, recorder.made]


@contextlib.contextmanager
def _unrecorded() -> Iterator[None]:
    """A new generator takes its first seed from the system even where it gets another: nothing that a mechanism draws."""
    recorder, here.recorder = here.recorder, None
    try:
        yield
    finally:
        here.recorder = recorder


def default_rng(seed: Any = None) -> Any:
    """`numpy.random.default_rng`, recording."""
    if seed is None:
        seed = _own_seed("numpy.random.default_rng()")
    with _unrecorded():
        found = _default_rng(seed)
    return traced(found) or found


def traced(value: Any) -> Any:
    """A recording generator on the same bits as a given one; None for anything else."""
    if type(value) is _Generator:
        return TracedGenerator(value.bit_generator)
    if type(value) is _RandomState:
        return TracedState(value._bit_generator)
    return None


def equip(names: Any) -> None:
    """Give the subclasses a recording method for each name of the tables."""
    for name in names:
        for prefix, cls, base in ((GENERATOR, TracedGenerator, _Generator), (STATE, TracedState, _RandomState)):
            method = name[len(prefix) :] if name.startswith(prefix) else ""
            if method and method not in _INDEXING and hasattr(base, method) and method not in vars(cls):
                setattr(cls, method, _drawing(prefix, base, method))


def originals(names: Any) -> dict[str, Any]:
    """The compiled methods behind those names, of the classes that have them."""
    bases = {GENERATOR: _Generator, STATE: _RandomState}
    found = {}
    for name in names:
        for prefix, base in bases.items():
            if name.startswith(prefix) and hasattr(base, name[len(prefix) :]):
                found[name] = getattr(base, name[len(prefix) :])
    return found


def replacements() -> dict[str, Any]:
    """What stands in NumPy's namespace while a trace runs."""
    shared = TracedState(_shared._bit_generator)
    found: dict[str, Any] = {
        "numpy.random.default_rng": default_rng,
        "numpy.random.Generator": TracedGenerator,
        "numpy.random.RandomState": TracedState,
        "numpy.random.mtrand._rand": shared,
    }
    for name in dir(np.random):
        kept = getattr(np.random, name)
        if getattr(kept, "__self__", None) is _shared and (name in vars(TracedState) or name in _INDEXING or name in _SEEDS):
            found[f"numpy.random.{name}"] = getattr(shared, name)
    return found
