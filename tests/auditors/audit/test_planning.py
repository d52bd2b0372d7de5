"""Plans against audits: the planned runs find the violation, a quarter of them mostly does not;
laws of a given parameter; bad input.
"""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness import InvalidArgument, Pair, Verdict, audit, parse_claim, plan
from dpwitness.auditors.audit.power import split_budget
from dpwitness.auditors.density.known_laws import law_with_parameter, parameter_of

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def coin(law):
    truth = law.p[-1]
    return lambda dataset, size, rng: (
        rng.random(size) < (truth if dataset[0] else 1 - truth)
    ).astype(float)


def laplace(law):
    return lambda dataset, size, rng: (
        np.round((dataset[0] * law.supremum + rng.laplace(size=size)) * 2**20) / 2**20
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "shape", "find", "make", "seeds"),
    [
        ("pure:1", "coin", 1.2, coin, 60),
        ("gdp:1", "coin", 1.25, coin, 18),
        ("pure:1", "laplace", 1.3, laplace, 12),
    ],
)
def test_planned_runs_find_the_violation_and_a_quarter_mostly_does_not(
    text, shape, find, make, seeds
):
    """If planned audits find with 0.85 and those of a quarter with 0.4, each bound fails with
    probability at most 5e-7.
    """
    claim = parse_claim(text)
    law = law_with_parameter(shape, claim, find)
    needed = plan(claim, find=find, shape=shape).needed
    assert needed >= 2000

    def found(trials):
        results = (
            audit(make(law), claim=claim, pair=PAIR, trials=trials, seed=seed)
            for seed in range(seeds)
        )
        return sum(result.verdict is Verdict.VIOLATED for result in results)

    assert found(needed) >= binom.ppf(5e-7, seeds, 0.85)
    if shape == "coin":
        assert found(max(1000, needed // 4)) <= binom.isf(5e-7, seeds, 0.4)


@pytest.mark.parametrize("text", ["pure:1", "approx:1,1e-3", "zcdp:0.5", "rdp:3,0.5", "gdp:0.7"])
@pytest.mark.parametrize("shape", ["coin", "laplace", "gaussian"])
def test_laws_have_the_parameter_that_was_asked_for(text, shape):
    """Gaussian noise in closed form, the others by root finding; cells lose less than two parts in
    a thousand.
    """
    claim = parse_claim(text)
    if claim.is_pure and shape == "gaussian":
        with pytest.raises(InvalidArgument, match="shape must not be 'gaussian' for pure:1"):
            law_with_parameter(shape, claim, 1.3)
        return
    for find in (1.01 * claim.parameter, 3 * claim.parameter):
        law = law_with_parameter(shape, claim, find)
        assert parameter_of(claim, law) == pytest.approx(find, rel=2e-3)
        assert law.p.sum() == pytest.approx(1) and law.q.sum() == pytest.approx(1)


@pytest.mark.slow
def test_more_is_asked_more_runs_are_needed():
    base = plan("pure:1", find=1.1).needed
    assert (
        plan("pure:1", find=1.1, power=0.99).needed
        > base
        < plan("pure:1", find=1.1, confidence=0.9999).needed
    )
    assert plan("pure:1", find=1.1, shape="laplace").needed > base > plan("pure:1", find=1.2).needed
    assert (
        split_budget(100_000, 1, True)[1]
        < split_budget(100_000, 1, False)[1]
        > split_budget(100_000, 4, False)[1]
    )


def test_what_no_audit_finds_is_said():
    found = plan("pure:1", find=1 + 1e-7)
    assert (
        found.needed is None
        and found.impossible
        and found.headline().startswith("out of reach: no audit of at most 1e+12 runs")
    )
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["needed"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"find": 1.0}, "find must be larger than the claim's epsilon = 1, got 1.0"),
        ({"find": -1.0}, "find must be positive and finite, got -1.0"),
        ({"find": math.nan}, "find must be positive and finite"),
        ({"find": 1e5}, "find is too large to need a plan|out"),
        ({}, "find or trials must be given, got neither"),
        ({"trials": 999}, "trials must be a whole number, between 1000 and 1000000000000, got 999"),
        ({"trials": 10**13}, "trials must be a whole number"),
        ({"find": 2.0, "shape": "cauchy"}, "shape must be one of"),
        ({"find": 2.0, "shape": "gaussian"}, "shape must not be 'gaussian' for pure:1"),
        ({"find": 2.0, "power": 1.0}, r"power must lie in \(0, 1\), got 1.0"),
        ({"find": 2.0, "confidence": 0.0}, r"confidence must lie in \(0, 1\)"),
        ({"find": 2.0, "pair": PAIR}, "pair must be left out without a mechanism"),
        ({"find": 2.0, "claim": None}, "claim must be a privacy notion"),
        ({"find": 2.0, "mechanism": coin}, "pair must be given, or a domain"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        plan(**{"claim": "pure:1", **arguments})
