"""Does a pair exercise the mechanism? A pair on which both datasets give the same law of outputs says nothing about the claim.

Two kinds of evidence are looked at: the guesses of the event that was tested (right half of the time where the laws are equal), and a
Kolmogorov-Smirnov test of each column of all outputs that pilots and training have seen, on every pair. Each has half of `LEVEL`.

Equal laws are reported only where the audit had power: a mechanism with a tenth of the claim (`SHARE`) would have shown a difference in the
test with probability `POWER`, and on each of several pairs one with all of the claim in its pilot. An audit with too few runs for that
remains NOT_REFUTED: its bound and its smallest detectable violation say how little it knows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, bdtrc, kolmogorov, ndtri

from dpwitness.auditors.events.outputs import Outputs, concatenate
from dpwitness.auditors.loss.shapes import law_with
from dpwitness.auditors.statistics.combination import Part, combined_p_value
from dpwitness.mechanisms.terms.notions import Claim, PureDP
from dpwitness.mechanisms.terms.validation import InvalidArgument

LEVEL = 0.02  # probability that equal laws are taken for different ones
POWER = 0.9
SHARE = 0.1  # of the claim
LEARNING = 0.4  # standard errors that learning an event costs
_ROWS, _COLUMNS, _VALUES = 2**15, 32, 64  # of outputs that are compared; different values of which each is tested alone
_LARGE = 0.1  # total variation distance that every claim of interest allows: of two laws closer than that, a large claim is no measure
_SAME = PureDP(1e-12)

ADVICE = "try a pair whose values change the result, the pairs of a domain (--domain), or a search (--search)"


@dataclass(slots=True)
class Seen:
    """What pilots and training have seen: batches compared, the smallest p-value, and the rounds of the smallest batch."""

    batches: int = 0
    p_value: float = 1.0
    fewest: int = 0

    def add(self, one: Outputs, zero: Outputs) -> None:
        """Compare a batch of outputs on D1 with one on D0."""
        self.batches += 1
        self.p_value = min(self.p_value, difference(one, zero))
        self.fewest = min(self.fewest or 2**62, len(one) + len(zero))


def difference(one: Outputs, zero: Outputs) -> float:
    """Return a p-value of "both batches have the same law".

    Each column is tested by Kolmogorov-Smirnov, as is its distance from the median; where values are few, each value by its counts.
    """
    if min(len(one), len(zero)) < 8:
        return 1.0
    both = concatenate([one.take(np.arange(min(len(one), _ROWS))), zero.take(np.arange(min(len(zero), _ROWS)))])
    n, m = min(len(one), _ROWS), min(len(zero), _ROWS)
    found, columns = 1.0, both.matrix().T[: _COLUMNS + 1]
    for number, column in enumerate(columns):
        with np.errstate(invalid="ignore", over="ignore"):
            folded = [] if number == 0 else [np.abs(column - np.nanmedian(column))] if np.isfinite(column).any() else []
        for values in (column, *folded):
            rank = np.unique(values, return_inverse=True)[1].ravel()
            counts = [np.bincount(side, minlength=rank.max() + 1) for side in (rank[:n], rank[n:])]
            gap = float(np.max(np.abs(np.cumsum(counts[0]) / n - np.cumsum(counts[1]) / m)))
            found = min(found, float(kolmogorov(gap * math.sqrt(n * m / (n + m)))))
            if len(counts[0]) <= _VALUES:  # a rare value moves no distribution function
                each, total = counts[0], counts[0] + counts[1]
                tails = np.minimum(bdtr(each, total, n / (n + m)), bdtrc(each - 1.0, total, n / (n + m)))
                found = min(found, 2 * len(each) * float(np.min(tails)))
    return min(1.0, found * 3 * len(columns))


def exercised(claim: Claim, parts: Sequence[Part], seen: Seen, pairs: int) -> tuple[bool | None, str]:
    """Return whether outputs on D0 and D1 differ, None if the audit lacks the power to say; and a note if they do not."""
    rounds = sum(part.tally.rounds for part in parts)
    if not rounds or not seen.batches or claim.parameter <= 0:
        return None, ""
    if combined_p_value(_SAME, parts) < LEVEL / 2 or seen.p_value * seen.batches < LEVEL / 2:
        return True, ""
    deviations = float(ndtri(POWER)) + LEARNING
    if _distance(claim, SHARE) < (deviations - float(ndtri(LEVEL / 2))) / math.sqrt(rounds):
        return None, ""
    if pairs > 1 and _distance(claim, 1.0) < (deviations + float(-ndtri(0.5 / pairs))) / math.sqrt(seen.fewest):
        return None, ""
    which = "this pair" if pairs == 1 else f"these {pairs} pairs"
    would = f"a mechanism with {claim.symbol} = {claim.parameter * SHARE:.3g}, a tenth of the claim, would have shown a difference"
    same = f"its outputs on D0 and D1 look the same, although {would} with probability {POWER:g}"
    return False, f"{which} may not exercise the mechanism: {same}; {ADVICE}"


def _distance(claim: Claim, share: float) -> float:
    """Total variation distance of Laplace noise (pure DP) or Gaussian noise with this share of the claim's parameter; 0 if unknown."""
    try:
        law = law_with("laplace" if claim.is_pure else "gaussian", claim, claim.parameter * share)
    except (InvalidArgument, ValueError):
        return 0.0
    return min(_LARGE if share < 1 else 1.0, float(np.sum(np.maximum(law.p - law.q, 0.0))))
