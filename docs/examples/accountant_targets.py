"""Accountants that the guide on accountants audits."""

import math

TARGETS = {
    "classic_sigma": {
        "kind": "accountant",
        "mechanism": "gaussian",
        "parameters": {"eps": "epsilon", "delta": "delta"},
        "returns": "noise",
    }
}


def classic_sigma(eps, delta):
    """Noise of the Gaussian mechanism by the formula that holds for epsilon up to 1."""
    return math.sqrt(2 * math.log(1.25 / delta)) / eps
