"""What datasets a mechanism accepts and which of them are neighbours. The pair search gets this and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from dpwitness.mechanisms.pairs import RELATIONS
from dpwitness.mechanisms.validation import InvalidArgument, require, require_finite

__all__ = ["Answers", "Costs", "Counts", "Domain", "LabelledBall", "Records", "Rows"]


class Domain:
    """Base of the domains: a set of datasets with a neighbouring relation."""

    relation: str


@dataclass(frozen=True, slots=True)
class Answers(Domain):
    """A vector of `length` true query answers in [low, high]; neighbours by a norm (`l1`, `l2`, `linf`)."""

    length: int
    low: float = -10.0
    high: float = 10.0
    relation: str = "linf"

    def __post_init__(self) -> None:
        require(self).integer("length").finite("low", "high").one_of("relation", ["l1", "l2", "linf"])
        if not self.high - self.low >= 1:
            raise InvalidArgument(f"Answers: high - low must be at least 1, got {self.high - self.low!r}")


@dataclass(frozen=True, slots=True)
class Counts(Domain):
    """A vector of `length` true counts: 64-bit integers in [low, high]; neighbours by a norm (`l1`, `l2`, `linf`)."""

    length: int
    low: int = 0
    high: int = 100
    relation: str = "l1"

    def __post_init__(self) -> None:
        require(self).integer("length").one_of("relation", ["l1", "l2", "linf"])
        for name, value in (("low", self.low), ("high", self.high)):
            if not isinstance(value, int) or not abs(value) < 2**63:
                raise InvalidArgument(f"Counts: {name} must be a whole number of 64 bits, got {value!r}")
        if not self.high > self.low:
            raise InvalidArgument(f"Counts: high must exceed low, got [{self.low!r}, {self.high!r}]")


@dataclass(frozen=True, slots=True)
class Records(Domain):
    """`size` records, each a number in [low, high]; whole numbers (categories, counts) if `integer`.

    Neighbours by ``replace-one`` or ``add-remove``. With `missing` a record may be NaN; with `outside` it may lie outside the interval,
    which the mechanism has to clip to.
    """

    size: int
    low: float = 0.0
    high: float = 1.0
    integer: bool = False
    relation: str = "replace-one"
    missing: bool = False
    outside: bool = False

    def __post_init__(self) -> None:
        require(self).integer("size").finite("low", "high").one_of("relation", list(RELATIONS))
        if not self.high > self.low:
            raise InvalidArgument(f"Records: high must exceed low, got [{self.low!r}, {self.high!r}]")


@dataclass(frozen=True, slots=True)
class Rows(Domain):
    """A plain (`size`, k) array, one record a row: columns in `features`, an interval each, then a label where `labels` names any.

    Neighbours by ``replace-one`` or ``add-remove``. With `every_label` each label occurs in both datasets (the classes are public);
    with `outside` features may lie outside their intervals.
    """

    size: int
    features: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    labels: tuple[float, ...] = ()
    relation: str = "replace-one"
    every_label: bool = False
    outside: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple((float(low), float(high)) for low, high in self.features))
        object.__setattr__(self, "labels", tuple(map(float, self.labels)))
        require(self).integer("size").one_of("relation", ["replace-one", "add-remove"])
        for low, high in self.features:
            if not require_finite("features", high, "Rows") >= require_finite("features", low, "Rows"):
                raise InvalidArgument(f"Rows: features must be intervals (low, high), got {(low, high)!r}")
        for label in self.labels:
            require_finite("labels", label, "Rows")
        if not self.features and not self.labels:
            raise InvalidArgument("Rows: features or labels must name a column, got none")


@dataclass(frozen=True, slots=True)
class LabelledBall(Domain):
    """`LabelledVectors` of `size` records (multiplicities counted): |x| <= `radius` in `dimension` dimensions, y in `labels`.

    `norm` says which |x|: ``l2``, or ``linf`` for the largest entry.
    """

    dimension: int
    size: int
    labels: tuple[float, ...] = (-1, 1)
    radius: float = 1.0
    relation: str = "replace-one"
    norm: str = "l2"

    def __post_init__(self) -> None:
        require(self).integer("dimension", "size").positive("radius").one_of("relation", ["replace-one", "add-remove"])
        require(self).one_of("norm", ["l2", "linf"])
        if not self.labels:
            raise InvalidArgument("LabelledBall: labels must name at least one value, got ()")
        for label in self.labels:
            require_finite("labels", label, "LabelledBall")


@dataclass(frozen=True, slots=True)
class Costs(Domain):
    """`LinearCosts` of `length` rounds in `dimension` dimensions, each entry in [-bound, bound]; one whole cost is replaced."""

    length: int
    dimension: int
    bound: float
    relation: str = "substitution"

    def __post_init__(self) -> None:
        require(self).integer("length", "dimension").positive("bound").one_of("relation", ["substitution"])
