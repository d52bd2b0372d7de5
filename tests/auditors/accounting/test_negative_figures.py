"""Figures below 0: epsilons that are true, figures that are too low by their sign, and answers that
are not numbers.
"""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpwitness import InvalidArgument
from dpwitness.accounting import audit_accountant

# deltas at which some exact epsilons are negative
LARGE = {"sigma": (0.3, 50), "delta": (0.05, 0.9)}


def divergence(epsilon, sigma):
    """Return the hockey-stick divergence of normal noise, at any epsilon."""
    return norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(
        -0.5 / sigma - epsilon * sigma
    )


def exact(sigma, delta):
    return brentq(
        lambda epsilon: divergence(epsilon, sigma) - delta, -10, 400, xtol=1e-14, rtol=1e-14
    )


def audited(function, returns="epsilon", names=None, ranges=LARGE):
    return audit_accountant(
        function, "gaussian", returns, names, ranges=ranges, evaluations=30, seconds=60
    )


def test_true_negative_epsilons_are_explained():
    found = audited(exact)
    assert found.verdict.value == "NOT_REFUTED"
    assert found.exact == pytest.approx(exact(**found.at), abs=1e-9)
    (note,) = (note for note in found.notes if "negative" in note)
    assert "not too low" in note and "1 - e^epsilon" in note
    assert not any("rounding" in note for note in found.notes)


def test_an_accountant_that_returns_0_instead_is_right_and_not_loose():
    found = audited(lambda sigma, delta: max(exact(sigma, delta), 0.0))
    assert found.verdict.value == "NOT_REFUTED" and found.notes == ()


@pytest.mark.parametrize(
    ("wrong", "deficit"),
    [
        (lambda sigma, delta: exact(sigma, delta) - 1e-6, 1e-6),
        # wrong only where epsilon is negative
        (lambda sigma, delta: min(exact(sigma, delta), 2 * exact(sigma, delta)), None),
        (lambda sigma, delta: -abs(exact(sigma, delta)), None),
        (lambda sigma, delta: math.log1p(-delta), None),  # the infimum over all mechanisms
        (lambda sigma, delta: -2.293, None),
        (lambda sigma, delta: -math.inf, None),
        (lambda sigma, delta: -0.0, None),
    ],
)
def test_negative_epsilons_that_are_too_low(wrong, deficit):
    found = audited(wrong)
    assert found.verdict.value == "VIOLATED", found.headline()
    truth = exact(**found.at)
    assert found.exact == pytest.approx(truth if truth > 0 or found.figure < 0 else 0, abs=1e-9)
    assert deficit is None or found.exact - found.figure == pytest.approx(deficit, rel=1e-3)
    assert any("needs a delta of at least" in note for note in found.notes) == (found.figure < 0)


def test_a_negative_epsilon_where_the_exact_one_is_negative_too():
    found = audited(lambda sigma, delta: -2.293, ranges={"sigma": (40, 50), "delta": (0.5, 0.8)})
    assert found.verdict.value == "VIOLATED"
    assert found.figure == -2.293 < found.exact < math.log(0.5) + 0.1


def test_a_negative_epsilon_at_delta_0_is_too_low():
    found = audit_accountant(
        lambda scale: -2.293, "laplace", "epsilon", ranges={"scale": (1e3, 1e4)}, evaluations=20
    )
    assert (
        found.verdict.value == "VIOLATED"
        and "where the exact one is at least 0.00" in found.headline()
    )


@pytest.mark.parametrize(
    ("returns", "names"),
    [
        ("delta", {"sigma": "sigma", "epsilon": "epsilon"}),
        ("rdp", {"sigma": "sigma", "order": "order"}),
        ("zcdp", {"sigma": "sigma"}),
        ("mu", {"sigma": "sigma"}),
        ("noise", {"epsilon": "epsilon", "delta": "delta"}),
    ],
)
@pytest.mark.parametrize("figure", [-0.3, -1e-11, -math.inf])
def test_other_figures_are_never_negative(returns, names, figure):
    """Deltas of 1e-190 are at most rounding away from 0, but not from -0.3."""
    ranges = {"sigma": (1, 1), "epsilon": (30, 30)} if returns == "delta" else {}
    found = audited(lambda **at: figure, returns, names, ranges)
    assert found.verdict.value == "VIOLATED", found.headline()


def test_the_note_on_rounding_states_the_measured_deficit():
    found = audited(
        lambda sigma, epsilon: -1e-17, "delta", None, {"sigma": (1, 1), "epsilon": (9, 10)}
    )
    assert found.verdict.value == "NOT_REFUTED"
    (note,) = found.notes
    stated = float(note.partition("at most ")[2].split()[0])
    assert 1e-17 < stated <= 1e-15


@pytest.mark.parametrize(
    "answer",
    [
        True,
        np.bool_(True),
        "3",
        b"3",
        3j,
        np.complex128(3),
        np.array(3j),
        None,
        [3.0],
        10**400,
        math.nan,
    ],
)
def test_answers_that_are_not_real_numbers_are_failed_calls(answer):
    found = audited(lambda sigma, delta: answer)
    assert found.verdict.value == "ERROR" and found.failed == 30
    assert "returned" in found.headline()


@pytest.mark.parametrize(
    "kind",
    [
        np.float64,
        np.float32,
        np.longdouble,
        np.array,
        Decimal,
        Fraction,
        lambda x: np.int64(math.ceil(x)),
        lambda x: math.ceil(x),
    ],
)
def test_numbers_of_other_types_are_read(kind):
    found = audited(lambda sigma, delta: kind(float(np.float32(exact(sigma, delta) + 1e-4))))
    assert found.verdict.value == "NOT_REFUTED" and found.compared == 30, found.headline()


@pytest.mark.parametrize("answer", [math.inf, True, "2", 10**400])
def test_filters_that_return_no_count(answer):
    found = audit_accountant(
        lambda epsilons, deltas, epsilon, delta: answer, "privacy-filter", "admitted", evaluations=5
    )
    assert found.verdict.value == "ERROR" and "returned" in found.headline()


@pytest.mark.parametrize(
    ("mechanism", "ranges"),
    [("gaussian", {"delta": (0.1, 2)}), ("composition", {"delta0": (0.5, 3)}), ("subsampled-gaussian", {"q": (0.5, 2)}),
     ("gaussian", {"steps": (0.1, 5)})],
)  # fmt: skip
def test_parameters_outside_their_domain_are_refused(mechanism, ranges):
    """Composed with delta0 = 3, the formula of the exact figure would accuse a right accountant."""
    (name,) = ranges
    names = {
        p: p
        for p in {
            "gaussian": ["sigma"],
            "composition": ["epsilon0"],
            "subsampled-gaussian": ["sigma", "q"],
        }[mechanism]
    }
    with pytest.raises(InvalidArgument, match=rf"ranges\['{name}'\] must be"):
        audit_accountant(
            lambda **at: math.inf,
            mechanism,
            "epsilon",
            names | {name: name, "delta": "delta"},
            ranges=ranges,
        )
