"""A dataset record by record: what its records are, and a key of each that two datasets share only where all bits are the same.

What counts as a record
    array: a row, of a vector a number;
    list: an item, all items of one kind (None, a missing record, goes with each);
    tuple, list or dict of arrays of one length, tuple or dict of such lists: columns, record i is entry i of each;
    dict of anything else: an entry, which is a key and its value;
    frame of pandas, polars or Arrow: a row, with the entry of the index if that is more than row numbers;
    number, truth value: the one record that it is;
    dataset class: what its method `records()` lists, or `counts()` counts.

Anything else is refused: what cannot be told apart record by record would let a whole dataset pass as one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.terms.jsonable import Dataset, to_jsonable
from dpwitness.mechanisms.terms.libraries import Parts, Unheld, apart, library_of
from dpwitness.mechanisms.terms.validation import InvalidArgument, said

_WAY_OUT = "give an array with one record a row, a list of records, a frame, or columns of one length as a tuple or dict of arrays"
COLUMNS = 64  # that may be units or labels
_NESTED = ("a list", "a tuple", "a dict")


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """A dataset record by record: what it is, a key for each record, what kind each record of a list is, and what each column holds."""

    kind: str
    keys: list[Hashable]
    kinds: list[str] | None = None
    fields: dict[str, list[Hashable]] | None = None
    ordered: bool = True  # whether record i of one dataset is to be compared with record i of the other


def check_plain(dataset: Dataset, side: str) -> None:
    """Refuse what has no exact JSON form: it could not be told apart to the last bit, nor be replayed."""
    if (type(dataset) is np.ndarray and dataset.dtype.kind in "biuU") or isinstance(dataset, int | float):
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
    """The records. InvalidArgument for a dataset that has none."""
    if library_of(dataset):
        return _frame(apart(dataset))
    if isinstance(dataset, np.ndarray) and dataset.ndim > 0:
        kind = f"{_array(dataset)} with rows of shape {dataset.shape[1:]}" if dataset.ndim > 1 else _array(dataset)
        fields = {name: _rows(dataset[name]) for name in dataset.dtype.names} if dataset.dtype.names else None
        if dataset.ndim == 2 and dataset.shape[1] <= COLUMNS and not dataset.dtype.names:
            fields = {str(j): _rows(column) for j, column in enumerate(dataset.T)}
        return Read(kind, _rows(dataset), None, fields)
    if isinstance(dataset, dict):
        if unit == "key" or not any(isinstance(v, list | tuple) or (isinstance(v, np.ndarray) and v.ndim) for v in dataset.values()):
            keys, held = [_key(key) for key in dataset], [_key(value) for value in dataset.values()]
            return Read("a dict of entries", list(zip(keys, held, strict=True)), None, {"key": keys, "value": held}, ordered=False)
        return _columns(list(dataset.values()), list(dataset), f"a dict of {sorted(dataset)}", side)
    if isinstance(dataset, list | tuple):
        return _sequence(dataset, side)
    records = getattr(dataset, "records", None) if dataclasses.is_dataclass(dataset) else None
    if callable(records):
        return Read(f"of class {type(dataset).__name__}", [_key(record) for record in records()])
    if isinstance(dataset, bool | int | float | complex | np.generic | np.ndarray) and not isinstance(dataset, str | bytes):
        return Read(_kind(dataset), [_key(dataset)])
    instead = "give it a method records()" if dataclasses.is_dataclass(dataset) else _WAY_OUT
    raise InvalidArgument(f"Pair: {side} must be a dataset whose records can be told apart, got {_named(dataset)}; {instead}")


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
    return Read(f"a {name} of records", [_key(item) for item in items], kinds, _parts_of(items))


def _parts_of(items: Sequence[Any]) -> dict[str, list[Hashable]] | None:
    """What the records of a list hold, by key or by place; None where they hold nothing."""
    if items and all(isinstance(item, dict) for item in items):
        names = dict.fromkeys(str(name) for item in items for name in item)
        return {name: [_key(item.get(name)) for item in items] for name in names}
    if items and all(isinstance(item, list | tuple) for item in items) and len(width := {len(item) for item in items}) == 1:
        return {str(j): [_key(item[j]) for item in items] for j in range(min(width.pop(), COLUMNS))}
    return None


def _frame(parts: Parts) -> Read:
    """The rows of a frame; each column's type is part of what it is."""
    columns = [*([parts["index"]] if parts["index"] is not None and _tells(parts["index"]) else []), *parts["columns"]]
    fields = {str("index" if column is parts["index"] else column["name"]): _entries(column) for column in columns}
    types = "; ".join(f"{name} {column['type']}" for name, column in zip(fields, columns, strict=True))
    keys: list[Hashable] = list(zip(*fields.values(), strict=True)) if fields else [()] * parts["rows"]
    return Read(f"a {parts['library']} frame ({types})", keys, None, fields)


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


def _columns(columns: Sequence[Any], names: list[str], kind: str, side: str) -> Read:
    """Columns of one length, record by record."""
    reads = []
    for name, column in zip(names, columns, strict=True):
        if not ((isinstance(column, np.ndarray) and column.ndim > 0) or isinstance(column, list | tuple)):
            raise InvalidArgument(f"Pair: {side} must have columns of one length, its entry {name} is {_kind(column)}; {_WAY_OUT}")
        if isinstance(column, np.ndarray):
            reads.append(read_records(column, side))
        else:
            reads.append(Read("a " + type(column).__name__, [_key(item) for item in column], [_kind(item) for item in column]))
    sizes = [len(read.keys) for read in reads]
    if len(set(sizes)) != 1:
        raise InvalidArgument(
            f"Pair: {side} must have columns of one length, got {kind} with {', '.join(map(str, sizes)) or 'none'}; {_WAY_OUT}"
        )
    inside = "; ".join(f"{name} {read.kind}" for name, read in zip(names, reads, strict=True))
    keys: list[Hashable] = list(zip(*(read.keys for read in reads), strict=True))
    kinds = [" and ".join(row) for row in zip(*(read.kinds or [read.kind] * sizes[0] for read in reads), strict=True)]
    return Read(f"{kind} ({inside})", keys, kinds, dict(zip(names, (read.keys for read in reads), strict=True)))


def _rows(array: NDArray[Any]) -> list[Hashable]:
    """The bits of each row: NaN equals itself, 0.0 differs from -0.0."""
    if array.dtype.kind == "U" and type(array) is np.ndarray:  # the width of the longest text is no part of a text
        return [_key(row) for row in array.tolist()]
    if array.dtype.char in "gG":  # the bytes of a long double hold padding
        return [repr(to_jsonable(row)) for row in array]
    table = _bits(array)
    width, data = table.shape[1], table.tobytes()
    return [data[i * width : (i + 1) * width] for i in range(len(table))]


def _bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    if isinstance(array, np.ma.MaskedArray):
        return np.hstack([_bits(np.asarray(array.filled())), _bits(np.ma.getmaskarray(array))])
    if array.dtype.names:  # field by field: what lies between them is no data
        return np.hstack([np.empty((len(array), 0), np.uint8), *(_bits(array[name]) for name in array.dtype.names)])
    flat = np.ascontiguousarray(array)
    size = flat.itemsize * int(np.prod(flat.shape[1:]))
    return np.frombuffer(flat.tobytes(), dtype=np.uint8).reshape(len(flat), size)


def _key(record: Any) -> Hashable:
    if type(record) in (int, str, bool):
        return type(record).__name__, record
    if type(record) is float:
        return "float", repr(record)
    if isinstance(record, np.ndarray) and record.dtype.kind in "biuf":
        return record.dtype.str, record.shape, record.tobytes()
    return repr(to_jsonable(record))


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
    held = "texts" if dtype.kind == "U" else str(dtype) if dtype.names else dtype.name
    return f"a masked array of {held}" if isinstance(value, np.ma.MaskedArray) else f"an array of {held}"


def _named(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return _kind(value)
