"""HTML of a report document: one file without network access or other files, readable without
scripts and in print. Cards of single results in notebooks. Generated markdown as a page.

The content security policy of all pages allows only the page's own style and script, and no
network.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import strict
from dpwitness.core.values.atomic_files import json_text
from dpwitness.core.values.json_reader import Json
from dpwitness.reports import cards
from dpwitness.reports.album import PLOTS, Album, text_of
from dpwitness.reports.cards import CardColumn, card_facts, legend, opening, sort_worst_first
from dpwitness.reports.drawing import inline_svg
from dpwitness.reports.summary import (
    QUESTION,
    Entry,
    acceptance_text,
    claim_facts,
    family,
    replay_command,
    untested,
)
from dpwitness.reports.wording import differing, line, slugs

PICTURED = 40  # audits of a page with all their pictures, worst first; the others have one
EMBEDDED = 50_000  # bytes of the largest embedded witness; larger witnesses are linked
_LONGEST = 2_000  # characters of an untrusted text
# makes the HTML ids distinct if two cells show the same result
_display_counter = itertools.count()
# facts that the page shows outside the table of facts
_PAIR_FACTS = ("D0", "D1", "where they differ")


def html(document: Json, entries: Sequence[Entry], album: Album) -> str:
    """Return the HTML page of a report.

    Parameters
    ----------
    document : dict
        Document from `document.build_document`.
    entries : sequence of Entry
        Audits of the document.
    album : Album
        Pictures of the audits.

    Returns
    -------
    str
        The HTML text.
    """
    ranked, results = sort_worst_first(entries), document["results"]
    shown, overview = cards.columns(entries), album.overview(results)
    lines = opening(entries, family(results))
    found = {result.get("verdict") for result in results}
    seeds = sorted({str(result["seed"]) for result in results if result.get("seed") is not None})
    return render(
        "audit.html",
        title=_one_line(document["title"]),
        command=_one_line(document["command"] or ""),
        environment={
            _one_line(name): _one_line(value) for name, value in document["environment"].items()
        },
        question=QUESTION,
        expected=any(result.get("expected") for result in results),
        answer=lines,
        answer_plain=_one_line(lines[0].replace("`", "").replace("\\", "")),
        untested=untested(results),
        claim_facts=claim_facts(results),
        columns=[column.head for column in shown],
        rows=[_row(entry, shown) for entry in ranked],
        verdicts=[name for name in cards.SEVERITY if name in found],
        legend=legend(entries),
        overview=Markup(inline_svg(overview, "overview", "Certified over claimed, all audits"))
        if overview
        else None,
        entries=entries,
        cards=[card(entry, album, None if i < PICTURED else 1) for i, entry in enumerate(ranked)],
        foldable=True,
        seeds=", ".join(seeds[:40]) + (f" and {len(seeds) - 40} more" if len(seeds) > 40 else ""),
    )


def _one_line(text: Any) -> str:
    """Return an untrusted text as one line without invisible characters, truncated if
    it is long.
    """
    return line(text, _LONGEST)


def _search_words(entry: Entry) -> str:
    """Return the text of an audit that the page's filter searches."""
    keys = ("claim", "relation", "test", "kind")
    texts = (entry.name, *map(entry.result.get, keys))
    return " ".join(_one_line(text) for text in texts if text).lower()[:300]


def _row(entry: Entry, shown: Sequence[CardColumn]) -> Json:
    verdict = str(entry.result.get("verdict"))
    cells = [
        {
            "head": column.head == "audit",
            "label": column.head,
            "text": column.text(entry),
            "value": _sort_key(column.value(entry)),
            "verdict": verdict if column.head == "verdict" else "",
        }
        for column in shown
    ]
    return {"verdict": verdict, "words": _search_words(entry), "cells": cells}


def _sort_key(value: Any) -> str:
    if isinstance(value, float):  # infinite values sort last or first
        return f"{max(min(value, 1e300), -1e300):.9g}" if not math.isnan(value) else ""
    return "" if value is None else _one_line(value)


def card(
    entry: Entry, album: Album, pictures: int | None = None, embedded: float = EMBEDDED
) -> Json:
    """Return the values of an audit for the template ``card.html``.

    The card shows at most `pictures` pictures. A witness of at most `embedded` bytes is in the
    page.
    """
    result, pair = entry.result, entry.result.get("pair")
    shown = [
        {
            "text": f"{PLOTS[kind].text}. {PLOTS[kind].see}",
            "svg": Markup(
                inline_svg(album.svg(entry, kind), f"{entry.slug}-{kind}", text_of(kind, entry))
            ),
        }
        for kind in album.kinds(entry)[:pictures]
    ]
    below = cards.table_below_facts(entry)
    return {
        "slug": entry.slug,
        "name": _one_line(entry.name),
        "verdict": str(result.get("verdict")),
        "words": _search_words(entry),
        "headline": _one_line(result.get("headline") or ""),
        "todo": cards.what_to_do(entry),
        "accepted": _one_line(acceptance_text(result)) if result.get("accepted") else "",
        "witness": _witness_json(entry, embedded),
        "sides": [
            (name, [(_one_line(text), differs) for text, differs in parts])
            for name, parts in differing(pair)
        ]
        if pair
        else [],
        "pictures": shown,
        "facts": [fact for fact in card_facts(entry) if fact[0] not in _PAIR_FACTS],
        "below": block("\n".join(below)) if below else "",
        "notes": [_one_line(note) for note in result.get("notes") or []],
    }


def _witness_json(entry: Entry, embedded: float) -> Json | None:
    """Return the link to an audit's witness, embedded or as a file, and the command that replays
    the witness; None without a witness.
    """
    if not entry.witness_file:
        return None
    witness = entry.result.get("witness") or {}
    content = base64.b64encode(json_text(witness).encode()).decode()
    target = witness.get("target")
    command = replay_command(entry.witness_file, target, witness.get("scores") or ())
    if not target and kind_of(entry.result).runs:
        command = f'dpwitness.replay("{entry.witness_file}", mechanism=...)'
    return {
        "file": entry.witness_file,
        "href": f"data:application/json;base64,{content}"
        if len(content) <= embedded
        else entry.witness_file,
        "how": kind_of(entry.result).again,
        "replay": command,
    }


def notebook_html(result: Result) -> str:
    """Return the card of a result as an HTML fragment with its style, without scripts, and with the
    witness embedded.
    """
    entry, album = _entry(result), Album()
    return fragment(
        "notebook.html", "notebook.css", card=card(entry, album, 2, math.inf), foldable=False
    )


def notebook_markdown(result: Result) -> str:
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


# frame of a table, which scrolls if the window is narrow
WIDE = '<div class="wide" role="region" aria-label="Table" tabindex="0">'
_TEMPLATES = "dpwitness.reports", "templates"


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader(*_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.filters["inline"] = inline
    return found


@cache
def _markdown() -> MarkdownIt:
    """Return the markdown parser for generated markdown with untrusted texts: tables, no HTML, no
    automatic links.
    """
    return MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")


def inline(text: str) -> Markup:
    """Return one line of markdown as HTML."""
    return Markup(_markdown().renderInline(str(text)))


def block(text: str) -> Markup:
    """Return several lines of markdown as HTML."""
    return Markup(_markdown().render(str(text)))


def text(line: str) -> str:
    """Return the visible text of one line of markdown.

    Examples
    --------
    >>> text("[`a_b`](#c) is **VIOLATED** &lt;")
    'a_b is VIOLATED <'
    """
    found = _markdown().parseInline(str(line))[0].children or []
    return "".join(token.content for token in found)


def fragment(template: str, style: str, **values: Any) -> str:
    """Return an HTML fragment from a template, with the style sheet `style`, for embedding in
    another page.
    """
    return (
        _environment()
        .get_template(template)
        .render(style=Markup(_template_source(style)), **values)
    )


def render(
    template: str,
    *,
    pages: Sequence[tuple[str, str]] = (),
    group: Sequence[tuple[str, str]] = (),
    here: str = "",
    **values: Any,
) -> str:
    """Return an HTML page from its template.

    `pages` are the file and label of each page in the navigation, `group` those of this page's
    group, whose first page is in `pages`, and `here` is the file of this page. The content security
    policy contains the hashes of the style and the script.
    """
    style, script = _template_source("style.css"), _template_source("script.js")
    hashes = f"style-src '{_csp_hash(style)}'; script-src '{_csp_hash(script)}'"
    policy = f"default-src 'none'; {hashes}; img-src data:; base-uri 'none'; form-action 'none'"
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(style),
            script=Markup(script),
            policy=policy,
            pages=pages,
            group=group,
            here=here,
            **values,
        )
    )


@cache
def _template_source(name: str) -> str:
    source, _, _ = _environment().loader.get_source(_environment(), name)  # type: ignore[union-attr]
    return source.strip()


def _csp_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def page(title: str, text: str) -> str:
    """Return generated markdown as an HTML page in one file; HTML in the text is shown as text."""
    body = (
        str(block(text))
        .replace("<table>", f'{WIDE}<table class="sortable">')
        .replace("</table>", "</table></div>")
    )
    return render("page.html", title=title, body=Markup(body))
