"""SimplexSampling: law, certificate, ledger numbers JT-10 to JT-13, refusals. Statistical tests
fail falsely with probability 1e-6.
"""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from dpwitness import mechanisms as m
from dpwitness.core.datasets.datasets import LabelledVectors
from dpwitness.core.numerics.losses import LOSSES, Loss
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.textbook.categorical import frequency_draws

LINEAR = Loss("linear")
SMOOTH = [name for name in LOSSES if math.isfinite(Loss(name).smoothness)]


def data(n, p, seed=0):
    rng = np.random.default_rng(seed)
    return LabelledVectors(rng.uniform(-1, 1, (n, p)), rng.choice([-1.0, 1.0], n))


@pytest.mark.parametrize("name", SMOOTH)
def test_law_by_enumeration(name, chi_square):
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


def test_extreme_weights_keep_their_logarithms():
    """lambda small enough for weights to underflow: log theta is still the gradient over lambda, up
    to a constant.
    """
    records = data(200, 30, seed=4)
    logs = (
        m.SimplexSampling(1.0, 0.01, Loss("squared"), 30, 200, draws=1).minimiser(records).log_theta
    )
    u = records.x @ np.exp(logs)
    wanted = -records.x.T @ (2 * (u - records.y)) / 0.01
    assert logs.min() < -1000
    np.testing.assert_allclose(logs - logs.max(), wanted - wanted.max(), atol=1e-8)


@pytest.mark.parametrize(("rare", "ratio"), [(0.1, 3.59), (0.01, 3.96), (1e-4, 3.9996)])
def test_jt10_rare_coordinate(rare, ratio):
    sampler = m.SimplexSampling(1.0, 1.0, LINEAR, 2, 1000, draws=1)
    pair = sampler.worst_pair(rare=rare)
    # the rare weight is held by the common records alone: half a step to each side
    loss = sampler.log_density(np.array([[1.0, 0.0]]), pair.d0) - sampler.log_density(
        np.array([[1.0, 0.0]]), pair.d1
    )
    assert 0 < abs(loss[0]) < 4
    middle = math.log(rare / (1 - rare))
    exact = np.logaddexp(0, 2 - middle) - np.logaddexp(0, -2 - middle)
    assert abs(loss[0]) == pytest.approx(exact, rel=1e-9)
    weaker = m.SimplexSampling(1.0, 100.0, LINEAR, 2, 1000, draws=1)
    pair = weaker.worst_pair(rare=rare)
    small = weaker.log_density(np.array([[1.0, 0.0]]), pair.d0) - weaker.log_density(
        np.array([[1.0, 0.0]]), pair.d1
    )
    assert 100 * abs(small[0]) == pytest.approx(4 * (1 - rare), rel=1e-3)
    assert ratio == pytest.approx(4 * (1 - rare), abs=0.02)


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


def test_jt13_counts_of_the_papers_own_run():
    """n=42000, eps=10, delta=1e-3, p=8, L=R=l''=1 at Theorem 4's lambda: m = .166, printed; the
    pure formula gives 22.5.
    """
    lam = 42_000 ** (2 / 3) / (10 * math.log(8)) ** (1 / 3)
    with pytest.warns(UserWarning, match=r"at least one draw, got m = 0.16"):
        approximate = m.SimplexSampling(
            10.0, lam, Loss("huber"), 8, 42_000, delta=1e-3, draws="approximate"
        )
    assert approximate.count == 1
    assert m.SimplexSampling(10.0, lam, Loss("huber"), 8, 42_000).count == 22


def test_jt11_curvature_amplifies_the_linear_range():
    """x = 100, two heavy coordinates and a rare one, common curvature along (1-d, 1, -1): 17.9 per
    draw, where linear costs reach 4.
    """
    x, records = 100.0, 10**7
    sampler = m.SimplexSampling(
        1.0, records / x, Loss("huber"), 3, records, label_bound=1e6, draws=1
    )
    common = np.array([1 - 0.2097, 1.0, -1.0])
    target = float(common @ [0.5, 0.5, 0.0]) + 0.1
    d0, d1 = (
        LabelledVectors([common, [-1.0, 1.0, 1.0]], [target, s], [records - 1, 1])
        for s in (-1e6, 1e6)
    )
    change = (
        np.abs(sampler.minimiser(d0).log_theta - sampler.minimiser(d1).log_theta).max()
        * sampler.regularization
    )
    assert sampler.smoothness_ratio == pytest.approx(x)
    assert 17.5 < change <= 4 + 2 * math.sqrt(x)


def test_rows_that_are_no_counts_have_no_mass():
    sampler = m.SimplexSampling(1.0, 1.0, LINEAR, 2, 1, draws=4)
    d = LabelledVectors([[0.0, 0.0]], [1.0])
    rows = np.array([[0.5, 0.5], [0.3, 0.7], [1.25, -0.25], [0.5, 0.25], [np.nan, 1.0]])
    np.testing.assert_allclose(
        np.exp(sampler.log_density(rows, d)), [6 / 16, 0, 0, 0, 0], atol=1e-15
    )


def test_refused_datasets():
    sampler = m.SimplexSampling(1.0, 40.0, Loss("logistic"), 2, 1, draws=3)
    with pytest.raises(InvalidArgument, match=r"vectors of norm at most 1\.0, got 2\.0"):
        sampler.minimiser(LabelledVectors([[2.0, 0.0]], [1.0]))
    with pytest.raises(InvalidArgument, match="labels -1 and 1 for logistic loss"):
        sampler.minimiser(LabelledVectors([[1.0, 1.0]], [0.5]))
    # |x|_inf, not |x|_2
    assert sampler.minimiser(LabelledVectors([[1.0, -1.0]], [1.0])).error < 1e-14
