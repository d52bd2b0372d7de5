"""The binned certificate of RDP and zCDP: valid at the truth, and tighter than any single event."""

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness import RDP
from dpwitness.auditors.events.event import Binned, _mean_lower_limit, renyi_lower_bound


def test_lower_mean_errs_at_most_alpha():
    """2e4 samples of a three-valued variable at its true mean; false-failure probability 1e-7."""
    rng, alpha, values, law = (
        np.random.default_rng(1),
        0.05,
        np.array([0.0, 0.3, 1.0]),
        np.array([0.7, 0.2, 0.1]),
    )
    counts = rng.multinomial(2_000, law, 20_000)
    limits = np.array([_mean_lower_limit(values, row, 0.15, alpha) for row in counts[:4_000]])
    errors = int(np.sum(limits > values @ law))
    assert errors <= binom.isf(1e-7, 4_000, alpha)
    assert limits.mean() > 0.8 * (values @ law)


def test_exact_counts_give_the_divergence_of_the_binned_law():
    """With infinitely many rounds and the true log-ratio the bound tends to the binned divergence
    itself.
    """
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    rule = Binned((), np.log(p / q), 2.0, True, np.array([1e-5, 1e-5]))
    truth = np.log(np.sum(p**2 / q))
    assert renyi_lower_bound(RDP(2.0, 0.1), rule, np.array([p, q]) * 1e13, 0.05) == pytest.approx(
        truth, abs=1e-3
    )
    assert renyi_lower_bound(RDP(2.0, 0.1), rule, np.array([p, q]) * 1e13, 0.05) <= truth
