"""Claims on noise added to the objective: Chaudhuri and Monteleoni (2008), Theorems 2 and 3, their
witnesses and their experiments.

Notation as in `logistic_claims`: N = n lambda, s = sigmoid(-w.v), noise b = -N w + sum v_i s_i,
Jacobian N I + sum s_i (1 - s_i) v_i v_i^T.

Claims on the utility of Algorithm 2 of Chaudhuri and Monteleoni (2008): Lemma 3, Theorem 4, and
the example of section 3.1.
"""

from __future__ import annotations

import bisect
import math

import numpy as np
from flint import arb
from scipy import stats

from dpwitness.auditors import FailureBound, MeanBound, certify, search
from dpwitness.core.protocols import FloatArray
from dpwitness.mechanisms import (
    ConvexObjectivePerturbation,
    InvalidArgument,
    LabelledVectors,
    LogisticObjectivePerturbation,
    LogisticOutputPerturbation,
    Loss,
)
from dpwitness.mechanisms.papers.logistic import QuadraticPenalty, hypercube
from dpwitness.proofs_checks.claims.glm_utility_claims import OneFeature
from dpwitness.proofs_checks.claims.logistic_claims import (
    CURVATURE,
    LINE_SHIFT,
    rate_and_curvature,
    singular_excess,
)
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
    excess_of,
    identities,
    measured,
    sympy,
    times,
    twice,
    unsatisfiable,
    z3,
)


@certificate(
    "CM-06-printed",
    source="Chaudhuri and Monteleoni 2008, Theorem 2, d >= 2, noise as printed: a Laplace radius "
    "and a uniform direction",
    statement="Algorithm 2 is (multiple x epsilon)-DP for some multiple; the theorem says multiple "
    "= 1",
    formula="log P[|b(w)| <= rho | D] / P[... | D'] <= multiple x epsilon for all rho > 0",
    domain=Box(
        epsilon=(1e-2, 10.0),
        n_lambda=(1e-3, 1e3),
        dimension=(2.0, 100.0),
        shift=(1e-6, 10.0),
        multiple=(1.0, 1e6),
    ),
    reach=711.49335,
)
def printed_objective_noise_is_private(
    epsilon: Ball, n_lambda: Ball, dimension: Ball, shift: Ball, multiple: Ball
) -> Enclosure:
    """Outputs near argmin fhat_D need little noise under D, and noise b' = b + v' s' - v s under
    D': `singular_excess`.

    Where |b| <= rho, w is within rho / N of the minimiser, so v' s' - v s is within rho / (2 N) of
    what it is there, `shift` (times the noise's rate): spread = 1 + 1/(2 N). The volume of noise b'
    is that of b times det H' / det H <= 1 + 1/(4 N).
    """
    spread, jacobian = 1 + 2 * CURVATURE / n_lambda, (CURVATURE / n_lambda).log1p()
    return singular_excess(
        epsilon=epsilon,
        dimension=dimension,
        multiple=multiple,
        shift=shift,
        spread=spread,
        jacobian=jacobian,
    )


# outputs w at which witness W3 is evaluated; each gives a valid bound
W3_OUTPUTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)


def line_loss_excess(epsilon: Ball, n_lambda: Ball, rate: Ball) -> Enclosure:
    """Enclose the privacy loss of Algorithm 2 in one dimension, relative to epsilon; the noise has
    the rate `rate` epsilon.

    Lower bound, witness W3: (e1, +1) against x = 0, all other records x = 0. At w >= 0, b = s - N w
    and b' = -N w, and the determinants are N + s (1 - s) and N: the loss is rate epsilon (N w - |s
    - N w|) + log(1 + s (1 - s) / N), evaluated at a few w. Upper bound: the noise moves by at most
    2 x 0.526 (CM-04-line), and the ratio of the determinants is at most 1 + 1/(4 N).
    """

    def plain(w: Ball, epsilon: Ball, n_lambda: Ball, rate: Ball) -> Ball:
        s = 1 - 1 / (1 + (-w).exp())
        noise = [abs(pull - n_lambda * w) for pull in (s, arb(0))]  # |b| under D, and under x = 0
        return excess(
            rate * epsilon * (noise[1] - noise[0]) + ((n_lambda + s * (1 - s)) / n_lambda).log(),
            epsilon,
        )

    def form(w: Ball, epsilon: Ball, n_lambda: Ball, rate: Ball) -> Ball:
        s, pull = 1 / (1 + w.exp()), n_lambda * w
        return rate * (pull - abs(s - pull)) + (s * (1 - s) / n_lambda).log1p() / epsilon - 1

    below = max(
        enclose(twice(form, plain, arb(w), epsilon, n_lambda, rate)).lower for w in W3_OUTPUTS
    )

    def most(epsilon: Ball, n_lambda: Ball) -> Ball:
        return (CURVATURE / n_lambda).log1p() / epsilon + LINE_SHIFT * rate - 1

    def plain_most(epsilon: Ball, n_lambda: Ball) -> Ball:
        return excess(
            LINE_SHIFT * (rate * epsilon) + ((n_lambda + CURVATURE) / n_lambda).log(), epsilon
        )

    return Enclosure(below, enclose(twice(most, plain_most, epsilon, n_lambda)).upper)


@certificate(
    "CM-06-line",
    source="Chaudhuri and Monteleoni 2008, Theorem 2, d = 1, printed number read as the scale of "
    "the Laplace law (then equal to Gamma)",
    statement="Algorithm 2 is epsilon-DP on the line, for every n lambda",
    formula="sup_w log p(w | D) / p(w | D') <= epsilon, noise rate epsilon / 2",
    domain=Box(epsilon=(1e-2, 10.0), n_lambda=(1e-3, 1e3)),
    depends=("CM-04-line",),
    reach=552.29529,
)
def objective_noise_on_the_line_is_private(epsilon: Ball, n_lambda: Ball) -> Enclosure:
    """`line_loss_excess` with the rate epsilon / 2. Between its two ends lies a strip of the domain
    that stays undecided.
    """
    return line_loss_excess(epsilon, n_lambda, arb(0.5))


@certificate(
    "CM-06-line-std",
    source="Chaudhuri and Monteleoni 2008, Theorem 2, d = 1, Laplace law of standard deviation 2 / "
    "epsilon, as printed",
    statement="Algorithm 2 is epsilon-DP on the line, for every n lambda",
    formula="sup_w log p(w | D) / p(w | D') <= epsilon, noise rate epsilon / sqrt(2)",
    domain=Box(epsilon=(1e-2, 10.0), n_lambda=(1e-3, 1e3)),
    depends=("CM-04-line",),
    reach=552.19174,
)
def printed_objective_noise_on_the_line_is_private(epsilon: Ball, n_lambda: Ball) -> Enclosure:
    """`line_loss_excess` with the rate epsilon / sqrt(2)."""
    return line_loss_excess(epsilon, n_lambda, 1 / arb(2).sqrt())


@certificate(
    "CM-06-line-repair",
    source="Chaudhuri and Monteleoni 2008, Theorem 2, d = 1, with the condition n lambda >= 0.37 / "
    "epsilon",
    statement="Algorithm 2 with Laplace noise of scale 2 / epsilon is epsilon-DP on the line, for "
    "every epsilon",
    formula="max |v s - u t| / 2 + (v^2 s (1 - s) - u^2 t (1 - t)) / 0.37 <= 1, s = sigmoid(-w "
    "v), t = sigmoid(-w u)",
    domain=Box(w=(0.0, 12.0), v=(-1.0, 1.0), u=(-1.0, 1.0)),
    repairs="CM-06-line",
    depends=("CM-04-line",),
    reach=0.9999982,
)
def objective_noise_on_the_line_is_private_when_regularized(w: Ball, v: Ball, u: Ball) -> Enclosure:
    """Loss <= (epsilon / 2) |v s - u t| + log((A + p) / (A + q)), p = v^2 s (1 - s) and q = u^2 t
    (1 - t) the records' curvatures, A >= N the others' and the ridge. Where p <= q the logarithm is
    <= 0, and the noise's part below 0.526 epsilon (CM-04-line).

    Otherwise it is at most (p - q) / A <= (p - q) epsilon / 0.37, and epsilon cancels. Turn the
    axis so that w >= 0. For w > 12 the noise's part is below (1 + 0.279 / 12) / 2 (CM-04-line), and
    p below max t^2 s (1 - s) / w^2 < 0.44 / 144: together below 0.53.
    """
    s, t = 1 / (1 + (w * v).exp()), 1 / (1 + (w * u).exp())
    return enclose(
        excess(
            abs(v * s - u * t) / 2 + (v * v * s * (1 - s) - u * u * t * (1 - t)) / arb("0.37"),
            arb(1),
        )
    )


@claim(
    "CM-06-W3",
    kind="counterexample",
    source="Chaudhuri and Monteleoni 2008, Theorem 2, Gamma noise",
    statement="Algorithm 2 is epsilon-DP for one record e1 against x = 0, witness W3",
    formula="sup_w log p(w | D) / p(w | D') <= epsilon",
    domain=Box(epsilon=(1e-2, 3.0), n_lambda=(1e-2, 10.0)),
)
def objective_perturbation_survives_a_zero_record(
    effort: Effort, epsilon: float = 0.1, n_lambda: float = 0.1
) -> Evidence:
    """The exact privacy loss of the mechanism at d = 1, n = 1, by its density. Records x = 0 and
    lambda = N / n give any n the same.
    """
    mechanism = LogisticObjectivePerturbation(epsilon, n_lambda, dimension=1, records=1)
    result = certify(mechanism, mechanism.worst_pair(), seed=effort.seed)
    return audited(
        result,
        numbers={"epsilon_lower": result.epsilon_lower},
        at={"epsilon": epsilon, "n_lambda": n_lambda},
    )


@claim(
    "CM-06-search",
    kind="counterexample",
    source="Chaudhuri and Monteleoni 2008, Theorem 2, Gamma noise, d = 2, n = 2",
    statement="Algorithm 2 is epsilon-DP for every pair of neighbours that a search finds, told "
    "the domain alone",
    formula="sup over pairs and w of log p(w | D) / p(w | D') <= epsilon",
    domain=Box(epsilon=(1e-2, 3.0), n_lambda=(1e-2, 10.0)),
    depends=("CM-06",),
)
def objective_perturbation_survives_a_search(
    effort: Effort, epsilon: float = 0.1, n_lambda: float = 0.1
) -> Evidence:
    """The pair search maximises the exact privacy loss; the pair that it ends with is certified
    afresh.
    """
    mechanism = LogisticObjectivePerturbation(epsilon, n_lambda / 2, dimension=2, records=2)
    found = search(
        mechanism,
        mechanism.domain,
        mechanism.claim,
        evaluations=effort.of(600, 150),
        seconds=max(1.0, effort.seconds_left() / 2),
        seed=effort.seed,
    )
    result = certify(mechanism, found[0][0], seed=effort.seed)
    return audited(
        result,
        numbers={
            "loss found": found[0][1],
            "supremum over n": mechanism.truth.parameter if mechanism.truth else float("nan"),
        },
        at={"epsilon": epsilon, "n_lambda": n_lambda},
    )


@claim(
    "CM-06-W4",
    kind="counterexample",
    source="Chaudhuri and Monteleoni 2008, Theorem 2, Gamma noise, d = 2",
    statement="Algorithm 2 is epsilon-DP for two opposed records among many that hold the output "
    "far out, witness W4",
    formula="log p(w | D) / p(w | D') <= epsilon at w = W e1",
    domain=Box(epsilon=(1e-2, 10.0), n_lambda=(1e-2, 100.0), records=(2e5, 1e12)),
    depends=("CM-06",),
    reach=1.0484877,
)
def objective_perturbation_survives_opposed_records(
    effort: Effort, epsilon: float = 1.0, n_lambda: float = 1.0, records: float = 1e8
) -> Evidence:
    """The log-ratio of the densities of the mechanism's worst pair at the output that the pair is
    built for, in balls.
    """
    n = int(records)
    mechanism = LogisticObjectivePerturbation(epsilon, n_lambda / n, dimension=2, records=n)
    pair = mechanism.worst_pair()
    if not pair.why.startswith("W4"):
        raise InvalidArgument(
            "check CM-06-W4: records must be enough to hold the output at n lambda = "
            f"{n_lambda:g}, got {n}"
        )
    w = float(pair.why.split("=")[1].split("e1")[0])
    first, second = (
        mechanism.log_density_ball([[(w, w), (0.0, 0.0)]], data)[0] for data in (pair.d0, pair.d1)
    )
    loss = enclose(first - second)
    limit = mechanism.truth.parameter if mechanism.truth else float("nan")
    return Evidence(
        ClaimVerdict.FAILS if loss.lower > epsilon else ClaimVerdict.NOT_REFUTED,
        text=(
            f"privacy loss {loss.lower:.6g} at w = ({w:.6g}, 0), promised {epsilon:g}; its "
            f"supremum over n at this n lambda is {limit:.6g}"
        ),
        method="log-density at one output, in balls",
        enclosure=excess_of(loss.lower, loss.upper, epsilon),
        numbers={"loss": loss.lower, "supremum": limit},
        at={"epsilon": epsilon, "n_lambda": n_lambda, "records": records, "output": [w, 0.0]},
        grade="proved",
    )


# Section 3.1 (figure 1) and section 6 (figures 2 and 4): number of training records, and the tuned
# lambda.
RUNS = {
    "D_10(0.001), n = 100": (100, 1e-6),
    "D_10(0.001), n = 700": (700, 1e-6),
    "uniform, margin 0.1, n = 100": (100, 0.01),
    "uniform, margin 0.1, n = 1000": (1000, 0.01),
    "uniform, margin 0.05, n = 1000": (1000, 0.001),
    "Pima diabetes, n = 600": (600, 1e-6),
    "breast cancer, n = 450": (450, 1e-6),
}


@claim(
    "CM-06-experiments",
    kind="counterexample",
    source="Chaudhuri and Monteleoni 2008, figures 1, 2 and 4",
    statement="The experiments' runs of Algorithm 2 keep epsilon = 0.2, if their noise was Gamma",
    formula="log(1 + 1/(4 n lambda)) <= epsilon at each run's own n and lambda",
    domain=Box(epsilon=(1e-2, 10.0)),
    depends=("CM-06",),
    reach=39.12223,
)
def experiments_keep_their_promise(effort: Effort, epsilon: float = 0.2) -> Evidence:
    """For each run an interval for its true epsilon: from below at its own n, from above over all n
    with this n lambda.

    Below: e1 against x = 0, all others x = 0, at outputs w far out and orthogonal to e1: there |b'|
    - |b| -> 0 and the determinants' ratio stays 1 + 1/(4 N). Above: the supremum of CM-06. With the
    noise as printed, none of the runs has a finite epsilon (CM-06-printed).
    """
    numbers, worst = {}, Enclosure(-1.0, -1.0)
    for name, (n, regularization) in RUNS.items():
        below = enclose((CURVATURE / (arb(n) * arb(regularization))).log1p())
        truth = LogisticObjectivePerturbation(epsilon, regularization, dimension=2, records=n).truth
        numbers[name] = [below.lower, max(truth.parameter if truth else epsilon, below.upper)]
        worst = max(worst, excess_of(below.lower, below.upper, epsilon), key=lambda e: e.lower)
    broken = [name for name, (low, _) in numbers.items() if low > epsilon]
    if not broken:
        return Evidence(
            ClaimVerdict.NOT_REFUTED,
            text=f"no run is proved to exceed epsilon = {epsilon:g}",
            method="balls",
            enclosure=worst,
            numbers=numbers,
        )
    first = max(broken, key=lambda name: numbers[name][0])
    return Evidence(
        ClaimVerdict.FAILS,
        text=(
            f"{len(broken)} of {len(RUNS)} runs exceed epsilon = {epsilon:g}; {first}: "
            f"{numbers[first][0]:.3g} to {numbers[first][1]:.3g}"
        ),
        method="log-density at one pair, in balls",
        enclosure=worst,
        numbers=numbers,
        at={"epsilon": epsilon},
        grade="proved",
    )


@certificate(
    "CM-07",
    source="Chaudhuri and Monteleoni 2008, Theorem 3, with noise density exp(-epsilon |b| / (2 "
    "kappa)) in place of the printed one",
    statement="Noise for the gradient bound kappa alone makes the minimiser of any strongly convex "
    "problem epsilon-DP",
    formula="log(1 + l''(0) / G'') <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0), curvature=(1e-3, 1e6)),
    reach=1381.5512,
)
def gradient_bound_suffices(epsilon: Ball, curvature: Ball) -> Enclosure:
    """Witness W5: G = L |w|^2 / 2, l = (kappa / a) log cosh(a w.e1) against l = 0; the gradient is
    bounded by kappa for every a.

    At w = 0 both need b = 0, and the determinants' ratio is 1 + kappa a / L: `curvature` is kappa a
    / L, which nothing bounds. The value is a lower bound on the worst case.
    """
    return Enclosure(enclose(excess(curvature.log1p(), epsilon)).lower, float("inf"))


@claim(
    "CM-07-W5",
    kind="counterexample",
    source="Chaudhuri and Monteleoni 2008, Theorem 3, d = 1, printed number read as the scale of "
    "the Laplace law",
    statement="The minimiser is epsilon-DP for a log cosh loss against none, witness W5",
    formula="sup_w log p(w | D) / p(w | D') <= epsilon",
    domain=Box(epsilon=(1e-2, 5.0), sharpness=(1e-2, 1e6)),
    depends=("CM-07",),
)
def log_cosh_is_private(effort: Effort, epsilon: float = 1.0, sharpness: float = 1e3) -> Evidence:
    """The exact privacy loss of the mechanism, by its density; kappa = L = 1, and
    `sharpness` is a.
    """
    mechanism = ConvexObjectivePerturbation(
        epsilon,
        1.0,
        Loss("log-cosh", width=1 / sharpness),
        QuadraticPenalty(1.0),
        noise="laplace_radius_scale",
    )
    result = certify(mechanism, mechanism.worst_pair(), seed=effort.seed)
    return audited(
        result,
        numbers={"epsilon_lower": result.epsilon_lower},
        at={"epsilon": epsilon, "sharpness": sharpness},
    )


@certificate(
    "CM-07-line",
    source="Chaudhuri and Monteleoni 2008, Theorem 3, d = 1, noise as printed: Laplace of standard "
    "deviation 2 kappa / epsilon",
    statement="The minimiser is epsilon-DP for losses +kappa w and -kappa w",
    formula="(sqrt(2) epsilon / (2 kappa)) 2 kappa <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0), kappa=(1e-3, 1e3)),
    reach=1.4142136,
)
def linear_losses_are_private(epsilon: Ball, kappa: Ball) -> Enclosure:
    """Linear losses have no curvature; replacing one by its opposite moves b by 2 kappa for every
    w, so the loss is rate x 2 kappa.
    """
    # in units of kappa / epsilon; the scale of a Laplace law is its standard deviation over sqrt(2)
    return enclose(2 / (2 / arb(2).sqrt()) - 1)


@certificate(
    "CM-07-printed",
    source="Chaudhuri and Monteleoni 2008, Theorem 3, d >= 2, noise as printed: a Laplace radius "
    "and a uniform direction",
    statement="The minimiser is (multiple x epsilon)-DP for some multiple, for linear losses; the "
    "theorem says multiple = 1",
    formula="log P[|b(w)| <= rho | D] / P[... | D'] <= multiple x epsilon for all rho > 0",
    domain=Box(epsilon=(1e-2, 10.0), dimension=(2.0, 100.0), multiple=(1.0, 1e6)),
    reach=461.87063,
)
def printed_noise_keeps_linear_losses_private(
    epsilon: Ball, dimension: Ball, multiple: Ball
) -> Enclosure:
    """Losses +kappa w.e1 and -kappa w.e1 move b by 2 kappa for every w, sqrt(2) epsilon in units of
    1/rate: `singular_excess`, spread 1.
    """
    return singular_excess(
        epsilon=epsilon,
        dimension=dimension,
        multiple=multiple,
        shift=epsilon * arb(2).sqrt(),
        spread=arb(1),
        jacobian=arb(0),
    )


@certificate(
    "CM-07-repair",
    source="Chaudhuri and Monteleoni 2008, Theorem 3, with a bound rho on the curvature of "
    "rank-one losses",
    statement="Noise density exp(-epsilon |b| / (4 kappa)) and G of strong convexity >= 2 rho / "
    "epsilon are epsilon-DP",
    formula="epsilon / 2 + log(1 + epsilon / 2) <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0)),
    repairs="CM-07",
    reach=0.99999603,
)
def gradient_and_curvature_bounds_suffice(epsilon: Ball) -> Enclosure:
    """b moves by at most 2 kappa, loss epsilon / 2. For losses of w.x the Hessians differ by
    rank-one terms: with A the common part, the determinants' ratio is at most 1 + rho / (2 rho /
    epsilon).
    """
    return rate_and_curvature(epsilon, rate=1 / arb(4), moved=2)


@claim(
    "CM-08-quadratic",
    kind="certificate",
    source="Chaudhuri and Monteleoni 2008, Lemma 3, whose proof is not printed",
    statement="fhat(w2) - fhat(w1) <= |b|^2 / (2 lambda n^2) for every b",
    formula="f(w2) - f(w1) <= |grad f(w2)|^2 / (2 lambda), grad fhat(w2) = -b / n",
)
def noise_costs_its_square(effort: Effort) -> Evidence:
    """Let r = |w2 - w1|, g = |b| / n. Strong convexity and Cauchy-Schwarz give f(w1) >= f(w2) - g r
    + lambda r^2 / 2, and over the reals no f(w2) - f(w1) above g^2 / (2 lambda) satisfies that.
    """
    loss, r, g, strong = z3.Reals("loss r g lambda")
    return unsatisfiable(
        effort,
        [strong > 0, loss <= g * r - strong * r * r / 2, loss > g * g / (2 * strong)],
        text="no larger excess satisfies strong convexity and Cauchy-Schwarz",
        where=[[g > 0, r > 0]],
    )


def gamma_tail(shape: Ball, t: Ball) -> Ball:
    """Enclose P(Gamma(shape) > t) from the endpoints of both balls: the tail increases in the shape
    and decreases in t.
    """
    return (
        t.upper().gamma_upper(shape.lower(), True).union(t.lower().gamma_upper(shape.upper(), True))
    )


@certificate(
    "CM-08-consistency",
    source="Chaudhuri and Monteleoni 2008, Theorem 2 at n lambda = 2 / epsilon and Lemma 3 "
    "together, d >= 2",
    statement="Of the printed noise and the Gamma noise, one keeps both the privacy of Theorem 2 "
    "and the utility of Lemma 3",
    formula="min(privacy excess of the printed noise, utility excess of the Gamma noise) <= 0",
    domain=Box(epsilon=(1e-2, 10.0), dimension=(2.0, 100.0), delta=(1e-9, 0.5)),
    depends=("CM-06-printed", "CM-06-repair", "CM-08", "CM-08-gamma"),
    reach=464.01432,
)
def one_noise_serves_both(epsilon: Ball, dimension: Ball, delta: Ball) -> Enclosure:
    """The printed noise keeps Lemma 3 (CM-08), so it would have to be private; the Gamma noise is
    private (CM-06-repair), so it would have to keep Lemma 3: P(Gamma(d) > 2 log(1/delta)) <= delta,
    as in CM-08-gamma.
    """
    printed = printed_objective_noise_is_private(
        epsilon, 2 / epsilon, dimension, shift=arb(0.1), multiple=arb(1)
    )
    useful = enclose(excess(gamma_tail(dimension, -2 * delta.log()), delta))
    return Enclosure(min(printed.lower, useful.lower), min(printed.upper, useful.upper))


@certificate(
    "CM-08-repair",
    source="Chaudhuri and Monteleoni 2008, Lemma 3, with Gamma noise and the dimension",
    statement="fhat(w2) <= fhat(w1) + 2 (d + sqrt(2 d t) + t)^2 / (lambda n^2 epsilon^2), t = "
    "log(1/delta), with probability 1 - delta",
    formula="P(Gamma(d) > d + sqrt(2 d t) + t) <= exp(-t)",
    domain=Box(dimension=(1.0, 100.0), delta=(1e-9, 0.5)),
    repairs="CM-08-gamma",
    reach=0.99975154,
)
def gamma_noise_keeps_a_bound_with_the_dimension(dimension: Ball, delta: Ball) -> Enclosure:
    """fhat(w2) - fhat(w1) <= |b|^2 / (2 lambda n^2), and epsilon |b| / 2 is Gamma(d): the bound
    says where that may lie.

    Chernoff: P(Gamma(d) > d + x) <= exp(-(x - d log(1 + x / d))). With y = sqrt(2 t / d), x = d (y
    + y^2 / 2) and the exponent is -d gap(y) - t with gap(y) = y - log(1 + y + y^2 / 2), which grows
    from 0: its derivative is y^2 / (2 + 2 y + y^2).
    """

    def form(dimension: Ball, delta: Ball) -> Ball:
        y = (-2 * delta.log() / dimension).sqrt()
        low, high = (end - (end + end * end / 2).log1p() for end in (y.lower(), y.upper()))
        return (-times(dimension, low.union(high))).expm1()

    def plain(dimension: Ball, delta: Ball) -> Ball:
        t = -delta.log()
        x = (2 * dimension * t).sqrt() + t
        return excess((dimension * (x / dimension).log1p() - x).exp(), delta)

    return enclose(twice(form, plain, dimension, delta))


@certificate(
    "CM-08-repair-2011",
    source="Chaudhuri, Monteleoni and Sarwate 2011, the bound that takes the place of Lemma 3",
    statement="fhat(w2) <= fhat(w1) + 8 d^2 log(d/delta)^2 / (lambda n^2 epsilon^2) with "
    "probability 1 - delta",
    formula="P(Gamma(d) > 2 d log(d/delta)) <= delta",
    domain=Box(dimension=(1.0, 100.0), delta=(1e-9, 0.5)),
    repairs="CM-08-gamma",
    reach=0.95761916,
)
def gamma_noise_keeps_the_later_bound(dimension: Ball, delta: Ball) -> Enclosure:
    """As CM-08-repair, with the larger and simpler bound."""
    return enclose(excess(gamma_tail(dimension, 2 * dimension * (dimension / delta).log()), delta))


@claim(
    "CM-08-runs",
    kind="experiment",
    source="Chaudhuri and Monteleoni 2008, Lemma 3, Gamma noise, by running Algorithm 2",
    statement="fhat(w2) <= fhat(w1) + 8 log(1/delta)^2 / (lambda n^2 epsilon^2) with probability 1 "
    "- delta",
    formula="P(fhat(w2) - fhat(w1) > bound) <= delta",
    domain=Box(dimension=(1, 50), delta=(1e-3, 0.5)),
    depends=("CM-08-gamma",),
)
def runs_keep_the_utility_bound(
    effort: Effort, dimension: float = 10, delta: float = 0.05
) -> Evidence:
    """Ten records x = 0, lambda = 0.1, epsilon = 1: there fhat(w) = lambda |w|^2 / 2 + log 2 and w1
    = 0. The failures are counted.
    """
    d, epsilon, n, regularization = int(dimension), 1.0, 10, 0.1
    mechanism = LogisticObjectivePerturbation(epsilon, regularization, dimension=d, records=n)
    data = LabelledVectors(np.zeros((1, d)), [1.0], [n])
    bound = 8 * math.log(1 / delta) ** 2 / (regularization * n**2 * epsilon**2)

    def excess(size: int, rng: np.random.Generator) -> FloatArray:
        w = mechanism.sample(data, size, rng)
        return np.asarray(regularization / 2 * (w * w).sum(axis=1))

    return measured(
        effort,
        excess,
        FailureBound(bound, delta),
        runs=effort.of(20000, 2000),
        confidence=1 - 1e-06,
        reported="failure frequency",
        at={"dimension": d, "delta": delta},
    )


PROBLEMS = (
    (0.55, 0.1),
    (0.55, 0.01),
    (0.6, 0.03),
    (0.75, 0.1),
    (0.75, 0.01),
    (0.9, 0.1),
    (0.9, 0.03),
)
"""Label probabilities and error goals at which the sample size of Theorem 4 is worked out."""


def least_records(
    p: float, goal: float, epsilon: float, delta: float, *, rate: float = 1 / math.sqrt(2)
) -> int:
    """Return the number of records that Algorithm 2 needs in one dimension for an expected loss of
    at most L(w0) + goal.

    The loss bound holds with probability 1 - delta. The number is found by bisection below the
    first power of two that suffices. Records are x = 1 with label +1 of probability p; w0 =
    logit(p) minimizes L, and lambda = goal / w0^2. The expected loss is convex, so the goal is
    reached on an interval of w2. The map to b is decreasing, so this is an interval of b for each
    number of positive labels. Hence the probability is a sum of Laplace probabilities, exact up to
    rounding. The noise has the rate `rate` epsilon, by default the printed rate.
    """
    ridge, noise = goal / math.log(p / (1 - p)) ** 2, stats.laplace(scale=1 / (epsilon * rate))

    def suffices(n: int) -> bool:
        return OneFeature(n, n * ridge, noise, "objective", p).failure(goal) <= delta

    good = 1
    while not suffices(good):
        good *= 2
    return bisect.bisect_left(range(good), x=True, lo=good // 2 + 1, key=suffices)


@claim(
    "CM-09",
    kind="experiment",
    source="Chaudhuri and Monteleoni 2008, Theorem 4, noise as printed",
    statement="n > C log(1/delta) max(|w0|^2 / eps_g^2, |w0| / (epsilon eps_g)) records suffice "
    "for a loss of at most L(w0) + eps_g",
    formula="C, some constant",
    domain=Box(delta=(1e-3, 0.5)),
    depends=("CM-08",),
)
def some_constant_suffices(effort: Effort, delta: float = 0.05) -> Evidence:
    """The theorem names no C. Problems on the line are solved exactly (`least_records`), and each
    needs a C of its own: the largest is the least that can be true. Two slopes of log n come along,
    with at most 2 and 1 claimed: against log(1/eps_g) at epsilon = 1 and against log(1/epsilon).
    Dimension does not enter the theorem; with Gamma noise it would (CM-08-repair).
    """
    epsilons = (1e-1, 1e-2) if effort.quick else (1.0, 1e-1, 1e-2, 1e-3)
    needed = {}
    for p, goal in PROBLEMS:
        norm = math.log(p / (1 - p))
        for epsilon in epsilons:
            effort.spend()
            promised = math.log(1 / delta) * max((norm / goal) ** 2, norm / (epsilon * goal))
            needed[p, goal, epsilon] = (n := least_records(p, goal, epsilon, delta)), n / promised
    (p, goal, epsilon), (n, constant) = max(needed.items(), key=lambda item: item[1][1])
    growth = math.log(
        least_records(0.75, 1e-3, 1.0, delta) / least_records(0.75, 1e-1, 1.0, delta)
    ) / math.log(100)
    privacy = math.log(
        least_records(0.75, 0.1, 1e-2, delta) / least_records(0.75, 0.1, 1e-1, delta)
    ) / math.log(10)
    where = f"n = {n} at P(y = 1) = {p}, eps_g = {goal}, epsilon = {epsilon}, delta = {delta}"
    return Evidence(
        ClaimVerdict.UNDERSPECIFIED if growth <= 2 and privacy <= 1.05 else ClaimVerdict.FAILS,
        text=(
            f"C >= {constant:.3g} is needed: {where}; slopes in 1/eps_g {growth:.2f}, in 1/epsilon "
            f"{privacy:.2f}"
        ),
        method="exact sums over one-dimensional problems",
        numbers={"C at least": constant, "slope in 1/eps_g": growth, "slope in 1/epsilon": privacy},
        at={"delta": delta, "p": p, "eps_g": goal, "epsilon": epsilon},
    )


@claim(
    "CM-10",
    kind="certificate",
    source="Chaudhuri and Monteleoni 2008, section 3.1",
    statement="Every point of D_d(gamma) has norm 1",
    formula="gamma^2 + (d - 1) (1 - gamma^2) / (d - 1) = 1",
)
def points_have_norm_one(effort: Effort) -> Evidence:
    """x_1 is +-gamma, and d - 1 coordinates are +-sqrt((1 - gamma^2) / (d - 1)). The printed size
    of the support, 2d, reads 2^d.
    """
    gamma, d = sympy.symbols("gamma d", positive=True)
    return identities(
        gamma**2 + (d - 1) * sympy.sqrt((1 - gamma**2) / (d - 1)) ** 2 - 1,
        text="the squared norm is 1 for all gamma and d",
    )


def wrong_side(
    records: Ball,
    *,
    epsilon: float = 0.2,
    gamma: float = 1e-3,
    dimension: int = 10,
    cells: int = 256,
) -> Ball:
    """Return a lower bound on the test error of Algorithm 2 on D_d(gamma) with the printed noise:
    P(b_1 > n gamma) / 2.

    In the first coordinate the data contribute (1/n) sum |x_1| s_i <= gamma and the noise -b_1 / n.
    If b_1 > n gamma, the released w_1 is negative, and since the other coordinates are symmetric
    the error is at least 1/2. b_1 = X u with X ~ Exp(epsilon / sqrt(2)) and u a coordinate of a
    uniform unit vector, density (1 - u^2)^((d - 3) / 2) / B(1/2, (d - 1) / 2). The integral is a
    Riemann sum in balls.
    """
    reach = records * gamma * epsilon / arb(2).sqrt()
    area = arb(dimension) / 2
    density = area.gamma() / (arb.pi().sqrt() * (area - arb(0.5)).gamma())
    total = arb(0)
    # The cell at u = 0 is left out: its lower bound is 0. P(X > n gamma / u) increases in u.
    for k in range(1, cells):
        u, next_u = arb(k) / cells, arb(k + 1) / cells
        total += (
            (-reach / u).exp()
            * (1 - next_u * next_u).nonnegative_part() ** (area - arb(1.5))
            / cells
        )
    return density * total / 2


@certificate(
    "CM-10-errors",
    source="Chaudhuri and Monteleoni 2008, section 5 and figure 1 (c): d = 10, gamma = 0.001, "
    "epsilon = 0.2, lambda = gamma^2",
    statement="On D_10(0.001) Algorithm 2 has a test error similar to logistic regression's: at "
    "most 0.05, the top of figure 1 (c)",
    formula="E[test error of Algorithm 2] <= 0.05 for n up to 700",
    domain=Box(records=(100.0, 700.0)),
    reach=4.3438624,
)
def algorithm_2_learns_the_example(records: Ball) -> Enclosure:
    """`wrong_side` bounds the error from below whatever the data and the solver; the error is at
    most 1.
    """
    claimed = arb("0.05")
    return Enclosure(
        enclose(excess(wrong_side(records), claimed)).lower, enclose(excess(arb(1), claimed)).upper
    )


@claim(
    "CM-10-order",
    kind="experiment",
    source="Chaudhuri and Monteleoni 2008, section 5 and figure 1 (b): d = 10, gamma = 0.001, "
    "epsilon = 0.2, lambda = gamma^2",
    statement="On D_10(0.001) Algorithm 2 has a smaller test error than Algorithm 1",
    formula="E[error of Algorithm 2 - error of Algorithm 1] <= 0, noise as printed",
    domain=Box(records=(10, 2000)),
)
def algorithm_2_beats_algorithm_1(effort: Effort, records: float = 700) -> Evidence:
    """Each run draws its own data and both noises; the test error is exact, over the 2^9 points
    times their labels.
    """
    n, d, gamma, epsilon = int(records), 10, 1e-3, 0.2
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * (d - 1))).reshape(d - 1, -1).T
    points = np.column_stack(
        [np.full(len(corners), gamma), corners * math.sqrt((1 - gamma**2) / (d - 1))]
    )
    first = LogisticOutputPerturbation(
        epsilon, gamma**2, noise="laplace_radius_std", dimension=d, records=n
    )
    second = LogisticObjectivePerturbation(
        epsilon, gamma**2, noise="laplace_radius_std", dimension=d, records=n
    )

    def difference(size: int, rng: np.random.Generator) -> FloatArray:
        found = np.empty(size)
        for i in range(size):
            data = hypercube(n, d, gamma, rng)
            w1, w2 = first.sample(data, 1, rng)[0], second.sample(data, 1, rng)[0]
            found[i] = np.mean(points @ w2 < 0) - np.mean(points @ w1 < 0)
        return found

    return measured(
        effort,
        difference,
        MeanBound(0.0, low=-1.0, high=1.0),
        runs=effort.of(300, 60),
        reported="error of Algorithm 2 - error of Algorithm 1",
        at={"records": n},
    )
