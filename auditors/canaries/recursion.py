"""How often r guesses about canaries may be right under a trade-off curve: the recursion of Mahloujifar, Melis and Chaudhuri (2025).

Setting and lemma of `counting`; r is fixed beforehand. Let h be the inverse of the curve g, a_k = k p_k / m and b_k = (r - k) p_k / m, and
A_c, B_c their sums over k >= c. The lemma for T = {c, ..., r} is A_c <= g(B_{c-1}), so B_{c-1} >= h(A_c); and A_c - A_{c+1} is
c / (r - c) times B_c - B_{c+1}.

**Theorem.** Put A = v alpha / m, B = (r - v) alpha / m, and for c = v, v - 1, ..., 1

    B' = max(B, h(A)),    A' = A + (c - 1) / (r - c + 1) (B' - B).

If A + B exceeds r / m on the way, P(C >= v) < alpha under every mechanism that obeys g.

*Proof.* Suppose P(C >= v) >= alpha, and let p be the law of C. Moving probability from a count k to k - 1 lowers A_k and raises B_{k-1}
by as much, and so every A_c and B_{c-1} with c <= k: these inequalities get easier. Only that of c = k + 1 gets harder, as B_k falls. Use
those of c <= v alone. Then all that lies above v may be moved down to v, what P(C >= v) has beyond alpha to v - 1, and, going down from
c = v, whatever at c - 1 goes beyond the need of B_{c-1} >= h(A_c) to c - 2. What is left is the recursion, and a rest at 0: each A + B is
r / m times the probability at counts from c - 1 on, which never exceeds one.

The curve is given by lines, g(q) = min_j (e^{epsilon_j} q + delta_j): any valid lines give a valid g, so h(a) = max_j e^{-epsilon_j}
(a - delta_j) errs on the safe side, whatever their number. A rises on the way, so the best line is found by walking: a step costs O(1), and
the walk ends where B no longer grows. m = 10^6 takes a few thousand steps at the very most of what was ever seen.
"""

from __future__ import annotations

import numpy as np

from dpwitness.mechanisms.numerics.jit import jit
from dpwitness.mechanisms.terms.protocol import FloatArray

_ROUNDING = 1e-9  # of sums over the walk: a refutation has to exceed the bound by more


def refutes(right: int, guesses: int, canaries: int, epsilons: FloatArray, deltas: FloatArray, alpha: float) -> bool:
    """Whether v right guesses refute the curve of these lines at error alpha; `epsilons` fall.

    Examples
    --------
    >>> import numpy as np
    >>> lines = np.array([1.0, -1.0]), np.array([0.0, 1 - np.exp(-1.0)])
    >>> refutes(90, 100, 1000, *lines, 0.05), refutes(80, 100, 1000, *lines, 0.05)
    (True, False)
    """
    with np.errstate(over="ignore"):
        return bool(_exceeds(float(right), float(guesses), float(canaries), np.exp(-epsilons), deltas, alpha))


@jit
def _exceeds(v: float, r: float, m: float, slopes: FloatArray, deltas: FloatArray, alpha: float) -> bool:
    a, b, j = v * alpha / m, (r - v) * alpha / m, 0
    most = r / m * (1 + _ROUNDING)
    c = v
    while c >= 1:
        while j + 1 < slopes.size and slopes[j + 1] * (a - deltas[j + 1]) >= slopes[j] * (a - deltas[j]):
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
