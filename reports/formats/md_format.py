"""Markdown format of a report: the verdict first, then the number, the confidence and
the advice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.cards.cards import card
from dpwitness.reports.cards.overview import (
    answer,
    columns,
    family_confidence,
    legend,
    sort_worst_first,
    what_to_do,
)
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.scope import claim_facts, untested
from dpwitness.reports.phrasing.summary import Family, family
from dpwitness.reports.phrasing.wording import escaped_markdown, plain, table
from dpwitness.reports.plots.album import PLOTS_AS_FILES, Album, text_of

SUFFIX = ".md"


def markdown(
    entries: Sequence[Entry],
    *,
    title: str,
    command: str | None,
    environment: dict[str, str],
    together: Family | None,
    overview: str | None,
) -> str:
    """Return the markdown text of a report.

    Parameters
    ----------
    entries : sequence of Entry
        Audits, in the order of the cards.
    title : str
        Title of the report.
    command : str or None
        Command that the report prints.
    environment : dict
        Names and versions of the environment.
    together : Family or None
        Holm's correction over the audits; None without a family.
    overview : str or None
        File of the plot of all audits.

    Returns
    -------
    str
        The markdown text.
    """
    results = [entry.result for entry in entries]
    first, *others = answer(entries)
    lines = [f"# {escaped_markdown(title)}", "", f"**{first}**", ""]
    for text in (*others, family_confidence(entries, together), what_to_do(entries)):
        lines += [text, ""] if text else []
    shown = columns(entries)
    rows = [[column.text(entry) for column in shown] for entry in sort_worst_first(entries)]
    lines += ["## Summary", "", *table([column.head for column in shown], rows), ""]
    if overview:
        lines += [f"![Certified over claimed, all audits]({overview})", ""]
    lines += [legend(entries), ""] if legend(entries) else []
    if entries:
        lines += [
            "## The claim" + ("s" if len(entries) > 1 else ""),
            "",
            *table(("", ""), claim_facts(results)),
            "",
            "What was not tested:",
            "",
            *(f"- {text}" for text in untested(results)),
            "",
        ]
    lines += ["## Audits", ""]
    for entry in entries:
        lines += card(entry)
    lines += ["## Run", ""]
    if command:
        fenced = ["```", plain(" ".join(command.split())).replace("```", "'''"), "```"]
        lines += [*([escaped_markdown(command)] if "<" in command else fenced), ""]
    lines += table(
        ("", ""),
        [(escaped_markdown(name), escaped_markdown(value)) for name, value in environment.items()],
    )
    return "\n".join(lines).rstrip() + "\n"


def write(document: Json, entries: Sequence[Entry], file: Path, album: Album) -> None:
    """Write the markdown of a document, with its plots in the same folder."""
    entries_with_plots, overview = [], album.overview(document["results"])
    for entry in entries:
        kinds = album.kinds(entry)[:PLOTS_AS_FILES]
        for kind in kinds:
            write_text(file.with_name(f"{kind}-{entry.slug}.svg"), album.svg(entry, kind))
        entries_with_plots.append(
            replace(
                entry,
                plots=tuple((text_of(kind, entry), f"{kind}-{entry.slug}.svg") for kind in kinds),
            )
        )
    if overview is not None:
        write_text(file.with_name("summary.svg"), overview)
    text = markdown(
        entries_with_plots,
        title=document["title"],
        command=document["command"],
        environment=document["environment"],
        together=family(document["results"]),
        overview="summary.svg" if overview else None,
    )
    write_text(file, text)
