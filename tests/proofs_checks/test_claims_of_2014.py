"""Claims of Jain and Thakurta (2014): generalized linear models, draws on the simplex and the
private leader, against numbers computed apart.
"""

import math
import time

import numpy as np
import pytest
from flint import arb, ctx
from scipy.integrate import quad
from scipy.stats import norm

from dpwitness.auditors import MeanBound
from dpwitness.mechanisms import LinearCosts, PrivateFTRL
from dpwitness.proofs_checks.claims import simplex_claims
from dpwitness.proofs_checks.claims.simplex_claims import (
    regret_scaling,
    renyi_excess,
    steady_regret,
)
from dpwitness.proofs_checks.engine import ClaimVerdict, Effort, check, exact_delta, gaussian_excess

HOLDS, FAILS = ClaimVerdict.HOLDS, ClaimVerdict.FAILS
OPEN, PASSED = ClaimVerdict.INCONCLUSIVE, ClaimVerdict.NOT_REFUTED


def direct_delta(epsilon: float, mu: float) -> float:
    """Balle and Wang's formula as printed, at 600 bits."""
    with ctx.workprec(600):
        e, m, root = arb(epsilon), arb(mu), arb(2).sqrt()
        tails = [((e / m + sign * m / 2) / root).erfc() / 2 for sign in (-1, 1)]
        return float(tails[0] - e.exp() * tails[1])


@pytest.mark.parametrize(
    ("epsilon", "delta", "constants"),
    [
        (1.0, 1e-10, (1, 1, 0)),
        (0.01, 1e-3, (4, 4, 0)),
        (7.0, 0.3, (2, 1, 1.4)),
        (100.0, 0.9, (1, 0, 40)),
    ],
)
def test_gaussian_excess_is_balle_and_wang(epsilon, delta, constants):
    a, b, c = constants
    ball = gaussian_excess(arb(epsilon), arb(delta), per_log=a, per_epsilon=b, constant=c)
    mu = epsilon / math.sqrt(a * math.log(1 / delta) + b * epsilon + c)
    assert float(ball) + 1 == pytest.approx(direct_delta(epsilon, mu) / delta, rel=1e-9)
    wide = gaussian_excess(
        arb(epsilon, epsilon * 0.01), arb(delta, delta * 0.01), per_log=a, per_epsilon=b, constant=c
    )
    assert wide.contains(ball)


@pytest.mark.parametrize(
    ("epsilon", "delta", "times"),
    [
        (0.1, 1e-8, 4.36),
        (1.0, 1e-15, 5.49e4),
        (1.0, 1e-5, 2.33),
        (5.0, 1e-5, 6.8),
        (10.0, 1e-3, 0.796),
    ],
)
def test_linear_losses_under_the_printed_noise(epsilon, delta, times):
    found = check("JT-07", epsilon=epsilon, delta=delta)
    assert found.evidence.enclosure.lower + 1 == pytest.approx(times, rel=0.01)
    assert found.claim_verdict is (FAILS if times > 1 else HOLDS)


@pytest.mark.parametrize(
    ("epsilon", "delta", "times"), [(1.0, 1e-8, 16.0), (1.0, 1e-10, 199.0), (0.1, 1e-8, 8.9)]
)
def test_noise_of_add_remove_neighbours_fails_under_replacement(epsilon, delta, times):
    found = check("JT-07-attributed", epsilon=epsilon, delta=delta)
    # at least the coarser search of the analysis
    assert 1 + found.evidence.enclosure.lower == pytest.approx(times, rel=0.06)
    low, high = found.evidence.at["event"]
    y, lam = found.evidence.at["response"], 2 / epsilon
    sd = math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
    first = quad(lambda w: (lam + 1) * norm.pdf(-lam * w - (w - y), scale=sd), low, high)[0]
    second = quad(lambda w: lam * norm.pdf(-lam * w - 1, scale=sd), low, high)[0]
    assert first - math.exp(epsilon) * second == pytest.approx(
        (1 + found.evidence.enclosure.lower) * delta, rel=1e-6
    )


def test_half_the_price_of_drawing_is_refuted(monkeypatch):
    monkeypatch.setattr(
        simplex_claims, "MeanBound", lambda bound, **range: MeanBound(bound / 2, **range)
    )
    assert check("JT-14-draws").claim_verdict is FAILS


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


def test_constant_of_equation_12_decides():
    for constant in (1.0, 3.0, 1000.0):
        found = check("JT-19", constant=constant)
        assert found.claim_verdict is FAILS
        assert found.evidence.numbers["log_p"] >= constant**2 / 4


def test_slopes_tell_powers_apart():
    effort = Effort(True, 60.0, 1, time.monotonic())
    assert regret_scaling(1.0, 1.0, effort, "x").verdict is FAILS
    assert regret_scaling(1.5, 1.0, effort, "x").verdict is PASSED
