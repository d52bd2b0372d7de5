"""Reading of datasets record by record, with an exact key per record: two keys are equal if type
and all bits are the same.

The records of a dataset are

- array: its rows; of a vector, its numbers;
- list: its items, all of one kind (None, a missing record, is compatible with every kind);
- tuple, list or dict of arrays of one length, tuple or dict of such lists: record i is entry i of
  each column;
- dict of anything else: its entries, which are pairs of a key and its value;
- frame of pandas, polars or Arrow: its rows, with their labels in the index;
- number, truth value: the dataset itself, as the only record;
- dataset class: the items of its method `records()`, or of its method `counts()`.

Anything else is refused. A dataset that cannot be compared record by record would count as a single
record, and any change to it as a change of this record.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpwitness.core.values.dataframe_backends import (
    Parts,
    UnsupportedData,
    library_name,
    listed,
    to_parts,
)
from dpwitness.core.values.json_codec import Dataset, row_bits, to_jsonable
from dpwitness.core.values.object_tree import take_apart
from dpwitness.core.values.validation import InvalidArgument, error_text

_ACCEPTED_FORMS = (
    "give an array with one record a row, a list of records, a frame, or columns of one length "
    "as a tuple or dict of arrays"
)
_CONTAINER_KINDS = ("a list", "a tuple", "a dict")
ABSENT = ("absent",)  # placeholder for the value of a key that a record does not have


@dataclasses.dataclass(frozen=True, slots=True)
class DatasetRecords:
    """Dataset read record by record."""

    kind: str  # description of the dataset's type
    keys: list[Hashable]  # one exact key per record
    kinds: list[str] | None = None  # kind of each record of a list
    fields: Mapping[str, Any] | None = None  # columns by name: arrays, lists, or columns of a frame
    ordered: bool = True  # whether record i of one dataset is compared with record i of the other
    # exact keys of everything else that a mechanism can see and that belongs to no record
    about: Mapping[str, Hashable] = dataclasses.field(default_factory=dict)
    labels: list[int] | None = None  # integer index labels of a frame's rows; None for row numbers

    def labelled(self) -> DatasetRecords:
        """Return the same records, with the index label of each row as a part of its record."""
        labels = self.labels if self.labels is not None else list(range(len(self.keys)))
        fields = {"label of the index": labels, **(self.fields or {})}
        return dataclasses.replace(
            self, keys=list(zip(labels, self.keys, strict=True)), fields=fields
        )


class _MatrixColumns(Mapping[str, Any]):
    """Lazy mapping of the columns of a matrix by their positions as text."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix

    def __getitem__(self, name: str) -> Any:
        if (
            not (name.isascii() and name.isdecimal())
            or str(int(name)) != name
            or int(name) >= len(self)
        ):
            raise KeyError(name)
        return self._matrix[:, int(name)]

    def __iter__(self) -> Iterator[str]:
        return map(str, range(len(self)))

    def __len__(self) -> int:
        return int(self._matrix.shape[1])


def require_json_form(dataset: Dataset, side: str) -> None:
    """Raise InvalidArgument for a dataset without an exact JSON form, which could be neither
    compared exactly nor replayed.
    """
    if (type(dataset) is np.ndarray and dataset.dtype.kind in "biuU") or type(dataset) in (
        int,
        float,
    ):
        return
    if type(dataset) is np.ndarray and dataset.dtype.kind == "f" and dataset.dtype.itemsize <= 8:
        return
    try:
        if library_name(dataset):
            to_parts(dataset)
            return
        to_jsonable(dataset)
    except UnsupportedData as error:
        raise InvalidArgument(f"Pair: {side}: {error}") from None
    except InvalidArgument as error:
        raise InvalidArgument(
            f"Pair: {str(error).replace('dataset', side, 1)}; {_ACCEPTED_FORMS}"
        ) from None
    except (
        Exception
    ) as error:  # a class whose fields cannot be read, a container that cannot be iterated
        raise InvalidArgument(
            f"Pair: {side} must be writable as JSON, got {_value_text(dataset)}, which "
            f"raises {error_text(error)}"
        ) from None


def read_records(dataset: Dataset, side: str, unit: str = "") -> DatasetRecords:
    """Return the records of a dataset. Raise InvalidArgument for a dataset without records."""
    if library_name(dataset):
        return _read_frame(dataset, side)
    if isinstance(dataset, np.ndarray) and dataset.ndim > 0:
        kind = (
            f"{_array_text(dataset)} with rows of shape {dataset.shape[1:]}"
            if dataset.ndim > 1
            else _array_text(dataset)
        )
        fields: Mapping[str, Any] | None = _MatrixColumns(dataset) if dataset.ndim == 2 else None
        if dataset.dtype.names:
            fields = {name: dataset[name] for name in dataset.dtype.names}
        return DatasetRecords(
            kind, _row_keys(dataset), None, fields, about=_fill_value_key(dataset)
        )
    if isinstance(dataset, dict):
        return _read_dict(dataset, side, unit)
    if isinstance(dataset, list | tuple):
        return dataclasses.replace(
            found := _read_sequence(dataset, side),
            about={**found.about, **_extra_attributes(dataset)},
        )
    records = getattr(dataset, "records", None) if dataclasses.is_dataclass(dataset) else None
    if callable(records):
        return DatasetRecords(
            f"of class {type(dataset).__name__}",
            [exact(record) for record in records()],
            about=scalar_fields(dataset),
        )
    if isinstance(
        dataset, bool | int | float | complex | np.generic | np.ndarray
    ) and not isinstance(dataset, str | bytes):
        return DatasetRecords(_kind_text(dataset), [exact(dataset)])
    remedy = "give it a method records()" if dataclasses.is_dataclass(dataset) else _ACCEPTED_FORMS
    raise InvalidArgument(
        f"Pair: {side} must be a dataset with separate records, got {_value_text(dataset)}; "
        f"{remedy}"
    )


def _read_dict(dataset: dict[Any, Any], side: str, unit: str) -> DatasetRecords:
    """Return the records of a dict: rows across its columns, or its entries if it has none or
    `unit` is ``key``.
    """
    content = any(
        isinstance(v, list | tuple) or (isinstance(v, np.ndarray) and v.ndim)
        for v in dataset.values()
    )
    if not content or (unit == "key" and "key" not in dataset):
        keys, values = list(dataset), list(dataset.values())
        return DatasetRecords(
            "a dict of entries",
            list(zip(map(exact, keys), map(exact, values), strict=True)),
            None,
            {"key": keys, "value": values},
            ordered=False,
            about=_extra_attributes(dataset),
        )
    names = sorted(dataset, key=lambda name: (str(name), type(name).__name__))
    found = _read_columns([dataset[name] for name in names], names, f"a dict of {names}", side)
    return dataclasses.replace(found, about={**found.about, **_extra_attributes(dataset)})


def scalar_fields(dataset: Any) -> dict[str, Hashable]:
    """Return exact keys of the fields of a dataset class that hold one number, text or truth value:
    these belong to no record.
    """
    content = {f.name: getattr(dataset, f.name) for f in dataclasses.fields(dataset) if f.init}
    plain = bool | int | float | str | bytes | np.generic | None
    return {f"field {name}": exact(v) for name, v in content.items() if isinstance(v, plain)}


def _read_sequence(items: Sequence[Any], side: str) -> DatasetRecords:
    """Return the records of a list or tuple: its items, or rows across its columns. Raise
    InvalidArgument for mixed kinds.
    """
    name = type(items).__name__
    arrays = [isinstance(item, np.ndarray) and item.ndim > 0 for item in items]
    lists = [isinstance(item, list) for item in items]
    if any(arrays) or (isinstance(items, tuple) and any(lists)):
        return _read_columns(
            items, [str(i) for i in range(len(items))], f"a {name} of {len(items)} columns", side
        )
    inner = [
        frozenset(map(_kind_text, item)) - {"None"}
        if isinstance(item, list | tuple)
        else frozenset()
        for item in items
    ]
    single = [kinds for kinds in inner if len(kinds) == 1]
    # such as [rows, labels]: columns, which would be read as two records
    if len(set(single)) > 1 and len(single) == len(items):
        kinds_text = " and ".join(sorted(f"only {next(iter(kinds))}" for kinds in set(single))[:2])
        raise InvalidArgument(
            f"Pair: {side} must have records of one kind, some of its items hold "
            f"{kinds_text}; {_ACCEPTED_FORMS}"
        )
    kinds = [_kind_text(item) for item in items]
    shapes = {
        kind if kind in _CONTAINER_KINDS else "a number or text" for kind in kinds if kind != "None"
    }
    if len(shapes) > 1:
        raise InvalidArgument(
            f"Pair: {side} must have records of one kind, got "
            f"{' and '.join(sorted(shapes)[:2])}; {_ACCEPTED_FORMS}"
        )
    return DatasetRecords(
        f"a {name} of records", [exact(item) for item in items], kinds, _item_columns(items, side)
    )


def _item_columns(items: Sequence[Any], side: str) -> dict[str, list[Any]] | None:
    """Return the columns of a list of records, by key or by position; None if the items are not
    containers.
    """
    if items and all(isinstance(item, dict) for item in items):
        names = list(dict.fromkeys(name for item in items for name in item))
        return _named_columns(
            names, [[item.get(name, ABSENT) for item in items] for name in names], side
        )
    if (
        items
        and all(isinstance(item, list | tuple) for item in items)
        and len(width := {len(item) for item in items}) == 1
    ):
        return {str(j): [item[j] for item in items] for j in range(width.pop())}
    return None


def _named_columns(names: Sequence[Any], columns: Sequence[Any], side: str) -> dict[str, Any]:
    """Return columns by their names as text, as relations spell the names. Raise InvalidArgument if
    two names are equal as text.
    """
    found = dict(zip(map(str, names), columns, strict=True))
    if len(found) < len(names):
        duplicate = next(name for i, name in enumerate(names) if str(name) in map(str, names[:i]))
        raise InvalidArgument(
            f"Pair: {side} must have columns whose names differ as texts, got {duplicate!r} "
            "twice; rename one of them"
        )
    return found


def _read_frame(frame: Any, side: str) -> DatasetRecords:
    """Return the rows of a frame. The column types are part of the description of the frame."""
    parts = to_parts(frame)
    index, columns = parts["index"], list(parts["columns"])
    names = [column["name"] for column in columns]
    # an index that holds more than row numbers
    index_is_column = index is not None and (
        index["name"] is not None
        or index["values"].dtype.kind not in "iu"
        or index["categories"] is not None
    )
    if index_is_column:
        columns, names = [index, *columns], ["index" if "index" not in names else "(index)", *names]
    types = "; ".join(
        f"{name} {column['type']}" for name, column in zip(names, columns, strict=True)
    )
    keys: list[Hashable] = (
        list(zip(*map(_column_entries, columns), strict=True)) if columns else [()] * parts["rows"]
    )
    known = {
        name: column
        for name, column in zip(names, columns, strict=True)
        if column["categories"] is not None
    }
    about: dict[str, Hashable] = {
        f"the categories of column {name}": (exact(listed(c["categories"])), c["ordered"])
        for name, c in known.items()
    }
    if parts["library"] == "pandas" and frame.attrs:
        about["attrs"] = exact(dict(frame.attrs))
    # pandas stores the number of rows under this key
    if parts["library"] == "pyarrow" and frame.schema.metadata:
        about["the metadata"] = exact(
            {key: value for key, value in frame.schema.metadata.items() if key != b"pandas"}
        )
    labels = None if index is None or index_is_column else index["values"].tolist()
    kind = f"a {parts['library']} frame ({types})"
    return DatasetRecords(
        kind, keys, None, _named_columns(names, columns, side), about=about, labels=labels
    )


def _column_entries(column: Parts) -> list[Hashable]:
    """Return an exact key of each entry of a frame's column; None for a missing entry."""
    found = _row_keys(column["values"])
    if column["categories"] is not None:
        known = _column_entries(column["categories"])
        return [None if code < 0 else known[code] for code in column["values"].tolist()]
    if column["missing"] is not None:
        return [
            None if is_missing else key
            for key, is_missing in zip(found, column["missing"].tolist(), strict=True)
        ]
    return found


def _read_columns(columns: Sequence[Any], names: list[Any], kind: str, side: str) -> DatasetRecords:
    """Return the records of columns of one length."""
    reads = []
    for name, column in zip(names, columns, strict=True):
        if not (
            (isinstance(column, np.ndarray) and column.ndim > 0) or isinstance(column, list | tuple)
        ):
            raise InvalidArgument(
                f"Pair: {side} must have columns of one length, its entry {name} is "
                f"{_kind_text(column)}; {_ACCEPTED_FORMS}"
            )
        if isinstance(column, np.ndarray):
            reads.append(read_records(column, side))
        else:
            kinds, keys = [_kind_text(item) for item in column], [exact(item) for item in column]
            reads.append(
                DatasetRecords(
                    "a " + type(column).__name__, keys, kinds, about=_extra_attributes(column)
                )
            )
    sizes = [len(read.keys) for read in reads]
    if len(set(sizes)) != 1:
        raise InvalidArgument(
            f"Pair: {side} must have columns of one length, got {kind} with "
            f"{', '.join(map(str, sizes)) or 'none'}; {_ACCEPTED_FORMS}"
        )
    inside = "; ".join(f"{name} {read.kind}" for name, read in zip(names, reads, strict=True))
    records: list[Hashable] = list(zip(*(read.keys for read in reads), strict=True))
    record_kinds = [
        " and ".join(row)
        for row in zip(*(read.kinds or [read.kind] * sizes[0] for read in reads), strict=True)
    ]
    about = {
        f"{what} of column {name}": key
        for name, read in zip(names, reads, strict=True)
        for what, key in read.about.items()
    }
    return DatasetRecords(
        f"{kind} ({inside})",
        records,
        record_kinds,
        _named_columns(names, columns, side),
        about=about,
    )


def _row_keys(array: Any) -> list[Hashable]:
    """Return an exact key of each row of an array: NaN equals itself, 0.0 differs from -0.0."""
    # the item size depends on the longest text, so bytes cannot be compared
    if array.dtype.kind == "U" and type(array) is np.ndarray:
        return [exact(row) for row in array.tolist()]
    return row_bits(array)


def column_keys(column: Any) -> list[Hashable]:
    """Return an exact key for each entry of a column of `Read.fields`."""
    if isinstance(column, dict):
        return _column_entries(column)
    return _row_keys(column) if isinstance(column, np.ndarray) else [exact(item) for item in column]


def column_values(column: Any) -> list[Any]:
    """Return the entries of a column of `Read.fields`; missing entries are None."""
    if isinstance(column, dict):
        return listed(column)
    if not isinstance(column, np.ndarray):
        return list(column)
    return column.tolist() if column.ndim == 1 and column.dtype.kind in "biufU" else list(column)


def exact(value: Any, _depth: int = 0) -> Hashable:
    """Return a hashable key that is equal for two values only if their types and all of their bits
    are the same.

    NaN equals NaN. 0.0 differs from -0.0, and 1, 1.0, True and "1" differ from one another. The
    order of a dict or set is ignored.

    Raises
    ------
    InvalidArgument
        If the value, or a part of it, has no exact form.
    """
    kind = type(value)
    if value is None or kind in (int, str, bool, bytes):
        return kind.__name__, value
    if kind is float:
        return "float", repr(value)
    if isinstance(value, np.ndarray) or (isinstance(value, np.generic) and value.dtype.kind != "O"):
        return _array_key(value)
    if _depth >= 30:
        raise InvalidArgument(
            "dataset must be writable as JSON, got one nested more than 30 deep, or within itself"
        )
    if isinstance(value, enum.Enum):
        return f"{kind.__module__}.{kind.__qualname__}", value.name
    name = (
        kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    )
    parts: Any
    if isinstance(value, dict):
        parts = frozenset((exact(k, _depth + 1), exact(v, _depth + 1)) for k, v in value.items())
    elif isinstance(value, set | frozenset):
        parts = frozenset(exact(v, _depth + 1) for v in value)
    elif isinstance(value, list | tuple):
        parts = tuple(exact(v, _depth + 1) for v in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = tuple(
            (f.name, exact(getattr(value, f.name), _depth + 1))
            for f in dataclasses.fields(value)
            if hasattr(value, f.name)
        )
    elif (found := take_apart(value)) is not None:
        parts = exact(found[1], _depth + 1)
    else:
        raise InvalidArgument(f"dataset must be writable as JSON, got {kind.__name__}")
    return name, parts, *sorted(_extra_attributes(value, _depth).items())


def _array_key(value: Any) -> Hashable:
    """Return the exact key of an array or NumPy scalar. Raise InvalidArgument for arrays of objects
    or raw bytes.
    """
    array = np.asanyarray(value)
    if array.dtype.hasobject or (array.dtype.kind == "V" and not array.dtype.names):
        raise InvalidArgument(
            f"dataset must be writable as JSON, got an array of dtype {array.dtype}"
        )
    dtype = (
        "U"
        if array.dtype.kind == "U"
        else str(array.dtype)
        if array.dtype.names
        else array.dtype.str
    )
    fill = () if array is np.ma.masked else tuple(_fill_value_key(array).items())
    return (
        type(value).__name__,
        dtype,
        array.shape,
        tuple(_row_keys(array.reshape(1) if array.ndim == 0 else array)),
        fill,
    )


def _fill_value_key(array: Any) -> dict[str, Hashable]:
    """Return the exact key of the fill value of a masked array; an empty dict for other arrays."""
    return (
        {"the fill value": exact(array.fill_value)} if isinstance(array, np.ma.MaskedArray) else {}
    )


def _extra_attributes(value: Any, _depth: int = 0) -> dict[str, Hashable]:
    """Return exact keys of the attributes that an instance of a subclass has in addition to its
    items or fields.
    """
    kind = type(value)
    if kind.__module__ == "builtins":
        return {}
    known = (
        {f.name for f in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    )
    slots = {name for cls in kind.__mro__ for name in slots_of_class(cls)}
    content = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(
        value, "__dict__", {}
    )
    return {
        f"attribute {n}": exact(v, _depth + 1)
        for n, v in content.items()
        if n not in known and type(getattr(kind, n, None)).__name__ != "cached_property"
    }


def slots_of_class(cls: type) -> tuple[str, ...]:
    """Return the names in `__slots__` of one class, without special names."""
    found = cls.__dict__.get("__slots__", ())
    return (
        (found,)
        if isinstance(found, str)
        else tuple(name for name in found if not name.startswith("__"))
    )


def _kind_text(value: Any) -> str:
    """Return a description of the kind of a record, such as "a number"."""
    if value is None:
        return "None"
    if isinstance(value, bool | np.bool_):
        return "a truth value"
    if isinstance(value, int | float | np.number) or (
        isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf"
    ):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, np.ndarray):
        return _array_text(value)
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _array_text(value: Any) -> str:
    """Return a description of an array, such as "an array of float64"."""
    dtype = value.dtype
    content = (
        "texts"
        if dtype.kind == "U"
        else str(dtype)
        if dtype.names or not dtype.isnative
        else dtype.name
    )
    return (
        f"a masked array of {content}"
        if isinstance(value, np.ma.MaskedArray)
        else f"an array of {content}"
    )


def _value_text(value: Any) -> str:
    """Return a description of any value for an error message."""
    return f"the class {value.__name__}" if isinstance(value, type) else _kind_text(value)
