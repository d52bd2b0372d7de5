"""Curves of the log-odds in a score, as design matrices of logistic regression on cells of the
score.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpwitness.core.protocols.mechanism import FloatArray

_TAIL = 0.12  # share of the outputs in each tail
# central shares of the outputs outside of which a plain curve is flat
_PLAIN_SHARES = (0.1, 0.3, 0.5, 1.0)
# minimum number of outputs beyond a step; its log prior weight
_LEAST_LEAK, _LEAK_WEIGHT = 12, -4.0
_UNUSUAL = 3.0  # standard deviations of chance by which the counts beyond a step must differ


def plain_curves(
    x: FloatArray, ones: FloatArray, total: FloatArray
) -> Iterator[tuple[FloatArray, float]]:
    """Yield the design matrices and log prior weights of curves with two weights.

    Lines that are flat outside of a central interval are the log-odds of a shift of normal and of
    Laplace noise, and of scores that are log-odds. A step at one end, if the counts there are
    unusual, is a rare leak. With few outputs, curves that bend freely are too uncertain to choose
    among these.
    """
    share = (np.cumsum(total) - total / 2) / total.sum()
    for central in _PLAIN_SHARES:
        low, high = (
            np.interp([(1 - central) / 2, (1 + central) / 2], share, x)
            if central < 1
            else (x[0], x[-1])
        )
        clipped = np.clip(x, low, high)
        clipped = clipped - np.average(clipped, weights=total)
        spread = np.sqrt(np.average(clipped**2, weights=total))
        if spread > 0:
            yield np.column_stack([np.ones(len(x)), clipped / spread]), 0.0
    rate, size = ones.sum() / total.sum(), float(total.sum())
    for beyond in np.exp2(-np.arange(4, max(5, np.log2(max(size / _LEAST_LEAK, 16))), 0.5)):
        for outside in (share < beyond, share > 1 - beyond):
            number = float(total[outside].sum())
            if abs(ones[outside].sum() - rate * number) > _UNUSUAL * np.sqrt(
                rate * (1 - rate) * number
            ):
                yield np.column_stack([np.ones(len(x)), outside]), _LEAK_WEIGHT


def bent_curves(x: FloatArray, total: FloatArray) -> list[tuple[FloatArray, int, int]]:
    """Return the design matrices of the curve, each with its number of bends in the bulk and in the
    tails.

    One design is straight and one is flat beyond the tails. Each has independent bends on both
    sides and, if possible, a symmetric variant with equal bends on both sides, as for additive
    noise.
    """
    rank, n = np.cumsum(total), float(total.sum())
    octaves = n / 2.0 ** np.arange(1, max(2, int(np.log2(max(n / 12, 4)))))
    octave_ranks = np.concatenate([octaves, n - octaves])
    at, which = np.unique(
        np.clip(np.searchsorted(rank, octave_ranks), 1, len(x) - 2), return_index=True
    )
    place = octave_ranks[which] / n
    above, tail = place >= 0.5, np.minimum(place, 1 - place) <= _TAIL
    hinges = []
    for k, bend in enumerate(x[at]):
        if above[k]:
            end = x[at[k + 1]] if k + 1 < len(at) else x[-1]
            hinges.append(np.maximum(x - bend, 0) / max(end - bend, 1e-3))
        else:
            end = x[at[k - 1]] if k > 0 else x[0]
            hinges.append(np.maximum(bend - x, 0) / max(bend - end, 1e-3))
    bends = np.array(hinges).T
    low = x[at[tail & ~above].max(initial=0)] if np.any(tail & ~above) else x[0]
    high = x[at[tail & above].min(initial=len(x) - 1)] if np.any(tail & above) else x[-1]
    clipped = np.clip(x, low, high)
    bulk = (
        np.column_stack([np.interp(clipped, x, column) for column in bends[:, ~tail].T])
        if np.any(~tail)
        else np.empty((len(x), 0))
    )
    one, inner, outer = np.ones(len(x)), int(np.count_nonzero(~tail)), int(np.count_nonzero(tail))
    straight = np.column_stack([one, x, bends[:, ~tail], bends[:, tail]])
    flat = np.column_stack([one, clipped, bulk, np.clip(bends[:, tail], 0, 1)])
    free = [(straight, inner, outer), (flat, inner, outer)]
    if np.any(tail != tail[::-1]) or np.count_nonzero(tail & above) * 2 != outer:
        return free
    return free + [
        (_symmetric_design(design, inner, outer), inner // 2, outer // 2)
        for design, inner, outer in free
    ]


def _symmetric_design(design: FloatArray, inner: int, outer: int) -> FloatArray:
    """Return the design matrix with one weight for each bend and its mirror image; the middle bend
    is dropped.

    The bends must be in ascending order of the score.
    """
    line, *parts = np.split(design, [2, 2 + inner], axis=1)
    halves = [
        (part[:, : part.shape[1] // 2], part[:, -(part.shape[1] // 2) :])
        for part in parts
        if part.shape[1] > 1
    ]
    return np.column_stack([line, *(upper - lower[:, ::-1] for lower, upper in halves)])
