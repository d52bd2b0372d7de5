"""Tests of ``dpwitness replay``: paths that are not files, targets that moved, and the text printed
before the run.
"""

import json

import pytest


@pytest.fixture
def witness(shell):
    pair = ["--d0", "[0]", "--d1", "[1]", "--trials", "4000", "--report", "out"]
    found = shell.dpwitness(
        "audit", "mine.py:scaled", "--kwargs", '{"scale": 0.5}', "--claim", "pure:1", *pair
    )
    assert found.returncode == 1
    return shell.folder / "out" / "witness-scaled.json"


def test_target_file_line_and_arguments_are_shown_and_the_witness_travels(shell, witness):
    raw = json.loads(witness.read_text())
    assert raw["target"] == {"target": "mine.py:scaled", "kwargs": {"scale": 0.5}}
    assert str(shell.folder) not in witness.read_text()
    line = 1 + (shell.folder / "mine.py").read_text().splitlines().index(
        "def scaled(dataset, size, rng, *, scale):"
    )
    found = shell.dpwitness("replay", "out/witness-scaled.json", "--seed", "8")
    assert found.returncode == 1
    assert (
        found.stdout.splitlines()[0]
        == f'replays mine.py:scaled (mine.py, line {line}), arguments {{"scale": 0.5}}'
    )
    (shell.folder / "moved").mkdir()
    (shell.folder / "mine.py").rename(shell.folder / "moved" / "theirs.py")
    gone = shell.dpwitness("replay", "out/witness-scaled.json")
    assert (
        gone.returncode == 2
        and "if it has moved, pass its new path: --target FILE.py:scaled" in gone.stderr
    )
    again = shell.dpwitness(
        "replay",
        "out/witness-scaled.json",
        "--seed",
        "8",
        "--target",
        "moved/theirs.py:scaled",
        "--verbose",
    )
    assert again.returncode == 1 and "ran moved/theirs.py:scaled" in again.stdout
