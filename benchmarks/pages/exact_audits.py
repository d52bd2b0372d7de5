"""Rows of the third-party page without statistics: audits of accountants that adapters declare,
in several releases of a library, transformations, newest releases, and names without an audit.

The witness of one release is compared again in the later releases. What fails is kept as one line,
and does not stop the other audits.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpwitness.auditors.functions.accountants import AccountantResult, compare_at
from dpwitness.auditors.functions.declared_targets import DeclaredAccountant
from dpwitness.auditors.scanning.scan import located, mapped
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.declared import declarations, note_on_library
from dpwitness.mechanisms.wrappers.programs.environments import FOLDER, adapter_file
from dpwitness.mechanisms.wrappers.programs.target import Target


def upstream(
    row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], newest: Mapping[str, str]
) -> str:
    """Return whether a finding is in later releases: by its witness, compared again there, or by
    the audits of the same target there.
    """
    later = {
        other["version"]: other["verdict"]
        for other in rows
        if (other["library"], other["target"]) == (row["library"], row["target"])
        and order_of_release(other["version"]) > order_of_release(row["version"])
    }
    again = {v: found["verdict"] for v, found in row.get("again", {}).items() if v in later}
    found = sorted((again or later).items(), key=lambda item: order_of_release(item[0]))
    last = next((v for v, there in reversed(found) if there == "VIOLATED"), "")
    gone = (
        v
        for v, there in found
        if there in ("NOT_REFUTED", "CERTIFIED") and order_of_release(v) > order_of_release(last)
    )
    after, known = next(gone, ""), newest.get(row["library"], "")
    if after and again:
        other_way = "; another witness holds there" if later[after] == "VIOLATED" else ""
        return f"repaired since {after}{other_way}"
    if after or last:
        return f"not found in {after}" if after else f"still in {last}"
    if known == row["version"]:
        return "in the newest release"
    return f"{known} was not audited" if known else "unknown"


def order_of_release(version: str) -> list[int]:
    """Return the numbers of a release, by which releases are sorted."""
    return [int(part) for part in re.findall(r"\d+", version)]


_SECONDS = 30.0  # of the search for one accountant
_CALL_SECONDS = 60.0  # longest duration of one batch of calls
# kinds of findings that are no errors
_VALUES = ("distance", "bound", "support", "budget", "delta of an absent key")
_KEYS = ("library", "version", "target", "kind")
_FAILURES = (InvalidArgument, MechanismFailed, OSError)


def exact_parts(sources: Sequence[str], before: Json) -> Iterator[tuple[str, Json]]:
    """Yield (name of a source, this part of the page's JSON) after each source.

    Parameters
    ----------
    sources : sequence of str
        ``ADAPTER=PYTHON``, or files of frozen findings. An adapter may be given with several
        interpreters, one for each release.
    before : dict
        This part of the page's JSON of an earlier run. Rows of sources that are not given are kept.
    """
    found: Json = (
        {"rows": [], "uncovered": [], "failed": {}}
        | before
        | {"checked": datetime.now(UTC).date().isoformat()}
    )
    pythons: dict[str, dict[str, str]] = {}
    for source in sources:
        adapter, _, python = source.partition("=")
        name, rows = adapter if python else Path(source).name, list[Json]()
        try:
            if python:
                library, version = released(adapter, python)
                name = f"{library} {version}"
                pythons.setdefault(adapter, {})[version] = python
                rows = list(accountant_rows(adapter, python, found["rows"]))
                names = uncovered(adapter, python, library) | {"version": version}
                found["uncovered"] = _newest([*found["uncovered"], names])
            else:
                rows = list(finding_rows(Path(source)))
            failure = {}
        except _FAILURES as error:
            failure = {name: _line(error)}
        fresh = {_key(row) for row in rows}
        found["rows"] = [row for row in found["rows"] if _key(row) not in fresh] + rows
        found["failed"] = {
            key: line for key, line in found["failed"].items() if key != name
        } | failure
        yield name, found
    for adapter, known in pythons.items():
        compare_releases([row for row in found["rows"] if row.get("adapter") == adapter], known)
    yield "witnesses in later releases", found


def _key(row: Json) -> tuple[str, ...]:
    return tuple(row[key] for key in _KEYS)


def _newest(found: Sequence[Json]) -> list[Json]:
    """Return the counts of names of the newest release of each library, the last one of equal
    releases.
    """
    kept: dict[str, Json] = {}
    for each in found:
        before = kept.get(each["library"])
        if before is None or order_of_release(each.get("version", "")) >= order_of_release(
            before.get("version", "")
        ):
            kept[each["library"]] = each
    return list(kept.values())


def released(adapter: str, python: str) -> tuple[str, str]:
    """Return the name and the version of an adapter's library in an interpreter."""
    target = Target(adapter, "TARGETS", python, {}, _CALL_SECONDS)
    library, _, version = note_on_library(target).partition(",")[0].rpartition(" ")
    target.close()
    return library, version


def accountant_rows(adapter: str, python: str, known: Sequence[Json] = ()) -> Iterator[Json]:
    """Yield a row for each accountant that an adapter declares in TARGETS, audited in an
    interpreter with its library.

    Witnesses in `known` rows, those of other releases, come first: where one holds, no search is
    needed.
    """
    library, version = released(adapter, python)
    about: Json = {"library": library, "version": version, "adapter": adapter, "kind": "accountant"}
    for name, declaration in declarations(adapter, python).items():
        if declaration.get("kind") == DeclaredAccountant.KIND:
            target = Target(adapter, name, python, {}, _CALL_SECONDS)
            try:
                same = [
                    row
                    for row in known
                    if row.get("witness") and (row["adapter"], row["target"]) == (adapter, name)
                ]
                holding = (
                    found
                    for found in (compared_again(row, python) for row in same)
                    if found.verdict is Verdict.VIOLATED
                )
                found = next(holding, None)
                if found is None:
                    (found,) = DeclaredAccountant(target, declaration).audit(seconds=_SECONDS)
                yield about | {"target": name} | _finding(found)
            except _FAILURES as error:
                yield about | {
                    "target": name,
                    "verdict": "ERROR",
                    "finding": _line(error),
                    "cause": "",
                }
            finally:
                target.close()


def _finding(found: AccountantResult) -> Json:
    """Return verdict, finding and witness of a row."""
    row: Json = {"verdict": found.verdict.value, "finding": "", "cause": ""}
    if found.verdict is not Verdict.NOT_REFUTED:
        row["finding"] = found.headline().partition(": ")[2]
    if found.verdict is Verdict.VIOLATED:
        row["witness"] = {
            "mechanism": found.mechanism,
            "returns": found.returns,
            "parameters": dict(found.parameters),
            "at": dict(found.at),
        }
    return row


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def compare_releases(rows: Sequence[Json], pythons: Mapping[str, str]) -> None:
    """Compare the witnesses of one adapter's rows in the later releases, and write the outcomes
    into the rows.
    """
    for row in [row for row in rows if row.get("witness")]:
        for version, python in pythons.items():
            if order_of_release(version) > order_of_release(row["version"]):
                try:
                    found = compared_again(row, python)
                    outcome = {
                        "verdict": found.verdict.value,
                        "finding": found.headline().partition(": ")[2],
                    }
                except _FAILURES as error:
                    outcome = {"verdict": "ERROR", "finding": _line(error)}
                row.setdefault("again", {})[version] = outcome


def compared_again(row: Json, python: str) -> AccountantResult:
    """Return the comparison at the witness of a row, in the interpreter of another release."""
    raw = row["witness"]
    target = Target(row["adapter"], row["target"], python, {}, _CALL_SECONDS)
    try:
        accountant = DeclaredAccountant.of(target)
        return compare_at(
            accountant,
            raw["mechanism"],
            raw["returns"],
            raw["parameters"],
            raw["at"],
            0,
            row["target"],
        )
    finally:
        target.close()


def finding_rows(file: Path) -> Iterator[Json]:
    """Yield a row for each finding of a file of frozen findings of a scan: a violation, or an error
    on one of two neighbors only.
    """
    found = json.loads(file.read_text(encoding="utf-8"))  # outputs in the file may be NaN
    for each in found["findings"]:
        value = each["kind"] in _VALUES and each["confidence"] == "high"
        moved = (
            f"{each['kind']} {each['found']}, claimed {each['allowed']}" if value else each["kind"]
        )
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
    """Return the number of public names of a library, and those that no target file of its adapter
    folder mentions.
    """
    found = mapped(located(library, python))[0]
    functions = [each for each in found.functions.values() if each.is_public and not each.owner]
    public = {each.name for each in functions} | {
        name.rpartition(".")[2] for name in found.constructors if "._" not in name
    }
    file = adapter_file(adapter)
    folder_of_adapter = FOLDER / adapter if file is None else Path(file).parent
    mentioned = {word for each in folder_of_adapter.glob("*.py") for word in _words(each)}
    return {"library": library, "public": len(public), "others": sorted(public - mentioned)}


def _words(file: Path) -> Iterator[str]:
    """Yield the names and attributes in the code of a file, and its texts, which may be names of
    attributes.
    """
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute | ast.Name):
            yield node.attr if isinstance(node, ast.Attribute) else node.id
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def newest_release(library: str) -> str:
    """Return the newest release of a distribution by the package index; an empty text if the index
    has none, or does not answer.
    """
    command = [sys.executable, "-m", "pip", "index", "versions", library]
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=60.0,  # of a question to the package index
        )
    except subprocess.TimeoutExpired:
        return ""
    found = re.match(rf"{re.escape(library)} \(([^)]+)\)", run.stdout)
    return found[1] if found else ""
