"""Lower bounds on epsilon from canary scores, by jax-privacy."""

from jax_privacy import auditing

LIBRARY = "jax-privacy"

_SCORES = {name: name for name in ("in_scores", "out_scores", "significance", "delta")}

TARGETS = {
    name: {
        "kind": "accountant",
        "mechanism": "gaussian-canaries",
        "parameters": _SCORES,
        "returns": "lower-epsilon",
    }
    for name in ("epsilon_from_gdp", "epsilon_clopper_pearson")
}


def epsilon_from_gdp(in_scores, out_scores, significance, delta):
    """Lower bound by a trade-off curve of Gaussian privacy."""
    return auditing.CanaryScoreAuditor(in_scores, out_scores).epsilon_from_gdp(significance, delta)


def epsilon_clopper_pearson(in_scores, out_scores, significance, delta):
    """Lower bound by Clopper-Pearson limits of both error rates."""
    return auditing.CanaryScoreAuditor(in_scores, out_scores).epsilon_clopper_pearson(
        significance, delta
    )
