"""Ranges of data: the bounds that a call states, and the numbers that the code compares values
with, clips them at, or bins them by.
"""

from __future__ import annotations

import ast
import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dpwitness.auditors.scanning.promises import NOISE, SENSITIVITY, privacy_parameters

_PAIRS = (
    ("lower", "upper"), ("low", "high"), ("lo", "hi"), ("min", "max"), ("min_value", "max_value"),
    ("a_min", "a_max"), ("lower_bound", "upper_bound"), ("clip_min", "clip_max"),
    ("min_val", "max_val"),
)  # fmt: skip
_RANGE = re.compile(r"bounds?|(\w+_)?range|limits|clip\w*|interval")
_CLIPPING = re.compile(r"clip\w*|clamp\w*|min(imum)?|max(imum)?|fmin|fmax|between")
_BINNING = re.compile(r"digitize|histogram\w*|cut|searchsorted")
# names of numbers of records or of steps, not of values
COUNT = re.compile(
    r"[ijkmn]|size|len\w*|num_\w+|n_\w+|\w+_(count|size)|total|counts?|bins|steps?|rounds?|"
    r"epochs?|iterations?|index|shape|ndim"
)


def limits_of(function: ast.AST) -> tuple[float | str, ...]:
    """Return the numbers, and the names, that the code of a function compares values with, clips
    them at, or bins them by; not those of its guards.

    Examples
    --------
    >>> limits_of(ast.parse("sum(age > 65 for age in ages) + min(max(x, low), 100)"))
    (100, 'x', 'low', 'age', 65)
    """
    refused = {id(part) for test in _guards(function) for part in ast.walk(test)}
    return _numbers_or_names(part for part in ast.walk(function) if id(part) not in refused)


def guards_of(function: ast.AST) -> tuple[float | str, ...]:
    """Return the numbers, and the names, beyond which the code of a function raises.

    Examples
    --------
    >>> guards_of(ast.parse("if max(ages) > 120 or n < 3: raise ValueError"))
    (120, 'ages')
    """
    return _numbers_or_names(part for test in _guards(function) for part in ast.walk(test))


def _guards(function: ast.AST) -> Iterator[ast.expr]:
    """Yield the conditions of assertions, and of branches that raise."""
    for part in ast.walk(function):
        if isinstance(part, ast.Assert) or (
            isinstance(part, ast.If) and any(isinstance(each, ast.Raise) for each in part.body)
        ):
            yield part.test


def _numbers_or_names(parts: Iterable[ast.AST]) -> tuple[float | str, ...]:
    found: list[float | str] = []
    for side in (side for part in parts for side in _compared(part)):
        if isinstance(side, ast.Name):
            found.append(side.id)
        with contextlib.suppress(ValueError, TypeError):
            value = ast.literal_eval(side)
            found += [value] if is_real(value) else []
    return tuple(dict.fromkeys(found))[:100]


def _compared(part: ast.AST) -> Sequence[ast.expr]:
    """Return the expressions that values are compared with, clipped at or binned by in a part of
    the code; not those that are compared with a number of records, or with a parameter of the
    noise.
    """
    sides: list[ast.expr] = []
    if isinstance(part, ast.Compare):
        sides = [part.left, *part.comparators]
    if isinstance(part, ast.Call):
        given = [*part.args, *(each.value for each in part.keywords)]
        if _BINNING.fullmatch(_called(part)):
            every = (inner for side in given for inner in ast.walk(side))
            return [inner for inner in every if isinstance(inner, ast.Constant | ast.Name)]
        sides = given if _CLIPPING.fullmatch(_called(part)) else []
    return [] if _is_other([name for side in sides for name in names_in(side)]) else sides


def _is_other(names: Sequence[str]) -> bool:
    """Return whether one of the names stands for a number of records or steps, or for a parameter
    of the noise.
    """
    return bool(privacy_parameters(names)) or any(
        pattern.fullmatch(name) for name in names for pattern in (COUNT, NOISE, SENSITIVITY)
    )


def names_in(expression: ast.AST) -> Iterator[str]:
    """Yield the names and attributes in an expression."""
    for part in ast.walk(expression):
        if isinstance(part, ast.Name | ast.Attribute):
            yield part.id if isinstance(part, ast.Name) else part.attr


def columns_of(function: ast.AST) -> dict[str, bool]:
    """Return the columns of frames that the code of a function names, and whether their values are
    labels: it groups by them, counts them, or asks whether they equal anything but a number.

    Examples
    --------
    >>> columns_of(ast.parse("orders[orders['kind'] == 'new'].groupby('city')['amount'].sum()"))
    {'amount': False, 'kind': True, 'city': True}
    """
    found, labels = dict[str, bool](), set[str]()
    for part in ast.walk(function):
        if isinstance(part, ast.Subscript):
            found |= dict.fromkeys(_texts_in(part.slice), False)
        elif isinstance(part, ast.Call) and _called(part) in ("groupby", "group_by"):
            given = (*part.args, *(each.value for each in part.keywords))
            labels |= {text for each in given for text in _texts_in(each)}
        elif isinstance(part, ast.Attribute) and part.attr in ("value_counts", "isin", "str"):
            labels |= {*_column(part.value)}
        elif isinstance(part, ast.Compare):
            sides = [part.left, *part.comparators]
            is_equality = all(isinstance(each, ast.Eq | ast.NotEq) for each in part.ops)
            numbers = (side.value for side in sides if isinstance(side, ast.Constant))
            if is_equality and not any(map(is_real, numbers)):
                labels |= {text for side in sides for text in _column(side)}
    return {name: name in labels for name in (*found, *sorted(labels - {*found}))}


def _called(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return ast.unparse(call.func).rpartition(".")[2]


def _texts_in(expression: ast.AST) -> list[str]:
    """Return the texts of a text or of a list of texts."""
    parts = expression.elts if isinstance(expression, ast.List | ast.Tuple) else [expression]
    return [
        part.value
        for part in parts
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


def _column(expression: ast.AST) -> list[str]:
    """Return the column that an expression takes from a frame, if it does."""
    return _texts_in(expression.slice) if isinstance(expression, ast.Subscript) else []


def values_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the arguments whose source is a literal, by name."""
    values = {}
    for name, text in texts.items():
        with contextlib.suppress(ValueError, SyntaxError, TypeError):
            values[name] = ast.literal_eval(text)
    return values


def stated_bounds(values: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the bounds of data that arguments state; None if they state none.

    Examples
    --------
    >>> stated_bounds({"low": 0, "high": 50, "epsilon": 1.0})
    (0.0, 50.0)
    """
    sides = ((values.get(low), values.get(high)) for low, high in _PAIRS)
    pairs: list[Any] = [pair for pair in sides if all(map(is_real, pair))]
    for name, pair in values.items():
        known = _RANGE.fullmatch(name) and isinstance(pair, list | tuple) and len(pair) == 2
        if known and all(map(is_real, pair)) and pair[0] < pair[1]:
            pairs.append(pair)
    return (float(pairs[0][0]), float(pairs[0][1])) if pairs else None


def data_range(
    limits: Sequence[float | str],
    guards: Sequence[float | str],
    scales: Sequence[str],
    values: Mapping[str, Any],
    low: float,
    high: float,
) -> tuple[float, float]:
    """Return a range of data that contains the known data, the sensitivity for which the noise is
    scaled, and the limits in the code. The range extends beyond limits above 2, so that data on
    both sides of each limit occur. The range ends at the guards, unless known data are outside of
    them.

    Parameters
    ----------
    limits, guards : sequence of float or str
        Numbers, and names of arguments, as `limits_of` and `guards_of` return them.
    scales : sequence of str
        Names in the scale of the noise.
    values : mapping
        Arguments by name: numbers, and lists of numbers.
    low, high : float
        Range of the known data.

    Examples
    --------
    >>> data_range((65, "cap"), (), (), {"cap": 120.0}, 20.0, 60.0)
    (20.0, 150.0)
    >>> data_range((0, 1), (), ("longest", "epsilon"), {"longest": 30, "epsilon": 99.0}, 0.1, 0.9)
    (0.0, 30.0)
    >>> data_range((100,), (0, 110), (), {}, 20.0, 60.0), data_range((), (1,), (), {}, 20.0, 60.0)
    ((0.0, 110.0), (1.0, 60.0))
    """
    numbers = _numbers(limits, values)
    most, least = max(numbers, default=high), min(numbers, default=low)
    if most > max(high, 2.0):
        most = float(math.ceil(1.25 * most))
    reached = _numbers([name for name in scales if not _is_other([name])], values)
    wide = [min(low, least), max([high, most, *reached])]
    refused = _numbers(guards, values)
    if refused and max(refused) > low:
        wide[1] = max(high, *refused)
    if refused and min(refused) < high:
        wide[0] = min(low, *refused)
    low, high = wide
    return (low, high) if low < high else (min(low, 0.0), max(high, low + 1.0))


def _numbers(known: Sequence[float | str], values: Mapping[str, Any]) -> list[float]:
    """Return the numbers among these, and those that the named arguments hold."""
    held: Iterator[Any] = (values.get(each) if isinstance(each, str) else each for each in known)
    inside = (v for each in held for v in (each if isinstance(each, list | tuple) else [each]))
    # numbers beyond guard against overflow
    return [float(v) for v in inside if is_real(v) and abs(v) <= 1e12]


def is_real(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
