"""Calibration of Gaussian noise to (epsilon, delta)-DP, and its inverse."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpwitness.core import GDP


@lru_cache(maxsize=256)
def shift_over_sigma(epsilon: float, delta: float) -> float:
    """Return mu = sensitivity / sigma at which Gaussian noise is exactly (epsilon, delta)-DP.

    Balle and Wang 2018, Theorem 8, Algorithm 1.
    """
    from scipy.optimize import brentq

    def excess(log_mu: float) -> float:
        return float(GDP(math.exp(log_mu)).delta(epsilon)) - delta

    high = 0.0
    while excess(high) < 0:
        high += 1.0
    low = min(high, 0.0) - 1.0
    while excess(low) > 0:
        low -= 1.0
    return math.exp(brentq(excess, low, high, xtol=1e-15, rtol=1e-15))


@lru_cache(maxsize=256)
def epsilon_of_shift(mu: float, delta: float, steps: int) -> float:
    """Return the smallest epsilon at `delta` of N(0, 1) shifted by `mu`, rounded to multiples of mu
    / steps (steps = 0: not rounded).

    Rounded normals are a monotone likelihood-ratio family, so the best events are the upper tails
    {k >= t}. The ratio at k lies between the unrounded ratios at k - 1/2 and k + 1/2, so the best t
    lies within 2 steps of the unrounded threshold.
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    def excess(epsilon: float) -> float:
        if steps == 0:
            return float(GDP(mu).delta(epsilon)) - delta
        best = np.rint((epsilon / mu + mu / 2) * steps / mu)
        tails = (best + np.arange(-3.0, 4.0) - 0.5) * mu / steps
        return float(np.max(ndtr(mu - tails) - np.exp(epsilon + log_ndtr(-tails)))) - delta

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2.0
    return float(brentq(excess, 0.0, high, xtol=1e-13, rtol=1e-13))
