"""Laws of the privacy loss whose parameter, in any notion, is a given one: what a violation of that size may look like.

The coin is randomised response. No law of a given epsilon, with or without delta, is easier to tell: right guesses are at most
c = e^epsilon w + delta k/2 (`statistics/certificate.py`), and the coin has equality, in every round. In the other notions it is a law whose
whole parameter one event shows; others may be found by fewer runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from dpwitness.auditors.loss import elementary
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.mechanisms.terms.notions import GDP, ZCDP, Claim
from dpwitness.mechanisms.terms.validation import InvalidArgument, shown

SHAPES = ("coin", "laplace", "gaussian")

_ROUNDED = 1e-9
_FAR = 8.0  # of a shift whose events all have rates that are resolved
_LARGEST = 30.0  # of a shift or of log-odds; what lies beyond shows in every run


def law_with(shape: str, claim: Claim, find: float) -> LossLaw:
    """The law of this shape whose parameter in the claim's notion is `find`.

    Raises
    ------
    InvalidArgument
        If there is none: Gaussian noise has no epsilon without delta, and a very large parameter needs no plan.

    Examples
    --------
    >>> from dpwitness.mechanisms import GDP, PureDP
    >>> law_with("laplace", PureDP(1.0), 1.1).supremum
    1.1
    >>> round(parameter_of(GDP(1.0), law_with("coin", GDP(1.0), 1.2)), 6)
    1.2
    """
    if shape == "gaussian":
        if claim.is_pure:
            raise InvalidArgument(f"plan: shape must not be 'gaussian' for {claim}: Gaussian noise keeps no epsilon without delta")
        return elementary.gaussian(_gaussian_shift(claim, find))
    if shape == "coin":
        odds = _root(lambda x: float(claim.parameter_at(expit(-x), expit(x))) - find, find)
        return elementary.finite(expit([-odds, odds]), expit([odds, -odds]))
    return elementary.laplace(find if claim.is_pure else _root(lambda x: parameter_of(claim, elementary.laplace(x)) - find, find))


def parameter_of(claim: Claim, law: LossLaw) -> float:
    """The parameter that a law has in the claim's notion, at its delta or order: the larger of the pair's two orders."""
    sides = law, law.swapped()
    if claim.bounds_epsilon:
        return max(side.epsilon(claim.delta_budget) for side in sides)
    if claim.bounds_renyi:
        return max(_renyi(claim, side) for side in sides)
    found = 0.0
    for _, fpr, tpr in (side.roc() for side in sides):
        sure = (fpr > _ROUNDED) & (tpr < 1 - _ROUNDED)  # beyond, rounding makes up quantiles
        found = max(found, float(np.max(claim.parameter_at(fpr[sure], tpr[sure]), initial=0.0)))
    return found


def _renyi(claim: Claim, law: LossLaw) -> float:
    orders = np.array(list(claim.orders_among(ZCDP.orders.tolist())))
    some = law.p > 0
    with np.errstate(invalid="ignore"):
        found = logsumexp((orders[:, None] - 1) * law.loss[some], b=law.p[some], axis=1) / (orders - 1)
    return float(np.max(found / [claim.divergence_at(float(order)) for order in orders]))


def _gaussian_shift(claim: Claim, find: float) -> float:
    """Shift over standard deviation: D_a = a mu^2/2."""
    if claim.bounds_renyi:
        return math.sqrt(2 * find * min(claim.divergence_at(order) / order for order in claim.orders_among([2.0])))
    if claim.bounds_epsilon:
        return _root(lambda mu: float(GDP(mu).delta(find)) - claim.delta_budget, find)
    return find if isinstance(claim, GDP) else _root(lambda mu: parameter_of(claim, elementary.gaussian(mu)) - find, find, _FAR)


def _root(excess: Callable[[float], float], find: float, largest: float = _LARGEST) -> float:
    """Where a rising function passes zero."""
    if not excess(largest) > 0:
        raise InvalidArgument(f"plan: find must be so small that it takes runs to be seen, got {shown(find)}")
    return float(brentq(lambda x: min(excess(x), 1e9), 1e-9, largest, xtol=1e-13))
