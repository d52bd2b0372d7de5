"""Neighbor checks: two datasets are compared record by record, bit for bit, under the rules of a
relation.

A unit is the value of a column, key or position of each record; all records of one unit count as
one. Graphs, which have nodes and edges instead of records, and vectors of answers are compared in
`distances`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np

from dpwitness.core.datasets.records import (
    ABSENT,
    DatasetRecords,
    column_keys,
    column_values,
    exact,
    read_records,
    require_json_form,
    scalar_fields,
)
from dpwitness.core.datasets.relations import (
    GRAPHS,
    NORMS,
    RELATIONS,
    ParsedRelation,
    excess,
    graph_distance_problem,
    parse_relation,
    vector_distance_problem,
)
from dpwitness.core.values.dataframe_backends import library_name
from dpwitness.core.values.json_codec import Dataset, is_registered, public_name
from dpwitness.core.values.validation import InvalidArgument

_UNMATCHED_RECORDS = "records are in one dataset and not in the other"


def neighbor_problem(d0: Dataset, d1: Dataset, relation: str) -> str:
    """Return "" if two datasets are neighbors under the relation, else the reason why they are not.

    Raises
    ------
    InvalidArgument
        If the relation does not apply to a dataset, or the two datasets are identical.
    """
    spec = parse_relation(relation)
    if not spec.checked:
        if d0 is d1:
            raise InvalidArgument(
                "Pair: D0 and D1 are one object, which cannot show a violation; give two"
            )
        return ""
    for side, dataset in (("D0", d0), ("D1", d1)):
        require_json_form(dataset, side)
    if spec.name in NORMS:
        return vector_distance_problem(d0, d1, spec.name)
    graphs = [library_name(dataset) == "networkx" for dataset in (d0, d1)]
    if spec.name in GRAPHS or any(graphs):
        if not all(graphs) or spec.name not in GRAPHS:
            graph_relations = f"relations of graphs are {', '.join(GRAPHS)}"
            return f"{graph_relations}: {'D0 or D1 is not a networkx graph' if spec.name in GRAPHS else f'{spec.name} is not one of them'}"  # noqa: E501
        return graph_distance_problem(d0, d1, spec)
    if _is_multiset(d0) or _is_multiset(d1):
        return _multiset_problem(d0, d1, spec)
    first, second = (
        read_records(dataset, side, spec.unit) for dataset, side in ((d0, "D0"), (d1, "D1"))
    )
    if first.kind != second.kind:
        return f"D0 is {first.kind}, D1 is {second.kind}"
    if other := _non_record_difference(first.about, second.about):
        return other
    if first.labels is None and second.labels is None:
        return _record_problem(first, second, spec)
    problem = _record_problem(first.labelled(), second.labelled(), spec)
    with contextlib.suppress(InvalidArgument):
        if problem and not _record_problem(first, second, spec):
            problem += (
                "; without the labels of the index they would be neighbors: give both frames "
                '"reset_index(drop=True)"'
            )
    return problem


def _non_record_difference(left: Mapping[str, Hashable], right: Mapping[str, Hashable]) -> str:
    """Return the reason if two datasets differ in something that belongs to no record, else ""."""
    for what in {**left, **right}:
        if left.get(what) != right.get(what):
            return f"D0 and D1 differ in {what}, which belongs to no record: give both the same"
    return ""


def _record_problem(first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation) -> str:
    """Return why the records of two datasets differ by more than the relation allows, or ""."""
    if spec.unit:
        return _unit_problem(first, second, spec)
    if spec.name == "event":
        if first.keys == second.keys:
            raise InvalidArgument(
                "Pair: D0 and D1 are identical, which cannot show a violation; change an event "
                "of one of them"
            )
        return (
            ""
            if _edit_distance(first.keys, second.keys, spec.k) <= spec.k
            else f"more than {spec.k} events were added, removed or replaced, at most {spec.k} may"
        )
    if spec.name == "add-remove":
        left, right = Counter(first.keys), Counter(second.keys)
        extra = (left - right).total() + (right - left).total()
        if not extra:
            raise InvalidArgument(
                "Pair: D0 and D1 hold the same records, which cannot show a violation; add a "
                "record to one of them"
            )
        if extra > spec.k:
            rows_text = _rows_text(first.keys, left - right, "D0")
            rows_text += _rows_text(second.keys, right - left, "D1")
            return excess(extra, spec.k, _UNMATCHED_RECORDS, rows_text)
        return _kind_problem(first, second, left - right, right - left)
    if len(first.keys) != len(second.keys):
        return (
            f"they have {len(first.keys)} and {len(second.keys)} records, the number may not differ"
        )
    if not first.ordered:
        return _entry_problem(first, second, spec)
    return _row_problem(first, second, spec)


def _row_problem(first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation) -> str:
    """Return why two datasets of as many records differ in more rows than the relation allows, or
    in other columns, or "".
    """
    rows = [i for i, (a, b) in enumerate(zip(first.keys, second.keys, strict=True)) if a != b]
    if not rows:
        raise InvalidArgument(
            "Pair: D0 and D1 are identical, which cannot show a violation; replace a record "
            "of one of them"
        )
    if len(rows) > spec.k:
        return excess(
            len(rows),
            spec.k,
            "records differ (rows "
            f"{', '.join(map(str, rows[:5]))}{', ...' if len(rows) > 5 else ''})",
        )
    if first.kinds is not None and second.kinds is not None:
        for row in rows:
            kinds = first.kinds[row], second.kinds[row]
            if any(
                a != b and "None" not in (a, b)
                for a, b in zip(*(kind.split(" and ") for kind in kinds), strict=True)
            ):
                return (
                    f"record {row} is {kinds[0]} in D0 and {kinds[1]} in D1, all records must be "
                    "of one kind"
                )
    return _column_problem(first, second, spec, rows) if spec.name in ("label", "attribute") else ""


def matching_relations(d0: Dataset, d1: Dataset) -> list[str]:
    """Return relations under which two datasets are neighbors: plain relations first, then
    relations with a unit or with k records.
    """
    excluded = ("stated", "attribute", *(() if hasattr(d0, "rounds") else ("substitution",)))
    found = [
        name
        for name in dict.fromkeys((*NORMS, *RELATIONS))
        if name not in excluded and _are_neighbors(d0, d1, name)
    ]
    frames = library_name(d0) != "networkx"
    columns: list[str] = []
    with contextlib.suppress(InvalidArgument):
        # columns that are tried as units, at most
        columns = list(read_records(d0, "D0").fields or {})[:64] if frames else []
    for name in ("add-remove", "replace-one"):
        if name not in found:
            units = (f"{name}:unit={column}" for column in columns)
            found += [each for each in units if _are_neighbors(d0, d1, each)][:2]
    for names in (("replace-one",), ("add-remove",)) if frames else (GRAPHS,):
        if not found:
            several = (f"{name}:k={k}" for name in names for k in range(2, 10))
            found += islice((each for each in several if _are_neighbors(d0, d1, each)), 1)
    return found


def _are_neighbors(d0: Dataset, d1: Dataset, relation: str) -> bool:
    """Return whether two datasets are neighbors; False if the relation does not apply to them."""
    try:
        return not neighbor_problem(d0, d1, relation)
    except InvalidArgument:
        return False


def _rows_text(keys: list[Hashable], which: Counter[Hashable], side: str) -> str:
    """Return a text with the first five rows at which the given records occur."""
    left, rows = Counter(which), []
    for row in range(len(keys) - 1, -1, -1):  # among equal records, the last ones are listed
        if left[keys[row]] > 0:
            left[keys[row]] -= 1
            rows.append(row)
    return (
        f"; rows {', '.join(map(str, rows[:-6:-1]))}{', ...' if len(rows) > 5 else ''} of {side}"
        if rows
        else ""
    )


def _entry_problem(first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation) -> str:
    """Return why two unordered datasets differ by more entries than the relation allows, or ""."""
    removed, added = (
        Counter(first.keys) - Counter(second.keys),
        Counter(second.keys) - Counter(first.keys),
    )
    if not removed and not added:
        raise InvalidArgument(
            "Pair: D0 and D1 are identical, which cannot show a violation; replace a record "
            "of one of them"
        )
    if removed.total() > spec.k:
        return excess(
            removed.total(), spec.k, "entries differ", _rows_text(first.keys, removed, "D0")
        )
    if spec.name not in ("label", "attribute"):
        return ""
    names, changeable = _changeable_columns(first, second, spec)
    for name in names:
        sides = [
            Counter(key[names.index(name)] for key in which.elements())  # type: ignore[index]
            for which in (removed, added)
        ]
        if name not in changeable and sides[0] != sides[1]:
            return f"column {name} differs too, only {', '.join(changeable)} may"
    return ""


def _edit_distance(left: list[Hashable], right: list[Hashable], k: int) -> int:
    """Return the number of events added, removed or replaced between two streams; k + 1 if more
    than k (Ukkonen's diagonal band).
    """
    if abs(len(left) - len(right)) > k:
        return k + 1
    previous_row = {j: j for j in range(min(k, len(right)) + 1)}
    for i, event in enumerate(left, 1):
        row: dict[int, int] = {}
        for j in range(max(0, i - k), min(len(right), i + k) + 1):
            best = previous_row.get(j, k) + 1
            if j:
                best = min(
                    best,
                    row.get(j - 1, k) + 1,
                    previous_row.get(j - 1, k + 1) + (event != right[j - 1]),
                )
            row[j] = min(best, k + 1)
        previous_row = row
        if min(previous_row.values()) > k:
            return k + 1
    return previous_row.get(len(right), k + 1)


def _unit_problem(first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation) -> str:
    """Return why two datasets differ in more units than the relation allows, or "". All records of
    a unit count as one.
    """
    sides = []
    for side, read in (("D0", first), ("D1", second)):
        fields = read.fields or {}
        # a dataset without records needs no columns
        if spec.unit not in fields and (read.keys or fields):
            names = ", ".join(list(fields)[:20]) or "none"
            raise InvalidArgument(
                f"Pair: unit must be a column, key or place of the records of {side}, which "
                f"are {names}; got {spec.unit!r}"
            )
        rows: dict[Hashable, Counter[Hashable]] = {}
        for owner, key in zip(
            _unit_values(fields.get(spec.unit, ()), side, spec.unit), read.keys, strict=True
        ):
            rows.setdefault(owner, Counter())[key] += 1
        sides.append(rows)
    left, right = sides
    removed, added = left.keys() - right.keys(), right.keys() - left.keys()
    changed = [owner for owner in left.keys() & right.keys() if left[owner] != right[owner]]
    if not removed and not added and not changed:
        raise InvalidArgument(
            "Pair: D0 and D1 hold the same records, which cannot show a violation; change "
            "the records of one unit"
        )
    if spec.name == "add-remove":
        if changed:
            return (
                f"{len(changed)} values of {spec.unit} are in both with different records: all "
                "records of a unit are added or removed"
            )
        return excess(
            len(removed) + len(added),
            spec.k,
            f"values of {spec.unit} are in one dataset and not in the other",
        )
    if len(removed) != len(added):
        return (
            f"they hold {len(left)} and {len(right)} values of {spec.unit}, the number may not "
            "differ"
        )
    count = len(removed) + len(changed)
    return (
        ""
        if count <= spec.k
        else f"the records of {count} values of {spec.unit} differ, at most {spec.k} may"
    )


def _unit_values(column: Any, side: str, unit: str) -> list[Hashable]:
    """Return the unit of each record: numbers by their value, anything else by an exact key. Raise
    InvalidArgument if a unit is missing.
    """
    values = column_values(column)
    removed = [row for row, value in enumerate(values) if _is_missing(value)]
    if removed:
        rows = f"{', '.join(map(str, removed[:5]))}{', ...' if len(removed) > 5 else ''}"
        raise InvalidArgument(
            f"Pair: {len(removed)} of {len(values)} records of {side} have no {unit} (rows "
            f"{rows}), so their unit is unknown; "
            f"give each record a value of {unit}, or leave these records out"
        )
    numbers = {
        type(value).__name__
        for value in values
        if isinstance(value, int | float | np.number | np.bool_)
    }
    if len(numbers) > 1:
        kinds = " and ".join(sorted(numbers))
        raise InvalidArgument(
            f"Pair: unit {unit} of {side} must hold numbers of one type, got {kinds}; write "
            "each value in one type"
        )
    return [
        ("number", value) if isinstance(value, int | float | np.number) else exact(value)
        for value in values
    ]


def _is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT, a masked entry, or a key that the record
    does not have.
    """
    if value is None or value is ABSENT or value is np.ma.masked:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | complex | np.generic) and bool(value != value)


def _changeable_columns(
    first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation
) -> tuple[list[str], tuple[str, ...]]:
    """Return all column names, and the columns that may change: the named ones, or for a label
    `label`, `y` or the last numbered column.
    """
    names = list({**(first.fields or {}), **(second.fields or {})})
    label_columns = [name for name in ("label", "y") if name in names] or (
        names[-1:] if names and names[-1].isdecimal() else []
    )
    changeable = spec.columns or tuple(label_columns[:1])
    if (
        not changeable
        or any(name not in names for name in changeable)
        or len(set(changeable)) == len(names)
    ):
        given_columns = "+".join(changeable) or "none"
        raise InvalidArgument(
            f"Pair: {spec.name} must name some, but not all, of the columns, as "
            f"{spec.name}:columns=NAME+NAME; the columns are "
            f"{', '.join(names[:20]) or 'none'}; got {given_columns}"
        )
    return names, changeable


def _column_problem(
    first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation, rows: list[int]
) -> str:
    """Return a text if records differ in a column that may not change, else ""."""
    names, changeable = _changeable_columns(first, second, spec)
    left, right = first.fields or {}, second.fields or {}
    for name in names:
        if name in changeable:
            continue
        if name not in left or name not in right:
            return (
                f"only {'D0' if name in left else 'D1'} has the column {name}, only "
                f"{', '.join(changeable)} may differ"
            )
        keys = column_keys(left[name]), column_keys(right[name])
        if any(keys[0][row] != keys[1][row] for row in rows):
            return f"column {name} differs too, only {', '.join(changeable)} may"
    return ""


def _kind_problem(
    first: DatasetRecords,
    second: DatasetRecords,
    removed: Counter[Hashable],
    added: Counter[Hashable],
) -> str:
    """Return a text if the added record of a list is of another kind than all records of the other
    list, else "".
    """
    for one, other, extra in ((first, second, removed), (second, first, added)):
        if extra and one.kinds is not None and other.kinds:
            kind = one.kinds[one.keys.index(next(iter(extra)))]
            if kind not in (*other.kinds, "None") and set(other.kinds) != {"None"}:
                return (
                    f"the added record is {kind}, the others are {other.kinds[0]}: all records "
                    "must be of one kind"
                )
    return ""


def _is_multiset(dataset: Dataset) -> bool:
    """Return whether a dataset is a dataclass with a method `counts`, that is, a multiset."""
    return dataclasses.is_dataclass(dataset) and callable(getattr(dataset, "counts", None))


def _multiset_problem(d0: Dataset, d1: Dataset, spec: ParsedRelation) -> str:
    """Return why two multisets are not neighbors, or "". Multiplicities are compared, never single
    copies.
    """
    if type(d0) is not type(d1):
        return f"one is {type(d0).__name__}, the other {type(d1).__name__}"
    if spec.name == "substitution":
        return (
            "substitution is a relation of sequences of linear costs, these datasets are "
            "multisets of records"
        )
    if spec.name not in ("replace-one", "add-remove", "label") or spec.unit or spec.columns:
        return f"{type(d0).__name__} has the relations replace-one, add-remove and label"
    if getattr(d0, "dimension", None) != getattr(d1, "dimension", None):
        return f"they have {d0.dimension} and {d1.dimension} dimensions"
    if spec.name != "add-remove" and getattr(d0, "sizes", None) != getattr(d1, "sizes", None):
        return f"their groups have {d0.sizes} and {d1.sizes} records, the numbers may not differ"
    if other := _non_record_difference(scalar_fields(d0), scalar_fields(d1)):
        return other
    left, right = _exact_counts(d0), _exact_counts(d1)
    removed, added = (left - right).total(), (right - left).total()
    if not removed + added:
        raise InvalidArgument(
            "Pair: D0 and D1 hold the same records, which cannot show a violation; replace "
            "or add one"
        )
    if spec.name == "add-remove":
        return excess(removed + added, spec.k, _UNMATCHED_RECORDS)
    if removed != added:
        return f"they have {left.total()} and {right.total()} records, the number may not differ"
    if removed > spec.k:
        return excess(removed, spec.k, "records differ")
    if spec.name == "label" and _feature_counts(left - right) != _feature_counts(right - left):
        return "the features differ too, only the label may"
    return ""


def _exact_counts(dataset: Any) -> Counter[Any]:
    """Return the number of copies of each record, under exact keys. The registered classes have
    exact keys already.
    """
    found: Counter[Any] = dataset.counts()
    return (
        found
        if is_registered(public_name(type(dataset)))
        else Counter({exact(key): count for key, count in found.items()})
    )


def _feature_counts(records: Counter[Any]) -> Counter[Hashable]:
    """Return the number of copies of each feature vector, without labels."""
    found: Counter[Hashable] = Counter()
    for (features, _), count in records.items():
        found[features] += count
    return found
