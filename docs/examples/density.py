import numpy as np

import dpwitness as dpw


class ScaledLaplace:
    """The sum of the records plus Laplace noise of scale 0.9, and the log-density of
    what it gives.
    """

    claim = dpw.PureDP(1.0)

    def sample(self, dataset, size, rng):
        return np.sum(dataset) + rng.laplace(0.0, 0.9, size)

    def log_density(self, outputs, dataset):
        return -np.abs(np.ravel(outputs) - np.sum(dataset)) / 0.9 - np.log(1.8)


class OtherDensity(ScaledLaplace):
    """The same sampler with the density of scale 1: what the author meant, not what runs."""

    def log_density(self, outputs, dataset):
        return -np.abs(np.ravel(outputs) - np.sum(dataset)) - np.log(2.0)
