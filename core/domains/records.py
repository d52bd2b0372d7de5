"""The domain of records that are numbers, one per person.

The catalogue covers extremes of the domain, one against many, halves, one record against none,
missing values and values out of range. The changed record lies last, first or in the middle in
turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import SearchSpace
from dpwitness.core.domains.fields import MAX_ENTRIES, flags, sized, vector
from dpwitness.core.domains.pair_patterns import (
    MAX_LISTED_CATEGORIES,
    PLACES,
    between,
    drop_invalid_pairs,
    far_outside_interval,
    insert_record,
    matching,
    ranked,
    smaller_magnitudes,
    truncated_tables,
)
from dpwitness.core.domains.tables import Tabular
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


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

    def __post_init__(self) -> None:
        require(self).integer("size", most=MAX_ENTRIES).finite("low", "high").one_of(
            "relation", ["replace-one", "add-remove"]
        )
        flags(self, "integer", "missing", "outside", "categories")
        object.__setattr__(self, "integer", bool(self.integer or self.categories))
        if not self.high > self.low:
            raise InvalidArgument(
                f"Records: high must exceed low, got [{self.low!r}, {self.high!r}]"
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
        return self.outside or bool(np.all((present >= self.low) & (present <= self.high)))

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
        if self.relation == "add-remove":
            special = [
                *([np.nan] if self.missing else []),
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
    def absent(self) -> bool:
        return self.missing

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
