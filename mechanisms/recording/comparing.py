"""What a recording and what was played from it say, call by call: inputs, moves, outputs, as columns that go over the wire."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .primitives import LOCATION, READ
from .recorder import Call, Recorder, shift_of
from .values import difference, leaves

_ROWS = 100_000  # calls whose numbers are told
_FEW = 100_000  # drawn numbers that are told
_WHOLE = 4096  # entries of an input that are told, where its law needs them all
_NUMBERS = ("scale", "sensitivity", "epsilon", "delta", "noise", "rate", "steps")
_COLUMNS = (
    "primitive",
    "stream",
    "index",
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
    "told",
)
_PLACES = tuple((key, READ.index(key)) for key in _NUMBERS)
_SELECTS = ("choice", "binomial", "exponential_mechanism", "permute_and_flip", "randomised_response")


class Raised:
    """A run that raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def told(self) -> str:
        try:
            return f"{type(self.error).__name__}: {self.error}"
        except Exception:
            return type(self.error).__name__


def table(then: Recorder, now: Recorder) -> dict[str, Any]:
    """What each call was given on both sides, column by column: numbers are NaN where there are none."""
    names: dict[str, int] = {}
    columns: dict[str, list[Any]] = {key: [] for key in _COLUMNS + _NUMBERS}
    left = _ROWS
    for stream, calls in then.streams.items():
        others = now.streams.get(stream, [])
        for index, (first, second) in enumerate(zip(calls, others)):
            if left == 0 or first.primitive.name != second.primitive.name:
                break
            left -= 1
            _row(columns, names, stream, index, first, second)
    known = {call.primitive.name: call.primitive for calls in then.streams.values() for call in calls}
    used = [known[name] for name in names]
    more = {"laws": [p.law for p in used], "norms": [p.entry.get("norm", "") for p in used], "sources": [p.source for p in used]}
    return dict(columns, names=list(names), samplings=[p.entry.get("sampling", "") for p in used], **more)


def _row(columns: Any, names: dict[str, int], stream: Any, index: int, then: Call, now: Call) -> None:
    primitive = then.primitive
    file, line = then.where or ("", 0)
    moves, alone = shift_of(then, now), 0
    first, second = then.read[0], now.read[0]
    if (
        moves is not None
        and moves.size == 1
        and not then.inner
        and isinstance(then.output, float)
        and isinstance(first, float)
        and primitive.law not in _SELECTS
    ):
        size = float(moves[0])
        start, rest = (
            ("/".join(stream), index, file, line),
            (None, None, 0, None, 1.0, float(then.output), first, 0.0, f"{first:.6g} / {second:.6g}" if size else ""),
        )
        plain = (names.setdefault(primitive.name, len(names)), *start, size, size, size, *rest)
        for key, value in zip(_COLUMNS, plain):
            columns[key].append(value)
        for key, place in _PLACES:
            value = then.read[place]
            columns[key].append(value if type(value) is float else _number(value))
        return
    if moves is None and (first is not None or second is not None):
        alone = 1 if difference(first, second) else 0  # an input that is no number
        if isinstance(first, float) != isinstance(second, float) or (np.size(first) != np.size(second)):
            alone = 2
    nonzero: Any = np.zeros(0) if moves is None else moves[moves != 0]
    one = moves is not None and nonzero.size <= 1
    size = float(nonzero[0]) if one and nonzero.size else 0.0
    values = {
        "primitive": names.setdefault(primitive.name, len(names)),
        "stream": "/".join(map(str, stream)),
        "index": index,
        "file": file,
        "line": line,
        "l1": math.nan if moves is None else size if one else float(np.sum(nonzero)),
        "l2": math.nan if moves is None else size if one else float(np.sqrt(np.sum(nonzero**2))),
        "linf": math.nan if moves is None else size if one else float(np.max(nonzero)),
        "moves": None if moves is None or one else nonzero,
        "inputs": _both(first, second) if primitive.law in _SELECTS and first is not None and (size or not one) else None,
        "alone": alone,
        "inner": _inner(then),
        "size": float(then.output.size) if isinstance(then.output, np.ndarray) else 1.0,
        "drawn": _drawn(then) if primitive.law in LOCATION else None,
        "center": _number(first) if primitive.law in LOCATION else math.nan,
        "rounding": max(_rounding(first), _rounding(second)),
        "told": _told(first, second) if size or not one or alone else "",
    }
    for key, value in values.items():
        columns[key].append(value)
    for key, place in _PLACES:
        columns[key].append(_number(then.read[place]))


def _rounding(value: Any) -> float:
    """Four units in the last place of the largest number of a float16 or float32 input; 0 for other types."""
    dtype = getattr(value, "dtype", None)
    if dtype not in (np.float16, np.float32):
        return 0.0
    return 4 * float(np.finfo(dtype).eps) * float(np.max(np.abs(value), initial=0.0))


def _told(first: Any, second: Any) -> str:
    """Two inputs: the numbers, or the first place where they differ."""
    numbers = [leaves(v) for v in (first, second)]
    if all(texts == [] and values.size == 1 for values, texts in numbers):
        return " / ".join(f"{float(values[0]):.6g}" for values, _ in numbers)
    return difference(first, second).replace(" and ", " / ")


def _drawn(call: Call) -> Any:
    """What was drawn, where it is few numbers."""
    numbers, texts = leaves(call.output)
    return None if texts or numbers.size > _FEW else float(numbers[0]) if numbers.size == 1 else numbers


def _inner(call: Call) -> Any:
    """[law, scale, numbers] of the one draw within: its own scale, times what it is multiplied by (NaN if not one number), and its size."""
    if len(call.inner) != 1:
        return None
    law, centre, scale, drawn = call.inner[0]
    numbers = [_number(v) for v in (call.read[0], call.output, 0.0 if centre is None else centre, scale, drawn)]
    plain = all(isinstance(v, float) and math.isfinite(v) for v in numbers) and numbers[4] != numbers[2]
    width = numbers[3] * abs((numbers[1] - numbers[0]) / (numbers[4] - numbers[2])) if plain else math.nan
    return [law, width, leaves(drawn)[0].size, leaves(call.output)[0].size]


def _both(first: Any, second: Any) -> Any:
    (a, texts), (b, others) = leaves(first), leaves(second)
    if texts or others or a.size > _WHOLE or b.size > _WHOLE:
        return [str(first)[:80], str(second)[:80]]
    return [a, b]


def _number(value: Any) -> Any:
    """A float, or an array of them; NaN for what is none."""
    if value is None or isinstance(value, (str, bytes)):
        return math.nan
    if isinstance(value, (float, int)):
        return float(value)
    numbers, texts = leaves(value)
    if texts or numbers.size == 0:
        try:
            return float(value)  # a fraction, a decimal, a symbolic number
        except Exception:
            return math.nan
    return float(numbers[0]) if numbers.size == 1 or (numbers == numbers[0]).all() else numbers


def outcome(output: Any) -> dict[str, Any]:
    """An output as numbers and texts, or what was raised."""
    if isinstance(output, Raised):
        return {"raised": output.told(), "numbers": np.zeros(0), "texts": []}
    numbers, texts = leaves(output)
    return {"raised": "", "numbers": numbers, "texts": texts}


def outputs_differ(first: Any, second: Any) -> str:
    """In what two outputs, or what they raised, differ; empty if in nothing."""
    if isinstance(first, Raised) and isinstance(second, Raised):
        return "" if first.told() == second.told() else f"raises {first.told()} and {second.told()}"
    if isinstance(first, Raised) or isinstance(second, Raised):
        return "raises on one side only: " + next(side.told() for side in (first, second) if isinstance(side, Raised))
    return difference(first, second)


def differences(recorder: Recorder) -> list[dict[str, Any]]:
    """The first of each kind, primitive and place."""
    found: dict[Any, dict[str, Any]] = {}
    for kind, stream, index, told in recorder.differences:
        calls = recorder.streams.get(stream, []) if kind != "fewer calls" or recorder.played is None else recorder.played.streams[stream]
        call = calls[index] if index < len(calls) else None
        where = place_of(call.where) if call is not None else ""
        key = (kind, where, told.partition(":")[0])
        if key not in found:
            found[key] = {"kind": kind, "stream": "/".join(stream), "index": index, "told": told, "where": where, "times": 0}
        found[key]["times"] += 1
    return list(found.values())[:100]


def place_of(where: Any) -> str:
    """FILE:LINE of a call."""
    return f"{where[0]}:{where[1]}" if where else "an unknown place"
