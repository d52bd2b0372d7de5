"""Tests of the amounts."""

import pytest
from shop import mean_amount, median_amount, total_amount

AMOUNTS = [12.5, 30.0, 8.0, 44.9, 21.0, 17.5]


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_total_is_close(epsilon):
    assert abs(total_amount(AMOUNTS, epsilon, rng=1) - 133.9) < 2_000


def test_mean_is_close():
    assert mean_amount(AMOUNTS, 1.0, high=50.0, rng=2) == pytest.approx(22.3, abs=80)


def test_median_is_a_step():
    assert median_amount(AMOUNTS, 1.0, rng=3) in range(0, 105, 5)
