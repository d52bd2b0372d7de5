"""Selection of groups of weights by the evidence."""

import numpy as np
from scipy.special import expit

from dpwitness.auditors.statistics.group_selection import select_groups
from dpwitness.auditors.statistics.regression import fit_grouped


def selected(seed, second_weight=0.0):
    """Groups selected for odds that depend on the first feature, and on the second group by this weight; both groups have copies."""
    rng, rows = np.random.default_rng(seed), 4000
    first, second = rng.standard_normal((2, rows))
    x = np.column_stack([first, second, rng.standard_normal((rows, 20)), first + 0.3 * rng.standard_normal(rows)])
    ones = (rng.random(rows) < expit(0.5 * first + second_weight * second)).astype(float)
    group = np.array([0, 1, *[2] * 20, 3])
    design = np.column_stack([np.ones(rows), x])
    fit, precision = fit_grouped(design, ones, 1 - ones, group, np.full(4, 10.0))
    return select_groups(fit, group, precision)


def test_groups_that_add_noise_only_are_left_out_or_shrunk():
    """Twenty features of noise and a noisy copy of a feature that is used; the information of a weight is about 900."""
    found = [selected(seed) for seed in range(8)]
    assert sum(groups.tolist() == [0] for groups, _ in found) >= 3
    assert all(precision[groups == 0] < 10 and (precision[groups == 2] > 4000).all() for groups, precision in found)


def test_a_group_with_a_small_weight_is_kept_at_its_size():
    groups, precision = selected(1, second_weight=0.25)
    assert groups.tolist() == [0, 1]
    assert 1 < precision[0] < 10  # 1 / 0.5^2
    assert 5 < precision[1] < 40  # 1 / 0.25^2
