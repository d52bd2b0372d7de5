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

from dpwitness.mechanisms.terms.validation import InvalidArgument
from dpwitness.mechanisms.terms.writing import write_text

FOLDER = Path(__file__).resolve().parent / "adapters"
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
    python : str
        A version such as ``3.10``; this interpreter's if empty.
    note : str
        What a reader must know.
    """

    name: str
    requirements: tuple[str, ...] = ()
    no_deps: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    python: str = ""
    note: str = ""

    @property
    def folder(self) -> Path:
        return home() / self.name

    @property
    def interpreter(self) -> Path:
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def pins(self) -> str:
        """A digest of what is to be installed."""
        return hashlib.blake2b(json.dumps([self.requirements, self.no_deps, self.python]).encode(), digest_size=8).hexdigest()

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
        pip = [str(self.interpreter), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        commands = [[base, "-m", "venv", str(self.folder)]]
        if self.requirements:
            commands.append([*pip, *self.requirements])
        if self.no_deps:
            commands.append([*pip, "--no-deps", *self.no_deps])
        for command in commands:
            say(f"{self.name}: {' '.join(command)}")
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
