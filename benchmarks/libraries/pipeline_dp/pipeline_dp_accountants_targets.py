"""Accountants of pipeline-dp: closed forms of the Gaussian mechanism, and the noise that its budget
accountants choose.
"""

import math

from library_target import accountant
from pipeline_dp import budget_accounting, dp_computations
from pipeline_dp.aggregate_params import MechanismType

LIBRARY = "pipeline-dp"
TESTED = ">=0.3.0,<0.4"
INSTALL = "pip install pipeline-dp==0.3.1"


_EPSILONS, _DELTAS = [0.1, 10], [1e-10, 0.1]

TARGETS = {
    "gaussian_delta": accountant("gaussian", "delta", "sigma epsilon"),
    "gaussian_epsilon": accountant(
        "gaussian", "epsilon", "sigma delta", sigma=[0.1, 100], delta=[1e-12, 0.4]
    ),
    "gaussian_sigma": accountant(
        "gaussian", "noise", "epsilon delta sensitivity", epsilon=_EPSILONS, delta=_DELTAS
    ),
    "naive_laplace_scale": accountant(
        "laplace", "noise", "epsilon steps", epsilon=_EPSILONS, steps=[1, 10]
    ),
    "pld_laplace_scale": accountant(
        "laplace", "noise", "epsilon steps", epsilon=_EPSILONS, steps=[1, 10]
    ),
    "pld_gaussian_sigma": accountant(
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


def _requested(accountant, mechanism, steps):
    """Return the budget of several equal mechanisms."""
    found = accountant.request_budget(mechanism, count=steps)
    accountant.compute_budgets()
    return found


def naive_laplace_scale(epsilon, steps):
    """Scale of the noise of several Laplace mechanisms with equal weights, by basic composition."""
    naive = budget_accounting.NaiveBudgetAccountant(epsilon, 0.0)
    return 1 / _requested(naive, MechanismType.LAPLACE, steps).eps


def pld_laplace_scale(epsilon, steps):
    """Scale of the noise of several Laplace mechanisms, by the accountant of privacy-loss
    distributions.
    """
    pld = budget_accounting.PLDBudgetAccountant(epsilon, 0.0)
    requested = _requested(pld, MechanismType.LAPLACE, steps)
    return requested.noise_standard_deviation / math.sqrt(2)


def pld_gaussian_sigma(epsilon, delta, steps):
    """Noise of several Gaussian mechanisms, by the accountant of privacy-loss distributions."""
    pld = budget_accounting.PLDBudgetAccountant(epsilon, delta)
    return _requested(pld, MechanismType.GAUSSIAN, steps).noise_standard_deviation
