"""Scores that a mechanism suggests or a user gives: found by events, recorded by witnesses, left
out where they are none.
"""

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, PureDP, Verdict, audit, replay
from dpwitness.auditors.audit.sampler import ScoredMechanism
from dpwitness.auditors.events.outputs import Score, encode

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def parity_leaks(dataset, size, rng):
    """Twenty fair bits any nineteen of which are independent; whether their sum is odd tells the
    dataset: epsilon = log 4.
    """
    bits = rng.integers(0, 2, (size, 20))
    odd = rng.random(size) < (0.2 if dataset[0] else 0.8)
    bits[:, -1] = (bits[:, :-1].sum(axis=1) + odd) % 2
    return bits


def parity(outputs):
    return outputs.sum(axis=1) % 2


class Hides:
    """A score that looks at its batch only where many outputs come together: no trial sees it."""

    def __call__(self, outputs):
        return outputs if len(outputs) <= 64 else np.full(len(outputs), outputs.mean())


def test_a_score_that_looks_at_its_batch_later_ends_in_error_and_never_in_a_verdict():
    """The mean of a batch, all of one dataset, would certify any epsilon of a mechanism that keeps
    0.5.
    """
    scores = [("hides", Hides())]
    result = audit(
        lambda d, n, rng: rng.laplace(d[0], 2.0, n),
        claim="pure:1",
        pair=PAIR,
        trials=30_000,
        scores=scores,
    )
    assert (
        result.verdict is Verdict.ERROR
        and "score hides is not a function of each output alone" in result.notes[0]
    )


@pytest.mark.slow
def test_replay_takes_recorded_scores_by_the_rule_of_targets_or_as_given():
    result = audit(
        parity_leaks,
        claim="pure:1",
        pair=PAIR,
        trials=10_000,
        scores=[("odd", lambda bits: parity(bits))],
    )
    with pytest.raises(
        InvalidArgument, match='scores must be given: "odd" has no importable target in the witness'
    ):
        replay(result.witness, mechanism=parity_leaks)
    again = replay(result.witness, mechanism=parity_leaks, scores=[("odd", parity)], seed=8)
    assert again.verdict is Verdict.VIOLATED and again.scores[0].name == "odd"
    blind = replay(
        result.witness, mechanism=parity_leaks, scores=[("odd", lambda bits: bits[:, 0])], seed=8
    )
    assert blind.verdict is Verdict.NOT_REFUTED
    harmful = dict(
        result.witness,
        scores=[
            {"name": "odd", "target": {"target": "os:system"}, "suggested": False, "keys": [None]}
        ],
    )
    del harmful["sha256"]
    with pytest.raises(InvalidArgument, match="standard library, which a witness may not run"):
        replay(harmful, mechanism=parity_leaks)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (parity, "scores must be a list"),
        ([3], "scores must be callable"),
        ([parity, parity], "scores must have different names, got parity, parity"),
        ([("x", lambda: 0)], "scores must be callable with 1 arguments"),
    ],
)
def test_scores_are_checked(scores, message):
    with pytest.raises(InvalidArgument, match=message):
        audit(parity_leaks, claim="pure:1", pair=PAIR, trials=1000, scores=scores)


def test_columns_of_scores_stand_first_whatever_is_raised_or_ragged():
    def ragged(dataset, size, rng):
        return [[1.0] * (i + 1) for i in range(size)]

    def length(outputs):
        return [len(row) for row in outputs]

    def fails_on_two(outputs):
        if any(len(row) == 2 for row in outputs):
            raise ValueError("two")
        return [7.0] * len(outputs)

    def always(dataset, size, rng):
        raise OSError("gone")

    scores = (Score("length", length), Score("fails", fails_on_two))
    found = encode(ScoredMechanism(ragged, scores)(None, 3, np.random.default_rng(1)), 3)
    np.testing.assert_array_equal(found.values[:, :3], [[1, 7, 1], [2, np.nan, 1], [3, 7, 1]])
    single = encode(ScoredMechanism(always, scores)(None, 1, np.random.default_rng(1)), 1)
    assert np.isnan(single.values[:, :2]).all() and next(iter(single.names.values())).startswith(
        "raises OSError"
    )


class Suggests:
    """The same mechanism, one run at a time in lists, with its own suggestion."""

    claim = PureDP(1.0)

    def sample(self, dataset, size, rng):
        return [tuple(row) for row in parity_leaks(dataset, size, rng).tolist()]

    def features(self, outputs):
        return np.array([[sum(bits) % 2, bits[0]] for bits in outputs])


@pytest.mark.slow
def test_suggested_scores_are_used_and_replayed():
    result = audit(Suggests(), pair=PAIR, trials=10_000)
    assert result.verdict is Verdict.VIOLATED and result.scores[0].labels == (
        "features[0]",
        "features[1]",
    )
    assert replay(result.witness, mechanism=Suggests(), seed=8).verdict is Verdict.VIOLATED
    with pytest.raises(InvalidArgument, match="must have features"):
        replay(result.witness, mechanism=parity_leaks)
