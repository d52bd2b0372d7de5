"""The tables of primitives that come with dpwitness, and the primitives given by users, as entries
of a session.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.recording.primitives import WrongPrimitive, entries_of
from dpwitness.mechanisms.wrappers.recording.session import Entry

_TABLES = Path(__file__).with_name("tables")


@functools.cache
def known_primitives() -> tuple[Entry, ...]:
    """Return all primitives of the tables: sources of randomness, and mechanisms of libraries."""
    found: list[Entry] = []
    for file in sorted(_TABLES.glob("*.toml")):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        found += [
            (name, entry, kind == "sources", False)
            for kind, entries in table.items()
            for name, entry in entries.items()
        ]
    return tuple(found)


class ValidatedEntries(list[Entry]):
    """A list of validated entries of primitives."""


def validate_primitives(primitives: Any, owner: str, *, required: bool = True) -> ValidatedEntries:
    """Return the validated entries of the primitives that a user names; raise InvalidArgument on
    behalf of `owner` for invalid ones.

    Primitives that are not `required` are skipped if they do not exist, and nothing is imported for
    them.
    """
    if isinstance(primitives, ValidatedEntries):
        return primitives
    try:
        return ValidatedEntries(
            (name, entry, source, required) for name, entry, source, _ in entries_of(primitives)
        )
    except WrongPrimitive as error:
        raise InvalidArgument(f"{owner}: primitives: {error}") from None
