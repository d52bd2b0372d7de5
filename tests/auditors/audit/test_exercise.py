"""Pairs that change no output: an outcome of its own, in every kind of audit; and mechanisms that
only look so.
"""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness import Pair, Verdict, audit
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.workers.pair_exercise import LEVEL, difference
from dpwitness.mechanisms import Records
from dpwitness.reports.cards import what_to_do
from dpwitness.reports.summary import Entry

AGES = Pair(np.array([30.0, 50.0]), np.array([31.0, 50.0]))


def over_forty(dataset, size, rng):
    return np.sum(np.asarray(dataset) > 40) + rng.laplace(0.0, 0.01, size)


def shifted(by):
    return lambda dataset, size, rng: by * dataset[0] + rng.laplace(size=size)


@pytest.mark.slow
def test_ages_below_the_threshold_are_no_evidence_and_ages_around_it_are():
    """False where the laws are equal, except with probability LEVEL for each seed; the violation is
    gross.
    """
    result = audit(over_forty, claim="pure:1", pair=AGES, trials=15_000, seed=1, bits=False)
    assert result.verdict is Verdict.INCONCLUSIVE and result.exercised is False
    assert result.headline().startswith(
        "INCONCLUSIVE: this pair may not exercise the mechanism: its outputs on D0 and D1 "
        "look the same"
    )
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert (
        data["exercised"] is False
        and data["verdict"] == "INCONCLUSIVE"
        and data["tally"]["rounds"] > 5_000
    )
    assert "other values" in what_to_do(Entry(data, "ages"))
    found = audit(
        over_forty,
        claim="pure:1",
        pair=Pair(np.array([40.0]), np.array([41.0])),
        trials=2_000,
        seed=1,
    )
    assert found.verdict is Verdict.VIOLATED and found.exercised is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "claim", "trials"),
    [
        (shifted(1.0), "pure:1", 20_000),
        (shifted(0.1), "pure:1", 20_000),
        (shifted(0.0), "pure:0.1", 20_000),
        (shifted(0.0), "pure:1", 2_000),
    ],
)
def test_a_reaction_or_a_lack_of_power_remains_not_refuted(run, claim, trials):
    """A mechanism ten times as private as claimed reacts; few runs, or a small claim, do not show
    that nothing does.
    """
    result = audit(
        run,
        claim=claim,
        pair=Pair(np.array([0.0]), np.array([1.0])),
        trials=trials,
        seed=3,
        bits=False,
    )
    assert result.verdict is Verdict.NOT_REFUTED and result.exercised is not False
    assert (result.exercised is True) == (claim == "pure:1" and trials == 20_000)


def test_a_domain_that_is_too_narrow_is_told_with_one_that_is_not():
    result = audit(over_forty, claim="pure:1", domain=Records(1), trials=20_000, seed=1, bits=False)
    assert result.exercised is False
    hint = next(
        note
        for note in result.notes
        if note.startswith("no pair of Records(size=1, low=0.0, high=1.0) changes the outputs")
    )
    assert "values up to 100 do" in hint and "Records(size=1, low=0.0, high=100.0)" in hint


@pytest.mark.parametrize(
    "draw", [lambda rng, n: rng.normal(size=n), lambda rng, n: rng.geometric(0.2, n)]
)
def test_equal_laws_are_rarely_called_different(draw):
    """The level of the comparison; the test fails with probability 1e-6 at most."""
    rng = np.random.default_rng(2)
    found = [
        difference(*(encode(np.asarray(draw(rng, 500), dtype=float), 500) for _ in range(2)))
        for _ in range(100)
    ]
    assert sum(p < LEVEL for p in found) <= binom.isf(1e-6, 100, LEVEL)
    assert (
        difference(encode(rng.normal(size=500), 500), encode(rng.normal(size=500) * 2, 500)) < 1e-6
    )
    rare = np.where(rng.random(4000) < 0.02, 7.0, 1.0)
    assert difference(encode(np.ones(4000), 4000), encode(rare, 4000)) < 1e-6 and math.isfinite(
        difference(*[encode([None] * 9, 9)] * 2)
    )
