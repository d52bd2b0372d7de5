"""The proved route of sparse vector, ridge, simplex sampling and follow the leader."""

import math

import numpy as np
import pytest
from flint import arb, ctx

from dpwitness import mechanisms as m
from dpwitness.auditors.density.proved.bounds import proved_bounds
from dpwitness.core.balls.ball import PRECISION, span


def ends_of(mechanism, claim=None, pair=None):
    return proved_bounds(
        mechanism,
        pair or mechanism.worst_pair(),
        m.parse_claim(claim) if claim else mechanism.claim,
    )


@pytest.mark.parametrize("variant", [1, 2, 4, 5, 6])
@pytest.mark.parametrize(("length", "threshold"), [(2, 0.0), (5, 0.3)])
def test_patterns_of_the_sparse_vector(variant, length, threshold):
    """Masses add to 1 in balls, equal the quadrature to 1e-9, and the supremum is the truth to
    1e-6.
    """
    rng = np.random.default_rng(variant)
    mechanism = m.SparseVector(float(rng.uniform(0.3, 2)), length, threshold, variant=variant)
    answers = rng.uniform(0, 1, length)
    rows = mechanism.support(answers)
    with ctx.workprec(PRECISION):
        logs = mechanism.log_density_ball([[(x, x) for x in row] for row in rows.tolist()], answers)
        total = sum((log.exp() for log in logs), arb(0))
        assert total.contains(1) and total.rad() < 1e-30
        masses = np.array([float(log.exp()) for log in logs])
    assert np.allclose(masses, np.exp(mechanism.log_density(rows, answers)), rtol=1e-9, atol=1e-300)
    found, truth = ends_of(mechanism), mechanism.truth.parameter
    assert (
        found.parameter_lower <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= found.parameter_upper
    )
    assert (
        found.parameter_upper == found.parameter_lower == math.inf
        or found.parameter_upper <= found.parameter_lower * (1 + 1e-6)
    )


def test_the_broken_sparse_vector_exceeds_four():
    assert ends_of(m.BrokenSparseVector(1.0)).parameter_lower > 4.03
    assert ends_of(m.AboveThreshold(0.7, 6)).parameter_upper <= 0.7


def test_query_noise_at_which_rates_cancel():
    """b = s: exponents of the integrand vanish, which no division may see."""
    mechanism = m.SparseVector(1.0, 4, variant=6)
    assert mechanism.noise.threshold == mechanism.noise.query
    pair = m.Pair(np.array([0.5, 0.5, 0.1, 0.9]), np.array([0.25, 1.0, 0.6, 0.9]), "linf")
    found = ends_of(mechanism, pair=pair)
    rows = mechanism.support(pair.d0)
    loss = mechanism.log_density(rows, pair.d1) - mechanism.log_density(rows, pair.d0)
    assert found.parameter_lower == pytest.approx(np.abs(loss).max(), rel=1e-9)


def test_ridge_as_printed_has_no_epsilon_and_repaired_keeps_its_bound():
    """W12. In the plane the records lie on one axis."""
    for p in (1, 2):
        printed = m.PrivateRidge(1.0, 0.1, 1.0, 1.0, p, 2)
        assert ends_of(printed).parameter_lower > 1e9
    repaired = m.PrivateRidge(1.0, 0.1, 1.0, 1.0, 1, 2, form="repaired")
    found = ends_of(repaired)
    assert 0 < found.parameter_lower <= found.parameter_upper <= repaired.truth.parameter
    assert found.parameter_upper <= found.parameter_lower * (1 + 1e-6)
    grid = np.concatenate([np.linspace(-1, 1, 20_001)[:, None], [[1.0], [-1.0]]])
    pair = repaired.worst_pair()
    loss = np.abs(repaired.log_density(grid, pair.d1) - repaired.log_density(grid, pair.d0)).max()
    assert loss <= found.parameter_upper * (1 + 1e-9) and loss == pytest.approx(
        found.parameter_upper, rel=1e-4
    )


@pytest.mark.parametrize(
    "loss",
    [m.Loss("linear"), m.Loss("logistic"), m.Loss("squared"), m.Loss("huber")],
    ids=lambda loss: loss.name,
)
def test_the_simplex_minimiser_satisfies_its_equation(loss):
    """At the middle of the balls theta and theta proportional to exp(-sum x l'(x.theta) / lambda)
    agree to 1e-12; balls are that thin.
    """
    rng = np.random.default_rng(4)
    data = m.LabelledVectors(
        rng.uniform(-1, 1, (5, 3)), rng.choice([-1.0, 1.0], 5), rng.integers(1, 5, 5)
    )
    mechanism = m.SimplexSampling(1.0, 6.0, loss, dimension=3, records=data.n, draws=4)
    with ctx.workprec(PRECISION):
        ends = [span(log) for log in mechanism._log_theta_ball(data)]
    theta = np.exp([low / 2 + high / 2 for low, high in ends])
    assert max(high - low for low, high in ends) < 1e-11 and abs(theta.sum() - 1) < 1e-11
    gradient = data.x.T @ (data.weights * loss.derivative(data.x @ theta, data.y))
    again = np.exp(-gradient / 6.0)
    assert np.allclose(theta, again / again.sum(), rtol=1e-11)


def test_the_rare_coordinate_of_the_simplex_is_the_truth():
    mechanism = m.SimplexSampling(1.0, 40.0, m.Loss("linear"), dimension=3, records=2, draws=6)
    found = ends_of(mechanism, pair=mechanism.worst_pair(1e-9))
    assert found.parameter_upper <= mechanism.truth.parameter * (1 + 1e-9)
    assert found.parameter_upper <= found.parameter_lower * (1 + 1e-9)


@pytest.mark.parametrize(("actions", "horizon"), [(2, 6), (3, 5)])
def test_composed_draws_equal_the_sum_over_all_rows(actions, horizon):
    mechanism = m.PrivateFTRL(1.0, 1e-3, 1.0, actions, horizon)
    pair = mechanism.worst_pair(-1.0)
    found = ends_of(mechanism, "approx:0.2,0.01", pair)
    rows = mechanism.support(pair.d0)
    p, q = (np.exp(mechanism.log_density(rows, d)) for d in (pair.d1, pair.d0))
    for k in (0, 5, 10):
        exact = max(
            np.maximum(a - math.exp(found.epsilons[k]) * b, 0).sum() for a, b in ((p, q), (q, p))
        )
        assert (
            found.delta_lower[k] * (1 - 1e-9) - 1e-15
            <= exact
            <= found.delta_upper[k] * (1 + 1e-9) + 1e-15
        )
    assert found.epsilon_upper <= found.epsilon_lower * (1 + 1e-6)


def test_a_wrong_regularisation_turns_the_verdict():
    """Follow the leader at T = 60 needs epsilon 0.74 of its 1; with 1/2 of lambda in the balls it
    would need more.
    """
    mechanism = m.PrivateFTRL(1.0, 1e-5, 1.0, 2, 60)
    assert ends_of(mechanism).parameter_upper <= 1.0
    object.__setattr__(mechanism, "epsilon", 2.0)  # lambda is proportional to 1 / epsilon
    assert ends_of(mechanism, "approx:1,1e-5").parameter_lower > 1.0
