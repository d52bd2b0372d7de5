"""Mechanism given by a query of an SQLite database, one query per run.

The dataset is a table in an in-memory database, and the result of the query is the output of one
run. Each thread loads a dataset once. After loading, the engine refuses writes, and a query that
tries to write is refused.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import pickle
import random
import re
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.random import Generator

from dpwitness.core.claims import Claim, parse_claim
from dpwitness.core.domains import Domain, build_domain
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.dataframe_backends import (
    UnsupportedData,
    library_name,
    to_parts,
    values_of,
)
from dpwitness.core.values.validation import error_text, require_rules, require_type, short_repr

_THREAD = threading.local()
_ENGINE = "sqlite:///"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_CONSTANT = re.compile(r"'([^']*)'|\b(\d+\.?\d*)\b")
_READ_ACTIONS = {
    getattr(sqlite3, f"SQLITE_{word}") for word in ("SELECT", "READ", "FUNCTION", "RECURSIVE")
}
_REFUSAL = re.compile("not authorized|read-?only")  # in SQLite's errors of writing statements


@dataclass(frozen=True, eq=False)
class Query:
    """Mechanism that runs a query on a table, once for each output.

    Parameters
    ----------
    dsn : str
        ``sqlite:///:memory:``. A file instead of ``:memory:`` is opened read-only, and copied to
        memory.
    query : str
        One SELECT. Its rows are the output of a run: a single number, or a list of tuples.
    table : str
        Name of the dataset in the query.
    setup : str
        Statements that are run once before the table is loaded, such as views and parameters.
    claim : str, optional
        Privacy claim of the query.
    domain : Domain or dict, optional
        Domain of the datasets, such as `Table`. Datasets are frames of any library, columns, or
        records.

    Raises
    ------
    InvalidArgument
        If the engine is unknown, the query is empty, or another argument is invalid.

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
    calls_user = True  # the query

    def __post_init__(self) -> None:
        for name in ("dsn", "query", "table", "setup"):
            require_type(name, getattr(self, name), str, "be a text", "Query")
        has_file = self.dsn.startswith(_ENGINE) and self.dsn != _ENGINE
        require_rules(
            "Query",
            (has_file, "dsn must be sqlite:///FILE, FILE may be :memory:", self.dsn),
            (_NAME.fullmatch(self.table), "table must be a plain name", self.table),
            (self.query.strip(), "query must be a SELECT", self.query),
        )
        if isinstance(self.claim, str):
            object.__setattr__(self, "claim", parse_claim(self.claim))
        if isinstance(self.domain, dict):
            object.__setattr__(self, "domain", build_domain(self.domain, "Query"))
        require_type("claim", self.claim, Claim, "be a claim", "Query", optional=True)
        require_type("domain", self.domain, Domain, "be a domain", "Query", optional=True)

    @property
    def constants(self) -> list[float | str]:
        """Return the numbers and texts in the query."""
        found = _CONSTANT.findall(self.query)
        return [float(number) if number else text for text, number in found]

    @property
    def __name__(self) -> str:
        return f"query on {self.dsn.partition(':')[0]}"

    def sample(self, dataset: Any, size: int, rng: Generator) -> Any:
        """Return the outputs of `size` runs of the query. SQLite's ``random()`` is seeded by `rng`.

        Raises
        ------
        MechanismFailed
            If the query changes the table, or the engine refuses it.
        """
        base, bits = self._database(columns_of(dataset)), random.Random(int(rng.integers(2**63)))
        base.create_function("random", 0, lambda: bits.getrandbits(64) - 2**63)
        try:
            found = [_rows(base.execute(self.query)) for _ in range(size)]
        except Exception as error:
            is_refusal = isinstance(error, _RefusedStatement) or _REFUSAL.search(str(error))
            problem = "must only read" if is_refusal else "cannot be run"
            raise MechanismFailed(f"the query {problem}: {error_text(error)}") from None
        # an array if each run returned one number, otherwise a list of runs, each a list of rows
        cells = [rows[0][0] for rows in found if len(rows) == 1 and len(rows[0]) == 1]
        if len(cells) == size and all(isinstance(cell, int | float) for cell in cells):
            return np.array(cells, dtype=float)
        return found

    def _database(self, columns: dict[str, list[Any]]) -> sqlite3.Connection:
        """Return the database with the dataset loaded, cached for the next batches of
        this thread.
        """
        if not columns:
            raise MechanismFailed(
                "a query needs a dataset with columns, got none: give a frame, or columns as a dict"
            )
        kept: dict[Any, sqlite3.Connection] = _THREAD.__dict__.setdefault("kept", {})
        key = self, pickle.dumps(columns)
        if key in kept:
            return kept[key]
        base, file = sqlite3.connect(":memory:", isolation_level=None), self.dsn[len(_ENGINE) :]
        stages: tuple[tuple[str, Callable[[], Any]], ...] = (
            (f"the database {file} cannot be read", lambda: _copy(file, base)),
            ("the setup of the query raises", lambda: _set_up(base, self.setup)),
            (
                f"the dataset cannot be made the table {self.table}",
                lambda: _load(base, self.table, columns),
            ),
        )
        for problem, stage in stages:
            try:
                stage()
            except Exception as error:
                raise MechanismFailed(f"{problem}: {error_text(error)}") from None
        kept[key] = base
        # a thread keeps at most 4 databases loaded
        if len(kept) > 4:
            kept.pop(next(iter(kept))).close()
        return base


class _RefusedStatement(Exception):
    """Error of a statement that does more than read; the text is the reason."""


def _rows(found: sqlite3.Cursor) -> list[tuple[Any, ...]]:
    """Return the rows of a query. Raise _RefusedStatement for one that has no columns."""
    if found.description is None:
        raise _RefusedStatement("it is not a SELECT")
    return found.fetchall()


def _copy(file: str, base: sqlite3.Connection) -> None:
    """Copy a database file, which is opened read-only."""
    if file != ":memory:":
        with contextlib.closing(sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True)) as given:
            given.backup(base)


def _set_up(base: sqlite3.Connection, statements: str) -> None:
    """Run the statements before the table is loaded; none of them may open another file."""
    _refuse(base, lambda action: action == sqlite3.SQLITE_ATTACH)
    base.executescript(statements)
    base.set_authorizer(None)


def _load(base: sqlite3.Connection, table: str, columns: dict[str, list[Any]]) -> None:
    """Make the table, whose values keep their types, and refuse all writes from then on.

    Raise ValueError for a name that the database or the setup has taken, also for a temporary view.
    """
    with contextlib.suppress(sqlite3.Error):  # no table has the name
        base.execute(f'SELECT 1 FROM "{table}" LIMIT 1')
        raise ValueError("the database or the setup has this name already: choose another")
    names = ['"{}"'.format(name.replace('"', '""')) for name in columns]
    base.execute(f'CREATE TABLE "{table}" ({", ".join(names)})')
    base.executemany(
        f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})',
        zip(*columns.values(), strict=True),
    )
    base.execute("PRAGMA query_only = 1")
    _refuse(base, lambda action: action not in _READ_ACTIONS)


def _refuse(base: sqlite3.Connection, is_refused: Callable[[int], bool]) -> None:
    """Refuse these actions of statements from now on."""
    base.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if is_refused(action) else sqlite3.SQLITE_OK
    )


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
    """Return a value as one that SQLite stores; None for NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.date):
        return value.isoformat()
    return None if isinstance(value, float) and math.isnan(value) else value
