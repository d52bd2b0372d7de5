"""From numbers of right guesses to the largest parameter that they refute, and how the choice of the number of guesses is paid for."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpwitness.auditors.canaries import counting, recursion
from dpwitness.auditors.canaries.curves import harmless, lines_of
from dpwitness.mechanisms.terms.notions import Claim, Curve
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument

Law = Callable[[FloatArray, FloatArray, FloatArray, float, int], FloatArray]

_HALVINGS = 40
_MOST = 200.0  # of an epsilon
_LONGEST = 40.0  # logarithm of a factor
_MAIN = 0.98  # of the error goes to the number of guesses at which Gaussian noise shows best, the rest to a smaller one and a larger one
_OTHERS = (1 / 6, 6.0)
_WEAK = 0.329  # mu below which more guesses are better


def epsilons_refuted(
    right: FloatArray, guesses: FloatArray, delta: float, canaries: int, alpha: float, law: Law = counting.p_value
) -> FloatArray:
    """Largest epsilon that each of these counts refutes by `counting`, rounded down; 0 where it refutes none.

    Examples
    --------
    >>> epsilons_refuted(np.array([90.0, 60.0]), np.array([100.0, 100.0]), 1e-5, 1000, 0.05).round(3).tolist()
    [1.629, 0.051]
    """
    right, guesses = np.asarray(right, dtype=float), np.asarray(guesses, dtype=float)

    def refuted(epsilon: FloatArray) -> np.ndarray:
        return np.asarray(law(right, guesses, epsilon, delta, canaries) <= alpha)

    low, high = np.zeros_like(right), np.full_like(right, _MOST)
    some = refuted(low)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        found = refuted(middle)
        low, high = np.where(found, middle, low), np.where(found, high, middle)
    return np.where(some, low, 0.0)


def parameter_refuted(claim: Claim, right: int, guesses: int, canaries: int, alpha: float, above: float = 0.0) -> float:
    """Largest parameter of the claim's curve that `recursion` refutes, rounded down; `above` where it refutes none beyond that."""

    def refuted(parameter: float) -> bool:
        try:
            member = claim.with_parameter(parameter)
        except InvalidArgument:  # of so large a loss that nothing is promised
            return False
        return recursion.refutes(right, guesses, canaries, *lines_of(member), alpha)

    least = max(above, harmless(claim))
    found = largest(refuted, least, math.exp(_LONGEST) if isinstance(claim, Curve) else _MOST)
    return found if found > least else above


def largest(refuted: Callable[[float], bool], above: float = 0.0, most: float = _MOST) -> float:
    """The last parameter that is refuted, rounded down to 1e-4 of it; `above` if nothing beyond that is."""
    low, high = above, max(2 * above, 0.5)
    if not refuted(low + 1e-3 * max(low, 0.05)):
        return above
    while refuted(high):
        low, high = high, 2 * high
        if high > most:
            return low
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def schedule(canaries: int, most: int, alpha: float, mu: float = 1.0) -> list[tuple[int, float]]:
    """Numbers of guesses for the recursion and the error of each, which depend on nothing but the number of canaries and the claim.

    33 m^0.28 is within some percent of the best number for Gaussian noise of epsilon from 2 to 8 (delta = 1e-5) and m from 200 to 1e5;
    weaker signals show best in more guesses, so a claim of little `mu` is held against more.

    Examples
    --------
    >>> [(guesses, round(share, 5)) for guesses, share in schedule(5000, 2900, 0.05)]
    [(358, 0.049), (60, 0.0005), (2148, 0.0005)]
    >>> schedule(5000, 2900, 0.05, mu=0.2)[0][0]
    589
    """
    main = max(1, min(most, round(0.45 * canaries), int(33 * canaries**0.28 * max(1.0, _WEAK / mu))))
    others = sorted({max(1, min(most, round(part * main))) for part in _OTHERS} - {main})
    share = (1 - _MAIN) * alpha / len(others) if others else 0.0
    return [(main, _MAIN * alpha if others else alpha), *((guesses, share) for guesses in others)]


def sizes(most: int) -> np.ndarray:
    """Numbers of guesses among which the counting theorem's is chosen: powers of a ratio."""
    return np.unique(np.geomspace(1, most, 80).astype(int))
