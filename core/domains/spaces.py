"""Typed inputs of transformations: element types with their adversarial values, and scalars,
vectors and frames of them, as sets of datasets and as JSON.
"""

from __future__ import annotations

import datetime
import math
import random
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dpwitness.core.datasets.records import exact
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_one_of,
    require_type,
    short_repr,
)

# smallest and largest value of each type of numbers
_RANGES: dict[str, tuple[Any, Any]] = {
    **{f"i{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64, 128)},
    **{f"u{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64, 128)},
    "f32": (-math.inf, math.inf),
    "f64": (-math.inf, math.inf),
}
NUMBER_TYPES = tuple(_RANGES)
FLOAT_TYPES = ("f32", "f64")
_CLASSES: dict[str, type] = {
    "bool": bool,
    **dict.fromkeys(NUMBER_TYPES, int),
    **dict.fromkeys(FLOAT_TYPES, float),
    "str": str,
    "date": datetime.date,
    "time": datetime.time,
    "datetime": datetime.datetime,
    "duration": datetime.timedelta,
}
DTYPES = (*_CLASSES, "category")
_POWERS = (7, 8, 15, 16, 24, 31, 32, 53, 63, 64, 127, 128)
_INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    10,
    *(n for p in _POWERS for n in (2**p - 1, 2**p, 2**p + 1, -(2**p), -(2**p) - 1)),
)
_FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 0.1, -0.5, 1.5, 2.5, 2.0, 10.0, 1 / 3),
    *(
        math.inf,
        -math.inf,
        1.7976931348623157e308,
        -1.7976931348623157e308,
        5e-324,
        -5e-324,
        2.2250738585072014e-308,
    ),
    *(float(2**p) for p in _POWERS if p not in (7, 8, 15, 16)),
    *(
        127.5,
        128.0,
        255.5,
        256.0,
        -129.0,
        32768.0,
        -32769.0,
        2.0**53 + 2,
        -(2.0**63),
        -(2.0**31) - 1,
        1e16,
        1e17,
        1e308,
        1e-300,
    ),
)
_TEXTS = (
    *(
        "",
        "a",
        "b",
        " ",
        "A",
        "aa",
        "0",
        "1",
        "-1",
        "-0",
        "1.5",
        "1e400",
        "nan",
        "NaN",
        "inf",
        "null",
        "None",
        "True",
        "true",
        "false",
    ),
    *(
        "2024-02-29",
        "2023-02-29",
        "2024-13-01",
        "2024-00-10",
        "0000-01-01",
        "9999-12-31",
        "10000-01-01",
        "1969-12-31",
        "24/02/29",
        "20240229",
    ),
    *(
        "2024-01-01T00:00:00",
        "2024-01-01T24:00:00",
        "2016-12-31T23:59:60",
        "2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00+14:00",
    ),
    *(
        "2024-03-31T02:30:00",
        "12:00",
        "25:00",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "256",
        "128",
        "1_000",
    ),
    *(
        "1,000",
        "0x10",
        "\u0661",
        "\u00e9",
        "e\u0301",
        "\u0130",
        "\u00df",
        "\U0001f600",
        "\x00",
        "\n",
        ",",
        '"',
        "'",
        "\\",
        "a\x00b",
        "a" * 300,
    ),
)
_DAYS = (
    "1970-01-01 0001-01-01 9999-12-31 1969-12-31 2024-02-29 2023-02-28 2023-03-01 1900-01-01 "
    "2000-02-29 2262-04-12 1677-09-20 2038-01-20"
)
_DATES = tuple(map(datetime.date.fromisoformat, _DAYS.split()))
_TIMES = tuple(
    datetime.time.fromisoformat(each)
    for each in ("00:00:00", "23:59:59.999999", "12:00:00", "00:00:00.000001", "02:30:00")
)
_DATETIMES = (
    *(datetime.datetime.combine(day, datetime.time()) for day in _DATES),
    *(
        datetime.datetime.fromisoformat(f"{day}T{time}")
        for day in ("2024-03-31", "2024-10-27", "2024-03-10", "2024-11-03")
        for time in ("01:30", "02:30")
    ),
    *(
        datetime.datetime.max,
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(2016, 12, 31, 23, 59, 59),
    ),
    datetime.datetime(2262, 4, 11, 23, 47, 16, 854776),
)
_DURATIONS = (
    *(
        datetime.timedelta(0),
        datetime.timedelta(microseconds=1),
        datetime.timedelta(microseconds=-1),
        datetime.timedelta(days=1),
    ),
    *(
        datetime.timedelta.max,
        datetime.timedelta.min,
        datetime.timedelta(days=106752),
        datetime.timedelta(days=-106752),
    ),
)
_ZONES = (
    datetime.UTC,
    *(datetime.timezone(datetime.timedelta(minutes=minutes)) for minutes in (840, -720, 345)),
)

_EDGES: dict[str, tuple[Any, ...]] = {
    "bool": (False, True),
    **dict.fromkeys(NUMBER_TYPES, _INTEGERS),
    **dict.fromkeys(FLOAT_TYPES, _FLOATS),
    "str": _TEXTS,
    "date": _DATES,
    "time": _TIMES,
    "datetime": _DATETIMES,
    "duration": _DURATIONS,
    "category": (),
}


@dataclass(frozen=True, slots=True)
class Atom:
    """Element type of an input space.

    Parameters
    ----------
    dtype : str
        ``bool``, ``i8`` to ``i128``, ``u8`` to ``u128``, ``f32``, ``f64``, ``str``, ``date``,
        ``time``, ``datetime``, ``duration`` or ``category``. Values are Python's: an ``f32`` is a
        float that 32 bits represent.
    bounds : (low, high), optional
        Smallest and largest value; None for an end without a bound. Without bounds, floats include
        the infinities.
    nullable : bool
        Whether None is a value.
    nan : bool
        Whether NaN is a value of a float type.
    categories : tuple
        All values of a ``category``. For another dtype, values that the search tries in addition.
    zone : bool
        Whether a ``datetime`` has a time zone, as an offset from UTC.

    Raises
    ------
    InvalidArgument
        If the dtype is unknown, or the bounds or categories are not values of the dtype.
    """

    dtype: str
    bounds: tuple[Any, Any] | None = None
    nullable: bool = False
    nan: bool = False
    categories: tuple[Any, ...] = ()
    zone: bool = False

    def __post_init__(self) -> None:
        require_one_of("dtype", self.dtype, DTYPES, "Atom")
        for name in ("nullable", "nan", "zone"):
            require_type(name, getattr(self, name), bool, "be True or False", "Atom")
        if self.nan and self.dtype not in FLOAT_TYPES:
            raise InvalidArgument(
                f"Atom: nan must be False for {self.dtype}: only f32 and f64 have NaN"
            )
        if self.zone and self.dtype != "datetime":
            raise InvalidArgument(
                f"Atom: zone must be False for {self.dtype}: only datetime has time zones"
            )
        object.__setattr__(self, "categories", tuple(self.categories))
        if self.dtype == "category" and not self.categories:
            raise InvalidArgument("Atom: categories must list the values of a category, got none")
        if self.bounds is not None:
            object.__setattr__(self, "bounds", self._checked_bounds(self.bounds))
        for value in self.categories if self.dtype != "category" else ():
            if not self.contains(value):
                raise InvalidArgument(
                    f"Atom: categories must be values of {self.dtype}, got {short_repr(value)}"
                )

    def _checked_bounds(self, bounds: Any) -> tuple[Any, Any]:
        """Return the bounds as values of the dtype. Raise InvalidArgument unless they are two
        values in order.
        """
        if (
            isinstance(bounds, list | tuple)
            and len(bounds) == 2
            and self.dtype not in ("category", "bool")
        ):
            low, high = (
                usual
                if end is None
                else float(end)
                if self.dtype in FLOAT_TYPES and isinstance(end, int)
                else end
                for end, usual in zip(bounds, _RANGES.get(self.dtype, (None, None)), strict=True)
            )
            if self._has_type(low) and self._has_type(high) and low <= high:
                return low, high
        raise InvalidArgument(
            f"Atom: bounds must be two values (low, high) of {self.dtype}, low first, got "
            f"{short_repr(bounds)}"
        )

    @property
    def range(self) -> tuple[Any, Any] | None:
        """Smallest and largest value; None if there are neither bounds nor limits of the type."""
        return _RANGES.get(self.dtype) if self.bounds is None else self.bounds

    def _has_type(self, value: Any) -> bool:
        """Return whether a value has the Python type of the dtype, its precision and time zone."""
        kind: type = type(value)
        return (
            kind is _CLASSES[self.dtype]
            and (self.dtype != "f32" or value != value or to_f32(value) == value)
            and (getattr(value, "tzinfo", None) is not None) is self.zone
        )

    def contains(self, value: Any) -> bool:
        """Return whether a value belongs to the element type."""
        if value is None:
            return self.nullable
        if self.dtype == "category":
            return any(type(value) is type(each) and value == each for each in self.categories)
        if not self._has_type(value):
            return False
        if value != value:
            return self.nan
        return self.range is None or bool(self.range[0] <= value <= self.range[1])

    def within(self, other: Atom) -> bool:
        """Return whether all values belong to `other` too."""
        if (self.dtype, self.zone) != (other.dtype, other.zone):
            return False
        ends = self.categories if self.dtype == "category" else self.range
        return (
            self.nullable <= other.nullable
            and self.nan <= other.nan
            and (other.range is None if ends is None else all(map(other.contains, ends)))
        )

    def values(self, hints: Sequence[Any] = ()) -> list[Any]:
        """Return adversarial values: first missing values and the ends of the range, then `hints`,
        which are values to try in addition, and the limits of other types.
        """
        found: list[Any] = [None, math.nan, *(self.range or ())]
        if self.range is not None and self.dtype in FLOAT_TYPES:
            low, high = self.range
            found += [math.nextafter(low, high), math.nextafter(high, low), (low + high) / 2]
        elif self.range is not None and self.dtype in NUMBER_TYPES:
            low, high = self.range
            found += [low + 1, high - 1, (low + high) // 2]
        found += [*self.categories, *hints]
        found += [float(each) for each in hints if type(each) is int and abs(each) < 2**53]
        edges = _EDGES[self.dtype]
        found += (
            [moment.replace(tzinfo=zone) for moment in edges for zone in _ZONES]
            if self.zone
            else edges
        )
        if self.dtype == "f32":
            found = [to_f32(value) if isinstance(value, float) else value for value in found]
        return list({exact(value): value for value in found if self.contains(value)}.values())

    def draw(self, rng: random.Random, values: Sequence[Any]) -> Any:
        """Return a random value: one of `values`, a small value, or any value in the range."""
        if rng.random() < 0.5 or self.dtype in ("bool", "category"):
            return rng.choice(values)
        ends = self.range
        value: Any
        if ends is not None and self.dtype in FLOAT_TYPES:
            kind = rng.random()
            if kind < 0.4 and math.isfinite(ends[1] - ends[0]):
                value = rng.uniform(*ends)
            elif kind < 0.7:
                value = rng.randint(-40, 40) / 4
            else:
                value = math.ldexp(rng.uniform(-1, 1), rng.choice((0, 10, 60, 200, 1023, -1040)))
            value = to_f32(value) if self.dtype == "f32" else value
        elif ends is not None and self.dtype in NUMBER_TYPES:
            value = rng.randint(-9, 9) if rng.random() < 0.5 else rng.randint(*ends)
        elif self.dtype == "str":
            value = "".join(rng.choice("ab0.-: \u00e9") for _ in range(rng.randrange(6)))
        else:
            value = datetime.timedelta(
                days=rng.randint(-30000, 30000), microseconds=rng.randrange(10**11)
            )
            if self.dtype != "duration":
                value += datetime.datetime(1970, 1, 1, tzinfo=rng.choice(_ZONES))
                value = value if self.zone else value.replace(tzinfo=None)
            if self.dtype in ("date", "time"):
                value = getattr(value, self.dtype)()
        return value if self.contains(value) else rng.choice(values)

    def simpler(self, value: Any) -> Iterator[Any]:
        """Yield values of the element type that are simpler than `value`, the simplest first."""
        candidates: list[Any]
        if isinstance(value, int | float):
            halves = [math.trunc(value), math.trunc(value / 2)] if math.isfinite(value) else []
            candidates = [type(value)(each) for each in (0, 1, -1, 2, *(self.range or ()), *halves)]
        elif isinstance(value, str):
            candidates = ["", "a", value[: len(value) // 2], value[1:], value[:-1]]
        else:
            candidates = [] if value is None else self.values()[:3]
        for each in candidates:
            if self.contains(each) and _complexity(each) < _complexity(value):
                yield each

    def to_json(self) -> Json:
        """Return the element type as JSON, as `space_of` reads it."""
        return {
            "dtype": self.dtype,
            "bounds": None if self.bounds is None else to_jsonable(list(self.bounds)),
            "nullable": self.nullable,
            "nan": self.nan,
            **({"zone": True} if self.zone else {}),
            **({"categories": to_jsonable(list(self.categories))} if self.categories else {}),
        }


def _atom_of(found: Json, owner: str) -> Atom:
    """Return the element type from its JSON form; dates and times may be ISO texts. Raise
    InvalidArgument if the form is invalid.
    """
    known = ("dtype", "bounds", "nullable", "nan", "categories", "zone")
    for key in found:
        if key not in known:
            raise InvalidArgument(
                f"{owner}: an element type has the keys {', '.join(known)}, got {short_repr(key)}"
            )
    fields = {
        key: from_jsonable(value, f"{owner}.{key}")
        for key, value in found.items()
        if value is not None
    }
    kind = _CLASSES.get(str(fields.get("dtype")))
    if kind in (datetime.date, datetime.time, datetime.datetime) and "bounds" in fields:
        try:
            fields["bounds"] = tuple(
                kind.fromisoformat(each) if isinstance(each, str) else each
                for each in fields["bounds"]
            )
        except (ValueError, TypeError) as error:
            raise InvalidArgument(f"{owner}: bounds must be ISO dates or times: {error}") from None
    if "dtype" not in fields:
        raise InvalidArgument(f"{owner}: an element type needs a dtype, one of {', '.join(DTYPES)}")
    return Atom(**fields)


def to_f32(value: float) -> float:
    """Return the nearest float of 32 bits."""
    with np.errstate(all="ignore"):
        return float(np.float32(value))


def _complexity(value: Any) -> tuple[float, float]:
    """Return a measure of how hard a value is to read."""
    if isinstance(value, int | float):
        negative = 0.5 if math.copysign(1.0, value) < 0 else 0.0
        whole = not isinstance(value, float) or value.is_integer()
        return (
            0.0 if whole and abs(value) < 10**6 else float(len(repr(value))),
            abs(value) + negative if value == value else math.inf,
        )
    return (float(len(value)), 0.0) if isinstance(value, str) else (50.0, 0.0)


class InputSpace(ABC):
    """Set of datasets of typed columns of one length."""

    form: ClassVar[str]
    columns: Mapping[str, Atom]  # a scalar or vector is a column without a name
    size: int | None = None

    def _require_size(self) -> None:
        if self.size is not None:
            require_integer("size", self.size, type(self).__name__, least=0, most=10**6)

    def _split(self, dataset: Any) -> list[Any] | None:
        """Return the columns of a dataset; None for anything else."""
        if self.form != "frame":
            return [[dataset] if self.form == "scalar" else dataset]
        known = isinstance(dataset, dict) and list(dataset) == list(self.columns)
        return list(dataset.values()) if known else None

    def contains(self, dataset: Any) -> bool:
        """Return whether a dataset belongs to the space."""
        columns = self._split(dataset)
        if columns is None or not all(isinstance(column, list) for column in columns):
            return False
        (count, *others) = {len(column) for column in columns}
        return (
            not others
            and self.size in (None, count)
            and all(
                all(map(atom.contains, column))
                for atom, column in zip(self.columns.values(), columns, strict=True)
            )
        )

    def rows(self, dataset: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a dataset of the space."""
        return list(zip(*(self._split(dataset) or ()), strict=True))

    def build(self, rows: Sequence[tuple[Any, ...]]) -> Any:
        """Return a new dataset with these rows."""
        columns = list(map(list, zip(*rows, strict=True) if rows else [()] * len(self.columns)))
        if self.form == "frame":
            return dict(zip(self.columns, columns, strict=True))
        return columns[0][0] if self.form == "scalar" else columns[0]

    def within(self, other: InputSpace) -> bool:
        """Return whether all datasets belong to `other` too."""
        return (
            self.form == other.form
            and list(self.columns) == list(other.columns)
            and other.size in (None, self.size)
            and all(atom.within(other.columns[name]) for name, atom in self.columns.items())
        )

    def to_json(self) -> Json:
        """Return the space as JSON, the inverse of `space_of`."""
        named = {name: atom.to_json() for name, atom in self.columns.items()}
        return {
            "type": self.form,
            **(named[""] if self.form != "frame" else {"columns": named}),
            **({"size": self.size} if self.form != "scalar" else {}),
        }


@dataclass(frozen=True)
class VectorOf(InputSpace):
    """Lists of values of one element type.

    Parameters
    ----------
    atom : Atom
        Element type.
    size : int, optional
        Number of values. Default: any number.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    """

    form = "vector"
    atom: Atom
    size: int | None = None

    def __post_init__(self) -> None:
        require_type("atom", self.atom, Atom, "be an Atom", type(self).__name__)
        self._require_size()

    @property
    def columns(self) -> Mapping[str, Atom]:  # type: ignore[override]
        """The only column, which has no name."""
        return {"": self.atom}


@dataclass(frozen=True)
class ScalarOf(VectorOf):
    """Single values of an element type, as the only row of a dataset.

    Parameters
    ----------
    atom : Atom
        Element type.

    Raises
    ------
    InvalidArgument
        If the argument is not an Atom.
    """

    form = "scalar"
    size: int | None = field(init=False, repr=False, default=1)


@dataclass(frozen=True)
class FrameOf(InputSpace):
    """Frames, as dicts of columns of one length.

    Parameters
    ----------
    columns : mapping of str to Atom
        Element type of each column.
    size : int, optional
        Number of rows. Default: any number.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    """

    form = "frame"
    columns: Mapping[str, Atom]
    size: int | None = None

    def __post_init__(self) -> None:
        found = self.columns
        if (
            not isinstance(found, Mapping)
            or not found
            or not all(isinstance(k, str) and isinstance(v, Atom) for k, v in found.items())
        ):
            raise InvalidArgument(
                "FrameOf: columns must be a dict of names and Atoms, at least one, got "
                f"{short_repr(found)}"
            )
        object.__setattr__(self, "columns", dict(found))
        self._require_size()


def space_of(found: Any, owner: str = "input") -> InputSpace:
    """Return the input space from its JSON form.

    Parameters
    ----------
    found : dict
        ``{"type": "vector", "dtype": "f64", "bounds": [0, 10], "nullable": false, "nan": false,
        "size": null}``; for a ``scalar``, without a size; for a ``frame``, with ``"columns": {name:
        element type}``.
    owner : str
        Name of the value in messages.

    Returns
    -------
    InputSpace
        The space.

    Raises
    ------
    InvalidArgument
        If the form is invalid.
    """
    if not isinstance(found, dict) or found.get("type") not in ("vector", "scalar", "frame"):
        raise InvalidArgument(
            f'{owner} must be a dict with the type "vector", "scalar" or "frame", got '
            f"{short_repr(found)}"
        )
    fields = {key: value for key, value in found.items() if key not in ("type", "size")}
    size = found.get("size")
    if found["type"] == "scalar":
        if size is not None:
            raise InvalidArgument(f"{owner}: a scalar has no size, got {short_repr(size)}")
        return ScalarOf(_atom_of(fields, owner))
    if found["type"] == "vector":
        return VectorOf(_atom_of(fields, owner), size)
    if set(fields) != {"columns"} or not isinstance(fields["columns"], dict):
        raise InvalidArgument(
            f"{owner}: a frame has the keys type, columns and size, got "
            f"{', '.join(map(str, found))}"
        )
    return FrameOf(
        {name: _atom_of(dict(atom), f"{owner}.{name}") for name, atom in fields["columns"].items()},
        size,
    )
