"""White-box, sensitivity and utility results in a report: their numbers, their plots,
what to do.
"""

import copy
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness import InvalidArgument, Verdict, audit_sensitivity, audit_utility, certify
from dpwitness.auditors import MeanBound, Scaling
from dpwitness.commands.common import exit_code
from dpwitness.mechanisms import ConvergenceError, Gaussian, Laplace, Records
from dpwitness.reports import write_report
from dpwitness.reports.audit.document import build_document, checked_document, entries_of
from dpwitness.reports.cards import answer, what_to_do
from dpwitness.reports.formats.machine_formats import junit, sarif
from dpwitness.reports.formats.markdown_formats import step_summary


def linear(value, size, rng):
    return 2.0 * value * rng.uniform(0.9, 1.1, size)


@pytest.fixture(scope="module")
def results():
    small = Gaussian(1.0, 1e-5, noise_multiplier=0.8)
    return [
        certify(Laplace(1.0), name="exact"),
        certify(small, small.worst_pair(), name="small noise"),
        audit_sensitivity(np.mean, 0.25, Records(4), evaluations=300, name="the mean"),
        audit_sensitivity(np.mean, 0.2, Records(4), evaluations=300, name="too tight"),
        audit_utility(linear, Scaling(1.0, (1, 4, 16, 64)), name="linear"),
        audit_utility(linear, Scaling(0.5, (1, 4, 16, 64)), name="not a root"),
        audit_utility(lambda size, rng: rng.exponential(size=size), MeanBound(1.1), name="noise"),
    ]


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    write_report(results, place / "one", title="t")
    write_report(
        json.loads((place / "one" / "audit.json").read_text())["results"], place / "two", title="t"
    )
    return place


def test_cards_hold_the_numbers(folder):
    text = (folder / "one" / "audit.md").read_text()
    for expected in (
        "VIOLATED in 3 of 7 audits",
        "| epsilon | in [1, 1], both orders of the pair |",
        "no change is needed for this pair",
        "dpwitness replay witness-small-noise.json",
        "| largest ratio to the bound | 1.25, in [1.25, 1.25] (values taken as exact to 1e-9) |",
        "raise it at least by the ratio below",
        "1.25 of the bound",
        "| slope of log error |",
        "±",
        "promise less, or repair the mechanism",
        "| enclosure |",
        "error = O(n^0.5)",
    ):
        assert expected in text, expected


def test_plots_are_there_and_the_same_twice(folder):
    names = {path.name for path in (folder / "one").glob("*.svg")}
    assert {
        "profile-exact.svg",
        "tradeoff-exact.svg",
        "search-the-mean.svg",
        "search-too-tight.svg",
        "scaling-linear.svg",
    } <= names
    assert not any("noise.svg" in name and "small" not in name for name in names)
    for name in names:
        content = (folder / "one" / name).read_bytes()
        assert content == (folder / "two" / name).read_bytes(), name
        assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
    words = {name: (folder / "one" / name).read_text() for name in names}
    assert (
        "1.25 found" in words["search-too-tight.svg"]
        and "the claimed bound" in words["search-too-tight.svg"]
    )
    assert (
        "claimed: power 0.5" in words["scaling-not-a-root.svg"]
        and "fitted: power 1" in words["scaling-not-a-root.svg"]
    )
    assert "at least" in words["tradeoff-exact.svg"]


def test_an_error_shows_no_number(tmp_path):
    def stuck(dataset):
        raise ConvergenceError("step 7 of 7")

    text = write_report(
        [audit_sensitivity(stuck, 1.0, Records(1), evaluations=50)], tmp_path, title="t"
    ).read_text()
    assert (
        "step 7 of 7" in text and "largest ratio" not in text and not list(tmp_path.glob("*.svg"))
    )


GUESS = "the claim is pure:1 under replace-one, read from parameter 'epsilon'"


def leaky(dataset, size, rng):
    return np.sum(dataset) + rng.laplace(0.0, 0.4, size)


def guessed(dataset, size, rng):
    return leaky(dataset, size, rng)


guessed.guessed = GUESS


@pytest.fixture(scope="module")
def suspects():
    """A stated and a guessed claim, both broken by a factor of 2.5; false-failure probability far
    below 1e-6.
    """
    pair = dpw.Pair(np.array([0.0]), np.array([1.0]))
    return [
        dpw.audit(each, claim="pure:1", pair=pair, trials=20_000, seed=1)
        for each in (leaky, guessed)
    ]


def test_a_guess_changes_the_verdict_and_nothing_else(suspects):
    stated, found = suspects
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
    assert [exit_code(each) for each in suspects] == [1, 3] and exit_code(
        suspects[1], bits=True
    ) == 3


def test_a_document_counts_its_suspects(suspects):
    old, new = build_document(suspects[:1], title="t"), build_document(suspects, title="t")
    assert "SUSPECT" not in old["verdicts"] and new["verdicts"]["SUSPECT"] == 1
    assert [
        each["verdict"] for each in checked_document(json.loads(json.dumps(new)))["results"]
    ] == ["VIOLATED", "SUSPECT"]


def test_a_suspect_without_a_guess_is_refused(suspects):
    document = json.loads(json.dumps(build_document(suspects[1:], title="t")))
    edited = copy.deepcopy(document)
    del edited["results"][0]["guessed"]
    edited["results"][0].pop("sha256")
    with pytest.raises(InvalidArgument, match="gives VIOLATED, but the document states SUSPECT"):
        checked_document(edited)


def test_formats_ask_for_a_review(suspects):
    document = build_document(suspects, title="t")
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


def test_the_answer_of_a_report_names_suspects_apart(suspects):
    entries = entries_of(build_document(suspects[1:], title="t"))
    assert (
        answer(entries)[0] == "SUSPECT in 1 of 1 audit of guessed claims: `guessed`."
        and "what is guessed" in what_to_do(entries[0])
    )
    assert "A guessed claim is violated in 1 of 1" in step_summary(
        build_document(suspects[1:], title="t")
    )
