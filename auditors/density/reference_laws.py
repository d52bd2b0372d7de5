"""Laws of the privacy loss with a given parameter in any privacy notion, as models of violations.

The coin is randomized response. No law with a given epsilon, with or without delta, is easier to
detect: the number of right guesses is at most c = e^epsilon w + delta k/2
(`statistics/certificate.py`), and the coin attains equality in every round. In the other notions,
the coin is a law for which one event shows the entire parameter; other laws may need fewer runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logsumexp

from dpwitness.auditors.density import closed_form
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.claims import GDP, Claim
from dpwitness.core.claims.renyi import ORDERS
from dpwitness.core.values.validation import InvalidArgument, short_repr

SHAPES = ("coin", "laplace", "gaussian")

_RATE_ROUNDING = 1e-9
_MAX_RESOLVED_SHIFT = 8.0  # largest shift at which the rates of all events are resolved
_MAX_SHIFT = 30.0  # largest shift or log-odds; larger ones show in every run


def law_with_parameter(shape: str, claim: Claim, find: float) -> LossLaw:
    """Return the law of this shape with parameter `find` in the claim's notion.

    Raises InvalidArgument if there is no such law: Gaussian noise has no epsilon without delta, and
    a very large parameter needs no plan.
    """
    if shape == "gaussian":
        if claim.is_pure:
            raise InvalidArgument(
                f"plan: shape must not be 'gaussian' for {claim}: Gaussian noise satisfies "
                "no epsilon without delta"
            )
        return closed_form.gaussian(_gaussian_shift(claim, find))
    if shape == "coin":
        odds = _root(lambda x: float(claim.parameter_at(expit(-x), expit(x))) - find, find)
        return closed_form.finite(expit([-odds, odds]), expit([odds, -odds]))
    return closed_form.laplace(
        find
        if claim.is_pure
        else _root(lambda x: parameter_of(claim, closed_form.laplace(x)) - find, find)
    )


def parameter_of(claim: Claim, law: LossLaw) -> float:
    """Return the parameter of a law in the claim's notion, at the claim's delta or order: the
    larger of the pair's two orders.
    """
    sides = law, law.swapped()
    if claim.bounds_epsilon:
        return max(side.epsilon(claim.delta_budget) for side in sides)
    if claim.bounds_renyi:
        return max(_renyi_parameter(claim, side) for side in sides)
    found = 0.0
    for _, fpr, tpr in (side.roc() for side in sides):
        # at smaller rates, quantiles are rounding errors
        resolved = (fpr > _RATE_ROUNDING) & (tpr < 1 - _RATE_ROUNDING)
        found = max(
            found, float(np.max(claim.parameter_at(fpr[resolved], tpr[resolved]), initial=0.0))
        )
    return found


def _renyi_parameter(claim: Claim, law: LossLaw) -> float:
    """Return the parameter of one order of the pair from Renyi divergences."""
    orders = np.array(list(claim.orders_among(ORDERS.tolist())))
    some = law.p > 0
    with np.errstate(invalid="ignore"):
        found = logsumexp((orders[:, None] - 1) * law.loss[some], b=law.p[some], axis=1) / (
            orders - 1
        )
    return float(np.max(found / [claim.divergence_at(float(order)) for order in orders]))


def _gaussian_shift(claim: Claim, find: float) -> float:
    """Return the shift over the standard deviation of Gaussian noise with parameter `find`."""
    known = claim.gaussian_shift(find)
    if known is not None:
        return known
    if claim.bounds_epsilon:
        return _root(lambda mu: float(GDP(mu).delta(find)) - claim.delta_budget, find)
    return _root(
        lambda mu: parameter_of(claim, closed_form.gaussian(mu)) - find, find, _MAX_RESOLVED_SHIFT
    )


def _root(excess: Callable[[float], float], find: float, largest: float = _MAX_SHIFT) -> float:
    """Return the zero of an increasing function. Raise InvalidArgument if the zero exceeds
    `largest`.
    """
    from scipy.optimize import brentq  # takes a tenth of a second to load

    if not excess(largest) > 0:
        raise InvalidArgument(
            "plan: find is too large to need a plan: such a violation shows in every run; "
            f"use a smaller find, got {short_repr(find)}"
        )
    return float(brentq(lambda x: min(excess(x), 1e9), 1e-9, largest, xtol=1e-13))
