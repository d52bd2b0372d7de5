"""Groups of datasets at known distances from each other, for each input metric: the first groups
are adversarial, the later ones random."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpwitness.auditors.functions.stability.inputs.atoms import to_f32
from dpwitness.auditors.functions.stability.inputs.spaces import (
    FrameOf,
    InputSpace,
    ScalarOf,
    VectorOf,
)
from dpwitness.core.values.validation import InvalidArgument

Distance = Fraction | int | float


@dataclass(frozen=True, slots=True)
class Group:
    """Datasets, and the pairs to compare: the positions of two datasets, and an upper limit `d_in`
    of their distance.
    """

    datasets: list[Any]
    pairs: list[tuple[int, int, Distance]]


class RowEdits:
    """Neighbors by inserted, deleted, replaced and reordered rows, for one space, input metric and
    list of distances.
    """

    def __init__(self, space: InputSpace, metric: str, d_in: Sequence[Distance]) -> None:
        self.space, self.metric, self.d_in = space, metric, sorted(d_in)
        self.replaces = metric in ("change-one", "hamming")
        self.ordered = metric in ("insert-delete", "hamming")
        whole = [math.floor(d) for d in self.d_in if d >= 1]
        # largest number of edits between two datasets of a group
        self.counts = sorted({min(d, 64) for d in whole})
        self.values = space.values()

    def around(self, rows: list[Any]) -> Iterator[Group]:
        """Yield groups that contain the dataset with these rows, the most adversarial neighbors
        first.
        """
        if self.metric == "discrete":
            yield from (
                self._group([(0, rows), (1, [value] * max(len(rows), 1))]) for value in self.values
            )
            return
        for value in self.values:
            if not self.replaces and self.space.size is None:
                yield self._group([(0, rows), *((n, rows + [value] * n) for n in self.counts)])
                if rows and self.ordered:
                    yield self._group([(0, rows), *((n, [value] * n + rows) for n in self.counts)])
            elif rows:
                cost = 1 if self.replaces else 2
                yield self._group(
                    [
                        (0, rows),
                        *(
                            (cost * n, [value] * n + rows[n:])
                            for n in self.counts
                            if n <= len(rows)
                        ),
                    ]
                )
        if rows and not self.replaces and self.space.size is None:
            yield self._group([(0, rows), *((n, rows[n:]) for n in self.counts if n <= len(rows))])
        if len(rows) > 1:
            yield from self._reordered(rows)

    def _reordered(self, rows: list[Any]) -> Iterator[Group]:
        """Yield the dataset in other orders: as it is under metrics without an order, otherwise
        with its first row moved.
        """
        if not self.ordered:
            yield self._group([(0, rows), (0, rows[::-1]), (0, rows[1:] + rows[:1])])
            if not self.replaces and self.space.size is None:
                yield from (
                    self._group([(0, rows), (1, [value, *rows[::-1]])]) for value in self.values[:8]
                )
        elif not self.replaces:
            yield self._group([(0, rows), (2, rows[1:] + rows[:1])])

    def walk(self, rows: list[Any], rng: random.Random) -> Group | None:
        """Return a random group that starts at the dataset with these rows; None where there are no
        neighbors.
        """
        if self.metric == "discrete":
            return self._group([(0, rows), (1, self.space.random_rows(rng))])
        found, cost, most = [(0, rows)], 0, self.counts[-1] if self.counts else 0
        repeated = self.space.random_row(rng) if rng.random() < 0.5 else None
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

    def _edit(self, rows: list[Any], rng: random.Random, repeated: Any) -> tuple[int, list[Any]]:
        """Return the rows after a random edit, and its cost."""
        row = self.space.random_row(rng) if repeated is None or rng.random() < 0.3 else repeated
        way = rng.random()
        if not self.ordered and way < 0.1:
            rng.shuffle(rows)
            return 0, rows
        if not self.replaces and self.space.size is None:
            if way < 0.6 or not rows:
                rows.insert(rng.choice((0, len(rows), rng.randint(0, len(rows)))), row)
                return 1, rows
            if way < 0.9:
                del rows[rng.choice((0, -1, rng.randrange(len(rows))))]
                return 1, rows
        if not rows:
            return 10**9, rows
        rows[rng.choice((0, -1, rng.randrange(len(rows))))] = row
        return (1 if self.replaces else 2), rows

    def _group(self, found: list[tuple[int, list[Any]]]) -> Group:
        pairs = []
        for j in range(1, len(found)):
            for i in range(j):
                apart = abs(found[j][0] - found[i][0])
                # the smallest audited distance that is at least theirs
                within = next((d for d in self.d_in if d >= apart), None)
                if within is not None:
                    pairs.append((i, j, within))
        return Group([self.space.build(rows) for _, rows in found], pairs)


class NumberMoves:
    """Neighbors by moving numbers: a scalar, or the entries of a vector, by at most d_in in the
    norm.
    """

    def __init__(self, space: InputSpace, metric: str, d_in: Sequence[Distance]) -> None:
        self.space, self.metric, self.d_in = space, metric, sorted(d_in)
        assert isinstance(space, ScalarOf | VectorOf)
        self.atom = space.atom
        if self.atom.dtype in ("bool", "str", "date", "time", "datetime", "duration", "category"):
            raise InvalidArgument(
                f"audit_stability: input_metric {metric} needs numbers, got {self.atom.dtype}"
            )

    def around(self, rows: list[Any]) -> Iterator[Group]:
        for sign in (1, -1):
            yield from self._grouped(
                rows, [(d, self._moved(rows, range(len(rows)), d, sign)) for d in self.d_in]
            )
            if len(rows) > 1:
                yield from self._grouped(
                    rows, [(d, self._moved(rows, (0,), d, sign)) for d in self.d_in]
                )

    def walk(self, rows: list[Any], rng: random.Random) -> Group | None:
        if not rows:
            return None
        places = rng.sample(range(len(rows)), rng.randint(1, min(len(rows), 3)))
        sign = rng.choice((1, -1))
        share = rng.choice((1, 1, Fraction(1, 2), Fraction(rng.randint(1, 16), 16)))
        return next(
            self._grouped(
                rows, [(d, self._moved(rows, places, d * share, sign)) for d in self.d_in]
            ),
            None,
        )

    def _grouped(
        self, rows: list[Any], moved: list[tuple[Distance, list[Any] | None]]
    ) -> Iterator[Group]:
        """Yield the group of a dataset and its moved versions, if there are any."""
        found = [(d, other) for d, other in moved if other is not None and other != rows]
        if found:
            pairs = [(0, i + 1, d) for i, (d, _) in enumerate(found)]
            yield Group(
                [self.space.build(rows), *(self.space.build(other) for _, other in found)], pairs
            )

    def _moved(
        self, rows: list[Any], places: Sequence[int], distance: Distance, sign: int
    ) -> list[Any] | None:
        """Return the rows with the numbers at `places` moved by `distance`, as far as their ranges
        allow; None if none can move.
        """
        share: Fraction = Fraction(distance)
        if self.metric in ("absolute", "l1") and places:
            share /= len(places)
        elif self.metric == "l2" and places:
            share = share * share / len(places)
            share = Fraction(math.isqrt(share.numerator * 10**40 // share.denominator), 10**20)
        found, moved = list(rows), False
        for place in places:
            value = self._step(found[place], share * sign)
            if value is not None:
                found[place], moved = value, True
        return found if moved else None

    def _step(self, value: Any, step: Fraction) -> Any:
        """Return the furthest value of the element type from `value` by at most `step`; None if
        there is no other value.
        """
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        low, high = self.atom.range or (-math.inf, math.inf)
        if isinstance(value, int):
            found: Any = value + (math.floor(step) if step > 0 else math.ceil(step))
        else:
            found = self._rounded(Fraction(value) + step, value)
        found = max(low, min(high, found))
        return found if found != value and self.atom.contains(found) else None

    def _rounded(self, target: Fraction, start: float) -> float:
        """Return the float nearest to `target` that lies between `start` and `target`."""
        try:
            found = float(target)
        except OverflowError:
            return start
        if self.atom.dtype == "f32":
            found = to_f32(found)
            if not math.isfinite(found):
                return start
            while abs(Fraction(found) - Fraction(start)) > abs(target - Fraction(start)):
                found = to_f32(
                    found - math.copysign(max(abs(found) * 2.0**-23, 1e-45), float(target) - start)
                )
            return found
        if abs(Fraction(found) - Fraction(start)) > abs(target - Fraction(start)):
            found = math.nextafter(found, start)
        return found


_ROW_METRICS = ("symmetric", "insert-delete", "change-one", "hamming", "discrete")
_NUMBER_METRICS = ("absolute", "l1", "l2", "linf")


Neighborhood = RowEdits | NumberMoves


def neighborhood(space: InputSpace, metric: str, d_in: Sequence[Distance]) -> Neighborhood:
    """Return the source of neighbors of a space under a metric. Raise InvalidArgument if the metric
    does not apply to the space.
    """
    if metric in _ROW_METRICS:
        if isinstance(space, ScalarOf) and metric != "discrete":
            raise InvalidArgument(
                "audit_stability: input_metric of a scalar must be absolute or discrete, "
                f"got {metric}"
            )
        return RowEdits(space, metric, d_in)
    if metric in _NUMBER_METRICS:
        if isinstance(space, VectorOf | ScalarOf) and isinstance(space, ScalarOf) == (
            metric == "absolute"
        ):
            return NumberMoves(space, metric, d_in)
        raise InvalidArgument(
            f"audit_stability: input_metric {metric} needs "
            f"{'a scalar' if metric == 'absolute' else 'a vector'} of numbers, got a "
            f"{space.to_json()['type']}"
        )
    if metric.startswith("user:"):
        return UserEdits(space, metric, d_in)
    if metric.startswith("by:"):
        return ColumnEdits(space, metric, d_in)
    raise InvalidArgument(
        f"audit_stability: input_metric {metric} has no known neighbors; use one of "
        f"{', '.join(_ROW_METRICS + _NUMBER_METRICS)}"
    )


_COPIES = (1, 2, 5, 30)  # numbers of rows that a user adds


class _GroupEdits(RowEdits):
    """Base of neighbors by edits of the rows with given values of one column."""

    def __init__(self, space: InputSpace, metric: str, d_in: Sequence[Distance]) -> None:
        prefix, _, rest = metric.partition(":")
        column = rest.removesuffix(":symmetric") if prefix == "by" else rest
        if not isinstance(space, FrameOf) or column not in space.columns or space.size is not None:
            raise InvalidArgument(
                "audit_stability: input_metric must be user:COLUMN or by:COLUMN:symmetric, on a "
                f"FrameOf with this column and any number of rows, got {metric}"
            )
        super().__init__(space, metric, d_in)
        self.at = list(space.columns).index(column)
        self.groups = [value for value in space.columns[column].values() if value == value]

    def _owned(self, row: Any, group: Any) -> Any:
        """Return the row with this value in the column."""
        return (*row[: self.at], group, *row[self.at + 1 :])


class ColumnEdits(_GroupEdits):
    """Neighbors by up to d_in edits of the rows with one value of a column, for several values at
    once.
    """

    def __init__(self, space: InputSpace, metric: str, d_in: Sequence[Distance]) -> None:
        super().__init__(space, metric, d_in)
        # largest number of values of a column that change together
        del self.groups[12:]

    def around(self, rows: list[Any]) -> Iterator[Group]:
        for value in self.values:
            for groups in (self.groups[:1], self.groups):
                added = [self._owned(value, group) for group in groups]
                yield self._group([(0, rows), *((n, rows + added * n) for n in self.counts)])

    def _edit(self, rows: list[Any], rng: random.Random, repeated: Any) -> tuple[int, list[Any]]:
        if rng.random() < 0.1:
            rng.shuffle(rows)
            return 0, rows
        for group in rng.sample(self.groups, rng.randint(1, len(self.groups))):
            mine = [i for i, row in enumerate(rows) if row[self.at] == group]
            if mine and rng.random() < 0.5:
                del rows[rng.choice(mine)]
            else:
                row = self._owned(self.space.random_row(rng), group)
                rows.insert(rng.choice((0, len(rows))), row)
        return 1, rows


class UserEdits(_GroupEdits):
    """Neighbors that differ in all rows of at most d_in users."""

    def around(self, rows: list[Any]) -> Iterator[Group]:
        users = self.groups[: self.counts[-1]] if self.counts else []
        for value in self.values:
            for copies in _COPIES:
                added = [self._owned(value, user) for user in users for _ in range(copies)]
                yield self._group(
                    [
                        (0, rows),
                        *((n, rows + added[: n * copies]) for n in self.counts if n <= len(users)),
                    ]
                )

    def _edit(self, rows: list[Any], rng: random.Random, repeated: Any) -> tuple[int, list[Any]]:
        owners = [row[self.at] for row in rows]
        user = rng.choice(owners) if owners and rng.random() < 0.5 else rng.choice(self.groups)
        kept = [row for row in rows if row[self.at] != user]
        way = rng.random()
        if way < 0.1:
            rng.shuffle(rows)
            return 0, rows
        mine = [] if way < 0.4 else [row for row in rows if row[self.at] == user]
        added = (
            [self._owned(self.space.random_row(rng), user) for _ in range(rng.choice(_COPIES))]
            if way < 0.9
            else []
        )
        at = rng.choice((0, len(kept)))
        return 1, kept[:at] + mine * (way > 0.6) + added + kept[at:]
