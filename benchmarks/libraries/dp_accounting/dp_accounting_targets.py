"""Accountants of Google's dp-accounting: Rényi divergences, privacy-loss distributions, and closed
forms.
"""

import math

import dp_accounting
from dp_accounting import pld, rdp
from dp_accounting.pld import accountant, common, privacy_loss_distribution, privacy_loss_mechanism
from dp_accounting.rdp import rdp_privacy_accountant
from library_target import accountants

LIBRARY = "dp-accounting"

_DELTA = {"delta": [1e-12, 0.1]}
_GRID = {"value_discretization_interval": 1e-3}


def _sampled(sigma, q, steps):
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    return dp_accounting.SelfComposedDpEvent(event, steps)


def _sample_of_sums(sigma, q):
    """A sample's sum of 100 Gaussian events with a whole noise multiplier, at most ten times sigma:
    together at most sigma.
    """
    noise = max(1, math.floor(10 * sigma))
    composed = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise), 100)
    return dp_accounting.PoissonSampledDpEvent(q, composed)


def _divergence(event, order):
    """Rényi divergence of one order."""
    return rdp.RdpAccountant([order]).compose(event)._rdp[0]


TARGETS = accountants(
    globals(),
    subsampled_rdp=(
        "subsampled-gaussian",
        "rdp",
        lambda sigma, q, order: _divergence(_sampled(sigma, q, 1), order),
        {},
    ),
    subsampled_rdp_epsilon=(
        "subsampled-gaussian",
        "epsilon",
        lambda sigma, q, steps, delta: (
            rdp.RdpAccountant().compose(_sampled(sigma, q, steps)).get_epsilon(delta)
        ),
        _DELTA,
    ),
    subsampled_pld_epsilon=(
        "subsampled-gaussian",
        "epsilon",
        lambda sigma, q, steps, delta: (
            pld.PLDAccountant(**_GRID).compose(_sampled(sigma, q, steps)).get_epsilon(delta)
        ),
        {"sigma": [0.5, 50], "delta": [1e-9, 0.1], "steps": [1, 1000]},
    ),
    # a fraction of the records is sampled without replacement
    without_replacement_rdp=(
        "without-replacement-gaussian",
        "rdp",
        lambda sigma, q, order: rdp_privacy_accountant._compute_rdp_sample_wor_gaussian(
            q, sigma, [order]
        )[0],
        {"q": [0.0001, 0.9]},
    ),
    gaussian_delta=(
        "gaussian",
        "delta",
        lambda sigma, sensitivity, epsilon: privacy_loss_mechanism.GaussianPrivacyLoss(
            sigma, sensitivity
        ).get_delta_for_epsilon(epsilon),
        {},
    ),
    gaussian_sigma=(
        "gaussian",
        "noise",
        lambda epsilon, delta, sensitivity: accountant.get_smallest_gaussian_noise(
            common.DifferentialPrivacyParameters(epsilon, delta), 1, sensitivity
        ),
        {"delta": [1e-12, 0.4]},
    ),
    laplace_pld_delta=(
        "laplace",
        "delta",
        lambda scale, steps, epsilon: (
            privacy_loss_distribution.from_laplace_mechanism(scale, **_GRID)
            .self_compose(steps)
            .get_delta_for_epsilon(epsilon)
        ),
        {"scale": [0.1, 100], "steps": [1, 100], "epsilon": [0.01, 10]},
    ),
    laplace_rdp=(
        "laplace",
        "rdp",
        lambda scale, order: _divergence(dp_accounting.LaplaceDpEvent(scale), order),
        {},
    ),
    renyi_epsilon=(
        "renyi",
        "epsilon",
        lambda order0, rdp, delta: rdp_privacy_accountant.compute_epsilon([order0], [rdp], delta)[
            0
        ],
        _DELTA,
    ),
    # the optimal composition theorem
    advanced_composition_epsilon=(
        "composition",
        "epsilon",
        lambda epsilon0, delta0, steps, delta: accountant.advanced_composition(
            common.DifferentialPrivacyParameters(epsilon0, delta0), steps, delta
        ),
        {"steps": [1, 100], "delta": [1e-6, 0.3], "delta0": [1e-12, 1e-8]},
    ),
    # binary randomized responses, composed by their number
    repeated_response_pld_epsilon=(
        "composition",
        "epsilon",
        lambda epsilon0, steps, delta: (
            pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
            .compose(
                dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon0)), 2), steps
            )
            .get_epsilon(delta)
        ),
        {"epsilon0": [0.1, 3], "steps": [1, 100], "delta": [1e-9, 0.1]},
    ),
    sampled_sum_rdp_epsilon=(
        "subsampled-gaussian",
        "epsilon",
        lambda sigma, q, delta: (
            rdp.RdpAccountant().compose(_sample_of_sums(sigma, q)).get_epsilon(delta)
        ),
        {"sigma": [0.1, 5], "q": [0.001, 0.5], "delta": [1e-9, 0.1]},
    ),
    discrete_gaussian_pld_delta=(
        "discrete-gaussian",
        "delta",
        lambda sigma, epsilon: privacy_loss_distribution.from_discrete_gaussian_mechanism(
            sigma, **_GRID
        ).get_delta_for_epsilon(epsilon),
        {"sigma": [0.3, 30], "epsilon": [0.01, 10]},
    ),
)
