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
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
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
ABSENT = ("absent",)  # placeholder for the value of a key that a record does not have


@dataclasses.dataclass(frozen=True, slots=True)
class DatasetRecords:
    """Dataset read record by record."""

    kind: str  # description of the dataset's type
    keys: Sequence[Hashable] | Counter[Hashable]  # one exact key per record; copies of a multiset
    kinds: list[str] | None = None  # kind of each record of a list
    # columns by name: arrays, lists, or columns of a frame
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ordered: bool = True  # whether record i of one dataset is compared with record i of the other
    # exact keys of everything else that a mechanism can see and that belongs to no record
    about: dict[str, Hashable] = dataclasses.field(default_factory=dict)
    labels: list[int] | None = None  # integer index labels of a frame's rows; None for row numbers
    groups: Any = None  # numbers of records of the groups of a multiset, if it has groups

    @property
    def multiset(self) -> bool:
        return isinstance(self.keys, Counter)

    @property
    def size(self) -> Any:
        """Return the number of records, or the numbers of the groups."""
        return self.groups or Counter(self.keys).total()

    def labelled(self) -> DatasetRecords:
        """Return the same records, with the index label of each row as a part of its record."""
        labels = self.labels if self.labels is not None else list(range(len(self.keys)))
        keys = list(zip(labels, self.keys, strict=True))
        return dataclasses.replace(
            self, keys=keys, fields={"label of the index": labels, **self.fields}
        )


def require_json_form(dataset: Dataset, side: str) -> None:
    """Raise InvalidArgument for a dataset without an exact JSON form, which could be neither
    compared exactly nor replayed.
    """
    plain = type(dataset) is np.ndarray and dataset.dtype.kind in "biufU"
    if plain or type(dataset) in (int, float):
        return
    try:
        if library_name(dataset):
            to_parts(dataset)
        else:
            to_jsonable(dataset)
    except UnsupportedData as error:
        raise InvalidArgument(f"Pair: {side}: {error}") from None
    except InvalidArgument as error:
        raise InvalidArgument(
            f"Pair: {str(error).replace('dataset', side, 1)}; {_ACCEPTED_FORMS}"
        ) from None
    except Exception as error:  # fields that cannot be read, a container that cannot be iterated
        raise InvalidArgument(
            f"Pair: {side} must be writable as JSON, got {_value_text(dataset)}, which "
            f"raises {error_text(error)}"
        ) from None


def read_records(dataset: Dataset, side: str, unit: str = "") -> DatasetRecords:
    """Return the records of a dataset. Raise InvalidArgument for a dataset without records."""
    if library_name(dataset):
        return _read_frame(dataset, side)
    if isinstance(dataset, np.ndarray) and dataset.ndim > 0:
        return _read_array(dataset)
    if isinstance(dataset, dict):
        found = _read_dict(dataset, side, unit)
        return dataclasses.replace(found, about=found.about | _extra_attributes(dataset))
    if isinstance(dataset, list | tuple):
        found = _read_sequence(dataset, side)
        return dataclasses.replace(found, about=found.about | _extra_attributes(dataset))
    if isinstance(dataset, bool | int | float | complex | np.generic | np.ndarray) and (
        not isinstance(dataset, str | bytes)
    ):
        return DatasetRecords(_kind_text(dataset), [exact(dataset)])
    own_class = dataclasses.is_dataclass(dataset)
    if own_class and callable(getattr(dataset, "counts", None)):
        return _read_multiset(dataset)
    if own_class and callable(getattr(dataset, "records", None)):
        keys = list(map(exact, dataset.records()))
        return DatasetRecords(
            f"of class {type(dataset).__name__}", keys, about=_own_fields(dataset)
        )
    remedy = "give it a method records()" if own_class else _ACCEPTED_FORMS
    raise InvalidArgument(
        f"Pair: {side} must be a dataset with separate records, got {_value_text(dataset)}; "
        f"{remedy}"
    )


def _read_array(array: Any) -> DatasetRecords:
    """Return the rows of an array, or the numbers of a vector."""
    kind = _array_text(array)
    if array.ndim > 1:
        kind += f" with rows of shape {array.shape[1:]}"
    names = array.dtype.names or ()
    fields = {name: array[name] for name in names}
    if array.ndim == 2 and not names:
        fields = {str(place): array[:, place] for place in range(array.shape[1])}
    return DatasetRecords(kind, _row_keys(array), None, fields, about=_fill_value_key(array))


def _read_multiset(dataset: Any) -> DatasetRecords:
    """Return the records of a dataset class with a method `counts`, whose copies are counted and
    never listed. A record that is a pair has features and a label.
    """
    counts = dataset.counts()
    pairs = all(isinstance(record, tuple) and len(record) == 2 for record in counts)
    dimension = getattr(dataset, "dimension", None)
    return DatasetRecords(
        f"of class {type(dataset).__name__}" + (f", dimension {dimension}" if dimension else ""),
        Counter(
            {tuple(map(exact, r)) if pairs else exact(r): count for r, count in counts.items()}
        ),
        fields=dict.fromkeys(("features", "label") if pairs else ()),
        ordered=False,
        about=_own_fields(dataset),
        groups=getattr(dataset, "sizes", None),
    )


def _read_dict(dataset: dict[Any, Any], side: str, unit: str) -> DatasetRecords:
    """Return the records of a dict: rows across its columns, or its entries if it has none or
    `unit` is ``key``.
    """
    content = any(map(_is_column, dataset.values()))
    names = sorted(dataset, key=lambda name: (str(name), type(name).__name__))
    if content and not (unit == "key" and "key" not in dataset):
        return _read_columns([dataset[name] for name in names], names, f"a dict of {names}", side)
    keys, values = list(dataset), list(dataset.values())
    entries: list[Hashable] = list(zip(map(exact, keys), map(exact, values), strict=True))
    fields = {"key": keys, "value": values}
    return DatasetRecords("a dict of entries", entries, None, fields, ordered=False)


def _is_column(value: Any) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _own_fields(dataset: Any) -> dict[str, Hashable]:
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
    if any(isinstance(item, np.ndarray) and item.ndim > 0 for item in items) or (
        isinstance(items, tuple) and any(isinstance(item, list) for item in items)
    ):
        names = list(map(str, range(len(items))))
        return _read_columns(items, names, f"a {name} of {len(items)} columns", side)
    inner = [
        set(map(_kind_text, item)) - {"None"} if isinstance(item, list | tuple) else set()
        for item in items
    ]
    # items such as [rows, labels] are columns, which would be read as two records
    if all(len(kinds) == 1 for kinds in inner):
        mixed = {f"only {kind}" for kinds in inner for kind in kinds}
        _require_one_kind(mixed, side, "some of its items hold")
    kinds = [_kind_text(item) for item in items]
    containers = ("a list", "a tuple", "a dict")
    shapes = {k if k in containers else "a number or text" for k in kinds if k != "None"}
    _require_one_kind(shapes, side, "got")
    return DatasetRecords(
        f"a {name} of records", list(map(exact, items)), kinds, _item_columns(items, side)
    )


def _require_one_kind(kinds: set[str], side: str, verb: str) -> None:
    if len(kinds) > 1:
        raise InvalidArgument(
            f"Pair: {side} must have records of one kind, {verb} "
            f"{' and '.join(sorted(kinds)[:2])}; {_ACCEPTED_FORMS}"
        )


def _item_columns(items: Sequence[Any], side: str) -> dict[str, Any]:
    """Return the columns of a list of records, by key or by position; none if the items are not
    containers of one kind.
    """
    if all(isinstance(item, dict) for item in items):
        names = list(dict.fromkeys(name for item in items for name in item))
        columns = [[item.get(name, ABSENT) for item in items] for name in names]
        return _named_columns(names, columns, side)
    lists = all(isinstance(item, list | tuple) for item in items)
    if not lists or len({len(item) for item in items}) > 1:
        return {}
    return {str(place): list(column) for place, column in enumerate(zip(*items, strict=True))}


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
    about: dict[str, Hashable] = {
        f"the categories of column {name}": (exact(listed(c["categories"])), c["ordered"])
        for name, c in zip(names, columns, strict=True)
        if c["categories"] is not None
    }
    if parts["library"] == "pandas":
        about["attrs"] = exact(dict(frame.attrs))
    if parts["library"] == "pyarrow":
        # pandas stores the number of rows under its own key
        metadata = {k: v for k, v in (frame.schema.metadata or {}).items() if k != b"pandas"}
        about["the metadata"] = exact(metadata)
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
    if column["missing"] is None:
        return found
    return [
        None if missing else key
        for key, missing in zip(found, column["missing"].tolist(), strict=True)
    ]


def _read_columns(
    columns: Sequence[Any], names: Sequence[Any], kind: str, side: str
) -> DatasetRecords:
    """Return the records of columns of one length."""
    for name, column in zip(names, columns, strict=True):
        if not _is_column(column):
            raise InvalidArgument(
                f"Pair: {side} must have columns of one length, its entry {name} is "
                f"{_kind_text(column)}; {_ACCEPTED_FORMS}"
            )
    sizes = list(map(len, columns))
    if len(set(sizes)) != 1:
        raise InvalidArgument(
            f"Pair: {side} must have columns of one length, got {kind} with "
            f"{', '.join(map(str, sizes)) or 'none'}; {_ACCEPTED_FORMS}"
        )
    reads = [
        _read_array(column)
        if isinstance(column, np.ndarray)
        else DatasetRecords(
            f"a {type(column).__name__}",
            list(map(exact, column)),
            list(map(_kind_text, column)),
            about=_extra_attributes(column),
        )
        for column in columns
    ]
    inside = "; ".join(f"{name} {read.kind}" for name, read in zip(names, reads, strict=True))
    kinds = zip(*(read.kinds or [read.kind] * sizes[0] for read in reads), strict=True)
    about = {
        f"{what} of column {name}": key
        for name, read in zip(names, reads, strict=True)
        for what, key in read.about.items()
    }
    return DatasetRecords(
        f"{kind} ({inside})",
        list(zip(*(read.keys for read in reads), strict=True)),
        list(map(" and ".join, kinds)),
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
    """Return an exact key for each entry of a column of `DatasetRecords.fields`."""
    if isinstance(column, dict):
        return _column_entries(column)
    return _row_keys(column) if isinstance(column, np.ndarray) else list(map(exact, column))


def column_values(column: Any) -> list[Any]:
    """Return the entries of a column of `DatasetRecords.fields`; missing entries are None."""
    if isinstance(column, dict):
        return listed(column)
    plain = isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "biufU"
    return column.tolist() if plain else list(column)


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
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    if isinstance(value, enum.Enum):
        return name, value.name
    parts = _exact_parts(value, _depth + 1)
    return name, parts, *sorted(_extra_attributes(value, _depth).items())


def _exact_parts(value: Any, depth: int) -> Hashable:
    """Return the exact keys of the parts of a value: in order, or as a set for a dict or a set."""
    if isinstance(value, dict):
        return frozenset((exact(k, depth), exact(v, depth)) for k, v in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(exact(part, depth) for part in value)
    if isinstance(value, list | tuple):
        return tuple(exact(part, depth) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (f.name for f in dataclasses.fields(value) if hasattr(value, f.name))
        return tuple((name, exact(getattr(value, name), depth)) for name in names)
    found = take_apart(value)
    if found is None:
        raise InvalidArgument(f"dataset must be writable as JSON, got {type(value).__name__}")
    return exact(found[1], depth)


def _array_key(value: Any) -> Hashable:
    """Return the exact key of an array or NumPy scalar. Raise InvalidArgument for arrays of objects
    or raw bytes.
    """
    array = np.asanyarray(value)
    if array.dtype.hasobject or (array.dtype.kind == "V" and not array.dtype.names):
        raise InvalidArgument(
            f"dataset must be writable as JSON, got an array of dtype {array.dtype}"
        )
    # the item size of texts depends on the longest, and the name of a record on its padding
    dtype = "U" if array.dtype.kind == "U" else array.dtype.str
    if array.dtype.names:
        dtype = str(array.dtype)
    fill = () if array is np.ma.masked else tuple(_fill_value_key(array).items())
    rows = tuple(_row_keys(np.atleast_1d(array) if array.ndim == 0 else array))
    return type(value).__name__, dtype, array.shape, rows, fill


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
    slots = {name for cls in kind.__mro__ for name in slots_of_class(cls) if hasattr(value, name)}
    content = {name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {})
    return {
        f"attribute {name}": exact(part, _depth + 1)
        for name, part in content.items()
        if name not in known and not isinstance(getattr(kind, name, None), cached_property)
    }


def slots_of_class(cls: type) -> tuple[str, ...]:
    """Return the names in `__slots__` of one class, without special names."""
    found = cls.__dict__.get("__slots__", ())
    return (
        (found,)
        if isinstance(found, str)
        else tuple(name for name in found if not name.startswith("__"))
    )


_KINDS: tuple[tuple[Any, str], ...] = (
    (type(None), "None"),
    ((bool, np.bool_), "a truth value"),
    ((int, float, np.number), "a number"),
    (str, "a text"),
)


def _kind_text(value: Any) -> str:
    """Return a description of the kind of a record, such as "a number"."""
    if isinstance(value, np.ndarray) and (value.ndim or value.dtype.kind not in "iuf"):
        return _array_text(value)
    plain = value[()] if isinstance(value, np.ndarray) else value
    name = type(plain).__name__
    usual = f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
    return next((text for kinds, text in _KINDS if isinstance(plain, kinds)), usual)


def _array_text(value: Any) -> str:
    """Return a description of an array, such as "an array of float64"."""
    dtype = value.dtype
    content = str(dtype) if dtype.names or not dtype.isnative else dtype.name
    if dtype.kind == "U":
        content = "texts"
    masked = isinstance(value, np.ma.MaskedArray)
    return f"{'a masked array' if masked else 'an array'} of {content}"


def _value_text(value: Any) -> str:
    """Return a description of any value for an error message."""
    return f"the class {value.__name__}" if isinstance(value, type) else _kind_text(value)
