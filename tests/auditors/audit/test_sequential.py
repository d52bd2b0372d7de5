"""Sequential audits: early verdicts, the size of violation that ends them, continuation from a
store, and documents that are recomputed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpwitness import Pair, audit
from dpwitness.auditors.audit import conclude
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.witnesses.witness_reader import load_json, read_checked_witness
from dpwitness.core.values.validation import InvalidArgument

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def bits(epsilon):
    """Return randomized response."""

    def run(data, size, rng):
        truth = int(data[0] > 0)
        return np.where(rng.random(size) < 1 / (1 + math.exp(-epsilon)), truth, 1 - truth)

    return run


def run(epsilon=1.0, **options):
    return audit(
        bits(epsilon),
        **{"claim": "pure:1", "pair": PAIR, "confidence": 0.95, "sequential": True, "name": "bits"}
        | options,
    )


def test_the_document_and_the_witness_follow_from_the_counts():
    result = run(3.0, trials=2_000, stop="never")
    document = result.to_json()
    assert recompute_bounds(document).values["parameter_lower"] == pytest.approx(
        result.parameter_lower, rel=1e-9
    )
    assert len(document["stages"]) > 1
    assert all("prior" in stage for stage in document["stages"])
    witness = read_checked_witness(*load_json(result.witness))
    assert witness.bound == result.parameter_lower
    document["basis"]["stages"][-1]["correct"] -= 40
    document["basis"]["stages"][-1]["wrong"] += 40
    with pytest.raises(InvalidArgument, match="damaged or edited"):
        recompute_bounds(document)


def test_a_stored_audit_goes_on_with_the_counts_of_an_uninterrupted_one(tmp_path):
    store = tmp_path / "audits.db"
    first = run(1.2, trials=1_500, stop="never", store=store)
    again = run(1.2, trials=4_000, stop="never", store=store)
    whole = run(1.2, trials=4_000, stop="never")
    assert first.trials <= 1_500
    assert [part.tally for part in again.stages] == [part.tally for part in whole.stages]
    assert (again.trials, again.event.to_json()) == (whole.trials, whole.event.to_json())


def test_an_interrupted_audit_keeps_its_verdict():
    class Stop:
        def __call__(self, done, planned):
            if done > 1_500:
                raise KeyboardInterrupt

    violated = run(3.0, stop="never", progress=Stop())
    assert violated.verdict is Verdict.VIOLATED
    recompute_bounds(violated.to_json())
    sound = run(1.0, stop="never", progress=Stop())
    assert sound.verdict is Verdict.NOT_REFUTED
    assert any("stopped by the user" in note for note in sound.notes)


def test_time_ends_an_audit_and_the_best_of_several_pairs_is_tested():
    pairs = [Pair(np.array([0.0]), np.array([0.0]), "stated"), PAIR]
    result = run(1.0, seconds=0.01, pair=pairs)
    assert result.verdict is Verdict.NOT_REFUTED
    assert result.pair is pairs[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"find": 1.0}, "find must be above 1"),
        ({"find": -2.0}, "find must be positive"),
        ({"sequential": False, "find": 1.5}, "is for sequential audits"),
        ({"extend_to": 5_000, "store": "x.db"}, "fixed plan"),
        ({"sequential": "yes"}, "sequential must be True or False"),
    ],
)
def test_invalid_arguments_are_named(options, message):
    with pytest.raises(InvalidArgument, match=message):
        run(**options)


def test_a_violation_of_an_interrupted_audit_is_compared_with_fresh_runs(monkeypatch):
    """The audit is interrupted within its first epoch: only its last look sees the violation."""
    compared = []

    def recorded(sampler, counted):
        compared.extend(each.tally for each in counted)
        return ""

    def interrupt(done, planned):
        if done > 250:
            raise KeyboardInterrupt

    monkeypatch.setattr(conclude, "require_independent", recorded)
    result = run(8.0, stop="never", progress=interrupt)
    assert result.verdict is Verdict.VIOLATED
    assert result.looks == ((result.trials, result.parameter_lower),)
    assert compared == [result.tally]
