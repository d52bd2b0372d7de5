"""Amounts of orders."""

import numpy as np

MOST = 100.0  # an order counts up to this amount


def total_amount(amounts, epsilon, rng=None):
    """Return the total of the amounts, in whole euros, under epsilon-differential privacy (add or
    remove one order). Amounts are clipped to [0, MOST].
    """
    rng = np.random.default_rng(rng)
    clipped = np.clip(np.asarray(amounts, dtype=float), 0.0, MOST)
    return round(clipped.sum() + rng.laplace(0.0, MOST / epsilon))


def mean_amount(amounts, epsilon, low=0.0, high=MOST, rng=None):
    """Return the mean amount, in cents, under epsilon-differential privacy (replace one order; the
    number of orders is public). Amounts are clipped to [low, high].
    """
    rng = np.random.default_rng(rng)
    clipped = np.clip(np.asarray(amounts, dtype=float), low, high)
    scale = (high - low) / (len(clipped) * epsilon)
    return round(clipped.mean() + rng.laplace(0.0, scale), 2)


def median_amount(amounts, epsilon, rng=None):
    """Return the median amount, in steps of 5 euros, under epsilon-differential privacy (add or
    remove one order), by the exponential mechanism.
    """
    rng = np.random.default_rng(rng)
    amounts = np.asarray(amounts, dtype=float)
    grid = np.arange(0.0, MOST + 5.0, 5.0)
    # one order moves the score of an amount by at most 1
    scores = [-abs(np.sum(amounts < value) - np.sum(amounts > value)) for value in grid]
    weights = np.exp(0.5 * epsilon * (np.array(scores) - max(scores)))
    return float(rng.choice(grid, p=weights / weights.sum()))
