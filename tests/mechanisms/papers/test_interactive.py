"""PrivateInteractivePrediction: law, constants, ledger numbers JK-06 to JK-09, adaptive points,
refusals.

Statistical tests fail falsely with probability 1e-6.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numba import njit
from scipy import stats

from dpwitness import mechanisms as m
from dpwitness.mechanisms import InvalidArgument, Kernel, LabelledVectors, Loss

FOUR = LabelledVectors([[1.0, 0.0], [0.8, 0.1], [-0.3, 0.9], [0.6, 0.6]], [1.0, 1.0, -1.0, 1.0])
OTHER = LabelledVectors([[1.0, 0.0], [0.8, 0.1], [-0.3, 0.9], [0.55, 0.63]], [1.0, 1.0, -1.0, 1.0])


@njit
def cosine(x, z):
    return 0.5 + 0.5 * math.cos(x[0] - z[0]) * math.cos(x[1] - z[1])


KERNELS = {
    "linear": Kernel(),
    "polynomial": Kernel("polynomial", degree=2),
    "rbf": Kernel("rbf", gamma=0.7),
    "custom": Kernel("custom", function=cosine, feature_radius=1.0),
}


def learner(kernel="linear", loss="logistic"):
    return m.KernelLearner(Loss(loss), 0.1, 2, 4, KERNELS[kernel])


def interactive(updates, points=None, kernel="linear", level=0.9, **change):
    """Chosen so that B = `updates` and sigma = `level` times the largest prediction at POINTS: both
    tops and bottoms occur.
    """
    it = learner(kernel)
    rounds = change.get("horizon") or len(points)
    log4, spread = math.log(4 / 0.5), math.log(2 * rounds / 0.99)
    answer = 4 * spread / (level * np.abs(it.fit(FOUR)(POINTS)).max())
    if change.get("constants") == "theorem9":
        answer *= 2
    epsilon = (
        answer
        * 200
        * it.lipschitz
        * it.radius**2
        * math.sqrt(updates)
        * log4
        / (it.records * it.regularization)
    )
    bound = math.sqrt(
        updates
        * 200
        * it.lipschitz
        * it.radius
        * math.sqrt(2 * spread)
        * log4
        / (it.records * it.regularization * epsilon)
    )
    return m.PrivateInteractivePrediction(
        it, epsilon, 0.5, 0.99, bound * (1 - 1e-12), test_points=points, **change
    )


POINTS = np.array([[0.3, 0.1], [0.2, 0.4], [-0.1, 0.5], [0.15, 0.2]])


def regions(p, sigma, scale, truth):
    """(answer nodes, weights) of five regions: at p; just above and far above the threshold; just
    and far below. Split at the kink.
    """
    x, w = np.polynomial.legendre.leggauss(40)
    found = [(np.array([p]), np.ones(1))]
    for side in (1, -1):
        for low, high in ((sigma, sigma + scale), (sigma + scale, sigma + 60 * scale)):
            knots = (
                [low, high]
                if not low < side * (truth - p) < high
                else [low, side * (truth - p), high]
            )
            knots = [
                knots[0],
                *(
                    k
                    for pair in itertools.pairwise(knots)
                    for k in (0.8 * pair[0] + 0.2 * pair[1], pair[1])
                ),
            ]
            nodes = [p + side * ((b - a) / 2 * (x + 1) + a) for a, b in itertools.pairwise(knots)]
            found.append(
                (
                    np.concatenate(nodes),
                    np.concatenate([w * (b - a) / 2 for a, b in itertools.pairwise(knots)]),
                )
            )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_law_of_two_rounds_by_quadrature(kernel, chi_square):
    game = interactive(2.5, POINTS[:2], kernel)
    scale = 1 / game.answer_epsilon
    gram = game.learner.kernel(POINTS[:2], POINTS[:2])
    truth = game.learner.fit(FOUR)(POINTS[:2])
    expected = np.zeros((5, 5))
    for i, (first, first_weight) in enumerate(regions(0.0, game.threshold, scale, truth[0])):
        for a, wa in zip(first, first_weight, strict=True):
            p = 0.0 if i == 0 else math.copysign(game.step, a) * gram[1, 0]
            for j, (second, second_weight) in enumerate(
                regions(p, game.threshold, scale, truth[1])
            ):
                rows = np.column_stack([np.full(len(second), a), second])
                expected[i, j] += wa * (np.exp(game.log_density(rows, FOUR)) * second_weight).sum()
    assert expected.sum() == pytest.approx(1, abs=1e-6)
    rows = game.sample(FOUR, 200_000, np.random.default_rng(1))

    def region(gap):
        return np.where(
            gap == 0, 0, np.where(gap > 0, 1, 3) + (np.abs(gap) > game.threshold + scale)
        )

    first = region(rows[:, 0])
    moved = np.where(first == 0, 0.0, np.copysign(game.step, rows[:, 0])) * gram[1, 0]
    counts = np.zeros((5, 5))
    np.add.at(counts, (first, region(rows[:, 1] - moved)), 1)
    want = 200_000 * expected
    rare = want <= 10
    assert counts[rare].sum() <= want[rare].sum() + 6 * math.sqrt(want[rare].sum()) + 12
    assert (~rare).sum() >= 3 and chi_square(counts[~rare], want[~rare]) > 1e-6


def size_of(rows):
    """Return a number between 0 and 3 that grows with the answers above the threshold."""
    return np.minimum(np.nansum(np.abs(rows), axis=1), 3.0)


@pytest.mark.slow_cases("3.5-printed", "3.5-theorem9")
@pytest.mark.filterwarnings("ignore:.*one update is made anyway")
@pytest.mark.parametrize("constants", ["printed", "theorem9"])
@pytest.mark.parametrize("updates", [1.0, 3.5])
def test_likelihood_ratios_of_longer_transcripts(updates, constants, likelihood_ratios):
    game = interactive(updates, np.tile(POINTS, (2, 1)), constants=constants)
    likelihood_ratios(game, FOUR, OTHER, size_of, 100_000, seed=2)
    rows = game.sample(FOUR, 20_000, np.random.default_rng(3))
    tops = game.tops(rows)
    assert np.nansum(tops, axis=1).max() == math.ceil(updates)
    halted = np.isnan(rows)
    assert 0 < halted.mean() < 1
    assert np.all(np.nansum(tops, axis=1)[halted.any(axis=1)] == math.ceil(updates))


@njit
def tabled(t, points, answers, weights, z):
    z[0] = 0.3 - 0.1 * t
    z[1] = 0.1 + 0.2 * t


@njit
def curious(t, points, answers, weights, z):
    """Ask near where the last answer was a top, elsewhere otherwise."""
    z[0], z[1] = 0.3, 0.1
    if t > 0 and weights[t - 1] != 0.0:
        z[0] = 0.5 * points[t - 1, 0] + 0.05 * math.tanh(answers[t - 1])
    elif t > 0:
        z[1] = -0.4


@njit
def outside(t, points, answers, weights, z):
    z[0] = 0.5 + t


@pytest.mark.slow_cases("custom", "linear")
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_rule_that_ignores_the_answers_is_a_table(kernel):
    points = np.array([[0.3 - 0.1 * t, 0.1 + 0.2 * t] for t in range(4)])
    fixed, ruled = (
        interactive(2.5, points, kernel),
        interactive(2.5, None, kernel, rule=tabled, horizon=4),
    )
    a, b = (game.sample(FOUR, 2000, np.random.default_rng(4)) for game in (fixed, ruled))
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        fixed.log_density(a, FOUR), ruled.log_density(b, FOUR), rtol=1e-8, atol=1e-10
    )


@pytest.mark.slow
def test_adaptive_points_likelihood_ratios(likelihood_ratios):
    game = interactive(2.5, None, rule=curious, horizon=6)
    likelihood_ratios(game, FOUR, OTHER, size_of, 100_000, seed=2)
    with pytest.raises(
        InvalidArgument,
        match=r"rule must choose points with \|phi\(z\)\| at most 1.0, it did not in round 2",
    ):
        interactive(2.5, None, rule=outside, horizon=3).sample(FOUR, 1, np.random.default_rng(0))


@pytest.mark.filterwarnings("ignore:.*one update is made anyway")
@pytest.mark.parametrize("adaptive", [False, True])
def test_impossible_transcripts_have_no_density(adaptive):
    game = (
        interactive(1.0, None, rule=tabled, horizon=2) if adaptive else interactive(1.0, POINTS[:2])
    )
    beyond = game.threshold * 1.5
    rows = np.array(
        [
            [0.0, 0.0],
            [beyond, np.nan],
            [beyond, 0.0],
            [np.nan, np.nan],
            [0.0, np.nan],
            [game.threshold / 2, 0.0],
        ]
    )
    assert np.isfinite(game.log_density(rows, FOUR)).tolist() == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_jk07_w8_a_tiny_budget_of_updates_breaks_the_promise():
    it = m.KernelLearner(Loss("absolute"), 1.0, 1, 10**6, label_bound=10.0)
    with pytest.warns(UserWarning, match=r"B = 1.00146e-07 is below 1"):
        game = m.PrivateInteractivePrediction(
            it, 1.0, 1e-6, 0.1, 2.73e-5, test_points=np.array([[1.0]])
        )
    assert (game.answer_epsilon, game.threshold) == (
        pytest.approx(1.04e6, rel=2e-3),
        pytest.approx(1.15e-5, rel=3e-3),
    )
    assert game.answer_loss == pytest.approx(2.08, abs=2e-3)
    pair = game.worst_pair(26)
    rows = game.sample(pair.d0, 400_000, np.random.default_rng(5))
    loss = game.log_density(rows, pair.d0) - game.log_density(rows, pair.d1)
    terms = np.maximum(0, -np.expm1(1 - loss))
    exact = -math.expm1((1 - game.answer_loss) / 2)
    assert exact == pytest.approx(0.417, abs=1e-3)
    # bottoms: once in 1e5 runs
    assert abs(terms.mean() - exact) < 6 * terms.std() / math.sqrt(400_000) + 1e-4


def test_jk07_w7_bottoms_leak_and_cost_nothing():
    """B = 4, e0 = .3, adaptive points held at the threshold: delta(1) = .0869, where four Laplace
    answers give .0137.
    """
    it = m.KernelLearner(Loss("absolute"), 1.0, 2, 10**6, label_bound=10.0)
    delta, rounds = 1e-6, 60
    epsilon = 0.3 * 100 * 2 * math.log(4 / delta)
    spread = math.sqrt(2 * math.log(2 * rounds / 0.1))
    # B = 4, not a rounding above it
    bound = math.sqrt(4 * 200 * spread * math.log(4 / delta) / (10**6 * epsilon)) * (1 - 1e-12)
    probe = m.PrivateInteractivePrediction(
        it, epsilon, delta, 0.1, bound, test_points=np.zeros((rounds, 2))
    )
    x, copies = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [900_000, 1, 99_999]
    d0, d1 = (LabelledVectors(x, [10.0, y, 0.0], copies) for y in (-10.0, 10.0))
    weights = it.fit(d0).centers[0]
    rule = m.hold_gap(tuple(weights), probe.threshold)
    game = m.PrivateInteractivePrediction(it, epsilon, delta, 0.1, bound, rule=rule, horizon=rounds)
    assert (math.ceil(game.updates), game.answer_loss) == (4, pytest.approx(0.3))
    rows = game.sample(d0, 100_000, np.random.default_rng(6))
    loss = game.log_density(rows, d0) - game.log_density(rows, d1)
    terms = np.maximum(0, -np.expm1(1 - loss))
    assert abs(terms.mean() - 0.0869) < 5 * terms.std() / math.sqrt(100_000) + 1e-3
    assert abs(np.exp(-loss).mean() - 1) < 6 * np.exp(-loss).std() / math.sqrt(100_000)


def test_jk06_theorem_9_asks_for_twice_the_noise():
    printed = interactive(2.0, POINTS)
    theorem = replace(printed, constants="theorem9", horizon=None)
    assert printed.answer_epsilon == pytest.approx(2 * theorem.answer_epsilon)
    assert printed.updates == theorem.updates
    assert printed.answer_loss == pytest.approx(
        printed.epsilon / (100 * math.sqrt(2.0) * math.log(8))
    )


def test_jk08_repaired_updates_are_what_the_potential_argument_needs():
    it = m.KernelLearner(Loss("absolute"), 1.0, 1, 10**7, label_bound=10.0)
    points = np.ones((2000, 1))
    game = m.PrivateInteractivePrediction(
        it, 1.0, 1e-6, 0.05, 0.02, test_points=points, constants="repaired"
    )
    # the ledger's .277, which halts after one update
    with pytest.warns(UserWarning, match=r"B = 0.27[67]\d* is below 1"):
        m.PrivateInteractivePrediction(it, 1.0, 1e-6, 0.05, 0.02, test_points=points)
    assert game.updates == math.floor(game.updates) >= 3.2 * 0.02**2 / game.threshold**2
    assert 3.2 * 0.02**2 / game.threshold**2 > game.updates - 1.5
    with pytest.raises(InvalidArgument, match="must allow at least one update, got B = "):
        m.PrivateInteractivePrediction(
            it, 1e-3, 1e-6, 0.05, 0.02, test_points=points, constants="repaired"
        )


def test_jk09_answers_are_accurate():
    """Bottoms within 1.25 sigma of the truth, tops within sigma/4, in all but a beta share of the
    runs (here beta = .05).
    """
    it = m.KernelLearner(Loss("logistic"), 0.01, 2, 200, Kernel("rbf"))
    rng = np.random.default_rng(7)
    data = LabelledVectors(
        rng.uniform(-0.7, 0.7, (200, 2)), np.sign(rng.standard_normal(200) + 0.5)
    )
    points = rng.uniform(-0.7, 0.7, (50, 2))
    game = m.PrivateInteractivePrediction(it, 1e7, 1e-3, 0.05, 2.0, test_points=points)
    rows = game.sample(data, 2000, rng)
    tops, error = game.tops(rows), np.abs(rows - it.fit(data)(points))
    assert np.nansum(tops) > 0
    bad = np.where(
        tops == 1, error > game.threshold / 4, np.nan_to_num(error) > 1.25 * game.threshold
    ).any(axis=1)
    assert stats.binomtest(int(bad.sum()), 2000, 0.025, alternative="greater").pvalue > 1e-6


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
@pytest.mark.parametrize("equation", [2, 1])
def test_jk01_jk02_sensitivity_is_attained_and_doubles_under_equation_1(loss, equation):
    it = m.KernelLearner(
        Loss(loss), 4.0, 2, 1, label_bound=1.0 if loss == "hinge" else 10.0, equation=equation
    )
    pair = it.worst_pair()
    moved = np.linalg.norm(it.fit(pair.d0).centers - it.fit(pair.d1).centers)
    assert moved / it.weight_sensitivity == pytest.approx(3 - equation, rel=1e-6)
