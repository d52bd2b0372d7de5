"""Claims on the privacy of interactive prediction (PINP) with few and with many updates, and on the
privacy loss of bottoms.

Jain and Thakurta (2013), Algorithm 1, Theorems 2 and 9. Notation: m = log(4/delta), S = 2 L R^2 /
(lambda n), e = S epsilon_0 = epsilon / (100 sqrt(B) m) is the largest privacy loss of one noisy
answer. An answer is a *top* if it is noisy and an update follows, and a *bottom* if it is the
public prediction. The loop runs while the number of updates is below B, a real number.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from flint import arb

from dpwitness.mechanisms import KernelLearner, Loss, PrivateInteractivePrediction
from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    ClaimVerdict,
    Effort,
    Enclosure,
    Evidence,
    adaptive_delta,
    at_most,
    certificate,
    certified,
    claim,
    excess,
    excess_of,
    held_law,
    least,
    unsatisfiable,
    z3,
)

SOURCE = "Jain and Thakurta 2013"
BETA = 0.05
MANY = 10**8  # number of records; large enough for single predictions far beyond the threshold
ORDER = 40  # the proof's Renyi order is 1 + ORDER log(1/delta)/epsilon
HELD = 0.7  # level of the best fixed adversary, in units of e


def interactive(
    records: int, norm_bound: float, rounds: int, epsilon: float = 1.0, delta: float = 1e-6
) -> PrivateInteractivePrediction:
    """Return the printed algorithm in one dimension with absolute loss, lambda = L = R = 1, and the
    test point z = 1 in every round.
    """
    it = KernelLearner(Loss("absolute"), 1.0, 1, records, label_bound=10.0)
    with warnings.catch_warnings():
        # the warning about B < 1 is expected: claims here show that B < 1 can break the promise
        warnings.simplefilter("ignore")
        return PrivateInteractivePrediction(
            it, epsilon, delta, BETA, norm_bound, test_points=np.ones((rounds, 1))
        )


def renyi_bound(epsilon: Ball, loss: Ball, updates: Ball, delta: Ball, order: Ball) -> Ball:
    """Return the relative excess of a proved epsilon: at most `updates` tops of loss e are (proved
    epsilon, delta)-DP.

    `order` is the Renyi order alpha >= 2.

    For one round let r = p/q, a the probability of a top under the neighbor, b = 1 - a, x = exp(e)
    - 1 and phi(r) = r^alpha - 1 - alpha (r - 1), so that E_P exp((alpha-1) L) = 1 + E_Q phi(r).
    phi(r) <= K (r - 1)^2 for r <= exp(e), with K = phi(exp(e)) / x^2. Tops have |r - 1| <= x; a
    bottom's r - 1 = (change of a) / b is at most x min(1, a/b). So E_Q phi(r) <= K x^2 (a + b
    min(1, a^2/b^2)) <= 2 K x^2 a, while E_P[exp((alpha-1) L); top] >= a exp(-alpha e). Let y = 2
    phi(exp(e)) exp(alpha e) and exp(-g) = 1 - y. Then the process exp((alpha-1) loss - g tops) is a
    supermartingale for any choice and any number of test points. So D_alpha <= updates g / (alpha -
    1), and epsilon = D_alpha + log(1/delta) / (alpha - 1). Finally, phi(exp(e)) <= alpha (alpha-1)
    / 2 e^2 exp(alpha e) and g <= y / (1 - y).
    """
    growth = loss * loss * (2 * order * loss).exp()
    y = order * (order - 1) * growth
    if not y < 1:
        return arb("nan")  # no bound
    return excess(updates * order * growth / (1 - y) - delta.log() / (order - 1), epsilon)


@certificate(
    "JK-07-repair",
    source=f"{SOURCE}, Theorem 2 with the condition B >= 1",
    statement="Algorithm 1 is (epsilon, delta)-DP if B >= 1, for any number of test points, "
    "however they are chosen",
    formula="D_alpha <= (B + 1) g(alpha, e) / (alpha - 1)",
    domain=Box(epsilon=(0.01, 10.0), delta=(1e-12, 1e-3)),
    repairs="JK-07",
    depends=("JK-03", "JK-07-rounds"),
    reach=0.97227103,
)
def interactive_prediction_is_private(epsilon: Ball, delta: Ball) -> Enclosure:
    """A supermartingale over the rounds (see `renyi_bound`), at alpha = 1 + 40 log(1/delta) /
    epsilon.

    Counter < B allows at most B + 1 <= 2 B tops. With e = epsilon / (100 sqrt(B) m), B e^2 does not
    depend on B, and what remains of the bound grows with e: so B = 1 is the worst.
    """
    loss = epsilon / (100 * (4 / delta).log())
    return at_most(renyi_bound(epsilon, loss, arb(2), delta, 1 - ORDER * delta.log() / epsilon))


@certificate(
    "JK-18",
    source=f"{SOURCE}, Theorem 9 (quoted from Gupta et al. 2011), sqrt(B) S read for its sqrt(BS)",
    statement="Threshold answers with epsilon_0 = epsilon / (200 sqrt(B) S log(4/delta)) are "
    "(epsilon, delta)-DP if B >= 1",
    formula="D_alpha <= (B + 1) g(alpha, e) / (alpha - 1), e = epsilon / (200 sqrt(B) m)",
    domain=Box(epsilon=(0.01, 10.0), delta=(1e-12, 1e-3)),
    depends=("JK-07-rounds",),
    reach=0.078692044,
)
def the_quoted_theorem_is_private(epsilon: Ball, delta: Ball) -> Enclosure:
    """As JK-07-repair, with half its e. (Theorem 14 names no constant and a sigma that is itself
    unknown: nothing there can be checked.)
    """
    loss = epsilon / (200 * (4 / delta).log())
    return at_most(renyi_bound(epsilon, loss, arb(2), delta, 1 - ORDER * delta.log() / epsilon))


@claim(
    "JK-07",
    kind="counterexample",
    source=f"{SOURCE}, Theorem 2",
    statement="Algorithm 1 is (epsilon, delta)-DP",
    formula="P(M(D) in S) <= exp(epsilon) P(M(D') in S) + delta",
    domain=Box(epsilon=(0.1, 5.0), delta=(1e-9, 1e-3), updates=(1e-10, 1.0)),
    depends=("JK-01",),
)
def any_budget_is_private(
    effort: Effort, epsilon: float = 1.0, delta: float = 1e-6, updates: float = 1e-7
) -> Evidence:
    """Where B < 1 one update is made all the same, and e ~ 1/sqrt(B) has no bound (witness W8).

    C is chosen so that B = `updates`. A dataset whose prediction lies as far out as C allows, and
    so beyond the threshold, is held against the one with a label turned over: a single answer is a
    Laplace mechanism of loss e, and its delta is 1 - exp((epsilon - e)/2). Its law is integrated
    exactly.
    """
    unit = interactive(MANY, 1.0, 1, epsilon, delta)
    mechanism = interactive(MANY, math.sqrt(updates / unit.updates), 1, epsilon, delta)
    pair = mechanism.worst_pair(math.floor(mechanism.norm_bound * MANY))
    scaled = epsilon / (100 * math.log(4 / delta))  # e sqrt(B)
    breaks = (scaled / (epsilon - 2 * math.log1p(-delta))) ** 2

    def proved(count: float) -> bool:
        return _proved(epsilon, scaled / math.sqrt(count), 1, delta)

    holds = least(proved, breaks, 1.0)[1]
    numbers = {"e": mechanism.answer_loss, "fails for B below": breaks, "holds for B from": holds}
    return certified(
        effort,
        mechanism,
        pair,
        numbers=numbers,
        at={"epsilon": epsilon, "delta": delta, "updates": updates},
    )


def _proved(epsilon: float, loss: float, updates: int, delta: float) -> bool:
    """Return whether `renyi_bound` proves the promise at one of 60 Renyi orders."""
    orders = 1 - np.geomspace(0.2, 1000, 60) * math.log(delta) / epsilon
    usable = [arb(order) for order in orders.tolist() if order >= 2]
    return any(
        renyi_bound(arb(epsilon), arb(loss), arb(updates), arb(delta), order) <= 0
        for order in usable
    )


def _delta(updates: int, loss: float, epsilon: float) -> float:
    """Return the lower bound of delta(epsilon) that the best fixed level proves."""
    return float(held_law(updates, loss, HELD * loss).lower.hockey_stick(epsilon))


@claim(
    "JK-07-constant",
    kind="experiment",
    source=f"{SOURCE}, Algorithm 1 line 2: the constant 200",
    statement="epsilon_0 = n epsilon lambda / (c L R^2 sqrt(B) log(4/delta)) needs c = 200, for "
    "integer B",
    formula="the least c with delta(epsilon) <= delta against every adversary",
    domain=Box(epsilon=(0.1, 5.0), delta=(1e-9, 1e-2), updates=(1.0, 16.0)),
    depends=("JK-07-repair",),
)
def the_constant_of_interactive_prediction(
    effort: Effort, epsilon: float = 1.0, delta: float = 1e-6, updates: float = 4.0
) -> Evidence:
    """Brackets the least c. From below: test points that hold each answer at one level (W7),
    composed exactly. From above: the proof of JK-07-repair at its best order. Between them: the
    best adaptive adversary, by dynamic programming over levels on a grid, which must be fine just
    above zero: an adversary who keeps off there needs a smaller c than the fixed one that has been
    composed exactly.
    """
    count = math.floor(updates)

    def loss(c: float) -> float:
        return 2 * epsilon / (c * math.sqrt(count) * math.log(4 / delta))

    coarse = 1e-2 if effort.quick else 1e-3
    lowest = epsilon / (math.sqrt(count) * math.log(4 / delta))  # there e = 2
    broken, _ = least(
        lambda c: _delta(count, loss(c), epsilon) <= delta, lowest, 400.0, relative=coarse
    )
    enough = least(
        lambda c: _proved(epsilon, loss(c), count, delta), lowest, 400.0, relative=coarse
    )[1]
    game = least(
        lambda c: adaptive_delta(count, loss(c), epsilon) <= delta,
        broken,
        min(enough, 400.0),
        relative=coarse,
    )[1]
    verdict = (
        ClaimVerdict.UNDERSPECIFIED if broken < 200 and enough <= 200 else ClaimVerdict.INCONCLUSIVE
    )
    if broken >= 200:
        verdict = ClaimVerdict.FAILS
    text = (
        f"the least constant lies between {broken:.4g} and {enough:.4g}; the best adversary "
        f"found needs {game:.4g}, the paper prints 200"
    )
    at = {"epsilon": epsilon, "delta": delta, "updates": updates}
    numbers = {"fails below": broken, "best adversary": game, "proved from": enough}
    return Evidence(
        verdict,
        text,
        "exact composition, dynamic programming, Renyi bound",
        excess_of(broken, enough, 200),
        numbers,
        at,
    )


@claim(
    "JK-07-composition",
    kind="counterexample",
    source=f"{SOURCE}, section 5: only updates count",
    statement="B updates cost the privacy of B Laplace answers",
    formula="delta(1) <= that of the B-fold Laplace mechanism of loss e",
    domain=Box(updates=(4.0, 16.0), loss=(0.3, 0.5)),
)
def only_updates_cost_privacy(effort: Effort, updates: float = 4.0, loss: float = 0.3) -> Evidence:
    """There is no noise on the threshold, and each round draws anew: bottoms leak, without bound in
    number (witness W7).

    Held near the threshold, half of the answers are bottoms of loss up to e. Both laws are composed
    exactly. The comparison with 2B answers is given too.
    """
    from dpwitness.auditors.density.routes import composed
    from dpwitness.mechanisms.textbook.additive import Laplace

    count = math.floor(updates)
    answers = {
        k: composed([(Laplace(epsilon=loss), np.zeros(1), np.ones(1))] * k)
        for k in (count, 2 * count)
    }
    once, twice = (
        float(law.upper.hockey_stick(1.0)) for law in answers.values() if law is not None
    )
    reached = _delta(count, loss, 1.0)
    verdict = ClaimVerdict.FAILS if reached > once else ClaimVerdict.NOT_REFUTED
    best = adaptive_delta(count, loss, 1.0)
    text = (
        f"delta(1) is at least {reached:.4g}, against {once:.4g} of {count} and {twice:.4g} of "
        f"{2 * count} Laplace answers"
    )
    numbers = {"reached": reached, "B answers": once, "2B answers": twice, "best adversary": best}
    reach = excess_of(reached, max(best, reached), once)
    return Evidence(
        verdict, text, "exact composition", reach, numbers, {"updates": updates, "loss": loss}
    )


@claim(
    "JK-07-rounds",
    kind="certificate",
    source=f"{SOURCE}, Algorithm 1 lines 5 to 12",
    statement="Each answer, noisy or public, is e-DP given the answers before it",
    formula="e = S epsilon_0",
    depends=("JK-03",),
)
def each_round_is_private(effort: Effort) -> Evidence:
    """A randomness alignment: run the neighbour with the noise moved by f - f'. For all reals f,
    f', p, sigma, noise with |f - f'| <= S the two runs give the same answer of the same kind, at a
    shift of at most S, which Laplace noise of scale 1/epsilon_0 pays with e.
    """
    f, f1, public, sigma, noise, sensitivity = z3.Reals("f f1 p sigma noise S")
    aligned = noise + f - f1

    def answer(truth: Any, drawn: Any) -> tuple[Any, Any]:
        noisy = truth + drawn
        top = z3.Or(noisy - public > sigma, public - noisy > sigma)
        return top, z3.If(top, noisy, public)

    (top, given), (top1, given1) = answer(f, noise), answer(f1, aligned)
    differs = z3.Or(
        top != top1, given != given1, aligned - noise > sensitivity, noise - aligned > sensitivity
    )
    near = [sigma > 0, f - f1 <= sensitivity, f1 - f <= sensitivity]
    return unsatisfiable(
        effort,
        [*near, differs],
        text="moving the noise by f - f' keeps answer and kind, at a cost of at most S epsilon_0",
    )
