"""Exact values that repeat among continuous ones: a release that now and then forgets its noise."""

import json

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, Verdict, audit, replay
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.events.rules import Atoms
from dpwitness.auditors.statistics.columns import exact_values

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def forgetful(share, width=1, decoy=0.0):
    """Laplace noise for epsilon 1, left out in this share of the runs; one in a thousand is 7
    whatever the data.
    """

    def run(data, size, rng):
        values = data[0] / width + rng.laplace(0.0, 1.0, (size, width))
        values[rng.random(size) < share] = data[0] / width
        values[rng.random(size) < decoy, 0] = 7.0
        return values[:, 0] if width == 1 else values

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "trials", "least"),
    [
        (forgetful(2e-4), 2_000_000, 3.5),
        (forgetful(3e-3), 80_000, 2.5),
        (forgetful(1e-3, width=5), 300_000, 3.0),
        (forgetful(1e-3, decoy=1e-3), 400_000, 3.0),
    ],
    ids=["rare", "few runs", "vectors", "beside a value that says nothing"],
)
def test_a_release_without_noise_is_found(mechanism, trials, least):
    """What an oracle certifies of n such runs a side and none of the other is about log(n / 5): 3.6
    to 4.4 here.
    """
    result = audit(mechanism, claim="pure:1", pair=PAIR, trials=trials, bits=False, seed=1)
    assert result.verdict is Verdict.VIOLATED and result.parameter_lower > least
    assert result.method == "exact values"
    witness = json.loads(json.dumps(result.witness))
    assert replay(witness, mechanism=mechanism, trials=trials, seed=8).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("low", "high"), [(-1.0, np.inf), (-np.inf, 1.0), (-1.0, 1.0)])
def test_the_ends_of_a_clipped_column_are_exact_values(low, high):
    """Some 160 in 1,000 numbers lie at each end, fewer than 20 with probability below 1e-9; no
    other number repeats.
    """
    column = np.clip(np.random.default_rng(0).normal(size=1_000), low, high)
    keys, is_complete = exact_values(column)
    assert not is_complete and keys.tolist() == [end for end in (low, high) if np.isfinite(end)]
    assert exact_values(np.where(column == high, np.nan, column))[0].tolist() == [low] * (
        low > -np.inf
    ) + [np.inf] * (high < np.inf)


def test_other_numbers_are_not_looked_at():
    """NaN is infinity here, as in all features."""
    event = Atoms(
        np.array([[0.0, 1.0, np.nan]]), np.array([1.0]), exact=np.array([[1.0, 1.0], [2.0, np.inf]])
    )
    matrix = encode(np.array([[1.0, 3.5], [1.0, -2.0], [1.5, 3.5], [1.0, np.nan]]), 4)
    event = Atoms(
        np.column_stack([matrix.codes[:1], event.rows[:, 1:]]), event.guesses, exact=event.exact
    )
    assert event.guess(matrix).tolist() == [1, 1, 0, 0]
    assert "any other" in event.describe()
    assert read_event(json.loads(json.dumps(event.to_json()))).guess(matrix).tolist() == [
        1,
        1,
        0,
        0,
    ]


@pytest.mark.parametrize(
    "exact",
    [
        np.zeros(2),
        np.zeros((1, 3)),
        np.array([[0.0, 1.0]]),
        np.array([[1.5, 1.0]]),
        np.array([[3.0, 1.0]]),
    ],
)
def test_exact_values_of_no_column_are_refused(exact):
    event = Atoms(np.array([[0.0, 1.0, np.nan]]), np.array([1.0]), exact=exact)
    with pytest.raises(InvalidArgument, match="exact must"):
        read_event(event.to_json())
