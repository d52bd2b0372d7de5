"""Several events, one certificate: exact for one stage, and valid where a stage was chosen by the counts before it."""

import json

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.statistics.certificate import Tally, certified, p_value
from dpwitness.auditors.statistics.combination import Part, combined, combined_p_value
from dpwitness.mechanisms import ApproxDP, PureDP
from dpwitness.mechanisms.terms.notions import GDP


@pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(1.0, 1e-3), GDP(0.8)], ids=str)
def test_one_stage_is_the_certificate(claim):
    part = Part(Tally(3_000, 1_000, 10_000), lost=7)
    assert combined(claim, [part], 0.05) == float(certified(claim, 3_000, 1_000, 10_000, 0.05, 2, 7))
    assert combined_p_value(claim, [part]) == float(p_value(claim, 3_000, 1_000, 10_000, 2, 7))


@pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(1.0, 1e-3), GDP(0.8)], ids=str)
def test_two_equal_halves_say_about_what_the_whole_says(claim):
    halves = [Part(Tally(1_500, 500, 5_000), weight=0.5**0.5), Part(Tally(1_500, 500, 5_000))]
    whole, alone = (float(certified(claim, 1_500 * k, 500 * k, 5_000 * k, 0.05)) for k in (2, 1))
    both = combined(claim, halves, 0.05)
    assert alone < both <= whole * 1.005 and both > whole - 0.3 * (whole - alone)
    assert combined(claim, halves, 0.01) < both
    assert combined_p_value(claim.with_parameter(both), halves) == pytest.approx(0.05, rel=0.01)


def test_the_error_holds_where_the_second_event_depends_on_the_first_ones_luck():
    """Guesses of an exactly 1-DP mechanism, rare in the second stage after luck, and often without: pooled counts would be no binomial.

    P[more than 580 of 1,000 false alarms at alpha = .5] < 3e-7.
    """
    rng, claim, theta = np.random.default_rng(8), PureDP(1.0), np.e / (1 + np.e)
    alarms = 0
    for _ in range(1000):
        first = rng.binomial(200, theta)
        made = 20 if first > 200 * theta else 600
        second = rng.binomial(made, theta)
        parts = [Part(Tally(int(first), int(200 - first), 400), weight=0.4**0.5), Part(Tally(int(second), int(made - second), 600))]
        alarms += combined_p_value(claim, parts) <= 0.5
    assert 400 < alarms < 580


def test_a_stage_gone_wrong_does_not_silence_the_other():
    good, bad = Tally(900, 100, 2_000), Tally(0, 300, 600)
    alone = combined(PureDP(1.0), [Part(good)], 0.05)
    assert 0.3 * alone < combined(PureDP(1.0), [Part(bad, weight=0.2**0.5), Part(good)], 0.05) < alone


def test_nothing_counted_says_nothing():
    nothing = Part(Tally(0, 0, 500), weight=0.5**0.5)
    assert combined(PureDP(1.0), [nothing, Part(Tally(0, 0, 500))], 0.05) == 0
    assert combined_p_value(PureDP(1.0), [nothing, Part(Tally(0, 0, 500))]) == 1


def test_an_audit_of_few_rounds_tests_two_events():
    """Its witness holds both stages, and a changed count of the first is seen."""
    pair = dpw.Pair(np.zeros(1), np.ones(1))

    def weak(data, size, rng):
        return data[0] + rng.laplace(0.0, 0.5, size)

    result = dpw.audit(weak, claim="pure:1", pair=pair, trials=20_000, confidence=0.95, stop="never", bits=False, seed=2)
    first, last = result.stages
    assert result.verdict is dpw.Verdict.VIOLATED and result.tally == last.tally
    assert first.weight**2 == pytest.approx(first.tally.rounds / (first.tally.rounds + last.tally.rounds), rel=1e-9)
    assert result.epsilon_lower == combined(PureDP(1.0), result.stages, result.alpha)
    witness = json.loads(json.dumps(result.witness))
    assert dpw.replay(witness, mechanism=weak, trials=20_000, seed=8).verdict is dpw.Verdict.VIOLATED
    witness["counts"]["stages"][0]["correct"] += 1
    witness.pop("sha256", None)
    with pytest.raises(dpw.mechanisms.InvalidArgument, match="bound must be what the counts certify"):
        dpw.replay(witness, mechanism=weak)


@pytest.mark.parametrize(
    ("trials", "claim", "stages"), [(20_000, "pure:1", 2), (300_000, "pure:1", 0), (1_500, "pure:1", 0), (20_000, "zcdp:0.5", 0)]
)
def test_where_one_event_is_tested(trials, claim, stages):
    pair = dpw.Pair(np.zeros(1), np.ones(1))
    result = dpw.audit(dpw.mechanisms.Laplace(1.0), claim=claim, pair=pair, trials=trials, stop="never", bits=False, seed=2)
    assert len(result.stages) == stages
