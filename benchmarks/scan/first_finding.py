"""Time from the installation of a library with known bugs to the first finding of
`dpwitness scan`.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.installation import Environment, install
from dpwitness.benchmarks.table import Row
from dpwitness.core.values.validation import InvalidArgument

SECONDS, REQUIRED = 600.0, 300.0  # time budget of the scan; seconds until the first finding
# package: what pip installs. Each has a bug that is public, or that the project has reported
LIBRARIES = {
    "opendp": ("opendp[polars]==0.16.0", "scikit-learn==1.7.2"),
    "pipeline-dp": ("pipeline-dp==0.3.1",),
    "diffpriv_pure": ("diffpriv-pure==0.1.0", "numpy==2.4.6"),
    "trasgodp": ("trasgodp==2.1.0",),
    "pure_ldp": (
        "numpy==2.4.6",
        "scipy==1.17.1",
        "scikit-learn==1.9.1",
        "pandas==3.1.1",
        "statsmodels==0.15.0",
        "xxhash==3.5.0",
        "bitarray==3.12.3",
        "pure-ldp==1.2.0",
    ),
}
_COMMAND = ("-m", "dpwitness", "scan")
_AFTER = re.compile(r"(?m)^(.*): (VIOLATED|SUSPECT): (.*) \(after ([\d.]+) s\)$")


@dataclass(frozen=True, slots=True)
class Scanned:
    """Outcome of one run of `dpwitness scan`.

    Attributes
    ----------
    verdicts : dict
        Number of public names with each verdict.
    first : str
        First finding in one line; empty without one.
    first_seconds : float
        Seconds from the start until the first finding; infinite without one.
    seconds, processor_seconds : float
        Duration of the run, and its processor time with all processes.
    """

    verdicts: dict[str, int] = field(default_factory=dict)
    first: str = ""
    first_seconds: float = float("inf")
    seconds: float = 0.0
    processor_seconds: float = 0.0


def scanned(package: str, python: str, seconds: float, *, only_first: bool = False) -> Scanned:
    """Run `dpwitness scan` as a command, and return its outcome.

    Parameters
    ----------
    package : str
        Package to scan.
    python : str
        Interpreter of the package.
    seconds : float
        Time budget of the scan.
    only_first : bool
        Whether to end the scan at its first finding.

    Raises
    ------
    InvalidArgument
        If the scan ends with an error.
    """
    began, before = time.monotonic(), processor_seconds()
    with tempfile.TemporaryDirectory() as place:
        command = [
            sys.executable,
            *_COMMAND,
            package,
            "--python",
            python,
            "--seconds",
            f"{seconds:g}",
            "--json",
        ]
        with open(Path(place) / "rows.json", "w+", encoding="utf-8") as out:
            process = subprocess.Popen(
                [*command, "--report", place], stdout=out, stderr=subprocess.PIPE, text=True
            )
            assert process.stderr is not None
            first, first_seconds, tail = "", float("inf"), list[str]()
            for line in process.stderr:
                tail = [*tail[-3:], line.strip()]
                found = _AFTER.match(line)
                if found and not first:
                    first, first_seconds = (
                        f"{found[1]}: {found[2]}: {found[3]}",
                        time.monotonic() - began,
                    )
                    if only_first:
                        process.terminate()
            code = process.wait()
            out.seek(0)
            rows: list[dict[str, Any]] = (
                [] if only_first and first else _rows(out.read(), package, code, tail)
            )
    verdicts = Counter(row["verdict"] for row in rows if row["verdict"])
    return Scanned(
        dict(verdicts), first, first_seconds, time.monotonic() - began, processor_seconds() - before
    )


def _rows(text: str, package: str, code: int, tail: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of a scan's JSON. Raise InvalidArgument if the scan printed none."""
    try:
        found: list[dict[str, Any]] = json.loads(text)["functions"]
    except ValueError:
        raise InvalidArgument(
            f"the scan of {package} must print its table, it ended with {code}: "
            f"{' '.join(tail)[-300:]}"
        ) from None
    return found


def processor_seconds() -> float:
    """Return the processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def installed(package: str) -> tuple[str, float]:
    """Install a library in a new environment, and return the interpreter and the seconds of the
    installation.

    Raises
    ------
    InvalidArgument
        If the library cannot be installed.
    """
    began = time.monotonic()
    made = Environment(f"first-{package}", LIBRARIES[package])
    shutil.rmtree(made.folder, ignore_errors=True)
    install(made)
    return str(made.interpreter), time.monotonic() - began


def measured(package: str) -> dict[str, Any]:
    """Return the seconds of the installation of a library, and the outcome of its scan until the
    first finding.
    """
    before = processor_seconds()
    python, seconds = installed(package)
    found = scanned(package, python, SECONDS, only_first=True)
    about: dict[str, Any] = {"requirements": LIBRARIES[package], "finding": found.first}
    if found.first:
        about |= {
            "total": round(seconds + found.first_seconds, 1),
            "scan": round(found.first_seconds, 1),
        }
    return about | {
        "installation": round(seconds, 1),
        "processor seconds": round(processor_seconds() - before, 1),
    }


def row(found: Mapping[str, Any]) -> Row:
    """Return the row of a library."""
    case = f"{found['package']}: installation and scan until the first finding"
    return Row(case, REQUIRED, found.get("total", float("inf")), "s", at_most=True)
