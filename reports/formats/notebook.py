"""A result in a notebook: one card, as an HTML fragment or as markdown. `Result` knows this module by a name from the front door."""

from __future__ import annotations

import hashlib
import itertools
import sys

from dpwitness.auditors.results.verdicts import Result, strict
from dpwitness.mechanisms.terms.writing import json_text
from dpwitness.reports.cards import cards
from dpwitness.reports.formats.html import card
from dpwitness.reports.formats.pages import fragment
from dpwitness.reports.plots.album import Album
from dpwitness.reports.words.facts import Entry
from dpwitness.reports.words.wording import slugs

PICTURES = 2
_shown = itertools.count()  # one result shown in two cells must not have one id in two places


def html(result: Result) -> str:
    """The card of the page, with its style and without script; the witness is inside, as no file lies beside a notebook."""
    entry, album = _entry(result), Album()
    chosen = {(entry.slug, kind) for kind in album.kinds(entry)[:PICTURES]}
    return fragment("notebook.html", "notebook.css", card=card(entry, chosen, album, [sys.maxsize]), foldable=False)


def markdown(result: Result) -> str:
    """The card of ``audit.md``, without the links to what is beside that."""
    entry = _entry(result)
    file = entry.witness_file
    lines = cards.card(entry)[1:]  # without its anchor
    return (
        "\n".join(lines).replace(f"[{file}]({file}).", f"`{file}`, once the result's `witness` is written there as JSON.").rstrip() + "\n"
    )


def _entry(result: Result) -> Entry:
    data = strict(result.to_json() | {"witness": getattr(result, "witness", None)})
    (slug,) = slugs([str(data.get("name", ""))])
    mark = hashlib.sha256(f"{next(_shown)} {json_text(data)}".encode()).hexdigest()[:12]
    return Entry(data, f"{slug}-{mark}", f"witness-{slug}.json" if data["witness"] else None)
