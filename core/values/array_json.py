"""Exact conversion of NumPy arrays to JSON and back.

Numbers and texts become lists, other dtypes hexadecimal bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.values.json_reader import ELEMENTS, Json, refuse
from dpwitness.core.values.validation import InvalidArgument

_DTYPE = re.compile(r"[<>|=]?([biufcSUmM]\d{1,6}|V\d{1,6}|\?)(\[\d{0,6}[A-Za-z]{1,2}\])?")
_MAX_BYTES = 2**28  # largest size of one array


def require_exact(value: NDArray[Any]) -> None:
    """Raise InvalidArgument for an array without an exact JSON form: an array of objects or raw
    bytes, of a richer subclass, or with gaps between its fields.
    """
    dtype, names, problem = value.dtype, value.dtype.names or (), ""
    if type(value) not in (np.ndarray, np.recarray, np.memmap) and not isinstance(
        value, np.ma.MaskedArray
    ):
        problem = f"{type(value).__name__}: give a plain array"
    elif dtype.hasobject:
        problem = f"an array of dtype {dtype}"
    elif dtype.kind == "V" and not names:
        problem = f"an array of raw bytes, dtype {dtype}"
    elif names and np.dtype([(name, dtype[name]) for name in names]) != dtype:
        problem = f"a structured array with gaps between its fields {list(names)}"
    if problem:
        raise InvalidArgument(f"dataset must be writable as JSON, got {problem}")


def write_array(value: NDArray[Any]) -> Json:
    """Return dtype, shape and entries of an array of numbers, times or texts as JSON types."""
    return {"dtype": value.dtype.str, "shape": list(value.shape), "value": _json_entries(value)}


def _json_entries(value: NDArray[Any]) -> list[Any]:
    """Return the entries of an array as JSON values."""
    flat = np.ascontiguousarray(value).reshape(-1)
    kind, size = value.dtype.kind, value.dtype.itemsize
    if kind == "f" and size <= 8:
        listed = flat.tolist()
        return (
            listed
            if np.isfinite(flat).all()
            else [v if math.isfinite(v) else {"$type": "float", "value": str(v)} for v in listed]
        )
    if kind in "biuU":
        return flat.tolist()
    if kind == "f":  # as decimal digits, because the bytes of a long double include padding
        return [str(v) for v in flat]
    if kind == "c" and size > 16:
        return [f"{v.real} {v.imag}" for v in flat]
    # complex, bytes, dates: JSON has no such types
    return [flat[i : i + 1].tobytes().hex() for i in range(len(flat))]


def read_array(fields: Json, path: str) -> NDArray[Any]:
    """Return the plain array of a validated record of dtype, shape and value."""
    name, shape, entries = fields["dtype"], fields["shape"], fields["value"]
    if not _DTYPE.fullmatch(name) or "V" in name:
        refuse(f"{path}.dtype", "be a plain dtype such as <f8", name)
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError):
        refuse(f"{path}.dtype", "be a dtype of this machine", name)
    count = math.prod(shape)
    if count != len(entries):
        raise InvalidArgument(
            f"{path}.value must have {count} entries for shape {shape}, got {len(entries)}"
        )
    if count * dtype.itemsize > _MAX_BYTES or math.prod(n for n in shape if n) > ELEMENTS:
        raise InvalidArgument(
            f"{path} must hold at most {_MAX_BYTES:,} bytes and {ELEMENTS:,} entries, got "
            f"shape {shape} of {name}"
        )
    return _array_of_entries(entries, dtype, path).reshape(shape)


def _array_of_entries(entries: list[Any], dtype: np.dtype[Any], path: str) -> NDArray[Any]:
    """Return the one-dimensional array of JSON entries. Raise InvalidArgument at the first entry
    that does not fit the dtype.
    """
    kind = dtype.kind
    if kind == "b":
        _require_all(entries, lambda v: isinstance(v, bool), "true or false", path)
    elif kind in "iu":
        low, high = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        _require_all(
            entries,
            lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high,
            f"whole numbers of {dtype.str}",
            path,
        )
    elif kind == "f" and dtype.itemsize <= 8:
        entries = [_read_float(v, path, i) for i, v in enumerate(entries)]
    elif kind == "U":
        most = dtype.itemsize // 4
        _require_all(
            entries,
            lambda v: isinstance(v, str) and len(v) <= most,
            f"texts of at most {most} characters",
            path,
        )
    elif kind == "f" or (kind == "c" and dtype.itemsize > 16):
        parts = 1 if kind == "f" else 2
        _require_all(
            entries,
            lambda v: (
                isinstance(v, str)
                and len(v) <= 200
                and v.isascii()
                and "_" not in v
                and len(v.split(" ")) == parts
            ),
            "digits of long doubles",
            path,
        )
        numbers = np.array(
            [np.longdouble(part) for v in entries for part in v.split(" ")], dtype=np.longdouble
        )
        return numbers.astype(dtype) if kind == "f" else numbers.view(np.clongdouble).astype(dtype)
    else:
        size = dtype.itemsize
        _require_all(
            entries,
            lambda v: isinstance(v, str) and len(v) == 2 * size and _HEX.fullmatch(v) is not None,
            f"{2 * size} hexadecimal digits",
            path,
        )
        return (
            np.frombuffer(bytes.fromhex("".join(entries)), dtype=dtype).copy()
            if entries and size
            else np.empty(len(entries), dtype)
        )
    return np.array(entries, dtype=dtype)


def row_bits(array: NDArray[Any]) -> list[Hashable]:
    """Return the bytes of each row in native byte order, without padding. Masked entries are all
    equal.
    """
    table = _row_bytes(array)
    width, data = table.shape[1], table.tobytes()
    return [data[i * width : (i + 1) * width] for i in range(len(table))]


def _row_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of each row as a matrix of uint8."""
    if isinstance(array, np.ma.MaskedArray):
        return np.hstack(
            [_row_bytes(np.asarray(array.filled())), _row_bytes(np.ma.getmaskarray(array))]
        )
    if array.dtype.names:  # field by field, because the gaps between fields are not data
        return np.hstack(
            [
                np.empty((len(array), 0), np.uint8),
                *(_row_bytes(array[name]) for name in array.dtype.names),
            ]
        )
    flat = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    size = flat.itemsize * int(np.prod(flat.shape[1:]))
    table = np.frombuffer(flat.tobytes(), dtype=np.uint8).reshape(len(flat), size)
    # 80 bits of data, followed by padding
    if array.dtype.char in "gG" and np.finfo(np.longdouble).nmant == 63:
        each = np.dtype(np.longdouble).itemsize
        table = table.reshape(len(flat), size // each, each)[:, :, :10].reshape(
            len(flat), size // each * 10
        )
    return table


_NON_FINITE = [{"$type": "float", "value": word} for word in ("inf", "-inf", "nan")]
_HEX = re.compile(r"[0-9a-f]*")


def _read_float(value: Any, path: str, index: int) -> float:
    """Return the float of a JSON entry: a number, or a tagged infinity or NaN."""
    if value in _NON_FINITE:
        return float(value["value"])
    if not isinstance(value, float | int) or isinstance(value, bool):
        refuse(f"{path}.value[{index}]", "be a number", value)
    try:
        return float(value)
    except OverflowError:
        refuse(f"{path}.value[{index}]", "be a number", value)


def _require_all(entries: list[Any], fits: Callable[[Any], bool], what: str, path: str) -> None:
    """Raise InvalidArgument at the first entry for which `fits` is false."""
    for i, value in enumerate(entries):
        if not fits(value):
            refuse(f"{path}.value[{i}]", f"be {what}", value)
