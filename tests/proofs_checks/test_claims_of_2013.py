"""Claims of Jain and Thakurta (2013): predictions, interactive answers, transfer and points drawn by
the exponential mechanism, against simulations, exact sums and wrong constants.
"""

import math
import time

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness.auditors import FailureBound, Scaling, audit_utility, certify
from dpwitness.mechanisms import Loss, TestDataDependentLearner, TestDataIndependentLearner
from dpwitness.proofs_checks.claims import (
    independent_claims,
    interactive_claims,
    prediction_claims,
    transfer_claims,
)
from dpwitness.proofs_checks.claims.independent_claims import learner
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
PASSED = ClaimVerdict.NOT_REFUTED


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


def test_a_search_over_the_right_equation_refutes_nothing(effort):
    """JK-02 with lambda/2: the mutation that restores equation (2)."""
    assert (
        audited(prediction_claims.moved(Loss("absolute"), 1.0, 1.0, 2.0, effort)).verdict
        is ClaimVerdict.NOT_REFUTED
    )
    assert (
        audited(prediction_claims.moved(Loss("absolute"), 1.0, 1.0, 1.9, effort)).verdict is FAILS
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("updates", "loss", "level"), [(4, 0.3, 0.0), (4, 0.3, 0.21), (1, 0.8, 0.3)]
)
def test_held_answers_against_simulation(updates, loss, level):
    """Rounds drawn one by one: bottoms and tops at a threshold of `level` units of noise. Six
    standard errors.
    """
    rng, runs = np.random.default_rng(1), 400_000
    total, left = np.zeros(runs), np.full(runs, updates)
    # level <= loss  # noqa: ERA001
    bottom = math.log((1 - 0.5 * math.exp(-level)) / (0.5 * math.exp(level - loss)))
    while np.any(left > 0):
        z = rng.laplace(size=runs)
        running, top = left > 0, z > level
        total += running * np.where(top, np.abs(z - loss) - np.abs(z), bottom)
        left -= running & top
    terms = np.maximum(0.0, -np.expm1(1 - total))
    exact = float(held_law(updates, loss, level).lower.hockey_stick(1.0))
    assert abs(terms.mean() - exact) < 6 * terms.std() / math.sqrt(runs) + 1e-5


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


@pytest.mark.slow
def test_few_updates_break_the_promise():
    found = check("JK-07")
    assert found.claim_verdict is FAILS
    e = found.evidence.numbers["e"]
    assert e == pytest.approx(1 / (100 * math.sqrt(1e-7) * math.log(4e6)), rel=1e-9)
    assert found.evidence.result.epsilon_lower == pytest.approx(e + 2 * math.log1p(-1e-6), rel=1e-6)
    edge = found.evidence.numbers["fails for B below"]
    assert check("JK-07", updates=0.9 * edge).claim_verdict is FAILS
    assert check("JK-07", updates=1.1 * edge).claim_verdict is PASSED
    assert edge < found.evidence.numbers["holds for B from"] < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delta", "updates", "least"), [(1e-6, 1, 2.03), (1e-6, 4, 1.40), (1e-3, 8, 1.16)]
)
def test_the_least_constant(delta, updates, least):
    """Within 6 % of the figures of an independent, coarser programme; and the fixed adversary alone
    rules out a constant 1 % below.
    """
    found = check("JK-07-constant", delta=delta, updates=float(updates))
    numbers = found.evidence.numbers
    assert found.claim_verdict is ClaimVerdict.UNDERSPECIFIED
    assert (
        0.98 * least
        < numbers["fails below"]
        < numbers["best adversary"]
        < 1.06 * least
        < numbers["proved from"]
        < 5
    )


def test_potential():
    found = check("JK-08-potential", norm_bound=0.02, spread=math.log(2 * 2000 / 0.05))
    mechanism = interactive_claims.interactive(10**7, 0.02, 2000)
    ratio = 3.2 * 0.02**2 / (mechanism.threshold**2 * mechanism.updates)
    assert found.claim_verdict is FAILS and found.evidence.enclosure.lower == pytest.approx(
        ratio - 1, rel=1e-9
    )
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


def test_mutated_experiments():
    def error(value, size, rng):
        return interactive_claims.largest_error(interactive_claims.MANY, int(value))(size, rng)

    milder = audit_utility(
        error, Scaling(0.75, (8.0, 32.0, 128.0, 512.0), "T", transform=interactive_claims.spread)
    )
    assert audited(milder).verdict is PASSED
    faster = Scaling(-0.6, tuple(interactive_claims.MANY * 4.0**k for k in range(4)), "n")
    assert (
        audited(
            audit_utility(
                lambda v, s, r: interactive_claims.largest_error(int(v), 100)(s, r), faster
            )
        ).verdict
        is FAILS
    )
    assert (
        audited(
            audit_utility(lambda size, rng: rng.random(size), FailureBound(0.5, 0.4), runs=2000)
        ).verdict
        is FAILS
    )


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


@pytest.mark.slow
def test_the_repaired_constant_refutes_nothing():
    mechanism = TestDataDependentLearner(
        learner(10, 4.0), 1.0, 1e-6, np.ones((10, 1)), constant=4.0
    )
    assert audited(certify(mechanism, mechanism.worst_pair(), trials=10_000)).verdict is PASSED


def test_a_faster_rate_is_refuted():
    def error(n, size, rng):
        return np.array([transfer_claims._transfer_error(int(n), rng) for _ in range(size)])

    assert (
        audited(audit_utility(error, Scaling(-1.2, (100.0, 400.0, 1600.0, 6400.0), "n"))).verdict
        is FAILS
    )


@pytest.mark.slow
def test_units():
    found = check("JK-15")
    assert found.claim_verdict is FAILS and found.evidence.result.epsilon_lower > 9
    mechanism = TestDataIndependentLearner(
        independent_claims.learner(independent_claims.ONE_ROUND, 4.0), 1.0, 1e-6, 0.1
    )
    k = mechanism.answer_epsilon / 4
    # at z = 0, against w* = 0
    assert found.evidence.result.epsilon_lower == pytest.approx(
        math.log(math.expm1(k) / k), rel=0.01
    )
    z = (np.arange(1_000_000) + 0.5) / 1_000_000
    density = np.exp(6.4 * z)
    excess = np.maximum(0, density / density.mean() - math.e).mean()
    assert independent_claims.one_draw(6.4, 1.0) == pytest.approx(excess, rel=1e-5)
    assert independent_claims.one_draw(0.1, 1.0) == 0.0


def test_the_repair_by_first_principles():
    """rho of one mechanism, from its own noise scale and kappa."""
    mechanism = TestDataIndependentLearner(
        independent_claims.learner(10**6, 0.1), 1.0, 1e-6, 0.1, units="repaired"
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
            independent_claims.learner(10**6, n_lambda / 1e6), epsilon, delta, 0.1
        )
        rho = mechanism.updates * (mechanism.answer_epsilon / 2) ** 2 / 8
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))

    for n_lambda in (10.0, 90.0, 130.0, 1e4):
        reached = check(
            "JK-15-argument", epsilon=1.0, delta=1e-6, n_lambda=n_lambda
        ).evidence.enclosure
        assert reached.lower + 1 == pytest.approx(own(n_lambda), rel=1e-9)
    assert own(90.0) < 1 < own(130.0)


@pytest.mark.slow
def test_the_repaired_units_pass_where_the_printed_fail():
    repaired = TestDataIndependentLearner(
        independent_claims.learner(independent_claims.ONE_ROUND, 4.0),
        1.0,
        1e-6,
        0.1,
        units="repaired",
    )
    assert audited(certify(repaired, repaired.worst_pair(), trials=10_000)).verdict is PASSED


def test_a_slower_rate_is_not_refuted():
    assert (
        audited(
            audit_utility(
                independent_claims.weight_error, Scaling(-1 / 3, independent_claims.records(), "n")
            )
        ).verdict
        is PASSED
    )
