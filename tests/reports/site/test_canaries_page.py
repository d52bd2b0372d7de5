"""The page on canaries says what the benchmark measured: each row once, ceilings beside, what was
missed.
"""

import json
from dataclasses import asdict

import pytest

from dpwitness.benchmarks.pages.canaries_page import main
from dpwitness.benchmarks.table import Row, Table
from dpwitness.mechanisms import InvalidArgument

ROWS = (
    Row("quantiles, Gaussian curve, against jax-privacy (split)", 2.3, 3.5, "epsilon"),
    Row("10,000 a side, unit shift: Gaussian curve", 3.4, 3.3, "epsilon"),
    Row("1,000 ideal canaries, epsilon = 1: Gaussian curve", 0.32, 0.29, "epsilon"),
    Row("false alarms, a law", 0.0646, 0.02, "rate", at_most=True, counts=(40, 2000)),
    Row("10^6 canaries, gdp:0.5", 5.0, 6.25, "s", at_most=True),
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


def test_every_row_stands_once_with_what_was_asked(tmp_path):
    told = Table(
        "canaries",
        ROWS,
        ("jax-privacy was run on the same scores, in this run", "a ceiling"),
        DETAILS,
    )
    (tmp_path / "c.json").write_text(json.dumps([asdict(told)]))
    assert main([str(tmp_path), str(tmp_path / "c.json")]) == 0
    text = (tmp_path / "canaries.md").read_text()
    assert all(text.count(f"| {row.case} |") == 1 for row in ROWS)
    assert "| at least 0.32 | 0.29 | 0.346 | **missed** |" in text and text.count("**missed**") == 3
    assert (
        "| at most 0.0646 | 0.02 | met |" in text
        and "Jax-privacy was run" in text
        and "A ceiling" not in text
    )
    assert "Gaussian curve, 1,000 canaries" in (tmp_path / "canaries.svg").read_text()


def test_another_table_is_refused(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps([asdict(Table("canaries", ROWS))]))
    with pytest.raises(
        InvalidArgument,
        match="must hold one table of `dpwitness bench canaries` with its details, got 0",
    ):
        main([str(tmp_path), str(tmp_path / "c.json")])
    assert main([str(tmp_path)], echo=lambda text: None) == 2
