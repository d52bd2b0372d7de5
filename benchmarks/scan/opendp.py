"""Rows of the scan of OpenDP 0.16.0 from its signatures: frozen findings, replayed with the library, and the search of sound chains."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.table import Row
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.foreign.environments import environments

FINDINGS = Path(__file__).with_name("opendp_findings.json")
READER = Path(__file__).with_name("opendp_reader")  # scripts that run in an interpreter with OpenDP
REQUIRED = 12  # causes that the scan must find
SOUND = 10_000  # chains of sound constructors in which it must find nothing
_KEYS = ("name", "cause", "place", "confidence", "search", "part", "kind", "inputs")


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the witness of a frozen finding shows when it is run again.

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
        One for each cause: its name, the cause in words, its place in the library's source, the confidence, the query, and the witness.

    Raises
    ------
    InvalidArgument
        If a finding lacks a key, or two have one name.
    """
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["findings"]
    for row in rows:
        if missing := [key for key in _KEYS if key not in row]:
            raise InvalidArgument(
                f"{path.name}: finding {row.get('name')!r} must have the keys {', '.join(_KEYS)}; it lacks {', '.join(missing)}"
            )
    names = [row["name"] for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidArgument(f"{path.name}: names of findings must differ, {', '.join(twice)} occur twice")
    return rows


def interpreter() -> str | None:
    """Return the interpreter of the environment ``opendp``, or None if the environment has not been set up."""
    found = environments()["opendp"]
    return str(found.interpreter) if found.interpreter.exists() else None


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
        Replayed(row["name"], shown.get(row["name"], {}).get("kind") == row["kind"], shown.get(row["name"], {})) for row in findings(path)
    ]


def search_sound_chains(python: str, seconds: float, seed: int = 0) -> tuple[int, int]:
    """Return the number of chains of sound constructors that were searched, at most 10,000, and the number of findings, all of them false.

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
    lines = _run(python, "opendp_scan.py", "--worker", "sound", "--seconds", str(seconds), "--seed", str(seed))
    return sum(line.get("sound", 0) for line in lines), sum("finding" in line for line in lines)


def _run(python: str, script: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the lines of JSON that a script of the reader prints."""
    command = [python, str(READER / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InvalidArgument(f"python={python!r} must run {script}, it ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def rows(python: str | None = None, seconds: float = 600.0) -> Sequence[Row]:
    """Return the rows of the scan: causes with a witness that holds, and findings in sound chains.

    Parameters
    ----------
    python : str, optional
        Interpreter with ``opendp[polars]``. Default: that of the environment ``opendp``.
    seconds : float
        Time of the search of sound chains.

    Returns
    -------
    sequence of Row
        Empty if there is no interpreter.

    Raises
    ------
    InvalidArgument
        If the interpreter cannot run the scripts.
    """
    python = python or interpreter()
    if python is None:
        return ()
    replayed = replay(python)
    holding = sum(each.holds for each in replayed)
    chains, false = search_sound_chains(python, seconds)
    return (
        Row("opendp 0.16.0: causes with a witness that holds", REQUIRED, holding, "causes"),
        Row("opendp 0.16.0: frozen witnesses that no longer hold", 0, len(replayed) - holding, "witnesses", at_most=True),
        Row("opendp 0.16.0: sound chains searched", SOUND, chains, "chains"),
        Row("opendp 0.16.0: findings in sound chains", 0, false, "findings", at_most=True, counts=(false, chains)),
    )
