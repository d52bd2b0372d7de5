"""First page of the site, with the first paragraph and a chart of each published page."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpwitness.benchmarks.pages.sections import SIGNS, SectionCharts, charts
from dpwitness.reports.html_format import block, render
from dpwitness.reports.summary import QUESTION

_SHOWN_IN = {"papers-checks": "papers"}  # page -> page whose section of the overview contains it
_LEAD = (
    "Published results of dpwitness: four papers, third-party libraries, and its own error "
    "rates. Every page names the command "
    "that computes it."
)


@dataclass(frozen=True, slots=True)
class Section:
    """Section of the overview: the name of the page, its first paragraph, and a chart if the page's
    numbers can be read.
    """

    name: str
    label: str
    about: str
    text: Markup
    drawn: SectionCharts | None


def overview(
    there: Sequence[tuple[str, str, str]],
    texts: Mapping[str, str],
    pages: Sequence[tuple[str, str]],
) -> str:
    """Return the HTML of ``index.html``.

    Parameters
    ----------
    there : sequence of (str, str, str)
        Name, label and subject of each published page.
    texts : dict
        Markdown of each page by its name.
    pages : sequence of (str, str)
        File and label of the pages in the navigation.
    """
    html_links = {f"({name}.md": f"({name}.html" for name, _, _ in there}
    sections = []
    for name, label, about in there:
        drawn = charts(name, texts)
        if drawn is None and _SHOWN_IN.get(name) in texts:
            continue
        opening = first_paragraph(texts[name])
        for old, new in html_links.items():
            opening = opening.replace(old, new)
        sections.append(Section(name, label, about, block(opening), drawn))
    values = {
        "question": QUESTION,
        "lead": _LEAD,
        "sections": sections,
        "signs": {name: sign for name, (sign, _) in SIGNS.items()},
    }
    return render(
        "overview.html",
        pages=pages,
        here="index.html",
        styles=("style.css", "overview.css"),
        **values,
    )


def first_paragraph(text: str) -> str:
    """Return the first paragraph of a markdown page, with a list directly after it; an empty text
    if there is none.
    """
    parts = [part for part in text.split("\n\n") if part.strip()]
    for part, after in itertools.pairwise([*parts, ""]):
        if not part.startswith(("#", "|", "!", "<", "    ", "- ")):
            return f"{part}\n\n{after}" if after.startswith("- ") else part
    return ""
