"""Tests that a trace supports a claim only if the recorded noise accounts for the outputs, and of
outputs without numbers.
"""

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness import Pair, Verdict
from dpwitness.auditors.traces import first_look
from dpwitness.auditors.traces.evidence import Limits, TraceRequest
from dpwitness.auditors.traces.first_look import worst_evidence, worst_pairs
from dpwitness.mechanisms import parse_claim
from dpwitness.reports.document import build_document, checked_document

PAIR = Pair(np.array([0.0]), np.array([1.0]), "replace-one")
LIMITS = Limits(1000, 10.0)


def evidence(mechanism, claim="pure:1", seed=0):
    request = TraceRequest(mechanism, [PAIR], parse_claim(claim), seed, LIMITS, 60.0)
    return worst_evidence(request)[0]


def test_a_trace_without_noise_is_inconclusive_and_accuses_nobody():
    """The number of records is equal on both datasets."""

    def size_of(dataset, size, rng):
        return np.full(size, float(len(dataset)))

    result = dpw.trace(size_of, PAIR, "pure:1")
    assert result.verdict is Verdict.INCONCLUSIVE and not result.findings and np.isnan(result.loss)
    assert result.headline().startswith(
        "INCONCLUSIVE: no call of a noise primitive was recorded, and all outputs on both "
        "datasets are equal"
    )
    document = build_document([result.to_json()], title="t")
    assert checked_document(document)["results"][0]["doubt"] == result.doubt
    edited = {**result.to_json(), "verdict": "NOT_REFUTED", "headline": ""}
    with pytest.raises(dpw.InvalidArgument, match="verdict must be INCONCLUSIVE"):
        checked_document({"schema_version": 1, "results": [edited]})


def test_recorded_noise_that_accounts_for_the_output_supports_the_claim():
    assert (
        evidence(lambda dataset, size, rng: dataset.sum() + rng.laplace(0.0, 1.0, size)).verdict
        is Verdict.SUPPORTED
    )
    draw = evidence(
        lambda dataset, size, rng: (
            dataset.sum() + rng.laplace(0.0, 1.0, size) + 0 * rng.laplace(0.0, 1.0, size)
        )
    )
    assert draw.verdict is Verdict.INCONCLUSIVE and "does not change the output" in draw.doubt


def test_a_pair_that_cannot_be_traced_leaves_the_others_their_places(monkeypatch):
    """The trace of the first pair fails; the third is four times beyond the claim."""
    pairs = [Pair(np.zeros(2), np.array([size, 0.0]), "replace-one") for size in (1.0, 0.5, 4.0)]
    usual = first_look.glance

    def failing(recorder, pair, promise):
        if pair is pairs[0]:
            raise ValueError("a run cannot be traced")
        return usual(recorder, pair, promise)

    monkeypatch.setattr(first_look, "glance", failing)
    request = TraceRequest(
        lambda dataset, size, rng: dataset.sum() + rng.laplace(0.0, 1.0, size),
        pairs,
        parse_claim("pure:1"),
        0,
        LIMITS,
        60.0,
    )
    assert worst_pairs(request) == ([2], False)
