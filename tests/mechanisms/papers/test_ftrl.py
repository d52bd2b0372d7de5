"""Draws on the simplex and the private leader: laws by enumeration, published numbers, regrets."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from dpwitness import mechanisms as m
from dpwitness.core.numerics.losses import LOSSES
from dpwitness.mechanisms import InvalidArgument, LabelledVectors, LinearCosts, Loss
from dpwitness.mechanisms.textbook.categorical import frequency_draws


def row_numbers(rows, p):
    return (rows @ p ** np.arange(rows.shape[1])[::-1]).astype(int)


@pytest.mark.parametrize("rule", ["printed", "with_log_p"])
def test_law_by_enumeration(rule, chi_square):
    game = m.PrivateFTRL(epsilon=9.0, delta=0.3, bound=1.0, actions=3, horizon=4, lambda_rule=rule)
    costs = LinearCosts(np.random.default_rng(5).uniform(-0.5, 0.5, (4, 3)))
    rows = game.support(costs)
    mass = np.exp(game.log_density(rows, costs))
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    drawn = game.sample(costs, 400_000, np.random.default_rng(1))
    counts = np.bincount(row_numbers(drawn, 3), minlength=81)[row_numbers(rows, 3)]
    assert chi_square(counts, 400_000 * mass) > 1e-6


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


def test_per_step_loss_has_range_4_r_over_lambda():
    """JT-15: a rare action that the replaced cost favours or disfavours moves by 4R/lambda over the
    rest, in the limit.
    """
    game = m.PrivateFTRL(2.0, 0.1, 3.0, 2, 400)
    pair = game.worst_pair(baseline=-9.0)
    draw, a, b = game.factors(pair.d0, pair.d1)[-1]
    loss = draw.log_density(draw.support(a), a) - draw.log_density(draw.support(a), b)
    assert np.ptp(loss) == pytest.approx(4 * 3.0 / game.regularization, rel=1e-12)


LINEAR = Loss("linear")
SMOOTH = [name for name in LOSSES if math.isfinite(Loss(name).smoothness)]


def data(n, p, seed=0):
    rng = np.random.default_rng(seed)
    return LabelledVectors(rng.uniform(-1, 1, (n, p)), rng.choice([-1.0, 1.0], n))


@pytest.mark.parametrize("name", SMOOTH)
def test_frequencies_by_enumeration(name, chi_square):
    records = data(6, 3)
    sampler = m.SimplexSampling(1.0, 1.5, Loss(name), 3, 6, draws=7)
    outcomes = sampler.support(records)
    assert len(outcomes) == math.comb(9, 2)
    mass = np.exp(sampler.log_density(outcomes, records))
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    drawn = np.rint(sampler.sample(records, 200_000, np.random.default_rng(1)) * 7).astype(int)
    code = {tuple(np.rint(row * 7).astype(int)): i for i, row in enumerate(outcomes)}
    counts = np.zeros(len(outcomes))
    for row, count in zip(*np.unique(drawn, axis=0, return_counts=True), strict=True):
        counts[code[tuple(row)]] = count
    assert chi_square(counts, 200_000 * mass) > 1e-6


@pytest.mark.parametrize(("p", "draws"), [(50, 300), (50, 401)])
def test_alias_and_binomial_draws_have_multinomial_coordinates(p, draws, chi_square):
    theta = np.random.default_rng(2).dirichlet(np.full(p, 0.3))
    counts = np.rint(
        frequency_draws(theta, draws).sample(40_000, np.random.default_rng(3)) * draws
    ).astype(int)
    assert np.all(counts.sum(axis=1) == draws)
    for j in np.argsort(theta)[[p // 3, p // 2, p - 1]]:
        expected = 40_000 * stats.binom.pmf(np.arange(draws + 1), draws, theta[j])
        assert chi_square(np.bincount(counts[:, j], minlength=draws + 1), expected) > 1e-6
    # the joint law: negative correlation of a multinomial, to six standard errors
    a, b = np.argsort(theta)[-2:]
    correlation = -math.sqrt(theta[a] * theta[b] / ((1 - theta[a]) * (1 - theta[b])))
    assert np.corrcoef(counts[:, a], counts[:, b])[0, 1] == pytest.approx(
        correlation, abs=6 / math.sqrt(40_000)
    )


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("lam", [0.01, 1.0, 100.0])
def test_minimiser_is_certified_and_agrees_with_scipy(name, lam):
    records = data(8, 4, seed=3)
    loss = Loss(name)
    found = m.SimplexSampling(1.0, lam, loss, 4, 8, draws=1).minimiser(records)
    theta = np.exp(found.log_theta)
    assert found.error <= 1e-10 and theta.sum() == pytest.approx(1, abs=1e-12)

    def value(logits):
        t = np.exp(logits - logits.max())
        t /= t.sum()
        return loss.value(records.x @ t, records.y).sum() + lam * (
            t @ np.log(np.maximum(t, 1e-300))
        )

    best = optimize.minimize(value, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
    assert value(found.log_theta) <= best.fun + 1e-9 * max(1, abs(best.fun))


def test_jt10_truth_is_the_supremum_for_linear_costs():
    sampler = m.SimplexSampling(1.0, 40.0, LINEAR, 3, 5)
    assert sampler.count == 10
    outcome = np.eye(1, 3)
    pair = sampler.worst_pair(rare=1e-9)  # as rare as five records can make it
    loss = sampler.log_density(outcome, pair.d0) - sampler.log_density(outcome, pair.d1)
    assert abs(loss[0]) == pytest.approx(sampler.truth.parameter, rel=1e-9)
    rng = np.random.default_rng(5)
    for _ in range(300):
        x, y = rng.choice([-1.0, 1.0], (6, 3)), rng.choice([-1.0, 1.0], 6)
        a, b = (LabelledVectors(x[rows], y[rows]) for rows in ([0, 1, 2, 3, 4], [5, 1, 2, 3, 4]))
        assert np.abs(
            10 * (sampler.minimiser(a).log_theta - sampler.minimiser(b).log_theta)
        ).max() <= sampler.truth.parameter * (1 + 1e-12)
    assert not sampler.truth.breaks(sampler.claim)
    many = m.SimplexSampling(1.0, 40.0, LINEAR, 2, 10**6)
    assert many.truth.parameter == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(
    ("slope", "epsilon", "delta", "published"),
    [(50.0, 5.0, 1e-5, 3.56e-4), (100.0, 1.0, 1e-5, 1.12e-2), (100.0, 1.0, 1e-8, 2.5e-4)],
)
def test_jt12_printed_count_forgets_l_r(slope, epsilon, delta, published):
    lam = 20 * 32 * math.log(1 / delta) / epsilon * (1 + 1e-12)
    sampler = m.SimplexSampling(
        epsilon, lam, LINEAR, 2, 1, label_bound=slope, delta=delta, draws="approximate"
    )
    assert sampler.count == 400
    pair = sampler.worst_pair()
    outcomes = sampler.support(pair.d0)
    p, q = (np.exp(sampler.log_density(outcomes, d)) for d in (pair.d0, pair.d1))
    assert np.maximum(0, p - math.exp(epsilon) * q).sum() == pytest.approx(published, rel=6e-3)
    draw, a, b = sampler.factors(pair.d0, pair.d1)[0]
    assert np.ptp(
        draw.log_density(draw.support(a), a) - draw.log_density(draw.support(a), b)
    ) == pytest.approx(4 * slope / lam)
    with pytest.raises(InvalidArgument, match="must give at least one draw, got m = "):
        m.SimplexSampling(
            epsilon,
            lam,
            LINEAR,
            2,
            1,
            label_bound=21 * slope,
            delta=delta,
            draws="approximate_repaired",
        )
    repaired = m.SimplexSampling(
        epsilon,
        lam * slope,
        LINEAR,
        2,
        1,
        label_bound=slope,
        delta=delta,
        draws="approximate_repaired",
    )
    assert repaired.count == 400
