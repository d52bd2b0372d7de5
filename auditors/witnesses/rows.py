"""Rows of a store: columns and checksums.

Each row of an audit ends with a checksum of its other values. A checksum detects damage, such as a
flipped bit. It does not detect an edit by somebody who computes checksums. Against such edits,
bounds and verdicts are computed again from the counts (`recompute.py`).
"""

from __future__ import annotations

import hashlib
import numbers
import sqlite3
from typing import Any

APPLICATION = 0x6470776E  # "dpwn", in the file's header
VERSION = 2

_SCHEMA = """
CREATE TABLE audits (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, name TEXT NOT NULL, identity TEXT NOT NULL, begun REAL NOT NULL,
    planned INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, ended REAL, verdict TEXT, result TEXT, checksum TEXT NOT NULL);
CREATE TABLE facts (audit INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (audit, key)) WITHOUT ROWID;
CREATE TABLE looks (audit INTEGER NOT NULL, runs INTEGER NOT NULL, bound REAL NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (audit, runs)) WITHOUT ROWID;
CREATE TABLE stages (id INTEGER PRIMARY KEY, audit INTEGER NOT NULL, phase INTEGER NOT NULL, pair INTEGER NOT NULL,
    single INTEGER NOT NULL, rounds INTEGER NOT NULL, chunk INTEGER NOT NULL, checksum TEXT NOT NULL);
CREATE TABLE spans (stage INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, rounds INTEGER NOT NULL, payload BLOB NOT NULL,
    checksum TEXT NOT NULL, PRIMARY KEY (stage, first)) WITHOUT ROWID;
CREATE TABLE writer (process INTEGER NOT NULL, host TEXT NOT NULL, since REAL NOT NULL);
"""  # noqa: E501
COLUMNS = {
    "audits": (
        "id",
        "hash",
        "name",
        "identity",
        "begun",
        "planned",
        "done",
        "ended",
        "verdict",
        "result",
    ),
    "facts": ("audit", "key", "value"),
    "looks": ("audit", "runs", "bound"),
    "stages": ("id", "audit", "phase", "pair", "single", "rounds", "chunk"),
    "spans": ("stage", "first", "last", "rounds", "payload"),
}
# number of leading columns that identify a row
_KEYS = {"audits": 1, "facts": 2, "looks": 2, "stages": 1, "spans": 2}


def create(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.executescript(
        f"BEGIN; {_SCHEMA} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = "
        f"{VERSION}; COMMIT;"
    )


def checksum(values: tuple[Any, ...]) -> str:
    """Return a checksum of a row's values and their types."""
    found = hashlib.blake2b(digest_size=8)
    for value in values:
        content = (
            value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
        )
        found.update(f"{type(value).__name__} {len(content)} ".encode() + content)
    return found.hexdigest()


def insert_statement(
    table: str, *values: Any, how: str = "OR REPLACE"
) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that inserts a row with its checksum, and its values."""
    row = tuple(map(_to_sqlite, values))
    return f"INSERT {how} INTO {table} VALUES ({', '.join('?' * (len(row) + 1))})", (
        *row,
        checksum(row),
    )


def described(table: str, row: tuple[Any, ...]) -> str:
    """Return a text that names a row by its table and key."""
    keys = zip(COLUMNS[table][: _KEYS[table]], row, strict=False)
    return f"table {table}, " + ", ".join(f"{name} {str(value)[:40]!r}" for name, value in keys)


def _to_sqlite(value: Any) -> Any:
    """Return a value as SQLite returns it: NumPy's numbers become Python's."""
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value
