"""Privacy of threshold answers against an adversary who picks each test point after seeing the
earlier answers.

One round, in units of the noise scale: the noise z is Laplace(1), and the adversary picks a level
t. If z > t, the noisy answer is released (a *top*, which uses one update). Otherwise only the event
z <= t is released (a *bottom*, which uses none). A neighboring dataset shifts the noise by e or -e,
as the adversary chooses, with e = S epsilon_0. The other side of the threshold is 2 log(2T/beta)
away and is ignored. The state is the accumulated loss l: the adversary maximizes E(1 - exp(epsilon
- l))_+.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import laplace, nbinom

from dpwitness.auditors.density.composition import compose
from dpwitness.auditors.statistics.loss_law import EnclosedLaw as Laws
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.protocols import FloatArray

STEPS = 10  # grid steps per e
# Levels. Just above zero, bottoms gain probability in proportion to t and lose leakage in
# proportion to t^2 only; so NEAR is in units of e.
NEAR = tuple(0.25 * k for k in range(13))
FAR = (-4.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 4.0)
NEVER = 1e-18  # probability of the bottoms that are left out


def held_law(updates: int, loss: float, level: float = 0.0, cells: int = 400) -> Laws:
    """Return a lower bound on the law of the privacy loss if each round has the same level t >= 0
    and a shift up (witness W7).

    The rounds end at `updates` tops. Bottoms have probability F(t) against F(t - e); tops have loss
    |z - e| - |z| at z > t. The number of bottoms before the last top is negative binomial. The z of
    tops are merged into cells, which is post-processing.
    """
    below, other_mass = (float(laplace.cdf(x)) for x in (level, level - loss))
    bottoms = np.arange(int(nbinom.isf(NEVER, updates, 1 - below)) + 1)
    counted = _law_of(
        nbinom.pmf(bottoms, updates, 1 - below), nbinom.pmf(bottoms, updates, 1 - other_mass)
    )
    z = (
        np.append(np.linspace(level, max(loss, level), cells + 1), np.inf)
        if level < loss
        else np.array([level, np.inf])
    )
    tops = [
        np.diff(laplace.cdf(z - shift)) / (1 - mass)
        for shift, mass in ((0.0, below), (loss, other_mass))
    ]
    return compose([(counted, 1), (_law_of(*tops), updates)])


def _law_of(p: FloatArray, q: FloatArray) -> Laws:
    loss = np.log(p) - np.log(q)
    order = np.argsort(loss)
    law = LossLaw(loss[order], p[order], q[order])
    return Laws(law, law, "threshold answers", "enclosure")


def adaptive_delta(updates: int, loss: float, epsilon: float) -> float:
    """Return delta(epsilon) of the best adversary with levels t on a grid, by dynamic programming
    over (tops left, accumulated loss).

    Atoms between grid points are split over the two neighboring points so that the masses under
    both datasets are preserved. The result is an upper bound for these levels.
    """
    step = loss / STEPS
    grid = (
        np.arange(
            math.floor(-(epsilon + 4 * loss) / step), math.ceil((epsilon + 40 * loss) / step) + 1
        )
        * step
    )
    stop = np.maximum(0.0, -np.expm1(np.minimum(epsilon - grid, 0)))
    options = [
        _round_losses(t, sign * loss, step)
        for t in (*(k * loss for k in NEAR), *FAR)
        for sign in (1, -1)
    ]
    value = stop
    for _ in range(updates):
        padded = np.pad(value, STEPS, constant_values=(value[0], 1.0))
        ahead = np.lib.stride_tricks.sliding_window_view(padded, 2 * STEPS + 1)
        after_top = [ahead @ masses for masses, _, _, _ in options]
        current = stop
        while True:
            best = stop
            for top, (_, low, lower, upper) in zip(after_top, options, strict=True):
                below = top + lower * _shifted(current, low)
                best = np.maximum(best, below + upper * _shifted(current, low + 1))
            if np.max(best - current) <= 1e-6 * np.interp(0.0, grid, best):
                break
            current = best
        value = best
    return float(np.interp(0.0, grid, value))


def _shifted(value: FloatArray, by: int) -> FloatArray:
    """Return `value` at losses that are `by` grid steps larger: 1 above the grid, and the smallest
    value below the grid.
    """
    if by >= 0:
        return np.concatenate([value[by:], np.ones(min(by, len(value)))])
    return np.concatenate([np.full(-by, value[0]), value[:by]])


def _round_losses(t: float, shift: float, step: float) -> tuple[FloatArray, int, float, float]:
    """Return the loss law of one round on the grid.

    The masses of a top's losses -e, ..., e; the grid index at or below a bottom's loss; the
    bottom's masses at this index and one step up.
    """
    z = np.linspace(min(0.0, shift), max(0.0, shift), STEPS + 1)
    knots = np.unique(np.concatenate([[t], z[z > t], [np.inf]]))
    p, q = np.diff(laplace.cdf(knots)), np.diff(laplace.cdf(knots - shift))
    places, lower, upper = _on_grid(p[p > 0], q[p > 0], step)
    masses = np.zeros(2 * STEPS + 1)
    np.add.at(masses, places + STEPS, lower)
    np.add.at(masses, places + STEPS + 1, upper)
    place, low, high = _on_grid(laplace.cdf(t), laplace.cdf(t - shift), step)
    return masses, int(place), float(low), float(high)


def _on_grid(p: FloatArray, q: FloatArray, step: float) -> tuple[Any, FloatArray, FloatArray]:
    """Return the grid index below the loss log(p / q), and the masses at it and one step up."""
    loss = np.log(p / q)
    below = np.clip(np.floor(loss / step + 1e-9), -STEPS, STEPS - 1)
    high = p * np.clip(np.expm1(below * step - loss) / math.expm1(-step), 0.0, 1.0)
    return below.astype(np.int64), p - high, high
