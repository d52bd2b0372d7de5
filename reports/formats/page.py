"""A page of markdown as one HTML file in the common frame: anchors kept, tables that can be sorted, pictures inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from dpwitness.reports.formats.pages import render
from dpwitness.reports.plots.inline import inline_svg

Pictures = Callable[[str], str | None]  # the SVG of a file beside the page; None where it is no picture of ours

_ANCHOR = re.compile(r'\s*<a id="([A-Za-z0-9_.:-]+)"></a>\s*')
_KEPT = re.compile(r"\s*(</?details>|<details><summary>[\w ,.'-]*</summary>|</summary>)\s*")  # markup that our own pages hold


def page(title: str, text: str, *, pages: Sequence[tuple[str, str]] = (), here: str = "", pictures: Pictures = lambda _: None) -> str:
    """A page.

    Parameters
    ----------
    title, text : str
        Title of the window, and markdown. Of HTML in it only anchors and details are kept: all else is shown as text.
    pages : sequence of (str, str)
        File and name of the pages in the navigation, of which `here` is this one.
    pictures : callable
        The SVG behind the file of an image.
    """
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = reader.parse(text)
    _walk(tokens, pictures, {}, {file.removesuffix(".html") + ".md": file for file, _ in pages})
    body = reader.renderer.render(tokens, reader.options, {})
    body = body.replace("<table", '<div class="wide" role="region" aria-label="Table" tabindex="0"><table').replace(
        "</table>", "</table></div>"
    )
    return render("page.html", title=title, body=Markup(body), pages=pages, here=here)


def _walk(tokens: list[Token], pictures: Pictures, taken: dict[str, int], moved: dict[str, str]) -> None:
    """Mend the tokens in place: ids of headings, classes of tables, foreign HTML as text, links to pages, pictures."""
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", heading_id(tokens[i + 1].content, taken))
        elif token.type == "table_open":
            token.attrSet("class", "sortable")
        elif token.type in ("html_block", "html_inline"):
            if token.type == "html_inline" and i + 1 < len(tokens) and tokens[i + 1].content == "</a>":  # an anchor comes as two tokens
                token.content, tokens[i + 1].content = f"{token.content}</a>", ""
            _tamed(token)
        elif token.type == "link_open":
            file, _, place = str(token.attrGet("href") or "").partition("#")
            token.attrSet("href", moved.get(file, file) + (f"#{place}" if place else ""))
        elif token.type == "image":
            found = pictures(str(token.attrGet("src") or ""))
            if found is not None:
                name = heading_id(token.content, taken)
                token.type, token.tag, token.children = "html_inline", "", None
                token.content = f"<figure>{inline_svg(found, name, token.content)}</figure>"
                continue
        if token.children:
            _walk(token.children, pictures, taken, moved)


def _tamed(token: Token) -> None:
    """HTML that is no anchor and no fold becomes text."""
    lines = [_ANCHOR.sub(r'<a id="\1"></a>', line) if _ANCHOR.fullmatch(line) else line for line in token.content.splitlines()]
    if not all(_ANCHOR.fullmatch(line) or _KEPT.fullmatch(line) or not line.strip() for line in lines):
        token.type = "text"


def heading_id(text: str, taken: dict[str, int] | None = None) -> str:
    """Return the id of a heading, as forges make it; `taken` counts the ids of a page, which are used once."""
    plain = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") or "part"
    taken = {} if taken is None else taken
    taken[plain] = taken.get(plain, -1) + 1
    return f"{plain}-{taken[plain]}" if taken[plain] else plain
