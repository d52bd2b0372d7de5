"""Mechanism given by a database query: SQLite (of the standard library) or DuckDB (extra ``sql``),
one query per run.

The dataset is a table in an in-memory database, and the result of the query is the output of one
run. Each thread loads a dataset once. After loading, the engine refuses writes, and a query that
tries to write is refused.
"""

from __future__ import annotations

import datetime
import importlib
import math
import pickle
import re
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import numpy as np
from numpy.random import Generator

from dpwitness.core.claims import Claim, parse_claim
from dpwitness.core.domains import Domain
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.dataframe_backends import (
    UnsupportedData,
    library_name,
    to_parts,
    values_of,
)
from dpwitness.core.values.validation import (
    InvalidArgument,
    error_text,
    import_problem,
    require_type,
    short_repr,
)
from dpwitness.mechanisms.wrappers.programs.worker_pool import build_domain

ENGINES = ("sqlite", "duckdb")
_THREAD = threading.local()
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_READ_ACTIONS = {
    getattr(sqlite3, f"SQLITE_{word}") for word in ("SELECT", "READ", "FUNCTION", "RECURSIVE")
}
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Query:
    """Mechanism that runs a query on a table, once for each output.

    Parameters
    ----------
    dsn : str
        ``sqlite:///:memory:`` or ``duckdb:///:memory:``. A file instead of ``:memory:`` is opened
        read-only, for its functions and macros, and copied to memory.
    query : str
        One SELECT. Its rows are the output of a run: a single number, or a list of tuples.
    table : str
        Name of the dataset in the query.
    setup : str
        Statements that are run once before the table is loaded, such as views, macros and
        parameters.
    claim : str, optional
        Privacy claim of the query.
    domain : Domain or dict, optional
        Domain of the datasets, such as `Table`. Datasets are frames of any library, columns, or
        records.

    Raises
    ------
    InvalidArgument
        If the engine is unknown or not installed, the query is empty, or another argument is
        invalid.

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
            raise InvalidArgument(
                "Query: dsn must be sqlite:///FILE or duckdb:///FILE, FILE may be :memory:, "
                f"got {short_repr(self.dsn)}"
            )
        if not _NAME.fullmatch(self.table):
            raise InvalidArgument(
                f"Query: table must be a plain name, got {short_repr(self.table)}"
            )
        if not self.query.strip():
            raise InvalidArgument("Query: query must be a SELECT, got nothing")
        if engine == "duckdb":
            _import_duckdb()
        if isinstance(self.claim, str):
            object.__setattr__(self, "claim", parse_claim(self.claim))
        if isinstance(self.domain, dict):
            object.__setattr__(self, "domain", build_domain(self.domain, "Query"))
        if not isinstance(self.claim, Claim | None) or not isinstance(self.domain, Domain | None):
            raise InvalidArgument(
                "Query: claim must be a claim and domain a domain, got "
                f"{short_repr(self.claim)} and {short_repr(self.domain)}"
            )

    @property
    def seeded(self) -> bool:
        """Whether the engine's random() takes a seed. SQLite's takes none, so its counts are not
        reproducible.
        """
        return self.dsn.startswith("duckdb")

    @property
    def __name__(self) -> str:
        return f"query on {self.dsn.partition(':')[0]}"

    def sample(self, dataset: Any, size: int, rng: Generator) -> Any:
        """Return the outputs of `size` runs of the query.

        Raises
        ------
        MechanismFailed
            If the query changes the table, or the engine refuses it.
        """
        base = self._database(columns_of(dataset))
        base.seed(float(rng.random()))
        try:
            base.check(self.query)
            found = [base.rows(self.query) for _ in range(size)]
        except Exception as error:
            # DuckDB runs no further statement after an error
            _THREAD.kept = [each for each in _THREAD.kept if each[2] is not base]
            if isinstance(error, RefusedStatement) or base.refuses(error):
                raise MechanismFailed(f"the query must only read: {error_text(error)}") from None
            raise MechanismFailed(f"the query cannot be run: {error_text(error)}") from None
        # an array if each run returned one number, otherwise a list of runs, each a list of rows
        single = all(
            len(rows) == 1 and len(rows[0]) == 1 and isinstance(rows[0][0], int | float)
            for rows in found
        )
        return np.array([rows[0][0] for rows in found], dtype=float) if single else found

    def _database(self, columns: dict[str, list[Any]]) -> _SQLite | _DuckDB:
        """Return the database with the dataset loaded, cached for the next batches of
        this thread.
        """
        if not columns:
            raise MechanismFailed(
                "a query needs a dataset with columns, got none: give a frame, or columns as a dict"
            )
        kept, fingerprint = _THREAD.__dict__.setdefault("kept", []), pickle.dumps(columns)
        for query, known, loaded in kept:
            if query is self and known == fingerprint:
                return cast(_SQLite, loaded)
        engine, _, file = self.dsn.partition(":///")
        base: _SQLite | _DuckDB = (_SQLite if engine == "sqlite" else _DuckDB)(file)
        try:
            base.run(self.setup)
        except Exception as error:
            raise MechanismFailed(f"the setup of the query raises {error_text(error)}") from None
        if base.has(self.table):
            raise MechanismFailed(
                f"the table {self.table} must be the dataset, but this name is taken by the "
                "database or the setup: choose another"
            )
        try:
            base.load(self.table, columns)
            base.lock()
        except Exception as error:
            raise MechanismFailed(
                f"the dataset cannot be made the table {self.table}: {error_text(error)}"
            ) from None
        kept.append((self, fingerprint, base))
        # a thread keeps at most 4 databases loaded
        if len(kept) > 4:
            kept.pop(0)[2].held.close()
        return base


class RefusedStatement(Exception):
    """Error of a statement that does more than read; the text is the reason."""


class _Base:
    """Base class of in-memory databases; `run` runs several statements, and `lock` refuses all
    writes from then on.
    """

    held: Any

    def rows(self, query: str) -> Rows:
        """Return the rows of a query."""
        found: Rows = self.held.execute(query).fetchall()
        return found

    def has(self, table: str) -> bool:
        """Return whether a table or view of this name exists."""
        try:
            self.rows(f'SELECT 1 FROM "{table}" LIMIT 1')
        except Exception:
            return False
        return True

    def check(self, query: str) -> None:
        """Raise RefusedStatement unless the query is one SELECT."""

    def refuses(self, error: Exception) -> bool:
        """Return whether an error of the engine means that a statement tried to write."""
        return "read-only" in str(error)

    def seed(self, number: float) -> None:
        """Seed the engine's random(), if it takes a seed."""

    def load(self, table: str, columns: dict[str, list[Any]]) -> None:
        """Create the table and insert the rows."""
        names = ", ".join(
            f'"{name.replace(chr(34), 2 * chr(34))}" {self.type_of(values)}'
            for name, values in columns.items()
        )
        self.held.execute(f'CREATE TABLE "{table}" ({names})')
        self.fill(table, list(columns.values()))

    def fill(self, table: str, columns: list[list[Any]]) -> None:
        """Insert the rows into the table."""
        self.held.executemany(
            f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})',
            zip(*columns, strict=True),
        )

    def type_of(self, values: Sequence[Any]) -> str:
        """Return the SQL type of a column, from the types of its values."""
        kinds = {type(value) for value in values if value is not None}
        names = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", datetime.date: "DATE"}
        return names.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else ""


class _SQLite(_Base):
    """In-memory SQLite database."""

    def __init__(self, file: str) -> None:
        self.held = sqlite3.connect(":memory:", isolation_level=None)
        if file != ":memory:":
            try:
                with closing(sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True)) as given:
                    given.backup(self.held)
            except sqlite3.Error as error:
                raise MechanismFailed(
                    f"the database {file} cannot be read: {error_text(error)}"
                ) from None

    def run(self, statements: str) -> None:
        self.held.set_authorizer(
            lambda action, *_: (
                sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
            )
        )
        self.held.executescript(statements)
        self.held.set_authorizer(None)

    def load(self, table: str, columns: dict[str, list[Any]]) -> None:
        plain = {
            name: [v.isoformat() if isinstance(v, datetime.date) else v for v in values]
            for name, values in columns.items()
        }
        super().load(table, plain)

    def lock(self) -> None:
        self.held.execute("PRAGMA query_only = 1")
        self.held.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _READ_ACTIONS else sqlite3.SQLITE_DENY
        )

    def rows(self, query: str) -> Rows:
        found = self.held.execute(query)
        if found.description is None:
            raise RefusedStatement("it is not a SELECT")
        return list(found)

    def refuses(self, error: Exception) -> bool:
        return "not authorized" in str(error) or "readonly" in str(error)


class _DuckDB(_Base):
    """In-memory DuckDB database."""

    def __init__(self, file: str) -> None:
        engine = _import_duckdb()
        try:
            self.held = engine.connect(
                ":memory:",
                config={
                    "threads": 1,
                    "python_enable_replacements": False,
                    "autoinstall_known_extensions": False,
                },
            )
            if file != ":memory:":
                path = file.replace("'", "''")
                self.held.execute(
                    f"ATTACH '{path}' AS given (READ_ONLY); COPY FROM DATABASE given TO "
                    "memory; DETACH given"
                )
        except engine.Error as error:
            raise MechanismFailed(
                f"the database {file} cannot be read: {error_text(error)}"
            ) from None

    def run(self, statements: str) -> None:
        if found := self._statement_types(statements) & {
            "ATTACH",
            "COPY",
            "COPY_DATABASE",
            "EXPORT",
        }:
            raise RefusedStatement(f"it holds {', '.join(sorted(found))}, which may write files")
        if statements.strip():
            self.held.execute(statements)

    def _statement_types(self, statements: str) -> set[str]:
        return {statement.type.name for statement in self.held.extract_statements(statements)}

    def lock(self) -> None:
        self.held.execute("BEGIN TRANSACTION READ ONLY")

    def check(self, query: str) -> None:
        if (
            self._statement_types(query) != {"SELECT"}
            or len(self.held.extract_statements(query)) != 1
        ):
            raise RefusedStatement(
                "the query must be one SELECT statement, got "
                f"{', '.join(sorted(self._statement_types(query))) or 'nothing'}"
            )

    def fill(self, table: str, columns: list[list[Any]]) -> None:
        if columns[0]:  # all columns at once: row by row takes a thousand times as long
            self.held.execute(
                f'INSERT INTO "{table}" SELECT {", ".join(["unnest(?)"] * len(columns))}', columns
            )

    def seed(self, number: float) -> None:
        self.held.execute("SELECT setseed(?)", [number]).fetchall()

    def type_of(self, values: Sequence[Any]) -> str:
        return super().type_of(values) or "VARCHAR"


def _import_duckdb() -> Any:
    """Return the module duckdb. Raise InvalidArgument if it cannot be imported."""
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        why = import_problem("duckdb", error, "pip install 'dpwitness[sql]'")
        raise InvalidArgument(f"Query: {why}") from None


def columns_of(dataset: Any) -> dict[str, list[Any]]:
    """Return a dataset as columns of plain values, with None for missing values.

    The dataset is a frame, columns, records, or an array (columns c0, c1, ...).
    """
    try:
        if library_name(dataset) not in ("", "networkx"):
            found: dict[str, Any] = {
                str(name): values for name, values in values_of(to_parts(dataset)).items()
            }
        elif isinstance(dataset, dict):
            found = {
                str(name): np.asarray(v).tolist() if isinstance(v, np.ndarray) else list(v)
                for name, v in dataset.items()
            }
        elif (
            isinstance(dataset, list)
            and dataset
            and all(isinstance(record, dict) for record in dataset)
        ):
            names = dict.fromkeys(name for record in dataset for name in record)
            found = {str(name): [record.get(name) for record in dataset] for name in names}
        else:
            table = np.asarray(dataset)
            table = table[:, None] if table.ndim == 1 else table
            found = {f"c{i}": column.tolist() for i, column in enumerate(table.T)}
    except (UnsupportedData, TypeError, ValueError, IndexError) as error:
        raise MechanismFailed(
            f"a query needs a table as its dataset, got {short_repr(dataset)}: {error_text(error)}"
        ) from None
    if len(set(map(len, found.values()))) > 1:
        raise MechanismFailed(
            "a query needs columns of one length, got "
            f"{', '.join(f'{name}: {len(v)}' for name, v in found.items())}"
        )
    return {name: [_plain(value) for value in values] for name, values in found.items()}


def _plain(value: Any) -> Any:
    """Return a value as a Python value; None for NaN."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
