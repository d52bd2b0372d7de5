"""Witnesses come back from JSON and reach their verdict again; broken ones are refused in one line."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from dpwitness import ApproxDP, InvalidArgument, Pair, Verdict, audit, audit_sensitivity, audit_utility, replay
from dpwitness.auditors import FailureBound, MeanBound, Scaling
from dpwitness.auditors.witness import load_target, read_witness
from dpwitness.mechanisms import Laplace, Records
from dpwitness.mechanisms.zoo import zoo

PAIR = Pair(np.array([0.0]), np.array([1.0]))


@pytest.fixture(scope="module")
def witness():
    result = audit(zoo()["laplace-0.9"], pair=PAIR, trials=400_000, seed=5)
    assert result.verdict is Verdict.VIOLATED
    return json.loads(json.dumps(result.witness, allow_nan=False))


def test_replay_reaches_the_verdict_with_fresh_randomness(witness, tmp_path):
    file = tmp_path / "witness.json"
    file.write_text(json.dumps(witness))
    again = replay(file)
    assert again.verdict is Verdict.VIOLATED
    assert again.seed != witness["seed"] and again.tally.correct != witness["counts"]["correct"]
    assert again.event.to_json() == witness["event"]


def test_replay_on_a_repaired_mechanism_does_not(witness):
    assert replay(witness, mechanism=Laplace(1.0, arithmetic="grid")).verdict is Verdict.NOT_REFUTED


def test_bit_level_witness(tmp_path):
    result = audit(zoo()["laplace"], pair=PAIR, trials=50_000, seed=5)
    assert result.verdict is Verdict.NOT_REFUTED
    assert result.bit_level.verdict is Verdict.VIOLATED
    assert result.witness["level"] == "bit"
    again = replay(json.loads(json.dumps(result.witness)))
    assert again.verdict is Verdict.VIOLATED and again.parameter_lower > 2


def test_claim_numbers_survive_exactly():
    result = audit(zoo()["histogram-one-count"], claim=ApproxDP(1.0, 1e-7 / 3), trials=200_000, seed=5)
    assert read_witness(result.witness).claim == ApproxDP(1.0, 1e-7 / 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 7}, "written by schema 7, this version reads up to 1; upgrade dpwitness"),
        ({"target": {"target": "no_such_module_at_all:f"}}, "no module named 'no_such_module_at_all'"),
        ({"target": {"target": "dpwitness.mechanisms.additive:Gone"}}, "which is not there"),
        ({"target": None}, "names no importable target"),
        ({"pair": {"d0": [0.0, 0.0], "d1": [1.0, 1.0], "relation": "replace-one", "why": ""}}, "2 records differ"),
        ({"event": {}}, "no complete witness"),
    ],
)
def test_broken_witnesses_are_refused(witness, change, message):
    with pytest.raises(InvalidArgument, match=message):
        replay(witness | change)


def test_truncated_and_missing_files(witness, tmp_path):
    file = tmp_path / "w.json"
    file.write_text(json.dumps(witness)[:100])
    with pytest.raises(InvalidArgument, match=r"w.json is no complete JSON file"):
        replay(file)
    with pytest.raises(InvalidArgument, match=r"must be readable"):
        replay(tmp_path / "nowhere.json")
    file.write_text("{}")
    with pytest.raises(InvalidArgument, match=r"no schema_version"):
        replay(file)


def test_targets_by_file(tmp_path):
    (tmp_path / "mine_by_file.py").write_text("def f(dataset, size, rng):\n    return rng.random(size)\n")
    assert callable(load_target(f"{tmp_path / 'mine_by_file.py'}:f"))
    with pytest.raises(InvalidArgument, match="existing file"):
        load_target(f"{tmp_path / 'other.py'}:f")
    with pytest.raises(InvalidArgument, match="MODULE:NAME"):
        load_target("nothing")
    with pytest.raises(InvalidArgument, match="kwargs must fit Laplace"):
        load_target("dpwitness.mechanisms:Laplace", {"scale": 1})


# ---- sensitivity and utility


def distance(first, second):
    return abs(float(first) - float(second))


def errors(size, rng):
    return rng.exponential(size=size)


def growing(value, size, rng):
    return np.log(value) ** 1.0 * rng.uniform(0.9, 1.1, size)


@pytest.mark.parametrize("norm", [2, np.inf, distance])
def test_a_sensitivity_is_evaluated_again(norm):
    result = audit_sensitivity(np.mean, 0.2, Records(4), norm, evaluations=200)
    witness = json.loads(json.dumps(result.witness, allow_nan=False))
    assert witness["kind"] == "sensitivity" and witness["target"] == {"target": "numpy:mean"}
    with pytest.raises(InvalidArgument, match="outside the current folder; if it is to run, say so: --allow numpy:mean"):
        replay(witness)
    again = replay(witness, allow=["numpy:mean"])
    assert again.verdict is Verdict.VIOLATED and again.ratio == pytest.approx(1.25)
    assert replay(witness, mechanism=lambda d: 0.5 * np.mean(d)).verdict is Verdict.NOT_REFUTED
    assert audit_sensitivity(np.mean, 0.25, Records(4), evaluations=200).witness is None


@pytest.mark.parametrize(
    ("function", "claim"),
    [(errors, MeanBound(0.8)), (errors, FailureBound(1.0, 0.1)), (growing, Scaling(0.5, (4, 32, 256, 1024), "p", math.log))],
)
def test_an_error_is_measured_again(function, claim):
    result = audit_utility(function, claim)
    witness = json.loads(json.dumps(result.witness, allow_nan=False))
    again = replay(witness, mechanism=function)
    assert again.verdict is Verdict.VIOLATED and again.claim == claim
    assert again.estimate != result.estimate and again.estimate == pytest.approx(result.estimate, rel=0.1)


def test_measures_that_cannot_be_named_have_no_target():
    assert audit_sensitivity(lambda d: d[0], 0.5, Records(1), evaluations=100).witness["target"] is None
    assert audit_utility(growing, Scaling(0.5, (4, 32, 256, 1024), "p", lambda p: math.log(p))).witness is None
    witness = audit_sensitivity(np.mean, 0.2, Records(4), evaluations=200).witness
    with pytest.raises(InvalidArgument, match="written by schema 9"):
        replay(witness | {"schema_version": 9})
    with pytest.raises(InvalidArgument, match="bound is missing; it is no complete witness"):
        replay({key: value for key, value in witness.items() if key != "bound"})
