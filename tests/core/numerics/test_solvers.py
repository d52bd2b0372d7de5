"""Losses, kernels and solvers against differences, scipy and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpwitness.core.numerics.losses import LOSSES
from dpwitness.core.numerics.newton import loss_terms
from dpwitness.core.numerics.solvers import (
    Problem,
    minimise,
    minimize_perturbed_risk,
    noise_for_minimizers,
)
from dpwitness.mechanisms import (
    ConvergenceError,
    InvalidArgument,
    LabelledVectors,
    LogisticObjectivePerturbation,
    Loss,
)

SMOOTH = [name for name in LOSSES if Loss(name).smooth]


@pytest.mark.parametrize("name", list(LOSSES))
def test_losses_agree_with_their_differences_and_constants(name):
    loss = Loss(name, width=0.8, smoothing=0.3, scale=1.7)
    u = np.linspace(-3, 3, 997)
    y = np.where(u > 0.3, 1.0, -1.0)
    kink = {
        "hinge": np.abs(1 - y * u),
        "absolute": np.abs(u - y),
        "huber": np.abs(np.abs(u - y) - 0.8),
    }.get(name, np.ones_like(u)) < 1e-3
    h = 1e-5
    first = (loss.value(u + h, y) - loss.value(u - h, y)) / (2 * h)
    second = (loss.derivative(u + h, y) - loss.derivative(u - h, y)) / (2 * h)
    assert np.abs(first - loss.derivative(u, y))[~kink].max() < 1e-8
    assert np.abs(second - loss.second(u, y))[~kink].max() < 1e-4
    assert np.abs(loss.derivative(u, y)).max() <= loss.lipschitz(3.0, 1.0) * (1 + 1e-12)
    assert loss.second(u, y).max() <= loss.smoothness
    if math.isfinite(loss.concordance):
        third = (loss.second(u + h, y) - loss.second(u - h, y)) / (2 * h)
        assert np.all(np.abs(third) <= loss.concordance * loss.second(u, y) + 1e-8)
    slope, curvature, weights = np.empty_like(u), np.empty_like(u), np.full_like(u, 1.7)
    loss_terms(loss.code, loss.width, loss.smoothing, u, y, weights, slope, curvature)
    np.testing.assert_allclose(slope, loss.derivative(u, y), atol=1e-14)
    np.testing.assert_allclose(curvature, loss.second(u, y), atol=1e-14)


@st.composite
def problems(draw, losses):
    """Random data with duplicates, zero records and multiplicities; lambda from 1e-6 to 1e3."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.standard_normal((n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    x[rng.random(n) < 0.2] = 0.0
    if draw(st.booleans()):
        x[:] = x[rng.integers(n, size=n)]
    width = draw(st.sampled_from([0.05, 1.0]))
    loss = Loss(draw(st.sampled_from(losses)), width=width, smoothing=width / 2)
    y = rng.choice([-1.0, 1.0], n) if loss.binary else rng.normal(0, 2, n)
    data = LabelledVectors(x, y, rng.choice([1, 1, 1, 7, 1000], n))
    return data, loss, data.n * 10.0 ** draw(st.floats(-6, 3))


def objective(data, loss, ridge, w, b=0.0):
    return (
        0.5 * ridge * w @ w
        + np.dot(np.broadcast_to(b, w.shape), w)
        + data.multiplicity @ loss.value(data.x @ w, data.y)
    )


def slope(data, loss, ridge, w, b=0.0):
    return ridge * w + b + data.x.T @ (data.multiplicity * loss.derivative(data.x @ w, data.y))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems(SMOOTH))
def test_smooth_minimisers(case):
    """Gradient norm as certified, recomputed with numpy; scipy finds nothing lower."""
    data, loss, ridge = case
    found = minimise(Problem.of(data, loss, ridge))
    rounding = 1e-13 * (
        data.multiplicity @ np.abs(loss.derivative(0 * data.y, data.y))
        + loss.smoothness * data.n * np.linalg.norm(found.w)
    )
    assert (
        np.linalg.norm(slope(data, loss, ridge, found.w))
        <= 1e-10 * np.linalg.norm(slope(data, loss, ridge, 0 * found.w)) + rounding
    )
    other = minimize(
        lambda w: objective(data, loss, ridge, w),
        found.w + 0.1,
        jac=lambda w: slope(data, loss, ridge, w),
        method="BFGS",
    ).x
    best = objective(data, loss, ridge, found.w)
    assert best <= objective(data, loss, ridge, other) + 1e-12 * (abs(best) + data.n)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(problems(SMOOTH), st.floats(-3, 3), st.integers(0, 2**32))
def test_perturbed_minimisers_and_the_way_back(case, exponent, seed):
    """Every row's gradient, recomputed with numpy, is at most 1e-10 |b| plus rounding; b(w) inverts
    the solve.
    """
    data, loss, ridge = case
    b = np.random.default_rng(seed).standard_normal((20, data.dimension)) * 10.0**exponent
    w = minimize_perturbed_risk(Problem.of(data, loss, ridge), b.copy())
    back, determinant = noise_for_minimizers(Problem.of(data, loss, ridge), w)
    for i in range(len(b)):
        size = np.linalg.norm(w[i])
        reach = size + np.abs(data.y).max()
        rounding = 1e-14 * (
            (loss.lipschitz(reach, reach) + loss.smoothness * reach) * data.n + ridge * size
        )
        goal = (
            1e-10
            * (
                np.linalg.norm(b[i])
                + np.linalg.norm(slope(data, loss, ridge, 0 * w[i])) * (exponent < 0)
            )
            + rounding
        )
        assert np.linalg.norm(slope(data, loss, ridge, w[i], b[i])) <= goal
        assert np.linalg.norm(back[i] - b[i]) <= goal
        hessian = (
            ridge * np.eye(data.dimension)
            + (data.x.T * (data.multiplicity * loss.second(data.x @ w[i], data.y))) @ data.x
        )
        assert determinant[i] == pytest.approx(
            np.linalg.slogdet(hessian)[1], abs=1e-9 + 1e-13 * size / loss.width
        )


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True)
@given(problems(["hinge", "absolute"]))
def test_losses_with_kinks(case):
    """No point that scipy reaches, from the minimiser outwards, is lower than the duality gap
    allows.
    """
    data, loss, ridge = case
    found = minimise(Problem.of(data, loss, ridge))
    best = objective(data, loss, ridge, found.w)
    assert found.residual <= 1e-10 * best + 1e-15 * data.n**2 / ridge
    tried = [
        minimize(lambda w: objective(data, loss, ridge, w), found.w + s, method="Powell").x
        for s in (0.0, 0.3)
    ]
    assert min(objective(data, loss, ridge, w) for w in tried) >= best - found.residual - 1e-12 * (
        best + data.n
    )


def test_a_row_that_does_not_converge_is_an_error():
    data = LabelledVectors([[1.0], [0.5]], [1, 1])
    problem = Problem.of(data, Loss("logistic"), 1.0)
    with pytest.raises(
        ConvergenceError,
        match=r"minimise_perturbed: no convergence \(loss logistic, ridge 1\), first in row 1",
    ):
        minimize_perturbed_risk(problem, np.array([[1.0], [np.nan], [2.0]]))
    with pytest.raises(
        InvalidArgument, match="minimise_perturbed: loss must be differentiable, got 'hinge'"
    ):
        minimize_perturbed_risk(Problem.of(data, Loss("hinge"), 1.0), np.ones((1, 1)))


def test_one_record_with_a_weak_ridge_converges():
    """Newton's step once swung between two points inside its bracket for good: n = 1, n lambda =
    .01, epsilon = .1.
    """
    data = LabelledVectors(np.array([[0.147, 0.350]]), np.array([1.0]))
    mechanism = LogisticObjectivePerturbation(epsilon=0.1, regularization=0.01)
    rows = mechanism.sample(data, 50_000, np.random.default_rng(1))
    assert np.isfinite(rows).all()
