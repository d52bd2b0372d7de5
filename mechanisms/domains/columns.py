"""Columns of frames: what a column may hold, how a number stands for a value of it, and frames of each library built from columns."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.mechanisms.terms.libraries import Unheld, apart, library, library_of, values_of
from dpwitness.mechanisms.terms.validation import InvalidArgument, shown

_KEYS = ("low", "high", "categories", "missing")
_DAY = datetime.date(1970, 1, 1)
Values = Sequence[Any]  # of a column; None where missing


@dataclass(frozen=True, slots=True)
class Column:
    """What a column holds: floats or whole numbers in [low, high], dates between two days, or categories; with `missing` also nothing."""

    name: str
    kind: str  # float, integer, date or category
    low: float
    high: float
    categories: tuple[Any, ...] = ()
    missing: bool = False

    def value(self, number: float) -> Any:
        """What a number stands for."""
        if self.kind == "category":
            return self.categories[int(number)]
        if self.kind == "date":
            return _DAY + datetime.timedelta(days=int(number))
        return int(number) if self.kind == "integer" else float(number)

    def number(self, value: Any) -> float | None:
        """What stands for a value, NaN for a missing one; None where the column may not hold it."""
        if value is None or (isinstance(value, float | np.floating | np.datetime64) and value != value):
            return math.nan if self.missing else None
        if self.kind == "category":
            plain = value.item() if isinstance(value, np.generic) else value
            held = type(plain) is type(self.categories[0]) and plain in self.categories
            return float(self.categories.index(plain)) if held else None
        if self.kind == "date":
            day = _day_of(value)
            return None if day is None or not self.low <= day <= self.high else float(day)
        known = int | np.integer if self.kind == "integer" else int | float | np.integer | np.floating
        return float(value) if isinstance(value, known) and not isinstance(value, bool) and self.low <= value <= self.high else None


def _day_of(value: Any) -> int | None:
    if isinstance(value, np.datetime64):
        day = value.astype("M8[D]")
        return int(day.astype(np.int64)) if day == value else None
    if isinstance(value, datetime.datetime):
        return (value.date() - _DAY).days if value.time() == datetime.time() and value.tzinfo is None else None
    return (value - _DAY).days if isinstance(value, datetime.date) else None


def column(name: Any, given: Any, owner: str) -> Column:
    """A column from what a user says of it.

    ``(0.0, 1.0)`` floats in these bounds; ``(0, 120)`` whole numbers; two dates, or texts of such under `low` and `high`; a list of texts,
    numbers or truth values in ``{"categories": [...]}``, of texts also alone; ``{"low": 0, "high": 9, "missing": True}``.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"{owner}: columns must have texts as names, got {shown(name)}")
    where = f"{owner}: column {name}"
    if isinstance(given, list | tuple):
        texts = bool(given) and all(isinstance(item, str) for item in given)
        if not texts and len(given) != 2:
            raise InvalidArgument(f"{where} must be (low, high), a list of texts, or a dict of {', '.join(_KEYS)}, got {shown(given)}")
        given = {"categories": given} if texts else {"low": given[0], "high": given[1]}
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{where} must be (low, high), a list of texts, or a dict of {', '.join(_KEYS)}, got {shown(given)}")
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        raise InvalidArgument(f"{where} has the keys {', '.join(_KEYS)}, got {shown(unknown[0])}")
    missing = given.get("missing", False)
    if not isinstance(missing, bool):
        raise InvalidArgument(f"{where}: missing must be True or False, got {shown(missing)}")
    if "categories" in given:
        return _categories(name, given, missing, where)
    ends = [_end(given.get(key), f"{where}: {key}") for key in ("low", "high")]
    if isinstance(ends[0], datetime.date) != isinstance(ends[1], datetime.date):
        raise InvalidArgument(f"{where}: low and high must be both numbers or both dates, got {shown(given.get('high'))}")
    dates = isinstance(ends[0], datetime.date)
    kind = "date" if dates else "integer" if all(isinstance(end, int) for end in ends) else "float"
    if kind == "integer" and max(map(abs, ends)) > 2**53:  # drawn as floats
        raise InvalidArgument(f"{where}: low and high of whole numbers must be between -2^53 and 2^53, got {shown(max(ends, key=abs))}")
    low, high = (float((end - _DAY).days) if dates else float(end) for end in ends)
    if not (low < high or (missing and low == high)):
        raise InvalidArgument(f"{where}: high must exceed low, got {shown(given.get('low'))} and {shown(given.get('high'))}")
    return Column(name, kind, low, high, (), missing)


def _categories(name: str, given: Mapping[str, Any], missing: bool, where: str) -> Column:
    found = given["categories"]
    listed = list(found) if isinstance(found, list | tuple) else []
    kinds = {type(item) for item in listed}
    if len(kinds) != 1 or not kinds <= {str, int, bool} or len(set(listed)) < len(listed) or "low" in given or "high" in given:
        rule = "categories must be a list of texts, of whole numbers or of truth values, each once, and stand without low and high"
        raise InvalidArgument(f"{where}: {rule}, got {shown(found)}")
    return Column(name, "category", 0.0, float(len(listed) - 1), tuple(listed), missing)


def _end(value: Any, where: str) -> Any:
    if isinstance(value, str):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            raise InvalidArgument(f"{where} must be a number or a date such as 2024-01-31, got {shown(value)}") from None
    if type(value) is datetime.date:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not math.isfinite(value):
        raise InvalidArgument(f"{where} must be a finite number or a date, got {shown(value)}")
    return int(value) if isinstance(value, np.integer) else value


# -- frames of each library, from lists of values and back --------------------------------------------------------------


def _pandas(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    pandas = library("pandas")
    held: dict[str, Any] = {}
    for each, items in zip(columns, values, strict=True):
        some = each.value(each.low)  # tells the type of a column that holds nothing
        if each.kind == "float":
            held[each.name] = np.array([math.nan if v is None else v for v in [*items, some]], dtype=float)
        elif each.missing and isinstance(some, bool | int):
            held[each.name] = pandas.array([*items, some], dtype="boolean" if isinstance(some, bool) else "Int64")
        elif each.kind == "date":
            held[each.name] = np.array([*items, some], dtype="M8[us]")
        else:
            held[each.name] = pandas.Series([*items, some])
    return pandas.DataFrame(held).iloc[:-1]


def _polars(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    polars = library("polars")
    types = {float: polars.Float64, int: polars.Int64, bool: polars.Boolean, str: polars.String, datetime.date: polars.Date}
    schema = {each.name: types[type(each.value(each.low))] for each in columns}
    return polars.DataFrame(dict(zip(schema, map(list, values), strict=True)), schema=schema)


def _arrow(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    arrow = library("pyarrow")
    types = {float: arrow.float64(), int: arrow.int64(), bool: arrow.bool_(), str: arrow.string(), datetime.date: arrow.date32()}
    kinds = [types[type(each.value(each.low))] for each in columns]
    named = [each.name for each in columns]
    return arrow.table({name: arrow.array(items, kind) for name, items, kind in zip(named, values, kinds, strict=True)})


def _dict(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    def held(each: Column, items: Values) -> Any:
        if each.kind == "float":
            return np.array([math.nan if v is None else v for v in items], dtype=float)
        plain = not each.missing and type(each.value(each.low)) in (int, bool)
        return np.array(items, dtype=type(each.value(each.low))) if plain else list(items)

    return {each.name: held(each, items) for each, items in zip(columns, values, strict=True)}


def _records(columns: Sequence[Column], values: Sequence[Values]) -> Any:
    names = [each.name for each in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


FRAMES: dict[str, Callable[[Sequence[Column], Sequence[Values]], Any]] = {
    "pandas": _pandas,
    "polars": _polars,
    "arrow": _arrow,
    "dict": _dict,
    "records": _records,
}


def built(form: str, columns: Sequence[Column], values: Sequence[Values], owner: str) -> Any:
    """A frame of a library, a dict of columns or a list of records."""
    try:
        return FRAMES[form](columns, values)
    except Unheld as error:
        raise InvalidArgument(f"{owner}: {error}") from None


def lists_of(dataset: Any, form: str) -> dict[Any, list[Any]] | str:
    """The columns of a dataset as lists, or why it has none of this form."""
    wanted = {"arrow": "pyarrow"}.get(form, form)
    if library_of(dataset) not in ("", "networkx"):
        if library_of(dataset) != wanted:
            return f"it is a frame of {library_of(dataset)}, the domain has {form}"
        try:
            return values_of(apart(dataset))
        except Unheld as error:
            return str(error)
    if form == "dict" and isinstance(dataset, dict):
        held = {name: items.tolist() if isinstance(items, np.ndarray) else items for name, items in dataset.items()}
        if all(isinstance(items, list) for items in held.values()) and len({len(items) for items in held.values()}) <= 1:
            return held
        return "its columns must be arrays or lists of one length"
    if form == "records" and isinstance(dataset, list) and all(isinstance(record, dict) for record in dataset):
        names = dict.fromkeys(name for record in dataset for name in record)
        if all(len(record) == len(names) for record in dataset):
            return {name: [record[name] for record in dataset] for name in names}
        return "its records must have the same keys"
    return f"it is of type {type(dataset).__name__}, the domain has {form}"
