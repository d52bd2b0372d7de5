"""TestDataDependentLearner and TestDataIndependentLearner: laws, ledger numbers JK-10 to JK-15,
refusals.

Statistical tests fail falsely with probability 1e-6.
"""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from dpwitness import mechanisms as m
from dpwitness.mechanisms import Kernel, LabelledVectors, Loss
from dpwitness.mechanisms.papers.independent import _NODES, _WEIGHTS, _log_partition

FOUR = LabelledVectors([[1.0, 0.0], [0.8, 0.1], [-0.3, 0.9], [0.6, 0.6]], [1.0, 1.0, -1.0, 1.0])
OTHER = LabelledVectors([[1.0, 0.0], [0.8, 0.1], [-0.3, 0.9], [0.5, 0.7]], [1.0, 1.0, -1.0, 1.0])
LEARNER = m.KernelLearner(Loss("logistic"), 0.1, 2, 4)
POINTS = np.array([[0.3, 0.1], [0.2, 0.4], [-0.1, 0.5]])


def dependent(points=POINTS, learner=LEARNER, **change):
    return m.TestDataDependentLearner(
        **{"learner": learner, "epsilon": 20.0, "delta": 0.1, "test_points": points, **change}
    )


def test_answers_are_laplace_around_the_predictions():
    mech = dependent()
    rows = mech.sample(FOUR, 200_000, np.random.default_rng(1))
    truths = LEARNER.fit(FOUR)(POINTS)
    scale = LEARNER.prediction_sensitivity / mech.answer_loss
    for t in range(3):
        assert stats.kstest(rows[:, t], stats.laplace(truths[t], scale).cdf).pvalue > 1e-6
    assert np.abs(np.corrcoef(rows.T) - np.eye(3)).max() < 6 / math.sqrt(200_000)
    parts = sum(
        part.log_density(rows[:, t : t + 1], a)
        for t, (part, a, _) in enumerate(mech.factors(FOUR, OTHER))
    )
    np.testing.assert_allclose(mech.log_density(rows, FOUR), parts, rtol=1e-12)
    np.testing.assert_allclose(
        parts, stats.laplace(truths, scale).logpdf(rows).sum(axis=1), rtol=1e-10
    )


@pytest.mark.parametrize("kernel", [Kernel(), Kernel("rbf"), Kernel("polynomial", degree=2)])
def test_weights_solve_the_printed_least_squares(kernel):
    learner = m.KernelLearner(Loss("logistic"), 0.1, 2, 4, kernel)
    mech = dependent(learner=learner)
    answers = mech.sample(FOUR, 6, np.random.default_rng(2))
    found = mech.weights(answers)
    released = dependent(learner=learner, release="weights").sample(
        FOUR, 6, np.random.default_rng(2)
    )
    np.testing.assert_allclose(found, released, rtol=1e-12)
    if kernel.name == "linear":
        np.testing.assert_allclose(found, np.linalg.lstsq(POINTS, answers.T)[0].T, rtol=1e-9)
    else:
        np.testing.assert_allclose(found @ kernel(POINTS, POINTS), answers, rtol=1e-7)


def test_constrained_weights_minimise_over_the_ball():
    mech = dependent(norm_bound=0.5)
    answers = mech.sample(FOUR, 20, np.random.default_rng(3))
    found = mech.weights(answers)
    assert np.all(np.linalg.norm(found, axis=1) <= 0.5 * (1 + 1e-12)) and np.any(
        np.linalg.norm(found, axis=1) > 0.5 * (1 - 1e-9)
    )
    for row, w in zip(answers, found, strict=True):
        best = optimize.minimize(
            lambda v, row=row: ((POINTS @ v - row) ** 2).sum(),
            np.zeros(2),
            constraints={"type": "ineq", "fun": lambda v: 0.25 - v @ v},
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(w, best.x, atol=1e-5)


@pytest.mark.parametrize("kernel", [Kernel(), Kernel("rbf")])
def test_density_of_weights_is_a_change_of_variables(kernel):
    learner = m.KernelLearner(Loss("logistic"), 0.1, 2, 4, kernel)
    mech = dependent(POINTS[:2], learner, release="weights")
    answers = dependent(POINTS[:2], learner)
    gram_or_points = POINTS[:2] if kernel.name == "linear" else kernel(POINTS[:2], POINTS[:2])
    rows = mech.sample(FOUR, 500, np.random.default_rng(4))
    expected = answers.log_density(rows @ gram_or_points.T, FOUR) + math.log(
        abs(np.linalg.det(gram_or_points))
    )
    np.testing.assert_allclose(mech.log_density(rows, FOUR), expected, rtol=1e-8)
    # and in the other direction, against the sampler: each fitted answer has its Laplace law
    many = mech.sample(FOUR, 100_000, np.random.default_rng(5)) @ gram_or_points.T
    truths = learner.fit(FOUR)(POINTS[:2])
    for t in range(2):
        assert (
            stats.kstest(many[:, t], stats.laplace(truths[t], mech.noise_scale).cdf).pvalue > 1e-6
        )


@pytest.mark.parametrize(
    ("epsilon", "delta", "count", "constant"),
    [(1.0, 1e-3, 1, 0.76), (0.1, 1e-6, 10, 4.0), (5.0, 1e-3, 1000, 1.0)],
)
def test_jk10_every_answer_of_the_worst_pair_loses_what_the_claim_composes(
    epsilon, delta, count, constant
):
    """W9: all test points equal."""
    learner = m.KernelLearner(Loss("absolute"), 4.0, 1, 10, label_bound=100.0)
    mech = m.TestDataDependentLearner(
        learner, epsilon, delta, np.ones((count, 1)), constant=constant
    )
    # beyond both centers the loss of one answer is as large as it gets
    pair, far = mech.worst_pair(), np.array([[1e3]])
    losses = {
        abs(float((part.log_density(far, a) - part.log_density(far, b))[0]))
        for part, a, b in mech.factors(pair.d0, pair.d1)
    }
    expected = 2 * epsilon / (constant * math.sqrt(count * math.log(1 / delta)))
    assert mech.answer_loss == pytest.approx(expected) and max(losses) == pytest.approx(
        expected, rel=1e-6
    )


def independent(rounds, learner=LEARNER, **change):
    """B = rounds + 1/2."""
    delta = 0.5
    epsilon = (
        (rounds + 0.5)
        * 100
        * learner.lipschitz
        * learner.radius
        * math.log(4 / delta)
        / learner.records
    )
    fields = {
        "learner": learner,
        "epsilon": epsilon,
        "delta": delta,
        "beta": 0.9,
        "units": "repaired",
        "sampler": "exact",
    }
    return m.TestDataIndependentLearner(**{**fields, **change})


def log_partition(k, d, mixture):
    return _log_partition(float(k), d, mixture, _NODES, _WEIGHTS)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("k", [0.3, 2.0, 20.0, 200.0])
def test_normalisers_of_the_ball_samplers(d, k):
    """Closed forms through Bessel and Struve functions."""
    volume = math.pi ** ((d - 1) / 2) / math.gamma((d + 1) / 2)
    common = math.log(volume * math.sqrt(math.pi) * math.gamma((d + 1) / 2)) + d / 2 * math.log(
        2 / k
    )
    assert log_partition(k, d, True) == pytest.approx(
        common + math.log(special.iv(d / 2, k)), abs=1e-10
    )
    assert log_partition(k, d, False) == pytest.approx(
        common + math.log(special.iv(d / 2, k) + special.modstruve(d / 2, k)), abs=1e-10
    )


def test_jk15_printed_units_lose_everything_and_repaired_ones_next_to_nothing():
    """W10, n=1e6, lambda=.1, eps=1, delta=1e-6: 657 draws lose 885 +- 47; one draw has delta(1) =
    .213 and .4025, by order.
    """
    learner = m.KernelLearner(Loss("absolute"), 0.1, 1, 10**6, label_bound=10.0)
    printed, repaired = (
        m.TestDataIndependentLearner(learner, 1.0, 1e-6, 0.1, units=u)
        for u in ("printed", "repaired")
    )
    assert (printed.rounds, printed.answer_epsilon) == (657, pytest.approx(25.7, abs=0.1))
    pair = printed.worst_pair()
    rows = printed.sample(pair.d0, 100, np.random.default_rng(13))
    loss = printed.log_density(rows, pair.d0) - printed.log_density(rows, pair.d1)
    assert loss.mean() == pytest.approx(885, abs=30) and loss.std() == pytest.approx(47, abs=17)
    k = printed.kappa * float(
        np.abs(learner.fit(pair.d1).centers[0, 0] - learner.fit(pair.d0).centers[0, 0])
    )
    assert k == pytest.approx(printed.answer_epsilon / 4, rel=1e-6)
    ratio = math.exp(log_partition(k, 1, False)) / 2
    one = [
        integrate.quad(lambda z: max(0.0, math.exp(k * z) / ratio - math.e), 0, 1, limit=200)[0],
        integrate.quad(lambda z: max(0.0, 1 - math.e * math.exp(k * z) / ratio), 0, 1, limit=200)[
            0
        ],
    ]
    assert one == [pytest.approx(0.2132, abs=5e-4), pytest.approx(0.4025, abs=5e-4)]
    rows = repaired.sample(pair.d0, 100, np.random.default_rng(14))
    assert (
        np.abs(repaired.log_density(rows, pair.d0) - repaired.log_density(rows, pair.d1)).max()
        < 0.1
    )
