"""Parts of the objects of known libraries: frames, series, Arrow tables, graphs and sparse
matrices.

No library is imported: objects are recognized by the names of their classes. Workers of other
interpreters load this module too, so the module uses only the standard library and NumPy (Python
3.8 or later).
"""

from __future__ import annotations

import types
from typing import Any, List, Tuple  # noqa: UP035

import numpy as np

from dpwitness.core.values import dataframe_backends

Parts = List[Tuple[str, Any]]  # noqa: UP006 - read by Python 3.8

# modules of time zones of which the text says all
_ZONE_MODULES = ("datetime", "zoneinfo", "dpwitness")
_MAX_DENSE_CELLS = 2**22  # most cells of a sparse matrix that is also stored as a dense one


class Named:
    """Stand-in for an object that is determined by its name: a dtype, a class, a function that can
    be imported.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def time_zone(zone: Any) -> Any:
    """Return a time zone, as its text if the text determines the zone."""
    return (
        zone
        if zone is None or type(zone).__module__.partition(".")[0] not in _ZONE_MODULES
        else Named(str(zone))
    )


def _column_parts(column: Any) -> Any:
    """Return the record of a column as a tuple; a column of a NumPy type as its array."""
    kind, values, known = column["type"], column["values"], column["categories"]
    if isinstance(values, np.ndarray) and kind == values.dtype.str:
        return values
    categories = None if known is None else _column_parts(known)
    return Named(kind), values, column["missing"], categories, column["ordered"]


def _pandas_column(values: Any) -> Any:
    """Return the array of a pandas column as arrays, lists and tuples."""
    return _column_parts(dataframe_backends.column_of_pandas(values))


def _pandas_attributes(value: Any) -> Parts:
    """Return the attributes of a pandas frame or series, including those of a subclass."""
    own = [
        (name, getattr(value, name, None))
        for name in type(value)._metadata
        if name not in ("_name", "name")
    ]
    return [
        ("attrs", dict(value.attrs)),
        ("duplicates", bool(value.flags.allows_duplicate_labels)),
        *own,
    ]


def _parts_of_frame(value: Any) -> Parts:
    """Return the parts of a pandas frame."""
    kinds = set(value.dtypes)
    if (
        len(kinds) == 1
        and isinstance(next(iter(kinds)), np.dtype)
        and next(iter(kinds)).kind in "fiubc"
    ):
        cells = value.to_numpy()
    else:
        cells = [_pandas_column(value.iloc[:, place].array) for place in range(value.shape[1])]
    return [
        ("values", cells),
        ("columns", value.columns),
        ("index", value.index),
        *_pandas_attributes(value),
    ]


def _parts_of_index(value: Any) -> Parts:
    """Return the parts of a pandas index."""
    if type(value).__name__ == "RangeIndex":
        return [
            ("start", value.start),
            ("stop", value.stop),
            ("step", value.step),
            ("name", value.name),
        ]
    frequency = getattr(value, "freqstr", None)
    return [("values", _pandas_column(value.array)), ("name", value.name)] + (
        [("frequency", frequency)] if frequency else []
    )


def _parts_of_instant(value: Any) -> Parts:
    """Return the parts of a pandas timestamp or time difference."""
    zone = getattr(value, "tz", None)
    return [("value", value.asm8), ("zone", time_zone(zone)), ("fold", getattr(value, "fold", 0))]


def _parts_of_arrow_array(value: Any) -> Parts:
    """Return the parts of an Arrow array or chunked array, with the lengths of the chunks."""
    chunks = [len(chunk) for chunk in value.chunks] if hasattr(value, "chunks") else None
    content = _column_parts(dataframe_backends.column_of_arrow(value))
    return [("values", content), ("type", _arrow_type_name(value.type)), ("chunks", chunks)]


def _arrow_type_name(kind: Any) -> Any:
    """Return the name of an Arrow type, with the fields of a nested type."""
    count = kind.num_fields if hasattr(kind, "field") else 0
    return (
        (Named(str(kind)), [kind.field(place) for place in range(count)])
        if count
        else Named(str(kind))
    )


def _parts_of_arrow_scalar(value: Any) -> Parts | None:
    """Return the parts of an Arrow scalar; None if the type is not supported."""
    kind, ticks = str(value.type), getattr(value, "value", None)
    if "time64[ns]" in kind and not kind.startswith(dataframe_backends.ARROW_TIMES):
        return None
    return [
        ("value", ticks if kind.startswith(dataframe_backends.ARROW_TIMES) else value.as_py()),
        ("type", _arrow_type_name(value.type)),
    ]


def _parts_of_graph(value: Any) -> Parts:
    """Return the parts of a networkx graph, with the order of the neighbors of each node unless the
    order of the edges determines it.
    """
    parts, directed = dataframe_backends.graph_parts(value), value.is_directed()
    sides = (value.adj, value.pred) if directed else (value.adj,)
    found = [{node: list(near) for node, near in side.items()} for side in sides]
    fixed: Any = [{node: {} for node in side} for side in found]
    for one, two, *_ in parts["edges"]:
        fixed[0][one][two] = fixed[1 if directed else 0][two][one] = None
    determined = found == [{node: list(near) for node, near in side.items()} for side in fixed]
    return [
        ("nodes", parts["nodes"]),
        ("edges", parts["edges"]),
        ("graph", parts["about"]),
        ("order", None if determined else [list(side.items()) for side in found]),
    ]


def _parts_of_sparse(value: Any) -> Parts:
    """Return the parts of a sparse matrix: its cells and how they are stored. A stored zero reveals
    where a record was.
    """
    dense = value.toarray() if int(np.prod(value.shape)) <= _MAX_DENSE_CELLS else None
    if hasattr(value, "items") and callable(value.items):
        return [("values", dense), ("shape", value.shape), ("entries", list(value.items()))]
    stored = ("data", "row", "col", "indices", "indptr", "offsets", "rows")
    inner = [
        (name, getattr(value, name))
        for name in stored
        if isinstance(getattr(value, name, None), np.ndarray)
    ]
    return [("values", dense), ("shape", tuple(value.shape)), *inner]


FORMS: Any = {  # library and class -> function that returns the parts of an object
    ("pandas", "Series"): lambda value: [
        ("values", _pandas_column(value.array)),
        ("index", value.index),
        ("name", value.name),
        *_pandas_attributes(value),
    ],
    ("pandas", "DataFrame"): _parts_of_frame,
    ("pandas", "MultiIndex"): lambda value: [
        ("codes", [np.asarray(codes) for codes in value.codes]),
        ("levels", list(value.levels)),
        ("names", list(value.names)),
    ],
    ("pandas", "Index"): _parts_of_index,
    ("pandas", "ExtensionArray"): lambda value: [("values", _pandas_column(value))],
    ("pandas", "Timestamp"): _parts_of_instant,
    ("pandas", "Timedelta"): _parts_of_instant,
    ("pandas", "Period"): lambda value: [
        ("ordinal", value.ordinal),
        ("frequency", Named(value.freqstr)),
    ],
    ("pandas", "Interval"): lambda value: [
        ("left", value.left),
        ("right", value.right),
        ("closed", Named(value.closed)),
    ],
    ("pandas", "NaTType"): lambda value: [],
    ("pandas", "NAType"): lambda value: [],
    ("pandas", "CategoricalDtype"): lambda value: [
        ("categories", value.categories),
        ("ordered", value.ordered),
    ],
    ("polars", "Series"): lambda value: [
        ("values", _column_parts(dataframe_backends.column_of_polars(value))),
        ("name", value.name),
    ],
    ("polars", "DataFrame"): lambda value: [
        ("columns", value.get_columns()),
        ("rows", value.height),
    ],
    ("pyarrow", "Table"): lambda value: [
        ("columns", list(value.columns)),
        ("schema", value.schema),
    ],
    ("pyarrow", "RecordBatch"): lambda value: [
        ("columns", list(value.columns)),
        ("schema", value.schema),
    ],
    ("pyarrow", "ChunkedArray"): _parts_of_arrow_array,
    ("pyarrow", "Array"): _parts_of_arrow_array,
    ("pyarrow", "Scalar"): _parts_of_arrow_scalar,
    ("pyarrow", "Schema"): lambda value: [
        ("fields", list(value)),
        ("metadata", dict(value.metadata or {})),
    ],
    ("pyarrow", "Field"): lambda value: [
        ("name", value.name),
        ("type", _arrow_type_name(value.type)),
        ("nullable", value.nullable),
        ("metadata", dict(value.metadata or {})),
    ],
    ("collections", "defaultdict"): lambda value: [
        (
            "default",
            Named("a function")
            if isinstance(value.default_factory, types.FunctionType)
            else value.default_factory,
        ),
        ("entries", dict(value)),
    ],
    ("networkx", "Graph"): _parts_of_graph,
    ("scipy", "spmatrix"): _parts_of_sparse,
    ("scipy", "sparray"): _parts_of_sparse,
    ("xarray", "DataArray"): lambda value: [("content", value.to_dict())],
    ("xarray", "Dataset"): lambda value: [("content", value.to_dict())],
}
