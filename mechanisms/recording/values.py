"""Values of any kind, copied, compared bit for bit, measured against each other, and taken apart into numbers."""

from __future__ import annotations

import dataclasses
import math
import struct
from typing import Any, Iterator

import numpy as np

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_KEPT = _PLAIN | {np.float64, np.int64, np.float32, np.bool_}  # nothing changes them
_DEEP = 32  # levels of containers that are looked into


def copied(value: Any, deep: int = 0) -> Any:
    """A copy that later changes of `value` do not reach: of arrays, tensors and containers; other objects are kept as they are."""
    kind = type(value)
    if kind in _KEPT or isinstance(value, np.generic) or deep > _DEEP:
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if kind in (list, tuple):
        return kind(copied(v, deep + 1) for v in value)
    if kind is dict:
        return {k: copied(v, deep + 1) for k, v in value.items()}
    for way in ("clone", "copy"):  # tensors; frames and series
        if kind.__module__.split(".")[0] in ("torch", "pandas", "polars") and hasattr(value, way):
            return getattr(value, way)()
    return value


def _bits(value: Any) -> Any:
    if type(value) is float:
        return struct.pack("<d", value)
    if type(value) is complex:
        return struct.pack("<dd", value.real, value.imag)
    return value


def difference(a: Any, b: Any, at: str = "", deep: int = 0, objects: bool = True) -> str:
    """Where and how two values differ, bit for bit; empty if they do not. Without `objects` only numbers, texts and what holds them count.

    Examples
    --------
    >>> difference([1.0, float("nan")], [1.0, float("nan")]), difference({"x": 0.0}, {"x": -0.0})
    ('', "['x'] is 0.0 and -0.0")
    >>> difference(np.zeros(2000), np.append(np.zeros(1999), 1.0))
    '[1999] is 0.0 and 1.0'
    """
    kind = type(a)
    if kind is not type(b):
        return f"{at or 'it'} is of type {kind.__name__} and {type(b).__name__}"
    if kind in _PLAIN:
        return "" if _bits(a) == _bits(b) else f"{at or 'it'} is {_short(a)} and {_short(b)}"
    if a is b or deep > _DEEP:
        return ""
    if isinstance(a, (np.ndarray, np.generic)):
        return _between_arrays(np.asarray(a), np.asarray(b), at)
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"{at or 'it'} has length {len(a)} and {len(b)}"
        return next(filter(None, (difference(v, w, f"{at}[{i}]", deep + 1, objects) for i, (v, w) in enumerate(zip(a, b)))), "")
    if isinstance(a, dict):
        if list(a) != list(b):
            return f"{at or 'it'} has keys {_short(list(a))} and {_short(list(b))}"
        return next(filter(None, (difference(a[k], b[k], f"{at}[{k!r}]", deep + 1, objects) for k in a)), "")
    if isinstance(a, (set, frozenset)):
        return "" if a == b else f"{at or 'it'} is {_short(a)} and {_short(b)}"
    held = _held(a), _held(b)
    if held[0] is not None and held[1] is not None:
        return _between_arrays(held[0], held[1], at)
    if not objects:
        return ""
    if isinstance(a, BaseException):
        return difference(str(a), str(b), f"{at}{kind.__name__}", deep + 1)
    fields = _fields(a), _fields(b)
    if fields[0] is not None and fields[1] is not None:
        return difference(fields[0], fields[1], f"{at}{kind.__name__}", deep + 1)
    plain: Any = object.__eq__
    if kind.__eq__ is plain:
        return "" if _short(a) == _short(b) or _no_repr(kind) else f"{at or 'it'} is {_short(a)} and {_short(b)}"
    try:
        return "" if bool(a == b) else f"{at or 'it'} is {_short(a)} and {_short(b)}"
    except Exception:
        return ""


def _between_arrays(a: Any, b: Any, at: str) -> str:
    at = at or ("" if a.ndim else "it")
    if a.dtype != b.dtype:
        return f"{at or 'it'} has dtype {a.dtype} and {b.dtype}"
    if a.shape != b.shape:
        return f"{at or 'it'} has shape {a.shape} and {b.shape}"
    if a.dtype.hasobject:
        return difference(a.tolist(), b.tolist(), at, 1)
    if a.tobytes() == b.tobytes():
        return ""
    size = a.dtype.itemsize
    left, right = (np.ascontiguousarray(v).reshape(-1).view(np.uint8).reshape(-1, size) for v in (a, b))
    place = int(np.flatnonzero((left != right).any(axis=1))[0])
    index = list(map(int, np.unravel_index(place, a.shape))) if a.ndim else ""
    return f"{at}{index} is {_short(a.reshape(-1)[place].item())} and {_short(b.reshape(-1)[place].item())}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def _held(value: Any) -> Any:
    """The array in a tensor, a series, a frame or a sparse matrix; None in anything else."""
    if isinstance(value, type) or not (hasattr(value, "toarray") or hasattr(value, "__array__") or hasattr(value, "detach")):
        return None
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        return np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    except Exception:
        return None


def _fields(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if _no_repr(type(value)) and getattr(value, "__dict__", None):
        return dict(sorted(vars(value).items()))
    return None


def _no_repr(kind: Any) -> bool:
    """Whether the text of such an object is its address."""
    return bool(kind.__repr__ is object.__repr__)


def _walk(value: Any, deep: int = 0) -> Iterator[Any]:
    """Arrays of numbers and everything else that a value consists of, in a fixed order."""
    if isinstance(value, (np.ndarray, np.generic)) and np.asarray(value).dtype.kind in "fiub":
        yield np.asarray(value).reshape(-1)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        yield from _walk(value.reshape(-1).tolist(), deep + 1)
    elif isinstance(value, (bool, int, float)):
        yield value
    elif deep > _DEEP:
        yield None
    elif isinstance(value, (list, tuple)):
        if value and all(type(v) in (float, int) for v in value):
            yield _row(value)
        else:
            for v in value:
                yield from _walk(v, deep + 1)
    elif isinstance(value, dict):
        for v in value.values():
            yield from _walk(v, deep + 1)
    else:
        held = _held(value)
        if held is not None and held.dtype.kind in "fiub":
            yield held.reshape(-1)
        else:
            fields = _fields(value)
            yield from _walk(fields, deep + 1) if fields is not None else iter([_short(value)])


def _row(value: Any) -> Any:
    try:
        return np.asarray(value, dtype=float)
    except OverflowError:  # an integer beyond the floats
        return np.array([float("inf") if v > 0 else float("-inf") if abs(v) > 2**1023 else float(v) for v in value])


def leaves(value: Any) -> tuple[Any, list[str]]:
    """The numbers in a value as one float64 array (n,), and the texts of all else in it.

    Examples
    --------
    >>> leaves({"n": np.arange(2), "of": ["a", 2.5]})
    (array([0. , 1. , 2.5]), ['a'])
    """
    numbers: list[Any] = []
    others: list[str] = []
    for leaf in _walk(value):
        if isinstance(leaf, np.ndarray):
            numbers.append(leaf.astype(float))
        elif isinstance(leaf, (bool, int, float)):
            numbers.append(_row([leaf]))
        else:
            others.append(leaf if isinstance(leaf, str) else repr(leaf))
    return (np.concatenate(numbers) if numbers else np.zeros(0)), [text.strip("'") for text in others]


def shift(a: Any, b: Any) -> Any:
    """|a - b|, number by number, as float64 (n,): infinite where one side alone is not a number; None if there are no numbers to compare.

    Examples
    --------
    >>> shift([1.0, float("nan")], [3.0, 2.0]), shift("a", "b") is None
    (array([ 2., inf]), True)
    >>> shift(2**60 + 1, 2**60)
    array([1.])
    """
    if isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)):
        return np.array([float(abs(int(a) - int(b)))])  # exact beyond 2^53 too
    (left, texts), (right, others) = leaves(a), leaves(b)
    if texts != others or left.shape != right.shape or left.size == 0:
        return None
    whole = [v.astype(object) for v in (a, b) if isinstance(v, np.ndarray) and v.dtype.kind in "iu"]
    with np.errstate(invalid="ignore"):
        found = np.abs(left - right) if len(whole) < 2 else np.abs(whole[0] - whole[1]).reshape(-1).astype(float)
    found[(left == right) | (np.isnan(left) & np.isnan(right))] = 0.0
    found[np.isnan(found)] = math.inf
    return found
