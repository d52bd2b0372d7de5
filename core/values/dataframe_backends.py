"""Conversion of pandas, polars and Arrow frames and of networkx graphs to plain parts, and back.

Workers of other interpreters load this module too, so the module uses only the standard library and
NumPy (Python 3.8 or later). A frame becomes a list of columns. Each column has a name, the
library's name of its type, an array of values, a mask of missing entries, and the categories of a
categorical column. Types without such a form are refused. The index of a frame must hold row
numbers or a single column of values.
"""

from __future__ import annotations

import importlib
import itertools
import weakref
from typing import Any, Dict, List  # noqa: UP035

import numpy as np

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
_POLARS_TYPES = (
    "Boolean",
    "String",
    "Date",
    "Categorical",
    "Enum",
    "Float32",
    "Float64",
    *(n.title().replace("Ui", "UI") for n in _INTEGERS),
)
_ARROW_TYPES = {
    **{
        "bool": "bool",
        "string": "U",
        "large_string": "U",
        "date32[day]": "int32",
        "float": "float32",
        "double": "float64",
    },
    **{name: name for name in _INTEGERS},
    **{f"timestamp[{unit}]": "int64" for unit in ("s", "ms", "us", "ns")},
}
# pandas' nullable types; the integers have polars' names
_MASKED_TYPES = {"boolean", "Float32", "Float64", *_POLARS_TYPES[7:]}


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
        if (
            not isinstance(error, ModuleNotFoundError)
            or (error.name or "").partition(".")[0] != name.partition(".")[0]
        ):
            raise UnsupportedData(
                f"{name} is installed but cannot be imported: {type(error).__name__}: {error}"
            ) from None
        raise UnsupportedData(
            f"{name} is not installed: pip install 'dpwitness[{EXTRAS[name.partition('.')[0]]}]'"
        ) from None


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
        form = type(value).__name__
        nodes = [[node, dict(content)] for node, content in value.nodes(data=True)]
        edges = [
            list(edge)
            for edge in (
                value.edges(keys=True, data=True)
                if form.startswith("Multi")
                else value.edges(data=True)
            )
        ]
        return {
            "form": form,
            "about": dict(value.graph),
            "nodes": nodes,
            "edges": [[*e[:-1], dict(e[-1])] for e in edges],
        }
    if name == "pandas":
        names = list(value.columns)
        columns = [_parts_of_pandas(column, value.iloc[:, i]) for i, column in enumerate(names)]
        index = (
            None
            if _is_range(value.index)
            else _parts_of_pandas(value.index.name, value.index.to_series())
        )
    elif name == "polars":
        names, index = value.columns, None
        columns = [_parts_of_polars(column, value[column]) for column in names]
    else:
        names, index = value.column_names, None
        columns = [_parts_of_arrow(column, value.column(i)) for i, column in enumerate(names)]
    for column in names:
        if type(column) not in (str, int):
            raise UnsupportedData(
                f"names of columns must be texts or whole numbers, got {column!r}"
            )
    if len(set(names)) < len(names):
        raise UnsupportedData(f"names of columns must differ, got {', '.join(map(str, names))}")
    return {"library": name, "columns": columns, "index": index, "rows": len(value)}


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
    columns = {column["name"]: column for column in parts["columns"]}
    for column in (*parts["columns"], *([] if parts["index"] is None else [parts["index"]])):
        _require_entries(column, parts["rows"])
    if name == "pandas":
        index = parts["index"]
        rows = (
            found.RangeIndex(parts["rows"])
            if index is None
            else found.Index(_build_pandas(index, found), name=index["name"])
        )
        types = {
            key: "object" if column["type"] == "object" else None for key, column in columns.items()
        }
        content = {
            key: found.Series(_build_pandas(column, found), index=rows, dtype=types[key])
            for key, column in columns.items()
        }
        return found.DataFrame(content, index=rows)
    if name == "polars":
        return found.DataFrame(
            [_build_polars(key, column, found) for key, column in columns.items()]
        )
    return found.table({key: _build_arrow(column, found) for key, column in columns.items()})


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
    kind, values = column["type"], column["values"]
    if kind in ("Date", "date32[day]"):
        values = values.astype("M8[D]")
    elif kind.startswith(("Datetime ", "timestamp[")):
        values = values.astype(f"M8[{kind[9:]}]" if kind[0] == "D" else f"M8[{kind[10:-1]}]")
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


def _column_record(
    name: Any,
    kind: str,
    values: Any,
    missing: Any = None,
    categories: Any = None,
    *,
    ordered: bool = False,
) -> Parts:
    """Return the record of one column; a mask without missing entries becomes None."""
    if missing is not None:
        missing = np.asarray(missing, dtype=bool)
        missing = missing if missing.any() else None
    return {
        "name": name,
        "type": kind,
        "values": np.array(values),
        "missing": missing,
        "categories": categories,
        "ordered": ordered,
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


def _is_range(index: Any) -> bool:
    """Return whether a pandas index is the unnamed default 0, 1, 2, ..."""
    return (
        type(index).__name__ == "RangeIndex"
        and index.start == 0
        and index.step == 1
        and index.name is None
    )


def _parts_of_pandas(name: Any, series: Any) -> Parts:
    """Return the record of a pandas column. Raise UnsupportedData if its type is not supported."""
    dtype, kind = series.dtype, str(series.dtype)
    if isinstance(dtype, np.dtype) and dtype.kind in "biufMm":
        return _column_record(name, dtype.str, series.to_numpy())
    if kind == "category":
        categories = _parts_of_pandas(None, series.cat.categories.to_series())
        return _column_record(
            name,
            "category",
            series.cat.codes.to_numpy(),
            None,
            categories,
            ordered=bool(series.cat.ordered),
        )
    if type(dtype).__name__ == "StringDtype" or kind == "object":
        if kind != "object":
            kind = (
                "str"
                if isinstance(getattr(dtype, "na_value", None), float)
                else f"string[{dtype.storage}]"
            )
        is_missing = series.isna().to_numpy()
        items = series.to_numpy(dtype=object, copy=True)
        if kind == "object" and any(item is not None for item in items[is_missing]):
            raise UnsupportedData(
                f"column {name!r} holds objects and NaN: give None where a text is missing"
            )
        items[is_missing] = ""
        return _column_record(name, kind, _text_array(name, items.tolist()), is_missing)
    if type(dtype).__name__ == "DatetimeTZDtype":
        return _column_record(
            name, kind, series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        )
    if kind in _MASKED_TYPES:
        return _column_record(
            name,
            kind,
            series.to_numpy(dtype=dtype.numpy_dtype, na_value=0),
            series.isna().to_numpy(),
        )
    raise UnsupportedData(
        f"column {name!r} has type {kind}, which is not supported: convert it to numbers, "
        "texts or dates"
    )


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


def _parts_of_polars(name: str, series: Any) -> Parts:
    """Return the record of a polars series. Raise UnsupportedData if its type is not supported."""
    kind = str(series.dtype.base_type())
    has_missing = series.null_count() > 0  # cheaper than evaluating is_null for each column
    is_missing = series.is_null().to_numpy() if has_missing else None
    if kind in ("Categorical", "Enum", "String"):
        known = (
            _column_record(None, "String", _text_array(name, series.dtype.categories.to_list()))
            if kind == "Enum"
            else None
        )
        texts = series.to_list()
        if known is not None:
            code_of_text = {text: i for i, text in enumerate(known["values"].tolist())}
            return _column_record(
                name,
                kind,
                np.array([-1 if t is None else code_of_text[t] for t in texts], dtype=np.int64),
                None,
                known,
            )
        return _column_record(
            name,
            kind,
            _text_array(name, ["" if text is None else text for text in texts]),
            is_missing,
        )
    if kind == "Datetime" and series.dtype.time_zone is None:
        return _column_record(
            name,
            f"Datetime {series.dtype.time_unit}",
            (series.to_physical().fill_null(0) if has_missing else series.to_physical()).to_numpy(),
            is_missing,
        )
    if kind not in _POLARS_TYPES:
        raise UnsupportedData(
            f"column {name!r} has type {series.dtype}, which is not supported: convert it to "
            "numbers, texts or dates"
        )
    plain = series.to_physical()
    return _column_record(
        name,
        kind,
        (plain.fill_null(False if kind == "Boolean" else 0) if has_missing else plain).to_numpy(),
        is_missing,
    )


def _build_polars(name: str, column: Parts, polars: Any) -> Any:
    """Build a polars series from the record of a column."""
    kind, _, unit = column["type"].partition(" ")
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


def _parts_of_arrow(name: str, content: Any) -> Parts:
    """Return the record of an Arrow column. Raise UnsupportedData if its type is not supported."""
    kind = str(content.type)
    chunk = content.combine_chunks()
    chunk = chunk.chunk(0) if hasattr(chunk, "num_chunks") and chunk.num_chunks else chunk
    if kind.startswith("dictionary<"):
        categories = _parts_of_arrow(None, library("pyarrow").chunked_array([chunk.dictionary]))  # type: ignore[arg-type]
        codes = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return _column_record(
            name,
            f"dictionary {content.type.index_type}",
            codes,
            None,
            categories,
            ordered=bool(content.type.ordered),
        )
    if kind not in _ARROW_TYPES:
        raise UnsupportedData(
            f"column {name!r} has type {kind}, which is not supported: convert it to "
            "numbers, texts or dates"
        )
    is_missing = chunk.is_null().to_numpy(zero_copy_only=False)
    if _ARROW_TYPES[kind] == "U":
        return _column_record(
            name, kind, _text_array(name, chunk.fill_null("").to_pylist()), is_missing
        )
    plain = chunk.cast(_ARROW_TYPES[kind]) if kind.startswith(("date", "time")) else chunk
    return _column_record(
        name,
        kind,
        plain.fill_null(False if kind == "bool" else 0).to_numpy(zero_copy_only=False),
        is_missing,
    )


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
