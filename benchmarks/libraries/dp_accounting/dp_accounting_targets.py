"""Accountants of Google's dp-accounting: Rényi divergences, privacy-loss distributions, and closed
forms.
"""

import math

import dp_accounting
from dp_accounting import pld, rdp
from dp_accounting.pld import accountant, common, privacy_loss_distribution, privacy_loss_mechanism
from dp_accounting.rdp import rdp_privacy_accountant

LIBRARY = "dp-accounting"
TESTED = ">=0.4.4,<0.7"
INSTALL = "pip install dp-accounting==0.6.0"

_SUBSAMPLED = {"sigma": "sigma", "q": "q", "steps": "steps"}

TARGETS = {
    "subsampled_rdp": {
        "kind": "accountant",
        "mechanism": "subsampled-gaussian",
        "parameters": {"sigma": "sigma", "q": "q", "order": "order"},
        "returns": "rdp",
    },
    "subsampled_rdp_epsilon": {
        "kind": "accountant",
        "mechanism": "subsampled-gaussian",
        "parameters": _SUBSAMPLED | {"delta": "delta"},
        "returns": "epsilon",
        "ranges": {"delta": [1e-12, 0.1]},
    },
    "subsampled_pld_epsilon": {
        "kind": "accountant",
        "mechanism": "subsampled-gaussian",
        "parameters": _SUBSAMPLED | {"delta": "delta"},
        "returns": "epsilon",
        "ranges": {"sigma": [0.5, 50], "delta": [1e-9, 0.1], "steps": [1, 1000]},
    },
    "without_replacement_rdp": {
        "kind": "accountant",
        "mechanism": "without-replacement-gaussian",
        "parameters": {"sigma": "sigma", "q": "q", "order": "order"},
        "returns": "rdp",
        "ranges": {"q": [0.0001, 0.9]},
    },
    "gaussian_delta": {
        "kind": "accountant",
        "mechanism": "gaussian",
        "parameters": {"sigma": "sigma", "sensitivity": "sensitivity", "epsilon": "epsilon"},
        "returns": "delta",
    },
    "gaussian_sigma": {
        "kind": "accountant",
        "mechanism": "gaussian",
        "parameters": {"epsilon": "epsilon", "delta": "delta", "sensitivity": "sensitivity"},
        "returns": "noise",
        "ranges": {"delta": [1e-12, 0.4]},
    },
    "laplace_pld_delta": {
        "kind": "accountant",
        "mechanism": "laplace",
        "parameters": {"scale": "scale", "steps": "steps", "epsilon": "epsilon"},
        "returns": "delta",
        "ranges": {"scale": [0.1, 100], "steps": [1, 100], "epsilon": [0.01, 10]},
    },
    "laplace_rdp": {
        "kind": "accountant",
        "mechanism": "laplace",
        "parameters": {"scale": "scale", "order": "order"},
        "returns": "rdp",
    },
    "renyi_epsilon": {
        "kind": "accountant",
        "mechanism": "renyi",
        "parameters": {"order0": "order0", "rdp": "rdp", "delta": "delta"},
        "returns": "epsilon",
        "ranges": {"delta": [1e-12, 0.1]},
    },
    "advanced_composition_epsilon": {
        "kind": "accountant",
        "mechanism": "composition",
        "parameters": {
            "epsilon0": "epsilon0",
            "delta0": "delta0",
            "steps": "steps",
            "delta": "delta",
        },
        "returns": "epsilon",
        "ranges": {"steps": [1, 100], "delta": [1e-6, 0.3], "delta0": [1e-12, 1e-8]},
    },
    "repeated_response_pld_epsilon": {
        "kind": "accountant",
        "mechanism": "composition",
        "parameters": {"epsilon0": "epsilon0", "steps": "steps", "delta": "delta"},
        "returns": "epsilon",
        "ranges": {"epsilon0": [0.1, 3], "steps": [1, 100], "delta": [1e-9, 0.1]},
    },
    "sampled_sum_rdp_epsilon": {
        "kind": "accountant",
        "mechanism": "subsampled-gaussian",
        "parameters": {"sigma": "sigma", "q": "q", "delta": "delta"},
        "returns": "epsilon",
        "ranges": {"sigma": [0.1, 5], "q": [0.001, 0.5], "delta": [1e-9, 0.1]},
    },
    "discrete_gaussian_pld_delta": {
        "kind": "accountant",
        "mechanism": "discrete-gaussian",
        "parameters": {"sigma": "sigma", "epsilon": "epsilon"},
        "returns": "delta",
        "ranges": {"sigma": [0.3, 30], "epsilon": [0.01, 10]},
    },
}


def _sampled(sigma, q, steps):
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    return dp_accounting.SelfComposedDpEvent(event, steps)


def subsampled_rdp(sigma, q, order):
    """Rényi divergence of one order, of Poisson sampling."""
    found = rdp.RdpAccountant([order])
    found.compose(_sampled(sigma, q, 1))
    return found._rdp[0]


def subsampled_rdp_epsilon(sigma, q, steps, delta):
    """Epsilon by Rényi divergences of the default orders."""
    return rdp.RdpAccountant().compose(_sampled(sigma, q, steps)).get_epsilon(delta)


def subsampled_pld_epsilon(sigma, q, steps, delta):
    """Epsilon by privacy-loss distributions."""
    found = pld.PLDAccountant(value_discretization_interval=1e-3)
    return found.compose(_sampled(sigma, q, steps)).get_epsilon(delta)


def without_replacement_rdp(sigma, q, order):
    """Rényi divergence of one order for sampling a fraction of the records without replacement."""
    return rdp_privacy_accountant._compute_rdp_sample_wor_gaussian(q, sigma, [order])[0]


def gaussian_delta(sigma, sensitivity, epsilon):
    """Delta of the Gaussian mechanism."""
    return privacy_loss_mechanism.GaussianPrivacyLoss(sigma, sensitivity).get_delta_for_epsilon(
        epsilon
    )


def gaussian_sigma(epsilon, delta, sensitivity):
    """Smallest noise of the Gaussian mechanism."""
    return accountant.get_smallest_gaussian_noise(
        common.DifferentialPrivacyParameters(epsilon, delta), 1, sensitivity
    )


def laplace_pld_delta(scale, steps, epsilon):
    """Delta of several Laplace mechanisms by privacy-loss distributions."""
    single = privacy_loss_distribution.from_laplace_mechanism(
        scale, value_discretization_interval=1e-3
    )
    return single.self_compose(steps).get_delta_for_epsilon(epsilon)


def laplace_rdp(scale, order):
    """Rényi divergence of the Laplace mechanism."""
    found = rdp.RdpAccountant([order])
    found.compose(dp_accounting.LaplaceDpEvent(scale))
    return found._rdp[0]


def renyi_epsilon(order0, rdp, delta):
    """Epsilon from one Rényi divergence."""
    return rdp_privacy_accountant.compute_epsilon([order0], [rdp], delta)[0]


def repeated_response_pld_epsilon(epsilon0, steps, delta):
    """Epsilon of several binary randomized responses, composed by their number."""
    found = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    found.compose(dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon0)), 2), steps)
    return found.get_epsilon(delta)


def sampled_sum_rdp_epsilon(sigma, q, delta):
    """Epsilon of a sample's sum of 100 Gaussian events with a whole noise multiplier, at most ten
    times sigma: together at most sigma.
    """
    noise = max(1, math.floor(10 * sigma))
    composed = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise), 100)
    return (
        rdp.RdpAccountant()
        .compose(dp_accounting.PoissonSampledDpEvent(q, composed))
        .get_epsilon(delta)
    )


def discrete_gaussian_pld_delta(sigma, epsilon):
    """Delta of the discrete Gaussian mechanism by privacy-loss distributions."""
    return privacy_loss_distribution.from_discrete_gaussian_mechanism(
        sigma, value_discretization_interval=1e-3
    ).get_delta_for_epsilon(epsilon)


def advanced_composition_epsilon(epsilon0, delta0, steps, delta):
    """Epsilon of several equal mechanisms by the optimal composition theorem."""
    return accountant.advanced_composition(
        common.DifferentialPrivacyParameters(epsilon0, delta0), steps, delta
    )
