import numpy as np


def update(gradients, rng, norm=1.0, noise=1.0, rate=0.25):
    """One step: draw by coins, clip each gradient, add noise to the sum."""
    batch = gradients[rng.random(len(gradients)) < rate]
    lengths = np.linalg.norm(batch, axis=1, keepdims=True)
    batch = batch * np.minimum(1.0, norm / np.maximum(lengths, 1e-12))
    return batch.sum(axis=0) + noise * rng.normal(size=gradients.shape[1])


def louder(gradients, rng):
    """The same with clipping to 3, for which the noise is too small."""
    return update(gradients, rng, norm=3.0)


def epoch(gradients, rng, steps=20, noise=0.8):
    """An epoch of batches of one, in shuffled order: each record is in exactly one."""
    sums = np.zeros(steps)
    sums[rng.permutation(steps)[: len(gradients)]] = np.clip(gradients[:, 0], -1, 1)
    return sums + noise * rng.normal(size=steps)
