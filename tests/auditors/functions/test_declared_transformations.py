"""Tests of transformations that target files declare: they run in workers, whose aborts are
outcomes, and on the command line.
"""

import json

import pytest

from dpwitness import InvalidArgument, Target, Verdict, replay
from dpwitness.auditors.functions.declared_targets import DeclaredTransformation
from dpwitness.cli import main

FILE = """
import datetime, os, time

LIBRARY = "numpy"

SPACE = {"type": "vector", "dtype": "i32", "bounds": [0, 20], "nullable": False, "nan": False, "size": None}

def clamped_sum(rows):
    print("printed")
    return sum(min(max(v, 0), 10) for v in rows)

def aborts(rows):
    if 13 in rows:
        os.abort()
    return len(rows)

def sleeps(rows):
    time.sleep(60 if 3 in rows else 0)
    return len(rows)

def kinds(value):
    if value == "raise":
        raise LookupError("gone")
    return value

def ten(d):
    return 10 * d

def nine(d):
    return 9 * d

def one(d):
    return d

def declared(apply, map, **more):
    found = {"kind": "transformation", "apply": apply, "map": map, "input": SPACE, "input_metric": "symmetric", "output_metric": "absolute"}
    return {**found, **more}

TARGETS = {
    "good": declared("clamped_sum", "ten", d_in=[1, 2], inputs=[[20, 20]]),
    "bad": declared("clamped_sum", "nine"),
    "aborts": declared("aborts", "one"),
    "no_map": {"kind": "transformation"},
    "misspelled": declared("clamped_sum", "ten", input_metrics="symmetric"),
    "absent": declared("missing", "ten"),
    "other": {"kind": "teapot"},
}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "library_targets.py").write_text(FILE)
    return "library_targets.py"


def audited(file, name, **options):
    target = Target(file, name, time_limit=30)
    try:
        (found,) = DeclaredTransformation.of(target).audit(seconds=1, **options)
        return found
    finally:
        target.close()


def test_a_declared_violation_is_found_in_a_worker_and_replays(file):
    found = audited(file, "bad")
    assert (found.verdict, found.first, found.second, found.outcomes) == (
        Verdict.VIOLATED,
        [],
        [10],
        (0, 10),
    )
    again = replay(json.loads(json.dumps(found.witness)))
    assert again.verdict is Verdict.VIOLATED and again.name == "bad" and again.bound == 9


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no_map", "needs the key 'map'"),
        ("misspelled", "did you mean 'input_metric'"),
        ("other", 'kind must be "transformation", got .teapot.'),
        ("nothing", "TARGETS must declare 'nothing', it has good, bad"),
        ("absent", "'missing', which is not there"),
    ],
)
def test_a_wrong_declaration_is_named(file, name, problem):
    with pytest.raises(InvalidArgument, match=problem):
        audited(file, name)


def test_a_repaired_file_does_not_confirm_the_witness(file, tmp_path, capsys):
    assert main(["audit", f"{file}:bad", "--seconds", "2", "--report", "report"]) == 1
    (tmp_path / file).write_text(FILE.replace("return 9 * d", "return 10 * d"))
    assert main(["replay", "report/witness-bad.json"]) == 0
    assert "the witness no longer reproduces" in capsys.readouterr().out
