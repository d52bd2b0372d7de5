"""Probability of r right guesses about canaries under a trade-off curve: the recursion of
Mahloujifar, Melis and Chaudhuri (2025).

Setting and lemma as in `guess_probability`; r is fixed in advance. Let h be the inverse of the
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

import numpy as np

from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols.mechanism import FloatArray

_ROUNDING = 1e-9  # relative rounding error of the sums: a refutation must exceed the bound by more


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
    most = r / m * (1 + _ROUNDING)
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
