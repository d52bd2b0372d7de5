"""Discovery of a package's public names: starts `inside.discovery` in the interpreter of the
package, under limits, and reads its lines.

A module that ends the process, or does not finish its import in time, is left out, and the process
is started again.

Typed constructors: libraries whose objects carry their domains, metrics and map, so that each
claim is the library's own.

The adapter of a library may have a program ``search/search.py``, which builds programs from the
types of the library's constructors. It runs in the interpreter of the library, searches quickly,
and prints entries for the target file: one for each accepted constructor, and one for each finding,
with its two inputs. The entries are then audited like any other, so that a finding counts only if
the audit confirms it.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs import confinement
from dpwitness.mechanisms.wrappers.programs.environments import FOLDER
from dpwitness.mechanisms.wrappers.programs.worker_process import Process, WorkerDied, WorkerTimeout

_SCRIPT = str(Path(confinement.__file__).resolve().with_name("inside") / "discovery.py")
NETWORK_ANSWERS = """import urllib.request


class _Answer:  # the import of the package asks the network, which is cut off: requests get an empty answer
    status_code = status = code = 200
    found = {"info": {"version": "0"}}  # in the form of a package index, as most ask for the newest version of themselves
    text = '{"info": {"version": "0"}}'
    ok, content, headers, url = True, text.encode(), {}, ""
    read = lambda self, *_: self.content
    json = lambda self: self.found
    raise_for_status = lambda self: None
    __enter__ = lambda self: self
    __exit__ = lambda self, *_: None


urllib.request.urlopen = lambda *_, **__: _Answer()
try:
    import requests

    requests.Session.request = lambda *_, **__: _Answer()
except ImportError:
    pass
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class DiscoverySlot:
    """Slot of a process that prints lines of JSON: interpreter, working folder, memory limit in
    bytes (0: none), script with arguments.
    """

    python: str | None
    working_folder: str
    memory: int = 0
    command: tuple[str, ...] = (_SCRIPT,)

    def argv(self) -> list[str]:
        python = self.python or sys.executable
        if not os.access(python, os.X_OK):
            raise InvalidArgument(
                f"python must be a Python interpreter, got {python!r}: {os.strerror(errno.EACCES)}"
            )
        return confinement.confined(self.working_folder, [python, "-u", *self.command])

    def folder(self) -> str | None:
        return self.working_folder

    def environment(self) -> dict[str, str]:
        others = ("PYTHONPATH", "PYTHONHOME") if self.python is not None else ()
        return {name: value for name, value in os.environ.items() if name not in others} | {
            "MPLBACKEND": "Agg",
            "CUDA_VISIBLE_DEVICES": "",
        }

    def start(self, time_limit: float) -> Process:
        return Process(self)


@dataclass(frozen=True, slots=True)
class Discovered:
    """Contents of a package, as JSON from its interpreter.

    Attributes
    ----------
    about : dict
        Distribution, version, top modules, entry points, versions of Python, and whether NumPy is
        installed.
    objects : tuple of dict
        Descriptions of public functions and classes (`inside.descriptions`).
    remarks : tuple of str
        One line for each module that could not be imported, and for each side effect of an import.
    network : bool
        Whether an import asks the network, so that the package needs an answer to be imported.
    missing : tuple of str
        Modules that are not installed.
    examples : tuple of dict
        Calls in the examples of the package (`inside.examples`).
    repairs : tuple of str
        Lines of Python without which some modules cannot be imported (`inside.repairs`).
    """

    about: Json
    objects: tuple[Json, ...]
    remarks: tuple[str, ...]
    network: bool = False
    missing: tuple[str, ...] = ()
    examples: tuple[Json, ...] = ()
    repairs: tuple[str, ...] = ()

    @property
    def preamble(self) -> str:
        """Return the lines of Python that come before the imports of the package; empty if it needs
        none.
        """
        repairs = (
            ["import importlib.util", "import os", "import sys", "import types", "", *self.repairs]
            if self.repairs
            else []
        )
        return "\n".join([*repairs, *([NETWORK_ANSWERS] if self.network else [])])


@dataclass
class _Lines:
    """The lines of one process, sorted by event."""

    about: Json = field(default_factory=dict)
    objects: list[Json] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    failed: list[Json] = field(default_factory=list)
    examples: list[Json] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    importing: str = ""
    done: bool = False

    def take(self, line: Json) -> None:
        event = line.pop("event")
        if event == "package":
            self.about = line
        elif event == "importing":
            self.importing = line["module"]
        elif event == "failed":
            self.failed.append(line)
        elif event == "note":
            self.remarks.append(
                f"{line['module'] or self.importing or 'the package'} {line['text']}".strip()
            )
        elif event == "object":
            self.objects.append(line)
        elif event == "example":
            self.examples.append(line)
        elif event == "repair":
            self.repairs.append(line["line"])
        elif event == "done":
            self.done = True


def discover(
    *,
    package: str = "",
    folder: str = "",
    python: str | None = None,
    working_folder: str,
    memory: int = 0,
    seconds: float = 120.0,
    progress: Callable[[str], None] | None = None,
) -> Discovered:
    """Import a package, or the modules of a folder, and return descriptions of its public objects.

    Parameters
    ----------
    package, folder : str
        One of the two: the name of a package or distribution, or a folder.
    python : str, optional
        Interpreter; this one by default.
    working_folder : str
        The only folder that the imports may write to.
    memory : int
        Limit of the address space in bytes; 0 for none.
    seconds : float
        Time limit of all imports together. One module gets at most a quarter of it.
    progress : callable, optional
        Called with the name of each module before its import.

    Raises
    ------
    InvalidArgument
        If the interpreter cannot be started, or has no package of this name.
    """
    deadline, skip, remarks, answered = time.monotonic() + seconds, list[str](), list[str](), False
    slot = DiscoverySlot(python, working_folder, memory)
    for _ in range(12):  # modules that may end the process, before discovery gives up
        request = {
            "package": package,
            "folder": os.path.abspath(folder) if folder else "",
            "skip": skip,
            "answered": answered,
        }
        lines, ended = _run(slot, request, deadline, seconds / 4, progress)
        if not lines.done and lines.importing and time.monotonic() < deadline:
            remarks.append(f"{lines.importing} is left out: its import {ended}")
            skip.append(lines.importing)
            continue
        missing_package = next((f for f in lines.failed if f.get("missing") is True), None)
        if missing_package is not None or not lines.about:
            why = missing_package["error"] if missing_package else f"the process {ended}"
            raise InvalidArgument(f"scan: {package or folder} cannot be read: {why}")
        if not answered and any(each.get("network") for each in lines.failed):
            answered = True
            remarks.append(
                "an import asks the network, which is cut off: requests at import get an "
                "empty answer"
            )
            continue
        break
    if not lines.done:
        remarks.append(f"discovery ended early: the process {ended}")
    remarks += [
        f"{each['module']} cannot be imported: {each['error']}" for each in lines.failed
    ] + lines.remarks
    return Discovered(
        lines.about,
        tuple(lines.objects),
        tuple(dict.fromkeys(remarks)),
        answered,
        tuple(sorted({str(each["missing"]) for each in lines.failed if each.get("missing")})),
        tuple(lines.examples),
        tuple(lines.repairs),
    )


def _run(
    slot: DiscoverySlot,
    request: Json,
    deadline: float,
    per_module: float,
    progress: Callable[[str], None] | None,
) -> tuple[_Lines, str]:
    """Run one process to its end, and return its lines and how it ended."""
    found, process = _Lines(), slot.start(0.0)
    try:
        process.send([json.dumps(request).encode() + b"\n"], deadline)
        rest = b""
        while not found.done:
            line, rest = next_line(process, rest, min(deadline, time.monotonic() + per_module))
            before = found.importing
            found.take(json.loads(line))
            if progress is not None and found.importing != before:
                progress(found.importing)
        return found, ""
    except TimeoutError:
        return found, f"takes longer than {per_module:g} s"
    except (EOFError, BrokenPipeError, ValueError, WorkerDied, WorkerTimeout):
        return found, process.ended()
    finally:
        process.close()


def next_line(process: Process, rest: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Return the next line of the process, and the bytes after it. Raise EOFError if the process
    has ended.
    """
    buffer = memoryview(bytearray(2**16))
    while b"\n" not in rest:
        count = process.some(buffer, deadline)
        if count == 0 or len(rest) > 2**24:  # longest line of the process
            raise EOFError
        rest += bytes(buffer[:count])
    line, _, after = rest.partition(b"\n")
    return line, after


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
    process = DiscoverySlot(python, str(folder), memory, command).start(0.0)
    # seconds after the search in which its process must end
    deadline, rest, lines = time.monotonic() + seconds + 30.0, b"", list[Json]()
    remarks: list[str] = []
    try:
        while True:
            line, rest = next_line(process, rest, deadline)
            if not line.startswith(b"{"):  # the library prints
                continue
            lines.append(json.loads(line))
            if progress is not None and "entry" in lines[-1]:
                progress(f"typed search: {lines[-1]['entry']['why']}")
            if "tried" in lines[-1]:
                break
    except (TimeoutError, EOFError, BrokenPipeError, ValueError, WorkerDied, WorkerTimeout):
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
