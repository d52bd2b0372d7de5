"""Mechanisms that keep state, ignore their generator, or draw from the process'. Importable, for
worker processes.
"""

import random

import numpy as np

own = np.random.default_rng(0)


class Kept:
    """Counts its calls."""

    def __init__(self):
        self.calls = 0
        self.kept = {}
        self.noise = np.empty(0)
        self.buffer = np.empty(2**17)

    def sample(self, dataset, size, rng):
        self.calls += 1
        return self.run(dataset, size, rng)


class Alternates(Kept):
    """Ignores its data; epsilon would be 5 if D1 always came first."""

    def run(self, dataset, size, rng):
        return np.where(rng.random(size) < 0.9, self.calls % 2, 1 - self.calls % 2).astype(float)


class EveryThird(Kept):
    def run(self, dataset, size, rng):
        return dataset[0] + rng.laplace(0.0, 2.0, size) + 9.0 * (self.calls % 3 == 0)


class Grows(Kept):
    def run(self, dataset, size, rng):
        return dataset[0] + rng.laplace(0.0, 1.0 + 1e-6 * self.calls, size)


class Memoised(Kept):
    """Noise by size: other streams, the same noise."""

    def run(self, dataset, size, rng):
        if size not in self.kept:
            self.kept[size] = rng.laplace(0.0, 1.0, size)
        return dataset[0] + self.kept[size]


class MemoisedScalar(Kept):
    """One draw for each dataset."""

    def run(self, dataset, size, rng):
        key = dataset.tobytes()
        if key not in self.kept:
            self.kept[key] = rng.laplace()
        return np.full(size, dataset[0] + self.kept[key])


class Longest(Kept):
    """One array of noise, made longer where it must be."""

    def run(self, dataset, size, rng):
        self.noise = np.append(self.noise, rng.laplace(0.0, 1.0, max(size - len(self.noise), 0)))
        return dataset[0] + self.noise[:size]


class Buffer(Kept):
    def run(self, dataset, size, rng):
        self.buffer[:size] = dataset[0] + rng.laplace(0.0, 1.0, size)
        return self.buffer[:size]


class BufferInList(Kept):
    def run(self, dataset, size, rng):
        self.buffer[:size] = dataset[0] + rng.laplace(0.0, 1.0, size)
        return [self.buffer[i : i + 1] for i in range(size)]


class Late(Kept):
    """From its 100th call on, its outputs lie in another cell of any event, in a direction that the
    data do not tell.
    """

    def run(self, dataset, size, rng):
        return rng.laplace(0.0, 1.0, size) + (self.calls > 100)


def module_generator(dataset, size, rng):
    return dataset[0] + own.laplace(0.0, 1.0, size)


def system_entropy(dataset, size, rng):
    return dataset[0] + np.random.default_rng().laplace(0.0, 1.0, size)


def few_seeds(dataset, size, rng):
    """Ten sequences of noise in all."""
    return dataset[0] + np.random.default_rng(int(rng.integers(10))).laplace(0.0, 1.0, size)


def flips(dataset, size, draw):
    """Randomised response at epsilon = 1."""
    truth = dataset[0] > 0.5
    return np.where(np.asarray(draw) < np.e / (1 + np.e), truth, not truth).astype(float)


def global_numpy(dataset, size, rng):
    return flips(dataset, size, np.random.random(size))  # noqa: NPY002


def global_python(dataset, size, rng):
    return flips(dataset, size, [random.random() for _ in range(size)])


def global_at_times(dataset, size, rng):
    """From the global generator in one call of some hundred."""
    return flips(dataset, size, np.random.random(size) if rng.random() < 0.01 else rng.random(size))  # noqa: NPY002
