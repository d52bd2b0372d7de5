"""A package made for the tests of the scan: mechanisms, functions that look like some,
and traps.
"""

import numpy as np

from fairground.estimator import PrivateMeanModel
from fairground.objects import (
    AbstractMechanism,
    BudgetAccountant,
    Histogram,
    LaplaceNoise,
    RunningSum,
    StatedNoise,
    make_laplace,
)

__all__ = [
    "laplace_mechanism", "gaussian_mechanism", "noisy_count", "noisy_sum", "private_mean", "randomized_response", "k_randomized_response",
    "geometric_noise", "exponential_mechanism", "zcdp_sum", "half_noise_count", "stated", "release_median", "PrivateMeanModel", "Histogram",
    "LaplaceNoise", "RunningSum", "StatedNoise", "make_laplace", "AbstractMechanism", "BudgetAccountant", "huber_loss", "clip",
    "check_epsilon", "gaussian_epsilon", "laplace_scale", "aggregate_reports", "epsilon_greedy", "add_noise", "metric_laplace",
    "needs_key", "leaking_sum", "louder_noise", "zero_epsilon_count", "mean_of_some",
]  # fmt: skip


def laplace_mechanism(value, sensitivity, epsilon, rng=None):
    """Laplace mechanism. epsilon: privacy parameter."""
    return value + (rng or np.random.default_rng()).laplace(0.0, sensitivity / epsilon)


def gaussian_mechanism(
    value: float, l2_sensitivity: float, epsilon: float, delta: float, seed=None
) -> float:
    """Return a value with Gaussian noise.

    Parameters
    ----------
    epsilon : float
        Privacy budget.
    """
    sigma = np.sqrt(2 * np.log(1.25 / delta)) * l2_sensitivity / epsilon
    return value + np.random.default_rng(seed).normal(0.0, sigma)


def noisy_count(values, epsilon):
    """Differentially private number of values."""
    return len(values) + np.random.laplace(0.0, 1 / epsilon)


def noisy_sum(values, lower, upper, *, epsilon, random_state=None):
    """Differentially private sum; replacing one value changes it by upper - lower."""
    state = np.random.RandomState(random_state)
    return float(
        np.clip(values, lower, upper).sum() + state.laplace(0.0, (upper - lower) / epsilon)
    )


def private_mean(data, bounds, epsilon, rng=None):
    """Private mean of data within bounds."""
    low, high = bounds
    return float(
        np.clip(data, low, high).mean() + np.random.laplace(0.0, (high - low) / len(data) / epsilon)
    )


def randomized_response(bit: bool, epsilon: float) -> bool:
    """Randomized response of one person."""
    return bool(bit) if np.random.random() < np.exp(epsilon) / (1 + np.exp(epsilon)) else not bit


def k_randomized_response(item, k, epsilon, seed=None):
    """k-ary randomized response (LDP)."""
    if not isinstance(item, int):
        raise TypeError("item must be an int")
    rng = np.random.default_rng(seed)
    keep = np.exp(epsilon) / (np.exp(epsilon) + k - 1)
    return (
        item
        if rng.random() < keep
        else int(rng.choice([other for other in range(k) if other != item]))
    )


def geometric_noise(epsilon):
    """Two-sided geometric noise for privacy."""
    return int(
        np.random.geometric(1 - np.exp(-epsilon)) - np.random.geometric(1 - np.exp(-epsilon))
    )


def exponential_mechanism(scores, epsilon, sensitivity=1.0, seed=None):
    """Exponential mechanism over candidates with these scores; returns an index."""
    weights = np.exp(epsilon * (np.asarray(scores) - np.max(scores)) / (2 * sensitivity))
    return int(np.random.default_rng(seed).choice(len(weights), p=weights / weights.sum()))


def zcdp_sum(values, rho, lower=0.0, upper=1.0):
    """Sum under zero-concentrated differential privacy; defaults: values in [0, 1]."""
    return float(
        np.clip(values, lower, upper).sum()
        + np.random.normal(0.0, (upper - lower) / np.sqrt(2 * rho))
    )


def half_noise_count(values, epsilon):
    """Differentially private count, with half of the noise that it needs."""
    return len(values) + np.random.laplace(0.0, 0.5 / epsilon)


def stated(dataset, size, rng):
    """Noisy sum that declares its claim, and adds too little noise."""
    return np.sum(dataset) + rng.laplace(0.0, 0.5, size)


stated.claim = "pure:1"
stated.domain = {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0}


def release_median(x, eps, lower=None, upper=None):
    """Private median by noise on a clipped median (not private, but random)."""
    return float(
        np.median(np.clip(x, lower, upper)) + np.random.laplace(0.0, (upper - lower) / eps)
    )


def louder_noise(value, sensitivity, epsilon):
    """Laplace mechanism whose scale is right at epsilon 1 only: epsilon is multiplied in place of
    divided by.
    """
    return value + np.random.laplace(0.0, sensitivity * epsilon)


def zero_epsilon_count(values, epsilon):
    """Differentially private count, which leaves the noise out if epsilon is 0."""
    return len(values) + (np.random.laplace(0.0, 1 / epsilon) if epsilon else 0.0)


def mean_of_some(values, lower, upper, epsilon):
    """Differentially private mean, which refuses records that are all at the lower bound."""
    if np.max(values) <= lower:
        raise ValueError("no records")
    return float(
        np.clip(values, lower, upper).mean()
        + np.random.laplace(0.0, (upper - lower) / len(values) / epsilon)
    )


def huber_loss(x, epsilon=1e-8):
    """Huber loss with random restarts."""
    return float(np.mean(np.abs(x)) + epsilon + np.random.random())


def clip(values, lower, upper):
    """Clip values."""
    return np.clip(values, lower, upper)


def check_epsilon(epsilon):
    """Raise ValueError unless epsilon is positive."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")


def gaussian_epsilon(sigma, delta):
    """Privacy parameter epsilon of the Gaussian mechanism with noise sigma."""
    return np.sqrt(2 * np.log(1.25 / delta)) / sigma


def laplace_scale(sensitivity, epsilon):
    """Noise scale of the Laplace mechanism."""
    return sensitivity / epsilon


def aggregate_reports(reports, epsilon):
    """Estimate frequencies from privatized reports, with random ties."""
    return float(np.mean(reports) + np.random.random())


def epsilon_greedy(values, epsilon):
    """Choose the best arm, or explore with probability epsilon."""
    return (
        int(np.random.randint(len(values)))
        if np.random.random() < epsilon
        else int(np.argmax(values))
    )


def add_noise(value, scale):
    """Add Laplace noise."""
    return value + np.random.laplace(0.0, scale)


def metric_laplace(location, epsilon):
    """Geo-indistinguishability: planar noise for metric privacy."""
    return np.asarray(location) + np.random.laplace(0.0, 1 / epsilon, np.shape(location))


def needs_key(values, epsilon, key_store):
    """Private sum with a secret key."""
    return float(np.sum(values) + key_store.noise() + np.random.laplace(0.0, 1 / epsilon))


def leaking_sum(values, epsilon):
    """Private sum that takes its bounds from the data."""
    import warnings

    warnings.warn(
        "Bounds are taken from the data: this will result in privacy leakage", stacklevel=2
    )
    return float(np.sum(values) + np.random.laplace(0.0, np.ptp(values) / epsilon))
