"""Exact conversion of datasets and parameters to JSON and back: floats to the last bit, arrays with
their dtype, no pickle.

A value that cannot be restored exactly is refused when written. Reading builds the types below and
registered classes only; no text of a file is imported, evaluated or called.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from dpwitness.core.values.array_json import read_array, write_array
from dpwitness.core.values.class_registry import Resolver, is_registered, known_class, public_name
from dpwitness.core.values.dataframe_backends import (
    EXTRAS,
    GRAPHS,
    Parts,
    UnsupportedData,
    from_parts,
    library_name,
    to_parts,
)
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
    if isinstance(value, np.ndarray):
        return write_array(value, to_jsonable)
    if isinstance(value, np.generic) and not isinstance(value, float | str | complex | bytes):
        return _tagged("scalar", dtype=value.dtype.str, value=_scalar(value))
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= 3 * DIGITS else _tagged("int", hex=hex(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _tagged("float", value=str(float(value)))
    if isinstance(value, complex):
        return _tagged("complex", value=[to_jsonable(value.real), to_jsonable(value.imag)])
    if isinstance(value, bytes | bytearray):
        return _tagged("bytes" if isinstance(value, bytes) else "bytearray", hex=value.hex())
    if type(value) in (datetime.date, datetime.time, datetime.datetime):
        if not isinstance(getattr(value, "tzinfo", None), datetime.timezone | None):
            raise InvalidArgument(
                "dataset must be writable as JSON, got a time in a time zone with rules: "
                "convert it to UTC"
            )
        fold = {"fold": 1} if getattr(value, "fold", 0) else {}
        return _tagged(type(value).__name__, value=value.isoformat(), **fold)
    if type(value) is datetime.timedelta:
        return _tagged("timedelta", value=[value.days, value.seconds, value.microseconds])
    if type(value) is Decimal:
        return _tagged("decimal", value=str(value))
    if _depth >= _DEPTH:
        raise InvalidArgument(
            f"dataset must be writable as JSON, got one nested more than {_DEPTH} deep, or "
            "within itself"
        )

    def inner(part: Any) -> Any:
        return to_jsonable(part, _depth + 1)

    if library_name(value):
        return _library_json(value, inner)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: inner(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init
        }
        return _tagged("object", **{"class": public_name(type(value)), "fields": fields})
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple
        return _tagged(
            "object",
            **{
                "class": public_name(type(value)),
                "fields": dict(zip(value._fields, map(inner, value), strict=True)),
            },
        )
    if isinstance(value, list):
        return [inner(v) for v in value]
    if isinstance(value, tuple):
        return _tagged("tuple", value=[inner(v) for v in value])
    if isinstance(value, set | frozenset):
        kind = "set" if isinstance(value, set) else "frozenset"
        return _tagged(
            kind,
            value=sorted((inner(v) for v in value), key=lambda v: json.dumps(v, sort_keys=True)),
        )
    if isinstance(value, dict):
        if all(isinstance(k, str) for k in value) and _TAG not in value:
            return {str(k): inner(v) for k, v in value.items()}
        return _tagged("dict", items=[[inner(k), inner(v)] for k, v in value.items()])
    raise InvalidArgument(f"dataset must be writable as JSON, got {type(value).__name__}")


def _library_json(value: Any, inner: Callable[[Any], Any]) -> Json:
    """Return a frame as its columns, or a graph as its nodes and edges, in tagged JSON."""
    try:
        parts = to_parts(value)
    except UnsupportedData as error:
        raise InvalidArgument(f"dataset must be writable as JSON: {error}") from None
    tag = "graph" if "nodes" in parts else "frame"
    return _tagged(
        tag,
        **{
            key: inner(part)
            for key, part in parts.items()
            if key != ("library" if tag == "graph" else "form")
        },
    )


def _tagged(tag: str, **fields: Any) -> Json:
    """Return a JSON object with a type tag."""
    return {_TAG: tag, **fields}


def _scalar(value: np.generic) -> Any:
    """Return the JSON form of a NumPy scalar: the only entry of an array of its dtype."""
    found = write_array(np.asarray(value), to_jsonable)
    return (
        found["value"][0] if len(found.get("value", ())) == 1 and found[_TAG] == "array" else found
    )


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
    return _Reader(classes).read(value, path)


class _Reader:
    """Reader of tagged JSON values. A function of `_SIMPLE` or the method `_<tag>` reads a tag;
    `classes` finds unregistered classes.
    """

    def __init__(self, classes: Resolver | None) -> None:
        self._classes = classes

    def read(self, value: Any, path: str) -> Any:
        if isinstance(value, list | tuple):
            return [self.read(v, f"{path}[{i}]") for i, v in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if _TAG not in value:
            return {k: self.read(v, f"{path}.{k[:60]}") for k, v in value.items()}
        tag = value[_TAG]
        if not isinstance(tag, str) or tag not in _TAGS:
            refuse(f"{path}.{_TAG}", f"be one of {', '.join(_TAGS)}", tag)
        fields = record(_OPTIONAL.get(tag), **{_TAG: one_of(tag)}, **_TAGS[tag])(value, path)
        try:
            return (
                _SIMPLE[tag](self, fields, path)
                if tag in _SIMPLE
                else getattr(self, f"_{tag}")(fields, path)
            )
        except InvalidArgument:
            raise
        except (
            TypeError,
            ValueError,
            OverflowError,
            MemoryError,
            ArithmeticError,
            LookupError,
            AttributeError,
        ) as error:
            raise InvalidArgument(
                f"{path} must be a {tag}: {type(error).__name__} {str(error)[:200]}"
            ) from None

    def _scalar(self, fields: Json, path: str) -> Any:
        content = fields["value"]
        if isinstance(content, dict) and content.get(_TAG) in ("array", "structured"):
            array = self.read(content, f"{path}.value")
            if array.ndim or array.dtype.str != fields["dtype"]:
                refuse(f"{path}.value", f"be one entry of dtype {fields['dtype']}", content)
        else:
            array = read_array({"dtype": fields["dtype"], "shape": [], "value": [content]}, path)
        return array[()]

    def _structured(self, fields: Json, path: str) -> Any:
        columns = [
            (name, self.read(column, f"{path}.columns")) for name, column in fields["columns"]
        ]
        shape = tuple(fields["shape"])
        for name, column in columns:
            if not isinstance(column, np.ndarray) or column.shape[: len(shape)] != shape:
                refuse(f"{path}.columns", f"hold arrays of shape {list(shape)}", name)
        dtype = np.dtype(
            [(name, column.dtype, column.shape[len(shape) :]) for name, column in columns]
        )
        found = np.empty(shape, dtype)
        for name, column in columns:
            found[name] = column
        return found.view(np.recarray) if fields["record"] else found

    def _masked(self, fields: Json, path: str) -> Any:
        data, mask, fill = (
            self.read(fields[key], f"{path}.{key}") for key in ("data", "mask", "fill")
        )
        if (
            not isinstance(data, np.ndarray)
            or not isinstance(mask, np.ndarray)
            or mask.dtype != np.ma.make_mask_descr(data.dtype)
        ):
            refuse(f"{path}.mask", "be an array of yes and no for the data", fields["mask"])
        return np.ma.MaskedArray(data, mask, fill_value=fill[()], hard_mask=fields["hard"])

    def _frame(self, fields: Json, path: str) -> Any:
        columns = [
            self._column(column, f"{path}.columns[{i}]", fields["rows"])
            for i, column in enumerate(fields["columns"])
        ]
        index = (
            None
            if fields["index"] is None
            else self._column(fields["index"], f"{path}.index", fields["rows"])
        )
        return self._build_library_object({**fields, "columns": columns, "index": index}, path)

    def _column(self, fields: Json, path: str, rows: int | None) -> Parts:
        fields = _COLUMN(fields, path)
        values, missing = (
            self.read(fields["values"], f"{path}.values"),
            self.read(fields["missing"], f"{path}.missing"),
        )
        for name, array in (
            ("values", values),
            *([("missing", missing)] if missing is not None else []),
        ):
            if not (
                isinstance(array, np.ndarray) and array.ndim == 1 and rows in (None, len(array))
            ):
                refuse(
                    f"{path}.{name}",
                    f"be an array of {'one axis' if rows is None else f'{rows} entries'}",
                    fields[name],
                )
        known = (
            None
            if fields["categories"] is None
            else self._column(fields["categories"], f"{path}.categories", None)
        )
        return {**fields, "values": values, "missing": missing, "categories": known}

    def _graph(self, fields: Json, path: str) -> Any:
        content = {
            key: self.read(fields[key], f"{path}.{key}") for key in ("about", "nodes", "edges")
        }
        return self._build_library_object(
            {"library": "networkx", "form": fields["form"], **content}, path
        )

    def _build_library_object(self, parts: Parts, path: str) -> Any:
        try:
            return from_parts(parts)
        except UnsupportedData as error:
            raise InvalidArgument(f"{path}: {error}") from None
        except Exception as error:  # the library may raise anything on the content of a file
            raise InvalidArgument(
                f"{path} must be a {parts['library']} {parts['form']}: {error_text(error)}"
            ) from None

    def _object(self, fields: Json, path: str) -> Any:
        name = fields["class"]
        cls = known_class(name)
        if cls is None:
            if self._classes is None:
                raise InvalidArgument(
                    f"{path}.class must be one of this project's dataset classes, got {name!r}"
                )
            cls = self._classes(name, f"{path}.class")
        named = isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")
        if not (isinstance(cls, type) and (dataclasses.is_dataclass(cls) or named)):
            raise InvalidArgument(f"{path}.class must name a dataclass, got {name!r}")
        values = {
            key: self.read(value, f"{path}.fields.{key[:60]}")
            for key, value in fields["fields"].items()
        }
        try:
            return cls(**values)
        except (
            Exception
        ) as error:  # the checks of the class may raise anything on the content of a file
            reason = (
                str(error)
                if isinstance(error, InvalidArgument)
                else f"{type(error).__name__} {str(error)[:200]}"
            )
            raise InvalidArgument(f"{path} must be a {cls.__name__}: {reason}") from None


_plain_number = checked(
    lambda value: isinstance(value, float | int) and not isinstance(value, bool), "be two numbers"
)


_two_entries = checked(
    lambda value: isinstance(value, list) and len(value) == 2, "be a list of two"
)


def _column(value: Any, path: str) -> Any:
    name, array = _two_entries(value, path)
    return text()(name, path), array


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
_COLUMN = record(
    name=_name,
    type=text(200),
    values=anything,
    missing=anything,
    categories=nullable(anything),
    ordered=boolean,
)
_SIMPLE: dict[str, Callable[[_Reader, Json, str], Any]] = {
    "float": lambda reader, fields, path: float(fields["value"]),
    "int": lambda reader, fields, path: int(fields["hex"], 16),
    "complex": lambda reader, fields, path: complex(
        *(_plain_number(reader.read(v, path), path) for v in fields["value"])
    ),
    "bytes": lambda reader, fields, path: bytes.fromhex(fields["hex"]),
    "bytearray": lambda reader, fields, path: bytearray.fromhex(fields["hex"]),
    "tuple": lambda reader, fields, path: tuple(reader.read(fields["value"], f"{path}.value")),
    "set": lambda reader, fields, path: set(reader.read(fields["value"], f"{path}.value")),
    "frozenset": lambda reader, fields, path: frozenset(
        reader.read(fields["value"], f"{path}.value")
    ),
    "dict": lambda reader, fields, path: {
        reader.read(k, f"{path}.items"): reader.read(v, f"{path}.items") for k, v in fields["items"]
    },
    "array": lambda reader, fields, path: read_array(fields, path),
    "date": lambda reader, fields, path: datetime.date.fromisoformat(fields["value"]),
    "time": lambda reader, fields, path: datetime.time.fromisoformat(fields["value"]).replace(
        fold=fields.get("fold", 0)
    ),
    "datetime": lambda reader, fields, path: datetime.datetime.fromisoformat(
        fields["value"]
    ).replace(fold=fields.get("fold", 0)),
    "timedelta": lambda reader, fields, path: datetime.timedelta(*fields["value"]),
    "decimal": lambda reader, fields, path: Decimal(fields["value"]),
}
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
    }
    | {"columns": listing(anything, most=10_000), "index": nullable(anything)},
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
    "structured": {"shape": _shape, "columns": listing(_column, 1), "record": boolean},
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
