"""Claims on interactive prediction (PINP): its privacy with few and with many updates, the privacy
loss of bottoms, the number of updates, and the size of the errors.

Jain and Thakurta (2013), Algorithm 1, Theorems 2, 3, 9 and 10. Notation: m = log(4/delta), k =
log(2T/beta), S = 2 L R^2 /
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

from dpwitness.auditors import FailureBound, Scaling
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
    enclose,
    excess,
    excess_of,
    free,
    held_law,
    identities,
    least,
    measured,
    sympy,
    twice,
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


def one_update_excess(epsilon: Ball, delta: Ball, constant: int) -> Enclosure:
    """Return the bound of `renyi_bound` for two tops of loss epsilon / (constant log(4/delta))."""
    return at_most(
        renyi_bound(
            epsilon,
            epsilon / (constant * (4 / delta).log()),
            arb(2),
            delta,
            1 - ORDER * delta.log() / epsilon,
        )
    )


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
    return one_update_excess(epsilon, delta, 100)


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
    return one_update_excess(epsilon, delta, 200)


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
    so beyond the threshold, is compared with the same dataset with one label turned over: a single
    answer is a Laplace mechanism of loss e, and its delta is 1 - exp((epsilon - e)/2). Its law is
    integrated exactly.
    """
    mechanism = interactive(
        MANY,
        math.sqrt(updates / interactive(MANY, 1.0, 1, epsilon, delta).updates),
        1,
        epsilon,
        delta,
    )
    pair = mechanism.worst_pair(math.floor(mechanism.norm_bound * MANY))
    scaled = epsilon / (100 * math.log(4 / delta))  # e sqrt(B)
    breaks = (scaled / (epsilon - 2 * math.log1p(-delta))) ** 2

    _, holds = least(
        lambda count: _proved(epsilon, scaled / math.sqrt(count), 1, delta), breaks, 1.0
    )
    return certified(
        effort,
        mechanism,
        pair,
        numbers={
            "e": mechanism.answer_loss,
            "fails for B below": breaks,
            "holds for B from": holds,
        },
        at={"epsilon": epsilon, "delta": delta, "updates": updates},
    )


def _proved(epsilon: float, loss: float, updates: int, delta: float) -> bool:
    """Return whether `renyi_bound` proves the promise at one of 60 Renyi orders."""
    orders = 1 - np.geomspace(0.2, 1000, 60) * math.log(delta) / epsilon
    return any(
        renyi_bound(arb(epsilon), arb(loss), arb(updates), arb(delta), arb(order)) <= 0
        for order in orders[orders >= 2].tolist()
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
    verdict = ClaimVerdict.UNDERSPECIFIED if enough <= 200 else ClaimVerdict.INCONCLUSIVE
    if broken >= 200:
        verdict = ClaimVerdict.FAILS
    return Evidence(
        verdict,
        text=(
            f"the least constant lies between {broken:.4g} and {enough:.4g}; the best adversary "
            f"found needs {game:.4g}, the paper prints 200"
        ),
        method="exact composition, dynamic programming, Renyi bound",
        enclosure=excess_of(broken, enough, 200),
        numbers={"fails below": broken, "best adversary": game, "proved from": enough},
        at={"epsilon": epsilon, "delta": delta, "updates": updates},
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
    answer = (Laplace(epsilon=loss), np.zeros(1), np.ones(1))
    laws = [composed([answer] * k) for k in (count, 2 * count)]
    once, twice = (float(law.upper.hockey_stick(1.0)) for law in laws if law is not None)
    reached = _delta(count, loss, 1.0)
    best = adaptive_delta(count, loss, 1.0)
    return Evidence(
        ClaimVerdict.FAILS if reached > once else ClaimVerdict.NOT_REFUTED,
        text=(
            f"delta(1) is at least {reached:.4g}, against {once:.4g} of {count} and {twice:.4g} of "
            f"{2 * count} Laplace answers"
        ),
        method="exact composition",
        enclosure=excess_of(reached, max(best, reached), once),
        numbers={
            "reached": reached,
            "B answers": once,
            "2B answers": twice,
            "best adversary": best,
        },
        at={"updates": updates, "loss": loss},
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
    return unsatisfiable(
        effort,
        [sigma > 0, f - f1 <= sensitivity, f1 - f <= sensitivity, differs],
        text="moving the noise by f - f' keeps answer and kind, at a cost of at most S epsilon_0",
    )


# -- accuracy
# --------------------------------------------------------------------------------------------------


@claim(
    "JK-08",
    kind="counterexample",
    source=f"{SOURCE}, Algorithm 1 line 1 and Theorem 3",
    statement="With probability 1 - beta no test point is left without an answer",
    formula="P(counter reaches B before round T) <= beta",
    domain=Box(norm_bound=(1e-3, 1.0), rounds=(2.0, 2000.0)),
)
def all_points_are_answered(
    effort: Effort, norm_bound: float = 0.02, rounds: float = 2000.0
) -> Evidence:
    """Run as printed, n = 1e7, lambda = 1, |w| = C: B grows with C^2, the updates needed with C, so
    a small C ends it early.
    """
    mechanism = interactive(10**7, norm_bound, math.floor(rounds))
    dataset = mechanism.worst_pair(max(1, math.floor(norm_bound * 10**7))).d0

    first = (
        -math.expm1(-(norm_bound - mechanism.threshold) * mechanism.answer_epsilon - math.log(2))
        if mechanism.updates <= 1
        else 0.0
    )
    return measured(
        effort,
        lambda size, rng: np.asarray(
            np.isnan(mechanism.sample(dataset, size, rng)).sum(axis=1, dtype=float)
        ),
        FailureBound(0.0, BETA),
        runs=effort.of(400, 200),
        confidence=1 - 1e-07,
        name="points unanswered",
        numbers={"B": mechanism.updates, "probability of a halt after one answer": max(first, 0.0)},
        at={"norm_bound": norm_bound, "rounds": rounds},
    )


@certificate(
    "JK-08-potential",
    source=f"{SOURCE}, Algorithm 1 line 1",
    statement="The printed B is no smaller than the number of updates that the potential argument "
    "allows",
    formula="3.2 R^2 C^2 / sigma(B)^2 <= B",
    domain=Box(norm_bound=(1e-3, 10.0), spread=(0.7, 40.0)),
    depends=("JK-08-updates",),
    reach=571428.57,
)
def the_printed_updates_suffice(norm_bound: Ball, spread: Ball) -> Enclosure:
    """sigma = 800 k L R^2 sqrt(B) m / (n epsilon lambda) and B = n lambda epsilon C^2 / (200 L R
    sqrt(2 k) m), k = log(2T/beta) = `spread`, give sigma^2 B = 8 k R^2 C^4: the ratio is 0.4 / (k
    C^2), which has the units of 1/C^2.
    """

    def plain(norm_bound: Ball, spread: Ball) -> Ball:
        unit = free(1000)  # n epsilon lambda / m, with L = R = 1
        printed = unit * norm_bound**2 / (200 * (2 * spread).sqrt())
        sigma = 4 / (unit / (200 * printed.sqrt())) * spread
        return excess(arb("3.2") * norm_bound**2 / sigma**2, printed)

    return enclose(
        twice(
            lambda norm, spread: excess(arb("0.4"), spread * norm * norm), plain, norm_bound, spread
        )
    )


@claim(
    "JK-08-updates",
    kind="certificate",
    source=f"{SOURCE}, proof of Theorem 3 (Theorem 10, quoted from Gupta et al. 2011)",
    statement="While all noise is at most sigma/4, there are at most 3.2 R^2 C^2 / sigma^2 updates",
    formula="|w - w*|^2 falls by at least 5 sigma^2 / (16 R^2) in each update, from at most C^2",
)
def updates_are_few(effort: Effort) -> Evidence:
    """An update at gap g = <w* - w, phi> adds eta sign(g + noise) phi, eta = sigma / (4 R^2): |w* -
    w|^2 changes by eta^2 |phi|^2 - 2 eta g sign(g + noise). z3 finds no g, noise, |phi| <= R with
    |g + noise| > sigma, |noise| <= sigma/4 and less fall.
    """
    gap, noise, sigma, radius, square = z3.Reals("gap noise sigma R square")
    step = sigma / (4 * radius * radius)
    given = [
        sigma > 0,
        radius > 0,
        square <= radius * radius,
        noise <= sigma / 4,
        -noise <= sigma / 4,
    ]
    cases = [
        [
            *given,
            sign * (gap + noise) >= sigma,
            2 * step * gap * sign - step * step * square
            < z3.Q(5, 16) * sigma * sigma / (radius * radius),
        ]
        for sign in (+1, -1)
    ]
    return unsatisfiable(
        effort,
        *cases,
        text="each update brings w closer to w* by 5 sigma^2 / (16 R^2), so 3.2 R^2 C^2 / sigma^2 "
        "are enough",
    )


def constants(updates: Any = None) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return (B, epsilon_0, sigma, symbols) of Algorithm 1 as sympy formulas; `updates` replaces
    the printed B.
    """
    names = ("n", "lam", "epsilon", "C", "L", "R", "k", "m", "B")
    at = {name: sympy.Symbol(name, positive=True) for name in names}
    unit = at["n"] * at["lam"] * at["epsilon"]
    slope = 200 * at["L"] * at["R"] * at["m"]
    printed = unit * at["C"] ** 2 / (slope * sympy.sqrt(2 * at["k"]))
    allowed = printed if updates is None else updates(at)
    answer = unit / (slope * at["R"] * sympy.sqrt(allowed))
    return allowed, answer, 4 / answer * at["k"], at


@claim(
    "JK-08-repair",
    kind="certificate",
    source=f"{SOURCE}, Algorithm 1 with another B",
    statement="B >= sqrt(3.2) C n epsilon lambda / (800 L R log(2T/beta) log(4/delta)) is enough "
    "for the potential argument",
    formula="3.2 R^2 C^2 / sigma(B)^2 = B at the smallest such B, and falls as B grows",
    repairs="JK-08",
    depends=("JK-08-updates",),
)
def the_repaired_updates_suffice(effort: Effort) -> Evidence:
    """sigma(B)^2 = s B, so 3.2 R^2 C^2 / sigma(B)^2 <= B iff B^2 >= 3.2 R^2 C^2 / s: computer
    algebra finds the root to be this B.
    """
    allowed, _, sigma, at = constants(
        lambda at: (
            sympy.sqrt(sympy.Rational(16, 5))
            * (at["C"] * at["n"] * at["epsilon"] * at["lam"])
            / (800 * at["L"] * at["R"] * at["k"] * at["m"])
        )
    )
    any_sigma = constants(lambda at: at["B"])[2]
    needed = sympy.Rational(16, 5) * at["R"] ** 2 * at["C"] ** 2
    return identities(
        needed / sigma**2 - allowed,
        any_sigma**2 / at["B"] - (any_sigma**2).diff(at["B"]),
        text="the repaired B is the smallest that the potential argument needs",
    )


@claim(
    "JK-09",
    kind="certificate",
    source=f"{SOURCE}, Theorem 10, with its constants",
    statement="With probability 1 - beta/2 every bottom is within 1.25 sigma of the truth and "
    "every top within sigma/4",
    formula="T P(|noise| > sigma/4) = beta/2",
)
def answers_are_accurate(effort: Effort) -> Evidence:
    """If |noise| <= sigma/4 always, z3 finds no bottom (|f + noise - p| <= sigma) with |p - f| > 5
    sigma/4; a top's error is its noise.

    sigma epsilon_0 / 4 = log(2T/beta), so T exp(-sigma epsilon_0 / 4) = beta/2: an identity.
    """
    error, noise, sigma = z3.Reals("error noise sigma")  # error = p - f
    quiet = [
        sigma > 0,
        noise <= sigma / 4,
        -noise <= sigma / 4,
        noise - error <= sigma,
        error - noise <= sigma,
    ]
    proof = unsatisfiable(
        effort,
        *([*quiet, side > 5 * sigma / 4] for side in (error, -error)),
        text="errors are as small as the noise allows",
    )
    rounds, beta, answer = sympy.symbols("T beta epsilon_0", positive=True)
    tail = rounds * sympy.exp(-(4 / answer * sympy.log(2 * rounds / beta)) / 4 * answer)
    return (
        proof
        if proof.verdict is not ClaimVerdict.HOLDS
        else identities(tail - beta / 2, text=f"{proof.text}; the union bound is beta/2")
    )


def largest_error(records: int, rounds: int) -> Any:
    """Return a function (size, rng) -> largest absolute error of the answers in each run, at a
    private prediction of sigma/2.

    At sigma/2 the algorithm answers with the public prediction 0.
    """
    mechanism = interactive(records, 1.0, rounds)
    dataset = mechanism.worst_pair(max(1, math.floor(0.5 * mechanism.threshold * records))).d0
    truth = mechanism.learner.fit(dataset)(np.ones((1, 1)))[0]
    return lambda size, rng: np.nanmax(np.abs(mechanism.sample(dataset, size, rng) - truth), axis=1)


def spread(rounds: float) -> float:
    """Return log(2T/beta)."""
    return math.log(2 * rounds / BETA)


@claim(
    "JK-09-theorem-3",
    kind="experiment",
    source=f"{SOURCE}, Theorem 3",
    statement="The error grows like sqrt(log(T/beta))",
    formula="error = O(C R^2 sqrt(L log(T/beta)) log^2(1/delta) / sqrt(n epsilon lambda))",
)
def the_error_grows_with_the_root_of_the_logarithm(effort: Effort) -> Evidence:
    """Runs at 8 to 1024 test points with the prediction sigma/2 away from the public one, where all
    answers are bottoms: their error is sigma/2. The printed B makes sigma grow like
    log(2T/beta)^(3/4).
    """
    points = range(3, 11, 2) if effort.quick else range(3, 11)
    return measured(
        effort,
        lambda value, size, rng: largest_error(MANY, int(value))(size, rng),
        Scaling(0.5, (*(2.0**k for k in points), 512.0), "T", transform=spread),
        name="largest error",
        reported="slope",
        at={
            "epsilon": 1.0,
            "delta": 1e-6,
            "lambda": 1.0,
            "C": 1.0,
            "records": MANY,
            "T": "8 to 1024",
        },
    )


@claim(
    "JK-09-records",
    kind="experiment",
    source=f"{SOURCE}, Theorem 3",
    statement="The error falls like 1/sqrt(n)",
    formula="error = O(1/sqrt(n))",
)
def the_error_falls_with_the_root_of_records(effort: Effort) -> Evidence:
    """The same runs at 100 test points and 1e8 to 6.4e9 records."""
    return measured(
        effort,
        lambda value, size, rng: largest_error(int(value), 100)(size, rng),
        Scaling(-0.5, tuple(MANY * 4.0**k for k in range(4)), "n"),
        name="largest error",
        reported="slope",
        at={
            "epsilon": 1.0,
            "delta": 1e-6,
            "lambda": 1.0,
            "C": 1.0,
            "T": 100,
            "records": "1e8 to 6.4e9",
        },
    )


@claim(
    "JK-09-repair",
    kind="certificate",
    source=f"{SOURCE}, Theorem 3, exponents that follow from Algorithm 1",
    statement="1.25 sigma = c C R^(3/2) sqrt(L) log(2T/beta)^(3/4) sqrt(log(4/delta)) / sqrt(n "
    "epsilon lambda), c = 50 2^(1/4)",
    formula="R to the power 3/2 for 2, log(T/beta) to 3/4 for 1/2, log(1/delta) to 1/2 for 2",
    repairs="JK-09-theorem-3",
    depends=("JK-09",),
)
def the_error_has_other_exponents(effort: Effort) -> Evidence:
    """Computer algebra substitutes the printed B into 1.25 sigma."""
    _, _, sigma, at = constants()
    root = sympy.Rational(1, 2)
    form = (
        at["C"]
        * at["R"] ** (3 * root)
        * at["k"] ** (3 * root / 2)
        * (at["L"] * at["m"] / (at["n"] * at["epsilon"] * at["lam"])) ** root
    )
    return identities(
        sympy.Rational(5, 4) * sigma - 50 * 2 ** (root / 2) * form,
        text="1.25 sigma has exactly these exponents",
    )
