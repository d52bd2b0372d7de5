"""Rows of the third-party page that need no statistics: made from declarations and files, and
compared with later releases.
"""

import json
import sys

import pytest

from dpwitness.benchmarks.pages import exact_audits
from dpwitness.benchmarks.pages.exact_audits import (
    accountant_rows,
    exact_parts,
    finding_rows,
    uncovered,
)
from dpwitness.benchmarks.pages.exact_rows import section, upstream

FILE = """
LIBRARY = "iniconfig"
ASKED = {"epsilon": "epsilon", "scale": "scale"}
TARGETS = {
    "right": {"kind": "accountant", "mechanism": "laplace", "returns": "mu", "parameters": {"scale": "scale"}, "ranges": {"scale": [1, 2]}},
    "wrong": {"kind": "accountant", "mechanism": "laplace", "returns": "rdp", "parameters": {"scale": "scale", "order": "order"}},
}

def right(scale):
    return float("inf")

def wrong(scale, order):
    return 0.0
"""


def row(version, outcome, target="f", library="L"):
    return {
        "library": library,
        "version": version,
        "target": target,
        "verdict": outcome,
        "kind": "accountant",
        "finding": "",
        "cause": "",
    }


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(exact_audits, "_SECONDS", 0.2)


def test_declared_accountants_become_rows(tmp_path, short):
    file = tmp_path / "sums_targets.py"
    file.write_text(FILE)
    right, wrong = accountant_rows(str(file), sys.executable)
    assert (right["verdict"], wrong["verdict"], wrong["library"]) == (
        "NOT_REFUTED",
        "VIOLATED",
        "iniconfig",
    )
    assert wrong["version"] and "Rényi divergence = 0" in wrong["finding"]


def test_a_source_that_fails_is_a_line_and_the_rows_of_the_others_stay(tmp_path, short):
    """The witness of an earlier release holds, so that no search is needed; the file's other
    accountant is repaired.
    """
    file = tmp_path / "sums_targets.py"
    file.write_text(FILE)
    at = {
        "mechanism": "laplace",
        "returns": "rdp",
        "parameters": {"scale": "scale", "order": "order"},
        "at": {"scale": 1.0, "order": 2.0},
    }
    about = {
        "library": "iniconfig",
        "version": "0.1",
        "adapter": str(file),
        "kind": "accountant",
        "finding": "",
        "cause": "",
    }
    still = about | {"target": "wrong", "verdict": "VIOLATED", "witness": at}
    mended = about | {
        "target": "right",
        "verdict": "VIOLATED",
        "witness": at | {"returns": "mu", "parameters": {"scale": "scale"}},
    }
    mended["witness"] = mended["witness"] | {"at": {"scale": 1.0}}
    *_, (_, found) = exact_parts(
        [f"{file}={sys.executable}", f"{file}={tmp_path}/none"],
        {"rows": [still, mended], "uncovered": [], "failed": {}},
    )
    (failure,) = found["failed"].values()
    assert "no such file" in failure and len(found["rows"]) == 4 and found["uncovered"][0]["others"]
    after = {row["target"]: row for row in found["rows"] if row["version"] != "0.1"}
    assert (
        after["wrong"]["witness"]["at"] == at["at"] and after["right"]["verdict"] == "NOT_REFUTED"
    )
    states = {
        row["target"]: upstream(row, found["rows"], {})
        for row in found["rows"]
        if row["version"] == "0.1"
    }
    assert states["wrong"].startswith("still in ") and states["right"].startswith("repaired since ")


def test_findings_of_a_scan_become_rows(tmp_path):
    common = {"name": "n", "cause": "c", "confidence": "high"}
    found = [
        {**common, "kind": "distance", "found": "2", "allowed": "1"},
        {**common, "kind": "error"},
        {**common, "kind": "distance", "found": "2", "allowed": "1", "confidence": "medium: open"},
    ]
    (tmp_path / "found.json").write_text(
        json.dumps({"library": "L", "version": "1", "findings": found})
    )
    assert [each["verdict"] for each in finding_rows(tmp_path / "found.json")] == [
        "VIOLATED",
        "INCONCLUSIVE",
        "INCONCLUSIVE",
    ]


@pytest.mark.parametrize(
    ("later", "newest", "state"),
    [
        ([row("1.10", "NOT_REFUTED"), row("1.9", "NOT_REFUTED", "g")], "1.10", "not found in 1.10"),
        ([row("1.10", "VIOLATED")], "1.10", "still in 1.10"),
        ([row("1.10", "ERROR")], "1.10", "1.10 was not audited"),
        ([row("1.1", "NOT_REFUTED")], "1.2", "in the newest release"),
        ([], "", "unknown"),
        (
            [row("1.10", "VIOLATED") | {"again": {"1.10": {"verdict": "NOT_REFUTED"}}}],
            "1.10",
            "still in 1.10",
        ),
    ],
)
def test_state_of_a_finding_in_later_releases(later, newest, state):
    """Version 1.10 is later than 1.2, and 1.1 is earlier."""
    found = row("1.2", "VIOLATED")
    assert upstream(found, [found, *later], {"L": newest}) == state


def test_a_witness_that_is_repaired_and_another_one_that_holds():
    found = row("1.2", "VIOLATED") | {
        "again": {"1.9": {"verdict": "VIOLATED"}, "1.10": {"verdict": "NOT_REFUTED"}}
    }
    assert (
        upstream(found, [found, row("1.9", "VIOLATED"), row("1.10", "NOT_REFUTED")], {})
        == "repaired since 1.10"
    )
    assert "another witness holds there" in upstream(
        found, [found, row("1.9", "VIOLATED"), row("1.10", "VIOLATED")], {}
    )


def test_names_that_no_target_file_mentions():
    """The adapter of NumPy mentions no name of this package."""
    found = uncovered("numpy", sys.executable, "iniconfig")
    assert "IniConfig" in found["others"] and found["public"] == len(found["others"])


def test_the_sections_count_refuted_rows_of_both_kinds():
    exact = {
        "rows": [row("1", "VIOLATED"), row("2", "NOT_REFUTED")],
        "checked": "2026-11-24",
        "newest": {"L": "2"},
        "uncovered": [{"library": "L", "public": 3, "others": ["a", "b"]}],
    }
    text = "\n".join(
        section(exact, [row("1", "VIOLATED", library="M"), row("1", "ERROR", library="M")])
    )
    assert (
        "2 of 4 rows are refuted at the level of values (2 targets, some in several "
        "releases), in 3 releases" in text
    )
    assert "| L 1 | `f` | not found in 2 |" in text and "2 of 3 public names: `a`, `b`" in text
