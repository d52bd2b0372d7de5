"""Calls of primitives, how two calls of one primitive differ, and the comparison of a recording
with its replay, call by call, as columns that can be sent over the wire.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from .primitives import LOCATION_LAWS, READ, Primitive
from .values import difference, leaves, shift

INPUT, SCALE = READ.index("input"), READ.index("scale")
PLAIN = frozenset((float, int, str, bool, bytes, type(None), np.float64, np.int64, np.bool_))
_MAX_CALLS = 100_000  # limit of calls in the table
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


class Call:
    """A call of a primitive: its arguments, its output and its place in the code."""

    __slots__ = (
        "args",
        "inner",
        "kwargs",
        "made",
        "once",
        "output",
        "primitive",
        "raised",
        "values",
        "where",
    )

    def __init__(
        self, made: BoundPrimitive, args: Any, kwargs: Any, values: Any, where: Any
    ) -> None:
        self.made, self.args, self.kwargs, self.values, self.where = (
            made,
            args,
            kwargs,
            values,
            where,
        )
        self.primitive = made.primitive
        self.output: Any = None
        self.raised: Any = None
        self.once = False
        self.inner: Any = ()

    @property
    def read(self) -> tuple[Any, ...]:
        """Return the values of the primitive's expressions. Values that depend on arguments alone
        are evaluated on first access.
        """
        if self.values is None:
            made = self.made
            self.values = made.primitive.reads(made.names, made.defaults, self.args, self.kwargs)
        found: tuple[Any, ...] = self.values
        return found

    def other_arguments(self) -> dict[str, Any]:
        """Return the arguments that no expression uses, by name."""
        names, first = self.made.names, self.made.place
        found = {
            names[i] if i < len(names) else f"argument {i}": value
            for i, value in enumerate(self.args)
            if i >= first
        }
        found.update(self.kwargs)
        left_out = {*self.primitive.used, "out", "generator"}
        return {name: value for name, value in found.items() if name not in left_out}


class BoundPrimitive:
    """A primitive together with the callable that it names."""

    __slots__ = ("defaults", "names", "original", "owner", "place", "primitive", "writes")

    def __init__(
        self,
        owner: Any,
        primitive: Primitive,
        original: Callable[..., Any],
        names: Any,
        defaults: Any,
        writes: Any = None,
    ) -> None:
        self.owner = owner  # the session that patched it
        self.primitive, self.original, self.names, self.defaults = (
            primitive,
            original,
            names,
            defaults,
        )
        self.writes = writes  # writes a recorded output to the target of an in-place call
        self.place = 0 if not names or names[0] not in ("self", "cls") else 1


def compared(then: Call, call: Call) -> list[tuple[str, str]]:
    """Return how two calls of one primitive differ in anything but the value of their input, as
    (kind, text) pairs.
    """
    name, found = call.primitive.name, []
    for place, (key, first, second) in enumerate(zip(READ, then.read, call.read)):
        same = first is second or (
            type(first) is type(second) and type(first) in PLAIN and first == second and first != 0
        )
        text = "" if place == INPUT or same else difference(first, second, objects=False)
        if text:
            found.append(
                ({"scale": "scale", "size": "shape"}.get(key, "parameter"), f"{name}: {key} {text}")
            )
    # the input of an opaque primitive may be a dataset of any size
    first, second = then.read[INPUT], call.read[INPUT]
    same = type(first) is type(second) and type(first) in PLAIN
    if call.primitive.law != "opaque" and not same:
        (form, text), (other, other_text) = _form(first), _form(second)
        if form != other:
            found.append(("shape", f"{name}: input is {text} and {other_text}"))
    # of the other arguments, the first one that differs
    place = call.made.place
    if len(then.args) <= place >= len(call.args) and not then.kwargs and not call.kwargs:
        return found
    then_named, now_named = then.other_arguments(), call.other_arguments()
    for key in {**then_named, **now_named}:
        if (key in then_named) != (key in now_named):
            text = f"{key} is given on one side only"
        else:
            text = difference(then_named[key], now_named[key], key, objects=False)
        if text:
            found.append(("parameter", f"{name}: {text}"))
            break
    return found


def _form(value: Any) -> tuple[Any, str]:
    """Return the dtype and shape of a number or an array of numbers, or the type of another value;
    and the form as text.
    """
    if isinstance(value, (int, float, np.generic, np.ndarray)):
        array = np.asarray(value)
        if not array.dtype.hasobject:
            return (array.dtype, array.shape), f"{array.dtype} {array.shape}"
    return type(value), "None" if value is None else type(value).__name__


def without_record(then: Call, now: Call, length: int, place: int) -> Any:
    """Return a draw for each of `length` records, or a permutation of them, without the record at
    `place`.

    None for another kind of draw.
    """
    is_array = not hasattr(then.output, "detach")
    output = then.output if is_array else then.output.numpy()
    sizes = [
        [
            number
            for argument in (*call.args[call.made.place :], *call.kwargs.values())
            if isinstance(argument, (int, tuple, list))
            and all(isinstance(v, int) for v in np.ravel(argument).tolist())
            for number in np.ravel(argument).tolist()
        ]
        for call in (then, now)
    ]
    changed_sizes = (
        [(a, b) for a, b in zip(*sizes) if a != b] if len(sizes[0]) == len(sizes[1]) else []
    )
    if (
        changed_sizes != [(length, length - 1)]
        or not isinstance(output, np.ndarray)
        or output.shape[:1] != (length,)
    ):
        return None
    if then.primitive.law == "permutation":
        shorter = output[output != place]
        shorter = shorter - (shorter > place)
    else:
        shorter = np.delete(output, place, axis=0)
    return shorter if is_array else then.output.new_tensor(shorter)


class RaisedText(str):
    """Type and message of the exception that a run raised; takes the place of its output."""


def table(then: Any, now: Any) -> dict[str, Any]:
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
    return dict(
        columns,
        names=list(names),
        samplings=[p.entry.get("sampling", "") for p in used],
        laws=[p.law for p in used],
        norms=[p.entry.get("norm", "") for p in used],
        sources=[p.source for p in used],
    )


def _append_call(columns: Any, names: dict[str, int], then: Call, now: Call) -> None:
    """Append one call and its replay to the columns."""
    primitive = then.primitive
    first, second = then.read[INPUT], now.read[INPUT]
    moves: Any = None if first is None and second is None else shift(first, second)
    call = (names.setdefault(primitive.name, len(names)), *(then.where or ("", 0)))
    plain = (
        moves is not None
        and moves.size == 1
        and not then.inner
        and isinstance(then.output, float)
        and isinstance(first, float)
    )
    if plain and primitive.law not in _SELECTION_LAWS:
        # one number around a number, the most frequent kind of call
        size, center = float(moves[0]), first
        text = f"{center:.6g} / {size:.6g}" if size else ""
        output = float(then.output)
        row = (*call, size, size, size, None, None, 0, None, 1.0, output, center, 0.0, text)
    else:
        row = (*call, *_general_row(moves, then, now))
    for key, value in zip(_COLUMNS, row):
        columns[key].append(value)
    for key, place in _NUMBER_INDICES:
        value = then.read[place]
        columns[key].append(value if type(value) is float else _number(value))


def _general_row(moves: Any, then: Call, now: Call) -> tuple[Any, ...]:
    """Return the columns from ``l1`` on of any call."""
    law, first, second = then.primitive.law, then.read[0], now.read[0]
    input_changed = _input_change(first, second) if moves is None else 0
    nonzero: Any = np.zeros(0) if moves is None else moves[moves != 0]
    one = moves is not None and nonzero.size <= 1
    size = float(nonzero[0]) if one and nonzero.size else 0.0
    moved = not one or size != 0
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
        if law in _SELECTION_LAWS and first is not None and moved
        else None,
        input_changed,
        _inner_draw(then),
        float(then.output.size) if isinstance(then.output, np.ndarray) else 1.0,
        _drawn_numbers(then) if law in LOCATION_LAWS else None,
        _number(first) if law in LOCATION_LAWS else math.nan,
        max(_rounding(first), _rounding(second)),
        _input_text(first, second) if moved or input_changed else "",
    )


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
    numbers = [leaves(v) for v in (first, second)]
    if all(texts == [] and values.size == 1 for values, texts in numbers):
        return " / ".join(f"{float(values[0]):.6g}" for values, _ in numbers)
    return difference(first, second).replace(" and ", " / ")


def _drawn_numbers(call: Call) -> Any:
    """Return the drawn numbers of a call; None for texts or too many numbers."""
    numbers, texts = leaves(call.output)
    return (
        None
        # limit of drawn numbers per call
        if texts or numbers.size > 100_000
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
    if isinstance(output, RaisedText):
        return {"raised": str(output), "numbers": np.zeros(0), "texts": []}
    numbers, texts = leaves(output)
    return {"raised": "", "numbers": numbers, "texts": texts}


def output_difference(first: Any, second: Any) -> str:
    """Return how two outputs, or the exceptions raised instead, differ; an empty text if they are
    equal.
    """
    raised = [side for side in (first, second) if isinstance(side, RaisedText)]
    if not raised:
        return difference(first, second)
    if len(raised) == 1:
        return f"raises on one side only: {raised[0]}"
    return "" if raised[0] == raised[1] else f"raises {raised[0]} and {raised[1]}"


def differences(recorder: Any) -> list[dict[str, Any]]:
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
