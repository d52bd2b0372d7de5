"""Search for two inputs whose outputs are further apart than the stability map allows: a fast
sweep, random walks, then Hypothesis.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as seeded
from hypothesis import strategies as st

from dpwitness.auditors.functions.stability.inputs.neighbors import Group, Neighborhood
from dpwitness.auditors.functions.stability.inputs.spaces import InputSpace
from dpwitness.auditors.functions.stability.outcomes import (
    EXCEEDS,
    SEVERITY,
    Comparison,
    Excess,
    Failure,
)
from dpwitness.mechanisms.wrappers.programs.declared import Unfinished

_BATCH = 64  # most groups in a batch
_BATCH_SECONDS = 0.2  # duration of a batch above which the next one is smaller
_POOL = 32  # datasets with the largest ratios, from which random walks start
_FRONT = 12  # first groups of each dataset that the sweep tries before it comes to the others


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
            if comparison.is_suspect(ratio):
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
        self._keep(highest, group)

    def _count_uncompared(self, first: Any, second: Any) -> None:
        """Count a pair without a comparison by its reason."""
        if isinstance(first, Unfinished) or isinstance(second, Unfinished):
            self.unfinished += 1
        elif isinstance(first, Failure):
            self.failed += 1
        else:
            self.incomparable += 1

    def _keep(self, ratio: float, group: Group) -> None:
        """Keep the first dataset of a group for random walks if its ratio is among the largest."""
        if ratio > self.ratio and ratio < math.inf:
            self.ratio = ratio
        if len(self.pool) < _POOL or ratio > self.pool[-1][0]:
            self.pool.append((ratio, group.datasets[-1]))
            self.pool.sort(key=lambda entry: -entry[0])
            del self.pool[_POOL:]

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
            size = max(1, size // 2) if seconds > _BATCH_SECONDS else min(2 * size, _BATCH)


def sweep(space: InputSpace, neighborhood: Neighborhood, inputs: Sequence[Any]) -> Iterator[Group]:
    """Yield the adversarial groups: those around given inputs, then the first around each dataset,
    then the others.
    """
    rows = chain(map(space.rows, inputs), space.bases())
    later = []
    for base in rows:
        groups = neighborhood.around(base)
        yield from islice(groups, _FRONT)
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


_SWEEP, _WALKS = 0.6, 0.8  # shares of the time at which the sweep and the random walks end
_FIRST = 1500  # adversarial groups before random walks take turns with them
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
    search.run(islice(swept, _FIRST), start + _SWEEP * seconds)
    search.run(chain.from_iterable(zip(swept, walked, strict=False)), start + _SWEEP * seconds)
    search.run(walked, start + _WALKS * seconds)
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
