"""Random pairs of a domain of tables, drawn from the values that code suggests (its constants,
numbers of rows among them), from boundaries of types and of the calendar, and from rows that
repeat.
"""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import between, insert_record
from dpwitness.core.domains.columns import Column
from dpwitness.core.domains.frames import Table
from dpwitness.core.domains.records import Tabular
from dpwitness.core.protocols import FloatArray

_SIZES = (0, 1, 2, 3, 7, 40, 200)
_BOUNDARIES = sorted(
    {0, 1, -1, 10, 100, 1000, 10_000}
    | {edge + step for bits in (7, 8, 15, 16, 31, 32) for edge in (2**bits,) for step in (-1, 0)}
)
_MOST_VALUES = 64  # values of each column


@dataclass(frozen=True, slots=True)
class Draft:
    """A pair before it is built: the other rows, the changed row before and after, and its
    place.
    """

    crowd: FloatArray
    before: FloatArray
    after: FloatArray
    at: int
    style: int


class Drafts:
    """Random drafts of pairs of a domain of tables, whose values the code suggests. Other domains
    encode their data as the rows of a table: `rows`, `data_columns`, `styles` and `frames`.
    """

    def __init__(self, domain: Any, constants: Sequence[Any], rng: Generator) -> None:
        inner, self.styles, held = (
            (domain, 1, [])
            if isinstance(domain, Tabular)
            else (domain.rows, len(domain.styles), domain.data_columns)
        )
        most = inner.size - 1
        if isinstance(domain, Table):
            most += domain.largest - domain.records
        self.domain, self.inner, self.rng = domain, inner, rng
        own = [float(c) for c in constants if isinstance(c, int | float) and abs(c) < 1e300]
        numbers = [*own, *_combined(own)]
        self.width = len(inner.columns) + bool(inner.labels)
        # from the code, and others
        specs = [*held, *[None] * len(inner.columns)]
        around = _neighbors(numbers)
        self.values = [
            self._column_values(j, specs[j], constants, around) for j in range(len(inner.columns))
        ]
        if inner.labels:
            self.values.append((np.empty(0), np.array(sorted(set(inner.labels)))))
        self.replaced = inner.relation != "add-remove"  # whether a row changes, or is added
        sizes = {n + step for n in numbers if n == int(n) for step in (-2, -1, 0)}
        known = (most,) if domain.fixes_size else (*_SIZES, *sizes, most)
        self.sizes = sorted({int(n) for n in known if 0 <= n <= most})
        # large datasets take long to build: a few of them show what many show
        likely = 1 / (1 + np.array(self.sizes) / 40)
        self.likely = likely / likely.sum()
        self.multiplicities = [1, 1, 2, 3, *(int(n) for n in sizes if 0 < n <= most)]
        self.totals = [n for n in numbers if n > 0]
        # the positive numbers of the code, and the middles between them
        ends = np.unique([n for n in own if n > 0])
        self.steps = np.append(ends, (ends[1:] + ends[:-1]) / 2)

    def _column_values(
        self, j: int, spec: Column | None, constants: Sequence[Any], around: list[float]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the values of column `j` that the code suggests, and others.

        `around` holds the numbers in the code and their neighbors, and `spec` describes the column
        of a table.
        """
        low, high = self.inner.columns[j].tolist()
        suggested, others = around, [low, high, between(low, high, 0.5)]
        if spec is not None and spec.kind == "category":
            suggested = [float(i) for i, c in enumerate(spec.categories) if c in constants]
        elif spec is not None and spec.kind == "date":
            suggested = [float(day) for day in _days(constants)]
            others += _calendar(low, high)
        else:
            others += _BOUNDARIES
        if j in self.inner.integer_columns:
            if high - low < _MOST_VALUES:
                others += np.arange(low, high + 1).tolist()
            suggested = [edge for v in suggested for edge in {math.floor(v), math.ceil(v)}]
            others = [float(round(v)) for v in others]
        return (
            _inside(suggested, low, high)[:_MOST_VALUES],
            np.append(
                _inside(others, low, high),
                [math.nan] * self.inner.missing + [math.inf, -math.inf] * self.inner.infinite,
            ),
        )

    def pair(self, draft: Draft) -> Pair | None:
        """Return the pair of a draft; None if it is not a pair of the domain."""
        d0, d1, remark = self.sides(draft)
        found: Pair | None = self.domain.pair(d0, d1, f"found by coupled runs{remark}")
        return found

    def sides(self, draft: Draft) -> tuple[Any, Any, str]:
        """Return the datasets of a draft, which need not be a pair of the domain: it takes longer
        to check this than to run a mechanism on them. The text is a remark on them.
        """
        place: Callable[[int], int] = lambda count: min(draft.at, count)  # noqa: E731
        base = insert_record(draft.crowd, draft.before, place) if self.replaced else draft.crowd
        more = insert_record(draft.crowd, draft.after, place)
        if not isinstance(self.domain, Tabular):
            found: tuple[Any, Any, str] = self.domain.frames(base, more, draft.style)
            return found
        return self.inner.dataset(base), self.inner.dataset(more), ""

    def cell(self, column: int, size: int) -> float:
        """Return a random value of a column, most often one that the code suggests."""
        rng, (suggested, others) = self.rng, self.values[column]
        draw = rng.random()
        if len(suggested) and draw < 0.5:
            return float(rng.choice(suggested))
        if draw < 0.85 or column >= len(self.inner.columns):
            return float(rng.choice(others))
        low, high = self.inner.columns[column].tolist()
        if self.totals and draw < 0.92:  # a value of which the sum reaches a constant
            value = float(rng.choice(self.totals)) / max(size, 1)
        else:
            value = float(between(low, high, rng.random()))
        value = min(max(value, low), high)
        return float(round(value)) if column in self.inner.integer_columns else value

    def row(self, size: int) -> FloatArray:
        """Return a random row; columns that flag missing values are mostly unset."""
        return np.array([self.cell(column, size) for column in range(self.width)])

    def draft(self) -> Draft:
        """Return a random draft."""
        rng = self.rng
        count = self.size()
        after = self.row(count)
        before = self.row(count) if rng.random() < 0.3 else self.redrawn(after, count)
        kind = rng.random()
        if kind < 0.3:
            crowd = np.tile(self.row(count), (count, 1))
        elif kind < 0.5:
            crowd = np.tile(self.redrawn(after, count), (count, 1))
        elif kind < 0.55:
            crowd = np.tile(after, (count, 1))
        elif kind < 0.7:
            kinds = np.array([self.row(count) for _ in range(3)])
            crowd = kinds[rng.integers(3, size=count)]
        elif kind < 0.8:  # in one column, all values that the code suggests
            column = int(rng.integers(self.width))
            suggested, others = self.values[column]
            crowd = np.tile(self.row(count), (count, 1))
            values = suggested if len(suggested) else others
            crowd[:, column] = np.resize(rng.permutation(values), count)
        else:  # different or equal rows, and a few equal to the changed one
            different = min(count, 40) or 1 if kind < 0.9 else 1
            kinds = np.array([self.row(count) for _ in range(different)])
            crowd = np.resize(kinds, (count, self.width))
            copies = min(count, int(rng.choice(self.multiplicities)))
            crowd[rng.permutation(count)[:copies]] = after
        return Draft(crowd, before, after, int(rng.integers(count + 1)), self.style())

    def size(self) -> int:
        """Return a random number of other rows."""
        return int(self.rng.choice(self.sizes, p=self.likely))

    def style(self) -> int:
        return int(self.rng.integers(2 * self.styles))

    def redrawn(self, row: FloatArray, size: int) -> FloatArray:
        """Return a copy of a row with one cell drawn again. Sometimes the new value is at a
        distance from the old one that occurs as a constant in the code.
        """
        rng, found = self.rng, row.copy()
        column = int(rng.integers(self.width))
        if column < len(self.inner.columns) and len(self.steps) and rng.random() < 0.1:
            moved = row[column] + rng.choice(self.steps) * rng.choice([-1, 1])
            moved = np.clip(moved, *self.inner.columns[column])
            found[column] = np.rint(moved) if column in self.inner.integer_columns else moved
        else:
            found[column] = self.cell(column, size)
        return found

    def changed(self, draft: Draft) -> Draft:
        """Return a draft of a pair with one part changed at random."""
        rng, count = self.rng, len(draft.crowd)
        choice, crowd = rng.random(), draft.crowd.copy()
        if choice < 0.25:
            return replace(draft, after=self.redrawn(draft.after, count))
        if choice < 0.4:
            return replace(draft, before=self.redrawn(draft.before, count))
        if choice < 0.5 and count:  # one row of the crowd, or one column of all rows
            place = rng.integers(count) if rng.random() < 0.5 else slice(None)
            column = int(rng.integers(self.width))
            crowd[place, column] = self.cell(column, count)
            return replace(draft, crowd=crowd)
        if choice < 0.6 and count:
            crowd[rng.integers(count)] = draft.after if rng.random() < 0.5 else draft.before
            return replace(draft, crowd=crowd)
        if choice < 0.75 and len(self.sizes) > 1:
            size = self.size() if rng.random() < 0.5 else count + int(rng.choice([-1, 1]))
            size = min(max(size, min(self.sizes)), max(self.sizes))
            rows = np.resize(np.arange(count), size) if count else np.zeros(size, dtype=int)
            source = crowd if count else draft.after[None]
            return replace(draft, crowd=source[rows], at=min(draft.at, size))
        if choice < 0.85:
            return replace(draft, at=int(rng.integers(count + 1)), style=self.style())
        if choice < 0.95 and len(self.inner.columns):  # between two values, a boundary is nearer
            column = int(rng.integers(len(self.inner.columns)))
            after = draft.after.copy()
            after[column] = between(after[column], draft.before[column], 0.5)
            if column in self.inner.integer_columns:
                after[column] = round(after[column])
            return replace(draft, after=after)
        return self.draft()


def _combined(numbers: Sequence[float]) -> list[float]:
    """Return products and quotients of the first of some numbers: code may scale a value before it
    compares the value.
    """
    first = [number for number in numbers[:8] if number not in (0.0, 1.0, -1.0)]
    both = [(a, b) for a in first for b in first if a != b]
    return list(filter(math.isfinite, [a * b for a, b in both] + [a / b for a, b in both]))


def _neighbors(numbers: Sequence[float]) -> list[float]:
    """Return some numbers, and those next to them: at a distance of 1 from whole numbers."""
    return [
        number + move * (1.0 if number == int(number) else 1e-6 * abs(number))
        for number in numbers
        for move in (0, -1, 1)
    ]


def _inside(values: Sequence[float], low: float, high: float) -> FloatArray:
    """Return the distinct values in an interval, in their order."""
    return np.array(list(dict.fromkeys(float(v) for v in values if low <= v <= high)))


def _days(constants: Sequence[Any]) -> Iterator[int]:
    """Yield the days of the texts that are dates, and of the days before and after."""
    for constant in constants:
        with contextlib.suppress(TypeError, ValueError):
            day = (datetime.date.fromisoformat(constant) - datetime.date(1970, 1, 1)).days
            yield from (day, day - 1, day + 1)


def _calendar(low: float, high: float) -> list[float]:
    """Return days at boundaries of the calendar: ends of months and years, and leap days."""
    epoch, found = datetime.date(1970, 1, 1), []
    first, last = (epoch + datetime.timedelta(days=int(day)) for day in (low, high))
    years = sorted({first.year, first.year + 1, (first.year + last.year) // 2, last.year})
    years += [year for year in range(first.year, last.year + 1) if year % 4 == 0][:3]
    for year in years:
        for month, day in ((1, 1), (2, 28), (2, 29), (3, 1), (6, 30), (12, 31)):
            with contextlib.suppress(ValueError):
                found.append(float((datetime.date(year, month, day) - epoch).days))
    return found
