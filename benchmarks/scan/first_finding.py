"""Time from the installation of a library with known bugs to the first finding of
`dpwitness scan`.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
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
_AFTER = re.compile(r"(?m)^(.*): (VIOLATED|SUSPECT): (.*) \(after ([\d.]+) s\)$")


def first_finding(package: str, python: str) -> tuple[str, float]:
    """Run `dpwitness scan` as a command until its first finding, and return the finding in one line
    and the seconds until then: an empty text and infinity without one.

    Raises
    ------
    InvalidArgument
        If the scan ends with an error.
    """
    began, tail = time.monotonic(), list[str]()
    program = [sys.executable, "-m", "dpwitness", "scan", package, "--python", python]
    with (
        tempfile.TemporaryDirectory() as place,
        subprocess.Popen(
            [*program, "--seconds", f"{SECONDS:g}", "--report", place],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        for line in process.stderr or ():
            tail = [*tail[-3:], line.strip()]
            if found := _AFTER.match(line):
                process.terminate()
                return f"{found[1]}: {found[2]}: {found[3]}", time.monotonic() - began
    if process.returncode not in (0, 1, 3):
        raise InvalidArgument(
            f"the scan of {package} must end, it ended with {process.returncode}: "
            f"{' '.join(tail)[-300:]}"
        )
    return "", float("inf")


def processor_seconds() -> float:
    """Return the processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(package: str) -> dict[str, Any]:
    """Install a library in a new environment, scan it until the first finding, and return the
    seconds of both.

    Raises
    ------
    InvalidArgument
        If the library cannot be installed.
    """
    before, began = processor_seconds(), time.monotonic()
    made = Environment(f"first-{package}", LIBRARIES[package])
    shutil.rmtree(made.folder, ignore_errors=True)
    install(made)
    installation = time.monotonic() - began
    finding, seconds = first_finding(package, str(made.interpreter))
    about: dict[str, Any] = {"requirements": LIBRARIES[package], "finding": finding}
    if finding:
        about |= {"total": round(installation + seconds, 1), "scan": round(seconds, 1)}
    return about | {
        "installation": round(installation, 1),
        "processor seconds": round(processor_seconds() - before, 1),
    }


def row(found: Mapping[str, Any]) -> Row:
    """Return the row of a library."""
    case = f"{found['package']}: installation and scan until the first finding"
    return Row(case, REQUIRED, found.get("total", float("inf")), "s", at_most=True)
