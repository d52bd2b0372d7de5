"""The leaves of an output: its numbers become columns, its texts hashes and the numbers in them, and its structure a text.

An output becomes one row. Its **main** numbers come first, at places that its structure alone fixes. Its **extra** numbers follow: what a
main number leaves out and most outputs have nothing of (NaN there), namely the sign of a zero, the digits that no float holds, the order
of the keys of a dict, what is under a mask. The numbers found in texts and the digits of huge numbers come last, as many as there are.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpwitness.auditors.encoding.arrays import Extras, Floats, code_of, columns_of, summary
from dpwitness.auditors.encoding.numbers import add_decimal, add_fraction, add_time, add_whole, negative_zero, taken_apart, text_columns
from dpwitness.auditors.encoding.row_builder import Leaves, Texts
from dpwitness.mechanisms.foreign.inside.codec import Opaque, bare, opened, text_of
from dpwitness.mechanisms.foreign.inside.object_tree import array_in, is_built_on, library_form, name_of, of_exception, parts_of, plain

_TABLES = ("DataFrame", "Series", "Table", "RecordBatch")
_ROWS = 8  # of a table whose columns are summed up, at least
_TEXT = 60  # characters of a text that are kept to be printed
_LONG = 4096  # bits of a key that Python does not print in decimal digits
_KEYS = (str, bytes, int, np.integer, bool, np.bool_, type(None))  # keys of a dict that its structure may name


def walk(item: Any, leaves: Leaves) -> Iterator[str]:
    """Yield the structure of `item`, piece by piece; its numbers and texts are appended to `leaves`."""
    numbers, name = leaves.numbers, type(item).__name__
    if item is None:
        yield "None"
    elif is_built_on(item) or library_form(type(item)):
        yield from _object(item, leaves)
    elif isinstance(item, bool | np.bool_):
        numbers.append(float(item))
        yield name if isinstance(item, bool) else "numpy bool"
    elif isinstance(item, int | np.integer) and not isinstance(item, np.timedelta64):
        yield name if add_whole(int(item), leaves) else f"big {name}"
    elif isinstance(item, float | np.float32 | np.float16):
        numbers.append(float(item))
        leaves.extra(negative_zero(numbers[-1]))
        yield name
    elif isinstance(item, complex | np.complex64):
        numbers.extend((float(item.real), float(item.imag)))
        leaves.extra(*map(negative_zero, numbers[-2:]))
        yield name
    elif isinstance(item, np.ndarray | np.generic) and (found := columns_of(np.asanyarray(item)[None])) is not None:
        yield _plain_array(item, *found, leaves)
    elif isinstance(item, str | bytes | bytearray):
        _text(name, plain(item, str) if isinstance(item, str) else bytes(item), leaves)
        yield name
    elif isinstance(item, BaseException):
        yield from _exception(item, leaves)
    elif isinstance(item, Decimal):
        yield add_decimal(item, leaves)
    elif isinstance(item, Fraction):
        yield add_fraction(item, leaves)
    elif isinstance(item, datetime.date | datetime.time | datetime.timedelta):
        yield add_time(item, leaves)
    else:
        yield from _compound(item, leaves)


def _plain_array(item: Any, kind: str, main: Floats, extras: Extras, leaves: Leaves) -> str:
    """An array of numbers or times, or a scalar of NumPy that is neither a Python number nor shorter than one."""
    leaves.numbers.extend(main[0].tolist())
    for width, block in extras:
        leaves.block(width, None if block is None else block[0])
    if leaves.table and 1 <= item.ndim <= 2 and len(item) >= _ROWS and main.size == item.size:
        leaves.numbers.extend(summary(main[0].reshape(len(item), -1)).tolist())
    if isinstance(item, np.generic):
        return type(item).__name__ if item.dtype.kind in "fc" else kind
    return f"{kind}{list(item.shape)}"


def _compound(item: Any, leaves: Leaves) -> Iterator[str]:
    """Containers and objects: what they hold, item by item."""
    name = type(item).__name__
    if isinstance(item, dict):
        yield from _dict(item, leaves)
    elif isinstance(item, np.ma.MaskedArray):
        held = [("data", item.data), ("mask", np.ma.getmaskarray(item)), ("fill", np.asarray(item.fill_value, dtype=item.dtype))]
        yield from _fields(name, held, leaves)
    elif isinstance(item, list | tuple | set | frozenset) or (
        isinstance(item, np.ndarray) and item.ndim > 0 and (item.dtype.names or item.dtype.kind in "OUS")
    ):
        if isinstance(item, np.ndarray):
            shape = f"{_dtype(item.dtype)} {list(item.shape)}" if 0 in item.shape else ""
            name, item = (f"{name} {item.dtype.str}{shape}", item.tolist()) if item.dtype.kind in "US" else (f"{name}{shape}", list(item))
        ordered = sorted(item, key=_repr) if isinstance(item, set | frozenset) else item
        fields = getattr(item, "_fields", None) if isinstance(item, tuple) else None
        yield f"{name}("
        if len(ordered) > 1 and set(map(type, ordered)) == {str} and fields is None:
            _text_column(ordered, leaves)
            yield "str, " * len(ordered)
        else:
            for place, part in enumerate(ordered):
                yield f"{fields[place]}=" if fields and place < len(fields) else ""
                yield from walk(part, leaves)
                yield ", "
        yield ")"
    elif isinstance(item, np.void) and item.dtype.names:
        yield from _fields(name, [(field, item[field]) for field in item.dtype.names], leaves)
    elif isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind != "V":
        yield f"{name} of "
        yield from walk(item.item(), leaves)
    elif isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.names:
        yield f"{name} of "
        yield from walk(item[()], leaves)
    elif (held := array_in(item)) is not None:
        yield f"{name} of "
        yield from walk(held, leaves)
    else:
        yield from _object(item, leaves)


def _object(item: Any, leaves: Leaves) -> Iterator[str]:
    """What is known by its name, what has parts, or else a text that may not say all."""
    kind, name = type(item).__name__, name_of(item)
    with opened(item, leaves.under_way) as reference:
        if name is not None or reference:
            yield f"<{name or reference}>"
        elif not isinstance(item, Opaque) and (parts := parts_of(item)) is not None:
            yield from _fields(kind, parts, leaves)
        else:
            leaves.opaque.add(kind)
            if not bare(item):
                text = _repr(item)
                leaves.numbers.append(code_of(text))
                _rest(kind, text, leaves, len(leaves.numbers) - 1)
            yield kind


def _fields(name: str, fields: list[tuple[str, Any]], leaves: Leaves) -> Iterator[str]:
    outer, leaves.table = leaves.table, leaves.table or name in _TABLES
    yield f"{name}("
    for field, value in fields:
        yield f"{field}="
        yield from walk(value, leaves)
        yield ", "
    yield ")"
    leaves.table = outer


def _dict(item: dict[Any, Any], leaves: Leaves) -> Iterator[str]:
    """Values in the order of the keys' texts; extra columns hold where each key is in the dict's own order, and its hash."""
    yield "{" if type(item) is dict else f"{type(item).__name__}{{"
    keys = list(item)
    if all(isinstance(part, _KEYS) for key in keys for part in (key if isinstance(key, tuple) else (key,))):
        texts = [_key(key) for key in keys]
        order = sorted(range(len(keys)), key=texts.__getitem__)
        for place in order:
            yield f"{texts[place]}: "
            yield from walk(item[keys[place]], leaves)
            yield ", "
        leaves.hashed("key of a dict", [code_of(texts[place]) for place in order])
        leaves.block(len(order), np.array(order, dtype=float))
    else:
        for key, value in item.items():
            yield from walk(key, leaves)
            yield ": "
            yield from walk(value, leaves)
            yield ", "
    yield "}"


def _exception(item: BaseException, leaves: Leaves) -> Iterator[str]:
    text = text_of(item, str)
    leaves.numbers.append(code_of(text))
    _rest("text of an exception", text, leaves, len(leaves.numbers) - 1)
    yield f"raises {type(item).__name__}"
    if beside := of_exception(item, text):
        yield from _fields(" with ", beside, leaves)


def _text(kind: str, text: str | bytes, leaves: Leaves) -> None:
    """A hash and the length; the numbers in the text, and a hash of what is left without them."""
    written = repr(text)
    leaves.numbers.extend((code_of(written), float(len(text))))
    leaves.shown[leaves.numbers[-2]] = written if len(text) <= _TEXT else repr(text[:_TEXT])
    _rest(kind, text if isinstance(text, str) else text.decode("latin-1"), leaves, len(leaves.numbers) - 2)


def _rest(kind: str, text: str, leaves: Leaves, at: int) -> None:
    leaves.texts.append(Texts(kind, at, leaves.extras))
    rest, numbers = taken_apart(text)
    leaves.extra(rest)
    leaves.loose.extend(numbers)


def _text_column(items: list[str], leaves: Leaves) -> None:
    """The same for many texts at once."""
    leaves.texts.append(Texts("str", len(leaves.numbers), leaves.extras, len(items)))
    for text in items:
        code, rest, numbers = text_columns(text)
        leaves.numbers.extend((code, float(len(text))))
        leaves.extra(rest)
        leaves.loose.extend(numbers)
    if leaves.table and len(items) >= _ROWS:
        known = sorted(set(items))
        leaves.numbers.extend((float(len(known)), code_of("\0".join(known)) if len(known) <= _ROWS * 4 else math.nan))


def _key(key: Any) -> str:
    """The text of a key, whatever its own class prints, with all digits of a huge number."""
    if isinstance(key, tuple):
        return f"({', '.join(map(_key, key))}{',' if len(key) == 1 else ''})"
    base = next((base for base in (str, bytes, int) if isinstance(key, base)), None)
    if base is None or isinstance(key, bool | np.generic):
        return _repr(key)
    held = plain(key, base)
    text = hex(held) if base is int and held.bit_length() > _LONG else repr(held)
    return text if type(key) is base else f"{type(key).__name__} {text}"


def _dtype(kind: np.dtype[Any]) -> str:
    return str([(name, str(kind[name])) for name in kind.names] if kind.names else kind)


def _repr(item: Any) -> str:
    return text_of(item, repr)
