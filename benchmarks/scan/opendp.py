"""Rows of the scan of OpenDP 0.16.0 from its signatures: frozen findings, replayed with the
library, and the search of sound chains.

The findings are compared with the issues of the library's tracker, which were read after the
findings had been frozen.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.installation import install, pinned_environments
from dpwitness.benchmarks.scan.typed_search import search_program, violations
from dpwitness.benchmarks.table import Row
from dpwitness.core.values.validation import InvalidArgument

FINDINGS = Path(__file__).with_name("opendp_findings.json")
# scripts that run in an interpreter with OpenDP
READER = Path(__file__).resolve().parents[1] / "libraries" / "opendp"
VIOLATIONS = 1  # violated claims that a scan of ten minutes must find
ISSUES = Path(__file__).with_name("opendp_tracker.json")
REQUIRED = 12  # causes that the scan must find
SOUND = 10_000  # chains of sound constructors in which it must find nothing
SHARE = 0.5  # of the tracker's issues that the frozen findings must name
_ISSUE_KEYS = ("issue", "title", "date", "cause", "found_by", "miss")
_KEYS = ("name", "cause", "place", "confidence", "search", "part", "kind", "inputs")


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of running the witness of a frozen finding again.

    Parameters
    ----------
    name : str
        Name of the finding.
    holds : bool
        Whether the library shows the same kind of violation on the same two inputs.
    shown : dict
        Line of the replay: kind, allowed and found distances, or the error.
    """

    name: str
    holds: bool
    shown: Mapping[str, Any]


def findings(path: Path = FINDINGS) -> list[dict[str, Any]]:
    """Return the frozen findings.

    Parameters
    ----------
    path : Path
        File of findings.

    Returns
    -------
    list of dict
        One for each cause: its name, the cause in words, its place in the library's source, the
        confidence, the query, and the witness.

    Raises
    ------
    InvalidArgument
        If a finding lacks a key, or two have one name.
    """
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["findings"]
    for row in rows:
        if missing := [key for key in _KEYS if key not in row]:
            raise InvalidArgument(
                f"{path.name}: finding {row.get('name')!r} must have the keys "
                f"{', '.join(_KEYS)}; it lacks {', '.join(missing)}"
            )
    names = [row["name"] for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidArgument(
            f"{path.name}: names of findings must differ, {', '.join(twice)} occur twice"
        )
    return rows


def issues(path: Path = ISSUES) -> list[dict[str, Any]]:
    """Return the privacy bugs that the library's tracker reports since September 2026.

    Parameters
    ----------
    path : Path
        File of issues.

    Returns
    -------
    list of dict
        One for each issue: its number, title and date, the cause in words, the names of the frozen
        findings with the same cause, and the reason if there is none.

    Raises
    ------
    InvalidArgument
        If an issue lacks a key, occurs twice, names an unknown finding, or has not exactly one of
        findings and a reason.
    """
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    known = {row["name"] for row in findings()}
    numbers = [row.get("issue") for row in rows]
    for row in rows:
        where = f"{path.name}: issue {row.get('issue')!r}"
        if missing := [key for key in _ISSUE_KEYS if key not in row]:
            raise InvalidArgument(
                f"{where} must have the keys {', '.join(_ISSUE_KEYS)}; it lacks "
                f"{', '.join(missing)}"
            )
        if unknown := sorted(set(row["found_by"]) - known):
            raise InvalidArgument(
                f"{where}: found_by must name frozen findings, got {', '.join(unknown)}"
            )
        if bool(row["found_by"]) == bool(row["miss"]):
            raise InvalidArgument(
                f"{where} must have either findings in found_by or a reason in miss, not "
                "both or none"
            )
        if numbers.count(row["issue"]) > 1:
            raise InvalidArgument(
                f"{where} must occur once, it occurs {numbers.count(row['issue'])} times"
            )
    return rows


def unnamed(tracker: Sequence[Mapping[str, Any]] | None = None) -> list[dict[str, Any]]:
    """Return the frozen findings that no issue of the tracker names.

    Parameters
    ----------
    tracker : sequence of dict, optional
        Issues. Default: those of `issues`.

    Returns
    -------
    list of dict
        Findings in the order of their file.
    """
    named = {name for row in (issues() if tracker is None else tracker) for name in row["found_by"]}
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
        Row("opendp 0.16.0: findings that no issue names", 1, len(unnamed(tracker)), "findings"),
    )


def interpreter() -> str:
    """Return the interpreter of the environment ``opendp``; make the environment first if it is
    missing.
    """
    found = pinned_environments()["opendp"]
    if not found.interpreter.exists():
        install(found)
    return str(found.interpreter)


def replay(python: str, path: Path = FINDINGS) -> list[Replayed]:
    """Run the witnesses of all findings again with the library of an interpreter.

    Parameters
    ----------
    python : str
        Interpreter with ``opendp[polars]``.
    path : Path
        File of findings.

    Returns
    -------
    list of Replayed
        In the order of the findings.

    Raises
    ------
    InvalidArgument
        If the interpreter cannot run the replay.
    """
    lines = _run(python, "opendp_replay.py", str(path))
    shown = {line["name"]: line for line in lines}
    return [
        Replayed(
            row["name"],
            shown.get(row["name"], {}).get("kind") == row["kind"],
            shown.get(row["name"], {}),
        )
        for row in findings(path)
    ]


def search_sound_chains(python: str, seconds: float, seed: int = 0) -> tuple[int, int]:
    """Return the number of chains of sound constructors that were searched, at most 10,000, and the
    number of findings, all of them false.

    Parameters
    ----------
    python : str
        Interpreter with ``opendp[polars]``.
    seconds : float
        Time of the search.
    seed : int
        Seed of the random chains.

    Returns
    -------
    tuple of int
        Chains and findings.

    Raises
    ------
    InvalidArgument
        If the interpreter cannot run the search.
    """
    lines = _run(python, "opendp_sound.py", str(seconds), str(seed))
    return sum(line.get("sound", 0) for line in lines), sum("finding" in line for line in lines)


def _run(python: str, script: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the lines of JSON that a script of the reader prints."""
    program = search_program(["opendp"])
    assert program is not None
    command = [python, str(READER / script), str(program.parent), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InvalidArgument(
            f"python={python!r} must run {script}, it ended with {done.returncode}: "
            f"{done.stderr.strip()[-300:]}"
        )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def rows(python: str | None = None, seconds: float = 3600.0) -> Sequence[Row]:
    """Return the rows of the scan: causes with a witness that holds, findings in sound chains, and
    issues of the tracker.

    Parameters
    ----------
    python : str, optional
        Interpreter with ``opendp[polars]``. Default: that of the environment ``opendp``.
    seconds : float
        Limit on the time of the search of sound chains, which ends at 10,000 chains; a quiet
        machine needs about 5 minutes.

    Returns
    -------
    sequence of Row
        Rows of the benchmark.

    Raises
    ------
    InvalidArgument
        If the environment cannot be made, or the interpreter cannot run the scripts.
    """
    python = python or interpreter()
    violated = violations("opendp", python, 600.0)
    replayed = replay(python)
    holding = sum(each.holds for each in replayed)
    chains, false = search_sound_chains(python, seconds)
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
            len(replayed) - holding,
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
