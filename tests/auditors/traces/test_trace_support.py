"""Tests that a trace supports a claim only if the recorded noise accounts for the outputs, and of
outputs without numbers.
"""

import sqlite3
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpwitness as dpw
from dpwitness import Pair, Verdict
from dpwitness.auditors.traces import first_look
from dpwitness.auditors.traces.first_look import Limits, worst_evidence, worst_pairs
from dpwitness.mechanisms import parse_claim
from dpwitness.reports.audit.document import build_document, checked_document

PAIR = Pair(np.array([0.0]), np.array([1.0]), "replace-one")
LIMITS = Limits(1000, 10.0)


def read_by_the_system(rng):
    """Noise that no primitive draws: bytes of a device."""
    with Path("/dev/urandom").open("rb") as device:
        return np.log(struct.unpack("<Q", device.read(8))[0] / 2.0**64 + 1e-20) + 1


def drawn_in_a_database(rng):
    with sqlite3.connect(":memory:") as connection:
        return (
            np.log(abs(connection.execute("SELECT random()").fetchone()[0]) / 2.0**63 + 1e-20) + 1
        )


def evidence(mechanism, claim="pure:1", seed=0):
    return worst_evidence(mechanism, [PAIR], parse_claim(claim), seed, LIMITS, 60.0)[0]


@pytest.mark.parametrize(
    ("noise", "form"),
    [
        (drawn_in_a_database, "number"),
        *(
            (read_by_the_system, form)
            for form in ("number", "whole", "bit", "rare", "beside", "unused")
        ),
    ],
)
def test_noise_that_is_not_recorded_supports_nothing(noise, form):
    """Few outputs of the last forms are equal by chance, and `beside` has recorded noise in its
    first number only.
    """

    def run(dataset, size, rng):
        x = dataset[0] + noise(rng)
        drawn = rng.laplace(0.0, 1.0) if form in ("beside", "unused") else 0.0
        values = {
            "number": x,
            "whole": round(x),
            "bit": x > 0.5,
            "rare": x > 1.9,
            "beside": (drawn, float(x > 1.9)),
            "unused": x > 0.5,
        }
        return np.array([values[form]], dtype=float)

    found = [evidence(run, seed=seed) for seed in range(3)]
    assert {each.verdict for each in found} == {Verdict.INCONCLUSIVE}
    assert not any("SUPPORTED" in line for each in found for line in each.explanation)


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


FORMS = {
    "array": lambda v: np.array(v, dtype=float),
    "rows": lambda v: np.ones((len(v), 3)),
    "columns": lambda v: np.zeros((2, len(v))),
    "no columns": lambda v: np.zeros((len(v), 0)),
    "list": list,
    "ragged": lambda v: [[x] * (k + 1) for k, x in enumerate(v)],
    "dict": lambda v: {str(k): x for k, x in enumerate(v)},
    "set": lambda v: {round(x) for x in v},
    "text": lambda v: ",".join(f"{x:.1f}" for x in v),
    "none": lambda v: v[0] if v else None,
    "frame": lambda v: pd.DataFrame({"x": v}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["one side", "both sides", "sometimes"])
def test_empty_outputs_can_be_traced(form, kind):
    """A number of each record that exceeds a threshold is released with noise, so that outputs may
    be empty.
    """
    pair = Pair(np.array([1.0]), np.array([1.0, 2.0]), "add-remove")
    threshold = {"one side": 1.5, "both sides": 9.0, "sometimes": 1.0}[kind]

    def run(dataset, size, rng):
        kept = dataset[
            dataset + (rng.laplace(0.0, 1.0, len(dataset)) if kind == "sometimes" else 0)
            > threshold
        ]
        return [FORMS[form](list(kept + rng.laplace(0.0, 1.0, len(kept)))) for _ in range(size)]

    found, note, _ = worst_evidence(run, [pair], parse_claim("pure:1"), 0, LIMITS, 60.0)
    assert found is not None and note == "" and found.verdict is Verdict.INCONCLUSIVE


def test_a_pair_that_cannot_be_traced_leaves_the_others_their_places(monkeypatch):
    """The trace of the first pair fails; the third is four times beyond the claim."""
    pairs = [Pair(np.zeros(2), np.array([size, 0.0]), "replace-one") for size in (1.0, 0.5, 4.0)]
    usual = first_look.glance

    def failing(recorder, pair, promise):
        if pair is pairs[0]:
            raise ValueError("a run cannot be traced")
        return usual(recorder, pair, promise)

    monkeypatch.setattr(first_look, "glance", failing)
    found = worst_pairs(
        lambda dataset, size, rng: dataset.sum() + rng.laplace(0.0, 1.0, size),
        pairs,
        parse_claim("pure:1"),
        0,
        LIMITS,
        60.0,
    )
    assert found == ([2], False)


def test_a_pair_on_which_other_outputs_are_possible_comes_first():
    """Each user has noise of its own, so that a user of one dataset only has an output that the
    other dataset cannot have.
    """

    def names(dataset, size, rng):
        users, counts = np.unique(dataset, return_counts=True)
        return [
            [user for user in users.tolist() if counts[0] + rng.laplace(0.0, 1.0) > 4.0]
            for _ in range(size)
        ]

    base = ["ann"] * 9 + ["bob"] * 8
    pairs = [Pair(base, [*base, user], "add-remove") for user in ("ann", "bob", "dora")]
    assert worst_pairs(names, pairs, parse_claim("pure:3"), 0, LIMITS, 60.0) == ([2], False)


def test_counts_that_refute_the_claim_leave_no_support():
    """A branch of probability .009 publishes the data. Traced runs have size 1, in which the code
    does not take it.
    """

    def rare_branch(dataset, size, rng):
        noise = rng.laplace(0.0, 1.0, size)
        return np.where(
            noise > (4 if size > 1 else np.inf), 1e6 * dataset.sum(), dataset.sum() + noise
        )

    result = dpw.audit(rare_branch, claim="pure:1.1", pair=PAIR, trials=20_000, bits=False)
    assert result.verdict is Verdict.VIOLATED and result.trace.verdict is Verdict.INCONCLUSIVE
    assert "the counts exceed the claim" in result.trace.doubt and not any(
        "SUPPORTED" in line for line in result.trace.explanation
    )
