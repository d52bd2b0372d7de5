"""Plain rows: a changed row from the corners of the features, its label turned over, among crowds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.domains.base import Shape
from dpwitness.mechanisms.domains.fields import LONGEST, columns, flags, items, labels_of, sized
from dpwitness.mechanisms.domains.patterns import NAMED_LABELS, PLACES, between, far_outside, inserted, matching, ranked
from dpwitness.mechanisms.domains.tables import Tabular
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument, require, require_finite, shown

Change = tuple[str, FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class Rows(Tabular):
    """A plain (`size`, k) array, one record a row: columns in `features`, an interval each, then a label where `labels` names any.

    Neighbours by ``replace-one``, or by ``add-remove`` with any number of rows up to `size`. With `every_label` each label occurs in both
    datasets (the classes are public); with `outside` features may lie outside their intervals. `integer` and `categories` name columns,
    counted from 0: those of whole numbers, and those of whole numbers that stand for categories, whose order means nothing.
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
        require(self).integer("size", most=LONGEST).one_of("relation", ["replace-one", "add-remove"])
        flags(self, "every_label", "outside")
        intervals = []
        for interval in items("features", self.features, "Rows"):
            ends = items("features", interval, "Rows")
            if len(ends) != 2 or not require_finite("features", ends[1], "Rows") >= require_finite("features", ends[0], "Rows"):
                raise InvalidArgument(f"Rows: features must be intervals (low, high), got {shown(interval)}")
            intervals.append((float(ends[0]), float(ends[1])))
        object.__setattr__(self, "features", tuple(intervals))
        object.__setattr__(self, "labels", labels_of(self.labels, "Rows"))
        if not self.features and not self.labels:
            raise InvalidArgument("Rows: features or labels must name a column, got none")
        categories = columns("categories", self.categories, len(self.features))
        object.__setattr__(self, "categories", categories)
        object.__setattr__(self, "integer", tuple(sorted({*columns("integer", self.integer, len(self.features)), *categories})))
        for column in self.integer:
            if math.ceil(self.features[column][0]) > math.floor(self.features[column][1]):
                interval = f"{list(self.features[column])} of column {column}"
                raise InvalidArgument(f"Rows: domain must not be empty, got no whole number in {interval}")
        self._require_neighbours()

    @property
    def ends(self) -> FloatArray:
        """(k, 2): the least and the greatest value of each feature inside its interval."""
        ends = np.array(self.features, dtype=float).reshape(-1, 2)
        for column in self.integer:
            ends[column] = math.ceil(ends[column, 0]), math.floor(ends[column, 1])
        return ends

    def _require_neighbours(self) -> None:
        kinds = len(set(self.labels))
        least = kinds if self.every_label else 0
        fixed = not any(low < high or self.outside for low, high in self.ends)
        if self.size < least + (self.relation == "add-remove"):
            both = "both datasets" if self.relation == "replace-one" else "both datasets, one a row shorter"
            raise InvalidArgument(f"Rows: domain must have neighbours, got size {self.size} for {kinds} labels that each occur in {both}")
        if self.relation == "replace-one" and fixed and kinds < 2:
            raise InvalidArgument("Rows: domain must have neighbours, got rows of which all are equal")
        if self.relation == "replace-one" and fixed and self.size == least:
            raise InvalidArgument(f"Rows: domain must have neighbours, got size {self.size} for {kinds} labels that may not be lost")

    def contains(self, dataset: Any) -> bool:
        """A table of as many rows as allowed, each column as allowed."""
        if not isinstance(dataset, np.ndarray) or dataset.ndim != 2 or dataset.dtype.kind not in "iuf" or dataset.dtype.itemsize > 8:
            return False
        if isinstance(dataset, np.ma.MaskedArray):
            return False
        k = len(self.features)
        if dataset.shape[1] != k + bool(self.labels) or not sized(len(dataset), self.size, self.relation):
            return False
        low, high = self.ends.T
        inside = ~np.isnan(dataset[:, :k]) if self.outside else (dataset[:, :k] >= low) & (dataset[:, :k] <= high)
        whole = dataset[:, list(self.integer)]
        if not np.all(inside) or not np.all(np.floor(whole) == whole):
            return False
        found = set(dataset[:, k].tolist()) if self.labels else set()
        return found <= set(self.labels) and (not self.every_label or found == set(self.labels))

    def catalogue(self) -> Iterable[Pair | None]:
        """Pairs of (size, k) arrays, what promises most first; None in place of one in which a label is lost, if every label must occur."""
        crowds, changes = list(_crowds(self)), list(_changes(self))
        first, middle, last = PLACES
        found = []
        for rank in range(len(crowds) + len(changes) - 1):
            for turn, (crowd, others), (why, before, after) in ranked(crowds, changes, rank):
                at, place = (last, first, middle)[turn]
                changed = inserted(others, after, place)
                base = others if self.relation == "add-remove" else inserted(others, before, place)
                found.append(self.pair(base, changed, f"{why}, {at}, {crowd}"))
        return found

    def shape(self, rng: Generator, turn: int) -> Shape:
        """A changed row among up to three different ones that fill the rest, or one that stays at the bottom. Categories are drawn."""
        ends = self.ends
        k, others = len(ends), self.size - 1
        distinct = min(max((1, 2, 3, 0)[turn % 4], len(self.labels) if self.every_label else 0), others)
        labels = rng.choice(np.array(self.labels), 2 + distinct) if self.labels else np.zeros(2 + distinct)
        if self.labels and turn % 2 == 0:
            labels[:2] = max(self.labels), min(self.labels)
        if self.every_label:
            labels[2:] = np.resize(np.array(self.labels), distinct)
            if missing := set(self.labels) - set(labels[2:].tolist()):  # as many records as labels: the changed one keeps the last
                labels[:2] = missing.pop()
        which = np.sort(np.append(np.arange(distinct), rng.integers(0, max(distinct, 1), others - distinct)))
        _, place = PLACES[int(rng.integers(3))]
        drawn = self.draws(rng).rows(3 + distinct, corners=False)[:, :k]
        for column in self.categories:
            if ends[column, 0] < ends[column, 1]:
                drawn[:2, column] = matching(float(ends[column, 0]), float(ends[column, 1]), rng)[0]
        moving = np.setdiff1d(np.arange(k), self.categories)
        whole = np.flatnonzero(np.isin(moving, self.integer))
        bottom = np.where(np.isin(np.arange(k), moving), ends[:, 0], drawn[-1])
        base = np.tile(np.append(bottom, labels[:1]) if self.labels else bottom, (others, 1))

        def decode(z: FloatArray) -> Pair | None:
            values = between(ends[moving, 0], ends[moving, 1], np.clip(0.5 + 0.4 * z.reshape(2 + distinct, len(moving)), 0.0, 1.0))
            values[:, whole] = np.round(values[:, whole])
            rows = drawn[:-1].copy()
            rows[:, moving] = values
            if self.labels:
                rows = np.column_stack([rows, labels])
            crowd = rows[2:][which] if distinct else base
            first = crowd if self.relation == "add-remove" else inserted(crowd, rows[0], place)
            return self.pair(first, inserted(crowd, rows[1], place), "search")

        return Shape((2 + distinct) * len(moving), decode)

    @property
    def label_values(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.labels

    @property
    def all_labels(self) -> bool:  # type: ignore[override]
        return self.every_label

    @property
    def columns(self) -> FloatArray:
        return self.ends

    @property
    def whole_columns(self) -> tuple[int, ...]:
        return self.integer

    @property
    def category_columns(self) -> tuple[int, ...]:
        return self.categories

    def dataset(self, table: FloatArray) -> FloatArray:
        """The table itself."""
        return table

    @property
    def interval(self) -> tuple[float, float] | None:
        return self.features[0] if self.features and 0 not in self.integer else None


def _corners(domain: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
    low, high = domain.ends.T
    middle = between(low, high, 0.5)
    middle[list(domain.integer)] = np.floor(middle[list(domain.integer)])
    return low, middle, high


def _row(features: FloatArray, *label: float) -> FloatArray:
    return np.append(features, label)


def _changes(domain: Rows) -> Iterator[Change]:
    """What the changed row was, and what it becomes; under add-remove only the latter."""
    low, middle, high = _corners(domain)
    labels: list[tuple[float, ...]] = [(label,) for label in sorted(domain.labels)] or [()]
    first, last = labels[0], labels[-1]
    if domain.outside:
        below, above = far_outside(low, high)
        yield "features far outside", _row(below, *last), _row(above, *last)
    yield "features from low to high", _row(low, *last), _row(high, *last)
    if first != last:
        yield "one label turned over", _row(high, *first), _row(high, *last)
        yield "features and label turned over", _row(low, *first), _row(high, *last)
    yield "features from the middle to high", _row(middle, *last), _row(high, *last)
    if first != last:
        yield "one label turned over, low features", _row(low, *last), _row(low, *first)
    if len(low) > 1:
        side = np.arange(len(low)) % 2 == 0
        yield "features alternately low and high", _row(np.where(side, low, high), *last), _row(np.where(side, high, low), *last)
        yield "one feature from low to high", _row(low, *last), _row(np.where(np.arange(len(low)) == 0, high, low), *last)
    for label in labels[1:-1][:NAMED_LABELS]:
        yield f"label {label[0]:g} for the lowest", _row(high, *first), _row(high, *label)


def _crowds(domain: Rows) -> Iterator[tuple[str, FloatArray]]:
    """The other rows: size - 1 of them."""
    n = domain.size - 1
    low, middle, high = _corners(domain)
    labels = sorted(domain.labels)

    def crowd(features: list[FloatArray], values: list[float]) -> FloatArray:
        rows = [_row(features[i % len(features)], *([values[i % len(values)]] if values else [])) for i in range(n)]
        return np.array(rows).reshape(n, len(low) + bool(labels))

    yield "others in the middle", crowd([middle], labels[:1])
    if n == 0:
        return
    if len(labels) > 1:
        yield "others low, labels in turn", crowd([low], labels)
    yield "others low", crowd([low], labels[:1])
    yield "others high", crowd([high], labels[:1])
    yield "others low and high, labels in turn", crowd([low, high], labels)
    yield "others high, labels in turn", crowd([high], labels)
