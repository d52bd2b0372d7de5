"""Claims JK-10 to JK-13, JK-17, JK-18: least constants against published figures, exact sums,
mutations.
"""

import dataclasses
import math
import time

import numpy as np
import pytest
from flint import arb
from scipy.stats import binom

from dpwitness.auditors.density.certify import certify
from dpwitness.auditors.functions.bounds.utility import audit_utility
from dpwitness.auditors.functions.bounds.utility_claims import Scaling
from dpwitness.mechanisms.papers.transfer import TestDataDependentLearner
from dpwitness.proofs_checks import ClaimVerdict, check, declarations
from dpwitness.proofs_checks.claims import transfer_claims as claims
from dpwitness.proofs_checks.claims.independent_claims import learner
from dpwitness.proofs_checks.engine.enclosures import enclose
from dpwitness.proofs_checks.engine.evidence import audited, unsatisfiable
from dpwitness.proofs_checks.engine.ledger import Effort, settle

HOLDS, TIGHT, FAILS, OPEN = (
    ClaimVerdict.HOLDS,
    ClaimVerdict.HOLDS_TIGHT,
    ClaimVerdict.FAILS,
    ClaimVerdict.INCONCLUSIVE,
)
PASSED = ClaimVerdict.NOT_REFUTED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta", "rounds", "least"),
    [
        (0.1, 1e-3, 10, 1.313),
        (1.0, 1e-3, 1000, 1.956),
        (1.0, 1e-6, 1, 0.538),
        (1.0, 1e-9, 10, 1.389),
        (5.0, 1e-6, 1000, 2.618),
    ],
)
def test_least_constants(epsilon, delta, rounds, least):
    """Figures of an independent prior computation."""
    found = check("JK-10", epsilon=epsilon, delta=delta, rounds=float(rounds))
    low, high = found.evidence.numbers["c"]
    assert found.claim_verdict is ClaimVerdict.UNDERSPECIFIED
    assert low == pytest.approx(least, abs=2e-3) and low < high < low * 1.002


def test_one_answer_in_closed_form():
    """delta = 1 - exp((epsilon - e)/2): e = epsilon - 2 log(1 - delta) decides."""
    low, high = check("JK-10", delta=1e-3, rounds=1.0).evidence.numbers["c"]
    assert low < 2 / (math.sqrt(math.log(1e3)) * (1 - 2 * math.log1p(-1e-3))) < high


@pytest.mark.slow
def test_the_constant_one_fails_from_ten_answers_on():
    assert check("JK-10-one").claim_verdict is FAILS
    assert check("JK-10-one", rounds=1.0).claim_verdict is PASSED
    assert check("JK-10-one", rounds=100.0, epsilon=0.2).claim_verdict is FAILS


def test_failures_over_boxes():
    for id in ("JK-13", "JK-17-approximate", "JK-18-theorem-12"):
        found = check(id)
        assert (
            found.claim_verdict is FAILS
            and found.evidence.signs.positive > 0.95
            and found.evidence.signs.negative == 0
        ), id
    one = check("JK-17-approximate", rounds=100.0, leak=1e-4, slack=1e-6).evidence.enclosure
    assert one.lower == pytest.approx(0.00995 / 1e-6 - 1, rel=1e-4)
    assert check("JK-13", prediction=0.3, accuracy=0.5).evidence.enclosure.lower == pytest.approx(
        1.0
    )


def test_transfer_error():
    found = check("JK-12", quick=True)
    assert found.claim_verdict is ClaimVerdict.UNDERSPECIFIED
    # in a fixed dimension the noise averages out: faster than the bound
    assert -1.1 < found.evidence.numbers["slope"] < -0.9
    assert 0.05 < found.evidence.numbers["K"] < 0.3


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
    for rounds, size, slack in ((1.0, 0.6, 0.5), (1000.0, 0.01, 1e-6), (1000.0, 0.6, 1e-9)):
        assert check("JK-17-slack", rounds=rounds, loss=size, slack=slack).claim_verdict is PASSED


def test_wrong_constants_turn_the_verdict():
    declared = declarations()["JK-10-repair"]
    # at epsilon = 10, delta = .01; a bound refutes nothing
    for constant, verdict in ((4, HOLDS), (4.5, HOLDS), (3.5, OPEN)):
        mutant = dataclasses.replace(
            declared,
            function=lambda epsilon, delta, c=constant: claims.transfer_excess(
                epsilon, delta, arb(c)
            ),
        )
        assert settle(mutant).claim_verdict is verdict
    kl = dataclasses.replace(
        declarations()["JK-17"], function=lambda loss: enclose(2.5 / (loss.exp() + 1) - 1)
    )
    assert settle(kl).claim_verdict is FAILS
    effort = Effort(True, 60.0, 0, time.monotonic())
    assert unsatisfiable(effort, claims.fit_obligation(2, 1), text="").verdict is FAILS
    assert unsatisfiable(effort, claims.fit_obligation(1, 1), text="").verdict is HOLDS


@pytest.mark.slow
def test_the_repaired_constant_refutes_nothing():
    mechanism = TestDataDependentLearner(
        learner(10, 4.0), 1.0, 1e-6, np.ones((10, 1)), constant=4.0
    )
    assert audited(certify(mechanism, mechanism.worst_pair(), trials=10_000)).verdict is PASSED


def test_a_faster_rate_is_refuted():
    def error(n, size, rng):
        return np.array([claims._transfer_error(int(n), rng) for _ in range(size)])

    assert (
        audited(audit_utility(error, Scaling(-1.2, (100.0, 400.0, 1600.0, 6400.0), "n"))).verdict
        is FAILS
    )
