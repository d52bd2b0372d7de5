"""Defaults of options from the project's ``pyproject.toml``."""

import pytest

from dpwitness.cli import main

AUDIT = ["audit", "mine.py:noisy", "--d0", "[0]", "--d1", "[1]"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A function that writes the table; the working folder is below the project's."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mine.py").write_text(
        "def noisy(data, size, rng):\n    return data.sum() + rng.laplace(0.0, 4.0, size)\n"
    )
    monkeypatch.chdir(tmp_path / "src")
    return lambda text: (tmp_path / "pyproject.toml").write_text(f"[tool.dpwitness]\n{text}\n")


@pytest.mark.slow
def test_a_project_has_a_claim_and_a_confidence(project, capsys):
    project('claim = "pure:1"\nconfidence = 0.999\nbaseline = "none.json"')
    options = ["--trials", "2000", "--seed", "1"]
    assert main(["plan", "--claim", "pure:2", "--find", "3"]) == 0
    assert "--claim" not in capsys.readouterr().err
    project('claim = "pure:1"\nconfidence = 0.999')
    assert main([*AUDIT, *options]) == 0
    printed = capsys.readouterr()
    assert "no violation of pure:1 found" in printed.out and "(confidence 0.999)" in printed.out
    assert "defaults of pyproject.toml: --claim pure:1, --confidence 0.999" in printed.err
    assert main([*AUDIT, *options, "--confidence", "0.9", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert "confidence 0.9)" in printed.out and "pyproject" not in printed.err


def test_an_option_that_excludes_the_default_counts(project, capsys):
    project("seconds = 1000")
    assert main([*AUDIT, "--claim", "pure:1", "--trials", "1500"]) == 0
    assert "seconds" not in capsys.readouterr().err


def test_without_a_table_nothing_is_added(project, capsys):
    run = [*AUDIT, "--claim", "pure:1", "--trials", "1500"]
    project("")
    assert main(run) == 0 and "pyproject" not in capsys.readouterr().err


def test_targets_are_defaults_of_targets_only(project, capsys):
    project('claim = "pure:1"\ntargets = ["src/mine.py:noisy"]')
    assert main(["list", "relations"]) == 0 and "pyproject" not in capsys.readouterr().err
    assert main(["store", "gc", "none.db"]) == 2
    assert "none.db: no such file" in capsys.readouterr().err
    assert main(["watch", *AUDIT[2:], "--store", "watch.db", "--trials", "12000"]) == 0
    assert "defaults of pyproject.toml: mine.py:noisy, --claim pure:1" in capsys.readouterr().err


def test_only_the_defaults_that_count_are_named(project, capsys):
    """A target of the command line, or a program, takes the place of the project's target."""
    project('claim = "pure:1"\nseconds = 60\ntargets = ["src/none.py:noisy"]')
    assert main([*AUDIT, "--trials", "1500"]) == 0
    assert "pyproject.toml: --claim pure:1\n" in capsys.readouterr().err
    assert main(["audit", "--command", "./none.sh"]) == 2
    printed = capsys.readouterr().err
    assert "none.py" not in printed and "--claim pure:1, --seconds 60" in printed


def test_a_baseline_is_found_from_any_folder(project, capsys, tmp_path):
    project('baseline = "src/known.toml"\nclaim = "pure:0.1"')
    (tmp_path / "src" / "known.toml").write_text(
        '[[accepted]]\nname = "noisy"\nclaim = "pure:0.1"\nreason = "a test"\nexpires = 2999-01-01\n'
    )
    assert main([*AUDIT, "--trials", "20000"]) == 0
    assert "accepted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("confidenc = 0.9", "got 'confidenc'; did you mean 'confidence'?"),
        ("confidence = 3", "confidence must lie in (0, 1), got 3"),
        ("confidence = [1]", "confidence must be a text or a number, got [1]"),
        ("targets = 'mine.py'", "targets must be a list of texts, got 'mine.py'"),
        ("claim = ", "must be a TOML file"),
    ],
)
def test_a_wrong_table_is_refused_before_any_run(project, capsys, text, message):
    project(text)
    with pytest.raises(SystemExit) as ended:
        main(AUDIT)
    assert ended.value.code == 2 and message in capsys.readouterr().err
