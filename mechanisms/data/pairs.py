"""Neighbouring pairs of datasets, checked when built, and the relations under which they are neighbours."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from dpwitness.mechanisms.core.dataframe_backends import fix
from dpwitness.mechanisms.core.json_codec import Dataset, to_jsonable
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument, require_integer, require_type, said, shown
from dpwitness.mechanisms.data.distances import numbers_in
from dpwitness.mechanisms.data.neighbors import relations_of, why_not_neighbours
from dpwitness.mechanisms.data.relations import NORMS, OWN, RELATIONS, composed, parse_relation

__all__ = ["RELATIONS", "Pair"]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Pair:
    """Two neighbouring datasets, and why they are neighbours.

    Parameters
    ----------
    d0, d1 : dataset
        Of one kind: NumPy arrays or lists, one record a row; frames of pandas, polars or Arrow; columns of one length, a tuple, list or
        dict of arrays such as (X, y), whose record i is row i; a dict of entries; a graph of networkx; a number, the one record that
        it is; a dataset class with a method `records()`. Vectors of answers for the norms. They must not be changed afterwards.
    relation : str or Relation
        A key of `RELATIONS`, with options as `parse_relation` reads them: ``add-remove``, ``replace-one:k=3``, ``add-remove:unit=user``. Or
        a `Relation` of the user's own, whose check is called. Every one is symmetric: (d0, d1) are neighbours exactly when (d1, d0) are.
    why : str
        Where the pair comes from, for the report.
    unit : str, optional
        The column, key or place that says to whom a record belongs: all records of one unit count as one. As ``unit=`` in the relation.
    k : int
        How many records, units, events, nodes or edges may differ. As ``k=`` in the relation.

    Raises
    ------
    InvalidArgument
        If the datasets are not neighbours under the relation, with how far apart they are and the relations under which they would be;
        if they are identical; or if one is nothing that the relation understands, with what to give instead. Distances are exact.

    Examples
    --------
    >>> import numpy as np
    >>> Pair(np.array([0.0]), np.array([1.0]), relation="replace-one").why
    'given'
    >>> mine, all_ = [{"user": 1, "x": 2.0}], [{"user": 1, "x": 2.0}, {"user": 2, "x": 0.0}, {"user": 2, "x": 9.0}]
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
            _check_own(self.relation, self.d0, self.d1)
            object.__setattr__(self, "relation", str(self.relation.name))  # type: ignore[attr-defined]
            return
        relation = composed(self.relation, unit, require_integer("k", k, "Pair", most=10**6))
        object.__setattr__(self, "relation", relation)
        problem = why_not_neighbours(self.d0, self.d1, relation)
        if problem:
            raise InvalidArgument(f"Pair: D1 is no {relation} neighbour of D0: {problem}; {_instead(self.d0, self.d1)}")

    @property
    def unchecked(self) -> str:
        """What a report must say of two datasets that were not compared here; an empty text where they were."""
        found = parse_relation(self.relation)
        if found.name == OWN:
            return f"that the two datasets are neighbours was told by a function of the user's ({self.relation}), not checked by dpwitness"
        return "" if found.checked else "that the two datasets are neighbours was stated, and not checked (relation stated)"

    def swapped(self) -> Pair:
        """The same pair in the other order."""
        return Pair(self.d1, self.d0, self.relation, self.why)

    def to_json(self) -> Json:
        sides = {name: self._written(side) for name, side in (("d0", self.d0), ("d1", self.d1))}
        return {**sides, "relation": self.relation, "why": self.why}

    @property
    def writable(self) -> bool:
        """Whether both datasets have an exact form in JSON: of checked pairs they have, other objects cannot be replayed from a file."""
        try:
            return to_jsonable([self.d0, self.d1]) is not None
        except InvalidArgument:
            return False

    def _written(self, dataset: Dataset) -> Any:
        try:
            return to_jsonable(dataset)
        except InvalidArgument:
            if not self.unchecked:
                raise
            return f"{type(dataset).__module__}.{type(dataset).__qualname__}: {shown(dataset)}"


def _check_own(relation: Any, d0: Dataset, d1: Dataset) -> None:
    """Ask the check of a relation of the user's own."""
    for first, second in ((d0, d1), (d1, d0)):
        try:
            found = relation.check(first, second)
        except Exception as error:
            raise InvalidArgument(f"Pair: the check of {relation.name} raises {said(error)}") from None
        if not isinstance(found, bool | np.bool_ | str):
            raise InvalidArgument(
                f"Pair: the check of {relation.name} must return True, or False or a text that says why not, got {shown(found)}"
            )
        if found == "" or (found and not isinstance(found, str)):
            continue
        if first is not d0:
            raise InvalidArgument(f"Pair: the check of {relation.name} must be symmetric, it accepts (D0, D1) and refuses (D1, D0)")
        raise InvalidArgument(f"Pair: D1 is no {relation.name} neighbour of D0: {found if isinstance(found, str) else 'its check says no'}")


def _instead(d0: Dataset, d1: Dataset) -> str:
    """Relations under which the two would be neighbours."""
    found = relations_of(d0, d1)[:4]
    told = f"they are neighbours under {', '.join(found)}" if found else "they are neighbours under no relation that is checked"
    vectors = all(numbers_in(d) is not None and not isinstance(d, int | float) for d in (d0, d1))
    if vectors and not set(found) & set(NORMS):
        told += '; relation="l1", "l2" or "linf" are for vectors of answers that move by at most 1'
    return told if found else f'{told}; relation="stated" takes any two'
