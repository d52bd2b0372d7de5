"""Columns of data frames: their types and bounds, the conversion between values and numbers, and
the construction of frames.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.core.values.dataframe_backends import (
    UnsupportedData,
    from_parts,
    library,
    library_name,
    to_parts,
    values_of,
)
from dpwitness.core.values.validation import InvalidArgument, require_rules, short_repr

_KEYS = ("low", "high", "categories", "missing", "infinite")
_EPOCH = datetime.date(1970, 1, 1)
_KINDS: dict[type, str] = {int: "integer", float: "float", datetime.date: "date"}
_NUMBERS: dict[str, Any] = {
    "integer": (int, np.integer),
    "float": (int, float, np.integer, np.floating),
}
Values = Sequence[Any]  # values of one column; None where missing


@dataclass(frozen=True, slots=True)
class Column:
    """Type and bounds of a column: floats or integers in [low, high], dates between two days, or
    categories.
    """

    name: str
    kind: str  # float, integer, date or category
    low: float
    high: float
    categories: tuple[Any, ...] = ()
    missing: bool = False  # whether values may be missing
    infinite: bool = False  # whether values may be infinite

    @property
    def special(self) -> tuple[float | None, ...]:
        """Return the allowed values out of the bounds; None stands for a missing one."""
        infinities = (math.inf, -math.inf) if self.infinite else ()
        return (None, *infinities) if self.missing else infinities

    @property
    def count(self) -> int:
        """Return the number of values: categories, integers or days."""
        return len(self.categories) if self.kind == "category" else int(self.high - self.low) + 1

    def value(self, number: float) -> Any:
        """Return the value that a number encodes: a category by its index, a date by its day."""
        if self.kind == "category":
            return self.categories[int(number)]
        if self.kind == "date":
            return _EPOCH + datetime.timedelta(days=int(number))
        return int(number) if self.kind == "integer" else float(number)

    def number(self, value: Any) -> float | None:
        """Return the number that encodes a value, NaN for a missing one; None where the column does
        not allow the value.
        """
        if value is None or (
            isinstance(value, float | np.floating | np.datetime64) and value != value
        ):
            return math.nan if self.missing else None
        if self.kind == "category":
            plain = value.item() if isinstance(value, np.generic) else value
            data = type(plain) is type(self.categories[0]) and plain in self.categories
            return float(self.categories.index(plain)) if data else None
        if self.kind == "date":
            value = _day_of(value)
        elif not isinstance(value, _NUMBERS[self.kind]) or isinstance(value, bool):
            return None
        allowed = value is not None and (self.low <= value <= self.high or value in self.special)
        return float(value) if allowed else None


def _day_of(value: Any) -> int | None:
    """Return the days from 1970-01-01 to a date without time; None for any other value."""
    if isinstance(value, np.datetime64):
        day = value.astype("M8[D]")
        return int(day.astype(np.int64)) if day == value else None
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time() and value.tzinfo is None
        return (value.date() - _EPOCH).days if midnight else None
    return (value - _EPOCH).days if isinstance(value, datetime.date) else None


def column(name: Any, given: Any, owner: str) -> Column:
    """Return the `Column` of a user's specification.

    Accepted are ``(0.0, 1.0)`` for floats in these bounds, ``(0, 120)`` for integers, and two
    dates, or texts of dates under `low` and `high`. Categories are a list of texts or booleans, or
    ``{"categories": [...]}`` with texts, integers or booleans. ``{"low": 0, "high": 9, "missing":
    True}`` also allows missing values, and ``"infinite": True`` infinite floats.
    """
    if isinstance(given, list | tuple):
        listed = bool(given) and {type(item) for item in given} in ({str}, {bool})
        if listed or len(given) == 2:
            given = {"categories": given} if listed else {"low": given[0], "high": given[1]}
    keys, where = ", ".join(_KEYS), f"{owner}: column {name}"
    forms = f"column {name} must be (low, high), a list of texts or booleans, or a dict of {keys}"
    require_rules(
        owner,
        (isinstance(name, str) and name, "column names must be non-empty texts", name),
        (isinstance(given, Mapping), forms, given),
    )
    unknown = next((key for key in given if key not in _KEYS), None)
    missing, infinite = (given.get(key, False) for key in ("missing", "infinite"))
    require_rules(
        where,
        (unknown is None, f"keys must be among {keys}", unknown),
        (isinstance(missing, bool), "missing must be True or False", missing),
        (isinstance(infinite, bool), "infinite must be True or False", infinite),
    )
    if "categories" in given and not infinite:
        return _category_column(name, given, missing, where)
    return _bounded_column(name, given, missing, infinite, where)


def _bounded_column(
    name: str, given: Mapping[str, Any], missing: bool, infinite: bool, where: str
) -> Column:
    """Return the `Column` of a specification with low and high; raise InvalidArgument for invalid
    bounds.
    """
    bounds = [_parse_bound(given.get(key), f"{where}: {key}") for key in ("low", "high")]
    types = {type(bound) for bound in bounds}
    kind = _KINDS[type(bounds[0])] if len(types) == 1 else "float"
    low, high = ((b - _EPOCH).days if isinstance(b, datetime.date) else b for b in bounds)
    exact = kind != "integer" or max(abs(low), abs(high)) <= 2**53  # integers are drawn as floats
    ordered = low < high or ((missing or infinite) and low == high)
    shown = [given.get("low"), given.get("high")]
    require_rules(
        where,
        (
            len(types) == 1 or datetime.date not in types,
            "low and high must be both numbers or both dates",
            shown,
        ),
        (
            kind == "float" or not infinite,
            "infinite must be False unless low and high are floats",
            True,
        ),
        (exact, "whole-number low and high must lie between -2^53 and 2^53", shown),
        (ordered, "high must exceed low", shown),
    )
    return Column(name, kind, float(low), float(high), (), missing, infinite)


def _category_column(name: str, given: Mapping[str, Any], missing: bool, where: str) -> Column:
    """Return the `Column` of a specification with categories; raise InvalidArgument for invalid
    categories.
    """
    found = given["categories"]
    listed = list(found) if isinstance(found, list | tuple) else []
    one_kind = {type(item) for item in listed} in ({str}, {int}, {bool})
    distinct = one_kind and len(set(listed)) == len(listed)
    rule = "categories must be a list of distinct texts, whole numbers or booleans, given without"
    alone = "low" not in given and "high" not in given
    require_rules(where, (distinct and alone, f"{rule} low and high", found))
    return Column(name, "category", 0.0, float(len(listed) - 1), tuple(listed), missing)


def _parse_bound(value: Any, where: str) -> Any:
    """Return a bound as an int, a finite float or a date; raise InvalidArgument for anything
    else.
    """
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return datetime.date.fromisoformat(value)
    if type(value) is datetime.date:
        return value
    is_number = isinstance(value, _NUMBERS["float"]) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise InvalidArgument(
            f"{where} must be a number or a date such as 2024-01-31, got {short_repr(value)}"
        )
    return int(value) if isinstance(value, _NUMBERS["integer"]) else float(value)


# NumPy type of the entries of a column, by the class of its values; the entry that stands for a
# missing one; and the types of the column in pandas, where entries may be missing, polars and Arrow
_TYPES: dict[type, tuple[str, Any, str, str, str]] = {
    float: ("f8", math.nan, "", "Float64", "double"),
    int: ("i8", 0, "Int64", "Int64", "int64"),
    bool: ("?", False, "boolean", "Boolean", "bool"),
    str: ("U", "", "", "String", "string"),
    datetime.date: ("M8[us]", np.datetime64("NaT", "us"), "", "Date", "date32[day]"),
}
FORMS = ("pandas", "polars", "arrow", "dict", "records")


@functools.lru_cache(maxsize=1)
def _pandas_text() -> str:
    """Return the type that this release of pandas gives a column of texts."""
    return str(library("pandas").Series([""]).dtype)


def built(form: str, columns: Sequence[Column], values: Sequence[Values], owner: str) -> Any:
    """Return the columns as a data frame of a library, a dict of columns or a list of records,
    depending on `form`. Raise InvalidArgument if the library is not installed.
    """
    names = [spec.name for spec in columns]
    if form == "records":
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    try:
        built_columns = list(map(functools.partial(_built_column, form), columns, values))
        if form == "dict":
            return dict(zip(names, built_columns, strict=True))
        name = "pyarrow" if form == "arrow" else form
        rows = len(values[0])
        return from_parts({"library": name, "columns": built_columns, "index": None, "rows": rows})
    except UnsupportedData as error:
        raise InvalidArgument(f"{owner}: {error}") from None


def _built_column(form: str, spec: Column, items: Values) -> Any:
    """Return a column of a dict, or the parts of a column of a frame as `from_parts` reads them."""
    kind = type(spec.value(spec.low))
    dtype, blank, nullable, polars, arrow = _TYPES[kind]
    missing = np.array([item is None for item in items], dtype=bool)
    entries = np.array([blank if item is None else item for item in items], dtype=dtype)
    if form == "dict":
        plain = kind is float or (kind in (int, bool) and not spec.missing)
        return entries if plain else list(items)
    usual = _pandas_text() if form == "pandas" and kind is str else entries.dtype.str
    types = {
        "pandas": nullable if nullable and spec.missing else usual,
        "polars": polars,
        "arrow": arrow,
    }
    if kind is datetime.date and form != "pandas":
        entries = entries.astype("M8[D]").astype(np.int32)  # days since 1970
    return {
        "name": spec.name,
        "type": types[form],
        "values": entries,
        "missing": missing if missing.any() else None,
        "categories": None,
        "ordered": False,
    }


def column_lists(dataset: Any, form: str) -> dict[Any, list[Any]] | str:
    """Return the columns of a dataset as lists, or a text that explains why the dataset does not
    have this form.
    """
    frame_library = library_name(dataset).removesuffix("networkx")
    if frame_library:
        if frame_library.removeprefix("py") != form:
            return f"it is a frame of {frame_library}, the domain expects {form}"
        try:
            return values_of(to_parts(dataset))
        except UnsupportedData as error:
            return str(error)
    if form == "dict" and isinstance(dataset, dict):
        arrays = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in dataset.items()}
        lists = all(isinstance(items, list) for items in arrays.values())
        if lists and len(set(map(len, arrays.values()))) <= 1:
            return arrays
        return "its columns must be arrays or lists of equal length"
    records: list[Any] = dataset if form == "records" and isinstance(dataset, list) else [None]
    if all(isinstance(record, dict) for record in records):
        names = records[0] if records else {}
        if all(record.keys() == names.keys() for record in records):
            return {name: [record[name] for record in records] for name in names}
        return "its records must have the same keys"
    return f"it is of type {type(dataset).__name__}, the domain expects {form}"
