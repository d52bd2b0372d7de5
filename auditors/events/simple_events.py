"""Simple events: intervals of a column, values that occur on one side only, and float bits,
whatever the value (Mironov 2012).

The first two only rank pairs.

A naive floating-point Laplace sample of 0 + noise has low bits that 1 + noise can never have. The
training data show which classes of (exponent, lowest set bit) are more frequent on which dataset,
as for atoms. Outputs on a grid have the same classes on both sides. In addition to sets of classes,
the search tries all outputs with a lowest set bit below some power of two. These events include
classes that are too rare to occur in the training data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.outputs import Outputs, Training, row_keys
from dpwitness.auditors.events.posterior import CertificateGoal
from dpwitness.auditors.events.rules import Lattice, LowBits, lattice, lowest_bit_exponents
from dpwitness.auditors.statistics.certificate import certified, wilson_lower
from dpwitness.core.claims import Claim

_MAX_COLUMNS = 8  # columns of a wide output that are searched, at most
_MAX_ROWS = 2**16
# error probability of these certificates: so small that the largest of many pairs and events is
# seldom due to chance
FEW_ALPHA = 1e-5
# maximum number of cells of a column, between whose ends lie the intervals that are compared
_SCANNED_CELLS = 40
_MAX_SCANNED = 64  # maximum number of columns whose intervals are compared


def floating(outputs1: Outputs, outputs0: Outputs, first: int = 0) -> bool:
    """Return whether a column, from column `first` on, holds a fractional number on either side.

    Columns before `first` are scores. Integers have no informative low bits.
    """
    return any(_has_bits(outputs.values[:, first:]) for outputs in (outputs1, outputs0))


def _has_bits(values: NDArray[np.float64]) -> bool:
    """Return whether some values are not integers."""
    return not np.array_equal(values, np.rint(values), equal_nan=True)


def learn_float_bits(
    outputs1: Outputs, outputs0: Outputs, claim: Claim, *, alpha: float, rounds: int, first: int = 0
) -> tuple[float, Event] | None:
    """Return the best event on the float bits of one column and its expected certificate; None if
    no class of bits is informative.

    Columns before `first` are scores and are skipped. The first element of the pair is the
    certified parameter at the expected counts of `rounds` test rounds, with error probability
    `alpha`.
    """
    best: tuple[float, Event] | None = None
    for column in range(
        first, min(outputs1.values.shape[1], outputs0.values.shape[1], first + _MAX_COLUMNS)
    ):
        x1, x0 = outputs1.values[:_MAX_ROWS, column], outputs0.values[:_MAX_ROWS, column]
        if not (_has_bits(x1) or _has_bits(x0)):
            continue
        features = np.concatenate([lattice(x1), lattice(x0)])
        _, representative, inverse, counts = np.unique(
            row_keys(features), return_index=True, return_inverse=True, return_counts=True
        )
        ones = np.bincount(inverse[: len(x1)], minlength=len(representative)).astype(float)
        zeros = counts - ones
        # shrink each log-ratio by two standard errors, so that rare classes do not lead the order
        ratio = np.log((ones + 0.5) / (len(x1) + 1)) - np.log((zeros + 0.5) / (len(x0) + 1))
        error = np.sqrt(1 / (ones + 0.5) + 1 / (zeros + 0.5))
        trusted = np.sign(ratio) * np.maximum(np.abs(ratio) - 2 * error, 0.0)
        # scale each side to half of the rounds: the training sizes of the two sides may differ
        weight = 0.5 * rounds / np.maximum((len(x1), len(x0)), 1)
        expected1, expected0 = weight[0] * ones, weight[1] * zeros
        events: list[tuple[Event, float, float]] = []
        for level in np.unique(np.quantile(np.abs(trusted), np.linspace(0, 1, 25))):
            guesses = np.where(np.abs(trusted) >= max(level, 1e-9), np.sign(trusted), 0.0)
            used = np.flatnonzero(guesses)
            if len(used) == 0:
                continue
            named1, named0 = used[guesses[used] > 0], used[guesses[used] < 0]
            classes = Lattice(column, features[representative[used]], guesses[used])
            events.append(
                (
                    classes,
                    expected1[named1].sum() + expected0[named0].sum(),
                    expected0[named1].sum() + expected1[named0].sum(),
                )
            )
        low = lowest_bit_exponents(features[representative])
        for below in np.unique(low[np.isfinite(low)])[1:]:
            below_counts = expected1[low < below].sum(), expected0[low < below].sum()
            events.append(
                (
                    LowBits(column, float(below), 1 if below_counts[0] > below_counts[1] else -1),
                    max(below_counts),
                    min(below_counts),
                )
            )
        for event, correct, wrong in events:
            # one more wrong guess, but no more guesses than rounds
            one_more_wrong = min(wrong + weight.max(), rounds - correct)
            value = float(
                certified(
                    claim, correct, max(wrong, one_more_wrong), rounds, alpha, event.directions
                )
            )
            if best is None or value > best[0]:
                best = (value, event)
    return best


def best_interval(data: Training, claim: Claim, rounds: int) -> float:
    """Return the largest parameter that `rounds` runs would certify from an interval of one column,
    or from all outputs outside of it.

    Its error probability is so small that noise seldom leads.
    """
    rates = [np.zeros((2, 0))]
    sides = [np.flatnonzero(data.label), np.flatnonzero(~data.label)]
    for column in data.matrix[:, data.varying[:_MAX_SCANNED]].T:
        _, value = np.unique(np.where(np.isnan(column), np.inf, column), return_inverse=True)
        rank = np.cumsum(np.bincount(value))
        levels = (
            rank
            if len(rank) <= _SCANNED_CELLS
            else np.linspace(0, len(value), _SCANNED_CELLS + 1)[1:]
        )
        ends = np.unique(np.searchsorted(rank, levels))
        counts = np.array(
            [
                np.append(0, np.cumsum(np.bincount(value[side], minlength=len(rank)))[ends])
                for side in sides
            ]
        )
        below = counts / np.maximum(counts[:, -1:], 1)
        first, last = np.triu_indices(below.shape[1], 1)
        inside = below[:, last] - below[:, first]
        rates += [inside, 1 - inside, inside[::-1], 1 - inside[::-1]]
    right, wrong = 0.5 * np.concatenate(rates, axis=1)
    goal = CertificateGoal(claim, FEW_ALPHA, rounds)
    return float(goal.value(right, wrong, 1).max(initial=0.0))


def best_one_sided(data: Training, goal: CertificateGoal) -> float:
    """Return the largest parameter that the later test would certify from values that occur on one
    side only, in any column.

    Such a value, as the name of one record, certifies more the more often it occurs, so a few
    occurrences in a pilot count for the many in the test. Each half of the outputs tells which
    values, and how often they occur, for the other half: a value that has no copy there, such as a
    number with noise, counts nothing.
    """
    # not the structure: each set of keys is another one
    varying = [j for j in data.varying if j > 0]
    matrix = data.matrix[: 2**20 // max(len(varying), 1), varying]
    label = data.label[: len(matrix)]
    _, value = np.unique(np.where(np.isnan(matrix), np.inf, matrix), return_inverse=True)
    value = value.reshape(matrix.shape)
    score = np.zeros(len(matrix))
    for half in (0, 1):
        ones, zeros = (
            np.bincount(value[half::2][label[half::2] == side].ravel(), minlength=value.size)
            for side in (True, False)
        )
        votes = np.where(zeros == 0, ones, 0) - np.where(ones == 0, zeros, 0)
        there = votes[value[1 - half :: 2]]
        most, least = there.max(axis=1, initial=0), there.min(axis=1, initial=0)
        score[1 - half :: 2] = np.where(most >= -least, most, least)
    best = 0.0
    for toward, other in ((score[label], score[~label]), (-score[~label], -score[label])):
        least = np.unique(toward[toward > 0])
        right, wrong = (
            np.count_nonzero(side[:, None] >= least, axis=0) for side in (toward, other)
        )
        # 1.5 standard deviations below the estimate: the best of many values is chance
        share = wilson_lower(right / (right + wrong), right + wrong, 1.5)
        rate = (right + wrong) / len(matrix)
        best = max(best, float(goal.value(rate * share, rate * (1 - share), 1).max(initial=0.0)))
    return best
