"""Relations without randomness: order of rows, concatenation, maps that claim 0, noise at doubled
epsilon, parallel composition; and the comparison of two outputs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpwitness.auditors.functions.stability.metrics import Incomparable, metric_named
from dpwitness.auditors.functions.stability.search import outcome
from dpwitness.core.values.dataframe_backends import library
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.validation import InvalidArgument, short_repr
from dpwitness.mechanisms.wrappers.programs.declared import FailedRun

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
    """Return the first case that breaks a relation, at this probability of a false finding."""
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
