"""Accountants of pipeline-dp: closed forms of the Gaussian mechanism, and the noise that its budget
accountants choose.
"""

import math

from pipeline_dp import budget_accounting, dp_computations
from pipeline_dp.aggregate_params import MechanismType

LIBRARY = "pipeline-dp"
TESTED = ">=0.3.0,<0.4"
INSTALL = "pip install pipeline-dp==0.3.1"


def _accountant(mechanism, returns, parameters, **ranges):
    names = {name: name for name in parameters.split()}
    return {
        "kind": "accountant",
        "mechanism": mechanism,
        "returns": returns,
        "parameters": names,
        "ranges": ranges,
    }


_EPSILONS, _DELTAS = [0.1, 10], [1e-10, 0.1]

TARGETS = {
    "gaussian_delta": _accountant("gaussian", "delta", "sigma epsilon"),
    "gaussian_epsilon": _accountant(
        "gaussian", "epsilon", "sigma delta", sigma=[0.1, 100], delta=[1e-12, 0.4]
    ),
    "gaussian_sigma": _accountant(
        "gaussian", "noise", "epsilon delta sensitivity", epsilon=_EPSILONS, delta=_DELTAS
    ),
    "naive_laplace_scale": _accountant(
        "laplace", "noise", "epsilon steps", epsilon=_EPSILONS, steps=[1, 10]
    ),
    "pld_laplace_scale": _accountant(
        "laplace", "noise", "epsilon steps", epsilon=_EPSILONS, steps=[1, 10]
    ),
    "pld_gaussian_sigma": _accountant(
        "gaussian",
        "noise",
        "epsilon delta steps",
        epsilon=[0.5, 5],
        delta=[1e-8, 0.01],
        steps=[1, 10],
    ),
}


def gaussian_delta(sigma, epsilon):
    """Delta of the Gaussian mechanism."""
    return dp_computations.gaussian_delta(sigma, epsilon)


def gaussian_epsilon(sigma, delta):
    """Epsilon of the Gaussian mechanism."""
    return dp_computations.gaussian_epsilon(sigma, delta)


def gaussian_sigma(epsilon, delta, sensitivity):
    """Noise of the Gaussian mechanism."""
    return dp_computations.compute_sigma(epsilon, delta, sensitivity)


def naive_laplace_scale(epsilon, steps):
    """Scale of the noise of several Laplace mechanisms with equal weights, by basic composition."""
    accountant = budget_accounting.NaiveBudgetAccountant(epsilon, 0.0)
    requested = accountant.request_budget(MechanismType.LAPLACE, count=steps)
    accountant.compute_budgets()
    return 1 / requested.eps


def pld_laplace_scale(epsilon, steps):
    """Scale of the noise of several Laplace mechanisms, by the accountant of privacy-loss
    distributions.
    """
    accountant = budget_accounting.PLDBudgetAccountant(epsilon, 0.0)
    requested = accountant.request_budget(MechanismType.LAPLACE, count=steps)
    accountant.compute_budgets()
    return requested.noise_standard_deviation / math.sqrt(2)


def pld_gaussian_sigma(epsilon, delta, steps):
    """Noise of several Gaussian mechanisms, by the accountant of privacy-loss distributions."""
    accountant = budget_accounting.PLDBudgetAccountant(epsilon, delta)
    requested = accountant.request_budget(MechanismType.GAUSSIAN, count=steps)
    accountant.compute_budgets()
    return requested.noise_standard_deviation
