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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "violated"),
    [
        (m.TradeoffCurve([0, 1 / (1 + math.e), 1], [1, 1 / (1 + math.e), 0]), 1.3),
        (m.RenyiCurve((2.0, 8.0), (0.62, 0.93)), 1.3),
        (m.MetricDP(1.0), 1.3),
        (m.CoordinateDP((1.0,)), 1.3),
        (m.GroupDP(2, m.PureDP(0.5)), 1.3),
    ],
)
def test_certify_decides_by_the_law(claim, violated):
    """Laplace noise of epsilon = 1 against claims that it just keeps; with 1.3 it keeps none of
    them.
    """
    pair = m.Pair(np.array([0.0]), np.array([1.0]))
    kept = dpw.certify(m.Laplace(1.0), pair, claim, trials=10_000)
    assert kept.verdict in (dpw.Verdict.CERTIFIED, dpw.Verdict.SUPPORTED)
    assert (
        kept.parameter_lower <= kept.claim.parameter * (1 + 1e-6)
        and kept.parameter_upper >= 0.8 * kept.claim.parameter
    )
    broken = dpw.certify(m.Laplace(violated), pair, claim, trials=10_000)
    assert (
        broken.verdict is dpw.Verdict.VIOLATED
        and broken.parameter_lower > 1.1 * broken.claim.parameter
    )


@pytest.mark.slow
def test_several_pairs_each_have_their_own_budget():
    """Coordinate 2 is given all of coordinate 1's noise: its pair is the one that breaks, though
    another pair has the larger loss.
    """

    def mechanism(dataset, size, rng):
        return np.column_stack(
            [dataset[0] + rng.laplace(0.0, 0.5, size), dataset[1] + rng.laplace(0.0, 1.0, size)]
        )

    pairs = [
        m.Pair(np.zeros(2), moved, relation="linf")
        for moved in (np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    ]
    found = dpw.audit(mechanism, claim="percoordinate:2,0.5", pair=pairs, trials=15_000, seed=2)
    assert (
        found.verdict is dpw.Verdict.VIOLATED
        and found.pair is pairs[1]
        and found.claim == m.PureDP(0.5)
    )
    assert "the claim percoordinate:2,0.5 is pure:0.5 on this pair" in found.notes
    kept = dpw.audit(
        mechanism, claim="percoordinate:2,1", pair=pairs, trials=15_000, seed=3, confidence=1 - 1e-7
    )
    assert kept.verdict is dpw.Verdict.NOT_REFUTED


def test_outputs_that_are_given_need_the_distance():
    rng = np.random.default_rng(0)
    outputs = [rng.laplace(shift, 1.0, 10_000) for shift in (0.0, 2.0)]
    found = dpw.audit_outputs(*outputs, "metric:1,2")
    assert found.verdict is dpw.Verdict.NOT_REFUTED and found.claim == m.PureDP(2.0)
    assert dpw.audit_outputs(*outputs, "metric:0.8,2").verdict is dpw.Verdict.VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "scale", "failed"),
    [
        ("metric:1", 2.0, set()),
        ("percoordinate:1,1", 2.0, set()),
        ("metric:1", 0.5, {"check_claim"}),
    ],
)
def test_checks_take_claims_by_pair(claim, scale, failed):
    """Negative zero stands at distance 0 from zero, where such a claim is about nothing; the
    checks' false alarms are below 1e-8.
    """

    def mechanism(dataset, size, rng):
        return (
            np.rint(
                64
                * (
                    np.nan_to_num(dataset, posinf=1, neginf=0).clip(0, 1).sum()
                    + rng.laplace(0.0, scale, size)
                )
            )
            / 64
        )

    mechanism.claim, mechanism.domain = claim, m.Records(2)
    report = dpw.check_mechanism(mechanism, trials=10_000, seed=3)
    assert {f.check for f in report.failed} & {
        "check_claim",
        "check_special_values_inside",
        "check_few_records",
    } == failed
    with pytest.raises(
        dpw.InvalidArgument, match="datasets must differ in value, the distance of these two is 0"
    ):
        dpw.audit(
            mechanism,
            pair=m.Pair(np.zeros(2), np.array([-0.0, 0.0]), relation="stated"),
            trials=1_000,
        )
