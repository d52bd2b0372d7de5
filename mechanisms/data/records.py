"""A dataset record by record: what its records are, and a key of each that two datasets share only where type and all bits are the same.

What counts as a record
    array: a row, of a vector a number;
    list: an item, all items of one kind (None, a missing record, goes with each);
    tuple, list or dict of arrays of one length, tuple or dict of such lists: columns, record i is entry i of each;
    dict of anything else: an entry, which is a key and its value;
    frame of pandas, polars or Arrow: a row, with its label in the index;
    number, truth value: the one record that it is;
    dataset class: what its method `records()` lists, or `counts()` counts.

Anything else is refused: if a dataset cannot be compared record by record, a different dataset would pass as one different record.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpwitness.mechanisms.core.array_json import row_bits
from dpwitness.mechanisms.core.dataframe_backends import Parts, Unheld, apart, library_of, listed
from dpwitness.mechanisms.core.json_codec import Dataset, to_jsonable
from dpwitness.mechanisms.core.validation import InvalidArgument, said

_WAY_OUT = "give an array with one record a row, a list of records, a frame, or columns of one length as a tuple or dict of arrays"
_NESTED = ("a list", "a tuple", "a dict")
ABSENT = ("absent",)  # in place of the value of a key that a record does not have


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """A dataset record by record.

    Attributes
    ----------
    kind : str
        What the dataset is, in words.
    keys : list
        One exact key for each record.
    kinds : list of str, optional
        What kind each record of a list is.
    fields : mapping, optional
        The columns by name: arrays, lists, or columns of a frame.
    ordered : bool
        Whether record i of one dataset is compared with record i of the other.
    about : mapping
        Exact keys of everything else that a mechanism can see, and that belongs to no record.
    labels : list of int, optional
        Integer labels of a frame's rows; None for row numbers.
    """

    kind: str
    keys: list[Hashable]
    kinds: list[str] | None = None
    fields: Mapping[str, Any] | None = None
    ordered: bool = True
    about: Mapping[str, Hashable] = dataclasses.field(default_factory=dict)
    labels: list[int] | None = None

    def labelled(self) -> Read:
        """The same, with a row's label as part of its record."""
        labels = self.labels if self.labels is not None else list(range(len(self.keys)))
        fields = {"label of the index": labels, **(self.fields or {})}
        return dataclasses.replace(self, keys=list(zip(labels, self.keys, strict=True)), fields=fields)


class _Places(Mapping[str, Any]):
    """The columns of a matrix by their places, as texts; none is made before it is needed."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix

    def __getitem__(self, name: str) -> Any:
        if not name.isdecimal() or str(int(name)) != name or int(name) >= len(self):
            raise KeyError(name)
        return self._matrix[:, int(name)]

    def __iter__(self) -> Iterator[str]:
        return map(str, range(len(self)))

    def __len__(self) -> int:
        return int(self._matrix.shape[1])


def check_plain(dataset: Dataset, side: str) -> None:
    """Refuse a dataset without an exact JSON form: two of them could not be compared to the last bit, nor replayed."""
    if (type(dataset) is np.ndarray and dataset.dtype.kind in "biuU") or type(dataset) in (int, float):
        return
    if type(dataset) is np.ndarray and dataset.dtype.kind == "f" and dataset.dtype.itemsize <= 8:
        return
    try:
        if library_of(dataset):
            apart(dataset)
            return
        to_jsonable(dataset)
    except Unheld as error:
        raise InvalidArgument(f"Pair: {side}: {error}") from None
    except InvalidArgument as error:
        raise InvalidArgument(f"Pair: {str(error).replace('dataset', side, 1)}; {_WAY_OUT}") from None
    except Exception as error:  # a class whose fields cannot be read, a container that cannot be walked
        raise InvalidArgument(f"Pair: {side} must be writable as JSON, got {_named(dataset)}, which raises {said(error)}") from None


def read_records(dataset: Dataset, side: str, unit: str = "") -> Read:
    """Return the records of a dataset. Raises InvalidArgument for a dataset that has none."""
    if library_of(dataset):
        return _frame(dataset, side)
    if isinstance(dataset, np.ndarray) and dataset.ndim > 0:
        kind = f"{_array(dataset)} with rows of shape {dataset.shape[1:]}" if dataset.ndim > 1 else _array(dataset)
        fields: Mapping[str, Any] | None = {name: dataset[name] for name in dataset.dtype.names} if dataset.dtype.names else None
        if dataset.ndim == 2 and not dataset.dtype.names:
            fields = _Places(dataset)
        return Read(kind, _rows(dataset), None, fields, about=_fill_of(dataset))
    if isinstance(dataset, dict):
        held = any(isinstance(v, list | tuple) or (isinstance(v, np.ndarray) and v.ndim) for v in dataset.values())
        if not held or (unit == "key" and "key" not in dataset):
            keys, values = list(dataset), list(dataset.values())
            both: list[Hashable] = list(zip(map(exact, keys), map(exact, values), strict=True))
            return Read("a dict of entries", both, None, {"key": keys, "value": values}, ordered=False, about=_hidden(dataset))
        names = sorted(dataset, key=lambda name: (str(name), type(name).__name__))
        found = _columns([dataset[name] for name in names], names, f"a dict of {names}", side)
        return dataclasses.replace(found, about={**found.about, **_hidden(dataset)})
    if isinstance(dataset, list | tuple):
        return dataclasses.replace(found := _sequence(dataset, side), about={**found.about, **_hidden(dataset)})
    records = getattr(dataset, "records", None) if dataclasses.is_dataclass(dataset) else None
    if callable(records):
        return Read(f"of class {type(dataset).__name__}", [exact(record) for record in records()], about=scalar_fields(dataset))
    if isinstance(dataset, bool | int | float | complex | np.generic | np.ndarray) and not isinstance(dataset, str | bytes):
        return Read(_kind(dataset), [exact(dataset)])
    instead = "give it a method records()" if dataclasses.is_dataclass(dataset) else _WAY_OUT
    raise InvalidArgument(f"Pair: {side} must be a dataset whose records can be told apart, got {_named(dataset)}; {instead}")


def scalar_fields(dataset: Any) -> dict[str, Hashable]:
    """Fields of a dataset class that hold one number, text or truth value: they belong to no record."""
    held = {f.name: getattr(dataset, f.name) for f in dataclasses.fields(dataset) if f.init}
    return {
        f"field {name}": exact(v) for name, v in held.items() if v is None or isinstance(v, bool | int | float | str | bytes | np.generic)
    }


def _sequence(items: Sequence[Any], side: str) -> Read:
    name = type(items).__name__
    arrays = [isinstance(item, np.ndarray) and item.ndim > 0 for item in items]
    lists = [isinstance(item, list) for item in items]
    if any(arrays) or (isinstance(items, tuple) and any(lists)):
        return _columns(items, [str(i) for i in range(len(items))], f"a {name} of {len(items)} columns", side)
    inner = [frozenset(map(_kind, item)) - {"None"} if isinstance(item, list | tuple) else frozenset() for item in items]
    single = [kinds for kinds in inner if len(kinds) == 1]
    if len(set(single)) > 1 and len(single) == len(items):  # such as [rows, labels]: columns that would pass as records
        told = " and ".join(sorted(f"only {next(iter(kinds))}" for kinds in set(single))[:2])
        raise InvalidArgument(f"Pair: {side} must have records of one kind, some of its items hold {told}; {_WAY_OUT}")
    kinds = [_kind(item) for item in items]
    shapes = {kind if kind in _NESTED else "a number or text" for kind in kinds if kind != "None"}
    if len(shapes) > 1:
        raise InvalidArgument(f"Pair: {side} must have records of one kind, got {' and '.join(sorted(shapes)[:2])}; {_WAY_OUT}")
    return Read(f"a {name} of records", [exact(item) for item in items], kinds, _parts_of(items, side))


def _parts_of(items: Sequence[Any], side: str) -> dict[str, list[Any]] | None:
    """The columns of a list of records, by key or by place; None where its items hold nothing."""
    if items and all(isinstance(item, dict) for item in items):
        names = list(dict.fromkeys(name for item in items for name in item))
        return _by_name(names, [[item.get(name, ABSENT) for item in items] for name in names], side)
    if items and all(isinstance(item, list | tuple) for item in items) and len(width := {len(item) for item in items}) == 1:
        return {str(j): [item[j] for item in items] for j in range(width.pop())}
    return None


def _by_name(names: Sequence[Any], columns: Sequence[Any], side: str) -> dict[str, Any]:
    """Columns under their names as texts, as a relation spells them."""
    found = dict(zip(map(str, names), columns, strict=True))
    if len(found) < len(names):
        twice = next(name for i, name in enumerate(names) if str(name) in map(str, names[:i]))
        raise InvalidArgument(f"Pair: {side} must have columns whose names differ as texts, got {twice!r} twice; rename one of them")
    return found


def _frame(frame: Any, side: str) -> Read:
    """The rows of a frame; each column's type is part of what it is."""
    parts = apart(frame)
    index, columns = parts["index"], list(parts["columns"])
    names = [column["name"] for column in columns]
    telling = index is not None and _tells(index)
    if telling:
        columns, names = [index, *columns], ["index" if "index" not in names else "(index)", *names]
    types = "; ".join(f"{name} {column['type']}" for name, column in zip(names, columns, strict=True))
    keys: list[Hashable] = list(zip(*map(_entries, columns), strict=True)) if columns else [()] * parts["rows"]
    known = {name: column for name, column in zip(names, columns, strict=True) if column["categories"] is not None}
    about: dict[str, Hashable] = {
        f"the categories of column {name}": (exact(listed(c["categories"])), c["ordered"]) for name, c in known.items()
    }
    if parts["library"] == "pandas" and frame.attrs:
        about["attrs"] = exact(dict(frame.attrs))
    if parts["library"] == "pyarrow" and frame.schema.metadata:  # pandas writes there how many rows there were
        about["the metadata"] = exact({key: value for key, value in frame.schema.metadata.items() if key != b"pandas"})
    labels = None if index is None or telling else index["values"].tolist()
    kind = f"a {parts['library']} frame ({types})"
    return Read(kind, keys, None, _by_name(names, columns, side), about=about, labels=labels)


def _tells(index: Parts) -> bool:
    """Whether an index is more than row numbers, of which some may be gone."""
    return index["name"] is not None or index["values"].dtype.kind not in "iu" or index["categories"] is not None


def _entries(column: Parts) -> list[Hashable]:
    found = _rows(column["values"])
    if column["categories"] is not None:
        known = _entries(column["categories"])
        return [None if code < 0 else known[code] for code in column["values"].tolist()]
    if column["missing"] is not None:
        return [None if gone else key for key, gone in zip(found, column["missing"].tolist(), strict=True)]
    return found


def _columns(columns: Sequence[Any], names: list[Any], kind: str, side: str) -> Read:
    """Columns of one length, record by record."""
    reads = []
    for name, column in zip(names, columns, strict=True):
        if not ((isinstance(column, np.ndarray) and column.ndim > 0) or isinstance(column, list | tuple)):
            raise InvalidArgument(f"Pair: {side} must have columns of one length, its entry {name} is {_kind(column)}; {_WAY_OUT}")
        if isinstance(column, np.ndarray):
            reads.append(read_records(column, side))
        else:
            kinds, keys = [_kind(item) for item in column], [exact(item) for item in column]
            reads.append(Read("a " + type(column).__name__, keys, kinds, about=_hidden(column)))
    sizes = [len(read.keys) for read in reads]
    if len(set(sizes)) != 1:
        raise InvalidArgument(
            f"Pair: {side} must have columns of one length, got {kind} with {', '.join(map(str, sizes)) or 'none'}; {_WAY_OUT}"
        )
    inside = "; ".join(f"{name} {read.kind}" for name, read in zip(names, reads, strict=True))
    records: list[Hashable] = list(zip(*(read.keys for read in reads), strict=True))
    of_records = [" and ".join(row) for row in zip(*(read.kinds or [read.kind] * sizes[0] for read in reads), strict=True)]
    about = {f"{what} of column {name}": key for name, read in zip(names, reads, strict=True) for what, key in read.about.items()}
    return Read(f"{kind} ({inside})", records, of_records, _by_name(names, columns, side), about=about)


def _rows(array: Any) -> list[Hashable]:
    """The bits of each row: NaN equals itself, 0.0 differs from -0.0."""
    if array.dtype.kind == "U" and type(array) is np.ndarray:  # the width of the longest text is no part of a text
        return [exact(row) for row in array.tolist()]
    return row_bits(array)


def column_keys(column: Any) -> list[Hashable]:
    """An exact key for each entry of a column of `Read.fields`."""
    if isinstance(column, dict):
        return _entries(column)
    return _rows(column) if isinstance(column, np.ndarray) else [exact(item) for item in column]


def column_values(column: Any) -> list[Any]:
    """The entries of a column of `Read.fields`; None where they are missing."""
    if isinstance(column, dict):
        return listed(column)
    if not isinstance(column, np.ndarray):
        return list(column)
    return column.tolist() if column.ndim == 1 and column.dtype.kind in "biufU" else list(column)


def exact(value: Any, _depth: int = 0) -> Hashable:
    """Return a key that two values share only where their types and all of their bits are the same.

    NaN equals NaN, 0.0 differs from -0.0, and 1, 1.0, True and "1" differ from one another. The order of a dict or a set is not compared.

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
        return _exact_array(value)
    if _depth >= 30:
        raise InvalidArgument("dataset must be writable as JSON, got one nested more than 30 deep, or within itself")
    if isinstance(value, enum.Enum):
        return f"{kind.__module__}.{kind.__qualname__}", value.name
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    parts: Any
    if library_of(value):
        parts = exact(apart(value), _depth + 1)
    elif isinstance(value, dict):
        parts = frozenset((exact(k, _depth + 1), exact(v, _depth + 1)) for k, v in value.items())
    elif isinstance(value, set | frozenset):
        parts = frozenset(exact(v, _depth + 1) for v in value)
    elif isinstance(value, list | tuple):
        parts = tuple(exact(v, _depth + 1) for v in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = tuple((f.name, exact(getattr(value, f.name), _depth + 1)) for f in dataclasses.fields(value) if hasattr(value, f.name))
    else:
        parts = repr(to_jsonable(value)), getattr(value, "fold", 0)
    return name, parts, *sorted(_hidden(value, _depth).items())


def _exact_array(value: Any) -> Hashable:
    array = np.asanyarray(value)
    if array.dtype.hasobject or (array.dtype.kind == "V" and not array.dtype.names):
        raise InvalidArgument(f"dataset must be writable as JSON, got an array of dtype {array.dtype}")
    dtype = "U" if array.dtype.kind == "U" else str(array.dtype) if array.dtype.names else array.dtype.str
    fill = () if array is np.ma.masked else tuple(_fill_of(array).items())
    return type(value).__name__, dtype, array.shape, tuple(_rows(array.reshape(1) if array.ndim == 0 else array)), fill


def _fill_of(array: Any) -> dict[str, Hashable]:
    return {"the fill value": exact(array.fill_value)} if isinstance(array, np.ma.MaskedArray) else {}


def _hidden(value: Any, _depth: int = 0) -> dict[str, Hashable]:
    """Attributes that an instance of a subclass carries beside its items or its fields."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return {}
    known = {f.name for f in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    slots = {name for cls in kind.__mro__ for name in _listed_slots(cls)}
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    return {f"attribute {n}": exact(v, _depth + 1) for n, v in held.items() if n not in known and not _cached(kind, n)}


def _listed_slots(cls: type) -> tuple[str, ...]:
    found = cls.__dict__.get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(name for name in found if not name.startswith("__"))


def _cached(kind: type, name: str) -> bool:
    """Whether an attribute only remembers what a property has computed."""
    return type(getattr(kind, name, None)).__name__ == "cached_property"


def _kind(value: Any) -> str:
    """What a record is, in words."""
    if value is None:
        return "None"
    if isinstance(value, bool | np.bool_):
        return "a truth value"
    if isinstance(value, int | float | np.number) or (isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf"):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, np.ndarray):
        return _array(value)
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _array(value: Any) -> str:
    dtype = value.dtype
    held = "texts" if dtype.kind == "U" else str(dtype) if dtype.names or not dtype.isnative else dtype.name
    return f"a masked array of {held}" if isinstance(value, np.ma.MaskedArray) else f"an array of {held}"


def _named(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return _kind(value)
