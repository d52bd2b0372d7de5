"""The verdict SUSPECT: a violation of a claim that a scan has guessed, in results, exit codes,
documents and formats.
"""

import copy
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.commands.common import exit_code
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.audit.document import build_document, checked_document, entries_of
from dpwitness.reports.cards.cards import what_to_do
from dpwitness.reports.cards.overview import answer
from dpwitness.reports.formats.junit_format import junit
from dpwitness.reports.formats.sarif_format import sarif
from dpwitness.reports.formats.step_summary import step_summary

GUESS = "the claim is pure:1 under replace-one, read from parameter 'epsilon'"


def leaky(dataset, size, rng):
    return np.sum(dataset) + rng.laplace(0.0, 0.4, size)


def guessed(dataset, size, rng):
    return leaky(dataset, size, rng)


guessed.guessed = GUESS


@pytest.fixture(scope="module")
def results():
    """A stated and a guessed claim, both broken by a factor of 2.5; false-failure probability far
    below 1e-6.
    """
    pair = dpw.Pair(np.array([0.0]), np.array([1.0]))
    return [
        dpw.audit(each, claim="pure:1", pair=pair, trials=20_000, seed=1)
        for each in (leaky, guessed)
    ]


def test_a_guess_changes_the_verdict_and_nothing_else(results):
    stated, found = results
    assert (stated.verdict, found.verdict) == (
        Verdict.VIOLATED,
        Verdict.SUSPECT,
    ) and stated.bit_level.verdict is Verdict.VIOLATED
    assert (
        found.bit_level.verdict is Verdict.SUSPECT and found.notes[0] == f"not confirmed: {GUESS}"
    )
    assert found.parameter_lower > 1 and found.witness is not None
    assert (
        found.headline().startswith("SUSPECT: epsilon > ")
        and "if it is what the library promises" in found.headline()
    )


def test_exit_codes_differ(results):
    assert [exit_code(each) for each in results] == [1, 3] and exit_code(results[1], bits=True) == 3


def test_only_a_document_with_a_suspect_has_the_newer_schema(results):
    old, new = build_document(results[:1], title="t"), build_document(results, title="t")
    assert "SUSPECT" not in old["verdicts"] and new["verdicts"]["SUSPECT"] == 1
    assert [
        each["verdict"] for each in checked_document(json.loads(json.dumps(new)))["results"]
    ] == ["VIOLATED", "SUSPECT"]


def test_a_suspect_without_a_guess_is_refused(results):
    document = json.loads(json.dumps(build_document(results[1:], title="t")))
    edited = copy.deepcopy(document)
    del edited["results"][0]["guessed"]
    edited["results"][0].pop("sha256")
    with pytest.raises(InvalidArgument, match="gives VIOLATED, but the document states SUSPECT"):
        checked_document(edited)


def test_formats_ask_for_a_review(results):
    document = build_document(results, title="t")
    rules = {
        alert["ruleId"]: alert
        for alert in sarif(document)["runs"][0]["results"]
        if alert["message"]["text"].startswith("guessed")
    }
    assert (
        list(rules) == ["SUSPECT"]
        and rules["SUSPECT"]["kind"] == "review"
        and rules["SUSPECT"]["level"] == "none"
    )
    cases = {
        case.get("name"): [child.tag for child in case]
        for case in ET.fromstring(junit(document)).iter("testcase")
    }
    assert (
        "failure" in cases["leaky"]
        and "skipped" in cases["guessed"]
        and "failure" not in cases["guessed"]
    )


def test_the_answer_of_a_report_names_suspects_apart(results):
    entries = entries_of(build_document(results[1:], title="t"))
    assert (
        answer(entries)[0] == "SUSPECT in 1 of 1 audit of guessed claims: `guessed`."
        and "what is guessed" in what_to_do(entries[0])
    )
    assert "A guessed claim is violated in 1 of 1" in step_summary(
        build_document(results[1:], title="t")
    )
