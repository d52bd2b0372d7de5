"""Comparison of two reports: changed verdicts, numbers that changed by more than their error, added
and removed rows; as a table on a terminal, in Markdown and as a page.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.values.atomic_files import atomic_folder, write_json, write_text
from dpwitness.core.values.json_reader import Json, printable
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.audit.document import checked_document, read_document
from dpwitness.reports.audit.report import check_writable
from dpwitness.reports.comparison.intervals import Interval, intervals
from dpwitness.reports.formats.html_frame import page
from dpwitness.reports.phrasing.summary import acceptance_text, fingerprint, rules_of
from dpwitness.reports.phrasing.wording import code, escaped_markdown, table, verdict

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
_WITHOUT_VERDICT = (Verdict.ERROR.value, Verdict.INCONCLUSIVE.value, Verdict.SUSPECT.value)


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
        found: Json = strict(
            {"what": self.what, **ends, "change": self.change, "remark": self.remark}
        )
        return found


@dataclass(frozen=True, slots=True)
class Violation:
    """Rule that the new run breaks and the old run does not break."""

    rule: str
    fingerprint: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a comparison: one audit in both reports, or in one of them.

    `old` and `new` are the verdicts, None if a report does not have the audit; `old_bits` and
    `new_bits` are the verdicts on low bits.
    """

    name: str
    kind: str | None
    claim: str | None
    relation: str | None
    test: str | None
    old: str | None
    new: str | None
    old_bits: str | None
    new_bits: str | None
    violations: tuple[Violation, ...]
    moves: tuple[NumberChange, ...]
    accepted: Json | None

    @property
    def changes(self) -> tuple[str, ...]:
        """Return the kinds of change of the row, worst first; ("same",) if nothing changed."""
        found = set(self._changes()) - {"same"}
        return tuple(change for change in CHANGES if change in found) or ("same",)

    @property
    def without(self) -> bool:
        """Return whether the audit has no verdict now, and had a verdict before or is new.

        A trace with accepted findings does not count.
        """
        accepted_rules = (self.accepted or {"rules": []})["rules"]
        return (
            self.new in _WITHOUT_VERDICT
            and self.old not in _WITHOUT_VERDICT
            and "TRACE" not in accepted_rules
        )

    def _changes(self) -> Iterator[str]:
        if any(not violation.accepted for violation in self.violations):
            yield "new violation"
        if self.without:
            yield "no verdict"
        if self.old is None or self.new is None:
            yield "came" if self.old is None else "went"
        elif (self.old, self.old_bits) != (self.new, self.new_bits):
            yield "verdict changed"
        yield from (move.change for move in self.moves)

    def to_json(self) -> Json:
        return {
            **{key: getattr(self, key) for key in ("name", "kind", "claim", "relation", "test")},
            "changes": list(self.changes),
            "old": {"verdict": self.old, "bit_level": self.old_bits} if self.old else None,
            "new": {"verdict": self.new, "bit_level": self.new_bits} if self.new else None,
            "new_violations": [asdict(violation) for violation in self.violations],
            "moves": [move.to_json() for move in self.moves],
            "accepted": self.accepted,
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Comparison(Result):
    """Result of the comparison of two reports.

    The verdict is VIOLATED if the new report has a violation that is neither in the old report nor
    accepted; otherwise INCONCLUSIVE if a row lost its verdict, or is new and has none; otherwise
    NOT_REFUTED.
    """

    kind: ClassVar[str] = "comparison"

    rows: tuple[Row, ...]  # all rows of both reports, worst first
    old: str  # names of the reports
    new: str

    @property
    def evidence(self) -> str:
        """Return "statistical": the comparison uses intervals with a stated error probability."""
        return "statistical"

    def headline(self) -> str:
        found = self.counts
        counted_changes = [
            f"{number} {verdict_text}" for verdict_text, number in found.items() if number
        ]
        verdict_text = (
            verdict(self.verdict.value)
            if self.verdict is not Verdict.NOT_REFUTED
            else "NO NEW VIOLATION"
        )
        return f"{verdict_text}: {', '.join(counted_changes) if counted_changes else 'no audits'}"

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
    found = (
        Verdict.VIOLATED
        if "new violation" in changes
        else Verdict.INCONCLUSIVE
        if "no verdict" in changes
        else Verdict.NOT_REFUTED
    )
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
    unmatched = list(before)
    for key_function in (_row_key, lambda result: _row_key(result | {"relation": None})):
        candidates: defaultdict[Any, list[Json]] = defaultdict(list)
        for result in unmatched:
            candidates[key_function(result)].append(result)
        for place, result in enumerate(after):
            found = candidates[key_function(result)] if place not in partners else []
            without_relation = (
                None in (result.get("relation"), found[0].get("relation")) if found else False
            )
            if found and (without_relation or _row_key(found[0]) == _row_key(result)):
                partners[place] = found.pop(0)
        taken = {id(result) for result in partners.values()}
        unmatched = [result for result in unmatched if id(result) not in taken]
    yield from ((partners.get(place), result) for place, result in enumerate(after))
    yield from ((result, None) for result in unmatched)


def _row_key(result: Json) -> tuple[Any, ...]:
    return tuple(result.get(key) for key in ("name", "claim", "relation", "kind", "test"))


def _row(old: Json | None, new: Json | None) -> Row:
    present = new if new is not None else old or {}
    accepted = present.get("accepted")
    # a trace alone does not refute a claim
    before, now = (set(rules_of(result)) - {"TRACE"} if result else set() for result in (old, new))
    violations = tuple(
        Violation(
            rule, fingerprint(present, rule), accepted is not None and rule in accepted["rules"]
        )
        for rule in sorted(now - before)
    )
    return Row(
        name=str(present["name"]),
        **{key: present.get(key) for key in ("kind", "claim", "relation", "test")},
        old=old["verdict"] if old else None,
        new=new["verdict"] if new else None,
        old_bits=_bits(old),
        new_bits=_bits(new),
        violations=violations,
        moves=tuple(_compare_numbers(old, new)) if old and new else (),
        accepted=accepted,
    )


def _bits(result: Json | None) -> str | None:
    return ((result or {}).get("bit_level") or {}).get("verdict")


def _compare_numbers(old: Json, new: Json) -> Iterator[NumberChange]:
    before, now = intervals(old), intervals(new)
    for what in (name for name in now if name in before):
        older, newer = before[what], now[what]
        change = "rose" if newer.above(older) else "fell" if older.above(newer) else "same"
        remark = "another event" if change != "same" and older.event != newer.event else ""
        if change != "same" and newer.elsewhere(older):
            change = "higher elsewhere" if change == "rose" else "lower elsewhere"
        yield NumberChange(what, older, newer, change, remark)


HEADER = ("change", "audit", "claim", "old", "new", "numbers [interval of the run]")


def terminal(comparison: Comparison, *, explain: bool = False) -> str:
    """Return a comparison as text for a terminal: the headline, and a table of the changed rows,
    worst first.
    """
    rows = [HEADER, *(_cells(row) for row in changed(comparison))]
    lines = [comparison.headline(), f"old: {comparison.old}", f"new: {comparison.new}"]
    if len(rows) > 1:
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
        lines += [
            "",
            *(
                "  ".join(
                    text.ljust(width) for text, width in zip(row, widths, strict=True)
                ).rstrip()
                for row in rows
            ),
        ]
    return "\n".join([*lines, "", CRITERION] if explain else lines)


def markdown(comparison: Comparison) -> str:
    """Return a comparison as a markdown page."""
    rows = changed(comparison)
    formatters = (
        escaped_markdown,
        code,
        code,
        escaped_markdown,
        escaped_markdown,
        escaped_markdown,
    )
    cells = [
        [formatter(text) for formatter, text in zip(formatters, _cells(row), strict=True)]
        for row in rows
    ]
    lines = [
        "# Comparison",
        "",
        f"**{escaped_markdown(comparison.headline())}**",
        "",
        f"Old: {code(comparison.old)}. New: {code(comparison.new)}.",
        "",
        f"What to do: {_what_to_do(comparison)}.",
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


def changed(comparison: Comparison) -> list[Row]:
    """Return the rows of a comparison with any change."""
    return [row for row in comparison.rows if row.changes != ("same",)]


def _cells(row: Row) -> tuple[str, ...]:
    """Return the texts of a row's cells, in the order of `HEADER`."""
    moves = [
        f"{move.what}: {move.old.symbol} {move.old} -> {move.new}, "
        f"{move.change}{f' ({move.remark})' if move.remark else ''}"
        for move in row.moves
        if move.change != "same"
    ]
    notes = [*moves, *([f"test {row.test}"] if row.test else [])]
    if row.accepted:
        notes.append(f"accepted {acceptance_text({'accepted': row.accepted})}")
    rules = [violation.rule for violation in row.violations if not violation.accepted]
    change = ", ".join(
        f"{each} ({', '.join(rules)})" if each == "new violation" else each for each in row.changes
    )
    return (
        change,
        row.name,
        row.claim or "-",
        _verdicts(row.old, row.old_bits),
        _verdicts(row.new, row.new_bits),
        "; ".join(notes),
    )


def _verdicts(value: str | None, bits: str | None) -> str:
    """Return the verdict on values, and the verdict on low bits if there is one, as text."""
    return verdict(value or "-") + (f", bits {verdict(bits).lower()}" if bits else "")


def _what_to_do(comparison: Comparison) -> str:
    """Return the advice that follows from the counts of changes."""
    found = comparison.counts
    steps = (
        "release nothing under a claim that is newly violated: replay its witness, which is in "
        "the folder of the new report"
        if found["new violation"]
        else "",
        "run the audits without a verdict again" if found["no verdict"] else "",
        "look at what rose: the mechanism leaks more, or the new run found a better event"
        if found["rose"]
        else "",
        "look at what fell: the mechanism leaks less, or the new run found a weaker event"
        if found["fell"]
        else "",
        "run both audits on the same pair (--d0, --d1) where the numbers come from different pairs"
        if found["higher elsewhere"] + found["lower elsewhere"]
        else "",
    )
    return "; ".join(filter(None, steps)) or "no change is needed on this evidence"
