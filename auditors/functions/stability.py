"""Stability audit: a search for inputs whose outputs are further apart than the stability map
allows, and its result, with headline, JSON and witness.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import chain, islice
from typing import Any, ClassVar

import numpy as np

from dpwitness.auditors.functions.stability_laws import STATE, LawTest, find_law, is_kept
from dpwitness.auditors.functions.stability_metrics import (
    Exact,
    Incomparable,
    as_float,
    exact,
    metric_named,
    plain,
)
from dpwitness.auditors.functions.stability_neighbors import neighbors_of
from dpwitness.auditors.functions.stability_search import (
    EXCEEDS,
    FAILED,
    INCOMPARABLE,
    LAW,
    ROUNDING,
    Comparisons,
    FoundInputs,
    same_outcome,
    search,
    smallest,
    walks,
)
from dpwitness.auditors.search.catalogue import require_settings
from dpwitness.auditors.witnesses.result import FunctionResult, named
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.workers.descriptions import constants_of
from dpwitness.core.domains import Domain
from dpwitness.core.domains.spaces import InputSpace
from dpwitness.core.protocols import name_of
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    error_text,
    require_callable,
    require_positive,
    require_that,
    short_repr,
)
from dpwitness.mechanisms.wrappers.programs.declared import ABORTS, RAISES, UNFINISHED, FailedRun

_ERROR_WORDS = {
    RAISES: "raises on one neighbor only",
    ABORTS: "aborts the process on one neighbor only",
}


_VISIBLE = "let the function return a value on both inputs, or take them out of the input domain"
_ADVICE = {
    RAISES: _VISIBLE,
    ABORTS: _VISIBLE,
    ROUNDING: "round the map up, or compute in exact arithmetic; other excesses were not found",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class StabilityResult(FunctionResult):
    """Result of a stability audit.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if two inputs at distance at most `d_in` have outputs that are further apart than
        ``map(d_in)``, in exact arithmetic; for a randomized transformation, if no joint law of the
        outputs keeps them within ``map(d_in)``, at confidence 0.99. INCONCLUSIVE if the excess may
        be rounding, or the transformation fails on one of two neighbors only. ERROR if no outputs
        could be compared. NOT_REFUTED otherwise.
    finding : str
        ``exceeds``, ``law`` (of a randomized transformation), ``rounding``, ``raises``, ``aborts``,
        or empty.
    d_in : number or None
        Bound on the distance of the two inputs; None without a finding.
    bound : Fraction, int, inf or None
        Value of the stability map at `d_in`, exactly.
    measured : Fraction, int, inf or None
        Distance of the two outputs, exactly; its square for the L2 norm. None if an output is an
        error.
    ratio : float
        Distance of the outputs divided by the bound, or without a finding the largest such ratio.
    first, second : dataset
        The two inputs.
    outcomes : tuple
        The two outputs; an error is a text with the class of the exception.
    inputs, pairs : int
        Numbers of inputs that were run, with their repetitions, and of pairs that were compared.
    randomized : bool
        Whether outputs of one input differed between runs.
    law : LawTest or None
        Counts of the last test of a randomized transformation: outputs beyond the map, and outputs
        of the other input that are new.
    audited : tuple of numbers
        Distances that were audited.
    skipped : tuple of str
        Distances that were not audited, with the reasons.
    name, input_metric, output_metric, seed, subject, stability_map
        Arguments of `audit_stability`.
    space : dict or None
        The input space as JSON; None for a user's domain.
    notes, seconds, target
        As in other results.
    """

    kind: ClassVar[str] = "stability"

    finding: str = ""
    d_in: Any = None
    bound: Exact | None = None
    measured: Exact | None = None
    ratio: float
    first: Any = None
    second: Any = None
    outcomes: tuple[Any, ...] = ()
    inputs: int
    pairs: int
    skipped: tuple[str, ...]
    input_metric: str
    output_metric: str
    space: Json | None
    audited: tuple[Any, ...] = ()
    stability_map: Callable[[Any], Any] | None = field(default=None, repr=False)
    randomized: bool = False
    law: LawTest | None = None

    @property
    def evidence(self) -> str:
        """Return ``proved`` for an exact violation, ``statistical`` for laws, ``assumed`` for
        errors, or ``numerical``.
        """
        if self.verdict is Verdict.VIOLATED:
            return {EXCEEDS: "proved", LAW: "statistical"}.get(self.finding, "assumed")
        return "assumed" if self.verdict is Verdict.SUSPECT else "numerical"

    @property
    def distance(self) -> float:
        """Distance of the two outputs as a float; NaN if an output is an error."""
        root = 2 if self.output_metric.endswith("l2") else 1
        return math.nan if self.measured is None else as_float(self.measured) ** (1 / root)

    def _witness_fields(self) -> Json | None:
        inputs = [_input_json(self.first), _input_json(self.second)]
        # a witness of an input that has only a text as JSON could not be replayed
        if not self.finding or any(
            isinstance(written_input, str) and not isinstance(dataset, str)
            for written_input, dataset in zip(inputs, (self.first, self.second), strict=True)
        ):
            return None
        return {
            "finding": self.finding,
            "map": named(self.stability_map),
            "space": self.space,
            "input_metric": self.input_metric,
            "output_metric": self.output_metric,
            "d_in": written(self.d_in),
            "bound": written(self.bound),
            "inputs": inputs,
            "outputs": [outcome_json(each) for each in self.outcomes],
            "verdict": self.verdict.value,
        }

    def _claim_text(self) -> str:
        return f"{self.output_metric} distance of outputs is at most map(d_in)"

    @property
    def source_of(self) -> Any:
        """The function that was run; for a declared transformation, the function that its
        declaration names.
        """
        declaration = getattr(self.subject, "declaration", None)
        if declaration is None:
            return self.subject
        return replace(self.subject.target, name=declaration.get("apply", self.name))

    @property
    def replay_advice(self) -> str:
        """What to do after a replay that shows the finding again."""
        confirmed = self.finding and self.verdict is not Verdict.VIOLATED
        return f"the witness is confirmed: {self.advice}" if confirmed else ""

    def _finding_advice(self) -> str:
        return _ADVICE.get(self.finding, "")

    @property
    def where(self) -> str:
        """Return the distance of the inputs in words."""
        return f"inputs at {self.input_metric} distance {format_number(self.d_in)}"

    def _summary(self) -> str:
        """Return the distances and the ratio in one line."""
        if self.finding in _ERROR_WORDS:
            failed = next(
                str(each) for each in self.outcomes if isinstance(each, FailedRun)
            ).partition("; it last printed")[0]
            return (
                f"{_ERROR_WORDS[self.finding]} ({failed[:200]}; {self.where}): an error that "
                "depends on one record tells the neighbors apart wherever errors are visible"
            )
        if self.law is not None and self.finding == LAW:
            return (
                f"{self.law.far:,} of {self.law.runs:,} outputs of the first input are further "
                f"than the map, {format_number(self.bound)}, from all usual outputs of the second "
                f"input, and {self.law.near:,} of the second are new ({self.output_metric}, "
                f"{self.where}, confidence {self.law.confidence:g})"
            )
        if self.finding:
            only = "exceeds by rounding only, " if self.finding == ROUNDING else ""
            return (
                f"outputs are {format_number(self.distance)} apart ({self.output_metric}), the map "
                f"allows {format_number(self.bound)} for {self.where}: {only}ratio "
                f"{format_ratio(self.ratio)}"
            )
        if self.randomized:
            return (
                f"no two inputs were found whose random outputs move too far, in {self.pairs:,} "
                f"pairs with {self.inputs:,} runs"
            )
        return (
            f"largest ratio found {self.ratio:.6g} of the map in {self.pairs:,} pairs of "
            f"{self.inputs:,} inputs ({self.input_metric} distance "
            f"{', '.join(map(format_number, self.audited))})"
        )

    def pair_json(self) -> Json | None:
        """Return the two inputs as a pair of a report; None without a finding."""
        if not self.finding:
            return None
        return {
            "d0": _input_json(self.first),
            "d1": _input_json(self.second),
            "relation": self.input_metric,
            "why": f"at {self.input_metric} distance {format_number(self.d_in)}",
        }

    def _fields(self) -> Json:
        return {
            "relation": self.input_metric,
            "finding": self.finding,
            "d_in": strict(float(self.d_in)) if self.d_in is not None else None,
            "bound": None if self.bound is None else strict(as_float(self.bound)),
            "bound_exact": written(self.bound),
            "distance": strict(self.distance),
            "measured_exact": written(self.measured),
            "ratio": strict(self.ratio),
            "pair": self.pair_json(),
            "outputs": [outcome_json(each) for each in self.outcomes],
            "runs": self.inputs,
            "compared": self.pairs,
            "audited": [strict(float(d)) for d in self.audited],
            "skipped": list(self.skipped),
            "input_metric": self.input_metric,
            "output_metric": self.output_metric,
            "space": self.space,
            **({"law": asdict(self.law)} if self.law is not None else {}),
        }


def _input_json(dataset: Any) -> Any:
    """Return an input as JSON, or a short text of an input of a user's domain without an exact
    form.
    """
    try:
        return to_jsonable(dataset)
    except InvalidArgument:
        return short_repr(dataset)


def written(value: Any) -> Any:
    """Return an exact number as a text such as ``1/3`` or ``inf``; None for None."""
    return (
        None
        if value is None
        else str(Fraction(value))
        if not isinstance(value, float) or math.isfinite(value)
        else "inf"
    )


def read_number(text: Any) -> Exact | None:
    """Return the number of a text that `written` made. Raise InvalidArgument for another text."""
    if text is None:
        return None
    try:
        return math.inf if text == "inf" else Fraction(text)
    except (ValueError, TypeError, ZeroDivisionError):
        raise InvalidArgument(
            f"a number must be a text such as 3 or 1/3, got {short_repr(text)}"
        ) from None


def outcome_json(outcome: Any) -> Any:
    """Return an outcome as JSON: an exact value, an error, or the text of a value without an exact
    form.
    """
    if isinstance(outcome, FailedRun):
        return {"error": outcome.kind, "text": outcome.text}
    try:
        return {"value": to_jsonable(outcome)}
    except InvalidArgument:
        return {"text": short_repr(outcome)}


def read_outcome(data: Json) -> Any:
    """Return an outcome that `outcome_json` wrote, unless it is the text of a value."""
    if "error" in data:
        return FailedRun(str(data["error"]), str(data.get("text", "")))
    return from_jsonable(data.get("value"), "outputs")


def format_number(value: Any) -> str:
    """Return a number for a headline: whole numbers in full, others to 17 digits where needed."""
    if (
        isinstance(value, int | Fraction)
        and Fraction(value).denominator == 1
        and abs(Fraction(value)) < 10**12
    ):
        return str(int(value))
    number = as_float(value)
    short = f"{number:.6g}"
    return short if float(short) == number or not math.isfinite(number) else f"{number:.17g}"


def format_ratio(ratio: float) -> str:
    """Return a ratio; one near 1 as ``1 + 2.2e-16``."""
    return (
        f"1 + {ratio - 1:.2g}"
        if 1 < ratio < 1 + 1e-5
        else "1 + less than 2e-16"
        if ratio == 1
        else f"{ratio:.6g}"
    )


def concluded(
    found: FoundInputs | None,
    problem: str,
    tested: Comparisons,
    visible_errors: bool,
    seconds: float,
    fields: dict[str, Any],
    remarks: tuple[str, ...] = (),
) -> StabilityResult:
    """Return the result of a search."""
    counts, pairs = tested.uncompared, tested.pairs
    causes = {
        FAILED: "pairs have errors on both sides",
        INCOMPARABLE: f"pairs of outputs could not be compared: {tested.reason}",
        UNFINISHED: "pairs have a run that did not end in its time",
    }
    notes = [
        *remarks,
        *(f"{counts[kind]:,} of {pairs:,} {what}" for kind, what in causes.items() if counts[kind]),
        *(
            ["the search ended early: the transformation had ended too many processes"]
            if tested.spent
            else []
        ),
        *fields["skipped"],
    ]
    if not problem and found is None:  # too little was compared for a verdict
        too_little = {
            "no neighboring inputs were found at these distances: audit larger d_in, or widen the "
            "domain": pairs == 0,
            f"most outputs could not be compared: {tested.reason}": 2 * counts[INCOMPARABLE]
            > pairs,
            "no two outputs could be compared: the transformation raises or does not end on every "
            "input": counts.total() >= pairs,
        }
        problem = next((text for text, applies in too_little.items() if applies), "")
    common = {"inputs": tested.inputs, "pairs": pairs, "seconds": seconds, **fields}
    if problem or found is None:
        return StabilityResult(
            verdict=Verdict.ERROR if problem else Verdict.NOT_REFUTED,
            ratio=tested.ratio,
            notes=(*filter(None, [problem]), *notes),
            **common,
        )
    kind, remark = found.excess.kind, ""
    error = kind in (RAISES, ABORTS)
    if error:
        remark = (
            "assumed: errors count as outputs here"
            if visible_errors
            else "--visible-errors (visible_errors=True) counts this as a violation"
        )
    elif kind == ROUNDING:
        remark = (
            "the excess is that of floating-point rounding: round the map up, or compute in exact "
            "arithmetic"
        )
    violated = kind in (EXCEEDS, LAW) or (visible_errors and error)
    return StabilityResult(
        verdict=Verdict.VIOLATED if violated else Verdict.INCONCLUSIVE,
        finding=kind,
        d_in=found.d_in,
        bound=tested.bounds[found.d_in],
        measured=found.excess.measured,
        ratio=found.excess.ratio,
        first=found.first,
        second=found.second,
        outcomes=found.outcomes,
        notes=(*filter(None, [remark]), *notes),
        **common,
    )


_OWNER = "audit_stability"


def audit_stability(
    transformation: Callable[[Any], Any],
    stability_map: Callable[[Any], Any],
    input_domain: InputSpace | Domain,
    input_metric: str,
    output_metric: str,
    *,
    d_in: Sequence[Any] = (1, 2, 3),
    seconds: float = 10.0,
    inputs: Sequence[Any] | None = None,
    seed: int | None = None,
    name: str | None = None,
    visible_errors: bool = False,
) -> StabilityResult:
    """Search for inputs at distance `d_in` whose outputs are further apart than
    ``stability_map(d_in)``.

    Distances are computed in exact arithmetic, so that a violation holds without a confidence
    level. A transformation that draws random numbers keeps the map if its outputs on two inputs can
    be drawn jointly within ``stability_map(d_in)``; that this is impossible is tested at confidence
    0.99.

    Parameters
    ----------
    transformation : callable
        ``f(dataset)``; an exception is an outcome. If outputs of one input differ from run to run,
        their laws are tested. An object may have ``apply_all(datasets)``, which returns a list of
        outputs and exceptions.
    stability_map : callable
        ``map(d_in)``, the claimed bound on the distance of the outputs. A `d_in` at which the map
        raises is skipped.
    input_domain : InputSpace or Domain
        Set of the inputs: a `VectorOf`, `ScalarOf` or `FrameOf`, or a domain of mechanisms.
    input_metric, output_metric : str
        ``symmetric``, ``insert-delete``, ``change-one``, ``hamming``, ``discrete``, ``absolute``,
        ``l1``, ``l2``, ``linf``, ``by:COLUMN:symmetric`` (the largest distance of a group of rows)
        or ``per-group-sum:METRIC`` (of the output: the sum of the distances of its groups).
    d_in : sequence of numbers
        Distances of inputs to audit.
    seconds : float
        Time limit of the search.
    inputs : sequence of datasets, optional
        Datasets of an InputSpace that the search tries first, also as pairs.
    seed : int, optional
        Seed of the search. Default: 0.
    name : str, optional
        Name of the transformation in the report.
    visible_errors : bool
        Whether an error on one of two neighbors only is a violation, because whoever sees the
        output sees errors. By default such a finding is INCONCLUSIVE.

    Returns
    -------
    StabilityResult
        Verdict, and the two inputs and outputs of the worst finding, shrunk.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, a metric does not apply to the input domain, or the map gives no
        number at any `d_in`.

    Examples
    --------
    >>> from dpwitness.stability import Atom, VectorOf
    >>> space = VectorOf(Atom("i32", bounds=(0, 10)))
    >>> audit_stability(sum, lambda d: 10 * d, space, "symmetric", "absolute",
    ...     seconds=0.5).verdict.value
    'NOT_REFUTED'
    >>> found = audit_stability(sum, lambda d: 9 * d, space, "symmetric", "absolute", seconds=0.5)
    >>> found.first, found.second, found.outcomes
    ([], [10], (0, 10))
    """
    require_callable("stability_map", stability_map, _OWNER)
    used_seed, _ = require_settings(_OWNER, 0 if seed is None else seed, seconds, name=name)
    require_that(
        callable(transformation) or callable(getattr(transformation, "apply_all", None)),
        "transformation must be callable, or have apply_all(datasets), got "
        f"{short_repr(transformation)}",
        _OWNER,
    )
    measure_in, measure_out = (
        metric_named(value, key, _OWNER)
        for key, value in (("input_metric", input_metric), ("output_metric", output_metric))
    )
    require_that(
        isinstance(d_in, Sequence) and not isinstance(d_in, str) and d_in,
        f"d_in must be a list of positive numbers, got {short_repr(d_in)}",
        _OWNER,
    )
    for d in d_in:
        require_positive("d_in", d, _OWNER)
    bounds, skipped = map_values(stability_map, sorted(set(d_in)))
    near = neighbors_of(
        input_domain, measure_in, list(bounds), constants_of(transformation), _OWNER
    )
    given = _require_inputs(inputs, input_domain)
    begin = time.monotonic()
    tested = Comparisons(transformation, measure_out, bounds)
    # datasets that are run twice to see whether the transformation is deterministic
    probes = [group.datasets[-1] for group in islice(near.adversarial([]), 3)]
    randomized = not all(map(same_outcome, tested.run(probes), tested.run(probes)))
    problem, law = "", None
    found = None if randomized else search(tested, near, given, seconds, used_seed)
    if found is not None:
        if near.within(found.first, found.second) is None:
            raise AssertionError(
                f"{_OWNER}: a pair of the search is not within its distance: "
                f"{found.first!r}, {found.second!r}"
            )
        randomized = not tested.repeats(found)
    if found is not None and not randomized:
        # the outcomes of smaller inputs may be random, and look worse on one run
        smaller = smallest(tested, near, found, min(5.0, max(1.0, seconds / 2)))
        found = smaller if tested.repeats(smaller) else found
        problem = STATE if is_kept(found, tested) else ""
    if randomized:
        tested = Comparisons(transformation, measure_out, bounds)
        left = max(begin + seconds - time.monotonic(), seconds / 3)
        walked = walks(near, random.Random(used_seed), [])
        groups = chain.from_iterable(zip(near.adversarial(given), walked, strict=False))
        found, law, problem = find_law(tested, groups, left, np.random.default_rng(used_seed))
    return concluded(
        found,
        problem,
        tested,
        visible_errors,
        time.monotonic() - begin,
        {
            "name": name or name_of(transformation),
            "skipped": skipped,
            "input_metric": input_metric,
            "output_metric": output_metric,
            "space": input_domain.to_json() if isinstance(input_domain, InputSpace) else None,
            "seed": used_seed,
            "audited": tuple(bounds),
            "target": named(transformation),
            "subject": transformation,
            "stability_map": stability_map,
            "randomized": randomized,
            "law": law,
        },
    )


def _require_inputs(inputs: Any, input_domain: InputSpace | Domain) -> Sequence[Any]:
    """Return the given datasets, or none. Raise InvalidArgument unless they are a list of datasets
    of an InputSpace.
    """
    given = () if inputs is None else inputs
    require_that(
        isinstance(given, Sequence) and not isinstance(given, str),
        f"inputs must be a list of datasets, got {short_repr(inputs)}",
        _OWNER,
    )
    require_that(
        inputs is None or not isinstance(input_domain, Domain),
        "inputs must be left out for a Domain, whose pairs are catalogued: give an InputSpace",
        _OWNER,
    )
    for i, dataset in enumerate(given):
        require_that(
            input_domain.contains(dataset),
            f"inputs[{i}] must belong to the input domain, got {short_repr(dataset)}",
            _OWNER,
        )
    return given


def map_values(
    stability_map: Callable[[Any], Any], d_in: Sequence[Any]
) -> tuple[dict[Any, Exact], tuple[str, ...]]:
    """Return the finite values of a stability map, and why other distances are skipped. Raise
    InvalidArgument if there are no values.
    """
    bounds: dict[Any, Exact] = {}
    skipped = []
    for d in d_in:
        problem = ""
        try:
            bound = exact(plain(stability_map(d)))
            if bound < 0:
                problem = f"gives no distance: a distance is at least 0, got {bound}"
            elif bound == math.inf:
                problem = "is infinite and claims nothing"
            else:
                bounds[d] = Fraction(bound)
        except Incomparable as error:
            problem = f"gives no distance: {error}"
        except Exception as error:
            problem = f"raises {error_text(error)}"
        if problem:
            skipped.append(f"d_in = {format_number(d)}: the map {problem}")
    require_that(
        bounds,
        f"stability_map must give a finite distance at some d_in: {'; '.join(skipped)}",
        _OWNER,
    )
    return bounds, tuple(skipped)
