"""Page on the scan: what is found in packages of the registry, from the JSON of `dpwitness bench
scan`.

``python -m dpwitness.benchmarks.pages scan FOLDER scan.json`` writes ``scan.md``. All numbers
come from the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.pages.bench_pages import direction, read_table
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.values.atomic_files import write_text
from dpwitness.reports.phrasing.wording import escaped_markdown, table

_INTRODUCTION = (
    "These counts are of an earlier scan, which guessed calls from signatures and docstrings; the "
    "present one reads where noise is drawn, and repeats the calls of tests. For each of "
    "{packages} packages, a person first listed its mechanisms (`benchmarks/scan/lists.toml`); "
    "then the package was scanned. A mechanism is *found* if the scan reads it as one; its target "
    "is *right* if the proposed call runs, and kind of claim and neighboring relation are those of "
    "the list, without editing. Ten packages were named by the project, and the scan was developed "
    "on them. The others were drawn by chance, six to ten at a time, from the packages of the "
    "registry that mention differential privacy. `dpwitness bench scan` measures the present scan "
    "on the named packages and the newest draw, `--part` scans an earlier draw again."
)
_DRAWN = (
    "The rows *first scan* are the test on unseen packages: each draw was listed, and "
    "scanned once by the code of that day "
    "(`benchmarks/scan/first_scans.toml`). The other rows show the present code, after "
    "changes that the draws suggested; so they are no "
    "test on unseen packages. The first draw says less than its shares: five of its packages "
    "define no mechanism or have no import, and "
    "diffprivlib-fix is a copy of a named package, without which its first scan found 12 of "
    "20 mechanisms and had no right target. The "
    "later draws pass over copies, packages without a mechanism, and packages that need "
    "large frameworks. Mechanisms of "
    "packages that cannot be installed or imported count as not found. Before the sixth "
    "draw, right targets on unseen packages were rare: "
    "most mechanisms need objects, data frames or options with certain values. Where a scan "
    "cannot make them, its file says so. A right "
    "target has the right kind of claim and relation; whether its datasets are those that "
    "the library means is not part of this count."
)
_AUDITS = (
    "Verdicts are those of audits in 40 seconds for each package, on a machine with other "
    "work, which is too short for most"
    " of its targets. A SUSPECT is a violation of a guessed claim: true, or the reading is "
    "wrong. VIOLATED needs a claim "
    "that the library computes or declares. A package without verdicts was scanned without audits."
)
_FIRST = (
    "Five libraries with known bugs, each installed into a new environment and then scanned "
    "with a budget of 600 seconds until the first "
    "finding. Seconds are of a machine with two cores and other work; the processor time "
    "includes the installation."
)
_TITLES = {
    "named": "Named packages",
    "drawn": "Drawn packages",
    "second draw": "Packages of the second draw",
    "third draw": "Packages of the third draw",
    "fourth draw": "Packages of the fourth draw",
    "fifth draw": "Packages of the fifth draw",
    "sixth draw": "Packages of the sixth draw",
}


def page(found: Table) -> str:
    """Return the markdown of the page from the table of `bench scan`."""
    rows = [
        (
            row.case,
            f"{direction(row)} {row.required:g}",
            _share(row),
            "met" if row.met else "missed",
        )
        for row in found.rows
    ]
    packages = sum(d["group"] in _TITLES for d in found.details)
    lines = [
        f"# Scan of {packages} packages",
        "",
        _INTRODUCTION.format(packages=packages),
        "",
        *table(("measurement", "required", "measured", ""), rows),
        "",
        _DRAWN,
        "",
    ]
    for group, title in _TITLES.items():
        details = [d for d in found.details if d["group"] == group]
        lines += [f"## {title}", "", *_packages(details), ""] if details else []
    lines += [_AUDITS, ""]
    first = [d for d in found.details if d["group"] == "first"]
    lines += ["## Time to the first finding", "", _FIRST, "", *_first(first), ""] if first else []
    notes = [
        f"- {escaped_markdown(note)}" for note in found.notes if "first finding after" not in note
    ]
    return "\n".join([*lines, *(["## Notes", "", *notes, ""] if notes else [])])


def _first(details: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the times until the first finding."""
    rows = []
    for each in details:
        seconds = [
            f"{each[key]:.0f} s" if key in each else "-"
            for key in ("installation", "scan", "processor seconds")
        ]
        rows.append(
            (
                escaped_markdown(each["package"]),
                *seconds,
                escaped_markdown(each.get("error") or each["finding"][:160] or "none"),
            )
        )
    return table(("library", "installation", "scan", "processor time", "first finding"), rows)


def _share(row: Row) -> str:
    """Format a measured share with its counts."""
    if not row.counts:
        return f"{row.measured:g}" if row.measured < float("inf") else "never"
    part, of = row.counts
    return f"{row.measured:.0%} ({part} of {of})"


def _packages(details: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for each in details:
        verdicts = ", ".join(
            f"{number} {name.replace('_', ' ')}"
            for name, number in (each.get("verdicts") or {}).items()
        )
        remark = each.get("error") or "; ".join(each.get("remarks") or [])[:160]
        counts = [str(each.get(key, 0)) for key in ("listed", "found", "right", "wrong")]
        rows.append(
            (escaped_markdown(each["package"]), *counts, verdicts, escaped_markdown(remark))
        )
    return table(("package", "listed", "found", "right", "wrong", "verdicts", "remarks"), rows)


def write(folder: Path, file: str) -> None:
    """Write ``scan.md`` from JSON of `dpwitness bench scan`."""
    write_text(folder / "scan.md", page(read_table(file, "scan")))
