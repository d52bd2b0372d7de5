"""Sensitivity of minimisers and of values of any type: ratios of the ledger (CM-04, JK-01 to JK-03,
JT-10), and rounding.
"""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpwitness import mechanisms as m
from dpwitness.auditors.functions.sensitivity import audit_sensitivity, sensitivity_at
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.datasets.pairs import Pair


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_norms_of_answers(norm):
    """The identity on four answers moves by 4, 2 or 1."""
    exact = {1: 4.0, 2: 2.0, math.inf: 1.0}[norm]
    result = audit_sensitivity(lambda d: d, exact, m.Answers(4), norm, evaluations=300)
    assert result.ratio == pytest.approx(1.0, abs=1e-9) and result.verdict is Verdict.NOT_REFUTED
    assert (
        audit_sensitivity(lambda d: d, 0.999 * exact, m.Answers(4), norm, evaluations=300).verdict
        is Verdict.VIOLATED
    )


def test_radius_decides_near_the_bound():
    """A ratio of 1.01 within an error of 2 % refutes nothing; within 0.1 % it does."""
    loose = audit_sensitivity(lambda d: (1.01 * d[0], 0.01), 1.0, m.Records(1), evaluations=200)
    tight = audit_sensitivity(lambda d: (1.01 * d[0], 0.0005), 1.0, m.Records(1), evaluations=200)
    assert loose.verdict is Verdict.NOT_REFUTED and loose.ratio_lower == pytest.approx(0.99)
    assert tight.verdict is Verdict.VIOLATED and tight.ratio_lower == pytest.approx(1.009)
    assert tight.ratio_upper == pytest.approx(1.011)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.mean, 0.0, m.Records(2)), "claimed_bound must be positive and finite, got 0.0"),
        ((np.mean, 1.0, m.Records(2), 3), "norm must be 1, 2, inf or a distance function, got 3"),
        (("mean", 1.0, m.Records(2)), "function must be callable, got 'mean'"),
        ((np.mean, 1.0, "Records"), "domain must be one of Answers"),
        ((lambda d: "text", 1.0, m.Records(2)), "function must give a vector of numbers, got str"),
        (
            (lambda d: math.nan, 1.0, m.Records(2)),
            "function must give finite values, got a difference of nan",
        ),
        (
            (lambda d: (1.0, -1.0), 1.0, m.Records(2)),
            "function must give a finite error radius, at least 0, got -1.0",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(m.InvalidArgument, match=message):
        audit_sensitivity(*arguments, evaluations=50)


PAIR = Pair(np.array([0.0, 0.5]), np.array([1.0, 0.5]), "replace-one")
EXCESS = {
    "float32": (lambda d: np.float32(0.3 + 0.3 * d[0]), 0.2999),
    "whole numbers": (lambda d: 10_000_001 * int(d[0]), 10_000_000),
    "large whole numbers": (lambda d: 2**60 + int(d[0]), 0.5),
    "whole numbers beyond floats": (lambda d: [10**400 + int(d[0])], 0.5),
    "fractions": (lambda d: Fraction(10**30, 3) + Fraction(int(d[0])), 0.5),
    "decimals": (lambda d: [Decimal(10**20) + Decimal(int(d[0]))], 0.5),
    "unsigned": (lambda d: np.uint8(3 - 3 * int(d[0])), 2.0),
    "longdouble": (lambda d: np.longdouble(d[0]), 0.99),
}


@pytest.mark.parametrize("name", EXCESS)
def test_a_real_excess_is_violated(name):
    function, bound = EXCESS[name]
    assert sensitivity_at(function, bound, PAIR).verdict is Verdict.VIOLATED
