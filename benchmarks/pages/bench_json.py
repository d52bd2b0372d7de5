"""Tables of benchmarks, read from the JSON of `dpwitness bench`, and the cells of their rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import figure


def read_tables(path: Path | str) -> list[Table]:
    """Return the benchmark tables of a file. Raise InvalidArgument for other files."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{path} must be JSON of `dpwitness bench`: {error}") from None
    try:
        return [_table(entry) for entry in (found if isinstance(found, list) else [found])]
    except (TypeError, KeyError):
        raise InvalidArgument(
            f"{path} must hold tables with name and rows, as `dpwitness bench NAME --json` "
            "prints them"
        ) from None


def _table(entry: Json) -> Table:
    rows = []
    for row in entry["rows"]:
        # JSON has infinity as a text
        numbers = {name: float(row[name]) for name in ("required", "measured")}
        counts = tuple(row["counts"]) if row.get("counts") else None
        rows.append(Row(**row | numbers | {"counts": counts}))
    notes, details = (tuple(entry.get(key, ())) for key in ("notes", "details"))
    return Table(entry["name"], tuple(rows), notes, details)


def read_table(path: Path | str, name: str) -> Table:
    """Return the one table of a benchmark with its details from a file. Raise InvalidArgument if
    there is not exactly one.
    """
    found = [entry for entry in read_tables(path) if entry.name == name and entry.details]
    if len(found) != 1:
        raise InvalidArgument(
            f"{path} must hold one table of `dpwitness bench {name}` with its details, got "
            f"{len(found)}"
        )
    return found[0]


def direction(row: Row) -> str:
    """Return on which side of the required number the measured one must be."""
    return "at most" if row.at_most else "at least"


def required(row: Row, digits: int = 4) -> str:
    """Format the required number of a row: ``at most`` or ``at least`` the number."""
    return f"{direction(row)} {figure(row.required, digits)}"


def outcome(is_met: bool) -> str:
    """Return whether a measured number meets the required number, as the text of a cell."""
    return "met" if is_met else "**missed**"


def sentences(notes: Sequence[str]) -> list[str]:
    """Return the notes of a benchmark as sentences."""
    return [f"{note[0].upper()}{note[1:]}." for note in notes if note]
