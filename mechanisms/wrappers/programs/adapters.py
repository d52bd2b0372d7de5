"""Target files of libraries in a clone of this project, which are named without a path."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "libraries"


def adapter_file(name: str) -> Path | None:
    """Return the file of an adapter by its name, with or without ``_targets``; None if there is no
    such adapter.
    """
    files = {path.stem: path for path in FOLDER.glob("*/*_targets.py")}
    return files.get(name) or files.get(f"{name}_targets")
