"""Claims on noise added to the objective: Chaudhuri and Monteleoni (2008), Theorems 2 and 3, their
witnesses and their experiments.

Notation as in `logistic_claims`: N = n lambda, s = sigmoid(-w.v), noise b = -N w + sum v_i s_i,
Jacobian N I + sum s_i (1 - s_i) v_i v_i^T.
"""

from __future__ import annotations

from flint import arb

from dpwitness.auditors import certify, search
from dpwitness.mechanisms import (
    ConvexObjectivePerturbation,
    InvalidArgument,
    LogisticObjectivePerturbation,
    Loss,
)
from dpwitness.mechanisms.papers.logistic import QuadraticPenalty
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
    twice,
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
