"""Operations on values of any kind: copy, bitwise comparison, difference, and conversion to
numbers.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_IMMUTABLE = _PLAIN | {np.float64, np.int64, np.float32, np.bool_}  # immutable types
_COMPARED = _PLAIN | {set, frozenset}  # types without parts that are compared in any case
_MAX_DEPTH = 32  # limit of nested containers


def copied(value: Any, deep: int = 0) -> Any:
    """Return a copy of arrays, tensors and containers that later changes of `value` do not affect.

    Other objects are returned unchanged.
    """
    kind = type(value)
    if kind in _IMMUTABLE or isinstance(value, np.generic) or deep > _MAX_DEPTH:
        return value
    if kind in (list, tuple):
        return kind(copied(v, deep + 1) for v in value)
    if kind is dict:
        return {k: copied(v, deep + 1) for k, v in value.items()}
    library = kind.__module__.partition(".")[0]
    if isinstance(value, np.ndarray) or library in ("torch", "pandas", "polars"):
        # of tensors; of arrays, frames and series
        copy = getattr(value, "clone", getattr(value, "copy", lambda: value))
        return copy()
    return value


def difference(a: Any, b: Any, at: str = "", deep: int = 0, objects: bool = True) -> str:
    """Return where and how two values differ, bit for bit; an empty text if they are equal.

    Without `objects`, only numbers, texts and their containers are compared.

    Examples
    --------
    >>> difference([1.0, float("nan")], [1.0, float("nan")]), difference({"x": 0.0}, {"x": -0.0})
    ('', "['x'] is 0.0 and -0.0")
    >>> difference(np.zeros(2000), np.append(np.zeros(1999), 1.0))
    '[1999] is 0.0 and 1.0'
    """
    kind: Any = type(a)
    if kind is not type(b):
        return f"{at or 'it'} is of type {kind.__name__} and {type(b).__name__}"
    if kind is float and a == b != 0:  # the most frequent kind
        return ""
    arrays = [np.asarray(v) if kind in (float, complex) else _array_of(v) for v in (a, b)]
    if all(array is not None for array in arrays):
        return _array_difference(arrays[0], arrays[1], at)
    if a is b or deep > _MAX_DEPTH:
        return ""
    first, second = _parts(a), _parts(b)
    if first is None or second is None:
        return _scalar_difference(a, b, at) if objects or kind in _COMPARED else ""
    if isinstance(a, (list, tuple, dict)):
        return _parts_difference(first, second, at, deep, objects)
    return _parts_difference(first, second, f"{at}{kind.__name__}", deep, True) if objects else ""


def _parts_difference(first: Any, second: Any, at: str, deep: int, objects: bool) -> str:
    """Return where and how two dicts of parts differ; an empty text if they are equal."""
    keys, others = list(first), list(second)
    if len(keys) != len(others):
        return f"{at or 'it'} has length {len(keys)} and {len(others)}"
    if keys != others:
        return f"{at or 'it'} has keys {_short_repr(keys)} and {_short_repr(others)}"
    parts = (difference(first[k], second[k], f"{at}[{k!r}]", deep + 1, objects) for k in keys)
    return next(filter(None, parts), "")


def _scalar_difference(a: Any, b: Any, at: str) -> str:
    """Return how two values without parts differ: by ``==``, or by their representation if the
    class does not define ``==``.
    """
    kind: Any = type(a)
    try:
        same = (
            _has_default_repr(kind) or _short_repr(a) == _short_repr(b)
            if kind.__eq__ is object.__eq__
            else bool(a == b)
        )
    except Exception:  # an object that cannot be compared
        return ""
    return "" if same else f"{at or 'it'} is {_short_repr(a)} and {_short_repr(b)}"


def _array_difference(a: Any, b: Any, at: str) -> str:
    """Return where and how two arrays differ, bit for bit; an empty text if they are equal."""
    at = at or ("" if a.ndim else "it")
    if a.dtype != b.dtype:
        return f"{at or 'it'} has dtype {a.dtype} and {b.dtype}"
    if a.shape != b.shape:
        return f"{at or 'it'} has shape {a.shape} and {b.shape}"
    if a.dtype.hasobject:
        return difference(a.tolist(), b.tolist(), at, 1)
    if a.tobytes() == b.tobytes():
        return ""
    left, right = (np.ascontiguousarray(v).reshape(-1) for v in (a, b))
    differs = (left.view(np.uint8) != right.view(np.uint8)).reshape(-1, a.itemsize).any(axis=1)
    place = int(np.flatnonzero(differs)[0])
    index = list(map(int, np.unravel_index(place, a.shape))) if a.ndim else ""
    one, other = _short_repr(left[place].item()), _short_repr(right[place].item())
    return f"{at}{index} is {one} and {other}"


def _short_repr(value: Any) -> str:
    """Return the representation of a value, at most 80 characters."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def _array_of(value: Any) -> Any:
    """Return the array of a tensor, a series, a frame or a sparse matrix; None for
    anything else.
    """
    if isinstance(value, type) or not (
        hasattr(value, "toarray") or hasattr(value, "__array__") or hasattr(value, "detach")
    ):
        return None
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        return np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    except Exception:
        return None


def _parts(value: Any) -> Any:
    """Return the items of a container, or the fields of a dataclass or of a plain object, as a
    dict; None for anything else.
    """
    if isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if _has_default_repr(type(value)) and getattr(value, "__dict__", None):
        return dict(sorted(vars(value).items()))
    return None


def _has_default_repr(kind: Any) -> bool:
    """Return whether a class has no representation but its address."""
    return bool(kind.__repr__ is object.__repr__)


def leaves(value: Any) -> tuple[Any, list[str]]:
    """Return the numbers in a value as one float64 array (n,), and all other parts as texts.

    Examples
    --------
    >>> leaves({"n": np.arange(2), "of": ["a", 2.5]})
    (array([0. , 1. , 2.5]), ['a'])
    """
    numbers: list[Any] = []
    texts: list[str] = []

    def collect(part: Any, deep: int = 0) -> None:
        if isinstance(part, (bool, int, float)):
            numbers.append(_as_floats([part]))
            return
        array = _array_of(part)
        inner = None if deep > _MAX_DEPTH else _parts(part)
        if array is not None and array.dtype.kind in "fiub":
            numbers.append(array.reshape(-1).astype(float))
        elif array is not None and array.dtype.hasobject and array.ndim:
            collect(array.reshape(-1).tolist(), deep + 1)
        elif isinstance(part, (list, tuple)) and part and {*map(type, part)} <= {float, int}:
            numbers.append(_as_floats(part))
        elif inner is not None:
            for each in inner.values():
                collect(each, deep + 1)
        else:
            texts.append(_short_repr(part).strip("'"))

    collect(value)
    return (np.concatenate(numbers) if numbers else np.zeros(0)), texts


def _as_floats(value: Any) -> Any:
    """Return a sequence of numbers as float64; integers beyond the range of floats
    become infinite.
    """
    try:
        return np.asarray(value, dtype=float)
    except OverflowError:
        largest = int(np.finfo(float).max)
        signs = (math.inf, -math.inf)
        return np.array([float(v) if abs(v) <= largest else signs[v < 0] for v in value])


def shift(a: Any, b: Any) -> Any:
    """Return |a - b| for each number, as float64 (n,); None if there are no numbers to compare.

    A difference is infinite where only one of the two values is a number.

    Examples
    --------
    >>> shift([1.0, float("nan")], [3.0, 2.0]), shift("a", "b") is None
    (array([ 2., inf]), True)
    >>> shift(2**60 + 1, 2**60)
    array([1.])
    """
    if isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)):
        return np.array([float(abs(int(a) - int(b)))])  # exact beyond 2^53
    if isinstance(a, float) and isinstance(b, float) and math.isfinite(a - b):
        return np.array([abs(float(a) - float(b))])  # the most frequent kind
    (left, texts), (right, others) = leaves(a), leaves(b)
    if texts != others or left.shape != right.shape or left.size == 0:
        return None
    integer_arrays = [
        v.astype(object) for v in (a, b) if isinstance(v, np.ndarray) and v.dtype.kind in "iu"
    ]
    with np.errstate(invalid="ignore"):
        found = (
            np.abs(left - right)
            if len(integer_arrays) < 2
            else np.abs(integer_arrays[0] - integer_arrays[1]).reshape(-1).astype(float)
        )
    found[(left == right) | (np.isnan(left) & np.isnan(right))] = 0.0
    found[np.isnan(found)] = math.inf
    return found
