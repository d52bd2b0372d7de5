"""Entries of typed constructors: a search program proposes them, the target file declares them, and
the audit decides.
"""

import sys

import pytest

from dpwitness.auditors.scanning import package_discovery
from dpwitness.auditors.scanning.audits import AuditPlan, audit_entries
from dpwitness.auditors.scanning.package_discovery import Discovered
from dpwitness.auditors.scanning.scan import typed_entries, written
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.mechanisms.wrappers.programs.declared import declarations

PROGRAM = """
import json
space = {"type": "vector", "dtype": "i32", "bounds": [0, 10], "nullable": False, "nan": False, "size": None}
print("the library greets its user")
print(json.dumps({"header": ["import math"]}))
for factor, kind in ((10, ""), (9, "distance")):
    source = ["def {name}(dataset):", "    return sum(dataset)", "def {name}_map(d_in):", f"    return {factor} * d_in"]
    declaration = {"kind": "transformation", "apply": "{name}", "map": "{name}_map", "input": space}
    declaration |= {"input_metric": "symmetric", "output_metric": "absolute", "d_in": [1]} | ({"inputs": [[], [10]]} if kind else {})
    entry = {"constructors": ["make_sum"], "why": f"make_sum({factor})", "expected": kind, "source": source, "declaration": declaration}
    print(json.dumps({"entry": entry}))
source = ["def {name}(dataset, size, rng):", "    return [float(dataset[0]) + rng.laplace() for _ in range(size)]"]
source += ["def _{name}_claim():", "    return 'pure:1'"]
domain = {"kind": "Answers", "length": 1, "low": -10, "high": 10, "relation": "l1"}
entry = {"constructors": ["make_noise"], "why": "make_noise()", "expected": "", "source": source}
entry |= {"claim": "_{name}_claim", "domain": domain}
print(json.dumps({"entry": entry}))
print(json.dumps({"tried": {"chains": 1234}}))
"""


@pytest.fixture
def typed_library(tmp_path, monkeypatch):
    """Return what discovery says of a library whose adapter has a search program."""
    (tmp_path / "adapters" / "typed" / "search").mkdir(parents=True)
    (tmp_path / "adapters" / "typed" / "search" / "search.py").write_text(PROGRAM)
    monkeypatch.setattr(package_discovery, "FOLDER", tmp_path / "adapters")
    objects = (
        {"module": "typed.t", "name": "make_sum"},
        {"module": "typed.m", "name": "make_noise"},
    )
    return Discovered({"tops": ["typed"], "distribution": "typed", "version": "1"}, objects, ())


def test_a_finding_counts_only_if_the_audit_confirms_it(typed_library, tmp_path):
    typed = typed_entries(
        typed_library, python=sys.executable, folder=tmp_path, memory=0.0, seconds=1.0
    )
    assert [each.target for each in typed.entries] == ["make_sum", "make_sum_1", "make_noise"]
    assert typed.covered == {"make_sum", "make_noise"}
    assert typed.remarks == ("programs of typed constructors: 1,234 chains",)
    scan = written("typed", tmp_path / "targets.py", typed_library, [], None, typed=typed)
    assert [(row.name, row.role, row.confidence) for row in scan.rows] == [
        ("typed.t.make_sum", "transformation", "certain"),
        ("make_sum_1", "transformation", "certain"),
        ("typed.m.make_noise", "mechanism", "certain"),
    ]
    declared = declarations(str(scan.file))
    assert list(declared) == ["make_sum", "make_sum_1"]
    outcomes = list(audit_entries(AuditPlan(scan.file, None, tmp_path, 2.0), [], declared))
    assert [each.verdict for each in outcomes] == [Verdict.NOT_REFUTED, Verdict.VIOLATED]


def test_a_search_that_ends_early_keeps_its_entries(typed_library, tmp_path):
    program = tmp_path / "adapters" / "typed" / "search" / "search.py"
    program.write_text(
        PROGRAM.replace(
            'print(json.dumps({"tried"', 'raise SystemExit(3)\nprint(json.dumps({"tried"'
        )
    )
    typed = typed_entries(
        typed_library, python=sys.executable, folder=tmp_path, memory=0.0, seconds=1.0
    )
    assert len(typed.entries) == 3
    assert "ended early: the process ended with exit code 3" in typed.remarks[0]


def test_a_library_without_a_search_program_has_no_typed_entries(tmp_path):
    found = Discovered({"tops": ["plain"]}, (), ())
    assert (
        typed_entries(found, python=None, folder=tmp_path, memory=0.0, seconds=1.0)
        == package_discovery.TypedEntries()
    )
