"""Scorers: ways to order outputs by how much they speak for D1. Each is fitted on training data and can become an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events import AdditiveScore, Atoms, Ball, Event, Intervals, Threshold, name_of_atom
from dpwitness.auditors.outputs import Outputs, row_keys

__all__ = ["SCORERS", "Scorer", "Training", "fit_distance", "fit_logistic"]

FloatArray = NDArray[np.float64]

_FEW = 32  # a column with at most this many values is a category
_WIDE = 8  # columns beyond which a free shape for each only adds noise
_MANY_ATOMS = 8192
_ROWS_AN_ATOM = 8
_FIT_VALUES = 2**22  # numbers that a logistic model is fitted to, at most


class Scorer(Protocol):
    """An order on outputs."""

    def score(self, data: Training) -> FloatArray:
        """One number an output; larger speaks for D1."""

    def event(self, low: float, high: float) -> Event:
        """D1 where the score exceeds `high`, D0 where it is below `low`."""


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """Training outputs as a matrix (structure code first), their labels, and what is cheap to know of them once."""

    matrix: FloatArray
    label: NDArray[np.bool_]
    keys: NDArray[np.uint64]
    names: dict[float, str]

    @classmethod
    def build(cls, outputs: Outputs, ones: int) -> Training:
        """`outputs` holds the runs on D1 first."""
        matrix = outputs.matrix()
        return cls(matrix, np.arange(len(matrix)) < ones, row_keys(matrix), outputs.names)

    def halves(self) -> tuple[Training, Training]:
        """Even and odd rows: two independent samples."""
        parts = [Training(self.matrix[i::2], self.label[i::2], self.keys[i::2], self.names) for i in (0, 1)]
        return parts[0], parts[1]

    def scores(self, scorer: Scorer) -> tuple[FloatArray, FloatArray]:
        """Scores of the D1 rows and of the D0 rows."""
        score = scorer.score(self)
        return score[self.label], score[~self.label]

    @property
    def varying(self) -> list[int]:
        """Columns that are not constant."""
        first = self.matrix[0]
        return [
            j
            for j in range(self.matrix.shape[1])
            if not np.array_equal(self.matrix[:, j], np.broadcast_to(first[j], len(self.matrix)), equal_nan=True)
        ]


def _log_ratio(ones: FloatArray, zeros: FloatArray, prior: FloatArray | float = 0.5, weight: float = 1.0) -> FloatArray:
    """Smoothed log of (share of D1) / (share of D0), shrunk by `weight` pseudo-counts towards the probability `prior` of D1."""
    return np.log(ones + weight * prior) - np.log(zeros + weight * (1 - prior))


@dataclass(frozen=True, slots=True, eq=False)
class _AtomScorer:
    keys: NDArray[np.uint64]  # sorted
    rows: FloatArray
    values: FloatArray
    names: dict[float, str]

    def score(self, data: Training) -> FloatArray:
        place = np.minimum(np.searchsorted(self.keys, data.keys), len(self.keys) - 1)
        return np.where(self.keys[place] == data.keys, self.values[place], 0.0)

    def event(self, low: float, high: float) -> Event:
        guesses = (self.values > high).astype(float) - (self.values < low).astype(float)
        used = np.flatnonzero(guesses)
        if len(used) == 0:
            used = np.array([0])
        rows = self.rows[used]
        return Atoms(rows, guesses[used], tuple(name_of_atom(row, self.names) for row in rows))


def _fit_atoms(weight: float) -> Callable[[Training], Scorer | None]:
    """Outputs themselves, each with its own log-ratio, shrunk towards a logistic model where there are several columns."""

    def fit(data: Training) -> Scorer | None:
        keys, first, inverse, counts = np.unique(data.keys, return_index=True, return_inverse=True, return_counts=True)
        if len(keys) > 1 and len(data.keys) < _ROWS_AN_ATOM * len(keys):
            return None  # too few rows for what each output says by itself
        frequent = counts >= min(2, counts.max())
        ones = np.bincount(inverse, weights=data.label).astype(float)
        prior: FloatArray | float = 0.5
        if len(data.varying) > 1:
            model = _fit_additive("bins")(data)
            if model is not None:
                sample = Training(data.matrix[first], data.label[first], keys, data.names)
                prior = 1 / (1 + np.exp(-np.clip(model.score(sample), -30, 30)))
        values = _log_ratio(ones, counts.astype(float) - ones, prior, weight)
        keep = np.flatnonzero(frequent)
        if len(keep) > _MANY_ATOMS:
            keep = np.sort(keep[np.argsort(-counts[keep], kind="stable")[:_MANY_ATOMS]])
        return _AtomScorer(keys[keep], data.matrix[first[keep]], values[keep], data.names)

    return fit


@dataclass(frozen=True, slots=True, eq=False)
class _BinScorer:
    column: int
    edges: FloatArray
    values: FloatArray  # one a bin
    missing: float

    def score(self, data: Training) -> FloatArray:
        x = data.matrix[:, self.column]
        return np.where(np.isnan(x), self.missing, self.values[np.searchsorted(self.edges, x, side="left")])

    def event(self, low: float, high: float) -> Event:
        guesses = (self.values > high).astype(float) - (self.values < low).astype(float)
        change = np.flatnonzero(np.diff(guesses))  # neighbouring bins with one guess are one interval
        missing = int(self.missing > high) - int(self.missing < low)
        return Intervals(self.column - 1, self.edges[change], guesses[np.append(change, len(guesses) - 1)], missing)


def _fit_bins(monotone: bool) -> Callable[[Training], Scorer | None]:
    """Quantile bins of the one column that varies; raw log-ratios, or made monotone."""

    def fit(data: Training) -> Scorer | None:
        if data.varying[:1] == [0] or len(data.varying) != 1:
            return None
        column = data.varying[0]
        x = data.matrix[:, column]
        known = ~np.isnan(x)
        bins = int(np.clip(len(x) / 60, 8, 256))
        pooled = np.sort(x[known])
        ranks = np.linspace(0, len(pooled), bins + 1)[1:-1].astype(int)
        left, right = pooled[np.maximum(ranks - 1, 0)], pooled[ranks]
        # half-way between two values, unless that is no number or the values are one: then the atom gets edges around it
        middle = np.where(np.isfinite(left) & np.isfinite(right), 0.5 * left + 0.5 * right, left)
        edges = np.unique(np.concatenate([middle, np.nextafter(left[left == right], -np.inf)]))
        edges = edges[np.isfinite(edges)]
        place = np.searchsorted(edges, x[known], side="left")
        ones = np.bincount(place, weights=data.label[known], minlength=len(edges) + 1).astype(float)
        total = np.bincount(place, minlength=len(edges) + 1).astype(float)
        share = data.label.mean()
        values = _log_ratio(ones, total - ones, share, 4.0) - np.log(share / (1 - share))
        if monotone:
            values = _isotonic(values, total + 1e-9)
        gone = data.label[~known]
        missing = float(_log_ratio(gone.sum(), len(gone) - gone.sum(), share, 4.0) - np.log(share / (1 - share)))
        return _BinScorer(column, edges, values, missing)

    return fit


def _isotonic(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Closest monotone sequence, in the direction that the data prefer; a small slope keeps the order of ties."""
    from scipy.optimize import isotonic_regression

    both = [isotonic_regression(values, weights=weights, increasing=up).x for up in (True, False)]
    losses = [float(np.sum(weights * (values - fitted) ** 2)) for fitted in both]
    best = int(np.argmin(losses))
    slope = 1e-6 * np.arange(len(values)) * (1 if best == 0 else -1)
    return np.asarray(both[best] + slope)


@dataclass(frozen=True, slots=True, eq=False)
class _AdditiveScorer:
    model: AdditiveScore

    def score(self, data: Training) -> FloatArray:
        return self.model(data.matrix)

    def event(self, low: float, high: float) -> Event:
        return Threshold(self.model, low, high)


def _fit_line(data: Training) -> Scorer | None:
    """The one column that varies, as it is: few degrees of freedom, for small data and extreme tails."""
    if len(data.varying) != 1 or data.varying == [0]:
        return None
    column = data.varying[0]
    x = data.matrix[:, column]
    known = np.isfinite(x)
    if not known.all() or len(np.unique(x)) < 3:
        return None
    ones, zeros = x[data.label], x[~data.label]
    sign = 1.0 if np.median(ones) - np.median(zeros) + 1e-9 * (ones.mean() - zeros.mean()) >= 0 else -1.0
    return _LineScorer(column, sign)


@dataclass(frozen=True, slots=True, eq=False)
class _LineScorer:
    column: int
    sign: float

    def score(self, data: Training) -> FloatArray:
        return self.sign * data.matrix[:, self.column]

    def event(self, low: float, high: float) -> Event:
        bounds = [(low, -1.0), (high, +1.0)] if self.sign > 0 else [(-high, +1.0), (-low, -1.0)]
        # from low to high x: what is named below the first edge, nothing between, what is named above the second
        edges, guesses = [], [0.0]
        if np.isfinite(bounds[0][0]):
            edges, guesses = [np.nextafter(bounds[0][0], -np.inf)], [bounds[0][1], 0.0]
        if np.isfinite(bounds[1][0]):
            edges, guesses = [*edges, bounds[1][0]], [*guesses, bounds[1][1]]
        return Intervals(self.column - 1, np.array(edges), np.array(guesses))


def _fit_additive(shape: str) -> Callable[[Training], Scorer | None]:
    """Logistic model on features of each column.

    "clip": linear between the medians of the two sides, the log-ratio of a Laplace shift; "linear": linear over the bulk, that of a
    Gaussian shift; "bins": several knots, any shape. Values that repeat are categories with a weight of their own in all three.
    """

    def fit(data: Training) -> Scorer | None:
        columns = data.varying
        if len(columns) < 2 and not (columns == [0] and shape == "bins"):
            return None
        features, smooth, tables = [np.ones(len(data.matrix))], [], []
        for j in columns:
            x = data.matrix[:, j]
            missing = np.isnan(x)
            filled = np.where(missing, np.inf, x)
            keys, every = _atoms_of(filled)
            if every:
                keys = keys[1:]  # the first is the baseline
            tables.append((j, keys, len(features)))
            features.extend((filled == key).astype(float) for key in keys)
            if every:
                continue
            if shape == "bins" and len(columns) > _WIDE:
                return None
            bulk = ~np.isin(filled, keys) & ~missing
            knots = _knots(x[bulk], data.label[bulk], shape)
            if len(knots) < 2:
                continue
            smooth.append((j, knots, len(features)))
            features.extend((np.clip(np.where(missing, left, x), left, right) - left) / (right - left) for left, right in pairwise(knots))
        if len(features) == 1:
            return None
        step = -(-len(data.label) * len(features) // _FIT_VALUES)
        label = data.label[::step].astype(float)
        weights, _ = fit_logistic(np.column_stack([feature[::step] for feature in features]), label, 1 - label)
        curves = tuple((j, knots, np.append(0.0, np.cumsum(weights[at : at + len(knots) - 1]))) for j, knots, at in smooth)
        levels = tuple((j, keys, weights[at : at + len(keys)]) for j, keys, at in tables if len(keys))
        codes = [(data.names[key], float(value)) for j, keys, values in levels if j == 0 for key, value in zip(keys, values, strict=True)]
        return _AdditiveScorer(AdditiveScore(data.matrix.shape[1] - 1, curves, levels, tuple(codes)))

    return fit


def _atoms_of(column: FloatArray) -> tuple[FloatArray, bool]:
    """The values of a column that are categories, sorted: all of them if they are few, else those that one row in a hundred has."""
    sample = column[:20000]
    keys, counts = np.unique(sample, return_counts=True)
    if len(keys) <= _FEW:
        return keys, True
    return keys[counts > 0.01 * len(sample)], False


def _knots(x: FloatArray, label: NDArray[np.bool_], shape: str) -> FloatArray:
    """Where the score of a column bends."""
    known = np.isfinite(x)
    x, label = x[known], label[known]
    if len(x) < 2 or label.all() or not label.any():
        return np.unique(x[[0, -1]]) if len(x) else x
    if shape == "clip":
        a, b = sorted((np.median(x[label]), np.median(x[~label])))
        spread = np.quantile(x, 0.75) - np.quantile(x, 0.25)
        return np.unique([a, b] if b - a > 1e-3 * spread else np.median(x) + 1e-3 * spread * np.array([-1.0, 1.0]))
    levels = {"linear": [0.01, 0.99], "bins": [0.01, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.99]}
    return np.unique(np.quantile(x, levels[shape]))


def fit_logistic(features: FloatArray, ones: FloatArray, zeros: FloatArray, ridge: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Ridge-penalised logistic regression on weighted counts by Newton's method: weights and their covariance.

    The first feature is the constant and is not penalised.
    """
    weights = np.zeros(features.shape[1])
    penalty = np.full(features.shape[1], ridge)
    penalty[0] = 1e-6
    total = ones + zeros
    for _ in range(15):  # more than a score needs
        p = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
        hessian = (features * (total * p * (1 - p))[:, None]).T @ features + np.diag(penalty)
        inverse = np.linalg.pinv(hessian, hermitian=True)
        step = inverse @ (features.T @ (total * p - ones) + penalty * weights)
        weights -= step
        if np.abs(step).max() < 1e-5:
            break
    return weights, np.asarray(inverse, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _DistanceScorer:
    center: FloatArray
    sign: int  # +1 where outputs near the center speak for D1

    def score(self, data: Training) -> FloatArray:
        distance = np.linalg.norm(data.matrix[:, 1:] - self.center, axis=1)
        return -self.sign * np.where(np.isnan(distance), np.inf, distance)

    def event(self, low: float, high: float) -> Event:
        inner, outer = (-high, -low) if self.sign > 0 else (low, high)
        return Ball(self.center, inner if np.isfinite(inner) else 0.0, outer, self.sign)


def fit_distance(center: FloatArray) -> Callable[[Training], Scorer | None]:
    """Balls around a given output."""

    def fit(data: Training) -> Scorer | None:
        if data.matrix.shape[1] != len(center) + 1:
            return None
        distance = np.linalg.norm(data.matrix[:, 1:] - center, axis=1)
        near = np.argsort(distance)[: max(len(distance) // 1000, 20)]
        return _DistanceScorer(center, 1 if data.label[near].mean() >= data.label.mean() else -1)

    return fit


# Simplest first. Each with whether it is frugal (so few parameters that its own data may choose its thresholds) and whether it is cheap.
SCORERS: dict[str, tuple[Callable[[Training], Scorer | None], bool, bool]] = {
    "line": (_fit_line, True, True),
    "monotone bins": (_fit_bins(monotone=True), False, False),
    "quantile bins": (_fit_bins(monotone=False), False, True),
    "clipped logistic": (_fit_additive("clip"), True, True),
    "linear logistic": (_fit_additive("linear"), True, False),
    "binned logistic": (_fit_additive("bins"), False, False),
    "atoms, shrunk": (_fit_atoms(20.0), False, False),
    "atoms": (_fit_atoms(1.0), False, True),
}
