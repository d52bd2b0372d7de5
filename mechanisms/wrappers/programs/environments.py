"""Target files of libraries in a clone of this project, which are named without a path, and the
environments of these libraries.
"""

from __future__ import annotations

import functools
import os
import tempfile
import tomllib
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "libraries"
SHARED = FOLDER / "shared"  # modules that target files in `FOLDER` import


def adapter_file(name: str) -> Path | None:
    """Return the file of an adapter by its name, with or without ``_targets``; None if there is no
    such adapter.
    """
    files = {path.stem: path for path in FOLDER.glob("*/*_targets.py")}
    return files.get(name) or files.get(f"{name}_targets")


def home() -> Path:
    """Return the folder of all environments: ``$DPWITNESS_HOME/environments``, or in the user's
    cache.

    For users without a home directory, the folder is in the temporary directory.
    """
    root = os.environ.get("DPWITNESS_HOME")
    if not root:
        root = os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "dpwitness")
    return expanded(root) / "environments"


def expanded(place: str) -> Path:
    """Return a path with ``~`` expanded; in the temporary directory if there is no home
    directory.
    """
    try:
        return Path(place).expanduser()
    except RuntimeError:  # HOME is not set and the user is unknown
        return Path(tempfile.gettempdir()) / place.lstrip("~/.")


@functools.cache
def environments() -> dict[str, Path]:
    """Return the folder of the library of each environment, by the name of the environment."""
    return {
        name: path.parent
        for path in sorted(FOLDER.glob("*/environments.toml"))
        for name in tomllib.loads(path.read_text(encoding="utf-8"))
    }


def environment_of(file: Path) -> str | None:
    """Return the name of the first environment of an adapter's library; None if there is none."""
    return next((name for name, folder in environments().items() if folder == file.parent), None)
