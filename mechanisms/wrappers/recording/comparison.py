"""Comparison of a recording with its replay, call by call: inputs, changes and outputs as columns
that can be sent over the wire.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .calls import Call, shift_of
from .primitives import LOCATION_LAWS, READ
from .recorder import Recorder
from .values import difference, leaves

_MAX_CALLS = 100_000  # limit of calls in the table
_MAX_DRAWN = 100_000  # limit of drawn numbers per call
_MAX_INPUT = 4096  # limit of entries of an input whose law needs all of them
_NUMBER_COLUMNS = ("scale", "sensitivity", "epsilon", "delta", "noise", "rate", "steps")
_COLUMNS = (
    "primitive",
    "file",
    "line",
    "l1",
    "l2",
    "linf",
    "moves",
    "inputs",
    "alone",
    "inner",
    "size",
    "drawn",
    "center",
    "rounding",
    "text",
)
_NUMBER_INDICES = tuple((key, READ.index(key)) for key in _NUMBER_COLUMNS)
_SELECTION_LAWS = (
    "choice",
    "binomial",
    "exponential_mechanism",
    "permute_and_flip",
    "randomised_response",
)


class Raised:
    """The output of a run that raised an exception."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def describe(self) -> str:
        """Return the type and the message of the exception."""
        try:
            return f"{type(self.error).__name__}: {self.error}"
        except Exception:
            return type(self.error).__name__


def table(then: Recorder, now: Recorder) -> dict[str, Any]:
    """Return the inputs of each call on both sides, column by column; numbers are NaN where there
    are none.
    """
    names: dict[str, int] = {}
    columns: dict[str, list[Any]] = {key: [] for key in _COLUMNS + _NUMBER_COLUMNS}
    for first, second in zip(then.calls[:_MAX_CALLS], now.calls):
        if first.primitive.name != second.primitive.name:
            break
        _append_call(columns, names, first, second)
    known = {call.primitive.name: call.primitive for call in then.calls}
    used = [known[name] for name in names]
    more = {
        "laws": [p.law for p in used],
        "norms": [p.entry.get("norm", "") for p in used],
        "sources": [p.source for p in used],
    }
    return dict(
        columns, names=list(names), samplings=[p.entry.get("sampling", "") for p in used], **more
    )


def _append_call(columns: Any, names: dict[str, int], then: Call, now: Call) -> None:
    """Append one call and its replay to the columns."""
    primitive = then.primitive
    moves = shift_of(then, now)
    call = (names.setdefault(primitive.name, len(names)), *(then.where or ("", 0)))
    plain = (
        moves is not None
        and moves.size == 1
        and not then.inner
        and isinstance(then.output, float)
        and isinstance(then.read[0], float)
    )
    if plain and primitive.law not in _SELECTION_LAWS:
        row = (*call, *_number_row(float(moves[0]), then))
    else:
        row = (*call, *_general_row(moves, then, now))
    for key, value in zip(_COLUMNS, row):
        columns[key].append(value)
    for key, place in _NUMBER_INDICES:
        value = then.read[place]
        columns[key].append(value if type(value) is float else _number(value))


def _number_row(size: float, then: Call) -> tuple[Any, ...]:
    """Return the columns from ``l1`` on of a call that draws one number around a number, the most
    frequent kind of call.
    """
    center = then.read[0]
    return (
        size,
        size,
        size,
        None,
        None,
        0,
        None,
        1.0,
        float(then.output),
        center,
        0.0,
        f"{center:.6g} / {size:.6g}" if size else "",
    )


def _general_row(moves: Any, then: Call, now: Call) -> tuple[Any, ...]:
    """Return the columns from ``l1`` on of any call."""
    law, first, second = then.primitive.law, then.read[0], now.read[0]
    input_changed = 0
    if moves is None and (first is not None or second is not None):
        input_changed = 1 if difference(first, second) else 0  # an input that is not a number
        if isinstance(first, float) != isinstance(second, float) or (
            np.size(first) != np.size(second)
        ):
            input_changed = 2
    nonzero: Any = np.zeros(0) if moves is None else moves[moves != 0]
    one = moves is not None and nonzero.size <= 1
    size = float(nonzero[0]) if one and nonzero.size else 0.0
    norms = (
        (math.nan,) * 3
        if moves is None
        else (size,) * 3
        if one
        else (float(np.sum(nonzero)), float(np.sqrt(np.sum(nonzero**2))), float(np.max(nonzero)))
    )
    return (
        *norms,
        None if moves is None or one else nonzero,
        _input_pair(first, second)
        if law in _SELECTION_LAWS and first is not None and (size or not one)
        else None,
        input_changed,
        _inner_draw(then),
        float(then.output.size) if isinstance(then.output, np.ndarray) else 1.0,
        _drawn_numbers(then) if law in LOCATION_LAWS else None,
        _number(first) if law in LOCATION_LAWS else math.nan,
        max(_rounding(first), _rounding(second)),
        _input_text(first, second) if size or not one or input_changed else "",
    )


def _rounding(value: Any) -> float:
    """Return four units in the last place of the largest number of a float16 or float32 input; 0
    for other types.
    """
    dtype = getattr(value, "dtype", None)
    if dtype not in (np.float16, np.float32):
        return 0.0
    return 4 * float(np.finfo(dtype).eps) * float(np.max(np.abs(value), initial=0.0))


def _input_text(first: Any, second: Any) -> str:
    """Return two inputs as text: both numbers, or the first place where the inputs differ."""
    numbers = [leaves(v) for v in (first, second)]
    if all(texts == [] and values.size == 1 for values, texts in numbers):
        return " / ".join(f"{float(values[0]):.6g}" for values, _ in numbers)
    return difference(first, second).replace(" and ", " / ")


def _drawn_numbers(call: Call) -> Any:
    """Return the drawn numbers of a call; None for texts or too many numbers."""
    numbers, texts = leaves(call.output)
    return (
        None
        if texts or numbers.size > _MAX_DRAWN
        else float(numbers[0])
        if numbers.size == 1
        else numbers
    )


def _inner_draw(call: Call) -> Any:
    """Return [law, scale, numbers drawn inside, numbers in the output] of the single draw inside a
    call; None if there is not exactly one.

    The scale is that of the inner draw times the factor that the call multiplies it by, NaN if that
    factor is not one number.
    """
    if len(call.inner) != 1:
        return None
    law, centre, scale, drawn = call.inner[0]
    numbers = [
        _number(v)
        for v in (call.read[0], call.output, 0.0 if centre is None else centre, scale, drawn)
    ]
    plain = (
        all(isinstance(v, float) and math.isfinite(v) for v in numbers) and numbers[4] != numbers[2]
    )
    width = (
        numbers[3] * abs((numbers[1] - numbers[0]) / (numbers[4] - numbers[2]))
        if plain
        else math.nan
    )
    return [law, width, leaves(drawn)[0].size, leaves(call.output)[0].size]


def _input_pair(first: Any, second: Any) -> Any:
    """Return both inputs as arrays of numbers, or as short texts where they are not numbers or too
    large.
    """
    (a, texts), (b, others) = leaves(first), leaves(second)
    if texts or others or a.size > _MAX_INPUT or b.size > _MAX_INPUT:
        return [str(first)[:80], str(second)[:80]]
    return [a, b]


def _number(value: Any) -> Any:
    """Return a float, or an array of floats; NaN for a value without numbers."""
    if value is None or isinstance(value, (str, bytes)):
        return math.nan
    if isinstance(value, (float, int)):
        return float(value)
    numbers, texts = leaves(value)
    if texts or numbers.size == 0:
        try:
            return float(value)  # a fraction, a decimal or a symbolic number
        except Exception:
            return math.nan
    return float(numbers[0]) if numbers.size == 1 or (numbers == numbers[0]).all() else numbers


def outcome(output: Any) -> dict[str, Any]:
    """Return the output of a run as numbers and texts, or the exception that it raised."""
    if isinstance(output, Raised):
        return {"raised": output.describe(), "numbers": np.zeros(0), "texts": []}
    numbers, texts = leaves(output)
    return {"raised": "", "numbers": numbers, "texts": texts}


def output_difference(first: Any, second: Any) -> str:
    """Return how two outputs, or the exceptions raised instead, differ; an empty text if they are
    equal.
    """
    if isinstance(first, Raised) and isinstance(second, Raised):
        return (
            ""
            if first.describe() == second.describe()
            else f"raises {first.describe()} and {second.describe()}"
        )
    if isinstance(first, Raised) or isinstance(second, Raised):
        return "raises on one side only: " + next(
            side.describe() for side in (first, second) if isinstance(side, Raised)
        )
    return difference(first, second)


def differences(recorder: Recorder) -> list[dict[str, Any]]:
    """Return the first difference of each kind, primitive and place."""
    found: dict[Any, dict[str, Any]] = {}
    for kind, index, text in recorder.differences:
        made = recorder if kind != "fewer calls" or recorder.played is None else recorder.played
        where = place_of(made.calls[index].where)
        found.setdefault(
            (kind, where, text.partition(":")[0]), {"kind": kind, "text": text, "where": where}
        )
    return list(found.values())[:100]


def place_of(where: Any) -> str:
    """Return FILE:LINE of a call."""
    return f"{where[0]}:{where[1]}" if where else "an unknown place"
