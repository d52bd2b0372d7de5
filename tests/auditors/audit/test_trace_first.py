"""Tests of the traced runs before an audit: their evidence, its effect on the verdict, and its
limits.
"""

import json

import numpy as np
import pytest

from dpwitness import Pair, Verdict, audit
from dpwitness.auditors.events.outputs import TrainingSet, concatenate, encode
from dpwitness.auditors.events.scorers import fit_shift
from dpwitness.auditors.traces.evidence import Limits, TraceEvidence, TraceRequest
from dpwitness.auditors.traces.first_look import worst_evidence, worst_pairs
from dpwitness.mechanisms import parse_claim
from dpwitness.reports.document import build_document, checked_document

LIMITS = Limits(200, 10.0)
ONE = Pair(np.zeros(3), np.array([1.0, 0.0, 0.0]), "replace-one")
TRIALS = 2000
SHIFTS = np.linspace(-1.0, 1.0, 40) ** 3


def wide_gaussian(dataset, size, rng):
    """Its mu is 25, which no count shows."""
    return dataset.sum() + rng.normal(0.0, 0.04, size)


def laplace(dataset, size, rng):
    return dataset.sum() + rng.laplace(0.0, 1.0, size)


def noisy_max(dataset, size, rng):
    """All scores rise by 1 together, so that epsilon is 1, although the losses of the noisy scores
    add up to 1.5.
    """
    return (rng.laplace(dataset.sum() + np.arange(3), 2.0, (size, 3))).argmax(axis=1)


def mean_of_two(dataset, size, rng):
    """The losses of the two draws add up to 2, but only their mean is released."""
    return (rng.laplace(dataset.sum(), 1.0, size) + rng.laplace(dataset.sum(), 1.0, size)) / 2


def test_a_loss_beyond_the_claim_is_named_where_counts_cannot_show_it():
    result = audit(wide_gaussian, claim="gdp:20", pair=ONE, trials=TRIALS)
    assert result.verdict is Verdict.INCONCLUSIVE and result.evidence == "assumed"
    assert (
        "compose to mu = 25, claimed 20: VIOLATED if the traced laws are the laws of the noise"
        in result.headline()
    )
    assert (
        result.trace.exceeds
        and result.trace.loss == pytest.approx(25)
        and result.trace.verdict is Verdict.VIOLATED
    )
    assert any(
        "scale 0.04" in line and "test_trace_first.py:" in line for line in result.trace.explanation
    )
    document = json.loads(json.dumps(build_document([result], title="t")))
    assert checked_document(document)["results"][0]["trace"]["evidence"].startswith("assumed: ")
    assert repr(TraceEvidence.from_json(document["results"][0]["trace"])) == repr(result.trace)


@pytest.mark.parametrize("sound", [noisy_max, mean_of_two])
def test_noise_that_the_output_hides_is_not_held_against_a_mechanism(sound):
    request = TraceRequest(sound, [ONE], parse_claim("pure:1.2"), 0, LIMITS, 60.0)
    evidence, *_ = worst_evidence(request)
    assert (
        not evidence.exceeds and not evidence.findings and evidence.verdict is not Verdict.VIOLATED
    )


def test_the_traced_pair_comes_first():
    pairs = [
        Pair(np.zeros(3), np.eye(3)[k] * size, "replace-one")
        for k, size in enumerate((0.5, 4.0, 1.0))
    ]
    request = TraceRequest(laplace, pairs, parse_claim("pure:1"), 0, LIMITS, 60.0)
    assert worst_pairs(request) == ([1], False)


def vector(dataset, size, rng):
    return dataset.sum() * SHIFTS + rng.laplace(0.0, 2.0, (size, len(SHIFTS)))


def test_a_trace_proposes_the_log_odds_of_the_shift_that_it_sees():
    """The score is exact but for centers and scales; from 2,000 outputs, their errors are a few
    hundredths of the noise.
    """
    for pair, sign in ((ONE, 1.0), (Pair(ONE.d1, ONE.d0, "replace-one"), -1.0)):
        request = TraceRequest(vector, [pair], parse_claim("pure:1"), 0, LIMITS, 60.0)
        shift = worst_evidence(request)[2]
        np.testing.assert_allclose(shift, sign * SHIFTS, atol=1e-12)
    rng = np.random.default_rng(0)
    one, zero = (encode(vector(dataset, 1_000, rng), 1_000) for dataset in (ONE.d1, ONE.d0))
    data = TrainingSet.build(concatenate([one, zero]), 1_000, rng)
    laplace_odds, normal_odds = fit_shift(data, SHIFTS)
    values = data.matrix[:, 1:]
    exact = (np.abs(values) - np.abs(values - SHIFTS)).sum(axis=1) / 2
    assert np.corrcoef(laplace_odds.score(data.matrix), exact)[0, 1] > 0.99
    assert np.corrcoef(normal_odds.score(data.matrix), values @ SHIFTS)[0, 1] > 0.99
    assert fit_shift(data, np.zeros(40)) == [] and fit_shift(data, np.ones(41)) == []
