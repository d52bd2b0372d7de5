"""Average of models with subsets of the groups of weights, by their evidence."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from dpwitness.auditors.statistics.regression import Expansion, evidence, fit_grouped, fit_logistic

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
