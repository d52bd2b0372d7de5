"""Campaign that measures the published pages again, and the line under each page that says from
which commit it is.

``python -m dpwitness.benchmarks.pages.campaign FOLDER`` runs the steps of ``campaign.toml`` whose
pages are older than the code, in order, and writes the pages. An interrupted campaign resumes with
the command that was interrupted; ``--list`` prints what it would run.
"""

from __future__ import annotations

import argparse
import functools
import os
import secrets
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dpwitness.benchmarks.provenance import ROOT, commit, digests
from dpwitness.core.values.atomic_files import write_json, write_text
from dpwitness.core.values.json_reader import Json, read_json
from dpwitness.core.values.validation import InvalidArgument

LEDGER = "measured.json"  # beside the pages: commit, date, minutes and digests of each step
_FOOT = "*Measured from commit "  # beginning of the last line of a page
_FINISHED = (0, 1, 3)  # exit codes of commands that measured: violations are results


@dataclass(frozen=True, slots=True)
class Step:
    """Entry of ``campaign.toml``: pages, what could change their numbers, and the commands."""

    name: str
    pages: tuple[str, ...]
    inputs: tuple[str, ...]  # entries of `provenance.INPUTS`
    measure: tuple[str, ...]
    publish: tuple[str, ...]

    def older(self, ledger: Mapping[str, Json]) -> list[str]:
        """Return the inputs that have changed since the step was measured; all if it never was."""
        known = ledger.get(self.name, {}).get("inputs", {})
        return [name for name, now in digests(self.inputs).items() if known.get(name) != now]


@functools.cache
def steps() -> tuple[Step, ...]:
    """Return all steps, in their order."""
    text = Path(__file__).with_name("campaign.toml").read_text(encoding="utf-8")
    return tuple(
        Step(name, **{key: tuple(value) for key, value in entry.items()})
        for name, entry in tomllib.loads(text).items()
    )


def ledger_of(folder: Path) -> dict[str, Json]:
    """Return the ledger beside the pages; empty if there is none."""
    file = folder / LEDGER
    return read_json(file, "measure") if file.is_file() else {}


def with_foot(text: str, name: str, ledger: Mapping[str, Json]) -> str:
    """Return a page with its last line: the commit, the date and the duration of the measurement,
    and which parts of the code have changed since.

    Parameters
    ----------
    text : str
        Markdown of the page, with or without that line.
    name : str
        Name of the page.
    ledger : mapping
        Ledger beside the pages.

    Returns
    -------
    str
        The page; without the line if no step measures it.
    """
    text = without_foot(text)
    step = next((each for each in steps() if name in each.pages), None)
    if step is None or step.name not in ledger:
        return text
    found, changed = ledger[step.name], step.older(ledger)
    older = f" Older than the code, which has changed since: {', '.join(changed)}." * bool(changed)
    return (
        f"{text}\n{_FOOT}`{found['commit']}` on {found['date']}, in {found['minutes']} minutes."
        f"{older}*\n"
    )


def without_foot(text: str) -> str:
    """Return a page without the line of `with_foot`.

    Examples
    --------
    >>> without_foot("# Page\\n\\n*Measured from commit `a` on 2026-11-29, in 3 minutes.*\\n")
    '# Page\\n'
    """
    return text.partition(f"\n{_FOOT}")[0].rstrip("\n") + "\n"


def write_feet(folder: Path) -> None:
    """Write the last lines of all pages again."""
    ledger = ledger_of(folder)
    for name in (page for step in steps() for page in step.pages):
        file = folder / f"{name}.md"
        if file.is_file():
            write_text(file, with_foot(file.read_text(encoding="utf-8"), name, ledger))


def run(folder: Path, out: Path, chosen: Iterable[Step]) -> None:
    """Run steps, write their pages, and note each in the ledger.

    Parameters
    ----------
    folder : Path
        Folder of the published pages.
    out : Path
        Folder for measurements. A command that it holds the result of is not run again, unless the
        commit is another one.
    chosen : iterable of Step
        The steps, in order.

    Raises
    ------
    InvalidArgument
        If a command fails.
    """
    place = out / commit()
    place.mkdir(parents=True, exist_ok=True)
    for step in chosen:
        file = place / f"{step.name}.done.json"  # the seed, and the minutes of each command
        done = read_json(file, "resume") if file.is_file() else {"seed": secrets.randbits(32)}
        # relative to the clone, because reports state the command that made them
        measured, published = (os.path.relpath(each, ROOT) for each in (place, folder))
        names = {"out": measured, "published": published, "seed": done["seed"]}
        for command in step.measure:
            if command not in done:
                done[command] = _minutes(command.format(**names))
                write_json(file, done)
        for command in step.publish:
            _minutes(command.format(**names))
        entry = {
            "commit": commit(),
            "date": datetime.now(UTC).date().isoformat(),
            "minutes": round(sum(done[command] for command in step.measure), 1),
            "inputs": digests(step.inputs),
        }
        write_json(folder / LEDGER, ledger_of(folder) | {step.name: entry})
        write_feet(folder)


def _minutes(command: str) -> float:
    """Run a command, and return its duration. Raise InvalidArgument if it fails."""
    text, _, file = command.partition(" > ")
    words = shlex.split(text)
    program = [sys.executable, *(words[1:] if words[0] == "python" else ["-m", *words])]
    print(text, file=sys.stderr, flush=True)
    begin = time.monotonic()
    done = subprocess.run(program, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in _FINISHED:
        raise InvalidArgument(f"{text} must end, it ended with code {done.returncode}")
    if file:
        write_text(ROOT / file, done.stdout)
    return round((time.monotonic() - begin) / 60, 2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is older than the code."""
    parser = argparse.ArgumentParser(description="measure the published pages again")
    parser.add_argument("folder", type=Path, help="folder of the published pages")
    parser.add_argument(
        "steps", nargs="*", metavar="STEP", help="steps to run; default: those that are older"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/campaign"), help="folder for measurements"
    )
    parser.add_argument("--list", action="store_true", help="print the older steps, run nothing")
    args = parser.parse_args(arguments)
    known = {step.name: step for step in steps()}
    if unknown := [name for name in args.steps if name not in known]:
        parser.error(f"STEP must be among {', '.join(known)}, got {unknown[0]!r}")
    ledger = ledger_of(args.folder)
    chosen = [known[name] for name in args.steps] or [
        step for step in known.values() if step.older(ledger)
    ]
    if args.list:
        for step in chosen:
            print(f"{step.name}: {', '.join(step.older(ledger)) or 'up to date'}")
        return 0
    run(args.folder.resolve(), args.out.resolve(), chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
