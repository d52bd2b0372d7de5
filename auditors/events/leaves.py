"""Traversal of an output: its numbers become columns, its texts become hashes and numbers, and its
structure becomes a text.

An output becomes one row. Its **main** numbers come first, at positions that its structure alone
determines. Its **extra** numbers follow: information that a main number omits and that is NaN for
most outputs. Extra numbers are the sign of a zero, digits that no float represents, the order of
the keys of a dict, and values under a mask. The numbers found in texts and the digits of huge
numbers come last; their count varies.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.values.object_tree import (
    array_in,
    exception_parts,
    library_form,
    name_of,
    needs_decomposition,
    parts_of,
    plain,
    text_of,
)
from dpwitness.mechanisms.wrappers.programs.inside.codec import Opaque, bare, opened

Floats = NDArray[np.float64]
# blocks of extra columns: width and values; None if all values are NaN
Extras = list[tuple[int, Floats | None]]

EXACT_LIMIT = 2.0**53  # integers up to this one are exact floats


def text_hash(text: str) -> float:
    """Return the hash of a text as a whole number below 2^53, the same in every process."""
    return float(
        int.from_bytes(
            hashlib.blake2b(text.encode(errors="backslashreplace"), digest_size=8).digest()
        )
        >> 11
    )


def columns_of(raw: NDArray[Any]) -> tuple[str, Floats, Extras] | None:
    """Return dtype name, main columns and extra columns of an array of numbers or times; None for
    any other array.
    """
    if isinstance(raw, np.ma.MaskedArray):
        return _masked_columns(raw)
    kind, flat = raw.dtype.kind, raw.reshape(len(raw), -1)
    if kind == "c":
        halves = np.concatenate([flat.real, flat.imag], axis=1)
        return raw.dtype.name, *floats(halves)
    if kind in "mM":
        missing = np.isnat(flat)
        ticks, extras = floats(
            np.where(
                missing,
                0,
                flat.view(np.int64) if flat.flags.c_contiguous else flat.astype(np.int64),
            )
        )
        ticks[missing] = np.nan
        return raw.dtype.name, ticks, extras
    return (raw.dtype.name, *floats(flat)) if kind in "fiub" else None


def summary(cells: Floats) -> Floats:
    """Return statistics of a table's columns that do not depend on the order of the rows.

    Per column: minimum, maximum, mean, number of missing values, number of distinct values, and a
    hash of the values if there are few.
    """
    seen = ~np.isnan(cells)
    low, high = (np.where(seen, cells, bound) for bound in (np.inf, -np.inf))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.where(seen, cells, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    distinct = [np.unique(column[here]) for column, here in zip(cells.T, seen.T, strict=True)]
    # the set of the values of a table's column is hashed if there are few
    codes = [
        text_hash(repr(values.tolist())) if len(values) <= 32 else np.nan for values in distinct
    ]
    missing_count = (~seen).sum(axis=0)
    return np.concatenate(
        [
            low.min(axis=0),
            high.max(axis=0),
            mean,
            missing_count,
            [float(len(values)) for values in distinct],
            codes,
        ]
    )


def _masked_columns(raw: np.ma.MaskedArray[Any, Any]) -> tuple[str, Floats, Extras] | None:
    """Return the columns of a masked array: visible numbers and the mask.

    The numbers under the mask and a non-default fill value become extra columns.
    """
    inner = columns_of(raw.data)
    if inner is None:
        return None
    name, main, extras = inner
    hidden = np.ma.getmaskarray(raw).reshape(len(raw), -1)
    under = np.tile(hidden, (1, main.shape[1] // max(hidden.shape[1], 1)))
    fill = (
        raw.fill_value
        if raw.size and raw.fill_value != np.ma.default_fill_value(raw.dtype)
        else None
    )
    columns = None if fill is None else np.full((len(raw), 1), text_hash(repr(fill)))
    return (
        f"masked {name}",
        np.column_stack([np.where(under, np.nan, main), hidden.astype(float)]),
        [
            *extras,
            (main.shape[1], np.where(under, main, np.nan) if under.any() else None),
            (1, columns),
        ],
    )


def floats(flat: NDArray[Any]) -> tuple[Floats, Extras]:
    """Return float columns of an array, and extra columns: the signs of zeros, or the rounding
    errors.
    """
    width, kind = flat.shape[1], flat.dtype.kind
    if kind == "b" or (kind in "iu" and flat.dtype.itemsize < 8):
        return np.ascontiguousarray(flat, dtype=np.float64), []
    with np.errstate(over="ignore"):
        high = np.ascontiguousarray(flat, dtype=np.float64)
    if kind in "iu":
        if np.abs(high).max(initial=0.0) < EXACT_LIMIT:
            return high, [(width, None)]
        residual = (flat - np.vectorize(int, otypes=[object])(high)).astype(np.float64)
        return high, [(width, np.where(residual == 0, np.nan, residual))]
    has_negative_zero = (high.view(np.int64) == np.iinfo(np.int64).min).any()
    signs = (
        width,
        np.where((high == 0) & np.signbit(high), 1.0, np.nan) if has_negative_zero else None,
    )
    if flat.dtype.itemsize <= 8:
        return high, [signs]
    return high, [*_long_double_extras(flat, high), signs]


def _long_double_extras(flat: NDArray[Any], high: Floats) -> Extras:
    """Return the rounding errors of long doubles; beyond the range of floats, fraction and
    exponent.
    """
    width = flat.shape[1]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        residual = (flat - high).astype(np.float64)
        out_of_range = (
            np.isfinite(flat)
            & (flat != 0)
            & ((np.abs(flat) > np.finfo(float).max) | (np.abs(flat) < 1e-290))
        )
        residual[~np.isfinite(high) | out_of_range] = 0.0
        first = np.where(residual == 0, np.nan, residual) if residual.any() else None
        if not out_of_range.any():
            return [(width, first), (3 * width, None)]
        fraction, exponent = np.frexp(np.where(out_of_range, flat, 1))
        leading = fraction.astype(np.float64)
        rest = (fraction - leading).astype(np.float64)
    columns = np.column_stack(
        [
            np.where(out_of_range, part, np.nan)
            for part in (leading, rest, exponent.astype(np.float64))
        ]
    )
    return [(width, first), (3 * width, columns)]


@dataclasses.dataclass(frozen=True, slots=True)
class TextColumns:
    """Columns of a row that hold hashes of texts, and the columns with hashes of the texts without
    their numbers.

    The columns hold the hashes of `count` texts, starting at `first`, `stride` columns apart.
    `rest` is the first column with a hash of a text without its numbers. Events use each column
    separately, or all columns together if `pooled`, as for the keys of a dict.
    """

    kind: str
    first: int
    rest: int
    count: int = 1
    stride: int = 2
    pooled: bool = False


@dataclasses.dataclass(slots=True)
class Leaves:
    """Numbers, texts and opaque types found so far in one output."""

    numbers: list[float] = dataclasses.field(default_factory=list)
    extras: int = 0
    # extra columns that are not NaN
    filled: dict[int, float] = dataclasses.field(default_factory=dict)
    loose: list[float] = dataclasses.field(default_factory=list)
    # `rest`, and a negative `first`, are relative to the extra columns
    texts: list[TextColumns] = dataclasses.field(default_factory=list)
    opaque: set[str] = dataclasses.field(default_factory=set)  # types of objects that have no parts
    # printable text of each hash
    printable: dict[float, str] = dataclasses.field(default_factory=dict)
    table: bool = False  # whether the leaves are cells of a table, whose rows may come in any order
    under_way: list[int] = dataclasses.field(default_factory=list)

    def extra(self, *values: float) -> None:
        """Append extra columns."""
        for value in values:
            if value == value:
                self.filled[self.extras] = value
            self.extras += 1

    def block(self, width: int, values: Floats | None) -> None:
        """Append a block of `width` extra columns; None for NaN in all of them."""
        if values is not None:
            at = np.flatnonzero(~np.isnan(values))
            self.filled.update(zip((at + self.extras).tolist(), values[at].tolist(), strict=True))
        self.extras += width

    def hashed(self, kind: str, codes: list[float]) -> None:
        """Append extra columns of hashes, as pooled texts of this kind."""
        if codes:
            self.texts.append(TextColumns(kind, -self.extras - 1, self.extras, len(codes), 1, True))
            self.extra(*codes)

    def row(self) -> list[float]:
        """Return all columns of the row: numbers, extra columns, and loose columns, whose count
        varies from output to output. Extra columns after the last non-NaN one are dropped if no
        loose columns follow.
        """
        if not self.filled and not self.loose:
            return self.numbers
        extra = [math.nan] * (self.extras if self.loose else max(self.filled) + 1)
        for place, value in self.filled.items():
            extra[place] = value
        return self.numbers + extra + self.loose

    def placed(self) -> tuple[TextColumns, ...]:
        """Return the text columns with their positions in the finished row."""
        main = len(self.numbers)
        return tuple(
            dataclasses.replace(
                each,
                first=main - each.first - 1 if each.first < 0 else each.first,
                rest=main + each.rest,
            )
            for each in self.texts
        )


_MICROSECOND = datetime.timedelta(microseconds=1)
_CONTEXT = Context(prec=400, Emax=10**9, Emin=-(10**9), traps=[])
_LIMB = 52  # bits per column of a huge integer
_LIMBS = 64  # most columns of a huge integer; a hash represents the rest
# most digits of a decimal that is determined by its nearest float and the rounding error
_DIGITS = 30
_NUMBER = re.compile(
    r"(?<!\w)0[xX][\da-fA-F]+|(?:(?<![\w.)])[-+])?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII
)


@functools.lru_cache(maxsize=2**14)
def text_columns(text: str) -> tuple[float, float, tuple[float, ...]]:
    """Return the hash of a text, the hash of the text without its numbers, and the columns of its
    numbers.
    """
    return (text_hash(repr(text)), *split_numbers(text))


def split_numbers(text: str) -> tuple[float, tuple[float, ...]]:
    """Return a hash of a text without its numbers (NaN if it has none), and the nearest float and
    rounding error of each number.
    """
    numbers: list[float] = []

    def extract(match: re.Match[str]) -> str:
        # such as the address of an object
        digits = str(int(match[0], 16)) if match[0][:2] in ("0x", "0X") else match[0]
        nearest = float(digits)
        residual = (
            float(_CONTEXT.subtract(Decimal(digits), Decimal(nearest)))
            if len(digits) > 15 and math.isfinite(nearest)
            else 0.0
        )
        if len(digits) > _DIGITS or not math.isfinite(nearest):
            return match[0]  # two columns cannot represent this number
        numbers.extend((nearest, residual or math.nan))
        return "\0"

    remainder = _NUMBER.sub(extract, text)
    return (text_hash(remainder) if numbers else math.nan), tuple(numbers)


def negative_zero(value: float) -> float:
    """Return 1 for -0.0, NaN for any other number."""
    return 1.0 if value == 0 and math.copysign(1.0, value) < 0 else math.nan


def add_fraction(item: Fraction, leaves: Leaves) -> str:
    """Append a fraction as its nearest float and the rounding error; if a term is large, also all
    of its digits. Return its type's name.
    """
    try:
        nearest = float(item)
        residual = float(item - Fraction(nearest))
    except OverflowError:
        nearest, residual = math.copysign(math.inf, item), text_hash(str(hash(item)))
    leaves.numbers.extend((nearest, residual if residual else math.nan))
    terms = item.numerator, item.denominator
    # smaller terms are determined by the nearest float and the rounding error
    large = max(term.bit_length() for term in terms) > 50
    leaves.extra(*(text_hash(hex(term)) if large else math.nan for term in terms))
    for term in terms if large else ():
        _add_limbs(term, leaves)
    return type(item).__name__


def add_decimal(item: Decimal, leaves: Leaves) -> str:
    """Append a decimal as its nearest float, the rounding error and the number of trailing zeros
    (1.50 differs from 1.5).

    A decimal with many digits is appended with all of them. Return the name of its type.
    """
    name, numbers = type(item).__name__, leaves.numbers
    if not item.is_finite():
        numbers.append(math.nan if item.is_nan() else float(item))
        return f"{name} {item}" if item.is_nan() else f"{name} Infinity"
    nearest, components = float(item), item.as_tuple()
    exponent = int(components.exponent)
    numbers.append(math.copysign(nearest, -1.0 if item.is_signed() else 1.0))
    residual = (
        float(_CONTEXT.subtract(item, Decimal(nearest)))
        if math.isfinite(nearest)
        else text_hash(str(item))
    )
    zeros = int(_CONTEXT.normalize(item).as_tuple().exponent) - exponent if item else 0
    numbers.extend(
        (
            residual if residual else math.nan,
            float(zeros) if zeros > 0 and exponent < 0 else math.nan,
        )
    )
    needs_all_digits = (
        len(components.digits) > _DIGITS
        or not math.isfinite(nearest)
        or (nearest == 0) == bool(item)
    )
    shown_exponent = exponent if exponent > 0 or not item or needs_all_digits else 0
    leaves.extra(
        negative_zero(numbers[-3]),
        float(shown_exponent) or math.nan,
        text_hash(str(item)) if needs_all_digits else math.nan,
    )
    if needs_all_digits:
        _add_limbs(int("".join(map(str, components.digits[-_LIMBS * 15 :]))), leaves)
    return name


def add_integer(value: int, leaves: Leaves) -> bool:
    """Append an integer as its nearest float and, if not zero, the rounding error. Return whether
    the float is exact.

    A huge integer is appended with all digits.
    """
    try:
        nearest = float(value)
        residual = float(value - int(nearest))
    except OverflowError:
        nearest, residual = math.inf if value > 0 else -math.inf, text_hash(str(hash(value)))
    leaves.numbers.append(nearest)
    if not residual:
        return True
    leaves.numbers.append(residual)
    is_determined = math.isfinite(nearest) and int(nearest) + int(residual) == value
    leaves.extra(math.nan if is_determined else text_hash(hex(value)))
    if not is_determined:
        _add_limbs(value, leaves)
    if value.bit_length() > _LIMB * _LIMBS:
        leaves.hashed("huge int", [text_hash(hex(value))])
    return False


def _add_limbs(value: int, leaves: Leaves) -> None:
    """Append an integer in columns of 52 bits, the lowest column last. Integers with more than 64
    columns keep the lowest ones.
    """
    size = min(-(-value.bit_length() // _LIMB), _LIMBS)
    sign, value = (-1.0 if value < 0 else 1.0), abs(value)
    leaves.loose.extend(
        sign * float((value >> (_LIMB * place)) & (2**_LIMB - 1)) for place in reversed(range(size))
    )


def add_time(item: Any, leaves: Leaves) -> str:
    """Append an instant or a duration as a whole number of microseconds, a date as days. Return the
    name of its type and time zone.

    The rounding error is an extra column.
    """
    name, zone = type(item).__name__, getattr(item, "tzinfo", None)
    fold = f" fold {item.fold}" if getattr(item, "fold", 0) else ""
    if isinstance(item, datetime.timedelta):
        ticks = item // _MICROSECOND
    elif isinstance(item, datetime.time):
        ticks = ((item.hour * 60 + item.minute) * 60 + item.second) * 10**6 + item.microsecond
    elif isinstance(item, datetime.datetime):
        ticks = (item.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)) // _MICROSECOND
    else:
        ticks = item.toordinal()
    nearest = float(ticks)
    leaves.numbers.append(nearest)
    leaves.extra(float(ticks - int(nearest)) or math.nan)
    return f"{name}{fold}" if zone is None else f"{name} in {text_of(zone, repr)}{fold}"


_TABLES = ("DataFrame", "Series", "Table", "RecordBatch")
_MIN_ROWS = 8  # fewest rows of a table whose columns are summarized
_MAX_TEXT = 60  # characters of a text that are stored for printing
# types of dict keys that the structure text can contain
_KEY_TYPES = (str, bytes, int, np.integer, bool, np.bool_, type(None))


def walk(item: Any, leaves: Leaves) -> Iterable[str]:
    """Return the structure of `item` as pieces of text, and append its numbers and texts to
    `leaves` until the last piece.
    """
    if needs_decomposition(item) or library_form(type(item)):
        return _walk_object(item, leaves)
    return _walk_standard(item, leaves)


@functools.singledispatch
def _walk_standard(item: Any, leaves: Leaves) -> Iterable[str]:
    """Return what `walk` returns for an object of a standard type, by its type; here, of any other
    type.
    """
    content = array_in(item)
    if content is None:
        return _walk_object(item, leaves)
    return chain([f"{type(item).__name__} of "], walk(content, leaves))


@_walk_standard.register(type(None))
def _(item: None, leaves: Leaves) -> Iterable[str]:
    return ("None",)


@_walk_standard.register(bool)
@_walk_standard.register(np.bool_)
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    leaves.numbers.append(float(item))
    return ("bool" if isinstance(item, bool) else "numpy bool",)


@_walk_standard.register(int)
@_walk_standard.register(np.integer)
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    name = type(item).__name__
    return (name if add_integer(int(item), leaves) else f"big {name}",)


@_walk_standard.register(float)
@_walk_standard.register(np.float64)
@_walk_standard.register(np.float32)
@_walk_standard.register(np.float16)
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    number = float(item)
    leaves.numbers.append(number)
    leaves.extra(negative_zero(number))
    return (type(item).__name__,)


@_walk_standard.register(complex)
@_walk_standard.register(np.complex128)
@_walk_standard.register(np.complex64)
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    parts = float(item.real), float(item.imag)
    leaves.numbers.extend(parts)
    leaves.extra(*map(negative_zero, parts))
    return (type(item).__name__,)


@_walk_standard.register(str)
@_walk_standard.register(bytes)
@_walk_standard.register(bytearray)
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    name = type(item).__name__
    _add_text(name, plain(item, str) if isinstance(item, str) else bytes(item), leaves)
    return (name,)


@_walk_standard.register
def _(item: BaseException, leaves: Leaves) -> Iterable[str]:
    text = text_of(item, str)
    leaves.numbers.append(text_hash(text))
    _add_text_parts("text of an exception", text, leaves, len(leaves.numbers) - 1)
    yield f"raises {type(item).__name__}"
    if other_parts := exception_parts(item, text):
        yield from _walk_fields(" with ", other_parts, leaves)


@_walk_standard.register
def _(item: Decimal, leaves: Leaves) -> Iterable[str]:
    return (add_decimal(item, leaves),)


@_walk_standard.register
def _(item: Fraction, leaves: Leaves) -> Iterable[str]:
    return (add_fraction(item, leaves),)


@_walk_standard.register(datetime.date)
@_walk_standard.register(datetime.time)
@_walk_standard.register(datetime.timedelta)
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    return (add_time(item, leaves),)


@_walk_standard.register(np.generic)
@_walk_standard.register(np.timedelta64)  # an integer by its class
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    if (kind := _add_array(item, leaves)) is not None:
        return (kind,)
    if item.dtype.names is None:
        return _walk_object(item, leaves)
    fields = [(field, item[field]) for field in item.dtype.names]
    return _walk_fields(type(item).__name__, fields, leaves)


@_walk_standard.register(np.ma.MaskedArray)
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    if (kind := _add_array(item, leaves)) is not None:
        return (kind,)
    fill = np.asarray(item.fill_value, dtype=item.dtype)
    content = [("data", item.data), ("mask", np.ma.getmaskarray(item)), ("fill", fill)]
    return _walk_fields(type(item).__name__, content, leaves)


@_walk_standard.register(np.ndarray)
def _(item: NDArray[Any], leaves: Leaves) -> Iterable[str]:
    if (kind := _add_array(item, leaves)) is not None:
        return (kind,)
    fields = item.dtype.names
    if item.dtype.kind not in "OUS" and not fields:
        return _walk_object(item, leaves)
    if item.ndim == 0:
        return chain(
            [f"{type(item).__name__} of "], walk(item[()] if fields else item.item(), leaves)
        )
    return _walk_array(item, leaves)


def _add_array(item: Any, leaves: Leaves) -> str | None:
    """Append an array of numbers or times, or a NumPy scalar, and return its structure text; None
    for any other array.
    """
    found = columns_of(np.asanyarray(item)[None])
    if found is None:
        return None
    kind, main, extras = found
    leaves.numbers.extend(main[0].tolist())
    for width, block in extras:
        leaves.block(width, None if block is None else block[0])
    if leaves.table and 1 <= item.ndim <= 2 and len(item) >= _MIN_ROWS and main.size == item.size:
        leaves.numbers.extend(summary(main[0].reshape(len(item), -1)).tolist())
    if isinstance(item, np.generic):
        return type(item).__name__ if item.dtype.kind in "fc" else kind
    return f"{kind}{list(item.shape)}"


def _walk_array(item: NDArray[Any], leaves: Leaves) -> Iterator[str]:
    """Yield the structure of an array of texts, objects or records."""
    name, shape = type(item).__name__, ""
    if 0 in item.shape:
        fields = [(field, str(item.dtype[field])) for field in item.dtype.names or ()]
        shape = f"{fields or item.dtype} {list(item.shape)}"
    if item.dtype.kind in "US":
        return _walk_sequence(f"{name} {item.dtype.str}{shape}", item.tolist(), leaves)
    return _walk_sequence(f"{name}{shape}", list(item), leaves)


@_walk_standard.register(list)
def _(item: list[Any], leaves: Leaves) -> Iterable[str]:
    return _walk_sequence(type(item).__name__, item, leaves)


@_walk_standard.register(set)
@_walk_standard.register(frozenset)
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    return _walk_sequence(type(item).__name__, sorted(item, key=_repr), leaves)


@_walk_standard.register(tuple)
def _(item: Any, leaves: Leaves) -> Iterable[str]:
    name, fields = type(item).__name__, getattr(item, "_fields", ())
    if not fields or len(fields) != len(item):
        return _walk_sequence(name, item, leaves)
    return _walk_fields(name, list(zip(fields, item, strict=True)), leaves)


def _walk_sequence(name: str, items: Sequence[Any], leaves: Leaves) -> Iterator[str]:
    """Yield the structure of items in their order."""
    yield f"{name}("
    if len(items) > 1 and set(map(type, items)) == {str}:
        _add_texts(list(items), leaves)
        yield "str, " * len(items)
    else:
        for part in items:
            yield from walk(part, leaves)
            yield ", "
    yield ")"


def _walk_object(item: Any, leaves: Leaves) -> Iterator[str]:
    """Yield the structure of an object: its importable name, its parts, or its type, with the
    object's text as a hash.
    """
    kind, name = type(item).__name__, name_of(item)
    with opened(item, leaves.under_way) as reference:
        if name is not None or reference:
            yield f"<{name or reference}>"
        elif not isinstance(item, Opaque) and (parts := parts_of(item)) is not None:
            yield from _walk_fields(kind, parts, leaves)
        else:
            leaves.opaque.add(kind)
            if not bare(item):
                text = _repr(item)
                leaves.numbers.append(text_hash(text))
                _add_text_parts(kind, text, leaves, len(leaves.numbers) - 1)
            yield kind


def _walk_fields(name: str, fields: list[tuple[str, Any]], leaves: Leaves) -> Iterator[str]:
    """Yield the structure of named parts."""
    outer_table, leaves.table = leaves.table, leaves.table or name in _TABLES
    yield f"{name}("
    for field, value in fields:
        yield f"{field}="
        yield from walk(value, leaves)
        yield ", "
    yield ")"
    leaves.table = outer_table


@_walk_standard.register(dict)
def _walk_dict(item: dict[Any, Any], leaves: Leaves) -> Iterator[str]:
    """Yield the structure of a dict, with its values sorted by the texts of the keys.

    Extra columns hold the hash of each key, and the position of each key in the dict's own order.
    """
    yield "{" if type(item) is dict else f"{type(item).__name__}{{"
    keys = list(item)
    if all(
        isinstance(part, _KEY_TYPES)
        for key in keys
        for part in (key if isinstance(key, tuple) else (key,))
    ):
        texts = [_key_text(key) for key in keys]
        order = sorted(range(len(keys)), key=texts.__getitem__)
        for position in order:
            yield f"{texts[position]}: "
            yield from walk(item[keys[position]], leaves)
            yield ", "
        leaves.hashed("key of a dict", [text_hash(texts[position]) for position in order])
        leaves.block(len(order), np.array(order, dtype=float))
    else:
        for key, value in item.items():
            yield from walk(key, leaves)
            yield ": "
            yield from walk(value, leaves)
            yield ", "
    yield "}"


def _add_text(kind: str, text: str | bytes, leaves: Leaves) -> None:
    """Append the hash and the length of a text, its numbers, and a hash of the text without its
    numbers.
    """
    written = repr(text)
    leaves.numbers.extend((text_hash(written), float(len(text))))
    leaves.printable[leaves.numbers[-2]] = (
        written if len(text) <= _MAX_TEXT else repr(text[:_MAX_TEXT])
    )
    _add_text_parts(
        kind,
        text if isinstance(text, str) else text.decode("latin-1"),
        leaves,
        len(leaves.numbers) - 2,
    )


def _add_text_parts(kind: str, text: str, leaves: Leaves, at: int) -> None:
    """Append the numbers of a text, and the hash of the text without them; `at` is the column of
    the text's hash.
    """
    leaves.texts.append(TextColumns(kind, at, leaves.extras))
    rest, numbers = split_numbers(text)
    leaves.extra(rest)
    leaves.loose.extend(numbers)


def _add_texts(items: list[str], leaves: Leaves) -> None:
    """Append many texts at once, each as `_add_text` does."""
    leaves.texts.append(TextColumns("str", len(leaves.numbers), leaves.extras, len(items)))
    for text in items:
        code, rest, numbers = text_columns(text)
        leaves.numbers.extend((code, float(len(text))))
        leaves.extra(rest)
        leaves.loose.extend(numbers)
    if leaves.table and len(items) >= _MIN_ROWS:
        known = sorted(set(items))
        leaves.numbers.extend(
            (
                float(len(known)),
                text_hash("\0".join(known)) if len(known) <= _MIN_ROWS * 4 else math.nan,
            )
        )


def _key_text(key: Any) -> str:
    """Return the text of a dict key, independent of its own `__repr__`, with all digits of a huge
    integer.
    """
    if isinstance(key, tuple):
        return f"({', '.join(map(_key_text, key))}{',' if len(key) == 1 else ''})"
    base = next((base for base in (str, bytes, int) if isinstance(key, base)), None)
    if base is None or isinstance(key, bool | np.generic):
        return _repr(key)
    content = plain(key, base)
    # Python refuses the decimal digits of huge integers
    text = hex(content) if base is int and content.bit_length() > 4096 else repr(content)
    return text if type(key) is base else f"{type(key).__name__} {text}"


def _repr(item: Any) -> str:
    """Return the repr of an item, even if the repr raises."""
    return text_of(item, repr)
