"""Page that counts the violations of third-party libraries on all published pages, each bug once in
a release.

``python -m dpwitness.benchmarks.pages violations reports/published`` writes ``violations.md``
from the JSON of the audits of libraries and of the recall campaign, and from the table of findings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpwitness.benchmarks.pages.exact_audits import order_of_release
from dpwitness.benchmarks.pages.frame import tables
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.json_reader import Json, read_json
from dpwitness.reports.wording import escaped_markdown, table

_SAME = Path(__file__).with_name("same_violations.toml")
_RECALL = Path(__file__).resolve().parents[1] / "libraries"
_PAGES = {"third-party": "Libraries", "recall": "Recall", "findings": "Findings"}
_INTRODUCTION = (
    "The published pages confirm {violations} violations by values in {releases} releases of "
    "{libraries} libraries: {bugs} bugs, some of "
    "them in several releases. {audited} releases were audited in all."
)
_DEFINITION = (
    "A *violation by values* is a claim of a release that the values of its outputs refute: "
    "counts that certify more than the claim at the "
    "confidence of the page, outputs of a transformation further apart than its map allows, "
    "an accountant's figure below the exact one, or "
    "a bug that the page of findings demonstrates. A release is a library and a version. A "
    "bug that several pages or several rows show in "
    "one release counts once there (`benchmarks/pages/same_violations.toml` has the names of "
    "these rows, by reading), and once in each "
    "other release. Not counted are violations by floating-point bits, exceptions or aborts "
    "alone, those of guessed claims (SUSPECT), and "
    "inconclusive rows. Causes are distinguished as finely as their pages do: one repair may "
    "mend several of them."
)


@dataclass(frozen=True, slots=True)
class Violation:
    """Bug of one release that a published page confirms."""

    library: str
    version: str
    bug: str  # the first of the bug's names, if it has several
    name: str  # name on the page
    page: str  # name of the page


def confirmed(published: Path) -> list[Violation]:
    """Return the violations by values of all pages, with those that have another name on another
    page.

    Parameters
    ----------
    published : Path
        Folder with ``third-party.json``, ``recall.json`` and ``findings.md``.
    """
    known = tomllib.loads(_SAME.read_text(encoding="utf-8"))
    first = {name: names[0] for names in known["same"] for name in names}
    return [
        Violation(library, version, first.get(name, name), name, page)
        for page, library, version, name in _every(published)
        if name not in known["not_by_values"]
    ]


def audited(published: Path) -> set[tuple[str, str]]:
    """Return all releases, as (library, version), of which a page has a result, violated or not;
    states of repositories are no releases.
    """
    suite = read_json(published / "third-party.json", "publish")
    libraries = _recall_libraries()
    recalled = read_json(published / "recall.json", "publish")["runs"]
    found = {(row["library"], row["version"]) for row in (*suite["rows"], *suite["exact"]["rows"])}
    found |= {
        (libraries[run["entry"]], run["release"]) for run in recalled if run["outcome"] != "ERROR"
    }
    return {release for release in found if _is_release(release[1])}


def _is_release(version: str) -> bool:
    """Return whether a version is that of a release, and not a state of a repository or an
    algorithm that was rebuilt.
    """
    return "dev" not in version and any(map(str.isdigit, version))


def _every(published: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield (page, library, version, name) of each violation that the pages report."""
    suite: Json = read_json(published / "third-party.json", "publish")
    for row in (*suite["rows"], *suite["exact"]["rows"]):
        if row["verdict"] == "VIOLATED":
            yield "third-party", row["library"], row["version"], row["target"]
    libraries = _recall_libraries()
    for run in read_json(published / "recall.json", "publish")["runs"]:
        if run["outcome"] == "VIOLATED" and _is_release(run["release"]):
            yield (
                "recall",
                libraries[run["entry"]],
                run["release"],
                run["entry"] + (" after" if run["side"] == "after" else ""),
            )
    for each in tables((published / "findings.md").read_text(encoding="utf-8")):
        if {"finding", "library", "release"} <= set(each[0]):
            yield from (
                ("findings", row["library"], row["release"], row["finding"]) for row in each
            )


def _recall_libraries() -> dict[str, str]:
    """Return the library of each entry of the recall campaign."""
    found: dict[str, str] = {}
    for path in _RECALL.glob("*/entries.toml"):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        found |= {
            name: str(entry.get("library", data["library"]))
            for name, entry in data["entries"].items()
        }
    return found


def page(violations: Sequence[Violation], releases_audited: int) -> str:
    """Return the markdown of the page."""
    distinct = {(each.library, each.version, each.bug) for each in violations}
    releases = sorted(
        {(each.library, each.version) for each in violations},
        key=lambda one: (one[0].lower(), order_of_release(one[1]), one[1]),
    )
    counts = _INTRODUCTION.format(
        violations=len(distinct),
        releases=len(releases),
        libraries=len({library for library, _ in releases}),
        bugs=len({(library, bug) for library, _, bug in distinct}),
        audited=releases_audited,
    )
    rows = []
    for release in releases:
        own = [each for each in violations if (each.library, each.version) == release]
        pages = [
            f"[{label}]({name}.md)"
            for name, label in _PAGES.items()
            if any(each.page == name for each in own)
        ]
        bugs = sorted({each.bug for each in own})
        rows.append(
            (
                f"{release[0]} {release[1]}",
                str(len(bugs)),
                escaped_markdown(", ".join(bugs)),
                ", ".join(pages),
            )
        )
    lines = [
        "# Violations of libraries, counted",
        "",
        counts,
        "",
        _DEFINITION,
        "",
        *table(("release", "violations", "bugs", "pages"), rows),
    ]
    return "\n".join([*lines, ""])


def write(folder: Path) -> None:
    """Write ``violations.md`` into the folder of the published pages."""
    write_text(folder / "violations.md", page(confirmed(folder), len(audited(folder))))
