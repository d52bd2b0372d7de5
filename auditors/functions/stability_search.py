"""Search for two inputs whose outputs are further apart than the stability map allows: a fast
sweep, then random walks; and shrinking of a finding to the smallest inputs.
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from fractions import Fraction
from itertools import chain, islice, takewhile
from typing import Any, NamedTuple

import numpy as np

from dpwitness.auditors.functions.stability_metrics import (
    Exact,
    Incomparable,
    Metric,
    as_float,
    output_key,
    rounds,
)
from dpwitness.auditors.functions.stability_neighbors import Group, Neighbors
from dpwitness.auditors.search.maximize import Budget, Scored, maximize, shrunk
from dpwitness.mechanisms.wrappers.programs.declared import ABORTS, RAISES, UNFINISHED, FailedRun

EXCEEDS, ROUNDING = "exceeds", "rounding"
# of a randomized transformation: outputs exceed the map in more runs than random numbers explain
LAW = "law"
SEVERITY = (EXCEEDS, ABORTS, RAISES, ROUNDING)
# kinds of comparisons without a finding: within the map, or not possible
WITHIN, FAILED, INCOMPARABLE = "", "failed", "incomparable"

# classes of values that a transformation cannot change
_CLASSES = {int, float, bool, str, type(None), date, time_of_day, datetime, timedelta}


class Excess(NamedTuple):
    """Comparison of two outcomes: the kind of finding, the distance to the power `root` (None for
    errors and below the bound), its ratio to the bound, and why there is no comparison.
    """

    kind: str
    measured: Exact | None = None
    ratio: float = math.inf
    reason: str = ""


def compared(metric: Metric, bound: Exact, first: Any, second: Any) -> Excess:
    """Return whether the distance of two outcomes exceeds the bound, and by how much, in exact
    arithmetic where their distance is near the bound.
    """
    kinds = [side.kind for side in (first, second) if isinstance(side, FailedRun)]
    if UNFINISHED in kinds:
        return Excess(UNFINISHED)
    if kinds:
        same = len(kinds) == 2 and kinds[0] == kinds[1]
        return Excess(FAILED if same else ABORTS if ABORTS in kinds else RAISES)
    try:
        estimate, limit = metric.estimate(first, second), as_float(bound)
        if estimate < limit * (1 - 1e-9):
            return Excess(WITHIN, ratio=estimate / limit)
        measured = metric.measure(first, second)
    except (Incomparable, TypeError) as error:  # TypeError: a value without a hash
        return Excess(INCOMPARABLE, reason=str(error))
    allowed, ratio = bound**metric.root, 0.0 if not measured else math.inf
    if measured and allowed and not isinstance(measured, float):
        ratio = as_float(Fraction(measured) / Fraction(allowed)) ** (1 / metric.root)
    if not measured > allowed:
        return Excess(WITHIN, measured, ratio)
    rest = measured if isinstance(measured, float) else measured - allowed
    rounded = rounds(rest, allowed, metric.root, [first, second])
    return Excess(ROUNDING if rounded else EXCEEDS, measured, ratio)


@dataclass(frozen=True, slots=True)
class FoundInputs:
    """Two inputs within the distance `d_in`, their outcomes, and the excess of the outcomes over
    the bound.
    """

    first: Any
    second: Any
    d_in: Any
    outcomes: tuple[Any, Any]
    excess: Excess


def outcomes_of(transformation: Any, datasets: Sequence[Any]) -> list[Any]:
    """Return the outputs and failures of a transformation on copies of datasets, in order."""
    apply_all = getattr(transformation, "apply_all", None)
    if callable(apply_all):
        return [
            FailedRun.of(value) if isinstance(value, BaseException) else value
            for value in apply_all(list(datasets))
        ]
    return [outcome(transformation, dataset) for dataset in datasets]


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the value of a call on copies of its arguments, or a FailedRun."""
    try:
        return function(*map(_copied, arguments))
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        return FailedRun.of(error)


def _copied(dataset: Any) -> Any:
    """Return a copy of a dataset that a transformation may change."""
    if type(dataset) is dict:
        return {key: _copied(column) for key, column in dataset.items()}
    if type(dataset) is list and _CLASSES.issuperset(map(type, dataset)):
        return dataset[:]
    return copy.deepcopy(dataset)


def same_outcome(one: Any, other: Any) -> bool:
    """Return whether two outcomes of one input are equal, as far as they can be compared."""
    if isinstance(one, FailedRun) or isinstance(other, FailedRun):
        return type(one) is type(other)
    try:
        return bool(output_key(one) == output_key(other))
    except (TypeError, ValueError):  # an output without a key
        return True


class Comparisons:
    """Runs of a transformation and comparisons of the outcomes with a stability map, with their
    numbers.
    """

    def __init__(self, transformation: Any, metric: Metric, bounds: Mapping[Any, Exact]) -> None:
        self.transformation, self.metric, self.bounds = transformation, metric, bounds
        self.inputs = self.pairs = 0
        self.ratio = 0.0  # largest finite ratio to the map
        self.uncompared = Counter[str]()  # pairs without a comparison by kind
        self.reason = ""  # why outputs could not be compared

    @property
    def spent(self) -> bool:
        """Return whether the transformation can be run no further."""
        return bool(getattr(self.transformation, "spent", False))

    def run(self, datasets: Sequence[Any]) -> list[Any]:
        """Return the outcomes of datasets, in order."""
        return outcomes_of(self.transformation, datasets)

    def count(self, excess: Excess) -> None:
        """Count a comparison, or why there is none."""
        if excess.kind in (FAILED, INCOMPARABLE, UNFINISHED):
            self.uncompared[excess.kind] += 1
            self.reason = self.reason or excess.reason
        elif excess.ratio < math.inf:
            self.ratio = max(self.ratio, excess.ratio)

    def excess(self, d_in: Any, outcomes: Sequence[Any]) -> Excess:
        """Return the excess of two outcomes over the bound for inputs at this distance."""
        return compared(self.metric, self.bounds[d_in], *outcomes)

    def shown(self, first: Any, second: Any, d_in: Any) -> FoundInputs:
        """Run two inputs, and return them with the excess of their outcomes."""
        left, right = self.run([first, second])
        return FoundInputs(first, second, d_in, (left, right), self.excess(d_in, (left, right)))

    def repeats(self, found: FoundInputs) -> bool:
        """Return whether further runs of both inputs of a finding have the same outcomes."""
        # each abort costs a process
        for _ in range(1 if found.excess.kind == ABORTS else 8):
            again = self.shown(found.first, found.second, found.d_in)
            if again.excess != found.excess or not all(
                map(same_outcome, again.outcomes, found.outcomes)
            ):
                return False
        return True


def search(
    tested: Comparisons, near: Neighbors, inputs: Sequence[Any], seconds: float, seed: int
) -> FoundInputs | None:
    """Return the most severe finding of a search; None if there is none.

    A violation ends the search. Adversarial groups of inputs come first, then they take turns with
    random walks; the last part of the time is for random walks alone.
    """
    end = time.monotonic() + 0.6 * seconds
    found: dict[str, FoundInputs] = {}

    def space(furthest: Sequence[Scored[Group]], rng: np.random.Generator) -> Iterator[Group]:
        swept = near.adversarial(inputs)
        walked = walks(near, random.Random(int(rng.integers(2**63))), furthest)
        turns = chain.from_iterable(zip(swept, walked, strict=False))
        yield from takewhile(lambda _: time.monotonic() <= end, chain(islice(swept, 1500), turns))
        yield from walked

    def test(group: Group, outcomes: Sequence[Any]) -> float:
        """Compare the pairs of a group. Return the largest ratio, infinite for a violation."""
        tested.pairs += len(group.pairs)
        highest = 0.0
        for i, j, d_in in group.pairs:
            sides = (outcomes[i], outcomes[j])
            excess = tested.excess(d_in, sides)
            tested.count(excess)
            if excess.ratio < math.inf:
                highest = max(highest, excess.ratio)
            if excess.kind in SEVERITY and excess.kind not in found:
                found[excess.kind] = FoundInputs(
                    group.datasets[i], group.datasets[j], d_in, sides, excess
                )
        return math.inf if EXCEEDS in found else highest

    def score(groups: Iterator[Group]) -> Iterator[tuple[Group, float]]:
        size = 4
        while not tested.spent and (batch := list(islice(groups, size))):
            start = time.monotonic()
            datasets = [each for group in batch for each in group.datasets]
            outcomes = iter(tested.run(datasets))
            tested.inputs += len(datasets)
            for group in batch:
                yield group, test(group, list(islice(outcomes, len(group.datasets))))
            # duration of a batch above which the next one is smaller
            size = max(1, size // 2) if time.monotonic() - start > 0.2 else min(2 * size, 64)

    maximize(score, space, Budget(seconds), seed)
    return next((found[kind] for kind in SEVERITY if kind in found), None)


def walks(
    near: Neighbors, rng: random.Random, furthest: Sequence[Scored[Group]]
) -> Iterator[Group]:
    """Yield random groups; half of them start at a dataset of one of the groups whose outputs moved
    furthest, which are given with their ratios and may change.
    """
    misses = 0
    while misses < 1_000:
        known = furthest and rng.random() < 0.5
        start = rng.choice(furthest).candidate.datasets[-1] if known else None
        group = near.drawn(rng, start)
        misses = misses + 1 if group is None else 0
        if group is not None:
            yield group


def smallest(
    tested: Comparisons, near: Neighbors, found: FoundInputs, seconds: float
) -> FoundInputs:
    """Return the finding with smaller inputs: fewer rows, simpler values, and the smallest
    `d_in`.
    """
    deadline = time.monotonic() + seconds

    def simpler(best: FoundInputs) -> Iterator[FoundInputs]:
        for pair in near.simpler((best.first, best.second)):
            d_in = near.within(*pair)
            if d_in is not None and d_in <= best.d_in:
                yield tested.shown(*pair, d_in)

    return shrunk(
        found,
        simpler,
        lambda again: again.excess.kind == found.excess.kind,
        lambda: time.monotonic() > deadline,
    )
