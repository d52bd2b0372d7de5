"""Tests of logistic regression: the mode agrees with a general minimizer, and faulty data raise an
error.

Average of models with subsets of the groups of weights, by their evidence.
"""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from dpwitness.auditors.statistics.regression import Expansion, evidence, fit_grouped, fit_logistic


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


def test_features_that_are_not_finite_raise_an_error():
    with pytest.raises(ValueError, match="not finite"):
        fit_logistic(np.array([[1.0, np.nan], [1.0, 0.0]]), np.ones(2), np.ones(2), np.ones(2))


NAMES = ("first", "second", "noise", "copy")


def data(seed, second_weight=0.0):
    """Odds that depend on the first feature, and on the second by this weight; besides, 20 features
    of noise and a noisy copy.
    """
    rng, rows = np.random.default_rng(seed), 4000
    first, second = rng.standard_normal((2, rows))
    x = np.column_stack(
        [first, second, rng.standard_normal((rows, 20)), first + 0.3 * rng.standard_normal(rows)]
    )
    ones = (rng.random(rows) < expit(0.5 * first + second_weight * second)).astype(float)
    return np.column_stack([np.ones(rows), x]), ones, np.array([0, 1, *[2] * 20, 3])


def expanded(seed, second_weight=0.0):
    design, ones, group = data(seed, second_weight)
    fit, precision = fit_grouped(design, ones, 1 - ones, group, np.full(4, 10.0))
    return Expansion(fit, group, NAMES, precision)


def test_groups_of_no_use_get_almost_no_weight():
    found = []
    for seed in range(8):
        expansion = expanded(seed)
        weights = expansion.average(expansion.likely_subsets()).weights[1:]
        assert abs(weights[0] + weights[22] - 0.5) < 0.15  # the copy may stand for the feature
        found.append(np.abs(weights[2:22]).max() / np.abs(expansion.fit.weights[3:23]).max())
    assert np.median(found) < 0.3  # relative to the fit of all groups


def test_a_group_with_a_small_weight_is_in_all_likely_models():
    expansion = expanded(1, second_weight=0.25)
    likely = expansion.likely_subsets()
    # 1 / 0.25^2 = 16
    assert all("second" in subset and 5 < subset["second"] < 40 for subset in likely)
    assert expansion.average(likely).weights[2] == pytest.approx(0.25, abs=0.08)


def test_evidence_and_weights_of_a_subset_are_those_of_its_own_fit():
    """The cost of a group is part of the evidence of an average."""
    design, ones, group = data(3, second_weight=0.25)
    expansion, subset = expanded(3, second_weight=0.25), {"first": 4.0, "second": 16.0}
    used = np.append(0, np.flatnonzero(group < 2) + 1)
    precision = np.array([1e-4, 4.0, 16.0])
    own = fit_logistic(design[:, used], ones, 1 - ones, precision)
    model, without = expansion.average([subset]), expansion.average([{"first": 4.0}])
    np.testing.assert_allclose(model.weights[used], own.weights, atol=5e-3)
    cost = evidence(own, precision) - model.log_evidence
    assert 1.5 < cost / 2 < 2.5 and model.determined == pytest.approx(2, abs=0.05)
    both = expansion.average([subset, {"first": 4.0}])
    assert both.log_evidence == pytest.approx(logsumexp([model.log_evidence, without.log_evidence]))
    # the weight of 0.25 is far more likely than none
    assert both.weights == pytest.approx(model.weights, abs=1e-3)


def test_groups_that_a_fit_does_not_have_are_left_out():
    expansion = expanded(4)
    np.testing.assert_allclose(
        expansion.average([{"first": 4.0, "other": 1.0}]).weights,
        expansion.average([{"first": 4.0}]).weights,
    )
    np.testing.assert_allclose(expansion.average([]).weights, expansion.fit.weights, atol=1e-6)
