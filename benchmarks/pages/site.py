"""Builder of the static site: an HTML page for each published markdown page, with navigation and an
index.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from dpwitness.benchmarks.pages import (
    bench_pages,
    opendp_page,
    third_party_page,
    trust_page,
    violations_page,
)
from dpwitness.benchmarks.pages.campaign import write_feet
from dpwitness.benchmarks.pages.frame import page
from dpwitness.benchmarks.pages.papers import claims_page
from dpwitness.core.values.atomic_files import atomic_folder, write_json, write_text
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import figure, number
from dpwitness.reports.cards import columns, legend, opening, sort_worst_first
from dpwitness.reports.document import entries_of, read_document
from dpwitness.reports.html_format import render
from dpwitness.reports.report import check_writable
from dpwitness.reports.summary import family
from dpwitness.reports.wording import code, table

GROUPS = (  # (label, question, names of the pages, the first for the card); six at most
    ("Papers", "Do the claims of four papers hold?", ("papers", "reproductions")),
    (
        "Libraries",
        "Do releases of third-party libraries keep their promise?",
        ("third-party", "violations", "findings"),
    ),
    ("Scan", "Does a scan find the mechanisms of a package by itself?", ("scan", "library-scans")),
    ("Recall", "Are documented bugs of libraries found, also by other tools?", ("recall", "peers")),
    (
        "Zoo",
        "Are mechanisms of known privacy judged correctly, and how close to the best test?",
        ("zoo", "power", "canaries"),
    ),
    ("Trust", "How often are the statements of this tool wrong?", ("trust", "measurements")),
)
NAMES = {  # labels of the pages within a group
    "papers": "Claims",
    "reproductions": "Figures",
    "third-party": "Audits",
    "violations": "Violations, counted",
    "findings": "New findings",
    "scan": "Packages",
    "library-scans": "Issue trackers",
    "recall": "Documented bugs",
    "peers": "Other tools",
    "zoo": "Zoo",
    "power": "Power",
    "canaries": "Canaries",
    "trust": "Trust",
    "measurements": "Measurements",
}
_LEAD = (
    "Published results of dpwitness. Each page is a summary: it names the command that computes "
    "it, and links to its data."
)


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
    groups = [
        (label, question, here)
        for label, question, names in GROUPS
        if (here := [name for name in names if (root / f"{name}.md").is_file()])
    ]
    if not groups:
        raise InvalidArgument(
            f"site: folder must hold a published page such as papers.md, got {str(folder)!r}"
        )
    write_feet(root)
    texts = {
        name: (root / f"{name}.md").read_text(encoding="utf-8")
        for *_, names in groups
        for name in names
    }
    titles = {name: text.splitlines()[0].lstrip("# ") for name, text in texts.items()}
    pages = [
        ("index.html", "Overview"),
        *((f"{names[0]}.html", label) for label, _, names in groups),
    ]

    def picture(file: str) -> str | None:
        path = root / file
        return (
            path.read_text(encoding="utf-8")
            if re.fullmatch(r"[\w.-]+\.svg", file) and path.is_file()
            else None
        )

    with atomic_folder(root) as draft:
        cards = [
            (f"{names[0]}.html", label, titles[names[0]].removeprefix(f"{label}: "), question)
            for label, question, names in groups
        ]
        index = render("overview.html", pages=pages, here="index.html", lead=_LEAD, cards=cards)
        write_text(draft / "index.html", index)
        for *_, names in groups:
            siblings = [(f"{name}.html", NAMES[name]) for name in names]
            for name in names:
                found = page(
                    titles[name],
                    texts[name],
                    pages=pages,
                    group=siblings if len(siblings) > 1 else (),
                    here=f"{name}.html",
                    moved={f"{each}.md": f"{each}.html" for each in texts},
                    pictures=picture,
                )
                write_text(draft / f"{name}.html", found)
    return [root / "index.html", *(root / f"{name}.html" for name in texts)]


def publish_zoo(report: Path | str, folder: Path | str) -> None:
    """Publish a report of ``dpwitness suite zoo``: write ``zoo.json``, its summary ``zoo.md``, and
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
    write_json(root / "zoo.json", document)
    write_zoo(root)


_ZOO = (
    "Mechanisms from the literature, correct and broken, whose true privacy is known by a proof. "
    "Each is audited as a black box: the audit is given the claim and the domain, and finds the "
    "pair of datasets and the event by itself."
)
_ZOO_DATA = (
    "[zoo.json](zoo.json) is the report with the pair, the event, the counts and the seed of every "
    "audit; `dpwitness report zoo.json --report DIR` shows them as pages. A name with a link is "
    "that of a witness: `dpwitness replay FILE` counts again, with fresh randomness."
)
_FAR = 0.7  # share of the limit below which the page names a mechanism
_ZOO_COLUMNS = ("claim", "expected", "verdict", "certified", "limit", "float rounding")


def write_zoo(root: Path) -> None:
    """Write the summary ``zoo.md`` from ``zoo.json``."""
    document = read_document(root / "zoo.json")
    entries = entries_of(document)
    first, *others = opening(entries, family(document["results"]))
    shown = [column for column in columns(entries) if column.head in _ZOO_COLUMNS]
    rows = [
        (
            f"[{code(entry.name)}]({entry.witness_file})"
            if entry.witness_file
            else code(entry.name),
            *(column.text(entry) for column in shown),
        )
        for entry in sort_worst_first(entries)
    ]
    far = [
        f"{code(entry.name)} ({figure(least, 3)} of {figure(limit, 3)})"
        for entry in entries
        if (limit := number(entry.result.get("limit")))
        and (least := number(entry.result["parameter_lower"]) or 0.0) < _FAR * limit
    ]
    paragraphs = [
        f"# Zoo: {first.rstrip('.')}",
        _ZOO,
        *(text for text in others[:-1] if not text.startswith("Float rounding")),
        f"Far below the limit: {', '.join(far) or 'none'}.",
        "\n".join(table(("mechanism", *(column.head for column in shown)), rows)),
        legend(entries),
        _ZOO_DATA,
    ]
    write_text(root / "zoo.md", "\n\n".join(paragraphs) + "\n")


# pages that are made from files: the names and the number of the files follow the folder
WRITERS: dict[str, Callable[..., object]] = {
    "canaries": bench_pages.write_canaries,
    "library-scans": opendp_page.write,
    "measurements": trust_page.write_measurements,
    "papers": claims_page.rewrite,
    "power": bench_pages.write_power,
    "scan": bench_pages.write_scan,
    "third-party": third_party_page.write,
    "third-party-exact": third_party_page.rewrite,
    "trust": trust_page.write,
    "violations": violations_page.write,
    "zoo": write_zoo,
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
