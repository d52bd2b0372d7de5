"""Virtual environments with pinned libraries for adapters, in the user's cache.

In a clone, `benchmarks/libraries` has a folder for each library: target files, and
``environments.toml`` with the pins of the published report. `benchmarks/installation` makes the
environments. An installed package has none.
"""

from __future__ import annotations

import functools
import os
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.core.values.validation import InvalidArgument

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "libraries"  # of a clone
SHARED = FOLDER / "shared"  # modules that target files in `FOLDER` import


def home() -> Path:
    """Return the folder of all environments: ``$DPWITNESS_HOME/environments``, or in the user's
    cache.

    For users without a home directory, the folder is in the temporary directory.
    """
    root = os.environ.get("DPWITNESS_HOME")
    if root:
        return expanded(root) / "environments"
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "dpwitness" / "environments"


def expanded(place: str) -> Path:
    """Return a path with ``~`` expanded; in the temporary directory if there is no home
    directory.
    """
    try:
        return Path(place).expanduser()
    except RuntimeError:  # HOME is not set and the user is unknown
        return Path(tempfile.gettempdir()) / place.lstrip("~/.")


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
