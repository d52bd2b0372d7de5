"""Pairs of neighboring datasets, which are checked when built: two datasets are compared record by
record, bit for bit, under the rules of a relation.

A unit is the value of a column, key or position of each record; all records of one unit count as
one. Graphs, which have nodes and edges instead of records, and vectors of answers are compared in
`relations`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import InitVar, dataclass
from decimal import Decimal
from itertools import takewhile
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
)
from dpwitness.core.datasets.relations import (
    GRAPHS,
    NORMS,
    OWN,
    RELATIONS,
    ParsedRelation,
    composed,
    excess,
    graph_distance_problem,
    listed_rows,
    parse_relation,
    require_different,
    vector_distance_problem,
    vector_numbers,
)
from dpwitness.core.values.dataframe_backends import fix, library_name
from dpwitness.core.values.json_codec import Dataset, to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    error_text,
    require_integer,
    require_rules,
    require_type,
    short_repr,
)


def neighbor_problem(d0: Dataset, d1: Dataset, relation: str) -> str:
    """Return "" if two datasets are neighbors under the relation, else the reason why they are not.

    Raises
    ------
    InvalidArgument
        If the relation does not apply to a dataset, or the two datasets are identical.
    """
    spec = parse_relation(relation)
    if not spec.checked:
        require_different(d0 is not d1)
        return ""
    for side, dataset in (("D0", d0), ("D1", d1)):
        require_json_form(dataset, side)
    if spec.name in NORMS:
        return vector_distance_problem(d0, d1, spec.name)
    graphs = [library_name(dataset) == "networkx" for dataset in (d0, d1)]
    if spec.name in GRAPHS and all(graphs):
        return graph_distance_problem(d0, d1, spec)
    if spec.name in GRAPHS or any(graphs):
        wrong = "D0 or D1 is not a networkx graph" if spec.name in GRAPHS else f"not {spec.name}"
        return f"relations of graphs are {', '.join(GRAPHS)}: {wrong}"
    first, second = read_records(d0, "D0", spec.unit), read_records(d1, "D1", spec.unit)
    if first.kind != second.kind:
        return f"D0 is {first.kind}, D1 is {second.kind}"
    for what in first.about | second.about:
        if first.about.get(what) != second.about.get(what):
            return f"D0 and D1 differ in {what}, which belongs to no record: give both the same"
    if first.labels is None and second.labels is None:
        return _record_problem(first, second, spec)
    problem = _record_problem(first.labelled(), second.labelled(), spec)
    remark = "; the labels of the index are compared too: reset_index(drop=True) drops them"
    return problem + remark if problem else ""


def _record_problem(first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation) -> str:
    """Return why the records of two datasets differ by more than the relation allows, or ""."""
    if first.multiset and (spec.name not in _OF_MULTISETS or spec.unit or spec.columns):
        return f"a multiset of records has the relations {', '.join(_OF_MULTISETS)}"
    if spec.unit:
        return _unit_problem(first, second, spec)
    if spec.name == "event":
        return _event_problem(list(first.keys), list(second.keys), spec.k)
    left, right = Counter(first.keys), Counter(second.keys)
    removed, added = left - right, right - left
    if spec.name == "add-remove":
        require_different(removed or added)
        where = _rows_text(first, removed, "D0") + _rows_text(second, added, "D1")
        count = removed.total() + added.total()
        problem = excess(count, spec.k, "records are in one dataset and not in the other", where)
        return problem or _kind_problem(first, second, removed, added)
    if first.size != second.size:
        return f"they have {first.size} and {second.size} records, the number may not differ"
    if first.ordered:
        return _row_problem(first, second, spec)
    require_different(removed or added)
    where = _rows_text(first, removed, "D0")
    if removed.total() > spec.k or spec.name not in ("label", "attribute"):
        return excess(removed.total(), spec.k, "records differ", where)
    return _column_problem(
        first,
        second,
        spec,
        lambda read, name: Counter(
            key[list(read.fields).index(name)]  # type: ignore[index]
            for key in (removed if read is first else added).elements()
        ),
    )


_OF_MULTISETS = ("replace-one", "add-remove", "label")


def _row_problem(first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation) -> str:
    """Return why two datasets of as many records differ in more rows than the relation allows, or
    in other columns, or "".
    """
    rows = [i for i, (a, b) in enumerate(zip(first.keys, second.keys, strict=True)) if a != b]
    require_different(rows)
    if len(rows) > spec.k:
        return excess(len(rows), spec.k, f"records differ ({listed_rows(rows)})")
    for row in rows if first.kinds and second.kinds else ():
        kinds = first.kinds[row], second.kinds[row]  # type: ignore[index]
        parts = zip(*(kind.split(" and ") for kind in kinds), strict=True)
        if any(a != b and "None" not in (a, b) for a, b in parts):
            return (
                f"record {row} is {kinds[0]} in D0 and {kinds[1]} in D1, all records must be of "
                "one kind"
            )
    if spec.name not in ("label", "attribute"):
        return ""
    return _column_problem(
        first,
        second,
        spec,
        lambda read, name: [column_keys(read.fields[name])[row] for row in rows],
    )


def matching_relations(d0: Dataset, d1: Dataset) -> list[str]:
    """Return relations under which two datasets are neighbors: plain relations, or else relations
    with a unit, or else with k records.
    """
    for candidates in _candidates(d0, d1):
        found = [name for name in candidates if _are_neighbors(d0, d1, name)]
        if found:
            return found
    return []


def _candidates(d0: Dataset, d1: Dataset) -> Iterator[list[str]]:
    """Yield lists of relations to try."""
    excluded = ("stated", "attribute", *(() if hasattr(d0, "rounds") else ("substitution",)))
    yield [name for name in dict.fromkeys((*NORMS, *RELATIONS)) if name not in excluded]
    names: tuple[str, ...] = ("replace-one", "add-remove")
    if library_name(d0) == "networkx":
        names = GRAPHS
    else:
        try:
            columns = list(read_records(d0, "D0").fields)[:64]
        except InvalidArgument:
            return
        yield [f"{name}:unit={column}" for name in reversed(names) for column in columns]
    for name in names:
        for k in range(2, 10):
            yield [f"{name}:k={k}"]


def _are_neighbors(d0: Dataset, d1: Dataset, relation: str) -> bool:
    """Return whether two datasets are neighbors; False if the relation does not apply to them."""
    try:
        return not neighbor_problem(d0, d1, relation)
    except InvalidArgument:
        return False


def _rows_text(read: DatasetRecords, which: Counter[Hashable], side: str) -> str:
    """Return a text with the first rows that hold one of these records; empty for a multiset."""
    rows = [row for row, key in enumerate(read.keys) if which[key]]
    return f"; {listed_rows(rows)} of {side}" if rows and not read.multiset else ""


def _event_problem(left: list[Hashable], right: list[Hashable], k: int) -> str:
    """Return why more than k events were added, removed or replaced between two streams, or "".

    After each number of edits, the furthest common position on each diagonal is known (Landau and
    Vishkin 1989).
    """
    require_different(left != right)
    furthest = {0: 0}  # diagonal j - i -> largest i that edits so far can reach
    for _ in range(k + 1):
        for diagonal, start in furthest.items():
            rest = zip(left[start:], right[start + diagonal :], strict=False)
            furthest[diagonal] += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], rest))
        if furthest.get(len(right) - len(left), -1) >= len(left):
            return ""
        reached: dict[int, int] = {}
        for diagonal, i in furthest.items():
            for step, moved in ((-1, i + 1), (0, i + 1), (1, i)):
                at = diagonal + step
                reached[at] = max(reached.get(at, 0), min(moved, len(left), len(right) - at))
        furthest = reached
    return f"more than {k} events were added, removed or replaced, at most {k} may"


def _unit_problem(first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation) -> str:
    """Return why two datasets differ in more units than the relation allows, or "". All records of
    a unit count as one.
    """
    left, right = (
        _records_by_unit(first, "D0", spec.unit),
        _records_by_unit(second, "D1", spec.unit),
    )
    removed, added = len(left.keys() - right.keys()), len(right.keys() - left.keys())
    changed = sum(left[unit] != right[unit] for unit in left.keys() & right.keys())
    require_different(removed or added or changed)
    values = f"values of {spec.unit}"
    if spec.name == "add-remove" and changed:
        return (
            f"{changed} {values} are in both with different records: all records of a unit are "
            "added or removed"
        )
    if spec.name == "add-remove":
        return excess(removed + added, spec.k, f"{values} are in one dataset and not in the other")
    if removed != added:
        return f"they hold {len(left)} and {len(right)} {values}, the number may not differ"
    return excess(removed + changed, spec.k, f"{values} have other records")


def _records_by_unit(
    read: DatasetRecords, side: str, unit: str
) -> dict[Hashable, Counter[Hashable]]:
    """Return the records of each unit: a number identifies the unit by its value, anything else by
    an exact key. Raise InvalidArgument if a unit is missing.
    """
    # a dataset without records needs no columns
    if unit not in read.fields and (read.keys or read.fields):
        names = ", ".join(list(read.fields)[:20]) or "none"
        raise InvalidArgument(
            f"Pair: unit must be a column, key or place of the records of {side}, which are "
            f"{names}; got {unit!r}"
        )
    values = column_values(read.fields.get(unit, ()))
    missing = [row for row, value in enumerate(values) if _is_missing(value)]
    if missing:
        raise InvalidArgument(
            f"Pair: {len(missing)} of {len(values)} records of {side} have no {unit} "
            f"({listed_rows(missing)}), so their unit is unknown; give each record a value of "
            f"{unit}, or leave these records out"
        )
    numbers = [isinstance(value, int | float | np.number | np.bool_) for value in values]
    kinds = {type(v).__name__ for v, is_number in zip(values, numbers, strict=True) if is_number}
    if len(kinds) > 1:
        raise InvalidArgument(
            f"Pair: unit {unit} of {side} must hold numbers of one type, got "
            f"{' and '.join(sorted(kinds))}; write each value in one type"
        )
    found: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)
    for value, is_number, key in zip(values, numbers, read.keys, strict=True):
        found[("number", value) if is_number else exact(value)][key] += 1
    return found


def _is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT, a masked entry, or a key that the record
    does not have.
    """
    if value is None or value is ABSENT or value is np.ma.masked:
        return True
    return isinstance(value, Decimal | float | complex | np.generic) and bool(value != value)


def _column_problem(
    first: DatasetRecords, second: DatasetRecords, spec: ParsedRelation, changes: Any
) -> str:
    """Return a text if records differ in a column that may not change, else "".

    The relation names the columns that may change; of a label, `label`, `y` or the last numbered
    column is the default. `changes(read, name)` returns the entries of the records that differ in a
    column of one dataset.
    """
    names = list({**first.fields, **second.fields})
    usual = [name for name in ("label", "y", *names[-1:]) if name in names]
    usual = [name for name in usual if name in ("label", "y") or name.isdecimal()]
    changeable = spec.columns or tuple(usual[:1])
    if not set(changeable) < set(names) or not changeable:
        raise InvalidArgument(
            f"Pair: {spec.name} must name some, but not all, of the columns, as "
            f"{spec.name}:columns=NAME+NAME; the columns are "
            f"{', '.join(names[:20]) or 'none'}; got {'+'.join(changeable) or 'none'}"
        )
    for name in names:
        if name in changeable:
            continue
        if name not in first.fields or name not in second.fields:
            return f"only one of D0 and D1 has the column {name}"
        if changes(first, name) != changes(second, name):
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
        if extra and one.kinds and other.kinds:
            kind = one.kinds[one.keys.index(next(iter(extra)))]  # type: ignore[union-attr]
            if kind not in (*other.kinds, "None") and set(other.kinds) != {"None"}:
                return (
                    f"the added record is {kind}, the others are {other.kinds[0]}: all records "
                    "must be of one kind"
                )
    return ""


__all__ = ["RELATIONS", "Pair"]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Pair:
    """Two neighboring datasets and their relation.

    Parameters
    ----------
    d0, d1 : dataset
        Two datasets of one kind. NumPy arrays or lists with one record per row. Frames of pandas,
        polars or Arrow. Columns of one length: a tuple, list or dict of arrays such as (X, y),
        whose record i is row i. A dict of entries. A networkx graph. A number, which is a single
        record. A dataset class with a method `records()`. Vectors of answers for the norms. The
        datasets must not be changed afterwards.
    relation : str or Relation
        A key of `RELATIONS`, with options as `parse_relation` reads them: ``add-remove``,
        ``replace-one:k=3``, ``add-remove:unit=user``. Or a user-defined `Relation`, whose check is
        called. Every relation is symmetric: (d0, d1) are neighbors exactly when (d1, d0) are.
    why : str
        Origin of the pair, for the report.
    unit : str, optional
        The column, key or position that identifies the owner of a record: all records of one unit
        count as one. The same as ``unit=`` in the relation.
    k : int
        Largest number of records, units, events, nodes or edges that may differ. The same as ``k=``
        in the relation.

    Raises
    ------
    InvalidArgument
        If the datasets are not neighbors under the relation; the message has their distance and the
        relations under which they would be neighbors. If the datasets are identical, or the
        relation does not apply to one of them. Distances are computed exactly.

    Examples
    --------
    >>> import numpy as np
    >>> Pair(np.array([0.0]), np.array([1.0]), relation="replace-one").why
    'given'
    >>> mine, all_ = [{"user": 1, "x": 2.0}], [{"user": 1, "x": 2.0}, {"user": 2, "x": 0.0},
    ...     {"user": 2, "x": 9.0}]
    >>> Pair(mine, all_, relation="add-remove", unit="user").relation
    'add-remove:unit=user'
    """

    d0: Dataset
    d1: Dataset
    relation: str = "replace-one"
    why: str = "given"
    unit: InitVar[str | None] = None
    k: InitVar[int] = 1

    def __post_init__(self, unit: str | None, k: int) -> None:
        require_type("why", self.why, str, "be a text", "Pair")
        fix(self.d0)
        fix(self.d1)
        require_type("unit", unit, str, "be the name of a column", "Pair", optional=True)
        if callable(getattr(self.relation, "check", None)):
            _check_user_relation(self.relation, self.d0, self.d1)
            object.__setattr__(self, "relation", str(self.relation.name))  # type: ignore[attr-defined]
            return
        relation = composed(self.relation, unit, require_integer("k", k, "Pair", most=10**6))
        object.__setattr__(self, "relation", relation)
        problem = neighbor_problem(self.d0, self.d1, relation)
        if problem:
            raise InvalidArgument(
                f"Pair: D1 is not a neighbor of D0 under {relation}: {problem}; "
                f"{_suggested_relations(self.d0, self.d1)}"
            )

    @property
    def unchecked(self) -> str:
        """Remark for reports on a pair whose relation was not checked here; "" for a
        checked pair.
        """
        remarks = {
            OWN: "that the two datasets are neighbors was decided by the user's function "
            f"({self.relation}), not checked by dpwitness",
            "stated": "that the two datasets are neighbors was stated, and not checked (relation "
            "stated)",
        }
        return remarks.get(parse_relation(self.relation).name, "")

    def swapped(self) -> Pair:
        """Return the pair with D0 and D1 exchanged."""
        return Pair(self.d1, self.d0, self.relation, self.why)

    def to_json(self) -> Json:
        """Return the pair as a JSON object."""
        sides = {name: self._side_json(side) for name, side in (("d0", self.d0), ("d1", self.d1))}
        return {**sides, "relation": self.relation, "why": self.why}

    @property
    def writable(self) -> bool:
        """Whether both datasets have an exact JSON form. Checked pairs always have one; other
        objects cannot be replayed from a file.
        """
        try:
            return to_jsonable([self.d0, self.d1]) is not None
        except InvalidArgument:
            return False

    def _side_json(self, dataset: Dataset) -> Any:
        """Return a dataset as JSON; for an unchecked pair without an exact form, return its type
        and a short text.
        """
        try:
            return to_jsonable(dataset)
        except InvalidArgument:
            if not self.unchecked:
                raise
            return f"{type(dataset).__module__}.{type(dataset).__qualname__}: {short_repr(dataset)}"


def _check_user_relation(relation: Any, d0: Dataset, d1: Dataset) -> None:
    """Call the check of a user-defined relation in both orders. Raise InvalidArgument unless both
    calls accept the pair.
    """
    for first, second in ((d0, d1), (d1, d0)):
        try:
            found = relation.check(first, second)
        except Exception as error:
            raise InvalidArgument(
                f"Pair: the check of {relation.name} raises {error_text(error)}"
            ) from None
        known = isinstance(found, bool | np.bool_ | str)
        rule = "must return True, or False or a text with the reason"
        require_rules("Pair", (known, f"the check of {relation.name} {rule}", found))
        if found == "" or (found and not isinstance(found, str)):
            continue
        if first is not d0:
            raise InvalidArgument(
                f"Pair: the check of {relation.name} must be symmetric, it accepts (D0, D1) "
                "and refuses (D1, D0)"
            )
        reason = found if isinstance(found, str) else "its check returned False"
        raise InvalidArgument(f"Pair: D1 is not a neighbor of D0 under {relation.name}: {reason}")


def _suggested_relations(d0: Dataset, d1: Dataset) -> str:
    """Return a text with relations under which the two datasets would be neighbors."""
    found = matching_relations(d0, d1)[:4]
    suggestion = "they are not neighbors under any relation that is checked"
    if found:
        suggestion = f"they are neighbors under {', '.join(found)}"
    vectors = (vector_numbers(d) is not None and np.ndim(d) > 0 for d in (d0, d1))
    if not set(found) & set(NORMS) and all(vectors):
        suggestion += (
            '; relations "l1", "l2" and "linf" are for vectors of answers that move by at most 1'
        )
    return suggestion if found else f'{suggestion}; relation="stated" accepts any two datasets'
