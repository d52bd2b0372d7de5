"""What two stores hold, in one: audits of either, and of those in both the chunks of both, each counted once."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from dpwitness.auditors.running.spans import Segment
from dpwitness.auditors.storing.payload import unpack
from dpwitness.auditors.storing.store import Store, stage_number
from dpwitness.mechanisms.terms.validation import InvalidArgument

_Row = tuple[int, int, int, bytes]  # first, last, rounds, payload


@dataclass(frozen=True, slots=True)
class Merged:
    """How many audits and spans were added, and how many spans of both were found equal."""

    audits: int
    spans: int
    equal: int


def merge(into: Store, other: Store) -> Merged:
    """Add what `other` holds. Chunks that are in both must have given the same.

    Raises
    ------
    InvalidArgument
        If they have not: then the mechanism is no function of its seed, or one of the files is not what it says.
    """
    mine = {entry.hash: entry for entry in into.entries()}
    audits = spans = equal = 0
    with into.transaction() as connection:
        for entry in other.entries():
            here = mine.get(entry.hash)
            if here is None:
                audits += 1
                number = _copy_audit(connection, other.connection, entry.id)
            else:
                number = here.id
                _require_equal_plans(into, other, here.id, entry.id, entry.name)
                if here.verdict is None and entry.verdict is not None:
                    row = (entry.done, entry.planned, entry.ended, entry.verdict, _result(other, entry.id), here.id)
                    connection.execute("UPDATE audits SET done = ?, planned = ?, ended = ?, verdict = ?, result = ? WHERE id = ?", row)
            added, same = _copy_spans(connection, other, number, entry.id, entry.name)
            spans, equal = spans + added, equal + same
            connection.execute(
                "UPDATE audits SET done = max(done, ?) WHERE id = ?", (max(entry.done, here.done if here is not None else 0), number)
            )
    return Merged(audits, spans, equal)


def _result(store: Store, number: int) -> str | None:
    found: str | None = store.connection.execute("SELECT result FROM audits WHERE id = ?", (number,)).fetchone()[0]
    return found


def _copy_audit(connection: sqlite3.Connection, other: sqlite3.Connection, theirs: int) -> int:
    columns = "hash, name, identity, begun, planned, done, ended, verdict, result"
    row = other.execute(f"SELECT {columns} FROM audits WHERE id = ?", (theirs,)).fetchone()
    number = int(connection.execute(f"INSERT INTO audits ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid or 0)
    for table, columns in (("facts", "key, value"), ("looks", "runs, bound")):
        for first, second in other.execute(f"SELECT {columns} FROM {table} WHERE audit = ?", (theirs,)):
            connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", (number, first, second))
    return number


def _require_equal_plans(into: Store, other: Store, mine: int, theirs: int, name: str) -> None:
    """What both have settled must be the same, or the counts are of different events."""
    facts = [
        dict(store.connection.execute("SELECT key, value FROM facts WHERE audit = ?", (n,))) for store, n in ((into, mine), (other, theirs))
    ]
    for key in facts[0].keys() & facts[1].keys():
        if facts[0][key] != facts[1][key]:
            raise InvalidArgument(f"stores must agree, got {into.path} and {other.path}, which differ in {key} of {name}")
    for key in facts[1].keys() - facts[0].keys():
        into.connection.execute("INSERT INTO facts VALUES (?, ?, ?)", (mine, key, facts[1][key]))


def _copy_spans(connection: sqlite3.Connection, other: Store, mine: int, theirs: int, name: str) -> tuple[int, int]:
    """Add the spans that overlap none that is there; those that some of them cover exactly must agree with these."""
    added = equal = 0
    query = "SELECT id, phase, pair, single, rounds, chunk FROM stages WHERE audit = ?"
    for number, *stage in other.connection.execute(query, (theirs,)).fetchall():
        ours = stage_number(mine, *stage[:3])
        connection.execute("INSERT OR IGNORE INTO stages VALUES (?, ?, ?, ?, ?, ?, ?)", (ours, mine, *stage))
        here: list[_Row] = connection.execute("SELECT first, last, rounds, payload FROM spans WHERE stage = ?", (ours,)).fetchall()
        spans = "SELECT first, last, rounds, payload FROM spans WHERE stage = ? ORDER BY first"
        for first, last, rounds, payload in other.connection.execute(spans, (number,)).fetchall():
            within = sorted(row for row in here if row[0] < last and first < row[1])
            if not within:
                connection.execute("INSERT INTO spans VALUES (?, ?, ?, ?, ?)", (ours, first, last, rounds, payload))
                added += 1
            elif within[0][0] == first and within[-1][1] == last and sum(row[2] for row in within) == rounds:
                if not _sum([(row[0], row[3]) for row in within]).agrees(_sum([(first, payload)])):
                    raise InvalidArgument(
                        f"stores must agree, got {other.path} with other counts for chunks {first} to {last - 1} of {name}: "
                        "the mechanism is not a function of its seed"
                    )
                equal += 1
    return added, equal


def _sum(spans: list[tuple[int, bytes]]) -> Segment:
    total = Segment()
    for first, payload in spans:
        for _, part in unpack(first, payload).parts:
            total.add(part)
    return total
