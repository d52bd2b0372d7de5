"""Confidence limits for the mean of bounded variables, by betting (Waudby-Smith and Ramdas 2024).

**Theorem.** Let X_1..X_n be independent with mean mu and values in [0, B], and let stakes 0 <= a_j < 1/m and 0 <= b_j < 1/(B - m) be fixed
before they are seen. If mu <= m, the capital K = avg_j prod_i (1 + a_j (X_i - m)) is at least 1/alpha with probability at most alpha; if
mu >= m, so is avg_j prod_i (1 - b_j (X_i - m)).

*Proof.* Each factor is non-negative, as X_i - m >= -m > -1/a_j (and X_i - m <= B - m < 1/b_j), and has expectation at most 1 under the
hypothesis. Factors are independent, so E K <= 1, an average of such capitals as well; Markov's inequality.  []

**Inversion.** Stakes are fixed on a pilot, so the first capital falls as m grows, and it falls as the X_i fall. So the m at which it
crosses 1/alpha is a lower confidence limit for mu; and if X_i(e) falls with e, the least e at which it no longer exceeds 1/alpha, m = delta
being held, is a lower confidence limit for the e* with E X(e*) = delta: exceeding e* needs K >= 1/alpha at e*. The same from above.  []
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dpwitness.mechanisms.terms.protocol import FloatArray

_SPREAD = np.array([0.6, 1.0, 1.6])  # multiples of the pilot's stake, the capital shared among them
_STEPS = 24  # halvings of the interval in which a limit is looked for; its far end is taken
_MOST, _MOST_DOWN = 0.5, 0.9  # of the largest stake allowed, at the pilot's mean, and by the bound


@dataclass(frozen=True, slots=True, eq=False)
class Stakes:
    """Stakes for and against a mean, fixed on a pilot.

    Parameters
    ----------
    up, down : array
        Bets that the mean is larger, or smaller, than claimed.
    """

    up: FloatArray
    down: FloatArray

    @classmethod
    def plan(cls, pilot: FloatArray, bound: float, size: int, alpha: float) -> Stakes:
        """sqrt(2 ln(1/alpha) / (n variance)): the stakes that find the smallest departures from the mean that n can show."""
        mean = max(float(pilot.mean()), 0.1 * bound / size)
        spread = max(float(pilot.var()), (0.05 * mean) ** 2, 1e-300)
        stake = math.sqrt(2 * math.log(1 / alpha) / (size * spread))
        return cls(np.minimum(stake * _SPREAD, _MOST / mean), np.minimum(stake * _SPREAD, _MOST_DOWN / bound))


def log_capital(x: FloatArray, mean: float, stakes: FloatArray, sign: float) -> float:
    """ln of the capital that bets of this sign against `mean` have made; minus infinity if some stake breaks its rule."""
    logs = np.full(len(stakes), -np.inf)
    some = x[x != 0]
    for j, stake in enumerate(stakes):
        if sign < 0 or stake * mean < 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                total = np.log1p(sign * stake * (some - mean)).sum() + (len(x) - len(some)) * math.log1p(-sign * stake * mean)
            logs[j] = total if np.isfinite(total) else -np.inf
    return float(logsumexp(logs)) - math.log(len(stakes))


def bracket(rejected: Callable[[float], bool], low: float, high: float, steps: int = 30) -> tuple[float, float]:
    """Bisect a monotone test that rejects at `low` and not at `high` (in that order, whichever is larger)."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low, high


def lower_mean(x: FloatArray, stakes: Stakes, alpha: float) -> float:
    """Lower confidence limit at error `alpha`; 0 if nothing can be said."""
    goal = math.log(1 / alpha)

    def rejected(m: float) -> bool:
        return log_capital(x, m, stakes.up, 1.0) >= goal

    return bracket(rejected, 0.0, float(x.mean()), _STEPS)[0] if rejected(0.0) else 0.0


def upper_mean(x: FloatArray, bound: float, stakes: Stakes, alpha: float) -> float:
    """Upper confidence limit at error `alpha`; `bound` if nothing can be said."""
    goal = math.log(1 / alpha)

    def rejected(m: float) -> bool:
        return log_capital(x, m, stakes.down, -1.0) >= goal

    return bracket(rejected, bound, float(x.mean()), _STEPS)[0] if rejected(bound) else bound
