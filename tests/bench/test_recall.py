"""The corpus of documented bugs, the split, and the figures of a campaign."""

import ast
import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dpwitness.benchmarks.recall import campaign as campaigns
from dpwitness.benchmarks.recall.campaign import NOT_INSTALLED, Run, campaign, command, read, stored
from dpwitness.benchmarks.recall.corpus import (
    FOLDER,
    SECOND,
    SET_ASIDE,
    TUNED,
    corpus,
    held_out_names,
)
from dpwitness.benchmarks.recall.figures import Recall, causes, latest, recall, table
from dpwitness.benchmarks.recall.page import write_page
from dpwitness.benchmarks.recall.run import main
from dpwitness.benchmarks.recall.smoke import RUNS, check_side
from dpwitness.core.values.validation import InvalidArgument


def run(entry, side="before", outcome="VIOLATED", minutes=1, later=False):
    return Run(entry, side, "1.0", minutes, outcome, "headline", 1.0, later)


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
    first = [entry.name for entry in corpus() if entry.part != SECOND]
    assert split["held_out"] == held_out_names(first, split["seed"])
    assert [entry.name for entry in corpus() if entry.part == SET_ASIDE] == split["held_out"]
    # sorted, and none is missing in the corpus
    assert [entry.name for entry in corpus() if entry.part == SECOND] == split["second"]


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
    (tmp_path / "split.json").write_text('{"held_out": [], "second": []}')
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
    words = command(entry, "/env/bin/python", 45.0)
    assert words[words.index("audit") + 1] == entry.target and "--bits" in words
    assert not {"--d0", "--d1", "--claim", "--domain", "--scores"} & set(words)


def test_the_verdict_is_read_from_the_json_of_an_audit():
    found = {
        "verdict": "NOT_REFUTED",
        "headline": "none",
        "claim": "pure:1",
        "bit_level": {"verdict": "VIOLATED", "epsilon_lower": 3.0},
    }
    assert read(json.dumps(found), "", bits=False) == ("NOT_REFUTED", "none")
    assert read(json.dumps(found), "", bits=True)[0] == "VIOLATED"
    assert read("", "Traceback\nValueError: x", bits=False) == ("ERROR", "ValueError: x")


def test_a_campaign_resumes_and_tries_again_what_was_not_installed(tmp_path, monkeypatch):
    entry, file, asked = (
        next(entry for entry in corpus() if entry.runnable and entry.after),
        tmp_path / "runs.json",
        [],
    )

    def audit(entry, side, release, minutes):
        asked.append(side)
        return run(entry.name, side, NOT_INSTALLED if side == "after" else "VIOLATED")

    monkeypatch.setattr(campaigns, "audit_side", audit)
    for _ in range(2):
        campaign([entry], 1, lambda line: None, file)
    assert asked == ["before", "after", "after"]
    assert stored(file)[entry.name, "before", 1, False].violated and len(stored(file)) == 2


def test_what_could_not_be_installed_does_not_count():
    entries = [entry for entry in corpus() if entry.part == TUNED][:4]
    outcomes = ["VIOLATED", "NOT_REFUTED", NOT_INSTALLED, "ERROR"]
    runs = {
        found.key: found
        for found in (
            run(entry.name, outcome=outcome)
            for entry, outcome in zip(entries, outcomes, strict=True)
        )
    }
    assert recall(entries, runs, 1) == recall(entries, runs, 10) == Recall(1, 3)
    alarm = run(entries[0].name, "after")
    shown = table(entries, runs | {alarm.key: alarm})
    rates = {row.case: row.measured for row in shown.rows}
    assert rates == {
        "recall, tuned, 1 CPU min": 1 / 3,
        "violations of 1 repaired releases, 1 CPU min": 1,
    }
    assert sum(note.startswith("missed") for note in shown.notes) == 2
    assert sum(note.startswith("violated after the repair") for note in shown.notes) == 1


def test_only_misses_are_audited_with_the_next_budget(tmp_path):
    entries = [entry for entry in corpus() if entry.part == TUNED][:3]
    # the last miss is not audited again
    outcomes = [(0, "VIOLATED", 1), (1, "NOT_REFUTED", 1), (2, "ERROR", 1), (1, "VIOLATED", 10)]
    runs = {
        found.key: found
        for found in (
            run(entries[i].name, outcome=outcome, minutes=spent) for i, outcome, spent in outcomes
        )
    }
    rates = {row.case: row.measured for row in table(entries, runs).rows}
    assert rates == {"recall, tuned, 1 CPU min": 1 / 3, "recall, tuned, 1 then 10 CPU min": 2 / 3}
    write_page(entries, runs, tmp_path)
    text = (tmp_path / "recall.md").read_text()
    assert "| tuned | 1 then 10 CPU min | 0.667 | 2 of 3 (0.09 to 0.99) | 0 of 0 |" in text
    assert "not refuted (1 s); violated (1 s)" in text and "set aside |" not in text


def test_a_later_run_stands_beside_the_first_run_of_a_part_set_aside(tmp_path):
    entries = [entry for entry in corpus() if entry.part == SET_ASIDE][:2]
    made = [
        run(entries[0].name, outcome="ERROR"),
        run(entries[1].name),
        run(entries[0].name, later=True),
    ]
    runs = {found.key: found for found in made}
    assert recall(entries, runs, 1) == Recall(1, 2) and recall(entries, latest(runs), 1) == Recall(
        2, 2
    )
    write_page(entries, runs, tmp_path)
    text = (tmp_path / "recall.md").read_text()
    assert (
        "| set aside | 1 CPU min | 0.5 | 1 of 2" in text
        and "| set aside, after the fact | 1 CPU min | 1 | 2 of 2" in text
    )
    assert "error (1 s); later violated (1 s)" in text


def test_the_smoke_check_finds_a_target_that_cannot_run_and_a_wrong_release(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "t.py").write_text(
        "def good(dataset, size, rng):\n    if not dataset[0]:\n        raise "
        "ValueError('refused')\n    return [0.0] * size\n\n"
        "def bad(dataset, size, rng):\n    raise TypeError('no such argument')\n\n"
        "for f in (good, bad):\n    f.claim, f.domain = 'pure:1', {'kind': 'Counts', "
        "'length': 1, 'low': 0, 'high': 9}\n"
    )
    here = replace(next(entry for entry in corpus() if entry.runnable), after=None)
    monkeypatch.setattr("dpwitness.benchmarks.recall.smoke.install", lambda environment: None)
    environment = SimpleNamespace(
        interpreter=sys.executable, requirements=("numpy==0.0.1",), no_deps=()
    )
    entries = [
        replace(
            here,
            name=name,
            target=f"{tmp_path / 't.py'}:{name}",
            before=replace(here.before, environment=environment),
        )
        for name in ("bad", "good")
    ]
    assert check_side(entries[1], entries[1].before) == RUNS
    monkeypatch.setattr("dpwitness.benchmarks.recall.run.corpus", lambda: entries)
    assert main(["--check", "--part", here.part]) == 1
    (tmp_path / "t.py").write_text("LIBRARY = 'numpy'\n" + (tmp_path / "t.py").read_text())
    assert "is imported, not 0.0.1" in check_side(entries[1], entries[1].before)
    assert (
        "bad before" in (found := capsys.readouterr().out)
        and "TypeError: no such argument" in found
    )


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
