"""Qrlew: queries that it rewrites for differential privacy, run by SQLite.

Qrlew writes SQL for PostgreSQL. Functions that SQLite lacks are defined here, and each subquery is
evaluated once, as PostgreSQL does.
"""

import functools
import hashlib
import math
import sqlite3

import numpy as np
from library_target import target
from pyqrlew import Dataset
from sqlalchemy import create_engine, text

LIBRARY = "pyqrlew"

_EPSILON, _DELTA = 1.0, 1e-3
_ROWS = 100  # declared size of the table
_PLACES = [f"p{i}" for i in range(32)]


@functools.cache
def _rewritten(sql):
    """Return the rewritten query and the event of its privacy loss; a user is a value of `pid`."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE visits (pid TEXT, place TEXT, amount REAL)"))
        rows = [{"pid": f"u{i}", "place": "p0", "amount": 10.0 * (i % 2)} for i in range(_ROWS)]
        connection.execute(text("INSERT INTO visits VALUES (:pid, :place, :amount)"), rows)
        connection.commit()
        # the range of the amounts is that of these public rows
        public = Dataset.from_database("data", engine, None, ranges=True)
    found = public.relation(sql).rewrite_with_differential_privacy(
        public, [("visits", [], "pid")], {"epsilon": _EPSILON, "delta": _DELTA}
    )
    query = found.relation().to_query().replace(") AS (SELECT", ") AS MATERIALIZED (SELECT")
    return query, found.dp_event().to_dict()


def _answers(sql, rows, size, rng):
    """Return the answers to the rewritten query, each a list of rows."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE visits (pid TEXT, place TEXT, amount REAL)")
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", rows)
    for name, count, function in (
        ("RANDOM", 0, lambda: 1.0 - rng.random()),
        ("MD5", 1, lambda value: hashlib.md5(value.encode()).hexdigest()),
        ("LN", 1, math.log),
        ("SQRT", 1, math.sqrt),
        ("COS", 1, math.cos),
        ("GREATEST", 2, max),
        ("LEAST", 2, min),
    ):
        connection.create_function(name, count, function)
    query = _rewritten(sql)[0]
    return [connection.execute(query).fetchall() for _ in range(size)]


@target(
    f"approx:{_EPSILON},{_DELTA}",
    batch=64,
    kind="Table",
    columns={"place": _PLACES},
    size=_ROWS,
    user="user",
    per_user=32,
    relation="add-remove:unit=user",
    frame="records",
)
def visits_by_place(dataset, size, rng):
    """SELECT place, COUNT(*) ... GROUP BY place of up to 100 visits, epsilon 1 and delta 1e-3; one
    user, with up to 32 visits, more or less.
    """
    rows = [(f"u{row['user']}", row["place"], 0.0) for row in dataset]
    sql = "SELECT place, COUNT(*) AS n FROM visits GROUP BY place"
    return [sorted(answer) for answer in _answers(sql, rows, size, rng)]


_TOTAL = "SELECT SUM(amount) AS s FROM visits"


def _gaussian_claim():
    """Claim of the Gaussian event that Qrlew returns with the sum."""
    return f"gdp:{1 / _rewritten(_TOTAL)[1]['noise_multiplier']!r}"


@target(
    _gaussian_claim,
    batch=256,
    kind="Table",
    columns={"amount": (0.0, 10.0)},
    size=_ROWS,
    user="user",
    per_user=10,
    relation="add-remove:unit=user",
    frame="records",
)
def total_amount(dataset, size, rng):
    """SELECT SUM(amount) of up to 100 visits with an amount in [0, 10], and the event of its
    privacy loss; one user, with up to 10 visits, more or less.
    """
    rows = [(f"u{row['user']}", "p0", float(row["amount"])) for row in dataset]
    return np.array([answer[0][0] for answer in _answers(_TOTAL, rows, size, rng)], dtype=float)
