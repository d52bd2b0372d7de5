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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import (
    CHANGES,
    MAX_ENTRIES,
    MAX_LISTED_CATEGORIES,
    PLACES,
    Domain,
    Draws,
    RandomSteps,
    SearchSpace,
    between,
    changed_row_index,
    drop_invalid_pairs,
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
from dpwitness.core.values.validation import InvalidArgument, require

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


_FEW = (1, 2, 0, 3)  # numbers of other records of small random datasets


class Tabular(Domain):
    """Base of the domains whose datasets are records with the same columns: features, and a label
    if `labels` is not empty.
    """

    size: int
    labels: tuple[float, ...] = ()
    missing = False  # whether a feature may be NaN
    infinite = False  # whether a feature may be infinite
    every_label = False  # whether each label must occur in both datasets

    @property
    @abstractmethod
    def columns(self) -> FloatArray:
        """Return the smallest and the largest value of each feature, of shape (k, 2)."""

    @property
    @abstractmethod
    def integer_columns(self) -> tuple[int, ...]:
        """Return the indices of the integer features, including categories."""

    @property
    @abstractmethod
    def category_columns(self) -> tuple[int, ...]:
        """Return the indices of the features that are categories."""

    def dataset(self, table: FloatArray) -> FloatArray:
        """Return the dataset of a table with one record per row, by default the table."""
        return table

    @property
    def fixes_size(self) -> bool:
        """Return whether all datasets have the same number of records."""
        return self.relation != "add-remove"

    @property
    def has_integers(self) -> bool:
        return bool(self.integer_columns)

    @property
    def unordered(self) -> bool:
        return bool(self.category_columns)

    def draws(self, rng: Generator) -> TableSampler:
        return TableSampler(self, rng)


class TableSampler(Draws[Tabular]):
    """Sampler of random pairs of tables."""

    def __init__(self, domain: Tabular, rng: Generator) -> None:
        super().__init__(domain, rng)
        self.columns = domain.columns
        self.width = len(self.columns) + bool(domain.labels)
        self._matchings: dict[int, list[list[tuple[float, float]]]] = defaultdict(list)
        self._turn_counts: Counter[tuple[int, int]] = Counter()

    def moves(self) -> TableSteps:
        return TableSteps(self)

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
        crowd = self.rows(self._others(turn), corners)
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
        return self.paired(
            base,
            insert_record(crowd, after, place),
            f"drawn {turn}: {CHANGES[change]}, {at} among others {others}",
        )

    def _others(self, turn: int) -> int:
        """Return the number of records that do not change: few on every fourth turn, if the number
        is private.
        """
        most = self.domain.size - 1
        few = self.domain.relation == "add-remove" and turn % 4 == 3
        return min(most, _FEW[turn // 4 % len(_FEW)]) if few else most

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
            names = dict(
                zip(dict.fromkeys(changed), self._next_two_values(column, at), strict=False)
            )
            taken = list(names.values())
            if high - low < MAX_LISTED_CATEGORIES:
                free = np.setdiff1d(low + np.arange(int(high - low) + 1), taken)
                names |= zip(others, rng.permutation(free)[: len(others)], strict=True)
            else:
                names |= zip(
                    others,
                    integers_between(
                        np.full(len(others), low),
                        np.full(len(others), high),
                        rng.random(len(others)),
                    ),
                    strict=True,
                )
            for table in tables:
                table[:, column] = [names.get(value, value) for value in table[:, column].tolist()]
        return self.paired(tables[0], tables[1], f"{pair.why}, renumbered")

    def paired(self, first: FloatArray, second: FloatArray, why: str) -> Pair | None:
        """Return the pair of two tables of records; None if the pair does not belong to
        the domain.
        """
        return self.domain.pair(self.domain.dataset(first), self.domain.dataset(second), why)

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


class TableSteps(RandomSteps):
    """Random steps between pairs of tables, for restarted searches where coordinates do not help.

    A step redraws one part of the pair: the place of the changed record, a column of the changed
    record, or a column of the others. Categories have no distances, so any value may follow any
    other. Parts whose change moved the score are drawn more often. The score of a black-box audit
    is that of the event trained on the pair, so the search continues with the parts to which the
    event reacts.
    """

    def __init__(self, draws: TableSampler) -> None:
        self._domain, self._draws, self._rng = draws.domain, draws, draws.rng
        width = draws.width
        self.parts = [
            ("place", 0),
            *(("changed", c) for c in range(width)),
            *(("others", c) for c in range(width)),
        ]
        self._attempts = np.full(len(self.parts), 2.0)
        self._hits = np.ones(len(self.parts))

    def step(self, pair: Pair) -> tuple[int, Pair | None]:
        """Return the index of the redrawn part and the new pair; None if the pair does not belong
        to the domain.
        """
        rng, domain = self._rng, self._domain
        # keeps every part in the draw
        weights = 0.1 + self._hits / self._attempts
        part = int(rng.choice(len(self.parts), p=weights / weights.sum()))
        what, column = self.parts[part]
        width = max(c for _, c in self.parts) + 1
        shorter, longer = (
            np.array(d, dtype=float).reshape(len(d), width)
            for d in sorted((pair.d0, pair.d1), key=len)
        )
        at = changed_row_index(longer, shorter)
        crowd, after = np.delete(longer, at, axis=0), longer[at].copy()
        before = shorter[at].copy() if domain.relation == "replace-one" else None
        corners = bool(rng.random() < 0.5)
        if what == "place":
            at = int(rng.integers(len(longer)))
        elif what == "changed":
            record = after if before is None or rng.random() < 0.5 else before
            record[column] = self._draws.rows(1, corners)[0, column]
        elif len(crowd):
            rows = slice(None) if rng.random() < 0.5 else rng.integers(len(crowd), size=1)
            drawn = self._draws.rows(len(crowd), corners)[:, column]
            crowd[rows, column] = drawn[0] if rng.random() < 0.5 else drawn[rows]
        base = crowd if before is None else np.insert(crowd, at, before, axis=0)
        return part, self._draws.paired(base, np.insert(crowd, at, after, axis=0), pair.why)

    def learn(self, part: int, before: float, after: float) -> None:
        """Record whether a step on `part` changed the score noticeably."""
        if math.isfinite(before) and before != 0:
            self._attempts[part] += 1
            # relative change of the score from which a part counts as relevant
            self._hits[part] += abs(after - before) > 0.05 * abs(before)


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
        if not self.high > self.low:
            raise InvalidArgument(
                f"Records: high must exceed low, got [{self.low!r}, {self.high!r}]"
            )
        if self.integer and self.infinite:
            raise InvalidArgument(
                "Records: infinite must be False for whole numbers and categories, got True"
            )
        low, high = self.extremes
        interval = f"[{self.low!r}, {self.high!r}]"
        if low > high:
            raise InvalidArgument(
                f"Records: domain must not be empty, got no whole number in {interval}"
            )
        if low == high and self.relation == "replace-one" and not (self.missing or self.outside):
            raise InvalidArgument(
                f"Records: domain must have neighbors, got one whole number in {interval}, "
                "so that no record can change"
            )

    @property
    def extremes(self) -> tuple[float, float]:
        """Return the smallest and the largest record inside the bounds."""
        if not self.integer:
            return float(self.low), float(self.high)
        return float(math.ceil(self.low)), float(math.floor(self.high))

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a vector with an allowed number of allowed records."""
        values = vector(dataset)
        if values is None or not sized(len(values), self.size, self.relation):
            return False
        present = values[~np.isnan(values)]
        if len(present) < len(values) and not self.missing:
            return False
        if self.integer and not np.all(np.floor(present) == present):
            return False
        inside = (present >= self.low) & (present <= self.high)
        return self.outside or bool(np.all(inside | (self.infinite & np.isinf(present))))

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs: changed values among crowds of others, in the first and in the last
        place, largest changes first.
        """
        n, (low, high) = self.size, self.extremes
        middle, spread = between(low, high, 0.5), between(low, high, np.linspace(0.0, 1.0, n))
        if self.integer:
            middle, spread = np.floor(middle), np.round(spread)
        half = np.arange(n) < (n + 1) // 2
        crowds = {
            "all records low": np.full(n, low),
            "all records high": np.full(n, high),
            "half of the records high": np.where(half, low, high),
            "all records in the middle": np.full(n, middle),
            "all distinct": spread,
        }
        changes = [
            (low, high),
            (middle, high),
            (low, middle),
            *([(low, low + 1), (high - 1, high)] if self.integer else []),
        ]
        if low < 0 < high:
            crowds = {
                "all records low": crowds["all records low"],
                "all records zero": np.zeros(n),
                **crowds,
            }
            changes.insert(1, (0.0, high))
        if self.missing:
            crowds = {"all others missing": np.full(n, np.nan), **crowds}
            changes.insert(1, (np.nan, high))
        if self.outside:
            below, above = far_outside_interval(low, high)
            changes[1:1] = [(low, above), (below, above)]
        if self.infinite:
            crowds["one other infinite"] = np.where(np.arange(n) == n // 2, np.inf, low)
            changes[1:1] = [(low, np.inf), (-np.inf, np.inf)]
        if self.relation == "add-remove":
            special = [
                *([np.nan] if self.missing else []),
                *([np.inf, -np.inf] if self.infinite else []),
                *(far_outside_interval(low, high) if self.outside else []),
            ]
            added = list(dict.fromkeys([high, *special, low, *(after for _, after in changes)]))
            changes = [(np.nan, value) for value in added]
        first, middle_place, last = PLACES
        for places in ((first, last, middle_place), (last, middle_place, first)):
            # Along diagonals, so that the most promising crowds meet the most promising changes
            # first.
            for rank in range(len(crowds) + len(changes) - 1):
                if rank == 2 and n > 1 and self.relation == "add-remove":
                    yield self.pair(np.empty(0), np.array([high]), "one record against none")
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
        yield from () if self.integer else self._smaller_changes()

    def _smaller_changes(self) -> Iterator[Pair | None]:
        """Yield pairs with a change by smaller and smaller amounts among records near zero: a fault
        may show for some magnitudes only.
        """
        others = np.full(self.size - 1, np.clip(0.0, self.low, self.high))
        for share, below, above in smaller_magnitudes(self.low, self.high):
            base = others if self.relation == "add-remove" else np.append(others, below)
            yield self.pair(
                base,
                np.append(others, above),
                f"all others near zero, last at {share} of the bounds",
            )

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of a pair: a changed record among up to four repeated values. Some
        integers, and categories, are drawn.
        """
        distinct = min(self.size - 1, 4)
        shares = rng.dirichlet(np.ones(distinct)) if distinct else np.zeros(0)
        copies = np.maximum(1, np.floor(shares * (self.size - 1))).astype(int)
        if distinct:
            copies[-1] += self.size - 1 - int(copies.sum())
            if copies[-1] < 1:
                copies = np.full(distinct, (self.size - 1) // distinct)
                copies[-1] += self.size - 1 - int(copies.sum())
        _, place = PLACES[turn % 3]
        low, high = self.extremes
        fixed = self.categories or (self.integer and turn % 3 == 2)
        sampled = (
            self.draws(rng).rows(2 + distinct, corners=False)[:, 0]
            if fixed
            else np.zeros(2 + distinct)
        )
        if fixed and low < high:
            sampled[:2] = matching(low, high, rng)[0]

        def decode(z: FloatArray) -> Pair | None:
            values = sampled if fixed else between(low, high, np.clip(0.5 + 0.4 * z, 0, 1))
            if self.integer:
                values = np.round(values)
            common = np.repeat(values[2:], copies)
            first = (
                common if self.relation == "add-remove" else insert_record(common, values[0], place)
            )
            return self.pair(first, insert_record(common, values[1], place), "search")

        return SearchSpace(0 if fixed else 2 + distinct, decode)

    def lattice(self) -> SearchStrategy[Pair]:
        """Return a strategy of pairs with integers, categories, or numbers at quarters of the
        interval.
        """
        from hypothesis import strategies as st

        low, high = self.extremes
        value: SearchStrategy[float]
        # in random order, since categories have none
        if self.categories and high - low < MAX_LISTED_CATEGORIES:
            value = st.sampled_from(
                (low + np.random.default_rng(0).permutation(int(high - low) + 1)).tolist()
            )
        elif self.integer:
            value = st.integers(int(low), int(high)).map(
                lambda whole: min(max(float(whole), low), high)
            )
        else:
            value = st.integers(0, 4).map(lambda quarter: float(between(low, high, quarter / 4)))
        if self.missing:
            value = value | st.just(math.nan)
        if self.infinite:
            value = value | st.sampled_from([math.inf, -math.inf])

        @st.composite
        def pairs(draw: DrawFn) -> Pair | None:
            first = np.full(self.size, draw(value))
            start = draw(st.integers(0, self.size))
            first[start:] = draw(value)
            place = draw(st.integers(0, self.size - 1))
            if self.relation == "add-remove":
                return self.pair(first, np.delete(first, place), "lattice")
            second = first.copy()
            second[place] = draw(value)
            return self.pair(first, second, "lattice")

        return drop_invalid_pairs(pairs())

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield pairs with common records set to zero or rounded, or with a rounded
        changed record.
        """
        if pair.relation != "replace-one":
            return
        tables = [np.asarray(d, dtype=float)[:, None] for d in (pair.d0, pair.d1)]
        low, high = (-math.inf, math.inf) if self.outside else self.extremes
        for first, second in truncated_tables(tables[0], tables[1], low, high):
            yield self.pair(first[:, 0], second[:, 0], pair.why)

    @property
    def columns(self) -> FloatArray:
        return np.array([self.extremes])

    @property
    def integer_columns(self) -> tuple[int, ...]:
        return (0,) * self.integer

    @property
    def category_columns(self) -> tuple[int, ...]:
        return (0,) * bool(self.categories)

    def dataset(self, table: FloatArray) -> FloatArray:
        """Return the single column of a table."""
        return table[:, 0]

    @property
    def records(self) -> int:
        return self.size

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.integer else (float(self.low), float(self.high))
