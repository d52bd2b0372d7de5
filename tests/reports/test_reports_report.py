"""Reports: strict JSON, the numbers a decision needs, witnesses, safe names, plots that are the
same twice.
"""

import json
from dataclasses import asdict

import pytest

from dpwitness.auditors.statistics.certificate import Tally, certified_point
from dpwitness.reports import write_report


def array(*values):
    return {"$type": "array", "dtype": "<f8", "shape": [len(values)], "value": list(values)}


def audit(name="laplace-0.9", verdict="VIOLATED", p=1e-40, **changes):
    """JSON of a black-box audit, with the numbers of a Laplace mechanism whose noise is scaled by
    0.9.
    """
    data = {
        "schema_version": 1, "kind": "black box", "name": name, "claim": "pure:1", "relation": "replace-one", "verdict": verdict,
        "headline": f"{verdict}: epsilon > 1.106 certified", "confidence": 0.99, "epsilon_lower": 1.1056, "parameter": "epsilon",
        "parameter_lower": 1.1056, "p_value": p, "limit": 1.1083, "detectable": 1.00671, "event": None,
        "pair": {"d0": array(0.0), "d1": array(1.0), "relation": "replace-one", "why": "one extreme against the other"},
        "description": "guess D0 if the output is at most 0; D1 if the output is above 1", "method": "quantile bins",
        "tally": {"correct": 1_000_000, "wrong": 329_192, "rounds": 2_000_000, "directions": 2},
        "bit_level": {"verdict": "NOT_REFUTED", "epsilon_lower": 0.07, "event": None, "description": "lattice", "tally": None},
        "pairs": [], "trials": 2_123_456, "requested": 4_000_000, "seed": 71, "notes": [], "target": None,
        "environment": {"python": "3.11"}, "seconds": 1.5,
        "witness": {"schema_version": 1, "name": name, "target": {"target": "m:f"}} if verdict == "VIOLATED" else None,
    }  # fmt: skip
    told = data | changes
    point = (
        certified_point(Tally(**told["tally"]), 0.01)
        if told["tally"] and told["tally"]["correct"]
        else None
    )
    return told | {"certified_point": asdict(point) if point else None}


def test_the_numbers_of_a_violation_are_in_the_markdown(tmp_path):
    path = write_report(
        [audit()], tmp_path, title="Audit of laplace", command="dpwitness audit m:f", plots=False
    )
    text = path.read_text()
    assert path == tmp_path / "audit.md"
    assert text.startswith("# VIOLATED: epsilon > 1.106 certified against the claim pure:1")
    for expected in (
        "Audit of laplace: Does this implementation keep the privacy promise it makes?",
        "epsilon > 1.106",
        "1.106 / 1.108 = 99.8%",  # 1.1056 / 1.1083 = 0.99756
        "epsilon = 1.007 (1.007 times the claim), with probability 0.9",
        "1,000,000 right (75.2337% of the guesses) and 329,192 wrong guesses of the dataset, which "
        "was drawn by chance 2,000,000 times",
        "2,123,456 runs of the mechanism of 4,000,000 allowed",
        "nothing found (separate from",
        "one extreme against the other; checked to be replace-one neighbors",
        "guess D0 if the output is at most 0; D1 if the output is above 1",
        "dpwitness replay witness-laplace-0.9.json",
        "dpwitness audit m:f",
        "`71`",
    ):
        assert expected in text, expected
    assert "is private" not in text
    assert json.loads((tmp_path / "witness-laplace-0.9.json").read_text())["target"] == {
        "target": "m:f"
    }


def test_the_family_keeps_what_survives_and_names_what_does_not(tmp_path):
    """p = 1e-5 and 0.004 of four at error 0.01: Holm multiplies them by 4 and 3, so the second does
    not survive.
    """
    results = [
        audit("a", p=1e-5),
        audit("b", p=0.004),
        audit("c", "NOT_REFUTED", p=0.3),
        audit("d", "NOT_REFUTED", p=0.9),
    ]
    text = write_report(results, tmp_path, title="t", plots=False).read_text()
    assert "VIOLATED in 2 of 4 audits: `a`, `b`" in text and "4 p-values, Holm" in text
    assert (
        "the claim of `a` is refuted; the probability that any such refutation is false is "
        "at most 0.01. `b`: violated at" in text
    )
    stored = json.loads((tmp_path / "audit.json").read_text())
    assert (
        stored["holm"]["adjusted"] == pytest.approx([4e-5, 0.012, 0.6, 0.9])
        and stored["holm"]["error"] == 0.01
    )
    assert stored["verdicts"] == {
        "VIOLATED": 2,
        "NOT_REFUTED": 2,
        "CERTIFIED": 0,
        "SUPPORTED": 0,
        "INCONCLUSIVE": 0,
        "ERROR": 0,
    }


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/abs", "..", "C:\\x", "a\nb", "\N{SNOWMAN}", "x" * 500, "-rf", "a\x00b"],
)
def test_names_cannot_leave_the_folder(tmp_path, name):
    folder = tmp_path / "deep" / "report"
    write_report([audit(name), audit(name.upper())], folder, title="t", plots=False)
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file() and p.parent != folder) == []
    files = sorted(p.name for p in folder.iterdir())
    assert len(files) == 6 and all(len(f) < 90 and f == f.lower() and ".." not in f for f in files)
