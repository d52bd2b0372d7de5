"""Campaign: runs each tool of ``tools.toml`` on each case, in the tool's interpreter, and stores
each outcome as soon as it is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from dpwitness.benchmarks.installation import Environment, install
from dpwitness.benchmarks.recall.campaign import auditor, read_runs, write_runs
from dpwitness.benchmarks.table import root_seed
from dpwitness.core.values.validation import InvalidArgument

FILE = Path(__file__).with_name("tools.toml")
OWN = "dpwitness_audit"  # driver of this project's audit, which runs in the present interpreter
SETTINGS = ("best", "default")


@dataclass(frozen=True, slots=True)
class Tool:
    """Auditing tool: one table of ``tools.toml``."""

    name: str  # module of its driver
    title: str
    home: str
    licence: str
    reads: str  # claims and outputs that the tool can express
    default: str  # its default settings
    best: str  # the best settings that we found
    requirements: tuple[str, ...] = ()  # what pip installs
    # folder of the package in a clone of its repository; empty if pip installs the tool
    checkout: str = ""

    def interpreter(self, checkouts: Mapping[str, Path]) -> str:
        """Return the interpreter that has the tool; make its environment first if it is missing.

        Raises
        ------
        InvalidArgument
            If the tool needs a clone of its repository that was not given, or pip fails. The
            message says what to do.
        """
        if self.name == OWN:
            return sys.executable
        if self.checkout and self.name not in checkouts:
            raise InvalidArgument(
                f"{self.title} is not in the registry: clone {self.home}, and give "
                f"--checkout {self.name}=FOLDER"
            )
        environment = Environment(f"peers-{self.name}", (*self.requirements, *_shared()))
        install(environment)
        return str(environment.interpreter)

    def path(self, checkouts: Mapping[str, Path]) -> list[str]:
        """Return the folders that the tool's interpreter searches for its package."""
        return [str(checkouts[self.name] / self.checkout)] if self.checkout else []


def tools() -> dict[str, Tool]:
    """Return all tools by name, this project's first."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))["tools"]
    return {
        name: Tool(name, **table | {"requirements": tuple(table.get("requirements", ()))})
        for name, table in tables.items()
    }


def omitted() -> dict[str, str]:
    """Return the tools that are not compared, each with the reason."""
    return dict(tomllib.loads(FILE.read_text(encoding="utf-8"))["omitted"])


def _shared() -> tuple[str, ...]:
    return tuple(tomllib.loads(FILE.read_text(encoding="utf-8"))["mechanisms"])


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
    code: str = ""  # digest of this project's auditor, of its own runs

    @property
    def key(self) -> Key:
        return self.tool, self.settings, self.case, self.budget, self.seed


def stored(file: Path = PUBLISHED) -> dict[Key, Run]:
    """Return the runs of a campaign by tool, settings, case, CPU seconds and seed; empty if there
    is no file.
    """
    return read_runs(Run, file)


def is_current(run: Run) -> bool:
    """Return whether a run need not be made again: the tool was installed, and if it is this
    project's audit, the code is the same.
    """
    return run.state != NOT_INSTALLED and (run.tool != OWN or run.code == auditor())


def store(runs: Iterable[Run], file: Path = PUBLISHED) -> None:
    """Write all runs of a campaign, sorted, so that an interrupted campaign resumes."""
    write_runs(runs, file, confidence=CONFIDENCE)


def campaign(
    tools: Iterable[Tool],
    wanted: Iterable[tuple[str, str, float]],
    checkouts: Mapping[str, Path],
    say: Callable[[str], None],
    file: Path = PUBLISHED,
) -> None:
    """Run each tool on each combination that has no stored outcome, with a seed that is drawn.

    Parameters
    ----------
    tools : iterable of Tool
        Tools, each in its own environment, which is made if it is missing.
    wanted : iterable of tuple
        Settings, name of the case and CPU seconds of each run.
    checkouts : mapping
        Folder with a clone of the repository, by name of the tool, for the tools that the registry
        does not have.
    say : callable
        Receives one line per run.
    file : Path
        File of the outcomes, written after each run. What was not installed is tried again by the
        next campaign, and so are runs of this project's audit by other code.
    """
    combinations, seed = list(wanted), root_seed(None)
    for tool in tools:
        done = {key: run for key, run in stored(file).items() if is_current(run)}
        known = {key[:-1] for key in done}
        keys = [(tool.name, *combination) for combination in combinations]
        missing = [(*key, seed) for key in keys if key not in known]
        for run in attacks(tool, missing, checkouts, done.values()):
            store(replaced(stored(file), run).values(), file)
            say(describe(run, tool.title))


def replaced(runs: Mapping[Key, Run], new: Run) -> dict[Key, Run]:
    """Return the runs with a new one, and without the runs of the same tool, settings, case and
    budget that it makes obsolete.
    """
    kept = {key: run for key, run in runs.items() if key[:-1] != new.key[:-1] or is_current(run)}
    return kept | {new.key: new}


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
                code = auditor() if tool.name == OWN else ""
                yield Run(*rest.pop(0), **json.loads(line), code=code)
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
