"""PrivateFTRL: law, ledger numbers (JT-15 to JT-19), adaptive costs, refusals. Statistical tests
fail falsely with probability 1e-6.
"""

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from dpwitness import mechanisms as m
from dpwitness.core.datasets.datasets import LinearCosts
from dpwitness.core.values.validation import InvalidArgument


def row_numbers(rows, p):
    return (rows @ p ** np.arange(rows.shape[1])[::-1]).astype(int)


@njit(nogil=True)
def punish(t, actions, record, cost):
    """Raise the price of what was just played, by an amount that the record sets."""
    cost[:] = record
    cost[actions[t]] += 0.5
    if t > 0 and actions[t - 1] == actions[t]:
        cost[actions[t]] -= 1.0


@njit(nogil=True)
def too_greedy(t, actions, record, cost):
    cost[:] = record * (t + 1)


@pytest.mark.slow_cases("printed-punish", "with_log_p-punish")
@pytest.mark.parametrize("adversary", [None, punish])
@pytest.mark.parametrize("rule", ["printed", "with_log_p"])
def test_law_by_enumeration(rule, adversary, chi_square):
    game = m.PrivateFTRL(
        epsilon=9.0,
        delta=0.3,
        bound=1.0,
        actions=3,
        horizon=4,
        lambda_rule=rule,
        adversary=adversary,
    )
    costs = LinearCosts(np.random.default_rng(5).uniform(-0.5, 0.5, (4, 3)))
    rows = game.support(costs)
    mass = np.exp(game.log_density(rows, costs))
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    drawn = game.sample(costs, 400_000, np.random.default_rng(1))
    counts = np.bincount(row_numbers(drawn, 3), minlength=81)[row_numbers(rows, 3)]
    assert chi_square(counts, 400_000 * mass) > 1e-6


def test_many_actions_use_bisection_and_keep_the_law(chi_square):
    game = m.PrivateFTRL(epsilon=30.0, delta=0.3, bound=1.0, actions=40, horizon=3)
    costs = LinearCosts(np.random.default_rng(2).uniform(-1, 1, (3, 40)))
    drawn = game.sample(costs, 200_000, np.random.default_rng(3))
    theta = game.probabilities(costs)
    for t in range(3):
        assert (
            chi_square(np.bincount(drawn[:, t].astype(int), minlength=40), 200_000 * theta[t])
            > 1e-6
        )


@pytest.mark.slow
def test_adaptive_game_with_an_oblivious_adversary_is_the_oblivious_game():
    copy = njit(nogil=True)(_copy_record)
    costs = LinearCosts(np.random.default_rng(4).uniform(-1, 1, (6, 3)))
    plain = m.PrivateFTRL(8.0, 0.1, 1.0, 3, 6)
    adaptive = m.PrivateFTRL(8.0, 0.1, 1.0, 3, 6, adversary=copy)
    rows = plain.support(costs)
    np.testing.assert_allclose(
        adaptive.log_density(rows, costs), plain.log_density(rows, costs), atol=1e-12
    )


def _copy_record(t, actions, record, cost):
    cost[:] = record


def composed_delta(game, pair, epsilon):
    """Exact delta(epsilon) of a pair whose rounds after the first are equal draws from two actions:
    a binomial number of zeros.
    """
    d0, d1 = (
        np.array([game.log_density(np.full((1, game.horizon), a), d)[0] for a in (0.0, 1.0)])
        for d in (pair.d0, pair.d1)
    )
    rounds = game.horizon - 1
    # the first round is a fair coin on both sides
    p0, p1 = (np.exp((d + math.log(2)) / rounds) for d in (d0, d1))
    zeros = np.arange(rounds + 1)
    loss = zeros * math.log(p0[0] / p1[0]) + (rounds - zeros) * math.log(p0[1] / p1[1])
    return float(
        (stats.binom.pmf(zeros, rounds, p0[0]) * np.maximum(0, -np.expm1(epsilon - loss))).sum()
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "horizon", "published"),
    [
        (1, 1e-5, 10001, 5.25e-8),
        (10, 1e-5, 10001, 2.86e-5),
        (20, 1e-5, 10001, 1.88e-3),
        (8, 0.01, 101, 0.0199),
    ],
)
def test_jt16_delta_of_the_symmetric_witness(epsilon, delta, horizon, published):
    game = m.PrivateFTRL(float(epsilon), delta, 1.0, 2, horizon)
    assert composed_delta(game, game.worst_pair(), epsilon) == pytest.approx(published, rel=6e-3)


def test_jt16_a_baseline_is_worse_than_none_at_small_t():
    """eps=8, delta=.01, T=13: without a baseline the promise holds (.0048), with log-odds -.8 it
    breaks (.0112).
    """
    game = m.PrivateFTRL(8.0, 0.01, 1.0, 2, 13)

    def exact(baseline):
        pair = game.worst_pair(baseline)
        loss, mass = np.zeros(1), np.ones(1)
        for draw, a, b in game.factors(pair.d0, pair.d1):
            outs = draw.support(a)
            la, lb = draw.log_density(outs, a), draw.log_density(outs, b)
            loss, mass = (
                np.add.outer(loss, la - lb).ravel(),
                np.multiply.outer(mass, np.exp(la)).ravel(),
            )
        return (mass * np.maximum(0, -np.expm1(8.0 - loss))).sum()

    assert exact(0.0) == pytest.approx(composed_delta(game, game.worst_pair(), 8.0), rel=1e-9)
    assert exact(0.0) == pytest.approx(0.0048217, rel=1e-4)
    assert exact(-0.8) == pytest.approx(0.0112431, rel=1e-4)


def test_per_step_loss_has_range_4_r_over_lambda():
    """JT-15: a rare action that the replaced cost favours or disfavours moves by 4R/lambda over the
    rest, in the limit.
    """
    game = m.PrivateFTRL(2.0, 0.1, 3.0, 2, 400)
    pair = game.worst_pair(baseline=-9.0)
    draw, a, b = game.factors(pair.d0, pair.d1)[-1]
    loss = draw.log_density(draw.support(a), a) - draw.log_density(draw.support(a), b)
    assert np.ptp(loss) == pytest.approx(4 * 3.0 / game.regularization, rel=1e-12)


def test_jt18_regret_bound_is_tight_for_one_good_action():
    game = m.PrivateFTRL(1.0, 1e-5, 1.0, 10, 20_000)
    x = np.ones((20_000, 10))
    x[:, 0] = -1
    theta = game.probabilities(LinearCosts(x))
    lam = game.regularization
    regret = (theta * x).sum() + 20_000
    bound = lam * math.log(10) + 20_000 / lam
    assert 0.95 < regret / bound <= 1
    # JT-19
    assert regret / math.sqrt(20_000 * math.log(10) * math.log(1e5)) == pytest.approx(
        4.29, abs=0.02
    )
    runs = game.regret(game.sample(LinearCosts(x), 200, np.random.default_rng(0)), LinearCosts(x))
    assert abs(runs.mean() - regret) < 6 * runs.std() / math.sqrt(200)


@pytest.mark.slow
def test_actions_outside_the_game_have_no_mass():
    game = m.PrivateFTRL(1.0, 0.1, 1.0, 2, 2, adversary=punish)
    costs = LinearCosts(np.zeros((2, 2)))
    rows = np.array([[0, 2], [0.5, 0], [-1, 0], [np.nan, 0], [0, 1]])
    for which in (game, m.PrivateFTRL(1.0, 0.1, 1.0, 2, 2)):
        assert np.isneginf(which.log_density(rows, costs)).tolist() == [
            True,
            True,
            True,
            True,
            False,
        ]


def test_refused_datasets():
    game = m.PrivateFTRL(1.0, 0.1, 1.0, 2, 3)
    rng = np.random.default_rng(0)
    with pytest.raises(
        InvalidArgument, match=r"dataset must hold 3 costs of 2 actions, got shape \(2, 2\)"
    ):
        game.sample(LinearCosts(np.zeros((2, 2))), 1, rng)
    with pytest.raises(
        InvalidArgument, match=r"dataset must have entries in \[-1.0, 1.0\], got 2.0"
    ):
        game.sample(LinearCosts(np.full((3, 2), 2.0)), 1, rng)
    with pytest.raises(InvalidArgument, match="it left it in round 3"):
        m.PrivateFTRL(1.0, 0.1, 1.0, 2, 3, adversary=too_greedy).sample(
            LinearCosts(np.full((3, 2), 0.4)), 1, rng
        )
