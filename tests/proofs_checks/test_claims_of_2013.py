"""Claims of Jain and Thakurta (2013): predictions, interactive answers, transfer and points drawn by
the exponential mechanism, against simulations, exact sums and wrong constants.
"""

import math
import time

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness.mechanisms import Loss, TestDataIndependentLearner
from dpwitness.proofs_checks.claims import prediction_claims
from dpwitness.proofs_checks.engine import (
    ClaimVerdict,
    Effort,
    adaptive_delta,
    audited,
    check,
    declarations,
    held_law,
)

HOLDS, TIGHT, FAILS = ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_TIGHT, ClaimVerdict.FAILS


@pytest.fixture
def effort():
    return Effort(True, 60.0, 0, time.monotonic())


def test_a_search_over_the_right_equation_refutes_nothing(effort):
    """JK-02 with lambda/2: the mutation that restores equation (2)."""
    assert (
        audited(prediction_claims.moved(Loss("absolute"), 1.0, 1.0, 2.0, effort)).verdict
        is ClaimVerdict.NOT_REFUTED
    )
    assert (
        audited(prediction_claims.moved(Loss("absolute"), 1.0, 1.0, 1.9, effort)).verdict is FAILS
    )


def test_the_adversary_beats_every_fixed_level():
    """And is beaten by the bound of the proof; B = 4, e = .3: .1296, where four Laplace answers
    give .0137.
    """
    best = adaptive_delta(4, 0.3, 1.0)
    assert best == pytest.approx(0.1296, abs=3e-4)
    fixed = [
        float(held_law(4, 0.3, level).lower.hockey_stick(1.0)) for level in (0.0, 0.1, 0.21, 0.3)
    ]
    assert max(fixed) < best and fixed[2] == max(fixed) > 0.105
    found = check("JK-07-composition", quick=True)
    assert found.claim_verdict is FAILS
    assert found.evidence.numbers["B answers"] == pytest.approx(0.0137, abs=1e-4)
    assert found.evidence.numbers["2B answers"] == pytest.approx(0.0660, abs=1e-4)

    # 0.4 / (11 * 0.04) < 1  # noqa: ERA001


def test_the_printed_constant_is_enough():

    # a bound that fails is no counterexample
    effort = Effort(True, 60.0, 0, time.monotonic())
    assert (
        declarations()["JK-07-constant"]
        .function(effort, epsilon=1.0, delta=1e-6, updates=1.0)
        .numbers["fails below"]
        < 200
    )


def test_one_answer_in_closed_form():
    """delta = 1 - exp((epsilon - e)/2): e = epsilon - 2 log(1 - delta) decides."""
    low, high = check("JK-10", delta=1e-3, rounds=1.0).evidence.numbers["c"]
    assert low < 2 / (math.sqrt(math.log(1e3)) * (1 - 2 * math.log1p(-1e-3))) < high


def test_composition_of_randomised_response():
    """By a binomial sum; the figures of the prior analysis are 6.308 and 4.775."""
    found = check("JK-17-slack")
    numbers = found.evidence.numbers
    assert (numbers["printed"], numbers["needed"]) == (
        pytest.approx(6.308, abs=1e-3),
        pytest.approx(4.775, abs=1e-3),
    )
    j = np.arange(101)
    loss = (2 * j - 100) * 0.1
    exact = float(
        binom.pmf(j, 100, 1 / (1 + math.exp(-0.1)))
        @ np.maximum(0, -np.expm1(np.minimum(0, numbers["printed"] - loss)))
    )
    reached = found.evidence.enclosure
    assert reached.lower + 1 <= exact / 1e-6 * (1 + 1e-6) and exact / 1e-6 <= (
        reached.upper + 1
    ) * (1 + 1e-6)


def test_the_repair_by_first_principles():
    """rho of one mechanism, from its own noise scale and kappa."""
    mechanism = TestDataIndependentLearner(
        prediction_claims.learner(10**6, 0.1), 1.0, 1e-6, 0.1, units="repaired"
    )
    sensitivity = mechanism.learner.prediction_sensitivity
    spread, answer = 2 * mechanism.kappa * sensitivity, 2 * mechanism.answer_epsilon * sensitivity
    rho = mechanism.rounds * (spread**2 / 8 + 2 * answer**2 / 2)
    epsilon = rho + 2 * math.sqrt(rho * math.log(1e6))
    reached = check("JK-15-repair", epsilon=1.0, delta=1e-6).evidence.enclosure
    assert epsilon <= 1 + reached.upper <= epsilon * 1.01
    assert epsilon == pytest.approx(0.1, abs=0.01)


def test_the_argument_closes_for_little_regularization_only():
    def own(n_lambda, epsilon=1.0, delta=1e-6):
        mechanism = TestDataIndependentLearner(
            prediction_claims.learner(10**6, n_lambda / 1e6), epsilon, delta, 0.1
        )
        rho = mechanism.updates * (mechanism.answer_epsilon / 2) ** 2 / 8
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))

    for n_lambda in (10.0, 90.0, 130.0, 1e4):
        reached = check(
            "JK-15-argument", epsilon=1.0, delta=1e-6, n_lambda=n_lambda
        ).evidence.enclosure
        assert reached.lower + 1 == pytest.approx(own(n_lambda), rel=1e-9)
    assert own(90.0) < 1 < own(130.0)
