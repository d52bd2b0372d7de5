"""Tables of records, one column or several: drawn at random, and changed step by step.

Categories, labels and places have no order. They are drawn, each equally likely, and never moved along a range: what is found does not
depend on how categories are numbered. Two categories come from a random matching, in which every category has one turn before any has two.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections import Counter, defaultdict
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.domains.base import Domain, Draws, Moves
from dpwitness.mechanisms.domains.patterns import CHANGES, LISTED, PLACES, between, changed_place, inserted, matching, whole_numbers
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray

_LEAST = 0.1  # so that no part is given up
_MATTERS = 0.05  # of the score: a part that moves it by more matters


class Tabular(Domain):
    """Domains whose datasets are records of the same columns: features, and a label where `label_values` names any."""

    size: int
    label_values: tuple[float, ...] = ()
    all_labels = False  # whether each occurs in both datasets

    @property
    def absent(self) -> bool:
        """Whether a feature may be NaN."""
        return False

    @property
    @abstractmethod
    def columns(self) -> FloatArray:
        """(k, 2): the least and the greatest value of each feature."""

    @property
    @abstractmethod
    def whole_columns(self) -> tuple[int, ...]:
        """Features that are whole numbers."""

    @property
    @abstractmethod
    def category_columns(self) -> tuple[int, ...]:
        """Those of them whose order means nothing."""

    @abstractmethod
    def dataset(self, table: FloatArray) -> Any:
        """A dataset from a table of its records, one a row."""

    @property
    def whole(self) -> bool:
        return bool(self.whole_columns)

    @property
    def unordered(self) -> bool:
        return bool(self.category_columns)

    def draws(self, rng: Generator) -> TableDraws:
        return TableDraws(self, rng)


class TableDraws(Draws[Tabular]):
    """Tables at random."""

    def __init__(self, domain: Tabular, rng: Generator) -> None:
        super().__init__(domain, rng)
        self.ends = domain.columns
        self.width = len(self.ends) + bool(domain.label_values)
        self._rounds: dict[int, list[list[tuple[float, float]]]] = defaultdict(list)
        self._turns: Counter[tuple[int, int]] = Counter()

    def moves(self) -> TableMoves:
        return TableMoves(self)

    def drawn(self, turn: int, corners: bool) -> Pair | None:
        domain, rng, k = self.domain, self.rng, len(self.ends)
        labels = sorted(set(domain.label_values))
        movable = np.flatnonzero(self.ends[:, 0] < self.ends[:, 1])
        turned, moved = len(labels) > 1, len(movable) > 0
        possible = [c for c, can in enumerate((turned, moved, turned and moved, moved)) if can]
        change = possible[turn % len(possible)] if possible else 1
        at, place = PLACES[turn % 3]
        crowd = self.rows(domain.size - 1, corners)
        before = self.rows(1, change != 3)[0]
        before[:k] = np.where(np.isnan(before[:k]), self.ends[:, 1], before[:k])
        after = before.copy()
        if change in (0, 2) and labels:
            before[k], after[k] = rng.choice(labels, 2, replace=False)
        if change in (1, 2, 3):
            for column in range(k) if change != 3 else [int(rng.choice(movable))]:
                before[column], after[column] = self._opposed(column, before[column], place(domain.size - 1))
        others = "at random corners" if corners else "from the interior"
        base = crowd if domain.relation == "add-remove" else inserted(crowd, before, place)
        return self.paired(base, inserted(crowd, after, place), f"drawn {turn}: {CHANGES[change]}, {at} among others {others}")

    def renumbered(self, pair: Pair | None) -> Pair | None:
        """The pair with its categories under other numbers, those of the changed record by their matching."""
        domain, rng = self.domain, self.rng
        if pair is None or not domain.category_columns:
            return pair
        tables = [np.array(d, dtype=float).reshape(len(d), self.width) for d in (pair.d0, pair.d1)]
        shorter, longer = sorted(tables, key=len)
        at = changed_place(longer, shorter)
        for column in sorted({*self.domain.category_columns}):
            low, high = self.ends[column]
            if low == high:
                continue
            known = np.unique(np.concatenate([table[:, column] for table in tables]))
            known = known[(known >= low) & (known <= high)]
            changed = [row[column] for row in (longer[at], *shorter[at : at + (domain.relation == "replace-one")]) if row[column] in known]
            others = np.setdiff1d(known, changed)
            names = dict(zip(dict.fromkeys(changed), self._two(column, at), strict=False))
            taken = list(names.values())
            if high - low < LISTED:
                free = np.setdiff1d(low + np.arange(int(high - low) + 1), taken)
                names |= zip(others, rng.permutation(free)[: len(others)], strict=True)
            else:
                names |= zip(
                    others, whole_numbers(np.full(len(others), low), np.full(len(others), high), rng.random(len(others))), strict=True
                )
            for table in tables:
                table[:, column] = [names.get(value, value) for value in table[:, column].tolist()]
        return self.paired(tables[0], tables[1], f"{pair.why}, renumbered")

    def paired(self, first: FloatArray, second: FloatArray, why: str) -> Pair | None:
        """The pair of two tables of records; None where it is none of the domain."""
        return self.domain.pair(self.domain.dataset(first), self.domain.dataset(second), why)

    def rows(self, count: int, corners: bool) -> FloatArray:
        """(count, width) records, their labels mixed."""
        domain, rng = self.domain, self.rng
        low, high = self.ends.T
        shares = rng.random((count, len(low)))
        values = np.where(shares < 0.5, low, high) if corners else between(low, high, shares)
        drawn = list(self.domain.category_columns if corners else self.domain.whole_columns)
        values[:, drawn] = whole_numbers(low[drawn], high[drawn], rng.random((count, len(drawn))))
        if domain.absent and not corners:
            values[rng.random(count) < 0.2] = np.nan
        if domain.label_values:
            labels = rng.choice(np.array(domain.label_values), count)
            if domain.all_labels:
                known = rng.permutation(np.array(sorted(set(domain.label_values))))[:count]
                labels[: len(known)] = known
            values = np.column_stack([values, rng.permutation(labels)])
        return np.asarray(values)

    def _two(self, column: int, at: int) -> tuple[float, float]:
        """Two whole numbers of a feature for a changed record in row `at`.

        First, last and in between each go through one matching after another, from a third of it on: soon each category has had its turn
        somewhere, then in each of the three.
        """
        domain = self.domain
        place = 0 if at == 0 else 2 if at == domain.size - 1 else 1
        turn = self._turns[column, place]
        self._turns[column, place] += 1
        for number in itertools.count():
            if number == len(self._rounds[column]):
                self._rounds[column].append(matching(float(self.ends[column, 0]), float(self.ends[column, 1]), self.rng))
            pairs = self._rounds[column][number]
            if turn < len(pairs):
                break
            turn -= len(pairs)
        return pairs[(turn + place * len(pairs) // 3) % len(pairs)]

    def _opposed(self, column: int, value: float, at: int) -> tuple[float, float]:
        """Two values of a feature that differ, where there are two: whole numbers by their matching, others by the end further away."""
        low, high = self.ends[column].tolist()
        if low == high:
            return value, value
        if column in self.domain.whole_columns:  # the ends of whole numbers have their turns in the shapes
            return self._two(column, at)
        return value, high if value - low < high - value else low


class TableMoves(Moves):
    """Steps from one table of records to another: a restarted search climbs by them where coordinates do not help.

    One part of the pair is drawn again: the place of the changed record, a column of the changed record, or a column of the others. Nothing
    is nearer to a category than to another, so every value may follow any. Parts whose change has moved the score are drawn more often: the
    score of a black box is that of the event trained on the pair, so what the event reacts to is what the search goes on with.
    """

    def __init__(self, draws: TableDraws) -> None:
        self._domain, self._draws, self._rng = draws.domain, draws, draws.rng
        width = draws.width
        self.parts = [("place", 0), *(("changed", c) for c in range(width)), *(("others", c) for c in range(width))]
        self._tried = np.full(len(self.parts), 2.0)
        self._moved = np.ones(len(self.parts))

    def step(self, pair: Pair) -> tuple[int, Pair | None]:
        """Which part was drawn again, and the pair; None where it is none of the domain."""
        rng, domain = self._rng, self._domain
        weights = _LEAST + self._moved / self._tried
        part = int(rng.choice(len(self.parts), p=weights / weights.sum()))
        what, column = self.parts[part]
        width = max(c for _, c in self.parts) + 1
        shorter, longer = (np.array(d, dtype=float).reshape(len(d), width) for d in sorted((pair.d0, pair.d1), key=len))
        at = changed_place(longer, shorter)
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
        """Note what a step on `part` did to the score."""
        if math.isfinite(before) and before != 0:
            self._tried[part] += 1
            self._moved[part] += abs(after - before) > _MATTERS * abs(before)
