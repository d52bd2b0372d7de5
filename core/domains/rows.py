"""The domains of numeric rows with features and a label, whose pairs change a row at a corner of
the features, or its label, among crowds; and of sequences of linear costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.core.datasets.datasets import LinearCosts
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import (
    MAX_ENTRIES,
    NAMED_LABELS,
    PLACES,
    between,
    chosen,
    distinct_columns,
    far_outside_interval,
    flags,
    insert_record,
    items,
    ranked,
    require_labels,
    smaller_magnitudes,
)
from dpwitness.core.domains.records import Tabular
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import require, require_finite, require_rules

Change = tuple[str, FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class Rows(Tabular):
    """A (`size`, k) array with one record per row: columns in `features`, one interval each, then a
    label column if `labels` is not empty.

    Parameters
    ----------
    size : int
        Number of rows; the largest number under ``add-remove``.
    features : tuple of (float, float)
        Interval of each feature.
    labels : tuple of float
        Possible labels; without labels there is no label column.
    relation : {"replace-one", "add-remove"}
        Neighboring relation.
    every_label : bool
        Whether each label must occur in both datasets, so that the classes are public.
    outside : bool
        Whether features may lie outside of their intervals.
    integer : tuple of int
        Columns of integers, counted from 0.
    categories : tuple of int
        Columns of integers that represent categories, whose order has no meaning, counted from 0.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range, or a column does not exist.
    """

    size: int
    features: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    labels: tuple[float, ...] = ()
    relation: str = "replace-one"
    every_label: bool = False
    outside: bool = False
    integer: tuple[int, ...] = ()
    categories: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require(self).integer("size", most=MAX_ENTRIES).one_of(
            "relation", ["replace-one", "add-remove"]
        )
        flags(self, "every_label", "outside")
        intervals = []
        for interval in items("features", self.features, "Rows"):
            ends = [
                require_finite("features", end, "Rows")
                for end in items("features", interval, "Rows")
            ]
            ordered = len(ends) == 2 and ends[0] <= ends[1]
            require_rules("Rows", (ordered, "features must be intervals (low, high)", interval))
            intervals.append((ends[0], ends[1]))
        object.__setattr__(self, "features", tuple(intervals))
        object.__setattr__(self, "labels", require_labels(self.labels, "Rows"))
        named = [*self.features, *self.labels]
        require_rules("Rows", (named, "features or labels must name a column", named))
        count = len(self.features)
        categories = distinct_columns("categories", self.categories, count)
        whole = {*distinct_columns("integer", self.integer, count), *categories}
        object.__setattr__(self, "categories", categories)
        object.__setattr__(self, "integer", tuple(sorted(whole)))
        # the domain must contain at least one pair of neighbors
        kinds = len(set(self.labels))
        least = kinds if self.every_label else 0
        one_shorter = self.relation == "add-remove"
        moving = any(low < high or self.outside for low, high in self.columns)
        changing = one_shorter or moving or (kinds > 1 and self.size > least)
        require_rules(
            "Rows",
            *(
                (low <= high, f"column {i} must enclose a whole number", interval)
                for i, ((low, high), interval) in enumerate(
                    zip(self.columns, self.features, strict=True)
                )
            ),
            (
                self.size >= least + one_shorter,
                f"size must allow neighbors that each have all {kinds} labels",
                self.size,
            ),
            (changing, "domain must allow a row to change", self),
        )

    @property
    def columns(self) -> FloatArray:
        ends = np.array(self.features, dtype=float).reshape(-1, 2)
        for column in self.integer:
            ends[column] = math.ceil(ends[column, 0]), math.floor(ends[column, 1])
        return ends

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs of tables, the most promising first; None in place of a pair that lacks
        a required label.
        """
        crowds, changes = list(_crowds(self)), list(_changes(self))
        first, middle, last = PLACES
        for rank in range(len(crowds) + len(changes) - 1):
            for turn, crowd, change in ranked(crowds, changes, rank):
                yield self._changed(crowd, change, (last, first, middle)[turn])
        for change in _smaller_changes(self):
            yield self._changed(crowds[0], change, last)

    def _changed(
        self, crowd: tuple[str, FloatArray], change: Change, at: tuple[str, Callable[[int], int]]
    ) -> Pair | None:
        """Return the pair of a changed row at a place of a crowd; under add-remove the first
        dataset lacks the row.
        """
        (kind, others), (why, before, after), (name, place) = crowd, change, at
        base = others if self.relation == "add-remove" else insert_record(others, before, place)
        return self.pair(base, insert_record(others, after, place), f"{why}, {name}, {kind}")

    def table(self, dataset: Any) -> FloatArray | None:
        known = (
            isinstance(dataset, np.ndarray)
            and not isinstance(dataset, np.ma.MaskedArray)
            and dataset.dtype.kind in "iuf"
            and dataset.dtype.itemsize <= 8
            and dataset.shape[1:] == (len(self.features) + bool(self.labels),)
        )
        return dataset if known else None

    @property
    def integer_columns(self) -> tuple[int, ...]:
        return self.integer

    @property
    def category_columns(self) -> tuple[int, ...]:
        return self.categories


def _corner_values(domain: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the lower, middle and upper values of the features."""
    low, high = domain.columns.T
    middle = between(low, high, 0.5)
    middle[list(domain.integer)] = np.floor(middle[list(domain.integer)])
    return low, middle, high


def _changes(domain: Rows) -> Iterator[Change]:
    """Yield the changed row before and after, with a description; under add-remove only the row
    after is used.
    """
    low, middle, high = _corner_values(domain)
    below, above = far_outside_interval(low, high)
    labels: list[tuple[float, ...]] = [(label,) for label in sorted(domain.labels)] or [()]
    first, last = labels[0], labels[-1]
    side = np.arange(len(low)) % 2 == 0
    odd, even = np.where(side, low, high), np.where(side, high, low)
    one_high = np.where(np.arange(len(low)) == 0, high, low)
    flip, several = first != last, len(low) > 1
    table = chosen(  # description, features and label of both rows
        (domain.outside, ("features far outside", (below, last), (above, last))),
        (True, ("features from low to high", (low, last), (high, last))),
        (flip, ("one label flipped", (high, first), (high, last))),
        (flip, ("features and label flipped", (low, first), (high, last))),
        (True, ("features from the middle to high", (middle, last), (high, last))),
        (flip, ("one label flipped, low features", (low, last), (low, first))),
        (several, ("features alternately low and high", (odd, last), (even, last))),
        (several, ("one feature from low to high", (low, last), (one_high, last))),
        *(
            (True, (f"label {label[0]:g} for the lowest", (high, first), (high, label)))
            for label in labels[1:-1][:NAMED_LABELS]
        ),
    )
    return ((why, np.append(*before), np.append(*after)) for why, before, after in table)


def _smaller_changes(domain: Rows) -> Iterator[Change]:
    """Yield changes of numeric features by smaller and smaller amounts: a fault may show for some
    magnitudes only.
    """
    low, _, high = _corner_values(domain)
    moving = np.setdiff1d(np.arange(len(low)), domain.integer)
    label = sorted(domain.labels)[-1:]
    for share, below, above in smaller_magnitudes(low[moving], high[moving]) if len(moving) else ():
        before, after = low.copy(), high.copy()
        before[moving], after[moving] = below, above
        yield (
            f"features at {share} of low and of high",
            np.append(before, label),
            np.append(after, label),
        )


def _crowds(domain: Rows) -> Iterator[tuple[str, FloatArray]]:
    """Yield the other `size` - 1 rows, with a description."""
    n = domain.size - 1
    low, middle, high = _corner_values(domain)
    labels = sorted(domain.labels)
    any_ = n > 0
    table = chosen(  # description, features and labels, in turn
        (True, ("others in the middle", [middle], labels[:1])),
        (any_ and len(labels) > 1, ("others low, labels in turn", [low], labels)),
        (any_, ("others low", [low], labels[:1])),
        (any_, ("others high", [high], labels[:1])),
        (any_, ("others low and high, labels in turn", [low, high], labels)),
        (any_, ("others high, labels in turn", [high], labels)),
    )
    for why, features, values in table:
        rows = np.resize(np.array(features), (n, len(low)))
        yield why, np.hstack([rows, np.resize(values, (n, 1))] if labels else [rows])


@dataclass(frozen=True, slots=True)
class Costs(Tabular):
    """`LinearCosts` of `length` rounds in `dimension` dimensions, each entry in [-bound, bound];
    neighbors differ in the cost of one round.

    Parameters
    ----------
    length : int
        Number of rounds.
    dimension : int
        Dimension of each cost.
    bound : float
        Largest absolute value of an entry. Positive.
    relation : {"substitution"}
        Neighboring relation.
    """

    length: int
    dimension: int
    bound: float
    relation: str = "substitution"

    def __post_init__(self) -> None:
        require(self).integer("length", "dimension", most=MAX_ENTRIES).positive("bound").one_of(
            "relation", ["substitution"]
        )

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs: one cost replaced by its negative, by zero or by another corner."""
        rounds, p, bound = self.length, self.dimension, self.bound
        opposed, split = np.full(p, bound), bound * np.where(np.arange(p) % 2 == 0, 1.0, -1.0)
        opposed[0] = -bound
        for place in sorted({0, rounds // 2, rounds - 1}):
            for crowd, baseline in (
                ("all others zero", 0 * opposed),
                ("all others against it", -opposed),
                ("all others with it", opposed),
            ):
                if rounds == 1 and baseline.any():
                    continue
                for why, first, second in (
                    ("one action against all others", opposed, -opposed),
                    ("one action favoured or not", opposed, 0 * opposed),
                    ("half against half", split, -split),
                    ("one cost shared by all", np.full(p, bound), np.full(p, -bound)),
                ):
                    others = np.repeat(baseline[None, :], rounds - 1, axis=0)
                    yield self.paired(
                        np.insert(others, place, first, axis=0),
                        np.insert(others, place, second, axis=0),
                        f"round {place + 1}: {why}, {crowd}",
                    )

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of rounds."""
        return self.length

    @property
    def columns(self) -> FloatArray:
        return np.array([[-self.bound, self.bound]] * self.dimension)

    def table(self, dataset: Any) -> FloatArray | None:
        known = isinstance(dataset, LinearCosts) and dataset.dimension == self.dimension
        return dataset.x if known else None

    def dataset(self, table: FloatArray) -> LinearCosts:
        return LinearCosts(table)
