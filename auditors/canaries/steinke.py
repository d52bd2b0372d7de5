"""Theorem of Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run", for guesses about r of m canaries.

Under (epsilon, delta)-DP, with fair and independent coins and B ~ Bin(r, e^epsilon / (1 + e^epsilon)),

    P(C >= v)  <=  P(B >= v) + 2 m delta max_{1 <= i <= m} P(v > B >= v - i) / i,

where m counts *all* canaries, including canaries that are not guessed: delta may be spent on any canary, and the guesser may then name
this canary. The theorem is not proved here, and serves for comparison with published figures. `counting.chance` is proved, exact for r = m,
and smaller at the levels of audits. Near probability one the exact value exceeds this bound by a few parts in 10^7
(`tests/auditors/canaries/test_canaries.py`), where no bound is certified.
"""

from __future__ import annotations

import numpy as np
from scipy.special import bdtrc, expit

from dpwitness.mechanisms.protocols.mechanism import FloatArray


def chance(right: int, guesses: int, epsilon: float, delta: float, canaries: int) -> float:
    """Return the theorem's upper bound on P(C >= v).

    Examples
    --------
    >>> round(chance(90, 100, 1.5, 1e-5, 1000), 4)
    0.0188
    """
    p = float(expit(epsilon))
    upper_tail = _tail(np.array([float(right)]), guesses, p)[0]
    if delta == 0 or right == 0:
        return float(upper_tail)
    i = np.arange(1.0, right + 1)  # for i > v, P(v > B >= v - i) is constant
    gain = float(np.max((_tail(right - i, guesses, p) - upper_tail) / i))
    return float(min(1.0, upper_tail + 2 * canaries * delta * gain))


def _tail(right: FloatArray, guesses: int, p: float) -> FloatArray:
    """Return the upper binomial tail P(B >= v)."""
    return np.where(right > 0, bdtrc(np.maximum(right, 1) - 1, guesses, p), 1.0)
