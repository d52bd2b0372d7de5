"""Messages between a foreign worker and its controller: values as JSON and raw little-endian bytes. Nothing is pickled.

Stands alone with `libraries` (standard library and NumPy, Python 3.8 or later), for both sides of the pipe read it. A message is a length
(4 bytes, little-endian), a JSON header of that many bytes, and the bytes of the arrays that the header refers to; ``header["blobs"]``
holds their sizes.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.util
import json
import os
import struct
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Dict, List  # noqa: UP035

import numpy as np

if TYPE_CHECKING or __name__ != "dpwitness_wire":
    from dpwitness.mechanisms.terms import libraries
else:  # in a worker, whose interpreter may have no dpwitness
    _place = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "terms", "libraries.py")
    _spec = importlib.util.spec_from_file_location("dpwitness_libraries", _place)
    libraries = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(libraries)

PROTOCOL = 1
KEPT = 16  # large datasets that a worker keeps, and its controller knows that it keeps
MOST = 2**30  # bytes of a header
PLAIN = "fiubcmMSU"  # kinds of array dtypes that travel as raw bytes
_TAG = "$"

Blobs = List[Any]  # noqa: UP006 - read by Python 3.8
Message = Dict[str, Any]  # noqa: UP006


def pack(value: Any, blobs: Blobs) -> Any:
    """`value` as JSON types; the bytes of its arrays are appended to `blobs`. What has no such form keeps its type's name and text."""
    kind = type(value)
    if value is None or kind in (bool, str, float):
        return value
    if kind is int:
        return value if abs(value) < 2**63 else {_TAG: "int", "hex": hex(value)}
    if isinstance(value, np.generic) and value.dtype.kind in PLAIN:
        return {_TAG: "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
    if isinstance(value, np.ma.MaskedArray):
        return {_TAG: "masked", "data": pack(value.data, blobs), "mask": _array(np.ma.getmaskarray(value), blobs)}
    if isinstance(value, np.ndarray) and value.dtype.kind in PLAIN:
        return _array(value, blobs)
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.names:
        scalar, value = isinstance(value, np.void), np.asarray(value)
        columns = [[name, pack(np.array(value[name]), blobs)] for name in value.dtype.names]
        return {_TAG: "columns", "shape": list(value.shape), "items": columns, "scalar": scalar}
    if isinstance(value, np.ndarray) and value.dtype.hasobject and value.dtype.kind == "O":
        return {_TAG: "objects", "shape": list(value.shape), "items": [pack(v, blobs) for v in value.ravel()]}
    if isinstance(value, BaseException):
        return {_TAG: "exception", "class": kind.__name__, "text": text_of(value, str)}
    if isinstance(value, dict):
        return {_TAG: "dict", "items": [[pack(k, blobs), pack(v, blobs)] for k, v in value.items()]}
    if isinstance(value, (list, tuple, set, frozenset)):
        return _sequence(value, blobs)
    if kind in (bytes, bytearray):
        return {_TAG: "bytes", "hex": value.hex(), "class": kind.__name__}
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith("dpwitness.mechanisms."):
        fields = {field.name: pack(getattr(value, field.name), blobs) for field in dataclasses.fields(value) if field.init}
        return {_TAG: "own", "class": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}
    for base in (int, float, str):
        if isinstance(value, base):
            return {_TAG: "kin", "class": kind.__name__, "base": base.__name__, "value": pack(base(value), blobs)}
    arguments = _arguments(value)
    if arguments is not None:
        return {_TAG: "number", "class": kind.__name__, "items": arguments}
    held, fields = array_in(value), fields_in(value)
    if held is not None:
        return {_TAG: "holder", "class": kind.__name__, "value": pack(held, blobs)}
    if fields is not None:
        return {_TAG: "fields", "class": kind.__name__, "items": [[name, pack(v, blobs)] for name, v in fields]}
    return {_TAG: "other", "class": kind.__name__, "text": text_of(value, repr)}


def pack_dataset(value: Any, blobs: Blobs) -> Any:
    """`pack`, but frames and graphs, also inside lists, tuples and dicts, travel as what they are. Raises `libraries.Unheld`."""
    if libraries.library_of(value):
        return {_TAG: "held", "parts": pack(libraries.apart(value), blobs)}
    if type(value) in (list, tuple) and any(map(_holds, value)):
        return {_TAG: type(value).__name__, "items": [pack_dataset(part, blobs) for part in value]}
    if type(value) is dict and any(map(_holds, value.values())):
        return {_TAG: "dict", "items": [[pack(key, blobs), pack_dataset(part, blobs)] for key, part in value.items()]}
    return pack(value, blobs)


def _holds(value: Any) -> bool:
    if type(value) in (list, tuple, dict):
        return any(map(_holds, value.values() if type(value) is dict else value))
    return bool(libraries.library_of(value))


def _array(value: Any, blobs: Blobs) -> Message:
    plain = np.asarray(value)
    if plain.dtype.byteorder == ">" or (plain.dtype.byteorder == "=" and sys.byteorder == "big"):
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    blobs.append(plain.tobytes())
    return {_TAG: "array", "dtype": plain.dtype.str, "shape": list(plain.shape), "blob": len(blobs) - 1}


def _sequence(value: Any, blobs: Blobs) -> Message:
    """A list of one kind of number, or of arrays of one shape, is one array; anything else goes item by item."""
    name = next(base.__name__ for base in (list, tuple, set, frozenset) if isinstance(value, base))
    head = {_TAG: name}
    if type(value).__name__ != name:
        head["class"] = type(value).__name__
    kinds = set(map(type, value)) if len(value) > 8 and name in ("list", "tuple") else set()
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind in (float, bool) or (kind is int and max(map(abs, value)) < 2**63):
        return dict(head, of=kind.__name__, items=_array(np.array(value), blobs))
    if kind is not None and issubclass(kind, np.generic) and value[0].dtype.kind in "fiub":
        return dict(head, of="items", items=_array(np.array(value), blobs))
    if kind is np.ndarray and value[0].dtype.kind in "fiub" and len({(v.dtype, v.shape) for v in value}) == 1:
        return dict(head, of="items", items=_array(np.stack(value), blobs))
    return dict(head, items=[pack(v, blobs) for v in value])


def _arguments(value: Any) -> list[Any] | None:
    """What builds a number or a time again: JSON types; None for a value of another kind."""
    kind = type(value)
    if kind is complex:
        return [value.real, value.imag]
    if kind in (Decimal, Fraction):
        return [str(value)]
    if kind is datetime.timedelta:
        return [value.days, value.seconds, value.microseconds]
    if kind is datetime.date:
        return [value.year, value.month, value.day]
    if kind is datetime.time and value.tzinfo is None:
        return [value.hour, value.minute, value.second, value.microsecond]
    if kind is datetime.datetime and value.tzinfo is None:
        return [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
    return None


_NUMBERS: dict[str, Any] = {
    t.__name__: t for t in (complex, Decimal, Fraction, datetime.timedelta, datetime.date, datetime.time, datetime.datetime)
}


def array_in(value: Any) -> Any:
    """The array in a sparse matrix, a tensor, a series or a frame; None in anything else."""
    if isinstance(value, (type, np.ndarray, np.generic)):
        return None
    try:
        if hasattr(value, "toarray") or hasattr(value, "__array__"):
            found = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
            return found if found.dtype.kind in PLAIN else None
    except Exception:  # a tensor that is not on this device, and the like
        return None
    return None


def fields_in(value: Any) -> Any:
    """Names and values of the fields of a dataclass, or of an object whose text is an address; None of anything else."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in sorted(dataclasses.fields(value), key=lambda field: field.name)]
    kept: Any = object.__repr__
    if type(value).__repr__ is kept and getattr(value, "__dict__", None):
        return sorted(vars(value).items())
    return None


def text_of(value: Any, how: Callable[[Any], str]) -> str:
    """What `how` says of a value whose own methods may raise."""
    try:
        return how(value)
    except Exception:
        return "<no text>"


def unpack(value: Any, blobs: Blobs) -> Any:
    """The inverse of `pack`. Types that are not built in come back as stand-ins of the same name; nothing is imported or run."""
    if isinstance(value, list):
        return [unpack(v, blobs) for v in value]
    if not isinstance(value, dict):
        return value
    tag = value[_TAG]
    if tag == "array":
        if 0 in value["shape"]:
            return np.empty(value["shape"], dtype=np.dtype(value["dtype"]))
        return np.frombuffer(blobs[value["blob"]], dtype=np.dtype(value["dtype"])).reshape(value["shape"]).copy()
    if tag == "scalar":
        return np.frombuffer(bytes.fromhex(value["hex"]), dtype=np.dtype(value["dtype"]))[0]
    if tag == "int":
        return int(value["hex"], 16)
    if tag == "bytes":
        return (bytearray if value.get("class") == "bytearray" else bytes).fromhex(value["hex"])
    if tag == "dict":
        return {unpack(k, blobs): unpack(v, blobs) for k, v in value["items"]}
    if tag == "objects":
        flat = np.empty(len(value["items"]), dtype=object)
        for i, item in enumerate(value["items"]):
            flat[i] = unpack(item, blobs)
        return flat.reshape(value["shape"])
    if tag in ("list", "tuple", "set", "frozenset"):
        items = unpack(value["items"], blobs)
        if "of" in value:
            items = list(items) if value["of"] == "items" else items.tolist()
        base = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[tag]
        return (stand_in(value["class"], base) if "class" in value else base)(items)
    if tag == "kin":
        return stand_in(value["class"], {"int": int, "float": float, "str": str}[value["base"]])(unpack(value["value"], blobs))
    if tag == "held":
        return libraries.whole(unpack(value["parts"], blobs))
    if tag == "own":  # of a fixed table; only where both sides are this interpreter
        known = importlib.import_module("dpwitness.mechanisms.terms.classes").known_class
        return known(value["class"])(**{key: unpack(v, blobs) for key, v in value["fields"].items()})
    if tag == "exception":
        return stand_in(value["class"], Exception)(value["text"])
    if tag == "number":
        return _NUMBERS[value["class"]](*value["items"])
    if tag == "masked":
        return np.ma.MaskedArray(unpack(value["data"], blobs), mask=unpack(value["mask"], blobs))
    if tag == "columns":
        columns = [(name, unpack(column, blobs)) for name, column in value["items"]]
        whole = np.empty(value["shape"], dtype=[(name, c.dtype, c.shape[len(value["shape"]) :]) for name, c in columns])
        for name, column in columns:
            whole[name] = column
        return whole[()] if value["scalar"] else whole
    if tag == "holder":
        found = stand_in(value["class"], Holder)()
        found.value = unpack(value["value"], blobs)
        return found
    if tag == "fields":
        found = stand_in(value["class"], Fields)()
        found.__dict__.update((name, unpack(v, blobs)) for name, v in value["items"])
        return found
    if tag == "other":
        found = stand_in(value["class"], Opaque)()
        found.text = value["text"]
        return found
    raise ValueError(f"unknown tag {tag!r}")


def words(state: Any) -> Any:
    """The state of a bit generator as JSON: its arrays are lists of words."""
    if isinstance(state, dict):
        return {key: words(value) for key, value in state.items()}
    return {"words": state.tolist(), "dtype": state.dtype.str} if isinstance(state, np.ndarray) else state


def unworded(state: Any) -> Any:
    """The inverse of `words`."""
    if not isinstance(state, dict):
        return state
    if "words" in state:
        return np.array(state["words"], dtype=state["dtype"])
    return {key: unworded(value) for key, value in state.items()}


class Opaque:
    """Stands for an object of which only its type's name and its text are known."""

    text = ""

    def __repr__(self) -> str:
        return self.text


class Holder:
    """Stands for an object that is an array."""

    value: Any = None

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.value, dtype=dtype)


class Fields:
    """Stands for an object of which its type's name and its fields are known."""


_STAND_INS: dict[tuple[str, type], type] = {}


def stand_in(name: str, base: type) -> Any:
    """A class of this name, one for each (name, base)."""
    if (name, base) not in _STAND_INS:
        _STAND_INS[name, base] = type(name, (base,), {})
    return _STAND_INS[name, base]


def message(header: Message, blobs: Blobs) -> list[bytes]:
    """The parts of a message, to be written one after the other."""
    text = json.dumps(dict(header, blobs=[len(b) for b in blobs])).encode()
    return [struct.pack("<I", len(text)) + text, *blobs]


def receive(read: Callable[[int], Any]) -> tuple[Message, Blobs] | None:
    """One message; None at the end of the stream. `read` returns as many bytes as it is asked for, or fewer at the end."""
    head = read(4)
    if len(head) < 4:
        return None
    length = struct.unpack("<I", head)[0]
    if length > MOST:
        raise ValueError(f"a header of {length} bytes")
    text = read(length)
    header = json.loads(bytes(text).decode())
    return header, [read(size) for size in header.pop("blobs")]
