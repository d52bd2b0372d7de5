"""Laplace and Gaussian draws from the state of an SFC64 generator, whose words stay in registers:
the numbers of `Generator`, bit for bit.

A kernel that calls a `Generator` calls a function for each word of 64 random bits. Kernels here
compute the words themselves (numpy/random/src/sfc64), with the ziggurat method and the tables of
NumPy and Numba (numpy/random/src/distributions).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.numerics.draws import State
from dpwitness.core.numerics.jit import jit, jit_with
from dpwitness.core.protocols.mechanism import FloatArray

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
