"""Encoding of the messages between a worker and its controller: JSON and raw little-endian bytes.
Nothing is pickled.

Both sides load this module and the modules of `core.values` that it uses, which use only the
standard library and NumPy (Python 3.8 or later). A message is a header, a line of JSON, and the
bytes of the arrays that the header refers to; ``header["blobs"]`` lists their sizes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Dict, List

import numpy as np

from dpwitness.core.values import dataframe_backends, object_tree

Fields, Named, PLAIN = object_tree.Fields, object_tree.Named, object_tree.PLAIN
text_of = object_tree.text_of

MOST = 2**30  # most bytes of a header
_TAG = "$"
_SUBCLASSED = ("complex", "bytes", "list", "tuple", "set", "frozenset", "dict")
_BASES = {"derived int": int, "derived float": float, "derived str": str}

Blobs = List[Any]
Message = Dict[str, Any]


def pack(value: Any, blobs: Blobs | None, exact: bool = False) -> Any:
    """Return a value as JSON types, and append the bytes of its arrays to `blobs`. Without `blobs`,
    the JSON holds the bytes.

    A value without such a form becomes the name of its type and its text. If `exact` is true,
    frames and graphs are built again by `unpack`, also those inside lists, tuples and dicts;
    otherwise they become their parts. Raises `dataframe_backends.UnsupportedData` for a frame that
    cannot be built again.
    """
    kind = type(value)
    if value is None or kind in (bool, str, float) or (kind is int and abs(value) < 2**63):
        return value
    if kind is list:
        return _pack_list(value, blobs, exact)
    if kind is dict and all(type(key) is str for key in value) and _TAG not in value:
        return {key: pack(part, blobs, exact) for key, part in value.items()}
    if isinstance(value, np.generic) and value.dtype.kind in PLAIN:
        return {_TAG: "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
    if isinstance(value, np.void) and value.dtype.names:
        return {_TAG: "entry", "array": pack(np.asarray(value), blobs)}
    if object_tree.needs_decomposition(value):
        return _pack_object(value, blobs)
    return _pack_by_class(value, blobs, exact)


def _pack_by_class(value: Any, blobs: Blobs | None, exact: bool) -> Message:
    """Return the packed form of a value that its class determines: an array, an exception, a number
    or text of a derived class, a container, or an object.
    """
    kind = type(value)
    is_plain = isinstance(value, np.ndarray) and value.dtype.kind in PLAIN + "O"
    if is_plain and not isinstance(value, np.ma.MaskedArray):
        return _pack_array(value, blobs)
    if isinstance(value, BaseException):
        text = text_of(value, str)
        parts = pack(list(map(list, object_tree.exception_parts(value, text))), blobs)
        return {_TAG: "exception", "class": kind.__name__, "text": text, "parts": parts}
    for tag, base in _BASES.items():
        if isinstance(value, base) and kind is not base:
            plain = pack(object_tree.plain(value, base), blobs)
            return {_TAG: tag, "class": kind.__name__, "value": plain}
    is_built_again = exact and dataframe_backends.library_name(value)
    is_opaque = object_tree.library_form(kind) and not is_built_again
    found = None if is_opaque else object_tree.take_apart(value)
    if found is None:
        return _pack_object(value, blobs)
    form, parts = found
    inside = exact and kind in (tuple, dict)
    packed = {name: pack(part, blobs, inside) for name, part in parts.items()}
    # subclasses of these classes are taken apart like the class
    if kind.__name__ != form and form in _SUBCLASSED:
        packed.update({"class": kind.__name__, "names": list(getattr(value, "_fields", ()))})
    return {_TAG: form, **packed}


def _pack_list(items: list[Any], blobs: Blobs | None, exact: bool) -> Any:
    """Return the packed form of a list. Many numbers of one type, and arrays of one shape, are
    packed as one array.
    """
    kinds = set(map(type, items)) if len(items) > 8 else set()
    kind: Any = kinds.pop() if len(kinds) == 1 else object
    if kind in (float, bool) or (kind is int and max(map(abs, items)) < 2**63):
        return {_TAG: "numbers", "array": _pack_array(np.array(items), blobs)}
    if issubclass(kind, np.generic) or kind is np.ndarray:
        forms = {(item.dtype, item.shape) for item in items}
        if len(forms) == 1 and items[0].dtype.kind in "fiub":
            return {_TAG: "rows", "array": _pack_array(np.array(items), blobs)}
    return [pack(item, blobs, exact) for item in items]


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


def _pack_object(value: Any, blobs: Blobs | None) -> Message:
    """Return the packed form of an object that is not a number, text or container: its name, array,
    parts or text.
    """
    cls, name = type(value), object_tree.name_of(value)
    if name is not None:
        return {_TAG: "named", "text": name}
    if dataclasses.is_dataclass(cls) and cls.__module__.startswith("dpwitness.mechanisms."):
        fields = {
            field.name: pack(getattr(value, field.name), blobs)
            for field in dataclasses.fields(cls)
            if field.init
        }
        return {_TAG: "own", "class": f"{cls.__module__}:{cls.__qualname__}", "fields": fields}
    inner = object_tree.array_in(value)
    if inner is not None:
        return {_TAG: "holder", "class": cls.__name__, "value": pack(inner, blobs)}
    under_way: list[int] = _in_progress.__dict__.setdefault("ids", [])
    with opened(value, under_way) as reference:
        if reference:
            return {_TAG: "named", "text": reference}
        found = None if isinstance(value, Opaque) else object_tree.parts_of(value)
        if found is not None:
            parts = pack(list(map(list, found)), blobs)
            return {_TAG: "fields", "class": cls.__name__, "parts": parts}
    return {_TAG: "other", "class": cls.__name__, "text": text_of(value, repr), "bare": bare(value)}


def _pack_array(value: Any, blobs: Blobs | None) -> Message:
    """Return the packed form of an array, and append its bytes to `blobs`. Without `blobs`, the
    form holds the bytes as digits.
    """
    if value.dtype.kind == "O":
        entries = [pack(entry, blobs) for entry in value.ravel()]
        return {_TAG: "objects", "shape": list(value.shape), "entries": entries}
    plain = np.asarray(value)
    if plain.dtype.byteorder == ">" or (plain.dtype.byteorder == "=" and sys.byteorder == "big"):
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    head = {_TAG: "array", "dtype": plain.dtype.str, "shape": list(plain.shape)}
    if blobs is None:
        return dict(head, hex=plain.tobytes().hex())
    blobs.append(plain.tobytes())
    return dict(head, blob=len(blobs) - 1)


def bare(value: Any) -> bool:
    """Return whether the text of an object contains no information on its content.

    The text contains none if its class does not define a text, or if the text is a memory address.
    """
    if isinstance(value, Opaque):
        return value.bare
    plain: Any = object.__repr__
    return type(value).__repr__ is plain or " at 0x" in text_of(value, repr)


def unpack(value: Any, blobs: Any) -> Any:
    """Return the value of its packed form. Other objects become stand-ins named after their class;
    nothing is imported or run.
    """
    if isinstance(value, list):
        return [unpack(part, blobs) for part in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: unpack(part, blobs) for key, part in value.items()}
    tag, name, names = value[_TAG], value.get("class"), tuple(value.get("names", ()))
    if tag == "array":
        shape, dtype = value["shape"], np.dtype(value["dtype"])
        if 0 in shape:
            return np.empty(shape, dtype)
        content = bytes.fromhex(value["hex"]) if "hex" in value else blobs[value["blob"]]
        return np.frombuffer(content, dtype).reshape(shape).copy()
    head = (_TAG, "class", "names")
    parts = {key: unpack(part, blobs) for key, part in value.items() if key not in head}
    if tag in _BUILT:
        return _BUILT[tag](parts)
    if tag in _STAND_INS:
        return _build_stand_in(tag, name, parts)
    if tag == "own":  # of a fixed table; only where both sides are this interpreter
        known = importlib.import_module("dpwitness.core.values.json_codec").known_class
        return known(name)(**parts["fields"])
    found = object_tree.put_together(tag, parts)
    return found if name is None else stand_in(name, found.__class__, names)(found)


def _build_stand_in(tag: str, name: Any, parts: dict[str, Any]) -> Any:
    """Return a stand-in of the class `name`, with the parts of the object as attributes."""
    inner = list(map(tuple, parts.pop("parts", ())))
    kind, key = stand_in(name, _STAND_INS[tag]), "text" if tag == "exception" else "value"
    if tag == "exception" or tag in _BASES:
        built = kind(parts[key])
    else:
        built = kind()
        vars(built).update(parts)
    if tag == "fields":
        built.dpwitness_parts = inner
    vars(built).update(inner)
    return built


def _build_objects(parts: dict[str, Any]) -> Any:
    """Return an array of objects."""
    flat = np.empty(len(parts["entries"]), dtype=object)
    for i, entry in enumerate(parts["entries"]):
        flat[i] = entry
    return flat.reshape(parts["shape"])


_BUILT: dict[str, Any] = {
    "scalar": lambda parts: np.frombuffer(bytes.fromhex(parts["hex"]), parts["dtype"])[0],
    "entry": lambda parts: parts["array"][()],
    "numbers": lambda parts: parts["array"].tolist(),
    "rows": lambda parts: list(parts["array"]),
    "objects": _build_objects,
    "named": lambda parts: Named(parts["text"]),
}


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


_STAND_INS: dict[str, type] = {
    "exception": Exception,
    "fields": Fields,
    "holder": Holder,
    "other": Opaque,
    **_BASES,
}


@functools.lru_cache(maxsize=None)
def stand_in(name: str, base: type, fields: Any = ()) -> Any:
    """Return the stand-in class of this name, cached per (name, base, fields); `fields` are the
    item names of a named tuple.
    """
    return type(name, (base,), {"_fields": fields} if fields else {})


def message(header: Message, blobs: Blobs) -> list[bytes]:
    """Return the parts of a message, to be written in order."""
    return [json.dumps(dict(header, blobs=[len(b) for b in blobs])).encode() + b"\n", *blobs]


def receive(
    readline: Callable[[], bytes], read: Callable[[int], Any]
) -> tuple[Message, Blobs] | None:
    """Return the next message, or None at the end of the stream.

    `readline()` returns a line, and `read(size)` returns `size` bytes.
    """
    line = readline()
    if not line.endswith(b"\n"):
        return None
    header = json.loads(line.decode())
    return header, [read(size) for size in header.pop("blobs")]
