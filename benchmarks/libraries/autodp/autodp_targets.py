"""Accountants of autodp: closed forms, Rényi divergences, characteristic functions, composition,
amplification and calibration.
"""

import numpy as np
from autodp import (
    calibrator_zoo,
    converter,
    dp_acct,
    dp_bank,
    mechanism_zoo,
    privacy_calibrator,
    rdp_bank,
    transformer_zoo,
)
from library_target import accountant

LIBRARY = "autodp"
TESTED = ">=0.2.3,<0.3"
INSTALL = "pip install autodp==0.2.3.1"


_DELTAS = [1e-9, 0.1]

TARGETS = {
    "gaussian_epsilon": accountant("gaussian", "epsilon", "sigma delta", delta=[1e-12, 0.4]),
    "gaussian_rdp_epsilon": accountant(
        "gaussian", "epsilon", "sigma steps delta", sigma=[0.2, 100], delta=_DELTAS
    ),
    "gaussian_phi_epsilon": accountant(
        "gaussian", "epsilon", "sigma delta", sigma=[0.3, 30], delta=_DELTAS
    ),
    "gaussian_sigma": accountant(
        "gaussian", "noise", "epsilon delta", epsilon=[0.01, 10], delta=[1e-10, 0.1]
    ),
    "gaussian_rdp_sigma": accountant(
        "gaussian", "noise", "epsilon delta", epsilon=[0.01, 10], delta=[1e-10, 0.1]
    ),
    "gaussian_calibrated_sigma": accountant(
        "gaussian", "noise", "epsilon delta", epsilon=[0.1, 10], delta=[1e-8, 0.1]
    ),
    "laplace_rdp": accountant("laplace", "rdp", "scale order"),
    "laplace_epsilon": accountant(
        "laplace", "epsilon", "scale delta", scale=[0.1, 100], delta=_DELTAS
    ),
    "laplace_scale": accountant(
        "laplace", "noise", "epsilon delta", epsilon=[0.01, 10], delta=[1e-9, 0.1]
    ),
    "laplace_phi_epsilon": accountant(
        "laplace", "epsilon", "scale delta", scale=[0.2, 20], delta=_DELTAS
    ),
    "response_rdp": accountant("composition", "rdp", "epsilon0 order"),
    "pure_rdp": accountant("composition", "rdp", "epsilon0 order"),
    "pure_epsilon": accountant("composition", "epsilon", "epsilon0 delta", delta=_DELTAS),
    "response_epsilon": accountant("composition", "epsilon", "epsilon0 delta", delta=_DELTAS),
    "kov_epsilon": accountant(
        "composition",
        "epsilon",
        "epsilon0 delta0 steps delta",
        delta0=[1e-12, 1e-9],
        steps=[1, 100],
        delta=_DELTAS,
    ),
    "renyi_epsilon": accountant("renyi", "epsilon", "order0 rdp delta", delta=_DELTAS),
    "zcdp_epsilon": accountant("zcdp", "epsilon", "rho delta", rho=[1e-6, 50], delta=_DELTAS),
    "zcdp_delta": accountant("zcdp", "delta", "rho epsilon", rho=[1e-4, 10]),
    "discrete_gaussian_epsilon": accountant(
        "discrete-gaussian", "epsilon", "sigma delta", sigma=[0.2, 50], delta=_DELTAS
    ),
    "subsampled_gaussian_rdp": accountant(
        "subsampled-gaussian", "rdp", "sigma q order", q=[1e-5, 0.9]
    ),
    "subsampled_gaussian_epsilon": accountant(
        "subsampled-gaussian", "epsilon", "sigma q steps delta", q=[1e-4, 0.9], delta=_DELTAS
    ),
    "subsampled_gaussian_phi_epsilon": accountant(
        "subsampled-gaussian",
        "epsilon",
        "sigma q steps delta",
        sigma=[0.5, 10],
        q=[1e-3, 0.9],
        steps=[1, 1000],
        delta=_DELTAS,
    ),
    "without_replacement_rdp": accountant(
        "without-replacement-gaussian", "rdp", "sigma q order", q=[1e-5, 0.9]
    ),
    "subsampled_pure_rdp": accountant(
        "subsampled-response", "rdp", "epsilon0 q order", q=[1e-5, 0.9]
    ),
    "subsampled_pure_epsilon": accountant(
        "subsampled-response", "epsilon", "epsilon0 q", q=[1e-5, 1]
    ),
}


def gaussian_epsilon(sigma, delta):
    """Epsilon of the Gaussian mechanism, from its privacy profile."""
    return mechanism_zoo.ExactGaussianMechanism(sigma).get_approxDP(delta)


def gaussian_rdp_epsilon(sigma, steps, delta):
    """Epsilon of several Gaussian mechanisms, from their Rényi divergences."""
    return mechanism_zoo.ComposedGaussianMechanism({"sigma": sigma, "coeff": steps}).get_approxDP(
        delta
    )


def gaussian_phi_epsilon(sigma, delta):
    """Epsilon of the Gaussian mechanism, from its characteristic function."""
    return mechanism_zoo.GaussianMechanism(
        sigma, phi_off=False, RDP_off=True, approxDP_off=True
    ).get_approxDP(delta)


def gaussian_sigma(epsilon, delta):
    """Noise of the analytic Gaussian mechanism."""
    return privacy_calibrator.ana_gaussian_mech(epsilon, delta)["sigma"]


def gaussian_rdp_sigma(epsilon, delta):
    """Noise of the Gaussian mechanism, from its Rényi divergences."""
    return privacy_calibrator.gaussian_mech(epsilon, delta)["sigma"]


def gaussian_calibrated_sigma(epsilon, delta):
    """Noise of the Gaussian mechanism, by the generic calibrator."""
    calibrate = calibrator_zoo.eps_delta_calibrator()
    return calibrate(mechanism_zoo.ExactGaussianMechanism, epsilon, delta, [0, 100]).params["sigma"]


def laplace_rdp(scale, order):
    """Rényi divergence of the Laplace mechanism."""
    return rdp_bank.RDP_laplace({"b": scale}, order)


def laplace_epsilon(scale, delta):
    """Epsilon of the Laplace mechanism."""
    return mechanism_zoo.LaplaceMechanism(scale).get_approxDP(delta)


def laplace_scale(epsilon, delta):
    """Noise of the Laplace mechanism."""
    return privacy_calibrator.laplace_mech(epsilon, delta)["b"]


def laplace_phi_epsilon(scale, delta):
    """Epsilon of the Laplace mechanism, from its characteristic function."""
    return mechanism_zoo.LaplaceMechanism(scale, phi_off=False, RDP_off=True).get_approxDP(delta)


def _probability(epsilon0):
    return np.exp(epsilon0) / (1 + np.exp(epsilon0))


def response_rdp(epsilon0, order):
    """Rényi divergence of randomized response."""
    return rdp_bank.RDP_randresponse({"p": _probability(epsilon0)}, order)


def pure_rdp(epsilon0, order):
    """Rényi divergence of a pure mechanism."""
    return converter.puredp_to_rdp(epsilon0)(order)


def pure_epsilon(epsilon0, delta):
    """Epsilon of a pure mechanism at delta."""
    return mechanism_zoo.PureDP_Mechanism(epsilon0).get_approxDP(delta)


def response_epsilon(epsilon0, delta):
    """Epsilon of randomized response at delta."""
    return dp_bank.get_eps_randresp_optimal(_probability(epsilon0), delta)


def kov_epsilon(epsilon0, delta0, steps, delta):
    """Epsilon of a composition by Kairouz, Oh and Viswanath."""
    found = dp_acct.DP_acct()
    for _ in range(steps):
        found.update_DPlosses(epsilon0, delta0)
    return found.get_eps(delta)


def renyi_epsilon(order0, rdp, delta):
    """Epsilon from one Rényi divergence."""
    return converter.rdp_to_approxdp(lambda order: rdp if order <= order0 else np.inf)(delta)


def zcdp_epsilon(rho, delta):
    """Epsilon from zero-concentrated privacy."""
    return mechanism_zoo.zCDP_Mechanism(rho).get_approxDP(delta)


def zcdp_delta(rho, epsilon):
    """Delta from zero-concentrated privacy."""
    return converter.rdp_to_delta(lambda order: rho * order)(epsilon)


def discrete_gaussian_epsilon(sigma, delta):
    """Epsilon of the discrete Gaussian mechanism."""
    return mechanism_zoo.DiscreteGaussianMechanism(sigma).get_approxDP(delta)


def _subsampled(sigma, q, poisson):
    sample = transformer_zoo.AmplificationBySampling(PoissonSampling=poisson)
    mechanism = mechanism_zoo.GaussianMechanism(sigma)
    mechanism.neighboring = "add_remove" if poisson else "replace_one"
    return sample(mechanism, q, improved_bound_flag=True)


def subsampled_gaussian_rdp(sigma, q, order):
    """Rényi divergence of the Gaussian mechanism with Poisson sampling."""
    return _subsampled(sigma, q, True).get_RDP(order)


def subsampled_gaussian_epsilon(sigma, q, steps, delta):
    """Epsilon of several Gaussian mechanisms with Poisson sampling."""
    return mechanism_zoo.NoisySGD_Mechanism(q, sigma, steps).get_approxDP(delta)


def subsampled_gaussian_phi_epsilon(sigma, q, steps, delta):
    """Epsilon of several Gaussian mechanisms with Poisson sampling, from their characteristic
    functions, for both neighboring relations.
    """
    parameters = {"prob": q, "sigma": sigma, "coeff": steps}
    every = [
        mechanism_zoo.SubsampleGaussianMechanism(
            dict(parameters), phi_off=False, RDP_off=True, neighboring=relation
        )
        for relation in ("add_only", "remove_only")
    ]
    return max(mechanism.get_approxDP(delta) for mechanism in every)


def without_replacement_rdp(sigma, q, order):
    """Rényi divergence of the Gaussian mechanism with sampling without replacement."""
    return _subsampled(sigma, q, False).get_RDP(order)


def subsampled_pure_rdp(epsilon0, q, order):
    """Rényi divergence of a sampled pure mechanism."""
    return rdp_bank.RDP_subsampled_pureDP({"eps": epsilon0, "prob": q}, order)


def subsampled_pure_epsilon(epsilon0, q):
    """Epsilon of a sampled pure mechanism."""
    return privacy_calibrator.subsample_epsdelta(epsilon0, 0.0, q)[0]
