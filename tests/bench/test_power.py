"""How near the audit comes to an oracle: what is counted, and the page that tells it."""

import pytest

from dpwitness.benchmarks.pages.bench_pages import power_page as page
from dpwitness.benchmarks.power import Budget, measure


@pytest.fixture(scope="module")
def found():
    budgets = [Budget(5_000, 3, (0.0, 0.0, 0.0)), Budget(20_000, 2, (0.5, 2.0, 2.0))]
    return measure(7, ["20000"], budgets=budgets, only="randomized-response", workers=1)


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


def test_short_cases_are_compared_with_an_oracle_that_learns(found):
    """Of two outputs with opposite losses, training shows which is which: the oracle loses little
    but its training rounds.
    """
    for case in found.details[0]["short"]:
        assert case["few"] and case["ratio"] < 2 and 0.95 < case["low"] <= case["oracle"] < 1.05


def test_the_page_has_every_case_and_the_seed(found):
    text = page(found, "power.svg")
    assert "Seed 7: dpwitness bench power --seed 7 repeats these audits." in text
    every_case = text.partition("## Every case")[2]
    assert all(f"| {case['name']} |" in every_case for case in found.details[0]["cases"])
