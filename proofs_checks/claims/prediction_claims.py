"""Claims on the sensitivity of the regularized learner whose predictions are released.

Jain and Thakurta (2013), equations (1) to (3) and appendix A.1. w minimizes (1/n) sum l(<w,
phi(x_i)>; y_i) + (lambda/2) |w|^2 with l convex and L-Lipschitz in the prediction and |phi| <= R;
w' minimizes the same objective with one record replaced.

The proofs are obligations over the reals. The objectives' values at w and w', and the distance d =
|w - w'|, are unknowns with only the assumptions of the text. The proofs need only the span of a few
vectors in feature space, and the coordinates of these vectors are unknowns too.

Claims on learning without test points (TDIL): the draws of the exponential mechanism, their
units, and the rate of the error.

Jain and Thakurta (2013), Algorithm 3, Theorems 7 and 8. Notation: m = log(4/delta), S = 2 L R^2 /
(lambda n), and u = epsilon / (10 sqrt(B) m), a number without units. The box prints epsilon_0 = n
epsilon lambda / (10 L R^2 sqrt(B) m) = 2 u / S, whose unit is one over that of a prediction. A
round draws a point with density proportional to exp(kappa |<phi(z), w_t - w*>|), kappa = epsilon_0
/ (4 S), tests the gap at this point and gives an answer, each with Laplace noise of scale 1 / (2
epsilon_0).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb

from dpwitness.auditors import Scaling, SensitivityResult, audit_sensitivity
from dpwitness.auditors.audit.audit import audit
from dpwitness.core.numerics.solvers import Problem, minimise
from dpwitness.core.protocols import FloatArray
from dpwitness.mechanisms import (
    KernelLearner,
    LabelledBall,
    LabelledVectors,
    Loss,
    TestDataIndependentLearner,
)
from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    Effort,
    Enclosure,
    Evidence,
    at_most,
    attained,
    audited,
    case,
    certificate,
    certified,
    claim,
    enclose,
    excess,
    identities,
    measured,
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


ONE_ROUND = 2000  # number of records at which B = 1.3, for epsilon = 1 and delta = 1e-6


def draw_obligations(bound: Any, spread: bool) -> list[list[Any]]:
    """Return z3 constraints for a draw whose privacy loss (with `spread`: a difference of two
    losses) is above `bound` epsilon_0.

    x and y are gaps at two points, divided by S; x1 and y1 are the gaps after a record is replaced,
    so |x - x1| <= 1. The exponents are epsilon_0 |x| / 4. The logarithm of the normalizer changes
    by at most the change of the exponent at some point, here y.
    """
    unit, x, x1, y, y1, normaliser = z3.Reals("epsilon_0 x x1 y y1 normaliser")

    def change(old: Any, new: Any) -> Any:
        size = [z3.If(value >= 0, value, -value) for value in (old, new)]
        return unit * (size[0] - size[1]) / 4

    near = [unit > 0, x - x1 <= 1, x1 - x <= 1, y - y1 <= 1, y1 - y <= 1]
    if spread:
        return [[*near, change(x, x1) - change(y, y1) > bound * unit]]
    loss = change(x, x1) + normaliser
    cases = (
        [normaliser <= -change(y, y1), loss > bound * unit],
        [normaliser >= -change(y, y1), loss < -bound * unit],
    )
    return [[*near, *case] for case in cases]


def both_ways() -> list[list[Any]]:
    """Return z3 constraints for four cases: one of the two gaps grows or shrinks by S."""
    x, x1, y, y1 = z3.Reals("x x1 y y1")
    return [[x - x1 == 1], [x1 - x == 1], [y - y1 == 1], [y1 - y == 1]]


@claim(
    "JK-14",
    kind="certificate",
    source=f"{SOURCE}, proof of Theorem 7",
    statement="The exponent changes by at most epsilon_0 / 4, so each draw is epsilon_0/2-DP",
    formula="|log p(z) - log p'(z)| <= epsilon_0 / 2",
    depends=("JK-03",),
)
def each_draw_is_private(effort: Effort) -> Evidence:
    """z3 over the gaps at the point drawn and at the point whose exponent changes most, which
    bounds the change of the normaliser.
    """
    return unsatisfiable(
        effort,
        *draw_obligations(z3.Q(1, 2), False),
        text="no gaps and no normaliser give a larger loss",
        where=both_ways(),
    )


@claim(
    "JK-14-range",
    kind="certificate",
    source=f"{SOURCE}, proof of Theorem 7",
    statement="The losses of one draw at any two points differ by at most epsilon_0 / 2",
    formula="sup loss - inf loss <= epsilon_0 / 2",
    depends=("JK-03",),
)
def each_draw_has_a_bounded_range(effort: Effort) -> Evidence:
    """z3 over the gaps at both points; the normaliser cancels. The bound is reached where w* is
    long and moves across itself by S, and the two points lie nearly along the move, on either side
    of w*: one gap grows by nearly S, the other shrinks by as much.
    """
    long = case(1e4)  # |w*| in units of S; up to n/2 is possible (JK-04-sharp)
    tilt = case(1.5) / long
    points = np.array([[tilt, math.sqrt(1 - tilt * tilt)], [-tilt, math.sqrt(1 - tilt * tilt)]])
    gaps = np.abs(points @ np.array([[long, long], [0.0, 1.0]]))
    change = (gaps[:, 1] - gaps[:, 0]) / 4
    return attained(
        unsatisfiable(
            effort,
            *draw_obligations(z3.Q(1, 2), True),
            text="no gaps give a larger difference",
            where=both_ways(),
        ),
        float(change[0] - change[1]) / 0.5,
        "by w* of length 1e4 S that moves across itself",
    )


def learner(records: int, regularization: float, dimension: int = 1) -> KernelLearner:
    """Return the kernel learner with absolute loss, L = R = 1."""
    return KernelLearner(Loss("absolute"), regularization, dimension, records, label_bound=10.0)


@claim(
    "JK-15",
    kind="counterexample",
    source=f"{SOURCE}, Theorem 7",
    statement="Algorithm 3 is (epsilon, delta)-DP (points, answers and corrections released)",
    formula="P(M(D) in S) <= exp(epsilon) P(M(D') in S) + delta, epsilon = 1, delta = 1e-6",
    domain=Box(regularization=(1e-3, 20.0)),
    depends=("JK-01",),
)
def the_draws_are_private(effort: Effort, regularization: float = 4.0) -> Evidence:
    """One round in one dimension, integrated exactly: balanced labels (w* = 0, z is uniform)
    against one label turned over (w* = S, z is drawn with weight exp(epsilon_0 |z| / 4)). epsilon_0
    grows like lambda sqrt(n) and has no bound (witness W10).
    """
    mechanism = TestDataIndependentLearner(learner(ONE_ROUND, regularization), 1.0, 1e-6, 0.1)
    large = TestDataIndependentLearner(learner(10**6, 0.1), 1.0, 1e-6, 0.1)
    return certified(
        effort,
        mechanism,
        numbers={
            "epsilon_0": mechanism.answer_epsilon,
            "one draw at n = 1e6, lambda = .1: delta(1)": one_draw(large.answer_epsilon / 4, 1.0),
            "rounds there": large.rounds,
        },
        at={"epsilon": 1.0, "delta": 1e-06, "records": ONE_ROUND, "regularization": regularization},
    )


def one_draw(k: float, epsilon: float) -> float:
    """Return delta(epsilon) of a density proportional to exp(k x) against the uniform density on
    [0, 1]; the best events are {x > t}.
    """
    t = (epsilon + math.log(math.expm1(k) / k)) / k
    return (
        0.0
        if t >= 1
        else (math.exp(k) - math.exp(k * t)) / math.expm1(k) - math.exp(epsilon) * (1 - t)
    )


@claim(
    "JK-15-weights",
    kind="counterexample",
    source=f"{SOURCE}, Theorem 7, with nothing but the weights released",
    statement="Algorithm 3 is (epsilon, delta)-DP",
    formula="P(what(D) in S) <= exp(epsilon) P(what(D') in S) + delta, n = 1e6, epsilon = 1, "
    "delta = 1e-6",
    domain=Box(regularization=(1.0, 1e4)),
    depends=("JK-01",),
)
def the_weights_are_private(effort: Effort, regularization: float = 1000.0) -> Evidence:
    """Runs in the plane: w* long along e1, one record at e2 turned over moves w* across itself,
    where the draws look for gaps (W11).

    A black-box audit certifies epsilon from the counts of an event chosen on other runs.
    """
    mechanism = TestDataIndependentLearner(
        learner(10**6, regularization, 2), 1.0, 1e-6, 0.05, release="weights"
    )
    found = audit(
        mechanism,
        pair=mechanism.worst_pair(),
        trials=effort.of(20_000, 4_000),
        confidence=0.999999,
        seed=effort.seed,
    )
    return audited(
        found,
        at={"epsilon": 1.0, "delta": 1e-6, "records": 10**6, "regularization": regularization},
    )


def zcdp_excess(rho: Ball, epsilon: Ball, delta: Ball) -> Enclosure:
    """Return the zCDP upper bound of the relative excess, (rho + 2 sqrt(rho log(1/delta))) /
    epsilon - 1.
    """
    return at_most(excess(rho + 2 * (rho * -delta.log()).sqrt(), epsilon))


@certificate(
    "JK-15-argument",
    source=f"{SOURCE}, proof of Theorem 7, with its own bound on a draw (JK-14)",
    statement="B draws of range epsilon_0 / 2 add up to (epsilon, delta)-DP",
    formula="rho + 2 sqrt(rho log(1/delta)) <= epsilon, rho = B (epsilon_0/2)^2 / 8 = (n lambda "
    "epsilon / m)^2 / 3200, L = R = 1",
    domain=Box(epsilon=(0.1, 10.0), delta=(1e-12, 1e-3), n_lambda=(1.0, 1e6)),
    depends=("JK-14-range",),
    reach=45438486.0,
)
def the_argument_closes(epsilon: Ball, delta: Ball, n_lambda: Ball) -> Enclosure:
    """A loss of range r is r^2/8-zCDP (Cesar and Rogers 2021), and zCDP adds up. The excess is that
    of this bound, not of the algorithm: where it is positive nothing is proved. epsilon_0^2 B = (n
    lambda epsilon)^2 / (10 m)^2: only a small n lambda passes.
    """
    root = n_lambda / (4 / delta).log() / arb(3200).sqrt()  # sqrt(rho) / epsilon
    return enclose(excess(root * root * epsilon + 2 * root * (-delta.log()).sqrt(), arb(1)))


@certificate(
    "JK-15-answers",
    source=f"{SOURCE}, Theorem 7, the noisy answers alone",
    statement="The tests and answers of all rounds are (epsilon, delta)-DP, whatever the points",
    formula="rho + 2 sqrt(rho log(1/delta)) <= epsilon, rho = 16 B u^2",
    domain=Box(epsilon=(0.01, 10.0), delta=(1e-12, 1e-2)),
    depends=("JK-03",),
    reach=0.543103,
)
def the_answers_are_private(epsilon: Ball, delta: Ball) -> Enclosure:
    """Two Laplace draws a round of scale 1/(2 epsilon_0) = S / (4 u), each 4u-DP and so 8u^2-zCDP.
    B u^2 = epsilon^2 / (100 m^2).
    """
    root = epsilon / (10 * (4 / delta).log())
    return zcdp_excess(16 * root * root, epsilon, delta)


@certificate(
    "JK-15-repair",
    source=f"{SOURCE}, Algorithm 3 with units: exponent u |.| / (4 S), noise of scale S / (2 u)",
    statement="Algorithm 3 is (epsilon, delta)-DP with everything released",
    formula="rho + 2 sqrt(rho log(1/delta)) <= epsilon, rho = B (u^2/32 + 2 (2u)^2/2)",
    domain=Box(epsilon=(0.01, 10.0), delta=(1e-12, 1e-2)),
    repairs="JK-15",
    depends=("JK-03", "JK-14-range"),
    reach=0.25545137,
)
def the_repaired_units_are_private(epsilon: Ball, delta: Ball) -> Enclosure:
    """A draw has range u/2, hence is u^2/32-zCDP; test and answer are 2u-DP each, hence 2u^2-zCDP.
    zCDP adds up over adaptive rounds, of which there are at most B, and B u^2 = epsilon^2 / (100
    m^2).
    """
    root = epsilon / (10 * (4 / delta).log())
    return zcdp_excess((4 + arb(1) / 32) * root * root, epsilon, delta)


@claim(
    "JK-16",
    kind="experiment",
    source=f"{SOURCE}, Theorem 8",
    statement="The error falls like n^(-2/3)",
    formula="error = O(1 / (lambda^2 n)^(2/3))",
)
def the_error_falls_fast(effort: Effort) -> Evidence:
    """Runs in the plane, lambda = 1, w* = .9 e1, n = 1e5 to 6.4e6: |what - w*|, which is the
    largest error of a prediction. A correction needs a gap of sigma - noise, so the error stays
    near sigma, which falls like log(2B/beta) / sqrt(n).
    """
    return measured(
        effort,
        weight_error,
        Scaling(-2 / 3, records(), "n"),
        name="|what - w*|",
        reported="slope",
        at=PLANE,
    )


# Parameters at which JK-16 is measured.
PLANE = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "beta": 0.05,
    "lambda": 1.0,
    "d": 2,
    "records": "1e5 to 6.4e6",
}


def records() -> tuple[float, ...]:
    """Return the values of n at which the error is measured."""
    return tuple(1e5 * 4.0**k for k in range(4))


def plane(n: float) -> TestDataIndependentLearner:
    """Return the printed algorithm TDIL in two dimensions, for n records."""
    return TestDataIndependentLearner(learner(int(n), 1.0, 2), 1.0, 1e-6, 0.05, release="weights")


def weight_error(n: float, size: int, rng: np.random.Generator) -> FloatArray:
    """Return |w_hat - w*| of `size` runs at n records."""
    mechanism = plane(n)
    dataset = mechanism.worst_pair().d0
    truth = mechanism.learner.fit(dataset).centers[0]
    return np.asarray(np.linalg.norm(mechanism.sample(dataset, size, rng) - truth, axis=1))


def resolution(n: float) -> float:
    """Return n / log(2B/beta)^2."""
    return n / math.log(2 * plane(n).updates / 0.05) ** 2


@claim(
    "JK-16-repair",
    kind="experiment",
    source=f"{SOURCE}, Theorem 8, with the rate of sigma",
    statement="The error falls like log(2B/beta) / sqrt(n)",
    formula="error = O(sigma)",
    repairs="JK-16",
)
def the_error_falls_like_the_threshold(effort: Effort) -> Evidence:
    """The runs of JK-16 against n / log(2B/beta)^2."""
    return measured(
        effort,
        weight_error,
        Scaling(-0.5, records(), "n", transform=resolution),
        name="|what - w*|",
        reported="slope",
        at=PLANE,
    )


@claim(
    "JK-16-substitution",
    kind="certificate",
    source=f"{SOURCE}, last step of the proof of Theorem 8",
    statement="|w*| <= 2 L R / lambda turns the proof's bound into the theorem's",
    formula="L |w*| R^2 d^(1/3) L^(2/3) / (lambda n)^(2/3) ~ R d^(1/3) L^(8/3) / (lambda^2 "
    "n)^(2/3)",
    depends=("JK-04",),
)
def the_substitution_is_right(effort: Effort) -> Evidence:
    """Computer algebra: the ratio of the two must not depend on lambda, L, R, d, n. What is left is
    its value over that at 1, less 1.
    """
    lam, n, lipschitz, radius, d = at = sympy.symbols("lambda n L R d", positive=True)
    third = sympy.Rational(1, 3)
    proved = (
        lipschitz
        * (2 * lipschitz * radius / lam)
        * radius**2
        * d**third
        * lipschitz ** (2 * third)
        / (lam * n) ** (2 * third)
    )
    printed = radius * d**third * lipschitz ** (8 * third) / (lam**2 * n) ** (2 * third)
    ratio = sympy.simplify(proved / printed)
    return identities(
        ratio / ratio.subs(dict.fromkeys(at, 1)) - 1, text="the proof's bound is the theorem's"
    )
