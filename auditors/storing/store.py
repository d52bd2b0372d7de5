"""The store's file: SQLite, one writer at a time, any number of readers.

A writer holds an advisory lock on the file for as long as it lives, which the system takes back however it ends. What a transaction has
written is there after any end; what it has not is run again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dpwitness.auditors.results.recomputed import recompute_bounds
from dpwitness.auditors.storing.identity import Identity, differences, hash_of
from dpwitness.auditors.storing.rows import APPLICATION, COLUMNS, VERSION, checksum, create, described, insertion, upgrade
from dpwitness.mechanisms.terms.validation import InvalidArgument

_MOST_AUDITS = 2**32  # numbers of audits; a larger one is damaged


@dataclass(frozen=True, slots=True)
class Entry:
    """An audit in a store: `done` runs of `planned`; `result` as JSON once it has ended."""

    id: int
    hash: str
    name: str
    identity: Identity
    begun: float
    planned: int
    done: int
    ended: float | None
    verdict: str | None
    result: Any

    def require_consistent(self) -> None:
        """Raise InvalidArgument unless bounds and verdict of the result follow from its counts."""
        if self.result is None:
            return
        try:
            found = recompute_bounds(self.result).verdict.value
        except InvalidArgument as error:
            raise InvalidArgument(f"store is damaged or edited at audit {self.name}: {error}") from None
        if found != self.verdict:
            raise InvalidArgument(f"store is damaged or edited at audit {self.name}: its result is {found}, its row says {self.verdict}")


@dataclass(frozen=True, slots=True)
class Damage:
    """A row whose checksum is wrong: the audit that it names, which may be none; the audit's name, if the row has it; table and key."""

    audit: Any
    name: str | None
    row: str


class Store:
    """An open store. `open_store` opens one to write, `read_store` one to look at."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.path, self.connection, self._lock = path, connection, lock
        self.renewed = False  # of a suite, whose cases keep their names when it is run anew with other settings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, and leave it to the next."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()
        if self._lock is not None:  # after SQLite has closed its own: a closed descriptor takes the process' locks along
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is written within, or nothing."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
            self.connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raise InvalidArgument if the file is damaged."""
        try:
            return self.connection.execute(statement, values).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise InvalidArgument(f"store is damaged, got {self.path}: {error}") from None

    def rows(self, table: str, where: str = "1", *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a table that a condition selects. Raise InvalidArgument if the checksum of one is wrong."""
        found = self._sums(table, where, *values)
        for row, intact in found:
            if not intact:
                raise InvalidArgument(f"store is damaged, got {self.path}: the checksum of a row is wrong ({described(table, row)})")
        return [row for row, _ in found]

    def _sums(self, table: str, where: str = "1", *values: Any) -> list[tuple[tuple[Any, ...], bool]]:
        """Rows, and whether the checksum of each is right."""
        query = f"SELECT {', '.join(COLUMNS[table])}, checksum FROM {table} WHERE {where}"
        return [(row[:-1], row[-1] == checksum(row[:-1])) for row in self.query(query, *values)]

    def write(self, table: str, *values: Any) -> None:
        """Insert a row, or replace the one with its key, at once."""
        self.connection.execute(*insertion(table, *values))

    def reseal(self, audit: int) -> None:
        """Compute the checksum of an audit's row again after an update."""
        for row in self.query(f"SELECT {', '.join(COLUMNS['audits'])} FROM audits WHERE id = ?", audit):
            self.connection.execute("UPDATE audits SET checksum = ? WHERE id = ?", (checksum(row), audit))

    def entries(self) -> list[Entry]:
        """Return the audits in the order in which they were begun, without those whose row is damaged."""
        rows = sorted((row for row, intact in self._sums("audits") if intact), key=lambda row: (row[4], row[0]))
        told = [(*row[:3], self._read(row[3]), *row[4:9], None if row[9] is None else self._read(row[9])) for row in rows]
        return [Entry(*row) for row in told]

    def _read(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:  # of a store of version 1: its rows had no checksums
            raise InvalidArgument(f"store is damaged, got {self.path}: a text of table audits is not JSON ({error})") from None

    def damage(self, *, spans: bool = False) -> list[Damage]:
        """Find the rows whose checksum is wrong; those of spans, which take long to read, only if asked for."""
        found = []
        for table in ("audits", "facts", "looks", "stages", *(["spans"] if spans else [])):
            for row, intact in self._sums(table):
                if not intact:
                    place = {"audits": row[0], "stages": row[1], "spans": row[0]}.get(table, row[0])
                    if table == "spans" and isinstance(place, int):
                        place = place // 2**29
                    found.append(Damage(place, row[2] if table == "audits" else None, described(table, row)))
        return found

    def require_intact(self, entry: Entry) -> None:
        """Raise InvalidArgument if a row of this audit is damaged."""
        for damage in self.damage():
            if damage.audit == entry.id:
                raise self._damaged(entry.name, damage)

    def _damaged(self, name: str, damage: Damage) -> InvalidArgument:
        return InvalidArgument(
            f"store is damaged at audit {name} ({damage.row}), got {self.path}: "
            f"use another store, or remove what is damaged with `dpwitness store gc {self.path}`; other audits of this store can be used"
        )

    def find(self, identity: Identity, name: str) -> Entry | None:
        """Return the entry of this audit. Where the store is `renewed`, drop one of its name with other content.

        Raises
        ------
        InvalidArgument
            If there is another one of this name, with what it differs in; if the one that is there is damaged.
        """
        entries, wanted = self.entries(), hash_of(identity)
        for entry in entries:
            if entry.hash == wanted:
                self.require_intact(entry)
                return entry
        for row, intact in self._sums("audits"):
            if not intact and (row[1] == wanted or row[2] == name):
                raise self._damaged(name, Damage(row[0], row[2], described("audits", row)))
        for entry in entries:
            if entry.name == name and self.renewed:
                self.drop(entry.id)
            elif entry.name == name:
                told = differences(entry.identity, identity)
                raise InvalidArgument(
                    f"store must hold this audit or none of its name, got {self.path}, where {name} has other content: {told}"
                )
        return None

    def begin(self, identity: Identity, name: str, planned: int) -> Entry:
        """Add an audit."""
        with self.transaction() as connection:
            values = (hash_of(identity), name, json.dumps(identity), time.time(), planned, 0, None, None, None)
            number = 1 + max((row[0] for row, _ in self._sums("audits") if row[0] < _MOST_AUDITS), default=0)
            connection.execute(*insertion("audits", number, *values, how=""))
        found = self.find(identity, name)
        assert found is not None
        return found

    def drop(self, audit: int, *, only_chunks: bool = False) -> None:
        """Remove an audit, or of an audit all but its plan and its result."""
        with self.transaction() as connection:
            ends = (stage_number(audit, 0, 0, False), stage_number(audit + 1, 0, 0, False))
            connection.execute("DELETE FROM spans WHERE stage >= ? AND stage < ?", ends)
            for table in ("stages", "facts", "looks")[: 1 if only_chunks else 3]:
                connection.execute(f"DELETE FROM {table} WHERE audit = ?", (audit,))
            if not only_chunks:
                connection.execute("DELETE FROM audits WHERE id = ?", (audit,))

    def clear_damage(self) -> int:
        """Remove every audit with a damaged row, and damaged rows that belong to none. Return how many audits were removed."""
        damaged = {damage.audit for damage in self.damage(spans=True)}
        known = {row[0] for row, _ in self._sums("audits")}
        for audit in damaged & known:
            self.drop(audit)
        with self.transaction() as connection:
            for table in COLUMNS:
                rows = self._sums(table)
                if all(intact for _, intact in rows):
                    continue
                connection.execute(f"DELETE FROM {table}")  # the key of a damaged row may not lead to it
                for row in (row for row, intact in rows if intact):
                    self.write(table, *row)
        return len(damaged & known)


def stage_number(audit: int, phase: int, pair: int, single: bool) -> int:
    """The row of a stage: a formula, so that it may be written together with the spans that refer to it."""
    return ((audit * 2**8 + phase) * 2**20 + pair) * 2 + int(single)


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open a store to write to it; made if there is none.

    Raises
    ------
    InvalidArgument
        If the file is no store, is damaged, of another version, cannot be written, or another process writes to it.
    """
    path = Path(path)
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InvalidArgument(f"store must be a file that can be written, got {path}: {(error.strerror or str(error)).lower()}") from None
    try:
        _take(lock, path)
        store = Store(path, _connect(path, "rw"), lock)
    except BaseException:
        os.close(lock)
        raise
    try:
        _explained(path, lambda: _prepare(store))
    except BaseException:
        store.close()
        raise
    return store


def read_store(path: str | os.PathLike[str]) -> Store:
    """Open a store to look at it, also while another process writes. Raises InvalidArgument if it is none."""
    path = Path(path)
    if not path.is_file():
        raise InvalidArgument(f"store must be an existing file, got {path}")
    store = Store(path, _connect(path, "ro"), None)
    try:
        _explained(path, lambda: _read_old(store))
    except BaseException:
        store.close()
        raise
    return store


def _read_old(store: Store) -> None:
    """Check a store that is opened to read; one of version 1 is copied to memory and upgraded there."""
    if _check(store) < VERSION:
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        memory.text_factory = store.connection.text_factory
        store.connection.backup(memory)
        store.connection.close()
        store.connection = memory
        upgrade(memory)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    place = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(place, uri=True, timeout=10.0, isolation_level=None, check_same_thread=False)
    connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")  # a damaged text is found by its checksum
    return connection


def _take(lock: int, path: Path) -> None:
    """Hold the lock, or say who does."""
    try:
        import fcntl
    except ImportError:  # not on this system: SQLite's own locks keep two writers apart, a transaction at a time
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        who = "another process"
        with contextlib.suppress(Exception), contextlib.closing(_connect(path, "ro")) as connection:
            who = "process {} on {}".format(*connection.execute("SELECT process, host FROM writer").fetchone())
        raise InvalidArgument(f"store must be free, got {path}: {who} is at work on it") from None


def _prepare(store: Store) -> None:
    store.connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may take the last transaction, and can tear none
    empty = store.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if empty and not store.connection.execute("PRAGMA application_id").fetchone()[0]:
        create(store.connection)
    if _check(store) < VERSION:
        upgrade(store.connection)
    with store.transaction() as connection:  # shows besides that the file can be written
        connection.execute("DELETE FROM writer")
        connection.execute("INSERT INTO writer VALUES (?, ?, ?)", (os.getpid(), os.uname().nodename, time.time()))


def _check(store: Store) -> int:
    """Return the version of a store. Raise InvalidArgument if the file is none, or its structure is damaged."""
    application, version = (store.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if application != APPLICATION:
        raise InvalidArgument(f"store must be a store of dpwitness, got {store.path}: a database of something else")
    if version not in range(1, VERSION + 1):
        raise InvalidArgument(f"store must be of version 1 to {VERSION}, got {store.path} of version {version}")
    found = store.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise InvalidArgument(f"store must be whole, got {store.path}: {' '.join(str(found).split())}")
    return int(version)


def _explained(path: Path, work: Callable[[], None]) -> None:
    try:
        work()
    except (sqlite3.Error, UnicodeError) as error:
        raise InvalidArgument(f"store must be a sound file that can be written, got {path}: {error}") from None
