"""Witnesses come back from JSON and reach their verdict again; broken ones are refused
in one line.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, PureDP, Verdict, audit, audit_utility, certify, replay
from dpwitness.auditors import MeanBound
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.seals import check_seal, seal
from dpwitness.auditors.witnesses.witness_reader import load_json, read_checked_witness
from dpwitness.auditors.workers.descriptions import describe_target
from dpwitness.mechanisms import Laplace, zoo

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def read_witness(source):
    data, name = load_json(source)
    check_seal(data, name)
    return read_checked_witness(data, name)


@pytest.fixture(scope="module")
def witness():
    found = (
        audit(zoo()["laplace-0.9"], pair=PAIR, trials=400_000, seed=seed) for seed in range(5, 15)
    )
    result = next(
        result
        for result in found
        if result.event.directions == 2 and result.event.kind == "intervals"
    )
    assert result.verdict is Verdict.VIOLATED
    return json.loads(json.dumps(result.witness, allow_nan=False))


@pytest.mark.slow
def test_the_author_does_not_choose_the_confidence(witness):
    """Counts of a private mechanism refute it at confidence .01; a replay needs .99 unless its user
    asks for less.
    """
    sound, tally = (
        Laplace(1.0, arithmetic="grid"),
        Tally(4600, 1700, 10_000, witness["counts"]["directions"]),
    )
    alpha = 0.99
    bound = combined_bound(read_witness(witness).claim, [Part(tally)], alpha)
    counts = {
        "correct": 4600,
        "wrong": 1700,
        "rounds": 10_000,
        "directions": tally.directions,
        "alpha": alpha,
    }
    assert bound > 1
    target = describe_target(sound)
    weak = edited(
        witness, confidence=0.01, counts=counts, bound=bound, target=target, claim="pure:1"
    )
    again = replay(weak, seed=8)
    assert again.verdict is Verdict.NOT_REFUTED and again.confidence == 0.99
    assert "the replay has confidence 0.99; the witness was recorded at 0.01" in again.notes
    asked = replay(weak, seed=8, confidence=0.01)
    assert asked.confidence == 0.01 and "confidence 0.01" in asked.headline()
    utility = seal(edited(audit_utility(errors, MeanBound(0.8)).witness, confidence=0.2))
    assert replay(utility, mechanism=errors, seed=8).confidence == 0.99
    with pytest.raises(InvalidArgument, match="confidence must"):
        replay(weak, confidence=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"schema_version": 7},
            "written by schema 7, this version reads up to 1; upgrade dpwitness",
        ),
        (
            {"target": {"target": "no_such_module_at_all:f"}},
            "no module named 'no_such_module_at_all'",
        ),
        ({"target": {"target": "dpwitness.mechanisms:Gone"}}, "which is not there"),
        ({"target": None}, "names no importable target"),
        (
            {"pair": {"d0": [0.0, 0.0], "d1": [1.0, 1.0], "relation": "replace-one", "why": ""}},
            "2 records differ",
        ),
        ({"event": {}}, "the witness is incomplete"),
    ],
)
def test_broken_witnesses_are_refused(witness, change, message):
    with pytest.raises(InvalidArgument, match=message):
        replay(witness | change)


def errors(size, rng):
    return rng.exponential(size=size)


def edited(witness, **change):
    return {key: value for key, value in (witness | change).items() if key != "sha256"}


def test_the_hash_of_the_content_shows_what_nothing_else_does(witness, tmp_path):
    changed = witness | {"pair": witness["pair"] | {"why": "another story"}}
    with pytest.raises(
        InvalidArgument,
        match="sha256 is not that of the content: the witness was edited or damaged",
    ):
        replay(changed)
    with pytest.raises(InvalidArgument, match="sha256 is not that"):
        read_witness(changed)
    again = replay(edited(changed), trials=1000, seed=8)
    assert "the witness has no hash of its content, so edits cannot be detected" in again.notes
    file = tmp_path / "w.json"
    # the same content, written otherwise
    file.write_text(json.dumps(witness, indent=7, sort_keys=True))
    assert read_witness(file).bound == witness["bound"]


@pytest.mark.parametrize("lost", [0, 3])
def test_the_counts_of_a_witness_are_those_of_the_look_that_certified_the_bound(lost):
    """An earlier look may certify more than the last, and some of its rounds may be lost."""
    found = audit(
        Laplace(epsilon=2.0),
        claim="pure:1",
        pair=Pair(np.zeros(1), np.ones(1)),
        trials=40_000,
        seed=3,
        stop="never",
    )
    assert found.tally is not None and found.basis is not None
    last = found.basis.parts[-1]
    counts = Tally(
        int(0.9 * last.tally.correct),
        last.tally.wrong // 2,
        last.tally.rounds,
        last.tally.directions,
    )
    basis = replace(
        found.basis,
        parts=(*found.basis.parts[:-1], replace(last, tally=counts, lost=lost)),
        alpha=1e-4,
    )
    lower, epsilon = basis.bounds(found.claim, found.event)
    early = replace(found, basis=basis, parameter_lower=lower, epsilon_lower=epsilon)
    assert early.witness is not None and early.witness["bound"] == lower
    read = read_checked_witness(early.witness, "witness")
    assert read.rounds == sum(part.tally.rounds for part in (found.stages or (Part(found.tally),)))
    forged = seal({**early.witness, "bound": lower * 1.01})
    with pytest.raises(InvalidArgument, match="bound must be what the counts certify"):
        read_checked_witness(forged, "witness")


@pytest.mark.slow
def test_each_replay_draws_a_seed_that_the_file_does_not_decide(witness):
    """The drawn seeds are equal with probability 2e-14 (four draws of 48 bits)."""
    utility = audit_utility(errors, MeanBound(0.8)).witness
    white = certify(Laplace(1.0), PAIR, PureDP(0.5), trials=10_000).witness
    for raw, options in (
        (witness, {"trials": 1000}),
        (utility, {"mechanism": errors}),
        (white, {}),
    ):
        first, second = replay(raw, **options), replay(raw, **options)
        assert len({first.seed, second.seed, raw["seed"], raw["seed"] + 1}) == 4
        assert first.to_json()["seed"] == first.seed and any(
            f"seed {first.seed}, drawn for this replay" in note for note in first.notes
        )
        again = replay(raw, seed=first.seed, **options)
        left_out = ("notes", "seconds", "cpu_seconds")
        ours, theirs = (
            {key: value for key, value in r.to_json().items() if key not in left_out}
            for r in (first, again)
        )
        assert ours == theirs and not any("drawn for this replay" in note for note in again.notes)
        assert replay(raw, seed=5, **options).to_json() | {"seconds": 0} != ours | {"seconds": 0}
