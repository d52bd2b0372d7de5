"""Claims JK-14 to JK-16: losses of draws by brute force, the unit error and its repair,
mutations.
"""

import dataclasses
import math
import time

import numpy as np
import pytest
from flint import arb

from dpwitness.auditors.density.certify import certify
from dpwitness.auditors.functions.bounds.utility import audit_utility
from dpwitness.auditors.functions.bounds.utility_claims import Scaling
from dpwitness.mechanisms.papers.independent import TestDataIndependentLearner
from dpwitness.proofs_checks import ClaimVerdict, check, declarations
from dpwitness.proofs_checks.claims import independent_claims as claims
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
def test_units():
    found = check("JK-15")
    assert found.claim_verdict is FAILS and found.evidence.result.epsilon_lower > 9
    assert check("JK-15", regularization=1e-3).claim_verdict is PASSED
    mechanism = TestDataIndependentLearner(claims.learner(claims.ONE_ROUND, 4.0), 1.0, 1e-6, 0.1)
    k = mechanism.answer_epsilon / 4
    # at z = 0, against w* = 0
    assert found.evidence.result.epsilon_lower == pytest.approx(
        math.log(math.expm1(k) / k), rel=0.01
    )
    z = (np.arange(1_000_000) + 0.5) / 1_000_000
    density = np.exp(6.4 * z)
    excess = np.maximum(0, density / density.mean() - math.e).mean()
    assert claims.one_draw(6.4, 1.0) == pytest.approx(excess, rel=1e-5)
    assert claims.one_draw(0.1, 1.0) == 0.0


@pytest.mark.slow
def test_weights_alone_break_the_promise():
    """False alarm with probability 1e-6."""
    found = check("JK-15-weights", quick=True)
    assert found.claim_verdict is FAILS and found.witness["target"]["target"].endswith(
        ":TestDataIndependentLearner"
    )
    assert check("JK-15-weights", quick=True, regularization=1.0).claim_verdict is PASSED


def test_the_repair_by_first_principles():
    """rho of one mechanism, from its own noise scale and kappa."""
    mechanism = TestDataIndependentLearner(
        claims.learner(10**6, 0.1), 1.0, 1e-6, 0.1, units="repaired"
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
            claims.learner(10**6, n_lambda / 1e6), epsilon, delta, 0.1
        )
        rho = mechanism.updates * (mechanism.answer_epsilon / 2) ** 2 / 8
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))

    for n_lambda in (10.0, 90.0, 130.0, 1e4):
        reached = check(
            "JK-15-argument", epsilon=1.0, delta=1e-6, n_lambda=n_lambda
        ).evidence.enclosure
        assert reached.lower + 1 == pytest.approx(own(n_lambda), rel=1e-9)
    assert own(90.0) < 1 < own(130.0)


def test_rates():
    found = check("JK-16", quick=True)
    assert found.claim_verdict is FAILS and -0.5 < found.evidence.numbers["slope"] < -0.3
    assert check("JK-16-repair", quick=True).claim_verdict is PASSED
    assert check("JK-16-substitution").claim_verdict is FAILS
    assert check("JK-16-substitution").evidence.at["difference"] == "R**2/lambda**(1/3) - 1"


def test_wrong_constants_turn_the_verdict():
    import z3

    effort = Effort(True, 60.0, 0, time.monotonic())
    for spread in (True, False):
        assert (
            unsatisfiable(effort, *claims.draw_obligations(z3.Q(49, 100), spread), text="").verdict
            is FAILS
        )
    declared = declarations()["JK-15-repair"]

    def with_units(factor):
        def excess(epsilon, delta):
            root = factor * epsilon / (10 * (4 / delta).log())
            return claims.zcdp_excess((4 + arb(1) / 32) * root * root, epsilon, delta)

        return settle(dataclasses.replace(declared, function=excess)).claim_verdict

    assert with_units(1) is HOLDS and with_units(10) is OPEN


@pytest.mark.slow
def test_the_repaired_units_pass_where_the_printed_fail():
    repaired = TestDataIndependentLearner(
        claims.learner(claims.ONE_ROUND, 4.0), 1.0, 1e-6, 0.1, units="repaired"
    )
    assert audited(certify(repaired, repaired.worst_pair(), trials=10_000)).verdict is PASSED


def test_a_slower_rate_is_not_refuted():
    assert (
        audited(audit_utility(claims.weight_error, Scaling(-1 / 3, claims.records(), "n"))).verdict
        is PASSED
    )
