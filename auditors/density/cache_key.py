"""Keys of the content of objects, for caches of results computed from the objects.

Identity and equality cannot serve as keys: an array inside may have changed, and a field may be
excluded from comparisons. A key holds every field's value, the class itself and its methods. If the
content of an object cannot be read, there is no key, and nothing is cached.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dpwitness.core.datasets.records import slots_of_class

_METHODS = ("sample", "log_density", "support", "factors", "breakpoints", "atoms")


def content_key(*values: Any) -> Any:
    """Return a hashable key of the current content of all `values`, or None if some content cannot
    be read.
    """
    try:
        return tuple(_content(value) for value in values)
    except (_UnknownError, RecursionError):  # a list may contain itself
        return None


class _UnknownError(Exception):
    """Error for content that cannot be read."""


def _content(value: Any) -> Any:
    """Return a hashable description of the content of one value. Raise _UnknownError if some
    content cannot be read.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes):
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)  # 0.0 is not -0.0, NaN is NaN
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return kind, value.tobytes()
    if kind is np.ndarray and not value.dtype.hasobject:
        return kind, value.dtype.str, value.shape, value.tobytes()
    if kind in (list, tuple):
        return kind, tuple(_content(v) for v in value)
    if kind is dict:
        return kind, tuple((_content(k), _content(v)) for k, v in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value)]
        slots = {name for cls in kind.__mro__ for name in slots_of_class(cls)}
        held = {
            name: getattr(value, name)
            for name in [*names, *sorted(slots - set(names))]
            if hasattr(value, name)
        }
        held |= getattr(value, "__dict__", {})
        methods = tuple(getattr(kind, name, None) for name in _METHODS)
        # a function that closes over variables, or is not a plain function, may behave differently
        # later
        if any(
            method is not None and (not hasattr(method, "__code__") or method.__closure__)
            for method in methods
        ):
            raise _UnknownError
        return kind, methods, tuple((name, _content(v)) for name, v in held.items())
    raise _UnknownError
