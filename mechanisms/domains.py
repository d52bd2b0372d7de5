"""What datasets a mechanism accepts and which of them are neighbours. The pair search gets this and nothing else.

`Domain.pair` is the one door through which catalogues, searches, lattices and simplifiers build their pairs: it gives None for two datasets
of which one lies outside the domain, or which are no neighbours. A domain that holds no pair of neighbours is refused when it is built.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.datasets import LabelledVectors, LinearCosts
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.validation import InvalidArgument, require, require_finite, require_integer, require_type, shown

__all__ = ["Answers", "Costs", "Counts", "Domain", "LabelledBall", "Records", "Rows"]

FloatArray = NDArray[np.float64]

_LONGEST = 10**6  # entries of an array: a catalogue holds some hundred of them at once


class Domain(ABC):
    """Base of the domains: a set of datasets with a neighbouring relation."""

    relation: str

    @abstractmethod
    def contains(self, dataset: Any) -> bool:
        """Whether the dataset is one of the domain's."""

    def holds(self, pair: Pair) -> bool:
        """Whether both datasets are the domain's, and neighbours by its relation."""
        return pair.relation == self.relation and self.contains(pair.d0) and self.contains(pair.d1)

    def pair(self, d0: Any, d1: Any, why: str) -> Pair | None:
        """The pair, or None where it is none of this domain."""
        try:
            pair = Pair(d0, d1, self.relation, why)
        except InvalidArgument:
            return None
        return pair if self.holds(pair) else None


@dataclass(frozen=True, slots=True)
class Answers(Domain):
    """A vector of `length` true query answers in [low, high]; neighbours by a norm (`l1`, `l2`, `linf`)."""

    length: int
    low: float = -10.0
    high: float = 10.0
    relation: str = "linf"

    def __post_init__(self) -> None:
        require(self).integer("length", most=_LONGEST).finite("low", "high").one_of("relation", ["l1", "l2", "linf"])
        if not self.high - self.low >= 1:
            raise InvalidArgument(f"Answers: high - low must be at least 1, got {self.high - self.low!r}")
        end = self.low if self.low > 0 else min(self.high, 0.0)  # where floats lie closest to one another
        if math.ulp(end) > 1:
            raise InvalidArgument(f"Answers: low and high must have floats at distance 1 between them, got [{self.low!r}, {self.high!r}]")

    def contains(self, dataset: Any) -> bool:
        """A vector of `length` numbers in [low, high]."""
        values = _vector(dataset)
        return values is not None and len(values) == self.length and bool(np.all((values >= self.low) & (values <= self.high)))


@dataclass(frozen=True, slots=True)
class Counts(Domain):
    """A vector of `length` true counts: 64-bit integers in [low, high]; neighbours by a norm (`l1`, `l2`, `linf`)."""

    length: int
    low: int = 0
    high: int = 100
    relation: str = "l1"

    def __post_init__(self) -> None:
        require(self).integer("length", most=_LONGEST).one_of("relation", ["l1", "l2", "linf"])
        for name, value in (("low", self.low), ("high", self.high)):
            if not isinstance(value, int) or isinstance(value, bool) or not abs(value) < 2**63:
                raise InvalidArgument(f"Counts: {name} must be a whole number of 64 bits, got {shown(value)}")
        if not self.high > self.low:
            raise InvalidArgument(f"Counts: high must exceed low, got [{self.low!r}, {self.high!r}]")

    def contains(self, dataset: Any) -> bool:
        """A vector of `length` integers in [low, high]: an integer array, or a list of ints."""
        if isinstance(dataset, np.ndarray):
            if dataset.ndim != 1 or dataset.dtype.kind not in "iu":
                return False
            dataset = dataset.tolist()
        whole = isinstance(dataset, list | tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in dataset)
        return whole and len(dataset) == self.length and all(self.low <= v <= self.high for v in dataset)


@dataclass(frozen=True, slots=True)
class Records(Domain):
    """`size` records, each a number in [low, high]; whole numbers if `integer`; numbers of `categories`, whose order means nothing.

    Neighbours by ``replace-one``, or by ``add-remove``, where the number of records is no public matter: any up to `size`. With `missing`
    a record may be NaN; with `outside` it may lie outside the interval, which the mechanism has to clip to.
    """

    size: int
    low: float = 0.0
    high: float = 1.0
    integer: bool = False
    relation: str = "replace-one"
    missing: bool = False
    outside: bool = False
    categories: bool = False

    def __post_init__(self) -> None:
        require(self).integer("size", most=_LONGEST).finite("low", "high").one_of("relation", ["replace-one", "add-remove"])
        _flags(self, "integer", "missing", "outside", "categories")
        object.__setattr__(self, "integer", bool(self.integer or self.categories))
        if not self.high > self.low:
            raise InvalidArgument(f"Records: high must exceed low, got [{self.low!r}, {self.high!r}]")
        low, high = self.ends
        interval = f"[{self.low!r}, {self.high!r}]"
        if low > high:
            raise InvalidArgument(f"Records: domain must not be empty, got no whole number in {interval}")
        if low == high and self.relation == "replace-one" and not (self.missing or self.outside):
            raise InvalidArgument(f"Records: domain must have neighbours, got one whole number in {interval}, which nothing can replace")

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest record inside the bounds."""
        if not self.integer:
            return float(self.low), float(self.high)
        return float(math.ceil(self.low)), float(math.floor(self.high))

    def contains(self, dataset: Any) -> bool:
        """A vector of as many numbers as allowed, each as allowed."""
        values = _vector(dataset)
        if values is None or not _sized(len(values), self.size, self.relation):
            return False
        present = values[~np.isnan(values)]
        if len(present) < len(values) and not self.missing:
            return False
        if self.integer and not np.all(np.floor(present) == present):
            return False
        return self.outside or bool(np.all((present >= self.low) & (present <= self.high)))


@dataclass(frozen=True, slots=True)
class Rows(Domain):
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
        require(self).integer("size", most=_LONGEST).one_of("relation", ["replace-one", "add-remove"])
        _flags(self, "every_label", "outside")
        intervals = []
        for interval in _items("features", self.features, "Rows"):
            ends = _items("features", interval, "Rows")
            if len(ends) != 2 or not require_finite("features", ends[1], "Rows") >= require_finite("features", ends[0], "Rows"):
                raise InvalidArgument(f"Rows: features must be intervals (low, high), got {shown(interval)}")
            intervals.append((float(ends[0]), float(ends[1])))
        object.__setattr__(self, "features", tuple(intervals))
        object.__setattr__(self, "labels", _labels(self.labels, "Rows"))
        if not self.features and not self.labels:
            raise InvalidArgument("Rows: features or labels must name a column, got none")
        categories = _columns("categories", self.categories, len(self.features))
        object.__setattr__(self, "categories", categories)
        object.__setattr__(self, "integer", tuple(sorted({*_columns("integer", self.integer, len(self.features)), *categories})))
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
        if not isinstance(dataset, np.ndarray) or dataset.ndim != 2 or dataset.dtype.kind not in "iuf":
            return False
        k = len(self.features)
        if dataset.shape[1] != k + bool(self.labels) or not _sized(len(dataset), self.size, self.relation):
            return False
        low, high = self.ends.T
        inside = ~np.isnan(dataset[:, :k]) if self.outside else (dataset[:, :k] >= low) & (dataset[:, :k] <= high)
        whole = dataset[:, list(self.integer)]
        if not np.all(inside) or not np.all(np.floor(whole) == whole):
            return False
        found = set(dataset[:, k].tolist()) if self.labels else set()
        return found <= set(self.labels) and (not self.every_label or found == set(self.labels))


@dataclass(frozen=True, slots=True)
class LabelledBall(Domain):
    """`LabelledVectors` of `size` records (multiplicities counted): |x| <= `radius` in `dimension` dimensions, y in `labels`.

    `norm` says which |x|: ``l2``, or ``linf`` for the largest entry. Under ``add-remove`` any number of records up to `size`, at least one.
    """

    dimension: int
    size: int
    labels: tuple[float, ...] = (-1, 1)
    radius: float = 1.0
    relation: str = "replace-one"
    norm: str = "l2"

    def __post_init__(self) -> None:
        require(self).integer("dimension", most=_LONGEST).integer("size", most=2**53).positive("radius")
        require(self).one_of("relation", ["replace-one", "add-remove"]).one_of("norm", ["l2", "linf"])
        _labels(self.labels, "LabelledBall")
        object.__setattr__(self, "labels", tuple(_items("labels", self.labels, "LabelledBall")))
        if not self.labels:
            raise InvalidArgument("LabelledBall: labels must name at least one value, got ()")
        if self.relation == "add-remove" and self.size < 2:
            raise InvalidArgument(f"LabelledBall: domain must have neighbours, got size {self.size}, whose one record cannot be left out")

    def length(self, x: FloatArray) -> FloatArray:
        """|x| of each row, as floats add it up."""
        largest = np.abs(x).max(axis=-1)
        if self.norm == "linf":
            return np.asarray(largest)
        scale = np.where(largest > 0, largest, 1.0)  # so that no square overflows or vanishes
        return np.asarray(scale * np.linalg.norm(x / scale[..., None], axis=-1))

    def pulled(self, x: FloatArray) -> FloatArray:
        """`x`, or the point below it on the boundary if it lies outside: |x| as floats add it up is at most the radius."""
        out = np.asarray(x, dtype=np.float64)
        largest = float(np.abs(out).max())
        if self.length(out) > self.radius:
            out = out / largest * (self.radius / (float(self.length(out)) / largest))
        shrunk = 2.0**-53
        while self.length(out) > self.radius or (self.norm == "l2" and self._beyond(out)):
            out, shrunk = out * (1 - shrunk), 2 * shrunk
        return out

    def _beyond(self, x: FloatArray) -> bool:
        """Whether some other order of adding up the squares gives more than the radius; where they overflow, none is asked."""
        with np.errstate(over="ignore", under="ignore"):
            sizes = float(np.sqrt(x @ x)), float(np.sqrt(np.sum(x * x))), math.hypot(*x.tolist())
        return any(self.radius < size < math.inf for size in sizes)

    def contains(self, dataset: Any) -> bool:
        """LabelledVectors of as many records as allowed, in the ball up to the rounding of |x|, with labels of the domain."""
        if not isinstance(dataset, LabelledVectors) or dataset.dimension != self.dimension:
            return False
        edge = self.radius * (1 + (self.dimension + 2) * 2.0**-52 if self.norm == "l2" else 1)
        known = set(map(float, self.labels))
        return (
            _sized(dataset.n, self.size, self.relation)
            and bool(np.all(self.length(dataset.x) <= edge))
            and all(label in known for label in dataset.y.tolist())
        )


@dataclass(frozen=True, slots=True)
class Costs(Domain):
    """`LinearCosts` of `length` rounds in `dimension` dimensions, each entry in [-bound, bound]; one whole cost is replaced."""

    length: int
    dimension: int
    bound: float
    relation: str = "substitution"

    def __post_init__(self) -> None:
        require(self).integer("length", "dimension", most=_LONGEST).positive("bound").one_of("relation", ["substitution"])

    def contains(self, dataset: Any) -> bool:
        """LinearCosts of this shape within the bound."""
        shape = (self.length, self.dimension)
        return isinstance(dataset, LinearCosts) and dataset.x.shape == shape and bool(np.all(np.abs(dataset.x) <= self.bound))


def _sized(count: int, size: int, relation: str) -> bool:
    return count <= size if relation == "add-remove" else count == size


def _vector(dataset: Any) -> FloatArray | None:
    """The numbers of a vector as float64; None for anything else, and for whole numbers that floats cannot hold."""
    if isinstance(dataset, list | tuple):
        if not all(isinstance(v, int | float | np.integer | np.floating) and not isinstance(v, bool) for v in dataset):
            return None
        try:
            values = np.array([float(v) for v in dataset], dtype=np.float64)
        except OverflowError:
            return None
        return values if all(a == b or a != a for a, b in zip(values.tolist(), dataset, strict=True)) else None
    if (
        not isinstance(dataset, np.ndarray)
        or dataset.ndim != 1
        or dataset.dtype.kind not in "iuf"
        or isinstance(dataset, np.ma.MaskedArray)
    ):
        return None
    values = dataset.astype(np.float64)
    if dataset.dtype.kind in "iu" and dataset.tolist() != [int(v) for v in values.tolist()]:
        return None
    return values


def _flags(domain: Domain, *names: str) -> None:
    for name in names:
        require_type(name, getattr(domain, name), (bool, np.bool_), "be True or False", type(domain).__name__)


def _items(name: str, value: Any, owner: str) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(require_type(name, value, (list, tuple), "be a sequence", owner))


def _columns(name: str, value: Any, count: int) -> tuple[int, ...]:
    """Places of columns, in order, each once."""
    places = {require_integer(name, place, "Rows", least=0) for place in _items(name, value, "Rows")}
    if places and max(places) >= count:
        raise InvalidArgument(f"Rows: {name} must name columns of features, counted from 0, got {max(places)} of {count} columns")
    return tuple(sorted(places))


def _labels(labels: Any, owner: str) -> tuple[float, ...]:
    return tuple(require_finite("labels", label, owner) for label in _items("labels", labels, owner))
