"""Claims on learning from private predictions at public test points (TDDL), and on the composition
theorem in its privacy proof.

Jain and Thakurta (2013), Algorithm 2, Theorems 4, 5, 11, 12 and 13, Corollary 6. T answers <w*,
phi(z_t)> + b_t with b_t Laplace(nu), nu = c L R^2 sqrt(T log(1/delta)) / (lambda n epsilon). So
each answer has privacy loss at most e = 2 epsilon / (c sqrt(T log(1/delta))).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb

from dpwitness.auditors import LossLaw, Scaling, audit_utility
from dpwitness.auditors.density.composition import compose
from dpwitness.auditors.density.routes import composed
from dpwitness.auditors.statistics.loss_law import EnclosedLaw as Laws
from dpwitness.mechanisms import KernelLearner, Laplace, Loss, TestDataDependentLearner
from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    ClaimVerdict,
    Effort,
    Enclosure,
    Evidence,
    at_most,
    attained,
    audited,
    certificate,
    certified,
    claim,
    enclose,
    excess,
    excess_of,
    free,
    identities,
    least,
    sympy,
    twice,
    unsatisfiable,
    z3,
)

SOURCE = "Jain and Thakurta 2013"
LOW, HIGH = 0.05, 8.0  # search range of the smallest constant


def answers(rounds: int, loss: float) -> Laws:
    """Return the privacy loss law of `rounds` Laplace answers, each moved by `loss` scales: all
    test points are parallel to w* - w*'.
    """
    law = composed([(Laplace(epsilon=loss), np.zeros(1), np.ones(1))] * rounds)
    assert law is not None
    return law


@claim(
    "JK-10",
    kind="experiment",
    source=f"{SOURCE}, Theorem 4 with nu = O(L R^2 sqrt(T log(1/delta)) / (lambda n epsilon))",
    statement="Algorithm 2 is (epsilon, delta)-DP",
    formula="delta(epsilon) of T Laplace answers of loss 2 epsilon / (c sqrt(T log(1/delta))) <= "
    "delta",
    domain=Box(epsilon=(0.05, 10.0), delta=(1e-9, 1e-2), rounds=(1.0, 1000.0)),
    depends=("JK-03",),
)
def the_constant_of_transfer(
    effort: Effort, epsilon: float = 1.0, delta: float = 1e-6, rounds: float = 100.0
) -> Evidence:
    """The noise has no constant. Test points all equal and along w* - w*' make every answer lose
    the most, and what the learner makes of the answers is post-processing: so the least c is where
    T-fold composition of Laplace answers, enclosed by privacy-loss distributions, meets (epsilon,
    delta). The worst case falls with c, and bisection brackets the least.
    """
    count = math.floor(rounds)
    coarse = 1e-2 if effort.quick else 1e-3

    def delta_at(c: float, side: str) -> float:
        loss = 2 * epsilon / (c * math.sqrt(count * math.log(1 / delta)))
        effort.spend()
        return float(getattr(answers(count, loss), side).hockey_stick(epsilon))

    low, high = least(lambda c: delta_at(c, "upper") <= delta, LOW, HIGH, relative=coarse)
    broken = delta_at(low, "lower")
    return Evidence(
        ClaimVerdict.UNDERSPECIFIED
        if broken > delta and math.isfinite(high)
        else ClaimVerdict.INCONCLUSIVE,
        text=(
            f"private from c = {high:.4g} on, not at c = {low:.4g}, where delta({epsilon:g}) is "
            f"{broken:.4g}"
        ),
        method="exact composition (privacy-loss distributions)",
        numbers={"c": [low, high]},
        at={"epsilon": epsilon, "delta": delta, "rounds": rounds},
    )


@claim(
    "JK-10-one",
    kind="counterexample",
    source=f"{SOURCE}, Theorem 4 with the constant c = 1",
    statement="Algorithm 2 is (epsilon, delta)-DP",
    formula="nu = L R^2 sqrt(T log(1/delta)) / (lambda n epsilon)",
    domain=Box(epsilon=(0.1, 5.0), delta=(1e-9, 1e-2), rounds=(1.0, 100.0)),
)
def the_constant_one_is_private(
    effort: Effort, epsilon: float = 1.0, delta: float = 1e-6, rounds: float = 10.0
) -> Evidence:
    """One label turned over under the absolute loss moves w* by all of its sensitivity; T test
    points at e1 (witness W9).
    """
    return certified(
        effort,
        TestDataDependentLearner(
            KernelLearner(Loss("absolute"), 4.0, 1, 10, label_bound=100.0),
            epsilon,
            delta,
            np.ones((math.floor(rounds), 1)),
            constant=1.0,
        ),
        at={"epsilon": epsilon, "delta": delta, "rounds": rounds},
    )


@certificate(
    "JK-10-repair",
    source=f"{SOURCE}, Theorem 4 with the constant c = 4",
    statement="Algorithm 2 is (epsilon, delta)-DP for every T",
    formula="rho + 2 sqrt(rho log(1/delta)) <= epsilon, rho = T e^2 / 2 = epsilon^2 / (8 "
    "log(1/delta))",
    domain=Box(epsilon=(0.01, 10.0), delta=(1e-12, 1e-2)),
    repairs="JK-10",
    depends=("JK-03",),
    reach=0.97854084,
)
def the_constant_four_is_private(epsilon: Ball, delta: Ball) -> Enclosure:
    """Each answer is e-DP, hence e^2/2-zCDP (Bun and Steinke 2016, Proposition 1.4); zCDP adds up
    over answers, and T cancels: rho = 2 epsilon^2 / (c^2 log(1/delta)), which is (rho + 2 sqrt(rho
    log(1/delta)), delta)-DP.
    """
    return transfer_excess(epsilon, delta, arb(4))


def transfer_excess(epsilon: Ball, delta: Ball, constant: Ball) -> Enclosure:
    """Return the upper bound that zCDP gives for the relative excess at the constant c: its epsilon
    over the promised epsilon, minus 1.
    """

    def plain(epsilon: Ball, delta: Ball) -> Ball:
        rounds, digits = free(100), -delta.log()
        loss = 2 * epsilon / (constant * (rounds * digits).sqrt())
        rho = rounds * loss * loss / 2
        return excess(rho + 2 * (rho * digits).sqrt(), epsilon)

    return at_most(
        twice(
            lambda epsilon, delta: (
                2 * epsilon / (constant * constant * -delta.log())
                + 2 * arb(2).sqrt() / constant
                - 1
            ),
            plain,
            epsilon,
            delta,
        )
    )


@claim(
    "JK-11",
    kind="certificate",
    source=f"{SOURCE}, proof of Theorem 5",
    statement="The fitted predictions are off by at most 2 sqrt(T) |b| in sum",
    formula="sum_t |<what - w*, phi(z_t)>| <= 2 sqrt(T) |b|_2",
)
def the_fit_is_close(effort: Effort) -> Evidence:
    """Write u_t = <what - w*, phi(z_t)>. As what beats w*, |u|^2 <= 2 <u, b> <= 2 |u| |b|; and
    |u|_1 <= sqrt(T) |u|. z3 on the norms.
    """
    return unsatisfiable(
        effort, fit_obligation(2, 2), text="no larger sum is possible", where=[noisy()]
    )


@claim(
    "JK-11-sharp",
    kind="certificate",
    source=f"{SOURCE}, proof of Theorem 5, by projection",
    statement="The fitted predictions are off by at most sqrt(T) |b| in sum",
    formula="sum_t |<what - w*, phi(z_t)>| <= sqrt(T) |b|_2",
)
def the_fit_is_twice_as_close(effort: Effort) -> Evidence:
    """What gives the projection of w*'s noisy predictions to a convex set that holds the true ones:
    <b - u, 0 - u> <= 0, |u|^2 <= <u, b>.

    The bound is reached where the phi(z_t) are orthonormal, C is the whole space, and all |b_t| are
    equal: there u = b.
    """
    it = KernelLearner(Loss("absolute"), 1.0, 4, 4)
    noise = np.array([[1.0, -1.0, 1.0, -1.0]])  # noisy answers for w* = 0
    fitted = TestDataDependentLearner(it, 1.0, 1e-3, np.eye(4), release="weights").weights(noise)
    return attained(
        unsatisfiable(
            effort, fit_obligation(1, 1), text="no larger sum is possible", where=[noisy()]
        ),
        float(np.abs(fitted).sum() / (2 * np.linalg.norm(noise))),
        "by orthonormal test points",
    )


def noisy() -> list[Any]:
    """Return a z3 constraint for nonzero noise; without noise every bound is attained."""
    return [z3.Real("b") > 0]


def fit_obligation(gain: int, bound: int) -> list[Any]:
    """Return z3 constraints for a sum above `bound` sqrt(T) |b|, where |u|^2 <= `gain` <u, b>."""
    length, noise, inner, total, root = z3.Reals("u b inner sum root_T")
    norms = [length >= 0, noise >= 0, root > 0, inner <= length * noise, total <= root * length]
    return [*norms, length * length <= gain * inner, total > bound * root * noise]


@certificate(
    "JK-11-tail",
    source=f"{SOURCE}, proof of Theorem 5",
    statement="|b|_2 <= sqrt(2) sqrt(T) nu log(T/beta) with probability 1 - beta",
    formula="P(max_t |b_t| > sqrt(2) nu log(T/beta)) <= beta",
    domain=Box(rounds=(1.0, 1e9), beta=(1e-6, 0.9)),
    reach=0.95730483,
)
def the_noise_is_short(rounds: Ball, beta: Ball) -> Enclosure:
    """|b|_2 <= sqrt(T) max |b_t|, and |b_t| / nu is exponential: the probability is at most T
    (beta/T)^sqrt(2), by the union bound.

    Over beta that is (beta/T)^(sqrt(2) - 1). (Without the sqrt(2) it is 1: the bound holds without
    it too.)
    """

    def plain(rounds: Ball, beta: Ball) -> Ball:
        return excess(rounds * (-arb(2).sqrt() * (rounds / beta).log()).exp(), beta)

    return at_most(
        twice(
            lambda rounds, beta: ((arb(2).sqrt() - 1) * (beta / rounds).log()).expm1(),
            plain,
            rounds,
            beta,
        )
    )


@claim(
    "JK-12",
    kind="experiment",
    source=f"{SOURCE}, Theorem 5",
    statement="At T = |C| n epsilon lambda / (L R sqrt(log(1/delta))) the excess error falls like "
    "1/sqrt(n)",
    formula="excess <= K (L R)^(3/2) sqrt(|C|) log(1/delta)^(1/4) log(T/beta) / sqrt(n epsilon "
    "lambda)",
)
def the_excess_falls_with_the_root_of_records(effort: Effort) -> Evidence:
    """The theorem gives T and the error up to constants. Test points are uniform on a circle, L = R
    = lambda = epsilon = |C| = 1, delta = 1e-3, and the noise has c = 4. Measured is the mean over
    the circle of |<what - w*, z>|, which bounds the excess: its slope in n, and the least K on
    these runs (at beta = .05, on the mean error).
    """
    records = tuple(100 * 4**k for k in range(4))

    def form(n: float) -> float:
        return math.sqrt(math.sqrt(math.log(1e3)) / n) * math.log(_points(n) / 0.05)

    found = audit_utility(
        lambda n, size, rng: np.array([_transfer_error(int(n), rng) for _ in range(size)]),
        Scaling(-0.5, records, "n", statistic="mean", spread=1.0),
        runs=effort.of(400, 200),
        seed=effort.seed,
        name="mean error over the circle",
    )
    at = {
        "epsilon": 1.0,
        "delta": 1e-3,
        "beta": 0.05,
        "lambda": 1.0,
        "c": 4.0,
        "records": "100 to 6400",
    }
    evidence = audited(found, numbers={"slope": found.estimate}, at=at)
    if evidence.verdict is not ClaimVerdict.NOT_REFUTED:
        return evidence
    constant = max(point.error / form(point.value) for point in found.points)
    return Evidence(
        ClaimVerdict.UNDERSPECIFIED,
        text=(
            f"slope {found.estimate:.3g} in n; K is at least {constant:.3g} on these runs; T must "
            "be of that order, not just at most so large"
        ),
        method=evidence.method,
        numbers={"slope": found.estimate, "K": constant},
        at=evidence.at,
        result=found,
        grade=evidence.grade,
    )


def _points(n: float) -> int:
    """Return T for n records at L = R = lambda = epsilon = |C| = 1 and delta = 1e-3."""
    return max(1, round(n / math.sqrt(math.log(1e3))))


def _transfer_error(n: int, rng: np.random.Generator) -> float:
    """Return the mean of |<w_hat - w*, z>| over the unit circle, (2/pi) |w_hat - w*|, in one run
    with w* = e1.
    """
    angle = rng.uniform(0, 2 * math.pi, _points(n))
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    mechanism = TestDataDependentLearner(
        KernelLearner(Loss("absolute"), 1.0, 2, n, label_bound=10.0),
        1.0,
        1e-3,
        points,
        norm_bound=1.0,
    )
    noise = mechanism.noise_scale * (
        rng.standard_exponential((1, len(points))) - rng.standard_exponential((1, len(points)))
    )
    fitted = mechanism.weights(points[:, 0] + noise)[0]
    return float(2 / math.pi * np.hypot(fitted[0] - 1.0, fitted[1]))


@claim(
    "JK-12-balance",
    kind="certificate",
    source=f"{SOURCE}, proof of Theorem 5",
    statement="T = |C| n epsilon lambda / (L R sqrt(log(1/delta))) makes both terms of the error "
    "equal, and the sum the printed rate",
    formula="L sqrt(T) L R^2 sqrt(log(1/delta)) / (n epsilon lambda) = L |C| R / sqrt(T)",
)
def the_terms_balance(effort: Effort) -> Evidence:
    """Computer algebra, the logarithms of 1/beta aside: each term is (L R)^(3/2) sqrt(|C|)
    log(1/delta)^(1/4) / sqrt(n epsilon lambda).
    """
    norm, n, epsilon, lam, lipschitz, radius, log = sympy.symbols(
        "C n epsilon lambda L R log", positive=True
    )
    rounds = norm * n * epsilon * lam / (lipschitz * radius * sympy.sqrt(log))
    noise = (
        lipschitz
        * sympy.sqrt(rounds)
        * lipschitz
        * radius**2
        * sympy.sqrt(log)
        / (n * epsilon * lam)
    )
    few = lipschitz * norm * radius / sympy.sqrt(rounds)
    rate = (
        (lipschitz * radius) ** sympy.Rational(3, 2)
        * sympy.sqrt(norm * sympy.sqrt(log))
        / sympy.sqrt(n * epsilon * lam)
    )
    return identities(noise - rate, few - rate, text="both terms equal the printed rate at this T")


@certificate(
    "JK-13",
    source=f"{SOURCE}, Corollary 6",
    statement="With n large enough the expected loss is at most epsilon_g",
    formula="E l(<what, phi(z)>; y) <= epsilon_g for n = Omega(1 / epsilon_g^2)",
    domain=Box(prediction=(-10.0, 10.0), accuracy=(0.01, 0.99)),
    reach=1000.0,
)
def the_loss_itself_is_small(prediction: Ball, accuracy: Ball) -> Enclosure:
    """Labels that are fair coins: the absolute loss of any prediction u is (|u - 1| + |u + 1|)/2 >=
    1 > epsilon_g, whatever n is.
    """
    return enclose(
        twice(
            lambda prediction, accuracy: excess(abs(prediction).max(arb(1)), accuracy),
            lambda prediction, accuracy: excess(
                (abs(prediction - 1) + abs(prediction + 1)) / 2, accuracy
            ),
            prediction,
            accuracy,
        )
    )


@claim(
    "JK-13-repair",
    kind="certificate",
    source=f"{SOURCE}, Corollary 6 for the excess over w*",
    statement="The excess of Theorem 5 is epsilon_g at n = 2 (L R)^4 log(T/beta)^2 "
    "sqrt(log(1/delta)) / (lambda^2 epsilon_g^2 epsilon)",
    formula="L^4 R^4 / lambda^2 in the place of L^4 R^3",
    repairs="JK-13",
    depends=("JK-12-balance",),
)
def the_excess_is_small(effort: Effort) -> Evidence:
    """|C| = 2 L R / lambda in Theorem 5's rate (constant 1), solved for n by computer algebra; T =
    2 n epsilon / sqrt(log(1/delta)).
    """
    n, epsilon, lam, lipschitz, radius, log, accuracy, spread = sympy.symbols(
        "n epsilon lambda L R log g spread", positive=True
    )
    norm = 2 * lipschitz * radius / lam
    rate = (
        (lipschitz * radius) ** sympy.Rational(3, 2)
        * sympy.sqrt(norm * sympy.sqrt(log))
        * spread
        / sympy.sqrt(n * epsilon * lam)
    )
    enough = (
        2
        * (lipschitz * radius) ** 4
        * spread**2
        * sympy.sqrt(log)
        / (lam**2 * accuracy**2 * epsilon)
    )
    rounds = norm * n * epsilon * lam / (lipschitz * radius * sympy.sqrt(log))
    return identities(
        rate.subs(n, enough) - accuracy,
        rounds - 2 * n * epsilon / sympy.sqrt(log),
        text="the rate is epsilon_g at that n",
    )


@certificate(
    "JK-17",
    source=f"{SOURCE}, Theorem 11 (quoted from Dwork et al. 2010)",
    statement="k adaptive epsilon-DP mechanisms are (epsilon', delta')-DP",
    formula="epsilon' = sqrt(2 k log(1/delta')) epsilon + k epsilon (exp(epsilon) - 1)",
    domain=Box(loss=(1e-3, 10.0)),
    reach=0.49975979,
)
def composition_is_private(loss: Ball) -> Enclosure:
    """The k losses lie in [-epsilon, epsilon]. If each has conditional mean at most mu, Azuma's
    inequality bounds the probability that their sum exceeds k mu + epsilon sqrt(2 k log(1/delta'))
    by delta', for every k and delta'. So the theorem holds if mu <= epsilon (exp(epsilon) - 1).

    Every epsilon-DP pair is a function of randomised response (Kairouz, Oh and Viswanath 2015),
    whose mean loss epsilon (exp(epsilon) - 1) / (exp(epsilon) + 1) is therefore the largest: excess
    1 / (exp(epsilon) + 1) - 1.
    """

    def plain(loss: Ball) -> Ball:
        p = 1 / (1 + (-loss).exp())
        return excess(p * loss - (1 - p) * loss, loss * loss.expm1())

    return enclose(twice(lambda loss: 1 / (loss.exp() + 1) - 1, plain, loss))


def responses(loss: float) -> Laws:
    """Return the privacy loss law of randomized response with log-odds `loss`."""
    p = 1 / (1 + math.exp(-loss))
    law = LossLaw(np.array([-loss, loss]), np.array([1 - p, p]), np.array([p, 1 - p]))
    return Laws(law, law, "enumeration of 2 outputs", "exact")


@claim(
    "JK-17-sharp",
    kind="certificate",
    source=f"{SOURCE}, Theorem 11 with the mean loss of randomised response",
    statement="The mean loss of an epsilon-DP mechanism is at most epsilon tanh(epsilon/2)",
    formula="epsilon' = sqrt(2 k log(1/delta')) epsilon + k epsilon tanh(epsilon/2)",
    depends=("JK-17",),
)
def the_mean_loss_is_that_of_randomised_response(effort: Effort) -> Evidence:
    """Computer algebra: (p - (1 - p)) epsilon with p = 1 / (1 + exp(-epsilon)) is epsilon
    tanh(epsilon/2), which it reaches.
    """
    epsilon = sympy.Symbol("epsilon", positive=True)
    return attained(
        identities(
            (2 / (1 + sympy.exp(-epsilon)) - 1) * epsilon
            - epsilon * sympy.tanh(epsilon / 2).rewrite(sympy.exp),
            text="the largest mean loss is epsilon tanh(epsilon/2)",
        ),
        float(responses(1.0).lower.mean()) / math.tanh(0.5),
        "by randomised response at epsilon = 1",
    )


@claim(
    "JK-17-slack",
    kind="experiment",
    source=f"{SOURCE}, Theorem 11 against exact composition",
    statement="k-fold randomised response keeps (epsilon', delta')",
    formula="delta(epsilon') <= delta'",
    domain=Box(rounds=(1.0, 1000.0), loss=(1e-3, 0.6), slack=(1e-9, 0.5)),
    depends=("JK-17",),
)
def composition_has_slack(
    effort: Effort, rounds: float = 100.0, loss: float = 0.1, slack: float = 1e-6
) -> Evidence:
    """Randomised response is the worst epsilon-DP mechanism, and its k-fold composition is enclosed
    by privacy-loss distributions: at this point the theorem's delta' is larger than needed by the
    factor given, and so is its epsilon'.
    """
    count = math.floor(rounds)
    printed = math.sqrt(2 * count * math.log(1 / slack)) * loss + count * loss * math.expm1(loss)
    law = compose([(responses(loss), count)])
    lower, upper = (float(side.hockey_stick(printed)) for side in (law.lower, law.upper))
    needed = law.upper.epsilon(slack)
    return Evidence(
        ClaimVerdict.FAILS
        if lower > slack
        else ClaimVerdict.NOT_REFUTED
        if upper <= slack
        else ClaimVerdict.INCONCLUSIVE,
        text=(
            f"delta(epsilon') is {upper / slack:.3g} of delta'; epsilon {needed:.4g} would do for "
            f"the printed {printed:.4g}"
        ),
        method="exact composition",
        enclosure=excess_of(lower, upper, slack),
        numbers={"printed": printed, "needed": needed},
        at={"rounds": rounds, "loss": loss, "slack": slack},
    )


@certificate(
    "JK-17-approximate",
    source=f"{SOURCE}, Theorem 11 applied to (epsilon, delta)-DP components",
    statement="k (epsilon, delta)-DP mechanisms are (epsilon', delta')-DP with the same epsilon' "
    "and delta'",
    formula="1 - (1 - delta)^k <= delta'",
    domain=Box(rounds=(2.0, 1e4), leak=(1e-6, 1e-3), slack=(1e-12, 1e-6)),
    reach=999954830000.0,
)
def composition_forgets_the_deltas(rounds: Ball, leak: Ball, slack: Ball) -> Enclosure:
    """A mechanism that gives its input away with probability delta does so once in k runs with
    probability 1 - (1 - delta)^k.

    No epsilon' covers that event: the k delta term of the theorem for approximate components cannot
    be left out.
    """
    return enclose(excess(-(rounds * (-leak).log1p()).expm1(), slack))


@certificate(
    "JK-18-theorem-12",
    source=f"{SOURCE}, Theorem 12 (quoted from Shalev-Shwartz et al. 2009)",
    statement="Means of f(<w, phi(z)>; z) over T points lie within K sqrt(B^2 R^2 L^2 log(1/beta) "
    "/ T) of the expectation for |w| <= B",
    formula="the deviation is bounded by the Lipschitz constant of f in its first argument alone",
    domain=Box(constant=(1.0, 100.0), offset=(1e4, 1e6), beta=(0.01, 0.5)),
    reach=1201122.4,
)
def deviations_depend_on_slopes_only(constant: Ball, offset: Ball, beta: Ball) -> Enclosure:
    """f(u; z) = u + offset z with z a fair coin of +-1 is 1-Lipschitz in u. With phi = 0, B = R = 1
    and T = 1 the deviation is `offset`, for certain: K sqrt(log(1/beta)) does not bound it, for any
    K. (Where the paper uses it, f(0; z) is bounded by B R L.)
    """
    return enclose(excess(offset, constant * (-beta.log()).sqrt()))
