"""Database queries as mechanisms: the right one stands, the wrong one falls, and none writes."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.cli import main
from dpwitness.core.protocols import MechanismFailed

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SPENT = {"kind": "Table", "columns": {"spent": (0.0, 9.0)}, "frame": "dict"}


def query(text, **more):
    return dpw.wrap.Query("sqlite:///:memory:", text, **more)


def run(found, dataset=None, size=1):
    return found.sample(
        {"a": [3, 1, None]} if dataset is None else dataset, size, np.random.default_rng(0)
    )


def test_datasets_are_tables_and_outputs_rows():
    assert run(query("SELECT count(a) FROM data"), size=2).tolist() == [2.0, 2.0]
    grouped = query("SELECT city, count(*) FROM data GROUP BY city ORDER BY city")
    assert run(grouped, {"city": ["b", "a", "b"]}) == [[("a", 1), ("b", 2)]]
    assert run(grouped, [{"city": "b"}]) == [[("b", 1)]]
    assert run(
        query("SELECT sum(c0) FROM records", table="records"), np.array([1.0, 2.0])
    ).tolist() == [3.0]
    assert (
        run(query("SELECT count(*) FROM grown", setup="CREATE VIEW grown AS SELECT 1 AS x"))[0] == 1
    )
    assert run(query("SELECT count(*) FROM data"), {"a": []}).tolist() == [0.0]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"day": pandas.to_datetime(["2024-01-01", None]), "x": [0.5, np.nan]})
    assert run(query("SELECT count(day) + sum(x) FROM data"), frame).tolist() == [1.5]


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM data",
        "INSERT INTO data VALUES (1)",
        "UPDATE data SET a = 1 RETURNING a",
        "CREATE TABLE other (a INT)",
        "WITH x AS (SELECT 1) DELETE FROM data",
        "ATTACH 'other.db' AS other",
        "PRAGMA table_info(data)",
        "-- nothing",
    ],
)
def test_a_query_that_does_more_than_read_is_refused(text):
    with pytest.raises(MechanismFailed, match="the query must only read"):
        run(query(text))


def test_the_engine_itself_lets_nobody_write(monkeypatch):
    """Were our look at the statement to fail."""
    monkeypatch.setattr(
        "dpwitness.mechanisms.wrappers.programs.sql.sqlite3.SQLITE_DENY", sqlite3.SQLITE_OK
    )
    with pytest.raises(MechanismFailed, match="the query must only read"):
        run(query("UPDATE data SET a = 9"))


def test_random_numbers_follow_the_seed():
    noisy = query("SELECT random() FROM data")
    first, again = (run(noisy, size=3) for _ in range(2))
    assert first == again and len({number for rows in first for (number,) in rows}) == 9


def test_what_cannot_be_run():
    with pytest.raises(MechanismFailed, match=r"the query cannot be run: .*nope"):
        run(query("SELECT nope FROM data"))
    with pytest.raises(MechanismFailed, match="the setup of the query raises"):
        run(query("SELECT 1", setup="CREATE nothing"))
    with pytest.raises(MechanismFailed, match=r"a query needs a (dataset|table)"):
        run(query("SELECT 1"), 3 + 4j)
    # no output of the query
    for columns in ({"a": [2**70]}, {"a": [1], "A": [2]}, {"a": [1], "b": [1, 2]}):
        with pytest.raises(
            MechanismFailed, match=r"cannot be made the table data|columns of one length"
        ):
            run(query("SELECT 1"), columns)
    assert run(query("SELECT 1"), {'a"b': [1]}).tolist() == [1.0]
    with pytest.raises(MechanismFailed):
        run(query("SELECT 1; SELECT 2"))
    with pytest.raises(MechanismFailed, match=r"the database missing.db cannot be read"):
        run(dpw.wrap.Query("sqlite:///missing.db", "SELECT 1"))
    for bad, told in (
        (("oracle:///x", "SELECT 1"), "dsn must be sqlite:///FILE"),
        (("sqlite:///:memory:", " "), "must be a SELECT"),
    ):
        with pytest.raises(dpw.InvalidArgument, match=told):
            dpw.wrap.Query(*bad)


def test_the_command_line_says_what_is_wrong_in_a_line(capsys):
    """The query is built in a worker, whose traceback tells a user nothing that the
    line does not.
    """
    assert (
        main(
            [
                "audit",
                "--dsn",
                "sqlite:a.db",
                "--query",
                "SELECT 1",
                "--claim",
                "pure:1",
                "--d0",
                "[0]",
                "--d1",
                "[1]",
            ]
        )
        == 2
    )
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "dpwitness audit: Query: dsn must be sqlite:///FILE, FILE may be "
        ":memory:, got 'sqlite:a.db'"
    ]


@pytest.mark.slow
def test_a_noisy_count_stands_and_rows_clipped_in_place_of_users_fall():
    """The wrong one lets a user move the sum by 4: false-failure probability below 1e-9. The right
    one falls with probability 1e-6.
    """
    d0 = {"age": [40, 20]}
    count = query((EXAMPLES / "noisy_count.sql").read_text(), claim="pure:1")
    right = dpw.audit(
        count,
        pair=dpw.Pair(d0, {"age": [40, 20, 50]}, "add-remove"),
        trials=10_000,
        confidence=1 - 1e-6,
    )
    assert right.verdict is dpw.Verdict.NOT_REFUTED and right.epsilon_lower > 0.3
    wrong = (EXAMPLES / "bounded_sum.sql").read_text()
    users = dpw.audit(
        query(wrong, claim="pure:1", domain=SPENT | {"user": "user", "size": 4}), trials=4_000
    )
    assert users.verdict is dpw.Verdict.VIOLATED and users.epsilon_lower > 1.5
    with pytest.raises(
        dpw.InvalidArgument, match=r"is a database query, which runs only if it is named; .*--allow"
    ):
        dpw.replay(users.witness)
    again = dpw.replay(users.witness, allow=[f"sqlite:///:memory: {wrong}"], seed=8)
    assert again.verdict is dpw.Verdict.VIOLATED
