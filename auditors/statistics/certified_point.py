"""The bound that a tally proves for the full trade-off curve and privacy profile of a pair, not for
one parameter only.

Let g be the trade-off curve of the pair itself: the least concave curve above the rates of every
test in either order of the pair. g rises, g(0) >= 0, and g is its own mirror image in the
antidiagonal, since the complement of an event swaps the orders.

As in `certificate`, a round is right with probability c = s theta and wrong with probability w =
s (1 - theta). With k guess directions, (2w/k, 2c/k) lies under g. Let theta_L <= theta and s_L <=
s be the two Clopper-Pearson limits; both hold with probability 1 - alpha. Then the **certified
point**

    (q_L, p_L) = 2/k (s_L (1 - theta_L), s_L theta_L)

lies under g too. A smaller s moves along a ray towards the origin, which stays under a concave g
with g(0) >= 0. A smaller theta moves right and down, which stays under a rising g. Since
delta(eps) = sup_q g(q) - e^eps q, and (1 - p_L, 1 - q_L) lies under g by the mirror symmetry,

    delta(eps) >= delta_L(eps) = max(0, p_L - e^eps q_L, (1 - q_L) - e^eps (1 - p_L))

for all eps >= 0 at once, at the single error alpha. (Taking the concave hull does not change the
supremum, so delta(eps) is the larger hockey-stick divergence of the two orders.)

A claim is refuted if delta_L exceeds its profile anywhere, or if its curve runs below the
certified point. Pure DP needs theta_L alone. So its certified epsilon lies slightly beyond the
end of this curve, which also spends error on s_L.  []
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.auditors.statistics.certificate import (
    SHARE_FOR_FREQUENCY,
    Tally,
    clopper_pearson_lower,
)
from dpwitness.core.protocols.mechanism import FloatArray


@dataclass(frozen=True, slots=True)
class CertifiedPoint:
    """Point under the true trade-off curve of the pair at a stated confidence, with the observed
    rates behind it.
    """

    fpr: float
    tpr: float
    observed_fpr: float
    observed_tpr: float


def certified_point(tally: Tally, alpha: float) -> CertifiedPoint:
    """Return the certified point of the module's docstring, at error `alpha`.

    Examples
    --------
    >>> point = certified_point(Tally(7_400, 2_600, 20_000), 0.05)
    >>> round(point.fpr, 3), round(point.tpr, 3), point.observed_tpr
    (0.131, 0.358, 0.37)
    """
    gamma = alpha * SHARE_FOR_FREQUENCY
    guesses = tally.correct + tally.wrong
    theta = float(clopper_pearson_lower(tally.correct, guesses, alpha - gamma))
    frequency = float(clopper_pearson_lower(guesses, tally.rounds, gamma))
    scale, rounds = 2.0 / tally.directions, max(tally.rounds, 1)
    return CertifiedPoint(
        fpr=min(1.0, scale * frequency * (1.0 - theta)),
        tpr=min(1.0, scale * frequency * theta),
        observed_fpr=min(1.0, scale * tally.wrong / rounds),
        observed_tpr=min(1.0, scale * tally.correct / rounds),
    )


def lower_profile(point: CertifiedPoint, epsilon: ArrayLike) -> FloatArray:
    """Return delta_L(epsilon), the lower bound on the privacy profile from the module's
    docstring.
    """
    growth = np.exp(np.minimum(np.asarray(epsilon, dtype=float), 700.0))
    direct = point.tpr - growth * point.fpr
    mirrored = (1.0 - point.fpr) - growth * (1.0 - point.tpr)
    return np.asarray(np.maximum(0.0, np.maximum(direct, mirrored)))
