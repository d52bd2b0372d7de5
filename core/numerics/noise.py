"""Isotropic noise in R^d: the length follows a given law and the direction is uniform on the
sphere.

Chaudhuri and Monteleoni (2008) print a Laplace law for the length. Chaudhuri, Monteleoni and
Sarwate (2011) and Jain and Thakurta (2014) use a Gamma law, for which the density is proportional
to exp(-rate |b|). The two laws agree in dimension 1 only (claim CM-05).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from dpwitness.core.numerics.draws import Draws
from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import require

GAMMA, LAPLACE_RADIUS, GAUSSIAN = range(3)

_KINDS = {"gamma": GAMMA, "laplace_radius": LAPLACE_RADIUS, "gaussian": GAUSSIAN}


@dataclass(frozen=True, slots=True)
class SphericalNoise:
    """The law of an isotropic noise vector b in R^d.

    Parameters
    ----------
    kind : {"gamma", "laplace_radius", "gaussian"}
        ``gamma``: |b| ~ Gamma(shape d, rate), density proportional to exp(-rate |b|).
        ``laplace_radius``: |b| ~ Exp(rate), whose density is unbounded at 0 in d >= 2.
        ``gaussian``: N(0, I / rate^2).
    rate : float
        Inverse scale of the length; for ``gaussian``, the inverse standard deviation of a
        coordinate. Positive.
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
        """Whether the density is unbounded, so that no shift of the noise is private at any
        epsilon.
        """
        return self.kind == "laplace_radius" and self.dimension > 1

    def draws(self, center: FloatArray, grid: float = 0.0) -> Draws:
        """Return the output law center + b, rounded to multiples of `grid` if `grid` is positive.

        Without rounding, the low bits of an output reveal the center, as with all unrounded
        floating-point noise.
        """
        middle = np.array(center, dtype=np.float64)
        return Draws(
            fill_spherical,
            (_KINDS[self.kind], float(self.rate), middle, float(grid)),
            int(self.dimension),
        )

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """Return `size` noise vectors b, one per row."""
        return self.draws(np.zeros(self.dimension)).sample(size, rng)

    def log_density(self, b: FloatArray) -> FloatArray:
        """Return the log-density at each row of `b`: shape (size,)."""
        return self.log_density_of_length(np.sqrt(np.einsum("ij,ij->i", b, b)))

    def log_density_of_length(self, length: FloatArray) -> FloatArray:
        """Return the log-density at vectors of the given lengths |b|, on which alone the density
        depends.

        At length 0 the value is infinite if the law is singular.
        """
        d, c = self.dimension, self.rate
        if self.kind == "gaussian":
            return d * (math.log(c) - 0.5 * math.log(2.0 * math.pi)) - 0.5 * (c * length) ** 2
        log_area = math.log(2.0) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)
        if self.kind == "gamma" or d == 1:
            return d * math.log(c) - c * length - math.lgamma(d) - log_area
        with np.errstate(divide="ignore"):
            return np.asarray(math.log(c) - c * length - (d - 1) * np.log(length) - log_area)


@jit
def round_to_grid(value: float, grid: float) -> float:
    """Return the nearest multiple of `grid` if `grid` is positive; otherwise return `value`.

    Rounding is post-processing, after which the low bits reveal no more than the rounded value.
    """
    return float(np.rint(value / grid) * grid) if grid > 0 else value


@jit
def fill_spherical(
    kind: int, rate: float, center: FloatArray, grid: float, out: FloatArray, rng: Generator
) -> None:
    """Fill the rows of `out` with center + b, rounded to multiples of `grid` if `grid`
    is positive.
    """
    size, d = out.shape
    scale = 1.0 / rate
    for i in range(size):
        if d == 1 and kind != GAUSSIAN:
            # The difference of two exponentials is a Laplace variable and needs no draw for the
            # sign.
            out[i, 0] = round_to_grid(
                center[0] + scale * (rng.standard_exponential() - rng.standard_exponential()), grid
            )
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
            out[i, j] = round_to_grid(center[j] + factor * out[i, j], grid)
