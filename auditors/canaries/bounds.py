"""Theorems that bound a claim from counts of right guesses about canaries, and the schedule that
pays for the choice of the number of guesses.

**Counting**: an exact bound on the probability of r right guesses under (epsilon, delta)-DP.

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

**For comparison**, the published theorem of Steinke, Nasr and Jagielski (2023), "Privacy auditing
with one (1) training run", is

    P(C >= v)  <=  P(B >= v) + 2 m delta max_{1 <= i <= m} P(v > B >= v - i) / i.

`chance` is smaller at the levels of audits. Near probability one the exact value exceeds the
published bound by a few parts in 10^7 (`tests/auditors/canaries/test_canaries.py`), where no bound
is certified.

**Curves**: the recursion of Mahloujifar, Melis and Chaudhuri (2025) for r right guesses under a
trade-off curve.

Setting and lemma as above; r is fixed in advance. Let h be the inverse of the
curve g, a_k = k p_k / m and b_k = (r - k) p_k / m, and A_c, B_c their sums over k >= c. The lemma
for T = {c, ..., r} is A_c <= g(B_{c-1}), so B_{c-1} >= h(A_c); and A_c - A_{c+1} is c / (r - c)
times B_c - B_{c+1}.

**Theorem.** Put A = v alpha / m, B = (r - v) alpha / m, and for c = v, v - 1, ..., 1

    B' = max(B, h(A)),    A' = A + (c - 1) / (r - c + 1) (B' - B).

If A + B exceeds r / m at some c, P(C >= v) < alpha under every mechanism that obeys g.

*Proof.* Suppose P(C >= v) >= alpha, and let p be the law of C. Moving probability from a count k to
k - 1 lowers A_k and raises B_{k-1} by as much, and so every A_c and B_{c-1} with c <= k: these
inequalities become weaker. Only the inequality for c = k + 1 becomes stronger, as B_k falls. Use
the inequalities for c <= v only. Then all probability above v may be moved down to v, and the part
of P(C >= v) beyond alpha to v - 1. Going down from c = v, the probability at c - 1 that B_{c-1} >=
h(A_c) does not need may be moved to c - 2. The recursion remains, with a rest at 0: each A + B is r
/ m times the probability at counts from c - 1 on, which never exceeds one.

The curve is given by lines, g(q) = min_j (e^{epsilon_j} q + delta_j). Any valid lines give a valid
g, so h(a) = max_j e^{-epsilon_j} (a - delta_j) errs on the safe side for any number of lines. A
rises during the recursion, so a walk along the lines finds the best line: a step costs O(1), and
the walk ends when B stops growing. In experiments, m = 10^6 took a few thousand steps at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, expit, gammaln, log_expit

from dpwitness.auditors.statistics.mean_limits import bracket, bracket_each
from dpwitness.core.claims import Claim
from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require_one_of, require_that


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
    """Return the theorem's upper bound on the probability of at least `right` right guesses, P(C >=
    v), if the number of guesses was fixed in advance.
    """
    upper_tail, delta_term = _terms(right, guesses, epsilon, delta, canaries, fixed=True)
    return np.where(np.asarray(right) > 0, np.minimum(upper_tail + delta_term, 1.0), 1.0)


def p_value(
    right: ArrayLike, guesses: ArrayLike, epsilon: ArrayLike, delta: float, canaries: float
) -> FloatArray:
    """Return the smallest error at which the counts refute (epsilon, delta)-DP, if the number of
    guesses was chosen from the scores.
    """
    upper_tail, delta_term = _terms(right, guesses, epsilon, delta, canaries, fixed=False)
    if delta == 0:
        return upper_tail
    # 2 is a typical v w_v
    share = max(0.01, canaries * delta / (canaries * delta + 2.0))
    return np.where(
        np.asarray(right) > 0,
        np.minimum(np.maximum(upper_tail / (1 - share), delta_term / share), 1.0),
        1.0,
    )


def _terms(
    right: ArrayLike,
    guesses: ArrayLike,
    epsilon: ArrayLike,
    delta: ArrayLike,
    canaries: float,
    *,
    fixed: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return P(B >= v), and the term with delta: with the factor P(B < v) if the number of guesses
    was fixed.
    """
    v, r, eps, d = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (right, guesses, epsilon, delta))
    )
    upper_tail, at_least_one = tail(v, r, eps), np.maximum(v, 1)
    with np.errstate(divide="ignore"):
        lower_tail = betainc(r - at_least_one + 1, at_least_one, expit(-eps)) if fixed else 1.0
        log_term = (
            np.log(upper_tail)
            + np.log(lower_tail)
            + np.log(canaries * d)
            - np.log(at_least_one)
            - log_mass(at_least_one, r, eps)
        )
    return upper_tail, np.exp(np.minimum(log_term, 1.0))


def refutes(
    right: int, guesses: int, canaries: int, epsilons: FloatArray, deltas: FloatArray, alpha: float
) -> bool:
    """Return whether v right guesses among r refute the curve with these lines at error alpha;
    `epsilons` must decrease.
    """
    with np.errstate(over="ignore"):
        return bool(
            _exceeds(
                float(right), float(guesses), float(canaries), np.exp(-epsilons), deltas, alpha
            )
        )


@jit
def _exceeds(
    v: float, r: float, m: float, slopes: FloatArray, deltas: FloatArray, alpha: float
) -> bool:
    """Return whether the recursion exceeds r / m. `slopes` are exp(-epsilon) of the lines."""
    a, b, j = v * alpha / m, (r - v) * alpha / m, 0
    # a refutation must exceed the bound by more than the rounding error of the sums
    most = r / m * (1 + 1e-9)
    c = v
    while c >= 1:
        while j + 1 < slopes.size and slopes[j + 1] * (a - deltas[j + 1]) >= slopes[j] * (
            a - deltas[j]
        ):
            j += 1
        needed = slopes[j] * (a - deltas[j])
        if needed <= b:
            return False
        a += (c - 1) / (r - c + 1) * (needed - b)
        b = needed
        if a + b > most:
            return True
        c -= 1
    return False


def tests_curve(claim: Claim, method: str, owner: str) -> bool:
    """Return whether guesses test a claim by its curve, not by the counting theorem. Raise
    InvalidArgument if the claim or the method does not allow either.
    """
    require_one_of("method", method, ("best", "curve"), owner)
    require_that(
        claim.has_tangents or claim.bounds_epsilon,
        "claim must be pure, approx, gdp or a curve, which bound how often guesses are right, got "
        f"{claim}",
        owner,
    )
    require_that(
        method == "best" or not claim.is_pure,
        "method must be 'best' for a claim without delta, got 'curve'",
        owner,
    )
    return claim.has_tangents or method == "curve"


Law = Callable[[Any, Any, Any, float, int], FloatArray]

_HALVINGS = 40
_MAX_EPSILON = 200.0  # largest epsilon of the search
# share of the error for the best number of guesses under Gaussian noise; a smaller and a larger
# number share the rest
_MAIN_SHARE = 0.98


@dataclass(frozen=True, slots=True)
class Theorem:
    """A theorem on guesses about canaries, which bounds the parameter of a claim from counts."""

    method: str  # counting or curve, as in `audit_canaries`
    claim: Claim
    canaries: int  # guessed or not
    delta: float  # of a pure or approximate claim
    fixed: bool  # whether the number of guesses was chosen before the scores were seen

    @property
    def _counting_law(self) -> Law:
        return chance if self.fixed else p_value

    def refuted(self, right: int, guesses: int, alpha: float) -> float:
        """Return the largest parameter that a number of right guesses refutes."""
        if self.method == "counting":
            return float(
                epsilons_refuted(
                    right, guesses, self.delta, self.canaries, alpha, self._counting_law
                )
            )
        return parameter_refuted(self.claim, right, guesses, self.canaries, alpha)

    def smallest_error(self, right: int, guesses: int) -> float:
        """Return the smallest error probability at which the counts refute the claim."""
        if self.method == "counting":
            return float(
                self._counting_law(right, guesses, self.claim.parameter, self.delta, self.canaries)
            )
        lines = self.claim.tangents()

        def not_refuted(log_error: float) -> bool:
            return not refutes(right, guesses, self.canaries, *lines, math.exp(log_error))

        return math.exp(bracket(not_refuted, -40.0, 0.0, _HALVINGS)[1])


def epsilons_refuted(
    right: ArrayLike,
    guesses: ArrayLike,
    delta: float,
    canaries: int,
    alpha: float,
    law: Law = p_value,
) -> FloatArray:
    """Return the largest epsilon that each pair of counts refutes by the counting theorem, rounded
    down; 0 where no epsilon is refuted.
    """

    def refuted(epsilon: FloatArray) -> np.ndarray:
        return np.asarray(law(right, guesses, epsilon, delta, canaries) <= alpha)

    low = np.zeros(np.shape(right))
    high = np.full_like(low, _MAX_EPSILON)
    return np.where(refuted(low), bracket_each(refuted, low, high, _HALVINGS)[0], 0.0)


def parameter_refuted(
    claim: Claim, right: int, guesses: int, canaries: int, alpha: float, above: float = 0.0
) -> float:
    """Return the largest parameter of the claim's curve that `refutes` refutes, rounded down.

    Returns `above` if no parameter larger than `above` is refuted.
    """

    def refuted(parameter: float) -> bool:
        try:
            member = claim.with_parameter(parameter)
        except InvalidArgument:  # the loss is so large that the claim promises nothing
            return False
        return refutes(right, guesses, canaries, *member.tangents(), alpha)

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
    """Return the numbers of guesses that an audit by the curve tests, each with its share of the
    error `alpha`. Both depend only on the number of canaries and on the claim, whose Gaussian
    parameter is `mu`; no number exceeds `most`.

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
    # more guesses are better where mu is below 0.329
    main = max(
        1, min(most, round(0.45 * canaries), int(33 * canaries**0.28 * max(1.0, 0.329 / mu)))
    )
    others = sorted({max(1, min(most, round(part * main))) for part in (1 / 6, 6.0)} - {main})
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
