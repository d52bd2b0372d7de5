"""NumPy arrays as JSON and back, exactly: numbers and texts as lists, other dtypes as bytes, structured and masked arrays by parts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.core.json_reader import ELEMENTS, Json, refuse
from dpwitness.mechanisms.core.validation import InvalidArgument

_DTYPE = re.compile(r"[<>|=]?([biufcSUmM]\d{1,6}|V\d{1,6}|\?)(\[\d{0,6}[A-Za-z]{1,2}\])?")
_BYTES = 2**28  # of one array
_AS_LISTS = "biuf"  # and texts: kinds whose entries JSON has words for


def write_array(value: NDArray[Any], inner: Callable[[Any], Any]) -> Json:
    """The tagged form of an array; `inner` writes its parts. Raises InvalidArgument for objects and for subclasses that carry more."""
    if isinstance(value, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(value)
        fill = np.array(1e20 if value is np.ma.masked else value.fill_value, dtype=value.dtype)
        return {"$type": "masked", "data": inner(value.data), "mask": inner(mask), "fill": inner(fill), "hard": bool(value.hardmask)}
    if type(value) not in (np.ndarray, np.recarray, np.memmap):
        raise InvalidArgument(f"dataset must be writable as JSON, got {type(value).__name__}: give a plain array")
    if value.dtype.hasobject:
        raise InvalidArgument(f"dataset must be writable as JSON, got an array of dtype {value.dtype}")
    if value.dtype.names is not None:
        return _write_structured(value, inner)
    if value.dtype.kind == "V":
        raise InvalidArgument(f"dataset must be writable as JSON, got an array of raw bytes, dtype {value.dtype}")
    return {"$type": "array", "dtype": value.dtype.str, "shape": list(value.shape), "value": _entries(value)}


def _write_structured(value: NDArray[Any], inner: Callable[[Any], Any]) -> Json:
    names = value.dtype.names or ()
    packed = np.dtype([(name, value.dtype[name]) for name in names])
    if packed.itemsize != value.dtype.itemsize or any(packed.fields[n][1] != value.dtype.fields[n][1] for n in names):  # type: ignore[index]
        raise InvalidArgument(f"dataset must be writable as JSON, got a structured array with gaps between its fields {list(names)}")
    plain = value.view(np.ndarray)
    columns = [[name, inner(np.ascontiguousarray(plain[name]).reshape(plain[name].shape))] for name in names]
    return {"$type": "structured", "shape": list(value.shape), "columns": columns, "record": isinstance(value, np.recarray)}


def _entries(value: NDArray[Any]) -> list[Any]:
    flat = np.ascontiguousarray(value).reshape(-1)
    kind, size = value.dtype.kind, value.dtype.itemsize
    if kind == "f" and size <= 8:
        listed = flat.tolist()
        return listed if np.isfinite(flat).all() else [v if math.isfinite(v) else {"$type": "float", "value": str(v)} for v in listed]
    if kind in "biuU":
        return flat.tolist()
    if kind == "f":  # by its digits: the bytes of a long double hold padding
        return [str(v) for v in flat]
    if kind == "c" and size > 16:
        return [f"{v.real} {v.imag}" for v in flat]
    return [flat[i : i + 1].tobytes().hex() for i in range(len(flat))]  # complex, bytes, dates: no words in JSON


def read_array(fields: Json, path: str) -> NDArray[Any]:
    """The plain array of a checked record of dtype, shape and value."""
    name, shape, entries = fields["dtype"], fields["shape"], fields["value"]
    if not _DTYPE.fullmatch(name) or "V" in name:
        refuse(f"{path}.dtype", "be a plain dtype such as <f8", name)
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError):
        refuse(f"{path}.dtype", "be a dtype of this machine", name)
    count = math.prod(shape)
    if count != len(entries):
        raise InvalidArgument(f"{path}.value must have {count} entries for shape {shape}, got {len(entries)}")
    if count * dtype.itemsize > _BYTES or math.prod(n for n in shape if n) > ELEMENTS:
        raise InvalidArgument(f"{path} must hold at most {_BYTES:,} bytes and {ELEMENTS:,} entries, got shape {shape} of {name}")
    return _filled(entries, dtype, path).reshape(shape)


def _filled(entries: list[Any], dtype: np.dtype[Any], path: str) -> NDArray[Any]:
    kind = dtype.kind
    if kind == "b":
        _all(entries, lambda v: isinstance(v, bool), "true or false", path)
    elif kind in "iu":
        low, high = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        _all(entries, lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high, f"whole numbers of {dtype.str}", path)
    elif kind == "f" and dtype.itemsize <= 8:
        entries = [_float(v, path, i) for i, v in enumerate(entries)]
    elif kind == "U":
        most = dtype.itemsize // 4
        _all(entries, lambda v: isinstance(v, str) and len(v) <= most, f"texts of at most {most} characters", path)
    elif kind == "f" or (kind == "c" and dtype.itemsize > 16):
        parts = 1 if kind == "f" else 2
        _all(entries, lambda v: isinstance(v, str) and len(v) <= 200 and len(v.split(" ")) == parts, "digits of long doubles", path)
        numbers = np.array([np.longdouble(part) for v in entries for part in v.split(" ")], dtype=np.longdouble)
        return numbers.astype(dtype) if kind == "f" else numbers.view(np.clongdouble).astype(dtype)
    else:
        size = dtype.itemsize
        _all(entries, lambda v: isinstance(v, str) and len(v) == 2 * size and _is_hex(v), f"{2 * size} hexadecimal digits", path)
        return np.frombuffer(bytes.fromhex("".join(entries)), dtype=dtype).copy() if entries and size else np.empty(len(entries), dtype)
    return np.array(entries, dtype=dtype)


def row_bits(array: NDArray[Any]) -> list[Hashable]:
    """Return the bytes of each row in the machine's byte order, without padding; entries behind a mask are all the same."""
    table = _bits(array)
    width, data = table.shape[1], table.tobytes()
    return [data[i * width : (i + 1) * width] for i in range(len(table))]


def _bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    if isinstance(array, np.ma.MaskedArray):
        return np.hstack([_bits(np.asarray(array.filled())), _bits(np.ma.getmaskarray(array))])
    if array.dtype.names:  # field by field: what lies between them is no data
        return np.hstack([np.empty((len(array), 0), np.uint8), *(_bits(array[name]) for name in array.dtype.names)])
    flat = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    size = flat.itemsize * int(np.prod(flat.shape[1:]))
    table = np.frombuffer(flat.tobytes(), dtype=np.uint8).reshape(len(flat), size)
    if array.dtype.char in "gG" and np.finfo(np.longdouble).nmant == 63:  # 80 bits, then padding
        each = np.dtype(np.longdouble).itemsize
        table = table.reshape(len(flat), size // each, each)[:, :, :10].reshape(len(flat), size // each * 10)
    return table


_BEYOND = [{"$type": "float", "value": word} for word in ("inf", "-inf", "nan")]
_HEX = re.compile(r"[0-9a-f]*")


def _is_hex(value: str) -> bool:
    return _HEX.fullmatch(value) is not None


def _float(value: Any, path: str, index: int) -> float:
    if value in _BEYOND:
        return float(value["value"])
    if not isinstance(value, float | int) or isinstance(value, bool):
        refuse(f"{path}.value[{index}]", "be a number", value)
    try:
        return float(value)
    except OverflowError:
        refuse(f"{path}.value[{index}]", "be a number", value)


def _all(entries: list[Any], fits: Callable[[Any], bool], what: str, path: str) -> None:
    for i, value in enumerate(entries):
        if not fits(value):
            refuse(f"{path}.value[{i}]", f"be {what}", value)
