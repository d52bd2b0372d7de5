"""Limits of canary audits: the bound that ideal canaries certify, and the violation that an audit
would have found.
"""

import math

import numpy as np
import pytest
from canary_scores import leaking_response, normal_scores
from scipy.stats import binom

import dpwitness as dpw
from dpwitness.auditors.canaries import bounds
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms import DPSGD


def test_what_would_have_been_found_is_found():
    """50 audits at the detectable epsilon. If each is VIOLATED with probability 0.9, the test fails
    at most once in 1e6.

    Gaussian scores; and binary ones, where nearly all canaries that may be guessed are.
    """
    claim = dpw.ApproxDP(1.0, 1e-5)
    mu = dpw.GDP.with_epsilon(
        dpw.audit_canaries(*normal_scores(0, 4000, 0.1), claim).detectable, 1e-5
    ).mu
    results = [dpw.audit_canaries(*normal_scores([seed, 8], 4000, mu), claim) for seed in range(50)]
    epsilon, binary = dpw.canaries.canary_limit("pure:1", 400).detectable, []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        coins = rng.random(400) < 0.5
        scores = leaking_response(rng, coins, epsilon, 0.0)
        binary.append(dpw.audit_canaries(scores[coins], scores[~coins], "pure:1", seed=seed))
    for found in (results, binary):
        assert sum(result.verdict is dpw.Verdict.VIOLATED for result in found) >= binom.ppf(
            1e-6, 50, 0.9
        )
    assert binary[-1].guesses > 0.4 * 400


@pytest.mark.parametrize(
    ("epsilon", "canaries", "counted", "curve"),
    [
        (1, 1000, 0.22, 0.34),
        (2, 1000, 0.69, 0.98),
        (4, 1000, 1.57, 2.31),
        (8, 1000, 3.04, 4.8),
        (8, 5000, 3.73, 5.37),
    ],
)
def test_limits(epsilon, canaries, counted, curve):
    claim = f"approx:{epsilon},1e-5"
    assert dpw.canaries.canary_limit(claim, canaries).epsilon == pytest.approx(counted, abs=0.03)
    assert dpw.canaries.canary_limit(claim, canaries, method="curve").epsilon == pytest.approx(
        curve, abs=0.06
    )
    assert dpw.canaries.canary_limit(claim, canaries, runs=10).epsilon > counted


def test_the_limit_of_a_training_is_that_of_the_gaussian_with_its_epsilon():
    assert dpw.canaries.canary_limit(DPSGD(1.0, 1.0, 1), 1000).epsilon == pytest.approx(
        dpw.canaries.canary_limit("gdp:1", 1000).epsilon, rel=0.01
    )
    with pytest.raises(InvalidArgument, match="claim must be pure, approx, gdp or a curve"):
        dpw.canaries.canary_limit("zcdp:1", 1000)


def test_the_limit_of_a_pure_claim_is_that_of_randomized_response():
    """All coins are guessed; half of the audits with as many fixed guesses stay below."""
    limit, rng = dpw.canaries.canary_limit("pure:1", 2000), np.random.default_rng(4)
    assert limit.guesses == 2000 and 0.8 < limit.epsilon < 0.95 and 1 < limit.detectable < 1.5
    right = rng.binomial(2000, 1 / (1 + math.exp(-1.0)), 200)
    below = np.sum(
        bounds.epsilons_refuted(right, np.full(200, 2000), 0.0, 2000, 0.05, bounds.chance)
        <= limit.epsilon
    )
    assert abs(below - 100) < 5 * math.sqrt(50)
    with pytest.raises(InvalidArgument, match="method must be 'best' for a claim without delta"):
        dpw.canaries.canary_limit("pure:1", 1000, method="curve")


def test_curves():
    assert DPSGD(1.0, 1.0, 1).epsilon_at(1e-5) == pytest.approx(
        dpw.GDP(1.0).epsilon_at(1e-5), rel=1e-3
    )
    epsilons, deltas = DPSGD(1.0, 1.0, 1).tangents()
    assert (
        np.all(deltas >= dpw.GDP(1.0).delta(epsilons) - 1e-9)
        and np.max(deltas - dpw.GDP(1.0).delta(epsilons)) < 2e-3
    )
    curve = dpw.claims.TradeoffCurve([0, 1 / (1 + math.e), 1], [1, 1 / (1 + math.e), 0])
    assert curve.tangents()[0] == pytest.approx([1.0, -1.0]) and curve.tangents()[
        1
    ] == pytest.approx([0.0, 1 - 1 / math.e])
    q = np.linspace(0, 1, 50)
    for each in (curve, curve.with_parameter(1.7), DPSGD(0.1, 1.5, 10)):
        epsilons, deltas = each.tangents()
        assert np.minimum(1, (np.exp(epsilons) * q[:, None] + deltas).min(axis=1)) == pytest.approx(
            each.tradeoff(q), abs=1e-9
        )


def test_few_canaries_are_held_against_steep_and_weak_curves():
    """Of few canaries the smallest number of guesses is one or two; weak claims are held against
    more guesses.
    """
    half = 1 / (1 + math.exp(3.0))
    found = dpw.audit_canaries(
        *normal_scores(1, 37, 1.0), dpw.claims.TradeoffCurve([0, half, 1], [1, half, 0])
    )
    assert found.verdict is dpw.Verdict.NOT_REFUTED and found.detectable > 1
    assert (
        bounds.schedule(1000, 440, 0.05, 0.268)[0][0]
        > bounds.schedule(1000, 440, 0.05, 0.5)[0][0]
        == 228
    )
