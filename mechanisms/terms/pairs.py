"""Neighbouring pairs of datasets, checked when built, and the relations under which they are neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from dpwitness.mechanisms.terms.jsonable import Dataset, to_jsonable
from dpwitness.mechanisms.terms.neighbours import why_not_neighbours
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_one_of, require_type

RELATIONS = {
    "replace-one": "one record is replaced; the number of records is public",
    "add-remove": "one record is added or removed",
    "substitution": "one whole linear cost is replaced",
    "l1": "a vector of answers moves by at most 1 in L1 norm",
    "l2": "a vector of answers moves by at most 1 in L2 norm",
    "linf": "each of several answers moves by at most 1",
    "stated": "any two datasets: that they are neighbours is stated, and was not checked",
}


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two neighbouring datasets, and why they are neighbours.

    Parameters
    ----------
    d0, d1 : dataset
        Of one kind: NumPy arrays or lists, one record a row; columns of one length, a tuple, list or dict of arrays such as (X, y), whose
        record i is row i; a number, the one record that it is; a dataset class with a method `records()`. Vectors of answers for the norms.
    relation : str
        A key of `RELATIONS`. Every one is symmetric: (d0, d1) are neighbours exactly when (d1, d0) are.
    why : str
        Where the pair comes from, for the report.

    Raises
    ------
    InvalidArgument
        If the datasets are not neighbours under the relation, with how far apart they are; if they are identical; or if one is nothing
        that the relation understands, with what to give instead. Distances are exact (`distances`).

    Examples
    --------
    >>> import numpy as np
    >>> Pair(np.array([0.0]), np.array([1.0]), relation="replace-one").why
    'given'
    """

    d0: Dataset
    d1: Dataset
    relation: str = "replace-one"
    why: str = "given"

    def __post_init__(self) -> None:
        require_one_of("relation", self.relation, list(RELATIONS), "Pair")
        require_type("why", self.why, str, "be a text", "Pair")
        problem = why_not_neighbours(self.d0, self.d1, self.relation)
        if problem:
            raise InvalidArgument(f"Pair: D1 is no {self.relation} neighbour of D0: {problem}")

    def swapped(self) -> Pair:
        """The same pair in the other order."""
        return Pair(self.d1, self.d0, self.relation, self.why)

    def to_json(self) -> Json:
        return {"d0": to_jsonable(self.d0), "d1": to_jsonable(self.d1), "relation": self.relation, "why": self.why}
