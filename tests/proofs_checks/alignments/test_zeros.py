"""Tests of the sign of zero: -0.0 is no real number, and a program that may return it is not
certified.
"""

import pytest

from dpwitness import InvalidArgument, Verdict
from dpwitness.benchmarks.adversarial.programs import function_of
from dpwitness.proofs_checks import prove
from dpwitness.proofs_checks.alignments.floating_point import zero_problem
from dpwitness.proofs_checks.alignments.reader import read

PROGRAM = """
from dpwitness.proofs_checks import provable

@provable(cost="2 * epsilon", where="epsilon > 0", neighbors="one")
def f(queries, rng, epsilon: float = 1.0, offset: float = 0.0):
    out = []
    total = 0.0
    for i, q in enumerate(queries):
        noise = q + rng.laplace(scale=1 / epsilon)
        spread = rng.exponential(1 / epsilon)
        free = rng.laplace(scale=1 / epsilon)
        total = total + noise
        out.append(VALUE)
    return out
"""
UNSAFE = [
    "0 * q",
    "-(q - q)",
    "q if q == 0 else 0.0",
    "(q - q) / -2",
    "offset",
    "-total",
    "0.0 * noise",
    "(i - i) / -2",
    "-(1 - 1) * q",
]
SAFE = [
    "0 * q + 0.0",
    "abs(0 * q)",
    "total",
    "-free",
    "free * spread / -2",
    "2 * spread - 0 * q",
    "1 - offset",
    "i * 1.0",
    "noise - offset",
]


@pytest.mark.parametrize("value", UNSAFE)
def test_a_number_that_may_be_minus_zero_is_noticed(value):
    assert "may be -0.0" in zero_problem(read(function_of(PROGRAM.replace("VALUE", value))))


@pytest.mark.parametrize("value", SAFE)
def test_a_number_that_is_never_minus_zero_is_not(value):
    assert not zero_problem(read(function_of(PROGRAM.replace("VALUE", value))))


def test_a_proof_is_refused_if_the_sign_of_a_zero_may_tell_a_query():
    rare = "0 * q if q < -1e5 else 0.0"  # no run of `prove` meets it
    with pytest.raises(InvalidArgument, match=r"returned number `.*` may be -0\.0.*add 0\.0"):
        prove(function_of(PROGRAM.replace("VALUE", rare)), trials=0)
    assert (
        prove(function_of(PROGRAM.replace("VALUE", f"0.0 + ({rare})")), trials=0).verdict
        is Verdict.CERTIFIED
    )
