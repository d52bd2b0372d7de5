"""The published pages as a site: every page of markdown in the common frame, one navigation, an index; nothing that needs a server."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from dpwitness.mechanisms.terms.validation import InvalidArgument
from dpwitness.mechanisms.terms.writing import all_together, write_json, write_text
from dpwitness.reports.audit.document import entries_of, read_document
from dpwitness.reports.audit.report import check_writable
from dpwitness.reports.formats.html import html
from dpwitness.reports.formats.markdown import markdown
from dpwitness.reports.formats.page import page
from dpwitness.reports.plots.album import Album
from dpwitness.reports.site.overview import overview
from dpwitness.reports.words.summary import family

PAGES = (  # of the navigation; those whose file is there
    ("zoo", "Zoo", "mechanisms, right and wrong, whose true privacy is known"),
    ("papers", "Papers", "every claim of four papers, checked"),
    ("papers-checks", "Checks", "the checks behind these claims, one by one"),
    ("third-party", "Libraries", "releases of others, each run in its own interpreter"),
    ("reproductions", "Figures", "published figures, computed again"),
    ("power", "Power", "how near an audit comes to an oracle"),
    ("canaries", "Canaries", "what one run of a training certifies, beside a published tool"),
    ("trust", "Trust", "how often the tool itself errs"),
)
AUDITS = ("zoo",)  # reports of audits, shown as such from their JSON


def build(folder: Path | str) -> list[Path]:
    """Write ``index.html`` and a page for each published page of markdown, beside it.

    Parameters
    ----------
    folder : Path
        With the published pages.

    Returns
    -------
    list of Path
        The files, the index first.

    Raises
    ------
    InvalidArgument
        If the folder holds no published page.
    """
    place = Path(folder)
    there = [(name, label, told) for name, label, told in PAGES if (place / f"{name}.md").is_file()]
    if not there:
        raise InvalidArgument(f"site: folder must hold a published page such as papers.md, got {str(folder)!r}")
    pages = [("index.html", "Overview"), *((f"{name}.html", label) for name, label, _ in there)]

    def picture(file: str) -> str | None:
        path = place / file
        return path.read_text(encoding="utf-8") if re.fullmatch(r"[\w.-]+\.svg", file) and path.is_file() else None

    with all_together(place) as draft:
        texts = {name: (place / f"{name}.md").read_text(encoding="utf-8") for name, _, _ in there}
        write_text(draft / "index.html", overview(there, texts, pages))
        for name, text in texts.items():
            title, here = text.splitlines()[0].lstrip("# "), f"{name}.html"
            if name in AUDITS:
                document = read_document(place / f"{name}.json")
                write_text(draft / f"{name}.html", html(document, entries_of(document), Album(), pages=pages, here=here))
            else:
                write_text(draft / f"{name}.html", page(title, text, pages=pages, here=here, pictures=picture))
    return [place / file for file, _ in pages]


def publish_zoo(report: Path | str, folder: Path | str) -> None:
    """Publish a report of ``dpwitness suite zoo``: ``zoo.json``, ``zoo.md``, and ``zoo/witness-NAME.json`` for each violation.

    Raises
    ------
    InvalidArgument
        If `report` is no ``audit.json``.
    """
    document, place = read_document(report), check_writable(Path(folder) / "zoo").parent
    for stale in (place / "zoo").glob("witness-*.json"):
        stale.unlink()
    for result in document["results"]:
        if result.get("witness_file") and result.get("witness"):
            result["witness_file"] = f"zoo/{Path(result['witness_file']).name}"
            write_json(place / result["witness_file"], result["witness"])
    head = {key: document[key] for key in ("title", "command", "environment")}
    text = markdown(entries_of(document), **head, together=family(document["results"]), overview=None)
    write_text(place / "zoo.md", text)
    write_json(place / "zoo.json", document)


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m dpwitness.reports.site FOLDER [AUDIT.json of the zoo]``."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) not in (1, 2):
        raise SystemExit("usage: python -m dpwitness.reports.site FOLDER [AUDIT.json of the zoo]")
    if len(given) == 2:
        publish_zoo(given[1], given[0])
    for file in build(given[0]):
        print(file)
    return 0
