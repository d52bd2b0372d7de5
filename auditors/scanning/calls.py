"""Calls of the functions of a noise map, from a process in the interpreter of the package: as its
tests and scripts make them, else made up, each with the argument that holds the data.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpwitness.auditors.scanning.made_up import made_up_calls
from dpwitness.auditors.scanning.noise_map import Function, NoiseMap
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.programs.worker_pool import LAUNCHER, launch_of
from dpwitness.mechanisms.wrappers.programs.worker_process import Launch, Process, WorkerDied

LONGEST_LINE = 2**24  # bytes of a line


@dataclass(frozen=True, slots=True)
class Script:
    """Slot of a process that runs a script under limits and prints lines: interpreter, the folder
    that it may write to, memory limit in bytes (0: none), arguments after the interpreter.
    """

    python: str | None
    working_folder: str
    memory: int = 0
    command: tuple[str, ...] = (LAUNCHER, "function_calls")

    def launch(self) -> Launch:
        command, folder, environment = launch_of(self.python, self.command, self.working_folder)
        return command, folder, environment | {"MPLBACKEND": "Agg", "CUDA_VISIBLE_DEVICES": ""}

    def start(self, time_limit: float) -> Process:
        return Process(self)


def lines_of(slot: Script, request: Json, seconds: float) -> tuple[list[Json], str]:
    """Return the lines of JSON of a script after a request, and how it ended; empty if it ended
    with the line ``{"done": true}``.
    """
    process, found = slot.start(0.0), list[Json]()
    deadline = time.monotonic() + seconds
    try:
        process.send([json.dumps(request).encode() + b"\n"], deadline)
        while True:
            found.append(json.loads(process.line(LONGEST_LINE, deadline, "a call")))
            if found[-1].get("done"):
                return found[:-1], ""
    except TimeoutError:
        return found, f"took longer than {seconds:g} s"
    except (EOFError, BrokenPipeError, ValueError, WorkerDied):
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
    return {
        each.path: [each.module, each.path.removeprefix(f"{each.module}.")]
        for each in (*functions, *makers)
    }
