"""Boosted trees on top of a model: what no sum over columns sees, as plain numbers that need no
library, and hostile ones refused.
"""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.events.features import Trees
from dpwitness.auditors.events.learning import learn
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.events.rules import Threshold
from dpwitness.auditors.events.scorers import MIN_TREE_ROWS, boost
from dpwitness.mechanisms import InvalidArgument


def boxed(data, size, rng):
    """Three normal numbers; on D1 one in fifty lies in a small box, where each number by itself is
    an ordinary one.
    """
    x = rng.normal(size=(size, 3))
    if data[0]:
        inside = rng.random(size) < 0.02
        x[inside] = rng.uniform([0.5, 0.5, -1.2], [1.0, 1.0, -0.6], (np.count_nonzero(inside), 3))
    return x


def moved_in_a_corner(data, size, rng):
    """Three Laplace numbers; on D1 the second is larger by 1.5 where the first is large and the
    third negative.
    """
    x = rng.laplace(size=(size, 3))
    if data[0]:
        x[(x[:, 0] > 0.7) & (x[:, 2] < 0), 1] += 1.5
    return x


def sides(mechanism, size, seed=0):
    rng = np.random.default_rng(seed)
    return [encode(mechanism(np.array([side]), size, rng), size) for side in (1.0, 0.0)]


@pytest.fixture(scope="module")
def event():
    learned = learn(*sides(moved_in_a_corner, 20_000), dpw.PureDP(0.5), alpha=0.05, rounds=200_000)
    assert learned.method == "trees"
    return learned.event


@pytest.mark.slow
def test_trees_that_add_nothing_are_left_out():
    shifted = sides(lambda d, n, rng: rng.laplace(d[0] * 0.3, 1.0, (n, 3)), 20_000)
    assert learn(*shifted, dpw.PureDP(1.0), alpha=0.05, rounds=200_000).method == "model"


def test_the_event_is_plain_numbers(event):
    again = read_event(json.loads(json.dumps(event.to_json())))
    outputs = sides(moved_in_a_corner, 5_000, seed=9)[0]
    assert np.array_equal(again.guess(outputs), event.guess(outputs)) and again.guess(outputs).any()
    assert "trees" in event.describe()


def test_replay_needs_no_library(event, tmp_path):
    (tmp_path / "event.json").write_text(json.dumps(event.to_json()))
    code = """
import json, sys
import numpy as np
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.events.outputs import encode
read_event(json.load(open(sys.argv[1]))).guess(encode(np.zeros((4, 3)), 4))
assert "lightgbm" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "event.json")], check=True)


def test_the_library_is_not_imported_a_second_time(monkeypatch):
    """Early stopping of LightGBM imports it again where it is no known module, and with it
    libraries that take a second.
    """
    outputs = boxed([1.0], MIN_TREE_ROWS, np.random.default_rng(2))
    inside = np.abs(outputs - [0.75, 0.75, -0.9]).max(axis=1) < 0.3
    boost(outputs, inside, np.zeros(len(inside)))  # loads the library
    for name in [name for name in sys.modules if name.partition(".")[0] == "lightgbm"]:
        monkeypatch.delitem(sys.modules, name)
    assert boost(outputs, inside, np.zeros(len(inside))) is not None
    assert not any(name.partition(".")[0] == "lightgbm" for name in sys.modules)


def test_odd_numbers_go_one_way(event):
    outputs = encode(
        np.array([[np.nan] * 3, [np.inf] * 3, [-np.inf] * 3, [1e308] * 3, [5e-324] * 3]), 5
    )
    assert len(event.guess(outputs)) == 5


def test_few_outputs_grow_none():
    assert (
        learn(*sides(boxed, MIN_TREE_ROWS // 4), dpw.PureDP(1.0), alpha=0.05, rounds=20_000).method
        != "trees"
    )


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda t: {"left": np.where(t.left >= 0, 0, -1)}, "come after their parents"),
        (lambda t: {"right": np.where(t.left >= 0, len(t.left), -1)}, "come after their parents"),
        (lambda t: {"roots": np.array([len(t.left)])}, "roots between 0 and"),
        (lambda t: {"feature": np.where(t.left >= 0, 99, -1)}, "columns between 0 and 3"),
        (lambda t: {"value": np.full(len(t.left), np.nan)}, "each with its numbers"),
        (lambda t: {"threshold": t.threshold[:-1]}, "each with its numbers"),
        (lambda t: {"feature": 3}, "each with its numbers"),
        (lambda t: {"right": None}, "each with its numbers"),
    ],
)
def test_hostile_trees_are_refused(event, change, rule):
    """A way down that never ends, or leads out of the table, is caught before anything runs."""
    (block, weights), *_ = [part for part in event.score.blocks if isinstance(part[0], Trees)]
    bad = Threshold(
        replace(event.score, blocks=((replace(block, **change(block)), weights),)),
        event.low,
        event.high,
    )
    with pytest.raises(InvalidArgument, match=rule):
        read_event(bad.to_json())
