"""Builder of the static site: an HTML page for each published markdown page, with navigation and an
index.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from dpwitness.benchmarks.pages import bench_pages, third_party_page, trust_page, violations_page
from dpwitness.benchmarks.pages.frame import page
from dpwitness.benchmarks.pages.overview import overview
from dpwitness.benchmarks.scan import opendp_page
from dpwitness.core.values.atomic_files import atomic_folder, write_json, write_text
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.album import Album
from dpwitness.reports.document import entries_of, read_document
from dpwitness.reports.html_format import html
from dpwitness.reports.markdown_formats import markdown
from dpwitness.reports.report import check_writable

PAGES = (  # (name, label, subject) of the pages in the navigation; pages without a file are skipped
    ("zoo", "Zoo", "correct and broken mechanisms whose true privacy is known"),
    ("papers", "Papers", "checks of every claim of four papers"),
    ("papers-checks", "Checks", "the check of each of these claims"),
    (
        "third-party",
        "Libraries",
        "releases of third-party libraries, each run in its own interpreter",
    ),
    (
        "violations",
        "Violations",
        "violations of libraries on all pages, each bug of a release counted once",
    ),
    ("findings", "Findings", "privacy bugs that no public issue named before"),
    ("scan", "Scan", "mechanisms of packages that a scan finds by itself"),
    (
        "library-scans",
        "Trackers",
        "privacy bugs that scans of libraries find, compared with the libraries' issue trackers",
    ),
    ("reproductions", "Figures", "published figures, reproduced"),
    ("recall", "Recall", "documented bugs of libraries, before and after their repair"),
    ("peers", "Peers", "the same mechanisms audited by other tools"),
    ("power", "Power", "certified bounds compared with those of an oracle"),
    ("canaries", "Canaries", "bounds from one run of a training, compared with a published tool"),
    ("trust", "Trust", "error rates of the tool itself"),
)
AUDITS = ("zoo",)  # pages that are audit reports, rendered from their JSON


def build(folder: Path | str) -> list[Path]:
    """Write ``index.html`` and an HTML page for each published markdown page into the same folder.

    Parameters
    ----------
    folder : Path or str
        Folder with the published pages.

    Returns
    -------
    list of Path
        Paths of the HTML files, the index first.

    Raises
    ------
    InvalidArgument
        If the folder contains no published page.
    """
    root = Path(folder)
    present = [
        (name, label, subject) for name, label, subject in PAGES if (root / f"{name}.md").is_file()
    ]
    if not present:
        raise InvalidArgument(
            f"site: folder must hold a published page such as papers.md, got {str(folder)!r}"
        )
    pages = [("index.html", "Overview"), *((f"{name}.html", label) for name, label, _ in present)]

    def picture(file: str) -> str | None:
        path = root / file
        return (
            path.read_text(encoding="utf-8")
            if re.fullmatch(r"[\w.-]+\.svg", file) and path.is_file()
            else None
        )

    with atomic_folder(root) as draft:
        texts = {name: (root / f"{name}.md").read_text(encoding="utf-8") for name, _, _ in present}
        write_text(draft / "index.html", overview(present, texts, pages))
        for name, text in texts.items():
            title, here = text.splitlines()[0].lstrip("# "), f"{name}.html"
            if name in AUDITS:
                document = read_document(root / f"{name}.json")
                write_text(
                    draft / f"{name}.html",
                    html(document, entries_of(document), Album(), pages=pages, here=here),
                )
            else:
                write_text(
                    draft / f"{name}.html",
                    page(title, text, pages=pages, here=here, pictures=picture),
                )
    return [root / file for file, _ in pages]


def publish_zoo(report: Path | str, folder: Path | str) -> None:
    """Publish a report of ``dpwitness suite zoo``: write ``zoo.json``, ``zoo.md``, and
    ``zoo/witness-NAME.json`` for each violation.

    Raises
    ------
    InvalidArgument
        If `report` is not a valid ``audit.json``.
    """
    document, root = read_document(report), check_writable(Path(folder) / "zoo").parent
    for stale in (root / "zoo").glob("witness-*.json"):
        stale.unlink()
    for result in document["results"]:
        if result.get("witness_file") and result.get("witness"):
            result["witness_file"] = f"zoo/{Path(result['witness_file']).name}"
            write_json(root / result["witness_file"], result["witness"])
    write_text(root / "zoo.md", markdown(document, entries_of(document)))
    write_json(root / "zoo.json", document)


# pages that are made from files: the names and the number of the files follow the folder
WRITERS: dict[str, Callable[..., None]] = {
    "canaries": bench_pages.write_canaries,
    "library-scans": opendp_page.write,
    "power": bench_pages.write_power,
    "scan": bench_pages.write_scan,
    "third-party": third_party_page.write,
    "third-party-exact": third_party_page.rewrite,
    "trust": trust_page.write,
    "violations": violations_page.write,
}


def main(arguments: Sequence[str]) -> int:
    """Run ``python -m dpwitness.benchmarks.pages [NAME] FOLDER [FILE...]``: write the page NAME
    from its files; without NAME, publish the zoo if its AUDIT.json is given, and build the site.
    """
    writer = WRITERS.get(arguments[0]) if arguments else None
    given = arguments[1:] if writer else arguments
    try:
        inspect.signature(writer or _publish).bind(*given)
    except TypeError as error:
        raise SystemExit(
            "usage: python -m dpwitness.benchmarks.pages FOLDER [AUDIT.json of the zoo], or "
            f"{'|'.join(WRITERS)} FOLDER FILE...: {error}"
        ) from None
    (writer or _publish)(Path(given[0]), *given[1:])
    return 0


def _publish(folder: Path, zoo: str = "") -> None:
    if zoo:
        publish_zoo(zoo, folder)
    for file in build(folder):
        print(file)
