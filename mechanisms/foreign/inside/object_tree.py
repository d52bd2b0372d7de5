"""Decomposition of objects into named parts, so that outputs of any type can be sent and audited.

Workers of other interpreters load this module too, so the module uses only the standard library and
NumPy (Python 3.8 or later). No library is imported: frames, series, graphs and sparse matrices are
recognized by the names of their classes. The parts of any other object are those that `copy` would
copy (`__reduce_ex__`); nothing of the object is run or rebuilt. Objects without such a form, such
as a generator, a lock or an object of a C library, have no parts.
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
from typing import Any, List, Tuple  # noqa: UP035

import numpy as np

Parts = List[Tuple[str, Any]]  # noqa: UP006 - read by Python 3.8

PLAIN = "fiubcmMSU"  # kinds of array dtypes that hold plain numbers, times and texts
_TENSOR_LIBRARIES = ("torch", "jax", "jaxlib", "tensorflow", "cupy", "mlx")  # libraries whose arrays hold only numbers
_PLAIN_VALUE: Any = {  # built-in class -> function that returns the plain value of an instance of a subclass, bypassing its methods
    complex: lambda value: complex(value.real, value.imag),
    str: str.__str__,
    **{kind: kind for kind in (int, float, bytes, tuple, list, set, frozenset, dict)},
}
_DECOMPOSED_VALUE: Any = {  # likewise, for classes whose subclasses are decomposed even if they add no attribute
    bytearray: bytearray,
    collections.deque: lambda value: collections.deque(value, value.maxlen),
    array.array: lambda value: array.array(value.typecode, value.tobytes()),
    decimal.Decimal: decimal.Decimal,
    fractions.Fraction: lambda value: fractions.Fraction(value.numerator, value.denominator),
    datetime.timedelta: lambda value: datetime.timedelta(value.days, value.seconds, value.microseconds),
    datetime.datetime: lambda value: datetime.datetime(value.year, value.month, value.day, *_time_fields(value), fold=value.fold),
    datetime.date: lambda value: datetime.date(value.year, value.month, value.day),
    datetime.time: lambda value: datetime.time(*_time_fields(value), fold=value.fold),
    np.ma.MaskedArray: lambda value: np.ma.MaskedArray(value.data, np.ma.getmaskarray(value), fill_value=value.fill_value),
    np.ndarray: np.asarray,
}
_INTERNAL_ATTRIBUTES = (  # of arrays
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
_ZONE_MODULES = ("datetime", "zoneinfo", "dpwitness", "dpwitness_codec")  # modules of time zones of which the text says all
_ARROW_TIMES = ("timestamp", "time", "date", "duration")
_MAX_DENSE_CELLS = 2**22  # most cells of a sparse matrix that is also stored as a dense one


class Fields:
    """Stand-in for an object with known class name and parts."""

    dpwitness_parts: Any = ()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(dict(self.dpwitness_parts)["values"], dtype=dtype)


class Named:
    """Stand-in for an object that is determined by its name: a dtype, a class, a function that can be imported."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def parts_of(value: Any) -> Parts | None:
    """Return the names and contents of all parts of an object; None if the object cannot be decomposed."""
    if isinstance(value, Fields):
        return list(value.dpwitness_parts)
    form = library_form(type(value))
    try:
        if form is None:
            return (_plain_form(value) or _parts_by_reduce)(value)
        parts = form(value)
        return parts if parts is None else parts + _user_attributes(value, {name for name, _ in parts})
    except Exception:  # a library's methods may raise anything
        return None


def _user_attributes(value: Any, known: Any) -> Parts:
    """Return the public attributes that a user has added to an object of a library."""
    known = {*known, "coords", "maxprint"}  # attributes of sparse matrices
    public = {name: inner for name, inner in (getattr(value, "__dict__", None) or {}).items() if not name.startswith("_")}
    return sorted((name, inner) for name, inner in public.items() if name not in known and not hasattr(type(value), name))


def name_of(value: Any) -> str | None:
    """Return the qualified name of a module, class or function that can be imported by this name; None for any other object."""
    if isinstance(value, Named):
        return value.text
    if isinstance(value, types.ModuleType):
        return value.__name__
    if not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc, np.dtype)):
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
    """Return the built-in class that a class equals or is derived from; None for any other class."""
    if issubclass(kind, enum.Enum) or kind in (type(np.ma.masked), np.ma.core.mvoid):
        return None
    return next((base for base in kind.__mro__ if base in _PLAIN_VALUE or base in _DECOMPOSED_VALUE), None)


def _find_slots(kind: Any, base: Any) -> tuple[str, ...]:
    """Return the names of the slots that a class adds to its base class."""
    known = getattr(copyreg, "_slotnames")(kind)  # noqa: B009 - missing in type stubs
    return tuple(name for name in known if name not in base.__dict__)


_base: Any = functools.lru_cache(maxsize=1024)(_find_base)
_slots: Any = functools.lru_cache(maxsize=1024)(_find_slots)


def plain(value: Any, base: type) -> Any:
    """Return the plain value of an instance of a subclass of a built-in class, bypassing the methods of the subclass."""
    return (_PLAIN_VALUE.get(base) or _DECOMPOSED_VALUE[base])(value)


def attributes(value: Any, base: type = object) -> dict[str, Any]:
    """Return the attributes of an object by name, without those that belong to `base`."""
    found = {name: inner for name, inner in (getattr(value, "__dict__", None) or {}).items() if name not in _INTERNAL_ATTRIBUTES}
    return {**found, **{name: getattr(value, name) for name in _slots(type(value), base) if hasattr(value, name)}}


def needs_decomposition(value: Any) -> bool:
    """Return whether an instance of a built-in class or its subclass must be decomposed, because of its class or its attributes."""
    base = _base(type(value))
    if base is None:
        return False
    if type(value) is not base:
        return base in _DECOMPOSED_VALUE or bool(attributes(value, base))
    if base in (datetime.datetime, datetime.time):
        return value.tzinfo is not None and _zone(value.tzinfo) is value.tzinfo
    return base is np.ma.MaskedArray and bool(attributes(value, base))


def _time_fields(value: Any) -> Any:
    """Return hour, minute, second, microsecond and time zone of a time."""
    return value.hour, value.minute, value.second, value.microsecond, value.tzinfo


def _zone(zone: Any) -> Any:
    """Return a time zone, as its text if the text determines the zone."""
    return zone if zone is None or type(zone).__module__.partition(".")[0] not in _ZONE_MODULES else Named(str(zone))


def array_in(value: Any) -> Any:
    """Return the array of a tensor; None for any other object."""
    if isinstance(value, (type, np.ndarray, np.generic)) or not hasattr(value, "__array__"):
        return None
    if type(value).__module__.partition(".")[0] not in _TENSOR_LIBRARIES and not getattr(value, "dpwitness_holder", False):
        return None
    try:
        found = np.asarray(value.detach() if hasattr(value, "detach") else value)
        return found if found.dtype.kind in PLAIN else None
    except Exception:  # for example a tensor on another device
        return None


def _library_form(kind: type) -> Any:
    """Return the function that decomposes objects of a class of a known library; None for any other class."""
    for base in kind.__mro__:
        found = _FORMS.get((base.__module__.partition(".")[0], base.__name__))
        if found is not None:
            return found
    return None


library_form: Any = functools.lru_cache(maxsize=1024)(_library_form)


def _plain_form(value: Any) -> Any:
    """Return the function that decomposes an object of a standard type; None for other types."""
    if needs_decomposition(value):
        return _parts_of_subclass
    if dataclasses.is_dataclass(value):
        return _parts_of_dataclass
    if isinstance(value, enum.Enum):
        return lambda value: [("name", value.name), ("value", value.value)]
    if isinstance(value, range):
        return lambda value: [("start", value.start), ("stop", value.stop), ("step", value.step)]
    if isinstance(value, array.array):
        return _parts_of_array
    if isinstance(value, collections.deque):
        return lambda value: [("items", list(value)), ("most", value.maxlen)]
    if isinstance(value, memoryview):
        return lambda value: [("format", Named(value.format)), ("shape", value.shape), ("bytes", value.tobytes())]
    if isinstance(value, types.MappingProxyType):
        return lambda value: [("items", dict(value))]
    if isinstance(value, collections.abc.MappingView):
        return lambda value: [("items", list(value))]
    return None


def _parts_of_subclass(value: Any) -> Parts:
    """Return the value and the added attributes of an instance of a subclass of a built-in class."""
    base = _base(type(value))
    inner, added = plain(value, base), sorted(attributes(value, base).items())
    if base not in (datetime.datetime, datetime.time) or value.tzinfo is None:
        return [("value", inner), *added]
    return [("value", inner.replace(tzinfo=None)), ("zone", _zone(value.tzinfo)), *added]


def exception_parts(value: BaseException, text: str) -> Parts:
    """Return the parts of an exception other than its text."""
    found = {name: getattr(value, name, None) for name in ("name", "path")} if isinstance(value, ImportError) else {}
    inner = {name: part for name, part in found.items() if part is not None}
    if value.args and not (len(value.args) == 1 and type(value.args[0]) is str and value.args[0] == text):
        inner["args"] = value.args
    return sorted({**inner, **attributes(value, BaseException)}.items())


def _parts_of_array(value: Any) -> Parts:
    """Return type code and values of an `array.array`."""
    numbers = value.typecode not in "uw"
    return [("typecode", Named(value.typecode)), ("values", np.asarray(value) if numbers else list(value))]


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
    if getattr(make, "__name__", "").startswith("__newobj") and arguments and arguments[0] is type(value):
        arguments = arguments[1:]
    else:
        parts.append(("made by", make))
    parts += [("arguments", tuple(arguments))] if arguments else []
    slots = state[1] if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict) else {}
    inner = state[0] if slots else state
    if isinstance(inner, dict) and all(isinstance(name, str) for name in inner):
        parts += sorted({**inner, **slots}.items())
    elif inner is not None or slots:
        parts += ([] if inner is None else [("state", inner)]) + sorted(slots.items())
    own = (getattr(type(value), name, None) for name in ("__reduce_ex__", "__reduce__", "__getstate__"))
    if any(isinstance(copies, types.FunctionType) for copies in own) and hasattr(
        value, "__dict__"
    ):  # the class's own methods may omit attributes
        known = {name for name, _ in parts}
        parts += sorted((name, part) for name, part in vars(value).items() if name not in known)
    parts += [("items", list(items))] if items is not None else []
    return parts + ([("entries", dict(entries))] if entries is not None else [])


def _object_column(items: List[Any]) -> Any:  # noqa: UP006
    """Return a column of objects. For texts, a missing entry becomes an empty text, and an array holds the type of each missing entry."""
    kinds = set(map(type, items))
    others = kinds - {str, type(None), float}
    unexpected = {kind.__name__ for kind in others} - {"NAType", "NaTType"}
    if str not in kinds or unexpected or any(item == item for item in items if type(item) is float):
        return items
    codes = {str: 0, type(None): 1, float: 2}
    missing = np.array([codes.get(type(item), 3) for item in items], dtype=np.int8)
    return Named("texts"), [item if type(item) is str else "" for item in items], missing


def _pandas_column(values: Any) -> Any:
    """Return a pandas column as arrays, lists and tuples."""
    if isinstance(values, np.ndarray) or type(values).__name__ in ("NumpyExtensionArray", "PandasArray"):
        plain = np.asarray(values)
        return plain if plain.dtype.kind != "O" else (Named("object"), _object_column(plain.tolist()))
    kind, name = Named(f"{values.dtype} {getattr(values.dtype, 'storage', '')}".strip()), type(values).__name__
    if name == "Categorical":
        return Named("category"), np.asarray(values.codes), values.categories, bool(values.ordered)
    if name == "SparseArray":
        return kind, np.asarray(values), np.asarray(values.sp_values), np.asarray(values.sp_index.indices), values.fill_value
    if name == "IntervalArray":
        return kind, values.left, values.right, values.closed
    if hasattr(values, "asi8"):
        return kind, np.asarray(values.asi8), getattr(getattr(values, "freq", None), "freqstr", None)
    if name == "ArrowExtensionArray":
        return kind, values.__arrow_array__()
    if hasattr(values, "_mask"):
        return kind, values.to_numpy(dtype=values.dtype.numpy_dtype, na_value=0), np.asarray(values.isna())
    return kind, _object_column(np.asarray(values, dtype=object).tolist())


def _pandas_attributes(value: Any) -> Parts:
    """Return the attributes of a pandas frame or series, including those of a subclass."""
    own = [(name, getattr(value, name, None)) for name in type(value)._metadata if name not in ("_name", "name")]
    return [("attrs", dict(value.attrs)), ("duplicates", bool(value.flags.allows_duplicate_labels)), *own]


def _parts_of_series(value: Any) -> Parts:
    """Return the parts of a pandas series."""
    return [("values", _pandas_column(value.array)), ("index", value.index), ("name", value.name), *_pandas_attributes(value)]


def _parts_of_frame(value: Any) -> Parts:
    """Return the parts of a pandas frame."""
    kinds = set(value.dtypes)
    if len(kinds) == 1 and isinstance(next(iter(kinds)), np.dtype) and next(iter(kinds)).kind in "fiubc":
        cells = value.to_numpy()
    else:
        cells = [_pandas_column(value.iloc[:, place].array) for place in range(value.shape[1])]
    return [("values", cells), ("columns", value.columns), ("index", value.index), *_pandas_attributes(value)]


def _parts_of_index(value: Any) -> Parts:
    """Return the parts of a pandas index."""
    if type(value).__name__ == "RangeIndex":
        return [("start", value.start), ("stop", value.stop), ("step", value.step), ("name", value.name)]
    frequency = getattr(value, "freqstr", None)
    return [("values", _pandas_column(value.array)), ("name", value.name)] + ([("frequency", frequency)] if frequency else [])


def _parts_of_multi_index(value: Any) -> Parts:
    """Return the parts of a pandas MultiIndex."""
    return [("codes", [np.asarray(codes) for codes in value.codes]), ("levels", list(value.levels)), ("names", list(value.names))]


def _parts_of_instant(value: Any) -> Parts:
    """Return the parts of a pandas timestamp or time difference."""
    zone = getattr(value, "tz", None)
    return [("value", value.asm8), ("zone", _zone(zone)), ("fold", getattr(value, "fold", 0))]


def _parts_of_polars_series(value: Any) -> Parts:
    """Return the parts of a polars series, with a mask of missing entries.

    Columns of lists, structures, decimals and objects become Python objects.
    """
    kind, plain = value.dtype, value.to_physical()
    if str(kind).startswith(("Int", "UInt", "Float", "Boolean", "Date", "Time", "Duration")) and "128" not in str(kind):
        is_missing = value.is_null()
        filled = plain.fill_null(False if str(kind) == "Boolean" else 0)
        content: Any = (np.asarray(filled.to_numpy()), np.asarray(is_missing.to_numpy()))
    else:
        content = _object_column(value.to_list())
        if "'ns'" in str(kind) or "Time" in str(kind):  # Python's times round nanoseconds
            content = (content, plain.to_list())
    known = value.dtype.categories.to_list() if str(kind).startswith("Enum") else None
    return [("values", content), ("dtype", Named(str(kind))), ("categories", known), ("name", value.name)]


def _parts_of_polars_frame(value: Any) -> Parts:
    """Return the parts of a polars frame."""
    return [("columns", value.get_columns()), ("rows", value.height)]


def _parts_of_arrow_array(value: Any) -> Parts | None:
    """Return the parts of an Arrow array or chunked array, with the lengths of the chunks; None if the type is not supported.

    The content is numbers with a mask of missing entries, codes with a dictionary, or Python
    objects.
    """
    chunks, inner = None, value
    if hasattr(value, "chunks"):
        chunks, inner = [len(chunk) for chunk in value.chunks], value.combine_chunks()
        if hasattr(inner, "chunks"):  # several chunks if one cannot hold all values, or no chunk
            inner = inner.chunk(0) if inner.num_chunks == 1 else inner
    kind = str(inner.type)
    if hasattr(inner, "dictionary"):
        content: Any = (inner.indices, inner.dictionary, bool(inner.type.ordered))
    elif kind.startswith(("int", "uint", "float", "double", "halffloat", "bool")) and hasattr(inner, "fill_null"):
        filled = inner.fill_null(False if kind == "bool" else 0)
        content = (np.asarray(filled.to_numpy(zero_copy_only=False)), np.asarray(inner.is_null().to_numpy(zero_copy_only=False)))
    elif kind.startswith(_ARROW_TIMES):
        content = inner.cast("int32" if kind.startswith(("date32", "time32")) else "int64")
    elif "time64[ns]" in kind:
        return None  # Python's times round nanoseconds
    else:
        content = _object_column(inner.to_pylist())
    return [("values", content), ("type", _arrow_type_name(inner.type)), ("chunks", chunks)]


def _arrow_type_name(kind: Any) -> Any:
    """Return the name of an Arrow type, with the fields of a nested type."""
    count = kind.num_fields if hasattr(kind, "field") else 0
    return (Named(str(kind)), [kind.field(place) for place in range(count)]) if count else Named(str(kind))


def _parts_of_arrow_scalar(value: Any) -> Parts | None:
    """Return the parts of an Arrow scalar; None if the type is not supported."""
    kind, ticks = str(value.type), getattr(value, "value", None)
    if "time64[ns]" in kind and not kind.startswith(_ARROW_TIMES):
        return None
    return [("value", ticks if kind.startswith(_ARROW_TIMES) else value.as_py()), ("type", _arrow_type_name(value.type))]


def _parts_of_arrow_table(value: Any) -> Parts:
    """Return the parts of an Arrow table."""
    return [("columns", list(value.columns)), ("schema", value.schema)]


def _parts_of_arrow_field(value: Any) -> Parts:
    """Return the parts of a field of an Arrow schema."""
    return [
        ("name", value.name),
        ("type", _arrow_type_name(value.type)),
        ("nullable", value.nullable),
        ("metadata", dict(value.metadata or {})),
    ]


def _parts_of_graph(value: Any) -> Parts:
    """Return the parts of a networkx graph."""
    multiple = {"keys": True} if value.is_multigraph() else {}
    edges = [(*edge[:-1], dict(edge[-1])) for edge in value.edges(data=True, **multiple)]
    nodes = [(node, dict(inner)) for node, inner in value.nodes(data=True)]
    return [("nodes", nodes), ("edges", edges), ("graph", dict(value.graph)), ("order", _neighbor_orders(value, edges))]


def _neighbor_orders(value: Any, edges: List[Any]) -> Any:  # noqa: UP006
    """Return the order of the neighbors of each node; None if the order of the edges determines it."""
    directed = value.is_directed()
    sides = (value.adj, value.pred) if directed else (value.adj,)
    found = [{node: list(near) for node, near in side.items()} for side in sides]
    fixed: Any = [{node: {} for node in side} for side in found]
    for one, two, *_ in edges:
        fixed[0][one][two] = fixed[1 if directed else 0][two][one] = None
    return None if found == [{node: list(near) for node, near in side.items()} for side in fixed] else [list(s.items()) for s in found]


def _parts_of_sparse(value: Any) -> Parts:
    """Return the parts of a sparse matrix: its cells and how they are stored. A stored zero reveals where a record was."""
    dense = value.toarray() if int(np.prod(value.shape)) <= _MAX_DENSE_CELLS else None
    if hasattr(value, "items") and callable(value.items):
        return [("values", dense), ("shape", value.shape), ("entries", list(value.items()))]
    stored = ("data", "row", "col", "indices", "indptr", "offsets", "rows")
    inner = [(name, getattr(value, name)) for name in stored if isinstance(getattr(value, name, None), np.ndarray)]
    return [("values", dense), ("shape", tuple(value.shape)), *inner]


def _parts_of_defaultdict(value: Any) -> Parts:
    """Return the parts of a defaultdict."""
    make = value.default_factory
    return [("default", Named("a function") if isinstance(make, types.FunctionType) else make), ("entries", dict(value))]


def _no_parts(value: Any) -> Parts:
    """Return no parts."""
    return []


_FORMS: Any = {
    ("pandas", "Series"): _parts_of_series,
    ("pandas", "DataFrame"): _parts_of_frame,
    ("pandas", "MultiIndex"): _parts_of_multi_index,
    ("pandas", "Index"): _parts_of_index,
    ("pandas", "ExtensionArray"): lambda value: [("values", _pandas_column(value))],
    ("pandas", "Timestamp"): _parts_of_instant,
    ("pandas", "Timedelta"): _parts_of_instant,
    ("pandas", "Period"): lambda value: [("ordinal", value.ordinal), ("frequency", Named(value.freqstr))],
    ("pandas", "Interval"): lambda value: [("left", value.left), ("right", value.right), ("closed", Named(value.closed))],
    ("pandas", "NaTType"): _no_parts,
    ("pandas", "NAType"): _no_parts,
    ("pandas", "CategoricalDtype"): lambda value: [("categories", value.categories), ("ordered", value.ordered)],
    ("polars", "Series"): _parts_of_polars_series,
    ("polars", "DataFrame"): _parts_of_polars_frame,
    ("pyarrow", "Table"): _parts_of_arrow_table,
    ("pyarrow", "RecordBatch"): _parts_of_arrow_table,
    ("pyarrow", "ChunkedArray"): _parts_of_arrow_array,
    ("pyarrow", "Array"): _parts_of_arrow_array,
    ("pyarrow", "Scalar"): _parts_of_arrow_scalar,
    ("pyarrow", "Schema"): lambda value: [("fields", list(value)), ("metadata", dict(value.metadata or {}))],
    ("pyarrow", "Field"): _parts_of_arrow_field,
    ("collections", "defaultdict"): _parts_of_defaultdict,
    ("networkx", "Graph"): _parts_of_graph,
    ("scipy", "spmatrix"): _parts_of_sparse,
    ("scipy", "sparray"): _parts_of_sparse,
    ("xarray", "DataArray"): lambda value: [("content", value.to_dict())],
    ("xarray", "Dataset"): lambda value: [("content", value.to_dict())],
}
