"""Certificate of one cause of a violation: of events on a part of the outputs, corrected for how
often that part occurs.

Outputs are divided into parts, fixed before the test: exceptions, values that repeat, and all other
outputs. The certificate of a part answers two questions at once. Do events on this part alone
violate the claim? And do they still if the parts before it, which may be the reason why this part
occurs more often on one dataset, are disregarded?

**Theorem.** Let R be a set of outputs, with k1 = P(R) and k0 = Q(R) on D1 and D0. Let A ("guess
D1") and B ("guess D0") be disjoint events in R, with odds c/w of right to wrong guesses. Let rho <=
1 be at most k0/k1 (if B is empty), at most k1/k0 (if A is empty), or at most both. Let x be the
parameter that the certificate of `certificate` computes from its lower limit on the frequency of
guesses, and from odds that are rho times its lower limit on the odds. If this limit on the odds,
this limit on the frequency and the limits behind rho hold, then x is at most the parameter of the
mechanism, and at most the parameter of the conditional law of its outputs given R.

*Proof.* The certified parameter rises with the odds, and rho <= 1. So x is at most the bound of the
ordinary certificate for A and B, which are events of the mechanism itself. Under the conditional
law, c' = (P(A)/k1 + Q(B)/k0)/2 and w' = (Q(A)/k0 + P(B)/k1)/2. If B is empty, c'/w' = (c/w) k0/k1;
if A is empty, c'/w' = (c/w) k1/k0; otherwise c' >= c/max(k1, k0) and w' <= w/min(k1, k0). In all
cases c'/w' >= rho c/w. As k1, k0 <= 1, also c' + w' >= c + w. The theorem of `certificate` holds
for the conditional law, and the certified parameter rises with frequency and odds.  []

The limits behind rho. Given that a round is in R, its dataset is D1 with probability pi = k1/(k1 +
k0), and the number of such rounds is binomial given the number of rounds in R. Two Clopper-Pearson
limits of pi at level gamma give both ratios. Rounds lost (`rounds`) count against each limit. The
error of the whole statement is alpha: gamma for each limit, and the rest for the ordinary
certificate.

A part that occurs more often on one dataset only because another part does not is thus never
accused. If the mechanism raises an exception on D1 in nine of ten runs and never on D0, the event
"no exception" violates a claim of epsilon = 1, and rests on the exceptions. For R = "no exception",
rho is a tenth, and the discounted odds are those of the values alone.

An audit tests at most `PARTS` parts, each at error alpha / `PARTS`. By the union bound, all
statements about parts hold together with probability at least 1 - alpha, next to the audit's own
statement, which has its own alpha.
"""

from __future__ import annotations

import numpy as np

from dpwitness.auditors.statistics.certificate import (
    SHARE_FOR_FREQUENCY,
    Tally,
    certified,
    clopper_pearson_lower,
    frequency_error,
    parameter_from_rates,
)
from dpwitness.core.claims import Claim

PARTS = 3
Within = tuple[int, int]  # rounds with an output in R on D1 and on D0


def error_of_counts(alpha: float, within: Within | None) -> float:
    """Return the part of the error `alpha` that is left for the ordinary certificate of a part's
    counts.
    """
    return alpha if within is None else alpha * (1 - 2 * SHARE_FOR_FREQUENCY)


def partial_bound(
    claim: Claim,
    tally: Tally,
    alpha: float,
    lost: int = 0,
    within: Within | None = None,
    side: int = 0,
) -> float:
    """Return the certified lower bound on the claim's parameter from the events of one part, at
    error `alpha`.

    Parameters
    ----------
    claim : Claim
    tally : Tally
        Counts of the guesses. `lost` of the wrong guesses are rounds whose output was lost.
    alpha : float
    lost : int
    within : pair of int, optional
        Numbers of rounds on D1 and on D0 with an output in R. None if R contains every output.
    side : {-1, 0, 1}
        1 if only D1 is guessed, -1 if only D0 is guessed, 0 otherwise.

    Examples
    --------
    >>> from dpwitness.mechanisms import PureDP
    >>> counts = PureDP(1.0), Tally(4_000, 1_000, 20_000), 0.01
    >>> [round(partial_bound(*counts, within=within), 2)
    ...     for within in (None, (9_000, 9_000), (3_000, 9_000))]
    [1.3, 1.25, 0.13]
    """
    error = error_of_counts(alpha, within)
    if within is None:
        return float(
            certified(
                claim, tally.correct, tally.wrong, tally.rounds, error, tally.directions, lost
            )
        )
    gamma, guesses = frequency_error(claim, error), tally.correct + tally.wrong
    theta = clopper_pearson_lower(tally.correct, guesses, error - gamma)
    frequency = (
        np.ones(()) if claim.is_pure else clopper_pearson_lower(guesses - lost, tally.rounds, gamma)
    )
    right = theta * _discount(within, lost, alpha * SHARE_FOR_FREQUENCY, side)
    return float(
        parameter_from_rates(
            claim, frequency, right / np.maximum(right + 1 - theta, 1e-300), tally.directions
        )
    )


def _discount(within: Within, lost: int, gamma: float, side: int) -> float:
    """Return rho, from two limits at error `gamma` each."""
    rounds = sum(within) + lost
    low, beyond = (float(clopper_pearson_lower(count, max(rounds, 1), gamma)) for count in within)
    high = 1 - beyond
    ratios = {1: [beyond / high if high else 0.0], -1: [low / (1 - low) if low < 1 else 1.0]}
    return min(1.0, *ratios.get(side, ratios[1] + ratios[-1]))
