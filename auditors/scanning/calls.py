"""Calls of the functions of a noise map, from a process in the interpreter of the package: as its
tests and scripts make them, else made up, each with the argument that holds the data.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpwitness.auditors.scanning.made_up import made_up_calls
from dpwitness.auditors.scanning.noise_map import Function, NoiseMap
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs import confinement
from dpwitness.mechanisms.wrappers.programs.worker_process import Process, WorkerDied, WorkerTimeout

_SCRIPT = str(Path(confinement.__file__).resolve().with_name("inside") / "recorded_calls.py")
_LONGEST = 2**24  # bytes of a line


@dataclass(frozen=True, slots=True)
class Script:
    """Slot of a process that runs a script under limits and prints lines: interpreter, the folder
    that it may write to, memory limit in bytes (0: none), arguments after the interpreter.
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


def next_line(process: Process, rest: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Return the next line of the process, and the bytes after it. Raise EOFError if the process
    has ended.
    """
    buffer = memoryview(bytearray(2**16))
    while b"\n" not in rest:
        count = process.some(buffer, deadline)
        if count == 0 or len(rest) > _LONGEST:
            raise EOFError
        rest += bytes(buffer[:count])
    line, _, after = rest.partition(b"\n")
    return line, after


def lines_of(slot: Script, request: Json, seconds: float) -> tuple[list[Json], str]:
    """Return the lines of JSON of a script after a request, and how it ended; empty if it ended
    with the line ``{"done": true}``.
    """
    process, found, rest = slot.start(0.0), list[Json](), b""
    deadline = time.monotonic() + seconds
    try:
        process.send([json.dumps(request).encode() + b"\n"], deadline)
        while True:
            line, rest = next_line(process, rest, deadline)
            found.append(json.loads(line))
            if found[-1].get("done"):
                return found[:-1], ""
    except TimeoutError:
        return found, f"took longer than {seconds:g} s"
    except (EOFError, BrokenPipeError, ValueError, WorkerDied, WorkerTimeout):
        return found, process.ended()
    finally:
        process.close()


def calls_of(
    found: NoiseMap,
    functions: Sequence[Function],
    slot: Script,
    *,
    root: Path,
    tests: Sequence[str] = (),
    scripts: Sequence[str] = (),
    kept: Sequence[Json] = (),
    seconds: float,
) -> tuple[list[Json], list[str]]:
    """Return calls with what the experiments say, and remarks.

    Parameters
    ----------
    found, functions : NoiseMap, sequence of Function
        The map, and the functions whose calls are wanted.
    slot : Script
        Interpreter and limits.
    root : Path
        Folder from which the package is imported.
    tests, scripts : sequence of str
        Files or folders for pytest, and scripts to run.
    kept : sequence of dict
        Calls that `pytest --dp-discover` has written.
    seconds : float
        Time limit of the process.
    """
    request = {
        "paths": [str(root)],
        "wanted": wanted(found, functions),
        "modules": list(dict.fromkeys(each.module for each in functions)),
        "spelled": {each.path: {"spelled": each.path, "module": each.module} for each in functions},
        "tests": list(tests),
        "seconds": 0.6 * seconds,
        "scripts": list(scripts),
        "calls": [*kept, *(call for each in functions for call in made_up_calls(found, each))],
    }
    lines, ended = lines_of(slot, request, seconds)
    remarks = [line["remark"] for line in lines if "remark" in line]
    remarks += [f"the process of the calls {ended}"] if ended else []
    return [line for line in lines if "function" in line], remarks


def wanted(found: NoiseMap, functions: Sequence[Function]) -> dict[str, list[str]]:
    """Return module and qualified name of the functions to record, and of the constructors of all
    classes, by dotted name.
    """
    makers = [found.functions[path] for path in found.constructors.values() if path]
    return {each.path: [each.module, _inner(each)] for each in (*functions, *makers)}


def _inner(function: Function) -> str:
    return function.path.removeprefix(f"{function.module}.")
