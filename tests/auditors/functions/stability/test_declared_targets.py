"""Tests of transformations that target files declare: they run in workers, whose aborts are
outcomes, and on the command line.
"""

import datetime
import json

import pytest

from dpwitness import InvalidArgument, Target, Verdict, replay
from dpwitness.auditors.functions.declared_targets import DeclaredTransformation
from dpwitness.cli import main
from dpwitness.mechanisms.wrappers.programs.declared import ABORTS, UNFINISHED, Calls, declarations

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


@pytest.mark.slow
def test_an_abort_on_one_neighbor_is_an_outcome(file):
    found = audited(file, "aborts", visible_errors=True)
    assert (found.verdict, found.finding, found.first, found.second) == (
        Verdict.VIOLATED,
        "aborts",
        [],
        [13],
    )
    assert (
        "aborts the process on one neighbor only (was killed by signal 6 (SIGABRT)"
        in found.headline()
    )
    assert replay(json.loads(json.dumps(found.witness))).finding == "aborts"


def test_calls_return_values_and_exceptions_in_order(file):
    target = Target(file, "kinds", time_limit=30)
    zone = datetime.timezone(datetime.timedelta(hours=14))
    values = [
        float("nan"),
        None,
        2**100,
        "raise",
        datetime.datetime(2024, 1, 1, tzinfo=zone),
        datetime.timedelta(days=-1),
        [1.5, None],
    ]
    found = Calls(target).call("kinds", [(value,) for value in values])
    assert (
        found[0] != found[0]
        and found[1:3] == values[1:3]
        and found[4:] == values[4:]
        and found[4].utcoffset() == zone.utcoffset(None)
    )
    assert type(found[3]).__name__ == "LookupError" and str(found[3]) == "gone"
    target.close()


def test_the_other_calls_of_a_batch_survive_an_abort(file):
    target = Target(file, "aborts", time_limit=30)
    calls = Calls(target)
    found = calls.call(
        "aborts", [([1] * n,) for n in range(5)] + [([13],)] + [([2],), ([13],), ([],)]
    )
    assert (
        found[:5] == [0, 1, 2, 3, 4]
        and found[5].kind == ABORTS
        and found[6] == 1
        and found[7].kind == ABORTS
    )
    assert found[8] == 0 and calls.aborts == 2
    target.close()


def test_a_call_that_does_not_end_is_no_outcome_to_compare(file):
    target = Target(file, "sleeps", time_limit=1.5)
    found = Calls(target).call("sleeps", [([1],), ([3],), ([2, 2],)])
    assert found[0] == 1 and found[1].kind == UNFINISHED and found[2] == 2
    target.close()


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


@pytest.mark.parametrize(
    ("content", "problem"),
    [("[1]", "must be a dict"), ("{'a b': {}}", "an identifier"), ("{'a': 1}", "with a kind")],
)
def test_malformed_targets_are_refused(tmp_path, content, problem):
    (tmp_path / "wrong_targets.py").write_text(f"TARGETS = {content}\n")
    with pytest.raises(InvalidArgument, match=problem):
        declarations(str(tmp_path / "wrong_targets.py"))


def test_the_command_line_refuses_options_of_mechanisms(file, refused):
    assert "--claim is for mechanisms" in refused("audit", f"{file}:bad", "--claim", "pure:1")
    assert "kind must be one of transformation" in refused("audit", f"{file}:other")


def test_a_repaired_file_does_not_confirm_the_witness(file, tmp_path, capsys):
    assert main(["audit", f"{file}:bad", "--seconds", "2", "--report", "report"]) == 1
    (tmp_path / file).write_text(FILE.replace("return 9 * d", "return 10 * d"))
    assert main(["replay", "report/witness-bad.json"]) == 0
    assert "the witness no longer reproduces" in capsys.readouterr().out
