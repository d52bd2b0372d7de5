"""Operating curves of a score: the share of either dataset's outputs beyond each threshold, counted or smoothed by a model.

Smoothing is what makes rare events choosable: a tail with three counts says little by itself, but much with the rest of the curve.
A model that contradicts the counts withdraws: by chi-square at `_MISFIT`, and a thousand times sooner for one that extrapolates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtr, ndtri

from dpwitness.auditors.scorers import fit_logistic

__all__ = ["Curve", "Table", "binormal", "calibrated", "counted", "fitted_odds"]

FloatArray = NDArray[np.float64]

_MISFIT = 1e-6
_STANDARD_ERRORS = 2.0  # of the fitted log-odds, held against the calibrated curve


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Scores of the two sides in at most 400 cells between equal-score boundaries, finest in the tails, in ascending order."""

    bounds: FloatArray  # thresholds between neighbouring cells
    mean: FloatArray
    ones: FloatArray
    zeros: FloatArray

    @classmethod
    def build(cls, score1: FloatArray, score0: FloatArray) -> Table:
        """Scores of the outputs on D1 and on D0."""
        pooled = np.sort(np.concatenate([score1, score0]))
        n = len(pooled)
        tail = np.unique(np.geomspace(4, n // 2 + 1, 100).astype(int))
        ranks = np.unique(np.concatenate([tail, n - tail, np.linspace(0, n, 200).astype(int)]))
        ranks = ranks[(ranks > 0) & (ranks < n)]
        ranks = np.unique(np.searchsorted(pooled, pooled[ranks], side="left"))
        ranks = ranks[ranks > 0]
        below, above = pooled[ranks - 1], pooled[ranks]
        bounds = np.where(0.5 * (below + above) < above, 0.5 * (below + above), below)  # two floats may have none between them
        starts = np.concatenate([[0], ranks]).astype(int)
        counts = np.diff(np.append(starts, n))
        ones = np.diff(np.concatenate([[0], np.searchsorted(np.sort(score1), above), [len(score1)]]))
        mean = np.add.reduceat(pooled, starts) / counts
        return cls(bounds, mean, ones.astype(float), (counts - ones).astype(float))

    @property
    def size(self) -> float:
        return float(self.ones.sum() + self.zeros.sum())

    def seen_from(self, sign: float) -> Table:
        """The table itself, or its mirror image: D0 guessed at large values of the negated score."""
        return self if sign > 0 else Table(-self.bounds[::-1], -self.mean[::-1], self.zeros[::-1], self.ones[::-1])


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Shares `right` (of our side) and `wrong` (of the other) beyond thresholds from infinity inwards."""

    sign: float
    thresholds: FloatArray
    right: FloatArray
    wrong: FloatArray

    @classmethod
    def beyond(cls, sign: float, bounds: FloatArray, right: FloatArray, wrong: FloatArray) -> Curve:
        """From thresholds in descending order of the (signed) score; the infinite one, never crossed, is put first."""
        if len(bounds) > 56:
            keep = np.unique(np.concatenate([np.geomspace(1, len(bounds), 32), np.linspace(1, len(bounds), 28)]).astype(int)) - 1
            bounds, right, wrong = bounds[keep], right[keep], wrong[keep]
        return cls(sign, sign * np.append(np.inf, bounds), np.append(0.0, right), np.append(0.0, wrong))

    def rates(self, threshold: float) -> tuple[float, float]:
        """Shares beyond any one threshold, between grid points by interpolation."""
        if not np.isfinite(threshold):
            return 0.0, 0.0
        grid = (self.sign * self.thresholds)[1:][::-1]
        at = self.sign * threshold
        if len(grid) == 0 or at > grid[-1]:
            return 0.0, 0.0
        return float(np.interp(at, grid, self.right[1:][::-1])), float(np.interp(at, grid, self.wrong[1:][::-1]))


def _above(cells: FloatArray) -> FloatArray:
    """Sum of the cells above each boundary, from the topmost boundary down."""
    return np.cumsum(cells[::-1])[:-1]


def counted(table: Table, sign: float) -> Curve:
    """The counts as they are."""
    view = table.seen_from(sign)
    ones, zeros = max(view.ones.sum(), 1.0), max(view.zeros.sum(), 1.0)
    return Curve.beyond(sign, view.bounds[::-1], _above(view.ones) / ones, _above(view.zeros) / zeros)


def binormal(table: Table, sign: float) -> Curve | None:
    """Both tails normal in the score, Phi^-1(share) = a + b t, fitted on the outer half; reaches beyond the data."""
    view = table.seen_from(sign)
    total = view.size
    share = _above(view.ones + view.zeros)[::-1] / total
    use = np.flatnonzero((share <= 0.5) & (share * total >= 30))
    if len(use) < 8:
        return None
    use = np.unique(use[np.linspace(0, len(use) - 1, 16).astype(int)])
    levels, lines, misfit = view.bounds[use], [], 0.0
    for side in (view.ones, view.zeros):
        n = side.sum()
        beyond = _above(side)[::-1][use]
        tail = (beyond + 0.5) / (n + 1)
        z = ndtri(tail)
        # 1 / standard error of z: phi(z) / sqrt(p (1 - p) / n)
        line = np.polyfit(levels, z, 1, w=np.exp(-0.5 * z**2) / np.sqrt(tail * (1 - tail)))
        expected = -np.diff(ndtr(np.polyval(line, levels)), append=0.0) * n
        misfit += float(np.sum((-np.diff(beyond, append=0.0) - expected) ** 2 / np.maximum(expected, 1.0)))
        lines.append(line)
    if lines[0][0] >= 0 or lines[1][0] >= 0 or misfit > chdtri(2 * len(levels) - 4, 1000 * _MISFIT):
        return None
    grid = np.linspace(levels[0], levels[-1] + 0.35 * (levels[-1] - levels[0]), 50)[::-1]
    return Curve.beyond(sign, grid, ndtr(np.polyval(lines[0], grid)), ndtr(np.polyval(lines[1], grid)))


def calibrated(table: Table, sign: float) -> Curve | None:
    """Counts whose labels are replaced by their fitted probability given the score, less two standard errors of the fit.

    The fit is a logistic curve in the score with nine bends: the share beyond a threshold is counted on both sides together, only
    the odds are modelled.
    """
    view = table.seen_from(sign)
    fit = _fit(view)
    if fit is None:
        return None
    features, chance, covariance = fit
    total = view.ones + view.zeros
    # mean features of what lies beyond each boundary give the standard error of its log-odds
    mean = np.cumsum((features * total[:, None])[::-1], axis=0)[:-1] / _above(total)[:, None]
    error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", mean, covariance, mean), 0.0))
    right, wrong = _above(total * chance) / view.ones.sum(), _above(total * (1 - chance)) / view.zeros.sum()
    made, odds = right + wrong, right / wrong * np.exp(-_STANDARD_ERRORS * error)
    return Curve.beyond(sign, view.bounds[::-1], made * odds / (1 + odds), made / (1 + odds))


def fitted_odds(table: Table) -> FloatArray | None:
    """Smoothed log-odds of D1 in each cell; None where the calibrated curve withdraws."""
    fit = _fit(table)
    return None if fit is None else np.asarray(np.log(fit[1]) - np.log1p(-fit[1]))


def _fit(view: Table) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Features of the cells, fitted probability of D1 in each, and covariance of the weights; None where the fit contradicts the counts."""
    total = view.ones + view.zeros
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.sqrt(np.average((view.mean - np.average(view.mean, weights=total)) ** 2, weights=total)))
    if view.size < 200 or not 0 < spread < np.inf:
        return None
    rank = np.cumsum(total) / view.size
    bends = np.unique(view.mean[np.minimum(np.searchsorted(rank, [0.01, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.99]), len(rank) - 1)])
    bends = bends[(bends > view.mean[0]) & (bends < view.mean[-1])]
    features = np.column_stack([np.full(len(total), spread), view.mean, *(np.maximum(view.mean - bend, 0) for bend in bends)]) / spread
    weights, covariance = fit_logistic(features, view.ones, view.zeros)
    chance = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
    outer = np.minimum(rank - 0.5 * total / view.size, 1 - rank + 0.5 * total / view.size)
    group = np.floor(-np.log2(np.maximum(outer, 1e-9))).astype(int) * 2 + (rank > 0.5)  # octaves of either tail
    gap = np.bincount(group, weights=view.ones - total * chance)
    variance = np.bincount(group, weights=total * chance * (1 - chance))
    gap, variance = gap[variance > 3], variance[variance > 3]
    if np.sum(gap**2 / variance) > chdtri(max(len(gap) - 5, 1), _MISFIT):
        return None
    return features, chance, covariance
