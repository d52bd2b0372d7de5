"""Claims JK-01 to JK-06: attained ratios against minimisers in closed form, obligations with wrong
constants, mutated searches.
"""

import time

import pytest

from dpwitness.core.numerics.losses import Loss
from dpwitness.proofs_checks import ClaimVerdict, check
from dpwitness.proofs_checks.claims import prediction_claims as claims
from dpwitness.proofs_checks.engine.evidence import attained, audited, identities, unsatisfiable
from dpwitness.proofs_checks.engine.ledger import Effort

HOLDS, TIGHT, FAILS = ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_TIGHT, ClaimVerdict.FAILS


@pytest.fixture
def effort():
    return Effort(True, 60.0, 0, time.monotonic())


@pytest.mark.slow
def test_ratios():
    """One record: hinge, absolute and Huber minimisers are -+1/lambda, so that the bound is
    reached; the logistic one as in CM-04.
    """
    found = check("JK-01", quick=True)
    assert found.claim_verdict is TIGHT
    ratios = found.evidence.numbers["ratios"]
    assert [ratios[name] for name in ("hinge", "absolute", "huber")] == pytest.approx(
        [1, 1, 1], abs=1e-9
    )
    assert 0.49 < ratios["logistic, d = 1"] <= 0.5258 and 0.99 < ratios["logistic, d = 2"] <= 1


@pytest.mark.parametrize(
    ("id", "verdict", "share"),
    [
        ("JK-02", FAILS, 2.0),
        ("JK-02-repair", TIGHT, 1.0),
        ("JK-03", TIGHT, 1.0),
        ("JK-04", HOLDS, 0.5),
        ("JK-04-sharp", TIGHT, 1.0),
    ],
)
def test_verdicts(id, verdict, share):
    found = check(id, quick=True)
    assert found.claim_verdict is verdict
    assert found.evidence.enclosure.lower == pytest.approx(share - 1, abs=1e-9)


def test_proofs_and_factor_two():
    assert check("JK-05").claim_verdict is HOLDS
    found = check("JK-06")
    assert found.claim_verdict is FAILS and found.evidence.enclosure.lower == pytest.approx(1.0)
    assert found.evidence.signs.positive == 1.0
    assert check("JK-06-repair").claim_verdict is HOLDS


@pytest.mark.parametrize("regularization", [1.0, 37.0])
def test_the_witness_proves_it_again(regularization):
    found = check("JK-02", quick=True, seed=3, regularization=regularization)
    assert found.claim_verdict is FAILS and found.witness["settings"] == {
        "regularization": regularization
    }


@pytest.mark.parametrize(("convexity", "bound"), [(1, 1.99), (0.5, 2), (0.99, 2), (0.5, 3.9)])
def test_distances_with_wrong_constants_are_possible(convexity, bound, effort):
    found = unsatisfiable(effort, claims.distance_obligation(convexity, bound), text="")
    assert found.verdict is FAILS and "d = " in found.text
    assert attained(found, 1.0, "") is found


@pytest.mark.parametrize(("bound", "strong"), [(0.99, True), (1.99, False), (1, False)])
def test_norms_with_wrong_constants_are_possible(bound, strong, effort):
    assert unsatisfiable(effort, claims.norm_obligation(bound, strong), text="").verdict is FAILS


@pytest.mark.parametrize("factor", [200, 399, 401])
def test_other_factors_are_not_the_theorem(factor):
    box, theorem = claims.box_and_theorem(factor)
    assert identities(box - theorem, text="").verdict is FAILS


def test_a_search_over_the_right_equation_refutes_nothing(effort):
    """JK-02 with lambda/2: the mutation that restores equation (2)."""
    assert (
        audited(claims.moved(Loss("absolute"), 1.0, 1.0, 2.0, effort)).verdict
        is ClaimVerdict.NOT_REFUTED
    )
    assert audited(claims.moved(Loss("absolute"), 1.0, 1.0, 1.9, effort)).verdict is FAILS
