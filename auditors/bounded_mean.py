"""delta(epsilon) as a bounded mean, where no exact law of the privacy loss can be had.

delta(epsilon) = E_P (1 - e^(epsilon - L))_+ . Outputs are drawn from a mixture r of three laws (defensive importance sampling, Hesterberg
1995): P itself, P moved to where L exceeds the epsilon wanted, and P moved there and contracted. A map y -> c + s + a (y - c) of outputs of
the sampler has the density p(c + (y - s - c)/a) / |a|, so the weight p/r is exact, and at most 5. s and a are found on pilots.
X = (p/r) (1 - e^(epsilon - L))_+ lies in [0, 5) and has mean delta(epsilon) exactly: limits by betting on both sides.

The lower limit needs nothing else. The upper limit of a mean is governed by the bound of X: a region that no sample has hit may hold
2 ln(1/alpha)/n. In one dimension X is bounded by looking at it on a grid, which lowers that floor to where it does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.betting import Stakes, bracket, log_capital, lower_mean, upper_mean
from dpwitness.auditors.oracle import BadOracle, fills_space, log_densities, rows_of
from dpwitness.mechanisms.pairs import Pair

__all__ = ["Sampled", "sampled"]

FloatArray = NDArray[np.float64]

_SHARES = (0.2, 0.2, 0.6)  # of the three laws
_LARGEST = 1 / _SHARES[0]  # weight
_PILOT = 0.1  # of the runs, for the shift and the stakes
_ROUNDS = 5  # of moving the shift
_LEAST = 0.98  # of the pilot's epsilon
_SLACK = 1.02  # on weights bounded by a grid


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """Losses and weights p/r of outputs drawn from r."""

    loss: FloatArray
    weight: FloatArray
    rows: FloatArray

    def values(self, epsilon: float) -> FloatArray:
        """X at this epsilon: mean delta(epsilon)."""
        with np.errstate(over="ignore"):
            return self.weight * np.where(self.loss > epsilon, -np.expm1(np.minimum(epsilon - self.loss, 0.0)), 0.0)

    def delta(self, epsilon: float) -> float:
        return float(self.values(epsilon).mean())


class _Order:
    """One order of the pair: P = M(pair.d1), Q = M(pair.d0), and the sampler of r."""

    def __init__(self, mechanism: Any, pair: Pair, rng: np.random.Generator) -> None:
        self.mechanism, self.pair, self.rng = mechanism, pair, rng
        first = rows_of(mechanism, pair.d1, 4096, rng)
        # A column in which a value repeats has atoms; moved, they would meet densities. It stays where it is, as do laws on a surface.
        self.continuous = np.array([len(np.unique(column)) == len(column) for column in first.T]) & np.all(np.isfinite(first), axis=0)
        self.continuous &= fills_space(mechanism, pair.d1, first, self.continuous, rng)
        self.center = np.where(self.continuous, first.mean(axis=0), 0.0)
        self.shift, self.scale = np.zeros(first.shape[1]), np.ones(first.shape[1])
        self.grid: _Draws | None = None

    @property
    def shifted(self) -> bool:
        return bool(np.any(self.shift != 0))

    def draw(self, size: int) -> _Draws:
        rows = rows_of(self.mechanism, self.pair.d1, size, self.rng)
        if self.shifted:
            counts = self.rng.multinomial(size, _SHARES)
            rows[counts[0] :] += self.shift
            last = slice(counts[0] + counts[1], None)
            rows[last] = self.center + self.shift + self.scale * (rows[last] - self.shift - self.center)
        log_p, log_q = log_densities(self.mechanism, rows, self.pair)
        weight = np.ones(size)
        if self.shifted:
            weight = self._weight(rows, log_p)
        with np.errstate(invalid="ignore"):
            loss = np.where(np.isneginf(log_p), -np.inf, log_p - log_q)
        return _Draws(loss, weight, rows)

    def _weight(self, rows: FloatArray, log_p: FloatArray) -> FloatArray:
        others = []
        for scale in (np.ones_like(self.scale), self.scale):
            back = self.center + (rows - self.shift - self.center) / scale
            others.append(np.asarray(self.mechanism.log_density(back, self.pair.d1), dtype=float) - np.log(scale).sum())
        if np.isnan(others).any():
            raise BadOracle("log_density on D1 is NaN at an output moved by a shift")
        with np.errstate(over="ignore", invalid="ignore"):
            ratios = [np.exp(np.minimum(other - log_p, 700.0)) for other in others]
            mixture = _SHARES[0] + _SHARES[1] * ratios[0] + _SHARES[2] * ratios[1]
            return np.where(np.isneginf(log_p), 0.0, 1 / mixture)

    def aim(self, delta: float, size: int) -> float:
        """Move the shift to the outputs that make up delta(epsilon) where that is `delta`; that epsilon, estimated."""
        wanted = 0.0
        for _ in range(_ROUNDS):
            draws = self.draw(size)
            ordered = np.sort(draws.loss)
            reach = float(ordered[int(0.95 * size)])  # enough draws are beyond this to be averaged
            wanted = _solve(draws, delta)
            epsilon = min(wanted, max(reach, 0.0))
            values = draws.values(epsilon)
            if not self.continuous.any() or values.sum() <= 0 or not np.isfinite(ordered[-1]):
                return wanted
            share = values / values.sum()
            middle = share @ draws.rows
            spread = np.sqrt(share @ (draws.rows - middle) ** 2)
            usual = np.sqrt(draws.weight @ (draws.rows - self.center) ** 2 / size)
            arrived = epsilon == wanted and self.shifted
            self.shift = np.where(self.continuous, middle - self.center, 0.0)
            narrow = np.clip(1.3 * spread / np.maximum(usual, 1e-300), 0.2, 1.0) if arrived else np.ones_like(spread)
            self.scale = np.where(self.continuous & (narrow < 0.8), narrow, 1.0)
            if arrived:
                return wanted
        return wanted

    def bound(self, epsilon: float) -> float:
        """A bound on X, which falls with epsilon: that of the weights, or in one dimension the largest X on a fine grid."""
        if not self.shifted:
            return 1.0
        if len(self.shift) > 1:
            return _LARGEST
        if self.grid is None:
            rows = rows_of(self.mechanism, self.pair.d1, 4096, self.rng)[:, 0]
            middle, reach = float(np.median(rows)), float(np.ptp(rows)) + abs(float(self.shift[0]))
            offsets = np.concatenate([np.linspace(0, 4, 20_001), np.geomspace(4, 1e4, 2_000)]) * reach
            points = np.unique(np.concatenate([middle - offsets, middle + offsets]))[:, None]
            log_p, log_q = log_densities(self.mechanism, points, self.pair)
            with np.errstate(invalid="ignore"):
                loss = np.where(log_p > -700, log_p - log_q, -np.inf)
            self.grid = _Draws(loss, self._weight(points, log_p), points)
        return min(_LARGEST, _SLACK * float(self.grid.values(epsilon).max()) + 1e-12)


def _solve(draws: _Draws, delta: float) -> float:
    """Estimated epsilon >= 0 at `delta`."""
    high = float(draws.loss.max(initial=0.0))
    if not np.isfinite(high):
        high = 50.0
    if draws.delta(0.0) <= delta:
        return 0.0
    return bracket(lambda e: draws.delta(e) > delta, 0.0, max(high, 0.0))[1]


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """What sampling says of one order of the pair.

    Attributes
    ----------
    epsilon_lower, epsilon_upper : float
        Limits for epsilon at the delta asked for; for delta = 0 the largest loss seen, and infinity.
    delta_lower, delta_upper : array
        Limits for delta on the grid of epsilons.
    operating : list of (fpr, tpr)
        Events {L > t} with an upper limit of their false- and a lower limit of their true-positive rate.
    largest_loss : float
        Over all outputs seen.
    method : str
        How outputs were drawn.
    """

    epsilon_lower: float
    epsilon_upper: float
    delta_lower: FloatArray
    delta_upper: FloatArray
    operating: list[tuple[float, float]]
    largest_loss: float
    method: str


def sampled(
    mechanism: Any,
    pair: Pair,
    delta: float,
    epsilons: FloatArray,
    trials: int,
    alphas: tuple[float, float, float, float],
    rng: np.random.Generator,
) -> Sampled:
    """Bound one order of the pair by betting.

    Parameters
    ----------
    delta : float
        At which epsilon is wanted.
    epsilons : array
        Grid of the profile.
    trials : int
        Runs of the mechanism, pilots included.
    alphas : (float, float, float, float)
        Errors of epsilon's lower and upper limit, of the whole profile, and of the operating points.
    """
    order = _Order(mechanism, pair, rng)
    pilot = max(200, int(_PILOT * trials / (_ROUNDS + 1)))
    goal = delta if delta > 0 else 1e-3
    center = order.aim(goal, pilot)
    first = order.draw(pilot)
    main = order.draw(max(1000, trials - (_ROUNDS + 1) * pilot))
    size = len(main.loss)
    largest = max(float(first.loss.max()), float(main.loss.max()))
    low, high = (max(0.0, largest), math.inf) if delta == 0 else _epsilons(order, first, main, delta, center, alphas)
    each = alphas[2] / (2 * len(epsilons))
    lower, upper = np.empty(len(epsilons)), np.empty(len(epsilons))
    for i, epsilon in enumerate(epsilons):
        x, bound = main.values(epsilon), order.bound(epsilon)
        bound = bound if x.max() < bound else _LARGEST
        stakes = Stakes.plan(first.values(epsilon), bound, size, each)
        lower[i], upper[i] = lower_mean(x, stakes, each), min(1.0, upper_mean(x, bound, stakes, each))
    points = _operating(first, main, alphas[3])
    method = "outputs drawn from P, and from P moved to large losses and contracted" if order.shifted else "outputs drawn from P"
    # delta falls with epsilon: so may its limits
    lower, upper = np.maximum.accumulate(lower[::-1])[::-1], np.minimum.accumulate(upper)
    return Sampled(low, high, lower, upper, points, largest, method)


def _epsilons(
    order: _Order, first: _Draws, main: _Draws, delta: float, center: float, alphas: tuple[float, float, float, float]
) -> tuple[float, float]:
    """Limits for epsilon at `delta`: X falls with epsilon, stakes are those of the pilot's epsilon throughout."""
    size = len(main.loss)
    top = float(np.max(main.loss[np.isfinite(main.loss)], initial=0.0)) + 1.0
    least = _LEAST * center  # where the bound of X is taken: the upper limit is not looked for below
    bound = order.bound(least)
    x = first.values(center)
    goals = [math.log(1 / alpha) for alpha in alphas[:2]]
    up = Stakes.plan(x, bound, size, alphas[0]).up
    down = Stakes.plan(x, bound, size, alphas[1]).down

    def too_low(epsilon: float) -> bool:
        return log_capital(main.values(epsilon), delta, up, 1.0) >= goals[0]

    def too_high(epsilon: float) -> bool:
        return epsilon >= least and log_capital(main.values(epsilon), delta, down, -1.0) >= goals[1]

    low = bracket(too_low, 0.0, top)[0] if too_low(0.0) else 0.0
    high = 0.0 if too_high(0.0) else bracket(too_high, top, 0.0)[0] if too_high(top) else math.inf
    return low, high


def _operating(first: _Draws, main: _Draws, alpha: float) -> list[tuple[float, float]]:
    """Five thresholds at quantiles of the loss over the pilot, each with limits of P(L > t) and Q(L > t) = E_P e^-L 1(L > t)."""
    positive = first.loss[first.loss > 0]
    if positive.size < 20:
        return []
    points = []
    for t in np.unique(np.quantile(positive, [0.0, 0.3, 0.6, 0.85, 0.97])):
        if not np.isfinite(t):
            continue
        limits = []
        for draws in (first, main):
            hit = np.where(draws.loss > t, draws.weight, 0.0)
            limits.append((hit, hit * np.exp(-np.maximum(draws.loss, t))))
        (pilot_p, pilot_q), (main_p, main_q) = limits
        bounds = _LARGEST, math.exp(-t) * _LARGEST
        size, each = len(main.loss), alpha / 10
        tpr = lower_mean(main_p, Stakes.plan(pilot_p, bounds[0], size, each), each)
        fpr = upper_mean(main_q, bounds[1], Stakes.plan(pilot_q, bounds[1], size, each), each)
        points.append((min(fpr, 1.0), min(tpr, 1.0)))
    return points
