"""Theorems that bound a claim from counts of right guesses, and the schedule that pays for the
choice of the number of guesses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.canaries import guess_probability, recursion
from dpwitness.auditors.statistics.betting import bracket
from dpwitness.core.claims import Claim
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument

Law = Callable[[Any, Any, Any, float, int], FloatArray]

_HALVINGS = 40
_MAX_EPSILON = 200.0  # largest epsilon of the search
# share of the error for the best number of guesses under Gaussian noise; a smaller and a larger
# number share the rest
_MAIN_SHARE = 0.98
_OTHER_FACTORS = (1 / 6, 6.0)  # factors of the smaller and the larger number of guesses
_WEAK_MU = 0.329  # mu below which more guesses are better


@dataclass(frozen=True, slots=True)
class Theorem:
    """A theorem on guesses about canaries, which bounds the parameter of a claim from counts."""

    method: str  # counting, steinke or curve, as in `audit_canaries`
    claim: Claim
    canaries: int  # guessed or not
    delta: float  # of a pure or approximate claim
    fixed: bool  # whether the number of guesses was chosen before the scores were seen

    @property
    def _counting_law(self) -> Law:
        return guess_probability.chance if self.fixed else guess_probability.p_value

    def refuted(self, right: Sequence[int], guesses: Sequence[int], alpha: float) -> list[float]:
        """Return the largest parameter that each number of right guesses refutes."""
        size, delta = self.canaries, self.delta
        if self.method == "counting":
            return [
                float(e)
                for e in epsilons_refuted(
                    np.array(right), np.array(guesses), delta, size, alpha, self._counting_law
                )
            ]
        counts = zip(right, guesses, strict=True)
        if self.method == "curve":
            return [parameter_refuted(self.claim, v, r, size, alpha) for v, r in counts]
        return [
            largest(
                lambda e, v=v, r=r: guess_probability.steinke_chance(v, r, e, delta, size) <= alpha  # type: ignore[misc]
            )
            for v, r in counts
        ]

    def smallest_error(self, right: int, guesses: int) -> float:
        """Return the smallest error probability at which the counts refute the claim."""
        if self.method == "steinke":
            return guess_probability.steinke_chance(
                right, guesses, self.claim.parameter, self.delta, self.canaries
            )
        if self.method == "counting":
            return float(
                self._counting_law(right, guesses, self.claim.parameter, self.delta, self.canaries)
            )
        lines = self.claim.tangents()

        def not_refuted(log_error: float) -> bool:
            return not recursion.refutes(right, guesses, self.canaries, *lines, math.exp(log_error))

        return math.exp(bracket(not_refuted, -40.0, 0.0, _HALVINGS)[1])


def epsilons_refuted(
    right: FloatArray,
    guesses: FloatArray,
    delta: float,
    canaries: int,
    alpha: float,
    law: Law = guess_probability.p_value,
) -> FloatArray:
    """Return the largest epsilon that each pair of counts refutes by the counting theorem, rounded
    down; 0 where no epsilon is refuted.
    """
    right, guesses = np.asarray(right, dtype=float), np.asarray(guesses, dtype=float)

    def refuted(epsilon: FloatArray) -> np.ndarray:
        return np.asarray(law(right, guesses, epsilon, delta, canaries) <= alpha)

    low, high = np.zeros_like(right), np.full_like(right, _MAX_EPSILON)
    positive = refuted(low)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        found = refuted(middle)
        low, high = np.where(found, middle, low), np.where(found, high, middle)
    return np.where(positive, low, 0.0)


def parameter_refuted(
    claim: Claim, right: int, guesses: int, canaries: int, alpha: float, above: float = 0.0
) -> float:
    """Return the largest parameter of the claim's curve that `recursion` refutes, rounded down.

    Returns `above` if no parameter larger than `above` is refuted.
    """

    def refuted(parameter: float) -> bool:
        try:
            member = claim.with_parameter(parameter)
        except InvalidArgument:  # the loss is so large that the claim promises nothing
            return False
        return recursion.refutes(right, guesses, canaries, *member.tangents(), alpha)

    least = max(above, claim.trivial_parameter())
    found = largest(refuted, least, claim.largest_parameter)
    return found if found > least else above


def certified_epsilon(claim: Claim, lower: float, delta: float) -> float:
    """Return the epsilon at delta of a certified parameter.

    Returns 0 if no parameter is certified, or if the curve has no finite epsilon at delta.
    """
    found = claim.with_parameter(lower).epsilon_at(delta) if lower > 0 else 0.0
    return found if math.isfinite(found) else 0.0


def largest(
    refuted: Callable[[float], bool], above: float = 0.0, most: float = _MAX_EPSILON
) -> float:
    """Return the largest parameter that is refuted, rounded down by a relative 1e-4; `above` if no
    larger parameter is refuted.
    """
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
    """Return numbers of guesses for the recursion, each with its error; both depend only on the
    number of canaries and on the claim.

    33 m^0.28 is within some percent of the best number for Gaussian noise with epsilon from 2 to 8
    (delta = 1e-5) and m from 200 to 1e5. Weaker signals need more guesses, so a claim with a small
    `mu` gets more.

    Examples
    --------
    >>> [(guesses, round(share, 5)) for guesses, share in schedule(5000, 2900, 0.05)]
    [(358, 0.049), (60, 0.0005), (2148, 0.0005)]
    >>> schedule(5000, 2900, 0.05, mu=0.2)[0][0]
    589
    """
    main = max(
        1, min(most, round(0.45 * canaries), int(33 * canaries**0.28 * max(1.0, _WEAK_MU / mu)))
    )
    others = sorted({max(1, min(most, round(part * main))) for part in _OTHER_FACTORS} - {main})
    share = (1 - _MAIN_SHARE) * alpha / len(others) if others else 0.0
    return [
        (main, _MAIN_SHARE * alpha if others else alpha),
        *((guesses, share) for guesses in others),
    ]


def sizes(most: int) -> np.ndarray:
    """Return candidate numbers of guesses for the counting theorem, in geometric progression up to
    `most`.
    """
    return np.unique(np.geomspace(1, most, 80).astype(int))
