"""Campaign: runs each tool on each case, in the tool's interpreter, and stores each outcome as soon
as it is there.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from dpwitness.benchmarks.peers.tools import Tool
from dpwitness.benchmarks.recall.stored_runs import read_runs, write_runs
from dpwitness.core.values.validation import InvalidArgument

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "reports" / "published" / "peers.json"
CONFIDENCE = 0.95  # of the best settings of every tool
NOT_INSTALLED, ANSWER, NOT_EXPRESSIBLE = "not installed", "answer", "not expressible"
Key = tuple[str, str, str, float, int]  # tool, settings, case, CPU seconds and seed
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)


@dataclass(frozen=True, slots=True)
class Run:
    """Outcome of one attack of a tool on a case."""

    tool: str
    settings: str  # best or default
    case: str
    budget: float  # CPU seconds
    seed: int
    state: str  # answer, not expressible, no answer, error or not installed
    bound: float | None = None  # lower bound on epsilon at the claimed delta
    violated: bool = False
    cpu_seconds: float = 0.0
    size: int = 0
    note: str = ""

    @property
    def key(self) -> Key:
        return self.tool, self.settings, self.case, self.budget, self.seed


def stored(file: Path = PUBLISHED) -> dict[Key, Run]:
    """Return the runs of a campaign by tool, settings, case, CPU seconds and seed; empty if there
    is no file.
    """
    return read_runs(Run, file)


def store(runs: Iterable[Run], file: Path = PUBLISHED) -> None:
    """Write all runs of a campaign, sorted, so that an interrupted campaign resumes."""
    write_runs(runs, file, confidence=CONFIDENCE)


def campaign(
    tools: Iterable[Tool],
    wanted: Iterable[tuple[str, str, float, int]],
    checkouts: Mapping[str, Path],
    say: Callable[[str], None],
    file: Path = PUBLISHED,
) -> None:
    """Run each tool on each combination that has no stored outcome.

    Parameters
    ----------
    tools : iterable of Tool
        Tools, each in its own environment, which is made if it is missing.
    wanted : iterable of tuple
        Settings, name of the case, CPU seconds and seed of each run.
    checkouts : mapping
        Folder with a clone of the repository, by name of the tool, for the tools that the registry
        does not have.
    say : callable
        Receives one line per run.
    file : Path
        File of the outcomes, written after each run. What was not installed is tried again by the
        next campaign.
    """
    combinations = list(wanted)
    for tool in tools:
        done = stored(file)
        keys = [(tool.name, *combination) for combination in combinations]
        missing = [key for key in keys if key not in done or done[key].state == NOT_INSTALLED]
        for run in attacks(tool, missing, checkouts, done.values()):
            store((stored(file) | {run.key: run}).values(), file)
            say(describe(run, tool.title))


def describe(run: Run, title: str) -> str:
    """Return a line of text for a run of the tool with this title."""
    if run.state == NOT_INSTALLED:
        return f"{title}: not installed: {run.note}"
    bound = "" if run.bound is None else f", epsilon > {run.bound:.4g}"
    violated = ", violated" if run.violated else ""
    return (
        f"{title} ({run.settings}), {run.case}, {run.budget:g} s: {run.state}{bound}{violated} "
        f"{run.note}"
    )


def attacks(
    tool: Tool,
    keys: Sequence[Key],
    checkouts: Mapping[str, Path],
    known: Iterable[Run] = (),
    recordings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Run]:
    """Run one tool on several cases in one process. A case that ends the process is an error, and
    another process does the rest.

    The size of a known run with another seed is the first size that an attack tries. A case with a
    file in `recordings` reads it.
    """
    rest, sizes = list(keys), {run.key[:-1]: run.size for run in known}
    try:
        python = tool.interpreter(checkouts) if rest else ""
    except InvalidArgument as error:
        yield from (Run(*key, NOT_INSTALLED, note=str(error)[:300]) for key in rest)
        return
    while rest:
        asked = [_asked(key, sizes.get(key[:-1], 0), recordings.get(key[2], "")) for key in rest]
        with subprocess.Popen(
            [python, "-m", "dpwitness.benchmarks.peers.drivers", json.dumps(asked)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(ROOT), *tool.path(checkouts)])}
            | dict.fromkeys(_THREADS, "1"),
        ) as process:
            assert process.stdout is not None
            for line in filter(lambda text: text.startswith("{"), process.stdout):
                yield Run(*rest.pop(0), **json.loads(line))
        if rest:
            yield Run(
                *rest.pop(0),
                "error",
                note=f"the process of the tool ended with code {process.returncode}",
            )


def _asked(key: Key, size: int, recording: str) -> dict[str, object]:
    """Return what a driver is asked for."""
    named = dict(zip(("tool", "settings", "case", "cpu_seconds", "seed"), key, strict=True))
    return named | {"confidence": CONFIDENCE, "first_size": size, "recording": recording}
