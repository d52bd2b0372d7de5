"""Claims on sampling from an entropy-regularized minimizer over the simplex: Jain and Thakurta
(2014), section 5.1, Theorems 3 and 4.

theta minimizes F = sum l_i(<x_i, theta>) + lambda sum theta_j log theta_j, |x_i|_inf <= R, |l'| <=
L, l'' <= L_g; x = n R^2 L_g / lambda. The release is m independent indices drawn from theta. A
draw's privacy loss is at most max_j |log theta_j - log theta'_j|, and m draws compose.

*Loss of a draw.* Move from one dataset to the other along F_t = (1 - t) F + t F', and let r be the
derivative of log theta in t. Then E_theta r = 0. Stationarity gives H (theta r) + D + lambda r =
constant, where D is the difference of the changed record's gradients,
|D_j| <= M = 2 L R, and H = sum l''_i x_i x_i^T. The inner product with theta r gives q = (theta r)^T H (theta r) = -Cov(D, r) -
lambda Var(r) <= Var(D) / (4 lambda). Coordinate j gives lambda |r_j| <= |E D - D_j| + |(theta -
e_j)^T H (theta r)| <= M + |E D| + sqrt(4 n L_g R^2 q). With |E D| = M (1 - 2 w), Var(D) <= 4 M^2 w
(1 - w) (Bhatia and Davis 2000), so that lambda |r_j| <= 2 M (1 - w + sqrt(x w (1 - w))) <= M (1 +
sqrt(1 + x)): the inner product of (1, sqrt(x)) with the unit vector (1 - 2 w, 2 sqrt(w (1 - w))).
Integrated over t in [0, 1], the loss is at most (L R / lambda) (2 + 2 sqrt(1 + x)).
"""  # noqa: E501

from __future__ import annotations

import math

import numpy as np
from flint import arb

from dpwitness.auditors import MeanBound, Scaling
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.mechanisms import LabelledVectors, Loss, SimplexSampling
from dpwitness.mechanisms.papers.simplex import minimise_over_simplex
from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    ClaimVerdict,
    Effort,
    Enclosure,
    Evidence,
    at_most,
    certificate,
    certified,
    claim,
    enclose,
    exact_delta,
    least,
    measured,
    supremum_of,
    twice,
)

PAPER = "Jain and Thakurta 2014"
# each feature has the wrong sign on one group of records
POPULATION = LabelledVectors(1 - 2 * np.eye(4), np.ones(4), [27, 26, 24, 23])


# -- Theorem 3, pure
# --------------------------------------------------------------------------------------------------


@certificate(
    "JT-10",
    source=f"{PAPER}, Theorem 3, epsilon-DP, linear losses",
    statement="Each draw costs at most 4 L R / lambda, so that epsilon lambda / (4 L R) draws are "
    "epsilon-DP",
    formula="sup log(theta_j / theta'_j) <= 4 L R / lambda",
    domain=Box(range=(1e-3, 20.0)),
    reach=1.0,
)
def draw_from_a_softmax(range: Ball) -> Enclosure:
    """theta is proportional to exp(-G / lambda), and the changed record moves G by D, |D_j| <= 2 L
    R.

    log(theta_j / theta'_j) = D_j / lambda + log E_theta exp(-D / lambda) rises in D_j and falls in
    the others: worst at D_j = 2 L R, all others -2 L R. With w = theta_j and a = 4 L R / lambda it
    is a + log(1 - w + w e^-a) = a - log(1 + w' (e^a - 1)), w' the other dataset's weight: largest
    as the coordinate becomes rare (W17), where it tends to a. Excess: -log(1 + w' (e^a - 1)) / a.
    """
    return supremum_of(softmax_excess, lambda w, a: softmax_loss(w, a) / (4 * (a / 4)) - 1, range)


def softmax_loss(weight: Ball, range: Ball) -> Ball:
    """Return log(theta_j / theta'_j) at D_j = 2 L R and D_k = -2 L R for k != j.

    `weight` is theta'_j, and D / lambda = +-range / 2.
    """
    moved = weight * (range / 2).exp()  # theta is proportional to theta' exp(D / lambda)
    return (moved / (moved + (1 - weight) * (-range / 2).exp()) / weight).log()


def softmax_excess(weight: Ball, range: Ball) -> Ball:
    """Return the relative excess of `softmax_loss` over `range`."""
    return -(weight.nonnegative_part() * range.expm1()).log1p().nonnegative_part() / range


@certificate(
    "JT-11",
    source=f"{PAPER}, Theorem 3, epsilon-DP, losses of curvature up to L_g",
    statement="Each draw costs at most (L R / lambda) (4 + 2 x), x = n R^2 L_g / lambda",
    formula="(L R / lambda) (2 + 2 sqrt(1 + x)) <= (L R / lambda) (4 + 2 x)",
    domain=Box(x=(0.0, 1e6)),
    depends=("JT-10",),
    reach=1.0,
)
def draw_from_a_smooth_minimiser(x: Ball) -> Enclosure:
    """The module's bound against the printed one: with s = sqrt(1 + x) the excess is -s (s - 1) /
    (1 + s^2).

    The bound holds for all x, also below 1. For large x the print wastes a factor of sqrt(x).
    """

    def form(x: Ball) -> Ball:
        s = (1 + x).sqrt()
        return -(s * x / (1 + s) / (1 + s * s)).nonnegative_part()

    return at_most(twice(form, lambda x: (2 + 2 * (1 + x).sqrt()) / (4 + 2 * x) - 1, x))


# -- Theorem 3, approximate
# --------------------------------------------------------------------------------------------


def two_actions(epsilon: float, delta: float, slope: float, draws: float) -> SimplexSampling:
    """Return the mechanism with two coordinates, one record and a linear loss of slope L R =
    `slope`.

    lambda is the value at which the printed formula gives `draws` draws.
    """
    return SimplexSampling(
        epsilon,
        math.sqrt(draws) * 32 * math.log(1 / delta) / epsilon * (1 + 1e-12),
        Loss("linear"),
        2,
        1,
        label_bound=slope,
        delta=delta,
        draws="approximate",
    )


@claim(
    "JT-12",
    kind="counterexample",
    source=f"{PAPER}, Theorem 3, (epsilon, delta)-DP",
    statement="(epsilon lambda / log(1/delta))^2 (32 + 16 x)^-2 draws are (epsilon, delta)-DP",
    formula="P(S) <= e^epsilon Q(S) + delta",
    domain=Box(epsilon=(0.1, 10.0), delta=(1e-10, 0.1), slope=(1.0, 1e4), draws=(1, 1000)),
)
def draws_without_a_unit(
    effort: Effort,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    slope: float = 100.0,
    draws: float = 400,
) -> Evidence:
    """L R is missing: the formula sees lambda, the loss of a draw lambda / (L R). Pair W19: p = 2,
    x = (R, -R), cost +L against -L.

    The counts are binomial: exact sums. The least L R at which this pair breaks the promise is
    found by bisection.
    """
    model = two_actions(epsilon, delta, slope, draws)
    reached = exact_delta(model, None, epsilon).lower

    return certified(
        effort,
        model,
        numbers={
            "delta_reached": reached,
            "times_the_promise": reached / delta,
            "least_slope": least(
                lambda other: (
                    exact_delta(two_actions(epsilon, delta, other, draws), None, epsilon).lower
                    > delta
                ),
                1.0,
                1e4,
            )[1],
        },
        at={"epsilon": epsilon, "delta": delta, "slope": slope, "draws": draws},
    )


@certificate(
    "JT-12-repair",
    source=f"{PAPER}, Theorem 3, (epsilon, delta)-DP, with L R under epsilon lambda",
    statement="(epsilon lambda / (L R log(1/delta)))^2 (32 + 16 x)^-2 draws are (epsilon, delta)-DP",  # noqa: E501
    formula="rho + 2 sqrt(rho log(1/delta)) <= epsilon, rho = epsilon^2 / (128 log(1/delta)^2)",
    domain=Box(epsilon=(1e-2, 40.0), delta=(1e-15, 0.5)),
    repairs="JT-12",
    depends=("JT-11",),
    reach=0.90060316,
)
def draws_with_a_unit(epsilon: Ball, delta: Ball) -> Enclosure:
    """A draw costs at most a = (L R / lambda) (4 + 2x) (JT-11), hence is a^2/2-zCDP, and so many
    draws are rho-zCDP (Bun and Steinke 2016).

    32 + 16 x = 8 (4 + 2x), so that rho does not depend on x.
    """
    digits = -delta.log()
    return at_most(epsilon / (128 * digits * digits) + 1 / (32 * digits).sqrt() - 1)


# -- Theorem 4
# --------------------------------------------------------------------------------------------------


def square_root_of_draws(records: Ball, epsilon: Ball, delta: Ball, actions: Ball) -> Ball:
    """Return the printed sqrt(m) at Theorem 4's lambda and L = R = L_g = 1. sqrt(m) increases with
    n (JT-13).
    """
    slope = 1 / (epsilon * actions.log()).root(3)
    third = records.root(3)
    return epsilon * slope * third * third / (-delta.log() * (32 + 16 * third / slope))


@claim(
    "JT-13",
    kind="certificate",
    source=f"{PAPER}, Theorem 4, m of Theorem 3 at lambda = n^(2/3) / (epsilon log p)^(1/3)",
    statement="The algorithm of the utility theorem draws at least once",
    formula="m = (epsilon lambda / log(1/delta))^2 (32 + 16 n R^2 L_g / lambda)^-2 >= 1",
    domain=Box(records=(1.0, 1e15), epsilon=(1e-2, 100.0), delta=(1e-10, 0.1), actions=(2.0, 1e7)),
    reach=1.8340399,
)
def algorithm_draws(
    effort: Effort,
    records: float = 42_000,
    epsilon: float = 10.0,
    delta: float = 1e-3,
    actions: float = 8,
) -> Evidence:
    """With lambda = k n^(2/3), sqrt(m) = epsilon k n^(2/3) / (log(1/delta) (32 + 16 n^(1/3) / k))
    rises with n, in balls.

    So sqrt(m) = 1 is a quadratic equation in n^(1/3), and below its root no index is drawn.
    Defaults: the paper's run on Cod-RNA.
    """
    root = square_root_of_draws(arb(records), arb(epsilon), arb(delta), arb(actions))
    drawn, digits = root**2, -arb(delta).log()
    third = (arb(epsilon) * arb(actions).log()).root(3)
    a, b, c = arb(epsilon) / third, 16 * digits * third, 32 * digits
    first = math.ceil(float(((b + (b * b + 4 * a * c).sqrt()) / (2 * a)).upper() ** 3))
    return Evidence(
        ClaimVerdict.VACUOUS
        if drawn < 1
        else ClaimVerdict.HOLDS
        if drawn >= 1
        else ClaimVerdict.INCONCLUSIVE,
        text=f"m = {float(drawn):.4g} at n = {records:g}; it reaches 1 at n = {first:.6g}",
        method="balls",
        enclosure=enclose(1 - drawn),
        numbers={"draws": float(drawn), "least_n": first, "pure_draws": float(8 * root * digits)},
        at={"records": records, "epsilon": epsilon, "delta": delta, "actions": actions},
        grade="proved",
    )


@certificate(
    "JT-13-dominated",
    source=f"{PAPER}, Theorem 3, the approximate against the pure form at Theorem 4's lambda, L "
    "= R = L_g = 1",
    statement="The (epsilon, delta)-DP form never draws more than the epsilon-DP form",
    formula="m_approximate <= m_pure",
    domain=Box(records=(1.0, 1e9), epsilon=(0.1, 10.0), delta=(1e-10, 1e-3), actions=(2.0, 1e6)),
    reach=0.44999996,
)
def pure_form_draws_more(records: Ball, epsilon: Ball, delta: Ball, actions: Ball) -> Enclosure:
    """m_pure = epsilon lambda / (4 + 2x) = 8 log(1/delta) sqrt(m_approximate): the ratio is
    sqrt(m_approximate) / (8 log(1/delta)).

    The ratio rises in n, epsilon, delta and falls in p; so the corner of each cell decides.
    """
    high = square_root_of_draws(
        records.upper(), epsilon.upper(), delta.upper(), actions.lower()
    ) / (-8 * delta.upper().log())
    low = square_root_of_draws(records.lower(), epsilon.lower(), delta.lower(), actions.upper()) / (
        -8 * delta.lower().log()
    )
    return Enclosure(enclose(low - 1).lower, enclose(high - 1).upper)


@claim(
    "JT-14",
    kind="experiment",
    source=f"{PAPER}, Theorem 4, at the m of the epsilon-DP form",
    statement="With the lambda of Theorem 4 the excess risk falls at least like n^(-1/3)",
    formula="excess = O(n^(-1/3))",
)
def excess_by_records(effort: Effort) -> Evidence:
    """Four features, each wrong on another part of the data; logistic loss, epsilon = 10 and the m
    of pure DP, because the m of (epsilon, delta)-DP is 0 here (JT-13).

    Mean excess over fresh data of the released frequencies, against the best point of the simplex.
    """
    best = np.exp(minimise_over_simplex(POPULATION, Loss("logistic"), 1e-9).log_theta)

    def error(n: float, size: int, rng: np.random.Generator) -> FloatArray:
        count = int(n)
        model = SimplexSampling(
            10.0, count ** (2 / 3) / (10 * math.log(4)) ** (1 / 3), Loss("logistic"), 4, count
        )
        drawn = rng.multinomial(count, POPULATION.weights / POPULATION.weights.sum(), size)
        rows = [
            model.sample(LabelledVectors(POPULATION.x, POPULATION.y, np.maximum(c, 1)), 1, rng)[0]
            for c in drawn
        ]
        return _risk(POPULATION, np.array(rows)) - _risk(POPULATION, best[None, :])

    return measured(
        effort,
        error,
        Scaling(-1 / 3, (500.0, 2000.0, 8000.0, 32000.0), statistic="mean", spread=2.0),
        runs=effort.of(400, 200),
        name="excess on the simplex",
        at={"epsilon": 10.0, "p": 4, "records": "500 to 32000"},
    )


@claim(
    "JT-14-draws",
    kind="experiment",
    source=f"{PAPER}, Theorem 4, the step from theta to the frequencies of m draws",
    statement="Drawing m indices adds at most L_g R^2 / (2m) to the mean risk",
    formula="E l(theta_priv) - l(theta_hat) <= L_g R^2 / (2m)",
    domain=Box(draws=(1, 1000)),
)
def price_of_drawing(effort: Effort, draws: float = 10) -> Evidence:
    """E theta_priv = theta_hat and E <theta_priv - theta_hat, x>^2 <= R^2 / m, so a second-order
    expansion gives the bound (the paper's L R / sqrt(m) is larger). Measured on the data of JT-14,
    logistic loss, L_g = 1/4.
    """
    model = SimplexSampling(10.0, 50.0, Loss("logistic"), 4, 100, draws=int(draws))
    middle = np.exp(model.minimiser(POPULATION).log_theta)

    own = float(_risk(POPULATION, middle[None, :])[0])
    worst = float(_risk(POPULATION, np.eye(4)).max())  # a convex risk has its maximum at a vertex
    return measured(
        effort,
        lambda size, rng: (
            _risk(POPULATION, model.sample(POPULATION, size, rng))
            - _risk(POPULATION, middle[None, :])
        ),
        MeanBound(0.25 / (2 * draws), low=-own, high=worst - own + 1e-12),
        runs=effort.of(20000, 5000),
        name="price of drawing",
        at={"draws": draws},
    )


def _risk(data: LabelledVectors, rows: FloatArray) -> FloatArray:
    """Return the mean logistic loss on `data` of each row of weights."""
    return np.asarray(
        Loss("logistic").value(rows @ data.x.T, data.y[None, :])
        @ (data.weights / data.weights.sum())
    )
