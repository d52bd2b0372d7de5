"""Benchmark of the distribution of noise at 1e9 draws: cells of known probability, moments, and
tails to 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import SFC64, Generator
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest, chisquare, norm

from dpwitness.benchmarks.table import Row
from dpwitness.core.numerics.laplace_laws import geometric_log_mass, laplace_log_cdf
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.mechanisms import Gaussian, Geometric, Laplace

DRAWS = 10**9
SIGNIFICANT = 1e-6  # probability that a row of correct noise fails
_BLOCK_SIZE = 2**14  # values per block, which fit in the CPU cache
_CELL_COUNT = 1024
_TAIL_PROBABILITIES = np.array([1e-6, 1e-7, 1e-8, 1e-9])

Draw = Callable[[int, Generator], FloatArray]  # values of shape (size,)


@dataclass(slots=True)
class Noise:
    """Symmetric noise around 0, with the properties of its stated law."""

    name: str
    draw: Draw
    place: Callable[[FloatArray], FloatArray]  # returns the cell index of each value
    chances: FloatArray  # probability of each cell
    moments: Sequence[float]  # E X, ..., E X^8
    far: FloatArray  # thresholds of the upper tails; lower tails are mirrored
    beyond: FloatArray  # probability of each tail
    size: int = field(default=0, init=False)
    cells: FloatArray = field(init=False)
    powers: FloatArray = field(init=False)
    tails: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.cells, self.powers, self.tails = (
            np.zeros(self.chances.size),
            np.zeros(4),
            np.zeros((2, self.far.size)),
        )

    def run(self, draws: int, seed: int = 1) -> None:
        """Draw and count."""
        rng = Generator(SFC64(seed))
        for _ in range(-(-draws // _BLOCK_SIZE)):
            x = self.draw(_BLOCK_SIZE, rng)
            self.cells += np.bincount(self.place(x).astype(np.intp), minlength=self.cells.size)
            square = x * x
            self.powers += (x.sum(), square.sum(), x @ square, square @ square)
            tail_values = x[np.abs(x) >= self.far[0], None]
            self.tails += [
                (tail_values >= self.far).sum(axis=0),
                (tail_values <= -self.far).sum(axis=0),
            ]
            self.size += _BLOCK_SIZE

    def p_values(self) -> dict[str, float]:
        """Return p-values of the cells, of the worst moment, and of the worst tail (exact binomial
        test), Bonferroni-corrected.
        """
        stated_moments = np.array(self.moments)
        spread = np.sqrt((stated_moments[1::2] - stated_moments[:4] ** 2) / self.size)
        worst_deviation = np.max(np.abs(self.powers / self.size - stated_moments[:4]) / spread)
        tails = [
            binomtest(int(k), self.size, p).pvalue
            for side in self.tails
            for k, p in zip(side, self.beyond, strict=True)
        ]
        return {
            "chi-square": float(chisquare(self.cells, self.size * self.chances).pvalue),
            "first four moments": min(1.0, 8 * float(norm.sf(worst_deviation))),
            "tails to 1e-9": min(1.0, len(tails) * float(min(tails))),
        }


def density(
    name: str,
    draw: Draw,
    cdf: Callable[[FloatArray], FloatArray],
    far: FloatArray,
    moments: Sequence[float],
) -> Noise:
    """Return noise with a density, with cells of equal probability."""
    equal_probabilities = np.full(_CELL_COUNT, 1.0 / _CELL_COUNT)
    return Noise(
        name,
        draw,
        lambda x: np.minimum(cdf(x) * _CELL_COUNT, _CELL_COUNT - 1),
        equal_probabilities,
        moments,
        far,
        _TAIL_PROBABILITIES,
    )


def integer_noise(name: str, draw: Draw, log_mass: Callable[[FloatArray], FloatArray]) -> Noise:
    """Return integer noise, with a cell for each integer of mass above 1e-7, and one cell for each
    remaining tail.
    """
    integers = np.arange(1.0, 1001.0)
    mass, zero_mass = np.exp(log_mass(integers)), math.exp(log_mass(np.zeros(1))[0])
    upper = np.cumsum(mass[::-1])[::-1]  # P(X >= k), k = 1, 2, ...
    last_cell = int(np.sum(mass > 1e-7)) + 1
    half = np.append(mass[: last_cell - 1], upper[last_cell - 1])
    far = np.array([np.argmax(upper <= tail) for tail in _TAIL_PROBABILITIES])
    moments = [0.0 if k % 2 else float(2 * (mass * integers**k).sum()) for k in range(1, 9)]
    chances = np.concatenate([half[::-1], [zero_mass], half])
    return Noise(
        name,
        draw,
        lambda x: np.clip(x, -last_cell, last_cell) + last_cell,
        chances / chances.sum(),
        moments,
        integers[far],
        upper[far],
    )


def noises() -> list[Noise]:
    """Return a `Noise` for each jitted mechanism."""
    zero, laplace, gaussian, geometric = (
        np.zeros(1),
        Laplace(1.0),
        Gaussian(1.0, 1e-5),
        Geometric(1.0),
    )
    normal = (0.0, 1.0, 0.0, 3.0, 0.0, 15.0, 0.0, 105.0)
    return [
        density(
            "Laplace",
            lambda size, rng: laplace.sample(zero, size, rng).ravel(),
            lambda x: np.exp(laplace_log_cdf(x, 1.0)),
            -np.log(2 * _TAIL_PROBABILITIES),
            [0.0 if k % 2 else float(math.factorial(k)) for k in range(1, 9)],
        ),
        density(
            "Gaussian",
            lambda size, rng: gaussian.sample(zero, size, rng).ravel() / gaussian.sigma,
            ndtr,
            -ndtri(_TAIL_PROBABILITIES),
            normal,
        ),
        integer_noise(
            "geometric",
            lambda size, rng: geometric.sample(zero, size, rng).ravel(),
            lambda k: geometric_log_mass(k, 1.0),
        ),
    ]


def rows(draws: int = DRAWS) -> list[Row]:
    """Draw and test all noise, and return three rows per law."""
    found = []
    for noise in noises():
        noise.run(draws)
        found += [
            Row(f"{noise.name} noise, {draws:.0e} draws: {label}", SIGNIFICANT, p, "p-value")
            for label, p in noise.p_values().items()
        ]
    return found
