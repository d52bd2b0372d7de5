"""Combination of stages: one certificate from several events, each chosen on the rounds before its
own stage.

Stage k tests an event that all earlier rounds chose. Given those rounds, the counts of stage k
are those of the coin-flip certificate (`certificate`): C_k ~ Bin(M_k, theta_k), and theta_k is at
most theta0_k(x) if the parameter is at most x. theta0_k(x) is computed from the lower limit of
M_k / N_k at level gamma_k. The weights w_k >= 0 are fixed before stage k begins, and may depend on
earlier rounds. Their squares add to one: the last stage gets the remainder.

**Test.** The interval of the p-value of stage k is

    a_k(x) = P[Bin(M_k, theta0_k(x)) > C_k],    b_k(x) = P[Bin(M_k, theta0_k(x)) >= C_k].

Let alpha_0 = alpha - sum_k gamma_k. After each stage but the last, the conditional error of the
stages that remain is the mean of A over the interval,

    alpha_k(x) = E[A(U)],  U uniform on [a_k(x), b_k(x)],
    A(u) = Phi((Phi^-1(alpha_{k-1}(x)) + r Phi^-1(1 - u)) / sqrt(1 - r^2)),

where r^2 is the share of stage k in the squared weights of stage k and the stages after it. "The
parameter is at most x" is refuted if b_K(x) <= alpha_{K-1}(x).

**Theorem.** If the parameter is at most x, it is refuted with probability at most alpha.

*Proof.* The frequency limits fail with probability sum_k gamma_k at most. Otherwise theta_k <=
theta0_k(x) in every stage. Both ends of the interval rise with theta0_k, and A falls in u and rises
with alpha_{k-1}, so the test with theta_k in place of theta0_k(x) refutes too. For that test, let U
be uniform on [a_k, b_k] given C_k: given the past, U is uniform on [0, 1]. With G and G'
independent and standard normal, E[alpha_k | past] = E[A(U) | past] = P[r G + sqrt(1 - r^2) G' >=
Phi^-1(1 - alpha_{k-1})] = alpha_{k-1}. Given the past, b_K <= alpha_{K-1} has probability at most
alpha_{K-1}. By induction from the last stage, the test refutes with probability at most alpha_0.
[]

If the intervals were points, this would be the inverse normal method, sum_k w_k Phi^-1(1 - p_k) >=
Phi^-1(1 - alpha_0) (Bauer and Koehne 1994; Lehmacher and Wassmer 1999), as a conditional error
function (Proschan and Hunsberger 1995; Mueller and Schaefer 2001). For counts, that method takes
the upper end of each interval and wastes a part of the error in every stage: 11 % of the bound if
about 60 rounds guess. Here only the last stage does so, as a single test does. A stage that never
guesses leaves the error as it is.

**Guards.** The test is computed with three changes, for kappa = 2^-24. None of them raises its
error. A is that of the level (1 - kappa) alpha_{k-1}, and A(u) is A(1 - kappa alpha_{k-1}) for
larger u: its mean over u is then at most (1 - kappa) alpha_{k-1} + kappa alpha_{k-1}. Thus a stage
far in the wrong direction has a price that ends. A conditional error above 1 - kappa counts as 1 -
kappa, and one below 2^-140 as 0. A p-value below 2^-140 counts as 2^-140. r^2 is at most 0.98. A is
still smaller for larger u, and larger for larger alpha_{k-1}. The kernel (`proofs_checks/kernel`)
has the same guards, so that both compute the same limit.

**Limit.** Both ends of every interval rise with x, as a larger parameter allows more right guesses.
So b_K(x) rises, alpha_{K-1}(x) falls, the x that are refuted are a half line, and its end is a
lower confidence limit at 1 - alpha. An interim look within a stage gives the stage all remaining
weight, and has its own share of alpha (union bound).  [] With a single stage, the limit equals that
of `certificate` in every digit. Rounds lost in a stage count as wrong guesses that do not count for
the frequency (`rounds`): the interval rises with them.

Counts pooled over the stages would not be binomial, because the event of a stage depends on the
counts before it.

**Extensions.** Somebody who has seen the result of a plan, or of k - 1 extensions, asks for N_k
more rounds. Both N_k and the decision to extend may depend on everything seen so far. The rounds
of extension k are a separate stage. Its squared weight is 1/2, and the squared weights of all
earlier stages are halved (`reweight_for_extension`).

**Theorem.** Statement k, "the stages up to extension k refute x at error 2^-k alpha", is made with
probability at most 2^-k alpha if the parameter is at most x, whatever rule asks for extensions and
fixes their lengths. The plan's statement and those of extensions 1 to K are all right with
probability at least 1 - alpha (1 + 1/2 + ... + 2^-K) = 1 - alpha (2 - 2^-K).

*Proof.* Fix k. The squared weights of statement k are known before the first round: those of the
plan times 2^-k, and 2^-(k - j + 1) for extension j. Given the past, N_k and the event are fixed,
and the counts of fresh rounds are those of the certificate, whatever N_k is. Where extension k is
never requested, let b_k be 1: the statement is then not made. So the theorem above applies to the
stages of statement k at error 2^-k alpha. Interim looks within an extension share this error by the
union bound. The union bound over k gives the second claim.  []

Counts pooled over an extension would not be valid: a length that depends on the counts moves
weight to the more promising stage. An example is randomized response at the claim, a plan of
10,000 rounds, and the worst length for each count. Pooled counts err with 1.68 alpha at alpha =
0.01 and 2.43 alpha at 1e-9, where 1.5 alpha is stated. The stages err with 1.32 alpha and 1.39
alpha (exact sums over 60 lengths up to 100,000 rounds).

**Weights.** The squared weights are proportional to the rounds of the stages, which is best where
the events are equally good. The test of an event that training expects to certify next to nothing
has a hundredth of that: it would only add noise. Weights by the expected certificates of the events
in training were tried too. Training overrates an early event, and these weights were worse in 15 of
19 cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from scipy.special import betainc, ndtr, ndtri

from dpwitness.auditors.statistics.anytime import anytime_bound, anytime_p_value
from dpwitness.auditors.statistics.certificate import (
    Part,
    allowed,
    certified,
    clopper_pearson_lower,
    frequency_error,
    p_value,
)
from dpwitness.core.claims import Claim
from dpwitness.core.protocols import FloatArray

# kappa, least conditional error and largest r^2 of the guards
_GUARD, _LEAST_LEVEL, _MOST_SHARE = 2.0**-24, 2.0**-140, 0.98
# normal tail beyond an interval's inner end that is integrated: the rest has mass below 1e-23
_MAX_NORMAL = 10.0
# range of the normal scores of p-values
_LEAST_SCORE, _MOST_SCORE = -40.0, float(-ndtri(_LEAST_LEVEL))
_TOLERANCE = 1e-10  # tolerance of a limit, which is rounded down


def extension_share(number: int) -> float:
    """Return the error of the statement of extension `number`, as a share of alpha: 2^-number. The
    plan itself is number 0.

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
    """Return the stages so far with halved squared weights, which leaves a squared weight of 1/2 to
    the next stage.

    Examples
    --------
    >>> from dpwitness.auditors.statistics.certificate import Tally
    >>> parts = [Part(Tally(7, 3, 10), weight=0.3**0.5), Part(Tally(9, 1, 20))]
    >>> [round(part.weight**2, 3) for part in reweight_for_extension(parts)]
    [0.15, 0.35]
    """
    left = max(0.0, 1.0 - sum(part.weight**2 for part in parts[:-1]))
    weights = [*(part.weight for part in parts[:-1]), math.sqrt(left)]
    return [
        replace(part, weight=weight * math.sqrt(0.5))
        for part, weight in zip(parts, weights, strict=True)
    ]


def combined_bound(claim: Claim, parts: Sequence[Part], alpha: float) -> float:
    """Return the lower confidence limit on the claim's free parameter from all stages, at error
    `alpha`; 0 certifies nothing.

    Stages with priors are the epochs of a sequential audit (`anytime`).

    Examples
    --------
    >>> from dpwitness.auditors.statistics.certificate import Tally
    >>> from dpwitness.mechanisms import PureDP
    >>> one = Part(Tally(7_400, 2_600, 20_000))
    >>> round(combined_bound(PureDP(1.0), [one], 0.05), 4)  # the coin-flip certificate
    1.0083
    >>> half = Part(Tally(3_700, 1_300, 10_000), weight=0.5**0.5)
    >>> round(combined_bound(PureDP(1.0), [half, half], 0.05), 4)
    1.0082
    """
    if parts[0].prior is not None:
        return anytime_bound(claim, parts, alpha)
    if len(parts) == 1:
        tally = parts[0].tally
        return float(
            certified(
                claim,
                tally.correct,
                tally.wrong,
                tally.rounds,
                alpha,
                tally.directions,
                parts[0].lost,
            )
        )

    def excess(x: float) -> float:
        return _excess(claim, parts, x, alpha)

    # the parameter at which this decreasing function is 0, rounded down
    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
        if high > 2000.0:  # counts as infinite
            return math.inf
    root = _zero(excess, 0.0 if high == 1.0 else high / 2, high)
    return max(0.0, root * (1 - _TOLERANCE) - _TOLERANCE)


def combined_p_value(claim: Claim, parts: Sequence[Part]) -> float:
    """Return a valid p-value of the claim from all stages: the smallest alpha at which
    `combined_bound` refutes the claim.
    """
    if parts[0].prior is not None:
        return anytime_p_value(claim, parts)
    if len(parts) == 1:
        tally = parts[0].tally
        return float(
            p_value(
                claim, tally.correct, tally.wrong, tally.rounds, tally.directions, parts[0].lost
            )
        )

    def excess(log_alpha: float) -> float:
        return _excess(claim, parts, claim.parameter, math.exp(log_alpha))

    # frequency limits at smaller errors are not computed reliably
    least, most = -230.0, math.log(0.999)
    if excess(most) <= 0:
        return 1.0
    return math.exp(least if excess(least) > 0 else _zero(excess, least, most) + _TOLERANCE)


def _zero(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of a function between `low` and `high`, up to `_TOLERANCE`."""
    # takes a tenth of a second to load, and only tests of several stages use it
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=_TOLERANCE / 2, rtol=1e-14))


def _excess(claim: Claim, parts: Sequence[Part], x: float, alpha: float) -> float:
    """Return by how much the last stage's p-value at `x` is below its conditional error, in
    standard errors; positive if `x` is refuted.
    """
    gamma = float(frequency_error(claim, alpha)) / len(parts)
    # conditional error and squared weight of the remaining stages
    level, left = alpha - gamma * len(parts), 1.0
    for part in parts[:-1]:
        share = part.weight**2 / left if left > 0 else 0.0
        level = _conditional_error(level, *_scores(claim, part, x, gamma), share)
        left -= part.weight**2
    return (
        _scores(claim, parts[-1], x, gamma)[1] + float(ndtri(level)) if level > 0 else _LEAST_SCORE
    )


def _scores(claim: Claim, part: Part, x: float, gamma: float) -> tuple[float, float]:
    """Return the normal scores z = Phi^-1(1 - u) of both ends of the stage's p-value, that of more
    right guesses first, if the parameter is `x`.
    """
    right, wrong = part.tally.correct, part.tally.wrong
    frequency = (
        1.0
        if gamma == 0
        else float(clopper_pearson_lower(right + wrong - part.lost, part.tally.rounds, gamma))
    )
    theta = allowed(claim, x, frequency, part.tally.directions)
    ones, zeros = np.array([right + 1, right]), np.array([wrong, wrong + 1])
    with np.errstate(invalid="ignore"):
        tails, rests = betainc(ones, zeros, theta), betainc(zeros, ones, 1 - theta)
    sure, never = ones == 0, zeros == 0
    tails = np.where(sure, 1.0, np.where(never, 0.0, tails))
    # the complements are exact where a probability is close to 1
    rests = np.where(sure, 0.0, np.where(never, 1.0, rests))
    more, as_many = np.clip(
        np.where(tails < 0.5, -ndtri(tails), ndtri(rests)), _LEAST_SCORE, _MOST_SCORE
    ).tolist()
    return more, as_many


def _conditional_error(level: float, more: float, as_many: float, share: float) -> float:
    """Return the error that a stage leaves to later stages: the mean of A(u) over the interval of
    its p-value.

    `more` and `as_many` are the normal scores of the ends of the interval, `share` is the stage's
    share of the squared weights that remain.
    """
    if level < _LEAST_LEVEL:
        return 0.0
    share, cut = min(max(share, 0.0), _MOST_SHARE), float(ndtri(_GUARD * level))

    def error(normal: FloatArray | float) -> FloatArray:
        return np.asarray(
            ndtr((ndtri((1 - _GUARD) * level) + math.sqrt(share) * normal) / math.sqrt(1 - share))
        )

    high = max(more, cut)
    low = max(as_many, cut, min(high, 0.0) - _MAX_NORMAL)
    high = min(high, max(low, 0.0) + _MAX_NORMAL)
    nodes, weights = _quadrature()
    normal = 0.5 * (low + high) + 0.5 * (high - low) * nodes
    weights = weights * np.exp(0.5 * (low**2 - normal**2) if low > 0 else -0.5 * normal**2)
    mean = float(weights @ error(normal) / weights.sum())
    if as_many < cut < more:  # a part of the interval is beyond the guard
        beyond = float((ndtr(cut) - ndtr(as_many)) / (ndtr(more) - ndtr(as_many)))
        mean = (1 - beyond) * mean + beyond * float(error(cut))
    return min(mean, 1 - _GUARD) if mean >= _LEAST_LEVEL else 0.0


@cache
def _quadrature() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss-Legendre quadrature on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(256)
    return nodes, weights
