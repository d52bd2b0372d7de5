"""Rows of the third-party page that need no statistics: made from declarations and files, and
compared with later releases.
"""

import json
import sys

import pytest

from dpwitness.benchmarks.pages import exact_audits
from dpwitness.benchmarks.pages.exact_audits import accountant_rows, finding_rows, upstream

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
