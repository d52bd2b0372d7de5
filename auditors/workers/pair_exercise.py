"""Test of whether a pair exercises the mechanism: equal output distributions on both datasets say
nothing about the claim.

Two kinds of evidence are used, each with half of `LEVEL`. The first is the guesses of the tested
event, of which half are right if the distributions are equal. The second is a Kolmogorov-Smirnov
test of each column of all pilot and training outputs, on every pair.

Equal distributions are reported only if the audit had power. A mechanism with a tenth of the claim
(`CLAIM_FRACTION`) would have shown a difference in the test with probability `POWER`. On each of
several pairs, a mechanism with the full claim would have shown a difference in its pilot. An audit
with too few runs for this remains NOT_REFUTED: its bound and its smallest detectable violation show
how weak it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, bdtrc, kolmogorov, ndtri

from dpwitness.auditors.density.known_laws import law_with_parameter
from dpwitness.auditors.events.outputs import Outputs, concatenate, row_keys
from dpwitness.auditors.events.rules import name_of_atom
from dpwitness.auditors.statistics.certificate import Part
from dpwitness.auditors.statistics.combination import combined_p_value
from dpwitness.core.claims import Claim, PureDP
from dpwitness.core.values.validation import InvalidArgument

LEVEL = 0.02  # probability that equal distributions are reported as different
POWER = 0.9
CLAIM_FRACTION = 0.1  # fraction of the claim's parameter
LEARNING = 0.4  # standard errors lost by learning the event
# maximum rows and columns compared; number of distinct values up to which each value is tested
_MAX_ROWS, _MAX_COLUMNS, _MAX_VALUES = (2**15, 32, 64)

ADVICE = (
    "try a pair whose values change the result, the pairs of a domain (--domain), or a search "
    "(--search)"
)


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """Comparison of pilot and training outputs: number of batches, smallest p-value, rounds of the
    smallest batch, and the only output.
    """

    batches: int = 0
    p_value: float = 1.0
    fewest: int = 0
    # text of the output, if all outputs so far are equal; None if they are not
    only: str | None = ""

    def with_batch(self, one: Outputs, zero: Outputs) -> OutputComparison:
        """Return the comparison with one more batch of outputs on D1 and on D0."""
        only = self.only
        if only is not None:
            texts = {_only_output(side) for side in (one, zero) if len(side)}
            texts |= {only} if only else set()
            only = texts.pop() if len(texts) == 1 else None
        # no number of further batches makes a difference of a smaller p-value doubtful
        settled = self.p_value <= 1e-12
        p_value = self.p_value if settled else min(self.p_value, difference(one, zero))
        fewest = min(self.fewest or 2**62, len(one) + len(zero))
        return OutputComparison(self.batches + 1, p_value, fewest, only)


def _only_output(side: Outputs) -> str | None:
    """Return the text of the output that all rows are equal to, or None if they differ."""
    matrix = side.matrix()
    if len(np.unique(row_keys(matrix))) > 1:
        return None
    name, numbers = name_of_atom(matrix[0], side.names), side.values[0]
    if not len(numbers) or name[-1:] in ("'", '"'):  # a text is printed without numbers
        return name
    if np.isnan(numbers).all():
        return f"NaN ({name})"
    return f"{name}({numbers[0]:g})" if len(numbers) == 1 else f"the same {name}"


def difference(one: Outputs, zero: Outputs) -> float:
    """Return a p-value of the hypothesis that both batches have the same distribution.

    Each column, and its distance from the median, has a Kolmogorov-Smirnov test. If a column has
    few values, the counts of each value are tested as well.
    """
    n, m = (min(len(side), _MAX_ROWS) for side in (one, zero))
    if min(n, m) < 8:
        return 1.0
    both = concatenate([one.take(np.arange(n)), zero.take(np.arange(m))])
    found, columns = 1.0, both.matrix().T[: _MAX_COLUMNS + 1]
    for number, column in enumerate(columns):
        tested = [column]
        if number > 0 and np.isfinite(column).any():
            with np.errstate(invalid="ignore", over="ignore"):
                tested.append(np.abs(column - np.nanmedian(column)))
        for values in tested:
            rank = np.unique(values, return_inverse=True)[1].ravel()
            counts = [np.bincount(side, minlength=rank.max() + 1) for side in (rank[:n], rank[n:])]
            gap = float(np.max(np.abs(np.cumsum(counts[0]) / n - np.cumsum(counts[1]) / m)))
            found = min(found, float(kolmogorov(gap * math.sqrt(n * m / (n + m)))))
            # a rare value hardly changes the distribution function
            if len(counts[0]) <= _MAX_VALUES:
                each, total = counts[0], counts[0] + counts[1]
                tails = np.minimum(
                    bdtr(each, total, n / (n + m)), bdtrc(each - 1.0, total, n / (n + m))
                )
                found = min(found, 2 * len(each) * float(np.min(tails)))
    return min(1.0, found * 3 * len(columns))


def exercised(
    claim: Claim, parts: Sequence[Part], seen: OutputComparison, pairs: int
) -> tuple[bool | None, str]:
    """Return whether outputs on D0 and D1 differ, or None if the audit lacks the power to decide;
    and a note if they do not differ.
    """
    rounds = sum(part.tally.rounds for part in parts)
    if not rounds or not seen.batches or claim.parameter <= 0:
        return None, ""
    if (
        combined_p_value(PureDP(1e-12), parts) < LEVEL / 2
        or seen.p_value * seen.batches < LEVEL / 2
    ):
        return True, ""
    deviations = float(ndtri(POWER)) + LEARNING
    powerful = _total_variation(claim, CLAIM_FRACTION) >= (
        deviations - float(ndtri(LEVEL / 2))
    ) / math.sqrt(rounds)
    if pairs > 1:
        powerful &= _total_variation(claim, 1.0) >= (
            deviations + float(-ndtri(0.5 / pairs))
        ) / math.sqrt(seen.fewest)
    moved = False if powerful else None
    if seen.only:
        return (
            moved,
            f"every output on D0 and D1 is {seen.only}: check that the mechanism computes "
            f"its result; if it does, {ADVICE}",
        )
    if not powerful:
        return None, ""
    which = "this pair" if pairs == 1 else f"these {pairs} pairs"
    would = (
        f"a mechanism with {claim.symbol} = {claim.parameter * CLAIM_FRACTION:.3g}, a tenth of "
        "the claim, would have shown a difference"
    )
    same = f"its outputs on D0 and D1 look the same, although {would} with probability {POWER:g}"
    return False, f"{which} may not exercise the mechanism: {same}; {ADVICE}"


def _total_variation(claim: Claim, share: float) -> float:
    """Return the total variation distance of Laplace (pure DP) or Gaussian noise with this share of
    the claim's parameter; 0 if unknown.
    """
    try:
        law = law_with_parameter(
            "laplace" if claim.is_pure else "gaussian", claim, claim.parameter * share
        )
    except (InvalidArgument, ValueError):
        return 0.0
    # capped, because large claims would make the power look better than it is
    return min(0.1 if share < 1 else 1.0, float(np.sum(np.maximum(law.p - law.q, 0.0))))
