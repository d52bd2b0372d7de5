"""Columns of data frames: their types and bounds, the conversion between values and numbers, and
the construction of frames.
"""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.core.values.dataframe_backends import (
    UnsupportedData,
    library,
    library_name,
    to_parts,
    values_of,
)
from dpwitness.core.values.validation import InvalidArgument, short_repr

_KEYS = ("low", "high", "categories", "missing", "infinite")
_EPOCH = datetime.date(1970, 1, 1)
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
            day = _day_of(value)
            return None if day is None or not self.low <= day <= self.high else float(day)
        known = (
            int | np.integer if self.kind == "integer" else int | float | np.integer | np.floating
        )
        return (
            float(value)
            if isinstance(value, known)
            and not isinstance(value, bool)
            and (self.low <= value <= self.high or value in self.special)
            else None
        )


def _day_of(value: Any) -> int | None:
    """Return the days from 1970-01-01 to a date without time; None for any other value."""
    if isinstance(value, np.datetime64):
        day = value.astype("M8[D]")
        return int(day.astype(np.int64)) if day == value else None
    if isinstance(value, datetime.datetime):
        return (
            (value.date() - _EPOCH).days
            if value.time() == datetime.time() and value.tzinfo is None
            else None
        )
    return (value - _EPOCH).days if isinstance(value, datetime.date) else None


def column(name: Any, given: Any, owner: str) -> Column:
    """Return the `Column` of a user's specification.

    Accepted are ``(0.0, 1.0)`` for floats in these bounds, ``(0, 120)`` for integers, and two
    dates, or texts of dates under `low` and `high`. Categories are a list of texts, or
    ``{"categories": [...]}`` with texts, integers or booleans. ``{"low": 0, "high": 9, "missing":
    True}`` also allows missing values, and ``"infinite": True`` infinite floats.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgument(
            f"{owner}: column names must be non-empty texts, got {short_repr(name)}"
        )
    where = f"{owner}: column {name}"
    if isinstance(given, list | tuple):
        texts = bool(given) and all(isinstance(item, str) for item in given)
        if texts or len(given) == 2:
            given = {"categories": given} if texts else {"low": given[0], "high": given[1]}
    if not isinstance(given, Mapping):
        raise InvalidArgument(
            f"{where} must be (low, high), a list of texts, or a dict of {', '.join(_KEYS)}, "
            f"got {short_repr(given)}"
        )
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        raise InvalidArgument(
            f"{where}: keys must be among {', '.join(_KEYS)}, got {short_repr(unknown[0])}"
        )
    missing, infinite = (given.get(key, False) for key in ("missing", "infinite"))
    for key, flag in (("missing", missing), ("infinite", infinite)):
        if not isinstance(flag, bool):
            raise InvalidArgument(f"{where}: {key} must be True or False, got {short_repr(flag)}")
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
    dates = isinstance(bounds[0], datetime.date)
    if dates != isinstance(bounds[1], datetime.date):
        raise InvalidArgument(
            f"{where}: low and high must be both numbers or both dates, got "
            f"{short_repr(given.get('high'))}"
        )
    kind = (
        "date"
        if dates
        else "integer"
        if all(isinstance(bound, int) for bound in bounds)
        else "float"
    )
    if infinite and kind != "float":
        raise InvalidArgument(
            f"{where}: infinite must be False unless low and high are floats, got True"
        )
    if kind == "integer" and max(map(abs, bounds)) > 2**53:  # integers are drawn as floats
        raise InvalidArgument(
            f"{where}: whole-number low and high must lie between -2^53 and 2^53, got "
            f"{short_repr(max(bounds, key=abs))}"
        )
    low, high = (float((bound - _EPOCH).days) if dates else float(bound) for bound in bounds)
    if not (low < high or ((missing or infinite) and low == high)):
        raise InvalidArgument(
            f"{where}: high must exceed low, got {short_repr(given.get('low'))} and "
            f"{short_repr(given.get('high'))}"
        )
    return Column(name, kind, low, high, (), missing, infinite)


def _category_column(name: str, given: Mapping[str, Any], missing: bool, where: str) -> Column:
    """Return the `Column` of a specification with categories; raise InvalidArgument for invalid
    categories.
    """
    found = given["categories"]
    listed = list(found) if isinstance(found, list | tuple) else []
    kinds = {type(item) for item in listed}
    if (
        len(kinds) != 1
        or not kinds <= {str, int, bool}
        or len(set(listed)) < len(listed)
        or "low" in given
        or "high" in given
    ):
        raise InvalidArgument(
            f"{where}: categories must be a list of distinct texts, whole numbers or booleans, "
            f"given without low and high, got {short_repr(found)}"
        )
    return Column(name, "category", 0.0, float(len(listed) - 1), tuple(listed), missing)


def _parse_bound(value: Any, where: str) -> Any:
    """Return a bound as a finite number or a date; raise InvalidArgument for anything else."""
    if isinstance(value, str):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            raise InvalidArgument(
                f"{where} must be a number or a date such as 2024-01-31, got {short_repr(value)}"
            ) from None
    if type(value) is datetime.date:
        return value
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not math.isfinite(value)
    ):
        raise InvalidArgument(f"{where} must be a finite number or a date, got {short_repr(value)}")
    return int(value) if isinstance(value, np.integer) else value


# -- conversion between lists of values and the frames of each library
# ------------------------------------------------


def _pandas(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    pandas = library("pandas")
    data: dict[str, Any] = {}
    for spec, items in zip(columns, values, strict=True):
        kind = type(spec.value(spec.low))
        if spec.kind == "float":
            data[spec.name] = np.array([math.nan if v is None else v for v in items], dtype=float)
        elif spec.kind == "date":
            data[spec.name] = np.array(items, dtype="M8[us]")
        elif kind is str:
            data[spec.name] = pandas.array(items, dtype=_pandas_text())
        elif spec.missing:
            data[spec.name] = pandas.array(items, dtype="boolean" if kind is bool else "Int64")
        else:
            data[spec.name] = np.array(items, dtype=kind)
    return pandas.DataFrame(data)


@functools.lru_cache(maxsize=1)
def _pandas_text() -> Any:
    """Return the type that this release of pandas gives a column of texts."""
    return library("pandas").Series([""]).dtype


# type of a column in polars and in Arrow, by the class of its values
_TYPES = {
    float: ("Float64", "float64"),
    int: ("Int64", "int64"),
    bool: ("Boolean", "bool_"),
    str: ("String", "string"),
    datetime.date: ("Date", "date32"),
}


def _polars(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    polars = library("polars")
    schema = {spec.name: getattr(polars, _TYPES[type(spec.value(spec.low))][0]) for spec in columns}
    return polars.DataFrame(dict(zip(schema, map(list, values), strict=True)), schema=schema)


def _arrow(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    arrow = library("pyarrow")
    kinds = [getattr(arrow, _TYPES[type(spec.value(spec.low))][1])() for spec in columns]
    return arrow.table(
        {
            spec.name: arrow.array(items, kind)
            for spec, items, kind in zip(columns, values, kinds, strict=True)
        }
    )


def _dict(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    def data(spec: Column, items: Values) -> Any:
        if spec.kind == "float":
            return np.array([math.nan if v is None else v for v in items], dtype=float)
        plain = not spec.missing and type(spec.value(spec.low)) in (int, bool)
        return np.array(items, dtype=type(spec.value(spec.low))) if plain else list(items)

    return {spec.name: data(spec, items) for spec, items in zip(columns, values, strict=True)}


def _records(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    names = [spec.name for spec in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


FRAMES: dict[str, Callable[[Sequence[Column], Sequence[Values]], Any]] = {
    "pandas": _pandas,
    "polars": _polars,
    "arrow": _arrow,
    "dict": _dict,
    "records": _records,
}


def built(form: str, columns: Sequence[Column], values: Sequence[Values], owner: str) -> Any:
    """Return the columns as a data frame of a library, a dict of columns or a list of records,
    depending on `form`.
    """
    try:
        return FRAMES[form](columns, values)
    except UnsupportedData as error:
        raise InvalidArgument(f"{owner}: {error}") from None


def column_lists(dataset: Any, form: str) -> dict[Any, list[Any]] | str:
    """Return the columns of a dataset as lists, or a text that explains why the dataset does not
    have this form.
    """
    if library_name(dataset) not in ("", "networkx"):
        if library_name(dataset) != {"arrow": "pyarrow"}.get(form, form):
            return f"it is a frame of {library_name(dataset)}, the domain expects {form}"
        try:
            return values_of(to_parts(dataset))
        except UnsupportedData as error:
            return str(error)
    if form == "dict" and isinstance(dataset, dict):
        data = {
            name: items.tolist() if isinstance(items, np.ndarray) else items
            for name, items in dataset.items()
        }
        if (
            all(isinstance(items, list) for items in data.values())
            and len(set(map(len, data.values()))) <= 1
        ):
            return data
        return "its columns must be arrays or lists of equal length"
    if (
        form == "records"
        and isinstance(dataset, list)
        and all(isinstance(record, dict) for record in dataset)
    ):
        names = dataset[0] if dataset else {}
        if all(record.keys() == names.keys() for record in dataset):
            return {name: [record[name] for record in dataset] for name in names}
        return "its records must have the same keys"
    return f"it is of type {type(dataset).__name__}, the domain expects {form}"
