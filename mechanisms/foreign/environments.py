"""Interpreters for the adapters of `adapters`: virtual environments with pinned libraries, in the user's cache."""

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

from dpwitness.mechanisms.core.atomic_files import write_text
from dpwitness.mechanisms.core.validation import InvalidArgument

FOLDER = Path(__file__).resolve().parent / "adapters"
PROGRAMS = FOLDER / "programs"
PINS = "environments.toml"


def home() -> Path:
    """Where environments live: ``$DPWITNESS_HOME/environments``, or else the user's cache; the temporary directory for who has no home."""
    root = os.environ.get("DPWITNESS_HOME")
    if root:
        return _expanded(root) / "environments"
    return _expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "dpwitness" / "environments"


def _expanded(place: str) -> Path:
    try:
        return Path(place).expanduser()
    except RuntimeError:  # no HOME, and no such user
        return Path(tempfile.gettempdir()) / place.lstrip("~/.")


def _told(place: Path) -> str:
    """A place from the current folder or from home, where it lies in one of them: witnesses keep it, and are replayed on other machines."""
    for start, base in ((".", Path.cwd()), ("~", Path(os.path.expanduser("~")))):
        if place.is_relative_to(base):
            return f"{start}/{place.relative_to(base).as_posix()}"
    return str(place)


@dataclass(frozen=True, slots=True)
class Environment:
    """One table of the file of pins.

    Parameters
    ----------
    name : str
        The table's name, and that of the folder.
    requirements : tuple of str
        What pip installs, pinned, with what it needs.
    no_deps : tuple of str
        What pip installs afterwards without looking at what it needs.
    targets : tuple of str
        Adapters that run in it: names of files of `adapters`.
    npm : tuple of str
        What npm installs, pinned, for programs in JavaScript.
    programs : tuple of str
        Sources of `adapters/programs` that stand for an adapter: JavaScript is run by node, C++ compiled by g++.
    python : str
        A version such as ``3.10``; this interpreter's if empty.
    note : str
        What a reader must know.
    """

    name: str
    requirements: tuple[str, ...] = ()
    no_deps: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    python: str = ""
    note: str = ""

    @property
    def folder(self) -> Path:
        return home() / self.name

    @property
    def interpreter(self) -> Path:
        if self.programs:
            return self.folder / (Path(self.programs[0]).stem if self.programs[0].endswith(".cpp") else "node_modules")
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def pins(self) -> str:
        """A digest of what is to be installed."""
        pinned: list[Any] = [self.requirements, self.no_deps, self.python]
        if self.programs:
            pinned += [self.npm, [(PROGRAMS / name).read_text(encoding="utf-8") for name in self.programs]]
        return hashlib.blake2b(json.dumps(pinned).encode(), digest_size=8).hexdigest()

    def command(self, program: str, target: str) -> list[str]:
        """How a target of a program is started."""
        if program.endswith(".js"):
            return ["node", _told(PROGRAMS / program), target, _told(self.folder)]
        return [_told(self.folder / Path(program).stem), target]

    def _commands(self) -> list[list[str]]:
        """What makes the environment of programs."""
        found = [["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(self.folder), *self.npm]] if self.npm else []
        shim, flags = str(FOLDER.parent / "shims" / "cpp"), ["-O2", "-std=c++17"]
        for name in self.programs:
            if name.endswith(".cpp"):
                found.append(["g++", *flags, "-I", shim, str(PROGRAMS / name), "-o", str(self.folder / Path(name).stem)])
        return found

    @property
    def state(self) -> str:
        """``ready``, ``missing``, ``unfinished`` or ``outdated`` (the pins have changed since)."""
        if not self.interpreter.exists():
            return "missing"
        try:
            return "ready" if (self.folder / "pins").read_text() == self.pins else "outdated"
        except OSError:
            return "unfinished"

    def setup(self, say: Callable[[str], None]) -> None:
        """Make the environment, telling each command before it is run.

        Raises
        ------
        InvalidArgument
            If the interpreter is missing or a command fails; the message holds its last lines.
        """
        if self.state == "ready":
            say(f"{self.name}: ready in {self.folder}, nothing to do")
            return
        base = sys.executable if not self.python else shutil.which(f"python{self.python}")
        if base is None:
            raise InvalidArgument(f"environment {self.name} needs python{self.python} on the PATH, which is not there")
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        pip = [str(self.interpreter), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        commands = self._commands() if self.programs else [[base, "-m", "venv", str(self.folder)]]
        if self.requirements:
            commands.append([*pip, *self.requirements])
        if self.no_deps:
            commands.append([*pip, "--no-deps", *self.no_deps])
        for command in commands:
            say(f"{self.name}: {' '.join(command)}")
            if shutil.which(command[0]) is None:
                raise InvalidArgument(f"environment {self.name} needs {command[0]} on the PATH, which is not there")
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode:
                last = " | ".join(done.stdout.strip().splitlines()[-5:])
                raise InvalidArgument(f"environment {self.name} cannot be made: {' '.join(command)} ended with {done.returncode}: {last}")
        write_text(self.folder / "pins", self.pins)
        say(f"{self.name}: ready in {self.folder}")


@functools.cache
def environments() -> dict[str, Environment]:
    """All environments, by name."""
    path = FOLDER / PINS
    if not path.is_file():
        return {}
    found = {}
    for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
        try:
            found[name] = Environment(name, **values)
        except TypeError as error:
            raise InvalidArgument(f"{PINS}: [{name}] has a field that is not known: {error}") from None
    return found


def adapters() -> list[str]:
    """Names of the adapter files that come with dpwitness."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem[0] != "_")


def adapter_file(name: str) -> Path | None:
    """The file of an adapter by its name, with or without ``_targets``; None if there is none."""
    for stem in (name, f"{name}_targets"):
        if stem in adapters():
            return FOLDER / f"{stem}.py"
    return None


def environment_of(file: Path) -> Environment | None:
    """The environment of an adapter: the first whose `targets` name it."""
    return next((found for found in environments().values() if file.name in found.targets), None)
