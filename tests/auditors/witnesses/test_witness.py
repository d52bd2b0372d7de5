"""Witnesses come back from JSON and reach their verdict again; broken ones are refused
in one line.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dpwitness import (
    InvalidArgument,
    Pair,
    PureDP,
    Verdict,
    audit,
    audit_sensitivity,
    audit_utility,
    certify,
    replay,
)
from dpwitness.auditors import FailureBound, MeanBound, Scaling
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.witness_reader import (
    check_seal,
    load_json,
    read_checked_witness,
    seal,
)
from dpwitness.auditors.workers.loading import describe_target, load_target
from dpwitness.mechanisms import Laplace, Records, zoo
from dpwitness.reports import write_report

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


def test_bit_level_witness(tmp_path):
    result = audit(zoo()["laplace"], pair=PAIR, trials=50_000, seed=5)
    assert result.verdict is Verdict.NOT_REFUTED
    assert result.bit_level.verdict is Verdict.VIOLATED
    assert result.witness["level"] == "bit"
    again = replay(json.loads(json.dumps(result.witness)), seed=8)
    assert again.verdict is Verdict.VIOLATED and again.parameter_lower > 2


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


def distance(first, second):
    return abs(float(first) - float(second))


def errors(size, rng):
    return rng.exponential(size=size)


def growing(value, size, rng):
    return np.log(value) ** 1.0 * rng.uniform(0.9, 1.1, size)


@pytest.mark.parametrize("norm", [2, np.inf, distance])
def test_a_sensitivity_is_evaluated_again(norm):
    result = audit_sensitivity(np.mean, 0.2, Records(4), norm, evaluations=200)
    witness = json.loads(json.dumps(result.witness, allow_nan=False))
    assert witness["kind"] == "sensitivity" and witness["target"] == {"target": "numpy:mean"}
    with pytest.raises(
        InvalidArgument, match="outside the current folder; to run it, pass --allow numpy:mean"
    ):
        replay(witness)
    again = replay(witness, allow=["numpy:mean"], seed=8)
    assert again.verdict is Verdict.VIOLATED and again.ratio == pytest.approx(1.25)
    assert (
        replay(witness, mechanism=lambda d: 0.5 * np.mean(d), seed=8).verdict is Verdict.NOT_REFUTED
    )
    assert audit_sensitivity(np.mean, 0.25, Records(4), evaluations=200).witness is None


@pytest.mark.parametrize(
    ("function", "claim"),
    [
        (errors, MeanBound(0.8)),
        (errors, FailureBound(1.0, 0.1)),
        (growing, Scaling(0.5, (4, 32, 256, 1024), "p", math.log)),
    ],
)
def test_an_error_is_measured_again(function, claim):
    result = audit_utility(function, claim)
    witness = json.loads(json.dumps(result.witness, allow_nan=False))
    again = replay(witness, mechanism=function, seed=8)
    assert again.verdict is Verdict.VIOLATED and again.claim == claim
    assert again.estimate != result.estimate and again.estimate == pytest.approx(
        result.estimate, rel=0.1
    )


def test_measures_that_cannot_be_named_have_no_target():
    assert (
        audit_sensitivity(lambda d: d[0], 0.5, Records(1), evaluations=100).witness["target"]
        is None
    )
    assert (
        audit_utility(growing, Scaling(0.5, (4, 32, 256, 1024), "p", lambda p: math.log(p))).witness
        is None
    )
    witness = audit_sensitivity(np.mean, 0.2, Records(4), evaluations=200).witness
    with pytest.raises(InvalidArgument, match="written by schema 9"):
        replay(witness | {"schema_version": 9})
    with pytest.raises(InvalidArgument, match="bound is missing; the witness is incomplete"):
        replay({key: value for key, value in witness.items() if key != "bound"})


def edited(witness, **change):
    return {key: value for key, value in (witness | change).items() if key != "sha256"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: {"bound": w["bound"] * 1.01}, "bound must be what the counts certify, 1[.]"),
        (
            lambda w: {"counts": w["counts"] | {"correct": w["counts"]["correct"] + 3000}},
            "bound must be what the counts certify, 1[.]",
        ),
        (
            lambda w: {"counts": w["counts"] | {"wrong": 10**9}},
            "counts.correct [+] counts.wrong must be at most counts.rounds",
        ),
        (
            lambda w: {"counts": w["counts"] | {"directions": 1}},
            "counts.directions must be that of the event, 2, got 1",
        ),
        # the bound is less than the counts then certify, which is no lie
        (lambda w: {"confidence": 0.9}, None),
        (
            lambda w: {"claim_numbers": [1.0, 0.5]},
            "claim must agree with claim_numbers, got pure:1",
        ),
        (lambda w: {"claim": "pure:2"}, "claim must agree with claim_numbers, got pure:2"),
        (
            lambda w: {"claim": "pure:2", "claim_numbers": [2.0, 0.0]},
            "bound must exceed the claim, epsilon = 2, got 1[.]",
        ),
        (
            lambda w: {"claim": "pure:0.9", "claim_numbers": [0.9, 0.0]},
            "claim must be pure:1, the mechanism's own claim as recorded in the witness",
        ),
        (
            lambda w: {"counts": w["counts"] | {"rounds": "x"}},
            'counts.rounds must be a whole number, between 1 and 1000000000000, got "x"',
        ),
        (
            lambda w: {"event": w["event"] | {"kind": "atoms"}},
            "event.kind must be 'intervals', the kind of its rule, got \"atoms\"",
        ),
        (lambda w: {"pair": w["pair"] | {"relation": "near"}}, "pair.relation must be one of"),
        (
            lambda w: {"schema_version": [1]},
            "schema_version must be a whole number, at least 1, got list",
        ),
        (lambda w: {"extra": 1}, "extra is not a known field"),
    ],
)
def test_fields_that_do_not_fit_each_other_are_named(witness, change, message):
    raw = edited(witness, **change(witness))
    if message is None:
        assert replay(raw, trials=1000, seed=8).confidence == 0.99
        return
    for found in (raw, seal(raw)):
        with pytest.raises(InvalidArgument, match=f"^replay: witness: {message}"):
            replay(found)


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


def test_the_report_names_what_ran(witness, tmp_path):
    given = Laplace(1.0, arithmetic="grid")
    again = replay(
        edited(witness, name="somebody else's library"), mechanism=given, trials=1000, seed=8
    )
    assert again.name == "Laplace" and again.target["kwargs"]["noise_multiplier"] == 1.0
    assert (
        again.notes[1]
        == 'ran dpwitness.mechanisms:Laplace; the witness calls it "somebody else\'s library"'
    )
    text = write_report([again], tmp_path, title="Replay", plots=False).read_text()
    assert "Laplace" in text and text.count("somebody else") == 1  # in the note


def test_the_cause_of_an_error_comes_first(witness):
    def broken(dataset, size, rng):
        raise OSError("the disk is gone")

    again = replay(witness, mechanism=broken, trials=1000, seed=8)
    assert again.verdict is Verdict.ERROR and again.headline().startswith(
        "ERROR: mechanism always raises OSError: the disk is gone; this is a fault of the "
        "environment"
    )
    assert any(
        note.startswith("replay of a witness at the value level") for note in again.notes[1:]
    )


def test_a_changed_source_is_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "moved_target.py"
    file.write_text(
        "import numpy as np\n\n\ndef f(dataset, size, rng):\n    return np.round(8 * "
        "(dataset[0] + rng.laplace(0, 0.3, size))) / 8\n"
    )
    function = load_target("moved_target.py:f")
    found = json.loads(
        json.dumps(
            audit(function, claim="pure:1", pair=PAIR, trials=20_000, seed=1, bits=False).witness
        )
    )
    assert (
        found["source"]["file"] == "moved_target.py"
        and found["source"]["line"] == 4
        and "/" not in json.dumps(found["target"])
    )
    note = "the source of the target, moved_target.py, has changed since the witness was written"
    assert note not in replay(found, trials=1000, seed=8).notes
    file.write_text(file.read_text() + "\n# another line\n")
    assert note in replay(found, trials=1000, seed=8).notes


def test_structured_and_masked_datasets_are_replayed():
    rows = np.array([(1, 2.0), (3, 4.0)], dtype=[("id", "i8"), ("x", "f8")])
    other = rows.copy()
    other["x"][0] = 3.0
    masked = (
        np.ma.array([1.0, 2.0], mask=[False, True]),
        np.ma.array([1.0, 3.0], mask=[False, False]),
    )
    for pair in (Pair(rows, other), Pair(*masked)):

        def total(dataset, size, rng, kind=pair.d0):
            assert dataset.dtype.names == kind.dtype.names and isinstance(dataset, type(kind))
            return (
                np.round(
                    8
                    * (
                        (dataset["x"] if dataset.dtype.names else dataset).sum()
                        + rng.laplace(0, 0.2, size)
                    )
                )
                / 8
            )

        found = json.loads(
            json.dumps(
                audit(total, claim="pure:1", pair=pair, trials=20_000, seed=1, bits=False).witness
            )
        )
        assert replay(found, mechanism=total, seed=8).verdict is Verdict.VIOLATED


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
