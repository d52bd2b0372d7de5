import numpy as np


def noisy_sum(dataset, size, rng):
    """Claims epsilon = 1 for records in [0, 1], but adds Laplace noise of scale 0.9."""
    return np.sum(dataset) + rng.laplace(0.0, 0.9, size)
