"""Confidence limits of a mean or a median that hold for every law allowed by the stated assumption,
at any number of runs.

**Betting** on the mean of bounded variables (Waudby-Smith and Ramdas 2024). *Theorem.* Let X_1..X_n
be independent with mean mu and values in [0, B]. Let stakes 0 <= a_j < 1/m and 0 <= b_j < 1/(B - m)
be fixed before the X_i are seen. If mu <= m, the capital K = avg_j prod_i (1 + a_j (X_i - m)) is at
least 1/alpha with probability at most alpha. If mu >= m, the same holds for avg_j prod_i (1 - b_j
(X_i - m)).

*Proof.* Each factor is non-negative, as X_i - m >= -m > -1/a_j (and X_i - m <= B - m < 1/b_j),
and has expectation at most 1 under the hypothesis. Factors are independent, so E K <= 1, also for
an average of such capitals. Markov's inequality gives the bound.  []

**Inversion.** Stakes are fixed on a pilot, so the first capital falls as m grows, and falls as
the X_i fall. So the m at which the capital crosses 1/alpha is a lower confidence limit for mu. If
X_i(e) falls with e, hold m = delta fixed. The least e at which the capital no longer exceeds
1/alpha is a lower confidence limit for the e* with E X(e*) = delta: a limit above e* needs K >=
1/alpha at e*. Upper limits follow in the same way.  []

**Range.** Bets that a mean is larger need values of at least `low` and
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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpwitness.core.protocols import FloatArray

# multiples of the pilot's stake; each gets an equal share of the capital
_STAKE_MULTIPLES = np.array([0.6, 1.0, 1.6])
# bisections in the search for a limit; the conservative end of the last interval is returned
_BISECTIONS = 24


@dataclass(frozen=True, slots=True, eq=False)
class Stakes:
    """Stakes of the bets that a mean is larger (`up`) or smaller (`down`) than the hypothesis,
    fixed on a pilot.
    """

    up: FloatArray
    down: FloatArray

    @classmethod
    def plan(cls, pilot: FloatArray, bound: float, size: int, alpha: float) -> Stakes:
        """Return sqrt(2 ln(1/alpha) / (n variance)), the stakes for the smallest deviations that n
        values can detect.
        """
        mean = max(float(pilot.mean()), 0.1 * bound / size)
        spread = max(float(pilot.var()), (0.05 * mean) ** 2, 1e-300)
        stake = math.sqrt(2 * math.log(1 / alpha) / (size * spread))
        # the largest allowed stakes are 1/mean for upward bets, 1/bound for downward bets
        return cls(
            np.minimum(stake * _STAKE_MULTIPLES, 0.5 / mean),
            np.minimum(stake * _STAKE_MULTIPLES, 0.9 / bound),
        )


def log_capital(x: FloatArray, mean: float, stakes: FloatArray, sign: float) -> float:
    """Return the logarithm of the capital of bets of this sign against `mean`; minus infinity for
    too large stakes.
    """
    logs = np.full(len(stakes), -np.inf)
    nonzero = x[x != 0]
    for j, stake in enumerate(stakes):
        if sign < 0 or stake * mean < 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                total = np.log1p(sign * stake * (nonzero - mean)).sum() + (
                    len(x) - len(nonzero)
                ) * math.log1p(-sign * stake * mean)
            logs[j] = total if np.isfinite(total) else -np.inf
    return float(logsumexp(logs)) - math.log(len(stakes))


def bracket(
    rejected: Callable[[float], bool], low: float, high: float, steps: int = 30
) -> tuple[float, float]:
    """Bisect a test that rejects at `low` (which may be the larger) but not at `high`; return the
    ends of the last interval.
    """
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low, high


def bracket_each(
    rejected: Callable[[FloatArray], NDArray[np.bool_]],
    low: FloatArray,
    high: FloatArray,
    steps: int,
) -> tuple[FloatArray, FloatArray]:
    """Bisect a test of each element, as `bracket` does for one number."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        found = rejected(middle)
        low, high = np.where(found, middle, low), np.where(found, high, middle)
    return low, high


def lower_mean(x: FloatArray, stakes: Stakes, alpha: float) -> float:
    """Return the lower confidence limit of the mean at error `alpha`; 0 if no value is rejected."""

    def rejected(m: float) -> bool:
        return log_capital(x, m, stakes.up, 1.0) >= math.log(1 / alpha)

    return bracket(rejected, 0.0, float(x.mean()), _BISECTIONS)[0] if rejected(0.0) else 0.0


def upper_mean(x: FloatArray, bound: float, stakes: Stakes, alpha: float) -> float:
    """Return the upper confidence limit of the mean at error `alpha`; `bound` if no value is
    rejected.
    """

    def rejected(m: float) -> bool:
        return log_capital(x, m, stakes.down, -1.0) >= math.log(1 / alpha)

    return bracket(rejected, bound, float(x.mean()), _BISECTIONS)[0] if rejected(bound) else bound


def range_limits(
    values: FloatArray, low: float, high: float | None, alpha: float
) -> tuple[float, float]:
    """Return the limits, each at error `alpha`, of the mean of values in [low, high]; the upper one
    is infinite without `high`.
    """
    x = values - low
    first = max(1, int(0.1 * len(x)))
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
    from scipy.stats import binom  # half a second, and few audits need it

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
