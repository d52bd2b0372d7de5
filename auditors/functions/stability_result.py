"""Result of a stability audit, with its headline, its JSON and its witness, and the check of
a written result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

from dpwitness.auditors.functions.stability_laws import LawTest
from dpwitness.auditors.functions.stability_metrics import Exact, as_float
from dpwitness.auditors.functions.stability_search import (
    EXCEEDS,
    FAILED,
    INCOMPARABLE,
    LAW,
    ROUNDING,
    Comparisons,
    FoundInputs,
)
from dpwitness.auditors.witnesses.result import FunctionResult, named
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, short_repr
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
        """The function that was run; for a declared transformation, that which it applies."""
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
