"""The proved route of regularised risk minimisation, on the line and in the plane: W3, W5, W15, and
balls against the float density.
"""

import math

import numpy as np
import pytest
from flint import arb, ctx

from dpwitness import mechanisms as m
from dpwitness.auditors.density.proved.bounds import proved_bounds
from dpwitness.core.balls.ball import PRECISION, span
from dpwitness.core.balls.risk import RiskLaw
from dpwitness.core.numerics.noise import SphericalNoise
from dpwitness.core.numerics.solvers import Problem

SMOOTH = ("logistic", "squared", "huber", "smoothed-huber", "log-cosh", "linear")


def ends_of(mechanism, claim=None, pair=None):
    return proved_bounds(
        mechanism,
        pair or mechanism.worst_pair(),
        m.parse_claim(claim) if claim else mechanism.claim,
    )


def random_data(rng, dimension, binary, rows=3):
    x = rng.uniform(-1, 1, (rows, dimension))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    y = rng.choice([-1.0, 1.0], rows) if binary else rng.uniform(-2, 2, rows)
    return m.LabelledVectors(x, y, rng.integers(1, 4, rows))


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("kind", ["gamma", "gaussian"])
def test_spans_of_the_loss_hold_the_float_loss_at_random_points(name, kind):
    """Also over half-lines; and the cells' masses are those of the density, by
    quadrature to 1e-6.
    """
    rng = np.random.default_rng(2)
    for _ in range(12):
        loss = m.Loss(name, float(rng.uniform(0.3, 2)), float(rng.uniform(0.05, 0.29)))
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
    """Chaudhuri and Monteleoni 2008, Theorem 2: e1 against x = 0 at epsilon = n lambda = 0.1 loses
    1.228 on the line.
    """
    found = ends_of(m.LogisticObjectivePerturbation(0.1, 0.1, dimension=1))
    assert 1.2284 < found.lowers[0].value <= found.uppers[0].value < 1.2286
    assert found.uppers[0].value <= found.lowers[0].value * (1 + 1e-6)
    plane = ends_of(m.LogisticObjectivePerturbation(0.1, 0.1, dimension=2))
    # across the axis, b' - b vanishes far out while the determinants stay log(1 + 1 / (4 n lambda))
    # apart
    assert plane.lowers[0].value >= math.log1p(1 / 0.4) * (1 - 1e-6)
    assert plane.uppers[0].value <= plane.lowers[0].value * (1 + 1e-6)


def test_a_wrong_jacobian_turns_the_verdict(monkeypatch):
    """Without log F'' the repaired mechanism would seem to lose half of epsilon only."""
    mechanism = m.GLMObjectivePerturbation(
        loss=m.Loss("huber"), epsilon=1.0, dimension=1, repaired=True, regularization=2.0
    )
    assert ends_of(mechanism, "pure:0.8").lowers[0].value > 0.8
    monkeypatch.setattr(RiskLaw, "_jacobian", lambda *_: (0.0, 0.0))
    monkeypatch.setattr(RiskLaw, "_slope", lambda *_: arb("nan"))
    assert ends_of(mechanism, "pure:0.8").uppers[0].value <= 0.8
