"""First page of the site: for each published page its first sentence and a picture of its numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpwitness.reports.formats.pages import block, render
from dpwitness.reports.site.sections import SECTIONS, SIGNS, Drawn

_PART_OF = {"papers-checks": "papers"}  # pages that another section of the overview shows
_QUESTION = "Does this implementation keep the privacy promise it makes?"
_LEAD = (
    "Published results of dpwitness: four papers, libraries of others, and its own errors. Every page names the command that computes it."
)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the overview: the page, its first paragraph and, where its numbers can be read, a picture."""

    name: str
    label: str
    about: str
    text: Markup
    drawn: Drawn | None


def overview(there: Sequence[tuple[str, str, str]], texts: Mapping[str, str], pages: Sequence[tuple[str, str]]) -> str:
    """Return ``index.html``.

    Parameters
    ----------
    there : sequence of (str, str, str)
        Name, label and subject of each published page.
    texts : dict
        Markdown of each page by its name.
    pages : sequence of (str, str)
        File and label of the pages in the navigation.
    """
    moved = {f"({name}.md": f"({name}.html" for name, _, _ in there}
    sections = []
    for name, label, about in there:
        drawn = SECTIONS[name](texts) if name in SECTIONS else None
        if drawn is None and _PART_OF.get(name) in texts:
            continue
        opening = first_paragraph(texts[name])
        for old, new in moved.items():
            opening = opening.replace(old, new)
        sections.append(Section(name, label, about, block(opening), drawn))
    values = {"question": _QUESTION, "lead": _LEAD, "sections": sections, "signs": {name: sign for name, (sign, _) in SIGNS.items()}}
    return render("overview.html", pages=pages, here="index.html", styles=("style.css", "overview.css"), **values)


def first_paragraph(text: str) -> str:
    """Return the first paragraph of markdown below the title, with a list that follows at once; empty if there is none."""
    parts = [part for part in text.split("\n\n") if part.strip()]
    for part, after in itertools.pairwise([*parts, ""]):
        if not part.startswith(("#", "|", "!", "<", "    ", "- ")):
            return f"{part}\n\n{after}" if after.startswith("- ") else part
    return ""
