"""Card of one result in a notebook, as an HTML fragment or as markdown. The base class `Result`
imports this module by name.
"""

from __future__ import annotations

import hashlib
import itertools
import sys

from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import strict
from dpwitness.core.values.atomic_files import json_text
from dpwitness.reports.cards import cards
from dpwitness.reports.formats.html_format import card
from dpwitness.reports.formats.html_frame import fragment
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.wording import slugs
from dpwitness.reports.plots.album import Album

PICTURES = 2
# makes the HTML ids distinct if two cells show the same result
_display_counter = itertools.count()


def html(result: Result) -> str:
    """Return the card of a result as an HTML fragment with its style, without scripts, and with the
    witness embedded.
    """
    entry, album = _entry(result), Album()
    chosen = {(entry.slug, kind) for kind in album.kinds(entry)[:PICTURES]}
    return fragment(
        "notebook.html",
        "notebook.css",
        card=card(entry, chosen, album, [sys.maxsize]),
        foldable=False,
    )


def markdown(result: Result) -> str:
    """Return the card of a result as in ``audit.md``, without links to files."""
    entry = _entry(result)
    file = entry.witness_file
    lines = cards.card(entry)[1:]  # without its anchor
    return (
        "\n".join(lines)
        .replace(
            f"[{file}]({file}).", f"`{file}`, once the result's `witness` is written there as JSON."
        )
        .rstrip()
        + "\n"
    )


def _entry(result: Result) -> Entry:
    data = strict(result.to_json() | {"witness": result.witness})
    (slug,) = slugs([str(data.get("name", ""))])
    unique_id = hashlib.sha256(f"{next(_display_counter)} {json_text(data)}".encode()).hexdigest()[
        :12
    ]
    return Entry(data, f"{slug}-{unique_id}", f"witness-{slug}.json" if data["witness"] else None)
