"""Draws from finite distributions by inverse cumulative sums, alias tables and counts, and
`SoftmaxDraw`, one draw as a mechanism.

Walker (1977) and Vose (1991) for alias tables. A draw uses one 53-bit uniform: categories of
probability below 2^-53 are never drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpwitness.core import InvalidArgument
from dpwitness.core.balls.ball import Ball, Box, FiniteSupport, log_mass_of_index, softmax
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols import FloatArray, one_law
from dpwitness.core.values.validation import require, short_repr

IntArray = NDArray[np.int64]


def log_softmax(logits: FloatArray) -> FloatArray:
    """Return log-probabilities proportional to exp(logits) along the last axis, exact also where
    exp would overflow.
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def cumulative(log_probabilities: FloatArray) -> FloatArray:
    """Return cumulative sums of the probabilities along the last axis, ending in exactly 1."""
    sums = np.cumsum(np.exp(log_probabilities), axis=-1)
    sums /= sums[..., -1:]
    return np.ascontiguousarray(sums)


@jit
def draw_index(sums: FloatArray, uniform: float) -> int:
    """Return the first index whose cumulative sum exceeds `uniform`."""
    if sums.size <= 16:  # counting without branches beats bisection on short rows
        index = 0
        for j in range(sums.size - 1):
            index += uniform >= sums[j]
        return index
    low, high = 0, sums.size - 1
    while low < high:
        middle = (low + high) // 2
        if uniform >= sums[middle]:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def fill_indices(sums: FloatArray, out: FloatArray, rng: np.random.Generator) -> None:
    """Fill rows of `out` with indices; column t is drawn from row t of the (T, p)
    cumulative sums.
    """
    for i in range(len(out)):
        for t in range(len(sums)):
            out[i, t] = draw_index(sums[t], rng.random())


def index_draws(log_probabilities: FloatArray) -> Draws:
    """Return the sampler of T indices, the t-th drawn from row t of the (T, p)
    log-probabilities.
    """
    return Draws(fill_indices, (cumulative(log_probabilities),), len(log_probabilities))


@jit
def alias_table(probabilities: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the acceptance thresholds and aliases of Vose's method.

    A draw of column j keeps j with probability `keep[j]` and is replaced by `other[j]` otherwise.
    """
    p = probabilities.size
    keep = probabilities * p / probabilities.sum()
    other = np.arange(p)
    small, large = np.empty(p, dtype=np.int64), np.empty(p, dtype=np.int64)
    smalls, larges = 0, 0
    for j in range(p):
        if keep[j] < 1.0:
            small[smalls] = j
            smalls += 1
        else:
            large[larges] = j
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        poor, rich = small[smalls], large[larges - 1]
        other[poor] = rich
        keep[rich] -= 1.0 - keep[poor]
        if keep[rich] < 1.0:
            larges -= 1
            small[smalls] = rich
            smalls += 1
    for j in range(larges):  # the remaining thresholds differ from 1 by rounding only
        keep[large[j]] = 1.0
    for j in range(smalls):
        keep[small[j]] = 1.0
    return keep, other


@jit
def fill_frequencies(
    probabilities: FloatArray,
    tails: FloatArray,
    keep: FloatArray,
    other: IntArray,
    draws: int,
    out: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Fill rows of `out` with the frequencies of `draws` independent draws each.

    `tails[j]` is the sum of the probabilities from j on. `keep` and `other` are the alias table of
    the probabilities.
    """
    p = probabilities.size
    counts = np.empty(p, dtype=np.int64)
    by_alias = draws <= 8 * p  # a draw by alias costs about an eighth of a binomial
    for i in range(len(out)):
        counts[:] = 0
        if by_alias:
            for _ in range(draws):
                place = rng.random() * p
                j = int(place)
                accepted = int(place - j < keep[j])
                counts[other[j] + accepted * (j - other[j])] += 1
        else:
            remaining = draws
            for j in range(p - 1):
                if remaining == 0:
                    break
                share = min(1.0, probabilities[j] / tails[j]) if tails[j] > 0.0 else 0.0
                counts[j] = rng.binomial(remaining, share)
                remaining -= counts[j]
            counts[p - 1] += remaining
        for j in range(p):
            out[i, j] = counts[j] / draws


def frequency_draws(probabilities: FloatArray, draws: int) -> Draws:
    """Return the sampler of frequencies among `draws` independent draws from p probabilities."""
    return Draws(
        fill_frequencies,
        (
            probabilities,
            np.ascontiguousarray(np.cumsum(probabilities[::-1])[::-1]),
            *alias_table(probabilities),
            int(draws),
        ),
        len(probabilities),
    )


def sum_of_entries(table: FloatArray, outputs: FloatArray) -> FloatArray:
    """Return the sum over t of table[t, outputs[i, t]] for each row i; minus infinity where an
    entry is not a column of the table.
    """
    valid = (outputs >= 0) & (outputs < table.shape[1]) & (outputs == np.floor(outputs))
    return np.asarray(
        np.where(
            valid,
            table[np.arange(len(table)), np.where(valid, outputs, 0).astype(np.int64)],
            -np.inf,
        ).sum(axis=1)
    )


def output_rows(outputs: Any, width: int, owner: str) -> FloatArray:
    """Return `outputs` as a C-contiguous (size, width) float64 array; raise InvalidArgument for
    another shape.
    """
    rows = np.ascontiguousarray(outputs, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise InvalidArgument(f"{owner}: outputs must have shape (size, {width}), got {rows.shape}")
    return rows


@one_law
@dataclass(frozen=True, slots=True)
class SoftmaxDraw(SampledByDraws, FiniteSupport):
    """One index drawn with probability proportional to exp(dataset[j]), a factor of the mechanisms
    that release several such draws.

    Parameters
    ----------
    actions : int
        Number of indices. The dataset is a vector of `actions` log-weights.

    Examples
    --------
    >>> SoftmaxDraw(2).log_density(np.array([[0.0]]), np.array([0.0, 0.0])).round(4)
    array([-0.6931])
    """

    actions: int

    def __post_init__(self) -> None:
        require(self).integer("actions")

    def draws(self, dataset: FloatArray) -> Draws:
        """Return the sampler of an index."""
        return index_draws(self._table(dataset))

    def log_density(self, outputs: FloatArray, dataset: FloatArray) -> FloatArray:
        """Return the exact log-probability of each row."""
        return sum_of_entries(self._table(dataset), output_rows(outputs, 1, "SoftmaxDraw"))

    def log_density_ball(self, boxes: Sequence[Box], dataset: FloatArray) -> list[Ball]:
        """Enclose the log-probability of the index in each box."""
        return log_mass_of_index(
            softmax([arb(x) for x in np.asarray(dataset, dtype=np.float64).tolist()]), boxes
        )

    def support(self, dataset: FloatArray) -> FloatArray:
        """Return every index, of shape (p, 1)."""
        return np.arange(self._table(dataset).shape[1], dtype=np.float64)[:, None]

    def _table(self, dataset: FloatArray) -> FloatArray:
        """Return the normalized log-probabilities, of shape (1, actions); raise InvalidArgument for
        invalid log-weights.
        """
        weights = np.asarray(dataset, dtype=np.float64)
        if weights.shape != (self.actions,) or not np.all(np.isfinite(weights)):
            raise InvalidArgument(
                f"SoftmaxDraw: dataset must be {self.actions} finite log-weights, got "
                f"{short_repr(dataset)}"
            )
        return log_softmax(weights[None, :])
