"""Element types of input spaces: their values, the adversarial ones first, and their JSON form."""

from __future__ import annotations

import datetime
import math
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_one_of,
    require_type,
    short_repr,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


WIDTHS = {f"{sign}{bits}": (sign, bits) for sign in "iu" for bits in (8, 16, 32, 64, 128)}
FLOAT_TYPES = ("f32", "f64")
_CLASSES: dict[str, type] = {
    "bool": bool,
    "str": str,
    "date": datetime.date,
    "time": datetime.time,
    "datetime": datetime.datetime,
    "duration": datetime.timedelta,
}
DTYPES = ("bool", *WIDTHS, *FLOAT_TYPES, "str", "date", "time", "datetime", "duration", "category")
_POWERS = (7, 8, 15, 16, 24, 31, 32, 53, 63, 64, 127, 128)
INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    10,
    *(n for p in _POWERS for n in (2**p - 1, 2**p, 2**p + 1, -(2**p), -(2**p) - 1)),
)
FLOATS = (
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
TEXTS = (
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
DATES = tuple(map(datetime.date.fromisoformat, _DAYS.split()))
TIMES = tuple(
    datetime.time.fromisoformat(each)
    for each in ("00:00:00", "23:59:59.999999", "12:00:00", "00:00:00.000001", "02:30:00")
)
DATETIMES = (
    *(datetime.datetime.combine(day, datetime.time()) for day in DATES),
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
DURATIONS = (
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
ZONES = (
    datetime.UTC,
    *(datetime.timezone(datetime.timedelta(minutes=minutes)) for minutes in (840, -720, 345)),
)

_EDGES: dict[str, tuple[Any, ...]] = {
    **{
        "bool": (False, True),
        "str": TEXTS,
        "date": DATES,
        "time": TIMES,
        "datetime": DATETIMES,
        "duration": DURATIONS,
        "category": (),
    },
    **dict.fromkeys(WIDTHS, INTEGERS),
    **dict.fromkeys(FLOAT_TYPES, FLOATS),
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
            self._check_bounds()
        for value in self.categories if self.dtype != "category" else ():
            if not self.contains(value):
                raise InvalidArgument(
                    f"Atom: categories must be values of {self.dtype}, got {short_repr(value)}"
                )

    def _check_bounds(self) -> None:
        """Store the bounds as values of the dtype. Raise InvalidArgument unless they are two values
        in order.
        """
        bounds: Any = self.bounds
        if (
            not isinstance(bounds, list | tuple)
            or len(bounds) != 2
            or self.dtype in ("category", "bool")
        ):
            raise InvalidArgument(
                f"Atom: bounds must be two values (low, high) of {self.dtype}, got "
                f"{short_repr(bounds)}"
            )
        known = self._widest or (None, None)
        ends = [usual if end is None else end for end, usual in zip(bounds, known, strict=True)]
        low, high = (
            float(end) if self.dtype in FLOAT_TYPES and isinstance(end, int) else end
            for end in ends
        )
        if not (self._typed(low) and self._typed(high)) or not low <= high:
            raise InvalidArgument(
                f"Atom: bounds must be two values (low, high) of {self.dtype}, low first, "
                f"got {short_repr(bounds)}"
            )
        object.__setattr__(self, "bounds", (low, high))

    @property
    def range(self) -> tuple[Any, Any] | None:
        """Return the smallest and the largest value; None for types without an order."""
        return self._widest if self.bounds is None else self.bounds

    @property
    def _widest(self) -> tuple[Any, Any] | None:
        """Return the range of the dtype without bounds."""
        if self.dtype in WIDTHS:
            sign, bits = WIDTHS[self.dtype]
            return (0, 2**bits - 1) if sign == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return (-math.inf, math.inf) if self.dtype in FLOAT_TYPES else None

    def with_hints(self, hints: list[Any]) -> Atom:
        """Return the element type with further values to try: those of `hints` that belong to it,
        also as floats.
        """
        if self.dtype == "category":
            return self
        typed = [
            float(each) if self.dtype == "f64" and type(each) is int and abs(each) < 2**53 else each
            for each in hints
        ]
        return replace(
            self, categories=(*self.categories, *(each for each in typed if self.contains(each)))
        )

    def contains(self, value: Any) -> bool:
        """Return whether a value belongs to the element type."""
        if value is None:
            return self.nullable
        if self.dtype == "category":
            return any(type(value) is type(each) and value == each for each in self.categories)
        if not self._typed(value):
            return False
        if isinstance(value, float) and math.isnan(value):
            return self.nan
        ends = self.range
        try:
            return ends is None or bool(ends[0] <= value <= ends[1])
        except TypeError:  # times with and without a time zone
            return False

    def within(self, other: Atom) -> bool:
        """Return whether all values belong to `other` too."""
        same = self.dtype == other.dtype and self.zone == other.zone
        missing = self.nullable <= other.nullable and self.nan <= other.nan
        if self.dtype == "category":
            return same and missing and all(map(other.contains, self.categories))
        mine, theirs = self.range, other.range
        return (
            same
            and missing
            and (
                theirs is None
                or (mine is not None and theirs[0] <= mine[0] and mine[1] <= theirs[1])
            )
        )

    def _typed(self, value: Any) -> bool:
        """Return whether a value has the Python type of the dtype, and for ``f32`` its
        precision.
        """
        if self.dtype in WIDTHS:
            return type(value) is int
        if self.dtype in FLOAT_TYPES:
            return type(value) is float and (
                self.dtype == "f64" or value != value or to_f32(value) == value
            )
        kind: type = type(value)
        return kind is _CLASSES[self.dtype] and (
            self.dtype != "datetime" or (value.tzinfo is not None) is self.zone
        )

    def values(self) -> list[Any]:
        """Return adversarial values: first missing values and the ends of the range, then their
        neighbors and the limits of other types.
        """
        found: list[Any] = [None, math.nan] if self.dtype in FLOAT_TYPES else [None]
        ends = self.range
        if ends is not None and self.dtype in WIDTHS:
            low, high = ends
            found += [low, high, low + 1, high - 1, (low + high) // 2]
        elif ends is not None and self.dtype in FLOAT_TYPES:
            low, high = ends
            inside = [math.nextafter(low, high), math.nextafter(high, low)]
            found += [low, high, *inside] + (
                [(low + high) / 2] if math.isfinite(high - low) else []
            )
        elif ends is not None:
            found += ends
        edges = _EDGES[self.dtype]
        found += [
            *self.categories,
            *(
                [moment.replace(tzinfo=zone) for moment in edges for zone in ZONES]
                if self.zone
                else edges
            ),
        ]
        if self.dtype == "f32":
            found = [to_f32(value) if isinstance(value, float) else value for value in found]
        return [value for _, value in {value_key(v): v for v in found if self.contains(v)}.items()]

    def draw(self, rng: random.Random, values: list[Any]) -> Any:
        """Return a random value: one of `values`, a small value, or any value in the range."""
        if values and (rng.random() < 0.5 or self.dtype in ("bool", "category")):
            return rng.choice(values)
        value = self._drawn(rng)
        return value if self.contains(value) else rng.choice(values)

    def _drawn(self, rng: random.Random) -> Any:
        """Return a random value of the Python type, which may lie outside of the bounds."""
        kind, ends = self.dtype, self.range
        if kind in WIDTHS:
            assert ends is not None
            return rng.randint(-9, 9) if rng.random() < 0.5 else rng.randint(*ends)
        if kind in FLOAT_TYPES:
            value = self._drawn_float(rng)
            return to_f32(value) if kind == "f32" else value
        if kind == "str":
            return "".join(rng.choice("ab0.-: é") for _ in range(rng.randrange(6)))
        if kind == "duration":
            return datetime.timedelta(days=rng.randint(-400, 400), seconds=rng.randrange(86400))
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(
            days=rng.randint(-30000, 30000), microseconds=rng.randrange(10**11)
        )
        return (
            moment.date()
            if kind == "date"
            else moment.time()
            if kind == "time"
            else moment.replace(tzinfo=rng.choice(ZONES) if self.zone else None)
        )

    def _drawn_float(self, rng: random.Random) -> float:
        """Return a random float: a bound, a small multiple of 1/4, or a number with a random
        exponent.
        """
        way = rng.random()
        if way < 0.4 and self.bounds is not None and math.isfinite(self.bounds[1] - self.bounds[0]):
            return rng.uniform(*self.bounds)
        if way < 0.7:
            return rng.randint(-40, 40) / 4
        return math.ldexp(rng.uniform(-1, 1), rng.choice((0, 10, 60, 200, 1023, -1040)))

    def simpler(self, value: Any) -> Iterator[Any]:
        """Yield values of the element type that are simpler than `value`, the simplest first."""
        candidates: list[Any] = []
        if isinstance(value, bool):
            candidates = [False]
        elif isinstance(value, int | float):
            candidates = [
                0,
                1,
                -1,
                2,
                *(self.range or ()),
                *([math.trunc(value), math.trunc(value / 2)] if math.isfinite(value) else []),
            ]
            candidates = (
                [float(each) for each in candidates] if isinstance(value, float) else candidates
            )
        elif isinstance(value, str):
            candidates = ["", "a", value[: len(value) // 2], value[1:], value[:-1]]
        elif value is not None:
            candidates = self.values()[:3]
        for each in candidates:
            if self.contains(each) and _size(each) < _size(value):
                yield each

    def strategy(self) -> SearchStrategy[Any]:
        """Return a Hypothesis strategy of the values."""
        from hypothesis import strategies as st

        found = (
            [st.sampled_from(values)]
            if (values := [v for v in self.values() if v is not None])
            else []
        )
        ends = self.range
        if self.dtype in WIDTHS:
            assert ends is not None
            found.append(st.integers(*ends))
        elif self.dtype in FLOAT_TYPES and self.bounds is not None:
            found.append(st.floats(*self.bounds, width=32 if self.dtype == "f32" else 64))
        elif self.dtype in FLOAT_TYPES:
            found.append(st.floats(allow_nan=False, width=32 if self.dtype == "f32" else 64))
        elif self.dtype == "str":
            found.append(st.text(max_size=8))
        elif self.dtype in ("date", "time", "datetime", "duration"):
            moments = (
                st.datetimes(timezones=st.sampled_from(ZONES)) if self.zone else st.datetimes()
            )
            by_type = {
                "date": st.dates(),
                "time": st.times(),
                "datetime": moments,
                "duration": st.timedeltas(),
            }
            found.append(by_type[self.dtype].filter(self.contains))
        return st.one_of(*found, *([st.none()] if self.nullable else []))

    def to_json(self) -> Json:
        """Return the element type as JSON, the inverse of `atom_of`."""
        return {
            "dtype": self.dtype,
            "bounds": None if self.bounds is None else to_jsonable(list(self.bounds)),
            "nullable": self.nullable,
            "nan": self.nan,
            **({"zone": True} if self.zone else {}),
            **({"categories": to_jsonable(list(self.categories))} if self.categories else {}),
        }


def atom_of(found: Json, owner: str) -> Atom:
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
    if value != value or abs(value) <= 3.4028234663852886e38:  # largest finite float
        return float(struct.unpack("f", struct.pack("f", value))[0])
    return math.copysign(math.inf, value)


def value_key(value: Any) -> Any:
    """Return a hashable key that is equal for identical values only: NaN equals itself, 0.0 differs
    from -0.0, and 1 from 1.0.
    """
    if type(value) is float:
        return "nan" if value != value else (float, value, math.copysign(1.0, value))
    return type(value), value, getattr(value, "tzinfo", None)


def _size(value: Any) -> tuple[float, float]:
    """Return a measure of how hard a value is to read."""
    if isinstance(value, int | float):
        negative = 0.5 if math.copysign(1.0, value) < 0 else 0.0
        whole = not isinstance(value, float) or value.is_integer()
        return (
            0.0 if whole and abs(value) < 10**6 else float(len(repr(value))),
            abs(value) + negative if value == value else math.inf,
        )
    return (float(len(value)), 0.0) if isinstance(value, str) else (50.0, 0.0)
