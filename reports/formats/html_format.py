"""HTML format of a report: one file without network access or other files, readable without scripts
and in print.
"""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.trust import permissions_for
from dpwitness.core.values.atomic_files import json_text, write_text
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.cards.cards import card_facts, table_below_facts, what_to_do
from dpwitness.reports.cards.overview import (
    SEVERITY,
    Column,
    answer,
    columns,
    family_confidence,
    legend,
    sort_worst_first,
)
from dpwitness.reports.cards.overview import what_to_do as steps
from dpwitness.reports.formats.html_frame import block, render
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.scope import QUESTION, claim_facts, untested
from dpwitness.reports.phrasing.summary import acceptance_text, family
from dpwitness.reports.phrasing.wording import differing, line
from dpwitness.reports.plots.album import PLOTS, Album, text_of
from dpwitness.reports.plots.inline import inline_svg

SUFFIX = ".html"
PICTURES = 110  # pictures per page: about .6 MB and 4 s
WITNESSES = 300_000  # bytes of embedded witnesses; further witnesses are linked
_LONGEST = 2_000  # characters of an untrusted text
# facts that the page shows outside the table of facts
_PAIR_FACTS = ("D0", "D1", "where they differ")


def html(
    document: Json,
    entries: Sequence[Entry],
    album: Album,
    *,
    pages: Sequence[tuple[str, str]] = (),
    here: str = "",
) -> str:
    """Return the HTML page of a report.

    Parameters
    ----------
    document : dict
        Document from `document.build_document`.
    entries : sequence of Entry
        Audits of the document.
    album : Album
        Pictures of the audits.
    pages : sequence of (str, str)
        File and label of each page in the navigation, if the page belongs to a site.
    here : str
        File of this page in the navigation.

    Returns
    -------
    str
        The HTML text.
    """
    ranked, together, results = (
        sort_worst_first(entries),
        family(document["results"]),
        document["results"],
    )
    shown, overview = columns(entries), album.overview(results)
    chosen, left_out = _choose_pictures(ranked, album)
    room = [WITNESSES]
    lines = list(
        filter(None, (*answer(entries), family_confidence(entries, together), steps(entries)))
    )
    seeds = sorted({str(result["seed"]) for result in results if result.get("seed") is not None})
    return render(
        "audit.html",
        pages=pages,
        here=here,
        title=_one_line(document["title"]),
        command=_one_line(document["command"] or ""),
        environment={
            _one_line(name): _one_line(value) for name, value in document["environment"].items()
        },
        question=QUESTION,
        answer=lines,
        answer_plain=_one_line(lines[0].replace("`", "").replace("\\", "")),
        untested=untested(results),
        claim_facts=claim_facts(results),
        columns=[column.head for column in shown],
        rows=[_row(entry, shown) for entry in ranked],
        verdicts=[
            name for name in SEVERITY if any(result.get("verdict") == name for result in results)
        ],
        legend=[legend(entries)] if legend(entries) else [],
        overview=Markup(inline_svg(overview, "overview", "Certified over claimed, all audits"))
        if overview
        else None,
        entries=entries,
        cards=[card(entry, chosen, album, room) for entry in ranked],
        foldable=True,
        left_out=left_out,
        seeds=", ".join(seeds[:40]) + (f" and {len(seeds) - 40} more" if len(seeds) > 40 else ""),
    )


def write(document: Json, entries: Sequence[Entry], file: Path, album: Album) -> None:
    """Write the HTML page of a document."""
    write_text(file, html(document, entries, album))


def _one_line(text: Any) -> str:
    """Return an untrusted text as one line without invisible characters, truncated if
    it is long.
    """
    return line(text, _LONGEST)


def _choose_pictures(ranked: Sequence[Entry], album: Album) -> tuple[set[tuple[str, str]], str]:
    """Choose the pictures of a page; return their (slug, kind) and a sentence on the number of
    pictures left out.

    The order of choice is: the first picture of each audit, all pictures of violated audits, then
    the others by kind, worst audits first.
    """
    available = {entry.slug: album.kinds(entry) for entry in ranked}
    violated = [
        entry.slug for entry in ranked if entry.result.get("verdict") == Verdict.VIOLATED.value
    ]
    first = [(slug, kinds[0]) for slug, kinds in available.items() if kinds]
    second = [(slug, kind) for slug in violated for kind in available[slug]]
    third = [(slug, kind) for kind in PLOTS for slug, kinds in available.items() if kind in kinds]
    every = list(dict.fromkeys([*first, *second, *third]))
    left_out = (
        f"{len(every) - PICTURES} pictures are left out to limit the size of the page; "
        "dpwitness.plot draws each from its result."
    )
    return set(every[:PICTURES]), left_out if len(every) > PICTURES else ""


def _search_words(entry: Entry) -> str:
    """Return the text of an audit that the page's filter searches."""
    texts = (
        entry.name,
        entry.result.get("claim"),
        entry.result.get("relation"),
        entry.result.get("test"),
        entry.result.get("kind"),
    )
    return " ".join(_one_line(text) for text in texts if text).lower()[:300]


def _row(entry: Entry, shown: Sequence[Column]) -> Json:
    cells = []
    for column in shown:
        value = column.value(entry)
        verdict = str(entry.result.get("verdict")) if column.head == "verdict" else ""
        head = column.head == "audit"
        cells.append(
            {
                "head": head,
                "label": column.head,
                "text": column.text(entry),
                "value": _sort_key(value),
                "verdict": verdict,
            }
        )
    return {
        "verdict": str(entry.result.get("verdict")),
        "words": _search_words(entry),
        "cells": cells,
    }


def _sort_key(value: Any) -> str:
    if isinstance(value, float):  # infinite values sort last or first
        return f"{max(min(value, 1e300), -1e300):.9g}" if not math.isnan(value) else ""
    return "" if value is None else _one_line(value)


def card(entry: Entry, chosen: set[tuple[str, str]], album: Album, room: list[int]) -> Json:
    """Return the values of an audit for the template ``card.html``.

    The card shows the `chosen` pictures. The witness is embedded if `room[0]`, the number of bytes
    left, is sufficient.
    """
    result, pair = entry.result, entry.result.get("pair")
    kinds = [kind for kind in album.kinds(entry) if (entry.slug, kind) in chosen]
    pictures = [
        {
            "text": PLOTS[kind].text,
            "svg": Markup(
                inline_svg(album.svg(entry, kind), f"{entry.slug}-{kind}", text_of(kind, entry))
            ),
        }
        for kind in kinds
    ]
    below = table_below_facts(entry)
    return {
        "slug": entry.slug,
        "name": _one_line(entry.name),
        "verdict": str(result.get("verdict")),
        "words": _search_words(entry),
        "headline": _one_line(result.get("headline") or ""),
        "todo": what_to_do(entry),
        "accepted": _one_line(acceptance_text(result)) if result.get("accepted") else "",
        "witness": _witness_json(entry, room),
        "sides": [
            (name, [(_one_line(text), differs) for text, differs in parts])
            for name, parts in differing(pair)
        ]
        if pair
        else [],
        "pictures": pictures,
        "facts": [fact for fact in card_facts(entry) if fact[0] not in _PAIR_FACTS],
        "below": block("\n".join(below)) if below else "",
        "notes": [_one_line(note) for note in result.get("notes") or []],
    }


def _witness_json(entry: Entry, room: list[int]) -> Json | None:
    """Return the link to an audit's witness, embedded or as a file, and the command that replays
    the witness; None without a witness.
    """
    if not entry.witness_file:
        return None
    witness = entry.result.get("witness") or {}
    content = base64.b64encode(json_text(witness).encode()).decode()
    inside = len(content) <= room[0]
    room[0] -= len(content) if inside else 0
    words = [
        part
        for word in permissions_for(witness.get("target"), witness.get("scores") or ())
        for part in ("--allow", word)
    ]
    command = shlex.join(["dpwitness", "replay", entry.witness_file, *words])
    if not witness.get("target") and kind_of(entry.result).runs:
        command = f'dpwitness.replay("{entry.witness_file}", mechanism=...)'
    return {
        "file": entry.witness_file,
        "href": f"data:application/json;base64,{content}" if inside else entry.witness_file,
        "how": kind_of(entry.result).again,
        "replay": command,
    }
