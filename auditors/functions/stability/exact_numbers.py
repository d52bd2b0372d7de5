"""Exact numbers of outputs and maps: integers, fractions and infinities; and a test whether an
excess may come from rounding.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

from dpwitness.auditors.functions.stability.inputs.atoms import to_f32
from dpwitness.core.values.dataframe_backends import library_name, to_parts, values_of

Exact = Fraction | int | float  # a float is an infinity

_TOLERANCE = 1e-9  # relative excess that is attributed to rounding
_TOLERANCE_F32 = 5e-7  # the same for floats of 32 bits, four units in the last place
_ULPS = 4  # units in the last place of the larger output that are attributed to rounding,
_LARGEST = 1e-3  # while the relative excess is at most this


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
    if isinstance(value, float):
        if value != value:
            raise Incomparable("NaN is not a number")
        return Fraction(value) if math.isfinite(value) else float(value)
    if isinstance(value, bool | int | Rational):
        return Fraction(value)
    if isinstance(value, Decimal):
        if value.is_nan():
            raise Incomparable("NaN is not a number")
        return Fraction(value) if value.is_finite() else math.copysign(math.inf, value)
    if isinstance(value, datetime.timedelta):
        return Fraction(value // datetime.timedelta(microseconds=1), 10**6)
    scalar = plain(value)
    if scalar is not value:
        return exact(scalar)
    raise Incomparable(f"a number is needed, got {type(value).__name__}")


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or a missing value of a library, which no noise turns
    into a number.
    """
    if isinstance(value, float):
        return value != value
    return (
        value is None
        or (isinstance(value, Decimal) and value.is_nan())
        or type(value).__name__ in ("NAType", "NaTType")
    )


def gap(first: Any, second: Any) -> Exact:
    """Return ``|first - second|`` exactly. Two missing values are equal; a missing value is
    infinitely far from a number.
    """
    if is_missing(first) or is_missing(second):
        return 0 if is_missing(first) and is_missing(second) else math.inf
    if type(first) is int and type(second) is int:
        return abs(first - second)
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
    floats = [each for each in flat_numbers(outputs) if isinstance(each, float)]
    if (
        isinstance(excess, float)
        or not bound > 0
        or not (floats or Fraction(bound).denominator > 1)
    ):
        return False
    narrow = (
        bool(floats)
        and all(to_f32(each) == each or each != each for each in floats)
        and any(map(_has_many_bits, floats))
    )
    relative = Fraction(excess) / Fraction(bound) / root
    if relative <= Fraction(_TOLERANCE_F32 if narrow else _TOLERANCE):
        return True
    largest = max((abs(each) for each in floats if math.isfinite(each)), default=0.0)
    unit = Fraction(math.ulp(largest)) * (2**29 if narrow else 1)
    return relative <= Fraction(_LARGEST) and relative * Fraction(bound) <= _ULPS * unit


def _has_many_bits(value: float) -> bool:
    """Return whether a float has more than 20 significant bits, as most results of
    rounding have.
    """
    return math.isfinite(value) and not (math.frexp(value)[0] * 2**20).is_integer()


def flat_numbers(value: Any) -> list[Any]:
    """Return the numbers in nested lists, tuples and dicts."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in flat_numbers(part)]
    value = plain(value)
    if isinstance(value, list | tuple):
        return [number for part in value for number in flat_numbers(part)]
    return [value] if isinstance(value, int | float) else []
