import numpy as np


def noisy_sum(dataset, size, rng):
    """Laplace noise of scale 1 on the sum of records held to [0, 1], rounded to a grid of 2^-10."""
    noisy = np.clip(dataset, 0.0, 1.0).sum() + rng.laplace(0.0, 1.0, size)
    return np.round(noisy * 1024) / 1024
