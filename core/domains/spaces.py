"""Typed inputs of transformations: element types with their adversarial values, and scalars,
vectors and frames of them, as sets of datasets and as JSON.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.core.datasets.records import exact
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_one_of,
    require_rules,
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

    def __post_init__(self) -> None:
        require_one_of("dtype", self.dtype, DTYPES, "Atom")
        for name in ("nullable", "nan"):
            require_type(name, getattr(self, name), bool, "be True or False", "Atom")
        object.__setattr__(self, "categories", tuple(self.categories))
        if self.bounds is not None:
            object.__setattr__(self, "bounds", self._checked_bounds(self.bounds))
        is_category = self.dtype == "category"
        wrong = [] if is_category else [v for v in self.categories if not self.contains(v)]
        require_rules(
            "Atom",
            (
                not self.nan or self.dtype in FLOAT_TYPES,
                "nan must be False except for f32 and f64",
                True,
            ),
            (
                not is_category or self.categories,
                "categories must list the values of a category",
                (),
            ),
            (not wrong, f"categories must be values of {self.dtype}", wrong),
        )

    def _checked_bounds(self, bounds: Any) -> tuple[Any, Any]:
        """Return the bounds as values of the dtype. Raise InvalidArgument unless they are two
        values in order.
        """
        ordered = self.dtype not in ("category", "bool")
        ends = list(bounds) if ordered and isinstance(bounds, list | tuple) else []
        usual = _RANGES.get(self.dtype, (None, None))
        ends = [usual[i % 2] if end is None else end for i, end in enumerate(ends)]
        if self.dtype in FLOAT_TYPES:
            ends = [float(end) if isinstance(end, int) else end for end in ends]
        if len(ends) == 2 and all(map(self._has_type, ends)) and ends[0] <= ends[1]:
            return ends[0], ends[1]
        raise InvalidArgument(
            f"Atom: bounds must be two values (low, high) of {self.dtype}, low first, got "
            f"{short_repr(bounds)}"
        )

    @property
    def range(self) -> tuple[Any, Any] | None:
        """Smallest and largest value; None if there are neither bounds nor limits of the type."""
        return _RANGES.get(self.dtype) if self.bounds is None else self.bounds

    def _has_type(self, value: Any) -> bool:
        """Return whether a value has the type and precision of the dtype, and no time zone."""
        kind: type = type(value)
        return (
            kind is _CLASSES[self.dtype]
            and (self.dtype != "f32" or value != value or to_f32(value) == value)
            and getattr(value, "tzinfo", None) is None
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

    def values(self, hints: Sequence[Any] = ()) -> list[Any]:
        """Return adversarial values: first missing values and the ends of the range, then `hints`,
        which are values to try in addition, and the limits of other types.
        """
        ends: tuple[Any, Any] = self.range or (None, None)
        low, high = ends
        inner: list[Any] = []
        if self.range is not None and self.dtype in FLOAT_TYPES:
            inner = [math.nextafter(low, high), math.nextafter(high, low), (low + high) / 2]
        elif self.range is not None and self.dtype in NUMBER_TYPES:
            inner = [low + 1, high - 1, (low + high) // 2]
        floats = [float(each) for each in hints if type(each) is int and abs(each) < 2**53]
        found = [
            None,
            math.nan,
            low,
            high,
            *inner,
            *self.categories,
            *hints,
            *floats,
            *_EDGES[self.dtype],
        ]
        if self.dtype == "f32":
            found = [to_f32(value) if isinstance(value, float) else value for value in found]
        return list({exact(value): value for value in found if self.contains(value)}.values())

    def draw(self, rng: random.Random, values: Sequence[Any]) -> Any:
        """Return a random value: one of `values`, a small value, or any value in the range."""
        if rng.random() < 0.5 or self.dtype in ("bool", "category"):
            return rng.choice(values)
        value = self._drawn(rng)
        if self.dtype == "f32":
            value = to_f32(value)
        return value if self.contains(value) else rng.choice(values)

    def _drawn(self, rng: random.Random) -> Any:
        """Return a random value of the dtype, which may lie out of the range."""
        ends = self.range
        if ends is not None and self.dtype in FLOAT_TYPES:
            kind = rng.random()
            if kind < 0.4 and math.isfinite(ends[1] - ends[0]):
                return rng.uniform(*ends)
            if kind < 0.7:
                return rng.randint(-40, 40) / 4
            return math.ldexp(rng.uniform(-1, 1), rng.choice((0, 10, 60, 200, 1023, -1040)))
        if ends is not None and self.dtype in NUMBER_TYPES:
            return rng.randint(-9, 9) if rng.random() < 0.5 else rng.randint(*ends)
        if self.dtype == "str":
            return "".join(rng.choice("ab0.-: \u00e9") for _ in range(rng.randrange(6)))
        days, microseconds = rng.randint(-30000, 30000), rng.randrange(10**11)
        duration = datetime.timedelta(days=days, microseconds=microseconds)
        if self.dtype == "duration":
            return duration
        moment = datetime.datetime(1970, 1, 1) + duration
        return moment if self.dtype == "datetime" else getattr(moment, self.dtype)()

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
            **({"categories": to_jsonable(list(self.categories))} if self.categories else {}),
        }


def _atom_of(found: Json, owner: str) -> Atom:
    """Return the element type from its JSON form; dates and times may be ISO texts. Raise
    InvalidArgument if the form is invalid.
    """
    known = ("dtype", "bounds", "nullable", "nan", "categories")
    unknown = [key for key in found if key not in known]
    keys = f"an element type has the keys {', '.join(known)}"
    require_rules(
        owner,
        (not unknown, keys, unknown),
        (found.get("dtype"), f"an element type needs a dtype, one of {', '.join(DTYPES)}", found),
    )
    given = {key: value for key, value in found.items() if value is not None}
    fields = {key: from_jsonable(value, f"{owner}.{key}") for key, value in given.items()}
    kind = _CLASSES.get(str(fields["dtype"]))
    if kind in (datetime.date, datetime.time, datetime.datetime) and "bounds" in fields:
        read = kind.fromisoformat
        try:
            ends = [read(each) if isinstance(each, str) else each for each in fields["bounds"]]
        except (ValueError, TypeError) as error:
            raise InvalidArgument(f"{owner}: bounds must be ISO dates or times: {error}") from None
        fields["bounds"] = tuple(ends)
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


@dataclass(frozen=True)
class InputSpace:
    """Set of datasets of typed columns of one length, made by `VectorOf`, `ScalarOf` or `FrameOf`.

    Parameters
    ----------
    form : {"vector", "scalar", "frame"}
        Lists of values, single values as the only row of a dataset, or dicts of columns.
    columns : mapping of str to Atom
        Element type of each column; a scalar or vector is a column without a name.
    size : int, optional
        Number of rows. Default: any number.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    """

    form: str
    columns: Mapping[str, Atom]
    size: int | None = None

    def __post_init__(self) -> None:
        found = self.columns if isinstance(self.columns, Mapping) else {}
        atoms = all(isinstance(k, str) and isinstance(v, Atom) for k, v in found.items())
        rule = "columns must be Atoms, of a frame as a dict of names and Atoms, at least one"
        require_rules("InputSpace", (found and atoms, rule, self.columns))
        object.__setattr__(self, "columns", dict(found))
        if self.size is not None:
            require_integer("size", self.size, "InputSpace", least=0, most=10**6)

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

    def to_json(self) -> Json:
        """Return the space as JSON, the inverse of `space_of`."""
        named = {name: atom.to_json() for name, atom in self.columns.items()}
        return {
            "type": self.form,
            **(named[""] if self.form != "frame" else {"columns": named}),
            **({"size": self.size} if self.form != "scalar" else {}),
        }


def VectorOf(atom: Atom, size: int | None = None) -> InputSpace:  # noqa: N802 - a set of values
    """Return the space of lists of values of one element type.

    Parameters
    ----------
    atom : Atom
        Element type.
    size : int, optional
        Number of values. Default: any number.

    Returns
    -------
    InputSpace
        The space.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    """
    return InputSpace("vector", {"": atom}, size)


def ScalarOf(atom: Atom) -> InputSpace:  # noqa: N802
    """Return the space of single values of an element type.

    Parameters
    ----------
    atom : Atom
        Element type.

    Returns
    -------
    InputSpace
        The space.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    """
    return InputSpace("scalar", {"": atom}, 1)


def FrameOf(columns: Mapping[str, Atom], size: int | None = None) -> InputSpace:  # noqa: N802
    """Return the space of dicts of columns of one length.

    Parameters
    ----------
    columns : mapping of str to Atom
        Element type of each column.
    size : int, optional
        Number of values of each column. Default: any number.

    Returns
    -------
    InputSpace
        The space.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    """
    return InputSpace("frame", columns, size)


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
    form = found.get("type") if isinstance(found, dict) else None
    if form not in ("vector", "scalar", "frame"):
        raise InvalidArgument(
            f'{owner} must be a dict with the type "vector", "scalar" or "frame", got '
            f"{short_repr(found)}"
        )
    fields = {key: value for key, value in found.items() if key not in ("type", "size")}
    size = found.get("size")
    require_rules(owner, (form != "scalar" or size is None, "a scalar has no size", size))
    if form != "frame":
        return InputSpace(form, {"": _atom_of(fields, owner)}, 1 if form == "scalar" else size)
    columns = fields.pop("columns", None)
    known = isinstance(columns, dict) and not fields
    require_rules(owner, (known, "a frame has the keys type, columns and size", list(found)))
    atoms = {name: _atom_of(dict(atom), f"{owner}.{name}") for name, atom in columns.items()}
    return InputSpace("frame", atoms, size)
