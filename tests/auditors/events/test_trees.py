"""Boosted trees on top of a model: what no sum over columns sees, as plain numbers that need no
library, and hostile ones refused.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.events.features import Trees
from dpwitness.auditors.events.learning import learn
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.events.rules import Threshold
from dpwitness.mechanisms import InvalidArgument


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
    learned = learn(*sides(moved_in_a_corner, 12_000), dpw.PureDP(0.5), alpha=0.05, rounds=200_000)
    assert learned.method == "trees"
    return learned.event


def test_the_event_is_plain_numbers(event):
    again = read_event(json.loads(json.dumps(event.to_json())))
    outputs = sides(moved_in_a_corner, 5_000, seed=9)[0]
    assert np.array_equal(again.guess(outputs), event.guess(outputs)) and again.guess(outputs).any()
    assert "trees" in event.describe()


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
