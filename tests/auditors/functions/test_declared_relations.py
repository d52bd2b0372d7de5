"""Relations that a target file declares: audited in workers, on the command line, and replayed."""

import json
from pathlib import Path

import pytest

from dpwitness import Target
from dpwitness.auditors.functions.declared_targets import DeclaredRelations
from dpwitness.cli import main

FILE = """
import os

NUMBERS = {"type": "vector", "dtype": "i32", "bounds": [0, 10], "size": None}
COLUMNS = {"x": {"dtype": "f64", "nan": True}, "g": {"dtype": "category", "categories": ["a", "b"]}}
FRAMES = {"type": "frame", "columns": COLUMNS, "size": None}

def clip(rows):
    return [min(v, 5) for v in rows]

def ranks(rows):
    return [sorted(rows).index(v) for v in rows]

def aborts(rows):
    if len(rows) > 1 and rows[0] == 7:
        os.abort()
    return len(rows)

def negated(frame):
    return {"x": [-v for v in frame["x"]], "g": frame["g"]}

def first_group(frame):
    return frame["g"][:1]

def noise(epsilon):
    return epsilon

def largest(epsilons):
    return max(epsilons)

def relations(**keys):
    return {"kind": "metamorphic", **keys}

TARGETS = {
    "clip": relations(function="clip", row_wise=True, unordered=True, output_metric="symmetric", input=NUMBERS),
    "ranks": relations(function="ranks", row_wise=True, input=NUMBERS),
    "aborts": relations(function="aborts", unordered=True, input={**NUMBERS, "bounds": [7, 8]}),
    "frames": relations(function="negated", row_wise=True, input=FRAMES),
    "groups": relations(function="first_group", unordered=True, input=FRAMES),
    "figures": relations(noise="noise", parallel="largest"),
    "guessed": relations(noise="noise", guessed="noise is a noise scale"),
    "nothing": relations(),
    "misspelled": relations(function="clip", row_wises=True),
}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "related_targets.py").write_text(FILE)
    return "related_targets.py"


@pytest.mark.slow_cases("clip-NOT_REFUTED NOT_REFUTED", "frames-NOT_REFUTED")
@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("clip", "NOT_REFUTED NOT_REFUTED"),
        ("ranks", "VIOLATED"),
        ("aborts", "VIOLATED"),
        ("frames", "NOT_REFUTED"),
        ("groups", "VIOLATED"),
        ("figures", "VIOLATED NOT_REFUTED"),
    ],
)
def test_relations_of_a_file(file, name, verdicts):
    target = Target(file, name)
    assert " ".join(each.verdict.value for each in DeclaredRelations.of(target).audit()) == verdicts
    target.close()


@pytest.mark.parametrize("name", ["ranks", "groups"])
def test_audit_and_replay_on_the_command_line(file, name, capsys):
    assert main(["audit", f"{file}:{name}", "--report", "out"]) == 1
    result = json.loads(Path("out/audit.json").read_text())["results"][0]
    assert (
        result["verdict"] == "VIOLATED"
        and result["witness"]["relation"] == result["metamorphic_relation"]
    )
    assert main(["replay", f"out/witness-{name}.json", "--allow", file]) == 1
    changed = FILE.replace("[sorted(rows).index(v) for v in rows]", "rows").replace(
        'frame["g"][:1]', "1"
    )
    Path(file).write_text(changed)
    assert main(["replay", f"out/witness-{name}.json", "--allow", file]) == 0
