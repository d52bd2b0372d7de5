"""Entries of typed constructors: a search program proposes them, the target file declares them, and
the audit decides.
"""

import sys

from dpwitness.benchmarks.pages.opendp_page import page
from dpwitness.benchmarks.scan import opendp as typed_search

PROGRAM = """
import json
space = {"type": "vector", "dtype": "i32", "bounds": [0, 10], "nullable": False, "nan": False, "size": None}
print("the library greets its user")
print(json.dumps({"header": ["import math"]}))
for factor, inputs in ((10, []), (9, [[], [10]]), (0, None)):
    source = ["def {name}(dataset):", "    return sum(dataset)", "def {name}_map(d_in):", f"    return {factor} * d_in"]
    declaration = {"kind": "transformation", "apply": "{name}", "map": "{name}_map", "input": space}
    declaration |= {"input_metric": "symmetric", "output_metric": "absolute", "d_in": [1]} | ({"inputs": inputs} if inputs else {})
    if inputs is None:
        source, declaration = ["def {name}(dataset, size, rng):", "    return [1.0] * size", "{name}.claim = 'pure:0.0'"], {}
    entry = {"constructors": ["make_sum"], "why": f"make_sum({factor})", "source": source, "declaration": declaration}
    print(json.dumps({"entry": entry}))
print(json.dumps({"tried": {"chains": 1234}}))
"""


def test_a_finding_counts_only_if_the_audit_confirms_it(tmp_path, monkeypatch):
    place = tmp_path / "adapters" / "typed" / "search" / "search.py"
    place.parent.mkdir(parents=True)
    monkeypatch.setattr(typed_search, "FOLDER", tmp_path / "adapters")
    place.write_text(PROGRAM)
    found = typed_search.audited("typed", sys.executable, 20.0, 5)
    verdicts = {each["target"]: each["verdict"] for each in found["findings"]}
    assert verdicts == {"make_sum_0": "NOT_REFUTED", "make_sum_1": "VIOLATED", "make_sum_2": ""}
    assert "epsilon must be positive" in found["findings"][2]["error"]
    assert (found["seed"], found["tried"]) == (5, {"chains": 1234})


def test_the_page_states_a_new_search_and_its_lost_findings():
    shown = {
        "program": "q.select(x)",
        "inputs": ["[1]", "[]"],
        "allowed": "0",
        "shown": "distance 1",
    }
    found = [shown | {"verdict": verdict} for verdict in ("", "VIOLATED", "ERROR")]
    search = {
        "release": "0.16.0",
        "date": "2026-11-29",
        "seed": 7,
        "tried": {"frames": 1200, "arrays": 0},
    }
    search |= {"cpu seconds": {"search": 301, "audits": 40}, "findings": found}
    text = page(typed_search.findings(), typed_search.issues(), search)
    assert "seed 7, tried 1,200 frames in 301 s of CPU time" in text
    assert "Without a verdict: 2 of the 3 findings" in text
    assert "| `q.select(x)` | `[1] / []` | 0 | distance 1 | VIOLATED |" in text
