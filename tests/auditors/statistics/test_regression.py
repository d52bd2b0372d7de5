"""Tests of logistic regression: the mode agrees with a general minimizer, and faulty data raise an
error.

Average of models with subsets of the groups of weights, by their evidence.
"""

import numpy as np
import pytest
from scipy.optimize import minimize

from dpwitness.auditors.statistics.regression import evidence, fit_logistic


def counts(rows, columns, seed):
    rng = np.random.default_rng(seed)
    features = np.column_stack([np.ones(rows), rng.normal(size=(rows, columns - 1))])
    total = rng.integers(1, 50, rows)
    return (
        features,
        rng.binomial(total, 1 / (1 + np.exp(-features[:, 1]))).astype(float),
        total.astype(float),
    )


@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (60, 5), (400, 12)])
def test_the_mode_is_that_of_a_general_minimizer(rows, columns):
    features, ones, total = counts(rows, columns, rows)
    precision = np.append(1e-4, np.full(columns - 1, 0.5))

    def loss(w):
        line = features @ w
        return np.sum(total * np.logaddexp(0, line) - ones * line) + 0.5 * np.sum(precision * w**2)

    fit, best = (
        fit_logistic(features, ones, total - ones, precision),
        minimize(loss, np.zeros(columns), tol=1e-10),
    )
    assert (
        fit.weights == pytest.approx(best.x, abs=1e-3)
        and fit.loss == pytest.approx(loss(fit.weights))
        and fit.loss <= best.fun + 1e-7
    )
    rates = 1 / (1 + np.exp(-(features @ fit.weights)))
    hessian = features.T @ (features * (total * rates * (1 - rates))[:, None]) + np.diag(precision)
    assert (
        fit.factor @ fit.factor.T == pytest.approx(hessian, abs=0.02 * hessian.max())
        and (np.triu(fit.factor, 1) == 0).all()
    )
    expected = -fit.loss + 0.5 * (np.log(precision).sum() - np.linalg.slogdet(hessian)[1])
    assert evidence(fit, precision) == pytest.approx(expected, abs=0.05)


def test_separated_classes_have_finite_weights():
    features = np.column_stack([np.ones(4), [-1e3, -1e3, 1e3, 1e3]])
    fit = fit_logistic(
        features, np.array([0.0, 0, 5, 5]), np.array([5.0, 5, 0, 0]), np.array([1e-4, 1e-2])
    )
    assert np.isfinite(fit.weights).all() and fit.weights[1] > 0
