"""Bounds and verdicts computed again from the counts of a JSON document: an edited number
contradicts the counts.
"""

import copy
import json

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness import PureDP, Verdict
from dpwitness.auditors import AuditResult
from dpwitness.auditors.audit.conclude import checked_by_kernel
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.counts import Basis
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.core.values.validation import InvalidArgument

PAIR = dpw.Pair(np.zeros(1), np.ones(1))


def noisy(dataset, size, rng):
    return dataset[0] + rng.laplace(0.0, 0.6, size)


def document(result):
    return json.loads(json.dumps(result.to_json()))


@pytest.fixture(
    scope="module", params=["pure:1", "approx:1,1e-3", "gdp:0.9", "zcdp:0.2", "rdp:2,0.1"]
)
def audited(request):
    options = {"pair": PAIR, "trials": 6_000, "seed": 4, "trace": False, "causes": False}
    return document(dpw.audit(noisy, claim=request.param, **options))


def turned(verdict):
    return "NOT_REFUTED" if verdict == "VIOLATED" else "VIOLATED"


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d.update(parameter_lower=d["parameter_lower"] * 1.01 + 0.01),
        lambda d: d.update(parameter_lower=d["parameter_lower"] * 0.5 - 0.01),
        lambda d: d.update(epsilon_lower=d["epsilon_lower"] + 0.01),
        lambda d: d.update(verdict=turned(d["verdict"])),
        lambda d: d.update(confidence=0.9999),
        lambda d: d["basis"].update(alpha=0.5),
        lambda d: d["basis"]["stages"][-1].update(rounds=10),
        lambda d: d.update(claim="pure:3", claim_numbers=[3.0, 1.0]),
        lambda d: d.pop("claim_numbers"),
        lambda d: d.update(basis=None),
        lambda d: d["bit_level"].update(epsilon_lower=d["bit_level"]["epsilon_lower"] + 0.01),
        lambda d: d["bit_level"].update(verdict=turned(d["bit_level"]["verdict"])),
    ],
)
def test_an_edited_number_is_refused(audited, edit):
    edited = copy.deepcopy(audited)
    edit(edited)
    if edited == audited:
        return
    with pytest.raises(InvalidArgument, match=r"result 'noisy.*"):
        recompute_bounds(edited)


def test_a_bound_without_its_counts_is_refused(audited):
    without = {key: value for key, value in audited.items() if key != "basis"}
    with pytest.raises(InvalidArgument, match="its counts give parameter_lower = 0"):
        recompute_bounds(without)


@pytest.mark.parametrize("claim", ["approx:1,1e-5", "gdp:1"])
def test_canaries_follow_from_their_counts(claim):
    rng = np.random.default_rng(1)
    coins = rng.random(300) < 0.5
    scores = rng.normal(size=300) + 2.0 * coins
    told = document(dpw.audit_canaries(scores[coins], scores[~coins], claim))
    assert recompute_bounds(told).values["parameter_lower"] == pytest.approx(
        told["parameter_lower"], rel=1e-3
    )
    for edit in (
        {"parameter_lower": told["parameter_lower"] + 0.1},
        {"verdict": turned(told["verdict"])},
        {"confidence": 0.999},
    ):
        with pytest.raises(InvalidArgument, match="is damaged or edited"):
            recompute_bounds(told | edit)


PARTS = (Part(Tally(420, 130, 900, 2), 0.125**0.5), Part(Tally(2900, 700, 8000, 2), lost=20))
BOUND = combined_bound(PureDP(1.0), PARTS, 0.03)


@pytest.mark.parametrize(
    ("claimed", "stated", "verdict"),
    [
        (BOUND - 1e-8, BOUND, Verdict.VIOLATED),
        (BOUND + 1e-8, BOUND + 2e-8, Verdict.NOT_REFUTED),
        (BOUND + 1e-8, BOUND + 0.1, Verdict.ERROR),
    ],
)
def test_a_violation_is_reported_if_the_kernel_confirms_it(claimed, stated, verdict):
    result = AuditResult(
        name="x",
        claim=PureDP(claimed),
        verdict=Verdict.VIOLATED,
        confidence=0.95,
        seed=0,
        trials=1,
        requested=1,
        epsilon_lower=stated,
        parameter_lower=stated,
        basis=Basis(0.03, PARTS),
    )
    found = checked_by_kernel(result)
    assert found.verdict is verdict
    assert (found.parameter_lower > claimed) == (verdict is not Verdict.NOT_REFUTED)
    assert bool(found.notes) == (verdict is not Verdict.VIOLATED)
