"""Conversion of numbers that no float represents, and of the numbers in texts, to columns that
differ for any two of them.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from dpwitness.auditors.events.arrays import text_hash
from dpwitness.auditors.events.row_builder import Leaves
from dpwitness.mechanisms.wrappers.programs.inside.codec import text_of

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_CONTEXT = Context(prec=400, Emax=10**9, Emin=-(10**9), traps=[])
_LIMB = 52  # bits per column of a huge integer
_LIMBS = 64  # most columns of a huge integer; a hash represents the rest
# most digits of a decimal that is determined by its nearest float and the rounding error
_DIGITS = 30
_BITS = 50  # most bits of the terms of a fraction that is determined in the same way
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
    large = max(term.bit_length() for term in terms) > _BITS
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
        ticks = (item.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    else:
        ticks = item.toordinal()
    nearest = float(ticks)
    leaves.numbers.append(nearest)
    leaves.extra(float(ticks - int(nearest)) or math.nan)
    return f"{name}{fold}" if zone is None else f"{name} in {text_of(zone, repr)}{fold}"
