"""PrivateInteractivePrediction: law, constants, ledger numbers JK-06 to JK-09, adaptive points,
refusals.

Statistical tests fail falsely with probability 1e-6.
"""

import itertools
import math

import numpy as np
import pytest

from dpwitness import mechanisms as m
from dpwitness.mechanisms import Kernel, LabelledVectors, Loss

FOUR = LabelledVectors([[1.0, 0.0], [0.8, 0.1], [-0.3, 0.9], [0.6, 0.6]], [1.0, 1.0, -1.0, 1.0])


KERNELS = {
    "linear": Kernel(),
    "polynomial": Kernel("polynomial", degree=2),
    "rbf": Kernel("rbf", gamma=0.7),
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


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
@pytest.mark.parametrize("equation", [2, 1])
def test_jk01_jk02_sensitivity_is_attained_and_doubles_under_equation_1(loss, equation):
    it = m.KernelLearner(
        Loss(loss), 4.0, 2, 1, label_bound=1.0 if loss == "hinge" else 10.0, equation=equation
    )
    pair = it.worst_pair()
    moved = np.linalg.norm(it.fit(pair.d0).centers - it.fit(pair.d1).centers)
    assert moved / it.weight_sensitivity == pytest.approx(3 - equation, rel=1e-6)
