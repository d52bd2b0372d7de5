"""Encoding of the messages between a worker and its controller: JSON and raw little-endian bytes.
Nothing is pickled.

Both sides load this module, `libraries` and `parts`, which use only the standard library and NumPy
(Python 3.8 or later). A message is a length (4 bytes, little-endian), a JSON header of this length,
and the bytes of the arrays that the header refers to; ``header["blobs"]`` lists their sizes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.util
import json
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Dict, List

import numpy as np

if TYPE_CHECKING or __name__ != "dpwitness_codec":
    from dpwitness.core.values import dataframe_backends
    from dpwitness.mechanisms.wrappers.programs.inside import object_tree
else:  # in a worker, whose interpreter may have no dpwitness
    _here = os.path.dirname(os.path.abspath(__file__))

    def _load_module(name, *place):
        """Load and return the module at this path, under a name that no library uses."""
        spec = importlib.util.spec_from_file_location(name, os.path.join(*place))
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    _load_module("dpwitness_library_parts", _here, "library_parts.py")
    object_tree = _load_module("dpwitness_object_tree", _here, "object_tree.py")
    _values = os.path.join(_here, *[os.pardir] * 4, "core", "values")
    dataframe_backends = _load_module(
        "dpwitness_dataframe_backends", _values, "dataframe_backends.py"
    )

Fields, Named, PLAIN = object_tree.Fields, object_tree.Named, object_tree.PLAIN
array_in, parts_of = object_tree.array_in, object_tree.parts_of

PROTOCOL = 1
CACHE_SIZE = 16  # large datasets that a worker stores; the controller keeps the same count
MOST = 2**30  # most bytes of a header
_TAG = "$"

Blobs = List[Any]
Message = Dict[str, Any]


def pack(value: Any, blobs: Blobs) -> Any:
    """Return a value as JSON types, and append the bytes of its arrays to `blobs`.

    A value without such a form becomes the name of its type and its text.
    """
    kind = type(value)
    if value is None or kind in (bool, str, float):
        return value
    if kind is int:
        return value if abs(value) < 2**63 else {_TAG: "int", "hex": hex(value)}
    if isinstance(value, np.generic) and value.dtype.kind in PLAIN:
        return {_TAG: "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
    if object_tree.needs_decomposition(value):
        return _pack_object(value, blobs)
    if isinstance(value, np.ma.MaskedArray):
        fill = None if value is np.ma.masked else pack(np.asarray(value.fill_value), blobs)
        mask = pack(np.ma.getmaskarray(value), blobs)
        return {_TAG: "masked", "data": pack(value.data, blobs), "mask": mask, "fill": fill}
    if isinstance(value, np.ndarray) and value.dtype.kind in PLAIN:
        return _pack_array(value, blobs)
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.names:
        scalar, value = isinstance(value, np.void), np.asarray(value)
        columns = [[name, pack(np.array(value[name]), blobs)] for name in value.dtype.names]
        return {_TAG: "columns", "shape": list(value.shape), "items": columns, "scalar": scalar}
    if isinstance(value, np.ndarray) and value.dtype.hasobject and value.dtype.kind == "O":
        return {
            _TAG: "objects",
            "shape": list(value.shape),
            "items": [pack(v, blobs) for v in value.ravel()],
        }
    if isinstance(value, BaseException):
        text = text_of(value, str)
        more = [[name, pack(v, blobs)] for name, v in object_tree.exception_parts(value, text)]
        return {_TAG: "exception", "class": kind.__name__, "text": text, "items": more}
    if object_tree.library_form(kind):
        return _pack_object(value, blobs)
    if isinstance(value, dict):
        head = {_TAG: "dict", "items": [[pack(k, blobs), pack(v, blobs)] for k, v in value.items()]}
        return head if kind is dict else dict(head, **{"class": kind.__name__})
    if isinstance(value, (list, tuple, set, frozenset)):
        return _pack_sequence(value, blobs)
    if kind in (bytes, bytearray):
        return {_TAG: "bytes", "hex": value.hex(), "class": kind.__name__}
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith("dpwitness.mechanisms."):
        fields = {
            field.name: pack(getattr(value, field.name), blobs)
            for field in dataclasses.fields(value)
            if field.init
        }
        return {_TAG: "own", "class": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}
    for base in (int, float, str):
        if isinstance(value, base):
            return {
                _TAG: "kin",
                "class": kind.__name__,
                "base": base.__name__,
                "value": pack(object_tree.plain(value, base), blobs),
            }
    arguments = _constructor_arguments(value)
    if arguments is not None:
        return {_TAG: "number", "class": kind.__name__, "items": arguments}
    return _pack_object(value, blobs)


_in_progress = threading.local()


@contextlib.contextmanager
def opened(value: Any, under_way: list[int]) -> Iterator[str]:
    """Guard against objects that contain themselves, for the duration of the block.

    The context is a text that refers to the enclosing object if `value` is already in progress,
    else "".
    """
    place = under_way.index(id(value)) if id(value) in under_way else None
    under_way.append(id(value))
    try:
        yield "" if place is None else f"the object {len(under_way) - 1 - place} levels up"
    finally:
        under_way.pop()


def _pack_object(value: Any, blobs: Blobs) -> Message:
    """Return the packed form of an object that is not a number, text or container: its name, array,
    parts or text.
    """
    name, kind = object_tree.name_of(value), type(value).__name__
    if name is not None:
        return {_TAG: "named", "text": name}
    inner = array_in(value)
    if inner is not None:
        return {_TAG: "holder", "class": kind, "value": pack(inner, blobs)}
    if not hasattr(_in_progress, "ids"):
        _in_progress.ids = []
    with opened(value, _in_progress.ids) as reference:
        if reference:
            return {_TAG: "named", "text": reference}
        found = None if isinstance(value, Opaque) else parts_of(value)
        if found is not None:
            return {
                _TAG: "fields",
                "class": kind,
                "items": [[part, pack(v, blobs)] for part, v in found],
            }
    return {_TAG: "other", "class": kind, "text": text_of(value, repr), "bare": bare(value)}


def pack_dataset(value: Any, blobs: Blobs) -> Any:
    """Pack like `pack`, but keep frames and graphs, also inside lists, tuples and dicts. Raises
    `libraries.UnsupportedData`.
    """
    if dataframe_backends.library_name(value):
        return {_TAG: "held", "parts": pack(dataframe_backends.to_parts(value), blobs)}
    if type(value) in (list, tuple) and any(map(_contains_library_data, value)):
        return {_TAG: type(value).__name__, "items": [pack_dataset(part, blobs) for part in value]}
    if type(value) is dict and any(map(_contains_library_data, value.values())):
        return {
            _TAG: "dict",
            "items": [[pack(key, blobs), pack_dataset(part, blobs)] for key, part in value.items()],
        }
    return pack(value, blobs)


def _contains_library_data(value: Any) -> bool:
    """Return whether a value is or contains a frame or graph."""
    if type(value) in (list, tuple, dict):
        return any(map(_contains_library_data, value.values() if type(value) is dict else value))
    return bool(dataframe_backends.library_name(value))


def _pack_array(value: Any, blobs: Blobs) -> Message:
    """Return the packed form of an array, and append its bytes to `blobs`."""
    plain = np.asarray(value)
    if plain.dtype.byteorder == ">" or (plain.dtype.byteorder == "=" and sys.byteorder == "big"):
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    blobs.append(plain.tobytes())
    return {
        _TAG: "array",
        "dtype": plain.dtype.str,
        "shape": list(plain.shape),
        "blob": len(blobs) - 1,
    }


def _pack_sequence(value: Any, blobs: Blobs) -> Message:
    """Return the packed form of a list, tuple or set. Numbers of one type, and arrays of one shape,
    are packed as one array.
    """
    name = next(base.__name__ for base in (list, tuple, set, frozenset) if isinstance(value, base))
    head: Message = {_TAG: name}
    if type(value).__name__ != name:
        head["class"] = type(value).__name__
    if hasattr(value, "_fields"):
        head["names"] = [str(field) for field in value._fields]
    kinds = set(map(type, value)) if len(value) > 8 and name in ("list", "tuple") else set()
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind in (float, bool) or (kind is int and max(map(abs, value)) < 2**63):
        return dict(head, of=kind.__name__, items=_pack_array(np.array(value), blobs))
    if kind is not None and issubclass(kind, np.generic) and value[0].dtype.kind in "fiub":
        return dict(head, of="items", items=_pack_array(np.array(value), blobs))
    if (
        kind is np.ndarray
        and value[0].dtype.kind in "fiub"
        and len({(v.dtype, v.shape) for v in value}) == 1
    ):
        return dict(head, of="items", items=_pack_array(np.stack(value), blobs))
    return dict(head, items=[pack(v, blobs) for v in value])


def _constructor_arguments(value: Any) -> list[Any] | None:
    """Return the constructor arguments of a number or a time as JSON types; None for a value of
    another type.
    """
    kind = type(value)
    if kind is complex:
        return [value.real, value.imag]
    if kind in (Decimal, Fraction):
        return [str(value)]
    if kind is datetime.timedelta:
        return [value.days, value.seconds, value.microseconds]
    if kind is datetime.date:
        return [value.year, value.month, value.day]
    if kind in (datetime.time, datetime.datetime):
        day = [value.year, value.month, value.day] if kind is datetime.datetime else []
        zone: Any = None if value.tzinfo is None else text_of(value.tzinfo, repr)
        if type(value.tzinfo) is datetime.timezone:
            zone = {"offset": value.utcoffset().total_seconds()}
        return [*day, value.hour, value.minute, value.second, value.microsecond, zone, value.fold]
    return None


class Zone(datetime.tzinfo):
    """Stand-in for a time zone of which only the text is known."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _unknown(self, when: Any) -> None:
        return None

    utcoffset = dst = tzname = _unknown


_NUMBER_TYPES: dict[str, Any] = {
    t.__name__: t
    for t in (
        complex,
        Decimal,
        Fraction,
        datetime.timedelta,
        datetime.date,
        datetime.time,
        datetime.datetime,
    )
}


def text_of(value: Any, how: Callable[[Any], str]) -> str:
    """Return `how(value)`, or "<no text>" if the methods of the value raise."""
    try:
        return how(value)
    except Exception:
        return "<no text>"


def bare(value: Any) -> bool:
    """Return whether the text of an object contains no information on its content.

    This is so if its class does not define a text, or if the text is a memory address.
    """
    if isinstance(value, Opaque):
        return value.bare
    plain: Any = object.__repr__
    return type(value).__repr__ is plain or " at 0x" in text_of(value, repr)


def unpack(value: Any, blobs: Blobs) -> Any:
    """Return the value of its packed form. Other objects become stand-ins named after their class;
    nothing is imported or run.
    """
    if isinstance(value, list):
        return [unpack(v, blobs) for v in value]
    if not isinstance(value, dict):
        return value
    tag = value[_TAG]
    if tag == "array":
        if 0 in value["shape"]:
            return np.empty(value["shape"], dtype=np.dtype(value["dtype"]))
        return (
            np.frombuffer(blobs[value["blob"]], dtype=np.dtype(value["dtype"]))
            .reshape(value["shape"])
            .copy()
        )
    if tag == "scalar":
        return np.frombuffer(bytes.fromhex(value["hex"]), dtype=np.dtype(value["dtype"]))[0]
    if tag == "int":
        return int(value["hex"], 16)
    if tag == "bytes":
        return (bytearray if value.get("class") == "bytearray" else bytes).fromhex(value["hex"])
    if tag == "dict":
        inner = {unpack(k, blobs): unpack(v, blobs) for k, v in value["items"]}
        return stand_in(value["class"], dict)(inner) if "class" in value else inner
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
        return (
            stand_in(value["class"], base, tuple(value.get("names", ())))
            if "class" in value
            else base
        )(items)
    if tag == "kin":
        return stand_in(value["class"], {"int": int, "float": float, "str": str}[value["base"]])(
            unpack(value["value"], blobs)
        )
    if tag == "held":
        return dataframe_backends.from_parts(unpack(value["parts"], blobs))
    if tag == "own":  # of a fixed table; only where both sides are this interpreter
        known = importlib.import_module("dpwitness.core.values.class_registry").known_class
        return known(value["class"])(
            **{key: unpack(v, blobs) for key, v in value["fields"].items()}
        )
    return _unpack_object(tag, value, blobs)


def _unpack_object(tag: str, value: Message, blobs: Blobs) -> Any:
    """Return an exception, a number, an array of a richer type, or a stand-in. Raise ValueError for
    an unknown tag.
    """
    if tag == "exception":
        error = stand_in(value["class"], Exception)(value["text"])
        vars(error).update((name, unpack(v, blobs)) for name, v in value.get("items", ()))
        return error
    if tag == "number":
        return _unpack_number(value["class"], value["items"])
    if tag == "masked":
        fill = unpack(value["fill"], blobs) if "fill" in value else None
        return np.ma.MaskedArray(
            unpack(value["data"], blobs), mask=unpack(value["mask"], blobs), fill_value=fill
        )
    if tag == "named":
        return Named(value["text"])
    if tag == "columns":
        columns = [(name, unpack(column, blobs)) for name, column in value["items"]]
        whole = np.empty(
            value["shape"],
            dtype=[(name, c.dtype, c.shape[len(value["shape"]) :]) for name, c in columns],
        )
        for name, column in columns:
            whole[name] = column
        return whole[()] if value["scalar"] else whole
    if tag == "holder":
        found = stand_in(value["class"], Holder)()
        found.value = unpack(value["value"], blobs)
        return found
    if tag == "fields":
        found = stand_in(value["class"], Fields)()
        found.dpwitness_parts = [(name, unpack(v, blobs)) for name, v in value["items"]]
        found.__dict__.update(found.dpwitness_parts)
        return found
    if tag == "other":
        found = stand_in(value["class"], Opaque)()
        found.text, found.bare = value["text"], value.get("bare", True)
        return found
    raise ValueError(f"unknown tag {tag!r}")


def _unpack_number(name: str, items: list[Any]) -> Any:
    """Return a number or a time of its constructor arguments; a time zone becomes a stand-in."""
    if name not in ("time", "datetime"):
        return _NUMBER_TYPES[name](*items)
    *clock, zone, fold = items
    if isinstance(zone, dict):
        return _NUMBER_TYPES[name](
            *clock, datetime.timezone(datetime.timedelta(seconds=zone["offset"])), fold=fold
        )
    return _NUMBER_TYPES[name](*clock, None if zone is None else Zone(zone), fold=fold)


def words(state: Any) -> Any:
    """Return the state of a bit generator as JSON, with arrays as lists of words."""
    if isinstance(state, dict):
        return {key: words(value) for key, value in state.items()}
    return (
        {"words": state.tolist(), "dtype": state.dtype.str}
        if isinstance(state, np.ndarray)
        else state
    )


def state_from_json(state: Any) -> Any:
    """Return the state of a bit generator from its JSON form; the inverse of `words`."""
    if not isinstance(state, dict):
        return state
    if "words" in state:
        return np.array(state["words"], dtype=state["dtype"])
    return {key: state_from_json(value) for key, value in state.items()}


class Opaque:
    """Stand-in for an object of which only the class name and the text are known."""

    text = ""
    bare = True

    def __repr__(self) -> str:
        return self.text


class Holder:
    """Stand-in for an object that holds an array."""

    value: Any = None
    dpwitness_holder = True

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.value, dtype=dtype)


_STAND_IN_CLASSES: dict[Any, type] = {}


def stand_in(name: str, base: type, fields: Any = ()) -> Any:
    """Return the stand-in class of this name, cached per (name, base, fields); `fields` are the
    item names of a named tuple.
    """
    key = name, base, fields
    if key not in _STAND_IN_CLASSES:
        _STAND_IN_CLASSES[key] = type(name, (base,), {"_fields": fields} if fields else {})
    return _STAND_IN_CLASSES[key]


def message(header: Message, blobs: Blobs) -> list[bytes]:
    """Return the parts of a message, to be written in order."""
    text = json.dumps(dict(header, blobs=[len(b) for b in blobs])).encode()
    return [struct.pack("<I", len(text)) + text, *blobs]


def receive(read: Callable[[int], Any]) -> tuple[Message, Blobs] | None:
    """Return the next message, or None at the end of the stream.

    `read(size)` returns `size` bytes, or fewer at the end of the stream.
    """
    head = read(4)
    if len(head) < 4:
        return None
    length = struct.unpack("<I", head)[0]
    if length > MOST:
        raise ValueError(f"a header has {length} bytes")
    header = json.loads(bytes(read(length)).decode())
    return header, [read(size) for size in header.pop("blobs")]
