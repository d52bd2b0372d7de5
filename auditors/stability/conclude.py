"""Result of a search: its verdict by the kind of the finding, and its notes."""

from __future__ import annotations

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
    notes = list(remarks)
    common = {"inputs": search.inputs, "pairs": search.pairs, "seconds": seconds, **fields}
    if search.failed:
        reason = search.comparison.incomparable or "both outcomes are errors"
        notes.append(f"{search.failed:,} of {search.pairs:,} pairs of outputs could not be compared: {reason}")
    if search.spent():
        notes.append("the search ended early: the transformation had ended too many processes")
    if search.unfinished:
        notes.append(f"{search.unfinished:,} pairs had a run that did not end in its time")
    if not problem and found is None and search.failed >= search.pairs:
        problem = f"no two outputs could be compared: {search.comparison.incomparable or 'the transformation raises on every input'}"
    if problem or found is None:
        verdict = Verdict.ERROR if problem else Verdict.NOT_REFUTED
        none: dict[str, Any] = dict.fromkeys(("d_in", "bound", "measured", "first", "second"))
        return StabilityResult(
            verdict=verdict,
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
