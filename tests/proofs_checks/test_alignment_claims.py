"""Randomness alignments: proofs, wrong scales and shifts that z3 refutes, and exact losses of the
broken variants.
"""

import time
from fractions import Fraction

import pytest
from z3 import Real

from dpwitness.proofs_checks.claims.alignment_claims import threshold_obligations
from dpwitness.proofs_checks.engine import ClaimVerdict, Effort, check, unsatisfiable

HOLDS, FAILS = ClaimVerdict.HOLDS, ClaimVerdict.FAILS
EPSILON = Real("epsilon")


def proved(obligations):
    return unsatisfiable(
        Effort(False, 20.0, 0, time.monotonic()), *obligations, text="proved"
    ).verdict


@pytest.mark.parametrize("cutoff", [1, 5, 20, Real("c")])
def test_threshold_alignment(cutoff):
    rates = EPSILON / 2, EPSILON / (4 * cutoff)
    assert proved(threshold_obligations(cutoff, *rates, EPSILON)) is HOLDS
    # too little query noise
    assert (
        proved(threshold_obligations(cutoff, EPSILON / 2, EPSILON / (3.9 * cutoff), EPSILON))
        is FAILS
    )
    # too little threshold noise
    assert proved(threshold_obligations(cutoff, EPSILON / 1.9, rates[1], EPSILON)) is FAILS
    # one call above too many
    assert proved(threshold_obligations(cutoff + 1, *rates, EPSILON)) is FAILS
    assert proved(threshold_obligations(cutoff, *rates, EPSILON, threshold_noise=False)) is FAILS


def test_any_number_is_a_term_of_the_proof():
    """No number of calls above or of answers enters these checks, so there is none at which they
    were run.
    """
    for id in ("ZOO-SVT", "ZOO-NOISY-MAX", "ZOO-NOISY-MAX-monotone"):
        found = check(id)
        assert not found.box and found.scope == "whole domain" and found.grade == "proved", id


def test_the_counterexample_of_z3_turns_a_call():
    at = check("ZOO-SVT-no-threshold-noise").evidence.at
    value = {name: Fraction(text) for name, text in at.items()}
    assert (
        value["q"] + value["noise"]
        < value["noisy_threshold"]
        <= value["q_neighbour"] + value["noise"]
    )
    assert abs(value["q"] - value["q_neighbour"]) <= 1
