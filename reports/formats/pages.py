"""Pages as HTML: one frame for all, without network, whose policy allows its own style and script and nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

_TEXTS = "dpwitness.reports", "formats/templates"


@cache
def _environment() -> Environment:
    found = Environment(loader=PackageLoader(*_TEXTS), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    found.filters["inline"] = inline
    return found


@cache
def _markdown() -> MarkdownIt:
    """Markdown of our own making around texts from anywhere: tables, no HTML, no bare links."""
    return MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")


def inline(text: str) -> Markup:
    """One line of markdown as markup."""
    return Markup(_markdown().renderInline(str(text)))


def block(text: str) -> Markup:
    """A page of markdown as markup."""
    return Markup(_markdown().render(str(text)))


def text(line: str) -> str:
    """One line of markdown as the text that a reader of the page sees.

    Examples
    --------
    >>> text("[`a_b`](#c) is **VIOLATED** &lt;")
    'a_b is VIOLATED <'
    """
    found = _markdown().parseInline(str(line))[0].children or []
    return "".join(token.content for token in found)


def fragment(template: str, style: str, **values: Any) -> str:
    """A part of somebody's page from its template, with a style of its own."""
    return _environment().get_template(template).render(style=Markup(_part(style)), **values)


def render(
    template: str, *, pages: Sequence[tuple[str, str]] = (), here: str = "", styles: Sequence[str] = ("style.css",), **values: Any
) -> str:
    """Return a page from its template and its style sheets, which are templates too.

    `pages` are those of the navigation, of which `here` is this one. The policy names hashes of what runs.
    """
    style, script = "\n".join(map(_part, styles)), _part("script.js")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    frame = {"style": Markup(style), "script": Markup(script), "policy": policy, "pages": pages, "here": here}
    return _environment().get_template(template).render(**frame, **values)


@cache
def _part(name: str) -> str:
    source, _, _ = _environment().loader.get_source(_environment(), name)  # type: ignore[union-attr]
    return source.strip()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
