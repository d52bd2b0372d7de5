"""Tests of the counts."""

import numpy as np
import pytest
from shop import best_seller, order_count, order_sizes, shipping_counts
from shop.orders import PRODUCTS

AMOUNTS = [12.5, 30.0, 8.0, 44.9, 21.0, 17.5]


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_count_is_close(epsilon):
    assert abs(order_count(AMOUNTS, epsilon, rng=1) - 6) < 20


def test_sizes_are_one_count_per_class():
    counts = order_sizes(AMOUNTS, 1.0, rng=2)
    assert counts.shape == (4,)
    assert abs(counts.sum() - 6) < 40


def test_shipping_counts_are_close():
    orders, free = shipping_counts(AMOUNTS, 1.0, rng=3)
    assert abs(orders - 6) < 20
    assert abs(free) < 20


def test_noise_has_mean_zero():
    rng = np.random.default_rng(4)
    counts = [shipping_counts(AMOUNTS, 1.0, rng=rng) for _ in range(2_000)]
    assert np.mean(counts, axis=0) == pytest.approx([6.0, 0.0], abs=0.2)


def test_best_seller_is_a_product():
    assert best_seller(["beans", "kettle", "beans", "filters"], 1.0, rng=5) in PRODUCTS
