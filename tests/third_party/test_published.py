"""The published audits of third-party libraries cover the suite."""

import json
from pathlib import Path

import pytest

from dpwitness.auditors.witnesses.seals import check_seal
from dpwitness.auditors.witnesses.witness_reader import load_json, read_checked_witness
from dpwitness.benchmarks.installation import pinned_environments
from dpwitness.benchmarks.libraries.rows import ROWS
from dpwitness.benchmarks.libraries.suite import cases
from dpwitness.mechanisms.wrappers.programs.environments import FOLDER

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"


def read_witness(source):
    data, name = load_json(source)
    check_seal(data, name)
    return read_checked_witness(data, name)


@pytest.fixture(scope="module")
def found():
    return json.loads((PUBLISHED / "third-party.json").read_text(encoding="utf-8"))


def test_every_row_of_the_suite_is_there(found):
    assert {row["name"] for row in found["rows"]} | set(found["missing"]) == {
        row.name for row in ROWS
    }


def test_keys_are_right_at_both_levels(found):
    keyed = {row["key"]: row for row in found["rows"] if row["key"]}
    assert len(keyed) == 20
    for row in keyed.values():
        assert row["right"] is True, row["name"]
        assert row["cpu_seconds"] < (900 if row["key"] == "K20" else 120)
        if row["limit"] is not None:
            # linear regression: hardly any count; at delta = 1e-5 luck moves 12 %
            least = 0.88 if row["claim"].startswith("pure") else 0.8
            assert row["parameter_lower"] >= least * row["limit"], row["name"]


def test_nothing_is_wrong_and_every_violation_has_a_witness_and_a_cause(found):
    for row in found["rows"]:
        assert row["right"] is not False, row["name"]
        refuted = "VIOLATED" in (row["verdict"], row["bit_verdict"])
        assert bool(row["witness"]) == refuted, row["name"]
        if refuted:
            assert row["cause"], row["name"]
            witness = read_witness(PUBLISHED / found["witnesses"] / row["witness"])
            assert (witness.level == "value") == (row["verdict"] == "VIOLATED")


def test_no_row_names_a_pair():
    """Where to look comes from the target file's domain alone."""
    assert not any("Pair(" in path.read_text() for path in FOLDER.glob("*/*_targets.py"))
    assert all(case.pairs is None for case in cases())


def test_every_adapter_has_an_environment():
    files = {path.name for path in FOLDER.glob("*/*_targets.py")}
    assert {
        file for environment in pinned_environments().values() for file in environment.targets
    } == files
    pinned = [
        line
        for environment in pinned_environments().values()
        for line in (*environment.requirements, *environment.no_deps)
    ]
    assert all("==" in line for line in pinned)
    # audited by their figures, without rows
    accountants = {"autodp", "dp-accounting", "dp-accounting-044", "jax-privacy"}
    assert {row.environment for row in ROWS} == set(pinned_environments()) - accountants
