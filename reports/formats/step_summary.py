"""CI step summary of a report in markdown: the answer in one sentence, then a table of the audits,
worst first.
"""

from __future__ import annotations

import os
from pathlib import Path

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import beyond, figure, number
from dpwitness.reports.cards.overview import SEVERITY
from dpwitness.reports.phrasing.summary import count_verdicts, excused, violated_in_bits
from dpwitness.reports.phrasing.wording import code, escaped_markdown, line, table, verdict

VARIABLE = "GITHUB_STEP_SUMMARY"
_BYTES = 1_000_000  # GitHub drops a summary of more than 2**20 bytes completely
_ROWS = 100


def step_summary(document: Json) -> str:
    """Return the summary of a document as a section of markdown."""
    ranked = sorted(document["results"], key=_rank)
    lines = [
        f"## {_escaped(document['title'], 200)}",
        "",
        _answer_sentence(document["results"]),
        "",
        *table(
            ["verdict", "audit", "claim", "certified", "would have been found", "source"],
            [_row(result) for result in ranked[:_ROWS]],
        ),
    ]
    if len(ranked) > _ROWS:
        lines += ["", f"And {len(ranked) - _ROWS:,} more, none worse: see the report."]
    return "\n".join([*lines, "", ""])


def append_summary(document: Json, file: Path | str) -> Path:
    """Append the summary of a document to a file and return the path; append only one sentence if
    the file would become too long.
    """
    path, text = Path(file), step_summary(document)
    size = path.stat().st_size if path.exists() else 0
    if size + len(text.encode()) > _BYTES:
        text = (
            f"\n{_answer_sentence(document['results'])} The table is left out, as this page is "
            "full.\n"
        )
    try:
        with path.open("ab") as page:
            page.write(text.encode())
    except OSError:
        if path.is_file():  # removes a partial section after an error such as a full disk
            os.truncate(path, size)
        raise
    return path


def summary_file(given: str | None = None) -> str | None:
    """Return the file for the summary: `given`, or the file in the job's environment variable, or
    None.
    """
    return given or os.environ.get(VARIABLE) or None


def _answer_sentence(results: list[Json]) -> str:
    found = count_verdicts(results)
    words = ", ".join(f"{n} {verdict(name).lower()}" for name, n in found.items() if n)
    leaky = sum(
        violated_in_bits(result) and result["verdict"] != Verdict.VIOLATED.value
        for result in results
    )
    allowed, wrong = (
        sum(bool(excused(result)) for result in results),
        sum(result.get("right") is False for result in results),
    )
    more = [
        f"{n} {what}"
        for n, what in (
            (leaky, "violated in low bits only"),
            (allowed, "accepted or expected"),
            (wrong, "that contradict the known truth"),
        )
        if n
    ]
    if found["VIOLATED"] or leaky:
        first = f"**A privacy claim is violated in {found['VIOLATED'] + leaky} of {len(results)}.**"
    elif found.get("SUSPECT"):
        first = (
            f"**A guessed claim is violated in {found['SUSPECT']} of {len(results)}; no stated "
            "claim is.**"
        )
    elif found["ERROR"] + found["INCONCLUSIVE"] == len(results):
        first = "**No audit reached a verdict: it is unknown whether these claims hold.**"
    else:
        first = (
            "**No violation was found in "
            f"{len(results) - found['ERROR'] - found['INCONCLUSIVE']} of {len(results)}.**"
        )
    return f"{first} Verdicts: {'; '.join([words or 'none', *more])}."


def _rank(result: Json) -> tuple[bool, int, bool]:
    """Return the sort key of a result: results that need action first, then by severity."""
    order = SEVERITY.index(result["verdict"])
    bits = violated_in_bits(result) and order > 0
    return (bool(excused(result)), 0 if bits else order, bits)


def _row(result: Json) -> tuple[str, ...]:
    symbol, least, detectable = (
        line(result.get("parameter") or "epsilon", 40),
        result.get("parameter_lower"),
        number(result.get("detectable")),
    )
    bits = violated_in_bits(result) and result["verdict"] != Verdict.VIOLATED.value
    excuse = f" ({_escaped(excused(result), 120)})" if excused(result) else ""
    verdict_text = verdict(result["verdict"]) + (", VIOLATED in low bits" if bits else "") + excuse
    bound = (
        beyond(symbol, least)
        if number(least) is not None
        else _escaped(result.get("headline") or "", 120)
    )
    source = result.get("source")
    return (
        verdict_text,
        code(line(result["name"], 120)),
        code(line(result.get("claim") or "", 80)),
        escaped_markdown(bound),
        escaped_markdown(f"{symbol} = {figure(detectable)}") if detectable is not None else "",
        code(line(f"{source['file']}:{source['line']}", 160)) if source else "",
    )


def _escaped(text: object, most: int) -> str:
    """Return a text of at most about `most` characters with all markup and links escaped."""
    return (
        escaped_markdown(line(text, most))
        .replace("_", "\\_")
        .replace("~", "\\~")
        .replace("](", "] (")
        .replace("://", ":&#8203;//")
        .replace("@", "&#64;")
    )
