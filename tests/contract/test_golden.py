"""Golden runs: small audits of every kind with fixed seeds keep their verdicts, pairs, counts and
bounds.

Learned events depend on the processor in the last digits. Therefore a learned bound may differ by a
tolerance here, and `compare_commits.py` compares two commits on one machine to the last digit.
"""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from golden_cases import CASES, GOLDEN, key_figures, summary

EXPECTED = json.loads(GOLDEN.read_text(encoding="utf-8"))
_LEARNED = (
    "parameter_lower",
    "epsilon_lower",
    "detectable",
    "p_value",
    "trials",
    "tally",
    "alpha",
    "method",
    "description",
    "exercised",
)


def test_every_case_has_a_golden_result_and_every_kind_of_audit_has_a_case():
    assert set(EXPECTED) == set(CASES) >= set(QUICK)
    assert {name.partition("/")[0] for name in CASES} >= {
        "zoo", "paper", "notion", "output", "domain", "audit", "sequential", "outputs", "certify", "trace", "canaries", "sensitivity",
        "utility", "stability", "accountant", "metamorphic", "plan", "search", "session",
    }  # fmt: skip


# cases of each kind, and what differs most among the others
QUICK = (
    "zoo/laplace", "zoo/noisy-max-both", "zoo/gaussian-grid", "zoo/svt6",
    "paper/logistic-output-gamma-d1", "paper/simplex-approximate", "paper/interactive-repaired",
    "paper/transfer-answers-c1-T1", "paper/aggregation-full-repaired",
    "notion/approx:1,1e-3", "notion/gdp:1.5", "notion/rdp:2,1", "notion/metric",
    "output/dtype", "output/exception", "output/mapping", "output/signed-zero", "output/text",
    "domain/answers", "domain/graph", "domain/records", "domain/texts",
    "audit/one run", "audit/violated", "audit/low bits", "sequential/violated", "sequential/find",
    "outputs/categories", "certify/laplace", "certify/noisy max", "certify/violated",
    "trace/confirmed", "trace/sound", "canaries/violated", "sensitivity/violated",
    "utility/violated", "stability/violated", "accountant/violated", "metamorphic/row-wise",
    "plan/find", "plan/trials", "search/noisy max", "session/adversary",
)  # fmt: skip


@pytest.mark.quick_cases(*QUICK)
@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    found, expected = key_figures(summary(CASES[name]())), EXPECTED[name]
    assert _outline(found) == _outline(expected)
    for one, other in zip(_numbers(found), _numbers(expected), strict=True):
        assert (
            one == other
            if isinstance(one, str)
            else one == pytest.approx(other, rel=1e-9, abs=1e-9)
        )
    for one, other in zip(
        _numbers(found, learned=True), _numbers(expected, learned=True), strict=True
    ):
        assert one == pytest.approx(other, rel=0.2, abs=0.1)


def _entries(figures):
    for content in figures if isinstance(figures, list) else [figures]:
        is_learned = "tally" in content and content.get("kind") in ("black box", None)
        for key, value in content.items():
            yield key, value, is_learned and key in _LEARNED


def _outline(figures):
    """Everything that is equal on every machine: the words, the pair, the counts of
    fixed events.
    """
    return [
        (key, value)
        for key, value, learned in _entries(figures)
        if not learned and not isinstance(value, float)
    ]


def _numbers(figures, learned=False):
    return [
        value
        for key, value, is_learned in _entries(figures)
        if isinstance(value, float) and is_learned is learned
    ]
