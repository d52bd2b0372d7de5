"""Tests of the search on transformations with a known truth: each broken one is found, no right one
is accused.

The tests of broken transformations end with the violation; their time limit is far beyond what the
search needs.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dpwitness import Verdict, audit_stability, replay
from dpwitness.auditors.functions.stability.result import recheck
from dpwitness.auditors.witnesses.witness_reader import load_json
from dpwitness.core.values.validation import InvalidArgument

sys.path.insert(0, str(Path(__file__).parent))
from transformations import BROKEN, RIGHT


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_transformation_is_found_and_its_witness_replays(name):
    function, stability_map, *rest = BROKEN[name]
    found = audit_stability(function, stability_map, *rest, seconds=60)
    assert found.verdict is Verdict.VIOLATED and found.finding == "exceeds" and found.ratio > 1
    witness = json.loads(json.dumps(found.witness, allow_nan=False))
    again = replay(witness, mechanism=function)
    assert (again.verdict, again.ratio, again.measured) == (
        Verdict.VIOLATED,
        found.ratio,
        found.measured,
    )
    assert recheck(json.loads(json.dumps(found.to_json(), allow_nan=False)))


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_transformation_is_not_accused(name):
    assert audit_stability(*RIGHT[name], seconds=0.1).verdict is not Verdict.VIOLATED


def test_a_repaired_transformation_does_not_confirm_the_witness():
    function, stability_map, *rest = BROKEN["impute by mean"]
    witness = audit_stability(function, stability_map, *rest).witness
    assert replay(witness, mechanism=RIGHT["impute by constant"][0]).verdict is Verdict.NOT_REFUTED


def edited(witness, **changes):
    return {key: value for key, value in {**witness, **changes}.items() if key != "sha256"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"inputs": [[1.0], [1.0, 2.0, 3.0]]}, "at most d_in = 1 apart"),
        ({"inputs": [[1.0], [1.0, 11.0]]}, r"inputs\[1\] must belong to the recorded space"),
        ({"d_in": "0"}, "at most d_in = 0 apart"),
        ({"d_in": "x"}, "a number must be a text"),
        ({"space": {"type": "cube"}}, 'type "vector", "scalar" or "frame"'),
        ({"finding": "smells"}, "finding must be one of"),
        ({"input_metric": "l7"}, "input_metric must be one of"),
        ({"map": {"target": "os:system"}}, "standard library"),
    ],
)
def test_an_edited_witness_is_refused(changes, problem):
    function, stability_map, *rest = BROKEN["impute by mean"]
    witness = audit_stability(function, stability_map, *rest).witness
    with pytest.raises(InvalidArgument, match=problem):
        replay(edited(witness, **changes), mechanism=function)


def test_a_result_that_contradicts_its_outputs_is_refused():
    result = audit_stability(*BROKEN["clamp keeps NaN"]).to_json()
    assert recheck(result)
    for changes in (
        {"measured_exact": "3"},
        {"finding": ""},
        {"verdict": "NOT_REFUTED"},
        {"finding": "rounding"},
        {"bound_exact": "inf"},
    ):
        with pytest.raises(InvalidArgument):
            recheck(result | changes)


def test_a_suspected_map_keeps_its_word_in_the_report_and_its_witness():
    function, stability_map, *rest = BROKEN["impute by mean"]
    found = replace(audit_stability(function, stability_map, *rest), verdict=Verdict.SUSPECT)
    assert (
        "the map is a guess" in found.advice
        and found.evidence == "assumed"
        and found.headline().startswith("SUSPECT: outputs are 3 apart")
        and recheck(found.to_json())
    )
    assert (
        replay(json.loads(json.dumps(found.witness)), mechanism=function).verdict is Verdict.SUSPECT
    )


def test_a_witness_of_unknown_kind_names_the_known_ones():
    with pytest.raises(InvalidArgument, match="stability"):
        load_json({"schema_version": 1, "kind": "stab"})
