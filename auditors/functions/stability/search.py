"""Search for two inputs whose outputs are further apart than the stability map allows: a fast
sweep, random walks, then Hypothesis; and shrinking of a finding to the smallest inputs.
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as seeded
from hypothesis import strategies as st

from dpwitness.auditors.functions.stability.inputs.neighbors import Group, Neighborhood
from dpwitness.auditors.functions.stability.inputs.spaces import InputSpace
from dpwitness.auditors.functions.stability.metrics import (
    Exact,
    Incomparable,
    Metric,
    input_key,
    rounds,
)
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.domains.base import without
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import error_text
from dpwitness.mechanisms.wrappers.programs.declared import Aborted, Unfinished

EXCEEDS, ROUNDING, RAISES, ABORTS = "exceeds", "rounding", "raises", "aborts"
# of a randomized transformation: outputs exceed the map in more runs than random numbers explain
LAW = "law"
SEVERITY = (EXCEEDS, ABORTS, RAISES, ROUNDING)


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception or an abort as an outcome."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text if self.kind == ABORTS else f"raises {self.text}"


@dataclass(frozen=True, slots=True)
class Excess:
    """Comparison of two outcomes: the kind of finding, the distance to the power `root` (None for
    errors), and its ratio to the bound.
    """

    kind: str
    measured: Exact | None
    ratio: float


def outcome_of(value: Any) -> Any:
    """Return a value as it is, and an exception as a Failure."""
    if not isinstance(value, BaseException) or isinstance(value, Unfinished):
        return value
    if isinstance(value, Aborted):
        return Failure(ABORTS, str(value))
    return Failure(RAISES, error_text(value))


def applier(transformation: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that applies a transformation to datasets, which it may change, and returns
    the outcomes in order.
    """
    apply_all = getattr(transformation, "apply_all", None)
    if callable(apply_all):
        return lambda datasets: [outcome_of(value) for value in apply_all(list(datasets))]
    return partial(_apply, transformation)


def _apply(transformation: Any, datasets: Sequence[Any]) -> list[Any]:
    """Return the outcomes of a transformation on datasets."""
    found: list[Any] = []
    for dataset in datasets:
        try:
            found.append(transformation(copied(dataset)))
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            found.append(outcome_of(error))
    return found


def copied(dataset: Any) -> Any:
    """Return a copy of a dataset that a transformation may change."""
    if type(dataset) is list:
        return dataset[:]
    if type(dataset) is dict:
        return {
            key: column[:] if type(column) is list else copy.deepcopy(column)
            for key, column in dataset.items()
        }
    return dataset if isinstance(dataset, int | float | str | None) else copy.deepcopy(dataset)


class Comparison:
    """Comparison of outcomes with the values of a stability map."""

    def __init__(self, metric: Metric, bounds: Mapping[Any, Exact]) -> None:
        self.metric, self.bounds = metric, dict(bounds)
        self._floats = {d: float(bound) for d, bound in bounds.items()}
        self.incomparable = ""

    def ratio(self, first: Any, second: Any, d_in: Any) -> float:
        """Return the estimated ratio of the outputs' distance to the bound; NaN if there is none,
        or an outcome is an error.
        """
        if isinstance(first, Failure | Unfinished) or isinstance(second, Failure | Unfinished):
            return math.nan
        try:
            distance = self.metric.estimate(first, second)
        except (Incomparable, TypeError) as error:  # TypeError: a value without a hash
            self.incomparable = self.incomparable or str(error)
            return math.nan
        except OverflowError:
            return math.inf
        bound = self._floats[d_in]
        return distance / bound if bound > 0 else math.inf if distance > 0 else 0.0

    def excess(self, first: Any, second: Any, d_in: Any) -> Excess | None:
        """Return what two outcomes show beyond the map, by exact arithmetic; None if nothing."""
        if isinstance(first, Unfinished) or isinstance(second, Unfinished):
            return None
        failures = [side for side in (first, second) if isinstance(side, Failure)]
        if failures:
            kinds = {side.kind for side in failures}
            if len(failures) == 2 and len(kinds) == 1:
                return None
            return Excess(ABORTS if ABORTS in kinds else RAISES, None, math.inf)
        bound, root = self.bounds[d_in], self.metric.root
        try:
            measured = self.metric.measure(first, second)
        except (Incomparable, TypeError) as error:
            self.incomparable = self.incomparable or str(error)
            return None
        allowed = bound**root
        if not measured > allowed:
            return None
        ratio = _ratio(measured, allowed, root)
        rounded = rounds(
            measured if isinstance(measured, float) else measured - allowed,
            allowed,
            root,
            [first, second],
        )
        return Excess(ROUNDING if rounded else EXCEEDS, measured, ratio)


def _ratio(measured: Exact, allowed: Exact, root: int) -> float:
    """Return the ratio of a distance to its bound as a float."""
    if isinstance(measured, float) or not allowed:
        return math.inf
    try:
        ratio = float(Fraction(measured) / Fraction(allowed))
        return math.sqrt(ratio) if root == 2 else ratio
    except OverflowError:
        return math.inf


_POOL = 32  # datasets with the largest ratios, from which random walks start


@dataclass(frozen=True, slots=True)
class Found:
    """Two inputs within the distance `d_in`, their outcomes, and what these show."""

    first: Any
    second: Any
    d_in: Any
    outcomes: tuple[Any, Any]
    excess: Excess


@dataclass(slots=True)
class Search:
    """State of a search: what was found by kind, the numbers of inputs and pairs, and the largest
    ratio.
    """

    apply: Callable[[Sequence[Any]], list[Any]]
    comparison: Comparison
    deadline: float
    spent: Callable[[], bool] = lambda: False  # whether the transformation can be run no further
    found: dict[str, Found] = field(default_factory=dict)
    inputs: int = 0
    pairs: int = 0
    failed: int = 0  # pairs of which both outcomes are errors
    incomparable: int = 0  # pairs of outputs to which the metric does not apply
    unfinished: int = 0
    ratio: float = 0.0
    last: float = 0.0  # largest ratio of the last group
    pool: list[tuple[float, Any]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Return whether a violation was found or the time is over."""
        return EXCEEDS in self.found or time.monotonic() > self.deadline or self.spent()

    @property
    def best(self) -> Found | None:
        """Return the most severe finding."""
        return next((self.found[kind] for kind in SEVERITY if kind in self.found), None)

    def test(self, groups: Sequence[Group]) -> None:
        """Apply the transformation to the datasets of the groups, and compare their pairs."""
        datasets = [dataset for group in groups for dataset in group.datasets]
        outcomes = iter(self.apply(datasets))
        self.inputs += len(datasets)
        for group in groups:
            self._compare(group, list(islice(outcomes, len(group.datasets))))

    def _compare(self, group: Group, outcomes: list[Any]) -> None:
        comparison = self.comparison
        self.pairs += len(group.pairs)
        highest = 0.0
        for i, j, d_in in group.pairs:
            ratio = comparison.ratio(outcomes[i], outcomes[j], d_in)
            highest = max(highest, ratio)
            # an estimate near the bound is replaced by the exact distance
            if not ratio < 1 - 1e-9:
                excess = comparison.excess(outcomes[i], outcomes[j], d_in)
                if excess is not None and excess.kind not in self.found:
                    self.found[excess.kind] = Found(
                        group.datasets[i],
                        group.datasets[j],
                        d_in,
                        (outcomes[i], outcomes[j]),
                        excess,
                    )
                if excess is None and math.isnan(ratio):
                    self._count_uncompared(outcomes[i], outcomes[j])
        self.last = highest
        if self.ratio < highest < math.inf:
            self.ratio = highest
        # random walks start at the first dataset of a group whose ratio is among the largest
        if len(self.pool) < _POOL or highest > self.pool[-1][0]:
            self.pool.append((highest, group.datasets[-1]))
            self.pool.sort(key=lambda entry: -entry[0])
            del self.pool[_POOL:]

    def _count_uncompared(self, first: Any, second: Any) -> None:
        """Count a pair without a comparison by its reason."""
        if isinstance(first, Unfinished) or isinstance(second, Unfinished):
            self.unfinished += 1
        elif isinstance(first, Failure):
            self.failed += 1
        else:
            self.incomparable += 1

    def run(self, groups: Iterable[Group], until: float) -> None:
        """Test groups in batches until a violation is found, the groups are spent, or the time
        `until` is over.
        """
        source = iter(groups)
        size = 4
        while not self.done and time.monotonic() < until:
            batch = list(islice(source, size))
            if not batch:
                return
            begin = time.monotonic()
            self.test(batch)
            seconds = time.monotonic() - begin
            # most groups in a batch
            # duration of a batch above which the next one is smaller
            size = max(1, size // 2) if seconds > 0.2 else min(2 * size, 64)


def sweep(space: InputSpace, neighborhood: Neighborhood, inputs: Sequence[Any]) -> Iterator[Group]:
    """Yield the adversarial groups: those around given inputs, then the first around each dataset,
    then the others.
    """
    rows = chain(map(space.rows, inputs), space.bases())
    later = []
    for base in rows:
        groups = neighborhood.around(base)
        # first groups of each dataset that the sweep tries before it comes to the others
        yield from islice(groups, 12)
        later.append(groups)
    for groups in later:
        yield from groups


def walks(
    space: InputSpace, neighborhood: Neighborhood, search: Search, rng: random.Random
) -> Iterator[Group]:
    """Yield random groups; half of them start at datasets whose outputs moved far."""
    misses = 0
    while misses < 10_000:
        if search.pool and rng.random() < 0.5:
            rows = space.rows(rng.choice(search.pool)[1])
            if rows and rng.random() < 0.5:
                rows[rng.randrange(len(rows))] = space.random_row(rng)
        else:
            rows = space.random_rows(rng)
        group = neighborhood.walk(rows, rng)
        misses = misses + 1 if group is None else 0
        if group is not None:
            yield group


_ROWS = 12  # largest number of different rows of a generated dataset


def run_search(
    space: InputSpace,
    neighborhood: Neighborhood,
    search: Search,
    inputs: Sequence[Any],
    seconds: float,
    seed: int,
) -> None:
    """Run the three stages of a search, each with its share of the time."""
    start, rng = time.monotonic(), random.Random(seed)
    swept, walked = sweep(space, neighborhood, inputs), walks(space, neighborhood, search, rng)
    # adversarial groups before random walks take turns with them
    search.run(islice(swept, 1500), start + 0.6 * seconds)
    search.run(chain.from_iterable(zip(swept, walked, strict=False)), start + 0.6 * seconds)
    search.run(walked, start + 0.8 * seconds)
    if not search.done:
        run_generated(space, neighborhood, search, seed)


def run_generated(space: InputSpace, neighborhood: Neighborhood, search: Search, seed: int) -> None:
    """Test generated groups until a violation is found or the time is over."""
    bases: Any = st.lists(space.row_strategy(), max_size=_ROWS)
    if space.size is not None:
        size = space.size
        distinct = st.lists(space.row_strategy(), min_size=min(size, 1), max_size=min(size, _ROWS))
        bases = distinct.map(lambda rows: [rows[i % len(rows)] for i in range(size)])

    @seeded(seed)
    @settings(
        max_examples=10**6,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.target),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(bases, st.integers(0, 2**32 - 1))
    def attempt(rows: list[object], steps: int) -> None:
        if search.done:
            raise _Finished
        group = neighborhood.walk(rows, random.Random(steps))
        if group is None:
            return
        search.test([group])
        if math.isfinite(search.last):
            target(search.last)

    try:
        attempt()
    except _Finished:
        pass
    except Exception as error:
        if not search.done or type(error).__name__ not in (
            "Flaky",
            "FlakyFailure",
            "FlakyReplay",
            "ExceptionGroup",
        ):
            raise


class _Finished(BaseException):
    """Raised to end the generation."""


class DomainSpace:
    """A domain as the set of inputs of a transformation."""

    size = 0  # rows are neither added nor removed by a shrink

    def __init__(self, domain: Domain, metric: Metric) -> None:
        self.domain, self.metric = domain, metric

    def contains(self, dataset: Any) -> bool:
        """Return whether a dataset belongs to the domain."""
        return self.domain.contains(dataset)

    def to_json(self) -> Json | None:
        """Return None: a witness holds its inputs, and the domain is not needed again."""
        return None

    def datasets(self) -> Iterator[Any]:
        """Yield datasets of the domain."""
        return (pair.d0 for pair in self.domain.catalogue() if pair is not None)

    def rows(self, dataset: Any) -> list[Any]:
        """Return the dataset as a single row, so that shrinking does not change it."""
        return [dataset]

    def build(self, rows: list[Any]) -> Any:
        """Return the dataset that `rows` returned as a single row."""
        return rows[0]

    def simpler_rows(self, row: Any) -> Iterator[Any]:
        """Yield nothing: the datasets of a domain are not simplified."""
        return iter(())

    def groups(self, search: Search, seed: int) -> Iterator[Group]:
        """Yield the catalogued pairs, then random ones, whose distance is at most an audited
        one.
        """
        for pair in chain(self.domain.catalogue(), self._draws(seed)):
            if pair is None:
                continue
            try:
                distance = self.metric.measure(pair.d0, pair.d1, strict=True)
            except Incomparable as error:
                search.comparison.incomparable = (
                    search.comparison.incomparable or f"input_metric {self.metric.name}: {error}"
                )
                continue
            within = _smallest_bound(distance, self.metric, search.comparison)
            if within is not None:
                yield Group([pair.d0, pair.d1], [(0, 1, within)])

    def _draws(self, seed: int) -> Iterator[Pair | None]:
        draws, misses, turn = self.domain.draws(np.random.default_rng(seed)), 0, 0
        # random draws without a pair after which the search ends
        while misses < 10_000:
            pair = draws(turn)
            misses, turn = (misses + 1 if pair is None else 0), turn + 1
            yield pair


def _smallest_bound(distance: Exact, metric: Metric, comparison: Comparison) -> Any:
    """Return the smallest audited `d_in` that a distance does not exceed; None if there is none."""
    return next((d for d in sorted(comparison.bounds) if not distance > d**metric.root), None)


RowPair = tuple[list[Any], list[Any]]


def shrunk(
    found: Found, space: InputSpace, input_metric: Metric, search: Search, seconds: float
) -> Found:
    """Return the finding with smaller inputs: fewer rows, simpler values, and the
    smallest `d_in`.
    """
    deadline = time.monotonic() + seconds
    improved = True
    while improved:
        improved = False
        for candidates in (_with_less_rows, _with_simpler_values, _with_simpler_entries):
            place = 0
            while time.monotonic() < deadline:
                rows = space.rows(found.first), space.rows(found.second)
                left = islice(candidates(*rows, space), place, None)
                better, passed = _next_better(found, left, space, input_metric, search)
                place += passed
                if better is None:
                    break
                found, improved = better, True
    return found


def _next_better(
    found: Found, candidates: Iterator[RowPair], space: InputSpace, metric: Metric, search: Search
) -> tuple[Found | None, int]:
    """Return the first candidate that shows the same kind of finding, None if there is none, and
    the number of candidates before it.
    """
    passed = 0
    # candidates that are evaluated together
    while batch := list(islice(candidates, 16)):
        tried = []
        for at, rows in enumerate(batch):
            first, second = map(space.build, rows)
            if (first, second) != (found.first, found.second):
                within = distance_within(first, second, space, metric, search.comparison)
                if within is not None and within <= found.d_in:
                    tried.append((at, first, second, within))
        outcomes = search.apply([each for _, *datasets, _ in tried for each in datasets])
        for (at, first, second, d_in), left, right in zip(
            tried, outcomes[::2], outcomes[1::2], strict=True
        ):
            excess = search.comparison.excess(left, right, d_in)
            if excess is not None and excess.kind == found.excess.kind:
                better = Found(first, second, d_in, (left, right), excess)
                return better, passed + at
        passed += len(batch)
    return None, passed


def distance_within(
    first: Any, second: Any, space: InputSpace, metric: Metric, comparison: Comparison
) -> Any:
    """Return the smallest audited `d_in` that two datasets do not exceed; None if they do, or one
    is not of the space.
    """
    if not space.contains(first) or not space.contains(second):
        return None
    try:
        distance = metric.measure(first, second, strict=True)
    except Incomparable:
        return None
    return _smallest_bound(distance, metric, comparison)


def _with_less_rows(first: list[Any], second: list[Any], space: InputSpace) -> Iterator[RowPair]:
    """Yield the pair without common rows, many at once first, then without a row of one side."""
    if space.size is not None:
        return
    size = max(len(first), len(second))
    while size:
        for start in range(0, max(len(first), len(second)), size):
            cut = first[start : start + size]
            rest = without(second, Counter(map(input_key, cut)), input_key)
            yield first[:start] + first[start + size :], rest
            yield first[:start] + first[start + size :], second[:start] + second[start + size :]
        size //= 2
    for i in range(len(first)):
        yield first[:i] + first[i + 1 :], second
    for i in range(len(second)):
        yield first, second[:i] + second[i + 1 :]


def _with_simpler_values(
    first: list[Any], second: list[Any], space: InputSpace
) -> Iterator[RowPair]:
    """Yield the pair with a simpler value for all rows of one value."""
    distinct = {input_key(row): row for row in (*first, *second)}
    for key, row in distinct.items():
        for simpler in space.simpler_rows(row):
            yield _replaced(first, key, simpler), _replaced(second, key, simpler)


def _with_simpler_entries(
    first: list[Any], second: list[Any], space: InputSpace
) -> Iterator[RowPair]:
    """Yield the pair with a simpler value at one position, on both sides or on one."""
    # positions whose values are made simpler one by one
    for i in range(min(len(first), len(second), 40)):
        for simpler in space.simpler_rows(first[i]):
            yield [*first[:i], simpler, *first[i + 1 :]], [*second[:i], simpler, *second[i + 1 :]]
            yield [*first[:i], simpler, *first[i + 1 :]], second
        for simpler in space.simpler_rows(second[i]):
            yield first, [*second[:i], simpler, *second[i + 1 :]]


def _replaced(rows: list[Any], key: Any, simpler: Any) -> list[Any]:
    return [simpler if input_key(row) == key else row for row in rows]
