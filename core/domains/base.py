"""Base classes of the domains: the datasets, their neighboring relation, and the search for pairs;
validation of fields, and building blocks of pairs.

Catalogues, searches and simplifiers build all their pairs by `Domain.pair`. It returns
None if a dataset lies outside of the domain or if the two are not neighbors. A domain without any
pair of neighbors is refused when it is built."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.datasets.relations import vector_numbers
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_finite,
    require_integer,
    require_rules,
    require_type,
)

D = TypeVar("D", bound="Domain")


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Coordinates of a pair: a map from R^`size` to pairs. `decode` returns None where a point is
    not a pair of different neighbors.
    """

    size: int
    decode: Callable[[FloatArray], Pair | None]


class Domain(ABC):
    """Base of the domains: a set of datasets with a neighboring relation, and the methods that
    search its pairs.

    A subclass implements `contains`, and for a search `catalogue`, `random_pair` and `shape`.
    `simplifications` are optional.
    """

    relation: str
    counts = False  # whether datasets are vectors of exact integers
    declarable = True  # whether a target file can declare the domain by its fields

    @abstractmethod
    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset belongs to the domain."""

    def other_columns(self, dataset: Any) -> str:
        """Return why the dataset's columns are not those of the domain; an empty text
        if they are.
        """
        return ""

    def holds(self, pair: Pair) -> bool:
        """Return whether both datasets of the pair belong to the domain and its relation is the
        domain's.
        """
        return pair.relation == self.relation and self.contains(pair.d0) and self.contains(pair.d1)

    def pair(self, d0: Any, d1: Any, why: str) -> Pair | None:
        """Return the pair of two datasets, or None if it does not belong to the domain."""
        try:
            pair = Pair(d0, d1, self.relation, why)
        except InvalidArgument:
            return None
        return pair if self.holds(pair) else None

    def catalogue(self) -> Iterable[Pair | None]:
        """Return pairs worth trying, the most promising first, the same for every mechanism."""
        return ()

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair | None:
        """Return the random pair of a turn, whose other records lie at corners of the domain or in
        its interior.
        """
        return None

    def draws(self, rng: Generator) -> PairSampler[Any]:
        """Return a sampler of random pairs."""
        return PairSampler(self, rng)

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of pairs for the `turn`-th start of a search.

        Discrete parts of a pair (labels, categories, places, number of different records) are drawn
        at random. A standard normal point decodes to a varied pair: directions are uniform, half of
        the records lie on the boundary, sizes and multiplicities spread over all their orders of
        magnitude. By default there are no coordinates to search along.
        """
        return SearchSpace(0, lambda _: None)

    def simpler(self, pair: Pair) -> Iterator[Pair]:
        """Yield pairs of the domain that are simpler than `pair`, the boldest simplification first;
        never `pair` itself.
        """
        return (found for found in self.simplifications(pair) if found is not None)

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield the candidates of `simpler`, with None for candidates outside of the domain."""
        return iter(())

    @property
    def random_pairs(self) -> int:
        """Return the number of random pairs of a catalog: each position with each change."""
        return 12

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the first number of a dataset; None if that number is
        an integer.
        """
        return None

    @property
    def unordered(self) -> bool:
        """Return whether some numbers are categories, along which a search by coordinates makes no
        sense.
        """
        return False


class PairSampler(Generic[D]):
    """Sampler of random neighboring pairs of a domain.

    The changed record lies first, in the middle or last, depending on `turn`. The other records lie
    at corners of the domain or in its interior, with mixed labels. The label, the features, both or
    one feature change. Twelve turns cover all combinations.
    """

    def __init__(self, domain: D, rng: Generator) -> None:
        self.domain, self.rng = domain, rng

    def __call__(self, turn: int) -> Pair | None:
        """Return a random pair; None where the draw is not a pair of the domain."""
        return self.random_pair(turn, (turn + turn // 4) % 2 == 0)

    def random_pair(self, turn: int, corners: bool) -> Pair | None:
        """Return the random pair number `turn`; in `corners`, records are at the extremes of the
        domain. None where the draw is not a pair of the domain.
        """
        return self.domain.random_pair(self.rng, turn, corners)

    def renumbered(self, pair: Pair | None) -> Pair | None:
        """Return the pair with its categories, if the domain has any, randomly renumbered."""
        return pair


MAX_ENTRIES = 10**6  # entries of an array: a catalogue holds some hundred arrays at once


def sized(count: int, size: int, relation: str) -> bool:
    """Return whether `count` records are allowed: up to `size` under add-remove, exactly `size`
    otherwise.
    """
    return count <= size if relation == "add-remove" else count == size


def vector(dataset: Any) -> FloatArray | None:
    """Return the numbers of a vector as float64; None for anything else, and for integers that
    floats cannot represent.
    """
    numbers: Any = None
    if isinstance(dataset, list | tuple):
        numbers = vector_numbers(dataset)
    elif isinstance(dataset, np.ndarray) and dataset.ndim == 1 and dataset.dtype.kind in "iuf":
        numbers = dataset if dataset.dtype.kind == "f" else dataset.tolist()
        if isinstance(dataset, np.ma.MaskedArray) or dataset.dtype.itemsize > 8:
            return None
    if numbers is None:
        return None
    try:
        values = np.array(numbers, dtype=np.float64)
    except OverflowError:
        return None
    if isinstance(numbers, np.ndarray):
        return values
    exact = zip(values.tolist(), numbers, strict=True)
    return values if all(a == b or math.isnan(a) for a, b in exact) else None


def flags(domain: Domain, *names: str) -> None:
    """Raise InvalidArgument unless the named fields of the domain are True or False."""
    for name in names:
        require_type(
            name, getattr(domain, name), (bool, np.bool_), "be True or False", type(domain).__name__
        )


def items(name: str, value: Any, owner: str) -> Sequence[Any]:
    """Return the items of a field; raise InvalidArgument unless the field is a sequence."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(require_type(name, value, (list, tuple), "be a sequence", owner))


def distinct_columns(name: str, value: Any, count: int) -> tuple[int, ...]:
    """Return the distinct column indices of a field of `Rows`, sorted; raise InvalidArgument for an
    index outside of 0 .. count - 1.
    """
    places = {require_integer(name, place, "Rows", least=0) for place in items(name, value, "Rows")}
    known = max(places, default=-1) < count
    rule = f"{name} must name columns of features, counted from 0, of {count} columns"
    require_rules("Rows", (known, rule, max(places, default=0)))
    return tuple(sorted(places))


def require_labels(labels: Any, owner: str) -> tuple[float, ...]:
    """Return the labels as floats; raise InvalidArgument unless all are finite numbers."""
    return tuple(require_finite("labels", label, owner) for label in items("labels", labels, owner))


A = TypeVar("A")
B = TypeVar("B")

# catalogues cover this many labels between the extremes; random pairs cover the rest
NAMED_LABELS = 4
# Index of the changed record among n others.
PLACES: Sequence[tuple[str, Callable[[int], int]]] = (
    ("first", lambda n: 0),
    ("in the middle", lambda n: (n + 1) // 2),
    ("last", lambda n: n),
)
CHANGES = ("label flipped", "features flipped", "label and features flipped", "one feature moved")
MAX_LISTED_CATEGORIES = 4096  # up to this many categories are listed and matched completely
_SAMPLED_PAIRS = 24  # pairs drawn from more categories than `MAX_LISTED_CATEGORIES`
# smaller magnitudes of changed numbers, as shares of those at the ends of an interval
MAGNITUDES = (10**-0.5, 0.1, 10**-1.5)
DIGITS = (1, 2, 3, 4, 6)  # numbers of digits tried in simpler pairs


def chosen(*entries: tuple[object, A]) -> list[A]:
    """Return the entries of (condition, entry) pairs whose condition is true."""
    return [entry for applies, entry in entries if applies]


def insert_record(crowd: FloatArray, record: FloatArray, place: Callable[[int], int]) -> FloatArray:
    """Return the crowd with a record inserted at `place` among its rows."""
    return np.insert(crowd, place(len(crowd)), record, axis=0)


def between(low: Any, high: Any, share: Any) -> Any:
    """Return low + share (high - low), inside the interval despite rounding and overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.subtract(high, low)
        found = np.where(
            np.isfinite(width),
            low + width * share,
            np.multiply(low, np.subtract(1.0, share)) + np.multiply(high, share),
        )
    return np.clip(found, np.minimum(low, high), np.maximum(low, high))


def smaller_magnitudes(low: Any, high: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield points on both sides of zero, or of the point of the interval nearest to zero, at
    shares of the distance to its ends.
    """
    center = np.clip(0.0, low, high)
    for share in MAGNITUDES:
        yield f"{share:.2g}", between(center, low, share), between(center, high, share)


def far_outside_interval(low: Any, high: Any) -> tuple[Any, Any]:
    """Return points ten widths below and above an interval, limited to finite floats."""
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        far = 10 * np.where(np.equal(low, high), 1.0, np.subtract(high, low))
        return np.clip(low - far, -largest, largest), np.clip(high + far, -largest, largest)


def ranked(first: Sequence[A], second: Sequence[B], rank: int) -> Iterator[tuple[int, A, B]]:
    """Yield the pairs of items whose indices add up to `rank`, each with 0, 1 or 2, cycling along
    diagonals, rows and columns.
    """
    for i in range(max(0, rank - len(second) + 1), min(len(first), rank + 1)):
        yield 0 if rank < 2 else (2 * i - rank) % 3, first[i], second[rank - i]


def matching(low: float, high: float, rng: Generator) -> list[tuple[float, float]]:
    """Return a random matching of the integers in [low, high], of which there are at least two.

    Each integer occurs once; an unpaired integer is matched with one that is already paired. From
    `MAX_LISTED_CATEGORIES` integers on, only some pairs are drawn.
    """
    if high - low < MAX_LISTED_CATEGORIES:
        order = low + rng.permutation(int(high - low) + 1).astype(float)
        if len(order) % 2:
            order = np.append(order, order[0])
        return list(zip(order[::2].tolist(), order[1::2].tolist(), strict=True))
    ends = np.full(2 * _SAMPLED_PAIRS, low), np.full(2 * _SAMPLED_PAIRS, high)
    values = integers_between(*ends, rng.random(2 * _SAMPLED_PAIRS)).reshape(-1, 2).tolist()
    return [(a, b) for a, b in values if a != b] or [(low, high)]


def changed_row_index(longer: FloatArray, shorter: FloatArray) -> int:
    """Return the index of the row of `longer` that `shorter` lacks or has with other values."""
    same = [a.tobytes() == b.tobytes() for a, b in zip(longer, shorter, strict=False)]
    return same.index(False) if False in same else len(longer) - 1


def integers_between(low: FloatArray, high: FloatArray, shares: FloatArray) -> FloatArray:
    """Return integers in [low, high] for uniform shares, each equally likely up to rounding. The
    bounds must be integers.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low + 1.0
        small = low + np.floor(shares * width)
    return np.clip(
        np.where(width < 2.0**52, small, np.round(between(low, high, shares))), low, high
    )


def truncated_tables(
    first: FloatArray, second: FloatArray, low: FloatArray, high: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield both tables with common rows set to zero or rounded, then with the changed row rounded,
    all within the bounds.
    """
    common = np.all((first == second) | (np.isnan(first) & np.isnan(second)), axis=1)
    steps = [(0, common), *((digits, rows) for digits in DIGITS for rows in (common, ~common))]
    for digits, rows in steps:
        left, right = first.copy(), second.copy()
        for table in (left, right):
            table[rows] = shorter(table[rows], digits, low, high)
        same = (np.array_equal(a, b, equal_nan=True) for a, b in ((left, first), (right, second)))
        if not all(same) and not np.array_equal(left, right, equal_nan=True):
            yield left, right


def shorter(values: FloatArray, digits: int, low: Any, high: Any) -> FloatArray:
    """Return the values with fewer decimals, or zeros for digits=0, within the bounds.

    A value that would leave the bounds becomes the nearest number with as many decimals inside
    them, or else the nearest bound.
    """
    scale = 10.0 ** max(digits - 1, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        shorter = (
            np.where(np.isnan(values), values, 0.0)
            if digits == 0
            else np.trunc(values * scale) / scale
        )
        ends = np.ceil(low * scale) / scale, np.floor(high * scale) / scale
        inward = np.where(shorter < low, ends[0], np.where(shorter > high, ends[1], shorter))
    inside = np.isnan(inward) | ((inward >= low) & (inward <= high))
    return np.where(
        np.isfinite(values) | np.isnan(values),
        np.where(inside, inward, np.clip(values, low, high)),
        values,
    )


def without(rows: list[A], removed: Counter[Any], key: Callable[[A], Any]) -> list[A]:
    """Return the rows without those whose keys `removed` counts, each as often as it is counted."""
    remaining, result = Counter(removed), []
    for row in rows:
        found = key(row)
        if remaining[found]:
            remaining[found] -= 1
        else:
            result.append(row)
    return result
