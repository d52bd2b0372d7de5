"""Claims of Minami et al.: their numbers from first principles, and mutations that turn them."""

import numpy as np
import pytest

from dpwitness.mechanisms import PrivateRidge
from dpwitness.proofs_checks.engine import ClaimVerdict, check, interval, times

HOLDS, FAILS = ClaimVerdict.HOLDS, ClaimVerdict.FAILS


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
    mechanism = PrivateRidge(0.1, 0.0, 1.0, 100.0, 1, 10**6)
    pair, w = mechanism.worst_pair("bulk"), np.array([[-1.0]])
    density = float(mechanism.log_density(w, pair.d0)[0] - mechanism.log_density(w, pair.d1)[0])
    assert density / 0.1 == pytest.approx(numbers["loss over epsilon"], rel=1e-6)
    limit = check(
        "MN-03-bulk", epsilon=0.01, n_lambda=0.0, label_ratio=1000.0
    ).evidence.enclosure.lower
    assert 0.12 < limit < 0.125
    # the witness is 0.926 of the promise
