"""How often r guesses about canaries may be right under (epsilon, delta)-DP: an exact law and a proof, in place of a simulation.

Setting. Each of m canaries i is included by a fair coin S_i of its own; M sees the coins and returns Y. A guesser names r canaries and
guesses their coins from Y, and from coins of canaries that it does not name; r is fixed. C guesses are right. Changing one coin makes
neighbours, in both orders.

**Lemma (one flip).** If M(S) and M(S') obey a trade-off curve g (the largest true-positive rate at each false-positive rate, concave)
wherever S, S' differ in one coin, then for every set T of counts, with p_k = P(C = k),

    (1/m) sum_{k in T} k p_k  <=  g( (1/m) sum_{k in T} (r - k + 1) p_{k-1} ).

*Proof.* Let E_i be the event that i is named, its guess is right, and C is in T. Hold all coins but S_i: the guess about i is a function of
Y and of these, so E_i is a set of outputs; were S_i the other coin, the same set says that i is named, its guess is wrong, and C + 1 is in
T. So P(E_i | S) <= g(P(E'_i | S')). S' is as uniform as S; averaging over i and S, by concavity, gives the average of the right guesses,
sum of k p_k over T, against that of the wrong ones at C = k - 1, of which there are r - k + 1.

**Theorem.** For (epsilon, delta)-DP, B ~ Bin(r, e^epsilon / (1 + e^epsilon)), w_k = P(B = k), and 1 <= v <= r,

    P(C >= v)  <=  P(B >= v) + m delta P(B >= v) P(B < v) / (v w_v).

*Proof.* The lemma for the set of k at which z_k = (k p_k - e^epsilon (r - k + 1) p_{k-1})_+ is positive gives sum_k z_k <= m delta. As
k w_k = e^epsilon (r - k + 1) w_{k-1}, the ratio q_k = p_k / w_k obeys q_k <= q_{k-1} + z_k / (k w_k), hence for j < v <= k
q_k <= q_j + sum_{j < i <= k} z_i / (i w_i). Multiply by w_j w_k and sum over j < v <= k:

    P(C >= v) P(B < v) <= P(C < v) P(B >= v) + sum_i z_i G_i,    G_i = P(B < min(v, i)) P(B >= max(v, i)) / (i w_i),

that is P(C >= v) <= P(B >= v) + m delta max_i G_i. Binomial laws are log-concave: P(B >= i) / w_i falls in i, and for i <= v,
with i w_i = e^epsilon (r - i + 1) w_{i-1}, P(B <= i - 1) / w_{i-1} and 1 / (r - i + 1) rise. So the largest is G_v. For r = m it is
attained, by counts whose z_v alone is positive and Y = S with as many coins turned, at random places (`tests/auditors/test_canaries.py`).

**Any number of guesses.** If r itself is a function of Y and of coins of canaries that are not named, the lemma holds for sets T of pairs
(r, k) and the proof for each r, with one sum of all z at most m delta. Let P(B >= v_r) <= a and m delta P(B >= v_r) / (v_r w_{v_r}) <= b
for every r. Then P(C >= v_r) <= sum_r P(r) a + b <= a + b. Both conditions are monotone in v and in epsilon. `p_value` splits its error
between a and b at a ratio that depends on m delta alone: the number of guesses is chosen for (almost) nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, expit, gammaln, log_expit

from dpwitness.mechanisms.terms.protocol import FloatArray

_LEAST, _TYPICAL = 0.01, 2.0  # shares of the error for delta: at least, and against a usual v w_v


def log_mass(right: ArrayLike, guesses: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """log w_v of Bin(r, e^epsilon / (1 + e^epsilon))."""
    v, r, eps = (np.asarray(x, dtype=float) for x in (right, guesses, epsilon))
    return np.asarray(gammaln(r + 1) - gammaln(v + 1) - gammaln(r - v + 1) + v * log_expit(eps) + (r - v) * log_expit(-eps))


def tail(right: ArrayLike, guesses: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """P(B >= v)."""
    v, r, eps = (np.asarray(x, dtype=float) for x in (right, guesses, epsilon))
    return np.where(v > 0, betainc(np.maximum(v, 1), r - np.maximum(v, 1) + 1, expit(eps)), 1.0)


def chance(right: ArrayLike, guesses: ArrayLike, epsilon: ArrayLike, delta: ArrayLike, canaries: float) -> FloatArray:
    """The theorem: the most that P(C >= v) may be, for a number of guesses that was fixed beforehand.

    Examples
    --------
    >>> float(chance(90, 100, 1.0, 0.0, 1000).round(6)), float(chance(90, 100, 1.5, 1e-5, 1000).round(4))
    (2.7e-05, 0.0175)
    """
    v, r, eps, d = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (right, guesses, epsilon, delta)))
    up = tail(v, r, eps)
    one = np.maximum(v, 1)
    with np.errstate(divide="ignore"):
        below = np.log(betainc(r - one + 1, one, expit(-eps)))
        more = np.log(up) + below + np.log(canaries * d) - np.log(one) - log_mass(one, r, eps)
    return np.where(v > 0, np.minimum(up + np.exp(np.minimum(more, 1.0)), 1.0), 1.0)


def p_value(right: ArrayLike, guesses: ArrayLike, epsilon: ArrayLike, delta: float, canaries: float) -> FloatArray:
    """The smallest error at which the counts refute (epsilon, delta)-DP, where the number of guesses was chosen with the scores in hand.

    Examples
    --------
    >>> float(p_value(90, 100, 1.5, 1e-5, 1000).round(4))
    0.0203
    """
    v, r, eps = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (right, guesses, epsilon)))
    up = tail(v, r, eps)
    if delta == 0:
        return up
    share = max(_LEAST, canaries * delta / (canaries * delta + _TYPICAL))
    one = np.maximum(v, 1)
    with np.errstate(divide="ignore"):
        more = np.log(up) + np.log(canaries * delta) - np.log(one) - log_mass(one, r, eps)
    return np.where(v > 0, np.minimum(np.maximum(up / (1 - share), np.exp(np.minimum(more, 1.0)) / share), 1.0), 1.0)
