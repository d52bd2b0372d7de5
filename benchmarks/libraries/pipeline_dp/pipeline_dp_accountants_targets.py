"""Accountants of pipeline-dp: closed forms of the Gaussian mechanism, and the noise that its budget
accountants choose.
"""

import math

from library_target import accountants
from pipeline_dp import budget_accounting, dp_computations
from pipeline_dp.aggregate_params import MechanismType

LIBRARY = "pipeline-dp"


_CALIBRATED = {"epsilon": [0.1, 10], "delta": [1e-10, 0.1]}
_SCALE = {"epsilon": [0.1, 10], "steps": [1, 10]}


def _requested(accountant, mechanism, steps):
    """Return the budget of several equal mechanisms."""
    found = accountant.request_budget(mechanism, count=steps)
    accountant.compute_budgets()
    return found


def _distributions(epsilon, delta, mechanism, steps):
    """Return the deviation of the noise, by the accountant of privacy-loss distributions."""
    pld = budget_accounting.PLDBudgetAccountant(epsilon, delta)
    return _requested(pld, mechanism, steps).noise_standard_deviation


TARGETS = accountants(
    globals(),
    gaussian_delta=(
        "gaussian",
        "delta",
        lambda sigma, epsilon: dp_computations.gaussian_delta(sigma, epsilon),
        {},
    ),
    gaussian_epsilon=(
        "gaussian",
        "epsilon",
        lambda sigma, delta: dp_computations.gaussian_epsilon(sigma, delta),
        {"sigma": [0.1, 100], "delta": [1e-12, 0.4]},
    ),
    gaussian_sigma=(
        "gaussian",
        "noise",
        lambda epsilon, delta, sensitivity: dp_computations.compute_sigma(
            epsilon, delta, sensitivity
        ),
        _CALIBRATED,
    ),
    # equal weights, by basic composition
    naive_laplace_scale=(
        "laplace",
        "noise",
        lambda epsilon, steps: (
            1
            / _requested(
                budget_accounting.NaiveBudgetAccountant(epsilon, 0.0), MechanismType.LAPLACE, steps
            ).eps
        ),
        _SCALE,
    ),
    pld_laplace_scale=(
        "laplace",
        "noise",
        lambda epsilon, steps: (
            _distributions(epsilon, 0.0, MechanismType.LAPLACE, steps) / math.sqrt(2)
        ),
        _SCALE,
    ),
    pld_gaussian_sigma=(
        "gaussian",
        "noise",
        lambda epsilon, delta, steps: _distributions(epsilon, delta, MechanismType.GAUSSIAN, steps),
        {"epsilon": [0.5, 5], "delta": [1e-8, 0.01], "steps": [1, 10]},
    ),
)
