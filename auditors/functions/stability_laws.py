"""Audit of transformations that draw random numbers: whether two inputs have laws of outputs that
no coupling keeps within the map; and whether a transformation keeps the noise that it has drawn.

A randomized transformation T keeps a bound b on two inputs if T(x) and T(x') can be drawn jointly,
at most b apart. Then, for each statistic f that moves no further than its argument, P(f(T(x)) > b +
u) <= P(f(T(x')) > u). Strassen (1965) proved that sets are enough to refute a coupling. Here f is
the distance to the nearest of some reference outputs of T(x'), and u the slack that these need,
because they are not all outputs. References, slack and inputs are chosen on runs that the test does
not count."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpwitness.auditors.functions.stability_metrics import (
    LONGEST,
    Incomparable,
    Metric,
    output_key,
    plain,
)
from dpwitness.auditors.functions.stability_neighbors import Group
from dpwitness.auditors.functions.stability_search import (
    EXCEEDS,
    FAILED,
    INCOMPARABLE,
    LAW,
    Comparisons,
    Excess,
    FoundInputs,
    outcomes_of,
)
from dpwitness.auditors.statistics.anytime import log_dependence, mean_evidence
from dpwitness.auditors.statistics.certificate import clopper_pearson_lower
from dpwitness.auditors.workers.fresh_processes import STATES, in_new_processes, memos_of
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, require_that
from dpwitness.mechanisms.wrappers.programs.declared import FailedRun

_SECONDS = 0.5  # time limit of the runs in fresh states


def fresh_outcomes(transformation: Any, datasets: Sequence[Any]) -> list[list[Any]]:
    """Return the outcomes of the datasets in each fresh state; states in which all runs fail are
    left out.
    """
    if hasattr(transformation, "apply_all"):  # it runs in processes of its own
        return []
    run = partial(_outcomes, transformation, tuple(datasets))
    found = in_new_processes(run, STATES, _SECONDS)
    if not found:
        memos = memos_of(partial(_output, transformation), datasets, 0, _SECONDS)
        for _ in range(STATES):
            with memos.emptied():
                found.append(run(0))
    return [
        outcomes for outcomes in found if not all(isinstance(each, FailedRun) for each in outcomes)
    ]


def _outcomes(transformation: Any, datasets: Sequence[Any], _: int) -> list[Any]:
    return outcomes_of(transformation, datasets)


def _output(transformation: Any, dataset: Any, *_: Any) -> Any:
    """Return the output of a dataset. Raise ValueError if there is none."""
    (found,) = outcomes_of(transformation, [dataset])
    if isinstance(found, FailedRun):
        raise ValueError("the transformation fails")
    return found


def is_kept(found: FoundInputs, tested: Comparisons) -> bool:
    """Return whether a transformation that looks deterministic keeps state: a finding that exceeds
    the map has another excess in a fresh state.
    """
    return found.excess.kind == EXCEEDS and any(
        tested.excess(found.d_in, outcomes) != found.excess
        for outcomes in fresh_outcomes(tested.transformation, [found.first, found.second])
    )


def depends(indicator: NDArray[np.bool_], fresh: NDArray[np.bool_]) -> bool:
    """Return whether runs depend on each other: those of a test, in their order, or those of fresh
    states in comparison.
    """
    logs, size = list[float](), 2
    # blocks of consecutive runs of one input, at least four, are compared with each other
    while len(indicator) // size >= 4:
        counts = indicator[: len(indicator) // size * size].reshape(-1, size).sum(axis=1)
        logs.append(log_dependence(np.column_stack([counts, size - counts])))
        size *= 2
    yes = np.concatenate([[indicator.sum()], fresh])
    groups = np.column_stack([yes, np.concatenate([[len(indicator)], np.ones(len(fresh))]) - yes])
    # evidence from which runs are not taken as independent
    return mean_evidence([log_dependence(groups), mean_evidence(logs)]) > math.log(1000)


CONFIDENCE = 0.99
_TRAINED = 12  # pairs that a look shows beyond the map, of which more runs are made
_TESTED = 3  # largest number of tests, among which the error is divided
_TEST_RUNS = 400
_MARGIN = 1e-9  # relative error of an estimated distance

STATE = (
    "its outputs drift from run to run: the transformation must be deterministic, or draw "
    "independent random numbers in each run"
)


@dataclass(frozen=True, slots=True)
class LawTest:
    """Counts of a test: outputs of the first input beyond bound and slack, and outputs of the
    second input beyond the slack.
    """

    runs: int  # of each input
    far: int
    near: int
    slack: float
    confidence: float
    tests: int  # tests among which the error is divided

    @property
    def refuted(self) -> bool:
        """Whether the counts refute that both inputs have a coupling within the bound, at this
        confidence for all tests together.
        """
        return _gap(self.far, self.near, self.runs, (1 - self.confidence) / self.tests) > 0

    @classmethod
    def from_json(cls, data: Json) -> LawTest:
        """Return the test with these fields. Raise InvalidArgument if its counts are
        impossible.
        """
        try:
            found = cls(**data)
            valid = (
                0 <= found.near <= found.runs
                and 0 <= found.far <= found.runs
                and 0 < found.confidence < 1 <= found.tests
            )
        except (KeyError, TypeError) as error:
            raise InvalidArgument(f"law is damaged: {error}") from None
        require_that(valid, "law is damaged: its counts are impossible")
        return found


@dataclass(frozen=True, slots=True)
class _Event:
    """Event of a test: two inputs, of which the first seems to move too far, and the outputs on
    which the event was chosen.
    """

    first: Any
    second: Any
    d_in: Any
    usual: Sequence[Any]  # outputs of the first input
    references: Sequence[Any]  # outputs of the second input
    shown: tuple[Any, Any]  # an output of the first input, and the nearest reference
    slack: float
    score: float  # expected excess of a test


def find_law(
    tested: Comparisons, groups: Iterable[Group], seconds: float, rng: Generator
) -> tuple[FoundInputs | None, LawTest | None, str]:
    """Return the first pair of inputs that a test refutes, the last test, and why there is no
    verdict; an empty text if there is one.

    At most `_TESTED` tests share the error. If a few runs of a pair exceed the map, an event is
    trained on more runs of the pair, and tested if these exceed the map too.
    """
    deadline, source, test = time.monotonic() + seconds, iter(groups), None
    left = _TESTED
    while left and time.monotonic() < deadline and not tested.spent:
        best: list[tuple[_Event, float]] = []
        for group in source:
            best += _looked(tested, group, rng)
            if len(best) >= _TRAINED or time.monotonic() > deadline or tested.spent:
                break
        if not best:
            break
        left_seconds = deadline - time.monotonic()
        pairs = [
            (event.first, event.second, event.d_in)
            for event, needed in sorted(best, key=lambda each: -each[0].score)[:_TRAINED]
            if needed < left_seconds
        ]
        found, new, problem = try_pairs(tested, pairs, rng, deadline)
        test, left = new or test, left - (new is not None)
        if found is not None or problem:
            return found, test, problem
    return None, test, ""


def try_pairs(
    tested: Comparisons,
    pairs: Sequence[tuple[Any, Any, Any]],
    rng: Generator,
    deadline: float = math.inf,
) -> tuple[FoundInputs | None, LawTest | None, str]:
    """Train an event on each pair of inputs and distance, and test the best: see `find_law`."""
    events = []
    for first, second, d_in in pairs:
        event = _event(tested, (first, second, d_in), *_runs(tested, [first, second], 64, rng))
        # an excess by rounding shows nothing
        if event and tested.excess(d_in, event.shown).kind == EXCEEDS:
            events.append(event)
        if time.monotonic() > deadline:
            break
    if not events:
        return None, None, ""
    event = max(events, key=lambda each: each.score)
    test, drifts = _tested(tested, event, rng)
    if drifts:
        return None, None, STATE
    if test is None or not test.refuted:
        return None, test, ""
    excess = tested.excess(event.d_in, event.shown)._replace(kind=LAW)
    return FoundInputs(event.first, event.second, event.d_in, event.shown, excess), test, ""


def _runs(
    tested: Comparisons, datasets: Sequence[Any], runs: int, rng: Generator
) -> list[list[Any]]:
    """Return outcomes of each dataset in `runs` runs, in random order, so that a drift does not
    separate the datasets.
    """
    order = rng.permutation(np.repeat(np.arange(len(datasets)), runs)).tolist()
    found: list[list[Any]] = [[] for _ in datasets]
    for at, outcome in zip(order, tested.run([datasets[i] for i in order]), strict=True):
        found[at].append(outcome)
    tested.inputs += len(order)
    return found


def _looked(tested: Comparisons, group: Group, rng: Generator) -> list[tuple[_Event, float]]:
    """Return events on the pairs of a group, in both directions, that few runs of each dataset show
    beyond the map; each with the expected duration of its training and test.
    """
    # runs of each input in a look
    outcomes = _runs(tested, group.datasets, 12, rng)
    found = []
    for i, j, d_in in group.pairs:
        tested.pairs += 1
        for one, other in ((i, j), (j, i)):
            begin, pair = time.monotonic(), (group.datasets[one], group.datasets[other], d_in)
            event = _event(tested, pair, outcomes[one], outcomes[other])
            if event is not None:
                # distances of training and test, relative to those of a look
                found.append((event, 300 * (time.monotonic() - begin)))
    return found


def _tested(tested: Comparisons, event: _Event, rng: Generator) -> tuple[LawTest | None, bool]:
    """Return the test of an event on fresh runs, None if outputs cannot be compared; and whether
    outputs drift.
    """
    metric, bound = tested.metric, float(tested.bounds[event.d_in])
    inputs = [event.first, event.second]
    outcomes = _runs(tested, inputs, _TEST_RUNS, rng)
    if _failed(*outcomes):
        return None, False
    counts, drifts = list[int](), False
    try:
        fresh = [
            each for each in fresh_outcomes(tested.transformation, inputs) if not _failed(each)
        ]
        for side, before, limit, sign in (
            (0, event.usual, bound + event.slack, 1),
            (1, event.references, event.slack, -1),
        ):
            beyond, news = (
                _beyond(_nearest(_distances(metric, runs, event.references)), limit, sign)
                for runs in (outcomes[side], [each[side] for each in fresh])
            )
            counts.append(int(np.sum(beyond)))
            # a transformation that keeps state: most later outputs of the input are further from
            # the earlier ones than any of these from the others
            reach = float(np.max(_nearest(_distances(metric, before, before, own=True))))
            later = _nearest(_distances(metric, outcomes[side], before))
            drifts |= bool(np.mean(_beyond(later, reach, 1)) > 0.5) or depends(beyond, news)
    except (Incomparable, TypeError) as error:
        tested.reason = tested.reason or str(error)
        return None, False
    far, near = counts
    return LawTest(_TEST_RUNS, far, near, event.slack, CONFIDENCE, _TESTED), drifts


def _event(
    tested: Comparisons, pair: tuple[Any, Any, Any], one: Sequence[Any], other: Sequence[Any]
) -> _Event | None:
    """Return the event with the largest expected excess of a test, chosen on outputs of a pair of
    inputs.

    None if a run fails, outputs do not exceed the map, or outputs cannot be compared.
    """
    if _failed(one, other):
        tested.count(Excess(FAILED))
        return None
    bound = float(tested.bounds[pair[2]])
    try:
        moved = _distances(tested.metric, one, other)
        far = _nearest(moved)
        if not np.any(_beyond(far, bound, 1)):
            return None
        spread = _nearest(_distances(tested.metric, other, other, own=True))
    except (Incomparable, TypeError) as error:
        tested.count(Excess(INCOMPARABLE, reason=str(error)))
        return None
    scores = []
    for slack in (0.0, *np.unique(spread[np.isfinite(spread)]) * (1 + 3 * _MARGIN)):
        beyond, slipped = (
            float(np.mean(each)) * _TEST_RUNS
            for each in (_beyond(far, bound + slack, 1), _beyond(spread, slack, -1))
        )
        scores.append((_gap(beyond, slipped, _TEST_RUNS, 1 - CONFIDENCE), float(slack)))
    score, slack = max(scores)
    at = int(np.argmax(far))
    shown = one[at], other[int(np.argmin(moved[at]))]
    return _Event(*pair, one, other, shown, slack, score) if score > 0 else None


def _failed(*sides: Sequence[Any]) -> bool:
    """Return whether a run has no output."""
    return any(isinstance(outcome, FailedRun) for side in sides for outcome in side)


def _distances(
    metric: Metric, rows: Sequence[Any], columns: Sequence[Any], own: bool = False
) -> FloatArray:
    """Return all distances between outputs; with `own`, both lists are the same, and the distance
    of an output to itself is infinite.
    """
    places: dict[Any, int] = {}
    at, to = (
        [places.setdefault(output_key(each), len(places)) for each in side]
        for side in (rows, columns)
    )
    values = dict(zip([*at, *to], [*rows, *columns], strict=True))
    if metric.name.endswith("insert-delete") and max(map(_rows, values.values())) > LONGEST:
        raise Incomparable(
            f"edit distances of lists of more than {LONGEST:,} rows are lower bounds only"
        )
    known = {
        pair: metric.estimate(values[pair[0]], values[pair[1]])
        for pair in product(set(at), set(to))
    }
    found = np.array([known[i, j] for i in at for j in to], dtype=float).reshape(len(at), len(to))
    if own:
        np.fill_diagonal(found, math.inf)
    return found


def _rows(output: Any) -> int:
    """Return an upper bound of the number of rows of an output, or of each of its groups."""
    value = plain(output)
    parts = list(value.values()) if isinstance(value, dict) else value
    return sum(max(_rows(part), 1) for part in parts) if isinstance(parts, list | tuple) else 1


def _nearest(distances: FloatArray) -> FloatArray:
    """Return the distance of each row to its nearest column."""
    return np.asarray(distances.min(axis=1))


def _beyond(distances: FloatArray, limit: float, sign: int) -> NDArray[np.bool_]:
    """Return which distances exceed a limit for certain (`sign` 1), or may exceed it (-1), despite
    the error of an estimated distance.
    """
    return np.asarray(distances > limit * (1 + sign * _MARGIN))


def _gap(far: float, near: float, runs: int, alpha: float) -> float:
    """Return the lower limit of the probability of `far` minus the upper limit of that of `near`,
    with error `alpha` for both together.
    """
    lower = clopper_pearson_lower(far, runs, alpha / 2)
    upper = 1 - clopper_pearson_lower(runs - near, runs, alpha / 2)
    return float(lower - upper)
