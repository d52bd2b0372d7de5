"""The shop's own tests."""

import numpy as np
import pytest
from shop.stats import noisy_mean, noisy_total, order_counts

AMOUNTS = [12.5, 30.0, 8.0, 44.9, 21.0, 17.5]


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_the_total_is_near(epsilon):
    assert abs(noisy_total(AMOUNTS, epsilon, rng=1) - 133.9) < 2000


def test_the_mean_is_a_number():
    assert np.isfinite(noisy_mean(AMOUNTS, 1.0, low=0.0, high=50.0, rng=2))


def test_there_are_two_counts():
    assert order_counts(AMOUNTS, 1.0, rng=3).shape == (2,)
