"""The corpus of documented bugs, the split, and the figures of a campaign."""

import ast
import json

import pytest

from dpwitness.benchmarks.recall.campaign import NOT_INSTALLED, command, stored
from dpwitness.benchmarks.recall.corpus import (
    FOLDER,
    SECOND,
    SET_ASIDE,
    THIRD,
    corpus,
    held_out_names,
)
from dpwitness.benchmarks.recall.figures import causes
from dpwitness.core.values.validation import InvalidArgument


def test_the_corpus_is_large_enough_and_each_entry_has_a_source():
    entries = corpus()
    assert len(entries) >= 40 and len({entry.library for entry in entries}) >= 15
    assert sum(entry.runnable for entry in entries) >= 25
    assert all(
        entry.source and entry.source[0].startswith("https://") and entry.fault.endswith(".")
        for entry in entries
    )
    assert all(
        release.build or release.environment.requirements
        for entry in entries
        for _, release in entry.sides
    )


def test_the_part_set_aside_is_the_draw_of_its_seed():
    split = json.loads((FOLDER / "split.json").read_text())
    first = [entry.name for entry in corpus() if entry.part not in (SECOND, THIRD)]
    assert split["held_out"] == held_out_names(first, split["seed"])
    assert [entry.name for entry in corpus() if entry.part == SET_ASIDE] == split["held_out"]
    for part, key in ((SECOND, "second"), (THIRD, "third")):
        # sorted, and none is missing in the corpus
        assert [entry.name for entry in corpus() if entry.part == part] == split[key]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*_recall.py")), ids=lambda file: file.stem)
def test_a_target_names_no_pair_no_event_and_no_hint(file):
    tree = ast.parse(file.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    keys = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not {"Pair", "Threshold"} & names
    assert (
        not {"features", "primitives", "cause", "expected_failures", "expected_findings"}
        & attributes
    )
    assert not {"inputs", "d0", "d1"} & keys  # inputs to try, of transformations


def test_an_unknown_family_or_release_is_an_error(tmp_path):
    (tmp_path / "x").mkdir(parents=True)
    (tmp_path / "split.json").write_text('{"held_out": [], "second": [], "third": []}')
    text = (
        'library = "x"\n[releases."1"]\nrequirements = ["x==1"]\n[entries.a]\nbefore = "1"\n'
        'after = "2"\nfamily = "scale"\n'
    )
    text += 'source = []\nfault = ""\n'
    file = tmp_path / "x" / "entries.toml"
    for wrong, message in (
        (text, "after must be one of the declared releases 1, got '2'"),
        (text.replace("scale", "size"), "family must"),
    ):
        file.write_text(wrong)
        with pytest.raises(InvalidArgument, match=message):
            corpus(tmp_path)


def test_an_audit_gets_the_target_and_a_budget_and_nothing_else(monkeypatch):
    monkeypatch.setattr(
        "dpwitness.benchmarks.recall.campaign.declared_kind", lambda entry, python: ""
    )
    entry = next(entry for entry in corpus() if entry.bits)
    words = command(entry, "/env/bin/python", 45.0, 7)
    assert words[words.index("audit") + 1] == entry.target and "--bits" in words
    assert not {"--d0", "--d1", "--claim", "--domain", "--scores"} & set(words)


def test_the_published_runs_are_of_the_corpus_and_every_miss_has_a_cause():
    entries = {entry.name: entry for entry in corpus()}
    for found in stored().values():
        release = dict(entries[found.entry].sides)[found.side]
        assert release.name == found.release and (
            found.cpu_seconds <= 60 * found.minutes or found.headline.startswith("over the budget")
        )
        wrong = found.outcome != NOT_INSTALLED and (
            found.violated if found.side == "after" else not found.violated
        )
        assert not wrong or causes().get(f"{found.entry} {found.side}"), (
            f"{found.entry} {found.side} has no cause in causes.toml"
        )
