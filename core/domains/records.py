"""Tables of records with one or several columns, with random pairs and random steps from pair to
pair; and the domain of records that are numbers, one per person.

Categories, labels and places have no order. They are drawn, each equally likely, and never moved
along a range, so that the results do not depend on the numbering of categories. Two categories come
from a random matching, in which each category is used once before any repeats."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import (
    CHANGES,
    MAX_ENTRIES,
    MAX_LISTED_CATEGORIES,
    PLACES,
    Domain,
    PairSampler,
    SearchSpace,
    between,
    changed_row_index,
    chosen,
    far_outside_interval,
    flags,
    insert_record,
    integers_between,
    matching,
    ranked,
    sized,
    smaller_magnitudes,
    truncated_tables,
    vector,
)
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import require, require_rules

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
