"""delta(epsilon) as a bounded mean, for mechanisms without an exact law of the privacy loss.

delta(epsilon) = E_P (1 - e^(epsilon - L))_+ . Outputs are drawn from a mixture r of three laws
(defensive importance sampling, Hesterberg 1995): P itself, P moved to where L exceeds the
requested epsilon, and P moved there and contracted.

A map y -> c + s + a (y - c) of sampled outputs has the density p(c + (y - s - c)/a) / |a|, so the
weight p/r is exact. s and a are chosen on pilots. X = (p/r) (1 - e^(epsilon - L))_+ is
non-negative and has mean delta(epsilon) exactly: a lower limit follows by betting. If a drawn
output has positive mass (its density changes under the smallest move), outputs moved from it get
weight 0.

The upper limit of a mean depends on the bound of X: a region that no sample has hit may hold
ln(1/alpha)/n. There are two upper limits.

*Sound*: from the outputs drawn from P alone, X = (1 - e^(epsilon - L))_+ in [0, 1], for every
law.

*Assumed*: from all outputs. In one dimension, X is bounded by its maximum on a grid, although X
may be larger between grid points. In more dimensions, X is bounded by the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.density.density_check import log_densities, rows_of
from dpwitness.auditors.density.routes import BadOracle, density_of, fills_space
from dpwitness.auditors.statistics.mean_limits import (
    Stakes,
    bracket,
    log_capital,
    lower_mean,
    upper_mean,
)
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray, log_density_at

_MIXTURE = (0.25, 0.15, 0.6)  # mixture weights of the three laws
_MAX_WEIGHT = 1 / _MIXTURE[0]  # largest importance weight
_SHIFT_UPDATES = 5  # updates of the shift


@dataclass(frozen=True, slots=True, eq=False)
class WeightedOutputs:
    """Outputs drawn from the mixture r (see `PairOrder`), with their privacy losses L and
    importance weights p/r.
    """

    loss: FloatArray
    weight: FloatArray
    rows: FloatArray
    ceiling: FloatArray  # upper bound of the weight, valid also where an output has positive mass
    plain: NDArray[np.bool_]  # whether the output was drawn from P

    def unweighted(self, epsilon: float) -> FloatArray:
        """Return (1 - e^(epsilon - L))_+ at the outputs drawn from P."""
        return _excess(self.loss[self.plain], epsilon)

    def values(self, epsilon: float) -> FloatArray:
        """Return X = (p/r) (1 - e^(epsilon - L))_+ of each output, whose mean is delta(epsilon)."""
        with np.errstate(over="ignore"):
            return self.weight * _excess(self.loss, epsilon)

    def delta(self, epsilon: float) -> float:
        """Return the estimate of delta(epsilon)."""
        return float(self.values(epsilon).mean())

    def epsilon(self, delta: float) -> float:
        """Return the estimate of epsilon >= 0 at `delta`."""
        high = float(self.loss.max(initial=0.0))
        if self.delta(0.0) <= delta:
            return 0.0
        return bracket(lambda e: self.delta(e) > delta, 0.0, high if np.isfinite(high) else 50.0)[1]


def _excess(loss: FloatArray, epsilon: float) -> FloatArray:
    return np.where(loss > epsilon, -np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class PairOrder:
    """Sampler for one order of the pair: P = M(pair.d1) against Q = M(pair.d0). The outputs are
    drawn from the mixture r of P and two moved copies of P.
    """

    mechanism: Any
    pair: Pair
    rng: np.random.Generator
    continuous: NDArray[np.bool_]  # columns that are moved
    center: FloatArray
    shift: FloatArray
    scale: FloatArray
    spread: FloatArray

    @classmethod
    def unmoved(cls, mechanism: Any, pair: Pair, rng: np.random.Generator) -> PairOrder:
        """Return the sampler that draws from P alone."""
        first = rows_of(mechanism, pair.d1, 4096, rng)
        # Repeated values are atoms, which a move could place on a density. So such columns, and
        # laws on a surface, are not moved.
        continuous = continuous_columns(first)
        continuous &= fills_space(density_of(mechanism, pair.d1), first, continuous, rng)
        center = np.where(continuous, np.median(first, axis=0), 0.0)
        spread = np.where(continuous, np.subtract(*np.percentile(first, [90, 10], axis=0)), 0.0)
        width = first.shape[1]
        return cls(
            mechanism, pair, rng, continuous, center, np.zeros(width), np.ones(width), spread
        )

    @property
    def shifted(self) -> bool:
        """Return whether outputs are moved."""
        return bool(np.any(self.shift != 0))

    def draw(self, size: int) -> WeightedOutputs:
        """Draw outputs from the mixture r, with their losses and weights."""
        rows = rows_of(self.mechanism, self.pair.d1, size, self.rng)
        plain, alone = np.ones(size, dtype=bool), np.zeros(size, dtype=bool)
        if self.shifted:
            # an output may have positive mass where a move by a millionth of the spread changes
            # its density
            step = 1e-6 * self.spread + 4 * np.spacing(np.abs(rows)) * self.continuous
            moved = rows + step * self.rng.uniform(0.5, 1.0, rows.shape) * self.rng.choice(
                [-1.0, 1.0], rows.shape
            )
            here, there = (log_density_at(self.mechanism, at, self.pair.d1) for at in (rows, moved))
            with np.errstate(invalid="ignore"):
                alone = ~(np.abs(here - there) <= 1e-2)
            counts = self.rng.multinomial(size, _MIXTURE)
            plain[counts[0] :] = False
            rows[counts[0] :] += self.shift
            last = slice(counts[0] + counts[1], None)
            rows[last] = (
                self.center + self.shift + self.scale * (rows[last] - self.shift - self.center)
            )
        log_p, log_q = log_densities(self.mechanism, rows, self.pair)
        weight = ceiling = np.ones(size)
        if self.shifted:
            found = self._weight(rows, log_p)
            weight = np.where(alone & ~plain, 0.0, found)
            ceiling = np.where(alone & plain, _MAX_WEIGHT, found)
        with np.errstate(invalid="ignore"):
            loss = np.where(np.isneginf(log_p), -np.inf, log_p - log_q)
        return WeightedOutputs(loss, weight, rows, ceiling, plain)

    def _weight(self, rows: FloatArray, log_p: FloatArray) -> FloatArray:
        """Return the importance weights p/r."""
        others = []
        for scale in (np.ones_like(self.scale), self.scale):
            preimage = self.center + (rows - self.shift - self.center) / scale
            others.append(
                log_density_at(self.mechanism, preimage, self.pair.d1) - np.log(scale).sum()
            )
        if np.isnan(others).any():
            raise BadOracle("log_density on D1 is NaN at an output moved by a shift")
        with np.errstate(over="ignore", invalid="ignore"):
            ratios = [np.exp(np.minimum(other - log_p, 700.0)) for other in others]
            mixture = _MIXTURE[0] + _MIXTURE[1] * ratios[0] + _MIXTURE[2] * ratios[1]
            return np.where(np.isneginf(log_p), 0.0, 1 / mixture)

    def aimed(self, delta: float, size: int) -> tuple[PairOrder, float]:
        """Return the sampler, moved to the outputs that contribute most to delta(epsilon) at a
        target epsilon, and an estimate of this epsilon: the smallest one with delta(epsilon) <=
        `delta`.
        """
        order = self
        for _ in range(_SHIFT_UPDATES):
            draws = order.draw(size)
            ordered = np.sort(draws.loss)
            reach = float(ordered[int(0.95 * size)])  # enough draws lie beyond for an average
            target_epsilon = draws.epsilon(delta)
            epsilon = min(target_epsilon, max(reach, 0.0))
            values = draws.values(epsilon)
            if not order.continuous.any() or values.sum() <= 0 or not np.isfinite(ordered[-1]):
                break
            on_target = epsilon == target_epsilon and order.shifted
            share = values / values.sum()
            middle = share @ draws.rows
            contraction = np.ones_like(middle)
            if on_target:  # contract to the spread of these outputs
                spread = np.sqrt(share @ (draws.rows - middle) ** 2)
                usual_spread = np.sqrt(
                    draws.weight @ (draws.rows - order.center) ** 2 / len(draws.rows)
                )
                contraction = np.clip(1.3 * spread / np.maximum(usual_spread, 1e-300), 0.2, 1.0)
            order = replace(
                order,
                shift=np.where(order.continuous, middle - order.center, 0.0),
                scale=np.where(order.continuous & (contraction < 0.8), contraction, 1.0),
            )
            if on_target:
                break
        return order, target_epsilon

    def value_bound(self) -> Callable[[float], float]:
        """Return an assumed bound on X as a function of epsilon, which falls: the largest weight,
        or in one dimension X on a fine grid.
        """
        if not self.shifted:
            return lambda _: 1.0
        if len(self.shift) > 1:
            return lambda _: _MAX_WEIGHT
        rows = rows_of(self.mechanism, self.pair.d1, 4096, self.rng)[:, 0]
        middle, reach = float(np.median(rows)), float(np.ptp(rows)) + abs(float(self.shift[0]))
        offsets = np.concatenate([np.linspace(0, 4, 20_001), np.geomspace(4, 1e4, 2_000)]) * reach
        points = np.unique(np.concatenate([middle - offsets, middle + offsets]))[:, None]
        log_p, log_q = log_densities(self.mechanism, points, self.pair)
        with np.errstate(invalid="ignore"):
            loss = np.where(log_p > -700, log_p - log_q, -np.inf)
        weight = self._weight(points, log_p)
        grid = WeightedOutputs(loss, weight, points, weight, np.zeros(len(points), dtype=bool))
        # X may be a little larger between the points of the grid
        return lambda epsilon: min(_MAX_WEIGHT, 1.02 * float(grid.values(epsilon).max()) + 1e-12)


def continuous_columns(rows: FloatArray) -> NDArray[np.bool_]:
    """Return the columns of finite numbers that never repeat."""
    distinct = [len(np.unique(column)) == len(column) for column in rows.T]
    return np.asarray(np.array(distinct) & np.all(np.isfinite(rows), axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class SampledLimits:
    """Confidence limits from sampled outputs for one order of the pair, (D1, D0) or (D0, D1): a
    lower limit, a sound upper limit, and an assumed upper limit.
    """

    # for epsilon at the requested delta; for delta = 0 the largest observed loss, and infinity
    epsilon: tuple[float, float, float]
    delta: FloatArray  # for delta on the grid of epsilon values: shape (3, n)
    # upper limit of Q(L > t) and lower limit of P(L > t), for some t
    operating: list[tuple[float, float]]
    method: str  # how outputs were drawn


def limits_from_samples(
    mechanism: Any,
    pair: Pair,
    delta: float,
    epsilons: FloatArray,
    trials: int,
    alphas: tuple[float, float, float, float],
    rng: np.random.Generator,
) -> SampledLimits:
    """Return confidence limits for epsilon at `delta` and for the profile at `epsilons`, for P =
    M(pair.d1) and Q = M(pair.d0).

    `trials` includes pilots. `alphas` are the errors of epsilon's lower limit, its upper limit, the
    full profile, and the operating points.
    """
    # a tenth of the runs fixes the shift and the stakes
    pilot = max(200, int(0.1 * trials / (_SHIFT_UPDATES + 1)))
    order, center = PairOrder.unmoved(mechanism, pair, rng).aimed(
        delta if delta > 0 else 1e-3, pilot
    )
    first = order.draw(pilot)
    main = order.draw(max(1000, trials - (_SHIFT_UPDATES + 1) * pilot))
    value_bound = order.value_bound()
    if delta > 0:
        ends = _epsilon_limits(value_bound, first, main, delta, center, alphas)
    else:
        ends = (max(0.0, float(first.loss.max()), float(main.loss.max())), math.inf, math.inf)
    each, limits = alphas[2] / (3 * len(epsilons)), np.empty((3, len(epsilons)))
    for i, epsilon in enumerate(epsilons):
        x, bound = main.values(epsilon), value_bound(epsilon)
        bound = bound if x.max() < bound else _MAX_WEIGHT
        stakes = Stakes.plan(first.values(epsilon), bound, len(x), each)
        plain = main.unweighted(epsilon)
        alone = Stakes.plan(first.unweighted(epsilon), 1.0, len(plain), each)
        limits[:, i] = (
            lower_mean(x, stakes, each),
            upper_mean(plain, 1.0, alone, each),
            min(1.0, upper_mean(x, bound, stakes, each)),
        )
    # delta falls with epsilon, so its limits may be made monotone
    limits[0] = np.maximum.accumulate(limits[0, ::-1])[::-1]
    limits[1:] = np.minimum.accumulate(limits[1:], axis=1)
    moved = ", and from P moved to large losses and contracted" if order.shifted else ""
    points = _operating_points(first, main, alphas[3])
    return SampledLimits(ends, limits, points, f"outputs drawn from P{moved}")


def _epsilon_limits(
    value_bound: Callable[[float], float],
    first: WeightedOutputs,
    main: WeightedOutputs,
    delta: float,
    center: float,
    alphas: tuple[float, float, float, float],
) -> tuple[float, float, float]:
    """Return the lower limit for epsilon at `delta`, and the sound and the assumed upper limit.

    X falls with epsilon. The stakes are those at the pilot's epsilon throughout.
    """
    size = len(main.loss)
    top = float(np.max(main.loss[np.isfinite(main.loss)], initial=0.0)) + 1.0
    # the bound of X is computed here and holds for all larger epsilon; no assumed upper limit is
    # sought below
    least = 0.98 * center
    bound, x = value_bound(least), first.values(center)
    goals = math.log(1 / alphas[0]), math.log(2 / alphas[1])
    up = Stakes.plan(x, bound, size, alphas[0]).up
    down = Stakes.plan(x, bound, size, alphas[1] / 2).down
    alone = Stakes.plan(first.unweighted(center), 1.0, int(main.plain.sum()), alphas[1] / 2).down

    def too_low(epsilon: float) -> bool:
        return log_capital(main.values(epsilon), delta, up, 1.0) >= goals[0]

    def too_high(epsilon: float) -> bool:
        return log_capital(main.unweighted(epsilon), delta, alone, -1.0) >= goals[1]

    def too_high_if_bounded(epsilon: float) -> bool:
        return epsilon >= least and log_capital(main.values(epsilon), delta, down, -1.0) >= goals[1]

    def upper(test: Callable[[float], bool]) -> float:
        """Return the least epsilon that the test refutes as too high."""
        if test(0.0):
            return 0.0
        return bracket(test, top, 0.0)[0] if test(top) else math.inf

    low = bracket(too_low, 0.0, top)[0] if too_low(0.0) else 0.0
    return low, upper(too_high), upper(too_high_if_bounded)


def _operating_points(
    first: WeightedOutputs, main: WeightedOutputs, alpha: float
) -> list[tuple[float, float]]:
    """Return up to five events {L > t} with limits of P(L > t) and of Q(L > t) = E_P e^-L 1(L > t).

    The thresholds are quantiles of the positive losses in the pilot.
    """
    positive = first.loss[(first.loss > 0) & np.isfinite(first.loss)]
    if positive.size < 20:
        return []
    points = []
    for t in np.unique(np.quantile(positive, [0.0, 0.3, 0.6, 0.85, 0.97])):
        limits = []
        for draws in (first, main):
            hit, most = (
                np.where(draws.loss > t, weight, 0.0) for weight in (draws.weight, draws.ceiling)
            )
            limits.append((hit, most * np.exp(-np.maximum(draws.loss, t))))
        (pilot_p, pilot_q), (main_p, main_q) = limits
        # capped, as a bound of zero is not allowed
        bounds = _MAX_WEIGHT, math.exp(-min(t, 600.0)) * _MAX_WEIGHT
        size, each = len(main.loss), alpha / 10
        tpr = lower_mean(main_p, Stakes.plan(pilot_p, bounds[0], size, each), each)
        fpr = upper_mean(main_q, bounds[1], Stakes.plan(pilot_q, bounds[1], size, each), each)
        points.append((min(fpr, 1.0), min(tpr, 1.0)))
    return points
