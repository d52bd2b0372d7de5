"""Memos of a mechanism: caches of functions, and containers that runs fill again after they are
emptied.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from numpy.random import SFC64, Generator

_MOST_CONTAINERS = 32  # containers that are tried
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))

_Container = dict[Any, Any] | list[Any] | set[Any]


@dataclass(frozen=True, slots=True)
class Memos:
    """Caches of functions, and keys of containers that runs fill again."""

    caches: list[Any]
    # the keys of a dict that are emptied; None for everything
    containers: list[tuple[_Container, list[Any] | None]]

    @contextmanager
    def emptied(self) -> Iterator[None]:
        """Empty the memos, and restore the containers at the end."""
        saved = [each.copy() for each, _ in self.containers]
        for cache in self.caches:
            cache.cache_clear()
        for each, keys in self.containers:
            _empty(each, keys)
        try:
            yield
        finally:
            for (each, _), content in zip(self.containers, saved, strict=True):
                _restore(each, content)


def memos_of(run: Callable[..., Any], datasets: Sequence[Any], seed: int, seconds: float) -> Memos:
    """Return the memos that a mechanism can reach; not all if this takes longer than `seconds`.

    A dict, list or set is a memo if runs work without its content, and put something in again. Of
    the attributes of an object, single ones may be memos.
    """
    caches, found = _reachable(run)
    until, containers = time.perf_counter() + seconds, list[tuple[_Container, list[Any] | None]]()
    for each in [each for each in found if each][:_MOST_CONTAINERS]:
        if time.perf_counter() > until:
            break
        if _is_memo(each, None, run, datasets, seed):
            containers.append((each, None))
        elif isinstance(each, dict):
            keys = [
                key
                for key in list(each)[:_MOST_CONTAINERS]
                if time.perf_counter() < until and _is_memo(each, [key], run, datasets, seed)
            ]
            containers += [(each, keys)] if keys else []
    return Memos(caches, containers)


def _is_memo(
    container: _Container,
    keys: list[Any] | None,
    run: Callable[..., Any],
    datasets: Sequence[Any],
    seed: int,
) -> bool:
    """Return whether runs work and put something in again after a container, or these keys, are
    emptied. The content is restored.
    """
    content = container.copy()
    _empty(container, keys)
    try:
        for side, dataset in enumerate(datasets):
            run(dataset, 1, Generator(SFC64([seed, side])))
        return len(container) > 0 if keys is None else all(key in container for key in keys)
    except Exception:  # the content is needed
        return False
    finally:
        _restore(container, content)


def _empty(container: _Container, keys: list[Any] | None) -> None:
    if keys is None:
        container.clear()
    elif isinstance(container, dict):
        for key in keys:
            container.pop(key, None)


def _restore(container: _Container, content: _Container) -> None:
    container.clear()
    if isinstance(container, list):
        container.extend(content)
    else:
        container.update(content)


def _reachable(run: Callable[..., Any]) -> tuple[list[Any], list[_Container]]:
    """Return the caches of functions, and the containers, that a function or object can reach,
    except those of installed libraries.
    """
    seen, waiting = set[int](), [run]
    kept, caches, containers = list[Any](), list[Any](), list[_Container]()
    while waiting and len(seen) < 5_000:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, str | bytes | int | float | complex | type(None)):
            continue
        seen.add(id(found))
        kept.append(found)  # so that no other object gets its id
        if callable(getattr(found, "cache_clear", None)) and hasattr(found, "cache_info"):
            caches.append(found)
        if isinstance(found, dict | list | set) and all(
            callable(getattr(found, name, None)) for name in ("clear", "copy")
        ):
            containers.append(found)
        with suppress(Exception):  # objects may raise anything
            waiting += _parts(found)
    return caches, containers


def _parts(found: Any) -> list[Any]:
    """Return the objects that an object holds or uses."""
    if isinstance(found, dict):
        return [value for value in found.values() if _holds(value)]
    if isinstance(found, list | tuple | set):
        return [value for value in found if _holds(value)]
    if isinstance(found, functools.partial):
        return [found.func, *found.args, *found.keywords.values()]
    if isinstance(found, types.MethodType):
        return [found.__self__, found.__func__]
    if isinstance(found, types.FunctionType):
        names = _names(found.__code__)
        used = (
            [found.__globals__[name] for name in names if name in found.__globals__]
            if _is_own(found.__module__)
            else []
        )
        for cell in found.__closure__ or ():
            with suppress(ValueError):  # an empty cell
                used.append(cell.cell_contents)
        modules = [each for each in used if isinstance(each, types.ModuleType)]
        used = [each for each in used if not isinstance(each, types.ModuleType)]
        used += [
            vars(each)[name]
            for each in modules
            if _is_own(each.__name__)
            for name in names & vars(each).keys()
        ]
        return [
            *used,
            *(found.__defaults__ or ()),
            *(found.__kwdefaults__ or {}).values(),
            vars(found),
        ]
    if isinstance(found, type):
        return (
            [each for each in vars(found).values() if _holds(each)]
            if _is_own(found.__module__)
            else []
        )
    inside = [getattr(found, "__wrapped__", None)]
    module = type(found).__module__
    if _is_own(module) or module.startswith("dpwitness."):  # such as a wrapper
        slots = [
            getattr(found, name, None)
            for each in type(found).__mro__
            for name in getattr(each, "__slots__", ())
        ]
        inside += [type(found), vars(found) if hasattr(found, "__dict__") else None, *slots]
    if isinstance(found, property | staticmethod | classmethod | functools.cached_property):
        inside += [getattr(found, name, None) for name in ("fget", "__func__", "func")]
    return inside


def _names(code: types.CodeType) -> set[str]:
    """Return the global names and attributes that a function uses, with those of the functions
    inside.
    """
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _is_own(name: str | None) -> bool:
    """Return whether the module of this name is the user's: neither of the standard library nor of
    an installed package.
    """
    if name is None or name == "__main__":
        return True
    if name.partition(".")[0] in {"dpwitness", *sys.stdlib_module_names}:
        return False
    return not str(getattr(sys.modules.get(name), "__file__", None) or "").startswith(_LIBRARIES)


def _holds(value: Any) -> bool:
    """Return whether a value may hold memos."""
    return not isinstance(value, str | bytes | int | float | complex | bool | type(None))
