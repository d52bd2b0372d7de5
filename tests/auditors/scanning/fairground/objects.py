"""Objects: made with a budget, called with data."""

import abc
import math

import numpy as np


class AbstractMechanism(abc.ABC):
    """Base class of mechanisms, with epsilon."""

    def __init__(self, epsilon):
        self.epsilon = epsilon

    @abc.abstractmethod
    def randomise(self, value):
        """Return a noisy value."""


class LaplaceNoise(AbstractMechanism):
    """Laplace mechanism for a query of this sensitivity."""

    def __init__(self, epsilon, sensitivity):
        super().__init__(epsilon)
        self.sensitivity = sensitivity

    def randomise(self, value):
        """Return a noisy value."""
        return value + np.random.laplace(0.0, self.sensitivity / self.epsilon)


def make_laplace(epsilon) -> LaplaceNoise:
    """Return a Laplace mechanism of sensitivity 1."""
    return LaplaceNoise(epsilon, 1.0)


class Histogram:
    """Private histogram; one record may be added or removed."""

    def __init__(self, epsilon, bins, range=None):
        self.epsilon, self.bins, self.range = epsilon, bins, range

    def release(self, data):
        """Return noisy counts."""
        counts, _ = np.histogram(data, self.bins, self.range)
        return counts + np.random.laplace(0.0, 1 / self.epsilon, len(counts))


class RunningSum:
    """Private sum of entries that are added one by one."""

    def __init__(self, epsilon=0.5, lower_bound=None, upper_bound=None):
        self.epsilon, self.low, self.high, self.total = epsilon, lower_bound, upper_bound, 0.0

    def add_entries(self, values):
        """Add values."""
        self.total += float(np.clip(values, self.low, self.high).sum())

    def result(self):
        """Return the noisy sum."""
        return self.total + np.random.laplace(0.0, (self.high - self.low) / self.epsilon)


class AbsoluteDifference:
    """Metric of numbers."""


class PureDP:
    """Pure differential privacy."""


class StatedNoise:
    """Laplace noise with a privacy function, as Tumult's measurements."""

    input_metric, output_measure = AbsoluteDifference(), PureDP()

    def __init__(self, scale):
        self.scale = scale

    def privacy_function(self, d_in):
        """Return the loss for inputs at distance d_in."""
        return d_in / self.scale

    def __call__(self, value):
        """Return a noisy value."""
        return value + np.random.laplace(0.0, self.scale)


class BudgetAccountant:
    """Budget of a session."""

    def __init__(self, epsilon):
        self.epsilon = epsilon

    def spend(self, epsilon):
        """Spend a part of the budget."""
        self.epsilon -= epsilon


class Anonymizer:
    """Adds Laplace noise to whatever values it is given."""

    def __init__(self, epsilon):
        self.epsilon = epsilon

    def apply(self, values):
        return np.random.laplace(values, 1 / self.epsilon)


class SequentialTest:
    """Private sequential test of two hypotheses.

    >>> test = SequentialTest(mu0=0.3, mu1=0.7, epsilon=1.0)
    >>> test.add_sample(1)
    """

    def __init__(self, mu0, mu1, epsilon):
        if not 0 < mu0 < mu1 < 1:
            raise ValueError(f"mu0 must be in (0, 1), got {mu0}")
        self.epsilon, self.total = epsilon, 0.0

    def add_sample(self, x):
        self.total += min(max(x, 0.0), 1.0)
        return self.total + np.random.laplace(0.0, 10 / self.epsilon) > 1


def count_adults(df, epsilon):
    """Private count of the rows of one city."""
    return int((df["city"] == "a").sum() + 0 * df["age"].sum()) + np.random.laplace(
        0.0, 1 / epsilon
    )


class BloomClient:
    """Randomized response to each bit of a Bloom filter; `f` is the probability of randomisation,
    and the server knows epsilon.
    """

    def __init__(self, f, m, hash_funcs):
        self.f, self.hash_funcs = f, hash_funcs
        self.resize(m)

    def resize(self, m=None):
        """Set the number of bits."""
        self.m = m if m is not None else self.m

    def privatise(self, item):
        """Return the bits of one item."""
        bits = [0] * self.m
        for hashed in self.hash_funcs:
            bits[hashed(item)] = 1
        return [int(np.random.random() < (1 - self.f / 2 if bit else self.f / 2)) for bit in bits]


class BloomServer:
    """Estimates of frequencies from the bits of all clients."""

    def __init__(self, f, m, k, d):
        self.epsilon = 2 * k * math.log((1 - f / 2) / (f / 2))
        self.hash_funcs = [
            lambda item, shift=shift: (item + shift) % m for shift in np.random.permutation(m)[:k]
        ]

    def get_hash_funcs(self):
        """Return the hash functions of the clients."""
        return self.hash_funcs
