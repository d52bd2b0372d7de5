"""The proved route of regularised risk minimisation: W3, W5 and W15 in balls, and balls against the float density."""

import math

import numpy as np
import pytest
from flint import arb, ctx

from dpwitness import mechanisms as m
from dpwitness.auditors.privacy_loss.routes import enclosed_law
from dpwitness.auditors.proved.bounds import proved_bounds
from dpwitness.auditors.proved.space import cells_of
from dpwitness.mechanisms.balls.ball import PRECISION, ends, span
from dpwitness.mechanisms.balls.risk import RiskLaw, curvature_over, slope_over
from dpwitness.mechanisms.numerics.losses import Loss
from dpwitness.mechanisms.numerics.noise import SphericalNoise
from dpwitness.mechanisms.numerics.solvers import Problem
from dpwitness.mechanisms.papers.convex import QuadraticPenalty

SMOOTH = ("logistic", "squared", "huber", "smoothed-huber", "log-cosh", "linear")


def ends_of(mechanism, claim=None, pair=None):
    return proved_bounds(mechanism, pair or mechanism.worst_pair(), m.parse_claim(claim) if claim else mechanism.claim)


def random_data(rng, dimension, binary, rows=3):
    x = rng.uniform(-1, 1, (rows, dimension))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    y = rng.choice([-1.0, 1.0], rows) if binary else rng.uniform(-2, 2, rows)
    return m.LabelledVectors(x, y, rng.integers(1, 4, rows))


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_and_curvatures_hold_every_point_of_their_span(name):
    rng = np.random.default_rng(1)
    for _ in range(150):
        loss = Loss(name, float(rng.uniform(0.3, 2)), float(rng.uniform(0.05, 0.29)))
        y = float(rng.choice([-1, 1])) if loss.binary else float(rng.normal())
        low, high = sorted(rng.normal(0, 3, 2).tolist())
        u = float(rng.uniform(low, high))
        for exact, over in ((loss.derivative, slope_over), (loss.second, curvature_over)):
            for a, b in ((low, high), (u, u)):
                with ctx.workprec(PRECISION):
                    least, most = ends(over(loss, *((arb(a),) * 2 if a == b else (arb(a), arb(b))), y))
                assert least - 1e-12 <= float(exact(u, y)) <= most + 1e-12


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("kind", ["gamma", "gaussian"])
def test_spans_of_the_loss_hold_the_float_loss_at_random_points(name, kind):
    """Also over half-lines; and the cells' masses are those of the density, by quadrature to 1e-6."""
    rng = np.random.default_rng(2)
    for _ in range(12):
        loss = Loss(name, float(rng.uniform(0.3, 2)), float(rng.uniform(0.05, 0.29)))
        first, second = (random_data(rng, 1, loss.binary) for _ in range(2))
        noise = SphericalNoise(kind, float(rng.uniform(0.3, 2)), 1)
        ridge = float(rng.uniform(0.5, 2))
        laws = [RiskLaw.of(Problem.of(data, loss, ridge), noise) for data in (first, second)]
        low = float(rng.normal(0, 2))
        for high in (low + float(rng.exponential(0.5)), math.inf):
            w = low + float(rng.uniform(0, min(high - low, 5.0)))
            with ctx.workprec(PRECISION):
                least, most = laws[0].loss(low, high, laws[1])
                at = [law.log_density(w, w) for law in laws]
                value = float(at[0] - at[1])
                a, b = span(laws[0].log_density(low, min(high, low + 1.0)))
                inner = float(laws[0].log_density(min(w, low + 1.0), min(w, low + 1.0)))
            assert least - 1e-12 <= value <= most + 1e-12
            assert a - 1e-12 <= inner <= b + 1e-12
        with ctx.workprec(PRECISION):
            grid = np.linspace(low, low + 0.2, 101)
            density = np.exp([float(laws[0].log_density(x, x)) for x in (grid[1:] + grid[:-1]) / 2])
            mass = float(laws[0].mass(low, low + 0.2))
            assert abs(float(laws[0].mass(-math.inf, math.inf)) - 1) < 1e-12
        if name != "huber":
            assert density.mean() * 0.2 == pytest.approx(mass, rel=2e-3)


def test_w3_is_proved():
    """Chaudhuri and Monteleoni 2008, Theorem 2: e1 against x = 0 at epsilon = n lambda = 0.1 loses 1.228 on the line."""
    found = ends_of(m.LogisticObjectivePerturbation(0.1, 0.1, dimension=1))
    assert 1.2284 < found.parameter_lower <= found.parameter_upper < 1.2286
    assert found.parameter_upper <= found.parameter_lower * (1 + 1e-6)
    plane = ends_of(m.LogisticObjectivePerturbation(0.1, 0.1, dimension=2))
    # across the axis, b' - b vanishes far out while the determinants stay log(1 + 1 / (4 n lambda)) apart
    assert plane.parameter_lower >= math.log1p(1 / 0.4) * (1 - 1e-6)
    assert plane.parameter_upper <= plane.parameter_lower * (1 + 1e-6)


def test_w5_is_proved():
    loss = Loss("log-cosh", width=1e-3)
    found = ends_of(m.ConvexObjectivePerturbation(1.0, 1.0, loss, QuadraticPenalty(1.0), noise="laplace_radius_scale"))
    assert found.parameter_lower == pytest.approx(math.log(1001), rel=1e-5)
    assert found.parameter_upper <= found.parameter_lower * (1 + 1e-6)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.4, 1.3])
def test_the_huber_loss_reaches_its_formula(dimension, epsilon):
    """JT-06: epsilon + log(1 + epsilon / 2) as printed, half of the first where repaired: the same function breaks and keeps its claim."""
    for repaired, spent in ((False, epsilon), (True, epsilon / 2)):
        found = ends_of(m.GLMObjectivePerturbation(loss=Loss("huber"), epsilon=epsilon, dimension=dimension, repaired=repaired))
        assert found.parameter_lower == pytest.approx(spent + math.log1p(epsilon / 2), rel=1e-6)
        assert found.parameter_lower <= found.parameter_upper <= found.parameter_lower * (1 + 1e-6)
        assert (found.parameter_lower > epsilon) is not repaired and (found.parameter_upper <= epsilon) is repaired


@pytest.mark.parametrize("dimension", [1, 2])
def test_gaussian_noise_in_a_perturbed_objective(dimension):
    mechanism = m.GLMObjectivePerturbation(loss=Loss("huber"), epsilon=0.5, delta=1e-4, noise="gaussian", dimension=dimension)
    found = ends_of(mechanism)
    law = enclosed_law(
        m.GLMObjectivePerturbation(loss=Loss("huber"), epsilon=0.5, delta=1e-4, noise="gaussian", dimension=1),
        m.GLMObjectivePerturbation(loss=Loss("huber"), epsilon=0.5, delta=1e-4, noise="gaussian", dimension=1).worst_pair(),
    )
    assert law is not None
    assert max(law.lower.epsilon(1e-4), law.lower.swapped().epsilon(1e-4)) == pytest.approx(found.parameter_lower, rel=1e-4)
    assert found.parameter_upper <= found.parameter_lower * (1 + 1e-6)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_gamma_output_perturbation_in_elliptic_coordinates(dimension):
    """delta against a Monte Carlo mean of 200,000 seeded runs, six standard errors: false-failure probability below 1e-7."""
    mechanism = m.GLMOutputPerturbation(loss=Loss("huber"), epsilon=2.0, regularization=1.0, dimension=dimension)
    pair = mechanism.worst_pair()
    found = ends_of(mechanism)
    rows = mechanism.sample(pair.d1, 200_000, np.random.default_rng(3))
    loss = mechanism.log_density(rows, pair.d1) - mechanism.log_density(rows, pair.d0)
    assert loss.max() <= found.epsilon_upper * (1 + 1e-12)
    for k in (0, len(found.epsilons) // 3):
        gain = np.maximum(-np.expm1(found.epsilons[k] - loss), 0.0)
        assert abs(gain.mean() - found.delta_lower[k]) <= 6 * gain.std() / math.sqrt(len(gain)) + 1e-12
        assert found.delta_upper[k] <= found.delta_lower[k] * (1 + 1e-6)


def test_the_printed_noise_is_proved_to_have_no_epsilon():
    found = ends_of(m.LogisticOutputPerturbation(0.7, 0.3, "laplace_radius_scale", dimension=2))
    assert found.parameter_lower == math.inf


def test_a_wrong_jacobian_turns_the_verdict(monkeypatch):
    """Without log F'' the repaired mechanism would seem to lose half of epsilon only."""
    mechanism = m.GLMObjectivePerturbation(loss=Loss("huber"), epsilon=1.0, dimension=1, repaired=True, regularization=2.0)
    assert ends_of(mechanism, "pure:0.8").parameter_lower > 0.8
    monkeypatch.setattr(RiskLaw, "_jacobian", lambda *_: (0.0, 0.0))
    monkeypatch.setattr(RiskLaw, "_slope", lambda *_: None)
    assert ends_of(mechanism, "pure:0.8").parameter_upper <= 0.8


def test_hinge_loss_has_no_balls():
    mechanism = m.GLMOutputPerturbation(loss=Loss("hinge"), epsilon=1.0, regularization=1.0, dimension=2)
    assert ends_of(mechanism) is None


def test_random_pairs_on_the_line_hold_the_largest_float_loss():
    rng = np.random.default_rng(9)
    for _ in range(4):
        first = random_data(rng, 1, True)
        second = m.LabelledVectors([*first.x[:-1], [float(rng.uniform(-1, 1))]], [*first.y[:-1], -first.y[-1]], first.multiplicity)
        mechanism = m.LogisticObjectivePerturbation(0.5, 0.2, dimension=1, records=first.n)
        with ctx.workprec(PRECISION):
            cells = cells_of(mechanism, first, second, 5.0)
            low, high = cells.supremum()
        w = np.linspace(-60, 60, 200_001)[:, None]
        loss = (mechanism.log_density(w, first) - mechanism.log_density(w, second)).max()
        assert loss <= high * (1 + 1e-9) and low <= high <= low * (1 + 1e-6) and low == pytest.approx(loss, rel=5e-4)
