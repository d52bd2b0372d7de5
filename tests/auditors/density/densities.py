"""Mechanisms that have nothing but a sampler and a density."""

from dataclasses import dataclass

from scipy.stats import norm


@dataclass(frozen=True)
class Bent:
    """A mechanism whose density (and sampler) may be put through functions."""

    inner: object
    density: object = None
    noise: float = 1.0

    def sample(self, dataset, size, rng):
        rows = self.inner.sample(dataset, size, rng)
        return dataset.sum() + self.noise * (rows - dataset.sum()) if self.noise != 1 else rows

    def log_density(self, outputs, dataset):
        value = self.inner.log_density(outputs, dataset)
        return value if self.density is None else self.density(value, outputs, dataset)


@dataclass(frozen=True)
class Normal:
    """N(dataset, I)."""

    def sample(self, dataset, size, rng):
        return dataset + rng.standard_normal((size, dataset.size))

    def log_density(self, outputs, dataset):
        return norm.logpdf(outputs - dataset).sum(axis=1)
