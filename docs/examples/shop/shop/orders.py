"""Counts of orders."""

import numpy as np

PRODUCTS = ("beans", "filters", "grinder", "kettle")
SIZES = (0.0, 10.0, 25.0, 50.0, 100.0)  # classes of amounts in the report
FREE_SHIPPING = 65.0  # orders above this amount are shipped free of charge


def order_count(amounts, epsilon, rng=None):
    """Return the number of orders under epsilon-differential privacy (add or remove one order)."""
    rng = np.random.default_rng(rng)
    return max(0, round(len(amounts) + rng.laplace(0.0, 1.0 / epsilon)))


def order_sizes(amounts, epsilon, rng=None):
    """Return the number of orders in each class of SIZES under epsilon-differential privacy (add or
    remove one order). Each order is in one class.
    """
    rng = np.random.default_rng(rng)
    clipped = np.clip(np.asarray(amounts, dtype=float), SIZES[0], SIZES[-1])
    counts, _ = np.histogram(clipped, bins=SIZES)
    return counts + rng.laplace(0.0, 1.0 / epsilon, len(counts))


def shipping_counts(amounts, epsilon, rng=None):
    """Return the number of orders, and of orders with free shipping, under epsilon-differential
    privacy (add or remove one order).
    """
    rng = np.random.default_rng(rng)
    free = np.asarray(amounts, dtype=float) > FREE_SHIPPING
    counts = np.array([len(free), free.sum()])
    return counts + rng.laplace(0.0, 1.0 / epsilon, 2)


def best_seller(products, epsilon, rng=None):
    """Return the product with the largest noisy count under epsilon-differential privacy (add or
    remove one order).
    """
    rng = np.random.default_rng(rng)
    counts = [list(products).count(product) for product in PRODUCTS]
    noisy = counts + rng.laplace(0.0, 1.0 / epsilon, len(PRODUCTS))
    return PRODUCTS[int(np.argmax(noisy))]
