"""Lower bounds from canary scores, against their exact error probability."""

import math

from scipy.stats import beta

from dpwitness.accounting import audit_accountant


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
