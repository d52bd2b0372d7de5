"""HTML frame of all pages. The content security policy allows only the page's own style and script,
and no network.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

_TEMPLATES = "dpwitness.reports", "formats/templates"


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
    here: str = "",
    styles: Sequence[str] = ("style.css",),
    **values: Any,
) -> str:
    """Return an HTML page from its template and its style sheets, which are templates too.

    `pages` are the file and label of each page in the navigation, and `here` is the file of this
    page. The content security policy contains the hashes of the style and the script.
    """
    style, script = "\n".join(map(_template_source, styles)), _template_source("script.js")
    hashes = f"style-src '{_csp_hash(style)}'; script-src '{_csp_hash(script)}'"
    policy = f"default-src 'none'; {hashes}; img-src data:; base-uri 'none'; form-action 'none'"
    frame = {
        "style": Markup(style),
        "script": Markup(script),
        "policy": policy,
        "pages": pages,
        "here": here,
    }
    return _environment().get_template(template).render(**frame, **values)


@cache
def _template_source(name: str) -> str:
    source, _, _ = _environment().loader.get_source(_environment(), name)  # type: ignore[union-attr]
    return source.strip()


def _csp_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
