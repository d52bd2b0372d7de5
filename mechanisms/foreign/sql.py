"""A mechanism that is a database query: SQLite (of the standard library) or DuckDB (extra ``sql``), one run a query.

The dataset is a table in a database of its own, in memory, and what the query returns is the output of one run. A query that changes the
table, or anything else, is no query: SQLite refuses it, and after a batch the table must hold what was loaded.
"""

from __future__ import annotations

import datetime
import importlib
import math
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.foreign.slots import build_domain
from dpwitness.mechanisms.terms.libraries import Unheld, apart, library_of, values_of
from dpwitness.mechanisms.terms.notions import Claim, parse_claim
from dpwitness.mechanisms.terms.protocol import MechanismFailed
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_type, said, shown

ENGINES = ("sqlite", "duckdb")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_READ = {getattr(sqlite3, f"SQLITE_{word}") for word in ("SELECT", "READ", "FUNCTION", "RECURSIVE")}
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Query:
    """Runs a query on a table, once for each output.

    Parameters
    ----------
    dsn : str
        ``sqlite:///:memory:`` or ``duckdb:///:memory:``; a file instead of ``:memory:`` is opened to be read only, for the functions and
        macros that it defines, and is copied to memory.
    query : str
        One SELECT. Its rows are the output of a run: one number of one row as a number, other rows as a list of tuples.
    table : str
        The name that the query gives to the dataset.
    setup : str
        Statements that are run once before the table is loaded: views, macros, parameters.
    claim : str, optional
        What it promises.
    domain : Domain or dict, optional
        Its datasets: `Table`, as frames of any library, columns, or records.

    Raises
    ------
    InvalidArgument
        If the engine is not known or not installed, or the query is none.

    Examples
    --------
    >>> count = Query("sqlite:///:memory:", "SELECT count(*) FROM data WHERE age > 30")
    >>> count.sample({"age": [20, 40, 50]}, 2, np.random.default_rng(0)).tolist()
    [2.0, 2.0]
    """

    dsn: str
    query: str
    table: str = "data"
    setup: str = ""
    claim: Any = None
    domain: Any = None

    def __post_init__(self) -> None:
        for name in ("dsn", "query", "table", "setup"):
            require_type(name, getattr(self, name), str, "be a text", "Query")
        engine, _, file = self.dsn.partition(":///")
        if engine not in ENGINES or not file:
            raise InvalidArgument(f"Query: dsn must be sqlite:///FILE or duckdb:///FILE, FILE may be :memory:, got {shown(self.dsn)}")
        if not _NAME.fullmatch(self.table):
            raise InvalidArgument(f"Query: table must be a plain name, got {shown(self.table)}")
        if not self.query.strip():
            raise InvalidArgument("Query: query must be a SELECT, got nothing")
        if engine == "duckdb":
            _duckdb()
        if isinstance(self.claim, str):
            object.__setattr__(self, "claim", parse_claim(self.claim))
        if isinstance(self.domain, dict):
            object.__setattr__(self, "domain", build_domain(self.domain, "Query"))
        if not isinstance(self.claim, Claim | None) or not isinstance(self.domain, Domain | None):
            raise InvalidArgument(f"Query: claim and domain must be such, got {shown(self.claim)} and {shown(self.domain)}")

    @property
    def seeded(self) -> bool:
        """Whether the engine's random() takes a seed: SQLite's takes none, so its counts are not reproducible."""
        return self.dsn.startswith("duckdb")

    @property
    def __name__(self) -> str:
        return f"query on {self.dsn.partition(':')[0]}"

    def sample(self, dataset: Any, size: int, rng: Generator) -> Any:
        """Run the query `size` times.

        Raises
        ------
        MechanismFailed
            If the query changes the table, or the engine refuses it.
        """
        columns = columns_of(dataset)
        if not columns:
            raise MechanismFailed("a query needs a dataset with columns, got none: give a frame, or columns as a dict")
        with self._opened() as base:
            base.load(self.table, columns)
            before = base.rows(f'SELECT * FROM "{self.table}"')
            base.seed(float(rng.random()))
            try:
                found = [base.rows(self.query, guarded=True) for _ in range(size)]
            except _Refused as error:
                raise MechanismFailed(f"the query must only read: {error}") from None
            except Exception as error:
                raise MechanismFailed(f"the query cannot be run: {said(error)}") from None
            if base.rows(f'SELECT * FROM "{self.table}"') != before:
                raise MechanismFailed(f"the query changes the table {self.table}; it must leave it as it found it")
        return _outputs(found)

    @contextmanager
    def _opened(self) -> Iterator[_Base]:
        engine, _, file = self.dsn.partition(":///")
        with closing((_SQLite if engine == "sqlite" else _DuckDB)(file)) as base:
            try:
                base.run(self.setup)
            except Exception as error:
                raise MechanismFailed(f"the setup of the query raises {said(error)}") from None
            yield base


class _Refused(Exception):
    """What the engine says to a statement that would write."""


class _Base:
    """A database in memory."""

    def __init__(self, file: str) -> None:
        raise NotImplementedError

    held: Any

    def run(self, statements: str) -> None:
        """Several statements."""
        raise NotImplementedError

    def rows(self, query: str, guarded: bool = False) -> Rows:
        """What a query returns; `guarded`: one that may only read."""
        raise NotImplementedError

    def seed(self, number: float) -> None:
        """Seed random(), where it takes a seed."""

    def close(self) -> None:
        self.held.close()

    def load(self, table: str, columns: dict[str, list[Any]]) -> None:
        """Make the table."""
        names = ", ".join(f'"{name}" {self.type_of(values)}' for name, values in columns.items())
        self.held.execute(f'CREATE TABLE "{table}" ({names})')
        self.fill(table, list(columns.values()))

    def fill(self, table: str, columns: list[list[Any]]) -> None:
        """Put the rows into the table."""
        self.held.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', zip(*columns, strict=True))

    def type_of(self, values: Sequence[Any]) -> str:
        """The type of a column: that of its values."""
        kinds = {type(value) for value in values if value is not None}
        return (
            {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", datetime.date: "DATE"}.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else ""
        )


class _SQLite(_Base):
    def __init__(self, file: str) -> None:
        self.held = sqlite3.connect(":memory:", isolation_level=None)
        if file != ":memory:":
            try:
                with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as given:
                    given.backup(self.held)
            except sqlite3.Error as error:
                raise MechanismFailed(f"the database {file} cannot be read: {said(error)}") from None

    def run(self, statements: str) -> None:
        self.held.executescript(statements)

    def load(self, table: str, columns: dict[str, list[Any]]) -> None:
        plain = {name: [v.isoformat() if isinstance(v, datetime.date) else v for v in values] for name, values in columns.items()}
        super().load(table, plain)

    def type_of(self, values: Sequence[Any]) -> str:
        return {"VARCHAR": "TEXT", "DOUBLE": "REAL"}.get(found := super().type_of(values), found)

    def rows(self, query: str, guarded: bool = False) -> Rows:
        self.held.set_authorizer(_only_reading if guarded else None)
        try:
            found: Rows = self.held.execute(query).fetchall()
            return found
        except sqlite3.DatabaseError as error:
            if guarded and "not authorized" in str(error):
                raise _Refused(said(error)) from None
            raise


def _only_reading(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _READ else sqlite3.SQLITE_DENY


class _DuckDB(_Base):
    def __init__(self, file: str) -> None:
        engine = _duckdb()
        try:
            self.held = engine.connect(":memory:", config={"threads": 1})
            if file != ":memory:":
                path = file.replace("'", "''")
                self.held.execute(f"ATTACH '{path}' AS given (READ_ONLY); COPY FROM DATABASE given TO memory; DETACH given")
        except engine.Error as error:
            raise MechanismFailed(f"the database {file} cannot be read: {said(error)}") from None

    def run(self, statements: str) -> None:
        if statements.strip():
            self.held.execute(statements)

    def rows(self, query: str, guarded: bool = False) -> Rows:
        if guarded:
            kinds = {statement.type.name for statement in self.held.extract_statements(query)}
            if kinds - {"SELECT", "SELECT_STATEMENT"}:
                raise _Refused(f"it holds {', '.join(sorted(kinds))}")
        found: Rows = self.held.execute(query).fetchall()
        return found

    def fill(self, table: str, columns: list[list[Any]]) -> None:
        if columns[0]:  # of a whole column at once: row by row takes a thousand times as long
            self.held.execute(f'INSERT INTO "{table}" SELECT {", ".join(["unnest(?)"] * len(columns))}', columns)

    def seed(self, number: float) -> None:
        self.held.execute("SELECT setseed(?)", [number]).fetchall()

    def type_of(self, values: Sequence[Any]) -> str:
        return super().type_of(values) or "VARCHAR"


def _duckdb() -> Any:
    try:
        return importlib.import_module("duckdb")
    except ImportError:
        raise InvalidArgument("Query: duckdb is not installed: pip install 'dpwitness[sql]'") from None


def columns_of(dataset: Any) -> dict[str, list[Any]]:
    """A dataset as columns of plain values, None where missing: of a frame, of columns, of records, of an array (columns c0, c1, ...)."""
    try:
        if library_of(dataset) not in ("", "networkx"):
            found: dict[str, Any] = {str(name): values for name, values in values_of(apart(dataset)).items()}
        elif isinstance(dataset, dict):
            found = {str(name): np.asarray(v).tolist() if isinstance(v, np.ndarray) else list(v) for name, v in dataset.items()}
        elif isinstance(dataset, list) and dataset and all(isinstance(record, dict) for record in dataset):
            names = dict.fromkeys(name for record in dataset for name in record)
            found = {str(name): [record.get(name) for record in dataset] for name in names}
        else:
            table = np.asarray(dataset)
            table = table[:, None] if table.ndim == 1 else table
            found = {f"c{i}": column.tolist() for i, column in enumerate(table.T)}
    except (Unheld, TypeError, ValueError, IndexError) as error:
        raise MechanismFailed(f"a query needs a dataset that is a table, got {shown(dataset)}: {said(error)}") from None
    return {name: [_plain(value) for value in values] for name, values in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _outputs(found: list[Rows]) -> Any:
    """One number of each run as an array; anything else as a list of runs, each a list of rows."""
    single = all(len(rows) == 1 and len(rows[0]) == 1 and isinstance(rows[0][0], int | float) for rows in found)
    return np.array([rows[0][0] for rows in found], dtype=float) if single else found
