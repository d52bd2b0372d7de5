"""Claims on output and objective perturbation with Gamma noise, reduced to a few parameters and
decided over boxes.

Chaudhuri and Monteleoni (2008); Chaudhuri, Monteleoni and Sarwate (2011); the objective
perturbation of the generalized linear models paper (JT).

Notation of the objective-perturbation proofs: outputs w, records v = y x with |v| <= 1, s =
sigmoid(-w.v) in (0, 1), u = 1 - s. For fixed w, the noise that yields w is b = -n lambda w + sum
v_i s_i, with the Jacobian n lambda I + sum s_i (1 - s_i) v_i v_i^T. Replacing v by v' changes b by
v s - v' s', of norm at most s + s' <= 1 + s. With A = n lambda I + the common terms, the
determinants' ratio is (1 + s(1-s) v.A^-1 v) / (1 + s'(1-s') v'.A^-1 v') <= 1 + s (1 - s) / (n
lambda). So noise of density exp(-c |b|) has privacy loss at most c (1 + s) + log(1 + s (1 - s) / (n
lambda)). In d >= 2 a sequence of pairs approaches the maximum over s (witness W4): other records
keep w at a large norm with a given w.v and w.v' -> -infinity, directions opposed.
"""

from __future__ import annotations

from flint import arb

from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    Enclosure,
    certificate,
    enclose,
    log1p_remainder,
    supremum_of,
    twice,
)

CURVATURE = arb(0.25)  # largest second derivative of the logistic loss


def objective_loss(s: Ball, rate: Ball, n_lambda: Ball) -> Ball:
    """Return the bound of this module's docstring on the privacy loss at one s, for noise of rate
    `rate`.
    """
    return rate * (1 + s) + (s * (1 - s) / n_lambda).log1p()


def objective_excess(u: Ball, surplus: Ball, inverse: Ball) -> Ball:
    """Enclose privacy loss / epsilon - 1 of objective perturbation with noise rate epsilon / 2, at
    s = 1 - u.

    Write a = 1 / (n lambda), surplus = epsilon n lambda / 2 - 1, and log(1 + y) = y - y^2 h(y) at y
    = u (1 - u) a. Then loss - epsilon = -epsilon u / 2 + log(1 + y) = -a u [u + surplus + u (1 -
    u)^2 a h], and epsilon = 2 a (1 + surplus). If surplus >= 0, every term is non-negative, so the
    negative part of each ball can be removed.
    """
    rest = (1 - u).nonnegative_part()
    curved = (u * rest * rest * inverse * log1p_remainder(u * rest * inverse)).nonnegative_part()
    slack = u + surplus + curved
    if surplus >= 0:
        return -((u * slack.nonnegative_part()) / (2 * (1 + surplus))).nonnegative_part()
    return -u * slack / (2 * (1 + surplus))


@certificate(
    "CM-01",
    source="Chaudhuri and Monteleoni 2008, Definition 1 as printed",
    statement="An epsilon-DP mechanism has probability ratios at most 1 + epsilon",
    formula="P[M(D) in S] <= (1 + epsilon) P[M(D') in S]",
    domain=Box(epsilon=(1e-2, 10.0)),
    reach=2002.406,
)
def ratio_is_at_most_one_plus_epsilon(epsilon: Ball) -> Enclosure:
    """The Laplace mechanism of scale S / epsilon has the ratio exp(epsilon) on a half-line: excess
    exp(epsilon) / (1 + epsilon) - 1.
    """
    return enclose(
        twice(lambda e: (e.expm1() - e) / (1 + e), lambda e: e.exp() / (1 + e) - 1, epsilon)
    )


@certificate(
    "CM-02",
    source="Chaudhuri and Monteleoni 2008, section 2",
    statement="Laplace noise of standard deviation S / epsilon is epsilon-DP",
    formula="b = S / (sqrt(2) epsilon) => S / b <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0)),
    reach=1.4142136,
)
def laplace_of_standard_deviation_is_private(epsilon: Ball) -> Enclosure:
    """Laplace noise of scale b has largest loss S / b, reached on a half-line; its standard
    deviation is sqrt(2) b.
    """
    scale = (1 / epsilon) / arb(2).sqrt()
    return enclose((1 / scale) / epsilon - 1)


@certificate(
    "CM-06",
    source="Chaudhuri and Monteleoni 2008, Theorem 2",
    statement="Objective perturbation with Gamma noise of rate epsilon / 2 is epsilon-DP in d >= "
    "2, for every n lambda",
    formula="max_s epsilon (1 + s) / 2 + log(1 + s (1 - s) / (n lambda)) <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0), n_lambda=(1e-3, 1e3)),
    reach=553.29529,
)
def objective_perturbation_is_private(epsilon: Ball, n_lambda: Ball) -> Enclosure:
    """Worst case over pairs, outputs and all n at this n lambda: the maximum over s of the module's
    bound, which is approached.
    """

    def form(u: Ball, epsilon: Ball, n_lambda: Ball) -> Ball:
        return objective_excess(u, epsilon * n_lambda / 2 - 1, 1 / n_lambda)

    def plain(u: Ball, epsilon: Ball, n_lambda: Ball) -> Ball:
        return objective_loss(1 - u, epsilon / 2, n_lambda) / epsilon - 1

    return supremum_of(form, plain, epsilon, n_lambda)


@certificate(
    "CM-06-repair",
    source="Chaudhuri and Monteleoni 2008, Theorem 2, with the condition n lambda >= 2 / epsilon",
    statement="Objective perturbation with Gamma noise of rate epsilon / 2 is epsilon-DP: epsilon "
    "n lambda / 2 = 1 + surplus, surplus >= 0",
    formula="n lambda >= 2 / epsilon => max_s epsilon (1 + s) / 2 + log(1 + s (1 - s) / (n "
    "lambda)) <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0), surplus=(0.0, 1e3)),
    repairs="CM-06",
    reach=1.0,
)
def objective_perturbation_is_private_when_regularized(epsilon: Ball, surplus: Ball) -> Enclosure:
    """The same maximum with n lambda = 2 (1 + surplus) / epsilon; s = 1 reaches epsilon, so no
    smaller budget is true.
    """

    def form(u: Ball, epsilon: Ball, surplus: Ball) -> Ball:
        return objective_excess(u, surplus, epsilon / (2 * (1 + surplus)))

    def plain(u: Ball, epsilon: Ball, surplus: Ball) -> Ball:
        return objective_loss(1 - u, epsilon / 2, (1 + surplus) * (2 / epsilon)) / epsilon - 1

    return supremum_of(form, plain, epsilon, surplus)


@certificate(
    "CM-08",
    source="Chaudhuri and Monteleoni 2008, Lemma 3, noise as printed: a Laplace radius of standard "
    "deviation 2 / epsilon",
    statement="fhat(w2) <= fhat(w1) + 8 log(1/delta)^2 / (lambda n^2 epsilon^2) with probability 1 "
    "- delta",
    formula="P(epsilon |b| > 4 log(1/delta)) <= delta",
    domain=Box(delta=(1e-9, 0.5)),
    reach=0.28157149,
)
def printed_noise_keeps_the_utility_bound(delta: Ball) -> Enclosure:
    """Lambda-strong convexity gives fhat(w2) - fhat(w1) <= |b|^2 / (2 lambda n^2), so it fails only
    if epsilon |b| > 4 log(1/delta).

    A Laplace radius of standard deviation 2 / epsilon exceeds t / epsilon with probability exp(-t /
    sqrt(2)): excess delta^(4/sqrt(2) - 1) - 1.
    """
    return enclose(((4 / arb(2).sqrt() - 1) * delta.log()).expm1())


@certificate(
    "CM-08-gamma",
    source="Chaudhuri and Monteleoni 2008, Lemma 3, with the Gamma noise that privacy needs, d = 5",
    statement="fhat(w2) <= fhat(w1) + 8 log(1/delta)^2 / (lambda n^2 epsilon^2) with probability 1 "
    "- delta",
    formula="P(epsilon |b| > 4 log(1/delta)) <= delta, |b| ~ Gamma(5, 2 / epsilon)",
    domain=Box(delta=(1e-9, 0.5)),
    reach=4.9892174,
)
def gamma_noise_keeps_the_utility_bound(delta: Ball) -> Enclosure:
    """Records x_i = 0 make the loss constant, w2 = -b / (n lambda), and the bound |b|^2 / (2 lambda
    n^2) an equality.

    So the failure probability is P(|b| > 4 log(1/delta) / epsilon) with |b| Gamma(d, rate epsilon /
    2): exp(-t) sum_{k<d} t^k / k! at t = 2 log(1/delta), and exp(-t) = delta^2.
    """
    t = -2 * delta.log()
    term = total = arb(1)
    for k in range(1, 5):
        term = term * t / k
        total = total + term
    return enclose(delta * total - 1)


@certificate(
    "CM-11",
    source="Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2",
    statement="Gamma noise of rate epsilon'/2 with epsilon' = epsilon - 2 log(1 + 1/(4 n lambda)), "
    "or more regularization, is epsilon-DP",
    formula="max_s epsilon' (1 + s) / 2 + log(1 + s (1 - s) / (n lambda)) <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0), n_lambda=(1e-3, 1e3)),
    repairs="CM-06",
    reach=0.99997788,
)
def corrected_budget_is_private(epsilon: Ball, n_lambda: Ball) -> Enclosure:
    """Both branches of the algorithm; a cell that meets the border between them must
    satisfy both.
    """
    return corrected_budget_excess(epsilon, n_lambda, CURVATURE)


def corrected_budget_excess(epsilon: Ball, n_lambda: Ball, c: Ball) -> Enclosure:
    """Enclose the relative excess of the corrected algorithm if it uses c as the largest curvature.

    Loss - epsilon with rate epsilon'/2 is -(1 - s) epsilon / 2 - (1 + s) log(1 + c a) + log(1 + s
    (1 - s) a), a = 1 / (n lambda). If epsilon' <= 0, the algorithm increases the regularization
    until c a = exp(epsilon/4) - 1 and uses epsilon' = epsilon / 2.
    """

    def correction(n_lambda: Ball) -> Ball:
        return (c / n_lambda).log1p()

    def first(s: Ball, epsilon: Ball, n_lambda: Ball) -> Ball:
        rest = (1 - s).nonnegative_part()
        return (
            -rest / 2 + ((s * rest / n_lambda).log1p() - (1 + s) * correction(n_lambda)) / epsilon
        )

    def plain_first(s: Ball, epsilon: Ball, n_lambda: Ball) -> Ball:
        budget = epsilon - 2 * correction(n_lambda)
        return objective_loss(s, budget / 2, n_lambda) / epsilon - 1

    def second(s: Ball, epsilon: Ball) -> Ball:
        rest = (1 - s).nonnegative_part()
        return (1 + s) / 4 - 1 + (s * rest * (epsilon / 4).expm1() / c).log1p() / epsilon

    def plain_second(s: Ball, epsilon: Ball) -> Ball:
        budget, n_lambda = epsilon / 2, c / ((epsilon / 4).exp() - 1)
        return objective_loss(s, budget / 2, n_lambda) / epsilon - 1

    remaining = epsilon - 2 * correction(n_lambda)
    branches = []
    if not remaining <= 0:
        branches.append(supremum_of(first, plain_first, epsilon, n_lambda))
    if not remaining > 0:
        branches.append(supremum_of(second, plain_second, epsilon))
    return branches[0].union(branches[-1])
