"""Conversion of pandas, polars and Arrow frames and of networkx graphs to plain parts, and back.

Workers of other interpreters load this module too, so the module uses only the standard library and
NumPy (Python 3.8 or later). `column_of_pandas`, `column_of_polars` and `column_of_arrow` take a
column of any type apart: the library's name of its type, its values, the missing entries, and the
categories of a categorical column. `to_parts` returns the columns of a frame with their names, and
refuses types that `from_parts` does not build again. The index of a frame must hold row numbers or
a single column of values.
"""

from __future__ import annotations

import importlib
import itertools
import weakref
from typing import Any, Dict, List  # noqa: UP035

import numpy as np

from dpwitness.core.values.validation import import_problem

Parts = Dict[str, Any]  # noqa: UP006 - read by Python 3.8

EXTRAS = {"pandas": "frames", "polars": "frames", "pyarrow": "frames", "networkx": "graphs"}
GRAPHS = ("Graph", "DiGraph", "MultiGraph", "MultiDiGraph")
_CLASSES = {
    ("pandas", "DataFrame"),
    ("polars", "DataFrame"),
    ("pyarrow", "Table"),
    *(("networkx", form) for form in GRAPHS),
}
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_ARROW_TYPES = {
    "bool": "bool",
    "string": "U",
    "large_string": "U",
    "date32[day]": "int32",
    "float": "float32",
    "double": "float64",
    **{name: name for name in _INTEGERS},
    **{f"timestamp[{unit}]": "int64" for unit in ("s", "ms", "us", "ns")},
}
# NumPy types of the dates and times of polars and Arrow, whose entries are whole numbers
_TIME_TYPES = {
    **dict.fromkeys(("Date", "date32[day]"), "M8[D]"),
    **{f"Datetime {unit}": f"M8[{unit}]" for unit in ("ms", "us", "ns")},
    **{f"timestamp[{unit}]": f"M8[{unit}]" for unit in ("s", "ms", "us", "ns")},
}
ARROW_TIMES = ("timestamp", "time", "date", "duration")
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "bool")
# types of columns that are built again: those of pandas, of polars, and of Arrow
_EXACT_TYPES = {
    *("object", "category", "str", "boolean"),
    *("Boolean", "String", "Date", "Categorical", "Enum", "Float32", "Float64"),
    *(name.title().replace("Ui", "UI") for name in _INTEGERS),
    *_ARROW_TYPES,
}
_EXACT_PREFIXES = ("datetime64[", "string[", "Datetime ", "dictionary ")


class UnsupportedData(ValueError):
    """Error of data that has no plain form, or of a library that is not installed; the text is one
    line.
    """


def library_name(value: Any) -> str:
    """Return the library of a frame or graph: ``pandas``, ``polars``, ``pyarrow`` or ``networkx``;
    otherwise "". Imports nothing.
    """
    kind = type(value)
    root = kind.__module__.partition(".")[0]
    return root if (root, kind.__name__) in _CLASSES else ""


def library(name: str) -> Any:
    """Import and return the library `name`. Raise UnsupportedData if the library is not installed
    or its import fails.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = EXTRAS[name.partition(".")[0]]
        problem = import_problem(name, error, f"pip install 'dpwitness[{extra}]'")
        raise UnsupportedData(problem) from None


# id of a frame or graph -> weak reference to the object, and its serial number
_FROZEN: dict[int, Any] = {}
_SERIAL_NUMBERS = itertools.count(1)


def fix(value: Any) -> None:
    """Register a frame or graph as immutable from now on, as the datasets of a pair are. Its packed
    form can then be cached.
    """
    if library_name(value):
        key = id(value)
        _FROZEN[key] = weakref.ref(value, lambda _: _FROZEN.pop(key, None)), next(_SERIAL_NUMBERS)


def fixed(value: Any) -> int:
    """Return the serial number of a registered immutable frame or graph; 0 for any other object."""
    reference, number = _FROZEN.get(id(value), (None, 0))
    return number if reference is not None and reference() is value else 0


def shallow_copy(value: Any) -> Any:
    """Return a cheap copy that can be changed without changing the original; None if the library
    has no cheap copy.
    """
    name = library_name(value)
    if name == "pandas" and int(library(name).__version__.partition(".")[0]) >= 3:
        # copy-on-write: a write to the copy leaves the original unchanged
        return value.copy(deep=False)
    return value.clone() if name == "polars" else value if name == "pyarrow" else None


def to_parts(value: Any) -> Parts:
    """Convert a frame or graph to plain parts: texts, numbers, arrays, and lists and dicts of them.
    Raise UnsupportedData for others.
    """
    name = library_name(value)
    if name == "networkx":
        return graph_parts(value)
    index = None
    if name == "pandas":
        found = [(key, column_of_pandas(series.array)) for key, series in value.items()]
        index = _index_of_pandas(value.index)
    elif name == "polars":
        found = [(series.name, column_of_polars(series)) for series in value.get_columns()]
    else:
        found = list(zip(value.column_names, map(column_of_arrow, value.columns)))  # noqa: B905
    names = [key for key, _ in found]
    for key in names:
        if type(key) not in (str, int):
            raise UnsupportedData(f"names of columns must be texts or whole numbers, got {key!r}")
    if len(set(names)) < len(names):
        raise UnsupportedData(f"names of columns must differ, got {', '.join(map(str, names))}")
    columns = [_exact_column(key, column) for key, column in found]
    return {"library": name, "columns": columns, "index": index, "rows": len(value)}


def _index_of_pandas(rows: Any) -> Parts | None:
    """Return the record of an index; None for row numbers from 0 without a name."""
    if type(rows).__name__ == "RangeIndex" and (rows.start, rows.step, rows.name) == (0, 1, None):
        return None
    return _exact_column(rows.name, column_of_pandas(rows.to_series().array))


def graph_parts(value: Any) -> Parts:
    """Return the parts of a networkx graph, also of one of a derived class."""
    keys = {"keys": True} if value.is_multigraph() else {}
    return {
        "form": type(value).__name__,
        "about": dict(value.graph),
        "nodes": [[node, dict(content)] for node, content in value.nodes(data=True)],
        "edges": [[*edge[:-1], dict(edge[-1])] for edge in value.edges(data=True, **keys)],
    }


def from_parts(parts: Parts) -> Any:
    """Build the frame or graph from its parts, as the inverse of `to_parts`. Raise UnsupportedData
    if the library is not installed.
    """
    name = parts.get("library", "networkx")
    found = library(name)
    if name == "networkx":
        graph = getattr(found, parts["form"])(**parts["about"])
        graph.add_nodes_from([(node, content) for node, content in parts["nodes"]])
        graph.add_edges_from([tuple(edge) for edge in parts["edges"]])
        return graph
    index, rows, columns = parts["index"], parts["rows"], parts["columns"]
    for column in (*columns, index) if index is not None else columns:
        _require_entries(column, rows)
    if name == "polars":
        return found.DataFrame([_build_polars(column, found) for column in columns])
    if name == "pyarrow":
        return found.table({column["name"]: _build_arrow(column, found) for column in columns})
    labels = found.RangeIndex(rows)
    if index is not None:
        labels = found.Index(_build_pandas(index, found), name=index["name"])
    content = {}
    for column in columns:
        dtype = "object" if column["type"] == "object" else None
        content[column["name"]] = found.Series(
            _build_pandas(column, found), index=labels, dtype=dtype
        )
    return found.DataFrame(content, index=labels)


def _require_entries(column: Parts, rows: Any) -> None:
    """Raise ValueError unless values and mask of a column are vectors with this number of entries;
    None accepts any number.
    """
    for key in ("values", "missing"):
        array = column[key]
        if array is not None and (array.ndim != 1 or rows not in (None, len(array))):
            count = "any number of" if rows is None else rows
            raise ValueError(f"{key} of {column['name']!r} must be a vector of {count} entries")
    if column["categories"] is not None:
        _require_entries(column["categories"], None)


def values_of(parts: Parts) -> dict[Any, list[Any]]:
    """Return the columns of a frame as lists by name. Missing entries are None; dates are
    `datetime64`.
    """
    return {column["name"]: listed(column) for column in parts["columns"]}


def listed(column: Parts) -> list[Any]:
    """Return one column of a frame as a list. Missing entries are None."""
    values = column["values"]
    values = values.astype(_TIME_TYPES.get(column["type"], values.dtype), copy=False)
    found = list(values) if values.dtype.kind in "mM" else values.tolist()
    if column["categories"] is not None:
        known = listed(column["categories"])
        return [None if code < 0 else known[code] for code in found]
    if column["missing"] is not None:
        return [
            None if is_missing else value
            for value, is_missing in zip(found, column["missing"].tolist())  # noqa: B905
        ]
    return found


def _column(
    kind: str, values: Any, missing: Any = None, categories: Any = None, *, ordered: bool = False
) -> Parts:
    """Return the record of one column of any type.

    `values` is an array; for texts and other objects, a list. `missing` is not 0 where a value is
    missing, or None for a type that represents a missing value itself.
    """
    return {
        "type": kind,
        "values": values,
        "missing": missing,
        "categories": categories,
        "ordered": ordered,
    }


def _column_of_objects(kind: str, items: list[Any]) -> Parts:
    """Return the record of a column of objects. For texts, a missing entry becomes an empty text,
    and `missing` is 1 for None, 2 for NaN and 3 for a missing value of a library.
    """
    others = {other.__name__ for other in set(map(type, items)) - {str, type(None), float}}
    if others - {"NAType", "NaTType"} or any(v == v for v in items if type(v) is float):
        return _column(kind, items)
    codes = {str: 0, type(None): 1, float: 2}
    missing = np.array([codes.get(type(item), 3) for item in items], dtype=np.int8)
    return _column(kind, [item if type(item) is str else "" for item in items], missing)


def _exact_column(name: Any, column: Parts) -> Parts:
    """Return the record of a column that `from_parts` builds again. Raise UnsupportedData if its
    type is not supported.
    """
    kind, values, missing = column["type"], column["values"], column["missing"]
    of_numpy = isinstance(values, np.ndarray) and kind == values.dtype.str
    if not (
        values.dtype.kind in "biufMm"
        if of_numpy
        else kind in _EXACT_TYPES or kind.startswith(_EXACT_PREFIXES)
    ):
        raise UnsupportedData(
            f"column {name!r} has type {values.dtype if of_numpy else kind}, which is not "
            "supported: convert it to numbers, texts or dates"
        )
    if kind == "object" and missing is not None and (missing > 1).any():
        raise UnsupportedData(
            f"column {name!r} holds objects and NaN: give None where a text is missing"
        )
    known = column["categories"]
    return {
        "name": name,
        **column,
        "values": _text_array(name, values) if isinstance(values, list) else np.array(values),
        "missing": missing.astype(bool) if missing is not None and missing.any() else None,
        "categories": None if known is None else _exact_column(None, known),
    }


def _text_array(name: Any, items: List[Any]) -> Any:  # noqa: UP006
    """Return texts as a NumPy array. Missing texts must have been replaced by "" before."""
    others = sorted(kind.__name__ for kind in set(map(type, items)) - {str})
    if others:
        where = "the index" if name is None else f"column {name!r}"
        raise UnsupportedData(
            f"{where} must hold texts, or numbers of 64 bits, truth values or dates, all of "
            f"one type; it holds values of type {others[0]}"
        )
    if "\0" in "".join(items):  # NumPy cuts a text at trailing null characters
        raise UnsupportedData(f"column {name!r} must hold texts without null characters")
    return np.array(items, dtype="U") if items else np.empty(0, dtype="U1")


def column_of_pandas(values: Any) -> Parts:
    """Return the record of the array of a pandas column or index."""
    name = type(values).__name__
    if name in ("NumpyExtensionArray", "PandasArray"):
        values = values.to_numpy()
    dtype, kind = values.dtype, str(values.dtype)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return _column(dtype.str, np.asarray(values))
    if name == "Categorical":
        known = column_of_pandas(values.categories.array)
        codes, ordered = np.asarray(values.codes), bool(values.ordered)
        return _column("category", codes, None, known, ordered=ordered)
    if name == "SparseArray":
        stored = np.asarray(values.sp_values), np.asarray(values.sp_index.indices)
        return _column(kind, (np.asarray(values), *stored, values.fill_value))
    if name == "IntervalArray":
        return _column(kind, (values.left, values.right, values.closed))
    if name == "ArrowExtensionArray":
        return _column(f"Arrow {kind}", values.__arrow_array__())
    if hasattr(values, "asi8"):
        is_zoned = name == "DatetimeArray"
        return _column(kind, np.asarray(values.tz_convert(None) if is_zoned else values.asi8))
    if hasattr(values, "_mask"):
        plain = values.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
        return _column(kind, plain, np.asarray(values.isna()))
    if type(dtype).__name__ == "StringDtype":
        is_str = isinstance(getattr(dtype, "na_value", None), float)
        kind = "str" if is_str else f"string[{dtype.storage}]"
    return _column_of_objects(kind, np.asarray(values, dtype=object).tolist())


def _build_pandas(column: Parts, pandas: Any) -> Any:
    """Build the values of a pandas column from the record of the column."""
    kind, values, missing = column["type"], column["values"], column["missing"]
    if column["categories"] is not None:
        return pandas.Categorical.from_codes(
            values,
            pandas.Index(_build_pandas(column["categories"], pandas)),
            ordered=column["ordered"],
        )
    if kind.startswith("datetime64[") and "," in kind:
        return (
            pandas.DatetimeIndex(values).tz_localize("UTC").tz_convert(kind[:-1].partition(", ")[2])
        )
    if values.dtype.kind == "U":
        items = values.astype(object)
        items[[] if missing is None else missing] = None
        return pandas.array(items, dtype=kind) if kind != "object" else items
    if kind != values.dtype.str:
        found = pandas.array(values, dtype=kind)
        if missing is not None:
            found[missing] = pandas.NA
        return found
    return values.copy()


def column_of_polars(series: Any) -> Parts:
    """Return the record of a polars series."""
    kind, base = str(series.dtype), str(series.dtype.base_type())
    if base == "Enum":
        known = series.dtype.categories.to_list()
        code_of_text = {text: code for code, text in enumerate([None, *known], -1)}
        codes = np.array([code_of_text[text] for text in series.to_list()], dtype=np.int64)
        return _column(base, codes, None, _column_of_objects("String", known))
    plain = series.to_physical()
    if base.lower().startswith((*_NUMBERS, *ARROW_TIMES)) and "128" not in base:
        if base == "Datetime" and series.dtype.time_zone is None:
            kind = f"Datetime {series.dtype.time_unit}"
        missing = np.zeros(len(series), dtype=bool)
        if series.null_count():  # cheaper than a mask of each column
            missing = np.asarray(series.is_null().to_numpy())
            plain = plain.fill_null(False if base == "Boolean" else 0)
        return _column(kind, np.asarray(plain.to_numpy()), missing)
    found = _column_of_objects(base if base == "Categorical" else kind, series.to_list())
    if "'ns'" in kind or "Time" in kind:  # Python's times round nanoseconds
        found["values"] = found["values"], plain.to_list()
    return found


def _build_polars(column: Parts, polars: Any) -> Any:
    """Build a polars series from the record of a column."""
    name, (kind, _, unit) = column["name"], column["type"].partition(" ")
    if kind == "Enum":
        texts = listed(column["categories"])
        return polars.Series(name, listed(column), dtype=polars.Enum(texts))
    dtype = polars.Datetime(unit) if unit else getattr(polars, kind)
    values = column["values"].tolist() if column["values"].dtype.kind == "U" else column["values"]
    found = polars.Series(
        name, values, dtype=polars.String if kind == "Categorical" else None
    ).cast(dtype)
    if column["missing"] is None:
        return found
    return polars.select(
        polars.when(polars.Series(~column["missing"])).then(found).alias(name)
    ).to_series()


def column_of_arrow(array: Any) -> Parts:
    """Return the record of an Arrow array or chunked array. Raise UnsupportedData for nested times
    of nanoseconds, which Python's times round.
    """
    if hasattr(array, "chunks"):
        array = array.combine_chunks()
        if hasattr(array, "chunks"):  # several chunks if one cannot hold all values, or no chunk
            array = array.chunk(0) if array.num_chunks == 1 else array
    kind = str(array.type)
    if hasattr(array, "dictionary"):
        codes = array.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
        known, ordered = column_of_arrow(array.dictionary), bool(array.type.ordered)
        return _column(f"dictionary {array.type.index_type}", codes, None, known, ordered=ordered)
    is_time = kind.startswith(ARROW_TIMES)
    if not is_time and "time64[ns]" in kind:
        raise UnsupportedData(
            f"a column has type {kind}, which is not supported: convert it to time64[us]"
        )
    if not is_time and not (kind.startswith(_NUMBERS) and hasattr(array, "fill_null")):
        return _column_of_objects(kind, array.to_pylist())
    width = "int32" if kind.startswith(("date32", "time32")) else "int64"
    filled = (array.cast(width) if is_time else array).fill_null(False if kind == "bool" else 0)
    missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    return _column(kind, np.asarray(filled.to_numpy(zero_copy_only=False)), missing)


def _build_arrow(column: Parts, arrow: Any) -> Any:
    """Build an Arrow array from the record of a column."""
    kind, values, missing = column["type"], column["values"], column["missing"]
    if column["categories"] is not None:
        known = _build_arrow(column["categories"], arrow)
        codes = arrow.array(
            values, mask=values < 0, type=arrow.type_for_alias(kind.partition(" ")[2])
        )
        return arrow.DictionaryArray.from_arrays(codes, known, ordered=column["ordered"])
    if values.dtype.kind == "U":
        return arrow.array(
            [None if v is None else v for v in listed(column)], type=arrow.type_for_alias(kind)
        )
    if kind.startswith(("date", "time")):
        return arrow.array(
            values, mask=missing, type=arrow.type_for_alias(_ARROW_TYPES[kind])
        ).cast(arrow.type_for_alias(kind))
    return arrow.array(values, mask=missing, type=arrow.type_for_alias(kind))
