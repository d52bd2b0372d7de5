"""Laplace and two-sided geometric noise, quadrature over the noise, and validation of vector
datasets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.numerics.draws import Draws
from dpwitness.core.numerics.jit import jit
from dpwitness.core.numerics.noise import LAPLACE_FROM_STATE
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import InvalidArgument

GAUSS, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(16)


def as_vector(dataset: Any, owner: str, length: int | None = None) -> FloatArray:
    """Return `dataset` as a contiguous vector of finite floats; a scalar becomes a vector of length
    1.

    Raises InvalidArgument if this is not possible, or if the vector does not have `length` entries.
    `owner` names the mechanism in messages.
    """
    try:
        vector = np.ascontiguousarray(np.atleast_1d(np.asarray(dataset, dtype=np.float64)))
    except OverflowError:
        raise InvalidArgument(
            f"{owner}: dataset must hold numbers that a float can hold, got one beyond 1.8e308"
        ) from None
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"{owner}: dataset must be a vector of numbers, got {type(dataset).__name__}"
        ) from None
    if vector.ndim != 1 or (length is not None and vector.size != length):
        expected_shape = "a vector" if length is None else f"a vector of {length} numbers"
        raise InvalidArgument(
            f"{owner}: dataset must be {expected_shape}, got shape {vector.shape}"
        )
    if not np.all(np.isfinite(vector)):
        raise InvalidArgument(f"{owner}: dataset must hold finite numbers, got {vector.tolist()!r}")
    return vector


def as_integer_vector(dataset: Any, owner: str, length: int | None = None) -> FloatArray:
    """Return `dataset` as `as_vector` does, and raise InvalidArgument unless all entries are
    integers.
    """
    vector = as_vector(dataset, owner, length)
    if np.any(vector != np.rint(vector)):
        raise InvalidArgument(f"{owner}: dataset must hold whole numbers, got {vector.tolist()!r}")
    return vector


def column(outputs: FloatArray) -> FloatArray:
    """Return outputs of shape (size,) or (size, 1) as an array of shape (size,)."""
    return np.asarray(outputs, dtype=np.float64).reshape(len(outputs))


@jit
def standard_laplace(coin: int, rng: Generator) -> float:
    """Return a draw from Laplace(1): a standard exponential whose sign is given by `coin`, 0 or 1.

    This function is one primitive of a trace (`recording/tables/dpwitness.toml`).
    """
    return (2 * coin - 1) * rng.standard_exponential()


@jit
def fill_laplace(center: FloatArray, scale: float, out: FloatArray, rng: Generator) -> None:
    """Fill the rows of `out` with center + Laplace(scale).

    The draws are exponentials with the signs of fair coins, four times faster than
    Generator.laplace. The coins of 32 numbers are drawn together, so that rows filled in blocks of
    a multiple of 32 equal rows filled at once.
    """
    count, coins = 0, 0
    for i in range(len(out)):
        for j in range(center.size):
            if count & 31 == 0:
                coins = int(rng.random() * 4294967296.0)
            out[i, j] = center[j] + scale * standard_laplace(coins & 1, rng)
            count, coins = count + 1, coins >> 1


def laplace_draws(center: FloatArray, scale: float) -> Draws:
    """Return the output law that adds Laplace(scale) noise to each entry of `center`."""
    return Draws(fill_laplace, (center, float(scale)), center.size, LAPLACE_FROM_STATE)


@jit
def fair_coins(rng: Generator) -> int:
    """Return 52 fair coins as the low bits of an integer, below a marker bit.

    The value 1 means that all coins are used. Laplace noise needs one exponential with a random
    sign, or a difference of two exponentials. A coin is cheaper than a second exponential.
    """
    return int(rng.random() * 2.0**52) | 2**52


@jit
def fill_geometric(
    center: float,
    rate: float,
    low: float,
    high: float,
    step: float,
    out: FloatArray,
    rng: Generator,
) -> None:
    """Fill the rows of `out` with step * clamp(center + K, low, high), K two-sided geometric.

    P(K = k) is proportional to a^|k|, where a = e^-rate. `center`, `low` and `high` are counted in
    steps. P(|K| >= k) = 2 a^k / (1 + a) for k >= 1. For an exponential E this is P(floor((E + ln(2
    / (1 + a))) / rate) >= k), since 2 / (1 + a) <= 1 / a. The sign is a fair coin; the coins of 32
    rows are drawn together (`fill_laplace`). The noise is an integer that is drawn independently of
    the center, and sums of integers below 2^53 are exact. The low bits of the output therefore
    carry no information.
    """
    mean, offset, coins = 1.0 / rate, np.log(2.0 / (1.0 + np.exp(-rate))), 0
    for i in range(len(out)):
        if i & 31 == 0:
            coins = int(rng.random() * 4294967296.0)
        noise = (2 * (coins & 1) - 1) * np.floor((rng.standard_exponential() + offset) * mean)
        coins >>= 1
        out[i, 0] = min(max(center + noise, low), high) * step


def geometric_draws(
    center: float, rate: float, low: float = -np.inf, high: float = np.inf, step: float = 1.0
) -> Draws:
    """Return the law of `step` times an integer with two-sided geometric noise of this rate,
    clamped to [low, high].
    """
    return Draws(fill_geometric, (float(center), float(rate), float(low), float(high), step), 1)


def laplace_log_density(x: FloatArray, scale: float) -> FloatArray:
    """Return the log-density at `x` of Laplace noise around 0."""
    return np.asarray(-np.abs(x) / scale - np.log(2 * scale))


def laplace_log_cdf(x: FloatArray, scale: float) -> FloatArray:
    """Return log P(Laplace(scale) <= x), accurate in both tails."""
    tail = -np.abs(x) / scale - np.log(2.0)
    return np.asarray(np.where(x < 0, tail, np.log1p(-np.exp(tail))))


def geometric_log_mass(k: FloatArray, rate: float) -> FloatArray:
    """Return log P(G1 - G2 = k) = log tanh(rate / 2) - rate |k|; minus infinity if k is not an
    integer.
    """
    return np.where(k == np.rint(k), np.log(np.tanh(rate / 2)) - rate * np.abs(k), -np.inf)


def geometric_log_cdf(k: FloatArray | float, rate: float) -> FloatArray:
    """Return log P(G1 - G2 <= k) for integer k.

    The probability is e^(rate k) / (1 + e^-rate) for k < 0, and 1 minus its value at -k - 1
    otherwise.
    """
    lower = rate * np.minimum(k, -k - 1) - np.log1p(np.exp(-rate))
    return np.asarray(np.where(k < 0, lower, np.log1p(-np.exp(lower))))


def geometric_radius(rate: float) -> int:
    """Return the number of steps on each side of the center that contains all but 1e-15 of the
    mass.
    """
    return int(np.ceil(36.0 / rate)) + 1


def laplace_nodes(breaks: FloatArray, scale: float, width: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes and log-weights of a quadrature rule over Laplace(scale) noise.

    The rule is composite Gauss-Legendre with 16 nodes for each of `laplace_panels`. For products of
    a Laplace density and Laplace distribution functions the relative error is about 1e-15.
    """
    grid = laplace_panels(breaks, scale, width)
    half, middle = np.diff(grid) / 2, (grid[1:] + grid[:-1]) / 2
    nodes = middle[:, None] + half[:, None] * GAUSS
    return nodes.ravel(), np.log(half[:, None] * GAUSS_WEIGHTS).ravel()


def laplace_panels(breaks: FloatArray, scale: float, width: float) -> FloatArray:
    """Return the ends of panels over which an integrand that is smooth between `breaks` is
    integrated.

    Panels are at most `width` wide, never cross a break, and extend 40 scales beyond the outermost
    breaks.
    """
    sorted_breaks = np.unique(breaks)
    knots = np.concatenate(
        [[sorted_breaks[0] - 40 * scale], sorted_breaks, [sorted_breaks[-1] + 40 * scale]]
    )
    edges = [
        np.linspace(a, b, int(np.ceil((b - a) / width)) + 1)[:-1]
        for a, b in pairwise(knots.tolist())
    ]
    return np.concatenate([*edges, knots[-1:]])
