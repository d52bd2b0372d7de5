"""Claims on the sensitivity of the regularized learner whose predictions are released.

Jain and Thakurta (2013), equations (1) to (3) and appendix A.1. w minimizes (1/n) sum l(<w,
phi(x_i)>; y_i) + (lambda/2) |w|^2 with l convex and L-Lipschitz in the prediction and |phi| <= R;
w' minimizes the same objective with one record replaced.

The proofs are obligations over the reals. The objectives' values at w and w', and the distance d =
|w - w'|, are unknowns with only the assumptions of the text. The proofs need only the span of a few
vectors in feature space, and the coordinates of these vectors are unknowns too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpwitness.auditors import SensitivityResult, audit_sensitivity
from dpwitness.core.numerics.solvers import Problem, minimise
from dpwitness.mechanisms import LabelledBall, LabelledVectors, Loss
from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    Effort,
    Enclosure,
    Evidence,
    attained,
    audited,
    certificate,
    claim,
    enclose,
    identities,
    sympy,
    unsatisfiable,
    z3,
)

SOURCE = "Jain and Thakurta 2013"
POSITIVE = "lambda n L R"


def distance_obligation(convexity: float, bound: float) -> list[Any]:
    """Return z3 constraints for a distance d > `bound` L R / (lambda n), for objectives that are
    convexity * lambda strongly convex.

    The value of each objective at its minimizer is below its value at the other minimizer by at
    least half the strong convexity times d^2. The objectives share all records but one (the shared
    part is `c` at w and `c1` at w'). Each loss of the replaced record changes by at most L R d.
    """
    lam, n, lipschitz, radius = z3.Reals(POSITIVE)
    d, c, c1, old, old1, new, new1 = z3.Reals("d c c1 old old1 new new1")
    gain = n * lam * z3.RealVal(str(convexity)) / 2 * d * d  # objectives are multiplied by n
    return [
        lam > 0,
        n > 0,
        lipschitz > 0,
        radius > 0,
        (c1 + old1) - (c + old) >= gain,
        (c + new) - (c1 + new1) >= gain,
        *(
            z3.And(x - y <= lipschitz * radius * d, y - x <= lipschitz * radius * d)
            for x, y in ((old, old1), (new, new1))
        ),
        lam * n * d > z3.RealVal(str(bound)) * lipschitz * radius,
    ]


def moved(
    loss: Loss,
    regularization: float,
    ridge: float,
    bound: float,
    effort: Effort,
    n: int = 1,
    dimension: int = 2,
    runs: tuple[int, int] = (300, 60),
) -> SensitivityResult:
    """Search for the largest |w - w'| / `bound` over neighboring datasets of `n` records; `runs`
    are the evaluations, and those of a quick check.
    """
    labels = (-1.0, 1.0) if loss.binary else (-10.0, 10.0)

    return audit_sensitivity(
        lambda dataset: minimise(Problem.of(dataset, loss, ridge * regularization * n)),
        bound,
        LabelledBall(dimension, n, labels),
        seed=effort.seed,
        seconds=max(0.1, effort.seconds_left()),
        evaluations=effort.of(*runs),
        name=f"minimiser, {loss.name} loss",
    )


@claim(
    "JK-01",
    kind="certificate",
    source=f"{SOURCE}, equation (3)",
    statement="Replacing one record moves the minimiser of (2) by at most 2 L R / (lambda n)",
    formula="|w - w'| <= 2 L R / (lambda n)",
    depends=("JK-05",),
)
def the_minimiser_moves_little(effort: Effort) -> Evidence:
    """z3 finds no reals with both optimality inequalities (JK-05), Lipschitz losses and a larger
    distance: for every lambda, n, L, R.

    A search over neighbouring datasets, whose minimisers come with certified error radii, then says
    how much of the bound is reached: all of it by the hinge loss with one record u turned into -u,
    the absolute and the Huber loss with one label turned. The logistic loss reaches .5258 of it in
    one dimension and all but a vanishing share in two.
    """
    proof = unsatisfiable(
        effort,
        distance_obligation(1, 2),
        text="both optimality inequalities exclude a larger distance",
    )
    kinked = {
        name: moved(Loss(name), 1.0, 1.0, 2.0, effort) for name in ("hinge", "absolute", "huber")
    }
    # n is so large that many records can keep w at a point where its slopes are nearly 1 in both
    # directions.
    smooth = {
        d: moved(Loss("logistic"), 1e-8, 1.0, 2e-4, effort, 10**12, d, (2000, 600)) for d in (1, 2)
    }
    ratios = {name: found.ratio_lower for name, found in kinked.items()} | {
        f"logistic, d = {d}": f.ratio_lower for d, f in smooth.items()
    }
    best = max(kinked.values(), key=lambda found: found.ratio_lower)
    return attained(proof, best.ratio_lower, f"by the {best.name}", result=best, ratios=ratios)


@claim(
    "JK-02",
    kind="counterexample",
    source=f"{SOURCE}, equation (1) with r(w) = |w|^2 / 2, as printed",
    statement="Replacing one record moves the minimiser of (1) by at most 2 L R / (lambda n)",
    formula="|w - w'| <= 2 L R / (lambda n)",
    domain=Box(regularization=(1.0, 100.0)),
)
def the_minimiser_of_equation_one_moves_little(
    effort: Effort, regularization: float = 1.0
) -> Evidence:
    """(1) prints (lambda/2) r(w), and r(w) = |w|^2 / 2 makes that (lambda/4) |w|^2: half the strong
    convexity that (3) is derived from.

    The search finds one record under the absolute loss whose label is turned over: its minimiser
    moves by 4 L R / (lambda n).
    """
    found = moved(Loss("absolute"), regularization, 0.5, 2 / regularization, effort)
    return audited(
        found, at={"regularization": regularization}, numbers={"ratio": found.ratio_lower}
    )


@claim(
    "JK-02-repair",
    kind="certificate",
    source=f"{SOURCE}, equation (1) as printed, with the constant that belongs to it",
    statement="Replacing one record moves the minimiser of (1) by at most 4 L R / (lambda n)",
    formula="|w - w'| <= 4 L R / (lambda n)",
    repairs="JK-02",
)
def the_minimiser_of_equation_one_moves_twice_as_far(effort: Effort) -> Evidence:
    """The obligation of JK-01 with lambda/2 for the strong convexity; the pair of JK-02 reaches the
    bound.
    """
    proof = unsatisfiable(
        effort,
        distance_obligation(0.5, 4),
        text="both optimality inequalities exclude a larger distance",
    )
    best = moved(Loss("absolute"), 1.0, 0.5, 4.0, effort)
    return attained(proof, best.ratio_lower, f"by the {best.name}", result=best)


@claim(
    "JK-03",
    kind="certificate",
    source=f"{SOURCE}, proofs of Theorems 2 and 4",
    statement="One record moves a prediction by at most 2 L R^2 / (lambda n)",
    formula="|<w, phi(z)> - <w', phi(z)>| <= 2 L R^2 / (lambda n)",
    depends=("JK-01",),
)
def predictions_move_little(effort: Effort) -> Evidence:
    """In the plane that they span put w - w' = (d, 0) and phi(z) = (a, b): a^2 + b^2 <= R^2, d <= 2
    L R / (lambda n); the change is d a.

    The search reaches the bound at the test point that points along w - w'.
    """
    lam, n, lipschitz, radius = z3.Reals(POSITIVE)
    d, a, b = z3.Reals("d a b")
    assumed = [
        lam > 0,
        n > 0,
        lipschitz > 0,
        radius > 0,
        d >= 0,
        lam * n * d <= 2 * lipschitz * radius,
        a * a + b * b <= radius * radius,
    ]
    sides = [[*assumed, lam * n * d * side > 2 * lipschitz * radius * radius] for side in (a, -a)]
    proof = unsatisfiable(effort, *sides, text="no change of a prediction is larger")

    def prediction(dataset: LabelledVectors) -> tuple[float, float]:
        found = minimise(Problem.of(dataset, Loss("hinge"), 1.0))
        return float(found.w[0]), found.radius

    best = audit_sensitivity(
        prediction, 2.0, LabelledBall(2, 1), seed=effort.seed, evaluations=effort.of(300, 60)
    )
    return attained(proof, best.ratio_lower, "by the hinge loss at z along w - w'", result=best)


def norm_obligation(bound: float, strong: bool) -> list[Any]:
    """Return z3 constraints for |w| > `bound` L R / lambda.

    The objective at w is at most its value at zero; with `strong`, it is smaller by the strong
    convexity. Losses change by at most L R |w|.
    """
    lam, lipschitz, radius = z3.Reals("lambda L R")
    norm, gained = z3.Reals("norm gained")  # gained: mean loss at zero less that at w
    return [
        lam > 0,
        lipschitz > 0,
        radius > 0,
        gained >= lam * norm * norm / (1 if strong else 2),
        gained <= lipschitz * radius * norm,
        lam * norm > z3.RealVal(str(bound)) * lipschitz * radius,
    ]


def longest() -> float:
    """Return lambda |w| / (L R) of the hinge loss with one record, minus the solver's
    error radius.
    """
    found = minimise(Problem.of(LabelledVectors([[1.0, 0.0]], [1.0]), Loss("hinge"), 1.0))
    return float(np.linalg.norm(found.w)) - found.radius


@claim(
    "JK-04",
    kind="certificate",
    source=f"{SOURCE}, section 5, after Theorem 3",
    statement="Optimality bounds the minimiser by C = 2 L R / lambda",
    formula="|w| <= 2 L R / lambda",
)
def the_minimiser_is_short(effort: Effort) -> Evidence:
    """F(w) <= F(0) and Lipschitz losses give (lambda/2) |w|^2 <= L R |w|; z3 finds no longer w. One
    hinge record reaches half of it.
    """
    return attained(
        unsatisfiable(
            effort, norm_obligation(2, strong=False), text="w beats zero only if it is no longer"
        ),
        longest() / 2,
        "by one record under the hinge loss",
    )


@claim(
    "JK-04-sharp",
    kind="certificate",
    source=f"{SOURCE}, section 5, the constant that strong convexity gives",
    statement="The minimiser is bounded by L R / lambda",
    formula="|w| <= L R / lambda",
)
def the_minimiser_is_half_as_long(effort: Effort) -> Evidence:
    """F(0) - F(w) >= (lambda/2) |w|^2 by strong convexity: that halves JK-04's bound. One hinge
    record reaches it.
    """
    return attained(
        unsatisfiable(
            effort,
            norm_obligation(1, strong=True),
            text="w beats zero by its strong convexity only if it is no longer",
        ),
        longest(),
        "by one record under the hinge loss",
    )


@claim(
    "JK-05",
    kind="certificate",
    source=f"{SOURCE}, appendix A.1, the two displays of the proof of Theorem 2",
    statement="A minimiser of (2) beats any other w by (lambda/2) times their squared distance, "
    "and the two displays add up to (3)",
    formula="F(w') - F(w) >= (lambda/2) |w - w'|^2",
)
def the_displays_add_up(effort: Effort) -> Evidence:
    """With f the mean loss and the stationarity g + lambda w = 0 of a subgradient g of f at w,
    F(w') - F(w) - (lambda/2) |w' - w|^2 equals f(w') - f(w) - <g, w' - w>, which convexity makes
    non-negative: an identity in the plane spanned by w and w'.

    Adding the displays cancels the n - 1 common losses and both |w|^2: n lambda d^2 <= the changes
    of the two losses of the changed record.
    """
    lam, n, f, f1, common, common1, old, old1, new, new1, *coordinates = sympy.symbols(
        "lambda n f f1 c c1 o o1 v v1 a b a1 b1"
    )
    w, w1 = sympy.Matrix(coordinates[:2]), sympy.Matrix(coordinates[2:])
    step = w1 - w
    squares = [lam / 2 * v.dot(v) for v in (w, w1, step)]
    optimal = (f1 + squares[1]) - (f + squares[0]) - squares[2]
    convex = f1 - f - (-lam * w).dot(step)
    first = (common1 + old1) / n + squares[1] - ((common + old) / n + squares[0] + squares[2])
    second = (common + new) / n + squares[0] - ((common1 + new1) / n + squares[1] + squares[2])
    return identities(
        optimal - convex,
        first + second - (((old1 - old) + (new - new1)) / n - 2 * squares[2]),
        text="both displays and their sum are identities",
    )


@certificate(
    "JK-06",
    source=f"{SOURCE}, Algorithm 1 line 2 against Theorem 9 (sqrt(B) S read for its sqrt(BS))",
    statement="The algorithm's epsilon_0 is no larger than the one for which its privacy theorem "
    "is quoted",
    formula="n lambda epsilon / (200 L R^2 sqrt(B) log(4/delta)) <= epsilon / (200 sqrt(B) S "
    "log(4/delta)), S = 2 L R^2 / (lambda n)",
    domain=Box(n_lambda=(1.0, 1e6)),
    depends=("JK-03",),
    reach=2.0,
)
def the_box_is_that_of_its_theorem(n_lambda: Ball) -> Enclosure:
    """All but S / (L R^2) cancels: the ratio is n lambda S / (L R^2). The ratio is 2: the box adds
    half the noise that the theorem asks for.

    (Theorem 9 prints sqrt(BS), which has the units of no privacy parameter. With slack of JK-07's
    size neither is a leak.)
    """
    return enclose(n_lambda * (2 / n_lambda) - 1)


def box_and_theorem(factor: int) -> tuple[Any, Any]:
    """Return epsilon_0 of Algorithm 1 with `factor` in place of 200, and epsilon_0 of Theorem 9 at
    the sensitivity of JK-03.
    """
    n, lam, epsilon, delta, lipschitz, radius, updates = sympy.symbols(
        "n lambda epsilon delta L R B", positive=True
    )
    sensitivity = 2 * lipschitz * radius**2 / (lam * n)
    box = (
        n
        * lam
        * epsilon
        / (factor * lipschitz * radius**2 * sympy.sqrt(updates) * sympy.log(4 / delta))
    )
    return box, epsilon / (200 * sympy.sqrt(updates) * sensitivity * sympy.log(4 / delta))


@claim(
    "JK-06-repair",
    kind="certificate",
    source=f"{SOURCE}, Algorithm 1 line 2 with 400 for 200",
    statement="epsilon_0 = n lambda epsilon / (400 L R^2 sqrt(B) log(4/delta)) is the one of "
    "Theorem 9",
    formula="the two are equal for all n, lambda, epsilon, delta, L, R, B",
    repairs="JK-06",
)
def four_hundred_is_that_of_the_theorem(effort: Effort) -> Evidence:
    """Computer algebra reduces the difference to zero."""
    box, theorem = box_and_theorem(400)
    return identities(box - theorem, text="the box and Theorem 9 agree with 400 for 200")
