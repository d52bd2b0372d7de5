"""Noise in R^d that depends on direction not at all: its length follows a law, its direction is uniform on the sphere.

Chaudhuri and Monteleoni (2008) print a Laplace length; Chaudhuri, Monteleoni and Sarwate (2011) and Jain and Thakurta (2014) use the Gamma
length that makes the density proportional to exp(-rate |b|). The two agree in one dimension only (claim CM-05).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.numerics.drawing import Draws
from dpwitness.mechanisms.numerics.jit import jit
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import require

GAMMA, LAPLACE_RADIUS, GAUSSIAN = range(3)

_KINDS = {"gamma": GAMMA, "laplace_radius": LAPLACE_RADIUS, "gaussian": GAUSSIAN}


@dataclass(frozen=True, slots=True)
class SphericalNoise:
    """A law of b in R^d.

    Parameters
    ----------
    kind : {"gamma", "laplace_radius", "gaussian"}
        ``gamma``: |b| ~ Gamma(shape d, rate), density proportional to exp(-rate |b|). ``laplace_radius``: |b| ~ Exp(rate), whose density is
        unbounded at 0 in d >= 2. ``gaussian``: N(0, I / rate^2).
    rate : float
        One over the scale of the length (one over the standard deviation of a coordinate, for ``gaussian``). Positive.
    dimension : int
        d.

    Examples
    --------
    >>> SphericalNoise("gamma", 2.0, 1).log_density(np.array([[0.0]])).round(9) + 0.0
    array([0.])
    """

    kind: str
    rate: float
    dimension: int

    def __post_init__(self) -> None:
        require(self).one_of("kind", list(_KINDS)).positive("rate").integer("dimension")

    @property
    def singular(self) -> bool:
        """Whether the density is unbounded, so that no shift of it is private at any epsilon."""
        return self.kind == "laplace_radius" and self.dimension > 1

    def draws(self, center: FloatArray, grid: float = 0.0) -> Draws:
        """Rows center + b, rounded to multiples of a positive `grid`.

        Without one the low bits of a row betray the center, as those of all unrounded floating-point noise do.
        """
        middle = np.array(center, dtype=np.float64)
        return Draws(fill_spherical, (_KINDS[self.kind], float(self.rate), middle, float(grid)), int(self.dimension))

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """`size` rows b."""
        return self.draws(np.zeros(self.dimension)).sample(size, rng)

    def log_density(self, b: FloatArray) -> FloatArray:
        """Log-density at each row of b: shape (size,)."""
        return self.log_density_of_length(np.sqrt(np.einsum("ij,ij->i", b, b)))

    def log_density_of_length(self, length: FloatArray) -> FloatArray:
        """The same from |b|, which is all that it depends on. Infinite at 0 where the law is singular."""
        d, c = self.dimension, self.rate
        if self.kind == "gaussian":
            return d * (math.log(c) - 0.5 * math.log(2.0 * math.pi)) - 0.5 * (c * length) ** 2
        log_area = math.log(2.0) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)
        if self.kind == "gamma" or d == 1:
            return d * math.log(c) - c * length - math.lgamma(d) - log_area
        with np.errstate(divide="ignore"):
            return np.asarray(math.log(c) - c * length - (d - 1) * np.log(length) - log_area)


@jit
def on_grid(value: float, grid: float) -> float:
    """The nearest multiple of a positive `grid`: post-processing, after which the low bits tell no more than the value."""
    return float(np.rint(value / grid) * grid) if grid > 0 else value


@jit
def fill_spherical(kind: int, rate: float, center: FloatArray, grid: float, out: FloatArray, rng: Generator) -> None:
    """Rows center + b, rounded to multiples of a positive `grid`."""
    size, d = out.shape
    scale = 1.0 / rate
    for i in range(size):
        if d == 1 and kind != GAUSSIAN:
            # The difference of two exponentials is a Laplace variable, without a draw for its sign.
            out[i, 0] = on_grid(center[0] + scale * (rng.standard_exponential() - rng.standard_exponential()), grid)
            continue
        square = 0.0
        for j in range(d):
            out[i, j] = rng.standard_normal()
            square += out[i, j] * out[i, j]
        factor = scale
        if kind != GAUSSIAN:
            length = 0.0
            if kind == LAPLACE_RADIUS:
                length = rng.standard_exponential()
            elif d <= 4:
                for _ in range(d):
                    length += rng.standard_exponential()
            else:
                length = rng.standard_gamma(d)
            factor = scale * length / np.sqrt(square)
        for j in range(d):
            out[i, j] = on_grid(center[j] + factor * out[i, j], grid)
