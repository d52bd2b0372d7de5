"""Watched releases: evidence over slices, new releases, clocks, killed calls, and
the workflows of the documentation.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, Verdict
from dpwitness.auditors.audit.watch import WatchedTarget, read_release, watch
from dpwitness.auditors.statistics.anytime import e_discoveries
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.auditors.witnesses.store import open_store

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
