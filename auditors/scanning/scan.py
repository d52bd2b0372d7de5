"""Scan of a file, folder or package: the noise map, calls of the functions that reach noise, a
target file, and audits of its targets.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.auditors.scanning.calls import Script, calls_of
from dpwitness.auditors.scanning.noise_map import (
    Function,
    NoiseMap,
    import_root,
    noise_map,
    python_files,
)
from dpwitness.auditors.scanning.proposals import Proposal, mechanisms, propose
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import CONFINED

if TYPE_CHECKING:
    from dpwitness.auditors.audit.result import AuditResult

_HEADER = '''"""Targets of {title}, written by `dpwitness scan`.

Each function makes `size` runs and returns one output each; its call is one that the package's own tests make, or a made-up one. `claim` is what an
audit tests, and `domain` says which datasets are neighbors. `guessed` says what the scan has read from names and docstrings: a violation is SUSPECT
until you delete this line.

    dpwitness audit {file}:NAME
"""
'''  # noqa: E501
_LEARNING, _MOST_SECONDS = 1.0, 20.0  # seconds of an audit for its event, and for its runs
_LEAST_TRIALS, _MOST_TRIALS = 2000, 500_000
_LOCATE = """
import importlib.util, json, sys
from importlib import metadata
name, found = sys.argv[1], []
tops = [name.replace("-", "_")]
try:
    text = metadata.distribution(name).read_text("top_level.txt") or ""
    files = metadata.distribution(name).files or ()
    tops = text.split() or sorted({f.parts[0] for f in files if f.suffix == ".py" and len(f.parts) > 1}) or tops
except metadata.PackageNotFoundError:
    pass
for top in tops:
    spec = importlib.util.find_spec(top) if top.isidentifier() else None
    if spec is not None:
        found += list(spec.submodule_search_locations or []) or [spec.origin]
print(json.dumps(found))
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Scanned:
    """Result of a scan before the audits.

    Attributes
    ----------
    title : str
        Name of the scanned file, folder or package.
    found : NoiseMap
        Where noise is drawn.
    proposals : tuple of Proposal
        One for each function that reaches noise and speaks of privacy.
    root : Path
        Folder from which the code is imported.
    remarks : tuple of str
        Code that could not be read or run.
    """

    title: str
    found: NoiseMap
    proposals: tuple[Proposal, ...]
    root: Path
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanOutcome:
    """Outcome of the audits of one target.

    Attributes
    ----------
    proposal : Proposal
        The target.
    result : AuditResult or None
        The decisive result.
    why : str
        Why there is none.
    traced : str
        Finding of a trace.
    """

    proposal: Proposal
    result: AuditResult | None = None
    why: str = ""
    traced: str = ""

    @property
    def verdict(self) -> str:
        """Return the name of the verdict; empty without one."""
        return "" if self.result is None else self.result.verdict.value


def located(what: str, python: str | None = None) -> list[Path]:
    """Return the files or folders of a path or installed package; a function after a colon does not
    count.

    Raises
    ------
    InvalidArgument
        If there is no such path or package.
    """
    place = what.partition(":")[0]
    if Path(place).exists():
        return [Path(place).resolve()]
    if re.fullmatch(r"[\w.-]+", place) is None:
        raise InvalidArgument(f"scan needs a file, a folder or a package, got {what!r}")
    command = [python or sys.executable, "-c", _LOCATE, place]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(ran.stdout) if ran.returncode == 0 else []
    if not found:
        raise InvalidArgument(
            f"scan needs a file, a folder or a package, got {place!r}: no module or distribution "
            f"of this name is installed in {python or sys.executable}"
        )
    return [Path(each).resolve() for each in found]


def mapped(places: Sequence[Path]) -> tuple[NoiseMap, Path]:
    """Return the noise map of files or folders, and the folder from which they are imported."""
    root = import_root(places[0])
    files = [file for place in places for file in python_files(place) if file.is_relative_to(root)]
    return noise_map(root, files), root


def named(found: NoiseMap, what: str) -> list[Function]:
    """Return the function that `what` names after a colon; without one, all that may be mechanisms.

    Raises
    ------
    InvalidArgument
        If there is no such function, or it reaches no place that draws noise.
    """
    place, _, name = what.partition(":")
    if not name:
        return mechanisms(found)
    functions = [f for f in mechanisms(found) if f.path.endswith(f".{name}")]
    functions = functions or [f for f in found.functions.values() if f.path.endswith(f".{name}")]
    if not functions:
        raise InvalidArgument(f"scan: {place} has no function {name!r}")
    if not any(found.reached[each.path] for each in functions):
        raise InvalidArgument(
            f"scan: {name} must reach a place that draws noise, got a function whose source names "
            "none: audit it with a target file"
        )
    return functions


def scanned(
    what: str,
    *,
    python: str | None = None,
    folder: Path,
    memory: float = 0.0,
    seconds: float,
    tests: Sequence[str] = (),
    scripts: Sequence[str] = (),
    kept: Sequence[Json] = (),
) -> Scanned:
    """Read the source, run tests or made-up calls, and propose targets.

    Parameters
    ----------
    what : str
        A file, a folder or an installed package, with ``:FUNCTION`` for one function.
    python : str, optional
        Interpreter of the package.
    folder : Path
        The only folder that tests and calls may write to.
    memory : float
        Limit of the address space in gigabytes; 0 for none.
    seconds : float
        Time limit of tests and calls.
    tests, scripts : sequence of str
        Tests for pytest, and scripts, that call the functions.
    kept : sequence of dict
        Calls that `pytest --dp-discover` has written.
    """
    found, root = mapped(located(what, python))
    functions = named(found, what)
    slot = Script(python, str(folder), round(memory * 2**30))
    absolute = [[os.path.abspath(each) for each in paths] for paths in (tests, scripts)]
    calls, remarks = calls_of(
        found, functions, slot, root=root, tests=absolute[0], scripts=absolute[1], kept=kept,
        seconds=seconds,
    )  # fmt: skip
    by_function: dict[str, list[Json]] = {}
    for call in calls:
        by_function.setdefault(call["function"], []).append(call)
    proposals = tuple(propose(found, each, by_function.get(each.path, [])) for each in functions)
    return Scanned(what, found, proposals, root, (*found.remarks, *remarks))


def target_file(scan: Scanned, file: Path) -> str:
    """Return the text of the target file."""
    ready = [each for each in scan.proposals if each.source]
    modules = sorted({module for each in ready for module in each.modules})
    lines = [
        _HEADER.format(title=scan.title, file=file.name),
        "import sys",
        "",
        f"sys.path.insert(0, {str(scan.root)!r})",
        *(f"import {module}  # noqa: E402" for module in modules),
    ]
    for each in ready:
        origin, site = "as its tests call it" if each.recorded else "a made-up call", each.sites[0]
        scale = f", scale {site.scale}" if site.scale else ""
        place = f"noise: {site.call} at {site.file.name}:{site.line}{scale}"
        comment = textwrap.wrap(f"{each.function.path}, {origin}; {place}", 98)
        unseeded = f"{each.target}.seeded = False  # the same seed gives other outputs"
        lines += [
            *("", "", *(f"# {line}" for line in comment), each.source, "", ""),
            f'{each.target}.claim = "{each.promise.claim}"',
            f"{each.target}.domain = {dict(each.domain or {}, relation=each.relations[0])!r}",
            *([] if each.seeded else [unseeded]),
            f"{each.target}.guessed = {guess(each)!r}",
        ]
    return "\n".join(lines) + "\n"


def guess(proposal: Proposal) -> str:
    """Return a sentence on the claim that the scan guessed: the claim, its relation and the source
    of both.
    """
    return (
        f"the claim is {proposal.promise.claim} under {' and '.join(proposal.relations)}, read "
        f"from {proposal.promise.because}"
    )


def audits(
    scan: Scanned,
    file: Path,
    *,
    python: str | None,
    folder: Path,
    memory: float,
    seconds: float,
    clock: str,
    seed: int,
    progress: Callable[[str], None],
    shown: Callable[[Proposal, str], None] = lambda *_: None,
) -> Iterator[ScanOutcome]:
    """Write the target file, and yield the outcome of each target within a time budget: traced
    first, those whose trace exceeds the claim before the others. `shown` is called with each
    proposal and the finding of its trace.
    """
    from dpwitness.auditors.workers.engine import read_clock

    write_text(file, target_file(scan, file))
    now = read_clock(clock)
    end, ready = now() + seconds, [each for each in scan.proposals if each.source]
    token = CONFINED.set(str(folder))
    try:
        traced = {}
        for each in ready:
            progress(f"{each.target}: trace")
            if now() < end - 0.7 * seconds:
                traced[each.target] = _trace(_target(file, each, python, memory), each, seed)
            if traced.get(each.target):
                shown(each, traced[each.target])
        order = sorted(ready, key=lambda each: not traced.get(each.target))
        for position, each in enumerate(order):
            share = (end - now()) / (len(order) - position)
            if now() >= end and position:
                yield ScanOutcome(
                    each, why="the time budget was spent before its audit: raise --seconds"
                )
                continue
            progress(f"{each.target}: {position + 1} of {len(order)}")
            target = _target(file, each, python, memory)
            yield replace(_audited(target, each, share, seed), traced=traced.get(each.target, ""))
    finally:
        CONFINED.reset(token)


def _target(file: Path, proposal: Proposal, python: str | None, memory: float) -> Target:
    return Target(str(file), proposal.target, python, {}, 60.0, memory)


def _trace(target: Target, proposal: Proposal, seed: int) -> str:
    """Return what traces find under each of the relations, in one line for the last; empty if one
    of them finds nothing, or cannot trace.
    """
    from dpwitness.auditors.traces.trace import trace

    said = ""
    try:
        for domain in _domains(target, proposal):
            found = trace(
                target, domain=domain, pairs=2, seed=seed, confirm=False, time_limit=5.0,
                name=target.name,
            )  # fmt: skip
            said = "; ".join(each.message for each in found.findings if each.kind != "SOURCE")
            if not said:
                break
    except (InvalidArgument, MechanismFailed):
        return ""
    return said


def _domains(target: Target, proposal: Proposal) -> Iterator[Any]:
    """Yield the domain of a target under each of its relations."""
    domain: Any = target.domain
    for relation in proposal.relations:
        yield domain if len(proposal.relations) == 1 else replace(domain, relation=relation)


def _audited(target: Target, proposal: Proposal, seconds: float, seed: int) -> ScanOutcome:
    """Audit a target under each of its relations, until one is not refuted."""
    from dpwitness.auditors.audit.audit import audit

    results: list[AuditResult] = []
    each = min(seconds / len(proposal.relations) - _LEARNING, _MOST_SECONDS)
    trials = int(min(max(each / max(proposal.seconds, 1e-6), _LEAST_TRIALS), _MOST_TRIALS))
    options: Json = {
        "trials": trials, "seed": seed, "stop": "violation", "bits": False, "time_limit": 60.0,
        "confidence": 0.99, "name": proposal.target,
    }  # fmt: skip
    try:
        for domain in _domains(target, proposal):
            results.append(audit(target, domain=domain, **options))
            if results[-1].verdict is not Verdict.SUSPECT:
                return ScanOutcome(proposal, results[-1])
        # again, because many targets are audited
        fresh = {"seed": seed + 1, "pair": results[0].pair, "domain": None}
        again = audit(target, **options | fresh)
    except (InvalidArgument, MechanismFailed) as error:
        return ScanOutcome(proposal, why=" ".join(str(error).split())[:200])
    return ScanOutcome(proposal, results[0] if again.verdict is Verdict.SUSPECT else again)
