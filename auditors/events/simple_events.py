"""Certificates of simple events that rank pairs: intervals of a column, and values that occur on one side only."""

from __future__ import annotations

import numpy as np

from dpwitness.auditors.events.outputs import Training
from dpwitness.auditors.events.posterior import CertificateGoal
from dpwitness.auditors.statistics.certificate import wilson_lower
from dpwitness.mechanisms.privacy import Claim

FEW_ALPHA = 1e-5  # error probability of these certificates: so small that the largest of many pairs and events is seldom due to chance
_SCANNED_CELLS = 40  # maximum number of cells of a column, between whose ends lie the intervals that are compared
_MAX_SCANNED = 64  # maximum number of columns whose intervals are compared
_MAX_POOLED = 2**20  # maximum number of entries of a pair's outputs in which values of one side only are sought
_POOLED_DEVIATIONS = 1.5  # standard deviations by which the share of right guesses from such values is reduced: the best of many is chance


def best_interval(data: Training, claim: Claim, rounds: int) -> float:
    """Return the largest parameter that `rounds` runs would certify from an interval of one column, or from all outputs outside of it.

    Its error probability is so small that noise seldom leads.
    """
    rates = [np.zeros((2, 0))]
    sides = [np.flatnonzero(data.label), np.flatnonzero(~data.label)]
    for column in data.matrix[:, data.varying[:_MAX_SCANNED]].T:
        _, value = np.unique(np.where(np.isnan(column), np.inf, column), return_inverse=True)
        rank = np.cumsum(np.bincount(value))
        levels = rank if len(rank) <= _SCANNED_CELLS else np.linspace(0, len(value), _SCANNED_CELLS + 1)[1:]
        ends = np.unique(np.searchsorted(rank, levels))
        counts = np.array([np.append(0, np.cumsum(np.bincount(value[side], minlength=len(rank)))[ends]) for side in sides])
        below = counts / np.maximum(counts[:, -1:], 1)
        first, last = np.triu_indices(below.shape[1], 1)
        inside = below[:, last] - below[:, first]
        rates += [inside, 1 - inside, inside[::-1], 1 - inside[::-1]]
    right, wrong = 0.5 * np.concatenate(rates, axis=1)
    goal = CertificateGoal(claim, FEW_ALPHA, rounds)
    return float(goal.value(right, wrong, 1).max(initial=0.0))


def best_one_sided(data: Training, goal: CertificateGoal) -> float:
    """Return the largest parameter that the later test would certify from values that occur on one side only, in any column.

    Such a value, as the name of one record, certifies more the more often it occurs, so a few occurrences in a pilot count for the many in
    the test. Each half of the outputs tells which values, and how often they occur, for the other half: a value that has no copy there,
    such as a number with noise, counts nothing.
    """
    varying = [j for j in data.varying if j > 0]  # not the structure: each set of keys is another one
    matrix = data.matrix[: _MAX_POOLED // max(len(varying), 1), varying]
    label = data.label[: len(matrix)]
    _, value = np.unique(np.where(np.isnan(matrix), np.inf, matrix), return_inverse=True)
    value = value.reshape(matrix.shape)
    score = np.zeros(len(matrix))
    for half in (0, 1):
        ones, zeros = (np.bincount(value[half::2][label[half::2] == side].ravel(), minlength=value.size) for side in (True, False))
        votes = np.where(zeros == 0, ones, 0) - np.where(ones == 0, zeros, 0)
        there = votes[value[1 - half :: 2]]
        most, least = there.max(axis=1, initial=0), there.min(axis=1, initial=0)
        score[1 - half :: 2] = np.where(most >= -least, most, least)
    best = 0.0
    for toward, other in ((score[label], score[~label]), (-score[~label], -score[label])):
        least = np.unique(toward[toward > 0])
        right, wrong = (np.count_nonzero(side[:, None] >= least, axis=0) for side in (toward, other))
        share = wilson_lower(right / (right + wrong), right + wrong, _POOLED_DEVIATIONS)
        rate = (right + wrong) / len(matrix)
        best = max(best, float(goal.value(rate * share, rate * (1 - share), 1).max(initial=0.0)))
    return best
