"""Isotropic noise in R^d: the length follows a given law and the direction is uniform on the
sphere.

Chaudhuri and Monteleoni (2008) print a Laplace law for the length. Chaudhuri, Monteleoni and
Sarwate (2011) and Jain and Thakurta (2014) use a Gamma law, for which the density is proportional
to exp(-rate |b|). The two laws agree in dimension 1 only (claim CM-05).

Also Laplace and Gaussian draws from the state of an SFC64 generator, whose words stay in registers:
the numbers of `Generator`, bit for bit. A kernel that calls a `Generator` calls a function for each
word of 64 random bits. The kernels here compute the words themselves (numpy/random/src/sfc64), with
the ziggurat method and the tables of NumPy and Numba (numpy/random/src/distributions).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpwitness.core.numerics.draws import Draws, State
from dpwitness.core.numerics.jit import jit, jit_with
from dpwitness.core.protocols import FloatArray
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


# -- draws from the state of a generator
# --------------------------------------------------------------------------------------------------

tables: Any
try:  # a private module of Numba: without its tables, kernels draw from the Generator
    from numba.np.random import _constants as tables
except ImportError:
    tables = None

Word = Any  # an unsigned integer of 64 bits


def _table(name: str) -> NDArray[Any]:
    return np.asarray(getattr(tables, name, np.zeros(1)))


def _number(name: str) -> float:
    return float(getattr(tables, name, 0.0))


_ONE, _THREE, _NINE, _ELEVEN = (np.uint64(number) for number in (1, 3, 9, 11))
_SEVENTEEN, _TWENTY_FOUR, _FORTY = (np.uint64(number) for number in (17, 24, 40))
_BYTE, _SIGN, _FRACTION = np.uint64(2**8 - 1), np.uint64(2**8), np.uint64(2**52 - 1)
_UNIT = 2.0**-53
_NORMAL_X, _NORMAL_K, _NORMAL_F = _table("wi_double"), _table("ki_double"), _table("fi_double")
_NORMAL_END, _NORMAL_INVERSE_END = _number("ziggurat_nor_r"), _number("ziggurat_nor_inv_r")
_EXPONENTIAL_X, _EXPONENTIAL_K, _EXPONENTIAL_F = (
    _table("we_double"),
    _table("ke_double"),
    _table("fe_double"),
)
_EXPONENTIAL_END = _number("ziggurat_exp_r")


@jit_with(inline="always")
def _next(a: Word, b: Word, c: Word, count: Word) -> tuple[Word, Word, Word, Word, Word]:
    """Return the next random word, and the words of the state after it."""
    word = a + b + count
    return (
        word,
        b ^ (b >> _ELEVEN),
        c + (c << _THREE),
        ((c << _TWENTY_FOUR) | (c >> _FORTY)) + word,
        count + _ONE,
    )


@jit
def _exponential_tail(
    layer: Word, x: float, a: Word, b: Word, c: Word, count: Word
) -> tuple[float, Word, Word, Word, Word]:
    """Return an exponential draw after `x`, whose word is beyond the core of its layer, and the
    words of the state after it.
    """
    while True:
        word, a, b, c, count = _next(a, b, c, count)
        if layer == 0:
            return _EXPONENTIAL_END - np.log1p(-((word >> _ELEVEN) * _UNIT)), a, b, c, count
        low = _EXPONENTIAL_F[layer]
        if (_EXPONENTIAL_F[layer - _ONE] - low) * ((word >> _ELEVEN) * _UNIT) + low < np.exp(-x):
            return x, a, b, c, count
        word, a, b, c, count = _next(a, b, c, count)
        layer, word = (word >> _THREE) & _BYTE, word >> _ELEVEN
        x = word * _EXPONENTIAL_X[layer]
        if word < _EXPONENTIAL_K[layer]:
            return x, a, b, c, count


@jit
def _normal_tail(
    layer: Word, bits: Word, x: float, a: Word, b: Word, c: Word, count: Word
) -> tuple[float, Word, Word, Word, Word]:
    """Return a normal draw after `x` of the word `bits`, which is beyond the core of its layer, and
    the words of the state after it.
    """
    while True:
        if layer == 0:
            while True:
                first, a, b, c, count = _next(a, b, c, count)
                second, a, b, c, count = _next(a, b, c, count)
                beyond = -_NORMAL_INVERSE_END * np.log1p(-((first >> _ELEVEN) * _UNIT))
                other = -np.log1p(-((second >> _ELEVEN) * _UNIT))
                if other + other > beyond * beyond:
                    x = _NORMAL_END + beyond
                    return -x if (bits >> _SEVENTEEN) & _ONE else x, a, b, c, count
        word, a, b, c, count = _next(a, b, c, count)
        low = _NORMAL_F[layer]
        if (_NORMAL_F[layer - _ONE] - low) * ((word >> _ELEVEN) * _UNIT) + low < np.exp(
            -0.5 * x * x
        ):
            return x, a, b, c, count
        bits, a, b, c, count = _next(a, b, c, count)
        layer, size = bits & _BYTE, (bits >> _NINE) & _FRACTION
        x = size * _NORMAL_X[layer]
        x = -x if bits & _SIGN else x
        if size < _NORMAL_K[layer]:
            return x, a, b, c, count


@jit
def fill_laplace_from_state(
    center: FloatArray, scale: float, out: FloatArray, state: State
) -> None:
    """Fill the rows of `out` as `laplace_laws.fill_laplace` does."""
    a, b, c, count = state[0], state[1], state[2], state[3]
    numbers, width, column, middle = out.reshape(out.size), center.size, 0, center[0]
    for start in range(0, out.size, 32):
        word, a, b, c, count = _next(a, b, c, count)
        coins = np.int64((word >> _ELEVEN) * _UNIT * 4294967296.0)
        for i in range(start, min(start + 32, out.size)):
            word, a, b, c, count = _next(a, b, c, count)
            layer, word = (word >> _THREE) & _BYTE, word >> _ELEVEN
            noise = word * _EXPONENTIAL_X[layer]
            if word >= _EXPONENTIAL_K[layer]:
                noise, a, b, c, count = _exponential_tail(layer, noise, a, b, c, count)
            numbers[i] = middle + scale * ((2 * (coins & 1) - 1) * noise)
            coins >>= 1
            if width > 1:
                column = column + 1 if column + 1 < width else 0
                middle = center[column]
    state[0], state[1], state[2], state[3] = a, b, c, count


@jit
def fill_gaussian_from_state(
    center: float, sigma: float, step: float, out: FloatArray, state: State
) -> None:
    """Fill the rows of `out` as `additive.fill_gaussian` does."""
    a, b, c, count = state[0], state[1], state[2], state[3]
    for i in range(len(out)):
        bits, a, b, c, count = _next(a, b, c, count)
        layer, size = bits & _BYTE, (bits >> _NINE) & _FRACTION
        noise = size * _NORMAL_X[layer]
        noise = -noise if bits & _SIGN else noise
        if size >= _NORMAL_K[layer]:
            noise, a, b, c, count = _normal_tail(layer, bits, noise, a, b, c, count)
        noise *= sigma
        out[i, 0] = (center + np.floor(noise / step + 0.5)) * step if step > 0 else center + noise
    state[0], state[1], state[2], state[3] = a, b, c, count


LAPLACE_FROM_STATE = fill_laplace_from_state if tables is not None else None
GAUSSIAN_FROM_STATE = fill_gaussian_from_state if tables is not None else None
