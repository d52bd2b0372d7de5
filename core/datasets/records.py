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
import itertools
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpwitness.core.values.dataframe_backends import UnsupportedData, library_name, listed, to_parts
from dpwitness.core.values.json_codec import Dataset, row_bits, to_jsonable
from dpwitness.core.values.object_tree import take_apart
from dpwitness.core.values.validation import InvalidArgument, error_text

_ACCEPTED_FORMS = (
    "give an array with one record a row, a list of records, a frame, or columns of one length "
    "as a tuple or dict of arrays; with unit=key, each entry of a dict is a record"
)
_NUMBERS = (bool, int, float, complex, np.number, np.bool_, np.datetime64, np.void, np.ndarray)
_CONTAINERS = {kind: kind for kind in ("a list", "a tuple", "a dict")}
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
        return _read_column(dataset)
    if isinstance(dataset, dict | list | tuple):
        found = (
            _read_dict(dataset, side, unit)
            if isinstance(dataset, dict)
            else _read_sequence(dataset, side)
        )
        return dataclasses.replace(found, about=found.about | _extra_attributes(dataset))
    if isinstance(dataset, _NUMBERS):
        return DatasetRecords(_kind_text(dataset), [exact(dataset)])
    remedy = _ACCEPTED_FORMS
    if dataclasses.is_dataclass(type(dataset)):
        if callable(getattr(dataset, "counts", None)):
            return _read_multiset(dataset)
        if callable(getattr(dataset, "records", None)):
            keys = list(map(exact, dataset.records()))
            kind = f"of class {type(dataset).__name__}"
            return DatasetRecords(kind, keys, about=_own_fields(dataset))
        remedy = "give it a method records()"
    raise InvalidArgument(
        f"Pair: {side} must be a dataset with separate records, got {_value_text(dataset)}; "
        f"{remedy}"
    )


def _read_column(column: Any) -> DatasetRecords:
    """Return the entries of a column of `DatasetRecords.fields`, or the rows of an array, as
    records.
    """
    if isinstance(column, dict):
        found = DatasetRecords(column["type"], column_keys(column))
        if column["categories"] is not None:
            known = exact(listed(column["categories"]))
            found.about["the categories"] = known, column["ordered"]
        return found
    if not isinstance(column, np.ndarray):
        kind, kinds = f"a {type(column).__name__}", list(map(_kind_text, column))
        return DatasetRecords(kind, column_keys(column), kinds, about=_extra_attributes(column))
    kind, names = _array_text(column), column.dtype.names or ()
    if column.ndim > 1:
        kind += f" with rows of shape {column.shape[1:]}"
    fields = {name: column[name] for name in names}
    if column.ndim == 2 and not names:
        fields = {str(place): column[:, place] for place in range(column.shape[1])}
    return DatasetRecords(kind, column_keys(column), None, fields, about=_fill_value_key(column))


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
    columns = list | np.ndarray if isinstance(items, tuple) else np.ndarray
    if any(isinstance(item, columns) and _is_column(item) for item in items):
        names = list(map(str, range(len(items))))
        return _read_columns(items, names, f"a {name} of {len(items)} columns", side)
    # items such as [rows, labels] are columns, which would be read as two records
    if all(map(_is_column, items)):
        inner = [set(map(_kind_text, item)) - {"None"} for item in items]
        if set(map(len, inner)) == {1}:
            mixed = {f"only {kind}" for kind in set().union(*inner)}
            _require_one_kind(mixed, side, "some of its items hold")
    kinds = list(map(_kind_text, items))
    shapes = {_CONTAINERS.get(kind, "a number or text") for kind in {*kinds} - {"None"}}
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
        names = list(dict.fromkeys(itertools.chain.from_iterable(items)))
        columns = [[item.get(name, ABSENT) for item in items] for name in names]
        return _named_columns(names, columns, side)
    lists = all(isinstance(item, list | tuple) for item in items)
    if not lists or len(set(map(len, items))) > 1:
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
    index, columns = parts["index"], parts["columns"]
    names = [column["name"] for column in columns]
    labels = None
    if index is not None:
        if index["name"] is index["categories"] is None and index["values"].dtype.kind in "iu":
            labels = index["values"].tolist()
        else:  # the index holds more than row numbers
            columns = [index, *columns]
            names.insert(0, "(index)" if "index" in names else "index")
    found = _across(columns, names, f"a {parts['library']} frame", side)
    about = found.about
    if parts["library"] == "pandas":
        about["attrs"] = exact(dict(frame.attrs))
    if parts["library"] == "pyarrow":
        metadata = dict(frame.schema.metadata or {})
        metadata.pop(b"pandas", None)  # where pandas stores the number of rows
        about["the metadata"] = exact(metadata)
    keys = found.keys or [()] * parts["rows"]
    return dataclasses.replace(found, keys=keys, kinds=None, labels=labels)


def _read_columns(
    columns: Sequence[Any], names: Sequence[Any], kind: str, side: str
) -> DatasetRecords:
    """Return the records across arrays and lists. Raise InvalidArgument unless these have one
    length.
    """
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
    return _across(columns, names, kind, side)


def _across(columns: Sequence[Any], names: Sequence[Any], kind: str, side: str) -> DatasetRecords:
    """Return the records across columns: record i has entry i of each column."""
    reads = list(zip(names, map(_read_column, columns), strict=True))
    each = (read.kinds or itertools.repeat(read.kind, len(read.keys)) for _, read in reads)
    about = {
        f"{what} of column {name}": key for name, read in reads for what, key in read.about.items()
    }
    return DatasetRecords(
        f"{kind} ({'; '.join(f'{name} {read.kind}' for name, read in reads)})",
        list(zip(*(read.keys for _, read in reads), strict=True)),
        list(map(" and ".join, zip(*each, strict=True))),
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
    """Return an exact key for each entry of a column of `DatasetRecords.fields`; None for a missing
    entry of a frame.
    """
    if isinstance(column, np.ndarray):
        return _row_keys(column)
    if not isinstance(column, dict):
        return list(map(exact, column))
    values, missing = column["values"], column["missing"]
    if column["categories"] is not None:
        known = column_keys(column["categories"])
        return [None if code < 0 else known[code] for code in values.tolist()]
    keys = _row_keys(values)
    absent = np.zeros(len(keys), dtype=bool) if missing is None else missing
    return [None if gone else key for key, gone in zip(keys, absent.tolist(), strict=True)]


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
    key = partial(exact, _depth=depth)
    if isinstance(value, dict):
        return frozenset((key(name), key(part)) for name, part in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(map(key, value))
    if isinstance(value, list | tuple):
        return tuple(map(key, value))
    if dataclasses.is_dataclass(type(value)):
        names = (field.name for field in dataclasses.fields(value))
        return tuple((name, key(getattr(value, name))) for name in names if hasattr(value, name))
    found = take_apart(value)
    if found is None:
        raise InvalidArgument(f"dataset must be writable as JSON, got {type(value).__name__}")
    return key(found[1])


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
