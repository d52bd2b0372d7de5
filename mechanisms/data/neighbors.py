"""When two datasets are neighbours: their records compared bit for bit, in the words of each relation.

A unit is the value of a column, a key or a place of each record; graphs have nodes and edges instead, and are compared in `distances`,
where answers are too.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from dpwitness.mechanisms.core.class_registry import is_known, public_name
from dpwitness.mechanisms.core.dataframe_backends import library_of
from dpwitness.mechanisms.core.json_codec import Dataset
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.data.distances import too_far, too_far_graphs
from dpwitness.mechanisms.data.records import ABSENT, Read, check_plain, column_keys, column_values, exact, read_records, scalar_fields
from dpwitness.mechanisms.data.relations import GRAPHS, NORMS, RELATIONS, SpelledRelation, parse_relation

_COLUMNS = 64  # that are tried as units
_FEW = 10  # records, units, events, nodes or edges, up to which a number of them is told


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
        check_plain(dataset, side)
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
    first, second = (read_records(dataset, side, asked.unit) for dataset, side in ((d0, "D0"), (d1, "D1")))
    if first.kind != second.kind:
        return f"D0 is {first.kind}, D1 is {second.kind}"
    if other := _other_than_records(first.about, second.about):
        return other
    if first.labels is None and second.labels is None:
        return _too_many_records(first, second, asked)
    problem = _too_many_records(first.labelled(), second.labelled(), asked)
    with contextlib.suppress(InvalidArgument):
        if problem and not _too_many_records(first, second, asked):
            problem += '; without the labels of the index they would be neighbors: give both frames "reset_index(drop=True)"'
    return problem


def _other_than_records(left: Mapping[str, Hashable], right: Mapping[str, Hashable]) -> str:
    """What differs between two datasets although it belongs to no record."""
    for what in {**left, **right}:
        if left.get(what) != right.get(what):
            return f"D0 and D1 differ in {what}, which belongs to no record: give both the same"
    return ""


def _too_many_records(first: Read, second: Read, asked: SpelledRelation) -> str:
    if asked.unit:
        return _too_many_units(first, second, asked)
    if asked.name == "event":
        return _too_many_events(first.keys, second.keys, asked.k)
    if asked.name == "add-remove":
        left, right = Counter(first.keys), Counter(second.keys)
        extra = (left - right).total() + (right - left).total()
        if not extra:
            raise InvalidArgument("Pair: D0 and D1 hold the same records, which can show no violation; add a record to one of them")
        if extra > asked.k:
            where = f"{_places(first.keys, left - right, 'D0')}{_places(second.keys, right - left, 'D1')}"
            return f"{extra} records stand in one and not in the other, {_most(asked.k)}{where}"
        return _odd_record(first, second, left - right, right - left)
    if len(first.keys) != len(second.keys):
        return f"they have {len(first.keys)} and {len(second.keys)} records, the number may not differ"
    if not first.ordered:
        return _too_many_entries(first, second, asked)
    rows = [i for i, (a, b) in enumerate(zip(first.keys, second.keys, strict=True)) if a != b]
    if not rows:
        raise InvalidArgument("Pair: D0 and D1 are identical, which can show no violation; replace a record of one of them")
    if len(rows) > asked.k:
        return f"{len(rows)} records differ (rows {', '.join(map(str, rows[:5]))}{', ...' if len(rows) > 5 else ''}), {_most(asked.k)}"
    if first.kinds is not None and second.kinds is not None:
        for row in rows:
            kinds = first.kinds[row], second.kinds[row]
            if any(a != b and "None" not in (a, b) for a, b in zip(*(kind.split(" and ") for kind in kinds), strict=True)):
                return f"record {row} is {kinds[0]} in D0 and {kinds[1]} in D1, records are of one kind"
    return _other_columns(first, second, asked, rows) if asked.name in ("label", "attribute") else ""


def relations_of(d0: Dataset, d1: Dataset) -> list[str]:
    """Relations under which two datasets are neighbours: each by itself, with a few records, or with the units of one column."""
    unfit = ("stated", "attribute", *(() if hasattr(d0, "rounds") else ("substitution",)))
    found = [name for name in (*NORMS, *RELATIONS) if name not in unfit and _are(d0, d1, name)]
    found = list(dict.fromkeys(found))
    if library_of(d0) == "networkx":
        return found or [f"{name}:k={k}" for name in GRAPHS for k in range(2, _FEW) if _are(d0, d1, f"{name}:k={k}")][:1]
    columns: list[str] = []
    with contextlib.suppress(InvalidArgument):
        columns = list(read_records(d0, "D0").fields or {})[:_COLUMNS]
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


def _places(keys: list[Hashable], which: Counter[Hashable], side: str) -> str:
    """Rows in which records stand, the first five."""
    left, rows = Counter(which), []
    for row in range(len(keys) - 1, -1, -1):  # of equal records the last
        if left[keys[row]] > 0:
            left[keys[row]] -= 1
            rows.append(row)
    return f"; rows {', '.join(map(str, rows[:-6:-1]))}{', ...' if len(rows) > 5 else ''} of {side}" if rows else ""


def _too_many_entries(first: Read, second: Read, asked: SpelledRelation) -> str:
    gone, new = Counter(first.keys) - Counter(second.keys), Counter(second.keys) - Counter(first.keys)
    if not gone and not new:
        raise InvalidArgument("Pair: D0 and D1 are identical, which can show no violation; replace a record of one of them")
    if gone.total() > asked.k:
        return f"{gone.total()} entries differ, {_most(asked.k)}{_places(first.keys, gone, 'D0')}"
    if asked.name not in ("label", "attribute"):
        return ""
    names, free = _free_columns(first, second, asked)
    for name in names:
        sides = [Counter(key[names.index(name)] for key in which.elements()) for which in (gone, new)]  # type: ignore[index]
        if name not in free and sides[0] != sides[1]:
            return f"column {name} differs too, only {', '.join(free)} may"
    return ""


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


def _too_many_units(first: Read, second: Read, asked: SpelledRelation) -> str:
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
        for owner, key in zip(_owners(fields.get(asked.unit, ()), side, asked.unit), read.keys, strict=True):
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


def _owners(column: Any, side: str, unit: str) -> list[Hashable]:
    """To whom each record belongs: numbers by their value, anything else exactly. Nobody's records are refused."""
    values = column_values(column)
    gone = [row for row, value in enumerate(values) if _missing(value)]
    if gone:
        rows = f"{', '.join(map(str, gone[:5]))}{', ...' if len(gone) > 5 else ''}"
        raise InvalidArgument(
            f"Pair: {len(gone)} of {len(values)} records of {side} have no {unit} (rows {rows}), so it is unknown whose they are; "
            f"give each record a value of {unit}, or leave these records out"
        )
    numbers = {type(value).__name__ for value in values if isinstance(value, int | float | np.number | np.bool_)}
    if len(numbers) > 1:
        kinds = " and ".join(sorted(numbers))
        raise InvalidArgument(f"Pair: unit {unit} of {side} must hold numbers of one type, got {kinds}; write each value in one type")
    return [("number", value) if isinstance(value, int | float | np.number) else exact(value) for value in values]


def _missing(value: Any) -> bool:
    """None, NaN, NaT, a masked entry, or a key that the record does not have."""
    if value is None or value is ABSENT or value is np.ma.masked:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | complex | np.generic) and bool(value != value)


def _free_columns(first: Read, second: Read, asked: SpelledRelation) -> tuple[list[str], tuple[str, ...]]:
    """All columns of both datasets, and those that may change; of a label `label`, `y` or the last numbered one."""
    names = list({**(first.fields or {}), **(second.fields or {})})
    usual = [name for name in ("label", "y") if name in names] or (names[-1:] if names and names[-1].isdecimal() else [])
    free = asked.columns or tuple(usual[:1])
    if not free or any(name not in names for name in free) or len(set(free)) == len(names):
        told = "+".join(free) or "none"
        raise InvalidArgument(
            f"Pair: {asked.name} must name some of the columns, {asked.name}:columns=NAME+NAME, which are "
            f"{', '.join(names[:20]) or 'none'}; got {told}"
        )
    return names, free


def _other_columns(first: Read, second: Read, asked: SpelledRelation, rows: list[int]) -> str:
    """Whether records differ in the named columns only."""
    names, free = _free_columns(first, second, asked)
    left, right = first.fields or {}, second.fields or {}
    for name in names:
        if name in free:
            continue
        if name not in left or name not in right:
            return f"only {'D0' if name in left else 'D1'} has the column {name}, only {', '.join(free)} may differ"
        keys = column_keys(left[name]), column_keys(right[name])
        if any(keys[0][row] != keys[1][row] for row in rows):
            return f"column {name} differs too, only {', '.join(free)} may"
    return ""


def _odd_record(first: Read, second: Read, gone: Counter[Hashable], new: Counter[Hashable]) -> str:
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
    if asked.name != "add-remove" and getattr(d0, "sizes", None) != getattr(d1, "sizes", None):
        return f"their groups have {d0.sizes} and {d1.sizes} records, the numbers may not differ"
    if other := _other_than_records(scalar_fields(d0), scalar_fields(d1)):
        return other
    left, right = _exact_counts(d0), _exact_counts(d1)
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


def _exact_counts(dataset: Any) -> Counter[Any]:
    """How often each record occurs, under keys that are exact; those of this project's classes are."""
    found: Counter[Any] = dataset.counts()
    return found if is_known(public_name(type(dataset))) else Counter({exact(key): count for key, count in found.items()})


def _features(records: Counter[Any]) -> Counter[Hashable]:
    """How often each record occurs, its label left out."""
    found: Counter[Hashable] = Counter()
    for (features, _), count in records.items():
        found[features] += count
    return found
