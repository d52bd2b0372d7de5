"""Losses, kernels and solvers against differences, scipy and scikit-learn."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.optimize import minimize

from dpwitness.benchmarks.experiment_data import breast_cancer
from dpwitness.core.numerics.losses import LOSSES
from dpwitness.core.numerics.newton import exponential, loss_terms
from dpwitness.core.numerics.solvers import (
    Problem,
    minimise,
    minimize_kernel_risk,
    minimize_perturbed_risk,
    noise_for_minimizers,
)
from dpwitness.mechanisms import (
    ConvergenceError,
    InvalidArgument,
    Kernel,
    LabelledVectors,
    LogisticObjectivePerturbation,
    Loss,
)

SMOOTH = [name for name in LOSSES if Loss(name).smooth]


def test_exponential_is_exact_to_a_few_units_in_the_last_place():
    x = np.concatenate([np.linspace(-700, 700, 20_001), np.linspace(-1, 1, 2001)])
    found = np.array([exponential(v) for v in x])
    assert np.abs(found / np.exp(x) - 1).max() < 5e-16
    assert exponential(-1e9) < 1e-303 and exponential(1e9) > 1e303


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


def test_against_scikit_learn():
    """Logistic regression on breast cancer, and the hinge loss by its support vector machine."""
    linear_model, svm = (
        pytest.importorskip("sklearn.linear_model"),
        pytest.importorskip("sklearn.svm"),
    )
    data = breast_cancer()
    for ridge in (0.01, 1.0, 50.0):
        ours = minimise(Problem.of(data, Loss("logistic"), ridge))
        model = linear_model.LogisticRegression(
            C=1 / ridge, fit_intercept=False, tol=1e-12, max_iter=10_000
        ).fit(data.x, data.y)
        np.testing.assert_allclose(ours.w, model.coef_[0], atol=2e-4 * np.abs(ours.w).max())
        assert ours.residual < 1e-11 and ours.radius == ours.residual / ridge
    part = LabelledVectors(data.x[:80], data.y[:80])
    ours = minimise(Problem.of(part, Loss("hinge"), 2.0))
    kernel = minimize_kernel_risk(part.x @ part.x.T, part.y, part.weights, Loss("hinge"), 2.0)
    machine = svm.LinearSVC(
        C=0.5, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10_000_000
    ).fit(part.x, part.y)
    np.testing.assert_allclose(ours.w, machine.coef_[0], atol=1e-6)
    np.testing.assert_allclose(part.x.T @ kernel.w, ours.w, atol=1e-7)


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize(
    "kernel",
    [Kernel("linear"), Kernel("polynomial"), Kernel("rbf", gamma=2.0)],
    ids=lambda k: k.name,
)
def test_kernel_minimisers(kernel, name):
    """The stationarity of c in feature space, and for the linear kernel the same predictions as the
    solver in w.
    """
    rng = np.random.default_rng(3)
    x = rng.standard_normal((15, 3)) / 3
    x[3] = x[4]
    y = rng.choice([-1.0, 1.0], 15)
    m = rng.choice([1.0, 5.0], 15)
    loss, gram = Loss(name), kernel.gram(x)
    found = minimize_kernel_risk(gram, y, m, loss, 0.7)
    u = gram @ found.w
    if loss.smooth:
        excess = 0.7 * found.w + m * loss.derivative(u, y)
        # the root of a rounding error of 1e-13
        assert math.sqrt(max(0.0, excess @ gram @ excess)) < 1e-6
    if kernel.name == "linear":
        w = minimise(Problem.of(LabelledVectors(x, y, m), loss, 0.7)).w
        np.testing.assert_allclose(u, x @ w, atol=1e-7)


def test_kernels_and_their_radius():
    x = np.array([[0.6, 0.8], [0.0, -1.0], [0.1, 0.2]])
    assert Kernel("polynomial")(x, x)[0, 1] == pytest.approx((1 - 0.8) ** 3)
    assert Kernel("rbf", gamma=0.5)(x, x)[0, 1] == pytest.approx(math.exp(-0.5 * (0.36 + 3.24)))
    for kernel in (Kernel(), Kernel("polynomial"), Kernel("rbf")):
        assert np.sqrt(np.diag(kernel.gram(x))).max() <= kernel.radius(1.0) * (1 + 1e-15)
    assert Kernel("polynomial").radius(1.0) == pytest.approx(math.sqrt(8))
    user = Kernel("custom", function=njit(lambda a, b: (a @ b) ** 2), feature_radius=1.0)
    np.testing.assert_allclose(user.gram(x), (x @ x.T) ** 2)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda a, b: a[0] - b[0] + 5.0,
            "Kernel: custom must be symmetric, got K(x_0, x_1) = 5.6 and K(x_1, x_0) = 4.4",
        ),
        (
            lambda a, b: -(a[0] * b[0]),
            "Kernel: custom must be positive semi-definite on the data, got smallest "
            "eigenvalue -0.36",
        ),
        (
            lambda a, b: np.nan * a[0],
            "Kernel: custom must be finite on the data, got K(x_0, x_0) = nan",
        ),
    ],
)
def test_kernels_that_are_none(function, message):
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        Kernel("custom", function=njit(function), feature_radius=1.0).gram([[0.6], [0.0]])


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
