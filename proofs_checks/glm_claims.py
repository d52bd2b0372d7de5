"""Claims on generalised linear models: perturbed output and perturbed objective with Gamma and Gaussian noise.

Jain and Thakurta (2014), section 4. Their lambda is the ridge of n times the risk; records |x| <= R, slopes |l'| <= L, curvature l'' <= c2.
"""

from __future__ import annotations

from flint import arb

from .enclosures import Ball, Box, Enclosure, enclose, supremum
from .ledger import certificate
from .logistic_claims import objective_excess


@certificate(
    "JT-06",
    source="Objective-Gamma of the generalised linear models paper, attributed to Chaudhuri, Monteleoni and Sarwate 2011",
    statement="Noise of rate epsilon / (2 L R) with lambda = 2 c2 R^2 / epsilon is epsilon-DP",
    formula="epsilon + log(1 + epsilon / 2) <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0)),
)
def full_rate_objective_perturbation_is_private(epsilon: Ball) -> Enclosure:
    """The noise moves by at most 2 L R: loss epsilon. The determinants add up to log(1 + c2 R^2 / lambda) = log(1 + epsilon / 2).

    The Huber loss approaches both at once: slope L just inside its quadratic part for one record, -L outside it for the other.
    """
    return enclose((epsilon / 2).log1p() / epsilon)


@certificate(
    "JT-06-repair",
    source="Objective-Gamma with half the rate",
    statement="Noise of rate epsilon / (4 L R) with lambda = 2 c2 R^2 / epsilon is epsilon-DP",
    formula="epsilon / 2 + log(1 + epsilon / 2) <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0)),
    repairs="JT-06",
)
def half_rate_objective_perturbation_is_private(epsilon: Ball) -> Enclosure:
    """Half the rate makes the noise's part epsilon / 2; the determinants' part stays log(1 + epsilon / 2)."""
    return enclose((epsilon / 2).log1p() / epsilon - arb(0.5))


@certificate(
    "JT-06-logistic",
    source="Objective-Gamma of the generalised linear models paper, logistic loss, p >= 2",
    statement="Noise of rate epsilon / (2 L R) with lambda = 2 c2 R^2 / epsilon is epsilon-DP",
    formula="max_s epsilon (1 + s) / 2 + log(1 + 2 epsilon s (1 - s)) <= epsilon",
    domain=Box(epsilon=(1e-2, 10.0)),
)
def full_rate_logistic_perturbation_is_private(epsilon: Ball) -> Enclosure:
    """L = R = 1 and c2 = 1/4 give lambda = 1 / (2 epsilon) in the place of n lambda: surplus epsilon lambda / 2 - 1 = -3/4."""
    return supremum(lambda u: objective_excess(u, arb(-0.75), 2 * epsilon), over=(0.0, 1.0))
