"""Domains of tables: records that are numbers, rows with features and a label, and sequences of
linear costs; with random pairs and random steps from pair to pair.

Pairs of rows change a row at a corner of the features, or its label, among crowds. Categories,
labels and places have no order. They are drawn, each equally likely, and never moved along a range,
so that the results do not depend on the numbering of categories. Two categories come from a random
matching, in which each category is used once before any repeats.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.datasets import LinearCosts
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import (
    CHANGES,
    MAX_ENTRIES,
    MAX_LISTED_CATEGORIES,
    NAMED_LABELS,
    PLACES,
    Domain,
    PairSampler,
    SearchSpace,
    between,
    changed_row_index,
    chosen,
    distinct_columns,
    far_outside_interval,
    flags,
    insert_record,
    integers_between,
    items,
    matching,
    ranked,
    require_labels,
    sized,
    smaller_magnitudes,
    truncated_tables,
    vector,
)
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import require, require_finite, require_rules

_FEW = (1, 2, 0, 3)  # numbers of other records of small random datasets


class Tabular(Domain):
    """Base of the domains whose datasets are records with the same columns: features, and a label
    if `labels` is not empty.
    """

    size: int
    labels: tuple[float, ...] = ()
    missing = False  # whether a feature may be NaN
    infinite = False  # whether a feature may be infinite
    outside = False  # whether a feature may lie outside of its interval
    every_label = False  # whether each label must occur in both datasets

    @property
    @abstractmethod
    def columns(self) -> FloatArray:
        """Return the smallest and the largest value of each feature, of shape (k, 2)."""

    @property
    def integer_columns(self) -> tuple[int, ...]:
        """Return the indices of the integer features, including categories."""
        return ()

    @property
    def category_columns(self) -> tuple[int, ...]:
        """Return the indices of the features that are categories."""
        return ()

    @abstractmethod
    def table(self, dataset: Any) -> FloatArray | None:
        """Return the table of a dataset, the inverse of `dataset`; None for other objects."""

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset has an allowed number of records with allowed features and
        labels.
        """
        table, k = self.table(dataset), len(self.columns)
        if table is None or not sized(len(table), self.size, self.relation):
            return False
        low, high = self.columns.T
        features, found = table[:, :k], set(table[:, k:].ravel().tolist())
        absent = np.isnan(features)
        inside = (features >= low) & (features <= high) | (self.infinite & np.isinf(features))
        whole = features[:, list(self.integer_columns)]
        return bool(
            np.all(np.where(absent, self.missing, self.outside | inside))
            and np.all(np.isnan(whole) | (np.floor(whole) == whole))
            and found <= set(self.labels)
            and (not self.every_label or found == set(self.labels))
        )

    def dataset(self, table: FloatArray) -> Any:
        """Return the dataset of a table with one record per row, by default the table."""
        return table

    @property
    def fixes_size(self) -> bool:
        """Return whether all datasets have the same number of records."""
        return self.relation != "add-remove"

    @property
    def random_pairs(self) -> int:
        single = self.size == 1 and len(self.columns) == 1 and not self.labels
        # more of categories; the ends of the range of a single number matter most
        return 24 if self.integer_columns else 2 if single else 12

    @property
    def unordered(self) -> bool:
        return bool(self.category_columns)

    @property
    def interval(self) -> tuple[float, float] | None:
        first = self.columns[:1].tolist()
        return (first[0][0], first[0][1]) if first and 0 not in self.integer_columns else None

    def draws(self, rng: Generator) -> TableSampler:
        return TableSampler(self, rng)

    def paired(self, first: FloatArray, second: FloatArray, why: str) -> Pair | None:
        """Return the pair of two tables of records; None if the pair does not belong to
        the domain.
        """
        return self.pair(self.dataset(first), self.dataset(second), why)

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of pairs for the `turn`-th start of a search: a changed row among up
        to three different rows that fill the rest.

        On some turns the rest are equal rows at the lower bounds instead. Categories are drawn.
        """
        ends = self.columns
        k, others = len(ends), self.size - 1
        distinct = min(
            max((1, 2, 3, 0)[turn % 4], len(self.labels) if self.every_label else 0), others
        )
        labels = (
            rng.choice(np.array(self.labels), 2 + distinct)
            if self.labels
            else np.zeros(2 + distinct)
        )
        if self.labels and turn % 2 == 0:
            labels[:2] = max(self.labels), min(self.labels)
        if self.every_label:
            labels[2:] = np.resize(np.array(self.labels), distinct)
            # With as many records as labels, the changed record must have the remaining label.
            if missing := set(self.labels) - set(labels[2:].tolist()):
                labels[:2] = missing.pop()
        assignment = np.sort(
            np.append(np.arange(distinct), rng.integers(0, max(distinct, 1), others - distinct))
        )
        _, place = PLACES[int(rng.integers(3))]
        drawn = self.draws(rng).rows(3 + distinct, corners=False)[:, :k]
        for column in self.category_columns:
            if ends[column, 0] < ends[column, 1]:
                drawn[:2, column] = matching(float(ends[column, 0]), float(ends[column, 1]), rng)[0]
        moving = np.setdiff1d(np.arange(k), self.category_columns)
        whole = np.flatnonzero(np.isin(moving, self.integer_columns))
        bottom = np.where(np.isin(np.arange(k), moving), ends[:, 0], drawn[-1])
        base = np.tile(np.append(bottom, labels[:1]) if self.labels else bottom, (others, 1))

        def decode(z: FloatArray) -> Pair | None:
            values = between(
                ends[moving, 0],
                ends[moving, 1],
                np.clip(0.5 + 0.4 * z.reshape(2 + distinct, len(moving)), 0.0, 1.0),
            )
            values[:, whole] = np.round(values[:, whole])
            rows = drawn[:-1].copy()
            rows[:, moving] = values
            if self.labels:
                rows = np.column_stack([rows, labels])
            crowd = rows[2:][assignment] if distinct else base
            first = crowd if self.relation == "add-remove" else insert_record(crowd, rows[0], place)
            return self.paired(first, insert_record(crowd, rows[1], place), "search")

        return SearchSpace((2 + distinct) * len(moving), decode)

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield pairs with common records set to zero or rounded, or with a rounded changed
        record.
        """
        tables = self.table(pair.d0), self.table(pair.d1)
        if tables[0] is None or tables[1] is None or not self.fixes_size:
            return
        ends = np.full((2, tables[0].shape[1]), [[-np.inf], [np.inf]])
        if not self.outside:
            ends[:, : len(self.columns)] = self.columns.T
        for first, second in truncated_tables(tables[0], tables[1], *ends):
            yield self.paired(first, second, pair.why)


class TableSampler(PairSampler[Tabular]):
    """Sampler of random pairs of tables."""

    def __init__(self, domain: Tabular, rng: Generator) -> None:
        super().__init__(domain, rng)
        self.columns = domain.columns
        self.width = len(self.columns) + bool(domain.labels)
        self._matchings: dict[int, list[list[tuple[float, float]]]] = defaultdict(list)
        self._turn_counts: Counter[tuple[int, int]] = Counter()

    def random_pair(self, turn: int, corners: bool) -> Pair | None:
        domain, rng, k = self.domain, self.rng, len(self.columns)
        labels = sorted(set(domain.labels))
        movable = np.flatnonzero(self.columns[:, 0] < self.columns[:, 1])
        can_flip, can_move = len(labels) > 1, len(movable) > 0
        possible = [
            c for c, can in enumerate((can_flip, can_move, can_flip and can_move, can_move)) if can
        ]
        change = possible[turn % len(possible)] if possible else 1
        at, place = PLACES[turn % 3]
        count = domain.size - 1
        if domain.relation == "add-remove" and turn % 4 == 3:  # few, as their number is private
            count = min(count, _FEW[turn // 4 % len(_FEW)])
        crowd = self.rows(count, corners)
        before = self.rows(1, change != 3)[0]
        before[:k] = np.where(np.isnan(before[:k]), self.columns[:, 1], before[:k])
        after = before.copy()
        if change in (0, 2) and labels:
            before[k], after[k] = rng.choice(labels, 2, replace=False)
        if change in (1, 2, 3):
            for column in range(k) if change != 3 else [int(rng.choice(movable))]:
                before[column], after[column] = self._opposite_values(
                    column, before[column], place(len(crowd))
                )
        others = "at random corners" if corners else "from the interior"
        others += f", {len(crowd) + 1} records" if len(crowd) < domain.size - 1 else ""
        base = crowd if domain.relation == "add-remove" else insert_record(crowd, before, place)
        return domain.paired(
            base,
            insert_record(crowd, after, place),
            f"drawn {turn}: {CHANGES[change]}, {at} among others {others}",
        )

    def renumbered(self, pair: Pair | None) -> Pair | None:
        """Return the pair with its categories randomly renumbered; the categories of the changed
        record come from the next matching.
        """
        domain, rng = self.domain, self.rng
        if pair is None or not domain.category_columns:
            return pair
        tables = [np.array(d, dtype=float).reshape(len(d), self.width) for d in (pair.d0, pair.d1)]
        shorter, longer = sorted(tables, key=len)
        at = changed_row_index(longer, shorter)
        for column in sorted({*self.domain.category_columns}):
            low, high = self.columns[column]
            if low == high:
                continue
            known = np.unique(np.concatenate([table[:, column] for table in tables]))
            known = known[(known >= low) & (known <= high)]
            changed = [
                row[column]
                for row in (longer[at], *shorter[at : at + (domain.relation == "replace-one")])
                if row[column] in known
            ]
            others = np.setdiff1d(known, changed)
            two = self._next_two_values(column, at)
            names = dict(zip(dict.fromkeys(changed), two, strict=False))
            if high - low < MAX_LISTED_CATEGORIES:
                free = np.setdiff1d(low + np.arange(int(high - low) + 1), list(names.values()))
                drawn = rng.permutation(free)[: len(others)]
            else:
                ends = np.full(len(others), low), np.full(len(others), high)
                drawn = integers_between(*ends, rng.random(len(others)))
            names |= zip(others, drawn, strict=True)
            for table in tables:
                table[:, column] = [names.get(value, value) for value in table[:, column].tolist()]
        return domain.paired(tables[0], tables[1], f"{pair.why}, renumbered")

    def rows(self, count: int, corners: bool) -> FloatArray:
        """Return random records with shuffled labels, of shape (count, width)."""
        domain, rng = self.domain, self.rng
        low, high = self.columns.T
        shares = rng.random((count, len(low)))
        values = np.where(shares < 0.5, low, high) if corners else between(low, high, shares)
        drawn = list(self.domain.category_columns if corners else self.domain.integer_columns)
        values[:, drawn] = integers_between(
            low[drawn], high[drawn], rng.random((count, len(drawn)))
        )
        if domain.missing and not corners:
            values[rng.random(count) < 0.2] = np.nan
        if domain.infinite and not corners:
            infinite = rng.random(count) < 0.1
            values[infinite] = rng.choice([-np.inf, np.inf], (infinite.sum(), 1))
        if domain.labels:
            labels = rng.choice(np.array(domain.labels), count)
            if domain.every_label:
                known = rng.permutation(np.array(sorted(set(domain.labels))))[:count]
                labels[: len(known)] = known
            values = np.column_stack([values, rng.permutation(labels)])
        return np.asarray(values)

    def _next_two_values(self, column: int, at: int) -> tuple[float, float]:
        """Return two integers of a feature for a changed record in row `at`.

        The first, the last and the middle place each iterate over the same random matchings,
        starting a third of a matching apart. Each category is thus used early in some place, and
        later in each of the three.
        """
        domain = self.domain
        place = 0 if at == 0 else 2 if at == domain.size - 1 else 1
        turn = self._turn_counts[column, place]
        self._turn_counts[column, place] += 1
        for number in itertools.count():
            if number == len(self._matchings[column]):
                self._matchings[column].append(
                    matching(
                        float(self.columns[column, 0]), float(self.columns[column, 1]), self.rng
                    )
                )
            pairs = self._matchings[column][number]
            if turn < len(pairs):
                break
            turn -= len(pairs)
        return pairs[(turn + place * len(pairs) // 3) % len(pairs)]

    def _opposite_values(self, column: int, value: float, at: int) -> tuple[float, float]:
        """Return two different values of a feature where possible."""
        low, high = self.columns[column].tolist()
        if low == high:
            return value, value
        # the search by shapes covers the bounds of integers
        if column in self.domain.integer_columns:
            return self._next_two_values(column, at)
        return value, high if value - low < high - value else low


@dataclass(frozen=True, slots=True)
class Records(Tabular):
    """`size` records, each a number in [low, high]; integers if `integer`, and categories without
    an order if `categories`.

    Parameters
    ----------
    size : int
        Number of records; the largest number under ``add-remove``.
    low, high : float
        Bounds of a record.
    integer : bool
        Whether records are integers.
    relation : {"replace-one", "add-remove"}
        Neighboring relation. Under ``add-remove`` the number of records is private: any number up
        to `size` is allowed.
    missing : bool
        Whether a record may be NaN.
    outside : bool
        Whether a record may lie outside of the interval; the mechanism then has to clip it.
    categories : bool
        Whether records are integers that represent categories, whose order has no meaning.
    infinite : bool
        Whether a record may be infinite, of either sign.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range.
    """

    size: int
    low: float = 0.0
    high: float = 1.0
    integer: bool = False
    relation: str = "replace-one"
    missing: bool = False
    outside: bool = False
    categories: bool = False
    infinite: bool = False

    def __post_init__(self) -> None:
        require(self).integer("size", most=MAX_ENTRIES).finite("low", "high").one_of(
            "relation", ["replace-one", "add-remove"]
        )
        flags(self, "integer", "missing", "outside", "categories", "infinite")
        object.__setattr__(self, "integer", bool(self.integer or self.categories))
        low, high = self.extremes
        interval = [self.low, self.high]
        fixed = low == high and not (self.missing or self.outside)
        require_rules(
            "Records",
            (self.high > self.low, "high must exceed low", interval),
            (
                not (self.integer and self.infinite),
                "infinite must be False for whole numbers and categories",
                True,
            ),
            (low <= high, "low and high must enclose a whole number", interval),
            (
                not fixed or self.relation == "add-remove",
                "low and high must allow a record to change",
                interval,
            ),
        )

    @property
    def extremes(self) -> tuple[float, float]:
        """Return the smallest and the largest record inside the bounds."""
        if not self.integer:
            return float(self.low), float(self.high)
        return float(math.ceil(self.low)), float(math.floor(self.high))

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs: changed values among crowds of others, in the first and in the last
        place, largest changes first.
        """
        n, (crowds, changes) = self.size, self._crowds_and_changes()
        first, middle_place, last = PLACES
        for places in ((first, last, middle_place), (last, middle_place, first)):
            # Along diagonals, so that the most promising crowds meet the most promising changes
            # first.
            for rank in range(len(crowds) + len(changes) - 1):
                if rank == 2 and n > 1 and self.relation == "add-remove":
                    yield self.pair(
                        np.empty(0), np.array([self.extremes[1]]), "one record against none"
                    )
                for turn, (why, crowd), (before, after) in ranked(
                    list(crowds.items()), changes, rank
                ):
                    at, place_among = places[turn]
                    place = place_among(n - 1)
                    changed, base = crowd.copy(), crowd.copy()
                    base[place], changed[place] = before, after
                    if self.relation == "add-remove":
                        yield self.pair(
                            np.delete(changed, place),
                            changed,
                            f"{why}, record {after:g} added {at}",
                        )
                    else:
                        yield self.pair(base, changed, f"{why}, {at} from {before:g} to {after:g}")
        # By smaller and smaller amounts among records near zero: a fault may show for some
        # magnitudes only.
        others = np.full(n - 1, np.clip(0.0, self.low, self.high))
        for share, below, above in () if self.integer else smaller_magnitudes(self.low, self.high):
            yield self.pair(
                others if self.relation == "add-remove" else np.append(others, below),
                np.append(others, above),
                f"all others near zero, last at {share} of the bounds",
            )

    def _crowds_and_changes(self) -> tuple[dict[str, FloatArray], list[tuple[float, float]]]:
        """Return the records among which a record changes, by their description, and the values of
        this record before and after, largest changes first.
        """
        n, (low, high) = self.size, self.extremes
        below, above = far_outside_interval(low, high)
        middle, spread = between(low, high, 0.5), between(low, high, np.linspace(0.0, 1.0, n))
        if self.integer:
            middle, spread = np.floor(middle), np.round(spread)
        half, crosses_zero = np.arange(n) < (n + 1) // 2, low < 0 < high
        crowds = chosen(
            (self.missing, ("all others missing", np.nan)),
            (True, ("all records low", low)),
            (crosses_zero, ("all records zero", 0.0)),
            (True, ("all records high", high)),
            (True, ("half of the records high", np.where(half, low, high))),
            (True, ("all records in the middle", middle)),
            (True, ("all distinct", spread)),
            (self.infinite, ("one other infinite", np.where(np.arange(n) == n // 2, np.inf, low))),
        )
        changes = chosen(
            (True, (low, high)),
            (self.infinite, (low, np.inf)),
            (self.infinite, (-np.inf, np.inf)),
            (self.outside, (low, above)),
            (self.outside, (below, above)),
            (self.missing, (np.nan, high)),
            (crosses_zero, (0.0, high)),
            (True, (middle, high)),
            (True, (low, middle)),
            (self.integer, (low, low + 1)),
            (self.integer, (high - 1, high)),
        )
        if self.relation == "add-remove":
            first = chosen(
                (True, high),
                (self.missing, np.nan),
                (self.infinite, np.inf),
                (self.infinite, -np.inf),
                (self.outside, below),
                (self.outside, above),
                (True, low),
            )
            added = dict.fromkeys([*first, *(after for _, after in changes)])
            changes = [(np.nan, value) for value in added]
        return {why: np.full(n, values, dtype=float) for why, values in crowds}, changes

    @property
    def columns(self) -> FloatArray:
        return np.array([self.extremes])

    @property
    def integer_columns(self) -> tuple[int, ...]:
        return (0,) * self.integer

    @property
    def category_columns(self) -> tuple[int, ...]:
        return (0,) * bool(self.categories)

    def table(self, dataset: Any) -> FloatArray | None:
        values = vector(dataset)
        return None if values is None else values[:, None]

    def dataset(self, table: FloatArray) -> FloatArray:
        """Return the single column of a table."""
        return table[:, 0]


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
            if rank == 2 and self.size > 1 and self.relation == "add-remove":
                yield self._changed(("no other rows", crowds[0][1][:0]), changes[0], last)
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
