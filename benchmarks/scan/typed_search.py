"""Search of libraries with typed constructors, whose objects carry their domains, metrics and maps,
so that each claim is the library's own.

The adapter of a library may have a program ``search/search.py``, which builds programs from the
types of the library's constructors. It runs in the interpreter of the library, searches quickly,
and prints an entry of a target file for each finding, with its two inputs. The entries are then
audited like any other, so that a finding counts only if the audit confirms it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from dpwitness.auditors.functions.declared_targets import DECLARED
from dpwitness.auditors.scanning.calls import LONGEST_LINE, Script
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import FOLDER
from dpwitness.mechanisms.wrappers.programs.worker_process import WorkerDied

_MOST = 80  # entries of a search that are audited


def search_program(library: str) -> Path:
    """Return the search program of the adapter of a library."""
    return FOLDER / library / "search" / "search.py"


def search(program: Path, python: str, folder: Path, seconds: float) -> list[Json]:
    """Run a search program, and return the lines that it prints.

    Parameters
    ----------
    program : Path
        The search program.
    python : str
        Interpreter of the library.
    folder : Path
        The only folder that the program may write to.
    seconds : float
        Time of the search. A search that ends early, or late, keeps the lines so far.

    Raises
    ------
    InvalidArgument
        If the program ends before its first line.
    """
    process = Script(python, str(folder), 0, (str(program), "--seconds", f"{seconds:g}")).start(0.0)
    # seconds after the search in which its process must end
    deadline, lines = time.monotonic() + seconds + 30.0, list[Json]()
    try:
        while not lines or "tried" not in lines[-1]:
            line = process.line(LONGEST_LINE, deadline, "an entry")
            if line.startswith(b"{"):  # the library prints other lines
                lines.append(json.loads(line))
    except (TimeoutError, EOFError, BrokenPipeError, ValueError, WorkerDied):
        if not lines:
            raise InvalidArgument(f"{program} must print entries: it {process.ended()}") from None
    finally:
        process.close()
    return lines


def target_file(lines: Sequence[Json]) -> tuple[str, dict[str, Json]]:
    """Return a target file of the entries in the lines of a search, and its declarations by
    name.
    """
    parts, declared = ["import numpy as np\nfrom math import inf, nan"], dict[str, Json]()
    for line in lines:
        parts += line.get("header", ())
    for number, entry in enumerate([line["entry"] for line in lines if "entry" in line][:_MOST]):
        name = f"{entry['constructors'][-1]}_{number}"
        parts += [f"\n\n# {name}: {entry['why']}"]
        parts += [text.replace("{name}", name) for text in entry["source"]]
        # names of functions contain the name of the target
        declared[name] = {
            key: value.replace("{name}", name) if isinstance(value, str) else value
            for key, value in entry["declaration"].items()
        }
    return "\n".join([*parts, "", "", f"TARGETS = {declared!r}", ""]), declared


def violations(library: str, python: str, seconds: float) -> int:
    """Search a library and audit the findings, and return how many violate the library's
    own map.
    """
    with tempfile.TemporaryDirectory() as name:
        file, found = Path(name, "typed.py"), 0
        lines = search(search_program(library), python, Path(name), seconds / 2)
        text, declared = target_file(lines)
        file.write_text(text, encoding="utf-8")
        for each, declaration in declared.items():
            kind, target = DECLARED[declaration["kind"]], Target(str(file), each, python, {}, 60.0)
            try:
                (result,) = kind.of(target).audit(seconds=2.0)
            except (InvalidArgument, MechanismFailed):
                continue
            found += result.verdict is Verdict.VIOLATED
        return found
