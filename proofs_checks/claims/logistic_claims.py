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

Claims on the sensitivity of a minimizer, and on noise added to the minimizer: Chaudhuri and
Monteleoni (2008), Lemma 1 to Theorem 1.

Notation: records v = y x with |v| <= 1, s = sigmoid(-w.v), N = n lambda; the gradient of a record's
loss is -v s.
"""

from __future__ import annotations

import itertools
import math

from flint import arb

from dpwitness.auditors.audit.audit import audit
from dpwitness.mechanisms import LogisticOutputPerturbation
from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    Effort,
    Enclosure,
    Evidence,
    audited,
    certificate,
    claim,
    enclose,
    excess,
    free,
    log1p_remainder,
    supremum_of,
    times,
    twice,
    unsatisfiable,
    z3,
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


def rate_and_curvature(epsilon: Ball, *, rate: Ball, moved: int) -> Enclosure:
    """Enclose the relative excess of the privacy loss for noise of rate `rate` epsilon that moves
    by `moved`, in units of the bound on a gradient.

    The ratio of the determinants is 1 + 1 / ridge. The least ridge is 2 / epsilon, in units of the
    bound on the curvature.
    """

    def plain(epsilon: Ball) -> Ball:
        least = 2 / epsilon
        return excess(rate * epsilon * moved + ((1 + least) / least).log(), epsilon)

    return enclose(
        twice(lambda epsilon: (epsilon / 2).log1p() / epsilon + rate * moved - 1, plain, epsilon)
    )


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
    return enclose((1 / ((1 / epsilon) / arb(2).sqrt())) / epsilon - 1)


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
    return supremum_of(
        lambda u, epsilon, n_lambda: objective_excess(u, epsilon * n_lambda / 2 - 1, 1 / n_lambda),
        lambda u, epsilon, n_lambda: objective_loss(1 - u, epsilon / 2, n_lambda) / epsilon - 1,
        epsilon,
        n_lambda,
    )


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
    return supremum_of(
        lambda u, epsilon, surplus: objective_excess(u, surplus, epsilon / (2 * (1 + surplus))),
        lambda u, epsilon, surplus: (
            objective_loss(1 - u, epsilon / 2, (1 + surplus) * (2 / epsilon)) / epsilon - 1
        ),
        epsilon,
        surplus,
    )


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
    terms = itertools.accumulate(range(1, 5), lambda term, k: term * t / k, initial=arb(1))
    return enclose(delta * sum(terms, arb(0)) - 1)


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
        return objective_loss(s, (epsilon - 2 * correction(n_lambda)) / 2, n_lambda) / epsilon - 1

    def second(s: Ball, epsilon: Ball) -> Ball:
        rest = (1 - s).nonnegative_part()
        return (1 + s) / 4 - 1 + (s * rest * (epsilon / 4).expm1() / c).log1p() / epsilon

    def plain_second(s: Ball, epsilon: Ball) -> Ball:
        budget, n_lambda = epsilon / 2, c / ((epsilon / 4).exp() - 1)
        return objective_loss(s, budget / 2, n_lambda) / epsilon - 1

    remaining = epsilon - 2 * correction(n_lambda)
    if remaining > 0:
        return supremum_of(first, plain_first, epsilon, n_lambda)
    more_ridge = supremum_of(second, plain_second, epsilon)
    if remaining <= 0:
        return more_ridge
    return supremum_of(first, plain_first, epsilon, n_lambda).union(more_ridge)


PEAK = arb(-1).exp().lambertw()  # max_t t sigmoid(-t) = W(1/e) = 0.2784..., at t = 1 + W(1/e)
BEND = 1 + PEAK  # the maximizer t of PEAK: sigmoid(BEND) = 1 / (1 + 1 / PEAK)


@claim(
    "CM-03",
    kind="certificate",
    source="Chaudhuri and Monteleoni 2008, Lemma 1",
    statement="Adding g to a G of strong convexity G2 moves the minimiser by at most max |grad g| "
    "/ G2",
    formula="|w1 - w2| <= g1 / G2",
)
def minimiser_moves_little(effort: Effort) -> Evidence:
    """Let r = |w2 - w1| and c = <grad g(w2), w2 - w1>.

    Strong convexity gives <grad G(w2) - grad G(w1), w2 - w1> >= G2 r^2, where grad G(w1) = 0 and
    grad G(w2) = -grad g(w2): so G2 r^2 <= -c. Cauchy and Schwarz give c >= -g1 r. Over the reals no
    r > g1 / G2 satisfies both. Neither step needs g to be convex; the lemma asks for it only so
    that w2 is a stationary point.
    """
    r, c, g1, g2 = z3.Reals("r c g1 G2")
    return unsatisfiable(
        effort,
        [g1 >= 0, g2 > 0, g2 * r * r <= -c, c >= -g1 * r, r * g2 > g1],
        text="no distance above g1 / G2 satisfies strong convexity and Cauchy-Schwarz",
        where=[[g1 > 0]],
    )


def shift_excess(n_lambda: Ball, constant: Ball) -> Enclosure:
    """Enclose the largest shift of the logistic minimizer in d >= 2, over all n at this N = n
    lambda, relative to constant / N.

    Upper bound: by CM-03 the shift is at most |v s - v' s'| / N <= (s + s') / N at one w, where s
    and s' are each 1 - `lost`. Lower bound, witness W2: K records (t, 0) and a changed one, (-k/W,
    b) against (-k/W, -b) with b = sqrt(1 - k^2/W^2). The minimizers mirror each other, (u, h) and
    (u, -h), and stationarity reads N h = b s and N u = K t sigmoid(-t u) - (k/W) s at s = sigmoid(k
    u / W - b h). For K large enough some t in (0, 1] solves the second equation with u = W, since t
    sigmoid(-t W) is continuous and 0 at t = 0. There b h <= 1 / N, so the shift 2 h is at least 2 b
    sigmoid(k - 1/N) / N. Both k - 1/N and W / k can be arbitrarily large, so b and the sigmoid are
    arbitrarily close to 1.
    """

    def plain(lost: Ball) -> Ball:
        s = 1 - lost
        # |v s - v' s'| at opposite unit records, the same s for both
        return excess(s + s, constant)

    above = supremum_of(
        lambda lost: (2 - constant) / constant - (2 * lost / constant).nonnegative_part(), plain
    )
    return Enclosure(enclose(excess(held_shift(n_lambda), constant)).lower, above.upper)


def held_shift(n_lambda: Ball) -> Ball:
    """Return a lower bound of N times the shift of witness W2, and verify the stationarity
    condition N h = b s of the witness.
    """
    b = s = 1 - free(1e-9)

    def plain(n_lambda: Ball) -> Ball:
        h = b * s / n_lambda
        return n_lambda * abs(h - (-h))

    return twice(lambda n_lambda: 2 * b * s, plain, n_lambda)


@certificate(
    "CM-04",
    source="Chaudhuri and Monteleoni 2008, Corollary 2, d >= 2",
    statement="The minimiser of regularised logistic regression moves by at most 2 / (n lambda)",
    formula="sup |w*(D) - w*(D')| n lambda <= 2",
    domain=Box(n_lambda=(1e-3, 1e3)),
    depends=("CM-03",),
    reach=1.0,
)
def logistic_minimiser_moves_little(n_lambda: Ball) -> Enclosure:
    """Both ends are those of `shift_excess`: the constant 2 is approached at every n lambda, by
    pairs with many records.
    """
    return shift_excess(n_lambda, arb(2))


def line_excess(w: Ball, constant: Ball) -> Enclosure:
    """Enclose the upper bound of the shift in one dimension relative to constant / N: (sigmoid(w) +
    max_v v sigmoid(-w v)) / constant - 1.

    By CM-03 the shift is at most |v s - v' s'| / N at either minimizer w; choose the axis so that w
    >= 0. The smallest v s is -sigmoid(w), at v = -1. The largest v s is at v = 1 if w <= 1 +
    W(1/e), and both terms then add up to 1. For larger w the largest v s is W(1/e) / w, at w v = 1
    + W(1/e).
    """

    def form(w: Ball) -> Ball:
        near, far = arb(1), 1 / (1 + (-w).exp()) + PEAK / w
        return excess(near if w <= BEND else far if w >= BEND else near.union(far), constant)

    def plain(w: Ball) -> Ball:
        v = BEND / w.max(BEND)
        return excess(1 / (1 + (-w).exp()) + v / (1 + (w * v).exp()), constant)

    return enclose(twice(form, plain, w))


LINE_SHIFT = 2 * arb("0.526")  # bound of the shift that CM-04-line proves, in units of 1 / N
LINE = Box(w=(0.0, 40.0))


@certificate(
    "CM-04-line",
    source="Chaudhuri and Monteleoni 2008, Corollary 2, d = 1",
    statement="On the line the minimiser moves by at most 0.526 times what Corollary 2 says",
    formula="max_w sigmoid(w) + max_v v sigmoid(-w v) <= 2 x 0.526",
    domain=LINE,
    depends=("CM-03",),
    reach=0.99997396,
)
def minimiser_on_the_line_moves_half_as_much(w: Ball) -> Enclosure:
    """`line_excess` bounds the shift; for w > 40 it is less than 1 + 0.279 / 40 of the 1.052
    promised.
    """
    return line_excess(w, LINE_SHIFT)


@certificate(
    "CM-05-line",
    source="Chaudhuri and Monteleoni 2008, Theorem 1, d = 1, noise as printed: a Laplace law of "
    "standard deviation 2 / (n epsilon lambda)",
    statement="Algorithm 1 is epsilon-DP on the line",
    formula="sqrt(2) (max_w sigmoid(w) + max_v v sigmoid(-w v)) / 2 <= 1",
    domain=LINE,
    depends=("CM-03",),
    reach=0.81099029,
)
def printed_noise_on_the_line_is_private(w: Ball) -> Enclosure:
    """The noise has the rate n epsilon lambda / sqrt(2): a shift of x 2 / (n lambda) costs sqrt(2)
    x epsilon.

    The standard deviation is too small by sqrt(2) (CM-02), but on the line x is at most 0.526
    (`line_excess`; w > 40 as in CM-04-line).
    """
    return line_excess(w, arb(2).sqrt())


def singular_excess(
    *, epsilon: Ball, dimension: Ball, multiple: Ball, shift: Ball, spread: Ball, jacobian: Ball
) -> Enclosure:
    """Bound the privacy loss of a ball event under noise of radius Exp(c) in d dimensions from
    below, relative to multiple x epsilon.

    Noise b of uniform direction with |b| ~ Exp(c) has the density c exp(-c |b|) / (A_d |b|^(d-1)),
    A_d = d V_d. The event is the set of outputs w that need |b| <= rho under D; its probability is
    1 - exp(-c rho). Under D' these outputs need noise b' = b + shift(w) with
    |b'| >= |shift| - spread rho (spread = 1 if the output is w* + b), from a set of volume at most exp(jacobian) V_d rho^d. With
    rho = r |shift|, x = c |shift| (the parameter `shift`, in units of 1/c) and log((1 - exp(-y)) /
    y) >= -y / 2, the log-ratio of the probabilities is at least

        log d + (d - 1) log((1 - spread r) / r) - jacobian + x (1 - spread r) - x r / 2,

    which is unbounded as r -> 0, so epsilon is infinite. At r = 1 / (spread + e^T) the logarithm is
    T, and T = (multiple epsilon + jacobian) / (d - 1) leaves log d + x (1 - (spread + 1/2) r) above
    multiple x epsilon.
    """  # noqa: E501

    def form(
        epsilon: Ball, dimension: Ball, multiple: Ball, shift: Ball, spread: Ball, jacobian: Ball
    ) -> Ball:
        least = times(times(multiple, epsilon) + jacobian, 1 / (dimension - 1)).lower()
        decay = (-least.nonnegative_part()).exp()  # e^-T at the least T
        r = ((1 - 1 / (1 + spread * decay)) / spread).upper()
        return times(
            dimension.log() + times(shift, 1 - (spread + arb(0.5)) * r),
            1 / times(multiple, epsilon),
        )

    def plain(
        epsilon: Ball, dimension: Ball, multiple: Ball, shift: Ball, spread: Ball, jacobian: Ball
    ) -> Ball:
        r = 1 / (spread + ((multiple * epsilon + jacobian) / (dimension - 1)).exp())
        found = (
            dimension.log()
            + (dimension - 1) * ((1 - spread * r) / r).log()
            - jacobian
            + shift * (1 - spread * r)
            - shift * r / 2
        )
        return excess(found, multiple * epsilon)

    found = enclose(twice(form, plain, epsilon, dimension, multiple, shift, spread, jacobian))
    return Enclosure(found.lower, math.inf)


@certificate(
    "CM-05",
    source="Chaudhuri and Monteleoni 2008, Theorem 1, d >= 2, noise as printed: a Laplace radius "
    "and a uniform direction",
    statement="Algorithm 1 is (multiple x epsilon)-DP for some multiple; the theorem says multiple "
    "= 1",
    formula="log P[|w - w*(D)| <= rho | D] / P[... | D'] <= multiple x epsilon for all rho > 0",
    domain=Box(
        epsilon=(1e-2, 10.0), dimension=(2.0, 100.0), shift=(1e-6, 1e2), multiple=(1.0, 1e6)
    ),
    reach=2961.8958,
)
def printed_output_noise_is_private(
    epsilon: Ball, dimension: Ball, shift: Ball, multiple: Ball
) -> Enclosure:
    """The density is unbounded at w*(D), so every pair with w*(D) != w*(D') breaks every multiple:
    `singular_excess`, spread 1.

    `shift` is the distance of the minimisers times the noise's rate, whichever reading of the
    printed scale that has.
    """
    return singular_excess(
        epsilon=epsilon,
        dimension=dimension,
        multiple=multiple,
        shift=shift,
        spread=arb(1),
        jacobian=arb(0),
    )


@claim(
    "CM-05-event",
    kind="counterexample",
    source="Chaudhuri and Monteleoni 2008, Theorem 1, d = 2, noise as printed",
    statement="Algorithm 1 is epsilon-DP for one record e1 against -e1, witness W1",
    formula="P[w in S | D] <= exp(epsilon) P[w in S | D']",
    domain=Box(epsilon=(1e-2, 3.0), regularization=(1e-3, 1e3)),
    depends=("CM-05",),
)
def printed_output_noise_survives_runs(
    effort: Effort, epsilon: float = 0.2, regularization: float = 10.0
) -> Evidence:
    """A black-box audit of the mechanism as printed: it is told the pair, finds an event on some
    runs and counts it on others.
    """
    mechanism = LogisticOutputPerturbation(
        epsilon, regularization, noise="laplace_radius_std", dimension=2, records=1
    )
    result = audit(
        mechanism,
        claim=mechanism.claim,
        pair=mechanism.worst_pair(),
        trials=effort.of(400_000, 100_000),
        confidence=1 - 1e-6,
        seed=effort.seed,
    )
    return audited(
        result,
        numbers={"epsilon_lower": result.epsilon_lower},
        at={"epsilon": epsilon, "regularization": regularization},
    )


@certificate(
    "CM-05-repair",
    source="Chaudhuri and Monteleoni 2008, Theorem 1, d >= 2, with a Gamma(d) radius of scale 2 / "
    "(n epsilon lambda)",
    statement="Algorithm 1 with noise of density proportional to exp(-n epsilon lambda |b| / 2) is "
    "epsilon-DP",
    formula="(n epsilon lambda / 2) sup |w*(D) - w*(D')| <= epsilon",
    domain=Box(n_lambda=(1e-3, 1e3)),
    repairs="CM-05",
    depends=("CM-04",),
    reach=1.0,
)
def gamma_output_noise_is_private(n_lambda: Ball) -> Enclosure:
    """The log-ratio is rate x (|w - w*(D')| - |w - w*(D)|), at most rate x the shift, reached on
    the ray beyond: epsilon cancels.
    """
    return shift_excess(n_lambda, 1 / arb(0.5))
