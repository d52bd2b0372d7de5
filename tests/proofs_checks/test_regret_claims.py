"""Claims on the private leader: exact compositions, conversions and regrets computed apart, and
mutations that turn the verdicts.
"""

import math
import time

import numpy as np
import pytest
from flint import arb
from scipy.special import expit
from scipy.stats import binom

from dpwitness.mechanisms import LinearCosts
from dpwitness.mechanisms.papers.ftrl import PrivateFTRL
from dpwitness.proofs_checks import ClaimVerdict, check, enclose, supremum
from dpwitness.proofs_checks.claims.regret_claims import regret_scaling, renyi_excess, steady_regret
from dpwitness.proofs_checks.engine.enclosures import at_most, gaussian_excess
from dpwitness.proofs_checks.engine.evidence import exact_delta
from dpwitness.proofs_checks.engine.ledger import Effort

HOLDS, TIGHT, FAILS, OPEN = (
    ClaimVerdict.HOLDS,
    ClaimVerdict.HOLDS_TIGHT,
    ClaimVerdict.FAILS,
    ClaimVerdict.INCONCLUSIVE,
)
SOME = ClaimVerdict.NOT_REFUTED


def response_delta(epsilon, odds, count):
    """Hockey stick of k-fold randomised response."""
    j = np.arange(count + 1)
    return float(
        np.sum(
            binom.pmf(j, count, expit(odds))
            * -np.expm1(np.minimum(epsilon - (2 * j - count) * odds, 0))
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id", "epsilon", "delta", "rounds", "times"),
    [
        ("JT-16", 8.0, 0.01, 101, 1.99),
        ("JT-17", 1.0, 1e-8, 1000, 1.23),
        ("JT-17", 2.0, 1e-8, 1000, 4.0),
    ],
)
def test_games_are_randomised_response(id, epsilon, delta, rounds, times):
    found = check(id, quick=True, epsilon=epsilon, delta=delta, horizon=rounds)
    factor = math.log(2) if id == "JT-17" else 1.0
    odds = 2 * epsilon / math.sqrt(8 * rounds * factor * math.log(1 / delta))
    exact = response_delta(epsilon, odds, rounds - 1)
    assert found.claim_verdict is FAILS
    assert found.evidence.numbers["delta_reached"] == pytest.approx(exact, rel=1e-3)
    assert exact / delta == pytest.approx(times, rel=0.02)


@pytest.mark.slow
def test_least_epsilon_of_a_game():
    first = check("JT-16").evidence.numbers["least_epsilon"]
    assert check("JT-16", quick=True, epsilon=first * 0.97).claim_verdict is SOME
    assert check("JT-16", quick=True, epsilon=first * 1.001).claim_verdict is FAILS


def test_limit_of_long_games():
    for epsilon, delta in ((6.3, 0.01), (10.0, 1e-5), (2.0, 1e-3)):
        odds = 2 * epsilon / math.sqrt(8 * 10**6 * math.log(1 / delta))
        limit = (
            1 + float(gaussian_excess(arb(epsilon), arb(delta), per_log=2, per_epsilon=0))
        ) * delta
        assert limit == pytest.approx(response_delta(epsilon, odds, 10**6), rel=5e-3)
    for delta, first in ((1e-2, 6.3), (1e-3, 7.0), (1e-5, 8.0), (1e-8, 9.0)):
        assert check("JT-16-limit", epsilon=first - 0.1, delta=delta).claim_verdict is HOLDS
        assert check("JT-16-limit", epsilon=first + 0.1, delta=delta).claim_verdict is FAILS


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (4.0, 1e-2), (0.1, 1e-8)])
def test_conversion_covers_exact_games(epsilon, delta):
    bound = 1 + renyi_excess(arb(epsilon), arb(delta), arb(1)).upper
    alpha = 0.5 + 2 * math.log(1 / delta) / epsilon
    rho = epsilon**2 / (4 * math.log(1 / delta))
    direct = (
        math.exp((alpha - 1) * (alpha * rho - epsilon)) * (1 - 1 / alpha) ** alpha / (alpha - 1)
    )
    assert bound == pytest.approx(direct / delta, rel=1e-9)
    for rounds in (2, 50):
        game = PrivateFTRL(epsilon, delta, 1.0, 2, rounds)
        for baseline in (0.0, -0.5, -3.0):
            assert exact_delta(game, game.worst_pair(baseline), epsilon).upper <= bound * delta


def test_steady_regret_is_below_the_exact_one_and_near():
    p, rounds = 5, 3000
    game = PrivateFTRL(4.0, 1e-5, 1.0, p, rounds)
    costs = np.ones((rounds, p))
    costs[:, 0] = -1
    exact = float(2 * (1 - game.probabilities(LinearCosts(costs))[:, 0]).sum())
    lower = float(steady_regret(arb(rounds), arb(game.regularization), arb(p).log()))
    assert lower <= exact <= lower + 2
    assert exact <= game.regularization * math.log(p) + rounds / game.regularization


def test_no_costs_regret_more_than_the_bound():
    rng = np.random.default_rng(0)
    game = PrivateFTRL(20.0, 0.1, 1.0, 3, 200)
    for _ in range(100):
        costs = rng.choice([-1.0, 1.0], (200, 3)) * rng.random() ** 2
        expected = float(
            (game.probabilities(LinearCosts(costs)) * costs).sum() - costs.sum(axis=0).min()
        )
        assert expected <= game.regularization * math.log(3) + 200 / (2 * game.regularization)


def test_measured_constant_of_equation_12():
    """p = 100, T = 2e4, epsilon = 1: 6.07 in units of the bound (prior analysis)."""
    digits, rounds, p = math.log(1e5), 20_000, 100
    lam = math.sqrt(8 * rounds * digits)
    exact = 2 * float((1 / (1 + np.exp(2 * np.arange(rounds) / lam) / (p - 1))).sum())
    assert exact / math.sqrt(rounds * math.log(p) * digits) == pytest.approx(6.07, abs=0.01)
    assert float(steady_regret(arb(rounds), arb(lam), arb(p).log())) == pytest.approx(
        exact, rel=1e-3
    )


def test_constant_of_equation_12_decides():
    for constant in (1.0, 3.0, 1000.0):
        found = check("JT-19", constant=constant)
        assert found.claim_verdict is FAILS
        assert found.evidence.numbers["log_p"] >= constant**2 / 4


def test_wrong_constants_turn_the_verdict(mutated):
    def whole_range(range):
        return supremum(
            lambda w: -(w.nonnegative_part() * range.expm1()).log1p().nonnegative_part() / range,
            over=(0.0, 1.0),
        )

    def constant_three(epsilon, delta, log_p):
        root = arb(8).sqrt()
        return at_most((root + epsilon * epsilon / (root * -delta.log() * log_p)) / 3 - 1)

    assert mutated("JT-15", function=whole_range) is TIGHT
    assert (
        mutated(
            "JT-16-moderate", function=lambda epsilon, delta: renyi_excess(epsilon, delta, arb(0.7))
        )
        is OPEN
    )
    assert (
        mutated(
            "JT-16-limit",
            function=lambda epsilon, delta: enclose(
                gaussian_excess(epsilon, delta, per_log=4, per_epsilon=4)
            ),
        )
        is HOLDS
    )
    assert (
        mutated(
            "JT-17-repair",
            function=lambda epsilon, delta, log_p: renyi_excess(epsilon, delta, log_p.sqrt()),
        )
        is OPEN
    )
    assert mutated("JT-19-repair", function=constant_three) is OPEN


def test_slopes_tell_powers_apart():
    effort = Effort(True, 60.0, 1, time.monotonic())
    assert regret_scaling(1.0, 1.0, effort, "x").verdict is FAILS
    assert regret_scaling(1.5, 1.0, effort, "x").verdict is SOME
