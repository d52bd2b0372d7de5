"""Operating curves of a score: the share of either dataset's outputs beyond each threshold, counted or smoothed by a model.

Smoothing is what makes rare events choosable: a tail with three counts says little by itself, but much with the rest of the curve.
The fewer parameters a model has, the nearer its best thresholds come to those of the true curve.
A model that contradicts the counts withdraws: by chi-square at `_MISFIT`, and a thousand times sooner for one that extrapolates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, ndtr, ndtri

from dpwitness.auditors.scorers import fit_logistic

__all__ = ["Curve", "Table", "binormal", "calibrated", "counted", "joint", "kinked"]

FloatArray = NDArray[np.float64]

_MISFIT = 1e-6
_STANDARD_ERRORS = 2.0  # of the fitted log-odds, held against the calibrated curve
_BENDS = [0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.975, 0.99]  # of the calibrated log-odds: ranks, by octaves
_LEVEL, _SLOPE = 1.0, 4.0  # prior deviations of the kinked log-odds: of the mean of the plateaus, and of their difference


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
    """Shares `right` (of our side) and `wrong` (of the other) beyond thresholds from infinity inwards; `error` doubts their log-ratio."""

    sign: float
    thresholds: FloatArray
    right: FloatArray
    wrong: FloatArray
    error: FloatArray

    @classmethod
    def beyond(cls, sign: float, bounds: FloatArray, right: FloatArray, wrong: FloatArray, error: FloatArray | float = 0.0) -> Curve:
        """From thresholds in descending order of the (signed) score; the infinite one, never crossed, is put first."""
        values = [right, wrong, np.broadcast_to(error, right.shape)]
        if len(bounds) > 56:
            keep = np.unique(np.concatenate([np.geomspace(1, len(bounds), 32), np.linspace(1, len(bounds), 28)]).astype(int)) - 1
            bounds, values = bounds[keep], [value[keep] for value in values]
        return cls(sign, sign * np.append(np.inf, bounds), *(np.append(0.0, value) for value in values))

    def rates(self, threshold: float) -> FloatArray:
        """(right, wrong, error) beyond any one threshold, between grid points by interpolation."""
        if not np.isfinite(threshold):
            return np.zeros(3)
        grid = (self.sign * self.thresholds)[1:][::-1]
        at = self.sign * threshold
        if len(grid) == 0 or at > grid[-1]:
            return np.zeros(3)
        return np.array([np.interp(at, grid, values[1:][::-1]) for values in (self.right, self.wrong, self.error)])


def joint(first: ArrayLike, second: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Shares of rounds guessed right and wrong by two directions together, each given by (right, wrong, error).

    Errors of the two directions are independent, so both together err less than either: a rule of two directions is doubted less.
    """
    (right1, wrong1, error1), (right0, wrong0, error0) = np.asarray(first), np.asarray(second)
    right, wrong, made1, made0 = 0.5 * (right1 + right0), 0.5 * (wrong1 + wrong0), right1 + wrong1, right0 + wrong0
    doubt = np.hypot(made1 * error1, made0 * error0) / np.maximum(made1 + made0, 1e-300)
    share = right / np.maximum(right + wrong * np.exp(doubt), 1e-300)
    return (right + wrong) * share, (right + wrong) * (1 - share)


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


def kinked(table: Table, sign: float) -> Curve | None:
    """Counts whose labels are replaced by their probability given the score: log-odds linear between two kinks, level beyond them.

    That is the law of the loss under Laplace noise, and nearly so of many a score. The probability is a posterior mean, over where
    the kinks are (any quantiles) and over whether both plateaus have one height. The spike at equal heights keeps a rule of two
    directions from being dropped for the one that looks better by chance.
    """
    chance = _chance_kinked(table)
    if chance is None:
        return None
    total = table.ones + table.zeros
    view = Table(table.bounds, table.mean, total * chance, total * (1 - chance)).seen_from(sign)
    sides = (table.ones, table.zeros)[:: int(sign)]
    return Curve.beyond(sign, view.bounds[::-1], _above(view.ones) / sides[0].sum(), _above(view.zeros) / sides[1].sum())


@lru_cache(maxsize=16)
def _chance_kinked(table: Table) -> FloatArray | None:
    """Probability of D1 in each cell; None where the model contradicts the counts."""
    x, ones, total = table.mean, table.ones, table.ones + table.zeros
    if table.size < 200 or not np.isfinite(x).all() or not 0 < ones.sum() < table.size:
        return None
    rank = (np.cumsum(total) - 0.5 * total) / table.size
    inner = np.linspace(0.05, 0.95, int(np.clip(table.size ** (1 / 3) / 1.5, 9, 37)))  # kinks are found to n^(-1/3), about
    tails = np.array([0.003, 0.01, 0.02, 0.035])
    knots = np.unique(np.concatenate([x[[0, -1]], np.interp(np.concatenate([tails, inner, 1 - tails]), rank, x)]))
    if len(knots) < 2:
        return None
    i, j = np.triu_indices(len(knots), 1)
    left, right = knots[i][:, None], knots[j][:, None]
    feature = (np.clip(x, left, right) - left) / (right - left) - 0.5
    base = np.log(ones.sum() / table.zeros.sum())
    evidence, chances = [], []
    for free in (0.0, 1.0):  # whether the heights of the plateaus differ
        level, slope = np.zeros((2, len(i)))
        for _ in range(8):  # Newton's method, on all models at once
            p = 1 / (1 + np.exp(-np.clip(base + level[:, None] + slope[:, None] * feature, -30, 30)))
            spread, rest = total * p * (1 - p), ones - total * p
            first, second = rest.sum(1) - level / _LEVEL**2, (rest * feature).sum(1) - slope / _SLOPE**2
            h0, h1, h2 = spread.sum(1) + _LEVEL**-2, free * (spread * feature).sum(1), (spread * feature**2).sum(1) + _SLOPE**-2
            det = h0 * h2 - h1**2
            steps = np.clip([free * (h2 * first - h1 * second) / det, (h0 * second - h1 * first) / det], -3, 3)
            level, slope = level + steps[0], slope + steps[1]
            if np.abs(steps).max() < 1e-4:
                break
        odds = np.clip(base + level[:, None] + slope[:, None] * feature, -30, 30)
        fit = (ones * odds - total * np.logaddexp(0, odds)).sum(1) - 0.5 * (level / _LEVEL) ** 2 - 0.5 * (slope / _SLOPE) ** 2
        evidence.append(fit - 0.5 * np.log(det * _LEVEL**2 if free else h2))  # Laplace's approximation
        chances.append(1 / (1 + np.exp(-odds)))
    weight = np.exp(np.concatenate(evidence) - np.max(evidence))
    chance = np.asarray(weight / weight.sum() @ np.concatenate(chances))
    return None if _contradicted(table, chance, 3, 1000 * _MISFIT) else chance


def _contradicted(table: Table, chance: FloatArray, parameters: int, level: float) -> bool:
    """Whether the probabilities of D1 contradict the counts, by chi-square over octaves of either tail."""
    total = table.ones + table.zeros
    rank = np.cumsum(total) / table.size
    outer = np.minimum(rank - 0.5 * total / table.size, 1 - rank + 0.5 * total / table.size)
    octave = np.floor(-np.log2(np.maximum(outer, 1e-9))).astype(int) * 2 + (rank > 0.5)
    gap = np.bincount(octave, weights=table.ones - total * chance)
    variance = np.bincount(octave, weights=total * chance * (1 - chance))
    gap, variance = gap[variance > 3], variance[variance > 3]
    return bool(np.sum(gap**2 / variance) > chdtri(max(len(gap) - parameters, 1), level))


def calibrated(table: Table, sign: float) -> Curve | None:
    """Counts whose labels are replaced by their fitted probability given the score, doubted by two standard errors of the fit.

    The fit is a logistic curve in the score with bends at `_BENDS`: the share beyond a threshold is counted on both sides together, only
    the odds are modelled.
    """
    view = table.seen_from(sign)
    total = view.ones + view.zeros
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.sqrt(np.average((view.mean - np.average(view.mean, weights=total)) ** 2, weights=total)))
    if view.size < 200 or not 0 < spread < np.inf:
        return None
    rank = np.cumsum(total) / view.size
    bends = np.unique(view.mean[np.minimum(np.searchsorted(rank, _BENDS), len(rank) - 1)])
    bends = bends[(bends > view.mean[0]) & (bends < view.mean[-1])]
    features = np.column_stack([np.full(len(total), spread), view.mean, *(np.maximum(view.mean - bend, 0) for bend in bends)]) / spread
    weights, covariance = fit_logistic(features, view.ones, view.zeros)
    chance = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
    if _contradicted(view, chance, 5, _MISFIT):
        return None
    # mean features of what lies beyond each boundary give the standard error of its log-odds
    mean = np.cumsum((features * total[:, None])[::-1], axis=0)[:-1] / _above(total)[:, None]
    error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", mean, covariance, mean), 0.0))
    right, wrong = _above(total * chance) / view.ones.sum(), _above(total * (1 - chance)) / view.zeros.sum()
    return Curve.beyond(sign, view.bounds[::-1], right, wrong, _STANDARD_ERRORS * error)
