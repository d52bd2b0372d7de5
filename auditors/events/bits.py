"""Events of the float bits: what the lowest set bits of an output say, apart from its value (Mironov 2012).

A naive floating-point Laplace sample of 0 + noise has low bits that 1 + noise can never have. Which classes of (exponent, lowest set
bit) speak for which dataset is learned like any atom; outputs on a grid have the same classes on both sides. Beside sets of classes, all
outputs with a lowest set bit below some power of two are tried: classes too rare to be met in training belong to them too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import Outputs, row_keys
from dpwitness.auditors.events.rules import Event, Lattice, LowBits, lattice, lowest_bits
from dpwitness.auditors.statistics.certificate import certified
from dpwitness.mechanisms.terms.notions import Claim

_COLUMNS = 8  # of a wide output, as many as this are looked at
_ROWS = 2**16


def floating(outputs1: Outputs, outputs0: Outputs, first: int = 0) -> bool:
    """Whether some column, from the first that is no score, holds numbers that are not all whole, which have no low bits."""
    return any(_has_bits(outputs.values[:, first:]) for outputs in (outputs1, outputs0))


def _has_bits(values: NDArray[np.float64]) -> bool:
    return not np.array_equal(values, np.rint(values), equal_nan=True)


def learn_lattice(
    outputs1: Outputs, outputs0: Outputs, claim: Claim, *, alpha: float, rounds: int, first: int = 0
) -> tuple[float, Event] | None:
    """The most telling event of bits on one column, from `first` on, and what it promises; None if no class of bits tells anything."""
    best: tuple[float, Event] | None = None
    for column in range(first, min(outputs1.values.shape[1], outputs0.values.shape[1], first + _COLUMNS)):
        x1, x0 = outputs1.values[:_ROWS, column], outputs0.values[:_ROWS, column]
        if not (_has_bits(x1) or _has_bits(x0)):
            continue
        features = np.concatenate([lattice(x1), lattice(x0)])
        _, place, inverse, counts = np.unique(row_keys(features), return_index=True, return_inverse=True, return_counts=True)
        ones = np.bincount(inverse[: len(x1)], minlength=len(place)).astype(float)
        zeros = counts - ones
        # an atom's log-ratio less two standard errors of it decides how far it is trusted
        ratio = np.log((ones + 0.5) / (len(x1) + 1)) - np.log((zeros + 0.5) / (len(x0) + 1))
        error = np.sqrt(1 / (ones + 0.5) + 1 / (zeros + 0.5))
        trusted = np.sign(ratio) * np.maximum(np.abs(ratio) - 2 * error, 0.0)
        # both sides at half of the rounds: which side happened to train more says nothing
        weight = 0.5 * rounds / np.maximum((len(x1), len(x0)), 1)
        speaks1, speaks0 = weight[0] * ones, weight[1] * zeros
        events: list[tuple[Event, float, float]] = []
        for level in np.unique(np.quantile(np.abs(trusted), np.linspace(0, 1, 25))):
            guesses = np.where(np.abs(trusted) >= max(level, 1e-9), np.sign(trusted), 0.0)
            used = np.flatnonzero(guesses)
            if len(used) == 0:
                continue
            named1, named0 = used[guesses[used] > 0], used[guesses[used] < 0]
            classes = Lattice(column, features[place[used]], guesses[used])
            events.append((classes, speaks1[named1].sum() + speaks0[named0].sum(), speaks0[named1].sum() + speaks1[named0].sum()))
        low = lowest_bits(features[place])
        for below in np.unique(low[np.isfinite(low)])[1:]:
            inside = speaks1[low < below].sum(), speaks0[low < below].sum()
            events.append((LowBits(column, float(below), 1 if inside[0] > inside[1] else -1), max(inside), min(inside)))
        for event, correct, wrong in events:
            more = min(wrong + weight.max(), rounds - correct)  # one wrong guess more, but no more guesses than rounds
            value = float(certified(claim, correct, max(wrong, more), rounds, alpha, event.directions))
            if best is None or value > best[0]:
                best = (value, event)
    return best
