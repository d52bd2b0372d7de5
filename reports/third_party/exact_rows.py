"""Parts of the third-party page without statistics: accountants and transformations, newest releases, and names without an audit.

``python -m dpwitness.reports.third_party.page --exact ADAPTER=PYTHON... FINDINGS.json... reports/published`` audits what the adapters
declare in TARGETS, each with an interpreter that has its library, adds findings of scans, asks the package index for the newest releases,
and writes the page again.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpwitness.auditors.accounting.declared_targets import DeclaredAccountant, audit_declared
from dpwitness.auditors.scanning.package_discovery import discover
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.foreign.declared import declarations, library_note
from dpwitness.mechanisms.foreign.environments import FOLDER, adapter_file
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.reports.phrasing.wording import code, count, escaped_markdown, table, verdict

_SECONDS = 4.0  # of the search for one accountant
_VALUES = ("distance", "bound", "support", "budget", "delta of an absent key")  # kinds of findings that are no errors
_SHOWN = 15  # public names that the page lists


def accountant_rows(adapter: str, python: str) -> Iterator[Json]:
    """Yield a row for each accountant that an adapter declares in TARGETS, audited in an interpreter with its library."""
    for name, declaration in declarations(adapter, python).items():
        target = Target(adapter, name, python)
        found = audit_declared(DeclaredAccountant(target, declaration), seconds=_SECONDS)
        library, _, version = library_note(target).partition(",")[0].rpartition(" ")
        target.close()
        yield {
            "library": library,
            "version": version,
            "target": name,
            "kind": "accountant",
            "verdict": found.verdict.value,
            "finding": found.headline().partition(": ")[2] if found.verdict.value in ("VIOLATED", "ERROR") else "",
            "cause": "",
        }


def finding_rows(file: Path) -> Iterator[Json]:
    """Yield a row for each finding of a file of frozen findings of a scan: a violation, or an error on one of two neighbors only."""
    found = json.loads(file.read_text(encoding="utf-8"))  # outputs in the file may be NaN
    for each in found["findings"]:
        value = each["kind"] in _VALUES and each["confidence"] == "high"
        moved = f"{each['kind']} {each['found']}, claimed {each['allowed']}" if value else each["kind"]
        yield {
            "library": found["library"],
            "version": found["version"],
            "target": each["name"],
            "kind": "stability",
            "verdict": "VIOLATED" if value else "INCONCLUSIVE",
            "finding": moved,
            "cause": each["cause"],
        }


def uncovered(adapter: str, python: str, library: str) -> Json:
    """Return the number of public names of a library, and those that no target file of its adapter folder mentions."""
    with tempfile.TemporaryDirectory() as folder:
        objects = discover(package=library, python=python, working_folder=folder).objects
    public = {str(each["name"]).rpartition(".")[2] for each in objects}
    file = adapter_file(adapter)
    folder_of_adapter = FOLDER / adapter if file is None else Path(file).parent
    mentioned = {word for each in folder_of_adapter.glob("*.py") for word in _words(each)}
    return {"library": library, "public": len(public), "others": sorted(public - mentioned)}


def _words(file: Path) -> Iterator[str]:
    """Yield the names and attributes in the code of a file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute | ast.Name):
            yield node.attr if isinstance(node, ast.Attribute) else node.id
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def newest_release(library: str) -> str:
    """Return the newest release of a distribution by the package index; an empty text if the index has none."""
    run = subprocess.run([sys.executable, "-m", "pip", "index", "versions", library], capture_output=True, text=True, check=False)
    found = re.match(rf"{re.escape(library)} \(([^)]+)\)", run.stdout)
    return found[1] if found else ""


def upstream(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], newest: Mapping[str, str]) -> str:
    """Return whether a finding is in the newest release, as far as audits of the same target in other releases say."""
    same = [other for other in rows if (other["library"], other["target"]) == (row["library"], row["target"])]
    later = [other for other in same if _order(other["version"]) > _order(row["version"])]
    clean = [other["version"] for other in later if other["verdict"] not in ("VIOLATED", "ERROR", "INCONCLUSIVE")]
    if clean:
        return f"not found in {min(clean, key=_order)}"
    if any(other["verdict"] == "VIOLATED" for other in later):
        return f"still in {max((other['version'] for other in later), key=_order)}"
    known = newest.get(row["library"], "")
    return "in the newest release" if known == row["version"] else f"{known} was not audited" if known else "unknown"


def _order(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def section(exact: Json, rows: Sequence[Json]) -> list[str]:
    """Return the sections of the page: rows without statistics, refuted rows and newest releases, and names without an audit."""
    every = [*rows, *exact["rows"]]
    violated = [row for row in every if row["verdict"] == "VIOLATED"]
    releases = {(row["library"], row["version"]) for row in every}
    lines = [
        [f"{row['library']} {row['version']}", code(row["target"]), row["kind"], verdict(row["verdict"]).lower(), _seen(row)]
        for row in exact["rows"]
    ]
    states = {(row["library"], row["version"], row["target"]): upstream(row, every, exact["newest"]) for row in violated}
    status = [[f"{library} {version}", code(target), state] for (library, version, target), state in states.items()]
    return [
        "## Without statistics",
        f"Accountants are compared with exact figures, and transformations with their stability maps, in exact arithmetic. A row that is "
        f"*inconclusive* is an error on one of two neighbors only, or a case that the documentation leaves open. Together with the rows of "
        f"runs, {len(violated)} of {len(every)} rows are refuted at the level of values, in {len(releases)} releases that were audited.",
        "\n".join(table(["release", "target", "kind", "verdict", "finding"], lines)),
        "## Refuted rows and newest releases",
        f"Newest releases of the package index on {exact['checked']}. *Not found in* a release: the same target was audited there and "
        "nothing was found.",
        "\n".join(table(["release", "target", "state"], status)),
        "## Not audited",
        "Public functions and classes of a library, by discovery in its interpreter, whose names no target file of the adapter mentions. "
        "A name that is mentioned may be audited with some of its arguments only.",
        "\n".join(_uncovered_line(each) for each in exact["uncovered"]),
        "Public names of the other libraries were not counted; the targets of their rows are all that was audited of them.",
    ]


def _seen(row: Json) -> str:
    return escaped_markdown("; ".join(part for part in (row["finding"], row["cause"]) if part)) or "-"


def _uncovered_line(found: Json) -> str:
    others = found["others"]
    more = f" and {count(len(others) - _SHOWN)} more" if len(others) > _SHOWN else ""
    return (
        f"- **{found['library']}**: {count(len(others))} of {count(found['public'])} public names: "
        f"{', '.join(map(code, others[:_SHOWN]))}{more}"
    )


def exact_part(sources: Sequence[str]) -> Json:
    """Audit the adapters of ``ADAPTER=PYTHON``, add the findings of files, and return this part of the page's JSON."""
    rows: list[Json] = []
    names: dict[str, Json] = {}
    for source in sources:
        adapter, _, python = source.partition("=")
        if not python:
            rows += finding_rows(Path(source))
            continue
        rows += (found := list(accountant_rows(adapter, python)))
        library = found[0]["library"] if found else adapter.replace("_", "-")
        if library not in names:
            names[library] = uncovered(adapter, python, library)
    return {"rows": rows, "checked": datetime.now(UTC).date().isoformat(), "uncovered": list(names.values())}
