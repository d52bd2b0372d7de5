"""The scan of a package with mechanisms, decoys and traps gives the expected table."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

from dpwitness.auditors.scanning import audits
from dpwitness.auditors.scanning.audits import (
    AuditPlan,
    _audit_errors,
    _audit_relations,
    audit_entries,
)
from dpwitness.auditors.scanning.scan import row_of, written
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.mechanisms.wrappers.programs.declared import declarations
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import target_names
from dpwitness.reports.audit.document import build_document, checked_document

MECHANISMS = {  # name -> claim, relation
    "laplace_mechanism": ("pure:1", "l1"),
    "gaussian_mechanism": ("approx:1,1e-05", "l1"),
    "noisy_count": ("pure:1", "add-remove"),
    "half_noise_count": ("pure:1", "add-remove"),
    "noisy_sum": ("pure:1", "replace-one"),
    "private_mean": ("pure:1", "replace-one"),
    "release_median": ("pure:1", "replace-one"),
    "randomized_response": ("pure:1", "replace-one"),
    "k_randomized_response": ("pure:1", "replace-one"),
    "geometric_noise": ("pure:1", "l1"),
    "exponential_mechanism": ("pure:1", "linf"),
    "zcdp_sum": ("zcdp:0.5", "replace-one"),
    "Histogram": ("pure:1", "add-remove"),
    "LaplaceNoise": ("pure:1", "l1"),
    "make_laplace": ("pure:1", "l1"),
    "RunningSum": ("pure:1", "replace-one"),
    "PrivateMeanModel": ("pure:1", "replace-one"),
    "louder_noise": ("pure:1", "l1"),
    "zero_epsilon_count": ("pure:1", "add-remove"),
    "mean_of_some": ("pure:1", "replace-one"),
    "add_noise": ("pure:1", "l1"),  # of scale 1
    "metric_laplace": ("metric:1", "l2"),
    "Anonymizer": ("pure:1", "l1"),  # as its output follows its input
    # one record after the other, with values of the example
    "SequentialTest": ("pure:1", "replace-one"),
    "count_adults": ("pure:1", "add-remove"),  # with the columns that its exceptions name
    "StatedNoise": ("", "l1"),  # the library computes the claim
    "BloomClient": ("", "replace-one"),  # its server makes the hash functions and keeps epsilon
}
SKELETONS = {  # name -> a part of what is missing
    "needs_key": "no value is known for key_store",
    "leaking_sum": "privacy leak",
}
OTHERS = {  # name -> a part of the reason
    "AbstractMechanism": "abstract",
    "BudgetAccountant": "budget",
    "huber_loss": "processes what was released",
    "clip": "no privacy parameter",
    "check_epsilon": "checks",
    "laplace_scale": "the same output in every run",
    "aggregate_reports": "processes what was released",
    "epsilon_greedy": "without a word on privacy",
    "AbsoluteDifference": "no privacy parameter",
    "PureDP": "no privacy parameter",
    "BloomServer": "processes what was released",
    "gaussian_epsilon": "computes a number from sigma, delta",
}


def test_every_public_name_is_in_one_of_the_lists(proposals):
    assert set(proposals) == {*MECHANISMS, *SKELETONS, *OTHERS, "stated"}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_has_a_target_with_its_claim_and_relation(proposals, name):
    found = proposals[name]
    assert (
        found.role == "mechanism"
        and found.runs
        and (found.recipe.claim.text, found.recipe.form.relation) == MECHANISMS[name]
    )
    assert bool(found.guess) == (name != "StatedNoise")


@pytest.mark.parametrize("name", SKELETONS)
def test_a_mechanism_of_which_a_part_is_unknown_has_a_skeleton(proposals, name):
    found = proposals[name]
    assert (
        found.role == "mechanism"
        and found.is_skeleton
        and not found.runs
        and SKELETONS[name] in found.why.replace("priva...", "privacy leak")
    )


@pytest.mark.parametrize("name", OTHERS)
def test_a_decoy_is_something_else(proposals, name):
    assert (
        proposals[name].role == "other"
        and OTHERS[name] in proposals[name].why
        and not proposals[name].runs
    )


def test_the_confidence_in_a_claim_names_what_it_rests_on(proposals):
    found = {
        name: proposals[name].confidence
        for name in ("StatedNoise", "stated", "laplace_mechanism", "noisy_sum", "clip")
    }
    assert found == {
        "StatedNoise": "certain",
        "stated": "certain",
        "laplace_mechanism": "docstring",
        "noisy_sum": "name",
        "clip": "",
    }


def test_a_declared_claim_is_certain(proposals):
    assert (
        proposals["stated"].runs
        and proposals["stated"].reading.declared
        and not proposals["stated"].guess
    )


@pytest.fixture(scope="session")
def scan(explored, proposals, tmp_path_factory):
    found, _ = explored
    return written(
        "fairground",
        tmp_path_factory.mktemp("scan") / "fairground_targets.py",
        found,
        list(proposals.values()),
        None,
    )


def test_the_target_file_holds_each_mechanism_and_a_comment_for_each_skeleton(scan):
    text = scan.file.read_text(encoding="utf-8")
    assert set(target_names(str(scan.file))) == {*MECHANISMS, "stated"}
    assert all(f"# TODO fairground.{name}" in text for name in SKELETONS) and not any(
        f"def {name}(" in text for name in OTHERS
    )
    assert "\n# claim: parameter 'epsilon': epsilon : float: Privacy budget.\n" in text


def test_a_computed_claim_comes_from_the_library(scan):
    target = Target(str(scan.file), "StatedNoise")
    assert (
        str(target.claim) == "pure:1"
        and target.guessed == ""
        and Target(str(scan.file), "noisy_sum").guessed
    )


def test_a_target_runs_what_was_tried(scan):
    outputs = Target(str(scan.file), "noisy_sum").sample(
        np.array([0.5, 3.0]), 400, np.random.default_rng(1)
    )
    # 5 standard deviations of the mean: false-failure probability below 1e-6
    assert abs(np.mean(outputs) - 1.5) < 0.5


@pytest.mark.slow
def test_a_guessed_claim_is_suspect_a_stated_one_violated_and_a_right_one_is_kept(scan, explored):
    """A few thousand runs decide each of them, however slow the machine is."""
    names = ["half_noise_count", "stated", "geometric_noise"]
    plan = AuditPlan(scan.file, None, explored[1], 1e4)
    found = {name: audits._audit_one(plan, name, 6.0) for name in names}
    assert (
        found["half_noise_count"].verdict is Verdict.SUSPECT
        and found["half_noise_count"].results[0].parameter_lower > 1
    )
    assert (
        "not confirmed: the claim is pure:1 under add-remove"
        in found["half_noise_count"].results[0].notes[0]
    )
    assert (
        found["stated"].verdict is Verdict.VIOLATED
        and found["geometric_noise"].verdict is Verdict.NOT_REFUTED
    )


def test_relations_find_what_an_audit_of_the_claim_at_one_epsilon_does_not(scan, explored):
    """Fixed numbers of runs, no time for other audits: the verdicts do not depend on the speed of
    the machine.
    """
    declared = {
        name: each | {"runs": 1000}
        for name, each in declarations(str(scan.file)).items()
        if each["kind"] == "metamorphic"
    }
    chosen = {
        name: declared[name]
        for name in (
            "louder_noise_at_epsilon",
            "zero_epsilon_count_at_epsilon",
            "laplace_mechanism_at_epsilon",
        )
    }
    plan = AuditPlan(scan.file, None, explored[1], 1e4)
    found = {each.name: each.results for each in _audit_relations(plan, chosen, lambda line: None)}
    assert {name: results[0].verdict for name, results in found.items()} == {
        "louder_noise": Verdict.SUSPECT,
        "zero_epsilon_count": Verdict.SUSPECT,
        "laplace_mechanism": Verdict.NOT_REFUTED,
    }
    headlines = [each.headline() for each in found["louder_noise"]]
    assert any(
        "at epsilon = 0.04" in each and "adds noise to its answer" in each for each in headlines
    )


def test_an_exception_that_depends_on_one_record_is_found_before_the_statistics(scan, explored):
    """False-failure probability: that of the relation, 1e-6."""
    plan = AuditPlan(scan.file, None, explored[1], 1e4)
    (found,) = _audit_errors(plan, "mean_of_some", 100.0)
    assert (
        found.verdict is Verdict.SUSPECT
        and found.how == ("relations",)
        and "raises" in found.results[0].headline()
    )
    assert not list(_audit_errors(plan, "noisy_sum", 100.0))


def test_every_target_has_a_brief_audit_before_the_long_ones_and_both_share_one_error(
    monkeypatch, tmp_path
):
    calls = []

    def audited(plan, name, seconds, confidence=0.0):
        calls.append((name, round(seconds), round(1 - confidence, 9)))
        return audits.Audited(
            name, ("black box",), (SimpleNamespace(verdict=Verdict.SUSPECT),) if name == "b" else ()
        )

    monkeypatch.setattr(audits, "_audit_one", audited)
    plan, deadline = AuditPlan(tmp_path, None, tmp_path, 1e4), time.monotonic() + 1e4
    found = list(
        audits._audit_statistically(plan, ["a", "b", "c"], {}, deadline, lambda line: None)
    )
    assert calls == [
        ("a", 10, 0.002),
        ("b", 10, 0.002),
        ("c", 10, 0.002),
        ("a", 64, 0.008),
        ("c", 64, 0.008),
    ]
    assert [each.name for each in found] == ["b", "a", "c"]


def test_a_row_says_why_a_name_is_not_audited(proposals):
    assert (
        row_of(proposals["needs_key"]).why == "no value is known for key_store"
        and row_of(proposals["clip"]).target == ""
    )


DECLARED = """
import math


def classic(epsilon, delta):
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


TARGETS = {
    "classic": {"kind": "accountant", "mechanism": "gaussian", "returns": "noise", "parameters": {"epsilon": "epsilon", "delta": "delta"}},
}
TARGETS["guessed"] = {**TARGETS["classic"], "function": "classic", "guessed": "classic returns noise"}
"""


def test_accountants_of_the_file_are_audited_and_a_guess_makes_a_suspect(tmp_path):
    """The classic formula is for epsilon below 1; the search finds a larger one within its first
    calls.
    """
    file = tmp_path / "declared.py"
    file.write_text(DECLARED, encoding="utf-8")
    plan = AuditPlan(file, None, tmp_path, 10.0)
    found = {
        each.name: each.results[0] for each in audit_entries(plan, [], declarations(str(file)))
    }
    assert (
        found["classic"].verdict is Verdict.VIOLATED and found["guessed"].verdict is Verdict.SUSPECT
    )
    assert (
        found["guessed"].headline().startswith("SUSPECT: the accountant returns noise")
        and found["guessed"].to_json()["kind"] == "guessed"
    )
    document = json.loads(json.dumps(build_document(list(found.values()), title="t")))
    assert document["schema_version"] == 1 and [
        each["verdict"] for each in checked_document(document)["results"]
    ] == ["VIOLATED", "SUSPECT"]
