"""Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run", for r of m canaries guessed.

Under (epsilon, delta)-DP, with fair and independent coins and B ~ Bin(r, e^epsilon / (1 + e^epsilon)),

    P(C >= v)  <=  P(B >= v) + 2 m delta max_{1 <= i <= m} P(v > B >= v - i) / i,

where m counts *all* canaries, those that are not guessed too: delta may be spent on any, and the guesser may then name it. Not proved
here, and stated for comparison with published figures: `counting.chance` is proved, exact for r = m, and below it at the levels of audits.
Near probability one the exact value exceeds it by a few parts in 10^7 (`tests/auditors/test_canaries.py`), where nothing is certified.
"""

from __future__ import annotations

import numpy as np
from scipy.special import bdtrc, expit

from dpwitness.mechanisms.terms.protocol import FloatArray


def chance(right: int, guesses: int, epsilon: float, delta: float, canaries: int) -> float:
    """The most that P(C >= v) may be.

    Examples
    --------
    >>> round(chance(90, 100, 1.5, 1e-5, 1000), 4)
    0.0188
    """
    p = float(expit(epsilon))
    up = _tail(np.array([float(right)]), guesses, p)[0]
    if delta == 0 or right == 0:
        return float(up)
    i = np.arange(1.0, right + 1)  # beyond v nothing is added to P(v > B >= v - i)
    gain = float(np.max((_tail(right - i, guesses, p) - up) / i))
    return float(min(1.0, up + 2 * canaries * delta * gain))


def _tail(right: FloatArray, guesses: int, p: float) -> FloatArray:
    """P(B >= v)."""
    return np.where(right > 0, bdtrc(np.maximum(right, 1) - 1, guesses, p), 1.0)
