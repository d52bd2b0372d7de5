"""Exact numbers of outputs and maps, and metrics between datasets and between outputs, by name, in
exact arithmetic.

A distance between inputs must not be underestimated, one between outputs must not be overestimated.
So inputs that differ in the sign of a zero or in a time zone differ, and outputs that Python finds
equal are equal (0.0 and -0.0, 1 and 1.0, NaN and NaN)."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Rational
from typing import Any

from dpwitness.core.datasets.records import exact as exact_key
from dpwitness.core.domains.spaces import to_f32
from dpwitness.core.values.dataframe_backends import library_name, to_parts, values_of
from dpwitness.core.values.validation import InvalidArgument, did_you_mean, require_that, short_repr

Exact = Fraction | int | float  # a float is an infinity


class Incomparable(Exception):
    """Error of two outputs to which a metric does not apply; the text says why."""


def plain(value: Any) -> Any:
    """Return an output in Python's types: arrays, series and frames become lists, numbers and dicts
    of lists.
    """
    kind = type(value)
    if kind in (int, float, str, bool, list, type(None)):
        return value
    if library_name(value):
        return values_of(to_parts(value))
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(value, method):
            return getattr(value, method)()
    return value


def exact(value: Any) -> Exact:
    """Return a number without rounding. Raise Incomparable for NaN and for other values."""
    if type(value) is int:
        return value
    if isinstance(value, float | Decimal):
        if is_missing(value):
            raise Incomparable("NaN is not a number")
        return Fraction(value) if math.isfinite(value) else float(value)
    if isinstance(value, bool | int | Rational):
        return Fraction(value)
    if isinstance(value, datetime.timedelta):
        return Fraction(value // datetime.timedelta(microseconds=1), 10**6)
    scalar = plain(value)
    if scalar is not value:
        return exact(scalar)
    raise Incomparable(f"a number is needed, got {type(value).__name__}")


def as_float(value: Exact) -> float:
    """Return an exact number as a float; an infinity beyond the floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or a missing value of a library, which no noise turns
    into a number.
    """
    if isinstance(value, Decimal):
        return value.is_nan()
    return (
        value is None
        or (isinstance(value, float) and value != value)
        or type(value).__name__ in ("NAType", "NaTType")
    )


def gap(first: Any, second: Any) -> Exact:
    """Return ``|first - second|`` exactly. Two missing values are equal; a missing value is
    infinitely far from a number.
    """
    if type(first) is int and type(second) is int:
        return abs(first - second)
    missing = is_missing(first) + is_missing(second)
    if missing:
        return 0 if missing == 2 else math.inf
    left, right = exact(first), exact(second)
    if isinstance(left, float) or isinstance(right, float):
        return 0 if left == right else math.inf
    return abs(Fraction(left) - Fraction(right))


def rounds(excess: Exact, bound: Exact, root: int, outputs: list[Any]) -> bool:
    """Return whether the relative excess of a distance over its bound may come from floating-point
    rounding in the outputs.

    Outputs without floats are exact, and so is a whole bound. Otherwise, a relative excess of at
    most 1e-9 (5e-7 if all floats have 32 bits) is attributed to rounding; so are four units in the
    last place of the largest output, if they are at most a thousandth of the bound.
    """
    floats = [each for each in _flat_numbers(outputs) if isinstance(each, float)]
    exact_numbers = not floats and Fraction(bound).denominator == 1
    if isinstance(excess, float) or not bound > 0 or exact_numbers:
        return False
    finite = [each for each in floats if math.isfinite(each)]
    narrow = (
        bool(floats)
        and all(to_f32(each) == each or each != each for each in floats)
        # more than 20 significant bits, as most results of rounding have
        and any(not (math.frexp(each)[0] * 2**20).is_integer() for each in finite)
    )
    relative = Fraction(excess) / Fraction(bound) / root
    unit = Fraction(math.ulp(max(map(abs, finite), default=0.0))) * (2**29 if narrow else 1)
    return relative <= Fraction(5e-7 if narrow else 1e-9) or (
        relative <= Fraction(1e-3) and relative * Fraction(bound) <= 4 * unit
    )


def _flat_numbers(value: Any) -> list[Any]:
    """Return the numbers in nested lists, tuples and dicts."""
    value = list(value.values()) if isinstance(value, dict) else plain(value)
    if isinstance(value, list | tuple):
        return [number for part in value for number in _flat_numbers(part)]
    return [value] if isinstance(value, int | float) else []


Key = Callable[[Any], Any]
# exact distance of two values to the power `root` of a metric, with a key that identifies rows
Between = Callable[[Any, Any, Key], Exact]

# rows of lists with an exact edit distance; longer ones are compared as multisets, which are no
# further apart
LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric between datasets or outputs.

    Distances are to the power `root`, which keeps the square root of the L2 norm out of the
    comparison. `column` is the column of a frame by whose values rows are grouped.
    """

    name: str
    between: Between
    root: int = 1
    column: str = ""

    def measure(self, first: Any, second: Any, strict: bool = False) -> Exact:
        """Return the exact distance to the power `root`; `strict` for inputs. Raise Incomparable if
        the metric does not apply.
        """
        return self.between(first, second, exact_key if strict else output_key)

    def estimate(self, first: Any, second: Any) -> float:
        """Return the distance as a float, with a relative error below 1e-9, or an upper bound of
        the distance.
        """
        if self.name == "absolute" and type(first) is float and type(second) is float:
            difference = abs(first - second)
            return math.inf if difference != difference else difference
        distance = as_float(self.measure(first, second))
        return math.sqrt(distance) if self.root == 2 else distance


def output_key(value: Any) -> Any:
    """Return a hashable key of a value in an output, equal for values that Python finds equal."""
    kind = type(value)
    if kind in (int, str, bool):
        return value
    if is_missing(value):
        return "missing", "NaN" if isinstance(value, float) else None
    if isinstance(value, list | tuple):
        return tuple(map(output_key, value))
    if isinstance(value, dict):
        return frozenset((output_key(key), output_key(part)) for key, part in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(map(output_key, value))
    found = plain(value)
    return value if found is value or type(found) is kind else output_key(found)


def rows_of(dataset: Any) -> list[Any]:
    """Return the rows of a list, an array, or a frame, which is a dict of columns of one length.
    Raise Incomparable for anything else.
    """
    found = plain(dataset)
    if isinstance(found, dict):
        columns = [
            plain(column) for _, column in sorted(found.items(), key=lambda item: str(item[0]))
        ]
        if (
            not all(isinstance(column, list | tuple) for column in columns)
            or len(set(map(len, columns))) > 1
        ):
            raise Incomparable("a frame is needed: a dict of columns of one length")
        found = list(zip(*columns, strict=True))
    if isinstance(found, list | tuple):
        return list(found)
    raise Incomparable(f"a list, an array or a frame is needed, got {type(dataset).__name__}")


def _trimmed(first: list[Any], second: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return two lists without their common first and last entries."""
    start, stop = 0, min(len(first), len(second))
    while start < stop and first[start] == second[start]:
        start += 1
    end = 0
    while end < stop - start and first[-1 - end] == second[-1 - end]:
        end += 1
    return first[start : len(first) - end], second[start : len(second) - end]


def _of_rows(count: Callable[[list[Any], list[Any]], Exact]) -> Between:
    """Return the distance of two datasets whose lists of keys have the distance `count`."""

    def between(first: Any, second: Any, key: Key) -> Exact:
        left, right = rows_of(first), rows_of(second)
        if key is output_key and left == right:
            return 0
        return count([key(row) for row in left], [key(row) for row in right])

    return between


def _symmetric(left: list[Any], right: list[Any]) -> int:
    """Return the size of the symmetric difference of two multisets of rows."""
    left, right = _trimmed(left, right)
    counts = Counter(left)
    counts.subtract(right)
    return sum(abs(count) for count in counts.values())


def _insert_delete(left: list[Any], right: list[Any]) -> int:
    """Return the smallest number of inserted and deleted rows that turn one list into the other."""
    left, right = _trimmed(left, right)
    if len(left) * len(right) > LONGEST**2:
        return _symmetric(left, right)
    row = [0] * (len(right) + 1)  # lengths of longest common subsequences
    for entry in left:
        before, row = row, [0]
        for j, other in enumerate(right):
            row.append(before[j] + 1 if entry == other else max(before[j + 1], row[j]))
    return len(left) + len(right) - 2 * row[-1]


def _replaced(left: list[Any], right: list[Any]) -> Exact:
    """Return the number of replaced rows, in any order; infinite for different numbers of rows."""
    return _symmetric(left, right) // 2 if len(left) == len(right) else math.inf


def _hamming(left: list[Any], right: list[Any]) -> Exact:
    """Return the number of positions with different rows; infinite for different numbers of
    rows.
    """
    if len(left) != len(right):
        return math.inf
    return sum(1 for one, other in zip(left, right, strict=True) if one != other)


def _norm(join: Callable[[Sequence[Exact]], Exact], root: int = 1) -> Between:
    """Return a norm of the difference of two vectors: lists or arrays of one shape, or dicts, in
    which a missing key counts as 0.
    """

    def between(first: Any, second: Any, _: Key) -> Exact:
        gaps = _gaps(plain(first), plain(second))
        if gaps is None or math.inf in gaps:
            return math.inf
        return join([each**root for each in gaps]) if gaps else 0

    return between


def _gaps(first: Any, second: Any) -> list[Exact] | None:
    """Return the exact differences of the entries of two vectors; None for vectors of different
    shapes.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        entries = [(first.get(key, 0), second.get(key, 0)) for key in {**first, **second}]
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            return None
        entries = list(zip(first, second, strict=True))
    elif not isinstance(first, list | tuple | dict) and not isinstance(second, list | tuple | dict):
        return [gap(first, second)]
    elif is_missing(first) or is_missing(second):
        return None
    else:
        raise Incomparable(
            f"two vectors are needed, got {type(first).__name__} and {type(second).__name__}"
        )
    found: list[Exact] = []
    for one, other in entries:
        parts = _gaps(plain(one), plain(other))
        if parts is None:
            return None
        found += parts
    return found


def _grouped(inner: Metric, join: Callable[[Iterator[Exact]], Exact], column: str = "") -> Between:
    """Return the distances of all groups, joined.

    Groups are the values of a dict or a list, or the rows of a frame by their value in a column.
    """

    def between(first: Any, second: Any, key: Key) -> Exact:
        left, right = (_groups(plain(side), column, key) for side in (first, second))
        if isinstance(first, list) and len(left) != len(right):
            return math.inf
        # an absent group is empty, or 0 if groups are numbers
        empty: Any = 0 if inner.name == "absolute" else []
        for group in {**left, **right}:
            for side in (left, right):
                side[group] = empty if side.get(group) is None else side[group]
        return join(inner.between(left[group], right[group], key) for group in left)

    return between


def _groups(value: Any, column: str, key: Key) -> dict[Any, Any]:
    """Return groups by their keys. Raise Incomparable for a value without groups."""
    if not column and isinstance(value, list | tuple):
        return dict(enumerate(value))
    if not isinstance(value, dict) or (column and column not in value):
        needed = f"a frame with the column {column!r}" if column else "a dict or a list of groups"
        raise Incomparable(f"{needed} is needed, got {type(value).__name__}")
    if not column:
        return dict(value)
    found: dict[Any, list[Any]] = {}
    for owner, row in zip(plain(value[column]), rows_of(value), strict=True):
        found.setdefault(key(owner), []).append(row)
    return found


_OF_ROWS: dict[str, Callable[[list[Any], list[Any]], Exact]] = {
    "symmetric": _symmetric,
    "insert-delete": _insert_delete,
    "change-one": _replaced,
    "hamming": _hamming,
}
_NAMED = {
    metric.name: metric
    for metric in (
        *(Metric(name, _of_rows(count)) for name, count in _OF_ROWS.items()),
        Metric("discrete", lambda first, second, key: int(key(first) != key(second))),
        Metric("absolute", lambda first, second, _: gap(plain(first), plain(second))),
        Metric("l1", _norm(sum)),
        Metric("l2", _norm(sum, 2), 2),
        Metric("linf", _norm(max)),
    )
}
METRICS = (*_NAMED, "per-group-sum:METRIC", "by:COLUMN:METRIC")


def metric_named(name: Any, argument: str, owner: str) -> Metric:
    """Return the metric of this name. Raise InvalidArgument if there is none."""
    prefix, _, inner = name.partition(":") if isinstance(name, str) else ("", "", "")
    column, _, rest = inner.rpartition(":")
    if prefix in _NAMED and prefix == name:
        return _NAMED[prefix]
    if prefix == "per-group-sum" and inner:
        found = metric_named(inner, argument, owner)
        require_that(
            found.root == 1, f"{argument} must not sum square roots, got {short_repr(name)}", owner
        )
        return Metric(name, _grouped(found, sum))
    if prefix == "by" and column and rest in _OF_ROWS:
        return Metric(name, _grouped(_NAMED[rest], partial(max, default=0), column), column=column)
    raise InvalidArgument(
        f"{owner}: {argument} must be one of {', '.join(METRICS)}, got {short_repr(name)}"
        f"{did_you_mean(name, METRICS)}"
    )
