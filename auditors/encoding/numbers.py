"""Numbers that no float holds, and the numbers in texts, as columns that tell any two of them apart."""

from __future__ import annotations

import datetime
import functools
import math
import re
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from dpwitness.auditors.encoding.arrays import code_of
from dpwitness.auditors.encoding.row_builder import Leaves
from dpwitness.mechanisms.foreign.inside.codec import text_of

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_CONTEXT = Context(prec=400, Emax=10**9, Emin=-(10**9), traps=[])
_LIMB = 52  # bits of a column of a huge number
_LIMBS = 64  # columns of it, at most; its hash tells beyond
_DIGITS = 30  # of a decimal, which its nearest float and what rounding lost tell from all others
_BITS = 50  # of a fraction's terms, likewise
_NUMBER = re.compile(r"(?:(?<![\w.)])[-+])?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


@functools.lru_cache(maxsize=2**14)
def text_columns(text: str) -> tuple[float, float, tuple[float, ...]]:
    """Return the hash of a text, the hash of what is left of it without its numbers, and the columns of these."""
    return (code_of(repr(text)), *taken_apart(text))


def taken_apart(text: str) -> tuple[float, tuple[float, ...]]:
    """Return a hash of a text without its numbers (NaN where it has none), and of each number the nearest float and what that loses."""
    numbers: list[float] = []

    def taken(match: re.Match[str]) -> str:
        near = float(match[0])
        lost = float(_CONTEXT.subtract(Decimal(match[0]), Decimal(near))) if len(match[0]) > 15 and math.isfinite(near) else 0.0
        if len(match[0]) > _DIGITS or not math.isfinite(near):
            return match[0]  # more than these two columns hold
        numbers.extend((near, lost or math.nan))
        return "\0"

    left = _NUMBER.sub(taken, text)
    return (code_of(left) if numbers else math.nan), tuple(numbers)


def negative_zero(value: float) -> float:
    """Return 1 for -0.0, NaN for anything else."""
    return 1.0 if value == 0 and math.copysign(1.0, value) < 0 else math.nan


def add_fraction(item: Fraction, leaves: Leaves) -> str:
    """Add the nearest float and what rounding lost; of large terms, all digits."""
    try:
        near = float(item)
        lost = float(item - Fraction(near))
    except OverflowError:
        near, lost = math.copysign(math.inf, item), code_of(str(hash(item)))
    leaves.numbers.extend((near, lost if lost else math.nan))
    terms = item.numerator, item.denominator
    large = max(term.bit_length() for term in terms) > _BITS
    leaves.extra(*(code_of(hex(term)) if large else math.nan for term in terms))
    for term in terms if large else ():
        _limbs(term, leaves)
    return type(item).__name__


def add_decimal(item: Decimal, leaves: Leaves) -> str:
    """The nearest float, what rounding lost, and the zeros at the end (1.50 is not 1.5); of many digits, all of them."""
    name, numbers = type(item).__name__, leaves.numbers
    if not item.is_finite():
        numbers.append(math.nan if item.is_nan() else float(item))
        return f"{name} {item}" if item.is_nan() else f"{name} Infinity"
    near, told = float(item), item.as_tuple()
    exponent = int(told.exponent)
    numbers.append(math.copysign(near, -1.0 if item.is_signed() else 1.0))
    lost = float(_CONTEXT.subtract(item, Decimal(near))) if math.isfinite(near) else code_of(str(item))
    zeros = int(_CONTEXT.normalize(item).as_tuple().exponent) - exponent if item else 0
    numbers.extend((lost if lost else math.nan, float(zeros) if zeros > 0 and exponent < 0 else math.nan))
    long = len(told.digits) > _DIGITS or not math.isfinite(near) or (near == 0) == bool(item)
    seen = exponent if exponent > 0 or not item or long else 0
    leaves.extra(negative_zero(numbers[-3]), float(seen) or math.nan, code_of(str(item)) if long else math.nan)
    if long:
        _limbs(int("".join(map(str, told.digits[-_LIMBS * 15 :]))), leaves)
    return name


def add_whole(value: int, leaves: Leaves) -> bool:
    """The nearest float, what rounding lost if it lost anything, and of a huge integer all digits; whether nothing was lost."""
    try:
        near = float(value)
        lost = float(value - int(near))
    except OverflowError:
        near, lost = math.inf if value > 0 else -math.inf, code_of(str(hash(value)))
    leaves.numbers.append(near)
    if not lost:
        return True
    leaves.numbers.append(lost)
    short = math.isfinite(near) and int(near) + int(lost) == value
    leaves.extra(math.nan if short else code_of(hex(value)))
    if not short:
        _limbs(value, leaves)
    if value.bit_length() > _LIMB * _LIMBS:
        leaves.hashed("huge int", [code_of(hex(value))])
    return False


def _limbs(value: int, leaves: Leaves) -> None:
    """An integer in columns of 52 bits, the lowest last; of one with more than 64 columns the lowest."""
    size = min(-(-value.bit_length() // _LIMB), _LIMBS)
    sign, value = (-1.0 if value < 0 else 1.0), abs(value)
    leaves.loose.extend(sign * float((value >> (_LIMB * place)) & (2**_LIMB - 1)) for place in reversed(range(size)))


def add_time(item: Any, leaves: Leaves) -> str:
    """Instants and spans as whole numbers of microseconds, days for a date; what rounding lost is an extra column."""
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
    near = float(ticks)
    leaves.numbers.append(near)
    leaves.extra(float(ticks - int(near)) or math.nan)
    return f"{name}{fold}" if zone is None else f"{name} in {text_of(zone, repr)}{fold}"
