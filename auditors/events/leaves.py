"""The numbers in an output, and its structure: what is a number becomes columns, what is none becomes a hash of its text.

A number that no float holds (a large integer, a decimal, a fraction, an instant in time) becomes the nearest float and a further column
with what rounding lost, NaN for nothing. A type that is compared by its text although it holds numbers is told (`Leaves.hashed`): a test of
equality sees little of a sum with noise.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import hashlib
import math
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.foreign.inside.wire import array_in, fields_in, text_of

_EXACT = 2.0**53  # integers up to here are floats
_TEXT = 60  # characters of a text that are kept to be printed
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_CONTEXT = Context(prec=400, Emax=10**9, Emin=-(10**9), traps=[])


@dataclasses.dataclass(slots=True)
class Leaves:
    """Numbers of one output, and the types in it that were hashed although they hold numbers."""

    numbers: list[float] = dataclasses.field(default_factory=list)
    hashed: set[str] = dataclasses.field(default_factory=set)
    texts: dict[float, str] = dataclasses.field(default_factory=dict)  # what stands behind the hashes of texts, to be printed


def code_of(text: str) -> float:
    """A whole number below 2^53, the same in every process."""
    return float(int.from_bytes(hashlib.blake2b(text.encode(errors="backslashreplace"), digest_size=8).digest()) >> 11)


def columns_of(raw: NDArray[Any]) -> tuple[str, NDArray[np.float64]] | None:
    """Name of the kind and columns (size, k) of an array of numbers or of times; None for anything else."""
    if isinstance(raw, np.ma.MaskedArray):
        inner = columns_of(raw.data)
        if inner is None:
            return None
        hidden = np.ma.getmaskarray(raw).reshape(len(raw), -1)
        repeated = np.tile(hidden, (1, inner[1].shape[1] // max(hidden.shape[1], 1))) if hidden.shape[1] else hidden
        seen = np.where(repeated, np.nan, inner[1]) if repeated.shape == inner[1].shape else inner[1]
        return f"masked {inner[0]}", np.column_stack([seen, hidden.astype(float)])
    kind, flat = raw.dtype.kind, raw.reshape(len(raw), -1)
    if kind == "c":
        halves = [_floats(part) for part in (flat.real, flat.imag)]
        return raw.dtype.name, np.column_stack(halves)
    if kind in "mM":
        missing = np.isnat(flat)
        ticks = _floats(np.where(missing, 0, flat.view(np.int64) if flat.flags.c_contiguous else flat.astype(np.int64)))
        ticks[:, : flat.shape[1]][missing] = np.nan
        return raw.dtype.name, ticks
    return (raw.dtype.name, _floats(flat)) if kind in "fiub" else None


def _floats(flat: NDArray[Any]) -> NDArray[np.float64]:
    """Columns of floats; what rounding lost goes to further ones, NaN for nothing."""
    if flat.dtype.itemsize < 8 or flat.dtype.kind == "b" or flat.dtype == np.float64:
        return np.ascontiguousarray(flat, dtype=np.float64)
    high = flat.astype(np.float64)
    if flat.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            lost = (flat - high).astype(np.float64)
        lost[~np.isfinite(high)] = 0.0
        return high if not lost.any() else np.column_stack([high, np.where(lost == 0, np.nan, lost)])
    if np.abs(high).max(initial=0.0) < _EXACT:
        return high
    lost = (flat - np.vectorize(int, otypes=[object])(high)).astype(np.float64)
    return np.column_stack([high, np.where(lost == 0, np.nan, lost)])


def walk(item: Any, leaves: Leaves) -> Iterator[str]:
    """The structure of `item`, piece by piece; its numbers are appended to `leaves`."""
    numbers, name = leaves.numbers, type(item).__name__
    if item is None:
        yield "None"
    elif isinstance(item, bool | np.bool_):
        numbers.append(float(item))
        yield "bool"
    elif isinstance(item, int | np.integer) and not isinstance(item, np.timedelta64):
        whole = int(item)
        exact = _append_number(numbers, whole)
        yield name if exact else "big int"
    elif isinstance(item, float | np.floating):
        numbers.append(float(item))
        if isinstance(item, np.longdouble) and np.isfinite(item) and np.longdouble(numbers[-1]) != item:
            numbers.append(float(item - np.longdouble(numbers[-1])))
        yield name
    elif isinstance(item, complex | np.complexfloating):
        numbers.extend((float(item.real), float(item.imag)))
        yield name
    elif isinstance(item, str | bytes | bytearray):
        text = bytes(item) if isinstance(item, bytearray) else item
        numbers.extend((code_of(repr(text)), float(len(text))))
        leaves.texts[numbers[-2]] = repr(text if len(text) <= _TEXT else text[:_TEXT])
        _note_digits(name, repr(text), leaves)
        yield name
    elif isinstance(item, BaseException):
        numbers.append(code_of(text_of(item, str)))
        yield f"raises {name}"
    elif isinstance(item, Decimal | Fraction):
        yield from _ratio(item, numbers)
    elif isinstance(item, datetime.date | datetime.time | datetime.timedelta | np.datetime64 | np.timedelta64):
        yield from _time(item, numbers)
    elif isinstance(item, np.ndarray) and (found := columns_of(item.reshape(1, *item.shape))) is not None:
        numbers.extend(found[1][0].tolist())
        yield f"{found[0]}{list(item.shape)}"
    else:
        yield from _compound(item, leaves)


def _compound(item: Any, leaves: Leaves) -> Iterator[str]:
    """Containers and objects: what they hold, item by item."""
    name = type(item).__name__
    if isinstance(item, dict):
        yield "{"
        for key in sorted(item, key=_text):
            _note_digits("key of a dict", _text(key) if isinstance(key, float) else "", leaves)
            yield f"{_text(key)}: "
            yield from walk(item[key], leaves)
            yield ", "
        yield "}"
    elif isinstance(item, list | tuple | set | frozenset | array.array | collections.deque | range) or (
        isinstance(item, np.ndarray) and item.ndim > 0
    ):
        ordered = sorted(item, key=_text) if isinstance(item, set | frozenset) else item
        yield f"{name}("
        for part in ordered:
            yield from walk(part, leaves)
            yield ", "
        yield ")"
    elif isinstance(item, np.void) and item.dtype.names:
        yield from _fields(name, [(field, item[field]) for field in item.dtype.names], leaves)
    elif isinstance(item, np.ndarray) and item.ndim == 0:
        yield f"{name} of "
        yield from walk(item[()] if item.dtype.kind == "V" else item.item(), leaves)
    elif (held := array_in(item)) is not None:
        yield f"{name} of "
        yield from walk(held, leaves)
    elif (fields := fields_in(item)) is not None:
        yield from _fields(name, fields, leaves)
    else:
        text = _text(item)
        leaves.numbers.append(code_of(text))
        _note_digits(name, text, leaves)
        yield name


def _fields(name: str, fields: list[tuple[str, Any]], leaves: Leaves) -> Iterator[str]:
    yield f"{name}("
    for field, value in fields:
        yield f"{field}="
        yield from walk(value, leaves)
        yield ", "
    yield ")"


def _ratio(item: Decimal | Fraction, numbers: list[float]) -> Iterator[str]:
    """The nearest float, what rounding lost, and of a decimal the zeros it ends in: 1.50 is not 1.5."""
    name = type(item).__name__
    if isinstance(item, Fraction):
        _append_number(numbers, item)
        yield name
        return
    if not item.is_finite():
        numbers.append(math.nan if item.is_nan() else float(item))
        yield f"{name} {item}" if item.is_nan() else name
        return
    near = float(item)
    numbers.append(math.copysign(near, -1.0 if item.is_signed() else 1.0))
    lost = float(_CONTEXT.subtract(item, Decimal(near))) if math.isfinite(near) else code_of(str(item))
    zeros = _CONTEXT.normalize(item).as_tuple().exponent - item.as_tuple().exponent if item else 0  # type: ignore[operator]
    numbers.extend((lost if lost else math.nan, float(zeros) if zeros > 0 and item.as_tuple().exponent < 0 else math.nan))  # type: ignore[operator]
    yield name


def _append_number(numbers: list[float], value: int | Fraction) -> bool:
    """The nearest float, and what rounding lost if it lost anything; whether nothing was lost."""
    try:
        near = float(value)
    except OverflowError:
        numbers.extend((math.inf if value > 0 else -math.inf, code_of(str(hash(value)))))
        return False
    numbers.append(near)
    lost = float(value - type(value)(near))
    if isinstance(value, Fraction):
        numbers.append(lost if lost else math.nan)
    elif lost:
        numbers.append(lost)
    return not lost


def _time(item: Any, numbers: list[float]) -> Iterator[str]:
    """Instants and spans as whole numbers of microseconds (of NumPy's own unit for its types), with what rounding lost."""
    name = type(item).__name__
    if isinstance(item, np.datetime64 | np.timedelta64):
        numbers.append(math.nan) if np.isnat(item) else _append_number(numbers, int(item.astype(np.int64)))
        yield item.dtype.name
        return
    zone = getattr(item, "tzinfo", None)
    fold = f" fold {item.fold}" if getattr(item, "fold", 0) else ""
    if isinstance(item, datetime.timedelta):
        ticks = item // _MICROSECOND
    elif isinstance(item, datetime.time):
        ticks = ((item.hour * 60 + item.minute) * 60 + item.second) * 10**6 + item.microsecond
    elif isinstance(item, datetime.datetime):
        ticks = (item.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    else:
        ticks = item.toordinal()
    _append_number(numbers, ticks)
    yield name if zone is None else f"{name} in {text_of(zone, repr)}{fold}"


def _note_digits(name: str, text: str, leaves: Leaves) -> None:
    if any(character.isdigit() for character in text):
        leaves.hashed.add(name)


def _text(item: Any) -> str:
    return text_of(item, repr)
