"""Mechanism given by a database query: SQLite (of the standard library) or DuckDB (extra ``sql``),
one query per run.

The dataset is a table in an in-memory database, and the result of the query is the output of one
run. Each thread loads a dataset once. After loading, the engine refuses writes, and a query that
tries to write is refused.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import math
import pickle
import re
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from urllib.parse import quote

import numpy as np
from numpy.random import Generator

from dpwitness.core.claims import Claim, parse_claim
from dpwitness.core.domains import Domain, build_domain
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

_THREAD = threading.local()
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_READ_ACTIONS = {
    getattr(sqlite3, f"SQLITE_{word}") for word in ("SELECT", "READ", "FUNCTION", "RECURSIVE")
}
_REFUSAL = re.compile("not authorized|read-?only")  # in the engines' errors of writing statements


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
        rules = (
            (
                "dsn",
                "be sqlite:///FILE or duckdb:///FILE, FILE may be :memory:",
                engine in ENGINES and file,
            ),
            ("table", "be a plain name", _NAME.fullmatch(self.table)),
            ("query", "be a SELECT", self.query.strip()),
        )
        for name, rule, holds in rules:
            if not holds:
                raise InvalidArgument(
                    f"Query: {name} must {rule}, got {short_repr(getattr(self, name))}"
                )
        if engine == "duckdb":
            _import_duckdb()
        if isinstance(self.claim, str):
            object.__setattr__(self, "claim", parse_claim(self.claim))
        if isinstance(self.domain, dict):
            object.__setattr__(self, "domain", build_domain(self.domain, "Query"))
        require_type("claim", self.claim, Claim, "be a claim", "Query", optional=True)
        require_type("domain", self.domain, Domain, "be a domain", "Query", optional=True)

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
            problem = "cannot be run"
            if isinstance(error, RefusedStatement) or _REFUSAL.search(str(error)):
                problem = "must only read"
            raise MechanismFailed(f"the query {problem}: {error_text(error)}") from None
        # an array if each run returned one number, otherwise a list of runs, each a list of rows
        cells = [rows[0][0] for rows in found if len(rows) == 1 and len(rows[0]) == 1]
        if len(cells) == size and all(isinstance(cell, int | float) for cell in cells):
            return np.array(cells, dtype=float)
        return found

    def _database(self, columns: dict[str, list[Any]]) -> _Database:
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
                return cast(_Database, loaded)
        engine, _, file = self.dsn.partition(":///")
        base = ENGINES[engine]()
        stages: tuple[tuple[str, Callable[[], Any]], ...] = (
            (f"the database {file} cannot be read", lambda: base.open(file)),
            ("the setup of the query raises", lambda: base.run(self.setup)),
            (
                f"the dataset cannot be made the table {self.table}",
                lambda: base.load(self.table, columns),
            ),
        )
        for problem, stage in stages:
            try:
                stage()
            except Exception as error:
                raise MechanismFailed(f"{problem}: {error_text(error)}") from None
        kept.append((self, fingerprint, base))
        # a thread keeps at most 4 databases loaded
        if len(kept) > 4:
            kept.pop(0)[2].held.close()
        return base


class RefusedStatement(Exception):
    """Error of a statement that does more than read; the text is the reason."""


class _Database:
    """Base class of in-memory databases; `run` runs several statements, and `load` makes the table
    and refuses all writes from then on.
    """

    held: Any
    OTHER_TYPE: ClassVar[str]  # of a column of several types

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raise RefusedStatement if it has none, not even their
        columns.
        """
        found = self.held.execute(query)
        if found.description is None:
            raise RefusedStatement("it is not a SELECT")
        return list(found.fetchall())

    def check(self, query: str) -> None:
        """Raise RefusedStatement unless the query is one SELECT."""

    def seed(self, number: float) -> None:
        """Seed the engine's random(), if it takes a seed."""

    def create(self, table: str, columns: dict[str, list[Any]]) -> None:
        """Create an empty table, whose types follow from the values. Raise ValueError for a name
        that the database or the setup has taken, also for a temporary view.
        """
        try:
            self.held.execute(f'SELECT 1 FROM "{table}" LIMIT 1')
        except Exception:  # no table has the name
            pass
        else:
            raise ValueError("the database or the setup has this name already: choose another")
        types = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", datetime.date: "DATE"}
        names = []
        for name, values in columns.items():
            kinds = {type(value) for value in values if value is not None}
            kind = types.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else self.OTHER_TYPE
            names.append(f'"{name.replace(chr(34), 2 * chr(34))}" {kind}')
        self.held.execute(f'CREATE TABLE "{table}" ({", ".join(names)})')


class _SQLite(_Database):
    """In-memory SQLite database."""

    OTHER_TYPE = ""

    def open(self, file: str) -> None:
        self.held = sqlite3.connect(":memory:", isolation_level=None)
        if file != ":memory:":
            with contextlib.closing(
                sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True)
            ) as given:
                given.backup(self.held)

    def run(self, statements: str) -> None:
        self._refuse(lambda action: action == sqlite3.SQLITE_ATTACH)
        self.held.executescript(statements)
        self.held.set_authorizer(None)

    def load(self, table: str, columns: dict[str, list[Any]]) -> None:
        plain = {
            name: [v.isoformat() if isinstance(v, datetime.date) else v for v in values]
            for name, values in columns.items()
        }
        self.create(table, plain)
        self.held.executemany(
            f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})',
            zip(*plain.values(), strict=True),
        )
        self.held.execute("PRAGMA query_only = 1")
        self._refuse(lambda action: action not in _READ_ACTIONS)

    def _refuse(self, is_refused: Callable[[int], bool]) -> None:
        """Refuse these actions of statements from now on."""
        self.held.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if is_refused(action) else sqlite3.SQLITE_OK
        )


class _DuckDB(_Database):
    """In-memory DuckDB database."""

    OTHER_TYPE = "VARCHAR"

    def open(self, file: str) -> None:
        config = {
            "threads": 1,
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
        }
        self.held = _import_duckdb().connect(":memory:", config=config)
        if file != ":memory:":
            path = file.replace("'", "''")
            self.held.execute(
                f"ATTACH '{path}' AS given (READ_ONLY); COPY FROM DATABASE given TO memory; "
                "DETACH given"
            )

    def run(self, statements: str) -> None:
        writing = {"ATTACH", "COPY", "COPY_DATABASE", "EXPORT"} & {*self._types_of(statements)}
        if writing:
            raise RefusedStatement(f"it holds {', '.join(sorted(writing))}, which may write files")
        if statements.strip():
            self.held.execute(statements)

    def _types_of(self, statements: str) -> list[str]:
        return [statement.type.name for statement in self.held.extract_statements(statements)]

    def check(self, query: str) -> None:
        types = self._types_of(query)
        if types != ["SELECT"]:
            raise RefusedStatement(
                f"the query must be one SELECT statement, got {', '.join(types) or 'nothing'}"
            )

    def load(self, table: str, columns: dict[str, list[Any]]) -> None:
        self.create(table, columns)
        values = list(columns.values())
        if values[0]:  # all columns at once: row by row takes a thousand times as long
            self.held.execute(
                f'INSERT INTO "{table}" SELECT {", ".join(["unnest(?)"] * len(values))}', values
            )
        self.held.execute("BEGIN TRANSACTION READ ONLY")

    def seed(self, number: float) -> None:
        self.held.execute("SELECT setseed(?)", [number]).fetchall()


ENGINES: dict[str, type[_SQLite | _DuckDB]] = {"sqlite": _SQLite, "duckdb": _DuckDB}


def _import_duckdb() -> Any:
    """Return the module duckdb. Raise InvalidArgument if it cannot be imported."""
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        why = import_problem("duckdb", error, "pip install 'dpwitness[sql]'")
        raise InvalidArgument(f"Query: {why}") from None


def columns_of(dataset: Any) -> dict[str, list[Any]]:
    """Return a dataset as columns of plain values, with None for missing values. Raise
    MechanismFailed for a dataset that is not a table.

    The dataset is a frame, columns, records, or an array (columns c0, c1, ...).
    """
    try:
        if library_name(dataset) not in ("", "networkx"):
            dataset = values_of(to_parts(dataset))
        elif isinstance(dataset, list) and dataset and isinstance(dataset[0], dict):
            names = dict.fromkeys(name for record in dataset for name in record)
            dataset = {name: [record.get(name) for record in dataset] for name in names}
        elif not isinstance(dataset, dict):
            table = np.asarray(dataset)
            table = table[:, None] if table.ndim == 1 else table
            dataset = {f"c{i}": column for i, column in enumerate(table.T)}
        found = {str(name): list(map(_plain, values)) for name, values in dataset.items()}
    except (UnsupportedData, AttributeError, TypeError, ValueError, IndexError) as error:
        raise MechanismFailed(
            f"a query needs a table as its dataset, got {short_repr(dataset)}: {error_text(error)}"
        ) from None
    if len(set(map(len, found.values()))) > 1:
        lengths = ", ".join(f"{name}: {len(values)}" for name, values in found.items())
        raise MechanismFailed(f"a query needs columns of one length, got {lengths}")
    return found


def _plain(value: Any) -> Any:
    """Return a value as a Python value; None for NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
