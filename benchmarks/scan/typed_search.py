"""Search of libraries with typed constructors, whose objects carry their domains, metrics and maps,
so that each claim is the library's own.

The adapter of a library may have a program ``search/search.py``, which builds programs from the
types of the library's constructors. It runs in the interpreter of the library, searches quickly,
and prints entries for a target file: one for each accepted constructor, and one for each finding,
with its two inputs. The entries are then audited like any other, so that a finding counts only if
the audit confirms it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpwitness.auditors.functions.declared_targets import DECLARED
from dpwitness.auditors.scanning.calls import LONGEST_LINE, Script
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.adapters import FOLDER
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_process import WorkerDied


@dataclass(frozen=True, slots=True)
class TypedEntry:
    """Entry of a target file for a program that is built from typed constructors.

    Attributes
    ----------
    target : str
        Name in the target file.
    constructors : tuple of str
        Constructors of the program; the last one is the outermost.
    why : str
        The program, in one line.
    expected : str
        Kind of the finding; empty for an example without one.
    source : str
        Source of the functions.
    declaration : dict
        Entry of TARGETS; empty for a mechanism.
    """

    target: str
    constructors: tuple[str, ...]
    why: str
    expected: str
    source: str
    declaration: Json = field(default_factory=dict)

    @property
    def role(self) -> str:
        return "transformation" if self.declaration else "mechanism"

    @property
    def because(self) -> str:
        """Return the source of the claim."""
        return f"the claim is the map of {self.constructors[-1]}"


@dataclass(frozen=True, slots=True)
class TypedEntries:
    """Entries of a library with typed constructors, the import lines that their sources need, and
    remarks on the search.
    """

    header: tuple[str, ...] = ()
    entries: tuple[TypedEntry, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def covered(self) -> frozenset[str]:
        """Return the names of the constructors that have an entry."""
        return frozenset(name for each in self.entries for name in each.constructors)


def search_program(modules: Sequence[str]) -> Path | None:
    """Return the search program of the adapter of a library, by the names of its top modules; None
    if there is none.
    """
    found = (FOLDER / name / "search" / "search.py" for name in modules if name.isidentifier())
    return next((path for path in found if path.exists()), None)


def search(
    program: Path,
    taken: set[str],
    *,
    python: str | None,
    folder: Path,
    memory: int = 0,
    seconds: float,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> TypedEntries:
    """Run a search program under limits, and return its entries.

    Parameters
    ----------
    program : Path
        The search program.
    taken : set of str
        Names that the target file uses already.
    python : str or None
        Interpreter of the library.
    folder : Path
        The only folder that the program may write to.
    memory : int
        Limit of the address space in bytes; 0 for none.
    seconds : float
        Time of the search.
    seed : int
        Seed of the search.
    progress : callable, optional
        Called with a line for each entry.
    """
    command = (str(program), "--seconds", f"{seconds:g}", "--seed", str(seed))
    process = Script(python, str(folder), memory, command).start(0.0)
    # seconds after the search in which its process must end
    deadline, lines = time.monotonic() + seconds + 30.0, list[Json]()
    remarks: list[str] = []
    try:
        while True:
            line = process.line(LONGEST_LINE, deadline, "an entry")
            if not line.startswith(b"{"):  # the library prints
                continue
            lines.append(json.loads(line))
            if progress is not None and "entry" in lines[-1]:
                progress(f"typed search: {lines[-1]['entry']['why']}")
            if "tried" in lines[-1]:
                break
    except (TimeoutError, EOFError, BrokenPipeError, ValueError, WorkerDied):
        remarks.append(f"the typed search ended early: the process {process.ended()}")
    finally:
        process.close()
    return _read(lines, taken, remarks)


def _read(lines: Sequence[Json], taken: set[str], remarks: list[str]) -> TypedEntries:
    """Return the entries in the lines of a search program."""
    header: tuple[str, ...] = ()
    found: list[TypedEntry] = []
    for line in lines:
        if "header" in line:
            header = tuple(line["header"])
        elif "entry" in line and not (
            line["entry"]["expected"] and sum(bool(each.expected) for each in found) >= 80
        ):
            found.append(_entry(line["entry"], taken))
        elif "tried" in line:
            counts: Mapping[str, int] = line["tried"]
            parts = ", ".join(f"{count:,} {name}" for name, count in counts.items())
            remarks.append(f"programs of typed constructors: {parts}")
    return TypedEntries(header, tuple(found), tuple(remarks))


def _entry(about: Json, taken: set[str]) -> TypedEntry:
    """Return an entry under a name that no other entry has."""
    stem = about["constructors"][-1]
    target = stem if not about["expected"] and stem not in taken else ""
    number = 1
    while not target or target in taken:
        target, number = f"{stem}_{number}", number + 1
    taken.add(target)
    lines = [line.replace("{name}", target) for line in about["source"]]
    # names of functions contain the name of the target
    declaration: Json = {
        key: value.replace("{name}", target) if isinstance(value, str) else value
        for key, value in about.get("declaration", {}).items()
    }
    if "claim" in about:
        lines += [
            "",
            "",
            f"{target}.claim = {about['claim'].replace('{name}', target)}",
            f"{target}.domain = {about['domain']!r}",
            f"{target}.seeded = False  # the library draws its own randomness",
        ]
    return TypedEntry(
        target,
        tuple(about["constructors"]),
        about["why"],
        about["expected"],
        "\n".join(lines).strip("\n"),
        declaration,
    )


def target_file(found: TypedEntries) -> str:
    """Return a target file of entries."""
    parts = ["\n".join(["import numpy as np", "from math import inf, nan", *found.header])]
    parts += [f"# {each.target}: {each.why}\n{each.source}" for each in found.entries]
    declared = {each.target: each.declaration for each in found.entries if each.declaration}
    parts.append(f"TARGETS = {declared!r}")
    return "\n\n\n".join(parts) + "\n"


def violations(package: str, python: str, seconds: float) -> int:
    """Search a library and audit the findings that it declares, and return how many violate the
    library's own map.
    """
    program = search_program([package])
    if program is None:
        raise InvalidArgument(f"{package} has no program search/search.py")
    with tempfile.TemporaryDirectory() as name:
        found = search(program, set(), python=python, folder=Path(name), seconds=seconds / 2)
        file, verdicts = Path(name, "typed.py"), Counter[Verdict]()
        file.write_text(target_file(found), encoding="utf-8")
        for each in found.entries:
            if each.expected and each.declaration:
                kind = DECLARED[str(each.declaration["kind"])]
                target = Target(str(file), each.target, python, {}, 60.0)
                try:
                    # seconds of one entry
                    (result,) = kind.of(target).audit(seconds=2.0)
                    verdicts[result.verdict] += 1
                except (InvalidArgument, MechanismFailed):
                    continue
        return verdicts[Verdict.VIOLATED]
