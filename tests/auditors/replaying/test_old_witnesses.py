"""Witnesses of every kind as they were written before the modules had rooms: their names of modules
are old, and they replay.
"""

from pathlib import Path

import pytest

from dpwitness.cli import main
from dpwitness.core.values.json_reader import read_json

OLD = sorted((Path(__file__).parent / "witnesses").glob("*.json"))


@pytest.mark.slow_cases("threshold", "utility", "white-box", "white-box-rows")
@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_an_old_witness_replays(path, capsys):
    allowed = ["--allow", "numpy:mean"] if path.stem == "sensitivity" else []
    assert main(["replay", str(path), "--seed", "8", *allowed]) == 1
    said = capsys.readouterr().out
    assert "VIOLATED" in said or "FAILS" in said


def test_every_kind_is_there_under_old_names():
    assert {path.stem for path in OLD} >= {
        "atoms",
        "claim",
        "intervals",
        "low-bits",
        "sensitivity",
        "threshold",
        "utility",
    }
    places = [(read_json(path).get("target") or {}).get("target", "") for path in OLD]
    assert (
        "dpwitness.mechanisms.additive:Laplace" in places
        and "dpwitness.mechanisms.sparse_vector:BrokenSparseVector" in places
    )
