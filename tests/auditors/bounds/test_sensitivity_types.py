"""Sensitivity of values of other types than float64: rounding is a note, real excess is not hidden."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpwitness.auditors.bounds.sensitivity import sensitivity_at
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.data.pairs import Pair

PAIR = Pair(np.array([0.0, 0.5]), np.array([1.0, 0.5]), "replace-one")
ROUNDED = {
    "float32": (lambda d: np.float32(1000.1 + 0.3 * d[0]), 0.3),
    "float32 as float": (lambda d: float(np.float32(1000.1 + 0.3 * d[0])), 0.3),
    "float16": (lambda d: np.float16(100.1 + 0.3 * d[0]), 0.3),
    "mixed": (lambda d: [np.float32(1000.1 + 0.3 * d[0]), 0.0], 0.3),
}
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


@pytest.mark.parametrize("name", ROUNDED)
def test_an_excess_within_rounding_is_a_note(name):
    function, bound = ROUNDED[name]
    moved = abs(float(np.ravel(function(PAIR.d1))[0]) - float(np.ravel(function(PAIR.d0))[0]))
    found = sensitivity_at(function, min(bound, moved * (1 - 1e-5)), PAIR)
    assert found.verdict is Verdict.NOT_REFUTED and "within the rounding of float" in found.notes[0]
    assert "units in the last place of float" in found.headline()


@pytest.mark.parametrize("name", EXCESS)
def test_a_real_excess_is_violated(name):
    function, bound = EXCESS[name]
    assert sensitivity_at(function, bound, PAIR).verdict is Verdict.VIOLATED
