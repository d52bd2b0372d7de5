"""Scan of a package or folder: discovery, proposals and the target file, all in one folder. A scan
can be repeated and edited.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.auditors.scanning.audits import Audited
from dpwitness.auditors.scanning.package_discovery import (
    Discovered,
    TypedEntries,
    TypedEntry,
    discover,
    search,
    search_program,
)
from dpwitness.auditors.scanning.proposals import Proposal, callable_recipes, propose, readings_of
from dpwitness.auditors.scanning.target_file import target_file
from dpwitness.core.values.atomic_files import write_json, write_text
from dpwitness.core.values.json_reader import Json, read_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.environments import environments

_RECORD = "scan.json"
_DISCOVERY_SHARE, _TRIAL_SHARE, _TYPED_SHARE = 0.25, 0.3, 0.2  # shares of the time budget


@dataclass(frozen=True, slots=True)
class Row:
    """Result of the scan for one public name.

    Attributes
    ----------
    name : str
        Dotted name.
    role : str
        mechanism, transformation or other.
    because : str
        What the reading rests on.
    target : str
        Name in the target file; empty for a name that gets none.
    guess : str
        What is guessed; empty for a certain claim.
    why : str
        Why the name is not audited; empty if it is.
    seconds : float
        Time of one run in seconds; 0 if unknown.
    confidence : {"certain", "docstring", "name", ""}
        What the claim rests on.
    """

    name: str
    role: str
    because: str
    target: str = ""
    guess: str = ""
    why: str = ""
    seconds: float = 0.0
    confidence: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """Scan of a package whose target file is written.

    Attributes
    ----------
    title : str
        Package with its version, or folder.
    file : Path
        The target file.
    rows : tuple of Row
        What is known about each public name.
    remarks : tuple of str
        One line for each module that could not be imported, and for each side effect.
    about : dict
        Facts about the package.
    kept : bool
        Whether the target file existed, so that nothing was proposed.
    """

    title: str
    file: Path
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]
    about: Json
    kept: bool = False

    def save(self) -> None:
        """Write the record of the scan next to the target file."""
        record = {
            "schema_version": 1,
            "title": self.title,
            "about": self.about,
            "remarks": list(self.remarks),
            "rows": [dataclasses.asdict(row) for row in self.rows],
        }
        write_json(self.file.parent / _RECORD, record)


def interpreter_path(python: str | None) -> str | None:
    """Return the path of an interpreter, given as a path, a folder, or a name of `dpwitness
    targets`; None for this one.

    Raises
    ------
    InvalidArgument
        If there is no such interpreter.
    """
    if python is None:
        return None
    known = environments().get(python)
    if known is not None and known.interpreter.exists():
        return str(known.interpreter)
    if known is not None:
        raise InvalidArgument(
            f"environment {python} is missing; make it with: dpwitness targets setup {python}"
        )
    place = os.path.abspath(os.path.expanduser(python))
    inside = os.path.join(place, "bin", "python")
    found = inside if os.path.isdir(place) and os.path.exists(inside) else place
    if not os.path.isfile(found):
        raise InvalidArgument(
            "--python must be an interpreter or an environment of `dpwitness targets`, got "
            f"{python!r}: no such file"
        )
    return found


def stem_of(package: str) -> str:
    """Return the part of file names for a package or a folder."""
    text = os.path.basename(os.path.normpath(package)) if os.path.isdir(package) else package
    return re.sub(r"\W+", "_", text).strip("_") or "scan"


def explore(
    package: str,
    *,
    python: str | None,
    folder: Path,
    memory: float,
    seconds: float,
    progress: Callable[[str], None] | None,
) -> Discovered:
    """Return the contents of a package or a folder, as `discover` returns them."""
    is_folder = os.path.isdir(package)
    return discover(
        package="" if is_folder else package,
        folder=package if is_folder else "",
        python=python,
        working_folder=str(folder),
        memory=round(memory * 2**30),
        seconds=max(30.0, seconds),
        progress=progress,
    )


def prepare(
    package: str,
    report: Path,
    *,
    python: str | None,
    folder: Path,
    memory: float,
    seconds: float,
    progress: Callable[[str], None] | None = None,
) -> Scan:
    """Discover, propose and write the target file; a target file that exists is kept with its
    edits, and nothing is proposed.

    Parameters
    ----------
    package : str
        Name of a package or distribution, or a folder.
    report : Path
        Folder of the target file and of the record.
    python : str or None
        Interpreter of the package.
    folder : Path
        The only folder that imports and calls may write to.
    memory : float
        Limit of each worker's address space in gigabytes; 0 for none.
    seconds : float
        Time budget of the scan, of which this part takes about half.
    progress : callable, optional
        Called with a line on what is done.
    """
    announce = progress or (lambda line: None)
    file = report / f"{stem_of(package)}_targets.py"
    earlier = _earlier(file)
    if earlier is None:
        found = explore(
            package,
            python=python,
            folder=folder,
            memory=memory,
            seconds=_DISCOVERY_SHARE * seconds,
            progress=lambda name: announce(f"import {name}"),
        )
        deadline = time.monotonic() + max(20.0, _TRIAL_SHARE * seconds)
        typed = typed_entries(
            found,
            python=python,
            folder=folder,
            memory=memory,
            seconds=_TYPED_SHARE * seconds,
            progress=announce,
        )
        readings = [
            reading for reading in readings_of(found) if reading.name.name not in typed.covered
        ]
        proposals = propose(
            readings,
            folder,
            python=python,
            preamble=found.preamble,
            root=str(found.about.get("root") or ""),
            memory=memory,
            deadline=deadline,
            progress=lambda done, total, name: announce(f"{done + 1} of {total}: {name}"),
        )
        earlier = written(package, file, found, proposals, python, typed=typed)
    return earlier


def typed_entries(
    found: Discovered,
    *,
    python: str | None,
    folder: Path,
    memory: float,
    seconds: float,
    progress: Callable[[str], None] | None = None,
) -> TypedEntries:
    """Return the entries of a library with typed constructors; none for another package."""
    program = search_program(found.about.get("tops", ()))
    if program is None:
        return TypedEntries()
    taken = {name["name"] for name in found.objects if not name["name"].startswith("make_")}
    return search(
        program,
        taken,
        python=python,
        folder=folder,
        memory=round(memory * 2**30),
        seconds=seconds,
        progress=progress,
    )


def written(
    package: str,
    file: Path,
    found: Discovered,
    proposals: Sequence[Proposal],
    python: str | None,
    *,
    typed: TypedEntries = TypedEntries(),  # noqa: B008 - immutable
) -> Scan:
    """Write the target file and the record of the scan, and return the scan."""
    about, root = found.about, str(found.about.get("root") or "")
    title = f"{about['distribution']} {about['version']}" if about.get("distribution") else package
    text = target_file(
        proposals,
        title=title,
        file=file.name,
        about=about,
        python=python,
        root=os.path.relpath(root, file.resolve().parent) if root else "",
        preamble=found.preamble,
        typed=typed,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)
    places = {each["name"]: f"{each['module']}.{each['name']}" for each in found.objects}
    rows = (*map(row_of, proposals), *(row_of_typed(each, places) for each in typed.entries))
    scan = Scan(title, file, rows, (*found.remarks, *typed.remarks), about)
    scan.save()
    return scan


def row_of(proposal: Proposal) -> Row:
    """Return the row of a proposal's name."""
    reading, trial = proposal.reading, proposal.trial
    return Row(
        reading.name.path,
        proposal.role,
        reading.because,
        proposal.target if proposal.role != "other" else "",
        proposal.guess,
        proposal.why or reading.skip,
        0.0 if trial is None else trial.seconds,
        proposal.confidence,
    )


def row_of_typed(entry: TypedEntry, places: Mapping[str, str]) -> Row:
    """Return the row of a program of typed constructors, under the dotted name of the constructor
    if the program is an example.
    """
    name = entry.target if entry.expected else places.get(entry.constructors[-1], entry.target)
    return Row(
        name, entry.role, f"{entry.because}: {entry.why}", entry.target, confidence="certain"
    )


def _earlier(file: Path) -> Scan | None:
    """Return the scan whose record and target file exist; None if one of them is missing."""
    record = file.parent / _RECORD
    if not (file.exists() and record.exists()):
        return None
    found = read_json(record)
    try:
        rows = tuple(Row(**row) for row in found["rows"])
        return Scan(found["title"], file, rows, tuple(found["remarks"]), found["about"], True)
    except (KeyError, TypeError) as error:
        raise InvalidArgument(
            f"scan: {record} is not a record of a scan ({error}); delete it, or choose "
            "another --report"
        ) from None


def dry_run(found: Discovered) -> list[tuple[str, str]]:
    """Return each public name that would be called, with its first proposed call."""
    calls = []
    for reading in readings_of(found):
        recipes = callable_recipes(reading)
        if recipes:
            calls.append((reading.name.path, "; ".join(recipes[0].body).removeprefix("return ")))
    return calls


def table(scan: Scan, outcomes: Sequence[Audited]) -> list[Json]:
    """Return the final table: for each public name its role, its audit, and the verdict or the
    reason why it was skipped.
    """
    by_target: dict[str, list[Audited]] = {}
    for outcome in outcomes:
        by_target.setdefault(outcome.name, []).append(outcome)
    found, listed = [], set()
    for row in scan.rows:
        own = by_target.get(row.target, []) if row.target else []
        listed.add(row.target)
        found.append(
            {
                "name": row.name,
                "read as": row.role,
                "target": row.target,
                **_audit_summary(own, row),
            }
        )
    for name, own in by_target.items():  # entries that a person has added
        if name not in listed:
            found.append(
                {
                    "name": name,
                    "read as": "entry of the file",
                    "target": name,
                    **_audit_summary(own, Row(name, "", "")),
                }
            )
    return found


_ORDER = ("VIOLATED", "SUSPECT", "ERROR", "INCONCLUSIVE", "NOT_REFUTED")


def _audit_summary(own: Sequence[Audited], row: Row) -> Json:
    """Return how one name was audited, the worst verdict, and the reason."""
    made = [each for each in own if each.results]
    found_nothing = all(
        each.verdict_name == "NOT_REFUTED" and each.how == ("relations",) for each in made
    )
    # relations without a finding are no audit of the claim
    if not made or (row.role == "mechanism" and found_nothing):
        why = next((each.why for each in own if each.why), row.why) or "not audited"
        return {"audited": "", "claim": "", "guessed": False, "verdict": "", "why": why}
    worst = min(
        made,
        key=lambda each: (
            _ORDER.index(each.verdict_name) if each.verdict_name in _ORDER else len(_ORDER)
        ),
    )
    result: Any = worst.results[0]
    why = "" if worst.verdict_name == "NOT_REFUTED" else result.headline().partition(": ")[2]
    if worst.verdict_name == "SUSPECT":  # that the claim is guessed is said elsewhere
        pair = getattr(result, "pair", None)
        why = why.partition(";")[0] + (
            f" on the pair '{pair.why}'" if pair is not None and pair.why else ""
        )
    why = why or ("a trace shows " + "; ".join(worst.findings) if worst.findings else "")
    claim, guessed = (
        str(getattr(result, "claim", "") or ""),
        bool(getattr(result, "guessed", "") or getattr(result, "guess", "")),
    )
    return {
        "audited": ", ".join(worst.how),
        "claim": claim,
        "guessed": guessed,
        "confidence": "confirmed" if row.guess and not guessed else row.confidence,
        "verdict": worst.verdict_name,
        "why": why,
    }
