"""What a tally proves of the whole trade-off curve and privacy profile of a pair, not of one parameter only.

Let g be the trade-off curve of the pair itself: the least concave curve above what any test reaches in either order of the pair. It rises,
g(0) >= 0, and it is its own mirror image in the antidiagonal, since the complement of an event swaps the orders. As in
`certificate`, a round is right with probability c = s theta, wrong with w = s (1 - theta), and with k guess
directions (2w/k, 2c/k) lies under g. Let theta_L <= theta and s_L <= s be the two Clopper-Pearson limits; both hold with probability 1 -
alpha.
Then the **certified point**

    (q_L, p_L) = 2/k (s_L (1 - theta_L), s_L theta_L)

lies under g too: on the ray with slope theta a smaller s stays under a concave g with g(0) >= 0, and a smaller theta moves right and down,
which stays under a rising g. Since delta(eps) = sup_q g(q) - e^eps q, and (1 - p_L, 1 - q_L) lies under g by the mirror,

    delta(eps) >= delta_L(eps) = max(0, p_L - e^eps q_L, (1 - q_L) - e^eps (1 - p_L))

for all eps >= 0 at once, at the one error alpha. (Taking the concave hull leaves the sup as it is, so delta(eps) is the larger
hockey-stick divergence of the two orders.) A claim whose profile is crossed by delta_L, or whose curve runs below the certified point, is
refuted. Pure DP needs theta_L alone, so its certified epsilon lies a hair beyond the end of this curve, which pays for s_L too.  []
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.auditors.statistics.certificate import SHARE_FOR_FREQUENCY, Tally, cp_lower
from dpwitness.mechanisms.terms.protocol import FloatArray


@dataclass(frozen=True, slots=True)
class CertifiedPoint:
    """A point under the true trade-off curve of the pair at a stated confidence, and the observed rates that it comes from."""

    fpr: float
    tpr: float
    observed_fpr: float
    observed_tpr: float


def certified_point(tally: Tally, alpha: float) -> CertifiedPoint:
    """The certified point of the module's text, at error `alpha`.

    Examples
    --------
    >>> point = certified_point(Tally(7_400, 2_600, 20_000), 0.05)
    >>> round(point.fpr, 3), round(point.tpr, 3), point.observed_tpr
    (0.131, 0.358, 0.37)
    """
    gamma = alpha * SHARE_FOR_FREQUENCY
    made = tally.correct + tally.wrong
    theta = float(cp_lower(tally.correct, made, alpha - gamma))
    frequency = float(cp_lower(made, tally.rounds, gamma))
    scale, rounds = 2.0 / tally.directions, max(tally.rounds, 1)
    return CertifiedPoint(
        fpr=min(1.0, scale * frequency * (1.0 - theta)),
        tpr=min(1.0, scale * frequency * theta),
        observed_fpr=min(1.0, scale * tally.wrong / rounds),
        observed_tpr=min(1.0, scale * tally.correct / rounds),
    )


def lower_profile(point: CertifiedPoint, epsilon: ArrayLike) -> FloatArray:
    """delta_L(epsilon) of the module's text."""
    growth = np.exp(np.minimum(np.asarray(epsilon, dtype=float), 700.0))
    direct = point.tpr - growth * point.fpr
    mirrored = (1.0 - point.fpr) - growth * (1.0 - point.tpr)
    found: FloatArray = np.maximum(0.0, np.maximum(direct, mirrored))
    return found
