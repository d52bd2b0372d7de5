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

from dpwitness.auditors.storing.identity import Identity, differences, hash_of
from dpwitness.mechanisms.terms.validation import InvalidArgument

APPLICATION = 0x6470776E  # "dpwn", in the file's header
VERSION = 1

_SCHEMA = """
CREATE TABLE audits (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, name TEXT NOT NULL, identity TEXT NOT NULL, begun REAL NOT NULL,
    planned INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, ended REAL, verdict TEXT, result TEXT);
CREATE TABLE facts (audit INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (audit, key)) WITHOUT ROWID;
CREATE TABLE looks (audit INTEGER NOT NULL, runs INTEGER NOT NULL, bound REAL NOT NULL, PRIMARY KEY (audit, runs)) WITHOUT ROWID;
CREATE TABLE stages (id INTEGER PRIMARY KEY, audit INTEGER NOT NULL, phase INTEGER NOT NULL, pair INTEGER NOT NULL,
    single INTEGER NOT NULL, rounds INTEGER NOT NULL, chunk INTEGER NOT NULL);
CREATE TABLE spans (stage INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, rounds INTEGER NOT NULL, payload BLOB NOT NULL,
    PRIMARY KEY (stage, first)) WITHOUT ROWID;
CREATE TABLE writer (process INTEGER NOT NULL, host TEXT NOT NULL, since REAL NOT NULL);
"""


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

    def entries(self) -> list[Entry]:
        """The audits in the order in which they were begun."""
        columns = "id, hash, name, identity, begun, planned, done, ended, verdict, result"
        rows = self.connection.execute(f"SELECT {columns} FROM audits ORDER BY begun, id").fetchall()
        told = [(*row[:3], json.loads(row[3]), *row[4:9], None if row[9] is None else json.loads(row[9])) for row in rows]
        return [Entry(*row) for row in told]

    def find(self, identity: Identity, name: str) -> Entry | None:
        """The entry of this audit. Where the store is `renewed`, one of its name with other content is dropped.

        Raises
        ------
        InvalidArgument
            If there is another one of this name, with what it differs in.
        """
        entries, wanted = self.entries(), hash_of(identity)
        for entry in entries:
            if entry.hash == wanted:
                return entry
        for entry in entries:
            if entry.name == name and self.renewed:
                self.drop(entry)
            elif entry.name == name:
                told = differences(entry.identity, identity)
                raise InvalidArgument(
                    f"store must hold this audit or none of its name, got {self.path}, where {name} has other content: {told}"
                )
        return None

    def begin(self, identity: Identity, name: str, planned: int) -> Entry:
        """Add an audit."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO audits (hash, name, identity, begun, planned) VALUES (?, ?, ?, ?, ?)",
                (hash_of(identity), name, json.dumps(identity), time.time(), planned),
            )
        found = self.find(identity, name)
        assert found is not None
        return found

    def drop(self, entry: Entry, *, only_chunks: bool = False) -> None:
        """Remove an audit, or of an audit all but its plan and its result."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM spans WHERE stage IN (SELECT id FROM stages WHERE audit = ?)", (entry.id,))
            for table in ("stages", "facts", "looks")[: 1 if only_chunks else 3]:
                connection.execute(f"DELETE FROM {table} WHERE audit = ?", (entry.id,))
            if not only_chunks:
                connection.execute("DELETE FROM audits WHERE id = ?", (entry.id,))


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
        _explained(path, lambda: _check(store))
    except BaseException:
        store.close()
        raise
    return store


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    place = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(place, uri=True, timeout=10.0, isolation_level=None, check_same_thread=False)


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
        store.connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        store.connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;")
    _check(store)
    with store.transaction() as connection:  # shows besides that the file can be written
        connection.execute("DELETE FROM writer")
        connection.execute("INSERT INTO writer VALUES (?, ?, ?)", (os.getpid(), os.uname().nodename, time.time()))


def _check(store: Store) -> None:
    application, version = (store.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if application != APPLICATION:
        raise InvalidArgument(f"store must be a store of dpwitness, got {store.path}: a database of something else")
    if version != VERSION:
        raise InvalidArgument(f"store must be of version {VERSION}, got {store.path} of version {version}")
    found = store.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise InvalidArgument(f"store must be whole, got {store.path}: {' '.join(str(found).split())}")


def _explained(path: Path, work: Callable[[], None]) -> None:
    try:
        work()
    except sqlite3.DatabaseError as error:
        raise InvalidArgument(f"store must be a sound file that can be written, got {path}: {error}") from None
