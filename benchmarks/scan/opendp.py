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
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.functions.declared_targets import DECLARED
from dpwitness.auditors.scanning.calls import LONGEST_LINE, Script
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.workers.engine import cpu_seconds
from dpwitness.benchmarks.installation import install, pinned_environments
from dpwitness.benchmarks.table import Row, root_seed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.environments import FOLDER
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_process import WorkerDied


def search_program(library: str) -> Path:
    """Return the search program of the adapter of a library."""
    return FOLDER / library / "search" / "search.py"


def search(program: Path, python: str, folder: Path, seconds: float, seed: int) -> list[Json]:
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
        CPU time of the search. A search that ends early, or hangs, keeps the lines so far.
    seed : int
        Seed of the search.

    Raises
    ------
    InvalidArgument
        If the program ends before its first line.
    """
    command = (str(program), "--seconds", f"{seconds:g}", "--seed", str(seed))
    process = Script(python, str(folder), 0, command).start(0.0)
    lines = list[Json]()

    def read() -> None:
        while not lines or "tried" not in lines[-1]:
            line = process.line(LONGEST_LINE, "an entry")
            if line.startswith(b"{"):  # the library prints other lines
                lines.append(json.loads(line))

    try:
        # a machine with other work gives the program a part of one core
        process.within(20 * seconds + 60.0, read)
    except (ValueError, WorkerDied):
        if not lines:
            raise InvalidArgument(f"{program} must print entries: it {process.ended()}") from None
    finally:
        process.close()
    return lines


def target_file(lines: Sequence[Json]) -> tuple[str, dict[str, Json]]:
    """Return a target file of the entries in the lines of a search, and the entries by name."""
    parts, entries = ["import numpy as np\nfrom math import inf, nan"], dict[str, Json]()
    for line in lines:
        parts += line.get("header", ())
    for number, entry in enumerate(line["entry"] for line in lines if "entry" in line):
        name = f"{entry['constructors'][-1]}_{number}"
        parts += [f"\n\n# {name}: {entry['why']}"]
        parts += [text.replace("{name}", name) for text in entry["source"]]
        # names of functions contain the name of the target
        declaration = {
            key: value.replace("{name}", name) if isinstance(value, str) else value
            for key, value in entry.get("declaration", {}).items()
        }
        entries[name] = entry | {"declaration": declaration}
    declared = {name: each["declaration"] for name, each in entries.items() if each["declaration"]}
    return "\n".join([*parts, "", "", f"TARGETS = {declared!r}", ""]), entries


def audited(library: str, python: str, seconds: float, seed: int) -> Json:
    """Search a library and audit the findings, each with half of the CPU time.

    Returns
    -------
    dict
        The seed, the CPU time of the search and of the audits, the numbers of programs that were
        tried, and the findings: each with its query, its inputs, the verdict of the audit and its
        headline, or the error of an audit that failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        lines = search(search_program(library), python, Path(folder), seconds / 2, seed)
        text, entries = target_file(lines)
        file, found, began = Path(folder, "typed.py"), list[Json](), cpu_seconds()
        file.write_text(text, encoding="utf-8")
        for name, entry in entries.items():
            target, outcome = Target(str(file), name, python, {}, 60.0), {"verdict": ""}
            if cpu_seconds() - began > seconds / 2:
                outcome["error"] = "not audited: the CPU time of the audits is over"
            else:
                try:
                    result = _audit(target, entry["declaration"], seed)
                    outcome = {
                        "verdict": result.verdict.value,
                        "headline": without_paths(result.headline()),
                    }
                except Exception as error:
                    outcome["error"] = without_paths(f"{type(error).__name__}: {error}")[:300]
            found.append({"target": name} | entry.get("finding", {}) | outcome)
            print(f"{entry['why']}: {'; '.join(filter(None, outcome.values()))}", file=sys.stderr)
        tried: Json = next((line["tried"] for line in lines if "tried" in line), {})
        return {
            "date": datetime.now(UTC).date().isoformat(),
            "seed": seed,
            "cpu seconds": {"search": tried.pop("cpu seconds", None)}
            | {"audits": round(cpu_seconds() - began), "budget of each": seconds / 2},
            "tried": tried,
            "findings": found,
        }


def _audit(target: Target, declaration: Json, seed: int) -> Result:
    """Return the result of a declared transformation, or of a mechanism with a claim; their search
    starts with the inputs of the finding, and ends soon.
    """
    if not declaration:
        return audit(target, seconds=5.0, clock="cpu", seed=seed)
    (result,) = DECLARED[declaration["kind"]].of(target).audit(seconds=4.0, seed=seed)
    return result


def without_verdict(found: Sequence[Json]) -> list[Json]:
    """Return the findings whose audit failed, or could compare nothing."""
    return [each for each in found if each["verdict"] in ("", "ERROR")]


def without_paths(text: str) -> str:
    """Return a text without the absolute paths in parentheses that import errors name, and without
    the folders of others.

    Examples
    --------
    >>> without_paths("cannot import name 'A' from 'b' (/b.py)")
    "cannot import name 'A' from 'b'"
    >>> without_paths("can't open file '/a/b/c.py'")
    "can't open file 'c.py'"
    """
    return re.sub(r" \(/[^)]*\)|(/[\w.+-]+)+/", "", text)


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


def search_sound_chains(python: str, seconds: float, seed: int) -> tuple[int, int]:
    """Return the number of chains of sound constructors that were searched within the CPU time, at
    most 10,000, and the number of findings, all of them false.
    """
    lines = _run(python, "opendp_sound.py", str(seconds), str(seed))
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


def rows() -> tuple[tuple[Row, ...], Json]:
    """Return the rows of the scan, and its search with all findings.

    The rows count violated claims and lost findings of a new search, causes with a witness that
    holds, findings in sound chains, and issues of the tracker. The environment ``opendp`` is made
    if it is missing. The search of sound chains ends at 10,000 chains, or after an hour of CPU
    time; about 5 minutes are enough. Its seed and that of the new search are drawn in each run.

    Raises
    ------
    InvalidArgument
        If the environment cannot be made, or its interpreter cannot run the scripts.
    """
    environment = pinned_environments()["opendp"]
    install(environment)
    python, total, seed = str(environment.interpreter), len(findings()), root_seed(None)
    new, holding = audited("opendp", python, 600.0, seed), replayed(python)
    violated = sum(each["verdict"] == "VIOLATED" for each in new["findings"])
    lost, count = len(without_verdict(new["findings"])), len(new["findings"])
    chains, false = search_sound_chains(python, 3600.0, seed)
    spent = new["cpu seconds"]
    return (
        Row(
            f"opendp 0.16.0: violated claims in a scan of ten minutes of CPU time (search "
            f"{spent['search']} s, audits {spent['audits']} s, seed {seed})",
            VIOLATIONS,
            violated,
            "claims",
        ),
        Row(
            "opendp 0.16.0: findings of this scan without a verdict",
            0,
            lost,
            "findings",
            at_most=True,
            counts=(lost, count),
        ),
        Row("opendp 0.16.0: causes with a witness that holds", REQUIRED, holding, "causes"),
        Row(
            "opendp 0.16.0: frozen witnesses that no longer hold",
            0,
            total - holding,
            "witnesses",
            at_most=True,
        ),
        Row(f"opendp 0.16.0: sound chains searched (seed {seed})", SOUND, chains, "chains"),
        Row(
            "opendp 0.16.0: findings in sound chains",
            0,
            false,
            "findings",
            at_most=True,
            counts=(false, chains),
        ),
        *tracker_rows(),
    ), {"package": "opendp", "group": "opendp", "release": "0.16.0"} | new
