"""Datasets and parameters as JSON, exactly: floats to the last bit, arrays with their dtype, no pickle."""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import Any

import numpy as np

from dpwitness.mechanisms.validation import InvalidArgument

__all__ = ["Dataset", "from_jsonable", "same_value", "to_jsonable"]

Dataset = Any  # an array, a list, a scalar, a string, None, or a dataclass of these

_TAG = "$type"


def to_jsonable(value: Any) -> Any:
    """`value` as plain JSON types that `from_jsonable` turns back. Raises InvalidArgument for what has no exact form."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: "float", "value": str(value)}
    if isinstance(value, np.generic):
        return {_TAG: "scalar", "dtype": value.dtype.str, "value": to_jsonable(value.item())}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise InvalidArgument(f"dataset must be writable as JSON, got an array of dtype {value.dtype}")
        return {
            _TAG: "array",
            "dtype": value.dtype.str,
            "shape": list(value.shape),
            "value": [to_jsonable(v) for v in value.ravel().tolist()],
        }
    if isinstance(value, list):
        return [to_jsonable(v) for v in value]
    if isinstance(value, tuple):
        return {_TAG: "tuple", "value": [to_jsonable(v) for v in value]}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value) and _TAG not in value:
        return {k: to_jsonable(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        cls = type(value)
        fields = {f.name: to_jsonable(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return {_TAG: "object", "class": f"{cls.__module__}:{cls.__qualname__}", "fields": fields}
    raise InvalidArgument(f"dataset must be writable as JSON, got {type(value).__name__}")


def from_jsonable(value: Any) -> Any:
    """The inverse of `to_jsonable`. Only dataclasses are built from their recorded class name, and only by their constructor."""
    if isinstance(value, list):
        return [from_jsonable(v) for v in value]
    if not isinstance(value, dict):
        return value
    tag = value.get(_TAG)
    if tag is None:
        return {k: from_jsonable(v) for k, v in value.items()}
    if tag == "float":
        return float(value["value"])
    if tag == "scalar":
        return np.dtype(value["dtype"]).type(from_jsonable(value["value"]))
    if tag == "array":
        flat = [from_jsonable(v) for v in value["value"]]
        return np.array(flat, dtype=np.dtype(value["dtype"])).reshape(value["shape"])
    if tag == "tuple":
        return tuple(from_jsonable(v) for v in value["value"])
    if tag == "object":
        module, _, name = value["class"].partition(":")
        cls = getattr(importlib.import_module(module), name, None)
        if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
            raise InvalidArgument(f"class must name a dataclass, got {value['class']!r}")
        return cls(**{k: from_jsonable(v) for k, v in value["fields"].items()})
    raise InvalidArgument(f"{_TAG} must be a known type, got {tag!r}")


def same_value(a: Any, b: Any) -> bool:
    """Equality of two records, bit for bit: NaN equals itself, 0.0 differs from -0.0."""
    return repr(to_jsonable(a)) == repr(to_jsonable(b))
