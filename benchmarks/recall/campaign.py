"""Campaign of audits over the corpus: installs releases, audits each side of an entry, and stores
each verdict as soon as it is known, so that an interrupted campaign resumes.
"""

from __future__ import annotations

import json
import os
import re
import resource
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.installation import install
from dpwitness.benchmarks.provenance import digests
from dpwitness.benchmarks.recall.corpus import FOLDER, Entry, Release
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.declared import declarations
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError


class Keyed(Protocol):
    """Outcome of one run: a dataclass with a key that can be sorted."""

    @property
    def key(self) -> Any:
        """Key of the run within its campaign."""


_R = TypeVar("_R", bound=Keyed)


def read_runs(make: Callable[..., _R], file: Path) -> dict[Any, _R]:
    """Return the runs in a file by key, each made by `make` from its fields; empty if there is no
    file.
    """
    if not file.exists():
        return {}
    runs = (make(**values) for values in json.loads(file.read_text(encoding="utf-8"))["runs"])
    return {run.key: run for run in runs}


def write_runs(runs: Iterable[Any], file: Path, **campaign: Any) -> None:
    """Write all runs, sorted by key, after the fields of the campaign."""
    ordered = [asdict(run) for run in sorted(runs, key=lambda run: run.key)]
    write_text(file, json.dumps({"schema": 1, **campaign, "runs": ordered}, indent=1) + "\n")


PUBLISHED = FOLDER.parents[1] / "reports" / "published" / "recall.json"
NOT_INSTALLED = "NOT INSTALLED"  # outcome of a side whose release could not be installed
BUDGETS = (1, 10)  # CPU minutes
# what decides the outcomes, besides the corpus
INPUTS = ("search", "learner", "certificate", "functions")
RunKey = tuple[str, str, int, bool]
# part of the CPU budget that an audit is given: it may exceed that by a tenth, and the commands
# around it start interpreters
SHARE = 0.8
_TOO_SHORT = re.compile(r"is too short: .*give seconds=(\d+)")


@dataclass(frozen=True, slots=True)
class Run:
    """Outcome of one audit: one side of an entry with one budget."""

    entry: str
    side: str  # before or after
    release: str
    minutes: int
    outcome: str  # a verdict, or `NOT_INSTALLED`
    headline: str
    cpu_seconds: float
    seed: int
    code: str  # digest of the auditor; empty for the oldest runs
    # whether it belongs to the first run of a part set aside, which is never made again
    first: bool = False

    @property
    def key(self) -> tuple[str, str, int, bool]:
        return self.entry, self.side, self.minutes, self.first

    @property
    def violated(self) -> bool:
        return self.outcome == Verdict.VIOLATED.value


def stored(file: Path = PUBLISHED) -> dict[RunKey, Run]:
    """Return the runs of a campaign by entry, side, budget and whether they are of the first run of
    a part set aside; empty if there is no file.
    """
    return read_runs(Run, file)


def store(runs: Iterable[Run], file: Path = PUBLISHED) -> None:
    """Write all runs of a campaign, sorted, so that an interrupted campaign resumes."""
    write_runs(runs, file)


def campaign(
    entries: Iterable[Entry],
    minutes: int,
    say: Callable[[str], None],
    file: Path = PUBLISHED,
    **settings: Any,
) -> None:
    """Audit both sides of each runnable entry that has no stored run of this auditor with this
    budget.

    Parameters
    ----------
    entries : iterable of Entry
        Entries to audit, in this order.
    minutes : int
        CPU budget of one audit, in minutes.
    say : callable
        Receives one line of progress per side.
    file : Path
        File of the runs, written after each audit. A side whose release could not be installed is
        tried again by the next campaign.
    **settings
        ``first``: whether this is the first run of a part set aside, which is kept as it is.
        ``side``: the only side to audit.
    """
    first, only = settings.get("first", False), settings.get("side")
    for entry in entries:
        for side, release in entry.sides if entry.runnable else ():
            if only not in (None, side) or _is_done(entry, side, minutes, first, file):
                continue
            run = replace(audit_side(entry, side, release, minutes), first=first)
            store((stored(file) | {run.key: run}).values(), file)
            say(
                f"{entry.name} {side} ({release.name}), {minutes} min: {run.outcome} in "
                f"{run.cpu_seconds:.0f} s; {run.headline}"
            )


def _is_done(entry: Entry, side: str, minutes: int, first: bool, file: Path) -> bool:
    """Return whether a run is stored: one of the present auditor, unless it is a first run."""
    known = stored(file).get((entry.name, side, minutes, first))
    return (
        known is not None and known.outcome != NOT_INSTALLED and (first or known.code == auditor())
    )


def auditor() -> str:
    """Return the digest of the auditor that stored runs name."""
    return "-".join(digests(INPUTS).values())


def audit_side(entry: Entry, side: str, release: Release, minutes: int) -> Run:
    """Install a release, audit the target of an entry in it, and return the outcome."""
    assert release.environment is not None
    seed = secrets.randbits(32)

    def run(outcome: str, headline: str, seconds: float) -> Run:
        text = _portable(headline)
        of = (entry.name, side, release.name, minutes)
        return Run(*of, outcome, text, round(seconds, 1), seed, auditor())

    try:
        install(release.environment)
    except InvalidArgument as error:
        return run(NOT_INSTALLED, str(error), 0.0)
    begin, python = _cpu_seconds(), str(release.environment.interpreter)
    outcome, headline = _audit(entry, python, 60 * minutes * SHARE, minutes, seed)
    asked = _TOO_SHORT.search(headline) if outcome == Verdict.ERROR.value else None
    if asked is not None and float(asked[1]) <= 60 * minutes:
        outcome, headline = _audit(entry, python, float(asked[1]), minutes, seed)
    used = _cpu_seconds() - begin
    if used > 60 * minutes:
        outcome, headline = (
            Verdict.ERROR.value,
            f"over the budget: {outcome} after {used:.0f} s of CPU time",
        )
    return run(outcome, headline, used)


def _audit(entry: Entry, python: str, seconds: float, minutes: int, seed: int) -> tuple[str, str]:
    """Run one audit, and return its verdict and headline."""
    done = subprocess.run(
        command(entry, python, seconds, seed),
        capture_output=True,
        text=True,
        check=False,
        # multiple of the budget after which a process is ended
        preexec_fn=lambda: _limit(60 * minutes * 3),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    return read(done.stdout, done.stderr, entry.bits)


def command(entry: Entry, python: str, seconds: float, seed: int) -> list[str]:
    """Return the command line of one audit: the target alone, with the default options and a time
    budget.
    """
    options = [
        *(["--bits"] if entry.bits else []),
        *(["--visible-errors"] if entry.visible_errors else []),
    ]
    own = [
        sys.executable,
        "-m",
        "dpwitness",
        "audit",
        entry.target,
        "--python",
        python,
        "--json",
        "--seed",
        str(seed),
    ]
    options += [] if declared_kind(entry, python) else ["--clock", "cpu"]
    return [*own, "--seconds", f"{seconds:g}", "--workers", "1", *options]


def declared_kind(entry: Entry, python: str) -> str:
    """Return the kind of a target that is not a mechanism, such as an accountant; empty for
    mechanisms and broken files.
    """
    file, _, name = entry.target.rpartition(":")
    try:
        return str(declarations(file, python).get(name, {}).get("kind", ""))
    except TargetError:  # the audit reports it
        return ""


def read(output: str, errors: str, bits: bool) -> tuple[str, str]:
    """Return verdict and headline from the JSON of an audit; ERROR with the last line of the errors
    if there is none.

    With `bits`, a violation in the low bits of the outputs counts, which an audit reports
    separately.
    """
    try:
        result: dict[str, Any] = json.loads(output)
    except json.JSONDecodeError:
        last = errors.strip().splitlines() or ["no output"]
        return Verdict.ERROR.value, last[-1]
    low = result.get("bit_level") or {}
    if bits and low.get("verdict") == Verdict.VIOLATED.value:
        return (
            Verdict.VIOLATED.value,
            f"epsilon > {low['epsilon_lower']:.4g} from floating-point bits alone, claim "
            f"{result['claim']}",
        )
    return str(result["verdict"]), str(result["headline"])


def _portable(text: str) -> str:
    """Return a text without the folders of this machine."""
    for folder in (
        str(FOLDER.parents[1]),
        str(Path.home()),
        os.environ.get("DPWITNESS_HOME") or "",
    ):
        text = text.replace(folder, "~") if folder else text
    return text[:400]


def _cpu_seconds() -> float:
    """Return the processor time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _limit(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
