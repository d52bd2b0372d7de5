"""Result of a search: its verdict by the kind of the finding, and its notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.stability.outcomes import ABORTS, EXCEEDS, RAISES, ROUNDING
from dpwitness.auditors.stability.result import StabilityResult
from dpwitness.auditors.stability.search import Found, Search


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
        counts = "errors count as outputs here" if visible_errors else "--visible-errors (visible_errors=True) counts this as a violation"
        notes.insert(0, f"assumed: {counts}" if visible_errors else counts)
    if kind == ROUNDING:
        notes.insert(0, "the excess is that of floating-point rounding: round the map up, or compute in exact arithmetic")
    violated = kind == EXCEEDS or (visible_errors and kind in (RAISES, ABORTS))
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
        (search.incomparable, f"pairs of outputs could not be compared: {search.comparison.incomparable}"),
        (search.unfinished, "pairs have a run that did not end in its time"),
    ):
        if number:
            yield f"{number:,} of {search.pairs:,} {what}"
    if search.spent():
        yield "the search ended early: the transformation had ended too many processes"


def _without_comparison(search: Search) -> str:
    """Return why a search without a finding has compared too little for a verdict; an empty text if it has not."""
    if search.pairs == 0:
        return (
            search.comparison.incomparable or "no neighboring inputs were found at these distances: audit larger d_in, or widen the domain"
        )
    if 2 * search.incomparable > search.pairs:
        return f"most outputs could not be compared: {search.comparison.incomparable}"
    if search.failed + search.incomparable + search.unfinished >= search.pairs:
        return "no two outputs could be compared: the transformation raises or does not end on every input"
    return ""
