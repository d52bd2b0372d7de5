"""How near the audit comes to an oracle: what is counted, and the page that tells it."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dpwitness.benchmarks.pages.site import main
from dpwitness.benchmarks.power import measure
from dpwitness.benchmarks.table import Row
from dpwitness.mechanisms import InvalidArgument

BEFORE = Path(__file__).parents[2] / "reports" / "published" / "power-before.json"


@pytest.fixture(scope="module")
def found():
    return measure([(5_000, 3, ()), (20_000, 2, (0.5, 2.0, 2.0))], only="randomized-response")


def test_causes_multiply_to_what_is_reached(found):
    assert [row.case for row in found.rows] == [
        f"certified / limit at 20,000 trials: {q}" for q in ("median", "10 % quantile", "worst")
    ]
    # nobody certifies twice the limit
    assert [row.met for row in found.rows] == [True, False, False]
    for budget in found.details:
        for case in budget["cases"]:
            assert len(case["ratios"]) == budget["seeds"]
            assert case["rounds"] * case["looks"] * case["event"] == pytest.approx(
                sorted(case["ratios"])[len(case["ratios"]) // 2], rel=0.2
            )
            assert 0.8 < case["rounds"] < 1 and 0.9 < case["looks"] < 1


def test_page(found, tmp_path):
    family = Row("family: radius, certified / limit at 20,000 trials", 0.8, 0.7, "ratio")
    after = asdict(replace(found, rows=(*found.rows, family)))
    (tmp_path / "after.json").write_text(json.dumps([after]))
    assert main(["power", str(tmp_path), str(BEFORE), str(tmp_path / "after.json")]) == 0
    text = (tmp_path / "power.md").read_text()
    today = [line for line in text.splitlines() if line.startswith("| 20,000 |")][1]
    assert "(met: 0.5 required)" in today and "(**missed**: 2 required)" in today
    assert "| radius, certified / limit at 20,000 trials | 0.7 | 0.8 (**missed**) |" in text


def test_short_cases_are_compared_with_an_oracle_that_learns(found):
    """Of two outputs with opposite losses, training shows which is which: the oracle loses little
    but its training rounds.
    """
    for case in found.details[1]["short"]:
        assert case["few"] and case["ratio"] < 2 and 0.95 < case["low"] <= case["oracle"] < 1.05


def test_another_table_is_refused(tmp_path):
    (tmp_path / "other.json").write_text('{"name": "power", "rows": []}')
    with pytest.raises(InvalidArgument, match=r"other\.json must hold one table .* got 0"):
        main(["power", str(tmp_path), str(BEFORE), str(tmp_path / "other.json")])
