"""Metamorphic audit: relations between several runs of a function, which hold without a reference
output.

Each relation is a function of a subject and of cases, which are tuples of inputs; a replay calls it
with the recorded case. Outputs are compared exactly, up to rounding.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from dpwitness.auditors.functions.stability_metrics import Incomparable, metric_named
from dpwitness.auditors.functions.stability_neighbors import RowEdits
from dpwitness.auditors.functions.stability_search import outcome
from dpwitness.auditors.search.catalogue import pairs_for, require_domain, require_settings
from dpwitness.auditors.witnesses.result import FunctionResult, named
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.workers.descriptions import constants_of
from dpwitness.core.domains import Domain
from dpwitness.core.domains.spaces import InputSpace
from dpwitness.core.protocols import name_of
from dpwitness.core.values.dataframe_backends import library
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_that,
    short_repr,
)
from dpwitness.mechanisms.wrappers.programs.declared import FailedRun

_OWNER = "audit_metamorphic"
_SLACK = 1e-9  # relative difference of two floating-point numbers that is called rounding


def difference(first: Any, second: Any) -> float:
    """Return the difference of two outputs: 0 if equal, 1e-9 if equal up to rounding, else
    infinity.
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
    """Return the difference of two scalars; that of two numbers may be rounding."""
    if isinstance(first, float | np.floating) and isinstance(second, float | np.floating):
        a, b = float(first), float(second)
        if a == b or (math.isnan(a) and math.isnan(b)):
            return 0.0
        return _SLACK if math.isclose(a, b, rel_tol=_SLACK) else math.inf
    try:
        same = to_jsonable(first) == to_jsonable(second)
    except InvalidArgument:
        same = repr(first) == repr(second)
    return 0.0 if same else math.inf


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

    def compare(first: Any, second: Any) -> Broken | None:
        inputs = first, second
        outputs = outcome(function, first), outcome(function, second)
        if not _differ(outputs, output_metric):
            return None
        _require_repeatable(function, inputs, outputs)
        return (
            f"outputs {_short(outputs[0])} and {_short(outputs[1])} for two orders of the rows",
            outputs,
        )

    return first_broken(
        compare,
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


def first_broken(compare: Compare, cases: Cases, rounding: str = "") -> RelationOutcome:
    """Return the first case that breaks a relation."""
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
                return RelationOutcome(text, tuple(case), outputs, number - failed, failed)
    return RelationOutcome(tried=len(cases) - failed, failed=failed, notes=notes)


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


@dataclass(frozen=True, slots=True)
class Inputs:
    """For each dataset, the same rows in another order, and in two parts."""

    orders: Cases
    parts: Cases


def inputs_of(domain: Any, datasets: Sequence[Any], seed: int, function: Any) -> Inputs:
    """Return the inputs of all relations, from given datasets and from an input space or a domain
    of mechanisms.
    """
    rng = random.Random(seed)
    every = list(datasets)
    if isinstance(domain, InputSpace):
        symmetric = metric_named("symmetric", "input_metric", _OWNER)
        near = RowEdits(domain, symmetric, [1], constants_of(function))
        by_size: dict[int, list[Any]] = {}
        for each in islice(near.bases(), 600):
            by_size.setdefault(len(each), []).append(each)
        # adversarial datasets, at most 8 of one size, and random ones
        found = [each for bases in by_size.values() for each in bases[:8]]
        found += [near.random_rows(rng) for _ in range(30)]
        every += map(domain.build, found)
    elif domain is not None:
        require_domain(domain, _OWNER)
        # largest number of pairs that are taken from a domain
        every += [side for pair in pairs_for(domain)[:12] for side in (pair.d0, pair.d1)]
    every.sort(key=row_count)
    orders = [(dataset, other) for dataset in every for other in _reordered(dataset, rng)]
    return Inputs(orders, [part for dataset in every for part in _split(dataset, rng)])


def _reordered(dataset: Any, rng: random.Random) -> Iterator[Any]:
    """Yield the dataset with its rows reversed, rotated and shuffled."""
    count = row_count(dataset)
    for order in (
        (range(count - 1, -1, -1), [*range(1, count), 0], rng.sample(range(count), count))
        if count > 1
        else ()
    ):
        found = outcome(rows, dataset, list(order))
        if not isinstance(found, FailedRun):
            yield found


def _split(dataset: Any, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """Yield the dataset in two parts: cut at random, after the first row, and with an empty second
    part.
    """
    count = row_count(dataset)
    for cut in dict.fromkeys((rng.randint(1, count - 1), 1, count)) if count > 1 else ():
        sides = [outcome(rows, dataset, list(part)) for part in (range(cut), range(cut, count))]
        if not any(isinstance(side, FailedRun) for side in sides):
            yield sides[0], sides[1]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class MetamorphicResult(FunctionResult):
    """Result of one relation of a metamorphic audit.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if the relation is broken, NOT_REFUTED if it held in all cases, ERROR if no case
        could be run.
    relation : str
        Name of the relation, which is the name of its function in `dpwitness.metamorphic`.
    statement : str
        The relation in words.
    finding : str
        Description of the broken case; empty if the relation held.
    case : tuple or None
        Inputs at which the relation is broken.
    outputs : tuple
        Outputs at these inputs.
    tried : int
        Number of cases that were run.
    output_metric : str or None
        Metric in which outputs are compared, if it is not equality.
    name, seed, notes, seconds, target, subject
        As in other results.
    """

    kind: ClassVar[str] = "metamorphic"

    relation: str
    statement: str
    finding: str
    case: tuple[Any, ...] | None
    outputs: tuple[Any, ...]
    tried: int
    output_metric: str | None = None

    @property
    def evidence(self) -> str:
        """Return ``proved`` for a violation, which is an exact comparison, else ``numerical``."""
        return "proved" if self.finding else "numerical"

    def _claim_text(self) -> str:
        return self.statement

    def _witness_fields(self) -> Json | None:
        if self.verdict is not Verdict.VIOLATED or self.case is None:
            return None
        try:
            case = [to_jsonable(item) for item in self.case]
        except InvalidArgument:
            return None
        return {
            **({"output_metric": self.output_metric} if self.output_metric else {}),
            "relation": self.relation,
            "case": case,
            "finding": self.finding,
            "error": 0.0,  # probability of a false finding
        }

    def _finding_advice(self) -> str:
        return (
            ""
            if self.verdict is Verdict.SUSPECT
            else "no change is needed on this evidence, which is not a proof"
        )

    def _summary(self) -> str:
        if not self.finding:
            return f"{self.statement}, in {self.tried} cases"
        return f"{self.statement}: {self.finding} (exact)"

    def _fields(self) -> Json:
        return {
            "metamorphic_relation": self.relation,
            "finding": self.finding,
            "case": None if self.case is None else [_written(item) for item in self.case],
            "outputs": [_written(item) for item in self.outputs],
            "error": 0.0,  # probability of a false finding
            "tried": self.tried,
        }


def _written(value: Any) -> Any:
    """Return a value in JSON types; a text if it has no exact form."""
    if isinstance(value, FailedRun):
        return {"raised": value.text}
    try:
        return strict(to_jsonable(value))
    except InvalidArgument:
        return short_repr(value)


@dataclass(frozen=True, slots=True)
class CheckedRelation:
    """Relation: its function, its statement, the argument of the audit that it checks, and its
    cases.
    """

    check: Callable[..., RelationOutcome]
    statement: str
    subject: str
    cases: Callable[[Inputs], Cases]


RELATIONS = {
    "order_is_ignored": CheckedRelation(
        order_is_ignored,
        "the output does not depend on the order of the rows",
        "function",
        lambda inputs: inputs.orders,
    ),
    "concatenation_is_kept": CheckedRelation(
        concatenation_is_kept,
        "the output of a concatenation is the concatenation of the outputs",
        "function",
        lambda inputs: inputs.parts,
    ),
    "more_epsilon_is_no_more_noise": CheckedRelation(
        more_epsilon_is_no_more_noise,
        "twice the epsilon needs no more noise",
        "noise",
        lambda inputs: [(10.0**k * x,) for k in range(-4, 2) for x in (1.0, 2.0, 3.0, 5.0)],
    ),
    "parallel_composition_is_the_maximum": CheckedRelation(
        parallel_composition_is_the_maximum,
        "parallel composition costs at least the largest epsilon",
        "parallel",
        lambda inputs: [
            ([1.0],),
            ([0.1, 1.0],),
            ([1.0, 0.1],),
            ([0.5] * 4,),
            ([1e-3, 2.0, 0.7],),
            ([math.pi] * 2,),
            ([0.1] * 100,),
        ],
    ),
}


def audit_metamorphic(
    function: Callable[[Any], Any] | None = None,
    *,
    unordered: bool = False,
    row_wise: bool = False,
    noise: Callable[[float], float] | None = None,
    parallel: Callable[[list[float]], float] | None = None,
    domain: Domain | InputSpace | None = None,
    datasets: Sequence[Any] = (),
    output_metric: str | None = None,
    seed: int = 0,
    name: str | None = None,
) -> tuple[MetamorphicResult, ...]:
    """Check relations between several runs that hold without a reference output, and return one
    result for each.

    Parameters
    ----------
    function : callable, optional
        Deterministic function of a dataset.
    unordered, row_wise : bool
        Whether the output of `function` must not depend on the order of the rows, and whether the
        function must commute with concatenation.
    noise : callable, optional
        Noise scale as a function of epsilon: it must not be larger at twice epsilon.
    parallel : callable, optional
        Parallel composition, ``parallel(epsilons)``, which returns epsilon: at least the largest.
    domain : Domain or InputSpace, optional
        Domain of the datasets, or an input space of `audit_stability`. Default: the attribute
        `domain` of the function.
    datasets : sequence
        Datasets for `function`, in addition to those of the domain.
    output_metric : str, optional
        With `unordered`: metric of `audit_stability` in which equal outputs have distance 0, such
        as ``symmetric`` for rows in any order.
    seed : int
        Seed of random orders and datasets.
    name : str, optional
        Name in the report.

    Returns
    -------
    tuple of MetamorphicResult
        One result for each relation that applies.

    Raises
    ------
    InvalidArgument
        If no relation applies, datasets are missing, or an argument is invalid.

    References
    ----------
    Chen, Cheung and Yiu (1998), metamorphic testing.

    Examples
    --------
    >>> from dpwitness.mechanisms import Records
    >>> first, = audit_metamorphic(lambda rows: rows[0], unordered=True, domain=Records(3))
    >>> first.verdict.value
    'VIOLATED'
    """
    require_settings(_OWNER, seed, name=name)
    for label, value in {"function": function, "noise": noise, "parallel": parallel}.items():
        require_callable(label, value, _OWNER, optional=True)
    subjects = {
        "order_is_ignored": function if unordered else None,
        "concatenation_is_kept": function if row_wise else None,
        "more_epsilon_is_no_more_noise": noise,
        "parallel_composition_is_the_maximum": parallel,
    }
    applied = {key: subject for key, subject in subjects.items() if subject is not None}
    require_that(
        applied,
        "no relation applies: give noise, parallel, or a function with unordered or row_wise",
        _OWNER,
    )
    if domain is None:
        domain = getattr(function, "domain", None)
    inputs, found = inputs_of(domain, datasets, seed, function), list[MetamorphicResult]()
    for key, subject in applied.items():
        cases = RELATIONS[key].cases(inputs)
        require_that(cases, f"{key} needs datasets: give domain or datasets", _OWNER)
        found.append(check_relation(key, subject, cases, output_metric, seed, name))
    return tuple(found)


def check_relation(
    relation: str,
    subject: Any,
    cases: Cases,
    output_metric: str | None,
    seed: int,
    name: str | None,
) -> MetamorphicResult:
    """Return the result of one relation on the given cases."""
    begin, known = time.perf_counter(), RELATIONS[relation]
    metric = output_metric if known.check is order_is_ignored else None
    options = {} if metric is None else {"output_metric": metric}
    with warnings.catch_warnings():  # unusual inputs are meant
        warnings.simplefilter("ignore")
        found = known.check(subject, cases, **options)
    tried = Verdict.NOT_REFUTED if found.tried else Verdict.ERROR
    notes = list(found.notes)
    if found.failed and found.tried:
        notes.append(f"{found.failed} cases could not be run")
    elif not found.tried and not notes:
        notes = [f"no case could be run: all {found.failed} calls failed or were not repeatable"]
    return MetamorphicResult(
        name=name or name_of(subject),
        verdict=Verdict.VIOLATED if found.finding else tried,
        relation=relation,
        statement=known.statement,
        finding=found.finding,
        case=found.case,
        outputs=found.outputs,
        tried=found.tried,
        seed=seed,
        output_metric=metric,
        notes=tuple(notes),
        seconds=time.perf_counter() - begin,
        target=named(subject),
        subject=subject,
    )
