"""`dpwitness scan`: table, exit codes, repeated scans,
confirmation of guesses, and misuse.
"""

import json

import pytest

from dpwitness.cli import main

MINE = '''
import numpy as np


def noisy_count(values, epsilon):
    """Differentially private count."""
    return len(values) + np.random.laplace(0.0, 0.4 / epsilon)


def clip(values, lower, upper):
    """Clip."""
    return np.clip(values, lower, upper)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mine.py").write_text(MINE, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_a_scan_suspects_and_confirms_and_keeps_an_edited_file(folder, capsys):
    """The noise is 0.4 of what the claim needs: a few thousand runs show it, however slow the
    machine is.
    """
    assert main(["scan", "src", "--seconds", "6", "--report", "out"]) == 3
    out = capsys.readouterr().out
    assert (
        "mine.noisy_count  SUSPECT" in out
        and "1 mechanism, 1 other names; audited 1: 1 SUSPECT" in out
    )
    file = folder / "out" / "src_targets.py"
    kept = [line for line in file.read_text().splitlines(True) if ".guessed" not in line]
    file.write_text("".join(kept))
    assert main(["scan", "src", "--seconds", "6", "--report", "out"]) == 1
    out = capsys.readouterr().out
    assert "mine.noisy_count  VIOLATED" in out and "kept as it was" in out
    found = json.loads((folder / "out" / "audit.json").read_text())
    assert found["schema_version"] == 1 and found["results"][0]["verdict"] == "VIOLATED"
    assert main(["replay", str(folder / "out" / "witness-noisy-count.json")]) == 1


def test_a_dry_run_lists_the_calls_and_writes_nothing(folder, capsys):
    assert main(["scan", "src", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert (
        "mine.noisy_count\n    mine.noisy_count(np.array(dataset), epsilon=1.0)" in out
        and "1 of 2 public names" in out
    )
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["scan", "a_package_that_is_not_installed"],
            "no module or distribution of this name is installed",
        ),
        (["scan", "src", "--python", "/no/such/python"], "--python must be an interpreter"),
        (["scan", " "], "scan needs the name of a package, or a folder"),
    ],
)
def test_misuse_is_one_line(folder, capsys, arguments, message):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
