"""Markdown of a report document: the report itself, the step summary of CI services, and an
evidence sheet that follows the parts of NIST SP 800-226.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import beyond, figure, number
from dpwitness.reports.album import PLOTS_AS_FILES, Album, text_of
from dpwitness.reports.cards import (
    SEVERITY,
    answer,
    card,
    columns,
    legend,
    opening,
    sort_worst_first,
)
from dpwitness.reports.summary import (
    QUESTION,
    Entry,
    claim_facts,
    excused,
    family,
    untested,
    violated_in_bits,
)
from dpwitness.reports.wording import code, escaped_markdown, line, plain, table, verdict


def markdown(document: Json, entries: Sequence[Entry], overview: str | None = None) -> str:
    """Return the markdown text of a report.

    `overview` is the file of the plot of all audits. The plots of an audit are in its entry.
    """
    results = [entry.result for entry in entries]
    first, *others = opening(entries, family(document["results"]))
    shown = columns(entries)
    rows = [[column.text(entry) for column in shown] for entry in sort_worst_first(entries)]
    parts = [
        [f"# {first}"],
        [f"{escaped_markdown(document['title'])}: {QUESTION}"],
        *([text] for text in others),
        ["## Summary"],
        table([column.head for column in shown], rows),
        [f"![Certified over claimed, all audits]({overview})"] if overview else [],
        [legend(entries)],
    ]
    if entries:
        parts += [
            ["## The claim" + ("s" if len(entries) > 1 else "")],
            table(("", ""), claim_facts(results)),
            ["What was not tested:"],
            [f"- {text}" for text in untested(results)],
        ]
    lines = [line for part in [*parts, ["## Audits"]] if any(part) for line in (*part, "")]
    for entry in entries:
        lines += card(entry)
    lines += ["## Run", ""]
    command = document["command"]
    if command:
        fenced = ["```", plain(" ".join(command.split())).replace("```", "'''"), "```"]
        lines += [*([escaped_markdown(command)] if "<" in command else fenced), ""]
    environment = document["environment"].items()
    lines += table(("", ""), [tuple(map(escaped_markdown, row)) for row in environment])
    return "\n".join(lines).rstrip() + "\n"


def markdown_with_plots(document: Json, entries: Sequence[Entry], album: Album) -> str:
    """Return the markdown text of a report, and write its plots into the folder of the album."""
    with_plots = []
    for entry in entries:
        plots = {f"{kind}-{entry.slug}.svg": kind for kind in album.kinds(entry)[:PLOTS_AS_FILES]}
        for name, kind in plots.items():
            write_text(album.folder / name, album.svg(entry, kind))
        shown = tuple((text_of(kind, entry), name) for name, kind in plots.items())
        with_plots.append(replace(entry, plots=shown))
    overview = album.overview(document["results"])
    if overview is not None:
        write_text(album.folder / "summary.svg", overview)
    return markdown(document, with_plots, "summary.svg" if overview else None)


VARIABLE = "GITHUB_STEP_SUMMARY"
_ROWS = 100


def step_summary(document: Json) -> str:
    """Return the summary of a document as a section of markdown: the answer, then a table of the
    audits, those that need action first.
    """

    def rank(result: Json) -> tuple[bool, int, bool]:
        order = SEVERITY.index(result["verdict"])
        bits = violated_in_bits(result) and order > 0
        return (bool(excused(result)), 0 if bits else order, bits)

    ranked = sorted(document["results"], key=rank)
    header = ("verdict", "audit", "claim", "certified", "would have been found", "source")
    lines = [
        f"## {_escaped(document['title'], 200)}",
        "",
        _answer(document["results"]),
        "",
        *table(header, map(_row, ranked[:_ROWS])),
    ]
    if len(ranked) > _ROWS:
        lines += ["", f"And {len(ranked) - _ROWS:,} more, none worse: see the report."]
    return "\n".join([*lines, "", ""])


def append_summary(document: Json, file: Path | str) -> Path:
    """Append the summary of a document to a file and return the path; append the answer only if
    the file would become too long.
    """
    path, text = Path(file), step_summary(document)
    size = path.stat().st_size if path.exists() else 0
    # GitHub drops a summary of more than 2**20 bytes completely
    if size + len(text.encode()) > 1_000_000:
        text = f"\n{_answer(document['results'])} The table is left out, as this page is full.\n"
    with path.open("ab") as page:
        page.write(text.encode())
    return path


def summary_file(given: str | None = None) -> str | None:
    """Return the file for the summary: `given`, or the file in the job's environment variable, or
    None.
    """
    return given or os.environ.get(VARIABLE) or None


def _answer(results: Sequence[Json]) -> str:
    """Return the answer of a report in one line, its first sentence in bold."""
    first, *others = answer([Entry(result, "") for result in results])
    return " ".join([f"**{first}**", *others])


def _row(result: Json) -> tuple[str, ...]:
    symbol = line(result.get("parameter") or "epsilon", 40)
    least, detectable = number(result.get("parameter_lower")), number(result.get("detectable"))
    shown, reason, source = verdict(result["verdict"]), excused(result), result.get("source")
    if violated_in_bits(result) and shown != "VIOLATED":
        shown += ", float rounding distinguishable"
    if reason:
        shown += f" ({_escaped(reason, 120)})"
    bound = _escaped(result.get("headline") or "", 120)
    return (
        shown,
        code(line(result["name"], 120)),
        code(line(result.get("claim") or "", 80)),
        bound if least is None else escaped_markdown(beyond(symbol, least)),
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


NOT_COVERED = "not covered"  # the sheet never infers an answer
_SHOWN = 12  # audits per row


def sheet(document: Json) -> str:
    """Return the evidence sheet of a report as Markdown.

    Parameters
    ----------
    document : dict
        Document from `document.build_document`.

    Returns
    -------
    str
        The Markdown text: one table for each part of the publication, then the properties that were
        not tested.
    """
    results = document["results"]
    lines = [
        f"# Evidence sheet: {escaped_markdown(line(document['title'], 200))}",
        "",
        "The sheet follows NIST SP 800-226, *Guidelines for Evaluating Differential Privacy "
        "Guarantees*. Each row states what the audits "
        f"of this report measured; *{NOT_COVERED}* means that no audit of the report looked "
        "at the subject.",
        "",
    ]
    for part, rows in _sheet_rows(results).items():
        answers = [
            (subject, _joined(texts) or f"*{NOT_COVERED}*") for subject, texts in rows.items()
        ]
        lines += [f"## {part}", "", *table(("subject", "measured"), answers), ""]
    lines += ["## Not tested", "", *(f"- {text}" for text in untested(results)), ""]
    return "\n".join(lines)


def _sheet_rows(results: Sequence[Json]) -> dict[str, dict[str, list[str]]]:
    """Return the texts of each subject of the sheet, by its parts."""
    found = defaultdict[str, list[str]](list)
    for label, text in claim_facts(results) if results else []:
        found[label] = [text] if text != "none stated" else []
    for result in results:
        name, bits = code(line(result["name"], 80)), result.get("bit_level")
        headline = escaped_markdown(line(result.get("headline") or result["verdict"], 300))
        found[kind_of(result).topic].append(f"{name}: {headline}")
        found["functions"].append(name + _place(result))
        if result.get("parameter_lower") is not None and result.get("parameter"):
            bound = f"{escaped_markdown(result['parameter'])} > {figure(result['parameter_lower'])}"
            claim = code(line(result.get("claim") or "", 80))
            found["bounds"].append(f"{name}: {bound} against {claim}")
        if bits:
            bound = f"epsilon > {figure(bits.get('epsilon_lower'))} from the last bits alone"
            found["bits"].append(f"{name}: {escaped_markdown(bits.get('verdict'))}, {bound}")
    if results:
        seeded = sum(result.get("seed") is not None for result in results)
        found["seeds"] = [
            f"{seeded} of {len(results)} audits record a seed; the quality of the generator: "
            f"{NOT_COVERED}"
        ]
    return {
        "The differential privacy guarantee": {
            "epsilon and delta, as claimed": found["parameters claimed"],
            "epsilon, certified from below": found["bounds"],
            "variant of differential privacy": found["notion"],
            "unit of privacy": found["unit of privacy"],
            "neighboring relation (bounded or unbounded)": found["neighboring relation"],
            "evidence": found["evidence"],
        },
        "Differentially private algorithms": {
            "algorithm and implementation": list(dict.fromkeys(found["functions"])),
            "outputs against the claim": found["outputs"],
            "sensitivity and contribution bounds": found["sensitivity"],
            "accounting and composition": found["accounting"],
            "utility": found["utility"],
            "systemic, human and statistical bias": [],
        },
        "Deploying differential privacy": {
            "trust model": found["trust model"],
            "floating point": found["bits"],
            "randomness": found["seeds"],
            "time and other side channels": [],
            "data security and access control": [],
            "data collection": [],
        },
    }


def _place(result: Json) -> str:
    """Return the library of a result with its release, or else the place in the source."""
    source, place = result.get("source"), ""
    if result.get("library"):
        place = f"{result['library']} {result.get('version') or ''}"
    elif source:
        place = f"{source['file']}:{source['line']}"
    return f" ({escaped_markdown(line(place, 120))})" if place else ""


def _joined(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return "<br>".join([*texts[:_SHOWN], *more])
