"""Corpus of documented bugs: one folder of `benchmarks/libraries` for each library, with
``entries.toml`` and target files.

An entry names two releases of a library, and a target that was written from the library's
documentation: a claim and a domain, but no pair of datasets and no event. ``split.json`` names the
entries that are set aside: a third of the first corpus, and later ones.
"""

from __future__ import annotations

import json
import random
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.installation import Environment, environment
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.environments import adapter_file

FOLDER = Path(__file__).resolve().parents[1] / "libraries"
FAMILIES = (
    "sensitivity",
    "scale",
    "mechanism",
    "sparse vector",
    "delta",
    "accounting",
    "bounding",
    "clipping",
    "domain leak",
    "exception",
    "floating point",
    "seeding",
)
# parts of the corpus
TUNED, SET_ASIDE, SECOND, THIRD = PARTS = (
    "tuned",
    "set aside",
    "second set aside",
    "third set aside",
)
_ADAPTER = "adapter:"  # prefix of a target that is one of the adapters of the published report


@dataclass(frozen=True, slots=True)
class Release:
    """Release of a library: pins for pip, or instructions for a build from source."""

    name: str
    environment: Environment | None = None
    build: str = ""  # instructions for releases that no registry has


@dataclass(frozen=True, slots=True)
class Entry:
    """Documented bug of a library."""

    name: str
    library: str
    before: Release
    after: Release | None  # None if the bug has not been repaired
    family: str
    source: tuple[str, ...]  # issues, pull requests and commits that document the bug
    fault: str
    target: str = ""  # ``FILE.py:NAME``; empty if the entry cannot run yet
    bits: bool = False  # whether the bug is one of the low bits of floating-point outputs
    visible_errors: bool = False  # whether the library shows errors to the analyst
    harmless: str = ""  # why the documented fault moves no output; the entry does not count
    part: str = TUNED  # part of the corpus; the parts set aside are audited once, at the end

    @property
    def sides(self) -> tuple[tuple[str, Release], ...]:
        """Sides of the repair with their releases."""
        found = (("before", self.before), ("after", self.after))
        return tuple((side, release) for side, release in found if release is not None)

    @property
    def runnable(self) -> bool:
        """Whether all releases can be installed from a registry and the entry has a target."""
        return bool(self.target) and all(
            release.environment is not None for _, release in self.sides
        )


@cache
def corpus(folder: Path = FOLDER) -> tuple[Entry, ...]:
    """Return all entries, sorted by name.

    Parameters
    ----------
    folder : Path
        Folder with ``*/entries.toml`` and ``split.json``.

    Returns
    -------
    tuple of Entry

    Raises
    ------
    InvalidArgument
        If a family is unknown, a release is not declared, or a name occurs twice.
    """
    split = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    parts = {
        name: part
        for part, key in ((SET_ASIDE, "held_out"), (SECOND, "second"), (THIRD, "third"))
        for name in split[key]
    }
    found: dict[str, Entry] = {}
    for path in sorted(folder.glob("*/entries.toml")):
        for entry in _read(path):
            if entry.name in found:
                raise InvalidArgument(f"{path}: entry {entry.name!r} occurs twice")
            found[entry.name] = replace(entry, part=parts.get(entry.name, TUNED))
    return tuple(found[name] for name in sorted(found))


def held_out_names(names: list[str], seed: int) -> list[str]:
    """Return the third of the names that a seed sets aside, sorted.

    Examples
    --------
    >>> held_out_names(["a", "b", "c", "d", "e", "f"], 1)
    ['b', 'e']
    """
    return sorted(random.Random(seed).sample(sorted(names), round(len(names) / 3)))


def _read(path: Path) -> list[Entry]:
    """Read the entries of one library."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    releases = {
        name: _release(path.parent.name, name, table)
        for name, table in document["releases"].items()
    }
    return [
        _entry(path, name, {"library": document["library"], **table}, releases)
        for name, table in document["entries"].items()
    ]


def _release(folder: str, name: str, table: dict[str, Any]) -> Release:
    if "build" in table:
        return Release(name, build=table["build"])
    return Release(name, environment(f"recall-{folder}-{name}", table))


def _entry(path: Path, name: str, table: dict[str, Any], releases: dict[str, Release]) -> Entry:
    where = f"{path.parent.name}/{path.name}: entry {name!r}"
    if table["family"] not in FAMILIES:
        raise InvalidArgument(
            f"{where}: family must be one of {', '.join(FAMILIES)}, got {table['family']!r}"
        )
    for side in ("before", "after"):
        if table[side] and table[side] not in releases:
            raise InvalidArgument(
                f"{where}: {side} must be one of the declared releases "
                f"{', '.join(releases)}, got {table[side]!r}"
            )
    after = releases[table["after"]] if table["after"] else None
    target = _target(path.parent, table.get("target", ""))
    return Entry(
        name, before=releases[table.pop("before")], after=after, **_rest(table) | {"target": target}
    )


def _rest(table: dict[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in table.items()
        if key != "after"
    }


def _target(folder: Path, text: str) -> str:
    """Return a target as ``PATH:NAME``; empty if its file does not exist yet."""
    if text.startswith(_ADAPTER):
        adapter, _, name = text.removeprefix(_ADAPTER).partition(":")
        file = adapter_file(adapter)
    else:
        part, _, name = text.partition(":")
        file = folder / part
    return f"{file}:{name}" if text and file is not None and file.is_file() else ""
