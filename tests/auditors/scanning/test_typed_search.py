"""Entries of typed constructors: a search program proposes them, the target file declares them, and
the audit decides.
"""

import sys

import pytest

from dpwitness.benchmarks.scan import typed_search

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
def program(tmp_path, monkeypatch):
    """Return a function that writes the search program of a library."""
    place = tmp_path / "adapters" / "typed" / "search" / "search.py"
    place.parent.mkdir(parents=True)
    monkeypatch.setattr(typed_search, "FOLDER", tmp_path / "adapters")
    place.write_text(PROGRAM)
    return typed_search.search_program(["typed"])


def search(program, folder):
    return typed_search.search(program, set(), python=sys.executable, folder=folder, seconds=1.0)


def test_a_finding_counts_only_if_the_audit_confirms_it(program, tmp_path):
    found = search(program, tmp_path)
    assert [each.target for each in found.entries] == ["make_sum", "make_sum_1", "make_noise"]
    assert found.covered == {"make_sum", "make_noise"}
    assert found.remarks == ("programs of typed constructors: 1,234 chains",)
    assert typed_search.violations("typed", sys.executable, 2.0) == 1
