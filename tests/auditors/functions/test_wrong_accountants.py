"""Accountants with known verdicts: every wrong one is found, no right one is accused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gammaln, log_ndtr
from scipy.stats import binom, norm

from dpwitness.accounting import audit_accountant

EXACT = 1 + 1e-12


def gaussian_delta(sigma, epsilon):
    a, b = (
        log_ndtr(0.5 / sigma - epsilon * sigma),
        epsilon + log_ndtr(-0.5 / sigma - epsilon * sigma),
    )
    return math.exp(a) * -math.expm1(b - a) if b < a else 0.0


def gaussian_epsilon(sigma, delta, steps=1):
    scale = sigma / math.sqrt(steps)
    if gaussian_delta(scale, 0.0) <= delta:
        return 0.0
    return (
        brentq(
            lambda e: gaussian_delta(scale, e) - delta,
            0,
            1 / scale**2 + 20 / scale * math.sqrt(math.log(2 / delta)),
            xtol=1e-13,
        )
        * EXACT
    )


def gaussian_noise(epsilon, delta, of=gaussian_delta):
    return math.exp(brentq(lambda s: of(math.exp(s), epsilon) - delta, -6, 12, xtol=1e-13)) * EXACT


def laplace_rdp(scale, order):
    first, second = (
        math.log(order / (2 * order - 1)) + (order - 1) / scale,
        math.log((order - 1) / (2 * order - 1)) - order / scale,
    )
    return float(np.logaddexp(first, second)) / (order - 1)


def binomial_terms(sigma, q, order, square=2.0):
    k = np.arange(order + 1)
    combinations = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    return (
        combinations
        + k * math.log(q)
        + (order - k) * math.log1p(-q)
        + k * (k - 1) / (square * sigma**2)
    )


def subsampled_rdp(sigma, q, order, square=2.0):
    return (
        float(np.logaddexp.reduce(binomial_terms(sigma, q, order, square))) / (order - 1) * EXACT
        + 1e-13
    )


def rounded_up(sigma, q, order):
    return subsampled_rdp(sigma, q, math.ceil(order))


def kov_delta(epsilon0, delta0, steps, epsilon):
    i = np.arange(steps + 1)
    p = binom.pmf(i, steps, math.exp(-epsilon0) / (1 + math.exp(-epsilon0)))
    loss = (steps - 2 * i) * epsilon0
    return 1 - (1 - delta0) ** steps * (
        1 - float(np.sum(p * np.maximum(0, -np.expm1(np.minimum(epsilon - loss, 0)))))
    ) * (1 - 1e-13)


def advanced(epsilon0, steps, delta, drift=1.0):
    return (
        math.sqrt(2 * steps * math.log(1 / delta)) * epsilon0
        + drift * steps * epsilon0 * math.expm1(epsilon0)
        if delta > 0
        else steps * epsilon0
    )


def convert(order0, rdp, delta):
    return max(
        rdp + math.log1p(-1 / order0) - (math.log(delta) + math.log(order0)) / (order0 - 1), 0.0
    )


_D, _SUB = {"delta": (1e-10, 0.1)}, {"sigma": (0.5, 50), "q": (1e-3, 0.9), "order": (2, 64)}

RIGHT = [
    ("gaussian delta", gaussian_delta, "gaussian", "delta", {"sigma": (0.1, 100)}),
    ("gaussian epsilon", gaussian_epsilon, "gaussian", "epsilon", {"sigma": (0.2, 100), **_D}),
    (
        "gaussian noise",
        lambda epsilon, delta: gaussian_noise(epsilon, delta),
        "gaussian",
        "noise",
        {"epsilon": (0.01, 10), **_D},
    ),
    (
        "classic noise up to 1",
        lambda epsilon, delta: math.sqrt(2 * math.log(1.25 / delta)) / epsilon,
        "gaussian",
        "noise",
        {"epsilon": (0.001, 1)},
    ),
    ("laplace rdp", laplace_rdp, "laplace", "rdp", {"scale": (0.1, 100)}),
    ("laplace noise", lambda epsilon: EXACT / epsilon, "laplace", "noise", {}),
    ("laplace zcdp", lambda scale: 0.5 / scale**2, "laplace", "zcdp", {}),
    ("subsampled rdp, rounded up", rounded_up, "subsampled-gaussian", "rdp", _SUB),
    (
        "optimal composition",
        kov_delta,
        "composition",
        "delta",
        {"steps": (1, 50), "epsilon": (0.01, 10), "epsilon0": (0.01, 2)},
    ),
    (
        "advanced composition",
        advanced,
        "composition",
        "epsilon",
        {"delta": (1e-10, 0.5), "steps": (1, 100)},
    ),
    ("rdp conversion", convert, "renyi", "epsilon", {"order0": (1.1, 200), **_D}),
]


def halved_tail(sigma, epsilon):
    """Leave out the second term of the profile's argument: a wrong sign of 0.5 / sigma."""
    return max(norm.cdf(-0.5 / sigma - epsilon * sigma), 0.0)


WRONG = [
    ("profile with a wrong sign", halved_tail, "gaussian", "delta", {"sigma": (0.3, 10)}),
    (
        "steps without the root",
        lambda sigma, steps, delta: gaussian_epsilon(sigma, delta) * math.sqrt(steps),
        "gaussian",
        "epsilon",
        {**_D, "sigma": (0.5, 50), "steps": (1, 100)},
    ),
    (
        "classic noise beyond 1",
        lambda epsilon, delta: math.sqrt(2 * math.log(1.25 / delta)) / epsilon,
        "gaussian",
        "noise",
        {},
    ),
    (
        "largest order 256",
        lambda scale, order: laplace_rdp(scale, min(order, 256)),
        "laplace",
        "rdp",
        {},
    ),
    (
        "subsampled rdp, rounded down",
        lambda sigma, q, order: subsampled_rdp(sigma, q, max(math.floor(order), 2)),
        "subsampled-gaussian",
        "rdp",
        {**_SUB, "order": (1.1, 64)},
    ),
    (
        "sigma for its square",
        lambda sigma, q, order: subsampled_rdp(sigma, q, math.ceil(order), 4.0),
        "subsampled-gaussian",
        "rdp",
        _SUB,
    ),
    (
        "central limit theorem",
        lambda sigma, q, steps: q * math.sqrt(steps * math.expm1(sigma**-2)),
        "subsampled-gaussian",
        "mu",
        {"sigma": (0.5, 5), "steps": (1, 20)},
    ),
    (
        "advanced composition without drift",
        lambda epsilon0, steps, delta: advanced(epsilon0, steps, delta, 0.0),
        "composition",
        "epsilon",
        {"delta": (1e-6, 0.5), "steps": (1, 100)},
    ),
    (
        "rdp conversion, order for order - 1",
        lambda order0, rdp, delta: rdp + math.log(1 / delta) / order0 - 1 / order0,
        "renyi",
        "epsilon",
        {"order0": (1.1, 50), **_D},
    ),
    (
        "amplification without the add direction",
        lambda epsilon0, q: q * epsilon0,
        "subsampled-response",
        "epsilon",
        {},
    ),
]


def verdict(entry, seed):
    name, function, mechanism, figure, ranges = entry
    names = None
    if mechanism == "gaussian" and figure == "noise":
        names = {"epsilon": "epsilon", "delta": "delta"}
    return audit_accountant(
        function,
        mechanism,
        figure,
        names,
        ranges=ranges,
        evaluations=120,
        seconds=120,
        seed=seed,
        name=name,
    )


@pytest.mark.slow_cases("laplace epsilon", "rdp conversion", "subsampled epsilon by pld")
@pytest.mark.parametrize("entry", RIGHT, ids=lambda entry: entry[0])
def test_a_right_accountant_is_not_accused(entry):
    found = verdict(entry, 1)
    assert found.verdict.value == "NOT_REFUTED", found.headline()
    assert found.compared > 30


@pytest.mark.slow_cases("central limit theorem", "rdp conversion, order for order - 1")
@pytest.mark.parametrize("entry", WRONG, ids=lambda entry: entry[0])
def test_a_wrong_accountant_is_found(entry):
    found = verdict(entry, 1)
    assert found.verdict.value == "VIOLATED", found.headline()
    assert found.figure < found.exact
