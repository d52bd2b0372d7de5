"""What the reference mechanisms share: Laplace noise as kernels and as laws, quadrature over it, and the reading of datasets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.numerics.drawing import Draws
from dpwitness.mechanisms.numerics.jit import jit
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument

_GAUSS, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(16)


def as_vector(dataset: Any, owner: str, length: int | None = None) -> FloatArray:
    """`dataset` as a contiguous vector of finite floats, of `length` entries if that is given. A scalar is a vector of one."""
    try:
        vector = np.ascontiguousarray(np.atleast_1d(np.asarray(dataset, dtype=np.float64)))
    except OverflowError:
        raise InvalidArgument(f"{owner}: dataset must hold numbers that a float can hold, got one beyond 1.8e308") from None
    except (TypeError, ValueError):
        raise InvalidArgument(f"{owner}: dataset must be a vector of numbers, got {type(dataset).__name__}") from None
    if vector.ndim != 1 or (length is not None and vector.size != length):
        wanted = "a vector" if length is None else f"a vector of {length} numbers"
        raise InvalidArgument(f"{owner}: dataset must be {wanted}, got shape {vector.shape}")
    if not np.all(np.isfinite(vector)):
        raise InvalidArgument(f"{owner}: dataset must hold finite numbers, got {vector.tolist()!r}")
    return vector


def as_whole(dataset: Any, owner: str, length: int | None = None) -> FloatArray:
    """`as_vector` for datasets of whole numbers."""
    vector = as_vector(dataset, owner, length)
    if np.any(vector != np.rint(vector)):
        raise InvalidArgument(f"{owner}: dataset must hold whole numbers, got {vector.tolist()!r}")
    return vector


def column(outputs: FloatArray) -> FloatArray:
    """Outputs of shape (size,) or (size, 1) as (size,)."""
    return np.asarray(outputs, dtype=np.float64).reshape(len(outputs))


@jit
def standard_laplace(coin: int, rng: Generator) -> float:
    """Laplace(1): an exponential with the sign of a coin, 0 or 1; one primitive of a trace (`recording/tables/dpwitness.toml`)."""
    return (2 * coin - 1) * rng.standard_exponential()


@jit
def fill_laplace(center: FloatArray, scale: float, out: FloatArray, rng: Generator) -> None:
    """Rows center + Laplace(scale): exponentials with the signs of fair coins, four times faster than Generator.laplace.

    The coins of 32 numbers are drawn together, so rows filled in blocks of a multiple of 32 equal those filled at once.
    """
    drawn, coins = 0, 0
    for i in range(len(out)):
        for j in range(center.size):
            if drawn & 31 == 0:
                coins = int(rng.random() * 4294967296.0)
            out[i, j] = center[j] + scale * standard_laplace(coins & 1, rng)
            drawn, coins = drawn + 1, coins >> 1


def laplace_draws(center: FloatArray, scale: float) -> Draws:
    """Laplace(scale) around each entry of a center."""
    return Draws(fill_laplace, (center, float(scale)), center.size)


@jit
def fair_coins(rng: Generator) -> int:
    """52 fair coins, the lowest bits, below a bit that is set: what is 1 has been used up.

    A coin for the sign of an exponential is cheaper than the second exponential of a difference; Laplace noise is either.
    """
    return int(rng.random() * 2.0**52) | 2**52


@jit
def fill_geometric(center: float, rate: float, low: float, high: float, step: float, out: FloatArray, rng: Generator) -> None:
    """Rows step * clamp(center + K), P(K = k) in proportion to a^|k|, a = e^-rate. `center`, `low`, `high` count steps.

    P(|K| >= k) = 2 a^k / (1 + a) for k >= 1: of an exponential E that is the chance of floor((E + ln(2 / (1 + a))) / rate) >= k, since
    2 / (1 + a) <= 1 / a. The sign is a fair coin; those of 32 rows are drawn together (`fill_laplace`). The noise is a whole number drawn
    without sight of the center, and sums of whole numbers below 2^53 are exact, so that the low bits of the output carry nothing.
    """
    mean, start, coins = 1.0 / rate, np.log(2.0 / (1.0 + np.exp(-rate))), 0
    for i in range(len(out)):
        if i & 31 == 0:
            coins = int(rng.random() * 4294967296.0)
        noise = (2 * (coins & 1) - 1) * np.floor((rng.standard_exponential() + start) * mean)
        coins >>= 1
        out[i, 0] = min(max(center + noise, low), high) * step


def geometric_draws(center: float, rate: float, low: float = -np.inf, high: float = np.inf, step: float = 1.0) -> Draws:
    """`step` times a whole number with two-sided geometric noise of this rate, clamped to [low, high]."""
    return Draws(fill_geometric, (float(center), float(rate), float(low), float(high), step), 1)


def laplace_log_density(x: FloatArray, scale: float) -> FloatArray:
    """Log-density at `x` of Laplace noise around 0."""
    return np.asarray(-np.abs(x) / scale - np.log(2 * scale))


def laplace_log_cdf(x: FloatArray, scale: float) -> FloatArray:
    """log P(Laplace <= x), accurate in both tails."""
    tail = -np.abs(x) / scale - np.log(2.0)
    return np.asarray(np.where(x < 0, tail, np.log1p(-np.exp(tail))))


def geometric_log_mass(k: FloatArray, rate: float) -> FloatArray:
    """log P(G1 - G2 = k) = log tanh(rate / 2) - rate |k|; minus infinity off the whole numbers."""
    return np.where(k == np.rint(k), np.log(np.tanh(rate / 2)) - rate * np.abs(k), -np.inf)


def geometric_log_cdf(k: FloatArray | float, rate: float) -> FloatArray:
    """log P(G1 - G2 <= k) for whole k: e^(rate k) / (1 + e^-rate) below zero, one minus the same of -k - 1 from there on."""
    lower = rate * np.minimum(k, -k - 1) - np.log1p(np.exp(-rate))
    return np.asarray(np.where(k < 0, lower, np.log1p(-np.exp(lower))))


def geometric_reach(rate: float) -> int:
    """Steps to either side of the center that hold all but 1e-15 of the mass."""
    return int(np.ceil(36.0 / rate)) + 1


def laplace_nodes(breaks: FloatArray, scale: float, width: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and log-weights for integrals over Laplace(scale) noise of functions that are smooth between `breaks`.

    Composite Gauss-Legendre, 16 nodes a panel, panels at most `width` wide and never across a break, 40 scales beyond the
    outermost ones: for products of a Laplace density and Laplace distribution functions the relative error is about 1e-15.
    """
    inner = np.unique(breaks)
    knots = np.concatenate([[inner[0] - 40 * scale], inner, [inner[-1] + 40 * scale]])
    edges = [np.linspace(a, b, int(np.ceil((b - a) / width)) + 1)[:-1] for a, b in pairwise(knots.tolist())]
    grid = np.concatenate([*edges, knots[-1:]])
    half, middle = np.diff(grid) / 2, (grid[1:] + grid[:-1]) / 2
    nodes = middle[:, None] + half[:, None] * _GAUSS
    return nodes.ravel(), np.log(half[:, None] * _GAUSS_WEIGHTS).ravel()
