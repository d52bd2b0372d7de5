"""Neighbouring pairs at random: the place of the changed record, the crowd, labels and categories are drawn.

Categories, labels and places have no order. They are drawn, each equally likely, and never moved along a range: what is found does not
depend on how categories are numbered. Two categories come from a random matching, in which every category has one turn before any has two.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.catalogue import PLACES, between, inserted
from dpwitness.auditors.catalogue_labelled import build_labelled
from dpwitness.mechanisms.datasets import LinearCosts
from dpwitness.mechanisms.domains import Answers, Costs, Counts, Domain, LabelledBall, Records, Rows
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.protocol import FloatArray

__all__ = ["RandomPairs", "changed_place", "matching"]

_LISTED = 4096  # categories of which a whole matching is drawn
_SOME = 24  # pairs of more of them
_DISTINCT = 16  # records of a labelled crowd that differ
_CHANGES = ("label turned over", "features turned over", "label and features turned over", "one feature moved")


def matching(low: float, high: float, rng: Generator) -> list[tuple[float, float]]:
    """Pairs of different whole numbers in [low, high], of which there are at least two: each once, the odd one out with another that is.

    Of very many numbers, some.
    """
    if high - low < _LISTED:
        order = low + rng.permutation(int(high - low) + 1).astype(float)
        if len(order) % 2:
            order = np.append(order, order[0])
        return list(zip(order[::2].tolist(), order[1::2].tolist(), strict=True))
    ends = np.full(2 * _SOME, low), np.full(2 * _SOME, high)
    values = _whole(*ends, rng.random(2 * _SOME)).reshape(-1, 2).tolist()
    return [(a, b) for a, b in values if a != b] or [(low, high)]


class RandomPairs:
    """Draws of neighbouring pairs of a domain.

    By `turn` the changed record stands first, in the middle or last, among records from corners of the domain or from its interior, with
    labels that are mixed; label, features, both or one feature change. Twelve turns show all of that.
    """

    def __init__(self, domain: Domain, rng: Generator) -> None:
        self._domain, self._rng = domain, rng
        self._rounds: dict[int, list[list[tuple[float, float]]]] = defaultdict(list)
        self._turns: Counter[tuple[int, int]] = Counter()
        if isinstance(domain, Records | Rows):
            self._ends = domain.ends if isinstance(domain, Rows) else np.array([domain.ends])
            self._whole = domain.integer if isinstance(domain, Rows) else (0,) * domain.integer
            self._categories = domain.categories if isinstance(domain, Rows) else (0,) * domain.categories
            self._width = len(self._ends) + (isinstance(domain, Rows) and bool(domain.labels))

    def __call__(self, turn: int) -> Pair | None:
        """One pair; None where the draw is no pair of the domain."""
        domain = self._domain
        corners = (turn + turn // 4) % 2 == 0
        if isinstance(domain, Answers):
            return self._answers(domain, turn, corners)
        if isinstance(domain, Counts):
            return self._counts(domain, turn, corners)
        if isinstance(domain, LabelledBall):
            return self._labelled(domain, turn, corners)
        if isinstance(domain, Costs):
            return self._costs(domain, turn, corners)
        assert isinstance(domain, Records | Rows)
        return self._table(domain, turn, corners)

    def renumbered(self, pair: Pair | None) -> Pair | None:
        """The pair with its categories under other numbers, those of the changed record by their matching."""
        domain, rng = self._domain, self._rng
        if pair is None or not isinstance(domain, Records | Rows) or not domain.categories:
            return pair
        tables = [np.array(d, dtype=float).reshape(len(d), self._width) for d in (pair.d0, pair.d1)]
        shorter, longer = sorted(tables, key=len)
        at = changed_place(longer, shorter)
        for column in sorted({*self._categories}):
            low, high = self._ends[column]
            if low == high:
                continue
            known = np.unique(np.concatenate([table[:, column] for table in tables]))
            known = known[(known >= low) & (known <= high)]
            changed = [row[column] for row in (longer[at], *shorter[at : at + (domain.relation == "replace-one")]) if row[column] in known]
            others = np.setdiff1d(known, changed)
            names = dict(zip(dict.fromkeys(changed), self._two(column, at), strict=False))
            taken = list(names.values())
            if high - low < _LISTED:
                free = np.setdiff1d(low + np.arange(int(high - low) + 1), taken)
                names |= zip(others, rng.permutation(free)[: len(others)], strict=True)
            else:
                names |= zip(others, _whole(np.full(len(others), low), np.full(len(others), high), rng.random(len(others))), strict=True)
            for table in tables:
                table[:, column] = [names.get(value, value) for value in table[:, column].tolist()]
        return self.paired(tables[0], tables[1], f"{pair.why}, renumbered")

    def paired(self, first: FloatArray, second: FloatArray, why: str) -> Pair | None:
        """The pair of two tables of records; None where it is none of the domain."""
        if isinstance(self._domain, Records):
            first, second = first[:, 0], second[:, 0]
        return self._domain.pair(first, second, why)

    def _two(self, column: int, at: int) -> tuple[float, float]:
        """Two whole numbers of a feature for a changed record in row `at`.

        First, last and in between each go through one matching after another, from a third of it on: soon each category has had its turn
        somewhere, then in each of the three.
        """
        domain = self._domain
        assert isinstance(domain, Records | Rows)
        place = 0 if at == 0 else 2 if at == domain.size - 1 else 1
        turn = self._turns[column, place]
        self._turns[column, place] += 1
        for number in itertools.count():
            if number == len(self._rounds[column]):
                self._rounds[column].append(matching(float(self._ends[column, 0]), float(self._ends[column, 1]), self._rng))
            pairs = self._rounds[column][number]
            if turn < len(pairs):
                break
            turn -= len(pairs)
        return pairs[(turn + place * len(pairs) // 3) % len(pairs)]

    def rows(self, count: int, corners: bool) -> FloatArray:
        """(count, width) records of a domain of `Records` or `Rows`, their labels mixed."""
        domain, rng = self._domain, self._rng
        assert isinstance(domain, Records | Rows)
        low, high = self._ends.T
        shares = rng.random((count, len(low)))
        values = np.where(shares < 0.5, low, high) if corners else between(low, high, shares)
        drawn = list(self._categories if corners else self._whole)
        values[:, drawn] = _whole(low[drawn], high[drawn], rng.random((count, len(drawn))))
        if isinstance(domain, Records) and domain.missing and not corners:
            values[rng.random(count) < 0.2] = np.nan
        if isinstance(domain, Rows) and domain.labels:
            labels = rng.choice(np.array(domain.labels), count)
            if domain.every_label:
                known = rng.permutation(np.array(sorted(set(domain.labels))))[:count]
                labels[: len(known)] = known
            values = np.column_stack([values, rng.permutation(labels)])
        return np.asarray(values)

    def _table(self, domain: Records | Rows, turn: int, corners: bool) -> Pair | None:
        rng, k = self._rng, len(self._ends)
        labels = sorted(set(domain.labels)) if isinstance(domain, Rows) else []
        movable = np.flatnonzero(self._ends[:, 0] < self._ends[:, 1])
        turned, moved = len(labels) > 1, len(movable) > 0
        possible = [c for c, can in enumerate((turned, moved, turned and moved, moved)) if can]
        change = possible[turn % len(possible)] if possible else 1
        at, place = PLACES[turn % 3]
        crowd = self.rows(domain.size - 1, corners)
        before = self.rows(1, change != 3)[0]
        before[:k] = np.where(np.isnan(before[:k]), self._ends[:, 1], before[:k])
        after = before.copy()
        if change in (0, 2) and labels:
            before[k], after[k] = rng.choice(labels, 2, replace=False)
        if change in (1, 2, 3):
            for column in range(k) if change != 3 else [int(rng.choice(movable))]:
                before[column], after[column] = self._opposed(column, before[column], place(domain.size - 1))
        others = "at random corners" if corners else "from the interior"
        base = crowd if domain.relation == "add-remove" else inserted(crowd, before, place)
        return self.paired(base, inserted(crowd, after, place), f"drawn {turn}: {_CHANGES[change]}, {at} among others {others}")

    def _opposed(self, column: int, value: float, at: int) -> tuple[float, float]:
        """Two values of a feature that differ, where there are two: whole numbers by their matching, others by the end further away."""
        low, high = self._ends[column].tolist()
        if low == high:
            return value, value
        if column in self._whole:  # the ends of whole numbers have their turns in the shapes
            return self._two(column, at)
        return value, high if value - low < high - value else low

    def _answers(self, domain: Answers, turn: int, corners: bool) -> Pair | None:
        """All answers move, each up or down, or one does, among heights that differ."""
        n, rng = domain.length, self._rng
        at, place = PLACES[turn % 3]
        signs = rng.choice([-1.0, 1.0], n)
        alone = turn % 2 == 1 or domain.relation == "l1"
        if alone:
            signs[np.arange(n) != place(n - 1)] = 0.0
        step = signs / (np.linalg.norm(signs) if domain.relation == "l2" else 1.0)
        heights = np.where(rng.random(n) < 0.5, domain.low, domain.high) if corners else between(domain.low, domain.high, rng.random(n))
        base = np.clip(heights, domain.low + np.maximum(-step, 0), domain.high - np.maximum(step, 0))
        why = f"one answer moved, {at}," if alone else "answers moved up and down"
        where = "at random ends" if corners else "at random heights"
        return domain.pair(base, np.clip(base + step, domain.low, domain.high), f"drawn {turn}: {why} {where}")

    def _counts(self, domain: Counts, turn: int, corners: bool) -> Pair | None:
        n, rng = domain.length, self._rng
        at, place = PLACES[turn % 3]
        width = domain.high - domain.low
        shares = rng.integers(0, width, n, dtype=np.uint64, endpoint=True).tolist()
        base = np.array([domain.low + (width * (2 * share > width) if corners else share) for share in shares], dtype=np.int64)
        step = rng.choice([-1, 1], n)
        alone = turn % 2 == 1 or domain.relation != "linf"
        if alone:
            step[np.arange(n) != place(n - 1)] = 0
        step = np.where((step > 0) & (base == domain.high), -1, np.where((step < 0) & (base == domain.low), 1, step))
        why = f"one count moved, {at}," if alone else "counts moved up and down"
        return domain.pair(base, base + step, f"drawn {turn}: {why} {'at random ends' if corners else 'at random heights'}")

    def _labelled(self, domain: LabelledBall, turn: int, corners: bool) -> Pair | None:
        rng, others = self._rng, domain.size - 1
        labels = sorted(set(domain.labels))
        change = turn % 4 if len(labels) > 1 else (1, 3)[turn // 2 % 2]
        distinct = min(others, _DISTINCT)
        each, over = divmod(others, max(distinct, 1))
        drawn = np.append(labels[:: max(len(labels) - 1, 1)], rng.choice(labels, distinct))[:distinct]  # the extreme labels among them
        marks = rng.permutation(drawn)
        common = [(self._point(domain, corners), float(y), each + (i < over)) for i, y in enumerate(marks)]
        x, y = self._point(domain, True), float(rng.choice(labels))
        first, second = (x, y), (x, y)
        if change in (0, 2):
            before, after = rng.choice(labels, 2, replace=False).tolist()
            first, second = (x, before), (x, after)
        if change in (1, 2):
            second = (-x, second[1])
        elif change == 3:
            second = (self._point(domain, corners), y)
        others_are = "at random corners" if corners else "from the interior"
        at, _ = PLACES[turn % 3]
        what = "another direction" if change == 3 else _CHANGES[change]
        return build_labelled(domain, first, second, common, f"drawn {turn}: {what}, {at} among others {others_are}", at)

    def _point(self, domain: LabelledBall, corner: bool) -> FloatArray:
        """A point on the boundary, for the cube a corner; or uniform inside."""
        rng, d = self._rng, domain.dimension
        if domain.norm == "linf":
            return np.asarray(domain.radius * (rng.choice([-1.0, 1.0], d) if corner else rng.uniform(-1.0, 1.0, d)))
        direction = rng.standard_normal(d)
        direction /= np.linalg.norm(direction)
        return domain.pulled(domain.radius * direction * (1.0 if corner else rng.random() ** (1 / d)))

    def _costs(self, domain: Costs, turn: int, corners: bool) -> Pair | None:
        shape, rng = (domain.length, domain.dimension), self._rng
        at, place = PLACES[turn % 3]
        draws = rng.choice([-1.0, 1.0], shape) if corners else rng.uniform(-1.0, 1.0, shape)
        tables = domain.bound * draws, domain.bound * draws
        cost = domain.bound * rng.choice([-1.0, 1.0], domain.dimension)
        tables[0][place(domain.length - 1)] = cost
        tables[1][place(domain.length - 1)] = -cost if turn % 2 else domain.bound * rng.choice([-1.0, 1.0], domain.dimension)
        others = "at random corners" if corners else "from the interior"
        return domain.pair(LinearCosts(tables[0]), LinearCosts(tables[1]), f"drawn {turn}: one cost replaced, {at} among others {others}")


def changed_place(longer: FloatArray, shorter: FloatArray) -> int:
    """The row of `longer` that `shorter` lacks or has otherwise."""
    same = [a.tobytes() == b.tobytes() for a, b in zip(longer, shorter, strict=False)]
    return same.index(False) if False in same else len(longer) - 1


def _whole(low: FloatArray, high: FloatArray, shares: FloatArray) -> FloatArray:
    """Whole numbers in [low, high], which are whole too, each equally likely as far as floats tell."""
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low + 1.0
        small = low + np.floor(shares * width)
    return np.clip(np.where(width < 2.0**52, small, np.round(between(low, high, shares))), low, high)
