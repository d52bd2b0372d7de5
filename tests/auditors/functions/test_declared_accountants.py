"""Accountants that target files declare: they run in workers, on the command line, with report,
witness and replay.
"""

import json

import pytest

from dpwitness import InvalidArgument, Target, replay
from dpwitness.auditors.functions.declared_targets import DeclaredAccountant

FILE = """
import math, os

def declared(**more):
    return {"kind": "accountant", "mechanism": "gaussian", "parameters": {"s": "sigma", "alpha": "order"}, "returns": "rdp", **more}

def half(alpha, s):
    return alpha / s**2 / 4

def right(alpha, s):
    return alpha / s**2 / 2

def aborts(alpha, s):
    if s > 9000:
        os.abort()
    return right(alpha, s)

TARGETS = {
    "half": declared(),
    "right": declared(ranges={"order": [1.5, 64]}),
    "renamed": declared(function="half"),
    "aborts": declared(),
    "without": {"kind": "accountant"},
    "misspelled": declared(function="half", **{"return": "rdp"}),
    "wrong": declared(mechanism="gauss"),
}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "library_targets.py").write_text(FILE)
    return "library_targets.py"


def audited(file, name):
    target = Target(file, name, time_limit=30)
    try:
        (found,) = DeclaredAccountant.of(target).audit(seconds=600, evaluations=64)
        return found
    finally:
        target.close()


def test_a_declared_accountant_is_found_in_a_worker_and_replays(file):
    found = audited(file, "half")
    assert found.verdict.value == "VIOLATED"
    assert found.exact == pytest.approx(2 * found.figure, rel=1e-9)
    again = replay(json.loads(json.dumps(found.witness)))
    assert (again.verdict, dict(again.at)) == (found.verdict, dict(found.at))
    assert audited(file, "renamed").verdict.value == "VIOLATED"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"at": {"sigma": 1.0}}, "at must have the parameters sigma, order"),
        ({"at": {"sigma": 1e300, "order": 2.0}}, "at.sigma must be a number in"),
        ({"mechanism": "gauss"}, "mechanism must be"),
        ({"at": {"sigma": "one", "order": 2.0}}, "must be a finite number"),
    ],
)
def test_a_witness_of_other_parameters_is_refused(file, change, words):
    witness = json.loads(json.dumps(audited(file, "half").witness))
    del witness["sha256"]
    with pytest.raises(InvalidArgument, match=words):
        replay(witness | change)
