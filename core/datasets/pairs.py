"""Pairs of neighboring datasets, which are checked when built, and the relations under which they
are neighbors.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from dpwitness.core.datasets.neighbors import matching_relations, neighbor_problem
from dpwitness.core.datasets.relations import (
    NORMS,
    OWN,
    RELATIONS,
    composed,
    parse_relation,
    vector_numbers,
)
from dpwitness.core.values.dataframe_backends import fix
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
