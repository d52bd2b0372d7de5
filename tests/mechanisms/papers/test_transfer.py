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


def test_density_of_weights_on_a_line_integrates_to_one():
    # d > T: the density lives on the span of z
    mech = dependent(np.array([[0.6, 0.3]]), release="weights")
    unit = np.array([0.6, 0.3]) / math.hypot(0.6, 0.3)
    center = LEARNER.fit(FOUR)(np.array([[0.6, 0.3]]))[0] / math.hypot(0.6, 0.3)
    total = sum(
        integrate.quad(
            lambda s: math.exp(mech.log_density(s * unit[None, :], FOUR)[0]), a, b, epsabs=1e-10
        )[0]
        for a, b in (
            (center - 200, center - 5),
            (center - 5, center),
            (center, center + 5),
            (center + 5, center + 200),
        )
    )
    assert total == pytest.approx(1, abs=1e-6)
    assert np.isneginf(mech.log_density(np.array([[0.1, 0.2]]), FOUR)[0])


def test_weights_offer_a_density_only_where_they_determine_the_answers():
    assert hasattr(dependent(POINTS[:2], release="weights"), "log_density")
    for mech in (
        dependent(release="weights"),
        dependent(POINTS[:2], release="weights", norm_bound=1.0),
    ):
        assert not hasattr(mech, "log_density")
    assert not hasattr(dependent(release="weights"), "factors")


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


def test_jk10_truth_of_one_answer():
    """W9, one answer; for several, the least constants are those of the claim JK-10."""
    learner = m.KernelLearner(Loss("absolute"), 4.0, 1, 10, label_bound=100.0)
    at = {
        c: m.TestDataDependentLearner(learner, 1.0, 1e-3, [[1.0]], constant=c) for c in (0.75, 0.77)
    }
    assert at[0.75].truth.breaks(at[0.75].claim) and not at[0.77].truth.breaks(at[0.77].claim)


def test_jk11_average_error_is_within_its_bound():
    mech = dependent(np.random.default_rng(6).uniform(-0.6, 0.6, (40, 2)))
    fitted = mech.weights(mech.sample(FOUR, 20_000, np.random.default_rng(7))) @ mech.test_points.T
    error = np.abs(fitted - LEARNER.fit(FOUR)(mech.test_points)).mean(axis=1)
    bad = int((error > 2 * mech.noise_scale * math.log(40 / 0.05)).sum())
    assert stats.binomtest(bad, 20_000, 0.05, alternative="greater").pvalue > 1e-6


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


STRONG = m.KernelLearner(Loss("absolute"), 0.1, 2, 4, label_bound=20.0)  # |w*| of several sigma
STEEP = LabelledVectors([[1.0, 0.0], [1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [20.0, 20.0, 20.0, 20.0])
BENT = LabelledVectors([[1.0, 0.0], [1.0, 0.0], [0.9, 0.1], [0.05, 0.99]], [20.0, 20.0, 20.0, 20.0])


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


@pytest.mark.slow_cases("0.05-1-exact", "0.05-1-mixture", "4.0-1-mixture")
@pytest.mark.parametrize("sampler", ["exact", "mixture"])
@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("size", [0.05, 4.0])
def test_points_have_their_law(sampler, d, size):
    """First point: t = <z, v>/|v| against its distribution function, the rest uniform across it."""
    learner = m.KernelLearner(Loss("absolute"), 1.0, d, 10, label_bound=100.0)
    mech = independent(1, learner, sampler=sampler, units="printed")
    unit = np.eye(1, d)
    full = mech.kappa * np.linalg.norm(learner.fit(LabelledVectors(unit, [100.0], [10])).centers)
    # w* along e1
    data = LabelledVectors(
        np.vstack([unit * min(1.0, size / full), 0 * unit]), [100.0, 0.0], [9, 1]
    )
    k = mech.kappa * np.linalg.norm(learner.fit(data).centers)
    rows = mech.sample(data, 100_000, np.random.default_rng(8))
    t = rows[:, 0]
    assert np.linalg.norm(rows[:, :d], axis=1).max() <= 1 + 1e-12
    grid = np.linspace(-1, 1, 200_001)
    density = (np.cosh(k * grid) if sampler == "mixture" else np.exp(k * np.abs(grid))) * (
        1 - grid**2
    ) ** ((d - 1) / 2)
    cumulated = integrate.cumulative_trapezoid(density, grid, initial=0)
    assert stats.kstest(np.interp(t, grid, cumulated / cumulated[-1]), "uniform").pvalue > 1e-6
    if d > 1:
        across = np.linalg.norm(rows[:, 1:d], axis=1) / np.sqrt(1 - t**2)
        assert stats.kstest(across ** (d - 1), "uniform").pvalue > 1e-6


@pytest.mark.slow_cases("printed-exact")
@pytest.mark.parametrize("sampler", ["exact", "mixture"])
@pytest.mark.parametrize("units", ["printed", "repaired"])
def test_one_round_on_the_line_integrates_to_one(sampler, units):
    learner = m.KernelLearner(Loss("absolute"), 0.1, 1, 4, label_bound=20.0)
    data = LabelledVectors([[1.0]], [20.0], [4])
    mech = independent(1, learner, sampler=sampler, units=units)
    scale, best = 1 / (2 * mech.answer_epsilon), float(learner.fit(data).centers[0, 0])
    x, w = np.polynomial.legendre.leggauss(60)
    z = np.concatenate([(x - 1) / 2, (x + 1) / 2])
    total = 0.0
    for point, weight in zip(z, np.tile(w / 2, 2), strict=True):
        truth = best * point
        bottom = np.exp(mech.log_density(np.array([[point, 0.0, 0.0]]), data))[0]
        answers = np.concatenate([truth + side * scale * 20 * (x + 1) for side in (-1, 1)])
        tops = 0.0
        for sign in (-1.0, 1.0):
            rows = np.column_stack([np.full(120, point), answers, np.full(120, sign)])
            tops += (np.exp(mech.log_density(rows, data)) * np.tile(w, 2) * 20 * scale).sum()
        total += weight * (bottom + tops)
    # the normaliser has a kink in z at 0 only where |w*| is large against sigma; the quadrature is
    # split there
    assert total == pytest.approx(1, abs=1e-6)


@pytest.fixture
def identity(likelihood_ratios):
    """Return a function that compares the ratios of two datasets, and with them the number of
    corrections.
    """

    def check(mech, d0, d1):
        block = 3 if mech.sampler == "net" else mech.learner.dimension + 2

        def corrections(rows):
            return np.abs(rows[:, block - 1 :: block]).sum(axis=1)

        rows, ratio = likelihood_ratios(mech, d0, d1, corrections, 60_000, seed=9)
        assert 1e-3 < ratio.std() < 5 and 0 < corrections(rows).mean() < mech.rounds

    return check


@pytest.mark.slow
@pytest.mark.parametrize("units", ["printed", "repaired"])
@pytest.mark.parametrize("sampler", ["exact", "mixture", "net"])
def test_likelihood_ratios_of_full_transcripts(sampler, units, identity):
    mech = independent(3, STRONG, sampler=sampler, units=units, spacing=0.3)
    identity(mech, STEEP, BENT)


def test_net_with_a_radial_kernel(identity):
    learner = m.KernelLearner(Loss("absolute"), 0.02, 2, 4, Kernel("rbf"), label_bound=50.0)
    identity(independent(2, learner, sampler="net", spacing=0.4), STEEP, BENT)


def test_net_law_of_the_first_point(chi_square):
    mech = independent(1, STRONG, sampler="net", spacing=0.4)
    points = mech.net
    score = np.exp(mech.kappa * np.abs(STRONG.fit(STEEP)(points)))
    counts = np.bincount(
        mech.sample(STEEP, 100_000, np.random.default_rng(10))[:, 0].astype(int),
        minlength=len(points),
    )
    assert chi_square(counts, 100_000 * score / score.sum()) > 1e-6


def test_net_covers_the_ball():
    mech = independent(1, STRONG, sampler="net", spacing=0.25)
    rng = np.random.default_rng(11)
    probes = rng.standard_normal((2000, 2))
    probes *= (rng.random(2000) ** 0.5 / np.linalg.norm(probes, axis=1))[:, None]
    distance = np.linalg.norm(probes[:, None] - mech.net[None], axis=2).min(axis=1)
    assert distance.max() <= 0.25 and np.linalg.norm(mech.net, axis=1).max() <= 1 + 1e-12
    assert mech.net.shape == np.unique(mech.net, axis=0).shape


@pytest.mark.parametrize("sampler", ["exact", "net"])
def test_outputs_and_weights_are_functions_of_the_transcript(sampler):
    rows = {
        r: independent(40, STRONG, sampler=sampler, spacing=0.3, release=r).sample(
            STEEP, 300, np.random.default_rng(12)
        )
        for r in ("full", "outputs", "weights")
    }
    full = independent(40, STRONG, sampler=sampler, spacing=0.3)
    block = 3 if sampler == "net" else 4
    np.testing.assert_array_equal(rows["full"][:, block - 2 :: block], rows["outputs"])
    np.testing.assert_allclose(full.weights(rows["full"]), rows["weights"], atol=1e-12)
    assert np.abs(rows["weights"]).max() > 0
    assert not hasattr(
        independent(40, STRONG, sampler=sampler, spacing=0.3, release="weights"), "log_density"
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


def test_jk15_released_weights_alone_leak():
    """W11, lambda = 1000: the weight along e2 moves by 2.2 of its standard deviations where one
    record is turned over.
    """
    learner = m.KernelLearner(Loss("absolute"), 1000.0, 2, 10**6, label_bound=10.0)
    mech = m.TestDataIndependentLearner(learner, 1.0, 1e-6, 0.05, release="weights")
    pair = mech.worst_pair()
    rng = np.random.default_rng(15)
    a, b = (mech.sample(d, 2000, rng)[:, 1] for d in (pair.d0, pair.d1))
    shift = (b.mean() - a.mean()) / math.sqrt((a.var() + b.var()) / 2)
    assert shift == pytest.approx(2.20, abs=0.3)


def test_printed_form_without_a_round_warns_and_releases_nothing():
    with pytest.warns(UserWarning, match="B must be at least one round"):
        mech = independent(0.2, units="printed")
    assert mech.sample(FOUR, 3, np.random.default_rng(0)).shape == (3, 0)
    assert mech.log_density(np.empty((3, 0)), FOUR).tolist() == [0, 0, 0]
