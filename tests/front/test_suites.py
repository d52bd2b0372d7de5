"""Tests of suites: the filter of cases, the comparison with the truth, and the exit code."""

import json
import math
from dataclasses import replace

import pytest

from dpwitness import Verdict, suites
from dpwitness.auditors.audit.result import BitLevel
from dpwitness.cli import main
from dpwitness.commands.options import matches
from dpwitness.mechanisms import Truth, paper_zoo, zoo
from dpwitness.suites import Case, Suite, compare, run_case, suite


@pytest.mark.parametrize(
    ("expression", "picked"),
    [
        ("", ["laplace", "laplace-grid", "svt1"]),
        ("laplace", ["laplace", "laplace-grid"]),
        ("LAPLACE and not grid", ["laplace"]),
        ("grid or svt", ["laplace-grid", "svt1"]),
        ("not (grid or svt)", ["laplace"]),
        ("not grid and not svt or svt1", ["laplace", "svt1"]),
    ],
)
def test_filter(expression, picked):
    assert [
        name for name in ("laplace", "laplace-grid", "svt1") if matches(expression, name)
    ] == picked


def test_suites_cover_every_specimen():
    assert [case.name for case in suite("zoo")] == list(zoo())
    papers = suite("papers")
    assert [case.name for case in papers] == list(paper_zoo())
    classes = {type(case.mechanism).__name__ for case in papers}
    assert (
        len(classes) == 12
        and {"PrivateRidge", "MirrorAveraging", "PrivateFTRL", "TestDataIndependentLearner"}
        <= classes
    )
    assert not [
        case.name
        for case in papers
        if case.truth and not case.settled and not case.truth.breaks(case.mechanism.claim)
    ]


@pytest.fixture(scope="module")
def outcome():
    return run_case(
        Case("grid", zoo()["laplace-grid"], truth=zoo()["laplace-grid"].truth, trials=50_000)
    )


def test_a_kept_promise_that_is_not_refuted_is_right(outcome):
    assert (outcome.right, outcome.unfinished) == (True, False)
    assert outcome.result.confidence == 0.999
    assert "right" in outcome.json["notes"][-1]


@pytest.mark.parametrize(
    ("parameter", "safe", "verdict", "bits", "settled", "right"),
    [
        (1.0, True, "NOT_REFUTED", "NOT_REFUTED", True, True),
        (1.0, True, "VIOLATED", "NOT_REFUTED", True, False),
        (1.0, True, "NOT_REFUTED", "VIOLATED", True, False),
        (1.0, False, "NOT_REFUTED", "VIOLATED", True, True),
        (1.0, False, "NOT_REFUTED", "NOT_REFUTED", True, False),
        (2.0, True, "VIOLATED", "NOT_REFUTED", True, True),
        (2.0, True, "VIOLATED", "VIOLATED", True, True),  # the bits hold the value
        (2.0, True, "NOT_REFUTED", "NOT_REFUTED", True, False),
        (math.inf, True, "NOT_REFUTED", "NOT_REFUTED", False, None),
        (1.0, True, "VIOLATED", "NOT_REFUTED", False, False),
        (1.0, True, "ERROR", "NOT_REFUTED", True, None),
    ],
)
def test_comparison(outcome, parameter, safe, verdict, bits, settled, right):
    case = replace(outcome.case, truth=Truth(parameter, "test", safe), settled=settled)
    result = replace(
        outcome.result, verdict=Verdict[verdict], bit_level=BitLevel(Verdict[bits], 0.0)
    )
    assert compare(case, result)[0] is right


@pytest.fixture(scope="module")
def papers():
    cases = {case.name: case for case in suite("papers")}
    wanted = (
        "logistic-objective-gamma-d2",
        "ridge-printed-p2",
        "simplex-pure",
        "transfer-weights",
        "interactive-printed",
    )
    return {name: run_case(cases[name], trials=20_000) for name in wanted}


def test_a_wrong_verdict_is_exit_code_1(monkeypatch, capsys, tmp_path):
    case = Case("too-good", zoo()["laplace-grid"], truth=Truth(2.0, "a lie", True), trials=20_000)
    monkeypatch.setitem(suites.SUITES, "lies", Suite("lies", "", lambda: [case], 20_000))
    assert main(["suite", "lies", "--report", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "WRONG: it only keeps epsilon = 2, the violation was missed" in out
    assert "1 cases: 0 right, 1 wrong (too-good)" in out
    assert json.loads((tmp_path / "audit.json").read_text())["results"][0]["name"] == "too-good"
