"""What a run would have found: the power of whole audits, event learned anew, at the parameter that
`detectable` names.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpwitness import Pair, Verdict, audit
from dpwitness.auditors.events.posterior import ScoreLaw, detectable
from dpwitness.mechanisms import GDP, RDP, ApproxDP, PureDP

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def laplace(epsilon):
    return lambda data, size, rng: (
        np.round((data[0] + rng.laplace(scale=1 / epsilon, size=size)) * 2**20) / 2**20
    )


def gaussian(mu):
    return lambda data, size, rng: data[0] + rng.standard_normal(size) / mu


def gaussian_shift(epsilon, delta):
    """mu at which a Gaussian shift is exactly (epsilon, delta)-DP."""
    return brentq(
        lambda mu: (
            norm.cdf(mu / 2 - epsilon / mu)
            - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            - delta
        ),
        0.01,
        50,
    )


CASES = {
    "Laplace, pure": (PureDP(1.5), laplace),
    "Gaussian, GDP": (GDP(0.7), gaussian),
    "Gaussian, approx": (
        ApproxDP(1.0, 1e-4),
        lambda epsilon: gaussian(gaussian_shift(epsilon, 1e-4)),
    ),
    "Gaussian, RDP": (RDP(3.0, 1.0), lambda epsilon: gaussian(math.sqrt(2 * epsilon / 3))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_is_named_is_found(name):
    """20 audits at the parameter that an audit of the claim's own mechanism names: at power .85,
    fewer than 8 have probability 6e-7.
    """
    claim, build = CASES[name]
    found = 0
    for seed in range(20):
        named = audit(
            build(claim.parameter),
            claim=claim,
            pair=PAIR,
            trials=12_000,
            confidence=0.95,
            seed=seed,
            bits=False,
        ).detectable
        assert named > claim.parameter
        if named < math.inf:
            again = audit(
                build(named),
                claim=claim,
                pair=PAIR,
                trials=12_000,
                confidence=0.95,
                seed=1000 + seed,
                bits=False,
            )
            found += again.verdict is Verdict.VIOLATED
    assert found >= 8


def test_randomised_response_in_closed_form():
    """Two outputs, their law known: the parameter at which C of Bin(N, theta) correct guesses
    refute it, up to what learning costs.
    """
    theta, rounds = 1 / (1 + math.exp(-1.0)), 100_000
    law = ScoreLaw(np.array([0.5, 0.5]), np.log([(1 - theta) / theta, theta / (1 - theta)]), 1e5)
    named = detectable(PureDP(1.0), law, rounds, 0.01, power=0.9)
    z = norm.isf(0.01) + norm.isf(0.1)
    least = 1 + z / math.sqrt(rounds * theta * (1 - theta))
    assert least < named < 1 + 1.5 * (least - 1)
    assert (
        named
        < detectable(PureDP(1.0), law, rounds, 0.01, power=0.99)
        < detectable(PureDP(1.0), law, rounds // 4, 0.01, power=0.99)
    )
