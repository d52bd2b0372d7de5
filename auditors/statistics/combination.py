"""Combination of stages: one certificate from several events, each chosen on the rounds before its own stage.

Stage k tests an event that all earlier rounds chose. Given those rounds, the counts of stage k
are those of the coin-flip certificate (`certificate`), so that

    p_k(x) = P[Bin(M_k, theta0_k(x)) >= C_k] + gamma_k,
    theta0_k(x) from the lower limit of M_k / N_k at level gamma_k,

is a p-value for "the parameter is at most x" *given the past*: P[p_k(x) <= u | past] <= u for
every u if the parameter is at most x. The weights w_k >= 0 are fixed before stage k begins, and
may depend on earlier rounds. Their squares add to one: the last stage gets the remainder.

**Theorem.** Z(x) = sum_k w_k Phi^-1(1 - p_k(x)) reaches Phi^-1(1 - alpha) with probability at
most alpha if the parameter is at most x (Bauer and Koehne 1994; Lehmacher and Wassmer 1999).

*Proof.* Given the past there is a uniform U_k <= p_k, as a p-value is stochastically at least
uniform. So w_k Phi^-1(1 - p_k) is at most w_k G_k, where G_k = Phi^-1(1 - U_k) is standard normal
given the past, since the past fixes w_k. Z is at most sum_k w_k G_k. Given all stages but the
last, this sum is normal with variance w_K^2 = 1 - sum_{k<K} w_k^2 around sum_{k<K} w_k G_k. Step
by step backwards, its characteristic function is E exp(it sum_{k<j} w_k G_k - t^2/2 (1 -
sum_{k<j} w_k^2)), since each term given its past is normal with variance w_k^2. At j = 1 this is
exp(-t^2/2): the sum is standard normal.  []

A stage without any right guess would contribute -infinity and outweigh all others. So p_k counts
as at most 1 - eta. This differs from the U_k above only where U_k > 1 - eta, which has
probability at most K eta for all stages together. To correct for this, Z has to reach
Phi^-1(1 - alpha + K eta). Values above `_MAX_STAGE_SCORE` are cut, which only lowers Z.

**Limit.** p_k rises with x, as a larger parameter allows more right guesses. So Z falls, {x :
Z(x) < z} is a half line, and its left end is a lower confidence limit at 1 - alpha. An interim
look within a stage gives the stage all remaining weight, and has its own share of alpha (union
bound).  [] With a single stage, the limit equals that of `certificate` in every digit. Rounds
lost in a stage count as wrong guesses that do not count for the frequency (`rounds`): p_k rises
with them.

Counts pooled over the stages would not be binomial, because the event of a stage depends on the
counts before it.

**Extensions.** Somebody who has seen the result of a plan, or of k - 1 extensions, asks for N_k
more rounds. Both N_k and the decision to extend may depend on everything seen so far. The rounds
of extension k are a separate stage. Its squared weight is 1/2, and the squared weights of all
earlier stages are halved (`reweight_for_extension`).

**Theorem.** Statement k, "Z_k(x) reaches Phi^-1(1 - 2^-k alpha)", is made with probability at
most 2^-k alpha if the parameter is at most x, whatever rule asks for extensions and fixes their
lengths. The plan's statement and those of extensions 1 to K are all right with probability at
least 1 - alpha (1 + 1/2 + ... + 2^-K) = 1 - alpha (2 - 2^-K).

*Proof.* Fix k. The squared weights of statement k are known before the first round: those of the
plan times 2^-k, and 2^-(k - j + 1) for extension j. Given the past, N_k and the event are fixed,
and the counts of fresh rounds are those of the certificate. So p_k is a p-value given the past,
whatever N_k is. Where extension k is never requested, let its p-value be 1: the statement is then
not made. So the theorem above applies to the stages of statement k at error 2^-k alpha. Interim
looks within an extension share this error by the union bound. The union bound over k gives the
second claim.  []

Counts pooled over an extension would not be valid: a length that depends on the counts moves
weight to the more promising stage. An example is randomized response at the claim, a plan of
10,000 rounds, and the worst length for each count. Pooled counts err with 1.68 alpha at alpha =
0.01 and 2.43 alpha at 1e-9, where 1.5 alpha is stated. The stages err with 1.31 alpha and 1.36
alpha (exact sums).

**Weights.** The squared weights are proportional to the rounds of the stages, which is best where
the events are equally good. Weights by the expected certificates of the events in training were
tried too. Training overrates an early event, and these weights were worse in 15 of 19 cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, expit, ndtri

from dpwitness.auditors.statistics.certificate import (
    Tally,
    certified,
    clopper_pearson_lower,
    frequency_error,
    p_value,
    parameter_from_rates,
)
from dpwitness.mechanisms.privacy import Claim

_MAX_STAGE_SCORE = 8.0  # largest contribution of a stage in standard errors; tails beyond are lost to rounding
_CAP_SHARE = 1e-3  # share of alpha for the cap on p-values: K eta / alpha
_TOLERANCE = 1e-10  # tolerance of a limit, which is rounded down
_INFINITE = 2000.0  # parameters above this count as infinite


@dataclass(frozen=True, slots=True)
class Part:
    """Counts of one stage, with its lost rounds and its weight; the last stage gets the weight that the others leave."""

    tally: Tally
    weight: float = 1.0
    lost: int = 0

    def plus(self, tally: Tally, lost: int) -> Part:
        """Return the stage with the counts of another chunk added."""
        return Part(self.tally + tally, self.weight, self.lost + lost)

    def to_json(self) -> dict[str, float]:
        tally = self.tally
        counts = {"correct": tally.correct, "wrong": tally.wrong, "rounds": tally.rounds, "directions": tally.directions}
        return {**counts, "lost": self.lost, "weight": self.weight}


def extension_share(number: int) -> float:
    """Return the error of the statement of extension `number`, as a share of alpha: 2^-number. The plan itself is number 0.

    Examples
    --------
    >>> [extension_share(number) for number in range(4)]
    [1.0, 0.5, 0.25, 0.125]
    """
    return 2.0**-number


def shares_spent(extensions: int) -> float:
    """Return the error of the plan and of all extensions made, together, as a share of alpha.

    Examples
    --------
    >>> [shares_spent(number) for number in range(4)]
    [1.0, 1.5, 1.75, 1.875]
    """
    return sum(extension_share(number) for number in range(extensions + 1))


def reweight_for_extension(parts: Sequence[Part]) -> list[Part]:
    """Return the stages so far with halved squared weights, which leaves a squared weight of 1/2 to the next stage.

    Examples
    --------
    >>> [round(part.weight**2, 3) for part in reweight_for_extension([Part(Tally(7, 3, 10), weight=0.3**0.5), Part(Tally(9, 1, 20))])]
    [0.15, 0.35]
    """
    left = max(0.0, 1.0 - sum(part.weight**2 for part in parts[:-1]))
    weights = [*(part.weight for part in parts[:-1]), math.sqrt(left)]
    return [replace(part, weight=weight * math.sqrt(0.5)) for part, weight in zip(parts, weights, strict=True)]


def combined_bound(claim: Claim, parts: Sequence[Part], alpha: float) -> float:
    """Return the lower confidence limit on the claim's free parameter from all stages, at error `alpha`; 0 certifies nothing.

    Examples
    --------
    >>> from dpwitness.mechanisms import PureDP
    >>> one = Part(Tally(7_400, 2_600, 20_000))
    >>> round(combined_bound(PureDP(1.0), [one], 0.05), 4)  # of one stage: the coin-flip certificate
    1.0083
    >>> half = Part(Tally(3_700, 1_300, 10_000), weight=0.5**0.5)
    >>> round(combined_bound(PureDP(1.0), [half, half], 0.05), 4)
    1.008
    """
    if len(parts) == 1:
        tally = parts[0].tally
        return float(certified(claim, tally.correct, tally.wrong, tally.rounds, alpha, tally.directions, parts[0].lost))

    if _excess(claim, parts, 0.0, alpha) <= 0:
        return 0.0
    high = 1.0
    while _excess(claim, parts, high, alpha) > 0:
        high *= 2
        if high > _INFINITE:
            return math.inf
    root = brentq(lambda x: _excess(claim, parts, x, alpha), 0.0 if high == 1.0 else high / 2, high, xtol=_TOLERANCE, rtol=_TOLERANCE)
    return max(0.0, float(root) * (1 - _TOLERANCE) - _TOLERANCE)


def combined_p_value(claim: Claim, parts: Sequence[Part]) -> float:
    """Return a valid p-value of the claim from all stages: the smallest alpha at which `combined_bound` refutes the claim."""
    if len(parts) == 1:
        tally = parts[0].tally
        return float(p_value(claim, tally.correct, tally.wrong, tally.rounds, tally.directions, parts[0].lost))

    def excess(log_alpha: float) -> float:
        return _excess(claim, parts, claim.parameter, math.exp(log_alpha))

    least, most = -230.0, math.log(0.999)  # `_MAX_STAGE_SCORE` rules out smaller values
    if excess(most) <= 0:
        return 1.0
    return math.exp(least if excess(least) > 0 else float(brentq(excess, least, most, xtol=_TOLERANCE)) + _TOLERANCE)


def _excess(claim: Claim, parts: Sequence[Part], x: float, alpha: float) -> float:
    """Return Z(x) minus the value that Z(x) has to reach at error `alpha`."""
    gamma = float(frequency_error(claim, alpha)) / len(parts)
    eta = alpha * _CAP_SHARE / len(parts)
    left = 1.0 - sum(part.weight**2 for part in parts[:-1])
    weights = [*(part.weight for part in parts[:-1]), math.sqrt(max(left, 0.0))]
    z = sum(weight * _stage_score(claim, part, x, gamma, eta) for part, weight in zip(parts, weights, strict=True) if weight > 0)
    return z + float(ndtri(alpha * (1 - _CAP_SHARE)))


def _stage_score(claim: Claim, part: Part, x: float, gamma: float, eta: float) -> float:
    """Return Phi^-1(1 - p(x)) of one stage."""
    tally = part.tally
    guesses, p = tally.correct + tally.wrong - part.lost, 1.0
    if tally.correct > 0:
        frequency = 1.0 if gamma == 0 else float(clopper_pearson_lower(guesses, tally.rounds, gamma))
        p = float(betainc(tally.correct, tally.wrong + 1, allowed(claim, x, frequency, tally.directions))) + gamma
    return min(float(-ndtri(min(max(p, 1e-300), 1 - eta))), _MAX_STAGE_SCORE)


def allowed(claim: Claim, x: float, frequency: float, directions: int) -> float:
    """Return theta0, the largest share of right guesses that a parameter of `x` allows if a share `frequency` is guessed."""
    if claim.bounds_epsilon:
        delta = 0.5 * directions * claim.delta_budget
        return 1.0 if delta >= frequency else float(1 - (1 - delta / frequency) * expit(-x))
    low, high = 0.5, 1.0
    for _ in range(4):
        theta = np.linspace(low, high, 65)
        beyond = np.nonzero(parameter_from_rates(claim, np.full(65, frequency), theta, directions) > x)[0]
        if len(beyond) == 0:
            return high
        low, high = float(theta[max(beyond[0] - 1, 0)]), float(theta[beyond[0]])
    return high
