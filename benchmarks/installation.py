"""Installation of the environments of third-party libraries: virtual environments with pinned
requirements, and programs with their packages.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs import worker_pool
from dpwitness.mechanisms.wrappers.programs.environments import FOLDER, expanded, home

PROGRAMS = FOLDER / "programs"


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment of a library's adapters: one table of ``environments.toml``."""

    name: str  # name of the table and of the folder
    # pinned requirements that pip installs with their dependencies
    requirements: tuple[str, ...] = ()
    no_deps: tuple[str, ...] = ()  # requirements that pip installs afterwards, without dependencies
    # adapters that run in this environment: names of the Python files in the folder of the library
    targets: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()  # pinned npm packages for programs in JavaScript
    # sources in `benchmarks/libraries/programs` that are used instead of an adapter: node runs
    # JavaScript, g++ compiles C++
    programs: tuple[str, ...] = ()
    python: str = ""  # version such as ``3.10``; this interpreter's version if empty
    note: str = ""  # remark for readers

    @property
    def folder(self) -> Path:
        return home() / self.name

    @property
    def interpreter(self) -> Path:
        if not self.programs:
            return self.folder / "bin" / "python"
        source = Path(self.programs[0])
        return self.folder / (source.stem if source.suffix == ".cpp" else "node_modules")


@functools.cache
def pinned_environments() -> dict[str, Environment]:
    """Return all environments by name. Raise InvalidArgument if a file of pins has an unknown
    field.
    """
    found = {}
    for path in sorted(FOLDER.glob("*/environments.toml")):
        targets = sorted(file.name for file in path.parent.glob("*_targets.py"))
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            try:
                found[name] = environment(name, table | {"targets": targets})
            except TypeError as error:
                raise InvalidArgument(
                    f"{path.parent.name}/environments.toml: [{name}] has an unknown field: {error}"
                ) from None
    return found


def environment(name: str, pins: Mapping[str, Any]) -> Environment:
    """Return an environment from its pins, whose lists become tuples."""
    given: dict[str, Any] = {
        key: tuple(pin) if isinstance(pin, list) else pin for key, pin in pins.items()
    }
    return Environment(name, **given)


def _portable_path(place: Path) -> str:
    """Return a path relative to the current or home directory if possible, because witnesses are
    replayed on other machines.
    """
    for start, base in ((".", Path.cwd()), ("~", Path(os.path.expanduser("~")))):
        if place.is_relative_to(base):
            return f"{start}/{place.relative_to(base).as_posix()}"
    return str(place)


def _interpreter(version: str) -> str | None:
    """Return an interpreter of a version that runs: from the PATH, where pyenv may have an inactive
    shim, else from pyenv's versions.
    """
    versions = expanded(os.environ.get("PYENV_ROOT") or "~/.pyenv") / "versions"
    known = [
        shutil.which(f"python{version}"),
        *map(str, sorted(versions.glob(f"{version}.*/bin/python"))),
    ]
    return next(
        (
            one
            for one in known
            if one
            and subprocess.run([one, "-c", ""], capture_output=True, check=False).returncode == 0
        ),
        None,
    )


def pins_of(environment: Environment) -> str:
    """Return a digest of everything that is to be installed."""
    pinned: list[Any] = [environment.requirements, environment.no_deps, environment.python]
    if environment.programs:
        sources = [(PROGRAMS / name).read_text(encoding="utf-8") for name in environment.programs]
        pinned += [environment.npm, sources]
    return hashlib.blake2b(json.dumps(pinned).encode(), digest_size=8).hexdigest()


def command_of(environment: Environment, program: str, target: str) -> list[str]:
    """Return the command that starts a target of a program."""
    folder = environment.folder
    if program.endswith(".js"):
        return ["node", _portable_path(PROGRAMS / program), target, _portable_path(folder)]
    return [_portable_path(folder / Path(program).stem), target]


def state_of(environment: Environment) -> str:
    """Return the state of an environment: ``ready``, ``missing``, ``unfinished`` or ``outdated``
    (the pins have changed since).
    """
    if not environment.interpreter.exists():
        return "missing"
    try:
        installed = (environment.folder / "pins").read_text()
    except OSError:
        return "unfinished"
    return "ready" if installed == pins_of(environment) else "outdated"


def _commands(environment: Environment) -> list[list[str]]:
    """Return the commands that create an environment."""
    folder, python = str(environment.folder), str(environment.interpreter)
    base = _interpreter(environment.python) if environment.python else sys.executable
    if base is None:
        raise InvalidArgument(
            f"environment {environment.name} needs python{environment.python} on the PATH, which "
            "is not installed or does not run"
        )
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder]
    shim = Path(worker_pool.__file__).resolve().parent / "shims" / "cpp"
    compiler = ["g++", "-O2", "-std=c++17", "-I", str(shim)]
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pinned = {
        (*npm,): environment.npm,
        (*pip,): environment.requirements,
        (*pip, "--no-deps"): environment.no_deps,
    }
    return [
        *([] if environment.programs else [[base, "-m", "venv", folder]]),
        *(
            [*compiler, str(PROGRAMS / program), "-o", f"{folder}/{Path(program).stem}"]
            for program in environment.programs
            if program.endswith(".cpp")
        ),
        *([*command, *pins] for command, pins in pinned.items() if pins),
    ]


def install(environment: Environment, announce: Callable[[str], object] = str) -> None:
    """Create an environment, passing each command to `announce` before it is run.

    Raises
    ------
    InvalidArgument
        If the interpreter is missing or a command fails; the message has the last lines of its
        output.
    """
    name, folder = environment.name, environment.folder
    if state_of(environment) == "ready":
        announce(f"{name}: ready in {folder}, nothing to do")
        return
    commands = _commands(environment)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for command in commands:
        announce(f"{name}: {' '.join(command)}")
        if shutil.which(command[0]) is None:
            raise InvalidArgument(
                f"environment {name} needs {command[0]} on the PATH, which is not installed"
            )
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            last = " | ".join(done.stdout.strip().splitlines()[-5:])
            raise InvalidArgument(
                f"environment {name} cannot be made: {' '.join(command)} ended with "
                f"{done.returncode}: {last}"
            )
    write_text(folder / "pins", pins_of(environment))
    announce(f"{name}: ready in {folder}")
