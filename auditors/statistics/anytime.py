"""Anytime-valid certificate: evidence that may be looked at after every round, with events that are
learned again on the way.

The rounds are those of the coin-flip certificate (`certificate`), in **epochs**. Before an epoch,
the earlier rounds choose its event and its priors; all rounds of the epoch are then counted. There
is no planned number of rounds.

**Evidence.** Let X_1, X_2, ... be 0 or 1, and let p_t be the probability of X_t = 1 given the past.
For C ones and W zeros, a prior pi on (0, 1) fixed before X_1, and a null probability p0, define

    E(p0) = int_{p0}^1 p^C (1 - p)^W dpi(p)  /  max_{p <= p0} p^C (1 - p)^W.

**Theorem 1.** If p_t <= p0 for all t, then E(p0) >= 1/alpha at some time has probability at most
alpha.

*Proof.* The denominator is at least p0^C (1 - p0)^W, so E(p0) <= int_{p0}^1 K(p) dpi(p) with K(p) =
(p/p0)^C ((1 - p)/(1 - p0))^W. For p >= p0, the next factor of K(p) has the mean p_t p/p0 + (1 -
p_t)(1 - p)/(1 - p0) given the past, which rises with p_t and is 1 at p_t = p0. So K(p) is a
non-negative supermartingale that starts at 1, and so is its mean under a prior of mass at most 1.
Ville's inequality gives the bound. []

E(p0) falls as p0 grows: the numerator loses mass, the denominator does not fall. The priors are
mixtures of beta distributions, for which the integral is a closed form in C and W. So a chunk of
rounds is added by its counts alone, and no round needs a bet of its own.

**One epoch.** X_t = 1 if the t-th guess is right. Given the past and that round t guesses, it is
right with probability theta. Under the claim at parameter x, theta <= theta0(s, x), which falls in
the frequency s of guesses (`certificate`). Let s_L be the smallest s at which the evidence of the
guesses against "the frequency is at most s" is below 1/gamma. By Theorem 1, s >= s_L at all times,
with probability at least 1 - gamma. Then E(theta0(s_L, x)) <= E(theta0(s, x)) at all times. Pure DP
needs no s_L: gamma = 0.

**All epochs.** Let E_k(x) be the evidence of epoch k, gamma_k = v_k gamma with sum v_k = 1, and w_k
>= 0 with sum w_k = 1. The evidence against "the parameter is at most x" after epoch (or within
epoch) K is

    E(x) = sum_{k <= K} w_k prod_{j = k..K} E_j(x)  +  sum_{k > K} w_k.

**Theorem 2.** If the parameter is at most x, then E(x) >= 1/(alpha - gamma) at some time has
probability at most alpha, whatever rule stops the audit, chooses the events, and fixes the lengths
of the epochs.

*Proof.* The frequency limits of all epochs hold at all times with probability at least 1 - gamma.
Then E_k(x) is at most the mean of K(p) of epoch k with theta0(s_k, x) in place of p0, which is a
supermartingale given the rounds before epoch k, and starts at a value of at most 1. The product
over epochs k, ..., K is a supermartingale too, and 1 before epoch k. So E(x) is bounded by a
supermartingale that starts at 1, and Ville's inequality gives the bound. []

Each E_k falls as x grows, so E(x) does. The x with E(x) >= 1/(alpha - gamma) are a half line. Its
end is a lower confidence limit, and the limits at all times are right together with probability at
least 1 - alpha. The largest limit so far may be reported. []

The sum over k is a mixture over the epoch at which betting begins: early events are learned from
few rounds, and their losses shall not burden the later ones.

**Lost rounds** (`rounds`) count as wrong, and not for the frequency. For each p >= p0 this gives
the smallest possible factor of K(p), so that the proofs above hold.

**From above.** The evidence against "theta >= theta0" is that of the wrong guesses against "1 -
theta <= 1 - theta0". The upper limits on theta and s at error beta/2 each give an upper limit on
the parameter that the *event of this epoch* can show, at all times together. It says nothing about
other events.

References: Ville (1939); Robbins (1970) for mixtures; Wasserman, Ramdas and Balakrishnan (2020) for
the maximum in the denominator; Howard, Ramdas, McAuliffe and Sekhon (2021) for beta mixtures;
Ramdas, Grunwald, Vovk and Shafer (2023) for optional stopping.

**Dependence.** Runs that depend on each other show in the counts x_i of a cell in groups of n_i
runs, such as calls or processes. If runs are independent, x_i is binomial with one unknown share p.
Noise that the runs of a group have in common gives each group a share of its own.

**Theorem 3.** Let q(x_1), q(x_2 | x_1), ... be fixed predictions of the counts. With probability at
least 1 - alpha, the ratio of q(x_1) ... q(x_m | x_1, ..., x_(m-1)) to the largest binomial
likelihood max_p P_p(x_1, ..., x_m) is below 1/alpha at all m together.

*Proof.* The ratio is at most that to P_p at the true p, which is a nonnegative martingale that
starts at 1. Ville's inequality bounds its maximum. []

An average of ratios, and a product of ratios of independent counts, has the same property. So no
count is too small for the test. The predictions are beta-binomial. Their mean is that of the shares
of the groups before, weighted by precision; their spread exceeds the binomial by factors that are
averaged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaln, logsumexp, ndtr, xlog1py, xlogy

from dpwitness.auditors.statistics.certificate import (
    Part,
    allowed,
    frequency_error,
    parameter_from_rates,
)
from dpwitness.auditors.statistics.mean_limits import bracket, bracket_each
from dpwitness.core.claims import Claim
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import InvalidArgument

# mass of the prior that earlier rounds suggest; the rest is Jeffreys' prior, in case that they
# mislead
_INFORMED = 0.9
_FIRST_WEIGHT, _WEIGHT, _WEIGHTED = 0.3, 0.1, 6  # w_0, w_1 = ... = w_6; later epochs share the rest
_BISECTIONS = 45


def log_evidence(
    ones: ArrayLike, zeros: ArrayLike, null: ArrayLike, prior: tuple[ArrayLike, ArrayLike]
) -> FloatArray:
    """Return ln E(p0), the evidence of `ones` and `zeros` against "the probability of a one is at
    most `null`".

    Parameters
    ----------
    ones, zeros : array_like of float
        Counts so far.
    null : array_like of float
        p0, in [0, 1].
    prior : tuple of array_like
        Numbers of ones and zeros that earlier rounds suggest, not negative.

    Returns
    -------
    ndarray of float
        At most ln(1/alpha) at all times together, with probability at least 1 - alpha (Theorem 1).

    Examples
    --------
    >>> float(log_evidence(80, 20, 0.5, (0, 0)).round(2))
    16.74
    """
    ones, zeros, p0 = np.broadcast_arrays(
        *(np.asarray(each, dtype=float) for each in (ones, zeros, null))
    )
    terms = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for mass, before in ((_INFORMED, prior), (1 - _INFORMED, (0.0, 0.0))):
            a, b = (
                np.asarray(before[0], dtype=float) + 0.5,
                np.asarray(before[1], dtype=float) + 0.5,
            )
            above = np.log(mass * betainc(zeros + b, ones + a, 1.0 - p0))
            terms.append(above + betaln(ones + a, zeros + b) - betaln(a, b))
        best = np.minimum(p0, ones / np.maximum(ones + zeros, 1.0))
        return np.asarray(np.logaddexp(*terms) - (xlogy(ones, best) + xlog1py(zeros, -best)))


def log_e_value(claim: Claim, epochs: Sequence[Part], x: float, gamma: float) -> float:
    """Return ln E(x), the evidence against "the parameter of `claim` is at most x"; `gamma` is the
    error of the frequency limits. Raise InvalidArgument if an epoch has no prior.

    Examples
    --------
    >>> from dpwitness.auditors.statistics.certificate import Prior, Tally
    >>> from dpwitness.mechanisms import PureDP
    >>> round(log_e_value(PureDP(1.0), [Part(Tally(90, 10, 100), prior=Prior())], 1.0, 0.0), 2)
    5.08
    """
    if not all(part.prior for part in epochs):
        raise InvalidArgument(
            "stages must all have priors, or none: the counts mix a sequential audit with a "
            "fixed plan"
        )
    logs = [
        _epoch_evidence(claim, part, x, gamma * epoch_weight(k)) for k, part in enumerate(epochs)
    ]
    return float(mixed_evidence(logs))


def mixed_evidence(logs: ArrayLike) -> FloatArray:
    """Return ln E, the log of the evidence of all epochs together, from the log of the evidence of
    each (along the first axis).
    """
    found = np.asarray(logs, dtype=float)
    weights = np.array([epoch_weight(k) for k in range(len(found))]).reshape(
        -1, *[1] * (found.ndim - 1)
    )
    from_epoch = np.log(weights) + np.cumsum(found[::-1], axis=0)[::-1]
    return np.asarray(np.logaddexp(logsumexp(from_epoch, axis=0), math.log1p(-weights.sum())))


def epoch_weight(number: int) -> float:
    """Return w_k: the weight of betting from epoch k on, and its share of the error of the
    frequency limits.
    """
    if number == 0:
        return _FIRST_WEIGHT
    later = number - _WEIGHTED
    return (
        _WEIGHT if later <= 0 else (1 - _FIRST_WEIGHT - _WEIGHTED * _WEIGHT) / (later * (later + 1))
    )


@lru_cache(maxsize=4096)
def _epoch_evidence(claim: Claim, part: Part, x: float, gamma: float) -> float:
    """Return ln E_k(x) of one epoch."""
    tally, prior = part.tally, part.prior
    assert prior is not None
    if tally.correct + tally.wrong == 0:
        return 0.0
    frequency = 1.0 if claim.is_pure else _frequency_limit(part, gamma)
    return float(
        log_evidence(
            tally.correct,
            tally.wrong,
            allowed(claim, x, frequency, tally.directions),
            (prior.right, prior.wrong),
        )
    )


@lru_cache(maxsize=4096)
def _frequency_limit(part: Part, gamma: float) -> float:
    """Return s_L, the lower confidence limit of the frequency of guesses at error `gamma`."""
    tally, prior = part.tally, part.prior
    assert prior is not None
    guesses, expected = tally.correct + tally.wrong - part.lost, prior.right + prior.wrong
    return float(
        lower_limit(
            guesses, tally.rounds - guesses, (expected, max(prior.size - expected, 0.0)), gamma
        )
    )


def lower_limit(
    ones: ArrayLike, zeros: ArrayLike, prior: tuple[ArrayLike, ArrayLike], alpha: ArrayLike
) -> FloatArray:
    """Return the lower confidence limit of a probability, valid at all times together at error
    `alpha`; 0 if nothing is refuted.

    The arguments are those of `log_evidence`, and a limit is rounded down.

    Examples
    --------
    >>> float(lower_limit(80, 20, (0, 0), 0.05).round(3))
    0.648
    """
    x, level = np.asarray(ones, dtype=float), -np.log(np.asarray(alpha, dtype=float))
    low, high = (
        np.zeros(np.broadcast_shapes(x.shape, np.shape(zeros))),
        x / np.maximum(x + zeros, 1.0),
    )
    return bracket_each(
        lambda null: log_evidence(ones, zeros, null, prior) >= level, low, high, _BISECTIONS
    )[0]


def is_refuted(claim: Claim, epochs: Sequence[Part], x: float, alpha: float) -> bool:
    """Return whether the evidence refutes "the parameter is at most x" at error `alpha` (Theorem
    2).
    """
    gamma = float(frequency_error(claim, alpha))
    return log_e_value(claim, epochs, x, gamma) >= -math.log(alpha - gamma)


def anytime_bound(claim: Claim, epochs: Sequence[Part], alpha: float) -> float:
    """Return the lower confidence limit on the claim's parameter at error `alpha`, valid at all
    times together; 0 certifies nothing.

    Examples
    --------
    >>> from dpwitness.auditors.statistics.certificate import Prior, Tally
    >>> from dpwitness.mechanisms import PureDP
    >>> round(anytime_bound(PureDP(1.0), [Part(Tally(7_400, 2_600, 20_000),
    ...     prior=Prior(740, 260, 2_000))], 0.05), 4)
    0.971
    """
    if not is_refuted(claim, epochs, 1e-12, alpha):
        return 0.0
    low, high = 0.0, 1.0
    while is_refuted(claim, epochs, high, alpha):
        low, high = high, 2 * high
        if high > 2000.0:  # counts as infinite
            return math.inf
    return bracket(lambda x: is_refuted(claim, epochs, x, alpha), low, high, _BISECTIONS)[0]


def anytime_p_value(claim: Claim, epochs: Sequence[Part]) -> float:
    """Return a p-value of the claim that is valid at all times together: the smallest alpha at
    which the evidence refutes the claim.
    """
    if not is_refuted(claim, epochs, claim.parameter, 1.0 - 1e-9):
        return 1.0
    least, _ = bracket(
        lambda log: is_refuted(claim, epochs, claim.parameter, math.exp(-log)),
        1e-9,
        690.0,
        _BISECTIONS,
    )
    return math.exp(-least)


def shown_at_most(claim: Claim, part: Part, beta: float) -> float:
    """Return an upper confidence limit, at error `beta` and at all times together, on the parameter
    that an epoch's event can show.

    The event itself shows the smallest parameter that allows its true rates of right and wrong
    guesses.
    """
    tally, prior = part.tally, part.prior
    assert prior is not None
    right, share = tally.correct + part.lost, 1.0 if claim.is_pure else 0.5
    wrong, guesses = tally.wrong - part.lost, tally.correct + tally.wrong
    theta = 1.0 - lower_limit(wrong, right, (prior.wrong, prior.right), beta * share)
    frequency, expected = np.ones(()), prior.right + prior.wrong
    if not claim.is_pure:
        silent = (max(prior.size - expected, 0.0), expected)
        frequency = 1.0 - lower_limit(tally.rounds - guesses, guesses, silent, beta * share)
    return float(parameter_from_rates(claim, frequency, theta, tally.directions))


def e_discoveries(log_e: Sequence[float], alpha: float) -> list[bool]:
    """Return which hypotheses e-BH rejects, given ln E of each: the false discovery rate is at most
    `alpha`, whatever their dependence.

    With K hypotheses, e-BH rejects the k with the largest evidence, for the largest k such that
    each of them has E >= K / (k alpha) (Wang and Ramdas 2022, Theorem 5.1).

    Examples
    --------
    >>> e_discoveries([6.0, 0.1, 4.0], 0.05)
    [True, False, True]
    >>> e_discoveries([6.0, 0.1, 3.0], 0.05)
    [True, False, False]
    """
    ordered = sorted(log_e, reverse=True)
    passing = [
        k for k, log in enumerate(ordered, start=1) if log >= math.log(len(ordered) / (k * alpha))
    ]
    return [bool(passing) and log >= ordered[passing[-1] - 1] for log in log_e]


def equivalent_level(alpha: float) -> float:
    """Return the error of a test at a fixed number of rounds that needs as many rounds as a long
    sequential audit at error `alpha`.
    """
    # nats that priors and weights cost in a long audit, measured
    return float(ndtr(-math.sqrt(2 * (3.0 - math.log(alpha)))))


# variance of a count beyond the binomial, in units of the binomial variance at the mean size
_EXCESS = 4.0 ** np.arange(-1, 10)


def log_dependence(*sides: ArrayLike) -> float:
    """Return the log-evidence that the shares of the cells differ between groups of runs.

    If runs are independent, the result exceeds ln(1/alpha) with probability at most alpha.

    Parameters
    ----------
    *sides : array_like of int
        For each dataset, the counts of each cell (columns) in each group of runs (rows), in the
        order of the runs. Runs on different datasets have different shares, but the same
        dependence.

    Returns
    -------
    float
        Average over cells, over spreads, and over the datasets, each alone and all together.

    Examples
    --------
    >>> round(log_dependence([[50, 50], [49, 51], [52, 48]]), 1) < 0
    True
    >>> round(log_dependence([[8, 0], [0, 8], [8, 0], [0, 8], [8, 0], [0, 8]]), 1) > 20
    True
    """
    tables = [np.asarray(side, dtype=float) for side in sides]
    tables = [table[table.sum(axis=1) > 0] for table in tables]
    tables = [table for table in tables if len(table) > 1]
    if not tables:
        return 0.0
    found = []
    for cell in range(min(table.shape[1] for table in tables)):
        logs = np.array([_log_ratios(table[:, cell], table.sum(axis=1)) for table in tables])
        found += [*logs, logs.sum(axis=0)]
    return mean_evidence(np.concatenate(found).tolist())


def _log_ratios(counts: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the log-ratio of the predictions to the largest binomial likelihood, for
    each spread.
    """
    total, ones = sizes.sum(), counts.sum()
    null = float(xlogy(ones, ones / total) + xlogy(total - ones, 1 - ones / total))
    # 1 / concentration of the shares of groups; at most 10, where shares are near 0 and 1
    within = np.minimum(_EXCESS[:, None] / max(float(sizes.mean()) - 1.0, 1.0), 10.0)
    weights = 1 / (within + 1 / sizes)
    known = 1 + _before(weights)
    mean, spread = (0.5 + _before(weights * counts / sizes)) / known, within + 1 / known
    a, b = mean / spread, (1 - mean) / spread
    return np.asarray((betaln(counts + a, sizes - counts + b) - betaln(a, b)).sum(axis=1) - null)


def _before(values: FloatArray) -> FloatArray:
    """Return the sum of the values before each, along the last axis."""
    return np.asarray(np.cumsum(values, axis=-1) - values)


def mean_evidence(logs: Sequence[float]) -> float:
    """Return the log of the mean of several values of evidence, given as logs. The values may
    depend on each other.
    """
    return float(logsumexp(logs) - math.log(len(logs)))


def total_evidence(logs: Sequence[float]) -> float:
    """Return the log-evidence of several stages, of which stage k = 1, 2, ... has the weight 1 / (k
    (k + 1)), however many follow.
    """
    weighted = [log - math.log(k * (k + 1)) for k, log in enumerate(logs, start=1)]
    return float(logsumexp(weighted)) if weighted else 0.0
