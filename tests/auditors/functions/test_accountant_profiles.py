"""Exact figures of accountants against closed forms, dp-accounting, and direct sums; and lower
bounds against upper ones.
"""

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpwitness.auditors.functions.accountant_figures import MECHANISMS, exact_figure


def exact(returns, mechanism, **at):
    return exact_figure(returns, MECHANISMS[mechanism], at)


GAUSSIAN = {"sigma": 2.0, "sensitivity": 1.0, "steps": 4}
LAPLACE = {"scale": 1.0, "sensitivity": 1.0, "steps": 1}
KNOWN = [  # figure, mechanism, parameters, value, relative accuracy
    (
        "delta",
        "gaussian",
        {**GAUSSIAN, "epsilon": 1.0},
        norm.cdf(-0.5) - math.e * norm.cdf(-1.5),
        1e-12,
    ),
    ("rdp", "gaussian", {**GAUSSIAN, "order": 2.5}, 1.25, 1e-14),
    ("zcdp", "gaussian", GAUSSIAN, 0.5, 1e-12),
    ("mu", "gaussian", GAUSSIAN, 1.0, 1e-9),
    (
        "noise",
        "gaussian",
        {"sensitivity": 1.0, "steps": 1, "epsilon": 1.0, "delta": 1e-5},
        3.730631634,
        1e-9,
    ),
    ("epsilon", "laplace", {**LAPLACE, "delta": 0.0}, 1.0, 1e-12),
    ("delta", "laplace", {**LAPLACE, "epsilon": 0.5}, 1 - math.exp(-0.25), 1e-12),
    # the limit of order 1
    ("zcdp", "composition", {"epsilon0": 1.0, "delta0": 0.0, "steps": 1}, math.tanh(0.5), 1e-6),
    (
        "epsilon",
        "subsampled-response",
        {"epsilon0": 1.0, "q": 0.1, "delta": 0.0},
        math.log1p(0.1 * math.expm1(1)),
        1e-11,
    ),
]


@pytest.mark.parametrize(("returns", "mechanism", "at", "expected", "accuracy"), KNOWN)
def test_figures_with_closed_forms(returns, mechanism, at, expected, accuracy):
    assert exact(returns, mechanism, **at) == pytest.approx(expected, rel=accuracy)


def test_composition_is_that_of_kairouz_oh_and_viswanath():
    """Theorem 3.3 for k = 2, epsilon = 1: the composed loss is 2 with probability (e / (1 + e))^2."""
    at = {"epsilon0": 1.0, "delta0": 0.01, "steps": 2}
    for epsilon in (1e-300, 0.5):
        loss_above = (math.e / (1 + math.e)) ** 2 * -math.expm1(epsilon - 2)
        expected = 1 - 0.99**2 * (1 - loss_above)
        found = exact("delta", "composition", **at, epsilon=epsilon)
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("q", "sigma", "order"), [(0.01, 1.0, 2.5), (0.3, 0.5, 17.3), (0.9, 5.0, 1.1)]
)
def test_renyi_divergence_of_subsampled_gaussian_is_the_integral(q, sigma, order):
    """Fractional orders by rigorous quadrature, against SciPy's quadrature of the same
    integrand.
    """

    def integrand(x):
        return math.exp(
            order * math.log1p(q * math.expm1((2 * x - 1) / (2 * sigma**2)))
            + norm.logpdf(x, scale=sigma)
        )

    direct = math.log(
        quad(integrand, -12 * sigma, order + 12 * sigma, limit=500, epsabs=0, epsrel=1e-11)[0]
    ) / (order - 1)
    assert exact(
        "rdp", "subsampled-gaussian", q=q, sigma=sigma, steps=3, order=order
    ) == pytest.approx(3 * direct, rel=1e-7)
