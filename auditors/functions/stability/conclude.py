"""Result of a search: its verdict by the kind of the finding, its notes, and the check of a written
result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpwitness.auditors.functions.stability.exact_numbers import Incomparable
from dpwitness.auditors.functions.stability.metrics import metric_named
from dpwitness.auditors.functions.stability.outcomes import (
    ABORTS,
    EXCEEDS,
    LAW,
    RAISES,
    ROUNDING,
    Comparison,
    Failure,
)
from dpwitness.auditors.functions.stability.randomized import LawTest
from dpwitness.auditors.functions.stability.result import StabilityResult, read_number, written
from dpwitness.auditors.functions.stability.search import Found, Search
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument


def concluded(
    found: Found | None,
    problem: str,
    search: Search,
    visible_errors: bool,
    seconds: float,
    fields: dict[str, Any],
    remarks: tuple[str, ...] = (),
) -> StabilityResult:
    """Return the result of a search."""
    notes = [*remarks, *_search_notes(search)]
    common = {"inputs": search.inputs, "pairs": search.pairs, "seconds": seconds, **fields}
    if not problem and found is None:
        problem = _without_comparison(search)
    if problem or found is None:
        none: dict[str, Any] = dict.fromkeys(("d_in", "bound", "measured", "first", "second"))
        return StabilityResult(
            verdict=Verdict.ERROR if problem else Verdict.NOT_REFUTED,
            finding="",
            ratio=search.ratio,
            outcomes=(),
            notes=(*([problem] if problem else []), *notes, *fields["skipped"]),
            **none,
            **common,
        )
    kind = found.excess.kind
    if kind in (RAISES, ABORTS):
        counts = (
            "errors count as outputs here"
            if visible_errors
            else "--visible-errors (visible_errors=True) counts this as a violation"
        )
        notes.insert(0, f"assumed: {counts}" if visible_errors else counts)
    if kind == ROUNDING:
        notes.insert(
            0,
            "the excess is that of floating-point rounding: round the map up, or compute in "
            "exact arithmetic",
        )
    violated = kind in (EXCEEDS, LAW) or (visible_errors and kind in (RAISES, ABORTS))
    return StabilityResult(
        verdict=Verdict.VIOLATED if violated else Verdict.INCONCLUSIVE,
        finding=kind,
        d_in=found.d_in,
        bound=search.comparison.bounds[found.d_in],
        measured=found.excess.measured,
        ratio=found.excess.ratio,
        first=found.first,
        second=found.second,
        outcomes=found.outcomes,
        notes=(*notes, *fields["skipped"]),
        **common,
    )


def _search_notes(search: Search) -> Iterator[str]:
    """Yield notes on pairs that could not be compared, and on a search that ended early."""
    for number, what in (
        (search.failed, "pairs have errors on both sides"),
        (
            search.incomparable,
            f"pairs of outputs could not be compared: {search.comparison.incomparable}",
        ),
        (search.unfinished, "pairs have a run that did not end in its time"),
    ):
        if number:
            yield f"{number:,} of {search.pairs:,} {what}"
    if search.spent():
        yield "the search ended early: the transformation had ended too many processes"


def _without_comparison(search: Search) -> str:
    """Return why a search without a finding has compared too little for a verdict; an empty text if
    it has not.
    """
    if search.pairs == 0:
        return (
            search.comparison.incomparable
            or "no neighboring inputs were found at these distances: audit larger d_in, or "
            "widen the domain"
        )
    if 2 * search.incomparable > search.pairs:
        return f"most outputs could not be compared: {search.comparison.incomparable}"
    if search.failed + search.incomparable + search.unfinished >= search.pairs:
        return (
            "no two outputs could be compared: the transformation raises or does not end on "
            "every input"
        )
    return ""


_VERDICTS = {
    EXCEEDS: ("VIOLATED", "SUSPECT"),
    LAW: ("VIOLATED", "SUSPECT"),
    ROUNDING: ("INCONCLUSIVE",),
    RAISES: ("VIOLATED", "SUSPECT", "INCONCLUSIVE"),
    ABORTS: ("VIOLATED", "SUSPECT", "INCONCLUSIVE"),
    "": ("NOT_REFUTED", "ERROR"),
}


def recheck(result: Json) -> bool:
    """Return whether distance and verdict of a result in JSON follow from its outputs. Raise
    InvalidArgument if they contradict them.
    """
    finding, verdict, name = result.get("finding"), result["verdict"], result.get("name", "")
    if finding not in _VERDICTS:
        raise InvalidArgument(
            f"result {name!r}: finding must be one of {', '.join(_VERDICTS)}, got {finding!r}"
        )
    if verdict not in _VERDICTS[finding]:
        raise InvalidArgument(
            f"result {name!r} is damaged or edited: verdict must be "
            f"{' or '.join(_VERDICTS[finding])}, got {verdict}"
        )
    outputs = result.get("outputs") or []
    if not finding or any("text" in each and "error" not in each for each in outputs):
        return False
    sides = [
        Failure(str(each["error"]), str(each.get("text", "")))
        if "error" in each
        else from_jsonable(each.get("value"), "outputs")
        for each in outputs
    ]
    bound, metric = (
        read_number(result.get("bound_exact")),
        metric_named(result.get("output_metric"), "output_metric", f"result {name!r}"),
    )
    if bound is None or len(sides) != 2:
        raise InvalidArgument(
            f"result {name!r} is damaged or edited: it needs two outputs and bound_exact"
        )
    try:
        found = Comparison(metric, {1: bound}).excess(sides[0], sides[1], 1)
    except Incomparable:
        found = None
    kind = found.kind if found else ""
    if finding == LAW and kind == EXCEEDS and LawTest.from_json(result.get("law") or {}).refuted:
        kind = LAW
    right = (kind, written(found.measured)) if found else ("", None)
    if right != (finding, result.get("measured_exact")):
        recorded = (finding, result.get("measured_exact"))
        raise InvalidArgument(
            f"result {name!r} is damaged or edited: finding and measured_exact must be "
            f"{right}, got {recorded}"
        )
    return bool(finding in (EXCEEDS, LAW))
