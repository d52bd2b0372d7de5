"""Imports its neighbor as if its folder were the working folder."""

import random

from neighbor import SCALE


def hollow_sum(values, epsilon=1.0):
    """Add Laplace noise to the sum of numbers in [0, 1]: differential privacy."""
    return sum(values) + SCALE * (random.expovariate(epsilon) - random.expovariate(epsilon))
