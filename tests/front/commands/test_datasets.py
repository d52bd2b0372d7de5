"""Tests of options for frames, relations, domains and database queries."""

import numpy as np
import pytest

from dpwitness import cli
from dpwitness.commands.loading import dataset, pair_of

COUNT = "SELECT count(*) + (random() + 0.5) / 18446744073709551616.0 FROM data"  # noise of no use
TABLE = '{"kind": "Table", "columns": {"age": [0, 120]}, "frame": "dict", "relation": "add-remove"}'
MINE = """
import dpwitness as dpw
import numpy as np

def lists(most):
    return dpw.domains.Relation(lambda a, b: abs(len(a) - len(b)) <= 3, lambda rng: ([], [0.0] * most), title="near")

near, far = lists(3), lists(4)

def size(frame, runs, rng):
    return 9.0 * len(frame) + rng.laplace(0, 1, runs)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run each test in a folder with a file of relations and two files of rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    for name, rows in (("a.csv", "1,2\n2,3\n2,4\n"), ("b.csv", "1,2\n")):
        (tmp_path / name).write_text("user,x\n" + rows)


@pytest.mark.slow
def test_a_query_is_audited_and_replayed(capsys):
    asked = (
        *(
            "audit",
            "--dsn",
            "sqlite:///:memory:",
            "--query",
            COUNT,
            "--claim",
            "pure:1",
            "--d0",
            '{"age": [1]}',
            "--d1",
            '{"age": [1, 2]}',
        ),
        *("--relation", "add-remove", "--trials", "2000", "--report", "out"),
    )
    assert cli.main(asked) == 1 and "VIOLATED" in capsys.readouterr().out
    assert cli.main(["replay", "out/witness-query.json"]) == 2
    assert (
        cli.main(
            [
                "replay",
                "out/witness-query.json",
                "--seed",
                "8",
                "--allow",
                f"sqlite:///:memory: {COUNT}",
            ]
        )
        == 1
    )


@pytest.mark.slow_cases(
    "arguments9-the check of own:near rejects a pair that its own generate made (drawn 0)",
    "arguments10-it has the columns user, x",
)
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--dsn", "sqlite:///:memory:"], "--dsn needs --query"),
        (["mine.py:size", "--query", "SELECT 1"], "--query needs --dsn"),
        (
            ["mine.py:size", "--domain", '{"kind": "Tabel"}'],
            "domain kind must be one of Answers, Costs, Counts",
        ),
        (
            ["mine.py:size", "--domain", '{"kind": "Table", "columns": {"x": [0, 1]}, "usr": 1}'],
            "has the keys columns, size, user",
        ),
        (
            ["mine.py:size", "--d0", "a.csv", "--d1", "b.csv", "--relation", "add-remove:z=1"],
            "takes unit=... and k=...",
        ),
        (
            ["mine.py:size", "--d0", "gone.csv", "--d1", "b.csv"],
            "--d0 must be a file that pandas can read",
        ),
        (
            ["mine.py:size", "--d0", "a.csv", "--d1", "b.csv", "--relation", "mine.py:size"],
            "must be a dpwitness.domains.Relation",
        ),
        (["mine.py:size", "--relation", "mine.py:near"], "--relation needs --d0"),
        (
            ["mine.py:size", "--domain", "mine.py:size"],
            "must be a domain or a dpwitness.domains.Relation, got an object of type function",
        ),
        (
            ["mine.py:size", "--domain", "mine.py:far"],
            "the check of own:near rejects a pair that its own generate made (drawn 0)",
        ),
        (
            [
                "mine.py:size",
                "--d0",
                "a.csv",
                "--d1",
                "b.csv",
                "--relation",
                "stated",
                "--domain",
                TABLE.replace("dict", "pandas"),
            ],
            "it has the columns user, x",
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(capsys, arguments, told):
    pytest.importorskip("pandas")
    assert cli.main(["audit", *arguments, "--claim", "pure:1", "--trials", "1000"]) == 2
    assert told in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("d0", "d1", "relation"),
    [
        ("[[1, 2], [3]]", "[[1, 2], [3, 4]]", "replace-one"),  # a table in one of them only
        ("[1, null]", "[1, 2]", "replace-one"),
        ("[]", "[[1, 2]]", "add-remove"),
        ("[[1, 2]]", "[]", "add-remove"),
        ('[1, {"$type": "float", "value": "nan"}]', "[1, 2]", "replace-one"),
        ("0", "1.5", "replace-one"),
        (
            '{"x": [[1, 2], [3, 4]], "y": [0, 1]}',
            '{"x": [[1, 2], [5, 6]], "y": [0, 0]}',
            "replace-one",
        ),
        ('["a"]', '["a", "b"]', "add-remove"),
        (f"[{2**1100}]", f"[{2**1100 + 1}]", "l1"),
    ],
)
def test_neighbours_in_json(d0, d1, relation):
    assert type(pair_of(d0, d1, relation, None).d0) is type(pair_of(d0, d1, relation, None).d1)


def test_values_that_json_has_no_word_for_are_numbers():
    found = dataset("d0", '[{"$type": "float", "value": "nan"}, 1]')
    assert found.dtype == np.float64 and np.isnan(found[0])


def test_the_query_of_a_file_is_audited(tmp_path, capsys):
    (tmp_path / "count.sql").write_text("SELECT count(*) FROM data")
    pair = ["--d0", '{"age": [1]}', "--d1", '{"age": [1, 2]}', "--relation", "add-remove"]
    asked = ["audit", "--dsn", "sqlite:///:memory:", "--claim", "pure:1", "--trials", "1000", *pair]
    assert cli.main([*asked, "--query", "count.sql"]) == 1
    assert cli.main([*asked, "--query", "gone.sql"]) == 2
    assert "--query must be SQL, or a file that can be read" in capsys.readouterr().err
