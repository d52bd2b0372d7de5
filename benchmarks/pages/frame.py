"""Markdown pages of the published site: as HTML, with ids of headings, links between pages and
embedded pictures; and the rows of their tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from dpwitness.reports.drawing import inline_svg
from dpwitness.reports.html_format import WIDE, render, text

_CELL = re.compile(r"(?<!\\)\|")


def tables(page: str) -> Iterator[list[dict[str, str]]]:
    """Yield the rows of each table of a page of markdown: the markdown of each cell by the text of
    the column's head.

    Examples
    --------
    >>> next(tables("## A\\n\\n| x | y |\\n| --- | --- |\\n| 1 | a \\\\| b |\\n"))
    [{'x': '1', 'y': 'a \\\\| b'}]
    """
    block = list[list[str]]()
    for line in [*page.splitlines(), ""]:
        if line.startswith("|") and line.rstrip().endswith("|"):
            block.append([cell.strip() for cell in _CELL.split(line.strip()[1:-1])])
            continue
        if len(block) > 2:
            heads = [text(head) for head in block[0]]
            yield [dict(zip(heads, cells, strict=False)) for cells in block[2:]]
        block = []


# file name -> SVG text; None if the file is not a picture of the site
Pictures = Callable[[str], str | None]

_ANCHOR = re.compile(r'\s*<a id="([A-Za-z0-9_.:-]+)"></a>\s*')
# HTML that published pages use
_ALLOWED_MARKUP = re.compile(
    r"\s*(</?details>|<details><summary>[\w ,.'-]*</summary>|</summary>)\s*"
)


def page(
    title: str,
    text: str,
    *,
    pages: Sequence[tuple[str, str]] = (),
    group: Sequence[tuple[str, str]] = (),
    here: str = "",
    moved: Mapping[str, str] | None = None,
    pictures: Pictures = lambda _: None,
) -> str:
    """Return a markdown page as HTML.

    Parameters
    ----------
    title : str
        Title of the window.
    text : str
        Markdown of the page. Anchors and details elements remain HTML; all other HTML is shown as
        text.
    pages : sequence of (str, str)
        File and label of each page in the navigation.
    group : sequence of (str, str)
        File and label of the pages of this page's group.
    here : str
        File of this page in the navigation.
    moved : dict
        HTML file of each markdown file to which the page may link.
    pictures : callable
        Function that returns the SVG of an image's file, or None.

    Returns
    -------
    str
        The HTML text.
    """
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = reader.parse(text)
    _rewrite_tokens(tokens, pictures, {}, moved or {})
    body = (
        reader.renderer.render(tokens, reader.options, {})
        .replace("<table", f"{WIDE}<table")
        .replace("</table>", "</table></div>")
    )
    return render("page.html", title=title, body=Markup(body), pages=pages, group=group, here=here)


def _rewrite_tokens(
    tokens: list[Token], pictures: Pictures, taken: dict[str, int], moved: Mapping[str, str]
) -> None:
    """Rewrite the tokens in place: heading ids, table classes, untrusted HTML as text, links
    between pages, embedded pictures.
    """
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", heading_id(tokens[i + 1].content, taken))
        elif token.type == "table_open":
            token.attrSet("class", "sortable")
        elif token.type in ("html_block", "html_inline"):
            # The parser splits an anchor into two tokens.
            if (
                token.type == "html_inline"
                and i + 1 < len(tokens)
                and tokens[i + 1].content == "</a>"
            ):
                token.content, tokens[i + 1].content = f"{token.content}</a>", ""
            _escape_html(token)
        elif token.type == "link_open":
            file, _, place = str(token.attrGet("href") or "").partition("#")
            token.attrSet("href", moved.get(file, file) + (f"#{place}" if place else ""))
        elif token.type == "image":
            svg = pictures(str(token.attrGet("src") or ""))
            if svg is not None:
                name = heading_id(token.content, taken)
                token.type, token.tag, token.children = "html_inline", "", None
                token.content = (
                    f"<figure>{inline_svg(svg, name, token.content)}"
                    f"<figcaption>{escape(token.content)}.</figcaption></figure>"
                )
                continue
        if token.children:
            _rewrite_tokens(token.children, pictures, taken, moved)


def _escape_html(token: Token) -> None:
    """Turn an HTML token into text unless it is an anchor or a details element."""
    lines = [
        _ANCHOR.sub(r'<a id="\1"></a>', line) if _ANCHOR.fullmatch(line) else line
        for line in token.content.splitlines()
    ]
    if not all(
        _ANCHOR.fullmatch(line) or _ALLOWED_MARKUP.fullmatch(line) or not line.strip()
        for line in lines
    ):
        token.type = "text"


def heading_id(text: str, taken: dict[str, int] | None = None) -> str:
    """Return the id of a heading by the rule of GitHub; `taken` counts the ids of a page and makes
    them distinct.
    """
    plain = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") or "part"
    taken = {} if taken is None else taken
    taken[plain] = taken.get(plain, -1) + 1
    return f"{plain}-{taken[plain]}" if taken[plain] else plain
