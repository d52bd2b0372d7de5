"""Neighbouring pairs of datasets, checked when built, and the relations under which they are neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.mechanisms.jsonable import Dataset, same_value, to_jsonable
from dpwitness.mechanisms.validation import InvalidArgument, require_one_of

__all__ = ["RELATIONS", "Pair"]

RELATIONS = {
    "replace-one": "one record is replaced; the number of records is public",
    "add-remove": "one record is added or removed",
    "substitution": "one whole linear cost is replaced",
    "l1": "a vector of answers moves by at most 1 in L1 norm",
    "l2": "a vector of answers moves by at most 1 in L2 norm",
    "linf": "each of several answers moves by at most 1",
}

_NORMS = {"l1": 1, "l2": 2, "linf": np.inf}


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two neighbouring datasets, and why they are neighbours.

    Parameters
    ----------
    d0, d1 : dataset
        NumPy array or list (one record a row; a scalar is one record), or a dataset class with a `records()` method.
    relation : str
        A key of `RELATIONS`. Every one is symmetric: (d0, d1) are neighbours exactly when (d1, d0) are.
    why : str
        Where the pair comes from, for the report.

    Raises
    ------
    InvalidArgument
        If the datasets are not neighbours under the relation; the message says how far apart they are.

    Examples
    --------
    >>> Pair(np.array([0.0]), np.array([1.0]), relation="replace-one").why
    'given'
    """

    d0: Dataset
    d1: Dataset
    relation: str = "replace-one"
    why: str = "given"

    def __post_init__(self) -> None:
        require_one_of("relation", self.relation, list(RELATIONS), "Pair")
        problem = _why_not_neighbours(self.d0, self.d1, self.relation)
        if problem:
            raise InvalidArgument(f"Pair: dataset 2 is no {self.relation} neighbour of dataset 1: {problem}")

    def swapped(self) -> Pair:
        """The same pair in the other order."""
        return Pair(self.d1, self.d0, self.relation, self.why)

    def to_json(self) -> dict[str, Any]:
        return {"d0": to_jsonable(self.d0), "d1": to_jsonable(self.d1), "relation": self.relation, "why": self.why}


def records_of(dataset: Dataset) -> Sequence[Any]:
    """The records of a dataset, one an item: rows of an array, items of a list, the one record that a scalar is."""
    if hasattr(dataset, "records"):
        return dataset.records()  # type: ignore[no-any-return]
    if isinstance(dataset, np.ndarray) and dataset.ndim > 0:
        return list(dataset)
    if isinstance(dataset, list | tuple):
        return list(dataset)
    return [dataset]


def _why_not_neighbours(d0: Dataset, d1: Dataset, relation: str) -> str:
    """An empty string for neighbours, otherwise how far apart the two are."""
    if relation in _NORMS:
        return _too_far(d0, d1, _NORMS[relation])
    if hasattr(d0, "counts") or hasattr(d1, "counts"):
        return _too_many_counted(d0, d1, relation)
    first, second = records_of(d0), records_of(d1)
    if relation == "add-remove":
        left, right = Counter(map(_key, first)), Counter(map(_key, second))
        extra = (left - right).total() + (right - left).total()
        return "" if extra <= 1 else f"{extra} records stand in one and not in the other, at most 1 may"
    if len(first) != len(second):
        return f"they have {len(first)} and {len(second)} records, the number may not differ"
    rows = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if not same_value(a, b)]
    shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
    return "" if len(rows) <= 1 else f"{len(rows)} records differ (rows {shown}), at most 1 may"


def _too_many_counted(d0: Dataset, d1: Dataset, relation: str) -> str:
    """Datasets with multiplicities are multisets: compared by how often each record occurs, never copy by copy."""
    if type(d0) is not type(d1):
        return f"one is {type(d0).__name__}, the other {type(d1).__name__}"
    if relation == "substitution":
        return "it is a relation of sequences of linear costs, these are multisets of records"
    if d0.dimension != d1.dimension:
        return f"they have {d0.dimension} and {d1.dimension} dimensions"
    left, right = d0.counts(), d1.counts()
    gone, new = (left - right).total(), (right - left).total()
    if relation == "add-remove":
        return "" if gone + new <= 1 else f"{gone + new} records stand in one and not in the other, at most 1 may"
    if gone != new:
        return f"they have {left.total()} and {right.total()} records, the number may not differ"
    return "" if gone <= 1 else f"{gone} records differ, at most 1 may"


def _too_far(d0: Dataset, d1: Dataset, order: float) -> str:
    try:
        left, right = np.atleast_1d(np.asarray(d0, dtype=float)), np.atleast_1d(np.asarray(d1, dtype=float))
    except (TypeError, ValueError):
        return "both must be numeric vectors"
    if left.ndim != 1 or left.shape != right.shape:
        return f"they have shapes {left.shape} and {right.shape}, both must be vectors of one length"
    step = left - right
    if all(isinstance(d, np.ndarray) and d.dtype.kind in "iu" for d in (d0, d1)):  # whole numbers that floats cannot tell apart
        step = np.array([float(int(a) - int(b)) for a, b in zip(d0.ravel(), d1.ravel(), strict=True)])
    distance = float(np.linalg.norm(step, order))
    return "" if distance <= 1 + 1e-12 else f"their distance is {distance:.6g}, at most 1 is allowed"


def _key(record: Any) -> Hashable:
    return repr(to_jsonable(record))
