"""Calls of primitives, and how two calls of one primitive differ."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from .primitives import READ, Primitive
from .values import difference, shift

INPUT, SCALE = READ.index("input"), READ.index("scale")
PLAIN = frozenset((float, int, str, bool, bytes, type(None), np.float64, np.int64, np.bool_))


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
        text = "" if place == INPUT or first is second else _value_difference(first, second)
        if text:
            found.append(
                ({"scale": "scale", "size": "shape"}.get(key, "parameter"), f"{name}: {key} {text}")
            )
    # the input of an opaque primitive may be a dataset of any size
    is_opaque = call.primitive.law == "opaque"
    text = "" if is_opaque else _type_difference(then.read[INPUT], call.read[INPUT])
    if text:
        found.append(("shape", f"{name}: input {text}"))
    text = _argument_difference(then, call)
    if text:
        found.append(("parameter", f"{name}: {text}"))
    return found


def _argument_difference(then: Call, call: Call) -> str:
    """Return how the first changed argument differs, among the arguments that no expression uses;
    an empty text if none differs.
    """
    made = call.made
    covered, names = made.primitive.used, made.names
    if len(then.args) <= made.place >= len(call.args) and not then.kwargs and not call.kwargs:
        return ""
    for i in range(made.place, max(len(then.args), len(call.args))):
        name = names[i] if i < len(names) else f"argument {i}"
        if name in covered:
            continue
        if i >= len(then.args) or i >= len(call.args):
            return f"{name} is given on one side only"
        text = difference(then.args[i], call.args[i], name, objects=False)
        if text:
            return text
    for name in {**then.kwargs, **call.kwargs}:
        if name in covered or name in ("out", "generator"):
            continue
        if (name in then.kwargs) != (name in call.kwargs):
            return f"{name} is given on one side only"
        text = difference(then.kwargs[name], call.kwargs[name], name, objects=False)
        if text:
            return text
    return ""


def without_record(then: Call, now: Call, length: int, place: int) -> Any:
    """Return a draw for each of `length` records, or a permutation of them, without the record at
    `place`.

    None for another kind of draw.
    """
    is_array = not hasattr(then.output, "detach")
    output = then.output if is_array else then.output.numpy()
    sizes = [
        [
            v
            for arg in (*call.args[call.made.place :], *call.kwargs.values())
            for v in np.ravel(_whole_numbers(arg)).tolist()
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


def _whole_numbers(value: Any) -> Any:
    """Return an argument if it consists of integers, which are sizes of draws; otherwise an empty
    tuple.
    """
    return (
        value
        if isinstance(value, (int, tuple, list))
        and all(isinstance(v, int) for v in np.ravel(value).tolist())
        else ()
    )


def _value_difference(a: Any, b: Any) -> str:
    """Return how two values differ; an empty text if they are equal."""
    if a is b or (type(a) is type(b) and type(a) in PLAIN and a == b and a != 0):
        return ""
    return difference(a, b, objects=False)


def _type_difference(a: Any, b: Any) -> str:
    """Return how the types or shapes of two inputs differ; an empty text if they are equal."""
    if type(a) is type(b) and type(a) in PLAIN:
        return ""
    left, right = (
        None if v is None else (np.asarray(v).dtype, np.shape(v)) if _numeric(v) else type(v)
        for v in (a, b)
    )
    return "" if left == right else f"is {_form_text(a, left)} and {_form_text(b, right)}"


def _form_text(value: Any, form: Any) -> str:
    """Return a type, or a dtype and shape, as text."""
    return (
        f"{form[0]} {form[1]}"
        if isinstance(form, tuple)
        else "None"
        if value is None
        else type(value).__name__
    )


def _numeric(value: Any) -> bool:
    """Return whether a value is a number or an array of numbers."""
    try:
        return (
            isinstance(value, (int, float, np.generic, np.ndarray))
            and not np.asarray(value).dtype.hasobject
        )
    except Exception:
        return False


def shift_of(then: Call, now: Call) -> Any:
    """Return |input on D1 - input on D0| for each number; None where there are no numbers to
    compare.
    """
    first, second = then.read[INPUT], now.read[INPUT]
    if first is None and second is None:
        return None
    if (
        isinstance(first, float)
        and isinstance(second, float)
        and math.isfinite(first)
        and math.isfinite(second)
    ):
        return np.array([abs(float(first) - float(second))])
    return shift(first, second)
