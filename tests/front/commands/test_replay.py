"""Tests of ``dpwitness replay``: paths that are not files, targets that moved, the text printed
before the run, and files from standard input.
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


@pytest.mark.slow
def test_a_dash_is_standard_input_where_a_file_is_read(shell, witness):
    """Pipes too; the target of the witness is looked for in the current folder."""

    def piped(file, *arguments):
        return shell.dpwitness(*arguments, piped=(shell.folder / file).read_bytes())

    (shell.folder / "scores.csv").write_text("score,included\n" + "3,1\n-3,0\n" * 100)
    (witness.parent / "mine.py").write_bytes((shell.folder / "mine.py").read_bytes())
    shell.folder = witness.parent
    again = piped("witness-scaled.json", "replay", "-", "--report", "again")
    assert again.returncode == 1 and "replays mine.py:scaled" in again.stdout
    document = json.loads((shell.folder / "again" / "audit.json").read_text())
    assert document["title"] == "Replay of standard input"
    assert piped("witness-scaled.json", "replay", "-", "--check").stdout.startswith("ACCEPTED -")
    written = piped("audit.json", "report", "-", "--report", "written", "--format", "md")
    assert written.stdout == "written/audit.md\n"
    assert "1 same" in piped("audit.json", "compare", "-", "audit.json").stdout
    scores = piped("../scores.csv", "canaries", "-", "--claim", "pure:1")
    assert scores.returncode == 1 and "200 canaries" in scores.stdout
    damaged = piped("audit.md", "report", "-")
    assert damaged.returncode == 2
    assert damaged.stderr.startswith("dpwitness report: standard input is not a complete JSON file")
