"""Scan of OpenDP 0.16.0 from its signatures: the search, frozen findings that are replayed with the
library, and the search of sound chains.

Typed constructors carry their domains, metrics and maps, so that each claim is the library's own.
The adapter of the library has a program ``search/search.py``, which builds programs from the types
of the constructors. It runs in the interpreter of the library, searches quickly, and prints an
entry of a target file for each finding, with its two inputs. The entries are then audited like any
other, so that a finding counts only if the audit confirms it.

The frozen findings are compared with the issues of the library's tracker, which were read after the
findings had been frozen.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dpwitness.auditors.functions.declared_targets import DECLARED
from dpwitness.auditors.scanning.calls import LONGEST_LINE, Script
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.installation import install, pinned_environments
from dpwitness.benchmarks.table import Row
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.environments import FOLDER
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_process import WorkerDied

_MOST = 80  # entries of a search that are audited


def search_program(library: str) -> Path:
    """Return the search program of the adapter of a library."""
    return FOLDER / library / "search" / "search.py"


def search(program: Path, python: str, folder: Path, seconds: float) -> list[Json]:
    """Run a search program, and return the lines that it prints.

    Parameters
    ----------
    program : Path
        The search program.
    python : str
        Interpreter of the library.
    folder : Path
        The only folder that the program may write to.
    seconds : float
        Time of the search. A search that ends early, or late, keeps the lines so far.

    Raises
    ------
    InvalidArgument
        If the program ends before its first line.
    """
    process = Script(python, str(folder), 0, (str(program), "--seconds", f"{seconds:g}")).start(0.0)
    lines = list[Json]()

    def read() -> None:
        while not lines or "tried" not in lines[-1]:
            line = process.line(LONGEST_LINE, "an entry")
            if line.startswith(b"{"):  # the library prints other lines
                lines.append(json.loads(line))

    try:
        # seconds after the search in which its process must end
        process.within(seconds + 30.0, read)
    except (ValueError, WorkerDied):
        if not lines:
            raise InvalidArgument(f"{program} must print entries: it {process.ended()}") from None
    finally:
        process.close()
    return lines


def target_file(lines: Sequence[Json]) -> tuple[str, dict[str, Json]]:
    """Return a target file of the entries in the lines of a search, and its declarations by
    name.
    """
    parts, declared = ["import numpy as np\nfrom math import inf, nan"], dict[str, Json]()
    for line in lines:
        parts += line.get("header", ())
    for number, entry in enumerate([line["entry"] for line in lines if "entry" in line][:_MOST]):
        name = f"{entry['constructors'][-1]}_{number}"
        parts += [f"\n\n# {name}: {entry['why']}"]
        parts += [text.replace("{name}", name) for text in entry["source"]]
        # names of functions contain the name of the target
        declared[name] = {
            key: value.replace("{name}", name) if isinstance(value, str) else value
            for key, value in entry["declaration"].items()
        }
    return "\n".join([*parts, "", "", f"TARGETS = {declared!r}", ""]), declared


def violations(library: str, python: str, seconds: float) -> int:
    """Search a library and audit the findings, and return how many violate the library's
    own map.
    """
    with tempfile.TemporaryDirectory() as name:
        file, found = Path(name, "typed.py"), 0
        lines = search(search_program(library), python, Path(name), seconds / 2)
        text, declared = target_file(lines)
        file.write_text(text, encoding="utf-8")
        for each, declaration in declared.items():
            kind, target = DECLARED[declaration["kind"]], Target(str(file), each, python, {}, 60.0)
            try:
                (result,) = kind.of(target).audit(seconds=2.0)
            except (InvalidArgument, MechanismFailed):
                continue
            found += result.verdict is Verdict.VIOLATED
        return found


FINDINGS = Path(__file__).with_name("opendp_findings.json")
# scripts that run in an interpreter with OpenDP
READER = Path(__file__).resolve().parents[1] / "libraries" / "opendp"
VIOLATIONS = 1  # violated claims that a scan of ten minutes must find
ISSUES = Path(__file__).with_name("opendp_tracker.json")
REQUIRED = 12  # causes that the scan must find
SOUND = 10_000  # chains of sound constructors in which it must find nothing
SHARE = 0.5  # of the tracker's issues that the frozen findings must name


def findings() -> list[Json]:
    """Return the frozen findings, one for each cause: its name, the cause in words, its place in
    the library's source, the confidence, the query, and the witness.
    """
    return list(json.loads(FINDINGS.read_text(encoding="utf-8"))["findings"])


def issues() -> list[Json]:
    """Return the privacy bugs that the library's tracker reports since September 2026: number,
    title and date, the cause in words, the names of the frozen findings with the same cause, and
    the reason if there is none.
    """
    return list(json.loads(ISSUES.read_text(encoding="utf-8")))


def unnamed() -> list[Json]:
    """Return the frozen findings that no issue of the tracker names."""
    named = {name for row in issues() for name in row["found_by"]}
    return [row for row in findings() if row["name"] not in named]


def tracker_rows() -> tuple[Row, ...]:
    """Return the rows that compare the frozen findings with the tracker; they need neither the
    library nor a search.
    """
    tracker = issues()
    undirected = {row["name"] for row in findings() if row["search"] == "scan"}
    total, hits = len(tracker), sum(bool(row["found_by"]) for row in tracker)
    by_scan = sum(not undirected.isdisjoint(row["found_by"]) for row in tracker)
    return (
        Row(
            "opendp 0.16.0: issues of the tracker with a frozen finding",
            SHARE,
            hits / total,
            "share",
            counts=(hits, total),
        ),
        Row(
            "opendp 0.16.0: of these, found without a directed query",
            0,
            by_scan / total,
            "share",
            counts=(by_scan, total),
        ),
        Row("opendp 0.16.0: findings that no issue names", 1, len(unnamed()), "findings"),
    )


def replayed(python: str) -> int:
    """Return in how many frozen findings the library of an interpreter shows the same kind of
    violation on the same two inputs.
    """
    shown = {line["name"]: line["kind"] for line in _run(python, "opendp_replay.py", str(FINDINGS))}
    return sum(shown.get(row["name"]) == row["kind"] for row in findings())


def search_sound_chains(python: str, seconds: float) -> tuple[int, int]:
    """Return the number of chains of sound constructors that were searched, at most 10,000, and the
    number of findings, all of them false.
    """
    lines = _run(python, "opendp_sound.py", str(seconds), "0")
    return sum(line.get("sound", 0) for line in lines), sum("finding" in line for line in lines)


def _run(python: str, script: str, *arguments: str) -> list[Json]:
    """Return the lines of JSON that a script of the reader prints. Raise InvalidArgument if it
    fails.
    """
    command = [python, str(READER / script), str(READER / "search"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InvalidArgument(
            f"python={python!r} must run {script}, it ended with {done.returncode}: "
            f"{done.stderr.strip()[-300:]}"
        )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def rows() -> Sequence[Row]:
    """Return the rows of the scan: causes with a witness that holds, findings in sound chains, and
    issues of the tracker. The environment ``opendp`` is made if it is missing. The search of sound
    chains ends at 10,000 chains, or after an hour; a quiet machine needs about 5 minutes.

    Raises
    ------
    InvalidArgument
        If the environment cannot be made, or its interpreter cannot run the scripts.
    """
    environment = pinned_environments()["opendp"]
    install(environment)
    python, total = str(environment.interpreter), len(findings())
    violated, holding = violations("opendp", python, 600.0), replayed(python)
    chains, false = search_sound_chains(python, 3600.0)
    return (
        Row(
            "opendp 0.16.0: violated claims in a scan of ten minutes",
            VIOLATIONS,
            violated,
            "claims",
        ),
        Row("opendp 0.16.0: causes with a witness that holds", REQUIRED, holding, "causes"),
        Row(
            "opendp 0.16.0: frozen witnesses that no longer hold",
            0,
            total - holding,
            "witnesses",
            at_most=True,
        ),
        Row("opendp 0.16.0: sound chains searched", SOUND, chains, "chains"),
        Row(
            "opendp 0.16.0: findings in sound chains",
            0,
            false,
            "findings",
            at_most=True,
            counts=(false, chains),
        ),
        *tracker_rows(),
    )
