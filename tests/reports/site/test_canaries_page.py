"""The page on canaries has each row of the benchmark once, with its ceiling."""

import json
from dataclasses import asdict

from dpwitness.benchmarks.pages.site import main
from dpwitness.benchmarks.table import Row, Table

ROWS = (
    Row("quantiles, Gaussian curve, against jax-privacy (split)", 2.3, 3.5, "epsilon"),
    Row("10,000 a side, unit shift: Gaussian curve", 3.4, 3.3, "epsilon"),
    Row("1,000 ideal canaries, epsilon = 1: Gaussian curve", 0.32, 0.29, "epsilon"),
    Row("false alarms, a law", 0.0646, 0.02, "rate", at_most=True, counts=(40, 2000)),
)
DETAILS = (
    {
        "canaries": 1000,
        "epsilon": 1.0,
        "theorem": "Gaussian curve",
        "found": 0.29,
        "most": 0.3456,
        "guesses": 500,
    },
)


def test_every_row_occurs_once_with_its_requirement(tmp_path):
    table = asdict(Table("canaries", ROWS, ("a ceiling",), DETAILS))
    (tmp_path / "c.json").write_text(json.dumps([table]))
    assert main(["canaries", str(tmp_path), str(tmp_path / "c.json")]) == 0
    text = (tmp_path / "canaries.md").read_text()
    assert all(text.count(f"| {row.case} |") == 1 for row in ROWS)
    assert "| at least 0.32 | 0.29 | 0.346 | **missed** |" in text and text.count("**missed**") == 2
    assert "Gaussian curve, 1,000 canaries" in (tmp_path / "canaries.svg").read_text()
