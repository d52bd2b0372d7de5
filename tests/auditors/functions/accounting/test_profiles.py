"""Exact figures of accountants against closed forms, dp-accounting, and direct sums; and lower
bounds against upper ones.
"""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from flint import arb, ctx
from scipy.integrate import quad
from scipy.stats import norm

from dpwitness.auditors.functions.accounting.mechanisms import MECHANISMS, exact_figure, is_below
from dpwitness.auditors.functions.accounting.profiles import (
    DiscreteGaussian,
    Subsampled,
    with_replacement,
)
from dpwitness.core.balls.profiles import GaussianProfile


def exact(returns, mechanism, **at):
    return exact_figure(returns, MECHANISMS[mechanism], at)


def test_gaussian_figures():
    at = {"sigma": 2.0, "sensitivity": 1.0, "steps": 4}
    assert exact("delta", "gaussian", **at, epsilon=1.0) == pytest.approx(
        norm.cdf(-0.5) - math.e * norm.cdf(-1.5), rel=1e-12
    )
    assert exact("rdp", "gaussian", **at, order=2.5) == pytest.approx(1.25, rel=1e-14)
    assert exact("zcdp", "gaussian", **at) == pytest.approx(0.5, rel=1e-12)
    assert exact("mu", "gaussian", **at) == pytest.approx(1.0, rel=1e-9)
    assert exact(
        "noise", "gaussian", sensitivity=1.0, steps=1, epsilon=1.0, delta=1e-5
    ) == pytest.approx(3.730631634, rel=1e-9)


def test_laplace_and_response_figures():
    laplace = {"scale": 1.0, "sensitivity": 1.0, "steps": 1}
    assert exact("epsilon", "laplace", **laplace, delta=0.0) == pytest.approx(1.0, rel=1e-12)
    assert exact("delta", "laplace", **laplace, epsilon=0.5) == pytest.approx(
        1 - math.exp(-0.25), rel=1e-12
    )
    response = {"epsilon0": 1.0, "delta0": 0.0, "steps": 1}
    # the limit of order 1
    assert exact("zcdp", "composition", **response) == pytest.approx(math.tanh(0.5), rel=1e-6)
    assert exact("epsilon", "subsampled-response", epsilon0=1.0, q=0.1, delta=0.0) == pytest.approx(
        math.log1p(0.1 * math.expm1(1)), rel=1e-11
    )


def test_composition_is_that_of_kairouz_oh_and_viswanath():
    """Theorem 3.3 for k = 2, epsilon = 1: the total epsilon of zero remains with a delta that the
    theorem states.
    """
    at = {"epsilon0": 1.0, "delta0": 0.01, "steps": 2}
    expected = 1 - 0.99**2 * (1 - (math.exp(2) - 1) / (1 + math.e) ** 2)
    assert exact("delta", "composition", **at, epsilon=1e-300) == pytest.approx(expected, rel=1e-12)
    mixed = exact(
        "delta", "heterogeneous-composition", epsilons=(1.0, 1.0), deltas=(0.01, 0.01), epsilon=0.5
    )
    assert mixed == pytest.approx(exact("delta", "composition", **at, epsilon=0.5), rel=1e-14)


def test_discrete_gaussian_profile_is_the_direct_sum():
    """The sum over outputs that an accountant of the discrete Gaussian takes, in floating point."""
    p = [math.exp(-((x - 1) ** 2) / 2) for x in range(-40, 41)]
    q = [math.exp(-(x**2) / 2) for x in range(-40, 41)]
    direct = sum(max(a - math.exp(0.7) * b, 0) for a, b in zip(p, q, strict=True)) / sum(q)
    with ctx.workprec(200):
        assert float(DiscreteGaussian(1.0).delta(arb("0.7"))) == pytest.approx(direct, rel=1e-12)


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


def test_integer_and_fractional_orders_agree():
    at = {"q": 0.02, "sigma": 0.8, "steps": 1}
    low, middle, high = (
        exact("rdp", "subsampled-gaussian", **at, order=order)
        for order in (8 - 1e-7, 8.0, 8 + 1e-7)
    )
    assert low < middle < high
    assert high == pytest.approx(low, rel=1e-6)


def test_fractional_orders_lie_between_the_integer_orders_next_to_them():
    """The divergence increases with the order, and its product with order - 1 is convex: both bound
    the quadrature by binomial sums.
    """
    rng = np.random.default_rng(1)
    for _ in range(60):
        q, sigma, order = np.exp(
            rng.uniform(np.log([1e-4, 0.2, 2.01]), np.log([0.9, 30, 60]))
        ).tolist()
        at = {"q": q, "sigma": sigma, "steps": 1}
        below, found, above = (
            exact("rdp", "subsampled-gaussian", **at, order=o)
            for o in (math.floor(order), order, math.ceil(order))
        )
        low, share = math.floor(order), order - math.floor(order)
        assert below <= found
        assert (order - 1) * found <= ((1 - share) * (low - 1) * below + share * low * above) * (
            1 + 1e-12
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "sigma", "steps", "epsilon"),
    [(0.01, 1.0, 300, 1.0), (0.5, 0.5, 20, 50.0), (0.001, 0.7, 2000, 0.5), (0.9, 1.0, 3, 5.0)],
)
def test_composed_profile_is_below_an_upper_bound_and_close(q, sigma, steps, epsilon):
    upper = pld.from_gaussian_mechanism(
        sigma, sampling_prob=q, value_discretization_interval=1e-4
    ).self_compose(steps)
    lower = exact("delta", "subsampled-gaussian", q=q, sigma=sigma, steps=steps, epsilon=epsilon)
    assert (
        0.97 * upper.get_delta_for_epsilon(epsilon) < lower < upper.get_delta_for_epsilon(epsilon)
    )


def test_composed_profile_is_below_the_exact_one():
    """Composition of a mixture with q near 1 must stay below, and near, that of the normal law,
    whose profile is a closed form.
    """
    at = {"sigma": 3.0, "steps": 25, "epsilon": 1.0}
    found = exact("delta", "subsampled-gaussian", q=1 - 1e-12, **at)
    normal = exact("delta", "gaussian", sensitivity=1.0, **at)
    assert 0.999 * normal < found < normal
    repeated = exact("delta", "laplace", scale=10.0, sensitivity=1.0, steps=50, epsilon=1.0)
    assert 0.999 * 0.0367026 < repeated < 0.0367036  # dp-accounting's upper bound at a grid of 1e-4


def test_with_replacement_is_between_poisson_rates():
    """At one draw, sampling with replacement is Poisson sampling with rate 1/records; more draws
    leak more.
    """
    one = exact(
        "delta", "with-replacement-gaussian", draws=1, records=100, sigma=1.0, steps=1, epsilon=0.5
    )
    poisson = exact("delta", "subsampled-gaussian", q=0.01, sigma=1.0, steps=1, epsilon=0.5)
    assert one == pytest.approx(poisson, rel=1e-9)
    many = exact(
        "delta",
        "with-replacement-gaussian",
        draws=10,
        records=1000,
        sigma=1.0,
        steps=1,
        epsilon=0.5,
    )
    assert many > 1.1 * poisson
    weights = with_replacement(10, 1000, 1.0).weights
    assert float(sum(weights)) == pytest.approx(1.0, rel=1e-14)
    with ctx.workprec(200):
        assert Subsampled(with_replacement(10, 1000, 1.0)).delta(arb(1)).rad() < 1e-20


def test_epsilon_of_a_bound_on_one_renyi_divergence():
    """No conversion can be below the worst pair; the conversion of Canonne, Kamath and Steinke is
    above it, and close at high orders.
    """
    rdp, order, delta = 0.1, 20.0, 1e-6
    converted = rdp + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
    found = exact("epsilon", "renyi", order0=order, rdp=rdp, delta=delta)
    assert 0.9 * converted < found < converted


def test_a_decision_is_strict():
    at = {"sigma": 1.0, "sensitivity": 1.0, "steps": 1, "order": 3.0}
    assert is_below("rdp", 1.5 * (1 - 1e-12), MECHANISMS["gaussian"], at)
    assert not is_below("rdp", 1.5, MECHANISMS["gaussian"], at)


def test_a_shift_that_may_be_zero_has_no_proved_profile():
    """The ratio epsilon / mu is then not a number, and nothing may be concluded from it."""
    wide = arb(0, 1e-3)
    assert GaussianProfile(wide).delta(arb(1)).is_nan()
    assert GaussianProfile(arb(0)).delta(arb(1)) == 0
