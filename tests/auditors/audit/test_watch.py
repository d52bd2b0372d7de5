"""Watched releases: evidence over slices, new releases, clocks, killed calls, and
the workflows of the documentation.
"""

from __future__ import annotations

import itertools
import json
import math
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, Verdict
from dpwitness.auditors.audit.watch import WatchedTarget, read_release, watch
from dpwitness.auditors.statistics.anytime import e_discoveries
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.auditors.witnesses.store import open_store
from dpwitness.cli import main

DOCS = Path(__file__).parents[3] / "docs"
PAIR = Pair(np.array([0.0]), np.array([1.0]))
OPTIONS = {"confidence": 0.95, "seconds": 1e6, "trials": 1_000}


@pytest.fixture(autouse=True)
def _seeds(monkeypatch):
    """Fix the seeds of the slices, which otherwise come from the system's entropy."""
    seeds = itertools.count(1)
    monkeypatch.setattr("dpwitness.auditors.audit.watch.fresh_seed", lambda: next(seeds))


def mechanism(epsilon):
    def run(data, size, rng):
        truth = int(data[0] > 0)
        return np.where(rng.random(size) < 1 / (1 + math.exp(-epsilon)), truth, 1 - truth)

    return run


def target(epsilon, name="bits"):
    return WatchedTarget(mechanism(epsilon), name, "pure:1", PAIR)


def call(path, *targets, **options):
    """Return the state after a call, and the lines that it announced."""
    lines = []
    with open_store(path) as store:
        return watch(targets, store, **OPTIONS | {"announce": lines.append} | options), lines


def releases(path):
    with open_store(path) as store:
        return {entry.name: read_release(store, entry) for entry in store.entries()}


def test_evidence_adds_up_over_calls_and_a_discovery_is_kept(tmp_path):
    path, states = tmp_path / "w.db", []
    for _ in range(9):
        (state,), lines = call(path, target(1.4), trials=500)
        states.append(state)
        assert not lines
        recompute_bounds(state.result.to_json())
        if state.result.verdict is Verdict.VIOLATED:
            break
    assert states[0].result.verdict is Verdict.NOT_REFUTED
    assert states[-1].result.verdict is Verdict.VIOLATED
    assert [state.slices for state in states] == list(range(1, len(states) + 1))
    (after,), _ = call(path, target(1.4))
    assert after.slices == states[-1].slices  # no further runs
    assert after.result.verdict is Verdict.VIOLATED
    assert after.result.witness is not None
    assert "█" in after.line(5)


def test_a_changed_source_starts_again_and_the_old_release_is_kept(tmp_path):
    path = tmp_path / "w.db"
    call(path, target(3.0))
    (state,), lines = call(path, target(1.0))
    assert state.result.verdict is Verdict.NOT_REFUTED
    assert state.slices == 1
    assert "new release, its evidence starts again; changed: source, outputs" in lines[0]
    (back,), lines = call(path, target(3.0))
    assert back.result.verdict is Verdict.VIOLATED
    assert not lines


def test_a_change_outside_of_the_source_is_seen_in_the_outputs(tmp_path, monkeypatch):
    global HIDDEN
    path, HIDDEN = tmp_path / "w.db", 1.0

    def run(data, size, rng):
        return data[0] + rng.laplace(size=size) * HIDDEN

    call(path, WatchedTarget(run, "f", "pure:1", PAIR))
    HIDDEN = 2.0
    _, lines = call(path, WatchedTarget(run, "f", "pure:1", PAIR))
    assert "changed (although its source file is the same): outputs" in lines[0]


def test_a_clock_that_goes_back_is_reported_and_changes_nothing(tmp_path):
    path = tmp_path / "w.db"
    call(path, target(1.0), clock=lambda: 1e9)
    (state,), lines = call(path, target(1.0), clock=lambda: 1e9 - 60)
    assert "the last call was 60 s later" in lines[0]
    assert [each.number for each in next(iter(releases(path).values())).slices] == [1, 2]
    assert state.slices == 2


def test_a_call_that_is_killed_does_not_count(tmp_path, monkeypatch):
    path = tmp_path / "w.db"
    call(path, target(1.0))
    with monkeypatch.context() as patch:
        patch.setattr(
            "dpwitness.auditors.audit.watch.write_slice",
            lambda *_: (_ for _ in ()).throw(SystemError),
        )
        with pytest.raises(SystemError):
            call(path, target(1.0))
    (state,), lines = call(path, target(1.0))
    assert "1 earlier calls were killed" in lines[0]
    assert state.slices == 2


def test_two_watchers_of_one_store_and_damaged_slices_are_refused(tmp_path):
    path = tmp_path / "w.db"
    call(path, target(1.0))
    with open_store(path), pytest.raises(InvalidArgument, match="is at work on it"):
        call(path, target(1.0))
    with open_store(path) as store:
        (key,) = (row[1] for row in store.rows("facts") if row[1].startswith("slice "))
        store.write(
            "facts",
            1,
            key,
            json.dumps({"time": 0, "runs": 9, "counts": [["none", 1, 1, 1, 0]], "bound": 0}),
        )
    with pytest.raises(InvalidArgument, match="slice cannot be read"):
        call(path, target(1.0))


def test_a_mechanism_that_fails_is_an_error_and_the_others_go_on(tmp_path):
    def broken(data, size, rng):
        raise ValueError("no")

    states, _ = call(
        tmp_path / "w.db", WatchedTarget(broken, "broken", "pure:1", PAIR), target(3.0)
    )
    assert [state.result.verdict for state in states] == [Verdict.ERROR, Verdict.VIOLATED]
    assert "always raises" in states[0].line(6)


def test_discoveries_of_e_bh():
    assert e_discoveries([math.log(20)], 0.05) == [True]
    assert e_discoveries([math.log(39), 0.0], 0.05) == [False, False]
    assert e_discoveries([math.log(20), math.log(20)], 0.05) == [True, True]
    assert e_discoveries([-math.inf, math.log(41)], 0.05) == [False, True]


def test_the_confidence_is_that_of_the_list(tmp_path):
    states, _ = call(tmp_path / "w.db", target(3.0, "a"), target(1.0, "b"), target(1.0, "c"))
    assert states[0].result.confidence == pytest.approx(1 - 0.05 / 3)
    alpha = 1 - states[1].result.confidence
    assert replace(states[1].result, p_value=0.5).p_value > alpha


SOURCE = """
import numpy as np
def noisy_mean(data, size, rng):
    return np.round((data[0] + rng.laplace(size=size)) * 2**20) / 2**20
def noisy_count(data, size, rng):
    return data[0] + rng.laplace(scale=0.3, size=size)
noisy_mean.claim = noisy_count.claim = "pure:1"
noisy_mean.domain = noisy_count.domain = {"kind": "Records", "size": 1}
"""


def scripts():
    """Yield the watch command of each workflow file."""
    yaml = pytest.importorskip("yaml")
    github = yaml.safe_load((DOCS / "workflows" / "watch.yml").read_text())
    yield next(
        step["run"] for step in github["jobs"]["watch"]["steps"] if step.get("name") == "Watch"
    )
    gitlab = yaml.safe_load((DOCS / "workflows" / "watch.gitlab-ci.yml").read_text())
    yield from gitlab["privacy watch"]["script"]


@pytest.mark.slow
def test_the_scripts_of_the_workflows_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("release.py").write_text(SOURCE)
    for number, script in enumerate(scripts(), start=1):
        words = shlex.split(script.replace("\\\n", " "))
        assert words.pop(0) == "dpwitness"
        assert main([*words, "--trials", "12000"]) == 1
        out = capsys.readouterr().out.splitlines()
        assert out[0].startswith("release.py:noisy_mean   NOT REFUTED")
        assert f"{number} calls" in out[0]
        assert out[1].startswith("release.py:noisy_count  VIOLATED")
    sarif = json.loads(Path("out/watch/audit.sarif").read_text())
    assert [each["ruleId"] for each in sarif["runs"][0]["results"]] == ["VALUE"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runs", -991_032),
        ("runs", 1),
        ("runs", 1.5),
        ("runs", "8"),
        ("bound", -1.0),
        ("time", "x"),
        ("counts", [["x", 1, 1, 2, 0]]),
        ("counts", 3),
    ],
)
def test_an_edited_slice_is_refused(tmp_path, field, value):
    """The row's checksum is right, as that of an edit by somebody who computes checksums."""
    path = tmp_path / "w.db"
    call(path, target(1.0))
    with open_store(path) as store:
        entry = store.entries()[0]
        (_, key, text), *_ = [
            row for row in store.rows("facts", "audit = ?", entry.id) if row[1].startswith("slice ")
        ]
        store.write("facts", entry.id, key, json.dumps(json.loads(text) | {field: value}))
    with pytest.raises(
        InvalidArgument, match=r"store is damaged or edited at bits .*: a slice cannot be read"
    ):
        releases(path)
