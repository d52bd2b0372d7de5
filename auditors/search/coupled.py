"""Search by coupled runs: pairs on which the output of a mechanism moves further than on the pairs
of the catalog.

Two **coupled** runs have the same randomness, one on each dataset. Additive noise cancels in the
difference of their outputs, so two runs show what an audit needs thousands for: how far a pair
moves the output, in units of the noise. The search scores thousands of pairs in this way. It draws
them from the values that the code itself suggests (its constants, numbers of rows among them), from
boundaries of types and of the calendar, and from rows that repeat; most later pairs are random
changes of the best, and of those on which the user's own code takes a branch for the first time.

A score only ranks: it takes one or a few seeds, and no test counts its runs. A pair that moves the
output no further than the catalog does is not suggested.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from types import FrameType
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.search.maximize import shrunk
from dpwitness.auditors.workers.fresh_processes import is_own
from dpwitness.auditors.workers.rounds import Stage, current_lock, run_side, stream, task_lock
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import Domain, between, insert_record
from dpwitness.core.domains.columns import Column
from dpwitness.core.domains.frames import Table
from dpwitness.core.domains.records import Tabular
from dpwitness.core.protocols.mechanism import FloatArray, ForeignMechanism
from dpwitness.mechanisms.wrappers import global_generators

FEWEST_PAIRS = 50  # a search of fewer pairs would find nothing
MOST_PAIRS = 4000
_SUGGESTED = 3
_PARENTS = 12  # drafts of a kind that are kept, to be changed into later drafts
_MORE_SEEDS = 4  # seeds that confirm a score
_SPREAD_RUNS = 24  # runs on a dataset that give the spread of each number
_SIZES = (0, 1, 2, 3, 7, 40, 200)
_BOUNDARIES = sorted(
    {0, 1, -1, 10, 100, 1000, 10_000}
    | {edge + step for bits in (7, 8, 15, 16, 31, 32) for edge in (2**bits,) for step in (-1, 0)}
)
_MOST_VALUES = 64  # values of each column

NUMBER, STRUCTURE, EXACT = range(3)  # kinds of differences: see `_Coupled.difference`


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


class _Branches:
    """Steps from line to line that runs take in a user's own code, outside of libraries."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int, int]] = set()
        self.taken: set[tuple[str, int, int]] = set()  # in the last block
        self._own: dict[str | None, bool] = {}  # by name of a module

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Collect the steps of the block, unless a debugger or another tool watches this thread."""
        self.taken = set()
        if sys.gettrace() is not None:
            yield
            return
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(None)

    def new(self) -> bool:
        """Return whether the last block took steps that none before it took, and remember them."""
        found = not self.taken <= self.seen
        self.seen |= self.taken
        return found

    def _entered(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        module = frame.f_globals.get("__name__")
        own = self._own.get(module)
        if own is None:
            own = self._own[module] = is_own(module)
        if not own:  # most calls
            return None
        file, last, taken = frame.f_code.co_filename, frame.f_lineno, self.taken

        def step(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            nonlocal last
            line = frame.f_lineno
            taken.add((file, last, line))
            last = line
            return step

        return step


class _Coupled:
    """Coupled runs of a mechanism, and the spread of each number of its outputs."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.runs, self.branches = stage, 0, _Branches()
        self.counts_left = 0  # pairs whose structures are counted
        # the worker of a target seeds the global generators itself
        self.seeding = not isinstance(getattr(stage.run, "__self__", None), ForeignMechanism)
        self._spreads: dict[float, FloatArray] = {}

    def output(self, dataset: Any, seed: int, size: int = 1) -> Outputs:
        """Return the outputs of `size` runs on a dataset with the randomness of number `seed`."""
        rng = stream(self.stage.seed, *self.stage.key, seed)
        if self.seeding:
            global_generators.seed(global_generators.words_of(rng))
        self.runs += size
        return run_side(self.stage.run, dataset, size, rng)

    def repeats(self, dataset: Any) -> bool:
        """Return whether runs with the same randomness agree."""
        first, again = (self.output(dataset, 0, 4) for _ in range(2))
        return first.codes.tolist() == again.codes.tolist() and np.array_equal(
            first.values, again.values, equal_nan=True
        )

    def difference(self, d0: Any, d1: Any, seed: int) -> tuple[int, float]:
        """Return the kind and the size of the difference of two coupled outputs.

        Kinds are numbers that move, in units of their spread; another structure; and numbers that
        move although they have no noise.
        """
        with self.branches.watched():
            one = self.output(d1, seed)
        zero = self.output(d0, seed)
        if one.codes[0] != zero.codes[0] or one.values.shape != zero.values.shape:
            return STRUCTURE, 1.0
        a, b = one.values[0], zero.values[0]
        with np.errstate(invalid="ignore", over="ignore"):
            moved = np.abs(a - b)
        moved[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
        moved[np.isnan(moved)] = math.inf
        if not moved.any():
            return NUMBER, 0.0
        code = float(one.codes[0])
        spread = self._spreads.get(code)
        if spread is None or len(spread) != len(a):
            spread = self._measured(d0, code, len(a))
        if ((moved > 0) & (spread == 0)).any():
            for dataset in (d1, d0):
                spread = np.maximum(spread, self._measured(dataset, code, len(a)))
        self._spreads[code] = spread
        if ((moved > 0) & (spread == 0)).any():
            return EXACT, 1.0
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            size = np.where(moved > 0, moved / spread, 0.0)
        return NUMBER, float(np.nan_to_num(size, nan=0.0, posinf=1e300).max())

    def scored(self, d0: Any, d1: Any, seed: int) -> tuple[int, float]:
        """Return the kind and the size of a difference. The size of a difference in structure takes
        many runs, and is 0 once these are spent.
        """
        kind, size = self.difference(d0, d1, seed)
        if kind == STRUCTURE:
            self.counts_left -= 1
            size = self.structures(d0, d1, seed, _SPREAD_RUNS) if self.counts_left >= 0 else 0.0
        return kind, size

    def structures(self, d0: Any, d1: Any, seed: int, size: int) -> float:
        """Return the largest log-ratio of the frequencies of a structure in `size` outputs on each
        dataset.
        """
        sides = [self.output(dataset, seed, size).codes for dataset in (d1, d0)]
        codes = np.unique(np.concatenate(sides))
        ones, zeros = ((side[:, None] == codes).sum(axis=0) + 0.5 for side in sides)
        return float(np.abs(np.log(ones / zeros)).max())

    def typical(self, pair: Pair, kind: int) -> float:
        """Return the upper median of the differences of a kind over some seeds; of structures, the
        size in more runs.
        """
        if kind == STRUCTURE:
            return self.structures(pair.d0, pair.d1, 3, 2 * _SPREAD_RUNS)
        found = [self.difference(pair.d0, pair.d1, 3 + k) for k in range(_MORE_SEEDS)]
        return sorted(size if k == kind else 0.0 for k, size in found)[_MORE_SEEDS // 2]

    def _measured(self, dataset: Any, code: float, width: int) -> FloatArray:
        """Return the mean absolute deviation of each number over some runs on a dataset."""
        found = self.output(dataset, 1, _SPREAD_RUNS)
        rows = found.values[found.codes == code][:, :width]
        if len(rows) < 3 or rows.shape[1] < width:
            return np.zeros(width)
        with np.errstate(invalid="ignore", over="ignore"):
            spread = np.mean(np.abs(rows - np.median(rows, axis=0)), axis=0)
        return np.asarray(np.nan_to_num(spread, nan=0.0, posinf=1e300))


class Drafts:
    """Random drafts of pairs of a table domain, whose values the code suggests."""

    def __init__(self, domain: Tabular | Table, constants: Sequence[Any], rng: Generator) -> None:
        inner, self.styles, held, most = (
            (domain.rows, len(domain.styles), domain.data_columns, domain.largest - domain.records)
            if isinstance(domain, Table)
            else (domain, 1, [], 0)
        )
        most += inner.size - 1
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
        return self.domain.pair(d0, d1, f"found by coupled runs{remark}")

    def sides(self, draft: Draft) -> tuple[Any, Any, str]:
        """Return the datasets of a draft, which need not be a pair of the domain: it takes longer
        to check this than to run a mechanism on them. The text is a remark on them.
        """
        place: Callable[[int], int] = lambda count: min(draft.at, count)  # noqa: E731
        base = insert_record(draft.crowd, draft.before, place) if self.replaced else draft.crowd
        more = insert_record(draft.crowd, draft.after, place)
        if isinstance(self.domain, Table):
            return self.domain.frames(base, more, draft.style)
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
        elif kind < 0.6:
            crowd = np.tile(after, (count, 1))
        elif kind < 0.8:
            kinds = np.array([self.row(count) for _ in range(3)])
            crowd = kinds[rng.integers(3, size=count)]
        elif kind < 0.9:  # in one column, all values that the code suggests
            column = int(rng.integers(self.width))
            suggested, others = self.values[column]
            crowd = np.tile(self.row(count), (count, 1))
            values = suggested if len(suggested) else others
            crowd[:, column] = np.resize(rng.permutation(values), count)
        else:  # different rows, a few of them equal to the changed one
            kinds = np.array([self.row(count) for _ in range(min(count, 40) or 1)])
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
        """Return a row with one other cell, at times at a distance that the code suggests."""
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
        """Return a draft with one other part."""
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


@task_lock()
def coupled_pairs(
    stage: Stage,
    domain: Domain,
    constants: Sequence[Any],
    known: Sequence[Pair],
    pairs: int,
    seconds: float,
) -> tuple[list[Pair], bool]:
    """Return pairs of a domain of tables on which coupled outputs differ more than on known pairs.

    Parameters
    ----------
    stage : Stage
        The mechanism, and the root seed and key of its randomness.
    domain : Domain
        The datasets. Other domains than tables, rows and records have no suggestions.
    constants : sequence
        Numbers and texts in the code of the mechanism.
    known : sequence of Pair
        The pairs of the catalog.
    pairs : int
        Number of pairs to score.
    seconds : float
        Limit of the duration.

    Returns
    -------
    list of Pair
        At most three pairs, those that differ most first.
    bool
        Whether the limit of the duration ended the search.
    """
    if not isinstance(domain, Tabular | Table) or pairs < FEWEST_PAIRS:
        return [], False
    runs, end = _Coupled(stage), monotonic() + seconds
    # as many runs as one for each of `pairs`; for the catalog and for the search
    runs.counts_left = counts = max(pairs // _SPREAD_RUNS, 8)
    drafts = Drafts(domain, constants, stream(stage.seed, *stage.key))
    with current_lock().seeding(), global_generators.seeded([0, 0, 0, 0]):
        if not runs.repeats(known[0].d0):
            return [], False
        least = dict.fromkeys((NUMBER, STRUCTURE, EXACT), 0.0)
        for pair in known[:40]:
            kind, size = runs.scored(pair.d0, pair.d1, 2)
            runs.branches.new()
            if size > least[kind]:
                least[kind] = runs.typical(pair, kind) if kind == STRUCTURE else size
        runs.counts_left = counts
        best: dict[int, list[tuple[float, Draft]]] = {}  # by kind, with the size of the difference
        branching: list[Draft] = []  # drafts that take a branch first
        for number in range(pairs):
            if monotonic() > end:
                break
            parents = [draft for kept in best.values() for _, draft in kept] + branching
            fresh = not parents or number < pairs // 3 or number % 3 == 0
            draft = (
                drafts.draft()
                if fresh
                else drafts.changed(parents[int(drafts.rng.integers(len(parents)))])
            )
            kind, size = runs.scored(*drafts.sides(draft)[:2], 2 + number % _MORE_SEEDS)
            kept = best.setdefault(kind, [])
            # only a draft that leads is checked here: this takes longer than the runs
            if size > (kept[0][0] if kept else 0.0) and drafts.pair(draft) is None:
                continue
            kept.extend([(size, draft)] if size > 0 else [])
            kept.sort(key=lambda each: -each[0])
            del kept[_PARENTS:]
            branching.extend([draft] if runs.branches.new() else [])
            del branching[:-_PARENTS]
        found = [
            _simplest(runs, domain, pair, kind, 0.9 * size, end + seconds / 4)
            for pair, kind, size in _suggestions(runs, drafts, best, least)
        ]
        return found, monotonic() > end


def _suggestions(
    runs: _Coupled,
    drafts: Drafts,
    best: dict[int, list[tuple[float, Draft]]],
    least: dict[int, float],
) -> list[tuple[Pair, int, float]]:
    """Return the pairs whose differences are beyond those of the catalog with most seeds, and the
    kind and the size of the difference.
    """
    found: list[tuple[Pair, int, float]] = []
    for kind in (EXACT, STRUCTURE, NUMBER):
        if kind == EXACT and least[kind]:
            continue
        checked = (drafts.pair(draft) for _, draft in best.get(kind, ()))
        for pair in itertools.islice(filter(None, checked), _SUGGESTED):
            size = runs.typical(pair, kind)
            # a log-ratio of 1.5 of the frequencies of a structure is hardly chance
            if size > 1.3 * max(least[kind], 1.5 if kind == STRUCTURE else 0.0):
                found.append((pair, kind, size))
    return found[:_SUGGESTED]


def _simplest(
    runs: _Coupled, domain: Domain, pair: Pair, kind: int, least: float, until: float
) -> Pair:
    """Return the simplest pair that is reached from `pair` in the time, and whose difference is at
    least `least`.
    """
    end = runs.runs + 400
    return shrunk(
        pair,
        domain.simpler,
        lambda simpler: runs.typical(simpler, kind) >= least,
        lambda: runs.runs >= end or monotonic() > until,
    )
