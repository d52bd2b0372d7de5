"""Confidence limits of a mean or a median that hold for every law allowed by the stated assumption,
at any number of runs.

**Range.** By betting (`betting.py`). Bets that a mean is larger need values of at least `low` and
nothing else: each factor 1 + a (X - m) is non-negative and has mean at most 1 if the mean is at
most m. So the lower limit holds for every law on [low, infinity). An upper limit needs a stated
upper end, since rare large values may always be missed. Stakes are fixed on the first tenth of
the values, which is not used again.

**Moment** (Catoni 2012). psi(x) = sign(x) ln(1 + |x| + x^2/2). Let X_i be independent with mean
mu and standard deviation at most s, and fix t > 0. Then sum psi(t (X_i - mu)/s) - n t^2/2 >=
ln(1/alpha) has probability at most alpha. The same holds with -psi.

*Proof.* exp psi(x) <= 1 + x + x^2/2, with equality for x >= 0. For x < 0 this follows from (1 + x
+ x^2/2)(1 - x + x^2/2) = 1 + x^4/4. So each factor exp psi has mean at most 1 + t^2/2 <=
exp(t^2/2). Factors are independent; Markov's inequality gives the bound.  []

The sum falls as mu grows, so the mean at which the sum crosses the threshold is a lower limit.
With s = c mu, a spread in units of the mean, psi's argument t (X/mu - 1)/c falls as mu grows for
X >= 0, and the same holds.

**Median.** Let r be the largest rank for which P(Bin(n, 1/2) < r) <= alpha. The r-th smallest
value lies above a median with probability at most alpha: fewer than r values would have to be at
most the median. No law is excluded.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.stats import binom

from dpwitness.auditors.statistics.betting import Stakes, bracket, lower_mean, upper_mean
from dpwitness.core.protocols.mechanism import FloatArray

_PILOT_SHARE = 0.1


def range_limits(
    values: FloatArray, low: float, high: float | None, alpha: float
) -> tuple[float, float]:
    """Return the limits, each at error `alpha`, of the mean of values in [low, high]; the upper one
    is infinite without `high`.
    """
    x = values - low
    first = max(1, int(_PILOT_SHARE * len(x)))
    pilot, rest = x[:first], x[first:]
    scale = (high - low) if high is not None else max(float(pilot.max()), 1e-300)
    stakes = Stakes.plan(pilot, scale, len(rest), alpha)
    upper = math.inf if high is None else low + upper_mean(rest, scale, stakes, alpha)
    return low + lower_mean(rest, stakes, alpha), upper


def moment_limits(
    values: FloatArray, alpha: float, *, deviation: float | None = None, spread: float | None = None
) -> tuple[float, float]:
    """Return the limits, each at error `alpha`, of a mean if the deviation is at most `deviation`,
    or `spread` means.
    """
    n = len(values)
    goal = math.log(1 / alpha)
    t = math.sqrt(2 * goal / n)
    unit = deviation if deviation is not None else spread
    assert unit is not None

    def excess(mean: float, sign: float) -> bool:
        """Return whether the test of this sign refutes `mean`."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            z = (
                values - mean
                if deviation is not None
                else np.where(values > 0, values / mean, 0.0) - 1.0
            )
        x = sign * t * z / unit
        size = np.abs(x)
        influence = np.sign(x) * np.log1p(size + size * size / 2)  # Catoni's psi
        return float(influence.sum()) - n * t * t / 2 >= goal

    middle = float(values.mean())
    if deviation is None:
        lower = bracket(lambda m: excess(m, 1.0), 0.0, middle, 60)[0] if middle > 0 else 0.0
        return lower, _refuted_limit(
            lambda m: excess(m, -1.0), middle, lambda m: 2 * m if m > 0 else 1.0
        )
    lower = _refuted_limit(
        lambda m: excess(m, 1.0), middle, lambda m: middle - max(2 * (middle - m), deviation)
    )
    return lower, _refuted_limit(
        lambda m: excess(m, -1.0), middle, lambda m: middle + max(2 * (m - middle), deviation)
    )


def _refuted_limit(
    refuted: Callable[[float], bool], start: float, step: Callable[[float], float]
) -> float:
    """Return the refuted end of the bracket between `start` and the first refuted step; infinite if
    no step is refuted.
    """
    inside = outside = start
    for _ in range(200):
        if refuted(outside):
            break
        inside, outside = outside, step(outside)
    else:
        return math.copysign(math.inf, outside - start)
    return bracket(refuted, outside, inside, 60)[0]


def median_limits(values: FloatArray, alpha: float) -> tuple[float, float]:
    """Return the lower and the upper limit, each at error `alpha`, of every median; infinite for
    too few values.
    """
    n = len(values)
    rank = int(binom.ppf(alpha, n, 0.5))  # least k with P(Bin <= k) >= alpha, so P(Bin < k) < alpha
    if rank < 1:
        return -math.inf, math.inf
    ordered = np.sort(values)
    return float(ordered[rank - 1]), float(ordered[n - rank])


def combined_limits(
    weights: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[float, float]:
    """Return the range of sum_k weights_k ln e_k, where each e_k > 0 lies within its limits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (
            np.where(weights == 0, 0.0, weights * np.log(np.maximum(end, 0.0)))
            for end in (lower, upper)
        )
    rising = weights > 0
    return float(np.sum(np.where(rising, low, high))), float(np.sum(np.where(rising, high, low)))
