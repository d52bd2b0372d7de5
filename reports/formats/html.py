"""A report as one HTML file: no network, no file beside it, readable without script and in print."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.targets.trust import words_for
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.writing import json_text
from dpwitness.reports.cards.cards import below_facts, facts_of, what_to_do
from dpwitness.reports.cards.whole import SEVERITY, Column, answer, columns, how_sure, legend, worst_first
from dpwitness.reports.cards.whole import what_to_do as steps
from dpwitness.reports.formats.pages import block, render
from dpwitness.reports.plots.album import Album, text_of
from dpwitness.reports.plots.family import PLOTS
from dpwitness.reports.plots.inline import inline_svg
from dpwitness.reports.words.differing import differing
from dpwitness.reports.words.facts import Entry, again
from dpwitness.reports.words.scope import QUESTION, claim_facts, untested
from dpwitness.reports.words.summary import acceptance, family
from dpwitness.reports.words.wording import line

PICTURES = 110  # of one page: about .6 MB, and 4 s
WITNESSES = 300_000  # bytes of witnesses inside the page; the others are linked
_LONGEST = 2_000  # characters of a text from outside
_PAIR = ("D0", "D1", "where they differ")  # facts that the page shows in a way of its own


def html(document: Json, entries: Sequence[Entry], album: Album, *, pages: Sequence[tuple[str, str]] = (), here: str = "") -> str:
    """The page.

    Parameters
    ----------
    document : dict
        As `document.document_of` makes it.
    entries : sequence of Entry
        Its audits.
    album : Album
        Their pictures.
    pages, here : sequence of (str, str), str
        Navigation, where the page belongs to a site.
    """
    ranked, together, results = worst_first(entries), family(document["results"]), document["results"]
    shown, overview = columns(entries), album.overview(results)
    chosen, left_out = _chosen(ranked, album)
    room = [WITNESSES]
    lines = list(filter(None, (*answer(entries), how_sure(entries, together), steps(entries))))
    seeds = sorted({str(result["seed"]) for result in results if result.get("seed") is not None})
    return render(
        "audit.html",
        pages=pages,
        here=here,
        title=_told(document["title"]),
        command=_told(document["command"] or ""),
        environment={_told(name): _told(value) for name, value in document["environment"].items()},
        question=QUESTION,
        answer=lines,
        answer_plain=_told(lines[0].replace("`", "").replace("\\", "")),
        untested=untested(results),
        claim_facts=claim_facts(results),
        columns=[column.head for column in shown],
        rows=[_row(entry, shown) for entry in ranked],
        verdicts=[name for name in SEVERITY if any(result.get("verdict") == name for result in results)],
        legend=[legend(entries)] if legend(entries) else [],
        overview=Markup(inline_svg(overview, "overview", "Certified over claimed, all audits")) if overview else None,
        entries=entries,
        cards=[card(entry, chosen, album, room) for entry in ranked],
        foldable=True,
        left_out=left_out,
        seeds=", ".join(seeds[:40]) + (f" and {len(seeds) - 40} more" if len(seeds) > 40 else ""),
    )


def _told(text: Any) -> str:
    """Text from outside: on one line, nothing invisible, cut where it is long."""
    return line(text, _LONGEST)


def _chosen(ranked: Sequence[Entry], album: Album) -> tuple[set[tuple[str, str]], str]:
    """The pictures that have room, and a line on those that have none.

    The first of each audit, then all of what is violated, then those of one kind after another; of each the worst first.
    """
    there = {entry.slug: album.kinds(entry) for entry in ranked}
    violated = [entry.slug for entry in ranked if entry.result.get("verdict") == Verdict.VIOLATED.value]
    first = [(slug, kinds[0]) for slug, kinds in there.items() if kinds]
    second = [(slug, kind) for slug in violated for kind in there[slug]]
    third = [(slug, kind) for kind in PLOTS for slug, kinds in there.items() if kind in kinds]
    every = list(dict.fromkeys([*first, *second, *third]))
    lost = len(every) - PICTURES
    told = f"{lost} pictures are left out for want of room; dpwitness.plot draws each from its result." if lost > 0 else ""
    return set(every[:PICTURES]), told


def _words(entry: Entry) -> str:
    """What the filter looks in."""
    told = (entry.name, entry.result.get("claim"), entry.result.get("relation"), entry.result.get("test"), entry.result.get("kind"))
    return " ".join(_told(text) for text in told if text).lower()[:300]


def _row(entry: Entry, shown: Sequence[Column]) -> Json:
    cells = []
    for column in shown:
        value = column.value(entry)
        verdict = str(entry.result.get("verdict")) if column.head == "verdict" else ""
        head = column.head == "audit"
        cells.append({"head": head, "label": column.head, "text": column.text(entry), "value": _sorted_by(value), "verdict": verdict})
    return {"verdict": str(entry.result.get("verdict")), "words": _words(entry), "cells": cells}


def _sorted_by(value: Any) -> str:
    if isinstance(value, float):  # what is infinite stands at its end
        return f"{max(min(value, 1e300), -1e300):.9g}" if value == value else ""
    return "" if value is None else _told(value)


def card(entry: Entry, chosen: set[tuple[str, str]], album: Album, room: list[int]) -> Json:
    """What the template ``card.html`` shows of an audit: its `chosen` pictures, and its witness where the `room` has bytes left for it."""
    result, pair = entry.result, entry.result.get("pair")
    kinds = [kind for kind in album.kinds(entry) if (entry.slug, kind) in chosen]
    pictures = [
        {"text": PLOTS[kind].text, "svg": Markup(inline_svg(album.svg(entry, kind), f"{entry.slug}-{kind}", text_of(kind, entry)))}
        for kind in kinds
    ]
    below = below_facts(entry)
    return {
        "slug": entry.slug,
        "name": _told(entry.name),
        "verdict": str(result.get("verdict")),
        "words": _words(entry),
        "headline": _told(result.get("headline") or ""),
        "todo": what_to_do(entry),
        "accepted": _told(acceptance(result)) if result.get("accepted") else "",
        "witness": _witness(entry, room),
        "sides": [(name, [(_told(text), differs) for text, differs in parts]) for name, parts in differing(pair)] if pair else [],
        "pictures": pictures,
        "facts": [fact for fact in facts_of(entry) if fact[0] not in _PAIR],
        "below": block("\n".join(below)) if below else "",
        "notes": [_told(note) for note in result.get("notes") or []],
    }


def _witness(entry: Entry, room: list[int]) -> Json | None:
    """The witness inside the page, or beside it where it is too long, and the command that replays it."""
    if not entry.witness_file:
        return None
    witness = entry.result.get("witness") or {}
    content = base64.b64encode(json_text(witness).encode()).decode()
    inside = len(content) <= room[0]
    room[0] -= len(content) if inside else 0
    words = [part for word in words_for(witness.get("target"), witness.get("scores") or ()) for part in ("--allow", word)]
    command = shlex.join(["dpwitness", "replay", entry.witness_file, *words])
    return {
        "file": entry.witness_file,
        "href": f"data:application/json;base64,{content}" if inside else entry.witness_file,
        "how": again(entry.result),
        "replay": command
        if witness.get("target") or witness.get("kind") == "canaries"
        else f'dpwitness.replay("{entry.witness_file}", mechanism=...)',
    }
