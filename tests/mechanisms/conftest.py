"""Statistical tests that the tests of mechanisms share."""

import math

import numpy as np
import pytest
from scipy.stats import chi2


def _chi_square(counts, expected):
    """Return the p-value of counts against expected counts; cells with fewer than 10 are pooled,
    and left out below 5 in all.
    """
    counts, expected = np.ravel(counts), np.ravel(expected)
    assert counts[expected == 0].sum() == 0
    small = expected < 10
    seen, want = counts[~small], expected[~small]
    if expected[small].sum() >= 5:
        seen, want = np.append(seen, counts[small].sum()), np.append(want, expected[small].sum())
    return chi2.sf(((seen - want) ** 2 / want).sum(), max(1, len(want) - 1))


def _likelihood_ratios(mechanism, d0, d1, statistic, size, seed):
    """Return runs on D0 and their ratios q/p, after E_P[q/p] = 1 and E_P[q/p h] = E_Q[h] for h =
    `statistic` hold to six deviations.
    """
    rng = np.random.default_rng(seed)
    rows, other = mechanism.sample(d0, size, rng), mechanism.sample(d1, size, rng)
    p = mechanism.log_density(rows, d0)
    assert np.all(np.isfinite(p)) and np.all(np.isfinite(mechanism.log_density(other, d1)))
    ratio = np.exp(mechanism.log_density(rows, d1) - p)
    assert abs(ratio.mean() - 1) < 6 * ratio.std() / math.sqrt(size)
    weighted, wanted = ratio * statistic(rows), statistic(other)
    assert abs(weighted.mean() - wanted.mean()) < 6 * math.sqrt(
        (weighted.var() + wanted.var()) / size
    )
    return rows, ratio


@pytest.fixture(scope="session")
def chi_square():
    """Return the function `chi_square(counts, expected)`."""
    return _chi_square


@pytest.fixture(scope="session")
def likelihood_ratios():
    """Return the function `likelihood_ratios(mechanism, d0, d1, statistic, size, seed)`."""
    return _likelihood_ratios
