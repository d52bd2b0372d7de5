"""Probability of r right guesses about canaries under (epsilon, delta)-DP: an exact bound with a
proof, without simulation.

Setting. A fair coin S_i, independent for each of m canaries i, includes canary i; M sees the coins
and returns Y. A guesser names r canaries and guesses their coins from Y, and from the coins of
canaries that are not named; r is fixed. C guesses are right. Changing one coin makes neighbors, in
both orders.

**Lemma (one flip).** If M(S) and M(S') obey a trade-off curve g (the largest true-positive rate at
each false-positive rate, concave) wherever S, S' differ in one coin, then for every set T of
counts, with p_k = P(C = k),

    (1/m) sum_{k in T} k p_k  <=  g( (1/m) sum_{k in T} (r - k + 1) p_{k-1} ).

*Proof.* Let E_i be the event that i is named, the guess about i is right, and C is in T. Fix all
coins except S_i. The guess about i is a function of Y and of the fixed coins, so E_i is a set of
outputs. Under the opposite coin S_i, the same set means that i is named, the guess about i is
wrong, and C + 1 is in T. So P(E_i | S) <= g(P(E'_i | S')). S' is as uniform as S. Averaging over i
and S, by concavity, compares the mean number of right guesses, the sum of k p_k over T, with the
mean number of wrong guesses at C = k - 1, of which there are r - k + 1.

**Theorem.** For (epsilon, delta)-DP, B ~ Bin(r, e^epsilon / (1 + e^epsilon)), w_k = P(B = k), and 1
<= v <= r,

    P(C >= v)  <=  P(B >= v) + m delta P(B >= v) P(B < v) / (v w_v).

*Proof.* The lemma for the set of k at which z_k = (k p_k - e^epsilon (r - k + 1) p_{k-1})_+ is
positive gives sum_k z_k <= m delta. As k w_k = e^epsilon (r - k + 1) w_{k-1}, the ratio q_k = p_k /
w_k obeys q_k <= q_{k-1} + z_k / (k w_k), hence for j < v <= k q_k <= q_j + sum_{j < i <= k} z_i /
(i w_i). Multiply by w_j w_k and sum over j < v <= k:

    P(C >= v) P(B < v) <= P(C < v) P(B >= v) + sum_i z_i G_i,    G_i = P(B < min(v, i)) P(B >=
    max(v, i)) / (i w_i),

that is P(C >= v) <= P(B >= v) + m delta max_i G_i. Binomial laws are log-concave: P(B >= i) / w_i
falls in i, and for i <= v, with i w_i = e^epsilon (r - i + 1) w_{i-1}, P(B <= i - 1) / w_{i-1} and
1 / (r - i + 1) rise. So the largest is G_v. For r = m the bound is attained by counts with z_v as
the only positive z, and by Y = S with as many coins flipped, at random places
(`tests/auditors/canaries/test_canaries.py`).

**Any number of guesses.** If r itself is a function of Y and of coins of canaries that are not
named, the lemma holds for sets T of pairs (r, k) and the proof for each r, with one sum of all z at
most m delta. Let P(B >= v_r) <= a and m delta P(B >= v_r) / (v_r w_{v_r}) <= b for every r. Then
P(C >= v_r) <= sum_r P(r) a + b <= a + b. Both conditions are monotone in v and in epsilon.
`p_value` splits its error between a and b at a ratio that depends on m delta alone, so the choice
of the number of guesses costs almost nothing.

**For comparison** with published figures, `steinke_chance` is the theorem of Steinke, Nasr and
Jagielski (2023), "Privacy auditing with one
(1) training run", which is not proved here:

    P(C >= v)  <=  P(B >= v) + 2 m delta max_{1 <= i <= m} P(v > B >= v - i) / i.

`chance` is exact for r = m and smaller at the levels of audits. Near probability one the exact
value exceeds the bound of Steinke et al. by a few parts in 10^7
(`tests/auditors/test_canaries.py`), where no bound is certified.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, betainc, expit, gammaln, log_expit

from dpwitness.core.protocols.mechanism import FloatArray

# smallest share of the error for delta, and a typical v w_v
_MIN_DELTA_SHARE, _TYPICAL_WEIGHT = 0.01, 2.0


def log_mass(right: ArrayLike, guesses: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """Return log w_v, the log-probability of v under Bin(r, e^epsilon / (1 + e^epsilon))."""
    v, r, eps = (np.asarray(x, dtype=float) for x in (right, guesses, epsilon))
    return np.asarray(
        gammaln(r + 1)
        - gammaln(v + 1)
        - gammaln(r - v + 1)
        + v * log_expit(eps)
        + (r - v) * log_expit(-eps)
    )


def tail(right: ArrayLike, guesses: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """Return the upper binomial tail P(B >= v), B ~ Bin(r, e^epsilon / (1 + e^epsilon))."""
    v, r, eps = (np.asarray(x, dtype=float) for x in (right, guesses, epsilon))
    return np.where(v > 0, betainc(np.maximum(v, 1), r - np.maximum(v, 1) + 1, expit(eps)), 1.0)


def chance(
    right: ArrayLike, guesses: ArrayLike, epsilon: ArrayLike, delta: ArrayLike, canaries: float
) -> FloatArray:
    """Return the theorem's upper bound on P(C >= v), for a number of guesses that was fixed in
    advance.
    """
    v, r, eps, d = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (right, guesses, epsilon, delta))
    )
    upper_tail = tail(v, r, eps)
    at_least_one = np.maximum(v, 1)
    with np.errstate(divide="ignore"):
        log_lower_tail = np.log(betainc(r - at_least_one + 1, at_least_one, expit(-eps)))
        log_delta_term = (
            np.log(upper_tail)
            + log_lower_tail
            + np.log(canaries * d)
            - np.log(at_least_one)
            - log_mass(at_least_one, r, eps)
        )
    return np.where(
        v > 0, np.minimum(upper_tail + np.exp(np.minimum(log_delta_term, 1.0)), 1.0), 1.0
    )


def p_value(
    right: ArrayLike, guesses: ArrayLike, epsilon: ArrayLike, delta: float, canaries: float
) -> FloatArray:
    """Return the smallest error at which the counts refute (epsilon, delta)-DP, if the number of
    guesses was chosen from the scores.
    """
    v, r, eps = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (right, guesses, epsilon))
    )
    upper_tail = tail(v, r, eps)
    if delta == 0:
        return upper_tail
    delta_share = max(_MIN_DELTA_SHARE, canaries * delta / (canaries * delta + _TYPICAL_WEIGHT))
    at_least_one = np.maximum(v, 1)
    with np.errstate(divide="ignore"):
        log_delta_term = (
            np.log(upper_tail)
            + np.log(canaries * delta)
            - np.log(at_least_one)
            - log_mass(at_least_one, r, eps)
        )
    return np.where(
        v > 0,
        np.minimum(
            np.maximum(
                upper_tail / (1 - delta_share),
                np.exp(np.minimum(log_delta_term, 1.0)) / delta_share,
            ),
            1.0,
        ),
        1.0,
    )


def steinke_chance(right: int, guesses: int, epsilon: float, delta: float, canaries: int) -> float:
    """Return the upper bound of Steinke, Nasr and Jagielski on P(C >= v)."""
    p = float(expit(epsilon))

    def upper(least: FloatArray) -> FloatArray:
        return np.where(least > 0, bdtrc(np.maximum(least, 1) - 1, guesses, p), 1.0)

    upper_tail = upper(np.array([float(right)]))[0]
    if delta == 0 or right == 0:
        return float(upper_tail)
    i = np.arange(1.0, right + 1)  # for i > v, P(v > B >= v - i) is constant
    gain = float(np.max((upper(right - i) - upper_tail) / i))
    return float(min(1.0, upper_tail + 2 * canaries * delta * gain))
