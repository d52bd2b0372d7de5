"""When two datasets are neighbours: what their records are, compared bit for bit, and distances of answers in exact arithmetic.

What counts as a record
    array: a row, of a vector a number;
    list: an item, all items of one kind (None, a missing record, goes with each);
    tuple, list or dict of arrays of one length, tuple or dict of such lists: columns, record i is entry i of each;
    dict of anything else: an entry, which is a key and its value;
    frame of pandas, polars or Arrow: a row, with the entry of the index if that is more than row numbers;
    number, truth value: the one record that it is;
    dataset class: what its method `records()` lists, or `counts()` counts.

Anything else is refused: what cannot be told apart record by record would let a whole dataset pass as one. A unit is the value of a column,
a key or a place of each record; graphs have nodes and edges instead, and are compared in `distances`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.terms.distances import too_far, too_far_graphs
from dpwitness.mechanisms.terms.jsonable import Dataset, to_jsonable
from dpwitness.mechanisms.terms.libraries import Parts, Unheld, apart, library_of
from dpwitness.mechanisms.terms.relations import GRAPHS, NORMS, RELATIONS, SpelledRelation, parse_relation
from dpwitness.mechanisms.terms.validation import InvalidArgument, said

_WAY_OUT = "give an array with one record a row, a list of records, a frame, or columns of one length as a tuple or dict of arrays"
_FEW = 10  # records, units, events, nodes or edges, up to which a number of them is told
_COLUMNS = 64  # that may be units or labels
_NESTED = ("a list", "a tuple", "a dict")


@dataclasses.dataclass(frozen=True, slots=True)
class _Read:
    """A dataset record by record: what it is, a key for each record, what kind each record of a list is, and what each column holds."""

    kind: str
    keys: list[Hashable]
    kinds: list[str] | None = None
    fields: dict[str, list[Hashable]] | None = None
    ordered: bool = True  # whether record i of one dataset is to be compared with record i of the other


def why_not_neighbours(d0: Dataset, d1: Dataset, relation: str) -> str:
    """An empty string for neighbours, otherwise how far apart the two are.

    Raises
    ------
    InvalidArgument
        If a dataset is nothing that the relation understands, or the two are one and the same.
    """
    asked = parse_relation(relation)
    if not asked.checked:
        if d0 is d1:
            raise InvalidArgument("Pair: D0 and D1 are one object, which can show no violation; give two")
        return ""
    for side, dataset in (("D0", d0), ("D1", d1)):
        _check_plain(dataset, side)
    if asked.name in NORMS:
        return too_far(d0, d1, asked.name)
    graphs = [library_of(dataset) == "networkx" for dataset in (d0, d1)]
    if asked.name in GRAPHS or any(graphs):
        if not all(graphs) or asked.name not in GRAPHS:
            takes = f"relations of graphs are {', '.join(GRAPHS)}"
            return f"{takes}: {'D0 or D1 is no graph of networkx' if asked.name in GRAPHS else f'{asked.name} is none of them'}"
        return too_far_graphs(d0, d1, asked)
    if _counted(d0) or _counted(d1):
        return _too_many_counted(d0, d1, asked)
    first, second = (_read(dataset, side, asked.unit) for dataset, side in ((d0, "D0"), (d1, "D1")))
    if first.kind != second.kind:
        return f"D0 is {first.kind}, D1 is {second.kind}"
    if asked.unit:
        return _too_many_units(first, second, asked)
    if asked.name == "event":
        return _too_many_events(first.keys, second.keys, asked.k)
    if asked.name == "add-remove":
        left, right = Counter(first.keys), Counter(second.keys)
        extra = (left - right).total() + (right - left).total()
        problem = "" if extra <= asked.k else f"{extra} records stand in one and not in the other, {_most(asked.k)}"
        if not extra:
            raise InvalidArgument("Pair: D0 and D1 hold the same records, which can show no violation; add a record to one of them")
        return problem or _odd_record(first, second, left - right, right - left)
    if len(first.keys) != len(second.keys):
        return f"they have {len(first.keys)} and {len(second.keys)} records, the number may not differ"
    if not first.ordered:
        return _too_many_entries(first.keys, second.keys, asked.k)
    rows = [i for i, (a, b) in enumerate(zip(first.keys, second.keys, strict=True)) if a != b]
    if not rows:
        raise InvalidArgument("Pair: D0 and D1 are identical, which can show no violation; replace a record of one of them")
    if len(rows) > asked.k:
        return f"{len(rows)} records differ (rows {', '.join(map(str, rows[:5]))}{', ...' if len(rows) > 5 else ''}), {_most(asked.k)}"
    if asked.name in ("label", "attribute"):
        return _other_columns(first, second, asked, rows)
    if first.kinds is not None and second.kinds is not None:
        for row in rows:
            kinds = first.kinds[row], second.kinds[row]
            if any(a != b and "None" not in (a, b) for a, b in zip(*(kind.split(" and ") for kind in kinds), strict=True)):
                return f"record {row} is {kinds[0]} in D0 and {kinds[1]} in D1, records are of one kind"
    return ""


def relations_of(d0: Dataset, d1: Dataset) -> list[str]:
    """Relations under which two datasets are neighbours: each by itself, with a few records, or with the units of one column."""
    unfit = ("stated", "attribute", *(() if hasattr(d0, "rounds") else ("substitution",)))
    found = [name for name in (*NORMS, *RELATIONS) if name not in unfit and _are(d0, d1, name)]
    found = list(dict.fromkeys(found))
    if library_of(d0) == "networkx":
        return found or [f"{name}:k={k}" for name in GRAPHS for k in range(2, _FEW) if _are(d0, d1, f"{name}:k={k}")][:1]
    columns: list[str] = []
    with contextlib.suppress(InvalidArgument):
        columns = list(_read(d0, "D0").fields or {})[:_COLUMNS]
    for name in ("add-remove", "replace-one"):
        if name not in found:
            found += [f"{name}:unit={column}" for column in columns if _are(d0, d1, f"{name}:unit={column}")][:2]
    for name in ("replace-one", "add-remove"):
        if not found:
            found += [f"{name}:k={k}" for k in range(2, _FEW) if _are(d0, d1, f"{name}:k={k}")][:1]
    return found


def _are(d0: Dataset, d1: Dataset, relation: str) -> bool:
    try:
        return not why_not_neighbours(d0, d1, relation)
    except InvalidArgument:
        return False


def _most(k: int, what: str = "") -> str:
    return f"at most {k} {what and what + ' '}may"


def _too_many_entries(left: list[Hashable], right: list[Hashable], k: int) -> str:
    gone, new = Counter(left) - Counter(right), Counter(right) - Counter(left)
    if not gone and not new:
        raise InvalidArgument("Pair: D0 and D1 are identical, which can show no violation; replace a record of one of them")
    return "" if gone.total() <= k else f"{gone.total()} entries differ, {_most(k)}"


def _too_many_events(left: list[Hashable], right: list[Hashable], k: int) -> str:
    """Streams: what stays before the first and after the last difference is the same, and little stands between."""
    if left == right:
        raise InvalidArgument("Pair: D0 and D1 are identical, which can show no violation; change an event of one of them")
    costs = _edits(left, right, k)
    return "" if costs <= k else f"more than {k} events were added, removed or replaced, {_most(k)}"


def _edits(left: list[Hashable], right: list[Hashable], k: int) -> int:
    """How many events were added, removed or replaced between two streams; k + 1 for more than k (Ukkonen's band around the diagonal)."""
    if abs(len(left) - len(right)) > k:
        return k + 1
    before = {j: j for j in range(min(k, len(right)) + 1)}
    for i, event in enumerate(left, 1):
        row: dict[int, int] = {}
        for j in range(max(0, i - k), min(len(right), i + k) + 1):
            best = before.get(j, k) + 1
            if j:
                best = min(best, row.get(j - 1, k) + 1, before.get(j - 1, k + 1) + (event != right[j - 1]))
            row[j] = min(best, k + 1)
        before = row
        if min(before.values()) > k:
            return k + 1
    return before.get(len(right), k + 1)


def _too_many_units(first: _Read, second: _Read, asked: SpelledRelation) -> str:
    """Users, or whatever the unit is: all that is told of one counts as one."""
    sides = []
    for side, read in (("D0", first), ("D1", second)):
        fields = read.fields or {}
        if asked.unit not in fields and (read.keys or fields):  # no records need no columns
            names = ", ".join(list(fields)[:20]) or "none"
            raise InvalidArgument(
                f"Pair: unit must be a column, key or place of the records of {side}, which are {names}; got {asked.unit!r}"
            )
        rows: dict[Hashable, Counter[Hashable]] = {}
        for owner, key in zip(fields.get(asked.unit, ()), read.keys, strict=True):
            rows.setdefault(owner, Counter())[key] += 1
        sides.append(rows)
    left, right = sides
    gone, new = left.keys() - right.keys(), right.keys() - left.keys()
    changed = [owner for owner in left.keys() & right.keys() if left[owner] != right[owner]]
    if not gone and not new and not changed:
        raise InvalidArgument("Pair: D0 and D1 hold the same records, which can show no violation; change the records of one unit")
    if asked.name == "add-remove":
        if changed:
            return f"{len(changed)} values of {asked.unit} stand in both with other records: all records of a unit are added or removed"
        count = len(gone) + len(new)
        return "" if count <= asked.k else f"{count} values of {asked.unit} stand in one and not in the other, {_most(asked.k)}"
    if len(gone) != len(new):
        return f"they hold {len(left)} and {len(right)} values of {asked.unit}, the number may not differ"
    count = len(gone) + len(changed)
    return "" if count <= asked.k else f"the records of {count} values of {asked.unit} differ, {_most(asked.k)}"


def _other_columns(first: _Read, second: _Read, asked: SpelledRelation, rows: list[int]) -> str:
    """Whether records differ in the named columns only; of a label, in the column `label`, `y` or the last numbered one."""
    names = list(first.fields or {})
    usual = [name for name in ("label", "y") if name in names] or (names[-1:] if names and names[-1].isdecimal() else [])
    free = asked.columns or tuple(usual[:1])
    if not free or any(name not in names for name in free) or len(free) == len(names):
        told = "+".join(free) or "none"
        raise InvalidArgument(
            f"Pair: {asked.name} must name some of the columns, {asked.name}:columns=NAME+NAME, which are "
            f"{', '.join(names[:20]) or 'none'}; got {told}"
        )
    left, right = first.fields or {}, second.fields or {}
    for name in names:
        if name not in free and any(left[name][row] != right[name][row] for row in rows):
            return f"column {name} differs too, only {', '.join(free)} may"
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


def _too_many_counted(d0: Dataset, d1: Dataset, asked: SpelledRelation) -> str:
    """Datasets with multiplicities are multisets: compared by how often each record occurs, never copy by copy."""
    if type(d0) is not type(d1):
        return f"one is {type(d0).__name__}, the other {type(d1).__name__}"
    if asked.name == "substitution":
        return "it is a relation of sequences of linear costs, these are multisets of records"
    if asked.name not in ("replace-one", "add-remove", "label") or asked.unit or asked.columns:
        return f"{type(d0).__name__} has the relations replace-one, add-remove and label"
    if getattr(d0, "dimension", None) != getattr(d1, "dimension", None):
        return f"they have {d0.dimension} and {d1.dimension} dimensions"
    left, right = d0.counts(), d1.counts()
    gone, new = (left - right).total(), (right - left).total()
    if not gone + new:
        raise InvalidArgument("Pair: D0 and D1 hold the same records, which can show no violation; replace or add one")
    if asked.name == "add-remove":
        return "" if gone + new <= asked.k else f"{gone + new} records stand in one and not in the other, {_most(asked.k)}"
    if gone != new:
        return f"they have {left.total()} and {right.total()} records, the number may not differ"
    if gone > asked.k:
        return f"{gone} records differ, {_most(asked.k)}"
    if asked.name == "label" and _features(left - right) != _features(right - left):
        return "the features differ too, only the label may"
    return ""


def _features(records: Counter[Any]) -> Counter[Hashable]:
    """How often each record occurs, its label left out."""
    found: Counter[Hashable] = Counter()
    for (features, _), count in records.items():
        found[features] += count
    return found


def _check_plain(dataset: Dataset, side: str) -> None:
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


def _read(dataset: Dataset, side: str, unit: str = "") -> _Read:
    """The records. InvalidArgument for a dataset that has none."""
    if library_of(dataset):
        return _frame(apart(dataset))
    if isinstance(dataset, np.ndarray) and dataset.ndim > 0:
        kind = f"{_array(dataset)} with rows of shape {dataset.shape[1:]}" if dataset.ndim > 1 else _array(dataset)
        fields = {name: _rows(dataset[name]) for name in dataset.dtype.names} if dataset.dtype.names else None
        if dataset.ndim == 2 and dataset.shape[1] <= _COLUMNS and not dataset.dtype.names:
            fields = {str(j): _rows(column) for j, column in enumerate(dataset.T)}
        return _Read(kind, _rows(dataset), None, fields)
    if isinstance(dataset, dict):
        if unit == "key" or not any(isinstance(v, list | tuple) or (isinstance(v, np.ndarray) and v.ndim) for v in dataset.values()):
            keys, held = [_key(key) for key in dataset], [_key(value) for value in dataset.values()]
            return _Read("a dict of entries", list(zip(keys, held, strict=True)), None, {"key": keys, "value": held}, ordered=False)
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
    return _Read(f"a {name} of records", [_key(item) for item in items], kinds, _parts_of(items))


def _parts_of(items: Sequence[Any]) -> dict[str, list[Hashable]] | None:
    """What the records of a list hold, by key or by place; None where they hold nothing."""
    if items and all(isinstance(item, dict) for item in items):
        names = dict.fromkeys(str(name) for item in items for name in item)
        return {name: [_key(item.get(name)) for item in items] for name in names}
    if items and all(isinstance(item, list | tuple) for item in items) and len(width := {len(item) for item in items}) == 1:
        return {str(j): [_key(item[j]) for item in items] for j in range(min(width.pop(), _COLUMNS))}
    return None


def _frame(parts: Parts) -> _Read:
    """The rows of a frame; each column's type is part of what it is."""
    columns = [*([parts["index"]] if parts["index"] is not None and _tells(parts["index"]) else []), *parts["columns"]]
    fields = {str("index" if column is parts["index"] else column["name"]): _entries(column) for column in columns}
    types = "; ".join(f"{name} {column['type']}" for name, column in zip(fields, columns, strict=True))
    keys: list[Hashable] = list(zip(*fields.values(), strict=True)) if fields else [()] * parts["rows"]
    return _Read(f"a {parts['library']} frame ({types})", keys, None, fields)


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
    return _Read(f"{kind} ({inside})", keys, kinds, dict(zip(names, (read.keys for read in reads), strict=True)))


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
