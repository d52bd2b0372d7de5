"""A wrong constant, a dropped term or another domain changes the verdict of a claim."""

import time

import pytest
import sympy
import z3
from flint import arb

from dpwitness.auditors.audit.audit import audit
from dpwitness.mechanisms import LogisticOutputPerturbation
from dpwitness.proofs_checks.claims import interactive_claims, prediction_claims, transfer_claims
from dpwitness.proofs_checks.claims.glm_claims import wide_excess
from dpwitness.proofs_checks.claims.logistic_claims import (
    corrected_budget_excess,
    line_excess,
    shift_excess,
)
from dpwitness.proofs_checks.claims.logistic_objective_claims import gamma_tail
from dpwitness.proofs_checks.claims.ridge_claims import _gradient_at_closed_form, step_fails
from dpwitness.proofs_checks.claims.simplex_claims import renyi_excess, square_root_of_draws
from dpwitness.proofs_checks.claims.transfer_claims import transfer_excess
from dpwitness.proofs_checks.engine import (
    Box,
    ClaimVerdict,
    Effort,
    at_most,
    audited,
    enclose,
    gaussian_excess,
    identities,
    supremum,
    unsatisfiable,
)

HOLDS, TIGHT, FAILS = ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_TIGHT, ClaimVerdict.FAILS
OPEN, PASSED = ClaimVerdict.INCONCLUSIVE, ClaimVerdict.NOT_REFUTED
POINT = {"epsilon": 1.0, "delta": 1e-6}
WORST = Box(w=(0.2, 0.5), v=-1.0, u=(0.1, 0.2))
SMALL = Box(epsilon=(1.0, 10.0), n_lambda=(1e-2, 1.0))
MANY = Box(records=(1e8, 1e9), epsilon=10.0, delta=1e-3, actions=2.0)


def gaussian(per_log, per_epsilon):
    return lambda epsilon, delta: enclose(
        gaussian_excess(epsilon, delta, per_log=per_log, per_epsilon=per_epsilon)
    )


def distance(effort):
    """CM-03 with 0.99 times its bound."""
    r, c, g1, g2 = z3.Reals("r c g1 G2")
    facts = [r >= 0, g1 >= 0, g2 > 0, g2 * r * r <= -c, c >= -g1 * r]
    return unsatisfiable(effort, [*facts, r * g2 > 0.99 * g1], text="")


def norm(effort):
    """CM-10 with d in the place of d - 1."""
    g, d = sympy.symbols("gamma d", positive=True)
    return identities(g**2 + d * sympy.sqrt((1 - g**2) / (d - 1)) ** 2 - 1, text="")


def thinner(w, v, u):
    """CM-06-line-repair with 0.34 in the place of 0.37."""
    s, t = 1 / (1 + (w * v).exp()), 1 / (1 + (w * u).exp())
    curvature = v * v * s * (1 - s) - u * u * t * (1 - t)
    return enclose(abs(v * s - u * t) / 2 + curvature / arb("0.34") - 1)


def budget(epsilon, n_lambda):
    """CM-11 with a curvature of 0.02."""
    return corrected_budget_excess(epsilon, n_lambda, arb(0.02))


def draw(constant, weight, range):
    """JT-10 with another constant."""
    return constant - (weight.nonnegative_part() * range.expm1()).log1p().nonnegative_part() / range


def answers(constant):
    """JK-07-repair with another constant than 200."""

    def excess(epsilon, delta):
        loss, order = 2 * epsilon / (constant * (4 / delta).log()), interactive_claims.ORDER
        return at_most(
            interactive_claims.renyi_bound(
                epsilon, loss, arb(2), delta, 1 - order * delta.log() / epsilon
            )
        )

    return excess


def units(factor):
    """JK-15-repair with another unit."""

    def excess(epsilon, delta):
        root = factor * epsilon / (10 * (4 / delta).log())
        return prediction_claims.zcdp_excess((4 + arb(1) / 32) * root * root, epsilon, delta)

    return excess


def without_unit(epsilon, delta):
    """JT-12-repair with slope 100."""
    digits = -delta.log()
    return at_most(100**2 * epsilon / (128 * digits * digits) + 100 / (32 * digits).sqrt() - 1)


def regret(epsilon, delta, log_p):
    """JT-19-repair with 3 in the place of 4."""
    root = arb(8).sqrt()
    return at_most((root + epsilon * epsilon / (root * -delta.log() * log_p)) / 3 - 1)


def gamma_event(effort, epsilon=0.2, regularization=10.0):
    """CM-05-event with Gamma noise."""
    mechanism = LogisticOutputPerturbation(
        epsilon, regularization, noise="gamma", dimension=2, records=1
    )
    pair = mechanism.worst_pair()
    return audited(audit(mechanism, pair=pair, trials=100_000, confidence=1 - 1e-6, seed=1))


WRONG = [
    ("ZOO-SVT-no-threshold-noise-cost", lambda calls: enclose(calls / 2000 - 1), HOLDS),
    ("CM-03", distance, FAILS),
    ("CM-04", lambda n_lambda: shift_excess(n_lambda, arb("1.999")), FAILS),
    ("CM-04-line", lambda w: line_excess(w, 2 * arb("0.525")), FAILS),
    ("CM-05-line", lambda w: line_excess(w, arb("1.05")), FAILS),
    ("CM-05-repair", lambda n_lambda: shift_excess(n_lambda, 1 / arb("0.501")), FAILS),
    ("CM-06-line", lambda epsilon, n_lambda: enclose(2 * arb("0.526") * arb(0.5) - 1), HOLDS),
    ("CM-07", lambda epsilon, curvature: enclose(arb(0)), TIGHT),
    (
        "CM-07-repair",
        lambda epsilon: enclose(arb("0.6") + (epsilon / 2).log1p() / epsilon - 1),
        FAILS,
    ),
    (
        "CM-08-repair-2011",
        lambda dimension, delta: enclose(gamma_tail(dimension, -2 * delta.log()) / delta - 1),
        FAILS,
    ),
    ("CM-10", norm, FAILS),
    ("JK-10-repair", lambda epsilon, delta: transfer_excess(epsilon, delta, arb(4)), HOLDS),
    ("JK-10-repair", lambda epsilon, delta: transfer_excess(epsilon, delta, arb(4.5)), HOLDS),
    ("JK-10-repair", lambda epsilon, delta: transfer_excess(epsilon, delta, arb(3.5)), OPEN),
    ("JK-15-repair", units(1), HOLDS),
    ("JK-15-repair", units(10), OPEN),
    ("JK-17", lambda loss: enclose(2.5 / (loss.exp() + 1) - 1), FAILS),
    ("JT-10", lambda range: supremum(lambda w: draw(4 / arb(3.9) - 1, w, range)), FAILS),
    ("JT-11", lambda x: at_most((2 + 2 * (1 + 4 * x).sqrt()) / (4 + x) - 1), OPEN),
    ("JT-12-repair", without_unit, OPEN),
    ("JT-15", lambda range: supremum(lambda w: draw(0, w, range)), TIGHT),
    ("JT-16-limit", gaussian(4, 4), HOLDS),
    ("JT-16-moderate", lambda epsilon, delta: renyi_excess(epsilon, delta, arb(0.7)), OPEN),
    (
        "JT-17-repair",
        lambda epsilon, delta, log_p: renyi_excess(epsilon, delta, log_p.sqrt()),
        OPEN,
    ),
    ("JT-19-repair", regret, OPEN),
    ("MN-01", lambda effort: identities(*_gradient_at_closed_form(-1), text=""), HOLDS),
    ("MN-01-repair", lambda effort: identities(*_gradient_at_closed_form(+1), text=""), FAILS),
    ("MN-02", lambda epsilon: enclose(epsilon / 2 / (epsilon / arb("2.1")) - 1), FAILS),
    ("MN-03-repair", lambda epsilon: enclose((epsilon / 2).log1p() / epsilon - arb("0.45")), FAILS),
    ("MN-05-cited", lambda effort: unsatisfiable(effort, step_fails(7.9), text=""), FAILS),
    ("MN-05-cited", lambda effort: unsatisfiable(effort, step_fails(8.1), text=""), OPEN),
    ("MN-06-price", lambda share: enclose(arb("1.01") - (1 - 2 * share) ** 2 - 1), FAILS),
]
SLOW = [
    ("CM-05-event", gamma_event, PASSED),
    ("CM-08", lambda delta: enclose(((arb(0.9) / arb(2).sqrt() - 1) * delta.log()).expm1()), FAILS),
    ("JT-02", lambda share: enclose(2 * share - 1), FAILS),
    ("JT-03", gaussian(1, 1), FAILS),
    ("JT-03-sharper", gaussian(6.1 / 4, 6.1 / 4), FAILS),
    (
        "JT-05-moderate",
        lambda s: enclose(3 * (4 * (2 / arb.pi()).sqrt() + arb(2.5) / s) / 16 - 1),
        FAILS,
    ),
    ("JT-06-repair", lambda epsilon: enclose((epsilon / 2).log1p() / epsilon - arb(0.45)), FAILS),
    ("JT-07", gaussian(4, 4), HOLDS),
    ("JT-07-repair", lambda epsilon, delta: wide_excess(epsilon, delta, 2, 1), OPEN),
]
OTHER_DOMAINS = [
    ("CM-06-line-repair", WORST, {}, HOLDS),
    ("CM-06-line-repair", WORST, {"function": thinner}, FAILS),
    pytest.param("CM-11", SMALL, {}, HOLDS, marks=pytest.mark.slow),
    pytest.param("CM-11", SMALL, {"function": budget}, FAILS, marks=pytest.mark.slow),
    ("JT-13-dominated", MANY, {}, HOLDS),
    (
        "JT-13-dominated",
        MANY,
        {"function": lambda **at: enclose(square_root_of_draws(**at) - 1)},
        FAILS,
    ),
]


@pytest.mark.parametrize(
    ("id", "function", "verdict"),
    [*WRONG, *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW)],
)
def test_a_wrong_constant_changes_the_verdict(id, function, verdict, mutated):
    assert mutated(id, function=function) is verdict


@pytest.mark.parametrize(("id", "domain", "changes", "verdict"), OTHER_DOMAINS)
def test_a_wrong_constant_changes_the_verdict_on_another_domain(
    id, domain, changes, verdict, mutated
):
    assert mutated(id, domain=domain, **changes) is verdict


@pytest.mark.parametrize(
    ("obligation", "verdict"),
    [
        *[
            (lambda at=at: prediction_claims.distance_obligation(*at), FAILS)
            for at in ((1, 1.99), (0.5, 2), (0.99, 2), (0.5, 3.9))
        ],
        *[
            (lambda at=at: prediction_claims.norm_obligation(*at), FAILS)
            for at in ((0.99, True), (1.99, False), (1, False))
        ],
        # at epsilon = 10, delta = .01; a bound refutes nothing
        (lambda: transfer_claims.fit_obligation(2, 1), FAILS),
        (lambda: transfer_claims.fit_obligation(1, 1), HOLDS),
    ],
)
def test_an_obligation_with_a_wrong_constant_is_possible(obligation, verdict):
    effort = Effort(True, 60.0, 0, time.monotonic())
    assert unsatisfiable(effort, obligation(), text="").verdict is verdict


@pytest.mark.parametrize("spread", [True, False])
def test_draws_with_a_wrong_constant_are_possible(spread):
    effort = Effort(True, 60.0, 0, time.monotonic())
    obligations = prediction_claims.draw_obligations(z3.Q(49, 100), spread)
    assert unsatisfiable(effort, *obligations, text="").verdict is FAILS


@pytest.mark.parametrize("factor", [200, 399, 401])
def test_other_factors_are_not_the_theorem(factor):
    box, theorem = prediction_claims.box_and_theorem(factor)
    assert identities(box - theorem, text="").verdict is FAILS


@pytest.mark.parametrize(("constant", "verdict"), [(200, HOLDS), (20, OPEN)])
def test_another_noise_changes_the_verdict_on_interactive_answers(constant, verdict, mutated):
    assert mutated("JK-07-repair", POINT, function=answers(constant)) is verdict
