"""Traversal of an output: its numbers become columns, its texts become hashes and numbers, and its
structure becomes a text.

An output becomes one row. Its **main** numbers come first, at positions that its structure alone
determines. Its **extra** numbers follow: information that a main number omits and that is NaN for
most outputs. Extra numbers are the sign of a zero, digits that no float represents, the order of
the keys of a dict, and values under a mask. The numbers found in texts and the digits of huge
numbers come last; their count varies.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpwitness.auditors.events.numbers import (
    Extras,
    Floats,
    Leaves,
    Texts,
    add_decimal,
    add_fraction,
    add_integer,
    add_time,
    columns_of,
    negative_zero,
    split_numbers,
    summary,
    text_columns,
    text_hash,
)
from dpwitness.core.values.object_tree import (
    array_in,
    exception_parts,
    library_form,
    name_of,
    needs_decomposition,
    parts_of,
    plain,
    text_of,
)
from dpwitness.mechanisms.wrappers.programs.inside.codec import Opaque, bare, opened

_TABLES = ("DataFrame", "Series", "Table", "RecordBatch")
_MIN_ROWS = 8  # fewest rows of a table whose columns are summarized
_MAX_TEXT = 60  # characters of a text that are stored for printing
# types of dict keys that the structure text can contain
_KEY_TYPES = (str, bytes, int, np.integer, bool, np.bool_, type(None))


def walk(item: Any, leaves: Leaves) -> Iterator[str]:
    """Yield the structure of `item` as pieces of text, and append its numbers and texts to
    `leaves`.
    """
    numbers, name = leaves.numbers, type(item).__name__
    if item is None:
        yield "None"
    elif needs_decomposition(item) or library_form(type(item)):
        yield from _walk_object(item, leaves)
    elif isinstance(item, bool | np.bool_):
        numbers.append(float(item))
        yield name if isinstance(item, bool) else "numpy bool"
    elif isinstance(item, int | np.integer) and not isinstance(item, np.timedelta64):
        yield name if add_integer(int(item), leaves) else f"big {name}"
    elif isinstance(item, float | np.float32 | np.float16):
        numbers.append(float(item))
        leaves.extra(negative_zero(numbers[-1]))
        yield name
    elif isinstance(item, complex | np.complex64):
        numbers.extend((float(item.real), float(item.imag)))
        leaves.extra(*map(negative_zero, numbers[-2:]))
        yield name
    elif (
        isinstance(item, np.ndarray | np.generic)
        and (found := columns_of(np.asanyarray(item)[None])) is not None
    ):
        yield _add_array(item, *found, leaves)
    elif isinstance(item, str | bytes | bytearray):
        _add_text(name, plain(item, str) if isinstance(item, str) else bytes(item), leaves)
        yield name
    elif isinstance(item, BaseException):
        yield from _walk_exception(item, leaves)
    elif isinstance(item, Decimal):
        yield add_decimal(item, leaves)
    elif isinstance(item, Fraction):
        yield add_fraction(item, leaves)
    elif isinstance(item, datetime.date | datetime.time | datetime.timedelta):
        yield add_time(item, leaves)
    else:
        yield from _walk_container(item, leaves)


def _add_array(item: Any, kind: str, main: Floats, extras: Extras, leaves: Leaves) -> str:
    """Append an array of numbers or times, or a NumPy scalar. Return its structure text."""
    leaves.numbers.extend(main[0].tolist())
    for width, block in extras:
        leaves.block(width, None if block is None else block[0])
    if leaves.table and 1 <= item.ndim <= 2 and len(item) >= _MIN_ROWS and main.size == item.size:
        leaves.numbers.extend(summary(main[0].reshape(len(item), -1)).tolist())
    if isinstance(item, np.generic):
        return type(item).__name__ if item.dtype.kind in "fc" else kind
    return f"{kind}{list(item.shape)}"


def _walk_container(item: Any, leaves: Leaves) -> Iterator[str]:
    """Yield the structure of a container or object, item by item."""
    name = type(item).__name__
    if isinstance(item, dict):
        yield from _walk_dict(item, leaves)
    elif isinstance(item, np.ma.MaskedArray):
        content = [
            ("data", item.data),
            ("mask", np.ma.getmaskarray(item)),
            ("fill", np.asarray(item.fill_value, dtype=item.dtype)),
        ]
        yield from _walk_fields(name, content, leaves)
    elif isinstance(item, list | tuple | set | frozenset) or (
        isinstance(item, np.ndarray)
        and item.ndim > 0
        and (item.dtype.names or item.dtype.kind in "OUS")
    ):
        if isinstance(item, np.ndarray):
            shape = f"{_dtype_text(item.dtype)} {list(item.shape)}" if 0 in item.shape else ""
            name, item = (
                (f"{name} {item.dtype.str}{shape}", item.tolist())
                if item.dtype.kind in "US"
                else (f"{name}{shape}", list(item))
            )
        ordered = sorted(item, key=_repr) if isinstance(item, set | frozenset) else item
        fields = getattr(item, "_fields", None) if isinstance(item, tuple) else None
        yield f"{name}("
        if len(ordered) > 1 and set(map(type, ordered)) == {str} and fields is None:
            _add_texts(ordered, leaves)
            yield "str, " * len(ordered)
        else:
            for position, part in enumerate(ordered):
                yield f"{fields[position]}=" if fields and position < len(fields) else ""
                yield from walk(part, leaves)
                yield ", "
        yield ")"
    elif isinstance(item, np.void) and item.dtype.names:
        yield from _walk_fields(name, [(field, item[field]) for field in item.dtype.names], leaves)
    elif isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind != "V":
        yield f"{name} of "
        yield from walk(item.item(), leaves)
    elif isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.names:
        yield f"{name} of "
        yield from walk(item[()], leaves)
    elif (content := array_in(item)) is not None:
        yield f"{name} of "
        yield from walk(content, leaves)
    else:
        yield from _walk_object(item, leaves)


def _walk_object(item: Any, leaves: Leaves) -> Iterator[str]:
    """Yield the structure of an object: its importable name, its parts, or its type, with the
    object's text as a hash.
    """
    kind, name = type(item).__name__, name_of(item)
    with opened(item, leaves.under_way) as reference:
        if name is not None or reference:
            yield f"<{name or reference}>"
        elif not isinstance(item, Opaque) and (parts := parts_of(item)) is not None:
            yield from _walk_fields(kind, parts, leaves)
        else:
            leaves.opaque.add(kind)
            if not bare(item):
                text = _repr(item)
                leaves.numbers.append(text_hash(text))
                _add_text_parts(kind, text, leaves, len(leaves.numbers) - 1)
            yield kind


def _walk_fields(name: str, fields: list[tuple[str, Any]], leaves: Leaves) -> Iterator[str]:
    """Yield the structure of named parts."""
    outer_table, leaves.table = leaves.table, leaves.table or name in _TABLES
    yield f"{name}("
    for field, value in fields:
        yield f"{field}="
        yield from walk(value, leaves)
        yield ", "
    yield ")"
    leaves.table = outer_table


def _walk_dict(item: dict[Any, Any], leaves: Leaves) -> Iterator[str]:
    """Yield the structure of a dict, with its values sorted by the texts of the keys.

    Extra columns hold the hash of each key, and the position of each key in the dict's own order.
    """
    yield "{" if type(item) is dict else f"{type(item).__name__}{{"
    keys = list(item)
    if all(
        isinstance(part, _KEY_TYPES)
        for key in keys
        for part in (key if isinstance(key, tuple) else (key,))
    ):
        texts = [_key_text(key) for key in keys]
        order = sorted(range(len(keys)), key=texts.__getitem__)
        for position in order:
            yield f"{texts[position]}: "
            yield from walk(item[keys[position]], leaves)
            yield ", "
        leaves.hashed("key of a dict", [text_hash(texts[position]) for position in order])
        leaves.block(len(order), np.array(order, dtype=float))
    else:
        for key, value in item.items():
            yield from walk(key, leaves)
            yield ": "
            yield from walk(value, leaves)
            yield ", "
    yield "}"


def _walk_exception(item: BaseException, leaves: Leaves) -> Iterator[str]:
    """Yield the structure of an exception, and append the hash and the numbers of its text."""
    text = text_of(item, str)
    leaves.numbers.append(text_hash(text))
    _add_text_parts("text of an exception", text, leaves, len(leaves.numbers) - 1)
    yield f"raises {type(item).__name__}"
    if other_parts := exception_parts(item, text):
        yield from _walk_fields(" with ", other_parts, leaves)


def _add_text(kind: str, text: str | bytes, leaves: Leaves) -> None:
    """Append the hash and the length of a text, its numbers, and a hash of the text without its
    numbers.
    """
    written = repr(text)
    leaves.numbers.extend((text_hash(written), float(len(text))))
    leaves.printable[leaves.numbers[-2]] = (
        written if len(text) <= _MAX_TEXT else repr(text[:_MAX_TEXT])
    )
    _add_text_parts(
        kind,
        text if isinstance(text, str) else text.decode("latin-1"),
        leaves,
        len(leaves.numbers) - 2,
    )


def _add_text_parts(kind: str, text: str, leaves: Leaves, at: int) -> None:
    """Append the numbers of a text, and the hash of the text without them; `at` is the column of
    the text's hash.
    """
    leaves.texts.append(Texts(kind, at, leaves.extras))
    rest, numbers = split_numbers(text)
    leaves.extra(rest)
    leaves.loose.extend(numbers)


def _add_texts(items: list[str], leaves: Leaves) -> None:
    """Append many texts at once, each as `_add_text` does."""
    leaves.texts.append(Texts("str", len(leaves.numbers), leaves.extras, len(items)))
    for text in items:
        code, rest, numbers = text_columns(text)
        leaves.numbers.extend((code, float(len(text))))
        leaves.extra(rest)
        leaves.loose.extend(numbers)
    if leaves.table and len(items) >= _MIN_ROWS:
        known = sorted(set(items))
        leaves.numbers.extend(
            (
                float(len(known)),
                text_hash("\0".join(known)) if len(known) <= _MIN_ROWS * 4 else math.nan,
            )
        )


def _key_text(key: Any) -> str:
    """Return the text of a dict key, independent of its own `__repr__`, with all digits of a huge
    integer.
    """
    if isinstance(key, tuple):
        return f"({', '.join(map(_key_text, key))}{',' if len(key) == 1 else ''})"
    base = next((base for base in (str, bytes, int) if isinstance(key, base)), None)
    if base is None or isinstance(key, bool | np.generic):
        return _repr(key)
    content = plain(key, base)
    # Python refuses the decimal digits of huge integers
    text = hex(content) if base is int and content.bit_length() > 4096 else repr(content)
    return text if type(key) is base else f"{type(key).__name__} {text}"


def _dtype_text(kind: np.dtype[Any]) -> str:
    """Return the text of a dtype; for a structured dtype, its fields and their types."""
    return str([(name, str(kind[name])) for name in kind.names] if kind.names else kind)


def _repr(item: Any) -> str:
    """Return the repr of an item, even if the repr raises."""
    return text_of(item, repr)
