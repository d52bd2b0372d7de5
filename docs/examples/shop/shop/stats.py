"""Statistics of a shop's orders. Neighboring datasets differ by adding or removing one order."""

import numpy as np

MOST = 100.0  # an order counts up to this amount


def noisy_total(amounts, epsilon, rng=None):
    """Total of the amounts under epsilon-differential privacy (add or remove one order)."""
    rng = np.random.default_rng(rng)
    clipped = np.clip(np.asarray(amounts, dtype=float), 0.0, MOST)
    return float(clipped.sum() + rng.laplace(0.0, MOST / epsilon))


def noisy_mean(amounts, epsilon, low=0.0, high=100.0, rng=None):
    """Mean amount under epsilon-differential privacy (replacing one order; the number of orders is
    known).
    """
    rng = np.random.default_rng(rng)
    clipped = np.clip(np.asarray(amounts, dtype=float), low, high)
    return float(clipped.mean() + rng.laplace(0.0, (high - low) / (len(clipped) * epsilon)))


def order_counts(amounts, epsilon, rng=None):
    """Number of orders, and of orders above 65, under epsilon-differential privacy (add or remove
    one order).
    """
    rng = np.random.default_rng(rng)
    amounts = np.asarray(amounts, dtype=float)
    counts = np.array([len(amounts), np.sum(amounts > 65)], dtype=float)
    return counts + rng.laplace(0.0, 1.0 / epsilon, 2)
