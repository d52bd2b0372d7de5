"""Limit of black-box audits: the median of the parameter that the best audit of a pair certifies if
the loss law is known (`routes.limit`, from the mechanism).

The best events are {L > t1} (guess D1) and {L < -t2} (guess D0). The limit is the certificate of
`certificate.py` at the expected counts of the best pair of thresholds, with one or two directions.
Half of such audits certify at least the limit: the certificate is monotone, and the median of a
binomial lies within one count of its mean. The limit is not a ceiling: almost half of the audits
with an equally good event certify more, by luck. For RDP and zCDP, the limit is the binned form
(`event.py`) at expected counts if this is larger.

Elementary laws of the privacy loss: finitely many outputs, and shifted Laplace, normal and
two-sided geometric noise.

Continuous laws are cut into cells, which is post-processing: no divergence is overstated.

`law_with_parameter` returns the law with a given parameter in any privacy notion, as a model of a
violation. The coin is randomized response. No law with a given epsilon, with or without delta, is
easier to detect: the number of right guesses is at most c = e^epsilon w + delta k/2
(`statistics/certificate.py`), and the coin attains equality in every round. In the other notions,
the coin is a law for which one event shows the entire parameter; other laws may need fewer runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr

from dpwitness.auditors.events.event import best_expected_renyi_bound, cell_starts
from dpwitness.auditors.statistics.certificate import certified
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.claims import GDP, Claim
from dpwitness.core.claims.renyi import ORDERS
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument, short_repr

_MAX_CELLS = 60
# thresholds per side in the first pass; later passes search between the neighbors of the best
# threshold
_THRESHOLDS = 48


@dataclass(frozen=True, slots=True)
class BestEvent:
    """Rates of right and wrong guesses of the best event, its number of directions, and the
    parameter certified at these rates.
    """

    right: float
    wrong: float
    directions: int
    value: float


def limit_of_law(law: LossLaw, claim: Claim, trials: int, alpha: float) -> float:
    """Return the median of the parameter that the best audit certifies, from the law of
    the loss.
    """
    best = best_event(law, claim, trials, alpha).value
    return max(best, _binned_limit(law, claim, trials, alpha)) if claim.bounds_renyi else best


def best_event(law: LossLaw, claim: Claim, trials: int, alpha: float) -> BestEvent:
    """Return the pair of thresholds on the loss that certifies the largest parameter."""
    sides = [_event_rates(side, trials) for side in (law, law.swapped())]

    def value(first: NDArray[np.intp], second: NDArray[np.intp]) -> FloatArray:
        """Return the parameter certified at each pair of thresholds; index 0 means that a direction
        is not used.
        """
        (right1, wrong1), (right2, wrong2) = sides
        right = 0.5 * trials * (right1[first][:, None] + right2[second][None, :])
        wrong = 0.5 * trials * (wrong1[first][:, None] + wrong2[second][None, :])
        # overlapping events: every round is guessed exactly once
        excess = np.maximum(right + wrong - trials, 0.0) / 2
        both = certified(claim, right - excess, np.maximum(wrong - excess, 0.0), trials, alpha, 2)
        both = np.where((right + wrong <= trials * (1 + 1e-12)), both, 0.0)
        for one_way in ((slice(None), second == 0), (first == 0, slice(None))):  # one direction
            if right[one_way].size:
                both[one_way] = np.maximum(
                    both[one_way],
                    certified(claim, right[one_way], wrong[one_way], trials, alpha, 1),
                )
        return both

    grids = [_spread_indices(0, len(right) - 1) for right, _ in sides]
    best = BestEvent(0.0, 0.0, 1, 0.0)
    for _ in range(4):
        with np.errstate(invalid="ignore"):
            found = value(*grids)
        i, j = np.unravel_index(int(np.argmax(found)), found.shape)
        if found[i, j] > best.value:
            first, second = int(grids[0][i]), int(grids[1][j])
            right, wrong = (0.5 * float(sides[0][k][first] + sides[1][k][second]) for k in (0, 1))
            excess = max(right + wrong - 1, 0.0) / 2
            best = BestEvent(
                right - excess,
                wrong - excess,
                max(1, (first > 0) + (second > 0)),
                float(found[i, j]),
            )
        # between the neighbors of the best thresholds
        ends = [
            (grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)])
            for grid, k in zip(grids, (int(i), int(j)), strict=True)
        ]
        grids = [_spread_indices(low, high) for low, high in ends]
    return best


def _binned_limit(law: LossLaw, claim: Claim, trials: int, alpha: float) -> float:
    """Return the limit of the binned form with at most `_MAX_CELLS` cells between quantiles of the
    loss.

    The better of two divisions counts: cells that are finest where the loss is large, or cells of
    equal mass.
    """
    if len(law.p) <= _MAX_CELLS:
        return best_expected_renyi_bound(claim, law.p, law.q, trials, alpha)
    total = (law.p + law.q) / 2
    share = np.cumsum(total) / total.sum()
    tail = np.geomspace(1e-4, 0.5, _MAX_CELLS // 2)
    finest_in_tails = cell_starts(share, np.concatenate([tail, 1 - tail]))
    equal = cell_starts(share, np.linspace(0, 1, 2 * _MAX_CELLS // 3 + 1)[1:-1])
    divided = [
        [np.add.reduceat(side, starts) for side in (law.p, law.q)]
        for starts in (finest_in_tails, equal)
    ]
    return max(best_expected_renyi_bound(claim, p, q, trials, alpha) for p, q in divided)


def _event_rates(law: LossLaw, trials: int) -> tuple[FloatArray, FloatArray]:
    """Return the masses under P (right) and Q (wrong) of the events {L > t} for descending t > 0,
    starting with the empty event.

    Thresholds whose expected counts hardly differ are left out.
    """
    thresholds, wrong, right = law.roc()
    use = np.append(True, thresholds > 0)
    right, wrong = np.append(0.0, right)[use], np.append(0.0, wrong)[use]
    # finer steps than a quarter of a standard error of the count do not matter
    count = np.floor(8 * np.sqrt(trials * (right + wrong) + 1e-12))
    keep = np.append(True, np.diff(count) > 0)
    keep[-1] = True
    plateau = (
        np.append(np.diff(thresholds[use[1:]]) < -1e-9, True)
        if len(right) > 1
        else np.empty(0, dtype=bool)
    )
    keep[1:] &= plateau
    return right[keep], wrong[keep]


def _spread_indices(low: int, high: int) -> NDArray[np.intp]:
    """Return at most `_THRESHOLDS` indices from `low` to `high`, evenly spread."""
    steps = np.linspace(0, high - low, min(_THRESHOLDS, high - low + 1))
    return low + np.unique(steps.astype(np.intp))


def finite(p: ArrayLike, q: ArrayLike) -> LossLaw:
    """Return the loss law of a mechanism with finitely many outputs (or cells), from their masses
    under D1 and D0.
    """
    ones, zeros = np.ravel(np.asarray(p, dtype=float)), np.ravel(np.asarray(q, dtype=float))
    use = ones + zeros > 1e-300
    with np.errstate(divide="ignore"):
        loss = np.log(ones[use]) - np.log(zeros[use])
    return LossLaw.of(loss, ones[use], zeros[use])


def cells(cdf1: FloatArray, cdf0: FloatArray) -> LossLaw:
    """Return the loss law of a continuous output that is cut into cells, from its distribution
    functions on a grid.
    """
    return finite(
        *(np.clip(np.diff(np.concatenate([[0.0], cdf, [1.0]])), 0.0, None) for cdf in (cdf1, cdf0))
    )


def laplace_cdf(x: FloatArray) -> FloatArray:
    """Return the distribution function of Laplace noise of scale 1."""
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0.0)), 1 - 0.5 * np.exp(-np.maximum(x, 0.0)))


def laplace(shift: float) -> LossLaw:
    """Return the loss law of Laplace noise of scale 1 around 0 and around `shift`.

    Clipping to an interval that contains both centers does not change the law.
    """
    grid = np.linspace(0.0, abs(shift), 2001)
    return cells(laplace_cdf(grid - abs(shift)), laplace_cdf(grid))


def gaussian(shift: float) -> LossLaw:
    """Return the loss law of normal noise of variance 1 around 0 and around `shift`."""
    size = abs(shift)
    grid = np.linspace(-9.0, 9.0 + size, 8001)
    law = finite(_normal_masses(grid - size), _normal_masses(grid))
    return replace(law, extremes=(-math.inf, math.inf) if shift else (0.0, 0.0))


def _normal_masses(grid: FloatArray) -> FloatArray:
    """Return the normal masses of the cells between grid points and beyond, without cancellation in
    the upper tail.
    """
    below = np.diff(np.concatenate([[0.0], ndtr(grid), [1.0]]))
    above = -np.diff(np.concatenate([[1.0], ndtr(-grid), [0.0]]))
    return np.where(np.append(-np.inf, grid) > 0, above, below)


def discrete_laplace(*shifts: int, epsilon: float = 1.0) -> LossLaw:
    """Return the loss law of independent two-sided geometric noise in each coordinate, around 0 and
    around `shifts`.
    """
    support = np.arange(-60, 61)
    center, ones, zeros = np.exp(-epsilon * np.abs(support)), np.ones(1), np.ones(1)
    for shift in shifts:
        moved = np.exp(-epsilon * np.abs(support - shift))
        ones, zeros = (
            np.multiply.outer(ones, moved / moved.sum()),
            np.multiply.outer(zeros, center / center.sum()),
        )
    return finite(ones, zeros)


SHAPES = ("coin", "laplace", "gaussian")

_LEAST_RATE = 1e-9  # least probability of an event that shows a parameter of a curve


def law_with_parameter(shape: str, claim: Claim, find: float) -> LossLaw:
    """Return the law of this shape with parameter `find` in the claim's notion.

    Raises InvalidArgument if there is no such law: Gaussian noise has no epsilon without delta, and
    a very large parameter needs no plan.
    """
    if shape == "gaussian":
        if claim.is_pure:
            raise InvalidArgument(
                f"plan: shape must not be 'gaussian' for {claim}: Gaussian noise satisfies "
                "no epsilon without delta"
            )
        return gaussian(_gaussian_shift(claim, find))
    if shape == "coin":
        odds = _root(lambda x: float(claim.parameter_at(expit(-x), expit(x))) - find, find)
        return finite(expit([-odds, odds]), expit([odds, -odds]))
    return laplace(
        find if claim.is_pure else _root(lambda x: parameter_of(claim, laplace(x)) - find, find)
    )


def parameter_of(claim: Claim, law: LossLaw) -> float:
    """Return the parameter of a law in the claim's notion, at the claim's delta or order: the
    larger of the pair's two orders.

    A curve, such as that of GDP, is concave, and so is the attacker's curve: the vertices of the
    latter decide.
    """
    sides = law, law.swapped()
    if claim.bounds_epsilon:
        return max(side.epsilon(claim.delta_budget) for side in sides)
    if claim.bounds_renyi:
        orders = claim.orders_among(ORDERS.tolist())
        return max(side.renyi(a) / claim.divergence_at(a) for side in sides for a in orders)
    found = 0.0
    for side in sides:
        threshold, fpr, tpr = side.roc()
        # Beyond the middle, the other order of the pair gives the same rates without cancellation.
        # Events of smaller probability have rates with too few digits.
        use = (fpr + tpr <= 1) & (tpr > _LEAST_RATE) & ((fpr > 0) | np.isposinf(threshold))
        with np.errstate(invalid="ignore"):
            found = max(found, float(np.max(claim.parameter_at(fpr[use], tpr[use]), initial=0.0)))
    return found


def _gaussian_shift(claim: Claim, find: float) -> float:
    """Return the shift over the standard deviation of Gaussian noise with parameter `find`."""
    known = claim.gaussian_shift(find)
    if known is not None:
        return known
    if claim.bounds_epsilon:
        return _root(lambda mu: float(GDP(mu).delta(find)) - claim.delta_budget, find)
    # largest shift at which the rates of all events are resolved
    return _root(lambda mu: parameter_of(claim, gaussian(mu)) - find, find, 8.0)


def _root(excess: Callable[[float], float], find: float, largest: float = 30.0) -> float:
    """Return the zero of an increasing function of a shift or log-odds. Raise InvalidArgument if
    the zero exceeds `largest`: larger ones show in every run.
    """
    from scipy.optimize import brentq  # takes a tenth of a second to load

    if not excess(largest) > 0:
        raise InvalidArgument(
            "plan: find is too large to need a plan: such a violation shows in every run; "
            f"use a smaller find, got {short_repr(find)}"
        )
    return float(brentq(lambda x: min(excess(x), 1e9), 1e-9, largest, xtol=1e-13))
