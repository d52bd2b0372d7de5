"""Page on the scan: what is found in 20 packages, from the JSON of `dpwitness bench scan`.

``python -m dpwitness.reports.site.scan_page FOLDER scan.json`` writes ``scan.md``. All numbers come from the JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.mechanisms.core.atomic_files import write_text
from dpwitness.reports.phrasing.wording import escaped_markdown, table
from dpwitness.reports.site.trust_page import read_table

_INTRODUCTION = (
    "`dpwitness scan` reads signatures and docstrings. For each of 20 packages, a person first"
    " listed its mechanisms (`benchmarks/scan/lists.toml`); then the package was scanned. A mechanism is *found* if the "
    "scan reads it as one; its target is *right* if the proposed call runs, and kind of claim and neighboring relation are "
    "those of the list, without editing. Ten packages were named by the project, and the scan was developed on them. Ten "
    "were drawn by chance from the packages of the registry that mention differential privacy. `dpwitness bench scan` "
    "computes this page."
)
_DRAWN = (
    "The drawn packages say less than their shares. Five define no mechanism or cannot be imported, and diffprivlib-fix is "
    "a copy of a named package. The table shows the present code, after changes that the draw suggested; so it is no test "
    "on unseen code. That test was the first scan after the draw: 57 of 65 mechanisms found (88 %) and 42 with a right "
    "target (65 %), but without the copy 12 of 20 (60 %) and 0 of 20. The mechanisms of the other drawn packages need "
    "objects, such as a reader of a database, that a scan does not build. A right target has the right kind of claim and "
    "relation; whether its datasets are those that the library means is not part of this count."
)
_AUDITS = (
    "Verdicts are those of audits in 40 seconds for each package, on a machine with other work, which is too short for most"
    " of its targets. A SUSPECT is a violation of a guessed claim: true, or the reading is wrong. VIOLATED needs a claim "
    "that the library computes or declares."
)


def page(found: Mapping[str, Any]) -> str:
    """Return the markdown of the page from the table of `bench scan`."""
    rows = [
        (row["case"], f"{'at most' if row['at_most'] else 'at least'} {row['required']:g}", _share(row), "met" if _met(row) else "missed")
        for row in found["rows"]
    ]
    lines = ["# Scan of 20 packages", "", _INTRODUCTION, "", *table(("measurement", "required", "measured", ""), rows), "", _DRAWN, ""]
    for group, title in (("named", "Named packages"), ("drawn", "Drawn packages")):
        lines += [f"## {title}", "", *_packages([d for d in found["details"] if d["group"] == group]), ""]
    return "\n".join([*lines, _AUDITS, ""])


def _met(row: Mapping[str, Any]) -> bool:
    return bool(row["measured"] <= row["required"] if row["at_most"] else row["measured"] >= row["required"])


def _share(row: Mapping[str, Any]) -> str:
    """Format a measured share with its counts."""
    if not row.get("counts"):
        return f"{row['measured']:g}"
    part, of = row["counts"]
    return f"{row['measured']:.0%} ({part} of {of})"


def _packages(details: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for each in details:
        verdicts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in (each.get("verdicts") or {}).items())
        remark = each.get("error") or "; ".join(each.get("remarks") or [])[:160]
        counts = [str(each.get(key, 0)) for key in ("listed", "found", "right", "wrong")]
        rows.append((escaped_markdown(each["package"]), *counts, verdicts, escaped_markdown(remark)))
    return table(("package", "listed", "found", "right", "wrong", "verdicts", "remarks"), rows)


def main(arguments: Sequence[str]) -> None:
    """Write the page into a folder from the JSON file of the benchmark."""
    folder, file = arguments
    write_text(Path(folder) / "scan.md", page(read_table(Path(file), "scan")))


if __name__ == "__main__":
    main(sys.argv[1:])
