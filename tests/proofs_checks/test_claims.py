"""Claims settled by certificate: verdicts against closed forms, mutations that turn them, and bad
input.
"""

import json
import math

import numpy as np
import pytest
from flint import arb

from dpwitness.auditors import Result, Verdict
from dpwitness.mechanisms import InvalidArgument
from dpwitness.proofs_checks.engine import (
    Box,
    ClaimVerdict,
    certificate,
    check,
    claim,
    enclose,
    interval,
    log1p_remainder,
    supremum,
)

HOLDS, FAILS, OPEN = ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.INCONCLUSIVE


def loss_over_epsilon(epsilon: float, n_lambda: float) -> float:
    """Brute force over s, in floats: independent of the certificate's algebra."""
    s = np.linspace(0, 1, 200_001)
    return float(np.max(epsilon * (1 + s) / 2 + np.log1p(s * (1 - s) / n_lambda))) / epsilon


@pytest.mark.parametrize("y", [0.0, 1e-9, 9e-5, 1.1e-4, 0.3, 7.0, 1e5])
def test_remainder_encloses(y):
    exact = (arb(y) - arb(y).log1p()) / (arb(y) * arb(y)) if y > 1e-3 else arb(0.5) - arb(y) / 3
    ball = log1p_remainder(interval(y * 0.9, y * 1.1))
    assert float(ball.lower()) <= float(exact) + 1e-9 and float(exact) - 1e-9 <= float(ball.upper())
    assert ball >= 0 and ball <= 0.5 + 1e-8


def test_supremum_encloses_a_maximum_and_keeps_an_exact_zero():
    found = supremum(lambda x: x * (1 - x) - 0.25 - 1e-3, over=(0.0, 1.0))
    assert -1e-3 - 1e-12 <= found.upper <= 0 and found.lower == pytest.approx(-1e-3)
    assert supremum(lambda u: -(u * u).nonnegative_part(), over=(0.0, 1.0)).upper == 0.0
    assert supremum(lambda x: x * (1 - x) - 0.2, over=(0.0, 1.0)).lower > 0
    whole = check("JT-06-logistic", epsilon=1.0).evidence.enclosure
    assert whole.upper >= loss_over_epsilon(1.0, 0.5) - 1


@pytest.mark.slow_cases("CM-06")
@pytest.mark.parametrize(
    "id", ["CM-01", "CM-02", "CM-06", "CM-08-gamma", "JT-06", "JT-06-logistic"]
)
def test_fails_on_a_proved_cell(id):
    found = check(id)
    assert found.claim_verdict is FAILS and found.verdict is Verdict.VIOLATED
    assert found.evidence.signs.counterexample_value.lower > 0
    middle = {
        name: (low + high) / 2 for name, (low, high) in found.evidence.signs.counterexample.items()
    }
    again = check(id, **middle)
    assert again.claim_verdict is FAILS and again.evidence.signs.positive == 1.0
    assert (
        isinstance(found, Result) and json.loads(json.dumps(found.to_json()))["verdict"] == "FAILS"
    )


def test_out_of_time_is_inconclusive_with_the_enclosure_reached():
    found = check("CM-11", seconds=1e-9)
    assert (
        found.claim_verdict is OPEN
        and found.verdict is Verdict.INCONCLUSIVE
        and not found.evidence.signs.finished
    )
    assert (
        found.evidence.signs.undecided == 1
        and found.evidence.enclosure.upper > 0
        and found.evidence.signs.cells == 1
    )
    assert "time limit" in found.headline()


@pytest.mark.parametrize(
    ("id", "settings", "message"),
    [
        ("CM-6", {}, "did you mean 'CM-06'?"),
        ("JT-06", {"epsilon": 11}, r"epsilon must lie in \[0.01, 10\], got 11"),
        ("CM-06", {"lam": 1.0}, "no parameter 'lam'"),
        ("JT-06", {"epsilon": (2.0, 1.0)}, "low <= high"),
        ("JT-06", {"epsilon": math.nan}, "finite"),
        ("JT-06", {"seconds": 0}, "seconds must be positive"),
    ],
)
def test_a_check_that_cannot_be_made_is_refused(id, settings, message):
    with pytest.raises(InvalidArgument, match=message):
        check(id, **settings)


@pytest.mark.parametrize(
    ("declare", "id", "kind", "message"),
    [
        (certificate, "CM-06", {}, "declared twice"),
        (claim, "CM-99", {"kind": "oracle"}, "kind must be one of"),
        (claim, "CM-99", {"kind": "experiment"}, "domain must name the function's parameters"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(declare, id, kind, message):
    with pytest.raises(InvalidArgument, match=message):
        declare(id, source="", statement="", formula="", domain=Box(x=1.0), **kind)(
            lambda effort, y=1.0: enclose(y)
        )


def test_a_verdict_has_no_truth_value():
    with pytest.raises(TypeError, match="no truth value"):
        bool(check("JT-06").claim_verdict)
