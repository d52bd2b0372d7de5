"""When two datasets are neighbours: what their records are, compared bit for bit, and distances of answers in exact arithmetic.

What counts as a record
    array: a row, of a vector a number;
    list: an item, all items of one kind (None, a missing record, goes with each);
    tuple, list or dict of arrays of one length, tuple or dict of such lists: columns, record i is entry i of each;
    number, truth value: the one record that it is;
    dataset class: what its method `records()` lists, or `counts()` counts.

Anything else is refused: what cannot be told apart record by record would let a whole dataset pass as one.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.terms.distances import NORMS, too_far
from dpwitness.mechanisms.terms.jsonable import Dataset, to_jsonable
from dpwitness.mechanisms.terms.validation import InvalidArgument, said

_WAY_OUT = "give an array with one record a row, a list of records, or columns of one length as a tuple or dict of arrays"
_NESTED = ("a list", "a tuple", "a dict")


@dataclasses.dataclass(frozen=True, slots=True)
class _Read:
    """A dataset record by record: what it is, a key for each record, and what kind each record of a list is."""

    kind: str
    keys: list[Hashable]
    kinds: list[str] | None = None


def why_not_neighbours(d0: Dataset, d1: Dataset, relation: str) -> str:
    """An empty string for neighbours, otherwise how far apart the two are.

    Raises
    ------
    InvalidArgument
        If a dataset is nothing that the relation understands, or the two are one and the same.
    """
    for side, dataset in (("D0", d0), ("D1", d1)):
        _check_plain(dataset, side)
    if relation in NORMS:
        return too_far(d0, d1, relation)
    if relation == "stated":
        if to_jsonable(d0) == to_jsonable(d1):
            raise InvalidArgument("Pair: D0 and D1 are identical, which can show no violation")
        return ""
    if _counted(d0) or _counted(d1):
        return _too_many_counted(d0, d1, relation)
    first, second = _read(d0, "D0"), _read(d1, "D1")
    if first.kind != second.kind:
        return f"D0 is {first.kind}, D1 is {second.kind}"
    if relation == "add-remove":
        left, right = Counter(first.keys), Counter(second.keys)
        extra = (left - right).total() + (right - left).total()
        problem = "" if extra <= 1 else f"{extra} records stand in one and not in the other, at most 1 may"
        if not extra:
            raise InvalidArgument("Pair: D0 and D1 hold the same records, which can show no violation; add a record to one of them")
        return problem or _odd_record(first, second, left - right, right - left)
    if len(first.keys) != len(second.keys):
        return f"they have {len(first.keys)} and {len(second.keys)} records, the number may not differ"
    rows = [i for i, (a, b) in enumerate(zip(first.keys, second.keys, strict=True)) if a != b]
    if not rows:
        raise InvalidArgument("Pair: D0 and D1 are identical, which can show no violation; replace a record of one of them")
    if len(rows) > 1:
        return f"{len(rows)} records differ (rows {', '.join(map(str, rows[:5]))}{', ...' if len(rows) > 5 else ''}), at most 1 may"
    if first.kinds is not None and second.kinds is not None:
        kinds = first.kinds[rows[0]], second.kinds[rows[0]]
        if kinds[0] != kinds[1] and "None" not in kinds:
            return f"record {rows[0]} is {kinds[0]} in D0 and {kinds[1]} in D1, records are of one kind"
    return ""


def _odd_record(first: _Read, second: _Read, gone: Counter[Hashable], new: Counter[Hashable]) -> str:
    """Of two lists, whether the record that only one of them has is of another kind than all records of the other."""
    for one, other, extra in ((first, second, gone), (second, first, new)):
        if extra and one.kinds is not None and other.kinds:
            kind = one.kinds[one.keys.index(next(iter(extra)))]
            if kind not in (*other.kinds, "None") and set(other.kinds) != {"None"}:
                return f"the added record is {kind}, the others are {other.kinds[0]}: records are of one kind"
    return ""


def _counted(dataset: Dataset) -> bool:
    return dataclasses.is_dataclass(dataset) and callable(getattr(dataset, "counts", None))


def _too_many_counted(d0: Dataset, d1: Dataset, relation: str) -> str:
    """Datasets with multiplicities are multisets: compared by how often each record occurs, never copy by copy."""
    if type(d0) is not type(d1):
        return f"one is {type(d0).__name__}, the other {type(d1).__name__}"
    if relation == "substitution":
        return "it is a relation of sequences of linear costs, these are multisets of records"
    if getattr(d0, "dimension", None) != getattr(d1, "dimension", None):
        return f"they have {d0.dimension} and {d1.dimension} dimensions"
    left, right = d0.counts(), d1.counts()
    gone, new = (left - right).total(), (right - left).total()
    if not gone + new:
        raise InvalidArgument("Pair: D0 and D1 hold the same records, which can show no violation; replace or add one")
    if relation == "add-remove":
        return "" if gone + new <= 1 else f"{gone + new} records stand in one and not in the other, at most 1 may"
    if gone != new:
        return f"they have {left.total()} and {right.total()} records, the number may not differ"
    return "" if gone <= 1 else f"{gone} records differ, at most 1 may"


def _check_plain(dataset: Dataset, side: str) -> None:
    """Refuse what has no exact JSON form: it could not be told apart to the last bit, nor be replayed."""
    if (type(dataset) is np.ndarray and dataset.dtype.kind in "biuU") or isinstance(dataset, int | float):
        return
    if type(dataset) is np.ndarray and dataset.dtype.kind == "f" and dataset.dtype.itemsize <= 8:
        return
    try:
        to_jsonable(dataset)
    except InvalidArgument as error:
        raise InvalidArgument(f"Pair: {str(error).replace('dataset', side, 1)}; {_WAY_OUT}") from None
    except Exception as error:  # a class whose fields cannot be read, a container that cannot be walked
        raise InvalidArgument(f"Pair: {side} must be writable as JSON, got {_named(dataset)}, which raises {said(error)}") from None


def _read(dataset: Dataset, side: str) -> _Read:
    """The records. InvalidArgument for a dataset that has none."""
    if isinstance(dataset, np.ndarray) and dataset.ndim > 0:
        return _Read(f"{_array(dataset)} with rows of shape {dataset.shape[1:]}" if dataset.ndim > 1 else _array(dataset), _rows(dataset))
    if isinstance(dataset, dict):
        return _columns(list(dataset.values()), list(dataset), f"a dict of {sorted(dataset)}", side)
    if isinstance(dataset, list | tuple):
        return _sequence(dataset, side)
    records = getattr(dataset, "records", None) if dataclasses.is_dataclass(dataset) else None
    if callable(records):
        return _Read(f"of class {type(dataset).__name__}", [_key(record) for record in records()])
    if isinstance(dataset, bool | int | float | complex | np.generic | np.ndarray) and not isinstance(dataset, str | bytes):
        return _Read(_kind(dataset), [_key(dataset)])
    instead = "give it a method records()" if dataclasses.is_dataclass(dataset) else _WAY_OUT
    raise InvalidArgument(f"Pair: {side} must be a dataset whose records can be told apart, got {_named(dataset)}; {instead}")


def _sequence(items: Sequence[Any], side: str) -> _Read:
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
    return _Read(f"a {name} of records", [_key(item) for item in items], kinds)


def _columns(columns: Sequence[Any], names: list[str], kind: str, side: str) -> _Read:
    """Columns of one length, record by record."""
    reads = []
    for name, column in zip(names, columns, strict=True):
        if not ((isinstance(column, np.ndarray) and column.ndim > 0) or isinstance(column, list | tuple)):
            raise InvalidArgument(f"Pair: {side} must have columns of one length, its entry {name} is {_kind(column)}; {_WAY_OUT}")
        if isinstance(column, np.ndarray):
            reads.append(_read(column, side))
        else:
            reads.append(_Read("a " + type(column).__name__, [_key(item) for item in column], [_kind(item) for item in column]))
    sizes = [len(read.keys) for read in reads]
    if len(set(sizes)) != 1:
        raise InvalidArgument(
            f"Pair: {side} must have columns of one length, got {kind} with {', '.join(map(str, sizes)) or 'none'}; {_WAY_OUT}"
        )
    inside = "; ".join(f"{name} {read.kind}" for name, read in zip(names, reads, strict=True))
    keys: list[Hashable] = list(zip(*(read.keys for read in reads), strict=True))
    kinds = [" and ".join(row) for row in zip(*(read.kinds or [read.kind] * sizes[0] for read in reads), strict=True)]
    return _Read(f"{kind} ({inside})", keys, kinds)


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
