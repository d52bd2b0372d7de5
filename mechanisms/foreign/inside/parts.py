"""The parts of an object: names and contents of all that it holds, so that an output of any type can travel and be audited.

Stands alone (standard library and NumPy, Python 3.8 or later), for workers of other interpreters read it too. It imports no library:
frames, series, graphs and sparse matrices are recognized by the names of their classes. Any other object shows what `copy` would copy
(`__reduce_ex__`); nothing of it is run or rebuilt. What has no such form (a generator, a lock, an object of a C library) has no parts.
"""

from __future__ import annotations

import array
import collections.abc
import dataclasses
import enum
import functools
import sys
import types
from typing import Any, List, Tuple  # noqa: UP035

import numpy as np

Parts = List[Tuple[str, Any]]  # noqa: UP006 - read by Python 3.8

PLAIN = "fiubcmMSU"  # kinds of array dtypes that hold plain numbers, times and texts
_TENSORS = ("torch", "jax", "jaxlib", "tensorflow", "cupy", "mlx")  # libraries whose arrays hold nothing beside their numbers
_BUILT_IN = (int, float, complex, str, bytes, tuple, list, set, frozenset, dict)
_DENSE = 2**22  # cells of a sparse matrix that is shown as a dense one too


class Fields:
    """Stands for an object of which its type's name and its parts are known."""

    dpwitness_parts: Any = ()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(dict(self.dpwitness_parts)["values"], dtype=dtype)


class Named:
    """Something that its name describes completely: a dtype, a class, a function that can be imported."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def parts_of(value: Any) -> Parts | None:
    """Return names and contents of all that an object holds; None where it cannot be taken apart."""
    if isinstance(value, Fields):
        return list(value.dpwitness_parts)
    take = library_form(type(value)) or _plain_form(value) or _reduced
    try:
        return take(value)
    except Exception:  # of a foreign library's own methods
        return None


def name_of(value: Any) -> str | None:
    """Return the qualified name of a module, class or function that can be imported by it; None of anything else."""
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


def is_built_on(value: Any) -> bool:
    """Return whether a value of a subclass of a built-in type has attributes beside its value."""
    if type(value) in _BUILT_IN or not isinstance(value, _BUILT_IN) or isinstance(value, enum.Enum):
        return False
    return bool(getattr(value, "__dict__", None))


def array_in(value: Any) -> Any:
    """Return the array that a tensor is; None of anything else."""
    if isinstance(value, (type, np.ndarray, np.generic)) or not hasattr(value, "__array__"):
        return None
    if type(value).__module__.partition(".")[0] not in _TENSORS and not getattr(value, "dpwitness_holder", False):
        return None
    try:
        found = np.asarray(value.detach() if hasattr(value, "detach") else value)
        return found if found.dtype.kind in PLAIN else None
    except Exception:  # a tensor that is not on this device, and the like
        return None


def _library_form(kind: type) -> Any:
    """Return the function that takes objects of a class of a known library apart; None of any other class."""
    for base in kind.__mro__:
        found = _FORMS.get((base.__module__.partition(".")[0], base.__name__))
        if found is not None:
            return found
    return None


library_form: Any = functools.lru_cache(maxsize=1024)(_library_form)


def _plain_form(value: Any) -> Any:
    if is_built_on(value):
        return _built_on
    if dataclasses.is_dataclass(value):
        return _of_dataclass
    if isinstance(value, enum.Enum):
        return lambda value: [("name", value.name), ("value", value.value)]
    if isinstance(value, range):
        return lambda value: [("start", value.start), ("stop", value.stop), ("step", value.step)]
    if isinstance(value, array.array):
        return _of_array
    if isinstance(value, collections.deque):
        return lambda value: [("items", list(value)), ("most", value.maxlen)]
    if isinstance(value, memoryview):
        return lambda value: [("format", Named(value.format)), ("shape", value.shape), ("bytes", value.tobytes())]
    if isinstance(value, types.MappingProxyType):
        return lambda value: [("items", dict(value))]
    if isinstance(value, collections.abc.MappingView):
        return lambda value: [("items", list(value))]
    return None


def _built_on(value: Any) -> Parts:
    base = next(base for base in _BUILT_IN if isinstance(value, base))
    return [("value", base(value)), *sorted(vars(value).items())]


def _of_array(value: Any) -> Parts:
    numbers = value.typecode not in "uw"
    return [("typecode", Named(value.typecode)), ("values", np.asarray(value) if numbers else list(value))]


def _of_dataclass(value: Any) -> Parts:
    names = sorted(field.name for field in dataclasses.fields(value))
    more = sorted(set(getattr(value, "__dict__", ())) - set(names))
    return [(name, getattr(value, name, Named("unset"))) for name in names + more]


def _reduced(value: Any) -> Parts | None:
    """Return what a copy of an object would be built from."""
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
    plain = state[0] if slots else state
    if isinstance(plain, dict) and all(isinstance(name, str) for name in plain):
        parts += sorted({**plain, **slots}.items())
    elif plain is not None or slots:
        parts += ([] if plain is None else [("state", plain)]) + sorted(slots.items())
    parts += [("items", list(items))] if items is not None else []
    return parts + ([("entries", dict(entries))] if entries is not None else [])


def _listed(items: List[Any]) -> Any:  # noqa: UP006
    """Return a column of objects; of texts, each missing one is an empty text, and an array tells the kind of what is missing."""
    kinds = set(map(type, items))
    others = kinds - {str, type(None), float}
    odd = {kind.__name__ for kind in others} - {"NAType", "NaTType"}
    if str not in kinds or odd or any(item == item for item in items if type(item) is float):
        return items
    codes = {str: 0, type(None): 1, float: 2}
    missing = np.array([codes.get(type(item), 3) for item in items], dtype=np.int8)
    return Named("texts"), [item if type(item) is str else "" for item in items], missing


def _column(values: Any) -> Any:
    """Return a column of pandas as arrays, lists and tuples of them."""
    if isinstance(values, np.ndarray) or type(values).__name__ in ("NumpyExtensionArray", "PandasArray"):
        plain = np.asarray(values)
        return plain if plain.dtype.kind != "O" else (Named("object"), _listed(plain.tolist()))
    kind, name = Named(str(values.dtype)), type(values).__name__
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
    return kind, _listed(np.asarray(values, dtype=object).tolist())


def _about(value: Any) -> Parts:
    """Return attributes of a frame or series, also those that a subclass adds."""
    own = [(name, getattr(value, name, None)) for name in type(value)._metadata if name not in ("_name", "name")]
    return [("attrs", dict(value.attrs)), ("duplicates", bool(value.flags.allows_duplicate_labels)), *own]


def _series(value: Any) -> Parts:
    return [("values", _column(value.array)), ("index", value.index), ("name", value.name), *_about(value)]


def _frame(value: Any) -> Parts:
    kinds = set(value.dtypes)
    if len(kinds) == 1 and isinstance(next(iter(kinds)), np.dtype) and next(iter(kinds)).kind in "fiubc":
        cells = value.to_numpy()
    else:
        cells = [_column(value.iloc[:, place].array) for place in range(value.shape[1])]
    return [("values", cells), ("columns", value.columns), ("index", value.index), *_about(value)]


def _index(value: Any) -> Parts:
    if type(value).__name__ == "RangeIndex":
        return [("start", value.start), ("stop", value.stop), ("step", value.step), ("name", value.name)]
    return [("values", _column(value.array)), ("name", value.name)]


def _levels(value: Any) -> Parts:
    return [("codes", [np.asarray(codes) for codes in value.codes]), ("levels", list(value.levels)), ("names", list(value.names))]


def _instant(value: Any) -> Parts:
    zone = getattr(value, "tz", None)
    return [("value", value.asm8), ("zone", None if zone is None else Named(str(zone))), ("fold", getattr(value, "fold", 0))]


def _polars(value: Any) -> Parts:
    """A series of polars: what is missing is marked; columns of lists, structures, decimals and objects become Python's."""
    kind, plain = value.dtype, value.to_physical()
    if str(kind).startswith(("Int", "UInt", "Float", "Boolean", "Date", "Time", "Duration")):
        gone = value.is_null()
        blank = plain.fill_null(False if str(kind) == "Boolean" else 0)
        content: Any = (np.asarray(blank.to_numpy()), np.asarray(gone.to_numpy()))
    else:
        content = _listed(value.to_list())
    known = value.dtype.categories.to_list() if str(kind).startswith("Enum") else None
    return [("values", content), ("dtype", Named(str(kind))), ("categories", known), ("name", value.name)]


def _polars_frame(value: Any) -> Parts:
    return [("columns", value.get_columns()), ("rows", value.height)]


def _arrow(value: Any) -> Parts:
    """An array of Arrow, or its chunks as one with their lengths: numbers with what is missing, dictionaries, or Python objects."""
    chunks, held = None, value
    if hasattr(value, "chunks"):
        chunks, held = [len(chunk) for chunk in value.chunks], value.combine_chunks()
        if hasattr(held, "chunks"):  # of several chunks where one cannot hold all, or of none
            held = held.chunk(0) if held.num_chunks == 1 else held
    kind = str(held.type)
    if hasattr(held, "dictionary"):
        content: Any = (held.indices, held.dictionary, bool(held.type.ordered))
    elif kind.startswith(("int", "uint", "float", "double", "halffloat", "bool")) and hasattr(held, "fill_null"):
        blank = held.fill_null(False if kind == "bool" else 0)
        content = (np.asarray(blank.to_numpy(zero_copy_only=False)), np.asarray(held.is_null().to_numpy(zero_copy_only=False)))
    else:
        content = _listed(held.to_pylist())
    return [("values", content), ("type", Named(kind)), ("chunks", chunks)]


def _arrow_table(value: Any) -> Parts:
    schema = value.schema
    fields = [(field.name, Named(str(field.type)), field.nullable, dict(field.metadata or {})) for field in schema]
    return [("columns", list(value.columns)), ("fields", fields), ("metadata", dict(schema.metadata or {}))]


def _graph(value: Any) -> Parts:
    multiple = {"keys": True} if value.is_multigraph() else {}
    edges = [(*edge[:-1], dict(edge[-1])) for edge in value.edges(data=True, **multiple)]
    return [("nodes", [(node, dict(held)) for node, held in value.nodes(data=True)]), ("edges", edges), ("graph", dict(value.graph))]


def _sparse(value: Any) -> Parts:
    """A sparse matrix: the cells, and how they are stored (a zero that is stored shows where a record was)."""
    dense = value.toarray() if int(np.prod(value.shape)) <= _DENSE else None
    if hasattr(value, "items") and callable(value.items):
        return [("values", dense), ("shape", value.shape), ("entries", list(value.items()))]
    stored = ("data", "row", "col", "indices", "indptr", "offsets", "rows")
    held = [(name, getattr(value, name)) for name in stored if isinstance(getattr(value, name, None), np.ndarray)]
    return [("values", dense), ("shape", tuple(value.shape)), *held]


def _without_parts(value: Any) -> Parts:
    return []


_FORMS: Any = {
    ("pandas", "Series"): _series,
    ("pandas", "DataFrame"): _frame,
    ("pandas", "MultiIndex"): _levels,
    ("pandas", "Index"): _index,
    ("pandas", "ExtensionArray"): lambda value: [("values", _column(value))],
    ("pandas", "Timestamp"): _instant,
    ("pandas", "Timedelta"): _instant,
    ("pandas", "Period"): lambda value: [("ordinal", value.ordinal), ("frequency", Named(value.freqstr))],
    ("pandas", "Interval"): lambda value: [("left", value.left), ("right", value.right), ("closed", Named(value.closed))],
    ("pandas", "NaTType"): _without_parts,
    ("pandas", "NAType"): _without_parts,
    ("pandas", "CategoricalDtype"): lambda value: [("categories", value.categories), ("ordered", value.ordered)],
    ("polars", "Series"): _polars,
    ("polars", "DataFrame"): _polars_frame,
    ("pyarrow", "Table"): _arrow_table,
    ("pyarrow", "RecordBatch"): _arrow_table,
    ("pyarrow", "ChunkedArray"): _arrow,
    ("pyarrow", "Array"): _arrow,
    ("pyarrow", "Scalar"): lambda value: [("value", value.as_py()), ("type", Named(str(value.type)))],
    ("pyarrow", "Schema"): lambda value: [("fields", list(value)), ("metadata", dict(value.metadata or {}))],
    ("pyarrow", "Field"): lambda value: [("name", value.name), ("type", Named(str(value.type))), ("nullable", value.nullable)],
    ("networkx", "Graph"): _graph,
    ("scipy", "spmatrix"): _sparse,
    ("scipy", "sparray"): _sparse,
    ("xarray", "DataArray"): lambda value: [("content", value.to_dict())],
    ("xarray", "Dataset"): lambda value: [("content", value.to_dict())],
}
