"""Store of audits in an SQLite file, with one writer at a time and any number of readers.

A writer holds an advisory lock on the file, which the operating system releases when the process
ends for any reason. Committed transactions survive any such end; chunks that were not committed are
run again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import numbers
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dpwitness.auditors.witnesses.kinds import recompute_bounds, require_field
from dpwitness.core.values.json_reader import file_kind
from dpwitness.core.values.validation import InvalidArgument

Identity = dict[str, str]  # parts of an audit on which its counts depend, as text or hash


@dataclass(frozen=True, slots=True)
class StoredAudit:
    """An audit in a store, with `done` of `planned` runs. `result` is its result as JSON, or None
    until the audit ends.
    """

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

    @property
    def contradiction(self) -> str:
        """How the result contradicts its counts or the verdict; empty if all of them agree."""
        if self.result is None:
            return ""
        try:
            recompute_bounds(self.result)
            require_field(self.result, "verdict", self.verdict, self.result.get("verdict"))
        except InvalidArgument as error:
            return f"store is damaged or edited at audit {self.name}: {error}"
        return ""


@contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Raise InvalidArgument for an error of SQLite in the context."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        raise InvalidArgument(
            f"store must be an intact file that can be written, got {path}: {error}"
        ) from error


class Store:
    """An open store. `open_store` opens a store to write, `read_store` to read only."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.path, self.connection, self._lock = path, connection, lock
        # whether an audit replaces a stored audit of its name, as in a suite that is run again with
        # other settings
        self.renewed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and release its lock."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()
        # after SQLite has closed its descriptor, since closing one descriptor releases all locks of
        # the process
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the statements of a `with` block as one transaction: all of them take effect, or
        none.
        """
        with reporting_damage(self.path):
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
                raise

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raise InvalidArgument if the file is damaged."""
        with reporting_damage(self.path):
            return self.connection.execute(statement, values).fetchall()

    def _read(
        self, table: str, where: str = "1", *values: Any
    ) -> list[tuple[Any, tuple[Any, ...], bool]]:
        """Return the number of the audit, the values, and whether the checksum is right, for each
        row of a table that a condition selects.
        """
        columns = ", ".join(COLUMNS[table])
        query = f"SELECT {_AUDIT[table]}, {columns}, checksum FROM {table} WHERE {where}"
        return [
            (audit, tuple(row), stored == checksum(tuple(row)))
            for audit, *row, stored in self.query(query, *values)
        ]

    def rows(self, table: str, where: str = "1", *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a table that a condition selects. Raise InvalidArgument if one of them
        has a wrong checksum.
        """
        found = self._read(table, where, *values)
        for audit, row, intact in found:
            if not intact:
                raise self._damaged(f"audit {audit}", describe(table, row))
        return [row for _, row, _ in found]

    def damage(self, *, spans: bool = False) -> dict[Any, str]:
        """Return a description of a row with a wrong checksum for each damaged audit, by the number
        of the audit. Rows of spans take long to read, and are checked only with `spans`.
        """
        return {
            audit: describe(table, row)
            for table in COLUMNS
            if spans or table != "spans"
            for audit, row, intact in self._read(table)
            if not intact
        }

    def require_intact(self, audit: int, name: str) -> None:
        """Raise InvalidArgument if a row of an audit is damaged, or a row that may be a row of this
        audit because the store has no audit with its number.
        """
        others = {number for (number,) in self.query("SELECT id FROM audits WHERE id != ?", audit)}
        for number, row in self.damage().items():
            if number not in others:
                raise self._damaged(f"audit {name}", row)

    def _damaged(self, where: str, row: str) -> InvalidArgument:
        """Return the exception for a damaged audit."""
        return InvalidArgument(
            f"store is damaged at {where} ({row}), got {self.path}: use another store, or remove "
            f"damaged audits with `dpwitness store gc {self.path}`"
        )

    def write(self, table: str, *values: Any) -> None:
        """Insert a row, or replace the row with the same key, at once."""
        with self.transaction() as connection:
            connection.execute(*insert_statement(table, *values))

    def reseal(self, audit: int) -> None:
        """Compute the checksum of an audit's row again after an update."""
        columns, update = (
            ", ".join(COLUMNS["audits"]),
            "UPDATE audits SET checksum = ? WHERE id = ?",
        )
        for row in self.query(f"SELECT {columns} FROM audits WHERE id = ?", audit):
            self.connection.execute(update, (checksum(row), audit))

    def entries(self) -> list[StoredAudit]:
        """Return the audits in the order in which they began, except for audits whose own row is
        damaged.
        """
        rows = [row for _, row, intact in self._read("audits", "1 ORDER BY begun, id") if intact]
        read = [
            (*row[:3], json.loads(row[3]), *row[4:9], json.loads(row[9] or "null")) for row in rows
        ]
        return [StoredAudit(*row) for row in read]

    def find(self, identity: Identity, name: str) -> StoredAudit | None:
        """Return the entry of this audit, or None. If the store is `renewed`, drop an audit of this
        name with other content.

        Raises
        ------
        InvalidArgument
            If the audit is damaged, or if the store holds another audit of this name; the message
            lists the differences.
        """
        wanted = identity_hash(identity)
        same = "SELECT id FROM audits WHERE hash = ? OR name = ?"
        for (number,) in self.query(same, wanted, name):
            self.require_intact(number, name)
        entries = self.entries()
        found = next((entry for entry in entries if entry.hash == wanted), None)
        for entry in (entry for entry in entries if found is None and entry.name == name):
            if not self.renewed:
                raise InvalidArgument(
                    f"store must hold this audit or none of its name, got {self.path}, where "
                    f"{name} has other content: {differences(entry.identity, identity)}; use "
                    "another store or another name"
                )
            self.drop(entry.id)
        return found

    def begin(self, identity: Identity, name: str, planned: int) -> StoredAudit:
        """Add an audit and return its entry."""
        with self.transaction() as connection:
            number = 1 + (self.query("SELECT max(id) FROM audits")[0][0] or 0)
            key, begun = identity_hash(identity), time.time()
            row = (number, key, name, json.dumps(identity), begun, planned, 0, None, None, None)
            connection.execute(*insert_statement("audits", *row, how=""))
        return StoredAudit(number, key, name, identity, begun, planned, 0, None, None, None)

    def drop(self, audit: Any, *, only_chunks: bool = False) -> None:
        """Remove all rows of an audit. With `only_chunks`, keep its plan and its result."""
        with self.transaction() as connection:
            for table in ("spans", "stages") if only_chunks else COLUMNS:
                connection.execute(f"DELETE FROM {table} WHERE {_AUDIT[table]} IS ?", (audit,))


def identity_hash(identity: Identity) -> str:
    """Return one hash of all parts."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def differences(there: Identity, here: Identity) -> str:
    """Return a description of the parts that differ between a stored identity and the
    present one.
    """
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return "; ".join(
        f"{name}: {there.get(name, 'not stated')} there, {here.get(name, 'not stated')} here"
        for name in names
    )


def stage_number(audit: int, phase: int, pair: int, single: bool) -> int:
    """Return the row number of a stage.

    The number is a formula of the key, so that a row can be written together with the spans that
    refer to it.
    """
    return ((audit * 2**8 + phase) * 2**20 + pair) * 2 + int(single)


def open_store(path: str | os.PathLike[str], *, create: bool = True) -> Store:
    """Open a store to write. If the file is missing, create it, or refuse with ``create=False``.

    Raise InvalidArgument if the file is not an intact store of a known version that can be written,
    or if another process writes to it.
    """
    path, flags = Path(path), os.O_RDWR | os.O_NONBLOCK
    try:
        lock = os.open(path, flags | os.O_CREAT if create else flags, 0o666)
    except OSError as error:
        reason = str(error.strerror).lower()
        raise InvalidArgument(
            f"store must be a file that can be written, got {path}: {reason}"
        ) from None
    with reporting_damage(path):
        try:
            if not stat.S_ISREG(mode := os.fstat(lock).st_mode):
                raise InvalidArgument(
                    f"store must be a regular file, got {path}, which is a {file_kind(mode)}"
                )
            if not create and not os.fstat(lock).st_size:
                raise InvalidArgument(
                    f"store must be a store of dpwitness, got {path}: it is empty"
                )
            _acquire_lock(lock, path)
            store = Store(path, _connect(path, "rw"), lock)
        except BaseException:
            os.close(lock)
            raise
        return _opened(store, _prepare)


def read_store(path: str | os.PathLike[str]) -> Store:
    """Open a store to read only, also while another process writes. Raises InvalidArgument if the
    file is not a store.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidArgument(f"store must be an existing file, got {path}")
    with reporting_damage(path):
        return _opened(Store(path, _connect(path, "ro"), None), _require_version)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to the file, in SQLite's mode ``rw`` or ``ro``."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=10.0,
        isolation_level=None,
        check_same_thread=False,
    )
    # a damaged text is found by its checksum
    connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    return connection


def _acquire_lock(lock: int, path: Path) -> None:
    """Take the lock of the file. Raise InvalidArgument with the holder if another process holds the
    lock.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        who = "another process"
        with contextlib.suppress(Exception), contextlib.closing(_connect(path, "ro")) as connection:
            who = "process {} on {}".format(
                *connection.execute("SELECT process, host FROM writer").fetchone()
            )
        raise InvalidArgument(
            f"store must be free, got {path}: {who} is at work on it; wait, or use another store"
        ) from None


def _prepare(store: Store) -> None:
    """Create the tables of a store that is opened to write, and record this process as
    its writer.
    """
    # a power cut may undo the last transaction, but cannot leave a part of one
    store.connection.execute("PRAGMA synchronous = NORMAL")
    empty = store.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if empty and not store.connection.execute("PRAGMA application_id").fetchone()[0]:
        _create_tables(store.connection)
    _require_version(store)
    with store.transaction() as connection:  # also fails here if the file cannot be written
        connection.execute("DELETE FROM writer")
        connection.execute(
            "INSERT INTO writer VALUES (?, ?, ?)", (os.getpid(), os.uname().nodename, time.time())
        )


def _require_version(store: Store) -> None:
    """Raise InvalidArgument if the file is not a store, or its structure is damaged."""
    application, version = (
        store.connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    )
    if application != APPLICATION:
        raise InvalidArgument(
            f"store must be a store of dpwitness, got {store.path}: a database of something else"
        )
    if version != VERSION:
        raise InvalidArgument(
            f"store must be of version {VERSION}, got {store.path} of version {version}; use "
            "another store"
        )
    found = store.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise InvalidArgument(
            f"store must be undamaged, got {store.path}: {' '.join(str(found).split())}; use "
            "another store"
        )


def _opened(store: Store, prepare: Callable[[Store], None]) -> Store:
    """Return the store after `prepare`, or close the store if `prepare` raises."""
    try:
        prepare(store)
    except BaseException:
        store.close()
        raise
    return store


APPLICATION = 0x6470776E  # "dpwn", in the file's header
VERSION = 2

_SCHEMA = """
CREATE TABLE audits (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, name TEXT NOT NULL, identity TEXT NOT NULL, begun REAL NOT NULL,
    planned INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, ended REAL, verdict TEXT, result TEXT, checksum TEXT NOT NULL);
CREATE TABLE facts (audit INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (audit, key)) WITHOUT ROWID;
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
    "stages": ("id", "audit", "phase", "pair", "single", "rounds", "chunk"),
    "spans": ("stage", "first", "last", "rounds", "payload"),
}
# SQL expression of the number of a row's audit
_AUDIT = {"audits": "id", "facts": "audit", "stages": f"id / {2**29}", "spans": f"stage / {2**29}"}


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.executescript(
        f"BEGIN; {_SCHEMA} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = "
        f"{VERSION}; COMMIT;"
    )


def describe(table: str, row: tuple[Any, ...]) -> str:
    """Return the table and the first columns of a row."""
    first = zip(COLUMNS[table][:3], row, strict=False)
    return f"table {table}, " + ", ".join(f"{name} {str(value)[:40]!r}" for name, value in first)


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
    # as SQLite returns them: NumPy's numbers become Python's
    row = tuple(
        int(value)
        if isinstance(value, numbers.Integral)
        else float(value)
        if isinstance(value, numbers.Real)
        else value
        for value in values
    )
    return f"INSERT {how} INTO {table} VALUES ({', '.join('?' * (len(row) + 1))})", (
        *row,
        checksum(row),
    )
