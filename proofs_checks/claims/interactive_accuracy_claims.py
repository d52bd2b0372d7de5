"""Claims on the accuracy of private interactive prediction (PINP): the number of updates, and the
size of the errors.

Jain and Thakurta (2013), Algorithm 1, Theorems 3 and 10. Notation: m = log(4/delta), k =
log(2T/beta). An answer is a *top* if it is noisy and an update follows, and a *bottom* if it is the
public prediction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb

from dpwitness.auditors import FailureBound, Scaling, audit_utility
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.proofs_checks.claims.interactive_claims import BETA, MANY, SOURCE, interactive
from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    ClaimVerdict,
    Effort,
    Enclosure,
    Evidence,
    audited,
    certificate,
    claim,
    enclose,
    excess,
    free,
    identities,
    measured,
    sympy,
    twice,
    unsatisfiable,
    z3,
)


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

    def unanswered(size: int, rng: np.random.Generator) -> FloatArray:
        return np.asarray(np.isnan(mechanism.sample(dataset, size, rng)).sum(axis=1, dtype=float))

    first = (
        -math.expm1(-(norm_bound - mechanism.threshold) * mechanism.answer_epsilon - math.log(2))
        if mechanism.updates <= 1
        else 0.0
    )
    numbers = {"B": mechanism.updates, "probability of a halt after one answer": max(first, 0.0)}
    return audited(
        audit_utility(
            unanswered,
            FailureBound(0.0, BETA),
            runs=effort.of(400, 200),
            confidence=1 - 1e-07,
            seed=effort.seed,
            name="points unanswered",
        ),
        numbers=numbers,
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
        answer = unit / (200 * printed.sqrt())
        sigma = 4 / answer * spread
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
    cases = []
    for sign in (+1, -1):
        fall = 2 * step * gap * sign - step * step * square
        cases.append(
            [
                *given,
                sign * (gap + noise) >= sigma,
                fall < z3.Q(5, 16) * sigma * sigma / (radius * radius),
            ]
        )
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
    at = {
        name: sympy.Symbol(name, positive=True)
        for name in ("n", "lam", "epsilon", "C", "L", "R", "k", "m", "B")
    }
    n, lam, epsilon, norm, lipschitz, radius, k, m, _ = at.values()
    unit = n * lam * epsilon
    allowed = None if updates is None else updates(at)
    if allowed is None:
        allowed = unit * norm**2 / (200 * lipschitz * radius * sympy.sqrt(2 * k) * m)
    answer = unit / (200 * lipschitz * radius**2 * sympy.sqrt(allowed) * m)
    return allowed, answer, 4 / answer * k, at


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

    def smallest(at: dict[str, Any]) -> Any:
        return (
            sympy.sqrt(sympy.Rational(16, 5))
            * at["C"]
            * at["n"]
            * at["epsilon"]
            * at["lam"]
            / (800 * at["L"] * at["R"] * at["k"] * at["m"])
        )

    allowed, _, sigma, at = constants(smallest)
    _, _, any_sigma, _ = constants(lambda at: at["B"])
    needed = sympy.Rational(16, 5) * at["R"] ** 2 * at["C"] ** 2
    grows = any_sigma**2 / at["B"] - (any_sigma**2).diff(at["B"])
    return identities(
        needed / sigma**2 - allowed,
        grows,
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
    claimed = Scaling(0.5, (*(2.0**k for k in points), 512.0), "T", transform=spread)
    at = {"epsilon": 1.0, "delta": 1e-6, "lambda": 1.0, "C": 1.0, "records": MANY, "T": "8 to 1024"}
    return measured(
        effort,
        lambda value, size, rng: largest_error(MANY, int(value))(size, rng),
        claimed,
        name="largest error",
        reported="slope",
        at=at,
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
    claimed = Scaling(-0.5, tuple(MANY * 4.0**k for k in range(4)), "n")
    at = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "lambda": 1.0,
        "C": 1.0,
        "T": 100,
        "records": "1e8 to 6.4e9",
    }
    return measured(
        effort,
        lambda value, size, rng: largest_error(int(value), 100)(size, rng),
        claimed,
        name="largest error",
        reported="slope",
        at=at,
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
    root, quarter = sympy.Rational(1, 2), sympy.Rational(3, 4)
    form = (
        at["C"]
        * at["R"] ** (3 * root)
        * at["L"] ** root
        * at["k"] ** quarter
        * at["m"] ** root
        / (at["n"] * at["epsilon"] * at["lam"]) ** root
    )
    return identities(
        sympy.Rational(5, 4) * sigma - 50 * 2 ** (root / 2) * form,
        text="1.25 sigma has exactly these exponents",
    )
