"""Selection of the groups of weights that the data need, by the evidence, from one fit of all groups.

The log-likelihood is approximated by its quadratic expansion at the fit, so that the evidence of every subset of the groups takes small
matrices only. Precisions learned for all groups together keep groups of no use: each adds the noise of its weights to the score.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.statistics.regression import MAX_PRECISION, MIN_PRECISION, Fit
from dpwitness.mechanisms.protocols.mechanism import FloatArray

_GROUP_COST = 1.0  # log prior odds against a group
_LEAST_SHRINKAGE = 0.1  # smallest ratio of information to prior precision of a group that is kept
_START_PRECISION = 100.0  # largest prior precision at which a group starts
_ROUNDS, _STOP_CHANGE = 8, 0.2  # maximum number of rounds; change of the logarithm of a precision at which they stop
_CONSTANT_PRECISION = 1e-4
_Chosen = tuple[int, ...]


@dataclass(slots=True)
class _Subsets:
    """Evidence of subsets of the groups, given the quadratic expansion of the log-likelihood: its curvature and its linear part."""

    curvature: FloatArray
    linear: FloatArray
    group: NDArray[np.intp]  # group of each weight but the first, which is the constant
    _known: dict[_Chosen, tuple[float, FloatArray]] = field(default_factory=dict)

    def value(self, chosen: _Chosen, start: FloatArray) -> float:
        """Return the log evidence of a subset minus the cost of its groups, at precisions that maximize it from `start` (of all groups)."""
        if chosen not in self._known:
            self._known[chosen] = self._maximized(np.array(chosen, dtype=np.intp), start)
        return self._known[chosen][0]

    def averaged(self, groups: int) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the groups whose weights the priors do not shrink to nothing, and their precisions, averaged over all known subsets."""
        log_weight = np.array([value for value, _ in self._known.values()])
        weight, variance = np.exp(log_weight - log_weight.max()), np.zeros(groups)
        for share, (chosen, (_, precision)) in zip(weight / weight.sum(), self._known.items(), strict=True):
            variance[list(chosen)] += share / precision[list(chosen)]
        information = np.bincount(self.group, np.diag(self.curvature)[1:], groups) / np.bincount(self.group, minlength=groups)
        kept = np.flatnonzero(variance * information > _LEAST_SHRINKAGE)
        return kept, 1 / variance[kept]

    def precision(self, chosen: _Chosen) -> FloatArray:
        """Return the precisions of all groups that maximize the evidence of this subset, whose value is known."""
        return self._known[chosen][1]

    def _maximized(self, chosen: NDArray[np.intp], start: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and the precisions by MacKay's fixed point."""
        at = np.flatnonzero(np.isin(self.group, chosen)) + 1
        place = np.searchsorted(chosen, self.group[at - 1])
        at = np.append(0, at)
        curvature, linear, size = self.curvature[np.ix_(at, at)], self.linear[at], np.bincount(place, minlength=len(chosen))
        best, best_precision, precision = -np.inf, start, start[chosen]
        for _ in range(_ROUNDS):
            prior = np.append(_CONSTANT_PRECISION, precision[place])
            posterior = curvature + np.diag(prior)
            inverse = np.linalg.inv(posterior)
            weights = inverse @ linear
            log_determinant = float(np.linalg.slogdet(posterior)[1] - np.log(prior).sum())
            found = 0.5 * float(linear @ weights) - 0.5 * log_determinant - _GROUP_COST * len(chosen)
            if found > best:
                best, best_precision = found, start.copy()
                best_precision[chosen] = precision
            determined = size - precision * np.bincount(place, np.diag(inverse)[1:], len(chosen))
            square = np.bincount(place, weights[1:] ** 2, len(chosen))
            new = np.clip((np.maximum(determined, 0.0) + 0.02) / (square + 2e-6), MIN_PRECISION, MAX_PRECISION)
            if np.max(np.abs(np.log(new / precision)), initial=0.0) < _STOP_CHANGE:
                break
            precision = new
        return best, best_precision


def select_groups(fit: Fit, group: NDArray[np.intp], precision: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the groups that the data may need, and their prior precisions, given a fit of all groups with these precisions.

    Two searches add and remove one group at a time: from no group, and from all groups. The subsets on their paths and next to them are
    averaged by their evidence: a group's prior variance is its mean over the subsets, of which those without the group have variance 0.
    """
    prior = np.append(_CONSTANT_PRECISION, precision[group])
    subsets = _Subsets(fit.information, fit.information @ fit.weights + prior * fit.weights, group)
    begin = np.minimum(precision, _START_PRECISION)
    for start in ((), tuple(range(len(precision)))):
        _climb(subsets, start, begin)
    return subsets.averaged(len(precision))


def _climb(subsets: _Subsets, chosen: _Chosen, begin: FloatArray) -> None:
    """Evaluate subsets up to one at which neither adding nor removing a group raises the evidence."""
    value = subsets.value(chosen, begin)
    while True:
        start = subsets.precision(chosen)
        neighbors = [tuple(sorted(set(chosen) ^ {each})) for each in range(len(begin))]
        best = max(neighbors, key=lambda each: subsets.value(each, start))
        if subsets.value(best, start) <= value:
            return
        chosen, value = best, subsets.value(best, start)
