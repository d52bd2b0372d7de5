"""Answers of accountants and of tools, read as real numbers."""

from __future__ import annotations

import math
from typing import Any

from dpwitness.core.values.validation import error_text

_NOT_REAL = "bcmMOSUV"  # NumPy's kinds of bools, complex numbers, times, objects, texts and records


def number_of(answer: Any) -> tuple[float, str]:
    """Return an answer as a number, and a description of the problem if the answer is an exception
    or not a real number.

    Numbers of every library that convert to float are read, infinite ones too. Bools, texts and
    complex numbers convert in some cases, but are not figures.
    """
    if isinstance(answer, BaseException):
        return math.nan, error_text(answer)
    kind = getattr(getattr(answer, "dtype", None), "kind", "f")
    if isinstance(answer, bool | str | bytes | bytearray | complex) or kind in _NOT_REAL:
        return math.nan, _refused(answer)
    try:
        number = float(answer)
    except OverflowError:
        return math.nan, f"returned {type(answer).__name__} beyond the largest double"
    except Exception:  # a conversion of a user's class may raise anything
        return math.nan, _refused(answer)
    return number, "returned nan" if math.isnan(number) else ""


def _refused(answer: Any) -> str:
    return f"returned {type(answer).__name__}, not a number"
