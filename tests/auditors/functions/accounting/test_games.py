"""Lower bounds from canary scores, against their exact error probability, and privacy filters,
against an adaptive adversary.
"""

import math

import pytest
from flint import arb
from scipy.stats import beta, binom

from dpwitness import InvalidArgument
from dpwitness.accounting import audit_accountant
from dpwitness.auditors.functions.accounting.audit import composed_delta, exact_error
from dpwitness.auditors.functions.accounting.profiles import Composition


def lower_bound(in_scores, out_scores, significance, delta):
    """Log-ratio of Clopper-Pearson limits of both rates, each with half of the error."""
    n, alpha = len(in_scores), significance / 2
    found, missed = sum(in_scores), sum(out_scores)
    low = beta.ppf(alpha, found, n - found + 1) if found else 0.0
    high = beta.ppf(1 - alpha, missed + 1, n - missed) if missed < n else 1.0
    return math.log((low - delta) / high) if low > delta else 0.0


def without_limits(in_scores, out_scores, significance, delta):
    return math.log((sum(in_scores) + 1) / (sum(out_scores) + 1))


def test_a_confidence_bound_is_not_refuted_and_an_estimate_is():
    right = audit_accountant(
        lower_bound, "gaussian-canaries", "lower-epsilon", seconds=60, evaluations=12
    )
    assert right.verdict.value == "NOT_REFUTED"
    wrong = audit_accountant(
        without_limits, "gaussian-canaries", "lower-epsilon", seconds=60, evaluations=12
    )
    assert wrong.verdict.value == "VIOLATED"
    assert wrong.exact > 0.3 > wrong.figure


def test_the_error_probability_is_the_binomial_sum():
    """The tool claims epsilon > 1 if at least 4 of 5 canaries are seen inside; without a
    difference, that has probability 6/32.
    """
    bounds = {(a, b): 1.0 if a >= 4 else 0.0 for a in range(6) for b in range(6)}
    at = {"canaries": 5, "mu": 1e-9, "threshold": 0.0, "significance": 0.05, "delta": 1e-5}
    assert exact_error(bounds, at) == pytest.approx(1 - binom.cdf(3, 5, 0.5), rel=1e-6)
    # the true epsilon is larger, so the bound is right
    assert exact_error(bounds, at | {"mu": 2.0}) == 0


def basic(epsilons, deltas, epsilon, delta):
    total = failure = 0.0
    for count, (e, d) in enumerate(zip(epsilons, deltas, strict=True)):
        total, failure = total + e, failure + d
        if total > epsilon * (1 + 1e-12) or failure > delta * (1 + 1e-12):
            return count
    return len(epsilons)


def optimal(epsilons, deltas, epsilon, delta):
    """Admit while the optimal composition of what ran is within the budget: sound for a fixed
    sequence, not for an adaptive one.
    """
    for count in range(1, len(epsilons) + 1):
        if (
            float(
                Composition(tuple(zip(epsilons[:count], deltas[:count], strict=True))).delta(
                    arb(epsilon)
                )
            )
            > delta
        ):
            return count - 1
    return len(epsilons)


@pytest.mark.slow
def test_filters():
    """Rogers, Roth, Ullman and Vadhan (2016): optimal composition is no filter; sums of epsilons
    are.
    """
    assert (
        audit_accountant(basic, "privacy-filter", "admitted", evaluations=150).verdict.value
        == "NOT_REFUTED"
    )
    found = audit_accountant(optimal, "privacy-filter", "admitted", evaluations=200, seconds=60)
    assert found.verdict.value == "VIOLATED"
    # the adversary is adaptive
    assert set(found.at["epsilons"][1:]) != set(found.at["other_epsilons"][1:])
    assert "times" in found.headline()


def test_an_adversary_that_does_not_adapt_composes_as_a_fixed_sequence():
    at = {"epsilons": (0.5, 0.2, 0.2), "deltas": (0.01,) * 3, "epsilon": 0.4, "delta": 0.1}
    at |= {"other_epsilons": at["epsilons"], "other_deltas": at["deltas"]}
    fixed = float(
        Composition(tuple(zip(at["epsilons"], at["deltas"], strict=True))).delta(arb("0.4"))
    )
    assert composed_delta(at, [3, 3]) == pytest.approx(fixed, rel=1e-12)


def test_a_filter_that_admits_what_it_was_not_given_is_an_error():
    found = audit_accountant(
        lambda epsilons, deltas, epsilon, delta: 10**6, "privacy-filter", "admitted", evaluations=5
    )
    assert found.verdict.value == "ERROR"
    with pytest.raises(InvalidArgument, match="parameters must name an argument for"):
        audit_accountant(lambda epsilons: 1, "privacy-filter", "admitted")
    with pytest.raises(InvalidArgument, match="returns must be"):
        audit_accountant(basic, "privacy-filter", "epsilon")
