"""`dpwitness scan`: the map, findings, exit codes, recorded calls, and misuse."""

import ast
import json
import re
import shutil
from pathlib import Path

import pytest

from dpwitness.cli import main

DOCS = Path(__file__).parents[3] / "docs"
MINE = '''
import numpy as np


def noisy_count(values, epsilon):
    """Differentially private count."""
    return len(values) + np.random.laplace(0.0, 0.4 / epsilon)


def clip(values, lower, upper):
    """Clip."""
    return np.clip(values, lower, upper)
'''
CALLED = """
from mine import noisy_count


def test_count():
    assert noisy_count([1, 2, 3], 0.5) > -1e3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mine.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "src" / "test_mine.py").write_text(CALLED, encoding="utf-8")
    return tmp_path


def test_a_wrong_count_is_suspected_with_its_place_and_inputs(folder, capsys):
    """The noise is 0.4 of what the claim needs: a few thousand runs show it."""
    assert main(["scan", "src/mine.py", "--seconds", "3", "--report", "out"]) == 3
    out = capsys.readouterr().out
    assert re.search(r"mine\.py:7 mine\.noisy_count: SUSPECT: epsilon > [12]\.", out)
    assert "    on [" in out and "audited: 1 SUSPECT; waiting for you: 0" in out
    found = json.loads((folder / "out" / "audit.json").read_text())
    assert found["results"][0]["verdict"] == "SUSPECT"
    targets = folder / "out" / "mine_targets.py"
    text = targets.read_text()
    assert "noise: numpy.random.laplace at mine.py:7, scale 0.4 / epsilon" in text
    kept = [line for line in text.splitlines(True) if ".guessed" not in line]
    targets.write_text("".join(kept))  # the claim is confirmed
    assert main(["audit", f"{targets}:noisy_count", "--trials", "4000", "--seed", "1"]) == 1


@pytest.mark.slow
def test_recorded_calls_are_scanned(folder, capsys, pytestconfig):
    plain = ["-q", "-p", "no:cacheprovider", "--rootdir", "src"]
    assert pytest.main([*plain, "src", "--dp-discover", "calls.json"]) == 0
    (call,) = json.loads(Path("calls.json").read_text())["calls"]
    assert call["arguments"] == [["values", "[1, 2, 3]", ""], ["epsilon", "0.5", ""]]
    capsys.readouterr()
    assert main(["scan", "src", "--calls", "calls.json", "--seconds", "3", "--json"]) == 3
    (row,) = json.loads(capsys.readouterr().out)["functions"]
    assert row["claim"] == "pure:0.5" and row["recorded"] and row["place"] == "mine.py:7"


def test_a_dry_run_lists_where_noise_is_drawn_and_writes_nothing(folder, capsys):
    assert main(["scan", "src", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "mine.py:7  numpy.random.laplace (laplace, scale 0.4 / epsilon)" in out
    assert "places that draw noise: 1; public functions that reach them: 1" in out
    assert main(["scan", "src", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["reached by"] == ["mine.noisy_count"]
    assert not (folder / "out").exists()


def shown(start):
    """Return the block of the guide that begins with a command or a comment."""
    text = (DOCS / "guides" / "scan.md").read_text(encoding="utf-8")
    return text[text.index(start) :].partition("```")[0].removeprefix(start * start.startswith("$"))


@pytest.fixture
def shop(tmp_path, monkeypatch):
    shutil.copytree(DOCS / "examples" / "shop", tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")


def test_the_guide_shows_the_map_of_the_shop(shop, capsys):
    assert main(["scan", "shop", "--dry-run"]) == 0
    assert capsys.readouterr().out == shown("$ dpwitness scan shop --dry-run\n")


@pytest.mark.slow
def test_the_guide_shows_the_scan_of_the_shop(shop, capsys):
    """The wrong function is suspected, and no other one. Numbers and datasets may differ."""

    def plain(text):
        return re.sub(r"\d+(\.\d+)?|\[.*\]", "N", text)

    command = "dpwitness scan shop --tests tests --seconds 30 --clock cpu"
    assert main(command.split()[1:]) == 3
    printed = capsys.readouterr()
    assert plain(printed.err + printed.out) == plain(shown(f"$ {command}\n"))
    targets = Path("out/scan-shop/shop_targets.py").read_text(encoding="utf-8")
    written, block = (
        set(map(ast.dump, ast.parse(text).body)) for text in (targets, shown("# shop.orders.sh"))
    )
    assert len(block) == 4 and block <= written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["scan", "a_package_that_is_not_installed"],
            "no module or distribution of this name is installed",
        ),
        (["scan", "src", "--python", "/no/such/python"], "--python must be an interpreter"),
        (["scan", " "], "scan needs a file, a folder or a package"),
        (["scan", "src:nothing"], "has no function 'nothing'"),
        (["scan", "src", "--calls", "src/mine.py"], "mine.py"),
        (["scan", "src", "--tests", "nowhere"], "--tests must be a file or folder that exists"),
    ],
)
def test_misuse_is_one_line(folder, capsys, arguments, message):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
