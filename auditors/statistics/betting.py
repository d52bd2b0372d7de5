"""Confidence limits for the mean of bounded variables, by betting (Waudby-Smith and Ramdas 2024).

**Theorem.** Let X_1..X_n be independent with mean mu and values in [0, B]. Let stakes 0 <= a_j <
1/m and 0 <= b_j < 1/(B - m) be fixed before the X_i are seen. If mu <= m, the capital K = avg_j
prod_i (1 + a_j (X_i - m)) is at least 1/alpha with probability at most alpha. If mu >= m, the
same holds for avg_j prod_i (1 - b_j (X_i - m)).

*Proof.* Each factor is non-negative, as X_i - m >= -m > -1/a_j (and X_i - m <= B - m < 1/b_j),
and has expectation at most 1 under the hypothesis. Factors are independent, so E K <= 1, also for
an average of such capitals. Markov's inequality gives the bound.  []

**Inversion.** Stakes are fixed on a pilot, so the first capital falls as m grows, and falls as
the X_i fall. So the m at which the capital crosses 1/alpha is a lower confidence limit for mu. If
X_i(e) falls with e, hold m = delta fixed. The least e at which the capital no longer exceeds
1/alpha is a lower confidence limit for the e* with E X(e*) = delta: a limit above e* needs K >=
1/alpha at e*. Upper limits follow in the same way.  []
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dpwitness.core.protocols.mechanism import FloatArray

# multiples of the pilot's stake; each gets an equal share of the capital
_STAKE_MULTIPLES = np.array([0.6, 1.0, 1.6])
# bisections in the search for a limit; the conservative end of the last interval is returned
_BISECTIONS = 24
# shares of the largest allowed stake: 1/mean for upward bets, 1/bound for downward bets
_MAX_UP_SHARE, _MAX_DOWN_SHARE = 0.5, 0.9


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
        return cls(
            np.minimum(stake * _STAKE_MULTIPLES, _MAX_UP_SHARE / mean),
            np.minimum(stake * _STAKE_MULTIPLES, _MAX_DOWN_SHARE / bound),
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
