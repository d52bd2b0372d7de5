"""Claims of Minami et al.: their numbers from first principles, and mutations that turn them."""

import math

import numpy as np
import pytest
from flint import arb

from dpwitness.mechanisms import PrivateRidge
from dpwitness.proofs_checks import ClaimVerdict, check, enclose
from dpwitness.proofs_checks.claims.aggregation_claims import first_step_excess, step_fails
from dpwitness.proofs_checks.claims.ridge_claims import _gradient_at_closed_form, price_constant
from dpwitness.proofs_checks.engine.enclosures import interval, times
from dpwitness.proofs_checks.engine.evidence import identities, unsatisfiable

HOLDS, FAILS, OPEN = ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.INCONCLUSIVE


def test_products_of_ends():
    ball = times(interval(0.01, 10.0), interval(1.0, 1e6))
    assert ball >= 0 and float(ball.upper()) == pytest.approx(1e7, rel=1e-6)
    assert float(times(interval(2.0, 3.0), interval(5.0, 7.0)).lower()) == pytest.approx(
        10, rel=1e-6
    )


def test_the_tail_grows_with_the_output():
    """MN-03's witness output by the mechanism's density: multiple x epsilon and more, for each
    multiple, B and Y.
    """
    for epsilon, n_lambda, radius, labels, multiple in (
        (1.0, 0.1, 1.0, 1.0, 1.0),
        (0.1, 0.0, 3.0, 20.0, 50.0),
        (5.0, 10.0, 1.0, 0.1, 1e3),
    ):
        ridge = PrivateRidge(epsilon, n_lambda, radius, labels, 1, 1)
        pair = ridge.worst_pair()
        w = np.array([[labels + 2 * (radius + labels) * (multiple + 1)]])
        loss = float(ridge.log_density(w, pair.d0)[0] - ridge.log_density(w, pair.d1)[0])
        found = check(
            "MN-03", epsilon=epsilon, n_lambda=n_lambda, multiple=multiple
        ).evidence.enclosure.lower
        assert loss > multiple * epsilon
        assert found <= loss / (multiple * epsilon) - 1 + 1e-12


def test_the_bulk_inside_theta():
    """Ledger: 1.10992 at epsilon = 0.1, Y = 100; and the limit 9/8 as epsilon -> 0, Y / B ->
    infinity.
    """
    numbers = check("MN-03-W13").evidence.numbers
    assert numbers["loss over epsilon"] == pytest.approx(1.1099, abs=1e-4)
    mechanism = PrivateRidge(0.1, 0.0, 1.0, 100.0, 1, 10**6)
    pair, w = mechanism.worst_pair("bulk"), np.array([[-1.0]])
    density = float(mechanism.log_density(w, pair.d0)[0] - mechanism.log_density(w, pair.d1)[0])
    assert density / 0.1 == pytest.approx(numbers["loss over epsilon"], rel=1e-6)
    limit = check(
        "MN-03-bulk", epsilon=0.01, n_lambda=0.0, label_ratio=1000.0
    ).evidence.enclosure.lower
    assert 0.12 < limit < 0.125
    # the witness is 0.926 of the promise
    assert check("MN-03-bulk", epsilon=1.0, n_lambda=0.0, label_ratio=1.0).claim_verdict is OPEN


def test_the_constant_of_the_price():
    assert price_constant(3, 1.0, 1.0) == pytest.approx(3 * 4 * 16 / 8 + 0.5)
    found = check("MN-06").evidence.numbers
    assert found["exact price over bound"] == pytest.approx(1, abs=1e-12) and found[
        "measured price over bound"
    ] == pytest.approx(1, abs=0.03)
    assert check("MN-06", quick=True, p=5, epsilon=0.3).claim_verdict is ClaimVerdict.UNDERSPECIFIED


def test_labels_need_a_bound():
    """1000 normals: the largest exceeds 4.0497 in size with probability 0.05; 2000 batches, six
    standard errors.
    """
    bound = check("MN-03-labels").evidence.numbers["Y - B"]
    largest = np.abs(np.random.default_rng(0).standard_normal((2000, 1000))).max(axis=1)
    assert abs(np.mean(largest > bound) - 0.05) < 6 * math.sqrt(0.05 * 0.95 / 2000)
    assert check("MN-03-labels", records=10**6).evidence.numbers["Y - B"] > bound


def test_the_oracle_inequality():
    assert 0.9 < check("MN-05").evidence.numbers["share of the bound"] < 1
    outside = check("MN-05-outside", first=3.0, second=20.0).evidence.enclosure.lower + 1
    assert outside == pytest.approx(
        (11.5**2 - 9) / (8 * math.log(2)), rel=1e-9
    ) and outside == pytest.approx(22.2, abs=0.05)


def test_wrong_constants_turn_certificates(mutated):
    assert (
        mutated(
            "MN-05-cited", function=lambda effort: unsatisfiable(effort, step_fails(7.9), text="")
        )
        is FAILS
    )
    assert (
        mutated(
            "MN-05-cited", function=lambda effort: unsatisfiable(effort, step_fails(8.1), text="")
        )
        is ClaimVerdict.INCONCLUSIVE
    )  # true, but not what is stated
    assert (
        mutated(
            "MN-03-repair",
            function=lambda epsilon: enclose((epsilon / 2).log1p() / epsilon - arb("0.45")),
        )
        is FAILS
    )
    assert (
        mutated(
            "MN-02", function=lambda epsilon: enclose((epsilon / 2) / (epsilon / arb("2.1")) - 1)
        )
        is FAILS
    )
    assert (
        mutated(
            "MN-06-price", function=lambda share: enclose(arb("1.01") - (1 - 2 * share) ** 2 - 1)
        )
        is FAILS
    )
    # too cold: the weights follow the noise
    assert check("MN-05", quick=True, factor=0.1).claim_verdict is FAILS


def test_the_other_sign_turns_the_closed_form(mutated):
    for id, sign, verdict in (("MN-01", -1, HOLDS), ("MN-01-repair", +1, FAILS)):
        assert (
            mutated(
                id,
                function=lambda effort, sign=sign: identities(
                    *_gradient_at_closed_form(sign), text=""
                ),
            )
            is verdict
        )


def test_one_record_and_one_estimate_are_not_averaged():
    assert first_step_excess(arb(0), arb(1)).upper < 0
    assert check("MN-04", records=1).claim_verdict is FAILS
