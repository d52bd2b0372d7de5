"""Exact conversion of datasets and parameters to JSON and back: floats to the last bit, arrays with
their dtype, no pickle.

A value that cannot be restored exactly is refused when written. Reading builds the types below and
registered classes only; no text of a file is imported, evaluated or called.

Registered are the public names of `mechanisms`, and the classes of `_INTERNAL`. A file names a
class by the package that exports it, as ``dpwitness.mechanisms:Laplace``; also a class of `core`. A
user-defined class is built only if a resolver that the user has requested finds the class.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import pkgutil
import re
import sys
from collections.abc import Callable, Hashable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.values.dataframe_backends import EXTRAS, GRAPHS, UnsupportedData
from dpwitness.core.values.json_reader import (
    DIGITS,
    ELEMENTS,
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

# (name of a class, path of the field) -> the class, or InvalidArgument
Resolver = Callable[[str, str], type]

_CLASS_NAME = re.compile(r"dpwitness\.(core|mechanisms|auditors)(?:\.\w+)*:([A-Z]\w*)")
# Public names that no dataset, event or parameter of a mechanism holds.
_EXCLUDED = {
    "Claim",
    "ConvergenceError",
    "Domain",
    "InvalidArgument",
    "Mechanism",
    "Pair",
    "Relation",
    "Truth",
}
_INTERNAL = {
    "mechanisms.papers.logistic": "QuadraticPenalty",
    "core.numerics.noise": "SphericalNoise",
    "core.claims.tradeoff_curves": "AccountedDP",
    "auditors.events.event": "Binned Restricted",
    "auditors.events.rules": "Atoms Intervals Lattice LowBits Threshold WeightedScore",
    "auditors.events.features": (
        "Affine Distances Levels Places Products ProjectedRamps Ramps SignedLog Sorted Trees "
        "WhitenedDistances"
    ),
    "auditors.functions.utility": "FailureBound MeanBound Scaling",
}
_EXPORTED_BY = {"core": "mechanisms"}
_MODULE = {
    (_EXPORTED_BY.get(top := module.partition(".")[0], top), name): f"dpwitness.{module}"
    for module, names in _INTERNAL.items()
    for name in names.split()
}


def known_class(name: str) -> Any:
    """Return the registered class of this name; None if the name is not registered."""
    match = _CLASS_NAME.fullmatch(name)
    if match is None:
        return None
    package, cls = _EXPORTED_BY.get(match[1], match[1]), match[2]
    public = importlib.import_module("dpwitness.mechanisms")
    if package == "mechanisms" and cls not in _EXCLUDED and cls in public.__all__:
        return getattr(public, cls)
    module = _MODULE.get((package, cls))
    return None if module is None else getattr(importlib.import_module(module), cls)


def public_name(cls: type) -> str:
    """Return the name of a class in files: its public name if registered, else
    ``module:qualname``.
    """
    name = f"{cls.__module__}:{cls.__qualname__}"
    package = cls.__module__.split(".")[1] if known_class(name) is cls else ""
    return f"dpwitness.{_EXPORTED_BY.get(package, package)}:{cls.__qualname__}" if package else name


def modules_of(package: str) -> list[ModuleType]:
    """Import all modules of a package and return them, ordered by name."""
    return [
        importlib.import_module(name)
        for name in sorted(
            f"{package}.{found.name}"
            for found in pkgutil.iter_modules(importlib.import_module(package).__path__)
        )
    ]


Dataset = Any  # array, list, scalar, string, None, or a dataclass of these

_TAG = "$type"
# largest nesting of containers that are written; each container takes up to two levels of JSON
_DEPTH = 30
_DTYPE = re.compile(r"[<>|=]?([biufcSUmM]\d{1,6}|V\d{1,6}|\?)(\[\d{0,6}[A-Za-z]{1,2}\])?")
_MAX_BYTES = 2**28  # largest size of one array
_NON_FINITE = [{"$type": "float", "value": word} for word in ("inf", "-inf", "nan")]
_HEX = re.compile(r"[0-9a-f]*")
_LONG_DOUBLE = re.compile(r"[-+.0-9a-z]{1,200}")


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
    if isinstance(value, list | dict) and not dataclasses.is_dataclass(value):
        if _depth >= _DEPTH:
            raise InvalidArgument(
                f"dataset must be writable as JSON, got one nested more than {_DEPTH} deep, or "
                "within itself"
            )
        if isinstance(value, list):
            return [to_jsonable(part, _depth + 1) for part in value]
        if all(isinstance(key, str) for key in value) and _TAG not in value:
            return {str(key): to_jsonable(part, _depth + 1) for key, part in value.items()}
    return _tagged(value, _depth)


def _tagged(value: Any, depth: int) -> Json:
    """Return the JSON form of a value that JSON has no type for: its kind and its parts."""
    if isinstance(value, np.ndarray):
        _require_exact(value)
        if not (value.dtype.names or isinstance(value, np.ma.MaskedArray)):
            return {
                _TAG: "array",
                "dtype": value.dtype.str,
                "shape": list(value.shape),
                "value": _json_entries(value),
            }
    if isinstance(value, np.generic) and not isinstance(value, float | complex | bytes):
        # the only entry of an array of its dtype
        array = to_jsonable(np.asarray(value))
        entry = array if value.dtype.names else array["value"][0]
        return {_TAG: "scalar", "dtype": value.dtype.str, "value": entry}
    fields = _object_fields(value)
    kind, parts = ("object", fields) if fields is not None else _parts(value)
    found = {name: to_jsonable(part, depth) for name, part in parts.items()}
    if kind in ("set", "frozenset"):
        found["value"].sort(key=lambda part: json.dumps(part, sort_keys=True))
    return {_TAG: kind, **found}


def _object_fields(value: Any) -> Json | None:
    """Return the class and the fields of a dataclass or a named tuple; None for another value."""
    names = getattr(value, "_fields", None) if isinstance(value, tuple) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
    if names is None:
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
        return _read_array(parts, path)
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
        array = _read_array({"dtype": dtype, "shape": [], "value": [array]}, path)
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


def _require_exact(value: NDArray[Any]) -> None:
    """Raise InvalidArgument for an array without an exact JSON form: an array of objects or raw
    bytes, of a richer subclass, or with gaps between its fields.
    """
    dtype, names = value.dtype, value.dtype.names or ()
    plain = type(value) in (np.ndarray, np.recarray, np.memmap)
    gaps = names and np.dtype([(name, dtype[name]) for name in names]) != dtype
    problems = {
        f"{type(value).__name__}: give a plain array": (
            not plain and not isinstance(value, np.ma.MaskedArray)
        ),
        f"an array of dtype {dtype}": dtype.hasobject,
        f"an array of raw bytes, dtype {dtype}": dtype.kind == "V" and not names,
        f"a structured array with gaps between its fields {list(names)}": gaps,
    }
    for problem, found in problems.items():
        if found:
            raise InvalidArgument(f"dataset must be writable as JSON, got {problem}")


def _json_entries(value: NDArray[Any]) -> list[Any]:
    """Return the entries of an array as JSON values."""
    flat = np.ascontiguousarray(value).reshape(-1)
    kind, size = value.dtype.kind, value.dtype.itemsize
    if kind in "biuU":
        return flat.tolist()
    if kind == "f" and size > 8:  # as decimal digits, because the bytes include padding
        return [str(v) for v in flat]
    if kind == "f":
        finite = np.isfinite(flat).all()
        return flat.tolist() if finite else list(map(to_jsonable, flat.tolist()))
    # complex, bytes, dates: JSON has no such types
    return [flat[i : i + 1].tobytes().hex() for i in range(len(flat))]


def _read_array(fields: Json, path: str) -> NDArray[Any]:
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
    kind, size = dtype.kind, dtype.itemsize
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if kind in "iu" else (0, 0)
    hexadecimal: tuple[Any, str] = (
        lambda v: isinstance(v, str) and len(v) == 2 * size and _HEX.fullmatch(v) is not None,
        f"{2 * size} hexadecimal digits",
    )
    rules: dict[str, tuple[Any, str]] = {
        "b": (lambda v: isinstance(v, bool), "true or false"),
        "i": (lambda v: type(v) is int and low <= v <= high, f"whole numbers of {dtype.str}"),
        "u": (lambda v: type(v) is int and low <= v <= high, f"whole numbers of {dtype.str}"),
        "U": (
            lambda v: isinstance(v, str) and len(v) <= size // 4,
            f"texts of at most {size // 4} characters",
        ),
        "f": (_is_float, "a number"),
        "g": (
            lambda v: isinstance(v, str) and _LONG_DOUBLE.fullmatch(v) is not None,
            "digits of long doubles",
        ),
    }
    fits, rule = rules.get("g" if dtype.char == "g" else kind, hexadecimal)
    for i, value in enumerate(entries):
        if not fits(value):
            refuse(f"{path}.value[{i}]", f"be {rule}", value)
    if dtype.char == "g":
        return np.array(list(map(np.longdouble, entries)), dtype=dtype)
    if kind == "f":
        entries = [float(v["value"]) if isinstance(v, dict) else v for v in entries]
    if kind in "biuUf":
        return np.array(entries, dtype=dtype)
    return np.frombuffer(bytes.fromhex("".join(entries)), dtype=dtype, count=len(entries)).copy()


def _is_float(value: Any) -> bool:
    """Return whether a JSON entry is a number within the floats, or a tagged infinity or NaN."""
    if value in _NON_FINITE:
        return True
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


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
        parts = [np.asarray(array.filled()), np.ma.getmaskarray(array)]
        return np.hstack(list(map(_row_bytes, parts)))
    if array.dtype.names:  # field by field, because the gaps between fields are not data
        fields = [_row_bytes(array[name]) for name in array.dtype.names]
        return np.hstack([np.empty((len(array), 0), np.uint8), *fields])
    flat = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    size = flat.itemsize * int(np.prod(flat.shape[1:]))
    table = np.frombuffer(flat.tobytes(), dtype=np.uint8).reshape(len(flat), size)
    if array.dtype.char in "gG" and np.finfo(np.longdouble).nmant == 63:
        # 80 bits of data, followed by padding
        numbers = table.reshape(len(flat), -1, np.dtype(np.longdouble).itemsize)[:, :, :10]
        return numbers.reshape(len(flat), 10 * numbers.shape[1])
    return table


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
    if isinstance(value, list | tuple):
        inner = value
    elif isinstance(value, dict):
        inner = [*value.values()]
    else:
        return []
    tagged = isinstance(value, dict) and value.get(_TAG) == "object"
    name = value.get("class") if tagged else None
    own = [name] if isinstance(name, str) and known_class(name) is None else []
    return own + [found for part in inner for found in unregistered_classes(part)]


def same_value(a: Any, b: Any) -> bool:
    """Return whether two records are equal bit for bit: NaN equals itself, 0.0 differs
    from -0.0.
    """
    return repr(to_jsonable(a)) == repr(to_jsonable(b))
