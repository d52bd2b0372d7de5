"""Metamorphic relations of functions and of random mechanisms, and the comparison of two outputs.

Relations without randomness: order of rows, concatenation, maps that claim 0, noise at doubled
epsilon, parallel composition. Those of random mechanisms have a stated probability of a false
violation: laws at epsilon 0, spread at doubled epsilon, exceptions.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.functions.stability.metrics import Incomparable, metric_named
from dpwitness.auditors.functions.stability.search import outcome
from dpwitness.auditors.statistics.anytime import log_dependence
from dpwitness.auditors.statistics.certificate import clopper_pearson_lower
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.fitness import names_environment_fault
from dpwitness.core.claims import ApproxDP, PureDP
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.mechanism import FloatArray, TookTooLong
from dpwitness.core.values.dataframe_backends import library
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.validation import InvalidArgument, short_repr
from dpwitness.mechanisms.wrappers.programs.declared import RAISES, FailedRun

_NOTHING = 1e-9  # epsilon of a law that does not change
_RAISING = 4  # runs that confirm an exception
_CALLS = 32  # calls at each epsilon, of which half fix the distance
_SLACK = 1e-9  # relative difference of two floating-point numbers that is called rounding


def difference(first: Any, second: Any) -> float:
    """Return the difference of two outputs: 0 if equal, at most 1e-9 if equal up to rounding, 1 or
    more otherwise.
    """
    failures = [each.name for each in (first, second) if isinstance(each, FailedRun)]
    if failures:
        return 0.0 if len(failures) == 2 and failures[0] == failures[1] else math.inf
    frames = {_frame(first), _frame(second)} & {"pandas", "polars"}
    arrays = isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    if (frames and type(first) is not type(second)) or (arrays and first.shape != second.shape):
        return math.inf
    left, right = _parts(first), _parts(second)
    both: Iterable[tuple[Any, Any]]
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        same = left.keys() == right.keys() if frames else list(left) == list(right)
        both = ((left[key], right.get(key)) for key in left)
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        same, both = len(left) == len(right), zip(left, right, strict=False)
    else:
        return _of_scalars(left, right)
    return max((difference(*pair) for pair in both), default=0.0) if same else math.inf


def _parts(value: Any) -> Any:
    """Return a frame as a dict of lists without the labels of its rows, an array or a column as a
    list, and other values unchanged.
    """
    if isinstance(value, np.ndarray):
        return value.tolist()
    if _frame(value) not in ("pandas", "polars"):
        return value
    if len(value.shape) == 2:
        return {name: _parts(value[name]) for name in value.columns}
    # None for missing values other than NaN
    return [None if type(v).__name__ in ("NAType", "NaTType") else v for v in value.to_list()]


def _frame(value: Any) -> str:
    """Return the library of a frame or a column of a frame, ``dict`` for a dict of columns, and an
    empty text for other values.
    """
    if isinstance(value, dict):
        lists = all(isinstance(each, list) for each in value.values())
        return "dict" if lists and len(set(map(len, value.values()))) == 1 else ""
    home = type(value).__module__.partition(".")[0]
    return home if home in ("pandas", "polars") else ""


def _of_scalars(first: Any, second: Any) -> float:
    """Return the relative difference of two numbers; other values are equal or not."""
    if isinstance(first, float | np.floating) and isinstance(second, float | np.floating):
        a, b = float(first), float(second)
        if a == b or (math.isnan(a) and math.isnan(b)):
            return 0.0
        apart = (
            abs(a - b) / max(abs(a), abs(b)) if math.isfinite(a) and math.isfinite(b) else math.inf
        )
        return apart if apart <= _SLACK else max(apart, 1.0)
    try:
        return 0.0 if to_jsonable(first) == to_jsonable(second) else math.inf
    except InvalidArgument:
        return 0.0 if repr(first) == repr(second) else math.inf


def concatenated(parts: Sequence[Any]) -> Any:
    """Return the concatenation of lists, tuples, arrays or frames. Raise InvalidArgument for other
    datasets.
    """
    first = parts[0]
    kind = _frame(first)
    if kind == "pandas":
        return library(kind).concat(parts, ignore_index=True)
    if kind == "polars":
        return library(kind).concat(parts)
    if kind == "dict":
        return {name: concatenated([part[name] for part in parts]) for name in first}
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if isinstance(first, list | tuple):
        return type(first)(item for part in parts for item in part)
    raise InvalidArgument(
        f"datasets must be lists, tuples, arrays or frames with rows, got {short_repr(first)}"
    )


def rows(dataset: Any, order: Sequence[int]) -> Any:
    """Return the rows of a dataset in this order. Raise InvalidArgument for a dataset
    without rows.
    """
    kind = _frame(dataset)
    if kind == "pandas":
        return dataset.iloc[list(order)].reset_index(drop=True)
    if kind == "dict":
        return {name: rows(column, order) for name, column in dataset.items()}
    if kind == "polars" or (isinstance(dataset, np.ndarray) and dataset.ndim > 0):
        return dataset[list(order)]
    if isinstance(dataset, list | tuple):
        return type(dataset)(dataset[i] for i in order)
    raise InvalidArgument(
        f"datasets must be lists, tuples, arrays or frames with rows, got {short_repr(dataset)}"
    )


def row_count(dataset: Any) -> int:
    """Return the number of rows of a dataset; 0 if it has none."""
    try:
        return len(next(iter(dataset.values()))) if _frame(dataset) == "dict" else len(dataset)
    except TypeError:
        return 0


@dataclass(frozen=True, slots=True)
class RelationOutcome:
    """Result of the cases of one relation.

    `finding` is empty if no case breaks the relation. `failed` counts cases that could not be run.
    """

    finding: str = ""
    case: tuple[Any, ...] | None = None
    outputs: tuple[Any, ...] = ()
    error: float = 0.0
    tried: int = 0
    failed: int = 0
    notes: tuple[str, ...] = ()


Cases = Sequence[tuple[Any, ...]]
Broken = tuple[str, tuple[Any, ...]]  # what breaks a relation, and the outputs
Compare = Callable[..., Broken | None]


def order_is_ignored(
    function: Callable[[Any], Any], cases: Cases, *, output_metric: str | None = None
) -> RelationOutcome:
    """Return whether the output is the same for a dataset and for the same rows in another order.

    A case is a pair of datasets. Floating-point sums depend on the order in their last digits:
    these differences are a note.

    Parameters
    ----------
    function : callable
        Deterministic function of a dataset, for an unordered metric.
    cases : sequence of (dataset, dataset)
        Datasets with equal rows in different order.
    output_metric : str, optional
        Metric of `audit_stability` in which equal outputs have distance 0: with ``symmetric``, the
        rows of the output may be in another order too. Default: outputs are equal if all their
        values are.

    Returns
    -------
    RelationOutcome
        The first case with different outputs, or none.
    """
    return first_broken(
        _comparison(
            function, lambda outputs: _differ(outputs, output_metric), "for two orders of the rows"
        ),
        cases,
        "outputs differ by rounding between two orders of the rows: the low bits depend on "
        "the order",
    )


def concatenation_is_kept(function: Callable[[Any], Any], cases: Cases) -> RelationOutcome:
    """Return whether a function that works row by row gives the same rows for parts and for their
    concatenation.

    Outputs that differ in their last digits only, as those of vectorized functions may, are a note.
    An exception on an empty part does not count.

    Parameters
    ----------
    function : callable
        Deterministic function that claims to treat each row alone.
    cases : sequence of (dataset, dataset)
        Two datasets each, which are concatenated.

    Returns
    -------
    RelationOutcome
        The first case in which the output of the whole is not the concatenation of the outputs of
        the parts.
    """

    def compare(first: Any, second: Any) -> Broken | None:
        inputs = concatenated([first, second]), first, second
        whole, *parts = outputs = tuple(outcome(function, each) for each in inputs)
        joined = next((part for part in parts if isinstance(part, FailedRun)), None)
        if joined is not None and (isinstance(whole, FailedRun) or 0 in map(row_count, inputs)):
            return None  # which of several rows raises first is for the function to choose
        if joined is None:
            joined = _result(concatenated, parts)  # parts that are not rows are not run
        if not _differ((whole, joined)):
            return None
        _require_repeatable(function, inputs, outputs)
        found = f"the whole gives {_short(whole)}, its two parts together {_short(joined)}"
        return found, (whole, joined)

    return first_broken(
        compare, cases, "outputs of parts and of their concatenation differ by rounding"
    )


def zero_map_is_constant(function: Callable[[Any], Any], cases: Cases) -> RelationOutcome:
    """Return whether a function with a stability map of 0 has the same output on both datasets of
    each case.

    Parameters
    ----------
    function : callable
        Deterministic function that claims ``map(d_in) = 0``.
    cases : sequence of (dataset, dataset)
        Pairs of datasets within the distance d_in.

    Returns
    -------
    RelationOutcome
        The first case with different outputs, or none.
    """
    return first_broken(
        _comparison(
            function,
            lambda outputs: difference(*outputs) != 0,
            "for two inputs, although the map is 0",
        ),
        cases,
    )


def more_epsilon_is_no_more_noise(noise: Callable[[float], float], cases: Cases) -> RelationOutcome:
    """Return whether the noise at twice the epsilon is at most the noise at epsilon.

    Parameters
    ----------
    noise : callable
        Noise scale, or another measure of the noise, as a function of epsilon.
    cases : sequence of (epsilon,)
        Values of epsilon.

    Returns
    -------
    RelationOutcome
        The first epsilon at which doubling it adds noise, or none.
    """

    def compare(epsilon: Any) -> Broken | None:
        once, twice = _result(noise, epsilon), _result(noise, 2 * epsilon)
        if not float(twice) > float(once) * (1 + _SLACK):
            return None
        return (
            f"noise {float(once):.9g} at epsilon = {epsilon:g}, {float(twice):.9g} at "
            f"epsilon = {2 * epsilon:g}",
            (once, twice),
        )

    return first_broken(compare, cases)


def parallel_composition_is_the_maximum(
    function: Callable[[list[float]], float], cases: Cases
) -> RelationOutcome:
    """Return whether the figure of mechanisms on disjoint parts of the data is their largest
    epsilon, not a smaller number.

    Parameters
    ----------
    function : callable
        Parallel composition of the library: a list of epsilons gives one epsilon.
    cases : sequence of (list of float,)
        Lists of epsilons.

    Returns
    -------
    RelationOutcome
        The first list whose figure is below its maximum. A figure above the maximum is a note.
    """
    above = []

    def compare(epsilons: Any) -> Broken | None:
        figure = _result(function, list(epsilons))
        if float(figure) > max(epsilons) * (1 + _SLACK):
            above.append(figure)
        if not float(figure) < max(epsilons) * (1 - _SLACK):
            return None
        return (
            f"epsilon = {float(figure):.9g} for mechanisms with epsilons "
            f"{short_repr(list(epsilons))}",
            (figure,),
        )

    found = first_broken(compare, cases)
    note = f"loose: the figure is above the largest epsilon in {len(above)} cases"
    return replace(found, notes=(note,)) if above else found


class NotRun(Exception):
    """Error of a case that could not be run."""


def _result(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the value of a call. Raise NotRun if the call fails."""
    found = outcome(function, *arguments)
    if isinstance(found, FailedRun):
        raise NotRun
    return found


class _Rounding(Exception):
    """Two outputs that differ by rounding only."""


def first_broken(
    compare: Compare, cases: Cases, rounding: str = "", error: float = 0.0
) -> RelationOutcome:
    """Run `compare` on each case and return the first one that breaks the relation.

    `error` is the probability of a false finding; `rounding` is the note if outputs differ by
    rounding only.
    """
    failed, notes = 0, tuple[str, ...]()
    for number, case in enumerate(cases, 1):
        try:
            found = compare(*case)
        except NotRun:
            failed += 1
        except _Rounding:
            notes = (rounding,)
        else:
            if found is not None:
                text, outputs = found
                return RelationOutcome(text, tuple(case), outputs, error, number - failed, failed)
    return RelationOutcome(tried=len(cases) - failed, failed=failed, notes=notes)


def _comparison(
    function: Callable[[Any], Any], differ: Callable[[tuple[Any, Any]], bool], where: str
) -> Compare:
    """Return the comparison of the outputs on both datasets of a case."""

    def compare(first: Any, second: Any) -> Broken | None:
        outputs = outcome(function, first), outcome(function, second)
        if not differ(outputs):
            return None
        _require_repeatable(function, (first, second), outputs)
        return f"outputs {_short(outputs[0])} and {_short(outputs[1])} {where}", outputs

    return compare


def _differ(outputs: tuple[Any, Any], metric: str | None = None) -> bool:
    """Return whether two outputs differ. Raise _Rounding if they differ in their last
    digits only.
    """
    apart = difference(*outputs)
    if apart > 0 and metric is not None:
        with contextlib.suppress(Incomparable):
            measured = metric_named(metric, "output_metric", "order_is_ignored").measure(*outputs)
            apart = apart if measured else 0.0
    if 0 < apart <= _SLACK:
        raise _Rounding
    return apart > 0


def _require_repeatable(
    function: Callable[[Any], Any], inputs: Sequence[Any], outputs: Sequence[Any]
) -> None:
    """Raise NotRun unless a second run on each input has the same output."""
    if any(
        difference(output, outcome(function, each)) != 0
        for each, output in zip(inputs, outputs, strict=True)
    ):
        raise NotRun


def _short(value: Any) -> str:
    return str(value) if isinstance(value, FailedRun) else short_repr(value)


def zero_epsilon_is_constant(
    at_epsilon: Callable[[float], Any],
    cases: Cases,
    *,
    delta: float = 0.0,
    runs: int = 20_000,
    confidence: float = 0.9999,
    seed: int = 0,
) -> RelationOutcome:
    """Return whether the law of a mechanism with epsilon 0 is the same on both datasets of each
    case.

    Parameters
    ----------
    at_epsilon : callable
        Mechanism as a function of epsilon. One that refuses epsilon 0 with an exception satisfies
        the relation.
    cases : sequence of (dataset, dataset)
        Pairs of datasets.
    delta : float
        The delta of the claims: the laws may differ by this probability.
    runs : int
        Runs for each pair, as in `audit`.
    confidence : float
        Confidence of the verdict, over all cases.
    seed : int
        Seed of the runs.

    Returns
    -------
    RelationOutcome
        The first case with different laws.
    """
    mechanism = outcome(at_epsilon, 0.0)
    sampler = getattr(mechanism, "sample", mechanism)
    raised: list[Any] = [mechanism]
    if not isinstance(mechanism, FailedRun):
        raised = [_raises(sampler, dataset, [seed], 1) for case in cases[:1] for dataset in case]
    if raised and all(raised):
        return RelationOutcome(tried=1, notes=(f"epsilon 0 is refused: {raised[0]}",))

    def compare(first: Any, second: Any) -> Broken | None:
        found = audit(
            mechanism,
            claim=ApproxDP(_NOTHING, delta) if delta else PureDP(_NOTHING),
            pair=Pair(first, second, "stated"),
            trials=runs,
            confidence=1 - (1 - confidence) / len(cases),
            seed=seed,
            bits=False,
        )
        if found.verdict is Verdict.ERROR:
            raise NotRun
        # SUSPECT if the mechanism's own claim, which is not audited, is a guess
        if found.verdict not in (Verdict.VIOLATED, Verdict.SUSPECT):
            return None
        return f"the laws on two datasets differ: epsilon > {found.epsilon_lower:.4g} certified", ()

    return first_broken(compare, cases, error=1 - confidence)


def more_epsilon_spreads_no_more(
    at_epsilon: Callable[[float], Any],
    cases: Cases,
    *,
    runs: int = 8000,
    confidence: float = 0.9999,
    seed: int = 0,
) -> RelationOutcome:
    """Return whether outputs at twice the epsilon spread no more than outputs at epsilon.

    The relation is that of additive noise. Mechanisms with thresholds may break it: with more
    epsilon they release more.

    A case counts as failed if the runs of a call depend on each other. Half of the calls fixes a
    distance t at which the two spreads differ most. The other half counts how often two outputs are
    further apart than t; the distance of vectors is their largest coordinate, and that of outputs
    that are not numbers is 0 or 1. The relation is broken if the lower limit of this probability at
    twice the epsilon exceeds the upper limit at epsilon (Clopper and Pearson 1934).

    Parameters
    ----------
    at_epsilon : callable
        Mechanism as a function of epsilon.
    cases : sequence of (epsilon, dataset)
        Values of epsilon, with a dataset.
    runs : int
        Runs at each epsilon.
    confidence : float
        Confidence of the verdict, over all cases.
    seed : int
        Seed of the runs.

    Returns
    -------
    RelationOutcome
        The first case in which doubling epsilon adds noise.
    """

    def compare(epsilon: Any, dataset: Any) -> Broken | None:
        once, twice = (
            _distances(at_epsilon, factor * epsilon, dataset, runs, seed) for factor in (1, 2)
        )
        if once is None or twice is None:
            raise NotRun
        train = _CALLS // 2
        grid = np.quantile(np.concatenate([once[:train], twice[:train]]), np.arange(40) / 40)
        distance = float(
            max(grid, key=lambda t: float(np.mean(twice[:train] > t) - np.mean(once[:train] > t)))
        )
        beyond = [np.sum(x[train:] > distance, axis=1) for x in (once, twice)]
        counts, half = [int(each.sum()) for each in beyond], once[train:].size
        # evidence from which the runs of a call are not taken as independent
        if log_dependence(
            *(np.column_stack([each, once.shape[1] - each]) for each in beyond)
        ) > math.log(1000):
            raise NotRun
        alpha = (1 - confidence) / len(cases) / 2
        upper = 1 - float(clopper_pearson_lower(half - counts[0], half, alpha))
        if not float(clopper_pearson_lower(counts[1], half, alpha)) > upper:
            return None
        return (
            f"two outputs are more than {distance:.6g} apart in {counts[0]} of {half} pairs of "
            f"runs at epsilon = {epsilon:g}, and in {counts[1]} at epsilon = {2 * epsilon:g}",
            tuple(counts),
        )

    return first_broken(compare, cases, error=1 - confidence)


def _distances(
    at_epsilon: Callable[[float], Any], epsilon: float, dataset: Any, runs: int, seed: int
) -> FloatArray | None:
    """Return the distance of the outputs of each pair of runs, (calls, pairs); None if a run fails
    or gives a number that is not finite.
    """
    size = max(2, runs // _CALLS // 2 * 2)
    rng = np.random.default_rng([seed, 0xE5])

    def run() -> FloatArray:
        mechanism = at_epsilon(epsilon)
        return np.array(
            [
                _pair_distances(getattr(mechanism, "sample", mechanism)(dataset, size, rng), size)
                for _ in range(_CALLS)
            ]
        )

    found = outcome(run)
    return None if isinstance(found, FailedRun) or not np.all(np.isfinite(found)) else found


def _pair_distances(outputs: Any, size: int) -> FloatArray:
    """Return the distance of each two consecutive outputs of a call."""
    try:
        found = np.asarray(outputs, dtype=float).reshape(size, -1)
    except (TypeError, ValueError):
        return np.array(
            [
                float(repr(one) != repr(other))
                for one, other in zip(outputs[0::2], outputs[1::2], strict=True)
            ]
        )
    return np.asarray(np.max(np.abs(found[0::2] - found[1::2]), axis=1))


def errors_ignore_one_record(
    mechanism: Any,
    cases: Cases,
    *,
    epsilon: float = 0.0,
    delta: float = 0.0,
    error: float = 1e-6,
    seed: int = 0,
) -> RelationOutcome:
    """Return whether a mechanism raises on one of two neighboring datasets and not on the other.

    An exception is an output. If it has probability p on one dataset, an (epsilon, delta)-private
    mechanism raises on the other with probability at least q e^-epsilon, where q is p - delta. So m
    exceptions in m runs, and none in n runs on the other dataset, have a probability of at most the
    maximum over q of (q + delta)^m (1 - q e^-epsilon)^n. Here m is 4, because an exception may cost
    a process, and n makes this at most `error`, over all cases and both orders. Exceptions that the
    environment causes, and runs that take too long, do not count.

    Parameters
    ----------
    mechanism : Mechanism or callable
        Object with ``sample(dataset, size, rng)``, or a function of these arguments.
    cases : sequence of (dataset, dataset)
        Pairs of neighboring datasets.
    epsilon, delta : float
        Privacy that is claimed. Default 0: the probability of an exception is the same on both
        datasets.
    error : float
        Probability of a false violation.
    seed : int
        Seed of the runs.

    Returns
    -------
    RelationOutcome
        The first case in which an exception depends on one record.
    """
    sampler, allowed = (
        getattr(mechanism, "sample", mechanism),
        math.log(error / (2 * max(len(cases), 1))),
    )
    # largest number of runs that confirm that a dataset raises no exception
    runs = next((n for n in range(1, 10_000) if _log_chance(n, epsilon, delta) <= allowed), None)
    if runs is None:
        return RelationOutcome(
            notes=(
                f"epsilon = {epsilon:g} allows an exception on one dataset and none on the "
                "other: not compared",
            )
        )
    numbers = itertools.count()

    def compare(*case: Any) -> Broken | None:
        index = next(numbers)
        quiet = [_raises(sampler, each, [seed, index, side], 1) for side, each in enumerate(case)]
        if (quiet[0] is None) is (quiet[1] is None):
            return None
        counts = [runs if found is None else _RAISING for found in quiet]
        again = [
            _raises(sampler, dataset, [seed, index, side, 1], counts[side])
            for side, dataset in enumerate(case)
        ]
        raised = next((found for found in again if found is not None), None)
        if raised is None or not raised.text or None not in again:
            return None
        return f"one of two neighboring datasets raises {raised.text}", tuple(again)

    return first_broken(compare, cases, error=error)


def _log_chance(quiet: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the log of the largest probability that all runs on one dataset raise and none of
    `quiet` runs on the other does.
    """
    q = min(
        max((_RAISING * math.exp(epsilon) - quiet * delta) / (_RAISING + quiet), 0.0), 1.0 - delta
    )
    return (
        _RAISING * math.log(q + delta) + quiet * math.log1p(-q * math.exp(-epsilon))
        if q + delta > 0
        else -math.inf
    )


def _raises(
    sampler: Callable[..., Any], dataset: Any, seed: list[int], runs: int
) -> FailedRun | None:
    """Return the exception of a dataset if every run raises, None if no run does, and FailedRun
    without text otherwise.
    """
    found = [
        outcome(sampler, dataset, 1, np.random.default_rng([*seed, run])) for run in range(runs)
    ]
    raised = [item for item in found if isinstance(item, FailedRun)]
    if not raised:
        return None
    counts = len(raised) == runs and not any(
        item.name == TookTooLong.__name__
        # an exception of a worker has its class and message in its text
        or names_environment_fault(
            *item.text.removeprefix("MechanismFailed: ").partition(": ")[::2]
        )
        for item in raised
    )
    return raised[0] if counts else FailedRun(RAISES, "")
