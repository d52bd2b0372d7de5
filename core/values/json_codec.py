"""Exact conversion of datasets and parameters to JSON and back: floats to the last bit, arrays with
their dtype, no pickle.

A value that cannot be restored exactly is refused when written. Reading builds the types below and
registered classes only; no text of a file is imported, evaluated or called.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from dpwitness.core.values.array_json import read_array, require_exact, write_array
from dpwitness.core.values.class_registry import Resolver, is_registered, known_class, public_name
from dpwitness.core.values.dataframe_backends import EXTRAS, GRAPHS, UnsupportedData
from dpwitness.core.values.json_reader import (
    DIGITS,
    Json,
    Rule,
    anything,
    boolean,
    checked,
    integer,
    items,
    listing,
    nullable,
    one_of,
    record,
    refuse,
    require_json_limits,
    text,
)
from dpwitness.core.values.object_tree import put_together, take_apart
from dpwitness.core.values.validation import InvalidArgument, error_text

Dataset = Any  # array, list, scalar, string, None, or a dataclass of these

_TAG = "$type"
# largest nesting of containers that are written; each container takes up to two levels of JSON
_DEPTH = 30


def to_jsonable(value: Any, _depth: int = 0) -> Any:
    """Return `value` as plain JSON types, which `from_jsonable` inverts. Raise InvalidArgument for
    a value without an exact form.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and value.bit_length() <= 3 * DIGITS:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, np.ndarray):
        require_exact(value)
        if not (value.dtype.names or isinstance(value, np.ma.MaskedArray)):
            return {_TAG: "array", **write_array(value)}
    if isinstance(value, np.generic) and not isinstance(value, float | complex | bytes):
        return {_TAG: "scalar", "dtype": value.dtype.str, "value": _scalar(value)}
    fields = _object_fields(value)
    if fields is None and isinstance(value, list | dict):
        if _depth >= _DEPTH:
            raise InvalidArgument(
                f"dataset must be writable as JSON, got one nested more than {_DEPTH} deep, or "
                "within itself"
            )
        if isinstance(value, list):
            return [to_jsonable(part, _depth + 1) for part in value]
        if all(isinstance(key, str) for key in value) and _TAG not in value:
            return {str(key): to_jsonable(part, _depth + 1) for key, part in value.items()}
    kind, parts = ("object", fields) if fields is not None else _parts(value)
    found = {name: to_jsonable(part, _depth) for name, part in parts.items()}
    if kind in ("set", "frozenset"):
        found["value"].sort(key=lambda part: json.dumps(part, sort_keys=True))
    return {_TAG: kind, **found}


def _object_fields(value: Any) -> Json | None:
    """Return the class and the fields of a dataclass or a named tuple; None for another value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names: Iterable[str] = (field.name for field in dataclasses.fields(value) if field.init)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        names = value._fields
    else:
        return None
    fields = {name: getattr(value, name) for name in names}
    return {"class": public_name(type(value)), "fields": fields}


def _parts(value: Any) -> tuple[str, Json]:
    """Return kind and parts of a value. Raise InvalidArgument if the kind has no JSON form."""
    try:
        found = take_apart(value)
    except UnsupportedData as error:
        raise InvalidArgument(f"dataset must be writable as JSON: {error}") from None
    if found is None or found[0] not in _TAGS:
        raise InvalidArgument(f"dataset must be writable as JSON, got {type(value).__name__}")
    if "zone" in found[1]:
        raise InvalidArgument(
            "dataset must be writable as JSON, got a time in a time zone with rules: "
            "convert it to UTC"
        )
    return found


def _scalar(value: np.generic) -> Any:
    """Return the JSON form of a NumPy scalar: the only entry of an array of its dtype."""
    array = np.asarray(value)
    return to_jsonable(array) if array.dtype.names else to_jsonable(array)["value"][0]


def from_jsonable(value: Any, path: str = "dataset", classes: Resolver | None = None) -> Any:
    """Return a value from its JSON form; the inverse of `to_jsonable`.

    Parameters
    ----------
    value
        Plain JSON types.
    path : str
        Name of the value in error messages.
    classes : callable, optional
        Function ``(name, path)`` that returns a class that is not registered. Without it,
        unregistered classes are refused.

    Raises
    ------
    InvalidArgument
        If a field is missing, unknown, of another type or beyond a limit, or a class does not
        accept its fields. The message has the path of the field.
    """
    require_json_limits(value)
    return _read(value, path, classes)


def _read(value: Any, path: str, classes: Resolver | None) -> Any:
    """Return the value of checked JSON."""
    if isinstance(value, list | tuple):
        return [_read(part, f"{path}[{i}]", classes) for i, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {k: _read(part, f"{path}.{k[:60]}", classes) for k, part in value.items()}
    tag = value[_TAG]
    if not isinstance(tag, str) or tag not in _TAGS:
        refuse(f"{path}.{_TAG}", f"be one of {', '.join(_TAGS)}", tag)
    parts = record(_OPTIONAL.get(tag), **{_TAG: one_of(tag)}, **_TAGS[tag])(value, path)
    del parts[_TAG]
    if tag == "array":
        return read_array(parts, path)
    parts = {name: _read(part, f"{path}.{name}", classes) for name, part in parts.items()}
    if tag == "scalar":
        return _read_scalar(parts, path)
    cls = _class_of(parts["class"], path, classes) if tag == "object" else None
    name = tag if cls is None else cls.__name__
    try:
        return put_together(tag, parts) if cls is None else cls(**parts["fields"])
    except (UnsupportedData, InvalidArgument) as error:
        raise InvalidArgument(f"{path} must be a {name}: {error}") from None
    except Exception as error:  # a class or a library may raise anything on the content of a file
        raise InvalidArgument(f"{path} must be a {name}: {error_text(error)}") from None


def _read_scalar(parts: Json, path: str) -> Any:
    """Return the NumPy scalar of a validated record of dtype and value."""
    dtype, array = parts["dtype"], parts["value"]
    if not isinstance(array, np.ndarray):
        array = read_array({"dtype": dtype, "shape": [], "value": [array]}, path)
    if array.ndim or array.dtype.str != dtype:
        refuse(f"{path}.value", f"be one entry of dtype {dtype}", array.tolist())
    return array[()]


def _class_of(name: str, path: str, classes: Resolver | None) -> Any:
    """Return the dataclass or named tuple of this name. Raise InvalidArgument if the class may not
    be used.
    """
    cls = known_class(name)
    if cls is None:
        if classes is None:
            raise InvalidArgument(
                f"{path}.class must be one of this project's dataset classes, got {name!r}"
            )
        cls = classes(name, f"{path}.class")
    named = isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")
    if not (isinstance(cls, type) and (dataclasses.is_dataclass(cls) or named)):
        raise InvalidArgument(f"{path}.class must name a dataclass, got {name!r}")
    return cls


_two_entries = checked(
    lambda value: isinstance(value, list) and len(value) == 2, "be a list of two"
)


def _named_array(value: Any, path: str) -> Any:
    name, array = _two_entries(value, path)
    return [text()(name, path), array]


def _spelled(pattern: str, longest: int) -> Rule:
    """Return a rule for texts that match a pattern of ASCII characters, because `int` and `Decimal`
    also read digits of other scripts.
    """

    def rule(value: Any, path: str) -> Any:
        if re.fullmatch(pattern, text(longest)(value, path)) is None:
            refuse(path, "be a number in ASCII digits", value)
        return value

    return rule


_hex = text(2**25)
_hexadecimal, _decimal = _spelled(r"-?(0x)?[0-9a-f]+", 60_000), _spelled(r"[-+.0-9A-Za-z]+", 1000)
_shape = listing(integer(most=2**31), most=32)
_name = nullable(
    lambda value, path: (text(1000) if isinstance(value, str) else integer(None))(value, path)
)


def _column(value: Any, path: str) -> Any:
    return record(
        name=_name,
        type=text(200),
        values=anything,
        missing=anything,
        categories=nullable(_column),
        ordered=boolean,
    )(value, path)


# of a time that occurs twice, when clocks are set back: 1 for the second
_OPTIONAL: dict[str, Json] = {"time": {"fold": one_of(1)}, "datetime": {"fold": one_of(1)}}
_TAGS: dict[str, Json] = {
    "date": {"value": text(40)},
    "time": {"value": text(40)},
    "datetime": {"value": text(40)},
    "timedelta": {"value": listing(integer(None), 3, 3)},
    "decimal": {"value": _decimal},
    "frame": {
        "library": one_of(*(n for n, extra in EXTRAS.items() if extra == "frames")),
        "rows": integer(most=10**8),
        "columns": listing(_column, most=10_000),
        "index": nullable(_column),
    },
    "graph": {
        "form": one_of(*GRAPHS),
        "about": anything,
        "nodes": listing(listing(anything, 2, 2)),
        "edges": listing(listing(anything, 3, 4)),
    },
    "float": {"value": one_of("inf", "-inf", "nan")},
    "int": {"hex": _hexadecimal},
    "complex": {"value": listing(anything, 2, 2)},
    "bytes": {"hex": _hex},
    "bytearray": {"hex": _hex},
    "tuple": {"value": listing(anything)},
    "set": {"value": listing(anything)},
    "frozenset": {"value": listing(anything)},
    "dict": {"items": listing(_two_entries)},
    "scalar": {"dtype": text(40), "value": anything},
    "array": {"dtype": text(40), "shape": _shape, "value": listing(anything)},
    "structured": {"shape": _shape, "columns": listing(_named_array, 1), "record": boolean},
    "masked": {"data": anything, "mask": anything, "fill": anything, "hard": boolean},
    "object": {"class": text(400), "fields": items(anything)},
}


def unregistered_classes(value: Any) -> list[str]:
    """Return the names of the classes in a JSON value that are not registered."""
    found, pending = [], [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if (
                item.get(_TAG) == "object"
                and isinstance(item.get("class"), str)
                and not is_registered(item["class"])
            ):
                found.append(item["class"])
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
    return found


def same_value(a: Any, b: Any) -> bool:
    """Return whether two records are equal bit for bit: NaN equals itself, 0.0 differs
    from -0.0.
    """
    return repr(to_jsonable(a)) == repr(to_jsonable(b))
