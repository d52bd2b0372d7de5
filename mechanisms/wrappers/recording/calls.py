"""Calls of primitives, how two calls of one primitive differ, and the comparison of a recording
with its replay, call by call, as columns that can be sent over the wire.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from .primitives import LOCATION_LAWS, READ, Primitive, parameters_of
from .values import difference, leaves, shift

INPUT, SCALE = READ.index("input"), READ.index("scale")
PLAIN = frozenset((float, int, str, bool, bytes, type(None), np.float64, np.int64, np.bool_))
_MAX_CALLS = 100_000  # limit of calls in the table
_MAX_INPUT = 4096  # limit of entries of an input whose law needs all of them
_NUMBER_COLUMNS = ("scale", "sensitivity", "epsilon", "delta", "noise", "rate", "steps")
_NUMBER_PLACES = tuple(map(READ.index, _NUMBER_COLUMNS))
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
_SELECTION_LAWS = (
    "choice",
    "binomial",
    "exponential_mechanism",
    "permute_and_flip",
    "randomised_response",
)


class Call:
    """A call of a primitive: its arguments, its output and its place in the code."""

    __slots__ = (
        "args",
        "inner",
        "kwargs",
        "made",
        "output",
        "primitive",
        "raised",
        "read",
        "where",
    )

    def __init__(self, made: BoundPrimitive, args: Any, kwargs: Any, read: Any, where: Any) -> None:
        self.made, self.args, self.kwargs, self.read, self.where = (made, args, kwargs, read, where)
        self.primitive = made.primitive
        self.output: Any = None
        self.raised: Any = None
        self.inner: Any = ()

    def other_arguments(self) -> dict[str, Any]:
        """Return the arguments that no expression uses, by name."""
        made, args = self.made, self.args
        return {
            **{name: args[i] for i, name in made.others if i < len(args)},
            **{f"argument {i}": args[i] for i in range(len(made.names), len(args))},
            **{name: value for name, value in self.kwargs.items() if name not in made.left_out},
        }


class BoundPrimitive:
    """A primitive together with the callable that it names.

    `owner` is the session that patched it, and `writes` writes a recorded output to the target of
    an in-place call.
    """

    def __init__(
        self,
        owner: Any,
        primitive: Primitive,
        original: Callable[..., Any],
        writes: Callable[..., Any] | None = None,
    ) -> None:
        self.owner, self.primitive, self.original, self.writes = owner, primitive, original, writes
        self.names, self.defaults = parameters_of(original, primitive.entry.get("arguments", ""))
        self.place = 1 if self.names[:1] in (("self",), ("cls",)) else 0
        # arguments that are not compared by themselves, and places and names of the other ones
        self.left_out = {*self.names[: self.place], *primitive.used, "out", "generator"}
        self.others = [(i, key) for i, key in enumerate(self.names) if key not in self.left_out]

    def reads(self, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """Return the values of the primitive's expressions for the arguments of a call."""
        return self.primitive.reads(self.names, self.defaults, args, kwargs)


def compared(then: Call, call: Call) -> list[tuple[str, str]]:
    """Return how two calls of one primitive differ in anything but the value of their input, as
    (kind, text) pairs.
    """
    name, found = call.primitive.name, []
    kinds = {"scale": "scale", "size": "shape"}
    before, after = then.read, call.read
    for key, first, second in zip(READ, before, after):
        same = key == "input" or first is second
        text = "" if same else difference(first, second, objects=False)
        if text:
            found.append((kinds.get(key, "parameter"), f"{name}: {key} {text}"))
    first, second = before[INPUT], after[INPUT]
    # the input of an opaque primitive may be a dataset of any size
    is_plain = type(first) is type(second) and type(first) in PLAIN
    if not is_plain and call.primitive.law != "opaque" and _form(first) != _form(second):
        found.append(("shape", f"{name}: input is {_form(first)} and {_form(second)}"))
    # of the other arguments, the first one that differs
    others, now = then.other_arguments(), call.other_arguments()
    for key in {**others, **now}:
        if (key in others) != (key in now):
            text = f"{key} is given on one side only"
        else:
            text = difference(others[key], now[key], key, objects=False)
        if text:
            found.append(("parameter", f"{name}: {text}"))
            break
    return found


def _form(value: Any) -> str:
    """Return the dtype and shape of a number or an array of numbers, or the type of another
    value.
    """
    if isinstance(value, (int, float, np.generic, np.ndarray)):
        array = np.asarray(value)
        if not array.dtype.hasobject:
            return f"{array.dtype} {array.shape}"
        if isinstance(value, int):  # beyond 64 bits
            return "int64 ()"
    return "None" if value is None else type(value).__name__


def without_record(then: Call, now: Call, left_out: tuple[int, int] | None) -> Any:
    """Return a generator's draw for each record, or its permutation of them, without the record
    that is left out, given as (number of records, index of the record).

    None for another kind of draw, or if no record is left out.
    """
    if left_out is None or not then.primitive.source:
        return None
    length, place = left_out
    is_array = not hasattr(then.output, "detach")
    output = then.output if is_array else then.output.numpy()
    before, after = _whole_numbers(then), _whole_numbers(now)
    changed = [(a, b) for a, b in zip(before, after) if a != b]
    if len(before) != len(after) or changed != [(length, length - 1)]:
        return None
    if np.shape(output)[:1] != (length,) or not isinstance(output, np.ndarray):
        return None
    if then.primitive.law == "permutation":
        shorter = output[output != place]
        shorter = shorter - (shorter > place)
    else:
        shorter = np.delete(output, place, axis=0)
    return shorter if is_array else then.output.new_tensor(shorter)


def _whole_numbers(call: Call) -> list[int]:
    """Return the integers among the arguments of a call, and in its tuples and lists of them."""
    arguments = (*call.args[call.made.place :], *call.kwargs.values())
    parts = [np.ravel(v).tolist() for v in arguments if isinstance(v, (int, tuple, list))]
    return [n for part in parts if all(isinstance(n, int) for n in part) for n in part]


class RaisedText(str):
    """Type and message of the exception that a run raised; takes the place of its output."""


def table(then: Any, now: Any) -> dict[str, Any]:
    """Return the inputs of each call in both runs, column by column; numbers are NaN where there
    are none.
    """
    names: dict[str, int] = {}
    rows = []
    for first, second in zip(then.calls[:_MAX_CALLS], now.calls):
        name = first.primitive.name
        if name != second.primitive.name:
            break
        rows.append((names.setdefault(name, len(names)), *_row(first, second)))
    known = {call.primitive.name: call.primitive for call in then.calls}
    used = [known[name] for name in names]
    return {
        **{key: [row[i] for row in rows] for i, key in enumerate(_COLUMNS + _NUMBER_COLUMNS)},
        "names": list(names),
        "samplings": [p.entry.get("sampling", "") for p in used],
        "laws": [p.law for p in used],
        "norms": [p.entry.get("norm", "") for p in used],
        "sources": [p.source for p in used],
    }


def _row(then: Call, now: Call) -> tuple[Any, ...]:
    """Return the columns of one call and its replay, from ``file`` on."""
    law, read = then.primitive.law, then.read
    first, second = read[INPUT], now.read[INPUT]
    moves: Any = None if first is None and second is None else shift(first, second)
    nonzero: Any = np.zeros(0) if moves is None else moves[moves != 0]
    changed = _input_change(first, second) if moves is None else 0
    differs = bool(changed) or moves is None or nonzero.size > 0
    is_location, is_selection = law in LOCATION_LAWS, law in _SELECTION_LAWS
    return (
        *(then.where or ("", 0)),
        *_norms(moves, nonzero),
        nonzero if nonzero.size > 1 else None,
        _input_pair(first, second) if is_selection and first is not None and differs else None,
        changed,
        _inner_draw(then),
        float(then.output.size) if isinstance(then.output, np.ndarray) else 1.0,
        _drawn_numbers(then) if is_location else None,
        _number(first) if is_location else math.nan,
        max(_rounding(first), _rounding(second)),
        _input_text(first, second) if differs else "",
        *[_number(read[place]) for place in _NUMBER_PLACES],
    )


def _norms(moves: Any, nonzero: Any) -> tuple[float, ...]:
    """Return the l1, l2 and linf distances of two inputs; NaN without numbers."""
    if moves is None:
        return (math.nan,) * 3
    if nonzero.size <= 1:
        return (float(nonzero.sum()),) * 3
    return tuple(float(np.linalg.norm(nonzero, order)) for order in (1, 2, np.inf))


def _input_change(first: Any, second: Any) -> int:
    """Return 0 for equal inputs that are not numbers, 1 for different ones, and 2 for inputs of
    different size.
    """
    if isinstance(first, float) != isinstance(second, float) or np.size(first) != np.size(second):
        return 2
    return 1 if difference(first, second) else 0


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
    sides = [leaves(v) for v in (first, second)]
    if all(not texts and numbers.size == 1 for numbers, texts in sides):
        return " / ".join(f"{numbers[0]:.6g}" for numbers, _ in sides)
    return difference(first, second).replace(" and ", " / ")


def _drawn_numbers(call: Call) -> Any:
    """Return the drawn numbers of a call; None for texts or too many numbers."""
    numbers, texts = leaves(call.output)
    if texts or numbers.size > _MAX_CALLS:
        return None
    return float(numbers[0]) if numbers.size == 1 else numbers


def _inner_draw(call: Call) -> Any:
    """Return [law, scale, numbers drawn inside, numbers in the output] of the single draw inside a
    call; None if there is not exactly one.

    The scale is that of the inner draw times the factor that the call multiplies it by, NaN if that
    factor is not one number.
    """
    if len(call.inner) != 1:
        return None
    law, center, scale, drawn = call.inner[0]
    values = (call.read[INPUT], call.output, 0.0 if center is None else center, scale, drawn)
    numbers = [_number(value) for value in values]
    width = math.nan
    if all(isinstance(v, float) and math.isfinite(v) for v in numbers):
        before, after, start, own_scale, end = numbers
        width = own_scale * abs((after - before) / (end - start)) if end != start else math.nan
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
    if numbers.size and not texts:
        is_constant = numbers.size == 1 or (numbers == numbers[0]).all()
        return float(numbers[0]) if is_constant else numbers
    try:
        return float(value)  # a fraction, a decimal or a symbolic number
    except Exception:
        return math.nan


def outcome(output: Any) -> dict[str, Any]:
    """Return the output of a run as numbers and texts, or the exception that it raised."""
    if isinstance(output, RaisedText):
        return {"raised": str(output), "numbers": np.zeros(0), "texts": []}
    numbers, texts = leaves(output)
    return {"raised": "", "numbers": numbers, "texts": texts}


def output_difference(first: Any, second: Any) -> str:
    """Return how two outputs, or the exceptions raised instead, differ; an empty text if they are
    equal.
    """
    raised = [side for side in (first, second) if isinstance(side, RaisedText)]
    if len(raised) == 1:
        return f"raises on one side only: {raised[0]}"
    if raised and first != second:
        return f"raises {first} and {second}"
    return "" if raised else difference(first, second)


def differences(recorder: Any) -> list[dict[str, Any]]:
    """Return the differences of a replay from its recording: the first one of each kind, primitive
    and place.
    """
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
