"""Neighboring inputs of a transformation, for each input metric: groups of datasets at known
distances from each other, adversarial and random ones, and simpler pairs.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations, cycle, islice, product
from typing import Any

import numpy as np

from dpwitness.auditors.functions.stability_metrics import Incomparable, Metric, as_float
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.datasets.records import exact
from dpwitness.core.domains import Domain
from dpwitness.core.domains.base import without
from dpwitness.core.domains.spaces import NUMBER_TYPES, InputSpace
from dpwitness.core.values.validation import InvalidArgument, require_that, short_repr

Distance = Fraction | int | float
Row = tuple[Any, ...]
Table = list[Row]  # rows of a dataset

_SIZES = (3, 5, 10, 2, 17, 33, 100, 8, 65, 130, 257)  # numbers of equal rows of the first datasets
_MAX_ROWS = 60  # largest number of rows of most random datasets


@dataclass(frozen=True, slots=True)
class Group:
    """Datasets, and the pairs to compare: the positions of two datasets, and an upper limit `d_in`
    of their distance.
    """

    datasets: list[Any]
    pairs: list[tuple[int, int, Distance]]


class Neighbors(ABC):
    """Base of the sources of neighboring inputs: a set of datasets with a metric, and the distances
    that are audited.
    """

    def __init__(self, space: Any, metric: Metric, d_in: Sequence[Distance]) -> None:
        self.space, self.metric, self.d_in = space, metric, sorted(d_in)

    def within(self, first: Any, second: Any) -> Any:
        """Return the smallest audited `d_in` that two datasets do not exceed; None if they do, or
        one is not of the space.
        """
        if not self.space.contains(first) or not self.space.contains(second):
            return None
        try:
            distance = self.metric.measure(first, second, strict=True)
        except (Incomparable, InvalidArgument):  # InvalidArgument: a value without an exact key
            return None
        return next((d for d in self.d_in if not distance > d**self.metric.root), None)

    @abstractmethod
    def adversarial(self, inputs: Sequence[Any]) -> Iterator[Group]:
        """Yield adversarial groups: first the pairs of `inputs`, then those around `inputs`."""

    @abstractmethod
    def drawn(self, rng: random.Random, start: Any) -> Group | None:
        """Return a random group near the dataset `start`, or anywhere if `start` is None; None if
        the draw has no neighbors.
        """

    @abstractmethod
    def simpler(self, pair: tuple[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """Yield pairs of datasets that are simpler than `pair`, the boldest simplification
        first.
        """


class DomainPairs(Neighbors):
    """Neighboring pairs of a domain of mechanisms, at measured distances."""

    def __init__(self, space: Domain, metric: Metric, d_in: Sequence[Distance]) -> None:
        super().__init__(space, metric, d_in)
        problem: Incomparable | None = None
        for pair in islice(filter(None, space.catalogue()), 12):
            try:
                metric.measure(pair.d0, pair.d1, strict=True)
                return
            except Incomparable as error:
                problem = error
        require_that(
            problem is None,
            f"input_metric {metric.name} must apply to the domain: {problem}",
            "audit_stability",
        )

    def adversarial(self, inputs: Sequence[Any]) -> Iterator[Group]:
        return filter(None, map(self._group, self.space.catalogue()))

    def drawn(self, rng: random.Random, start: Any) -> Group | None:
        draws = self.space.draws(np.random.default_rng(rng.randrange(2**32)))
        return self._group(draws(rng.randrange(10**6)))

    def simpler(self, pair: tuple[Any, Any]) -> Iterator[tuple[Any, Any]]:
        found = self.space.pair(*pair, "shrunk")
        if found is not None:
            yield from ((each.d0, each.d1) for each in self.space.simpler(found))

    def _group(self, pair: Pair | None) -> Group | None:
        if pair is None:
            return None
        within = self.within(pair.d0, pair.d1)
        return None if within is None else Group([pair.d0, pair.d1], [(0, 1, within)])


class RowEdits(Neighbors):
    """Neighbors by inserted, deleted, replaced and reordered rows of the datasets of an input
    space.

    Parameters
    ----------
    space : InputSpace
        Set of the datasets.
    metric : Metric
        Metric of rows.
    d_in : sequence of numbers
        Audited distances.
    hints : sequence
        Further values, and numbers of rows, to try.
    """

    def __init__(
        self, space: InputSpace, metric: Metric, d_in: Sequence[Distance], hints: Sequence[Any] = ()
    ) -> None:
        super().__init__(space, metric, d_in)
        self.replaces = metric.name in ("change-one", "hamming")
        self.ordered = metric.name in ("insert-delete", "hamming")
        self.resizes = not self.replaces and space.size is None
        # the column by whose values rows are grouped, and these values
        self.at = list(space.columns).index(metric.column) if metric.column else 0
        # largest number of edits between two datasets of a group
        self.counts = sorted({min(math.floor(d), 64) for d in self.d_in if d >= 1})
        # largest number of rows of datasets that a constant of the code suggests
        near = [each for each in hints if type(each) is int and 3 < each <= 1200]
        self.more_sizes = sorted({each + more for each in near for more in (-1, 0, 1)})[:12]
        self.columns = [atom.values(hints) for atom in space.columns.values()]
        self.groups = [value for value in self.columns[self.at] if value == value]
        longest = max(map(len, self.columns))
        rows: Table = [
            tuple(each[min(i, len(each) - 1)] for each in self.columns) for i in range(longest)
        ]
        first = rows[min(1, longest - 1)]
        for at, column in enumerate(self.columns):
            rows += [(*first[:at], value, *first[at + 1 :]) for value in column[:12]]
        self.values = list({exact(row): row for row in rows}.values())

    # -- datasets

    def bases(self) -> Iterator[Table]:
        """Yield the rows of adversarial datasets: empty, single values, pairs of values, repeated
        values, and all values together.
        """
        values = self.values
        few = values[:8]  # values that are combined with each other
        both = list(product(few, few))
        if self.space.size is not None:
            size = self.space.size
            yield from ([value] * size for value in values)
            yield list(islice(cycle(values), size))
            for first in (1, size // 2) if size > 1 else ():
                yield from ([one] * first + [other] * (size - first) for one, other in both)
            return
        yield []
        yield from ([value] for value in values)
        yield list(values)
        yield from map(list, both)
        for size in (*_SIZES[:4], *self.more_sizes, *_SIZES[4:]):
            yield from ([value] * size for value in few)
            yield list(islice(cycle(values), size))
            yield [*islice(cycle(few), size - 1), values[-1]]
        yield from ([one, other, one] for one in values for other in few)

    def random_row(self, rng: random.Random) -> Row:
        """Return a random row."""
        return tuple(
            atom.draw(rng, values)
            for atom, values in zip(self.space.columns.values(), self.columns, strict=True)
        )

    def random_rows(self, rng: random.Random) -> Table:
        """Return the rows of a random dataset; some have many equal rows."""
        count = self.space.size
        if count is None:
            most = 4 if rng.random() < 0.4 else _MAX_ROWS if rng.random() < 0.95 else 10 * _MAX_ROWS
            count = rng.randrange(most)
        distinct = [self.random_row(rng) for _ in range(min(count, rng.choice((1, 2, 5, 1000))))]
        repeated = [rng.choice(distinct)] if distinct and rng.random() < 0.5 else distinct
        return [*distinct, *islice(cycle(repeated), count - len(distinct))]

    def owned(self, row: Row, group: Any) -> Row:
        """Return the row with this value in the column of groups."""
        return (*row[: self.at], group, *row[self.at + 1 :])

    # -- neighbors

    def adversarial(self, inputs: Sequence[Any]) -> Iterator[Group]:
        for first, second in combinations(inputs, 2):
            within = self.within(first, second)
            if within is not None:
                yield Group([first, second], [(0, 1, within)])
        later = []
        for base in chain(map(self.space.rows, inputs), self.bases()):
            groups = self.around(base)
            # first groups of each dataset, before the search comes to the others
            yield from islice(groups, 12)
            later.append(groups)
        yield from chain.from_iterable(later)

    def drawn(self, rng: random.Random, start: Any) -> Group | None:
        rows = self.random_rows(rng) if start is None else self.space.rows(start)
        if start is not None and rows and rng.random() < 0.5:
            rows[rng.randrange(len(rows))] = self.random_row(rng)
        return self.walk(rows, rng)

    def around(self, rows: Table) -> Iterator[Group]:
        """Yield groups that contain the dataset with these rows, the most adversarial neighbors
        first.
        """
        if self.metric.name == "discrete":
            size = max(len(rows), 1)
            yield from (self._group([(0, rows), (1, [value] * size)]) for value in self.values)
            return
        counts = [n for n in self.counts if n <= len(rows)]
        for value in self.values:
            yield from self._around_by_value(rows, value, counts)
        if rows and self.resizes:
            yield self._group([(0, rows), *((n, rows[n:]) for n in counts)])
        if len(rows) > 1 and not self.ordered:
            yield self._group([(0, rows), (0, rows[::-1]), (0, rows[1:] + rows[:1])])
            for value in self.values[:8] if self.resizes else ():
                yield self._group([(0, rows), (1, [value, *rows[::-1]])])
        elif len(rows) > 1 and not self.replaces:
            yield self._group([(0, rows), (2, rows[1:] + rows[:1])])

    def _around_by_value(self, rows: Table, value: Row, counts: Sequence[int]) -> Iterator[Group]:
        """Yield groups in which equal rows are added, or else replace as many rows."""
        if self.resizes:
            yield self._group([(0, rows), *((n, rows + [value] * n) for n in self.counts)])
            if rows and self.ordered:
                yield self._group([(0, rows), *((n, [value] * n + rows) for n in self.counts)])
        elif rows:
            cost = 1 if self.replaces else 2
            replaced = ((cost * n, [value] * n + rows[n:]) for n in counts)
            yield self._group([(0, rows), *replaced])

    def walk(self, rows: Table, rng: random.Random) -> Group | None:
        """Return a random group that starts at the dataset with these rows; None where there are no
        neighbors.
        """
        if self.metric.name == "discrete":
            return self._group([(0, rows), (1, self.random_rows(rng))])
        found, cost, most = [(0, rows)], 0, max(self.counts, default=0)
        repeated = self.random_row(rng) if rng.random() < 0.5 else None
        # most tries at a random edit of a walk
        for _ in range(20):
            price, rows = self._edit(list(rows), rng, repeated)
            if cost + price > most:
                break
            cost += price
            if price or not self.ordered:
                found.append((cost, rows))
            if cost == most:
                break
        return self._group(found) if len(found) > 1 else None

    def _edit(self, rows: Table, rng: random.Random, repeated: Row | None) -> tuple[int, Table]:
        """Return the rows after a random edit, and its cost."""
        row = self.random_row(rng) if repeated is None or rng.random() < 0.3 else repeated
        choice = rng.random()
        if not self.ordered and choice < 0.1:
            rng.shuffle(rows)
            return 0, rows
        if self.resizes:
            if choice < 0.6 or not rows:
                rows.insert(rng.choice((0, len(rows), rng.randint(0, len(rows)))), row)
                return 1, rows
            if choice < 0.9:
                del rows[rng.choice((0, -1, rng.randrange(len(rows))))]
                return 1, rows
        if not rows:
            return 10**9, rows
        rows[rng.choice((0, -1, rng.randrange(len(rows))))] = row
        return (1 if self.replaces else 2), rows

    def _group(self, found: list[tuple[int, Table]]) -> Group:
        pairs = []
        for j, (cost, _) in enumerate(found):
            for i, (other, _) in enumerate(found[:j]):
                # the smallest audited distance that is at least theirs
                pairs += [(i, j, d) for d in self.d_in if d >= abs(cost - other)][:1]
        return Group([self.space.build(rows) for _, rows in found], pairs)

    # -- simpler pairs

    def simpler(self, pair: tuple[Any, Any]) -> Iterator[tuple[Any, Any]]:
        first, second = map(self.space.rows, pair)
        for rows in chain(
            self._with_less_rows(first, second),
            self._with_simpler_values(first, second),
            self._with_simpler_entries(first, second),
        ):
            if rows != (first, second):
                yield self.space.build(rows[0]), self.space.build(rows[1])

    def _with_less_rows(self, first: Table, second: Table) -> Iterator[tuple[Table, Table]]:
        """Yield the pair without common rows, many at once first, then without a row of one
        side.
        """
        if self.space.size is not None:
            return
        size = longest = max(len(first), len(second))
        while size:
            for start in range(0, longest, size):
                cut, rest = first[start : start + size], first[:start] + first[start + size :]
                yield rest, without(second, Counter(map(exact, cut)), exact)
                yield rest, second[:start] + second[start + size :]
            size //= 2
        yield from ((first[:i] + first[i + 1 :], second) for i in range(len(first)))
        yield from ((first, second[:i] + second[i + 1 :]) for i in range(len(second)))

    def _with_simpler_values(self, first: Table, second: Table) -> Iterator[tuple[Table, Table]]:
        """Yield the pair with a simpler value for all rows of one value."""
        for key, row in {exact(row): row for row in (*first, *second)}.items():
            for simpler in self._simpler_rows(row):
                yield (
                    [simpler if exact(each) == key else each for each in first],
                    [simpler if exact(each) == key else each for each in second],
                )

    def _with_simpler_entries(self, first: Table, second: Table) -> Iterator[tuple[Table, Table]]:
        """Yield the pair with a simpler value at one position, on both sides or on one."""
        # positions whose values are made simpler one by one
        for i in range(min(len(first), len(second), 40)):
            for simpler in self._simpler_rows(first[i]):
                changed = [*first[:i], simpler, *first[i + 1 :]]
                yield changed, [*second[:i], simpler, *second[i + 1 :]]
                yield changed, second
            for simpler in self._simpler_rows(second[i]):
                yield first, [*second[:i], simpler, *second[i + 1 :]]

    def _simpler_rows(self, row: Row) -> Iterator[Row]:
        for at, atom in enumerate(self.space.columns.values()):
            yield from ((*row[:at], value, *row[at + 1 :]) for value in atom.simpler(row[at]))


class NumberMoves(RowEdits):
    """Neighbors by moving numbers: a scalar, or the entries of a vector, by at most d_in in the
    norm.
    """

    def around(self, rows: Table) -> Iterator[Group]:
        # all numbers, and the first one only
        counts = dict.fromkeys((len(rows), 1)) if rows else ()
        moved = (
            self._moved(rows, range(count), Fraction(sign)) for sign in (1, -1) for count in counts
        )
        yield from filter(None, moved)

    def walk(self, rows: Table, rng: random.Random) -> Group | None:
        if not rows:
            return None
        places = rng.sample(range(len(rows)), rng.randint(1, min(len(rows), 3)))
        share = rng.choice((1, -1)) * rng.choice((16, 16, 8, rng.randint(1, 16)))
        return self._moved(rows, places, Fraction(share, 16))

    def _moved(self, rows: Table, places: Sequence[int], share: Fraction) -> Group | None:
        """Return the group of the rows with the numbers at `places` moved by a share of each
        audited distance, as far as their ranges allow; None if none can move.
        """
        datasets, pairs = [self.space.build(rows)], []
        for d in self.d_in:
            step = Fraction(d) * abs(share)
            if self.metric.name == "l2":
                square = step * step / len(places)
                step = Fraction(math.isqrt(square.numerator * 10**40 // square.denominator), 10**20)
            elif self.metric.name != "linf":
                step /= len(places)
            moved = list(rows)
            for place in places:
                moved[place] = (self._step(rows[place][0], step if share > 0 else -step),)
            if moved != rows:
                pairs.append((0, len(datasets), d))
                datasets.append(self.space.build(moved))
        return Group(datasets, pairs) if pairs else None

    def _step(self, value: Any, step: Fraction) -> Any:
        """Return the furthest value of the element type from `value` by at most `step`."""
        (atom,) = self.space.columns.values()
        if value is None or not math.isfinite(value):
            return value
        target = Fraction(value) + step
        found: Any
        if isinstance(value, int):
            found = math.floor(target) if step > 0 else math.ceil(target)
        else:
            kind = np.float32 if atom.dtype == "f32" else np.float64
            with np.errstate(over="ignore"):
                found = kind(as_float(target))
                # the nearest float may lie beyond the target
                if not math.isfinite(found) or abs(Fraction(float(found)) - Fraction(value)) > abs(
                    step
                ):
                    found = np.nextafter(found, kind(value))
            found = float(found)
        found = max(atom.range[0], min(atom.range[1], found))
        return found if atom.contains(found) else value


class ColumnEdits(RowEdits):
    """Neighbors by up to d_in edits of the rows with one value of a column, for several values at
    once.
    """

    def around(self, rows: Table) -> Iterator[Group]:
        for value in self.values:
            # largest number of values of a column that change together
            for groups in (self.groups[:1], self.groups[:12]):
                added = [self.owned(value, group) for group in groups]
                yield self._group([(0, rows), *((n, rows + added * n) for n in self.counts)])

    def _edit(self, rows: Table, rng: random.Random, repeated: Row | None) -> tuple[int, Table]:
        if rng.random() < 0.1:
            rng.shuffle(rows)
            return 0, rows
        groups = self.groups[:12]
        for group in rng.sample(groups, rng.randint(1, len(groups))):
            mine = [i for i, row in enumerate(rows) if row[self.at] == group]
            if mine and rng.random() < 0.5:
                del rows[rng.choice(mine)]
            else:
                rows.insert(rng.choice((0, len(rows))), self.owned(self.random_row(rng), group))
        return 1, rows


def neighbors_of(
    space: InputSpace | Domain,
    metric: Metric,
    d_in: Sequence[Distance],
    hints: Sequence[Any] = (),
    owner: str = "audit_stability",
) -> Neighbors:
    """Return the source of neighbors of a set of inputs under a metric. Raise InvalidArgument if
    the metric does not apply to the inputs.
    """
    if isinstance(space, Domain):
        return DomainPairs(space, metric, d_in)
    require_that(
        isinstance(space, InputSpace),
        "input_domain must be an InputSpace such as VectorOf(Atom('f64')), or a "
        f"Domain, got {short_repr(space)}",
        owner,
    )
    known: dict[str, type[RowEdits]] = {"discrete": RowEdits}
    if space.form != "scalar":
        known |= dict.fromkeys(("symmetric", "insert-delete", "change-one", "hamming"), RowEdits)
    if space.form != "frame" and all(a.dtype in NUMBER_TYPES for a in space.columns.values()):
        norms = ("absolute",) if space.form == "scalar" else ("l1", "l2", "linf")
        known |= dict.fromkeys(norms, NumberMoves)
    if space.form == "frame" and space.size is None:
        known |= {f"by:{column}:symmetric": ColumnEdits for column in space.columns}
    require_that(
        metric.name in known,
        f"input_metric of these inputs must be one of {', '.join(known)}, got {metric.name}",
        owner,
    )
    return known[metric.name](space, metric, d_in, hints)
