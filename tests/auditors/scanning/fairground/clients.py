"""Mechanisms whose calls take more than numbers: categories, objects, frames, compiled functions."""

import math

import numba
import numpy as np


def keep_or_draw(value, epsilon: float, categories, seed=None):
    """Randomized response among categories: epsilon-local differential privacy."""
    if value not in categories:
        raise ValueError(f"{value} is not among {categories}")
    rng = np.random.default_rng(seed)
    keep = math.exp(epsilon) / (math.exp(epsilon) + len(categories) - 1)
    others = [each for each in categories if each != value]
    return value if rng.random() < keep else others[int(rng.integers(len(others)))]


@numba.njit
def _flipped(value, k, keep):
    bits = np.zeros(k)
    for place in range(k):
        other = 1.0 - keep
        bits[place] = np.random.random() < (keep if place == value else other)
    return bits


class UnaryReport:
    """Report of one value by a vector of flipped bits, under local differential privacy."""

    def __init__(self, k: int, epsilon: float):
        self.k, self.keep = k, math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1)

    def obfuscate(self, input_data: int):
        if not 0 <= input_data < self.k:
            raise ValueError("input_data must be in the range [0, k-1]")
        return _flipped(input_data, self.k, self.keep)

    def attack(self, reported: np.ndarray):
        """Guess the value behind a report."""
        return int(np.random.default_rng().choice(np.flatnonzero(reported == reported.max())))


class Ledger:
    """What is left of a privacy budget."""

    def __init__(self, total_epsilon: float):
        self.left = 1e9 * total_epsilon

    def spend(self, epsilon):
        self.left -= epsilon


class CohortQueries:
    """Differentially private counts of cohorts."""

    def __init__(self, ledger: Ledger):
        self.ledger, self.rng = ledger, np.random.default_rng()

    def cohort_count(self, true_count: int, epsilon: float = 1.0):
        self.ledger.spend(epsilon)
        return max(0, round(true_count + self.rng.laplace(0.0, 1 / epsilon)))


class Collector:
    """Differentially private totals of the records that it was given."""

    def __init__(self, records, epsilon):
        self.records, self.epsilon = records, epsilon

    def noisy_total(self):
        clipped = np.clip(self.records, 0.0, 1.0)
        return float(np.sum(clipped) + np.random.laplace(0.0, 1 / self.epsilon))


def sales_total(df, epsilon, random_seed=42):
    """Differentially private sum of amounts between 0 and 1."""
    amounts = df[{"what": "amount"}["what"].lower()]
    rng = np.random.default_rng(random_seed)
    return float(amounts.clip(0, 1).sum() + rng.laplace(0.0, 1 / epsilon))


def laplace_noise(epsilon, sensitivity):
    """Laplace noise for an answer of this sensitivity."""
    return np.random.laplace(0.0, sensitivity / epsilon)
