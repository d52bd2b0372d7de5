"""The tree of a value: how a value of any type is taken apart into named parts.

`take_apart` and its inverse `put_together` hold the types that are built again exactly: numbers,
times, containers, arrays with a mask or fields, frames and graphs. JSON (`json_codec`) and the
messages between interpreters (`codec`) write the kind and the parts of each node.

`parts_of` returns the parts of any other object, which are compared and audited but never built.
Objects of known libraries have the parts that `library_parts` lists. The parts of any other object
are those that `copy` would copy (`__reduce_ex__`); nothing of the object is run. Objects without
such a form, such as a generator, a lock or an object of a C library, have no parts.

Workers of other interpreters load this module too, so the module uses only the standard library and
NumPy (Python 3.8 or later).
"""

from __future__ import annotations

import array
import collections
import collections.abc
import copyreg
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import sys
import types
from typing import Any, Callable, Dict, NamedTuple  # noqa: UP035

import numpy as np

from dpwitness.core.values import dataframe_backends, library_parts

Parts = library_parts.Parts
Named, time_zone = library_parts.Named, library_parts.time_zone

PLAIN = "fiubcmMSU"  # kinds of array dtypes that hold plain numbers, times and texts
# libraries whose arrays hold only numbers
_TENSOR_LIBRARIES = ("torch", "jax", "jaxlib", "tensorflow", "cupy", "mlx")
# built-in class -> function that returns the plain value of an instance of a subclass, bypassing
# its methods
_PLAIN_VALUE: Any = {
    complex: lambda value: complex(value.real, value.imag),
    str: str.__str__,
    **{kind: kind for kind in (int, float, bytes, tuple, list, set, frozenset, dict)},
}
# likewise, for classes whose subclasses are decomposed even if they add no attribute
_DECOMPOSED_VALUE: Any = {
    bytearray: bytearray,
    collections.deque: lambda value: collections.deque(value, value.maxlen),
    array.array: lambda value: array.array(value.typecode, value.tobytes()),
    decimal.Decimal: decimal.Decimal,
    fractions.Fraction: lambda value: fractions.Fraction(value.numerator, value.denominator),
    datetime.timedelta: lambda value: datetime.timedelta(
        value.days, value.seconds, value.microseconds
    ),
    datetime.datetime: lambda value: datetime.datetime(
        value.year, value.month, value.day, *_time_fields(value), fold=value.fold
    ),
    datetime.date: lambda value: datetime.date(value.year, value.month, value.day),
    datetime.time: lambda value: datetime.time(*_time_fields(value), fold=value.fold),
    np.ma.MaskedArray: lambda value: np.ma.MaskedArray(
        value.data, np.ma.getmaskarray(value), fill_value=value.fill_value
    ),
    np.ndarray: np.asarray,
}
_INTERNAL_ATTRIBUTES = frozenset(  # of arrays
    (
        "_mmap",
        "_mask",
        "_fill_value",
        "_sharedmask",
        "_isfield",
        "_basedict",
        "_optinfo",
        "_hardmask",
        "_baseclass",
    )
)


class Fields:
    """Stand-in for an object with known class name and parts."""

    dpwitness_parts: Any = ()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(dict(self.dpwitness_parts)["values"], dtype=dtype)


class Zone(library_parts.Named, datetime.tzinfo):
    """Stand-in for a time zone of which only the text is known."""

    def _unknown(self, when: Any) -> None:
        return None

    utcoffset = dst = tzname = _unknown


def _take_time_apart(value: Any) -> Dict[str, Any]:  # noqa: UP006
    """Return the parts of a time: its text, `fold` if clocks were set back, and the text of a time
    zone with rules.
    """
    has_rules = not isinstance(value.tzinfo, (datetime.timezone, type(None)))
    parts = {"value": (value.replace(tzinfo=None) if has_rules else value).isoformat()}
    if value.fold:
        parts["fold"] = value.fold
    if has_rules:
        parts["zone"] = text_of(value.tzinfo, repr)
    return parts


def _build_time(kind: Any, value: str, fold: int = 0, zone: str | None = None) -> Any:
    """Build a time of a class from its parts."""
    more = {} if zone is None else {"tzinfo": Zone(zone)}
    return kind.fromisoformat(value).replace(fold=fold, **more)


def _take_masked_apart(value: Any) -> Dict[str, Any]:  # noqa: UP006
    """Return the parts of a masked array."""
    fill = 1e20 if value is np.ma.masked else value.fill_value
    return {
        "data": value.data,
        "mask": np.ma.getmaskarray(value),
        "fill": np.array(fill, dtype=value.dtype),
        "hard": bool(value.hardmask),
    }


def _build_masked(data: Any, mask: Any, fill: Any, hard: bool) -> Any:
    """Build a masked array from its parts."""
    if mask.dtype != np.ma.make_mask_descr(data.dtype):
        raise ValueError(f"the mask must hold truth values for the data, got {mask.dtype}")
    return np.ma.MaskedArray(data, mask, fill_value=fill[()], hard_mask=hard)


def _take_structured_apart(value: Any) -> Dict[str, Any]:  # noqa: UP006
    """Return the parts of a structured array: its shape, and an array for each field."""
    plain_array = value.view(np.ndarray)
    fields = [[name, np.array(plain_array[name], order="C")] for name in value.dtype.names]
    record = isinstance(value, np.recarray)
    return {"shape": list(value.shape), "columns": fields, "record": record}


def _build_structured(shape: Any, columns: Any, record: bool) -> Any:
    """Build a structured array from its parts."""
    axes = len(shape)
    for name, column in columns:
        if column.shape[:axes] != tuple(shape):
            raise ValueError(f"the array of {name!r} must have the shape {shape}")
    found = np.empty(shape, [(name, column.dtype, column.shape[axes:]) for name, column in columns])
    for name, column in columns:
        found[name] = column
    return found.view(np.recarray) if record else found


class Form(NamedTuple):
    """Rule that takes values of one kind apart into named parts, and puts them together again."""

    kind: str
    apart: Callable[[Any], Dict[str, Any]]  # noqa: UP006
    together: Callable[[Dict[str, Any]], Any]  # noqa: UP006


def _by_text(kind: Any) -> Form:
    """Return the form of a number that its text determines."""
    return Form(
        kind.__name__.lower(),
        lambda value: {"value": str(plain(value, kind))},
        lambda parts: kind(parts["value"]),
    )


def _by_digits(kind: Any) -> Form:
    """Return the form of a sequence of bytes, written as hexadecimal digits."""
    return Form(
        kind.__name__, lambda value: {"hex": value.hex()}, lambda parts: kind.fromhex(parts["hex"])
    )


def _by_items(kind: Any) -> Form:
    """Return the form of a container without keys."""
    return Form(
        kind.__name__, lambda value: {"value": list(value)}, lambda parts: kind(parts["value"])
    )


def _by_clock(kind: Any) -> Form:
    """Return the form of a time, with or without a date."""
    return Form(kind.__name__, _take_time_apart, lambda parts: _build_time(kind, **parts))


_FORMS: Dict[Any, Form] = {  # noqa: UP006
    **{kind: _by_text(kind) for kind in (float, decimal.Decimal, fractions.Fraction)},
    **{kind: _by_digits(kind) for kind in (bytes, bytearray)},
    **{kind: _by_items(kind) for kind in (list, tuple, set, frozenset)},
    **{kind: _by_clock(kind) for kind in (datetime.time, datetime.datetime)},
    int: Form(
        "int", lambda value: {"hex": hex(plain(value, int))}, lambda parts: int(parts["hex"], 16)
    ),
    complex: Form(
        "complex",
        lambda value: {"value": [value.real, value.imag]},
        lambda parts: complex(*parts["value"]),
    ),
    datetime.date: Form(
        "date",
        lambda value: {"value": value.isoformat()},
        lambda parts: datetime.date.fromisoformat(parts["value"]),
    ),
    datetime.timedelta: Form(
        "timedelta",
        lambda value: {"value": [value.days, value.seconds, value.microseconds]},
        lambda parts: datetime.timedelta(*parts["value"]),
    ),
    dict: Form(
        "dict",
        lambda value: {"items": [[key, part] for key, part in value.items()]},
        lambda parts: dict(parts["items"]),
    ),
    np.ma.MaskedArray: Form("masked", _take_masked_apart, lambda parts: _build_masked(**parts)),
    np.ndarray: Form(
        "structured", _take_structured_apart, lambda parts: _build_structured(**parts)
    ),
    "frame": Form("frame", dataframe_backends.to_parts, dataframe_backends.from_parts),
    "graph": Form("graph", dataframe_backends.to_parts, dataframe_backends.from_parts),
}
_TOGETHER = {form.kind: form.together for form in _FORMS.values()}


def take_apart(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the kind of a value and its parts by name, from which `put_together` builds the value;
    None for a value of another kind.

    A part is a value, or a list of parts. An instance of a subclass of a number or container is
    taken apart like the built-in class.

    Raises
    ------
    dataframe_backends.UnsupportedData
        If a column of a frame has a type that is not supported.

    Examples
    --------
    >>> take_apart((1, "a")), put_together("tuple", {"value": [1, "a"]})
    (('tuple', {'value': [1, 'a']}), (1, 'a'))
    """
    library, base = dataframe_backends.library_name(value), _base(type(value))
    if library:
        base = "graph" if library == "networkx" else "frame"
    elif isinstance(value, np.ndarray):
        is_masked = isinstance(value, np.ma.MaskedArray)
        base = np.ma.MaskedArray if is_masked else np.ndarray if value.dtype.names else None
    elif base is not type(value) and base not in _PLAIN_VALUE:
        base = None
    form = _FORMS.get(base)
    return None if form is None else (form.kind, form.apart(value))


def put_together(kind: str, parts: dict[str, Any]) -> Any:
    """Return the value of a kind with these parts; the inverse of `take_apart`. Raise ValueError
    for an unknown kind.
    """
    if kind not in _TOGETHER:
        raise ValueError(f"unknown kind {kind!r}")
    return _TOGETHER[kind](parts)


def text_of(value: Any, how: Callable[[Any], str]) -> str:
    """Return `how(value)`, or "<no text>" if the methods of the value raise."""
    try:
        return how(value)
    except Exception:
        return "<no text>"


def parts_of(value: Any) -> Parts | None:
    """Return the names and contents of all parts of an object; None if the object cannot be
    decomposed.
    """
    if isinstance(value, Fields):
        return list(value.dpwitness_parts)
    form = library_form(type(value))
    try:
        if form is None:
            return (_plain_form(value) or _parts_by_reduce)(value)
        parts = form(value)
        return (
            parts if parts is None else parts + _user_attributes(value, {name for name, _ in parts})
        )
    except Exception:  # a library's methods may raise anything
        return None


def _user_attributes(value: Any, known: Any) -> Parts:
    """Return the public attributes that a user has added to an object of a library."""
    held = getattr(value, "__dict__", None) or {}
    known = {*known, "coords", "maxprint"}  # attributes of sparse matrices
    return sorted(
        (name, inner)
        for name, inner in held.items()
        if not name.startswith("_") and name not in known and not hasattr(type(value), name)
    )


def name_of(value: Any) -> str | None:
    """Return the qualified name of a module, class or function that can be imported by this name;
    None for any other object.
    """
    if isinstance(value, Named):
        return value.text
    if isinstance(value, types.ModuleType):
        return value.__name__
    if not isinstance(
        value, (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc, np.dtype)
    ):
        return None
    if isinstance(value, np.dtype):
        return "dtype " + str(value)
    module = getattr(value, "__module__", None) or "numpy"
    name = getattr(value, "__qualname__", value.__name__)
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return module + "." + name if found is value else None


def _find_base(kind: Any) -> Any:
    """Return the built-in class that a class equals or is derived from; None for any
    other class.
    """
    if issubclass(kind, enum.Enum) or kind in (type(np.ma.masked), np.ma.core.mvoid):
        return None
    return next(
        (base for base in kind.__mro__ if base in _PLAIN_VALUE or base in _DECOMPOSED_VALUE), None
    )


def _find_slots(kind: Any, base: Any) -> tuple[str, ...]:
    """Return the names of the slots that a class adds to its base class."""
    known = getattr(copyreg, "_slotnames")(kind)  # noqa: B009 - missing in type stubs
    return tuple(name for name in known if name not in base.__dict__)


# typed as Any, because the type hints of lru_cache refuse classes as keys
_base: Any = functools.lru_cache(maxsize=1024)(_find_base)
_slots: Any = functools.lru_cache(maxsize=1024)(_find_slots)


def plain(value: Any, base: type) -> Any:
    """Return the plain value of an instance of a subclass of a built-in class, bypassing the
    methods of the subclass.
    """
    return (_PLAIN_VALUE.get(base) or _DECOMPOSED_VALUE[base])(value)


def attributes(value: Any, base: type = object) -> dict[str, Any]:
    """Return the attributes of an object by name, without those that belong to `base`."""
    found = {
        name: inner
        for name, inner in (getattr(value, "__dict__", None) or {}).items()
        if name not in _INTERNAL_ATTRIBUTES
    }
    return {
        **found,
        **{
            name: getattr(value, name) for name in _slots(type(value), base) if hasattr(value, name)
        },
    }


def needs_decomposition(value: Any) -> bool:
    """Return whether an instance of a built-in class or its subclass must be decomposed, because of
    its class or its attributes.
    """
    base = _base(type(value))
    if base is None:
        return False
    if type(value) is not base:
        return base in _DECOMPOSED_VALUE or bool(attributes(value, base))
    if base in (datetime.datetime, datetime.time):
        return value.tzinfo is not None and time_zone(value.tzinfo) is value.tzinfo
    return base is np.ma.MaskedArray and bool(attributes(value, base))


def _time_fields(value: Any) -> Any:
    """Return hour, minute, second, microsecond and time zone of a time."""
    return value.hour, value.minute, value.second, value.microsecond, value.tzinfo


def array_in(value: Any) -> Any:
    """Return the array of a tensor; None for any other object."""
    if isinstance(value, (type, np.ndarray, np.generic)) or not hasattr(value, "__array__"):
        return None
    if type(value).__module__.partition(".")[0] not in _TENSOR_LIBRARIES and not getattr(
        value, "dpwitness_holder", False
    ):
        return None
    try:
        found = np.asarray(value.detach() if hasattr(value, "detach") else value)
        return found if found.dtype.kind in PLAIN else None
    except Exception:  # for example a tensor on another device
        return None


def _library_form(kind: type) -> Any:
    """Return the function that decomposes objects of a class of a known library; None for any other
    class.
    """
    names = ((base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__)
    return next((library_parts.FORMS[name] for name in names if name in library_parts.FORMS), None)


library_form: Any = functools.lru_cache(maxsize=1024)(_library_form)


def _plain_form(value: Any) -> Any:
    """Return the function that decomposes an object of a standard type; None for other types."""
    if needs_decomposition(value):
        return _parts_of_subclass
    if dataclasses.is_dataclass(value):
        return _parts_of_dataclass
    return next((form for kind, form in _STANDARD_FORMS if isinstance(value, kind)), None)


def _parts_of_subclass(value: Any) -> Parts:
    """Return the value and the added attributes of an instance of a subclass of a
    built-in class.
    """
    base = _base(type(value))
    inner, added = plain(value, base), sorted(attributes(value, base).items())
    if base not in (datetime.datetime, datetime.time) or value.tzinfo is None:
        return [("value", inner), *added]
    return [("value", inner.replace(tzinfo=None)), ("zone", time_zone(value.tzinfo)), *added]


def exception_parts(value: BaseException, text: str) -> Parts:
    """Return the parts of an exception other than its text."""
    names = ("name", "path") if isinstance(value, ImportError) else ()
    found = {name: getattr(value, name, None) for name in names}
    inner = {name: part for name, part in found.items() if part is not None}
    only_text = len(value.args) == 1 and type(value.args[0]) is str and value.args[0] == text
    if value.args and not only_text:
        inner["args"] = value.args
    return sorted({**inner, **attributes(value, BaseException)}.items())


def _parts_of_array(value: Any) -> Parts:
    """Return type code and values of an `array.array`."""
    numbers = value.typecode not in "uw"
    return [
        ("typecode", Named(value.typecode)),
        ("values", np.asarray(value) if numbers else list(value)),
    ]


_STANDARD_FORMS: Any = (  # class of the standard library, function that returns the parts
    (enum.Enum, lambda value: [("name", value.name), ("value", value.value)]),
    (range, lambda value: [("start", value.start), ("stop", value.stop), ("step", value.step)]),
    (array.array, _parts_of_array),
    (collections.deque, lambda value: [("items", list(value)), ("most", value.maxlen)]),
    (
        memoryview,
        lambda value: [
            ("format", Named(value.format)),
            ("shape", value.shape),
            ("bytes", value.tobytes()),
        ],
    ),
    (types.MappingProxyType, lambda value: [("items", dict(value))]),
    (collections.abc.MappingView, lambda value: [("items", list(value))]),
)


def _parts_of_dataclass(value: Any) -> Parts:
    """Return the fields and other attributes of a dataclass instance."""
    names = sorted(field.name for field in dataclasses.fields(value))
    more = sorted(set(attributes(value)) - set(names))
    return [(name, getattr(value, name, Named("unset"))) for name in names + more]


def _parts_by_reduce(value: Any) -> Parts | None:
    """Return the parts from which `copy` would build a copy of an object (`__reduce_ex__`)."""
    found = value.__reduce_ex__(4)
    if isinstance(found, str):
        return [("name", Named(found))]
    make, arguments, state, items, entries = (*found, None, None, None)[:5]
    parts: Parts = []
    if (
        getattr(make, "__name__", "").startswith("__newobj")
        and arguments
        and arguments[0] is type(value)
    ):
        arguments = arguments[1:]
    else:
        parts.append(("made by", make))
    parts += [("arguments", tuple(arguments))] if arguments else []
    parts += _parts_of_state(state)
    if any(
        isinstance(getattr(type(value), name, None), types.FunctionType)
        for name in ("__reduce_ex__", "__reduce__", "__getstate__")
    ) and hasattr(value, "__dict__"):  # the class's own methods may omit attributes
        known = {name for name, _ in parts}
        parts += sorted((name, part) for name, part in vars(value).items() if name not in known)
    parts += [("items", list(items))] if items is not None else []
    return parts + ([("entries", dict(entries))] if entries is not None else [])


def _parts_of_state(state: Any) -> Parts:
    """Return the attributes in the state of an object (`__getstate__`), or the state itself, with
    the contents of the slots.
    """
    slots = (
        state[1]
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict)
        else {}
    )
    inner = state[0] if slots else state
    if isinstance(inner, dict) and all(isinstance(name, str) for name in inner):
        return sorted({**inner, **slots}.items())
    return ([] if inner is None else [("state", inner)]) + sorted(slots.items())
