"""Every kind of claim, a right and a wrong mechanism: audited, enclosed, planned, reported,
witnessed and replayed.
"""

import json
import math

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness import mechanisms as m
from dpwitness.core.claims import exact_claim

FAR = m.Pair(np.array([0.0, 0.0]), np.array([2.0, 0.0]), relation="stated")
NEAR = m.Pair(np.array([0.0, 0.0]), np.array([1.0, 0.0]), relation="l1")


def noisy(kind, scale, columns=1):
    def mechanism(dataset, size, rng):
        draw = rng.laplace if kind == "laplace" else rng.normal
        return dataset[:columns].sum() + draw(0.0, scale, size)

    return mechanism


def kinked(epsilon, delta, worse=1.0):
    """The law whose curve is exactly that of (epsilon, delta): a flag of mass delta, otherwise
    randomised response.
    """

    def mechanism(dataset, size, rng):
        side = int(dataset[0] > 0)
        odds = math.exp(epsilon) * worse
        told = np.where(rng.random(size) < odds / (1 + odds), side, 1 - side)
        return np.where(rng.random(size) < delta, 2 + side, told)

    return mechanism


def curve_of(epsilon, delta):
    q = (1 - delta) / (1 + math.exp(epsilon))
    return m.TradeoffCurve([0, q, 1 - delta, 1], [1 - delta, q, 0, 0])


CASES = {  # claim: (kept, broken, pair)
    "fdp": (curve_of(1.0, 0.05), kinked(1.0, 0.05), kinked(1.0, 0.05, worse=1.4), NEAR),
    "dpsgd": (m.parse_claim("dpsgd:1,2,4"), noisy("normal", 1.0), noisy("normal", 0.7), NEAR),
    "dpsgd at delta": (
        m.parse_claim("dpsgd:1,2,4,0.01"),
        noisy("normal", 1.0),
        noisy("normal", 0.7),
        NEAR,
    ),
    "rdp at orders": (
        m.parse_claim("rdp:2=1,4=2,8=4"),
        noisy("normal", 1.0),
        noisy("normal", 0.5),
        NEAR,
    ),
    "metric": (m.parse_claim("metric:0.5"), noisy("laplace", 2.0), noisy("laplace", 1.4), FAR),
    "percoordinate": (
        m.parse_claim("percoordinate:1,2"),
        noisy("laplace", 2.0),
        noisy("laplace", 1.4),
        FAR,
    ),
    "group": (m.parse_claim("group:2,gdp:1"), noisy("normal", 1.0), noisy("normal", 0.7), FAR),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_a_right_mechanism_is_not_refuted_and_a_wrong_one_is(kind, tmp_path):
    """The false-failure probability of each right one is that of its audits' confidence, 1e-7; the
    wrong ones are far off.
    """
    claim, right, wrong, pair = CASES[kind]
    kept = dpw.audit(right, claim=claim, pair=pair, trials=10_000, seed=5, confidence=1 - 1e-7)
    assert (
        kept.verdict is dpw.Verdict.NOT_REFUTED
        and 0.35 < kept.parameter_lower / kept.claim.parameter <= 1
    ), kind
    broken = dpw.audit(
        wrong, claim=claim, pair=pair, trials=8_000, seed=6, confidence=0.99, stop="never"
    )
    assert broken.verdict is dpw.Verdict.VIOLATED, kind
    told = json.loads(json.dumps(broken.to_json()))
    assert exact_claim(told["claim"], told["claim_numbers"]) == broken.claim == claim.on(pair)
    file = tmp_path / "witness.json"
    file.write_text(json.dumps(broken.witness))
    again = dpw.replay(file, mechanism=wrong, seed=7, trials=40_000)
    assert again.verdict is dpw.Verdict.VIOLATED, again.headline()
    assert dpw.replay(file, mechanism=right, seed=8).verdict is dpw.Verdict.NOT_REFUTED
