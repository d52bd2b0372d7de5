"""Virtual environments with pinned libraries for adapters, in the user's cache.

In a clone, `benchmarks/libraries` has a folder for each library: target files, and
``environments.toml`` with the pins of the published report. An installed package has none.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.validation import InvalidArgument

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "libraries"  # of a clone
PROGRAMS = FOLDER / "programs"
SHARED = FOLDER / "shared"  # modules that target files in `FOLDER` import


def home() -> Path:
    """Return the folder of all environments: ``$DPWITNESS_HOME/environments``, or in the user's
    cache.

    For users without a home directory, the folder is in the temporary directory.
    """
    root = os.environ.get("DPWITNESS_HOME")
    if root:
        return _expand(root) / "environments"
    return _expand(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "dpwitness" / "environments"


def _expand(place: str) -> Path:
    """Return a path with ``~`` expanded; in the temporary directory if there is no home
    directory.
    """
    try:
        return Path(place).expanduser()
    except RuntimeError:  # HOME is not set and the user is unknown
        return Path(tempfile.gettempdir()) / place.lstrip("~/.")


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
    versions = _expand(os.environ.get("PYENV_ROOT") or "~/.pyenv") / "versions"
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
        if self.programs:
            return self.folder / (
                Path(self.programs[0]).stem if self.programs[0].endswith(".cpp") else "node_modules"
            )
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def pins(self) -> str:
        """Digest of everything that is to be installed."""
        pinned: list[Any] = [self.requirements, self.no_deps, self.python]
        if self.programs:
            pinned += [
                self.npm,
                [(PROGRAMS / name).read_text(encoding="utf-8") for name in self.programs],
            ]
        return hashlib.blake2b(json.dumps(pinned).encode(), digest_size=8).hexdigest()

    def command(self, program: str, target: str) -> list[str]:
        """Return the command that starts a target of a program."""
        if program.endswith(".js"):
            return ["node", _portable_path(PROGRAMS / program), target, _portable_path(self.folder)]
        return [_portable_path(self.folder / Path(program).stem), target]

    def _build_commands(self) -> list[list[str]]:
        """Return the commands that install packages and compile sources for programs."""
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix"]
        shim, flags = str(Path(__file__).resolve().parent / "shims" / "cpp"), ["-O2", "-std=c++17"]
        return [
            *([[*install, str(self.folder), *self.npm]] if self.npm else []),
            *(
                [
                    *("g++", *flags, "-I", shim, str(PROGRAMS / name)),
                    *("-o", str(self.folder / Path(name).stem)),
                ]
                for name in self.programs
                if name.endswith(".cpp")
            ),
        ]

    @property
    def state(self) -> str:
        """State of the environment: ``ready``, ``missing``, ``unfinished`` or ``outdated`` (the
        pins have changed since).
        """
        if not self.interpreter.exists():
            return "missing"
        try:
            return "ready" if (self.folder / "pins").read_text() == self.pins else "outdated"
        except OSError:
            return "unfinished"

    def setup(self, announce: Callable[[str], None]) -> None:
        """Create the environment, passing each command to `announce` before it is run.

        Raises
        ------
        InvalidArgument
            If the interpreter is missing or a command fails; the message has the last lines of its
            output.
        """
        if self.state == "ready":
            announce(f"{self.name}: ready in {self.folder}, nothing to do")
            return
        base = _interpreter(self.python) if self.python else sys.executable
        if base is None:
            raise InvalidArgument(
                f"environment {self.name} needs python{self.python} on the PATH, which is "
                "not installed or does not run"
            )
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        pip = [
            str(self.interpreter),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
        ]
        commands = (
            self._build_commands() if self.programs else [[base, "-m", "venv", str(self.folder)]]
        )
        if self.requirements:
            commands.append([*pip, *self.requirements])
        if self.no_deps:
            commands.append([*pip, "--no-deps", *self.no_deps])
        for command in commands:
            announce(f"{self.name}: {' '.join(command)}")
            if shutil.which(command[0]) is None:
                raise InvalidArgument(
                    f"environment {self.name} needs {command[0]} on the PATH, which is not "
                    "installed"
                )
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            if done.returncode:
                last = " | ".join(done.stdout.strip().splitlines()[-5:])
                raise InvalidArgument(
                    f"environment {self.name} cannot be made: {' '.join(command)} ended with "
                    f"{done.returncode}: {last}"
                )
        write_text(self.folder / "pins", self.pins)
        announce(f"{self.name}: ready in {self.folder}")


@functools.cache
def environments() -> dict[str, Environment]:
    """Return all environments by name. Raise InvalidArgument if a file of pins has an unknown
    field.
    """
    found = {}
    for path in sorted(FOLDER.glob("*/environments.toml")):
        targets = tuple(sorted(file.name for file in path.parent.glob("*_targets.py")))
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            values: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in table.items()
            }
            try:
                found[name] = Environment(name, targets=targets, **values)
            except TypeError as error:
                raise InvalidArgument(
                    f"{path.parent.name}/{path.name}: [{name}] has an unknown field: {error}"
                ) from None
    return found


def adapter_file(name: str) -> Path | None:
    """Return the file of an adapter by its name, with or without ``_targets``; None if there is no
    such adapter.
    """
    files = {path.stem: path for path in FOLDER.glob("*/*_targets.py")}
    return files.get(name) or files.get(f"{name}_targets")


def environment_of(file: Path) -> Environment | None:
    """Return the environment of an adapter: the first one whose `targets` contain it; None if there
    is none.
    """
    return next((found for found in environments().values() if file.name in found.targets), None)
