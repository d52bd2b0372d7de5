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
from library_target import accountants

LIBRARY = "autodp"


_DELTA = {"delta": [1e-9, 0.1]}
_CALIBRATED = {"epsilon": [0.01, 10], "delta": [1e-10, 0.1]}
_SAMPLED = {"q": [1e-5, 0.9]}
# accountants from the characteristic function alone
_PHI = {"phi_off": False, "RDP_off": True}


def _probability(epsilon0):
    return np.exp(epsilon0) / (1 + np.exp(epsilon0))


def _composed(epsilon0, delta0, steps, delta):
    """Epsilon of a composition by Kairouz, Oh and Viswanath."""
    found = dp_acct.DP_acct()
    for _ in range(steps):
        found.update_DPlosses(epsilon0, delta0)
    return found.get_eps(delta)


def _subsampled(sigma, q, poisson):
    sample = transformer_zoo.AmplificationBySampling(PoissonSampling=poisson)
    mechanism = mechanism_zoo.GaussianMechanism(sigma)
    mechanism.neighboring = "add_remove" if poisson else "replace_one"
    return sample(mechanism, q, improved_bound_flag=True)


def _of_both_relations(sigma, q, steps, delta):
    """Epsilon of several Gaussian mechanisms with Poisson sampling, from their characteristic
    functions, for both neighboring relations.
    """
    return max(
        mechanism_zoo.SubsampleGaussianMechanism(
            {"prob": q, "sigma": sigma, "coeff": steps}, neighboring=relation, **_PHI
        ).get_approxDP(delta)
        for relation in ("add_only", "remove_only")
    )


TARGETS = accountants(
    globals(),
    gaussian_epsilon=(
        "gaussian",
        "epsilon",
        lambda sigma, delta: mechanism_zoo.ExactGaussianMechanism(sigma).get_approxDP(delta),
        {"delta": [1e-12, 0.4]},
    ),
    gaussian_rdp_epsilon=(
        "gaussian",
        "epsilon",
        lambda sigma, steps, delta: mechanism_zoo.ComposedGaussianMechanism(
            {"sigma": sigma, "coeff": steps}
        ).get_approxDP(delta),
        {"sigma": [0.2, 100], **_DELTA},
    ),
    gaussian_phi_epsilon=(
        "gaussian",
        "epsilon",
        lambda sigma, delta: mechanism_zoo.GaussianMechanism(
            sigma, approxDP_off=True, **_PHI
        ).get_approxDP(delta),
        {"sigma": [0.3, 30], **_DELTA},
    ),
    gaussian_sigma=(
        "gaussian",
        "noise",
        lambda epsilon, delta: privacy_calibrator.ana_gaussian_mech(epsilon, delta)["sigma"],
        _CALIBRATED,
    ),
    gaussian_rdp_sigma=(
        "gaussian",
        "noise",
        lambda epsilon, delta: privacy_calibrator.gaussian_mech(epsilon, delta)["sigma"],
        _CALIBRATED,
    ),
    gaussian_calibrated_sigma=(
        "gaussian",
        "noise",
        lambda epsilon, delta: calibrator_zoo.eps_delta_calibrator()(
            mechanism_zoo.ExactGaussianMechanism, epsilon, delta, [0, 100]
        ).params["sigma"],
        {"epsilon": [0.1, 10], "delta": [1e-8, 0.1]},
    ),
    laplace_rdp=(
        "laplace",
        "rdp",
        lambda scale, order: rdp_bank.RDP_laplace({"b": scale}, order),
        {},
    ),
    laplace_epsilon=(
        "laplace",
        "epsilon",
        lambda scale, delta: mechanism_zoo.LaplaceMechanism(scale).get_approxDP(delta),
        {"scale": [0.1, 100], **_DELTA},
    ),
    laplace_scale=(
        "laplace",
        "noise",
        lambda epsilon, delta: privacy_calibrator.laplace_mech(epsilon, delta)["b"],
        {"epsilon": [0.01, 10], "delta": [1e-9, 0.1]},
    ),
    laplace_phi_epsilon=(
        "laplace",
        "epsilon",
        lambda scale, delta: mechanism_zoo.LaplaceMechanism(scale, **_PHI).get_approxDP(delta),
        {"scale": [0.2, 20], **_DELTA},
    ),
    response_rdp=(
        "composition",
        "rdp",
        lambda epsilon0, order: rdp_bank.RDP_randresponse({"p": _probability(epsilon0)}, order),
        {},
    ),
    pure_rdp=(
        "composition",
        "rdp",
        lambda epsilon0, order: converter.puredp_to_rdp(epsilon0)(order),
        {},
    ),
    pure_epsilon=(
        "composition",
        "epsilon",
        lambda epsilon0, delta: mechanism_zoo.PureDP_Mechanism(epsilon0).get_approxDP(delta),
        _DELTA,
    ),
    response_epsilon=(
        "composition",
        "epsilon",
        lambda epsilon0, delta: dp_bank.get_eps_randresp_optimal(_probability(epsilon0), delta),
        _DELTA,
    ),
    kov_epsilon=(
        "composition",
        "epsilon",
        _composed,
        {"delta0": [1e-12, 1e-9], "steps": [1, 100], **_DELTA},
    ),
    renyi_epsilon=(
        "renyi",
        "epsilon",
        lambda order0, rdp, delta: converter.rdp_to_approxdp(
            lambda order: rdp if order <= order0 else np.inf
        )(delta),
        _DELTA,
    ),
    zcdp_epsilon=(
        "zcdp",
        "epsilon",
        lambda rho, delta: mechanism_zoo.zCDP_Mechanism(rho).get_approxDP(delta),
        {"rho": [1e-6, 50], **_DELTA},
    ),
    zcdp_delta=(
        "zcdp",
        "delta",
        lambda rho, epsilon: converter.rdp_to_delta(lambda order: rho * order)(epsilon),
        {"rho": [1e-4, 10]},
    ),
    discrete_gaussian_epsilon=(
        "discrete-gaussian",
        "epsilon",
        lambda sigma, delta: mechanism_zoo.DiscreteGaussianMechanism(sigma).get_approxDP(delta),
        {"sigma": [0.2, 50], **_DELTA},
    ),
    subsampled_gaussian_rdp=(
        "subsampled-gaussian",
        "rdp",
        lambda sigma, q, order: _subsampled(sigma, q, True).get_RDP(order),
        _SAMPLED,
    ),
    subsampled_gaussian_epsilon=(
        "subsampled-gaussian",
        "epsilon",
        lambda sigma, q, steps, delta: mechanism_zoo.NoisySGD_Mechanism(
            q, sigma, steps
        ).get_approxDP(delta),
        {"q": [1e-4, 0.9], **_DELTA},
    ),
    subsampled_gaussian_phi_epsilon=(
        "subsampled-gaussian",
        "epsilon",
        _of_both_relations,
        {"sigma": [0.5, 10], "q": [1e-3, 0.9], "steps": [1, 1000], **_DELTA},
    ),
    without_replacement_rdp=(
        "without-replacement-gaussian",
        "rdp",
        lambda sigma, q, order: _subsampled(sigma, q, False).get_RDP(order),
        _SAMPLED,
    ),
    subsampled_pure_rdp=(
        "subsampled-response",
        "rdp",
        lambda epsilon0, q, order: rdp_bank.RDP_subsampled_pureDP(
            {"eps": epsilon0, "prob": q}, order
        ),
        _SAMPLED,
    ),
    subsampled_pure_epsilon=(
        "subsampled-response",
        "epsilon",
        lambda epsilon0, q: privacy_calibrator.subsample_epsdelta(epsilon0, 0.0, q)[0],
        {"q": [1e-5, 1]},
    ),
)
