"""Calls of a subject, and comparison of two outputs: equal, equal up to rounding, or different."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.core.values.dataframe_backends import library
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.validation import InvalidArgument, error_text, short_repr

_ROUNDING = 1e-9  # relative difference of two floating-point numbers that is called rounding


@dataclass(frozen=True, slots=True)
class Raised:
    """Exception as an outcome."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"raises {self.text}"


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the value of a call on copies of its arguments, or Raised; warnings on unusual inputs
    are not shown.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*(copy.deepcopy(argument) for argument in arguments))
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        return Raised(type(error).__name__, error_text(error))


def difference(first: Any, second: Any) -> float:
    """Return the difference of two outputs: 0 if equal, at most 1e-9 if equal up to rounding, 1 or
    more otherwise.
    """
    if isinstance(first, Raised) or isinstance(second, Raised):
        same = (
            isinstance(first, Raised) and isinstance(second, Raised) and first.name == second.name
        )
        return 0.0 if same else math.inf
    kinds = {_frame(first), _frame(second)}
    if kinds & {"pandas", "polars"}:
        return _of_frames(first, second) if len(kinds) == 1 else math.inf
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if list(first) != list(second):
            return math.inf
        return max((difference(first[key], second[key]) for key in first), default=0.0)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            return math.inf
        return max(map(difference, first, second), default=0.0)
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return _of_arrays(np.asarray(first), np.asarray(second))
    return _of_scalars(first, second)


def _frame(value: Any) -> str:
    """Return the library of a frame or a column of a frame, ``dict`` for a dict of columns, and an
    empty text for other values.
    """
    if isinstance(value, dict) and value and all(isinstance(each, list) for each in value.values()):
        return "dict" if len(set(map(len, value.values()))) == 1 else ""
    home = type(value).__module__.partition(".")[0]
    return home if home in ("pandas", "polars") else ""


def _of_frames(first: Any, second: Any) -> float:
    """Return the difference of two frames or columns of one library, by column and without the
    labels of the rows.
    """
    if type(first) is not type(second):
        return math.inf
    if len(first.shape) == 1:
        return difference(_listed(first), _listed(second))
    return difference(
        *({name: _listed(each[name]) for name in each.columns} for each in (first, second))
    )


def _listed(column: Any) -> list[Any]:
    """Return the values of a column, with None for missing values other than NaN."""
    return [
        None if type(value).__name__ in ("NAType", "NaTType") else value
        for value in column.to_list()
    ]


def _of_arrays(first: Any, second: Any) -> float:
    if first.shape != second.shape:
        return math.inf
    return max(map(_of_scalars, first.ravel().tolist(), second.ravel().tolist()), default=0.0)


def _of_scalars(first: Any, second: Any) -> float:
    """Return the relative difference of two numbers; other values are equal or not."""
    if isinstance(first, float | np.floating) and isinstance(second, float | np.floating):
        a, b = float(first), float(second)
        if a == b or (math.isnan(a) and math.isnan(b)):
            return 0.0
        apart = (
            abs(a - b) / max(abs(a), abs(b)) if math.isfinite(a) and math.isfinite(b) else math.inf
        )
        return apart if apart <= _ROUNDING else max(apart, 1.0)
    return _of_objects(first, second)


def _of_objects(first: Any, second: Any) -> float:
    try:
        return 0.0 if to_jsonable(first) == to_jsonable(second) else math.inf
    except InvalidArgument:
        return 0.0 if repr(first) == repr(second) else math.inf


def concatenated(parts: Sequence[Any]) -> Any:
    """Return the concatenation of lists, tuples, arrays or frames. Raise InvalidArgument for other
    datasets.
    """
    first = parts[0]
    kind = _frame(first)
    if kind == "pandas":
        return library(kind).concat(parts, ignore_index=True)
    if kind == "polars":
        return library(kind).concat(parts)
    if kind == "dict":
        return {name: concatenated([part[name] for part in parts]) for name in first}
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if isinstance(first, list | tuple):
        return type(first)(item for part in parts for item in part)
    raise InvalidArgument(
        f"datasets must be lists, tuples, arrays or frames with rows, got {short_repr(first)}"
    )


def rows(dataset: Any, order: Sequence[int]) -> Any:
    """Return the rows of a dataset in this order. Raise InvalidArgument for a dataset
    without rows.
    """
    kind = _frame(dataset)
    if kind == "pandas":
        return dataset.iloc[list(order)].reset_index(drop=True)
    if kind == "polars":
        return dataset[list(order)]
    if kind == "dict":
        return {name: rows(column, order) for name, column in dataset.items()}
    if isinstance(dataset, np.ndarray) and dataset.ndim > 0:
        return dataset[list(order)]
    if isinstance(dataset, list | tuple):
        return type(dataset)(dataset[i] for i in order)
    raise InvalidArgument(
        f"datasets must be lists, tuples, arrays or frames with rows, got {short_repr(dataset)}"
    )


def row_count(dataset: Any) -> int:
    """Return the number of rows of a dataset; 0 if it has none."""
    try:
        return len(next(iter(dataset.values()))) if _frame(dataset) == "dict" else len(dataset)
    except TypeError:
        return 0
