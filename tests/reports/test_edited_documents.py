"""A document that is read back: no field that carries a conclusion can be edited unnoticed."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.functions.utility import MeanBound
from dpwitness.cli import main
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms import Laplace, Records
from dpwitness.reports.document import UNSEALED_FIELDS, build_document, checked_document

PAIR = dpw.Pair(np.zeros(1), np.ones(1))
PUBLISHED = Path(__file__).parents[2] / "reports" / "published" / "zoo.json"


@pytest.fixture(scope="module")
def fresh():
    """A result of each kind, as a report writes it."""

    def noisy(dataset, size, rng):
        return np.sum(dataset) + rng.laplace(0.0, 0.6, size)

    rng = np.random.default_rng(1)
    coins = rng.random(300) < 0.5
    scores = rng.normal(size=300) + 2.0 * coins
    results = [
        dpw.audit(noisy, claim="pure:1", pair=PAIR, trials=6_000, seed=4, name="violated"),
        dpw.audit(noisy, claim="pure:3", pair=PAIR, trials=2_000, seed=4, name="kept"),
        dpw.certify(Laplace(1.0), PAIR, trials=10_000),
        dpw.audit_canaries(scores[coins], scores[~coins], "approx:1,1e-5"),
        dpw.trace(noisy, PAIR, "pure:3", confirm=False),
        dpw.audit_sensitivity(np.mean, 0.2, Records(4), evaluations=100),
        dpw.audit_utility(
            lambda size, rng: rng.random(size), MeanBound(0.6, high=1.0), runs=300, seed=1
        ),
        dpw.check_mechanism(Laplace(1.0), trials=1000, checks=["check_dataset_is_left_alone"]),
    ]
    return json.loads(json.dumps(build_document(results, title="t")))


def changed(value):
    """Another value of the same kind."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1 if value != 0.99 else 0.999
    if isinstance(value, str):
        return {"VIOLATED": "NOT_REFUTED", "NOT_REFUTED": "VIOLATED", "inf": 1.5}.get(
            value, value + "x"
        )
    if isinstance(value, list):
        return [*value, copy.deepcopy(value[0]) if value else 1]
    return {key: changed(part) for key, part in value.items()} or {"more": 1}


def refused(document):
    try:
        checked_document(document, "audit.json")
    except InvalidArgument as error:
        told = str(error)
    else:
        return False
    return told.startswith("audit.json: ") and len(told) <= 1000


def alone(document, i, edit=None):
    """One result of a document, edited."""
    result = copy.deepcopy(document["results"][i])
    if edit:
        edit(result)
    return {"schema_version": 1, "title": "t", "results": [result]}


@pytest.mark.slow_cases("0", "1")
@pytest.mark.parametrize("i", range(8))
def test_a_changed_field_is_refused_or_carries_no_conclusion(fresh, i):
    assert not refused(fresh) and not refused(alone(fresh, i))
    for key, value in fresh["results"][i].items():
        if key not in UNSEALED_FIELDS:
            assert refused(
                alone(fresh, i, lambda r, key=key, value=value: r.update({key: changed(value)}))
            ), key
            assert refused(alone(fresh, i, lambda r, key=key: r.pop(key))), key
    assert refused(alone(fresh, i, lambda r: r.update(sha256="0" * 64)))
    assert not refused(alone(fresh, i, lambda r: r.update(name="another", seconds=9.0)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("verdict", "NOT_REFUTED"),
        ("verdict", "CERTIFIED"),
        ("parameter_lower", 0.5),
        ("parameter_lower", 9.0),
        ("epsilon_lower", 9.0),
        ("confidence", 0.99999),
        ("alpha", 0.5),
        ("claim", "pure:9"),
        ("claim_numbers", [9.0, 0.0]),
        ("p_value", 0.9),
        ("evidence", "proved"),
        ("relation", "add-remove"),
        ("tally", {"correct": 1, "wrong": 1, "rounds": 2, "directions": 2}),
    ],
)
def test_without_the_seal_counts_still_speak(fresh, key, value):
    with pytest.raises(InvalidArgument, match=r"audit.json: results\[0\]: .*violated"):
        checked_document(
            alone(fresh, 0, lambda r: (r.update({key: value}), r.pop("sha256"), r.pop("witness"))),
            "audit.json",
        )


def test_a_published_document_is_read():
    assert not refused(json.loads(PUBLISHED.read_text()))


def test_a_verdict_without_counts_and_seal_is_shown_as_recorded(fresh, tmp_path, capsys):
    file = tmp_path / "old.json"
    file.write_text(json.dumps(alone(fresh, 2, lambda r: r.pop("sha256"))))
    for _ in range(2):  # a report of a report says it once
        assert main(["report", str(file), "--format", "md", "--no-plots"]) == 0
        assert (tmp_path / "old.md").read_text().count("as recorded in old.json") == 1
    assert capsys.readouterr().err == ""
