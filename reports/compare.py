"""Comparison of two reports: changed verdicts, numbers that changed by more than their error, added
and removed rows; as a table on a terminal, in Markdown and as a page.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.values.atomic_files import atomic_folder, write_json, write_text
from dpwitness.core.values.json_reader import Json, printable
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.document import checked_document, read_document
from dpwitness.reports.html_format import page
from dpwitness.reports.intervals import Interval, intervals
from dpwitness.reports.report import check_writable
from dpwitness.reports.summary import acceptance_text, fingerprint, rules_of
from dpwitness.reports.wording import (
    aligned,
    code,
    escaped_markdown,
    float_rounding,
    table,
    verdict,
)

SCHEMA = 1
CRITERION = (
    "A number has changed if the intervals of the two runs are disjoint. The interval of an "
    "audit by runs belongs to the number "
    "of its event: exact binomial limits of the event's counts, so wide that two events with "
    "the same number are wrongly "
    "reported as changed with probability at most 1 - confidence (utilities, whose limits "
    "hold one by one: at most four times "
    "this probability). If the runs learned different events, the change is between the "
    "numbers of these events. A number that "
    "was measured on another pair of datasets, or in other low bits, is reported as higher "
    "or lower elsewhere, not as changed."
)
CHANGES = (
    "new violation",
    "no verdict",
    "rose",
    "verdict changed",
    "fell",
    "higher elsewhere",
    "lower elsewhere",
    "came",
    "went",
    "same",
)


@dataclass(frozen=True, slots=True)
class NumberChange:
    """Comparison of one number in both runs.

    `change` is ``rose``, ``fell``, ``higher elsewhere``, ``lower elsewhere`` or ``same``.
    """

    what: str
    old: Interval
    new: Interval
    change: str
    remark: str = ""  # "another event" if the events differ

    def to_json(self) -> Json:
        sides = (("old", self.old), ("new", self.new))
        ends = {
            side: {"shown": it.reported, "low": it.low, "high": it.high, "parameter": it.symbol}
            for side, it in sides
        }
        return {"what": self.what, **strict(ends), "change": self.change, "remark": self.remark}


@dataclass(frozen=True, slots=True)
class ComparedAudit:
    """Row of a comparison: one audit in both reports, or in one of them.

    `before` and `after` are the results in the two reports, None if a report does not have the
    audit. `violations` are the rules that the new run breaks and the old run does not break, with
    their fingerprints and whether they are accepted.
    """

    before: Json | None
    after: Json | None
    violations: tuple[Json, ...]
    moves: tuple[NumberChange, ...]

    @property
    def name(self) -> str:
        return str(self.result["name"])

    @property
    def result(self) -> Json:
        """Return the result in the new report, or in the old report if the new one has none."""
        return self.after if self.after is not None else self.before or {}

    @property
    def changes(self) -> tuple[str, ...]:
        """Return the kinds of change of the row, worst first; ("same",) if nothing changed."""
        old, new = _verdicts(self.before), _verdicts(self.after)
        undecided_before, undecided_now = (
            side is not None and not Verdict(side["verdict"]).decided for side in (old, new)
        )
        accepted_rules = (self.result.get("accepted") or {"rules": []})["rules"]
        conditions = {
            "new violation": any(not violation["accepted"] for violation in self.violations),
            # a trace with accepted findings counts as one with a verdict
            "no verdict": undecided_now and not undecided_before and "TRACE" not in accepted_rules,
            "verdict changed": None not in (old, new) and old != new,
            "came": old is None,
            "went": new is None,
        }
        found = {change for change, holds in conditions.items() if holds}
        found |= {move.change for move in self.moves} - {"same"}
        return tuple(change for change in CHANGES if change in found) or ("same",)

    def to_json(self) -> Json:
        keys = ("name", "kind", "claim", "relation", "test")
        return {
            **{key: self.result.get(key) for key in keys},
            "changes": list(self.changes),
            "old": _verdicts(self.before),
            "new": _verdicts(self.after),
            "new_violations": list(self.violations),
            "moves": [move.to_json() for move in self.moves],
            "accepted": self.result.get("accepted"),
        }


def _verdicts(result: Json | None) -> Json | None:
    """Return the verdicts of a result on values and on low bits; None without a result."""
    bits = ((result or {}).get("bit_level") or {}).get("verdict")
    return None if result is None else {"verdict": result["verdict"], "bit_level": bits}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Comparison(Result):
    """Result of the comparison of two reports.

    The verdict is VIOLATED if the new report has a violation that is neither in the old report nor
    accepted; otherwise INCONCLUSIVE if a row lost its verdict, or is new and has none; otherwise
    NOT_REFUTED.
    """

    kind: ClassVar[str] = "comparison"

    rows: tuple[ComparedAudit, ...]  # all rows of both reports, worst first
    old: str  # names of the reports
    new: str

    @property
    def evidence(self) -> str:
        """Return "statistical": the comparison uses intervals with a stated error probability."""
        return "statistical"

    def headline(self) -> str:
        counts = ", ".join(f"{number} {change}" for change, number in self.counts.items() if number)
        calm = self.verdict is Verdict.NOT_REFUTED
        word = "NO NEW VIOLATION" if calm else verdict(self.verdict.value)
        return f"{word}: {counts or 'no audits'}"

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of rows by kind of change; each row counts with its worst change."""
        found = Counter(row.changes[0] for row in self.rows)
        return {change: found[change] for change in CHANGES}

    def to_json(self) -> Json:
        return {
            "schema_version": SCHEMA,
            "kind": self.kind,
            "name": self.name,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "criterion": CRITERION,
            "old": self.old,
            "new": self.new,
            "counts": self.counts,
            "rows": [row.to_json() for row in self.rows],
        }


def compare(old: str | Path | Mapping[str, Any], new: str | Path | Mapping[str, Any]) -> Comparison:
    """Compare a report with an earlier report.

    Parameters
    ----------
    old, new : str, Path or dict
        ``audit.json`` of two reports, as paths or documents. Rows are matched by name, claim,
        relation, kind, and test if present. If several rows agree in all of these, they are matched
        in order.

    Returns
    -------
    Comparison
        Verdict and all rows of both reports.

    Raises
    ------
    InvalidArgument
        If `old` or `new` is not a report of dpwitness, or is from a newer version.
    """
    (before, old_name), (after, name) = _load_document(old, "old"), _load_document(new, "new")
    pairs = _match_rows(before["results"], after["results"])
    # Stable: ties keep the order of the new report.
    rows = sorted((_row(*pair) for pair in pairs), key=lambda row: CHANGES.index(row.changes[0]))
    changes = {row.changes[0] for row in rows}
    found = Verdict.INCONCLUSIVE if "no verdict" in changes else Verdict.NOT_REFUTED
    if "new violation" in changes:
        found = Verdict.VIOLATED
    return Comparison(
        name=f"{old_name} -> {name}", verdict=found, rows=tuple(rows), old=old_name, new=name
    )


def _load_document(given: str | Path | Mapping[str, Any], side: str) -> tuple[Json, str]:
    if isinstance(given, Mapping):
        return checked_document(strict(given), f"compare: {side}"), side
    if not isinstance(given, str | Path):
        raise InvalidArgument(
            f"compare: {side} must be a path or a document, got {type(given).__name__}"
        )
    return read_document(given), printable(str(given))


def _match_rows(
    before: Sequence[Json], after: Sequence[Json]
) -> Iterator[tuple[Json | None, Json | None]]:
    """Yield (old, new) for each row of the new report with its match, then (old, None) for the
    unmatched rows of the old report.

    An audit that failed may have no pair. So a row without a relation also matches a row with a
    relation.
    """
    partners: dict[int, Json] = {}
    unmatched: defaultdict[Any, list[Json]] = defaultdict(list)
    for result in before:
        unmatched[_row_key(result)].append(result)
    for fits in (operator.eq, lambda old, new: None in (old, new)):
        for place, result in enumerate(after):
            relation, candidates = result.get("relation"), unmatched[_row_key(result)]
            for i, old in enumerate(candidates):
                if place not in partners and fits(old.get("relation"), relation):
                    partners[place] = candidates.pop(i)
                    break
    yield from ((partners.get(place), result) for place, result in enumerate(after))
    yield from ((result, None) for group in unmatched.values() for result in group)


def _row_key(result: Json) -> tuple[Any, ...]:
    return tuple(result.get(key) for key in ("name", "claim", "kind", "test"))


def _row(old: Json | None, new: Json | None) -> ComparedAudit:
    # a trace alone does not refute a claim
    before, now = (set(rules_of(result)) - {"TRACE"} if result else set() for result in (old, new))
    accepted_rules = ((new or {}).get("accepted") or {}).get("rules", ())
    violations = tuple(
        {
            "rule": rule,
            "fingerprint": fingerprint(new or {}, rule),
            "accepted": rule in accepted_rules,
        }
        for rule in sorted(now - before)
    )
    return ComparedAudit(
        old, new, violations, tuple(_compare_numbers(old, new)) if old and new else ()
    )


def _compare_numbers(old: Json, new: Json) -> Iterator[NumberChange]:
    before, now = intervals(old), intervals(new)
    for what in (name for name in now if name in before):
        older, newer = before[what], now[what]
        elsewhere, other_event = newer.elsewhere(older), older.event != newer.event
        change, remark = "same", ""
        if newer.above(older):
            change = "higher elsewhere" if elsewhere else "rose"
        elif older.above(newer):
            change = "lower elsewhere" if elsewhere else "fell"
        if change != "same" and other_event:
            remark = "another event"
        yield NumberChange(what, older, newer, change, remark)


HEADER = ("change", "audit", "claim", "old", "new", "numbers [interval of the run]")


def terminal(comparison: Comparison, *, explain: bool = False) -> str:
    """Return a comparison as text for a terminal: the headline, and a table of the changed rows,
    worst first.
    """
    rows = [_cells(row) for row in changed(comparison)]
    lines = [comparison.headline(), f"old: {comparison.old}", f"new: {comparison.new}"]
    lines += ["", *aligned([HEADER, *rows])] if rows else []
    return "\n".join([*lines, "", CRITERION] if explain else lines)


def markdown(comparison: Comparison) -> str:
    """Return a comparison as a markdown page."""
    rows = changed(comparison)
    found = comparison.counts
    steps = {
        "release nothing under a claim that is newly violated: replay its witness, which is in "
        "the folder of the new report": found["new violation"],
        "run the audits without a verdict again": found["no verdict"],
        "look at what rose: the mechanism leaks more, or the new run found a better event": found[
            "rose"
        ],
        "look at what fell: the mechanism leaks less, or the new run found a weaker event": found[
            "fell"
        ],
        "run both audits on the same pair (--d0, --d1) where the numbers come from different "
        "pairs": found["higher elsewhere"] + found["lower elsewhere"],
    }
    taken = [step for step, count in steps.items() if count]
    advice = "; ".join(taken) or "no change is needed on this evidence"
    cells = [
        [(code if i in (1, 2) else escaped_markdown)(cell) for i, cell in enumerate(_cells(row))]
        for row in rows
    ]
    lines = [
        "# Comparison",
        "",
        f"**{escaped_markdown(comparison.headline())}**",
        "",
        f"Old: {code(comparison.old)}. New: {code(comparison.new)}.",
        "",
        f"What to do: {advice}.",
        "",
        "## What changed",
        "",
        *(table(HEADER, cells) if rows else ["Nothing."]),
    ]
    same = len(comparison.rows) - len(rows)
    if same:
        lines += ["", f"The same within their error: {same}."]
    return "\n".join([*lines, "", "## How it was judged", "", CRITERION]) + "\n"


def html(comparison: Comparison) -> str:
    """Return a comparison as an HTML page in one file."""
    return page("Comparison", markdown(comparison))


WRITERS: dict[str, Callable[[Comparison], str]] = {"md": markdown, "html": html}


def write(
    comparison: Comparison, folder: Path | str, formats: Sequence[str] = ("md",)
) -> list[Path]:
    """Write ``compare.json`` and the given formats, ``compare.md`` or ``compare.html``; return the
    paths, the JSON last.
    """
    path = check_writable(folder)
    with atomic_folder(path) as draft:
        for name in formats:
            write_text(draft / f"compare.{name}", WRITERS[name](comparison))
        write_json(draft / "compare.json", comparison.to_json())
    return [path / f"compare.{name}" for name in (*formats, "json")]


def changed(comparison: Comparison) -> list[ComparedAudit]:
    """Return the rows of a comparison with any change."""
    return [row for row in comparison.rows if row.changes != ("same",)]


def _cells(row: ComparedAudit) -> tuple[str, ...]:
    """Return the texts of a row's cells, in the order of `HEADER`."""
    result = row.result
    notes = [
        f"{move.what}: {move.old.symbol} {move.old} -> {move.new}, "
        f"{move.change}{f' ({move.remark})' if move.remark else ''}"
        for move in row.moves
        if move.change != "same"
    ]
    if result.get("test"):
        notes.append(f"test {result['test']}")
    if result.get("accepted"):
        notes.append(f"accepted {acceptance_text(result)}")
    rules = ", ".join(it["rule"] for it in row.violations if not it["accepted"])
    change = ", ".join(row.changes).replace("new violation", f"new violation ({rules})")
    old, new = (_format_verdicts(_verdicts(each)) for each in (row.before, row.after))
    return (change, row.name, result.get("claim") or "-", old, new, "; ".join(notes))


def _format_verdicts(found: Json | None) -> str:
    if found is None:
        return "-"
    bits = found["bit_level"]
    return verdict(found["verdict"]) + (f", float rounding {float_rounding(bits)}" if bits else "")
