"""Outcomes of a campaign in a JSON file, from which an interrupted campaign resumes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dpwitness.core.values.atomic_files import write_text


class Keyed(Protocol):
    """Outcome of one run: a dataclass with a key that can be sorted."""

    @property
    def key(self) -> Any:
        """Key of the run within its campaign."""


_R = TypeVar("_R", bound=Keyed)


def read_runs(make: Callable[..., _R], file: Path) -> dict[Any, _R]:
    """Return the runs in a file by key, each made by `make` from its fields; empty if there is no
    file.
    """
    if not file.exists():
        return {}
    runs = (make(**values) for values in json.loads(file.read_text(encoding="utf-8"))["runs"])
    return {run.key: run for run in runs}


def write_runs(runs: Iterable[Any], file: Path, **campaign: Any) -> None:
    """Write all runs, sorted by key, after the fields of the campaign."""
    ordered = [asdict(run) for run in sorted(runs, key=lambda run: run.key)]
    write_text(file, json.dumps({"schema": 1, **campaign, "runs": ordered}, indent=1) + "\n")
