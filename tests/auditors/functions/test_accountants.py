"""Accountants: searches, figures below 0, and answers that are not numbers."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpwitness import InvalidArgument
from dpwitness.accounting import audit_accountant

VIOLATED, NOT_REFUTED, ERROR = "VIOLATED", "NOT_REFUTED", "ERROR"


def verdict(function, mechanism, returns, **options):
    return audit_accountant(
        function, mechanism, returns, **({"evaluations": 60, "seconds": 60.0} | options)
    ).verdict.value


def gaussian_delta(sigma, epsilon):
    return norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(
        -0.5 / sigma - epsilon * sigma
    )


def test_a_right_delta_is_not_refuted_and_a_wrong_one_is():
    assert verdict(gaussian_delta, "gaussian", "delta") == NOT_REFUTED
    found = audit_accountant(
        lambda sigma, epsilon: 0.99 * gaussian_delta(sigma, epsilon),
        "gaussian",
        "delta",
        evaluations=60,
    )
    assert found.verdict.value == VIOLATED
    assert found.exact == pytest.approx(found.figure / 0.99, rel=1e-9)
    assert found.evidence == "proved"


def test_the_tolerance_is_one_part_in_a_thousand_million():
    """A figure 5e-10 too low is allowed; one 2e-9 too low is a violation."""
    for factor, expected in ((1 - 5e-10, NOT_REFUTED), (1 - 2e-9, VIOLATED)):
        rate = lambda sigma, order, factor=factor: factor * order / (2 * sigma**2)  # noqa: E731
        assert (
            verdict(rate, "gaussian", "rdp", parameters={"sigma": "sigma", "order": "order"})
            == expected
        )


@pytest.mark.slow
def test_constants_of_the_code_are_tried():
    """No usual value and few random ones are 777: without the constant, 400 calls miss it."""

    def rare(mu, steps):
        return mu * math.sqrt(steps - 1 if steps == 777 else steps)

    found = audit_accountant(rare, "gdp", "mu", evaluations=1000, ranges={"mu": (1, 1)})
    assert found.verdict.value == "VIOLATED" and found.at["steps"] == 777


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("gauss", "delta"), {}, "mechanism must be"),
        (("gaussian", "eps"), {}, "returns must be"),
        (("composition", "noise"), {}, "has no noise parameter"),
        (
            ("gaussian", "rdp"),
            {"parameters": {"sigma": "sigma"}},
            "parameters must name an argument for order",
        ),
        (
            ("gaussian", "rdp"),
            {"parameters": {"sigma": "s", "order": "order"}},
            "must be one of .sigma",
        ),
        (("gaussian", "rdp"), {"ranges": {"sigma": (2, 1)}}, "with 0 < low <= high"),
        (
            ("gaussian", "rdp"),
            {"ranges": {"q": (0.1, 1)}},
            "ranges must name parameters of the function",
        ),
    ],
)
def test_arguments_that_do_not_fit(arguments, options, words):
    with pytest.raises(InvalidArgument, match=words):
        audit_accountant(lambda sigma, order: 1.0, *arguments, **options)


# deltas at which some exact epsilons are negative
LARGE = {"sigma": (0.3, 50), "delta": (0.05, 0.9)}


def exact(sigma, delta):
    return brentq(
        lambda epsilon: gaussian_delta(sigma, epsilon) - delta, -10, 400, xtol=1e-14, rtol=1e-14
    )


def audited(function, returns="epsilon", names=None, ranges=LARGE):
    return audit_accountant(
        function, "gaussian", returns, names, ranges=ranges, evaluations=30, seconds=60
    )


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
